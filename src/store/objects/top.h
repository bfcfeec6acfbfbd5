/* top.h - the rows of an index that conditions let through, a window of them in the order of a
 * column: without sorting the others, and with memory for the window only. */
#ifndef HX_STORE_OBJECTS_TOP_H
#define HX_STORE_OBJECTS_TOP_H

#include "store/objects/blocks.h"

/* Rows whose value in a column, as hx_blocks_column() decodes it, lies in low..high. */
struct hx_condition {
    enum hx_derived derived;
    int column;
    uint64_t low, high;
};

struct hx_top {
    uint64_t from, end; /* rows that come into question */
    const struct hx_condition *condition;
    size_t conditions;
    enum hx_derived derived; /* the column to order by */
    int column;
    const uint32_t *rank;   /* by which number each value counts; NULL: by itself */
    size_t ranks;           /* values that have one */
    bool largest;           /* the largest values first */
    bool zero_last;         /* smallest first, but 0 after all others */
    bool backwards;         /* top.c's own */
    uint64_t offset, limit; /* which of the rows, in order */
};

/* The window, equal values in the order of rows. *ret is the caller's to free. Some rows around it
 * are kept for the next one. */
hx_error *hx_top_rows(hx_blocks *blocks, const struct hx_block_index *index,
                      const struct hx_top *top, uint64_t **ret, size_t *ret_n);

/* What was kept of windows; NULL is legal. */
void hx_tops_free(struct hx_kept_tops *tops);

/* The place of a row in the whole order, from 0 on. *ret_there: the conditions let it through.
 * `near`: only when it is among the first ones, which then are kept. */
hx_error *hx_top_place(hx_blocks *blocks, const struct hx_block_index *index,
                       const struct hx_top *top, uint64_t row, bool near, bool *ret_there,
                       uint64_t *ret);

/* Looks at the rows that the conditions let through, block by block in their order: the n numbers
 * of the block's rows in `at`, rising; NULL: `from` and those behind it. */
struct hx_passing {
    size_t from, n;
    const uint16_t *at;
};
static inline size_t hx_passing_row(const struct hx_passing *rows, size_t nth)
{
    return rows->at ? rows->at[nth] : rows->from + nth;
}
typedef hx_error *hx_look_fn(void *context, size_t block, const struct hx_passing *rows);
hx_error *hx_top_look(hx_blocks *blocks, const struct hx_block_index *index,
                      const struct hx_top *top, hx_look_fn *look, void *context);

/* How many rows the conditions let through. */
hx_error *hx_top_count(hx_blocks *blocks, const struct hx_block_index *index,
                       const struct hx_top *top, uint64_t *ret);

#endif
