/* ends.h - the first and the last rows of a snapshot's objects in the orders that lists show, which
 * are stored with it: another order shows its first screen, and its end, without a pass over all.
 *
 * They lie in hx_column, in the slot HX_COL_ENDS + column of the first block of objects: so what
 * stands in for a column (overlay.h) or rewrites it brings its ends along. Four lists of HX_ENDS
 * rows each, in their order: largest values first, the first and the last of them; smallest first
 * and NULL behind all, the first and the last. Equal values come in the order of rows.
 *
 * The slot of HX_COL_DOMINATOR has those of what hangs directly under the roots, by what it
 * retains, and behind them how many these are: of fewer than HX_ENDS rows lists of the first begin
 * with them, lists of the last end with them. */
#ifndef HX_STORE_OBJECTS_ENDS_H
#define HX_STORE_OBJECTS_ENDS_H

#include "model/graph.h"
#include "store/objects/blocks.h"

enum {
    HX_ENDS = 4096,
    HX_ENDS_LISTS = 4,
    HX_ENDS_VALUES = HX_ENDS_LISTS * HX_ENDS,
    HX_ENDS_ROOM = HX_ENDS_VALUES + 1, /* with how many rows there are */
    HX_ENDS_LEAST = 4 * HX_BLOCK_ROWS, /* objects of a snapshot that has them */
};

/* The stored column whose ends those of an order are; -1: there are none. *ret_nulls: a value of 0
 * is NULL. */
int hx_ends_of(enum hx_derived derived, int column, bool *ret_nulls);

/* Where each state stands in the order of their names, from 1 on; 0: it has no name. */
void hx_rank_states(uint32_t rank[HX_STATES]);

/* Those of one order while its column is written. */
typedef struct hx_ends hx_ends;

/* `rank`: by which number each value counts (copied); NULL: by itself. */
hx_error *hx_ends_create(bool nulls, const uint32_t *rank, size_t ranks, hx_ends **ret);
/* Of some rows only: values of 0 are none of them. */
hx_error *hx_ends_create_some(hx_ends **ret);
void hx_ends_destroy(hx_ends *ends); /* NULL is legal */

/* Offers the values of the rows from `from` on, as hx_blocks_column() would give them. Several
 * threads do, in any order of rows. */
void hx_ends_take(hx_ends *ends, uint64_t from, const uint64_t *value, size_t n);

/* All were offered: the lists, and how many rows they are of. */
hx_error *hx_ends_list(hx_ends *ends, uint64_t ret[HX_ENDS_ROOM]);

/* Is that number stored behind the ends of a column? */
static inline bool hx_ends_are_some(int column)
{
    return column == HX_COL_DOMINATOR;
}
static inline size_t hx_ends_values(int column)
{
    return hx_ends_are_some(column) ? HX_ENDS_ROOM : HX_ENDS_VALUES;
}

#endif
