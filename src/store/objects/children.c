/* children.c - from a dominator's edges to what it dominates. */
#include "store/objects/children.h"

#include "base/cleanup.h"
#include "base/vec.h"

#include <stdlib.h>

enum { EDGES_MAX = 4 * HX_BLOCK_ROWS }; /* of the dominator: more are no gain */

typedef HX_VEC(uint64_t) rows_vec;

static int compare_rows(const void *a, const void *b)
{
    const uint64_t *x = a, *y = b;
    return *x < *y ? -1 : *x > *y;
}

/* Where its edges lead, each object once. *ret_few false: there are too many. */
static hx_error *find_targets(hx_blocks *blocks, const struct hx_block_index *edges,
                              uint64_t source, rows_vec *ret, bool *ret_few)
{
    uint64_t row, end;
    HX_TRY(hx_blocks_lower_bound(blocks, edges, source, &row));
    HX_TRY(hx_blocks_lower_bound(blocks, edges, source + 1, &end));
    *ret_few = end - row <= EDGES_MAX;
    while (*ret_few && row < end) {
        const struct hx_decoded *target;
        const size_t block = row / HX_BLOCK_ROWS;
        HX_TRY(hx_blocks_column(blocks, edges, block, HX_TARGET_OBJ, 0, &target));
        bool room = true;
        for (; room && row < end && row / HX_BLOCK_ROWS == block; row++)
            room = hx_vec_push(ret, hx_decoded_at(target, row % HX_BLOCK_ROWS));
        hx_blocks_release(blocks, target);
        HX_NEED(room);
    }
    if (ret->n)
        qsort(ret->v, ret->n, sizeof *ret->v, compare_rows);
    size_t n = 0;
    for (size_t i = 0; i < ret->n; i++)
        if (!i || ret->v[i] != ret->v[i - 1])
            ret->v[n++] = ret->v[i];
    ret->n = n;
    return NULL;
}

/* Of the n rows of one block those that it dominates go to the front. Returns how many these are,
 * and adds what they retain. */
static hx_error *pick_children(hx_blocks *blocks, const struct hx_block_index *objects,
                               uint64_t dominator, const uint64_t *row, size_t n, uint64_t *ret,
                               size_t *ret_n, uint64_t *retained)
{
    HX_FREE uint16_t *at = malloc(n * sizeof *at);
    HX_FREE uint64_t *value = malloc(n * sizeof *value);
    HX_NEED(at && value);
    const size_t block = *row / HX_BLOCK_ROWS;
    const uint64_t first = block * (uint64_t)HX_BLOCK_ROWS;
    size_t children = 0;
    for (size_t i = 0; i < n; i++)
        at[i] = (uint16_t)(row[i] - first);
    HX_TRY(hx_blocks_interrupted(blocks));
    HX_TRY(hx_blocks_pick(blocks, objects, block, HX_DOMINATOR, 0, at, n, value));
    for (size_t i = 0; i < n; i++)
        if (value[i] == dominator + 1)
            at[children++] = at[i];
    if (children)
        HX_TRY(hx_blocks_pick(blocks, objects, block, HX_PLAIN, HX_COL_RETAINED_OBJECTS, at,
                              children, value));
    for (size_t i = 0; i < children; i++) {
        ret[(*ret_n)++] = first + at[i];
        *retained += value[i];
    }
    return NULL;
}

static hx_error *find_children(hx_blocks *blocks, const struct hx_block_index *objects,
                               const struct hx_block_index *edges, uint64_t dominator,
                               rows_vec *rows, bool *ret_all)
{
    const uint16_t at = (uint16_t)(dominator % HX_BLOCK_ROWS);
    uint64_t all, retained = 1;
    size_t kept = 0;
    HX_TRY(hx_blocks_pick(blocks, objects, dominator / HX_BLOCK_ROWS, HX_PLAIN,
                          HX_COL_RETAINED_OBJECTS, &at, 1, &all));
    if (all)
        HX_TRY(find_targets(blocks, edges, dominator, rows, ret_all));
    for (size_t i = 0, n; *ret_all && i < rows->n; i += n) {
        for (n = 1;
             i + n < rows->n && rows->v[i + n] / HX_BLOCK_ROWS == rows->v[i] / HX_BLOCK_ROWS;)
            n++;
        if (rows->v[i] / HX_BLOCK_ROWS >= objects->n)
            *ret_all = false; /* the edge is damaged, and whoever shows it says so */
        else
            HX_TRY(pick_children(blocks, objects, dominator, rows->v + i, n, rows->v, &kept,
                                 &retained));
    }
    rows->n = kept;
    *ret_all &= all == retained;
    return NULL;
}

hx_error *hx_children_find(hx_blocks *blocks, const struct hx_block_index *objects,
                           uint64_t dominator, uint64_t **ret, size_t *ret_n, bool *ret_all)
{
    const struct hx_block_index *edges;
    rows_vec rows = {0};
    *ret = NULL;
    *ret_n = 0;
    *ret_all = false;
    if (dominator >= objects->rows)
        return NULL;
    HX_TRY(hx_blocks_index(blocks, objects->snapshot, HX_FAMILY_EDGE, &edges));
    hx_error *err = find_children(blocks, objects, edges, dominator, &rows, ret_all);
    hx_blocks_index_done(blocks, edges);
    if (err || !*ret_all) {
        hx_vec_free(&rows);
        return err;
    }
    *ret = rows.v;
    *ret_n = rows.n;
    return NULL;
}
