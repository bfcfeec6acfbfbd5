/* mprof.h - mprof's tables: leaks by partial call chain, requests by size, functions by what they
 * ask for, and the call graph of allocations.
 *
 * Source: B. Zorn, P. Hilfinger, "A memory allocation profiler for C and Lisp programs", 1988.
 * Figures are requested bytes; what was freed is charged to who allocated it, so kept is what was
 * allocated and not freed. The views hold all rows; levels leave out small ones.
 */
#ifndef HX_STORE_MPROF_H
#define HX_STORE_MPROF_H

#include "store/attribution.h"
#include "store/query.h"
#include "store/sqlite.h"

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

/* --- filling ----------------------------------------------------------------------- */

/* Recorded stacks as ccs.h wants them, with their numbers in the store. All is the caller's. */
struct hx_mprof_frames {
    sqlite3 *db;
    const char *what;
    const struct hx_frame *frame; /* centre: an index in centre_id */
    const int64_t *frame_id;      /* ascending; they are stack numbers, too */
    uint32_t n;
    const int64_t *centre_id; /* hx_centre.centre; index 0..4 are the built-in ones, 1..5 */
    const char *const *centre_label;
    uint32_t n_centres;
    const bool *selected; /* by centre; NULL: all. The built-in ones always are */
    const struct hx_attribution *how;
    const struct hx_progress *progress;
};

/* Writes the chains of all stacks in hx_stack that have none yet: hx_chain, hx_stack_chain. */
hx_error *hx_mprof_fill_chains(const struct hx_mprof_frames *frames);

/* Writes the figures of a snapshot from hx_stack_cost and hx_stack.origin, in place of those that
 * are there: hx_mprof, hx_function, hx_call, hx_cycle. */
hx_error *hx_mprof_fill(const struct hx_mprof_frames *frames, int64_t snapshot);

#endif
