/* window.h - the window of a snapshot's objects that a statement asks for: those that its
 * conditions let through, in its order, from its offset up to its limit.
 *
 * The object table finds it without sorting, where the statement has one snapshot, an order, a
 * limit and no condition that only SQLite can test. What SQL has no words for that the table would
 * be told goes by this call: NULL behind all values, how many objects there are, and which of them
 * is one. */
#ifndef HX_STORE_OBJECTS_WINDOW_H
#define HX_STORE_OBJECTS_WINDOW_H

#include "store/objects/sums.h"
#include "store/sqlite.h"

struct hx_window {
    enum { HX_WINDOW_ROWS, HX_WINDOW_COUNT, HX_WINDOW_PLACE, HX_WINDOW_SUMS } about;
    bool nulls_last;  /* of an ascending order */
    uint64_t address; /* HX_WINDOW_PLACE: of the object */
    bool near;        /* HX_WINDOW_PLACE: only when it is among the first ones */

    struct hx_sums *sums; /* HX_WINDOW_SUMS: filled by hx_sums_make() */

    bool found;      /* by hx_window_step(); else the table cannot find the window */
    bool there;      /* HX_WINDOW_PLACE: it is in the window, limits aside */
    uint64_t number; /* of rows, limits aside; or which of these it is, from 0 on */
};

/* Steps a statement over `objects`, without a query in it, for the first time: to the first row of
 * its window, or to its end when the call is not about rows or the window was not found. Returns
 * what SQLite says. */
int hx_window_step(hx_blocks *blocks, sqlite3_stmt *statement, struct hx_window *window);

#endif
