/* canvas.h - a picture made of cells, before it comes to a terminal.
 *
 * Drawing on it needs no terminal: what it holds can be tested, or written down as text.
 */
#ifndef HX_UI_PICTURE_CANVAS_H
#define HX_UI_PICTURE_CANVAS_H

#include "ui/term/term.h"

/* One cell: a character of one cell's width, 0 is a blank. Where `over` is another style than
 * HX_STYLE_NORMAL, the part that the character leaves empty has the colour of that one. */
struct hx_ink {
    uint32_t c;
    uint8_t style, over; /* enum hx_style */
};

/* Invariant: ink has width * height cells, line by line. */
struct hx_canvas {
    int width, height;
    struct hx_ink *ink;
};

/* Larger ones are no screens. */
#define HX_CANVAS_MAX 4096

/* Begins a blank one. */
hx_error *hx_canvas_begin(struct hx_canvas *canvas, int width, int height);
void hx_canvas_end(struct hx_canvas *canvas);

/* The cell at (x, y), from the upper left; NULL outside. */
struct hx_ink *hx_canvas_at(const struct hx_canvas *canvas, int x, int y);

/* What lies outside is left out. */
void hx_canvas_put(struct hx_canvas *canvas, int x, int y, uint32_t c, enum hx_style style);
/* ASCII only. */
void hx_canvas_text(struct hx_canvas *canvas, int x, int y, const char *s, enum hx_style style);

/* Appends a line as UTF-8, all of its width. */
void hx_canvas_line(const struct hx_canvas *canvas, int y, struct hx_text *ret);

/* Appends a character. */
void hx_text_utf8(struct hx_text *text, uint32_t c);

/* Puts it on the screen with its upper left at (x, y). */
void hx_canvas_draw(const struct hx_term *term, const struct hx_canvas *canvas, int y, int x);

#endif
