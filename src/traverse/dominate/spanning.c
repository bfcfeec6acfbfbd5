/* spanning.c - the depth-first search, and the late edges sorted by target. */
#include "traverse/dominate/spanning.h"

#include "base/prefetch.h"

#define CHECK_MASK 0xffff /* every so many nodes + 1 */
#define FEW_EDGES  16     /* of an object with so few all targets are prefetched */
#define AHEAD      32     /* edges: how far ahead scattered reads are prefetched */
#define BLOCK      65536  /* edges between two looks at whether to stop */

struct search {
    const struct hx_snapshot *snapshot;
    const struct hx_graph *graph;
    const struct hx_progress *progress;
    struct hx_spanning *tree;
    unsigned follows;
    hx_node next;               /* number to give */
    struct hx_node_pair *stack; /* a: node, b: how many of its edges are still to be seen */
    size_t depth;
};

static inline bool spanning_follows(const struct search *search, unsigned kind)
{
    return search->follows >> kind & 1;
}

static inline hx_node add_tree_node(struct search *search, hx_node vertex, hx_node parent)
{
    struct hx_spanning *tree = search->tree;
    hx_node node = search->next++;
    tree->vertex[node] = vertex;
    tree->parent[node] = tree->low[node] = parent;
    return node;
}

HX_PREFETCHES void prefetch_successors(const struct search *search, hx_eidx from, hx_eidx to)
{
    const struct hx_graph *graph = search->graph;
    for (hx_eidx e = from; e < to && e < from + FEW_EDGES; e++) {
        hx_obj target = hx_edge_target(graph->edge[e]);
        __builtin_prefetch(&search->tree->number[target], 1);
        __builtin_prefetch(&graph->fwd[target]);
    }
}

/* An edge from `source`, whose edges are being seen, to a node that has its number. The counts
 * of late edges stand two places up, see sort_late(). */
static inline void count_late_edge(const struct search *search, hx_node source, hx_node node)
{
    struct hx_spanning *tree = search->tree;
    if (node < source)
        tree->first[(size_t)node + 2]++;
    else if (source < tree->low[node])
        tree->low[node] = source;
}

/* Numbers what `object` reaches. A node whose last edge leads down is not come back to. */
static bool descend_from(struct search *search, hx_obj object, hx_node parent)
{
    const struct hx_graph *graph = search->graph;
    hx_node *number = search->tree->number;
    hx_node node = number[object] = add_tree_node(search, object, parent);
    hx_eidx e = graph->fwd[object], end = graph->fwd[(size_t)object + 1];
    prefetch_successors(search, e, end);
    for (;;) {
        while (e == end) {
            if (!search->depth)
                return true;
            struct hx_node_pair frame = search->stack[--search->depth];
            node = frame.a;
            end = graph->fwd[(size_t)search->tree->vertex[node] + 1];
            e = end - frame.b;
        }
        hx_edge edge = graph->edge[e++];
        if (!spanning_follows(search, hx_edge_kind_of(edge)))
            continue;
        hx_obj target = hx_edge_target(edge);
        if (number[target]) {
            count_late_edge(search, node, number[target]);
            continue;
        }
        if (e != end) {
            search->stack[search->depth++] = (struct hx_node_pair){node, (hx_node)(end - e)};
            /* The first edges of its next target, whose place is prefetched already. */
            __builtin_prefetch(&graph->edge[graph->fwd[hx_edge_target(graph->edge[e])]]);
        }
        node = number[target] = add_tree_node(search, target, node);
        e = graph->fwd[target];
        end = graph->fwd[(size_t)target + 1];
        prefetch_successors(search, e, end);
        if ((node & CHECK_MASK) == 0) {
            hx_progress_at(search->progress, "number objects", node,
                           graph->n + search->snapshot->roots.n);
            if (hx_progress_cancelled(search->progress))
                return false;
        }
    }
}

static inline bool has_named_root(const struct search *search, uint32_t root)
{
    return search->snapshot->roots.v[root].kind == HX_ROOT_NAMED;
}

static bool number_in_preorder(struct search *search)
{
    const struct hx_snapshot *snapshot = search->snapshot;
    struct hx_spanning *tree = search->tree;
    search->next = 1;
    hx_node node = 0;
    for (size_t i = 0; i < snapshot->root_edges.n; i++) {
        const struct hx_root_edge *edge = &snapshot->root_edges.v[i];
        if (has_named_root(search, edge->root))
            continue;
        if (!node || tree->vertex[node] != edge->root) {
            node = add_tree_node(search, edge->root, 0);
            hx_bit_set(tree->is_root, node);
        }
        if (!spanning_follows(search, edge->kind))
            continue;
        if (tree->number[edge->target])
            count_late_edge(search, node, tree->number[edge->target]);
        else if (!descend_from(search, edge->target, node))
            return false;
    }
    tree->n = search->next;
    return !hx_progress_cancelled(search->progress);
}

/* --- late edges ---------------------------------------------------------------- */

static inline void put_late_edge(const struct search *search, hx_node source, hx_node target)
{
    if (target < source)
        search->tree->late[search->tree->first[(size_t)target + 1]++] = source;
}

static void put_late_root_edges(const struct search *search)
{
    const struct hx_snapshot *snapshot = search->snapshot;
    const struct hx_spanning *tree = search->tree;
    hx_node node = 0;
    uint32_t last = UINT32_MAX;
    for (size_t i = 0; i < snapshot->root_edges.n; i++) {
        const struct hx_root_edge *edge = &snapshot->root_edges.v[i];
        if (has_named_root(search, edge->root))
            continue;
        if (edge->root != last) { /* roots were numbered in this order */
            do
                node++;
            while (!hx_spanning_is_root(tree, node));
            last = edge->root;
        }
        if (spanning_follows(search, edge->kind))
            put_late_edge(search, node, tree->number[edge->target]);
    }
}

/* In the order of the edges in memory. */
static bool put_late_object_edges(const struct search *search)
{
    const struct hx_graph *graph = search->graph;
    const struct hx_spanning *tree = search->tree;
    const hx_eidx n = graph->n_edges;
    hx_obj object = 0;
    for (hx_eidx start = 0; start < n; start += BLOCK) {
        hx_progress_at(search->progress, "sort edges", start, n);
        if (hx_progress_cancelled(search->progress))
            return false;
        hx_eidx end = n - start < BLOCK ? n : start + BLOCK;
        for (hx_eidx e = start; e < end; e++) {
            hx_eidx soon = e + AHEAD < n ? e + AHEAD : e,
                    later = soon + AHEAD < n ? soon + AHEAD : e;
            __builtin_prefetch(&tree->number[hx_edge_target(graph->edge[later])]);
            hx_node coming = tree->number[hx_edge_target(graph->edge[soon])];
            __builtin_prefetch(&tree->first[(size_t)coming + 1], 1);
            while (graph->fwd[(size_t)object + 1] <= e)
                object++;
            if (tree->number[object] && spanning_follows(search, hx_edge_kind_of(graph->edge[e])))
                put_late_edge(search, tree->number[object],
                              tree->number[hx_edge_target(graph->edge[e])]);
        }
    }
    return true;
}

/* Counting sort: first[w + 2] holds the count of w's late edges, then first[w + 1] is where the
 * next one goes and so ends as the first place of w + 1. */
static hx_error *sort_late(const struct search *search)
{
    struct hx_spanning *tree = search->tree;
    for (size_t i = 2; i < (size_t)tree->n + 2; i++)
        tree->first[i] += tree->first[i - 1];
    HX_TRY(hx_big_array(tree->late, tree->first[(size_t)tree->n + 1]));
    put_late_root_edges(search);
    return put_late_object_edges(search) ? NULL : hx_error_cancelled("search for dominators");
}

static hx_error *find_spanning_tree(struct search *search)
{
    struct hx_spanning *tree = search->tree;
    size_t objects = search->graph->n, roots = search->snapshot->roots.n;
    if (objects + roots >= (hx_node)-1)
        return hx_error_new(HX_E_FAIL, "dominators", NULL, "too many objects and roots");
    size_t nodes = objects + roots + 1; /* at most; what is not needed is not touched */
    HX_TRY(hx_big_array(tree->number, objects));
    HX_TRY(hx_big_array(tree->vertex, nodes));
    HX_TRY(hx_big_array(tree->is_root, nodes / 64 + 1));
    HX_TRY(hx_big_array(tree->parent, nodes));
    HX_TRY(hx_big_array(tree->low, nodes));
    HX_TRY(hx_big_array(tree->first, nodes + 2));
    HX_TRY(hx_big_array(tree->pair, nodes));
    search->stack = tree->pair;
    if (!number_in_preorder(search))
        return hx_error_cancelled("search for dominators");
    hx_big_discard(&tree->pair_mem, 0, tree->pair_mem.bytes);
    hx_error *err = sort_late(search);
    hx_big_array_free(tree->number);
    return err;
}

hx_error *hx_spanning_find(const struct hx_snapshot *snapshot, unsigned follows,
                           const struct hx_progress *progress, struct hx_spanning *ret)
{
    *ret = (struct hx_spanning){0};
    struct search search = {.snapshot = snapshot,
                            .graph = &snapshot->graph,
                            .progress = progress,
                            .tree = ret,
                            .follows = follows};
    hx_error *err = find_spanning_tree(&search);
    if (err)
        hx_spanning_deinit(ret);
    return err;
}

void hx_spanning_deinit(struct hx_spanning *tree)
{
    hx_big_free(&tree->number_mem);
    hx_big_free(&tree->vertex_mem);
    hx_big_free(&tree->is_root_mem);
    hx_big_free(&tree->parent_mem);
    hx_big_free(&tree->low_mem);
    hx_big_free(&tree->first_mem);
    hx_big_free(&tree->late_mem);
    hx_big_free(&tree->pair_mem);
    *tree = (struct hx_spanning){0};
}
