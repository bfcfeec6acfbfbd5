/* retain.c - retainer sets: a flood of sets, and components where it does not settle.
 *
 * Sets flow breadth first from what roots and retainers point to (flood.h). Where all ways to an
 * object bring the same set, which is so for most of a heap, one visit is all that it takes. Where
 * another set comes, the object is unsettled. All that unsettled objects lead to is then condensed,
 * and gets its sets over the components in topological order; what leads into that part from
 * outside has its whole set by then.
 *
 * Nobody has to look at the states of targets: what a root or a reachable object leads to by an
 * edge that is followed is reachable or possible.
 */
#include "traverse/retain/retain.h"

#include "base/bits.h"
#include "base/parallel.h"
#include "base/prefetch.h"
#include "traverse/components.h"
#include "traverse/retain/flood.h"
#include "traverse/retain/set_union.h"
#include "traverse/subgraph.h"

#include <stdlib.h>
#include <string.h>

#define CHECK_MASK  0xffff /* progress every so many objects + 1 */
#define FEW_EDGES   16     /* of an object with so few all targets are prefetched */
#define FEW_OBJECTS 20000  /* below this a second thread costs more than it brings */

/* Contributions that a worker remembers, workers, and objects looked at before contributions are
 * handed over. */
enum { CONTRIBUTIONS = 256, CONTRIBUTORS = 16, CONTRIBUTION_BLOCK = 1 << 20 };

/* How many objects ahead each level of the data is fetched: where an object's edges lie, the
 * edges, the components of their targets. */
enum { AHEAD_RANGE = 48, AHEAD_EDGES = 32, AHEAD_TARGETS = 16 };

/* Invariant, from the flood on: what a settled object leads to has the same set, or is unsettled.
 */
struct flow {
    const struct hx_snapshot *snapshot;
    const struct hx_graph *graph;
    const struct hx_retain_rule *rule;
    const struct hx_progress *progress;
    unsigned follows;    /* bit for each enum hx_edge_kind */
    const uint64_t *cut; /* bit for each object: it is a retainer; NULL: none is */
    hx_sets *sets;
    hx_set *set; /* for each object */
    hx_obj *queue;
    size_t head, tail;
    uint64_t *unsettled; /* a bit for each object */
    bool any_unsettled;
    uint64_t visits;
    struct hx_big set_mem, queue_mem, unsettled_mem, cut_mem;
    struct widening *widening; /* only where edges that were set aside are followed, too */

    struct hx_set_unions unions; /* of sets of objects, then of components */

    /* the unsettled part */
    struct hx_subgraph subgraph;
    struct hx_components components; /* of it */
    hx_set *component_set;           /* for each component */
    struct hx_big component_set_mem;
};

static inline bool is_cut(const struct flow *flow, hx_obj object)
{
    return flow->cut && hx_bit(flow->cut, object);
}

static inline bool flow_follows(const struct flow *flow, const struct hx_graph *graph, hx_eidx e)
{
    return flow->follows == HX_EDGE_KINDS_ALL || /* then nobody has to look */
           (flow->follows >> hx_edge_kind_over(graph, e, flow->follows) & 1);
}

static hx_error *pause_at(const struct flow *flow, const char *stage, uint64_t done, uint64_t all)
{
    hx_progress_at(flow->progress, stage, done, all);
    return hx_progress_cancelled(flow->progress) ? hx_error_cancelled("retainer sets") : NULL;
}

/* --- where sets begin ------------------------------------------------------------- */

typedef void seed_fn(struct flow *flow, hx_obj target, hx_set set);

static void seed_from_root_edge(struct flow *flow, const struct hx_root_edge *edge,
                                hx_retainer retainer, seed_fn *seed)
{
    unsigned kind = edge->kind;
    if (kind == HX_EDGE_ASIDE && flow->follows >> HX_EDGE_ASIDE & 1)
        kind = HX_EVIDENCE_KIND(edge->evidence);
    if (flow->follows >> kind & 1)
        seed(flow, edge->target, hx_sets_singleton(flow->sets, retainer));
}

static void seed_from_roots(struct flow *flow, seed_fn *seed)
{
    const struct hx_root_edge *edge = flow->snapshot->root_edges.v;
    const struct hx_retain_rule *rule = flow->rule;
    for (size_t i = 0; rule->of_root && i < flow->snapshot->root_edges.n; i++)
        if (rule->of_root[edge[i].root] != HX_NO_RETAINER)
            seed_from_root_edge(flow, &edge[i], rule->of_root[edge[i].root], seed);
    for (size_t k = 0; k < rule->n_seeds; k++)
        for (size_t i = rule->seed[k].from; i < rule->seed[k].to; i++)
            seed_from_root_edge(flow, &edge[i], rule->seed[k].retainer, seed);
}

/* Retainers that are objects. */
static void seed_from_retainers(struct flow *flow, seed_fn *seed)
{
    const struct hx_graph *graph = flow->graph;
    for (hx_obj i = 0; flow->cut && i < graph->n; i++) {
        if (!hx_bit(flow->cut, i))
            continue;
        for (hx_eidx e = graph->fwd[i]; e < graph->fwd[i + 1]; e++)
            if (flow_follows(flow, graph, e))
                seed(flow, hx_edge_target(graph->edge[e]),
                     hx_sets_singleton(flow->sets, flow->rule->of_object[i]));
    }
}

/* Nothing was passed on yet, so that all that comes to an object counts. */
static void seed_object(struct flow *flow, hx_obj object, hx_set set)
{
    flow->visits++;
    if (flow->set[object] == HX_SET_NONE && set != HX_SET_NONE)
        flow->queue[flow->tail++] = object;
    hx_set_union_add(&flow->unions, &flow->set[object], set);
}

/* Objects that no other set comes to are done with this. */
static hx_error *flood_from_seeds(struct flow *flow)
{
    for (size_t i = 0; i < flow->tail; i++)
        hx_set_union_result(&flow->unions, &flow->set[flow->queue[i]]);
    struct hx_flood all = {.graph = flow->graph,
                           .progress = flow->progress,
                           .threads = flow->rule->threads,
                           .follows = flow->follows,
                           .cut = flow->cut,
                           .set = flow->set,
                           .unsettled = flow->unsettled,
                           .seed = flow->queue,
                           .n_seeds = flow->tail};
    hx_error *err = hx_flood(&all);
    flow->visits += all.visits;
    flow->any_unsettled |= all.any_unsettled;
    return err;
}

/* Fetches what will be needed when the walk has come to the objects behind in the queue. */
HX_PREFETCHES void prefetch_flow_queue(const struct flow *flow)
{
    const struct hx_graph *graph = flow->graph;
    const hx_obj *next = flow->queue + flow->head;
    size_t waiting = flow->tail - flow->head;
    if (waiting > AHEAD_RANGE)
        __builtin_prefetch(&graph->fwd[next[AHEAD_RANGE]]);
    if (waiting > AHEAD_EDGES)
        __builtin_prefetch(&graph->edge[graph->fwd[next[AHEAD_EDGES]]]);
}

/* --- what did not settle ---------------------------------------------------------- */

static inline void widen_retainer_set(struct flow *flow, hx_obj object)
{
    if (hx_bit(flow->unsettled, object))
        return;
    hx_bit_set(flow->unsettled, object);
    flow->queue[flow->tail++] = object;
}

/* Unsettled is all that unsettled objects lead to. */
static hx_error *close_unsettled(struct flow *flow)
{
    const struct hx_graph *graph = flow->graph;
    flow->head = flow->tail = 0;
    for (hx_obj i = 0; i < graph->n; i++)
        if (hx_bit(flow->unsettled, i))
            flow->queue[flow->tail++] = i;
    while (flow->head < flow->tail) {
        hx_obj object = flow->queue[flow->head];
        prefetch_flow_queue(flow);
        if ((++flow->head & CHECK_MASK) == 0)
            HX_TRY(pause_at(flow, "retainer sets", flow->head, flow->tail));
        if (is_cut(flow, object))
            continue;
        for (hx_eidx e = graph->fwd[object]; e < graph->fwd[object + 1]; e++)
            if (flow_follows(flow, graph, e))
                widen_retainer_set(flow, hx_edge_target(graph->edge[e]));
    }
    return NULL;
}

static inline hx_obj component_of(const struct flow *flow, hx_obj object)
{
    return flow->components.number[hx_subgraph_index(&flow->subgraph, object)];
}

static void seed_component(struct flow *flow, hx_obj object, hx_set set)
{
    if (hx_bit(flow->unsettled, object))
        hx_set_union_add(&flow->unions, &flow->component_set[component_of(flow, object)], set);
}

/* A set that flows from a settled object into a component. */
struct contribution {
    hx_obj number;
    hx_set set;
};

/* Objects [from, to) are divided among the workers in order. */
struct contribution_pass {
    struct flow *flow;
    hx_obj from, to;
    unsigned threads;
    struct contributor {
        HX_VEC(struct contribution) contributions;
        /* not given again: most of what comes to a large component */
        struct contribution last[CONTRIBUTIONS];
        bool failed;
    } contributor[CONTRIBUTORS];
};

static inline void note_contribution(struct contributor *contributor, hx_obj number, hx_set set)
{
    struct contribution *last = &contributor->last[(number * UINT32_C(31) + set) % CONTRIBUTIONS];
    if (last->number == number && last->set == set)
        return;
    *last = (struct contribution){number, set};
    contributor->failed |= !hx_vec_push(&contributor->contributions, *last);
}

static void find_contributions(void *context, unsigned i)
{
    struct contribution_pass *pass = context;
    const struct flow *flow = pass->flow;
    const struct hx_graph *graph = flow->graph;
    const hx_eidx n_edges = graph->n_edges;
    const uint64_t all = pass->to - pass->from;
    const hx_obj to = (hx_obj)(pass->from + all * (i + 1) / pass->threads);
    for (hx_obj k = (hx_obj)(pass->from + all * i / pass->threads); k < to; k++) {
        if (flow->set[k] == HX_SET_NONE || hx_bit(flow->unsettled, k) || is_cut(flow, k))
            continue;
        for (hx_eidx e = graph->fwd[k]; e < graph->fwd[k + 1]; e++) {
            hx_eidx soon = e + FEW_EDGES < n_edges ? e + FEW_EDGES : e,
                    later = soon + FEW_EDGES < n_edges ? soon + FEW_EDGES : e;
            hx_obj target = hx_edge_target(graph->edge[e]),
                   coming = hx_edge_target(graph->edge[soon]);
            __builtin_prefetch(&flow->unsettled[hx_edge_target(graph->edge[later]) >> 6]);
            if (hx_bit(flow->unsettled, coming))
                __builtin_prefetch(
                    &flow->components.number[hx_subgraph_index(&flow->subgraph, coming)]);
            if (hx_bit(flow->unsettled, target) && flow_follows(flow, graph, e))
                note_contribution(&pass->contributor[i], component_of(flow, target), flow->set[k]);
        }
    }
}

static hx_error *add_contributions(struct contribution_pass *pass)
{
    struct flow *flow = pass->flow;
    for (unsigned i = 0; i < pass->threads; i++) {
        struct contributor *contributor = &pass->contributor[i];
        HX_NEED(!contributor->failed);
        for (size_t k = 0; k < contributor->contributions.n; k++)
            hx_set_union_add(&flow->unions,
                             &flow->component_set[contributor->contributions.v[k].number],
                             contributor->contributions.v[k].set);
        contributor->contributions.n = 0;
    }
    return NULL;
}

/* In the order of the objects, however many threads there are; by blocks, so that the contributions
 * do not take much memory. */
static hx_error *contribute_in_order(struct contribution_pass *pass)
{
    const hx_obj n = pass->flow->graph->n;
    for (unsigned i = 0; i < pass->threads; i++)
        for (size_t k = 0; k < CONTRIBUTIONS; k++)
            pass->contributor[i].last[k].number = HX_NO_OBJ;
    for (hx_obj from = 0; from < n; from = pass->to) {
        pass->from = from;
        pass->to = n - from < CONTRIBUTION_BLOCK ? n : (hx_obj)(from + CONTRIBUTION_BLOCK);
        hx_parallel(pass->threads, find_contributions, pass);
        HX_TRY(add_contributions(pass));
        HX_TRY(pause_at(pass->flow, "retainer sets", from, n));
    }
    return NULL;
}

/* From objects that are settled to those that are not. */
static hx_error *contribute_settled(struct flow *flow)
{
    struct contribution_pass *pass = calloc(1, sizeof *pass);
    HX_NEED(pass);
    unsigned threads = hx_threads(flow->rule->threads);
    pass->flow = flow;
    pass->threads = flow->graph->n < FEW_OBJECTS ? 1
                    : threads < CONTRIBUTORS     ? threads
                                                 : CONTRIBUTORS;
    hx_error *err = contribute_in_order(pass);
    for (unsigned i = 0; i < pass->threads; i++)
        hx_vec_free(&pass->contributor[i].contributions);
    free(pass);
    return err;
}

HX_PREFETCHES void fetch_components_ahead(const struct flow *flow, hx_obj k)
{
    const struct hx_graph *graph = &flow->subgraph.graph;
    const hx_obj *order = flow->components.order, left = flow->components.n_objects - k;
    if (left > AHEAD_RANGE)
        __builtin_prefetch(&graph->fwd[order[k + AHEAD_RANGE]]);
    if (left > AHEAD_EDGES)
        __builtin_prefetch(&graph->edge[graph->fwd[order[k + AHEAD_EDGES]]]);
    if (left > AHEAD_TARGETS) {
        hx_obj object = order[k + AHEAD_TARGETS];
        hx_eidx from = graph->fwd[object], to = graph->fwd[object + 1];
        __builtin_prefetch(&flow->set[hx_subgraph_object(&flow->subgraph, object)], 1);
        for (hx_eidx e = from; e < to && e < from + FEW_EDGES; e++)
            __builtin_prefetch(&flow->components.number[hx_edge_target(graph->edge[e])]);
    }
}

/* Every component has its whole set when the walk comes to it: all that lead to it came before. */
static hx_error *spread_retainer_sets(struct flow *flow)
{
    const struct hx_graph *graph = &flow->subgraph.graph;
    const struct hx_components *components = &flow->components;
    for (hx_obj k = 0; k < components->n_objects; k++) {
        hx_obj object = components->order[k], from = components->number[object];
        fetch_components_ahead(flow, k);
        if ((k & CHECK_MASK) == CHECK_MASK)
            HX_TRY(pause_at(flow, "retainer sets", k, components->n_objects));
        hx_set set = hx_set_union_result(&flow->unions, &flow->component_set[from]);
        hx_sets_keep(flow->sets, set);
        flow->set[hx_subgraph_object(&flow->subgraph, object)] = set;
        if (flow->subgraph.whole && is_cut(flow, object))
            continue;
        for (hx_eidx e = graph->fwd[object]; e < graph->fwd[object + 1]; e++) {
            hx_obj to = components->number[hx_edge_target(graph->edge[e])];
            if (flow_follows(flow, graph, e) && to != HX_NO_OBJ && to != from)
                hx_set_union_add(&flow->unions, &flow->component_set[to], set);
        }
    }
    return NULL;
}

/* The sets of settled objects are what they end with. */
static void keep_settled(struct flow *flow)
{
    hx_set last = HX_SET_NONE;
    for (hx_obj i = 0; i < flow->graph->n; i++)
        if (flow->set[i] != last && !hx_bit(flow->unsettled, i))
            hx_sets_keep(flow->sets, last = flow->set[i]);
}

static hx_error *retain_unsettled(struct flow *flow)
{
    hx_big_free(&flow->queue_mem);
    HX_TRY(
        hx_subgraph_make(flow->graph, flow->unsettled, flow->follows, flow->cut, &flow->subgraph));
    const struct hx_scope scope = {.states = (1u << HX_STATES) - 1,
                                   .follows = flow->follows,
                                   .cut = flow->subgraph.whole ? flow->cut : NULL,
                                   .only = flow->subgraph.whole ? flow->unsettled : NULL};
    HX_TRY(hx_components_find(&flow->subgraph.graph, &scope, flow->progress, &flow->components));
    HX_TRY(hx_big_array(flow->component_set, flow->components.n));
    seed_from_roots(flow, seed_component);
    seed_from_retainers(flow, seed_component);
    HX_TRY(contribute_settled(flow));
    return spread_retainer_sets(flow);
}

/* --- all of it -------------------------------------------------------------------- */

static void choose_edges(struct flow *flow)
{
    flow->follows = 1u << HX_EDGE_START | 1u << HX_EDGE_KNOWN;
    if (flow->snapshot->interior != HX_INTERIOR_OFF)
        flow->follows |= 1u << HX_EDGE_INTERIOR;
}

/* A bit for each object that is a retainer. Lost ones give nothing to objects that are not. */
static hx_error *cut_retainers(struct flow *flow)
{
    const struct hx_graph *graph = flow->graph;
    unsigned states = 1u << HX_STATE_REACHABLE | 1u << HX_STATE_POSSIBLE;
    if (!flow->rule->of_object)
        return NULL;
    HX_TRY(hx_big_reserve(&flow->cut_mem, (size_t)graph->n / 8 + 8));
    uint64_t *cut = flow->cut_mem.base;
    for (hx_obj i = 0; i < graph->n; i++)
        if (flow->rule->of_object[i] != HX_NO_RETAINER &&
            (flow->rule->everything || (states >> graph->state[i] & 1)))
            hx_bit_set(cut, i);
    flow->cut = cut;
    return NULL;
}

static hx_error *reserve_flow(struct flow *flow)
{
    const size_t n = flow->graph->n;
    HX_TRY(hx_big_array(flow->set, n));
    HX_TRY(hx_big_array(flow->queue, n));
    return hx_big_array(flow->unsettled, n / 64 + 1);
}

static hx_error *run_retainer_flow(struct flow *flow, struct hx_retention *ret)
{
    choose_edges(flow);
    HX_TRY(cut_retainers(flow));
    HX_TRY(reserve_flow(flow));
    hx_set_unions_init(&flow->unions, flow->sets);
    seed_from_roots(flow, seed_object);
    seed_from_retainers(flow, seed_object);
    HX_TRY(flood_from_seeds(flow));
    if (flow->any_unsettled)
        HX_TRY(close_unsettled(flow));
    keep_settled(flow);
    if (flow->any_unsettled)
        HX_TRY(retain_unsettled(flow));
    HX_TRY(hx_sets_error(flow->sets));
    HX_NEED(!flow->unions.failed);
    struct hx_retention retention = {.visits = flow->visits, .set = flow->set};
    for (hx_obj i = 0; i < flow->graph->n; i++) {
        flow->set[i] = hx_sets_now(flow->sets, flow->set[i]);
        retention.objects += flow->set[i] != HX_SET_NONE;
    }
    retention.set_mem = flow->set_mem;
    flow->set_mem = (struct hx_big){0};
    *ret = retention;
    return NULL;
}

static void deinit_flow(struct flow *flow)
{
    struct hx_big *const mem[] = {&flow->set_mem, &flow->queue_mem, &flow->unsettled_mem,
                                  &flow->cut_mem, &flow->component_set_mem};
    for (size_t i = 0; i < sizeof mem / sizeof *mem; i++)
        hx_big_free(mem[i]);
    hx_components_deinit(&flow->components);
    hx_subgraph_deinit(&flow->subgraph);
    hx_set_unions_deinit(&flow->unions);
}

hx_error *hx_retain(const struct hx_snapshot *snapshot, const struct hx_retain_rule *rule,
                    hx_sets *sets, const struct hx_progress *progress, struct hx_retention *ret)
{
    struct flow flow = {.snapshot = snapshot,
                        .graph = &snapshot->graph,
                        .rule = rule,
                        .progress = progress,
                        .sets = sets};
    hx_error *err = run_retainer_flow(&flow, ret);
    deinit_flow(&flow);
    return err;
}

void hx_retention_deinit(struct hx_retention *retention)
{
    hx_big_free(&retention->set_mem);
    *retention = (struct hx_retention){0};
}

/* --- what edges that were set aside change -------------------------------------------- */

/* Sets only grow by them. So what is found without them is where it begins: a set that grows grows
 * on along all edges, breadth first, until none does. Mostly few sets meet, each object grows once
 * or twice, and most not at all. Where that does not end soon, all that is then to be looked at,
 * and what lies behind, is condensed as what is unsettled is. */

enum { UNIONS = 1 << 12, WIDEN_VISITS = 2, WIDEN_MERGED = 1 << 26 };

struct widening {
    struct widened {
        hx_set now, set, both; /* neither of the two is the empty one */
    } last[UNIONS];
    uint64_t visits, merged; /* edges, and elements of sets, that there is time for */
    uint64_t elements;       /* of new sets, that there is room for */
    size_t waiting;          /* in the queue, whose end is followed by its beginning */
};

static hx_set unite_once(struct flow *flow, hx_set now, hx_set set)
{
    struct widening *widening = flow->widening;
    struct widened *last = &widening->last[(now * UINT32_C(0x9e3779b1) ^ set) % UNIONS];
    if (last->now == now && last->set == set)
        return last->both;
    const hx_retainer *element;
    hx_set count = hx_sets_count(flow->sets), both = hx_sets_union(flow->sets, now, set);
    uint64_t n = hx_sets_elements(flow->sets, both, &element);
    *last = (struct widened){now, set, both};
    widening->merged -= n < widening->merged ? n : widening->merged;
    if (both >= count)
        widening->elements -= n < widening->elements ? n : widening->elements;
    return both;
}

static bool has_time(const struct widening *widening)
{
    return widening->visits && widening->merged && widening->elements;
}

/* What waits in the queue is unsettled. When there is no time left that is all that is known. */
static void widen_set(struct flow *flow, hx_obj object, hx_set set)
{
    hx_set now = flow->set[object];
    if (now == set || now == HX_SET_MANY || set == HX_SET_NONE)
        return;
    if (now == HX_SET_NONE)
        flow->set[object] = set;
    else if (has_time(flow->widening) && (flow->set[object] = unite_once(flow, now, set)) == now)
        return;
    if (!hx_bit_add(flow->unsettled, object))
        return;
    flow->queue[flow->tail++] = object;
    flow->tail = flow->tail < flow->graph->n ? flow->tail : 0;
    flow->widening->waiting++;
}

static hx_error *widen_over_aside(struct flow *flow)
{
    const struct hx_graph *graph = flow->graph;
    seed_from_roots(flow, widen_set);
    seed_from_retainers(flow, widen_set);
    for (hx_obj i = 0; i < graph->n; i++) {
        for (hx_eidx e = graph->fwd[i]; e < graph->fwd[(size_t)i + 1]; e++)
            if (hx_edge_kind_of(graph->edge[e]) == HX_EDGE_ASIDE && !is_cut(flow, i) &&
                flow_follows(flow, graph, e))
                widen_set(flow, hx_edge_target(graph->edge[e]), flow->set[i]);
        if ((i & CHECK_MASK) == CHECK_MASK)
            HX_TRY(pause_at(flow, "retainer sets", i, graph->n));
    }
    return NULL;
}

static inline hx_obj waiting_object(const struct flow *flow, size_t ahead)
{
    size_t at = flow->head + ahead;
    return flow->queue[at < flow->graph->n ? at : at - flow->graph->n];
}

HX_PREFETCHES void prefetch_waiting(const struct flow *flow)
{
    const struct hx_graph *graph = flow->graph;
    size_t waiting = flow->widening->waiting;
    if (waiting > AHEAD_RANGE)
        __builtin_prefetch(&graph->fwd[waiting_object(flow, AHEAD_RANGE)]);
    if (waiting > AHEAD_EDGES)
        __builtin_prefetch(&graph->edge[graph->fwd[waiting_object(flow, AHEAD_EDGES)]]);
    if (waiting <= AHEAD_TARGETS)
        return;
    hx_obj object = waiting_object(flow, AHEAD_TARGETS);
    hx_eidx from = graph->fwd[object], to = graph->fwd[(size_t)object + 1];
    for (hx_eidx e = from; e < to && e < from + FEW_EDGES; e++)
        __builtin_prefetch(&flow->set[hx_edge_target(graph->edge[e])], 1);
}

static hx_error *widen_waiting(struct flow *flow)
{
    const struct hx_graph *graph = flow->graph;
    struct widening *widening = flow->widening;
    for (uint64_t done = 1; widening->waiting && has_time(widening); done++) {
        hx_obj object = waiting_object(flow, 0);
        prefetch_waiting(flow);
        flow->head = flow->head + 1 < graph->n ? flow->head + 1 : 0;
        widening->waiting--;
        hx_bit_clear(flow->unsettled, object);
        hx_eidx e = graph->fwd[object], end = is_cut(flow, object) ? e : graph->fwd[object + 1];
        widening->visits -= end - e < widening->visits ? end - e : widening->visits;
        for (; e < end; e++)
            if (flow_follows(flow, graph, e))
                widen_set(flow, hx_edge_target(graph->edge[e]), flow->set[object]);
        if ((done & CHECK_MASK) == 0)
            HX_TRY(pause_at(flow, "retainer sets", done, graph->n));
    }
    return NULL;
}

static hx_error *run_widening(struct flow *flow, const struct hx_retention *retention)
{
    const hx_obj n = flow->graph->n;
    choose_edges(flow);
    flow->follows |= 1u << HX_EDGE_ASIDE;
    HX_TRY(cut_retainers(flow));
    HX_TRY(reserve_flow(flow));
    hx_set_unions_init(&flow->unions, flow->sets);
    if (n)
        memcpy(flow->set, retention->set, n * sizeof *flow->set);
    HX_TRY(widen_over_aside(flow));
    HX_TRY(widen_waiting(flow));
    if (flow->widening->waiting) {
        HX_TRY(close_unsettled(flow));
        HX_TRY(retain_unsettled(flow));
    }
    HX_NEED(!flow->unions.failed);
    return hx_sets_error(flow->sets);
}

static hx_error *find_doubt(struct flow *flow, const hx_sets *sets,
                            const struct hx_retention *retention, size_t elements, uint64_t *ret)
{
    flow->widening = calloc(1, sizeof *flow->widening);
    HX_NEED(flow->widening);
    flow->widening->visits = WIDEN_VISITS * flow->graph->n_edges + 1;
    flow->widening->merged = WIDEN_MERGED;
    flow->widening->elements = elements / 2 + 1;
    HX_TRY(hx_sets_copy(sets, elements, &flow->sets));
    HX_TRY(run_widening(flow, retention));
    uint64_t bytes = 0;
    for (hx_obj i = 0; i < flow->graph->n; i++)
        bytes += flow->set[i] != retention->set[i] ? flow->graph->size[i] : 0;
    *ret = bytes;
    return NULL;
}

hx_error *hx_retain_doubt(const struct hx_snapshot *snapshot, const struct hx_retain_rule *rule,
                          const hx_sets *sets, const struct hx_retention *retention,
                          size_t elements, const struct hx_progress *progress, uint64_t *ret)
{
    struct flow flow = {
        .snapshot = snapshot, .graph = &snapshot->graph, .rule = rule, .progress = progress};
    hx_error *err = find_doubt(&flow, sets, retention, elements, ret);
    hx_sets_destroy(flow.sets);
    free(flow.widening);
    deinit_flow(&flow);
    return err;
}
