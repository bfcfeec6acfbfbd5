/* marked_rows.h - marked rows of a list (Space): which, and what they add up to.
 *
 * A mark belongs to what tells the row apart from others, so that it stays over another order,
 * filter or snapshot. Sums are those of the snapshot that is shown, as far as the marked rows were
 * seen in it.
 */
#ifndef HX_UI_LIST_MARKED_ROWS_H
#define HX_UI_LIST_MARKED_ROWS_H

#include "ui/list/pane.h"

/* So many rows of a list can be marked. */
#define HX_MARKS_MAX 10000

struct hx_marks;
void hx_marks_destroy(struct hx_marks *marks); /* NULL is legal */

/* Marks the row under the cursor, or unmarks it, and goes to the next one. */
hx_error *hx_marks_toggle(struct hx_ui *ui, struct hx_pane *pane);
void hx_marks_clear(struct hx_pane *pane);

size_t hx_marks_count(const struct hx_pane *pane);
bool hx_marks_has(const struct hx_pane *pane, size_t row);

/* Takes the figures of marked rows from those in memory. Before each drawing. */
void hx_marks_see(struct hx_pane *pane);

/* Appends "3 marked: 12.3M in 4,567 objects". */
void hx_marks_put(const struct hx_pane *pane, struct hx_text *ret);

/* Appends the condition that holds for marked rows only. */
void hx_marks_where(const struct hx_pane *pane, struct hx_text *sql);

#endif
