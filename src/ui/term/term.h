/* term.h - the terminal: into curses and out of it again, whatever happens.
 *
 * Besides the ordinary way out, a signal that kills leaves the terminal as it was found.
 * Without a terminal (scripts) curses draws to /dev/null at a fixed size.
 */
#ifndef HX_UI_TERM_TERM_H
#define HX_UI_TERM_TERM_H

#include "ui/term/input.h"

#include "base/error.h"
#include "base/text.h"

#include <stdint.h>

enum hx_style {
    HX_STYLE_NORMAL,
    HX_STYLE_HEAD,   /* first line */
    HX_STYLE_TITLE,  /* what the list is */
    HX_STYLE_COLUMN, /* headings of columns */
    HX_STYLE_CURSOR, /* the row under the cursor */
    HX_STYLE_DIM,    /* hints, what is less important */
    HX_STYLE_BAR,    /* bars */
    HX_STYLE_BAD,    /* lost memory, errors */
    HX_STYLE_MARK,   /* marked rows */
    /* Areas of pictures: HX_STYLE_BAND + i, each of another colour where there are colours. */
    HX_STYLE_BAND,
    HX_STYLE_BAND_LAST = HX_STYLE_BAND + 7,
    /* The same with the area itself in that colour, behind text; and one that is bad. */
    HX_STYLE_FILL,
    HX_STYLE_FILL_LAST = HX_STYLE_FILL + 7,
    HX_STYLE_FILL_BAD,
    HX_STYLES
};
#define HX_BANDS (HX_STYLE_BAND_LAST - HX_STYLE_BAND + 1)

struct hx_term {
    void *screen; /* SCREEN; NULL before the start */
    void *in, *out;
    struct hx_input input;
    bool script, utf8, color;
    bool has_mouse, mouse; /* it can tell of the mouse; it shall */
    /* Besides halves of cells it has eighths and patterns of dots (with utf8; the Linux console's
     * fonts do not). */
    bool fine;
    bool blend; /* a cell can have the colours of two areas */
};

/* script: curses on /dev/null, LINES x COLUMNS of the environment (24 x 80).
 * color as in struct hx_ui_options. */
hx_error *hx_term_start(struct hx_term *term, bool script, int color);
void hx_term_end(struct hx_term *term);

/* Stops this process as Ctrl-Z does, and comes back after fg; alone: but not those that were
 * started with it. False when nobody could bring it back: it goes on then. */
bool hx_term_suspend(struct hx_term *term, bool alone);

/* After a stop that was none of ours (kill -STOP): takes the terminal again. */
void hx_term_resume(struct hx_term *term);

/* Takes the new size of the terminal. */
void hx_term_resize(struct hx_term *term);
void hx_term_set_size(int height, int width);
void hx_term_set_mouse(struct hx_term *term, bool on);

/* Signals that arrived since the last call, as bits; wait on hx_term_signal_fd(). */
enum hx_term_signal { HX_TERM_RESIZED = 1, HX_TERM_KILLED = 2, HX_TERM_STOP = 4, HX_TERM_CONT = 8 };
unsigned hx_term_signals(void);
int hx_term_signal_fd(void);

/* Takes what the terminal has sent, without waiting: false when it is gone. */
bool hx_term_read(struct hx_term *term);
/* The next key of it: false when there is none. Function keys are negative. */
bool hx_term_key(struct hx_term *term, int *ret);
/* After a mouse key: place on the screen, and what happened. */
enum hx_mouse hx_term_mouse(struct hx_term *term, int *ret_row, int *ret_column);

int hx_term_lines(void);
int hx_term_columns(void);

/* Cells that a string takes; characters that cannot be printed count as one. */
int hx_text_width(const char *s);

/* Cuts a text that is wider than `width`: at most `most` cells of its beginning stay. */
void hx_text_cut(const struct hx_term *term, int width, int most, struct hx_text *text);
/* Cuts a text that is wider than `width` in its middle, so that both ends can be read. */
void hx_text_middle(const struct hx_term *term, int width, struct hx_text *text);

/* Leaves out the last of names with ", " between that are wider together, and says how many: they
 * are counted to those that " and 23 others" stands for already. */
void hx_text_fewer(const struct hx_term *term, int width, struct hx_text *text);

/* Writes s at (y, x) into exactly `width` cells: cut with a mark or filled with blanks;
 * `right` aligns it to the right. Nothing that could steer the terminal gets through. */
void hx_put(const struct hx_term *term, int y, int x, int width, const char *s, bool right,
            enum hx_style style);

/* The same from the left on; what a character leaves of its cell has the colour of `over`, an area
 * of pictures, where the terminal can (term->blend). */
void hx_put_over(const struct hx_term *term, int y, int x, int width, const char *s,
                 enum hx_style style, enum hx_style over);

/* A bar of `width` cells that is filled to part/whole, its first `marked`/whole differently. */
void hx_put_bar(const struct hx_term *term, int y, int x, int width, double part, double marked,
                double whole, bool cursor);

void hx_term_clear(void);
void hx_term_show(int cursor_y, int cursor_x); /* cursor hidden when negative */
void hx_term_redraw(void);

/* The screen as text, blanks at line ends removed. */
void hx_term_text(struct hx_text *ret);

#endif
