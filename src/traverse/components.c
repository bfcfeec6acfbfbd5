/* components.c - strongly connected components: what is in no cycle, then the rest. */
#include "traverse/components.h"

#include "base/prefetch.h"
#include "traverse/subgraph.h"

#define CHECK_MASK 0x3fff /* every so many objects + 1 */
#define FEW_EDGES  16     /* of an object with so few all targets are prefetched */
#define MANY_IN    ((hx_obj)(HX_NO_OBJ - 1)) /* so many edges lead to an object, or more */

/* How many objects, or edges, ahead each level of the data is fetched: where an object's edges
 * lie, the edges, the numbers of their targets. */
enum { AHEAD_RANGE = 48, AHEAD_EDGES = 32, AHEAD_TARGETS = 16 };

/* An object on the path of the search. Out-degrees are at most HX_EDGE_OFFSET_MAX + 1,
 * as no two edges of an object share an offset. */
struct frame {
    hx_obj object;
    uint32_t next : 31; /* edge to look at, counted from fwd[object] */
    uint32_t root : 1;  /* no edge so far led below the object's own index */
};

/* While what is in no cycle is taken away, `number` of an object in scope is how many edges lead to
 * it from others; when there are none left, its component. */
struct search {
    const struct hx_graph *graph;
    const struct hx_scope *scope;
    const struct hx_progress *progress;
    uint64_t visited;
    hx_obj *number; /* for each object; HX_NO_OBJ: not in scope */
    hx_obj *order;  /* from its beginning what is in no cycle, from its end the rest */
    hx_obj n_objects, n_peeled;
    uint64_t *peeled; /* bit for each object */
    struct hx_big peeled_mem;
};

/* The search of the rest. `number` is 0, then a visit index, then a component, these numbered
 * downwards from the number of objects, so that every number of a component is above every visit
 * index, and one that was closed later, which is nearer to the sources, has a lower number. */
struct descent {
    struct search *search;
    struct hx_subgraph subgraph;
    const struct hx_graph *graph; /* the part's, as are all indexes of objects */
    const uint64_t *cut;
    hx_obj *number; /* for each object; when the part is the whole graph, that of the search */
    hx_obj *order;  /* its end; room for the objects in front of it */
    struct frame *path;
    hx_obj *open; /* finished objects whose component is not */
    size_t n_path, n_open;
    hx_obj index, component; /* the next ones to give */
    struct hx_big number_mem, path_mem, open_mem;
};

static inline bool component_follows(const struct search *search, hx_edge edge)
{
    return search->scope->follows >> hx_edge_kind_of(edge) & 1;
}

static bool report_components(struct search *search)
{
    if (++search->visited & CHECK_MASK)
        return true;
    hx_progress_at(search->progress, "components", search->visited, search->n_objects);
    return !hx_progress_cancelled(search->progress);
}

/* --- what is in no cycle ---------------------------------------------------------- */

/* An object in no cycle, and below none, is numbered once all that lead to it are. */
static void count_sources(const struct search *search)
{
    const struct hx_graph *graph = search->graph;
    hx_obj *number = search->number;
    for (hx_obj i = 0; i < graph->n; i++) {
        if (number[i] == HX_NO_OBJ || hx_scope_cuts(search->scope, i))
            continue;
        for (hx_eidx e = graph->fwd[i]; e < graph->fwd[i + 1]; e++) {
            hx_eidx soon = e + AHEAD_EDGES < graph->n_edges ? e + AHEAD_EDGES : e;
            __builtin_prefetch(&number[hx_edge_target(graph->edge[soon])], 1);
            hx_obj target = hx_edge_target(graph->edge[e]);
            if (number[target] < MANY_IN && target != i &&
                component_follows(search, graph->edge[e]))
                number[target]++;
        }
    }
}

HX_PREFETCHES void prefetch_object(const struct search *search, hx_obj k, hx_obj waiting)
{
    const struct hx_graph *graph = search->graph;
    const hx_obj *order = search->order + k;
    if (waiting > AHEAD_RANGE)
        __builtin_prefetch(&graph->fwd[order[AHEAD_RANGE]]);
    if (waiting > AHEAD_EDGES)
        __builtin_prefetch(&graph->edge[graph->fwd[order[AHEAD_EDGES]]]);
    if (waiting <= AHEAD_TARGETS)
        return;
    hx_obj object = order[AHEAD_TARGETS];
    hx_eidx from = graph->fwd[object], to = graph->fwd[object + 1];
    for (hx_eidx e = from; e < to && e < from + FEW_EDGES; e++)
        __builtin_prefetch(&search->number[hx_edge_target(graph->edge[e])], 1);
}

/* Objects of no cycle are components of their own, in this order. */
static inline void peel_object(struct search *search, hx_obj object, hx_obj k)
{
    search->order[k] = object;
    search->number[object] = k;
    hx_bit_set(search->peeled, object);
}

/* The order is also the queue of those whose edges are to be taken away. */
static bool peel_acyclic(struct search *search)
{
    const struct hx_graph *graph = search->graph;
    hx_obj *number = search->number, n = 0;
    for (hx_obj i = 0; i < graph->n; i++)
        if (number[i] == 0)
            peel_object(search, i, n++);
    for (hx_obj k = 0; k < n; k++) {
        hx_obj object = search->order[k];
        prefetch_object(search, k, n - k);
        if (!report_components(search))
            return false;
        if (hx_scope_cuts(search->scope, object))
            continue;
        hx_eidx to = graph->fwd[object + 1];
        for (hx_eidx e = graph->fwd[object]; e < to; e++) {
            hx_obj target = hx_edge_target(graph->edge[e]);
            if (to - e > FEW_EDGES)
                __builtin_prefetch(&number[hx_edge_target(graph->edge[e + FEW_EDGES])], 1);
            if (number[target] < MANY_IN && target != object &&
                component_follows(search, graph->edge[e]) && --number[target] == 0)
                peel_object(search, target, n++);
        }
    }
    search->n_peeled = n;
    return true;
}

/* --- the rest --------------------------------------------------------------------- */

HX_PREFETCHES void prefetch_targets(const struct descent *descent, hx_eidx from, hx_eidx to)
{
    const struct hx_graph *graph = descent->graph;
    for (hx_eidx e = from; e < to && e < from + FEW_EDGES; e++) {
        hx_obj target = hx_edge_target(graph->edge[e]);
        __builtin_prefetch(&descent->number[target], 1);
        __builtin_prefetch(&graph->fwd[target]);
    }
}

static inline void close_object(struct descent *descent, hx_obj object)
{
    descent->number[object] = descent->component;
    *--descent->order = object;
}

static inline void enter_object(struct descent *descent, hx_obj object)
{
    const struct hx_graph *graph = descent->graph;
    hx_eidx from = graph->fwd[object], to = graph->fwd[object + 1];
    if (from == to || (descent->cut && hx_bit(descent->cut, object))) {
        close_object(descent, object);
        descent->component--;
        return;
    }
    descent->number[object] = descent->index++;
    descent->path[descent->n_path++] = (struct frame){.object = object, .root = 1};
    prefetch_targets(descent, from, to);
}

/* The object's edges are done: closes its component or leaves it open. */
static inline void leave_object(struct descent *descent)
{
    struct frame frame = descent->path[--descent->n_path];
    hx_obj *number = descent->number;
    if (frame.root) {
        descent->index--;
        while (descent->n_open &&
               number[frame.object] <= number[descent->open[descent->n_open - 1]]) {
            close_object(descent, descent->open[--descent->n_open]);
            descent->index--;
        }
        close_object(descent, frame.object);
        descent->component--;
        return;
    }
    descent->open[descent->n_open++] = frame.object;
    struct frame *parent = &descent->path[descent->n_path - 1];
    if (number[frame.object] < number[parent->object]) {
        number[parent->object] = number[frame.object];
        parent->root = 0;
    }
}

/* Follows the top object's edges to the next unseen one; false when there is none. */
static inline bool advance_descent(struct descent *descent)
{
    struct frame *top = &descent->path[descent->n_path - 1];
    const struct hx_graph *graph = descent->graph;
    hx_obj *number = descent->number;
    hx_eidx e = graph->fwd[top->object] + top->next, to = graph->fwd[top->object + 1];
    while (e < to) {
        hx_edge edge = graph->edge[e++];
        hx_obj target = hx_edge_target(edge);
        if (!component_follows(descent->search, edge) || number[target] > descent->component)
            continue;
        if (number[target] == 0) {
            top->next = (uint32_t)(e - graph->fwd[top->object]) & 0x7fffffff;
            if (e < to)
                __builtin_prefetch(&graph->edge[graph->fwd[hx_edge_target(graph->edge[e])]]);
            enter_object(descent, target);
            return true;
        }
        if (number[target] < number[top->object]) {
            number[top->object] = number[target];
            top->root = 0;
        }
    }
    return false;
}

static bool descend_component(struct descent *descent)
{
    const struct hx_subgraph *subgraph = &descent->subgraph;
    for (hx_obj start = 0; start < subgraph->graph.n; start++) {
        if (descent->number[start] || (subgraph->whole && !hx_bit(subgraph->bits, start)))
            continue;
        enter_object(descent, start);
        while (descent->n_path) {
            if (advance_descent(descent))
                continue;
            leave_object(descent);
            if (!report_components(descent->search))
                return false;
        }
    }
    return true;
}

/* Makes a bit for each object of the rest out of those for the others. */
static const uint64_t *mark_rest(const struct search *search)
{
    const hx_obj *number = search->number;
    for (hx_obj i = 0; i < search->graph->n; i++)
        if (number[i] != HX_NO_OBJ)
            search->peeled[i >> 6] ^= (uint64_t)1 << (i & 63);
    return search->peeled;
}

static hx_error *begin_descent(struct descent *descent, const uint64_t *rest, hx_obj n)
{
    const struct search *search = descent->search;
    const struct hx_scope *scope = search->scope;
    struct hx_subgraph *subgraph = &descent->subgraph;
    HX_TRY(hx_subgraph_make(search->graph, rest, scope->follows, scope->cut, subgraph));
    HX_TRY(hx_big_array(descent->path, n));
    HX_TRY(hx_big_array(descent->open, n));
    descent->graph = &subgraph->graph;
    descent->order = search->order + search->n_objects;
    descent->index = 1;
    descent->component = n;
    if (subgraph->whole) {
        descent->cut = scope->cut;
        descent->number = search->number;
        for (hx_obj i = 0; i < subgraph->graph.n; i++)
            if (hx_bit(rest, i))
                search->number[i] = 0;
        return NULL;
    }
    return hx_big_array(descent->number, n);
}

static hx_error *descend_and_number(struct descent *descent, hx_obj *ret_components)
{
    const struct search *search = descent->search;
    const struct hx_subgraph *subgraph = &descent->subgraph;
    const hx_obj n = search->n_objects - search->n_peeled;
    HX_TRY(begin_descent(descent, mark_rest(search), n));
    if (!descend_component(descent))
        return hx_error_cancelled("search for components");
    /* To sources first, behind what is in no cycle. */
    for (hx_obj i = 0; i < subgraph->graph.n; i++)
        if (!subgraph->whole || hx_bit(subgraph->bits, i))
            search->number[hx_subgraph_object(subgraph, i)] =
                search->n_peeled + (descent->number[i] - descent->component - 1);
    for (hx_obj k = 0; k < n; k++)
        descent->order[k] = hx_subgraph_object(subgraph, descent->order[k]);
    *ret_components = search->n_peeled + (n - descent->component);
    return NULL;
}

static hx_error *find_rest(struct search *search, hx_obj *ret_components)
{
    struct descent descent = {.search = search};
    hx_error *err = descend_and_number(&descent, ret_components);
    hx_subgraph_deinit(&descent.subgraph);
    hx_big_free(&descent.number_mem);
    hx_big_free(&descent.path_mem);
    hx_big_free(&descent.open_mem);
    return err;
}

static hx_error *find_components(struct search *search, struct hx_components *components)
{
    const struct hx_graph *graph = search->graph;
    hx_obj n = 0;
    for (hx_obj i = 0; i < graph->n; i++)
        n += hx_scope_has(search->scope, graph, i);
    if (!n)
        return NULL;
    search->n_objects = components->n_objects = n;
    HX_TRY(hx_big_array(components->number, graph->n));
    HX_TRY(hx_big_array(components->order, n));
    HX_TRY(hx_big_array(search->peeled, graph->n / 64 + 1));
    search->number = components->number;
    search->order = components->order;
    for (hx_obj i = 0; i < graph->n; i++)
        search->number[i] = hx_scope_has(search->scope, graph, i) ? 0 : HX_NO_OBJ;
    count_sources(search);
    if (!peel_acyclic(search))
        return hx_error_cancelled("search for components");
    components->n = search->n_peeled;
    return search->n_peeled < n ? find_rest(search, &components->n) : NULL;
}

hx_error *hx_components_find(const struct hx_graph *graph, const struct hx_scope *scope,
                             const struct hx_progress *progress, struct hx_components *ret)
{
    struct search search = {.graph = graph, .scope = scope, .progress = progress};
    *ret = (struct hx_components){0};
    hx_error *err = find_components(&search, ret);
    hx_big_free(&search.peeled_mem);
    if (err)
        hx_components_deinit(ret);
    return err;
}

void hx_components_deinit(struct hx_components *components)
{
    hx_big_free(&components->number_mem);
    hx_big_free(&components->order_mem);
    *components = (struct hx_components){0};
}
