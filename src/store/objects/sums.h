/* sums.h - bytes and objects by type, shape, state, size class or retainer set of the objects that
 * conditions let through, in one pass over the columns that it takes.
 *
 * SQL has it as hx_sums(BY, SNAPSHOT, CONDITION): a JSON array of [kind, number, bytes, objects],
 * the kinds being those of enum hx_sums_kind, states and size classes by name, sets by set_id; NULL
 * where a pass cannot tell, and SQLite has to. */
#ifndef HX_STORE_OBJECTS_SUMS_H
#define HX_STORE_OBJECTS_SUMS_H

#include "store/objects/top.h"
#include "store/sqlite.h"

enum hx_sums_by {
    HX_SUMS_TYPE,
    HX_SUMS_NAMES,
    HX_SUMS_SHAPE,
    HX_SUMS_STATE,
    HX_SUMS_SIZE,
    HX_SUMS_SET
};

/* What a number is; 0 of each kind: not known. NAMES has types, and the shapes of what has none. */
enum hx_sums_kind { HX_SUMS_OF_TYPE, HX_SUMS_OF_SHAPE, HX_SUMS_OF_OTHER, HX_SUMS_KINDS };

struct hx_sums {
    enum hx_sums_by by;
    struct hx_sum {
        uint64_t bytes, objects;
    } * sum[HX_SUMS_KINDS]; /* by number; owned */
    size_t n[HX_SUMS_KINDS];
    bool many; /* there are too many numbers: the sums are not all */
};
void hx_sums_deinit(struct hx_sums *sums);

/* Adds up the rows of a top, whose order and limits do not matter. */
hx_error *hx_sums_make(hx_blocks *blocks, const struct hx_block_index *index,
                       const struct hx_top *top, struct hx_sums *sums);

/* Makes the function known to a connection. */
hx_error *hx_sums_function(sqlite3 *db, hx_blocks *blocks);

#endif
