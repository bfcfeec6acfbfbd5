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

/* Of the rows those that it dominates go to the front, and `rows` ends with them; *retained grows
 * by what these retain. */
static hx_error *keep_children(hx_blocks *blocks, const struct hx_block_index *objects,
                               uint64_t dominator, rows_vec *rows, uint64_t *retained)
{
    HX_FREE uint64_t *value = malloc((rows->n + 1) * sizeof *value);
    HX_NEED(value);
    HX_TRY(hx_blocks_pick_rows(blocks, objects, HX_DOMINATOR, 0, rows->v, rows->n, value));
    size_t n = 0;
    for (size_t i = 0; i < rows->n; i++)
        if (value[i] == dominator + 1)
            rows->v[n++] = rows->v[i];
    rows->n = n;
    HX_TRY(
        hx_blocks_pick_rows(blocks, objects, HX_PLAIN, HX_COL_RETAINED_OBJECTS, rows->v, n, value));
    for (size_t i = 0; i < n; i++)
        *retained += value[i];
    return NULL;
}

static hx_error *find_children(hx_blocks *blocks, const struct hx_block_index *objects,
                               const struct hx_block_index *edges, uint64_t dominator,
                               rows_vec *rows, bool *ret_all)
{
    const uint16_t at = (uint16_t)(dominator % HX_BLOCK_ROWS);
    uint64_t all, retained = 1;
    HX_TRY(hx_blocks_pick(blocks, objects, dominator / HX_BLOCK_ROWS, HX_PLAIN,
                          HX_COL_RETAINED_OBJECTS, &at, 1, &all));
    if (!all)
        return NULL;
    HX_TRY(find_targets(blocks, edges, dominator, rows, ret_all));
    if (rows->n && rows->v[rows->n - 1] >= objects->rows)
        *ret_all = false; /* the edge is damaged, and whoever shows it says so */
    if (*ret_all)
        HX_TRY(keep_children(blocks, objects, dominator, rows, &retained));
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
