/* dominators.c - dominators of all objects in scope, and sums over their tree. */
#include "traverse/dominate/dominators.h"

#include "base/prefetch.h"
#include "traverse/dominate/immediate.h"

#include <stdlib.h>

#define CHECK_MASK 0xffff /* every so many nodes + 1 */
#define AHEAD      32     /* nodes: how far ahead scattered reads are prefetched */

struct run {
    const struct hx_snapshot *snapshot;
    const struct hx_progress *progress;
    struct hx_spanning tree;
};

static bool report_dominators(const struct run *run, const char *stage, hx_node node, hx_node done)
{
    if (node & CHECK_MASK)
        return true;
    hx_progress_at(run->progress, stage, done, run->tree.n);
    return !hx_progress_cancelled(run->progress);
}

/* --- sums ------------------------------------------------------------------------ */

static hx_error *make_columns(const struct run *run, struct hx_dominators *ret)
{
    const size_t n = run->snapshot->graph.n, n_roots = run->snapshot->roots.n;
    HX_TRY(hx_big_array(ret->parent, n));
    HX_TRY(hx_big_array(ret->bytes, n));
    HX_TRY(hx_big_array(ret->objects, n));
    ret->root_bytes = calloc(n_roots + 1, sizeof *ret->root_bytes);
    ret->root_objects = calloc(n_roots + 1, sizeof *ret->root_objects);
    HX_NEED(ret->root_bytes && ret->root_objects);
    ret->n = run->snapshot->graph.n;
    ret->n_roots = n_roots;
    for (size_t i = 0; i < n; i++)
        ret->parent[i] = HX_NO_OBJ;
    return NULL;
}

HX_PREFETCHES void prefetch_figures(const struct run *run, const struct hx_dominators *ret,
                                    hx_node w)
{
    const struct hx_spanning *tree = &run->tree;
    if (w <= 2 * AHEAD || hx_spanning_is_root(tree, w - AHEAD))
        return;
    __builtin_prefetch(&tree->vertex[tree->parent[w - 2 * AHEAD]]);
    hx_node object = tree->vertex[w - AHEAD], above = tree->parent[w - AHEAD];
    __builtin_prefetch(&run->snapshot->graph.size[object]);
    __builtin_prefetch(&ret->parent[object], 1);
    __builtin_prefetch(&ret->bytes[object], 1);
    __builtin_prefetch(&ret->objects[object], 1);
    if (hx_spanning_is_root(tree, above))
        return;
    __builtin_prefetch(&ret->bytes[tree->vertex[above]], 1);
    __builtin_prefetch(&ret->objects[tree->vertex[above]], 1);
}

/* From the leaves up: a dominator has a lower number than what it dominates. */
static bool sum_retained_sizes(const struct run *run, struct hx_dominators *ret)
{
    const struct hx_spanning *tree = &run->tree;
    const struct hx_graph *graph = &run->snapshot->graph;
    for (hx_node w = tree->n - 1; w > 0; w--) {
        prefetch_figures(run, ret, w);
        hx_node above = tree->parent[w];
        if (!report_dominators(run, "retained sizes", w, tree->n - w))
            return false;
        if (hx_spanning_is_root(tree, w))
            continue;
        hx_obj object = (hx_obj)tree->vertex[w];
        ret->bytes[object] += graph->size[object];
        ret->objects[object]++;
        ret->scope_bytes += graph->size[object];
        ret->scope_objects++;
        if (above == 0) /* several roots keep it alive */
            continue;
        if (hx_spanning_is_root(tree, above)) {
            ret->root_bytes[tree->vertex[above]] += ret->bytes[object];
            ret->root_objects[tree->vertex[above]] += ret->objects[object];
        } else {
            hx_obj dominator = (hx_obj)tree->vertex[above];
            ret->parent[object] = dominator;
            ret->bytes[dominator] += ret->bytes[object];
            ret->objects[dominator] += ret->objects[object];
        }
    }
    return true;
}

/* Takes the numbers of nodes over for `order`: first what is in scope, without roots. */
static void keep_order(struct run *run, struct hx_dominators *ret)
{
    struct hx_spanning *tree = &run->tree;
    hx_node n = 0;
    for (hx_node w = 1; w < tree->n; w++)
        if (!hx_spanning_is_root(tree, w))
            tree->vertex[n++] = tree->vertex[w];
    for (hx_obj i = 0; i < ret->n; i++)
        if (!hx_dominators_has(ret, i))
            tree->vertex[n++] = i;
    ret->order = tree->vertex;
    ret->order_mem = tree->vertex_mem;
    tree->vertex_mem = (struct hx_big){0};
}

static hx_error *find_immediate_dominators(struct run *run, struct hx_dominators *ret)
{
    HX_TRY(hx_immediate_dominators(&run->tree, run->progress));
    HX_TRY(make_columns(run, ret));
    if (!sum_retained_sizes(run, ret))
        return hx_error_cancelled("search for dominators");
    for (size_t i = 0; i < ret->n_roots; i++)
        if (run->snapshot->roots.v[i].kind == HX_ROOT_NAMED)
            ret->root_bytes[i] = ret->root_objects[i] = HX_RETAINED_UNKNOWN;
    keep_order(run, ret);
    return NULL;
}

hx_error *hx_dominators_find(const struct hx_snapshot *snapshot, enum hx_dominators_over over,
                             const struct hx_progress *progress, struct hx_dominators *ret)
{
    struct run run = {.snapshot = snapshot, .progress = progress};
    *ret = (struct hx_dominators){.follows = 1u << HX_EDGE_START | 1u << HX_EDGE_KNOWN};
    if (over == HX_OVER_FOLLOWED && snapshot->interior != HX_INTERIOR_OFF)
        ret->follows |= 1u << HX_EDGE_INTERIOR;
    HX_TRY(hx_spanning_find(snapshot, ret->follows, progress, &run.tree));
    hx_error *err = find_immediate_dominators(&run, ret);
    hx_spanning_deinit(&run.tree);
    if (err)
        hx_dominators_deinit(ret);
    return err;
}

void hx_dominators_drop_parent(struct hx_dominators *dominators)
{
    hx_big_array_free(dominators->parent);
    hx_big_array_free(dominators->order);
}

void hx_dominators_deinit(struct hx_dominators *dominators)
{
    hx_big_free(&dominators->parent_mem);
    hx_big_free(&dominators->bytes_mem);
    hx_big_free(&dominators->objects_mem);
    hx_big_free(&dominators->order_mem);
    free(dominators->root_bytes);
    free(dominators->root_objects);
    *dominators = (struct hx_dominators){0};
}
