/* block_pick.c - some rows of a block for less than decoding all of it. */
#include "store/objects/blocks_private.h"

#include "base/cleanup.h"
#include "base/lower_bound.h"

#include <stdlib.h>
#include <string.h>

/* So many rows lie between two whose addresses are kept. */
enum { STEP = 256 };

/* What they are added up from. */
struct steps {
    const struct hx_decoded *step, *gap, *size; /* held */
};

#define SUM(type)                                                                                  \
    for (size_t i = from; i < end; i++)                                                            \
        sum += ((const type *)column->v)[i];

HX_HOT static uint64_t sum_decoded(const struct hx_decoded *column, size_t from, size_t end)
{
    uint64_t sum = (end - from) * column->base;
    HX_BY_SHIFT(column->shift, SUM);
    return sum;
}

static bool is_small(const struct hx_decoded *column)
{
    return hx_decoded_most(column) < (uint64_t)1 << 40;
}

/* To the address of the next row; *bad where there is none such. */
static uint64_t next_address(const struct steps *steps, size_t row, uint64_t at, bool *bad)
{
    *bad |= __builtin_add_overflow(at, hx_decoded_at(steps->size, row), &at);
    *bad |= __builtin_add_overflow(at, hx_decoded_at(steps->gap, row + 1), &at);
    return at;
}

static hx_error *sum_steps(const struct hx_block *block, const struct steps *steps, uint64_t *step)
{
    const bool small = is_small(steps->gap) && is_small(steps->size);
    const size_t n = block->n, last = n - 1;
    uint64_t at = block->first_key;
    bool bad = __builtin_add_overflow(at, hx_decoded_at(steps->gap, 0), &at);
    for (size_t from = 0, end; from < last || !from; from = end) {
        step[from / STEP] = at;
        end = last - from < STEP ? last : from + STEP;
        const uint64_t before = at;
        for (size_t row = from; !small && row < end; row++)
            at = next_address(steps, row, at, &bad);
        if (small)
            at += sum_decoded(steps->size, from, end) + sum_decoded(steps->gap, from + 1, end + 1);
        bad |= at < before;
        if (end == last)
            break;
    }
    if (last % STEP == 0)
        step[last / STEP] = at;
    return bad || at != block->last_key ? hx_block_damaged("keys of a block") : NULL;
}

static hx_error *find_gaps_and_sizes(hx_blocks *blocks, const struct hx_block *block,
                                     struct steps *ret)
{
    const size_t number = block->from / HX_BLOCK_ROWS;
    HX_TRY(hx_blocks_column(blocks, block->index, number, HX_PLAIN, HX_COL_GAP, &ret->gap));
    return hx_blocks_column(blocks, block->index, number, HX_PLAIN, HX_COL_SIZE, &ret->size);
}

static void release_steps(hx_blocks *blocks, struct steps *steps)
{
    hx_blocks_release(blocks, steps->step);
    hx_blocks_release(blocks, steps->gap);
    hx_blocks_release(blocks, steps->size);
}

hx_error *hx_blocks_make_steps(hx_blocks *blocks, const struct hx_block *block,
                               struct hx_entry **ret)
{
    struct steps steps = {0};
    hx_error *err = find_gaps_and_sizes(blocks, block, &steps);
    if (!err)
        err = hx_entry_make(blocks, 0, 3, (block->n + STEP - 1) / STEP, ret);
    if (!err && (err = sum_steps(block, &steps, (uint64_t *)(*ret + 1))))
        free(hx_steal(*ret));
    release_steps(blocks, &steps);
    return err;
}

/* Whatever comes of it, to be given back. */
static hx_error *find_steps(hx_blocks *blocks, const struct hx_block *block, struct steps *ret)
{
    *ret = (struct steps){0};
    HX_TRY(hx_blocks_column(blocks, block->index, block->from / HX_BLOCK_ROWS, HX_STEPS, 0,
                            &ret->step));
    return find_gaps_and_sizes(blocks, block, ret);
}

static hx_error *pick_addresses(hx_blocks *blocks, const struct hx_block *block, const uint16_t *at,
                                size_t n, uint64_t *ret)
{
    struct steps steps;
    hx_error *err = find_steps(blocks, block, &steps);
    for (size_t i = 0; !err && i < n; i++) {
        const size_t row = at[i], from = row - row % STEP;
        ret[i] = hx_decoded_at(steps.step, row / STEP) + sum_decoded(steps.size, from, row) +
                 sum_decoded(steps.gap, from + 1, row + 1);
    }
    release_steps(blocks, &steps);
    return err;
}

hx_error *hx_blocks_search_addresses(hx_blocks *blocks, const struct hx_block *block, uint64_t key,
                                     uint64_t *ret)
{
    struct steps steps;
    hx_error *err = find_steps(blocks, block, &steps);
    if (!err) {
        const size_t above = HX_LOWER_BOUND(steps.step->n, i, hx_decoded_at(steps.step, i) < key);
        size_t row = above ? (above - 1) * STEP : 0;
        uint64_t at = hx_decoded_at(steps.step, row / STEP);
        bool bad = false;
        for (; at < key && row + 1 < block->n; row++)
            at = next_address(&steps, row, at, &bad);
        *ret = block->from + row + (at < key);
    }
    release_steps(blocks, &steps);
    return err;
}

/* The source of one edge of a block, by how many edges the objects before it have. */
static hx_error *pick_source(hx_blocks *blocks, const struct hx_block *block, size_t row,
                             uint64_t *ret)
{
    uint64_t source = block->first_key, left = row + block->bytes;
    while (source <= block->last_key) {
        const struct hx_decoded *out;
        HX_TRY(hx_blocks_find_objects(blocks, block, (size_t)(source / HX_BLOCK_ROWS), HX_PLAIN,
                                      HX_COL_OUT, &out));
        size_t k = source % HX_BLOCK_ROWS;
        for (uint64_t n; k + STEP <= out->n && (n = sum_decoded(out, k, k + STEP)) <= left;
             k += STEP)
            left -= n;
        for (uint64_t n; k < out->n && (n = hx_decoded_at(out, k)) <= left; k++)
            left -= n;
        *ret = source - source % HX_BLOCK_ROWS + k;
        const bool found = k < out->n;
        hx_blocks_release(blocks, out);
        if (found)
            return *ret <= block->last_key ? NULL : hx_block_damaged("sources of edges");
        source = *ret;
    }
    return hx_block_damaged("sources of edges");
}

/* Is one row of the block asked for that seldom? */
static bool is_seldom_asked(hx_blocks *blocks, int64_t id, unsigned what)
{
    enum { SELDOM = 3 };
    struct asked *asked = &blocks->asked[((uint64_t)id + 157 * (uint64_t)what) % 1024];
    if (asked->id != id || asked->what != what)
        *asked = (struct asked){.id = id, .what = what};
    if (asked->times++ < SELDOM)
        return true;
    asked->id = 0;
    return false;
}

hx_error *hx_blocks_pick(hx_blocks *blocks, const struct hx_block_index *index, size_t block,
                         enum hx_derived derived, int column, const uint16_t *at, size_t n,
                         uint64_t *ret)
{
    const struct hx_block *where = &index->block[block];
    bool whole = derived != HX_PLAIN && derived != HX_PLUS_ONE && derived != HX_DOMINATOR &&
                 derived != HX_RETAINED && derived != HX_SURE && derived != HX_SURE_OBJECTS &&
                 derived != HX_CCS;
    const unsigned what = hx_entry_what(derived, column);
    const bool known = hx_entry_find(blocks, where->id, what);
    if (hx_blocks_take_picked(blocks, where->id, what, at, n, ret))
        return NULL;
    if (derived == HX_ADDRESS && n < HX_BLOCK_ROWS / STEP && !known)
        return pick_addresses(blocks, where, at, n, ret);
    if (derived == HX_SOURCE_OBJ && n == 1 && !known) {
        bool stored;
        HX_TRY(hx_blocks_has_column(blocks, where, HX_COL_SOURCE, &stored));
        if (!stored)
            return pick_source(blocks, where, *at, ret);
    }
    if (whole || known || (n == 1 && !is_seldom_asked(blocks, where->id, what))) {
        const struct hx_decoded *decoded;
        HX_TRY(hx_blocks_column(blocks, index, block, derived, column, &decoded));
        for (size_t i = 0; i < n; i++)
            ret[i] = hx_decoded_at(decoded, at[i]);
        hx_blocks_release(blocks, decoded);
        return NULL;
    }
    blocks->pick = at;
    blocks->picks = n;
    hx_error *err = hx_blocks_derive(blocks, index, where, derived, column);
    blocks->pick = NULL;
    if (!err)
        memcpy(ret, blocks->value, n * sizeof *ret);
    return err;
}

/* Those of the n rows that lie in the block of the first, less where that begins. */
static size_t rows_of_block(const uint64_t *row, size_t n, uint16_t *at)
{
    size_t k = 0;
    for (; k < n && row[k] / HX_BLOCK_ROWS == *row / HX_BLOCK_ROWS; k++)
        at[k] = (uint16_t)(row[k] % HX_BLOCK_ROWS);
    return k;
}

hx_error *hx_blocks_pick_rows(hx_blocks *blocks, const struct hx_block_index *index,
                              enum hx_derived derived, int column, const uint64_t *row, size_t n,
                              uint64_t *ret)
{
    HX_FREE uint16_t *at = malloc((n + 1) * sizeof *at);
    HX_NEED(at);
    hx_error *err = NULL;
    size_t ahead = 0; /* rows of blocks that were begun aside end here */
    for (size_t i = 0, here; i < n && !err; i += here) {
        hx_blocks_end_asides(blocks);
        here = rows_of_block(row + i, n - i, at + i);
        const bool begin = i >= ahead;
        ahead = begin ? i + here : ahead;
        for (size_t k = 0; begin && k < hx_blocks_asides() && ahead < n; k++) {
            const size_t next = rows_of_block(row + ahead, n - ahead, at + ahead);
            hx_blocks_begin_pick_aside(blocks, index, (size_t)(row[ahead] / HX_BLOCK_ROWS), derived,
                                       column, at + ahead, next);
            ahead += next;
        }
        err = hx_blocks_interrupted(blocks);
        if (!err)
            err = hx_blocks_pick(blocks, index, (size_t)(row[i] / HX_BLOCK_ROWS), derived, column,
                                 at + i, here, ret + i);
    }
    hx_blocks_end_asides(blocks);
    return err;
}
