/* alike.h - what a snapshot shares with the one before it of the same process, which is often just
 * like it: rows of merged trees and of the largest dominators, and small columns.
 *
 * Rows that are the same as those of the earlier one are stored once, under its number, and
 * hx_alike says so. Small columns lie in hx_pack, whose rows never change, and hx_column has the
 * number of that row. */
#ifndef HX_STORE_WRITE_ALIKE_H
#define HX_STORE_WRITE_ALIKE_H

#include "store/write/writer.h"

enum hx_alike_part { HX_ALIKE_DOMINATORS, HX_ALIKE_TREE, HX_ALIKE_HOLDER_TREE };

/* The snapshot's rows of a part go. Those that share them keep them. */
hx_error *hx_alike_forget(struct hx_writer *w, enum hx_alike_part part);

/* The snapshot's rows of a part are written: stores them once where another one has the same. */
hx_error *hx_alike_share(struct hx_writer *w, enum hx_alike_part part);

/* Puts a column of a block, in place of what is there. */
hx_error *hx_alike_put(struct hx_writer *w, int64_t block, enum hx_column_id column,
                       const void *blob, size_t bytes);

#endif
