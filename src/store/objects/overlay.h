/* overlay.h - where blocks and columns lie.
 *
 * All of them are in the file, unless a store that may not be changed shows figures that were
 * worked out anew (hx_store_revise()). Then there are temporary tables hx_block and hx_column,
 * which hold only what is new: a column found there stands in for the one of the same id in the
 * file, and blocks of a family found there for all blocks of that family and snapshot. A lone block
 * of no rows says that the family has become empty. */
#ifndef HX_STORE_OBJECTS_OVERLAY_H
#define HX_STORE_OBJECTS_OVERLAY_H

#include "base/error.h"
#include "store/schema/schema.h"
#include "store/sqlite.h"

/* The blocks of a family of a snapshot in their order: id, first_row, n, first_key, last_key,
 * bytes. `what` names the store. */
hx_error *hx_overlay_blocks(sqlite3 *db, const char *what, int64_t snapshot, enum hx_family family,
                            sqlite3_stmt **ret);

/* A statement that gives one row with the blob of the column whose id is bound to ?1, or with NULL
 * when there is no such column. Good until a store is revised. */
hx_error *hx_overlay_column(sqlite3 *db, const char *what, sqlite3_stmt **ret);

#endif
