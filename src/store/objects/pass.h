/* pass.h - a pass over the rows of an index that conditions let through, block by block, on as many
 * threads as there are. Which rows passed is kept for the next one (passed.h), and values of
 * columns that are long to read. */
#ifndef HX_STORE_OBJECTS_PASS_H
#define HX_STORE_OBJECTS_PASS_H

#include "store/objects/passed.h"
#include "store/objects/top.h"

/* What a pass wants of the rows that the conditions let through. */
enum hx_wants { HX_WANTS_COUNT, HX_WANTS_ROWS, HX_WANTS_VALUES };

/* What a pass looks at: rows of one block. */
struct hx_part {
    const struct hx_top *top;
    const struct hx_decoded
        *column;        /* it orders by, of rows that pass; NULL: no values are wanted */
    uint64_t row;       /* the number of its row 0 */
    size_t from, end;   /* rows of the block */
    bool all;           /* all of them pass; else */
    const uint16_t *at; /* those that do, rising, unless they are only counted, */
    size_t n;           /* and how many these are */
};

/* How many rows pass, and the nth of them. */
static inline size_t hx_part_passing(const struct hx_part *part)
{
    return part->all ? part->end - part->from : part->n;
}
static inline size_t hx_part_row(const struct hx_part *part, size_t nth)
{
    return part->all ? part->from + nth : part->at[nth];
}

/* Calls `look` with each block that has rows to look at, in their order. All blocks but one in a
 * row are decoded aside, while that one is decoded, and the ones before it are looked at. */
typedef hx_error *hx_part_fn(const struct hx_part *part, void *context);
hx_error *hx_pass_over(hx_blocks *blocks, const struct hx_block_index *index,
                       const struct hx_top *top, enum hx_wants wants, hx_part_fn *look,
                       void *context);

/* The values of all rows that pass, in the order of rows, if need be after a pass that reads them;
 * *ret NULL: they are not kept. Valid until the next pass. */
hx_error *hx_pass_values(hx_blocks *blocks, const struct hx_block_index *index,
                         const struct hx_top *top, const uint64_t **ret, size_t *ret_n);

/* Where what passed is kept, by top.c; NULL: nowhere, there is no memory. */
struct hx_passed_sets *hx_tops_passed(hx_blocks *blocks);

#endif
