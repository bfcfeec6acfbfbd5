/* mprof.h - mprof's tables: leaks by partial call chain, requests by size, functions by what they
 * ask for, and the call graph of allocations.
 *
 * Source: B. Zorn, P. Hilfinger, "A memory allocation profiler for C and Lisp programs", 1988.
 * Figures are requested bytes; what was freed is charged to who allocated it, so kept is what was
 * allocated and not freed. The views hold all rows; levels leave out small ones.
 */
#ifndef HX_STORE_COST_MPROF_H
#define HX_STORE_COST_MPROF_H

#include "store/query.h"

enum hx_mprof_level {
    HX_MPROF_TERSE,
    HX_MPROF_NORMAL,
    HX_MPROF_VERBOSE, /* everything */
};

/* Is it one of mprof_leaks, mprof_bins, mprof_direct, mprof_graph? */
bool hx_mprof_is_view(const char *view);

/* Rows of one of these views, in the order of the tables unless the query sorts. What the level
 * leaves out of mprof_bins is one row, "other bins". HX_E_ABSENT: no snapshot that is asked for
 * has these data, with the reason. */
hx_error *hx_query_mprof(hx_store *store, const struct hx_query *query, enum hx_mprof_level level,
                         hx_rows **ret);

/* The same as a table laid out like the paper's, for people. A query that sorts the call graph gets
 * plain rows: its entries have an order of their own. */
hx_error *hx_mprof_print(hx_store *store, const struct hx_query *query, enum hx_mprof_level level,
                         void *file /* FILE */);

#endif
