/* merged_tree.c - each object finds its row below that of its parent; then the largest rows remain.
 */
#include "traverse/dominate/merged_tree.h"

#include "base/cleanup.h"
#include "base/pairs.h"
#include "base/prefetch.h"

#include <stdlib.h>
#include <string.h>

#define CHECK_MASK 0xffff /* every so many objects + 1 */
#define AHEAD      16     /* objects */

/* So many rows are made before others are; with the table of their names at most 100 bytes each. */
enum { ROWS_MADE = 1 << 16, OBJECTS_OF_ROW = 32 };

#define NO_ROW UINT32_MAX

struct row {
    uint32_t parent, others, name, depth; /* parent, others: NO_ROW: none */
    uint64_t bytes, objects;
    uint64_t total_bytes, total_objects;
};

struct work {
    const struct hx_merge *merge;
    const struct hx_progress *progress;
    HX_VEC(struct row) rows;
    size_t rows_made;
    struct hx_pairs pairs; /* row and kind: the row of its children of that kind */
    uint32_t *of;          /* row of each object */
    struct hx_big of_mem;
    uint32_t *order; /* rows that remain, the largest first */
    size_t n_order;
    uint32_t *first, *next; /* child, sibling */
    bool *kept;
    struct hx_merged_tree tree;
};

/* --- objects into rows -------------------------------------------------------------------- */

static hx_error *new_row(struct work *work, uint32_t parent, uint32_t name, uint32_t *ret)
{
    uint32_t depth = parent == NO_ROW ? 0 : work->rows.v[parent].depth + 1;
    struct row row = {.parent = parent, .others = NO_ROW, .name = name, .depth = depth};
    *ret = (uint32_t)work->rows.n;
    HX_NEED(hx_vec_push(&work->rows, row));
    return NULL;
}

static hx_error *others_of(struct work *work, uint32_t above, uint32_t *ret)
{
    if (work->rows.v[above].others == NO_ROW) {
        HX_TRY(new_row(work, above, HX_MERGED_OTHERS, ret));
        work->rows.v[above].others = *ret;
    }
    *ret = work->rows.v[above].others;
    return NULL;
}

/* The row of an object of this kind under an object of a row. */
static hx_error *find_row(struct work *work, uint32_t above, uint32_t kind, uint32_t *ret)
{
    const struct row *row = work->rows.v;
    const uint32_t n_tops = work->merge->n_tops;
    *ret = above;
    if (above >= n_tops && row[above].name == HX_MERGED_OTHERS)
        return NULL;
    for (uint32_t up = above; up >= n_tops; up = row[up].parent) {
        *ret = up;
        if (row[up].name == kind)
            return NULL;
    }
    *ret = hx_pairs_find(&work->pairs, hx_pair_key(above, kind));
    if (*ret != HX_NO_PAIR)
        return NULL;
    if (row[above].depth >= HX_MERGED_DEPTH || work->rows.n >= work->rows_made)
        return others_of(work, above, ret);
    uint32_t *slot;
    HX_TRY(hx_pairs_at(&work->pairs, hx_pair_key(above, kind), &slot));
    HX_TRY(new_row(work, above, kind, ret));
    *slot = *ret;
    return NULL;
}

/* What will be asked of the objects that come soon. */
HX_PREFETCHES void look_ahead(const struct work *work, size_t i)
{
    const struct hx_merge *merge = work->merge;
    if (i + 2 * AHEAD < merge->n) {
        __builtin_prefetch(&merge->parent[merge->order[i + 2 * AHEAD]]);
        __builtin_prefetch(&work->of[merge->order[i + 2 * AHEAD]], 1);
    }
    if (i + AHEAD >= merge->n)
        return;
    hx_obj parent = merge->parent[merge->order[i + AHEAD]];
    if (parent != HX_NO_OBJ)
        __builtin_prefetch(&work->of[parent]);
}

/* of[] is kinds before it is rows. */
static hx_error *place_in_order(struct work *work)
{
    const struct hx_merge *merge = work->merge;
    for (hx_obj i = 0; i < merge->n; i++) {
        hx_obj object = (hx_obj)merge->order[i], parent = merge->parent[object];
        if ((i & CHECK_MASK) == CHECK_MASK) {
            hx_progress_at(work->progress, "tree", i, merge->n);
            if (hx_progress_cancelled(work->progress))
                return hx_error_cancelled("tree of objects");
        }
        look_ahead(work, i);
        uint32_t above =
            parent == HX_NO_OBJ ? merge->top(merge->context, object) : work->of[parent];
        HX_TRY(find_row(work, above, work->of[object], &work->of[object]));
    }
    return NULL;
}

static hx_error *place_objects(struct work *work)
{
    const struct hx_merge *merge = work->merge;
    uint32_t row;
    work->rows_made = merge->n_tops + (size_t)ROWS_MADE + merge->n / OBJECTS_OF_ROW;
    for (uint32_t top = 0; top < merge->n_tops; top++)
        HX_TRY(new_row(work, NO_ROW, top, &row));
    HX_TRY(hx_big_array(work->of, merge->n));
    for (hx_obj i = 0; i < merge->n; i++)
        work->of[i] = merge->kind(merge->context, i);
    HX_TRY(place_in_order(work));
    for (hx_obj i = 0; i < merge->n; i++) {
        work->rows.v[work->of[i]].bytes += merge->size[i];
        work->rows.v[work->of[i]].objects++;
    }
    hx_pairs_free(&work->pairs);
    hx_big_array_free(work->of);
    return NULL;
}

/* --- which rows remain -------------------------------------------------------------------- */

/* Parents come before their children. */
static void sum_totals(struct work *work)
{
    for (size_t i = work->rows.n; i--;) {
        struct row *row = &work->rows.v[i];
        row->total_bytes += row->bytes;
        row->total_objects += row->objects;
        if (row->parent == NO_ROW)
            continue;
        work->rows.v[row->parent].total_bytes += row->total_bytes;
        work->rows.v[row->parent].total_objects += row->total_objects;
    }
}

/* A row has at least the total of what is below it, and the lower index: it comes first. */
static int larger_total_first(const void *a, const void *b, void *context)
{
    const struct row *row = context;
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    if (row[x].total_bytes != row[y].total_bytes)
        return row[x].total_bytes < row[y].total_bytes ? 1 : -1;
    return (x > y) - (x < y);
}

static bool is_others(const struct work *work, size_t row)
{
    return row >= work->merge->n_tops && work->rows.v[row].name == HX_MERGED_OTHERS;
}

static hx_error *choose_rows(struct work *work)
{
    const size_t n = work->rows.n;
    work->order = malloc((n + 1) * sizeof *work->order);
    work->kept = calloc(n + 1, sizeof *work->kept);
    HX_NEED(work->order && work->kept);
    for (size_t i = 0; i < n; i++)
        if (work->rows.v[i].total_objects && !is_others(work, i))
            work->order[work->n_order++] = (uint32_t)i;
    qsort_r(work->order, work->n_order, sizeof *work->order, larger_total_first, work->rows.v);
    if (work->n_order > work->merge->max_rows)
        work->n_order = work->merge->max_rows;
    for (size_t k = 0; k < work->n_order; k++)
        work->kept[work->order[k]] = true;
    return NULL;
}

/* What remains of the others of a row: the totals of its children that do not. The last entry is of
 * what stands at the top. */
static hx_error *sum_others(struct work *work, struct hx_merged_row **ret)
{
    struct hx_merged_row *others = calloc(work->rows.n + 1, sizeof *others);
    HX_NEED(others);
    for (size_t i = 0; i < work->rows.n; i++) {
        const struct row *row = &work->rows.v[i];
        if (work->kept[i] || (row->parent != NO_ROW && !work->kept[row->parent]))
            continue;
        struct hx_merged_row *to = &others[row->parent == NO_ROW ? work->rows.n : row->parent];
        to->bytes += row->total_bytes;
        to->objects += row->total_objects;
    }
    *ret = others;
    return NULL;
}

/* Children in order, the last entry of `first` for the top. */
static hx_error *link_rows(struct work *work)
{
    const size_t n = work->rows.n;
    work->first = malloc((n + 1) * sizeof *work->first);
    work->next = malloc((n + 1) * sizeof *work->next);
    HX_NEED(work->first && work->next);
    memset(work->first, 0xff, (n + 1) * sizeof *work->first);
    for (size_t k = work->n_order; k--;) {
        uint32_t row = work->order[k], parent = work->rows.v[row].parent;
        uint32_t *first = &work->first[parent == NO_ROW ? n : parent];
        work->next[row] = *first;
        *first = row;
    }
    return NULL;
}

/* --- in preorder -------------------------------------------------------------------------- */

static void put_row(struct work *work, const struct row *row, size_t parent)
{
    work->tree.row[work->tree.n++] = (struct hx_merged_row){
        .parent = parent,
        .name = row->name,
        .depth = row->depth,
        .bytes = row->bytes,
        .objects = row->objects,
        .total_bytes = row->total_bytes,
    };
}

static void put_others(struct work *work, const struct hx_merged_row *others, size_t parent)
{
    struct hx_merged_row row = *others;
    if (!row.objects)
        return;
    row.parent = parent;
    row.name = HX_MERGED_OTHERS;
    row.depth = parent == HX_MERGED_NO_PARENT ? 0 : work->tree.row[parent].depth + 1;
    row.total_bytes = row.bytes;
    work->tree.row[work->tree.n++] = row;
}

static void put_rows(struct work *work, const struct hx_merged_row *others)
{
    const size_t n = work->rows.n;
    size_t parent = HX_MERGED_NO_PARENT;
    uint32_t at = work->first[n];
    while (at != NO_ROW) {
        put_row(work, &work->rows.v[at], parent);
        size_t here = work->tree.n - 1;
        if (work->first[at] != NO_ROW) {
            parent = here;
            at = work->first[at];
            continue;
        }
        put_others(work, &others[at], here);
        for (; at != NO_ROW && work->next[at] == NO_ROW; at = work->rows.v[at].parent) {
            if (parent == HX_MERGED_NO_PARENT)
                break;
            put_others(work, &others[work->rows.v[at].parent], parent);
            parent = work->tree.row[parent].parent;
        }
        at = work->next[at];
    }
    put_others(work, &others[n], HX_MERGED_NO_PARENT);
}

static hx_error *merge_tree(struct work *work)
{
    HX_FREE struct hx_merged_row *others = NULL;
    HX_TRY(place_objects(work));
    sum_totals(work);
    HX_TRY(choose_rows(work));
    HX_TRY(sum_others(work, &others));
    HX_TRY(link_rows(work));
    work->tree.row = malloc((2 * work->n_order + 1) * sizeof *work->tree.row);
    HX_NEED(work->tree.row);
    put_rows(work, others);
    return NULL;
}

hx_error *hx_merged_tree_make(const struct hx_merge *merge, const struct hx_progress *progress,
                              struct hx_merged_tree *ret)
{
    struct work work = {.merge = merge, .progress = progress};
    hx_error *err = merge_tree(&work);
    hx_vec_free(&work.rows);
    hx_pairs_free(&work.pairs);
    hx_big_free(&work.of_mem);
    free(work.order);
    free(work.kept);
    free(work.first);
    free(work.next);
    if (err)
        hx_merged_tree_deinit(&work.tree);
    else
        *ret = work.tree;
    return err;
}

void hx_merged_tree_deinit(struct hx_merged_tree *tree)
{
    free(tree->row);
    *tree = (struct hx_merged_tree){0};
}
