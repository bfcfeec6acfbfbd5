/* drawing.h - SVG documents: one page with its colours for light and dark, texts that are measured
 * and cut to fit, shapes. What all drawings of the exporters share.
 *
 * A drawing is as wide as its reader shows it. Lengths are units of its own: HX_DRAWING_WIDTH are
 * the whole width. On screens that are narrow letters are larger, in units: HX_LETTER_MOST high, so
 * that is what room has to be kept for. Numbers are written with two decimals at most, so that the
 * same drawing is always the same bytes. Names from the target are given as they are, and escaped
 * here.
 */
#ifndef HX_EXPORT_SVG_DRAWING_H
#define HX_EXPORT_SVG_DRAWING_H

#include "base/text.h"
#include "export/sink.h"

#define HX_DRAWING_WIDTH 720
#define HX_LETTER        13 /* height of letters on wide screens */
#define HX_LETTER_MOST   18 /* on narrow ones, and the height of a line */

/* Where things are: the edges left and right, and where the heading ends. */
enum { HX_DRAWING_LEFT = 16, HX_DRAWING_RIGHT = HX_DRAWING_WIDTH - 16, HX_DRAWING_HEAD = 56 };

/* Colours that stay apart for those who see fewer of them: classes b0, b1, ... fill with them, and
 * bo is what is left over. */
#define HX_DRAWING_BANDS 8

/* What a drawing says of itself; `about` is for those who do not see it. To be given back. */
struct hx_drawing_words {
    struct hx_text title, subtitle, about;
};
void hx_drawing_words_deinit(struct hx_drawing_words *words);

/* From the XML declaration to the subtitle. Classes of texts: title, none, dim (axes, notes),
 * small; of shapes: b0..b7, bo, grid, axis, faint. `style`: more rules; NULL: none. */
hx_error *hx_drawing_begin(struct hx_sink *sink, int height, const struct hx_drawing_words *words,
                           const char *style);
void hx_drawing_end(struct hx_sink *sink);

/* " name='1.25'", with the blank. */
void hx_drawing_at(struct hx_sink *sink, const char *name, double value);
/* A number as it stands in paths: "1.25". */
void hx_drawing_number(struct hx_sink *sink, double value);

void hx_drawing_line(struct hx_sink *sink, const char *class, double x1, double y1, double x2,
                     double y2);
/* A rectangle; `tip`: what is shown when it is pointed at, NULL: nothing. */
void hx_drawing_box(struct hx_sink *sink, const char *class, double x, double y, double width,
                    double height, const char *tip);

enum hx_anchor { HX_ANCHOR_START, HX_ANCHOR_MIDDLE, HX_ANCHOR_END };

/* The width of a text in letters of `size` units, rather too much than too little. */
double hx_drawing_width(const char *s, size_t n, double size);

/* A line of text: at most so wide where letters
 * are HX_LETTER_MOST high, else it is cut, ends in an ellipsis and shows all of itself when it is
 * pointed at. */
void hx_drawing_text(struct hx_sink *sink, const char *class, double x, double y,
                     enum hx_anchor anchor, double width, const char *s);

/* The width of a letter by the widest of the usual fonts without serifs, in parts of its height. */
double hx_letter_sans(uint32_t c);

/* Appends what of the text fits, and an ellipsis for the rest; false: it was cut. A letter is as
 * wide as `letter` says in parts of `size`; NULL: they all are. */
bool hx_drawing_cut(struct hx_text *out, const char *s, size_t n, double width, double size,
                    double (*letter)(uint32_t c));

/* An axis of bytes at the left of a plot, with lines across it. */
struct hx_bytes_axis {
    double x, y, width, height; /* of the plot; x, y: its lower left */
    uint64_t step, top;         /* top: bytes at its upper edge */
};
/* Steps for so many bytes, about `most` of them, and room above. */
void hx_bytes_axis_scale(struct hx_bytes_axis *axis, uint64_t bytes, unsigned most);
double hx_bytes_axis_y(const struct hx_bytes_axis *axis, double bytes);
void hx_bytes_axis_draw(struct hx_sink *sink, const struct hx_bytes_axis *axis);

#endif
