/* condition.h - conditions over the columns of all views, of one snapshot: does one hold, and by
 * which rows. Each view beside `snapshots` stands for any of its rows that belong to the snapshot;
 * one without such rows is a row of NULLs, so that what is said of others is still looked at.
 */
#ifndef HX_STORE_QUERY_CONDITION_H
#define HX_STORE_QUERY_CONDITION_H

#include "store/query.h"

struct hx_condition {
    const hx_filter *filter; /* by hx_view_schema(NULL, ...) */
    int64_t snapshot;
};

/* One row, 0 or 1: does it hold for rows of the views, all that it reads but `snapshots`? */
hx_error *hx_condition_ask(hx_store *store, const struct hx_condition *condition,
                           const char *const *views, size_t n_views, hx_rows **ret);

/* Which of the parts, numbers of comparisons that read nothing but the view (NULL: the snapshot's
 * row), hold together: different rows of 0 and 1. */
hx_error *hx_condition_combinations(hx_store *store, const struct hx_condition *condition,
                                    const char *view, const size_t *parts, size_t n_parts,
                                    hx_rows **ret);

/* The rows of a view, at most so many and the largest first, by which it holds; without a filter
 * those of `leaks` that are certain. All columns but `snapshot`. */
hx_error *hx_condition_rows(hx_store *store, const struct hx_condition *condition, const char *view,
                            int64_t limit, hx_rows **ret);
/* One row: how many those are, but no more than `limit`. */
hx_error *hx_condition_count(hx_store *store, const struct hx_condition *condition,
                             const char *view, int64_t limit, hx_rows **ret);

#endif
