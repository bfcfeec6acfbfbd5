/* difference.h - a census as differences between two snapshots, on the screen of that census: what
 * store/difference.h gives, and what stands above it.
 */
#ifndef HX_UI_DATA_DIFFERENCE_H
#define HX_UI_DATA_DIFFERENCE_H

#include "store/difference.h"
#include "ui/list/pane.h"

/* The columns that all of them begin with, and the one with what is left of the line. */
#define HX_DIFFERENCE_COLUMNS                                                                      \
    {"status", NULL, HX_AS_TEXT, 8, 0, NULL, NULL},                                                \
        {"bytes_delta", "change", HX_AS_CHANGE, 8, 0, NULL, NULL},                                 \
        {"bytes_a", "then", HX_AS_BYTES, 6, 3, NULL, NULL},                                        \
        {"bytes_b", "now", HX_AS_BYTES, 6, 2, NULL, NULL},                                         \
        {"objects_delta", "objects", HX_AS_COUNT_CHANGE, 10, 4, NULL, NULL},                       \
    {                                                                                              \
        "bytes_delta", "", HX_AS_SWING, 9, 5, "moved", NULL                                        \
    }

/* What a pane lists whose `other` is set, for hx_pane_source(). */
void hx_difference_source(const struct hx_pane *pane, int64_t snapshot, struct hx_source *ret);
/* What stands above that. */
void hx_difference_head(const struct hx_ui *ui, const struct hx_pane *pane, struct hx_text *ret);
/* Why there are no rows: the two do not compare, or there is nothing; false: for no such reason. */
bool hx_difference_instead(const struct hx_ui *ui, const struct hx_pane *pane, struct hx_text *ret);

/* Is the row of differences one that the shown snapshot does not have? Then what asks for its
 * objects gets this error; NULL: it is there, or the pane shows no differences. */
hx_error *hx_difference_gone(const struct hx_pane *pane, size_t row);

/* What a pane lists whose screen is one of a census, and its facts, with changes against
 * pane->before; `more` fills in what the statements of that census leave open. */
void hx_census_source(const struct hx_pane *pane, int64_t snapshot, struct hx_source *ret);

/* difference_objects.c: the objects that appeared or are gone, the largest of them as rows in
 * memory; and what stands behind the title of their list. */
hx_error *hx_difference_objects_fill(struct hx_ui *ui, struct hx_pane *pane);
void hx_difference_objects_head(const struct hx_pane *pane, struct hx_text *ret);

#endif
