/* chains.c - one search, breadth first, that begins anew for what is left. */
#include "traverse/hold/chains.h"

#include "traverse/ahead.h"

#define CHECK_MASK 0xffff /* every so many objects + 1 */
#define AHEAD      16     /* edges */

struct search {
    const struct hx_graph *graph;
    const uint32_t *holder;
    const struct hx_progress *progress;
    hx_obj *parent; /* itself: nobody came yet */
    hx_obj *queue;
    hx_obj n, done; /* of the queue */
    struct hx_big parent_mem, queue_mem;
};

static inline void come_to(struct search *search, hx_obj object, hx_obj from)
{
    if (search->parent[object] != object)
        return;
    search->parent[object] = from;
    search->queue[search->n++] = object;
}

static hx_error *run_search(struct search *search)
{
    const struct hx_graph *graph = search->graph;
    for (; search->done < search->n; search->done++) {
        hx_obj object = search->queue[search->done];
        hx_look_ahead(graph, search->queue, search->done, search->n, search->holder,
                      sizeof *search->holder, search->parent, sizeof *search->parent);
        for (hx_eidx e = graph->fwd[object]; e < graph->fwd[object + 1]; e++) {
            hx_obj target = hx_edge_target(graph->edge[e]);
            hx_look_at_once(graph, target, search->n - search->done);
            if (hx_edge_kind_of(graph->edge[e]) != HX_EDGE_ASIDE &&
                search->holder[target] == search->holder[object])
                come_to(search, target, object);
        }
        if ((search->done & CHECK_MASK) != CHECK_MASK)
            continue;
        hx_progress_at(search->progress, "holders", search->done, graph->n);
        if (hx_progress_cancelled(search->progress))
            return hx_error_cancelled("tree of objects");
    }
    return NULL;
}

static hx_error *search_from_roots(struct search *search, const struct hx_snapshot *snapshot,
                                   const uint32_t *holder_of_root)
{
    for (size_t i = 0; i < snapshot->root_edges.n; i++) {
        const struct hx_root_edge *edge = &snapshot->root_edges.v[i];
        uint32_t holder = holder_of_root[edge->root];
        if (edge->kind != HX_EDGE_ASIDE && holder != HX_CHAINS_NOBODY &&
            holder == search->holder[edge->target])
            come_to(search, edge->target, HX_NO_OBJ);
    }
    return run_search(search);
}

static hx_error *search_from_others(struct search *search)
{
    const struct hx_graph *graph = search->graph;
    for (hx_obj i = 0; i < graph->n && search->n < graph->n; i++) {
        if (graph->state && graph->state[i] == HX_STATE_DEFINITE)
            come_to(search, i, HX_NO_OBJ);
        for (hx_eidx e = graph->fwd[i]; e < graph->fwd[i + 1]; e++) {
            hx_obj target = hx_edge_target(graph->edge[e]);
            if (e + AHEAD < graph->n_edges)
                __builtin_prefetch(&search->holder[hx_edge_target(graph->edge[e + AHEAD])]);
            if (hx_edge_kind_of(graph->edge[e]) != HX_EDGE_ASIDE &&
                search->holder[target] != search->holder[i])
                come_to(search, target, HX_NO_OBJ);
        }
    }
    return run_search(search);
}

static hx_error *search_all(struct search *search, const struct hx_snapshot *snapshot,
                            const uint32_t *holder_of_root)
{
    const hx_obj n = search->graph->n;
    HX_TRY(hx_big_array(search->parent, n));
    HX_TRY(hx_big_array(search->queue, n));
    for (hx_obj i = 0; i < n; i++)
        search->parent[i] = i;
    HX_TRY(search_from_roots(search, snapshot, holder_of_root));
    HX_TRY(search_from_others(search));
    for (hx_obj i = 0; i < n && search->n < n; i++) {
        come_to(search, i, HX_NO_OBJ);
        HX_TRY(run_search(search));
    }
    return NULL;
}

hx_error *hx_chains_find(const struct hx_snapshot *snapshot, const uint32_t *holder,
                         const uint32_t *holder_of_root, const struct hx_progress *progress,
                         struct hx_big *ret_parent, struct hx_big *ret_order)
{
    struct search search = {.graph = &snapshot->graph, .holder = holder, .progress = progress};
    hx_error *err = search_all(&search, snapshot, holder_of_root);
    if (err) {
        hx_big_free(&search.queue_mem);
        hx_big_free(&search.parent_mem);
        return err;
    }
    *ret_parent = search.parent_mem;
    *ret_order = search.queue_mem;
    return NULL;
}
