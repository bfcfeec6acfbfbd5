/* reach.c - reachable, possible, lost. */
#include "traverse/reach.h"

#include "base/parallel.h"
#include "traverse/leaks.h"
#include "traverse/mark.h"

#include <stdatomic.h>
#include <string.h>

#define ROOT_BLOCK  1024  /* root edges that a worker claims at once */
#define STATE_BLOCK 65536 /* states that a worker looks through at once */
#define FEW_OBJECTS 20000 /* below this a second thread costs more than it brings */

#define BIT(kind)    (1u << (kind))
#define STRONG_EDGES (BIT(HX_EDGE_START) | BIT(HX_EDGE_KNOWN))
#define ALL_EDGES    (STRONG_EDGES | BIT(HX_EDGE_INTERIOR))

struct seeds {
    const struct hx_snapshot *snapshot;
    atomic_size_t next;
};

static bool mark_from_roots(struct hx_mark_worker *worker, void *context)
{
    struct seeds *seeds = context;
    const struct hx_snapshot *snapshot = seeds->snapshot;
    size_t from = atomic_fetch_add(&seeds->next, ROOT_BLOCK);
    if (from >= snapshot->root_edges.n)
        return false;
    size_t left = snapshot->root_edges.n - from;
    for (size_t i = from; i < from + (left < ROOT_BLOCK ? left : ROOT_BLOCK); i++) {
        const struct hx_root_edge *edge = &snapshot->root_edges.v[i];
        /* What the user names decides bins, never state. */
        if (snapshot->roots.v[edge->root].kind != HX_ROOT_NAMED)
            hx_mark_seed(worker, edge->target, edge->kind);
    }
    return true;
}

static bool seed_from_pending(struct hx_mark_worker *worker, void *context)
{
    struct seeds *seeds = context;
    const struct hx_graph *graph = &seeds->snapshot->graph;
    size_t from = atomic_fetch_add(&seeds->next, STATE_BLOCK);
    if (from >= graph->n)
        return false;
    size_t to = graph->n - from < STATE_BLOCK ? graph->n : from + STATE_BLOCK;
    for (size_t i = from; i < to; i++) {
        if (__atomic_load_n(&graph->state[i], __ATOMIC_RELAXED) != HX_MARK_PENDING)
            continue;
        __atomic_store_n(&graph->state[i], HX_STATE_POSSIBLE, __ATOMIC_RELAXED);
        hx_mark_expand(worker, (hx_obj)i);
    }
    return true;
}

static hx_error *mark_reachable(struct hx_snapshot *snapshot, enum hx_interior interior,
                                unsigned threads, const struct hx_progress *progress)
{
    struct seeds seeds = {.snapshot = snapshot};
    struct hx_mark mark = {
        .graph = &snapshot->graph,
        .progress = progress,
        .threads = snapshot->graph.n < FEW_OBJECTS ? 1 : hx_threads(threads),
        .state = HX_STATE_REACHABLE,
        .follows = interior == HX_INTERIOR_ON ? ALL_EDGES : STRONG_EDGES,
        .pending = interior == HX_INTERIOR_KNOWN,
        .seed = mark_from_roots,
        .context = &seeds,
    };
    HX_TRY(hx_mark_run(&mark));
    if (interior != HX_INTERIOR_KNOWN)
        return NULL;
    atomic_store(&seeds.next, 0);
    mark.state = HX_STATE_POSSIBLE;
    mark.follows = ALL_EDGES;
    mark.pending = false;
    mark.seed = seed_from_pending;
    return hx_mark_run(&mark);
}

static void sum_reachable(struct hx_snapshot *snapshot)
{
    const struct hx_graph *graph = &snapshot->graph;
    memset(snapshot->state_bytes, 0, sizeof snapshot->state_bytes);
    memset(snapshot->state_objects, 0, sizeof snapshot->state_objects);
    for (hx_obj i = 0; i < graph->n; i++) {
        snapshot->state_bytes[graph->state[i]] += graph->size[i];
        snapshot->state_objects[graph->state[i]]++;
    }
}

hx_error *hx_reach(struct hx_snapshot *snapshot, enum hx_interior interior, unsigned threads,
                   const struct hx_progress *progress)
{
    struct hx_graph *graph = &snapshot->graph;
    hx_big_free(&graph->state_mem);
    HX_TRY(hx_big_array(graph->state, graph->n));
    hx_error *err = mark_reachable(snapshot, interior, threads, progress);
    if (!err)
        err = hx_leaks_classify(graph, progress);
    if (err) {
        hx_big_array_free(graph->state);
        return err;
    }
    snapshot->interior = interior;
    sum_reachable(snapshot);
    return NULL;
}
