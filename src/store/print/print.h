/* print.h - what the printers of rows share: names as they are shown, and how wide they are. */
#ifndef HX_STORE_PRINT_PRINT_H
#define HX_STORE_PRINT_PRINT_H

#include "base/error.h"
#include "base/text.h"
#include "store/query.h"

/* Columns of the terminal that text takes; it is valid UTF-8. */
size_t hx_print_width(const char *s, size_t bytes);

/* Puts s at most `width` (1 or more) wide: all of it, or beginning, a mark, end. Returns the width
 * that it took. */
size_t hx_print_cut(struct hx_text *out, const char *s, size_t bytes, size_t width, bool ascii);

/* The same for the name of a function of C++ or Rust, which ends in 0: what tells least of it goes
 * first, that is template arguments and then parameters. */
size_t hx_print_cut_function(struct hx_text *out, const struct hx_text *name, size_t width,
                             bool ascii);

/* Columns of the terminal that a file is, 0 when it is none; may it show more than ASCII? */
size_t hx_print_screen(void *file /* FILE */, bool *ret_ascii);

/* Columns for a table that is made to fit: those of COLUMNS or of the terminal, else 100, and no
 * less than 60. */
size_t hx_print_columns(void *file /* FILE */, bool *ret_ascii);

/* Prints rows as text that fits so many columns. Figures of bytes have short units. The texts of
 * one column, `shown`, are escaped already. */
hx_error *hx_print_fitted(hx_rows *rows, size_t screen, bool ascii, size_t shown,
                          void *file /* FILE */);

/* Writes and empties the text. */
hx_error *hx_print_flush(struct hx_text *text, void *file /* FILE */);
hx_error *hx_print_end(void *file); /* what was written has arrived */

#endif
