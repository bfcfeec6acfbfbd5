/* matrix.h - the intersection matrix of named roots: a column of dots for each of them, a row for
 * each bin, and above the list what each root reaches alone and together with others.
 *
 * The names are in the facts of a pane of bins, in the order in which the roots were named: a row
 * for each with `name`, `exclusive_bytes`, `shared_bytes`, and `names`, how many there are; of
 * differences joined by '+' as `kind_b`. More than fit beside the list are a window, which goes
 * where the bin under the cursor has its members.
 */
#ifndef HX_UI_PICTURE_MATRIX_H
#define HX_UI_PICTURE_MATRIX_H

#include "ui/list/pane.h"

/* The columns of its dots in front of those of `plain`, for this room; `plain` as it is while
 * nothing is named. A screen's lay_out() does no more than that. */
void hx_matrix_lay_out(const struct hx_ui *ui, struct hx_pane *pane, const struct hx_column *plain,
                       int columns);

/* A screen's cell(): the dots of a row, by the names in its column `roots`. */
void hx_matrix_cell(const struct hx_pane *pane, size_t row, bool ascii, struct hx_text *ret);

/* "3 to 14": which of the names have a column; nothing when all have. */
void hx_matrix_window(const struct hx_pane *pane, struct hx_text *ret);

/* The names over their columns, and their bytes. */
extern const struct hx_picture hx_matrix_picture;

#endif
