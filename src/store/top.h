/* top.h - the first rows by a column, without sorting the others. */
#ifndef HX_STORE_TOP_H
#define HX_STORE_TOP_H

#include "store/blocks.h"

/* The first `limit` rows of an index by a column, as hx_blocks_column() decodes it, the largest
 * values first or the smallest; equal values in the order of rows. One pass, memory for `limit`
 * rows. *ret is the caller's to free. */
hx_error *hx_top_rows(hx_blocks *blocks, const struct hx_block_index *index,
                      enum hx_derived derived, int column, bool largest, uint64_t limit,
                      uint64_t **ret, size_t *ret_n);

#endif
