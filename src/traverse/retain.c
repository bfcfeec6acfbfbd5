/* retain.c - retainer sets over the condensed graph. */
#include "traverse/retain.h"

#include "traverse/components.h"

#include <stdlib.h>

#define CHECK_MASK 0x3fff /* progress every so many objects + 1 */
#define FEW_EDGES  8      /* of an object with so few all targets are prefetched */

/* How many objects ahead each level of the data is fetched: where an object's edges lie, the
 * edges, the components of their targets, the sets of those. */
enum { AHEAD_PLACE = 48, AHEAD_EDGES = 36, AHEAD_NUMBERS = 24, AHEAD_SETS = 12 };

struct flow {
    const struct hx_snapshot *snapshot;
    const struct hx_graph *graph;
    const struct hx_retain_rule *rule;
    const struct hx_progress *progress;
    struct hx_scope scope;
    struct hx_components components;
    hx_sets *sets;
    hx_set *set_of; /* for each component */
    uint64_t visits;
    struct hx_big cut_mem, set_mem;
};

static inline bool follows(const struct flow *flow, unsigned kind)
{
    return flow->scope.follows >> kind & 1;
}

static void choose_scope(struct flow *flow)
{
    unsigned strong = 1u << HX_EDGE_START | 1u << HX_EDGE_KNOWN;
    bool plain = flow->snapshot->interior != HX_INTERIOR_OFF;
    flow->scope.states = 1u << HX_STATE_REACHABLE | 1u << HX_STATE_POSSIBLE;
    if (flow->rule->everything)
        flow->scope.states = (1u << HX_STATES) - 1;
    flow->scope.follows = plain ? strong | 1u << HX_EDGE_INTERIOR : strong;
}

/* A bit for each object that is a retainer. */
static hx_error *cut_retainers(struct flow *flow)
{
    if (!flow->rule->of_object)
        return NULL;
    HX_TRY(hx_big_reserve(&flow->cut_mem, (size_t)flow->graph->n / 8 + 8));
    uint64_t *cut = flow->cut_mem.base;
    for (hx_obj i = 0; i < flow->graph->n; i++)
        if (flow->rule->of_object[i] != HX_NO_RETAINER)
            cut[i >> 6] |= (uint64_t)1 << (i & 63);
    flow->scope.cut = cut;
    return NULL;
}

static inline void seed(struct flow *flow, hx_obj target, unsigned kind, hx_retainer retainer)
{
    hx_obj number = flow->components.number[target];
    if (!follows(flow, kind) || number == HX_NO_OBJ)
        return;
    flow->visits++;
    flow->set_of[number] = hx_sets_add(flow->sets, flow->set_of[number], retainer);
}

static void seed_from_roots(struct flow *flow)
{
    const struct hx_root_edge *edge = flow->snapshot->root_edges.v;
    const struct hx_retain_rule *rule = flow->rule;
    for (size_t i = 0; rule->of_root && i < flow->snapshot->root_edges.n; i++)
        if (rule->of_root[edge[i].root] != HX_NO_RETAINER)
            seed(flow, edge[i].target, edge[i].kind, rule->of_root[edge[i].root]);
    for (size_t k = 0; k < rule->n_seeds; k++)
        for (size_t i = rule->seed[k].from; i < rule->seed[k].to; i++)
            seed(flow, edge[i].target, edge[i].kind, rule->seed[k].retainer);
}

static void seed_from_retainers(struct flow *flow)
{
    const struct hx_graph *graph = flow->graph;
    for (hx_obj i = 0; flow->scope.cut && i < graph->n; i++) {
        if (!hx_scope_cuts(&flow->scope, i) || !hx_scope_has(&flow->scope, graph, i))
            continue;
        for (hx_eidx e = graph->fwd[i]; e < graph->fwd[i + 1]; e++)
            seed(flow, hx_edge_target(graph->edge[e]), hx_edge_kind_of(graph->edge[e]),
                 flow->rule->of_object[i]);
    }
}

/* Fetches what the walk will need when it has come to the k-th object. */
static inline void fetch_ahead(const struct flow *flow, hx_obj k)
{
    const struct hx_graph *graph = flow->graph;
    const hx_obj *order = flow->components.order, n = flow->components.n_objects;
    if (n - k > AHEAD_PLACE)
        __builtin_prefetch(&graph->fwd[order[k + AHEAD_PLACE]]);
    if (n - k > AHEAD_EDGES)
        __builtin_prefetch(&graph->edge[graph->fwd[order[k + AHEAD_EDGES]]]);
    if (n - k > AHEAD_NUMBERS) {
        hx_obj object = order[k + AHEAD_NUMBERS];
        hx_eidx from = graph->fwd[object], to = graph->fwd[object + 1];
        for (hx_eidx e = from; e < to && e < from + FEW_EDGES; e++)
            __builtin_prefetch(&flow->components.number[hx_edge_target(graph->edge[e])]);
    }
    if (n - k > AHEAD_SETS) {
        hx_obj object = order[k + AHEAD_SETS];
        hx_eidx from = graph->fwd[object], to = graph->fwd[object + 1];
        for (hx_eidx e = from; e < to && e < from + FEW_EDGES; e++) {
            hx_obj number = flow->components.number[hx_edge_target(graph->edge[e])];
            if (number != HX_NO_OBJ)
                __builtin_prefetch(&flow->set_of[number], 1);
        }
    }
}

/* Every component has its whole set when the walk comes to it: all that lead to it came before. */
static hx_error *spread(struct flow *flow)
{
    const struct hx_graph *graph = flow->graph;
    const struct hx_components *components = &flow->components;
    for (hx_obj k = 0; k < components->n_objects; k++) {
        hx_obj object = components->order[k], from = components->number[object];
        fetch_ahead(flow, k);
        if ((k & CHECK_MASK) == CHECK_MASK) {
            hx_progress_at(flow->progress, "retainer sets", k, components->n_objects);
            if (hx_progress_cancelled(flow->progress))
                return hx_error_cancelled("retainer sets");
        }
        if (hx_scope_cuts(&flow->scope, object))
            continue;
        hx_set set = flow->set_of[from];
        for (hx_eidx e = graph->fwd[object]; e < graph->fwd[object + 1]; e++) {
            hx_obj to = components->number[hx_edge_target(graph->edge[e])];
            if (!follows(flow, hx_edge_kind_of(graph->edge[e])) || to == HX_NO_OBJ)
                continue;
            flow->visits++;
            if (to != from)
                flow->set_of[to] = hx_sets_union(flow->sets, flow->set_of[to], set);
        }
    }
    return NULL;
}

static hx_error *give_sets(struct flow *flow, struct hx_retention *ret)
{
    const struct hx_graph *graph = flow->graph;
    struct hx_retention retention = {.visits = flow->visits, .objects = flow->components.n_objects};
    HX_TRY(hx_big_reserve(&retention.set_mem, (size_t)graph->n * sizeof *retention.set));
    retention.set = retention.set_mem.base;
    const hx_obj *order = flow->components.order;
    for (hx_obj k = 0; k < flow->components.n_objects; k++)
        retention.set[order[k]] = flow->set_of[flow->components.number[order[k]]];
    *ret = retention;
    return NULL;
}

static hx_error *run(struct flow *flow, struct hx_retention *ret)
{
    choose_scope(flow);
    HX_TRY(cut_retainers(flow));
    HX_TRY(hx_components_find(flow->graph, &flow->scope, flow->progress, &flow->components));
    HX_TRY(hx_big_reserve(&flow->set_mem, (size_t)flow->components.n * sizeof *flow->set_of));
    flow->set_of = flow->set_mem.base;
    if (flow->components.n) {
        seed_from_roots(flow);
        seed_from_retainers(flow);
        HX_TRY(spread(flow));
    }
    if (hx_sets_failed(flow->sets))
        return hx_error_nomem();
    return give_sets(flow, ret);
}

hx_error *hx_retain(const struct hx_snapshot *snapshot, const struct hx_retain_rule *rule,
                    hx_sets *sets, const struct hx_progress *progress, struct hx_retention *ret)
{
    struct flow flow = {.snapshot = snapshot,
                        .graph = &snapshot->graph,
                        .rule = rule,
                        .progress = progress,
                        .sets = sets};
    hx_error *err = run(&flow, ret);
    hx_components_deinit(&flow.components);
    hx_big_free(&flow.cut_mem);
    hx_big_free(&flow.set_mem);
    return err;
}

void hx_retention_deinit(struct hx_retention *retention)
{
    hx_big_free(&retention->set_mem);
    *retention = (struct hx_retention){0};
}
