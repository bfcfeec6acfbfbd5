/* dominators.c - dominators of all objects in scope, and sums over their tree. */
#include "traverse/dominate/dominators.h"

#include "traverse/dominate/immediate.h"

#include <stdlib.h>
#include <string.h>

#define CHECK_MASK 0xffff /* every so many nodes + 1 */
#define AHEAD      32     /* nodes: how far ahead scattered reads are prefetched */

/* What is retained, by number. Objects have it from there: so sums over the tree stay together. */
struct figures {
    uint64_t bytes;
    hx_obj objects, dominator;
};
_Static_assert(sizeof(struct figures) <= HX_NODE_ROOM, "room for nodes");

struct run {
    const struct hx_snapshot *snapshot;
    const struct hx_progress *progress;
    struct hx_spanning tree;
    struct figures *figures; /* for each node */
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
    const size_t n_roots = run->snapshot->roots.n;
    ret->root_bytes = calloc(n_roots + 1, sizeof *ret->root_bytes);
    ret->root_objects = calloc(n_roots + 1, sizeof *ret->root_objects);
    HX_NEED(ret->root_bytes && ret->root_objects);
    ret->n = run->snapshot->graph.n;
    ret->n_roots = n_roots;
    return NULL;
}

/* From the leaves up: a dominator has a lower number than what it dominates. */
static bool sum_retained_sizes(const struct run *run, struct hx_dominators *ret)
{
    const struct hx_spanning *tree = &run->tree;
    const uint64_t *size = run->snapshot->graph.size;
    memset(run->figures, 0, tree->n * sizeof *run->figures);
    run->figures[0].dominator = HX_NO_OBJ; /* of what is not in scope */
    for (hx_node w = tree->n - 1; w > 0; w--) {
        if (w > AHEAD && !hx_spanning_is_root(tree, w - AHEAD))
            __builtin_prefetch(&size[tree->vertex[w - AHEAD]]);
        if (!report_dominators(run, "retained sizes", w, tree->n - w))
            return false;
        if (hx_spanning_is_root(tree, w))
            continue;
        hx_node above = tree->parent[w];
        struct figures *figures = &run->figures[w], *up = &run->figures[above];
        uint64_t own = size[tree->vertex[w]];
        figures->bytes += own;
        figures->objects++;
        figures->dominator = HX_NO_OBJ;
        ret->scope_bytes += own;
        ret->scope_objects++;
        if (above == 0) /* several roots keep it alive */
            continue;
        if (hx_spanning_is_root(tree, above)) {
            ret->root_bytes[tree->vertex[above]] += figures->bytes;
            ret->root_objects[tree->vertex[above]] += figures->objects;
        } else {
            figures->dominator = (hx_obj)tree->vertex[above];
            up->bytes += figures->bytes;
            up->objects = (hx_obj)(up->objects + figures->objects);
        }
    }
    return true;
}

static void *take_over(struct hx_big *from, struct hx_big *to)
{
    *to = *from;
    *from = (struct hx_big){0};
    return to->base;
}

/* The columns stand where was what nobody needs any more; the first one where the numbers are. */
static bool put_figures(struct run *run, struct hx_dominators *ret)
{
    struct hx_spanning *tree = &run->tree;
    const char *number = take_over(&tree->number_mem, &ret->parent_mem);
    ret->parent = ret->parent_mem.base;
    ret->objects = take_over(&tree->low_mem, &ret->objects_mem);
    ret->bytes = take_over(&tree->late_of_mem, &ret->bytes_mem);
    for (size_t i = 0; i < ret->n; i++) {
        hx_node own, soon = 0;
        memcpy(&own, number + i * sizeof own, sizeof own);
        if (ret->n - i > AHEAD)
            memcpy(&soon, number + (i + AHEAD) * sizeof soon, sizeof soon);
        __builtin_prefetch(&run->figures[soon]);
        const struct figures *figures = &run->figures[own];
        ret->parent[i] = figures->dominator;
        ret->objects[i] = figures->objects;
        ret->bytes[i] = figures->bytes;
        if (!report_dominators(run, "retained sizes", (hx_node)i, (hx_node)i))
            return false;
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
    ret->order = take_over(&tree->vertex_mem, &ret->order_mem);
}

static hx_error *find_immediate_dominators(struct run *run, struct hx_dominators *ret)
{
    HX_TRY(hx_immediate_dominators(&run->tree, run->progress));
    run->figures = run->tree.room.base;
    HX_TRY(make_columns(run, ret));
    if (!sum_retained_sizes(run, ret) || !put_figures(run, ret))
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
