/* dominators.c - semidominators, immediate dominators, sums over the dominator tree. */
#include "traverse/dominators.h"

#include "traverse/spanning.h"

#include <stdlib.h>

#define CHECK_MASK 0xffff  /* every so many nodes + 1 */
#define GIVE_MASK  0xfffff /* every so many nodes + 1, when memory is given back */
#define AHEAD      32      /* nodes or edges: how far ahead scattered reads are prefetched */

struct run {
    const struct hx_snapshot *snapshot;
    const struct hx_progress *progress;
    struct hx_spanning tree;
};

static bool go_on(const struct run *run, const char *stage, hx_node node, hx_node done)
{
    if (node & CHECK_MASK)
        return true;
    hx_progress_at(run->progress, stage, done, run->tree.n);
    return !hx_progress_cancelled(run->progress);
}

/* --- semidominators ------------------------------------------------------------- */

/* link[v].a: an ancestor of v above which nothing was looked at yet; link[v].b: the least
 * semidominator of the nodes from v up to below it. Nodes up to `bound` have no link so far. */
static inline hx_node evaluate(struct hx_node_pair *link, hx_node v, hx_node bound)
{
    if (link[v].a <= bound)
        return link[v].b;
    /* On the way up the pointers are turned round, which leads back down without a stack;
     * 0 ends the way, as the virtual root has no link. */
    hx_node below = 0;
    while (link[v].a > bound) {
        hx_node above = link[v].a;
        link[v].a = below;
        below = v;
        v = above;
    }
    hx_node top = link[v].a, least = link[v].b;
    while (below) {
        hx_node next = link[below].a;
        if (link[below].b > least)
            link[below].b = least;
        else
            least = link[below].b;
        link[below].a = top;
        below = next;
    }
    return least;
}

/* What belongs to nodes from w on was used: gives it back while links come to be. `given` is
 * where the part begins that was given back before. */
static void give_back(struct hx_spanning *tree, hx_node w, hx_node *given)
{
    hx_big_discard(&tree->late_mem, tree->first[w] * sizeof *tree->late,
                   tree->first[*given] * sizeof *tree->late);
    hx_big_discard(&tree->first_mem, ((size_t)w + 1) * sizeof *tree->first,
                   (size_t)*given * sizeof *tree->first);
    *given = w;
}

/* Makes `low` the semidominators. Uses `first` and `late` up. */
static bool find_semidominators(struct run *run)
{
    struct hx_spanning *tree = &run->tree;
    struct hx_node_pair *link = tree->pair;
    hx_node given = tree->n;
    for (hx_node w = tree->n - 1; w > 0; w--) {
        hx_node semi = tree->low[w];
        for (hx_eidx i = tree->first[(size_t)w + 1]; i-- > tree->first[w];) {
            __builtin_prefetch(&link[tree->late[i < AHEAD ? 0 : i - AHEAD]], 1);
            hx_node least = evaluate(link, tree->late[i], w);
            if (least < semi)
                semi = least;
        }
        tree->low[w] = semi;
        link[w] = (struct hx_node_pair){tree->parent[w], semi};
        if (!go_on(run, "semidominators", w, tree->n - w))
            return false;
        if ((w & GIVE_MASK) == 0)
            give_back(tree, w, &given);
    }
    return true;
}

/* --- immediate dominators -------------------------------------------------------- */

/* Makes `parent` the immediate dominators: the nearest node on the way up the dominator tree
 * that is not below the semidominator. skip[w].a is a node further up, skip[w].b w's depth. */
static bool find_dominators(struct run *run)
{
    struct hx_spanning *tree = &run->tree;
    hx_node *dominator = tree->parent;
    struct hx_node_pair *skip = tree->pair;
    skip[0] = (struct hx_node_pair){0, 0};
    for (hx_node w = 1; w < tree->n; w++) {
        hx_node d = tree->parent[w], semi = tree->low[w];
        while (d > semi)
            d = skip[d].a > semi ? skip[d].a : dominator[d];
        dominator[w] = d;
        hx_node far = skip[d].a, farther = skip[far].a;
        bool equal = skip[d].b - skip[far].b == skip[far].b - skip[farther].b;
        skip[w] = (struct hx_node_pair){equal ? farther : d, skip[d].b + 1};
        if (!go_on(run, "dominators", w, w))
            return false;
    }
    return true;
}

/* --- sums ------------------------------------------------------------------------ */

static hx_error *make_columns(const struct run *run, struct hx_dominators *ret)
{
    const size_t n = run->snapshot->graph.n, n_roots = run->snapshot->roots.n;
    HX_TRY(hx_big_reserve(&ret->parent_mem, n * sizeof(hx_obj)));
    HX_TRY(hx_big_reserve(&ret->bytes_mem, n * sizeof(uint64_t)));
    HX_TRY(hx_big_reserve(&ret->objects_mem, n * sizeof(hx_obj)));
    ret->root_bytes = calloc(n_roots + 1, sizeof *ret->root_bytes);
    ret->root_objects = calloc(n_roots + 1, sizeof *ret->root_objects);
    if (!ret->root_bytes || !ret->root_objects)
        return hx_error_nomem();
    ret->n = run->snapshot->graph.n;
    ret->n_roots = n_roots;
    ret->parent = ret->parent_mem.base;
    ret->bytes = ret->bytes_mem.base;
    ret->objects = ret->objects_mem.base;
    for (size_t i = 0; i < n; i++)
        ret->parent[i] = HX_NO_OBJ;
    return NULL;
}

static void prefetch_figures(const struct run *run, const struct hx_dominators *ret, hx_node w)
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
static bool sum_up(const struct run *run, struct hx_dominators *ret)
{
    const struct hx_spanning *tree = &run->tree;
    const struct hx_graph *graph = &run->snapshot->graph;
    for (hx_node w = tree->n - 1; w > 0; w--) {
        prefetch_figures(run, ret, w);
        hx_node above = tree->parent[w];
        if (!go_on(run, "retained sizes", w, tree->n - w))
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

static hx_error *find(struct run *run, struct hx_dominators *ret)
{
    struct hx_spanning *tree = &run->tree;
    if (!find_semidominators(run))
        return hx_error_cancelled("search for dominators");
    hx_big_free(&tree->late_mem);
    hx_big_free(&tree->first_mem);
    if (!find_dominators(run))
        return hx_error_cancelled("search for dominators");
    hx_big_free(&tree->pair_mem);
    hx_big_free(&tree->low_mem);
    HX_TRY(make_columns(run, ret));
    if (!sum_up(run, ret))
        return hx_error_cancelled("search for dominators");
    for (size_t i = 0; i < ret->n_roots; i++)
        if (run->snapshot->roots.v[i].kind == HX_ROOT_NAMED)
            ret->root_bytes[i] = ret->root_objects[i] = HX_RETAINED_UNKNOWN;
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
    hx_error *err = find(&run, ret);
    hx_spanning_deinit(&run.tree);
    if (err)
        hx_dominators_deinit(ret);
    return err;
}

void hx_dominators_drop_parent(struct hx_dominators *dominators)
{
    hx_big_free(&dominators->parent_mem);
    dominators->parent = NULL;
}

void hx_dominators_deinit(struct hx_dominators *dominators)
{
    hx_big_free(&dominators->parent_mem);
    hx_big_free(&dominators->bytes_mem);
    hx_big_free(&dominators->objects_mem);
    free(dominators->root_bytes);
    free(dominators->root_objects);
    *dominators = (struct hx_dominators){0};
}
