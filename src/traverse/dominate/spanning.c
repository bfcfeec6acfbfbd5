/* spanning.c - the depth-first search.
 *
 * It goes where the next edge leads, so that little can be read far ahead. So what it asks of an
 * object stands in one place, and those of all targets are fetched when it comes to their source.
 */
#include "traverse/dominate/spanning.h"

#include "base/prefetch.h"

#define CHECK_MASK 0xffff /* every so many nodes, or objects, + 1 */
#define FEW_EDGES  16     /* of an object with so few all targets are prefetched */

/* Edges of an object differ in their offsets (hx_edge), so that MORE_BITS are enough. */
enum { EDGE_BITS = 34, MORE_BITS = 30 };

struct place {
    hx_node number; /* 0: not reached */
    hx_node first; /* target of the first edge that is followed; the object itself: there is none */
    uint64_t next : EDGE_BITS, more : MORE_BITS; /* the edges behind that one */
};
_Static_assert(sizeof(struct place) == HX_NODE_ROOM, "room for nodes");

/* A node, and those of its edges that are still to be seen. */
struct frame {
    hx_node node;
    uint32_t left;
    hx_eidx next;
};

struct search {
    const struct hx_snapshot *snapshot;
    const struct hx_graph *graph;
    const struct hx_progress *progress;
    struct hx_spanning *tree;
    unsigned follows;
    hx_node next; /* number to give */
    hx_eidx n_late;
    struct place *place; /* of each object */
    struct frame *stack;
    size_t depth;
    struct hx_big place_mem, stack_mem;
};

static inline bool spanning_follows(const struct search *search, unsigned kind)
{
    return search->follows >> kind & 1;
}

/* --- places ---------------------------------------------------------------------- */

static bool make_places(const struct search *search)
{
    const struct hx_graph *graph = search->graph;
    for (size_t i = 0; i < graph->n; i++) {
        struct place *place = &search->place[i];
        hx_eidx e = graph->fwd[i], end = graph->fwd[i + 1];
        while (e < end && !spanning_follows(search, hx_edge_kind_of(graph->edge[e])))
            e++;
        place->first = e < end ? hx_edge_target(graph->edge[e++]) : (hx_obj)i;
        place->next = e;
        place->more = end - e;
        if ((i & CHECK_MASK) == 0 && hx_progress_cancelled(search->progress))
            return false;
    }
    return true;
}

/* --- the search ------------------------------------------------------------------ */

static inline hx_node add_tree_node(struct search *search, hx_node vertex, hx_node parent)
{
    struct hx_spanning *tree = search->tree;
    hx_node node = search->next++;
    tree->vertex[node] = vertex;
    tree->parent[node] = tree->low[node] = parent;
    return node;
}

/* An edge from `source`, whose edges are being seen, to a node that has its number. */
static inline void add_other_edge(struct search *search, hx_node source, hx_node node)
{
    struct hx_spanning *tree = search->tree;
    if (node < source) {
        tree->late[++search->n_late] = (struct hx_late_edge){tree->late_of[node], source};
        tree->late_of[node] = search->n_late;
    } else if (source < tree->low[node]) {
        tree->low[node] = source;
    }
}

HX_PREFETCHES void prefetch_targets(const struct search *search, hx_eidx e, uint32_t left)
{
    const hx_edge *edge = search->graph->edge + e;
    for (uint32_t i = 0; i < left && i < FEW_EDGES; i++)
        __builtin_prefetch(&search->place[hx_edge_target(edge[i])], 1);
}

/* What will be asked of the next target of a node, whose place is there by now. */
HX_PREFETCHES void prefetch_beyond(const struct search *search, hx_eidx e)
{
    const struct place *place = &search->place[hx_edge_target(search->graph->edge[e])];
    __builtin_prefetch(&search->place[place->first], 1);
    __builtin_prefetch(&search->graph->edge[place->next]);
}

static bool report_search(const struct search *search)
{
    if (search->next & CHECK_MASK)
        return true;
    hx_progress_at(search->progress, "number objects", search->next,
                   search->graph->n + search->snapshot->roots.n);
    return !hx_progress_cancelled(search->progress);
}

/* Numbers what `object` reaches. A node whose last edge leads down is not come back to. */
static bool descend_from(struct search *search, hx_node object, hx_node parent)
{
    const hx_edge *edge = search->graph->edge;
    struct frame at = {.node = parent};
    for (;;) {
        struct place *place = &search->place[object];
        if (place->number) {
            add_other_edge(search, at.node, place->number);
        } else {
            if (at.left) {
                prefetch_beyond(search, at.next);
                search->stack[search->depth++] = at;
            }
            at.node = place->number = add_tree_node(search, object, at.node);
            at.left = (uint32_t)place->more;
            at.next = place->next;
            prefetch_targets(search, at.next, at.left);
            if (!report_search(search))
                return false;
            object = place->first;
            continue;
        }
        do {
            while (!at.left) {
                if (!search->depth)
                    return true;
                at = search->stack[--search->depth];
            }
            at.left--;
        } while (!spanning_follows(search, hx_edge_kind_of(edge[at.next++])));
        object = hx_edge_target(edge[at.next - 1]);
    }
}

static bool number_in_preorder(struct search *search)
{
    const struct hx_snapshot *snapshot = search->snapshot;
    struct hx_spanning *tree = search->tree;
    search->next = 1;
    hx_node node = 0;
    for (size_t i = 0; i < snapshot->root_edges.n; i++) {
        const struct hx_root_edge *edge = &snapshot->root_edges.v[i];
        if (snapshot->roots.v[edge->root].kind == HX_ROOT_NAMED)
            continue;
        if (!node || tree->vertex[node] != edge->root) {
            node = add_tree_node(search, edge->root, 0);
            hx_bit_set(tree->is_root, node);
        }
        if (spanning_follows(search, edge->kind) && !descend_from(search, edge->target, node))
            return false;
    }
    tree->n = search->next;
    return !hx_progress_cancelled(search->progress);
}

/* --- all of it ------------------------------------------------------------------- */

static void keep_numbers(const struct search *search)
{
    for (size_t i = 0; i < search->graph->n; i++)
        search->tree->number[i] = search->place[i].number;
}

static hx_error *find_spanning_tree(struct search *search)
{
    struct hx_spanning *tree = search->tree;
    const struct hx_graph *graph = search->graph;
    size_t objects = graph->n, roots = search->snapshot->roots.n;
    if (objects + roots >= (hx_node)-1 || graph->n_edges >> EDGE_BITS)
        return hx_error_new(HX_E_FAIL, "dominators", NULL, "too many objects, roots or edges");
    size_t nodes = objects + roots + 1; /* at most; what is not needed is not touched */
    HX_TRY(hx_big_array(search->place, nodes));
    HX_TRY(hx_big_array(tree->number, objects));
    HX_TRY(hx_big_array(search->stack, objects));
    HX_TRY(hx_big_array(tree->vertex, nodes));
    HX_TRY(hx_big_array(tree->is_root, nodes / 64 + 1));
    HX_TRY(hx_big_array(tree->parent, nodes));
    HX_TRY(hx_big_array(tree->low, nodes));
    HX_TRY(hx_big_array(tree->late_of, nodes));
    HX_TRY(hx_big_array(tree->late, graph->n_edges + search->snapshot->root_edges.n + 1));
    if (!make_places(search) || !number_in_preorder(search))
        return hx_error_cancelled("search for dominators");
    keep_numbers(search);
    tree->room = search->place_mem;
    search->place_mem = (struct hx_big){0};
    return NULL;
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
    hx_big_free(&search.place_mem);
    hx_big_free(&search.stack_mem);
    if (err)
        hx_spanning_deinit(ret);
    return err;
}

void hx_spanning_deinit(struct hx_spanning *tree)
{
    hx_big_free(&tree->room);
    hx_big_free(&tree->number_mem);
    hx_big_free(&tree->vertex_mem);
    hx_big_free(&tree->is_root_mem);
    hx_big_free(&tree->parent_mem);
    hx_big_free(&tree->low_mem);
    hx_big_free(&tree->late_of_mem);
    hx_big_free(&tree->late_mem);
    *tree = (struct hx_spanning){0};
}
