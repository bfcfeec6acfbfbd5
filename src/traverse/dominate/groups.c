/* groups.c - retained sizes of groups of objects, 64 groups a pass. */
#include "traverse/dominate/groups.h"

#include "base/bits.h"
#include "base/parallel.h"
#include "base/prefetch.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#define BATCH      64     /* groups of one pass: the bits of a word */
#define NO_SLOT    BATCH  /* the group is not in this pass */
#define CHECK_MASK 0xffff /* every so many objects + 1 */
#define FEW_EDGES  16     /* of an object with so few all targets are prefetched */

/* What is known of a group before any search. */
struct group {
    uint64_t bytes;   /* in scope */
    uint64_t objects; /* in scope */
    hx_obj last;      /* one of them */
    uint32_t number;
};

struct plan {
    const struct hx_snapshot *snapshot;
    const struct hx_dominators *dominators;
    const uint32_t *group; /* of each object */
    const struct hx_progress *progress;
    struct hx_groups *result;
    struct group *todo; /* what is to be searched for, largest first */
    uint32_t n_todo;
    atomic_size_t next; /* in todo */
    _Atomic(hx_error *) err;
};

/* Queue: a ring of n + 1 places; an object is in it at most once. */
struct pass {
    struct plan *plan;
    uint8_t *slot;   /* for each group: its bit, or NO_SLOT */
    uint64_t used;   /* bits of this pass */
    uint64_t *avoid; /* for each object: reached without meeting these groups */
    uint64_t *queued;
    hx_obj *queue;
    size_t head, waiting, slots;
    struct hx_big avoid_mem, queued_mem, queue_mem;
};

static inline hx_obj in_queue(const struct pass *pass, size_t ahead)
{
    size_t at = pass->head + ahead;
    return pass->queue[at < pass->slots ? at : at - pass->slots];
}

static inline void add_gain(struct pass *pass, hx_obj object, uint64_t avoid)
{
    const struct plan *plan = pass->plan;
    uint64_t gained = avoid & ~pass->avoid[object];
    if (!gained)
        return;
    uint32_t group = plan->group[object];
    if (group < plan->result->n && pass->slot[group] != NO_SLOT)
        gained &= ~((uint64_t)1 << pass->slot[group]);
    if (!gained)
        return;
    pass->avoid[object] |= gained;
    if (!hx_bit_add(pass->queued, object))
        return;
    size_t at = pass->head + pass->waiting++;
    pass->queue[at < pass->slots ? at : at - pass->slots] = object;
}

/* What the next objects of the queue will need. */
HX_PREFETCHES void prefetch_group_queue(const struct pass *pass)
{
    const struct hx_graph *graph = &pass->plan->snapshot->graph;
    if (pass->waiting > 24)
        __builtin_prefetch(&graph->fwd[in_queue(pass, 24)]);
    if (pass->waiting > 16)
        __builtin_prefetch(&graph->edge[graph->fwd[in_queue(pass, 16)]]);
    if (pass->waiting <= 8)
        return;
    hx_obj object = in_queue(pass, 8);
    hx_eidx from = graph->fwd[object], to = graph->fwd[(size_t)object + 1];
    __builtin_prefetch(&pass->avoid[object]);
    for (hx_eidx e = from; e < to && e < from + FEW_EDGES; e++) {
        hx_obj target = hx_edge_target(graph->edge[e]);
        __builtin_prefetch(&pass->avoid[target], 1);
        __builtin_prefetch(&pass->plan->group[target]);
    }
}

static bool search_without_groups(struct pass *pass)
{
    const struct plan *plan = pass->plan;
    const struct hx_graph *graph = &plan->snapshot->graph;
    const unsigned follows = plan->dominators->follows;
    for (uint64_t visits = 0; pass->waiting; visits++) {
        prefetch_group_queue(pass);
        hx_obj object = in_queue(pass, 0);
        pass->head = pass->head + 1 < pass->slots ? pass->head + 1 : 0;
        pass->waiting--;
        hx_bit_clear(pass->queued, object);
        uint64_t avoid = pass->avoid[object];
        for (hx_eidx e = graph->fwd[object]; e < graph->fwd[(size_t)object + 1]; e++)
            if (follows >> hx_edge_kind_of(graph->edge[e]) & 1)
                add_gain(pass, hx_edge_target(graph->edge[e]), avoid);
        if ((visits & CHECK_MASK) == 0 &&
            (hx_progress_cancelled(plan->progress) || atomic_load(&plan->err)))
            return false;
    }
    return !hx_progress_cancelled(plan->progress);
}

static bool spread_from_roots(struct pass *pass)
{
    const struct hx_snapshot *snapshot = pass->plan->snapshot;
    const unsigned follows = pass->plan->dominators->follows;
    pass->head = pass->waiting = 0;
    for (size_t i = 0; i < snapshot->root_edges.n; i++) {
        const struct hx_root_edge *edge = &snapshot->root_edges.v[i];
        if (snapshot->roots.v[edge->root].kind != HX_ROOT_NAMED && follows >> edge->kind & 1)
            add_gain(pass, edge->target, pass->used);
    }
    return search_without_groups(pass);
}

/* A group retains what is in scope and not reached without it. */
static void sum_group_retained(const struct pass *pass, const struct group *batch, unsigned n)
{
    const struct plan *plan = pass->plan;
    uint64_t bytes[BATCH] = {0}, objects[BATCH] = {0};
    for (hx_obj i = 0; i < plan->dominators->n; i++) {
        if (!hx_dominators_has(plan->dominators, i))
            continue;
        for (uint64_t kept = pass->used & ~pass->avoid[i]; kept; kept &= kept - 1) {
            unsigned bit = (unsigned)__builtin_ctzll(kept);
            bytes[bit] += plan->snapshot->graph.size[i];
            objects[bit]++;
        }
    }
    for (unsigned k = 0; k < n; k++) {
        plan->result->bytes[batch[k].number] = bytes[k];
        plan->result->objects[batch[k].number] = objects[k];
    }
}

static hx_error *prepare_pass(struct pass *pass)
{
    const struct plan *plan = pass->plan;
    const size_t n = plan->dominators->n;
    pass->slots = n + 1;
    HX_TRY(hx_big_array(pass->avoid, n));
    HX_TRY(hx_big_array(pass->queued, n / 64 + 1));
    HX_TRY(hx_big_array(pass->queue, pass->slots));
    pass->slot = malloc(plan->result->n);
    HX_NEED(pass->slot);
    memset(pass->slot, NO_SLOT, plan->result->n);
    return NULL;
}

static hx_error *run_batch(struct pass *pass, uint32_t from)
{
    const struct plan *plan = pass->plan;
    const struct group *batch = &plan->todo[from];
    unsigned n = plan->n_todo - from < BATCH ? plan->n_todo - from : BATCH;
    hx_progress_at(plan->progress, "retained sizes of groups", from, plan->n_todo);
    memset(pass->avoid, 0, (size_t)plan->dominators->n * sizeof *pass->avoid);
    for (unsigned k = 0; k < n; k++)
        pass->slot[batch[k].number] = (uint8_t)k;
    pass->used = n == BATCH ? UINT64_MAX : ((uint64_t)1 << n) - 1;
    if (!spread_from_roots(pass))
        return hx_error_cancelled("search for retained sizes");
    sum_group_retained(pass, batch, n);
    for (unsigned k = 0; k < n; k++)
        pass->slot[batch[k].number] = NO_SLOT;
    return NULL;
}

static void group_worker(void *context, unsigned i)
{
    (void)i;
    struct plan *plan = context;
    struct pass pass = {.plan = plan};
    hx_error *err = prepare_pass(&pass);
    while (!err && !atomic_load(&plan->err)) {
        size_t from = atomic_fetch_add(&plan->next, BATCH);
        if (from >= plan->n_todo)
            break;
        err = run_batch(&pass, (uint32_t)from);
    }
    hx_error *none = NULL;
    if (err && !atomic_compare_exchange_strong(&plan->err, &none, err))
        hx_error_free(err); /* the first one tells */
    hx_big_free(&pass.avoid_mem);
    hx_big_free(&pass.queued_mem);
    hx_big_free(&pass.queue_mem);
    free(pass.slot);
}

/* --- which groups ------------------------------------------------------------------ */

static int larger_group_first(const void *left, const void *right)
{
    const struct group *a = left, *b = right;
    if (a->bytes != b->bytes)
        return a->bytes < b->bytes ? 1 : -1;
    return a->number < b->number ? -1 : 1;
}

static void sum_groups(const struct plan *plan, struct group *group)
{
    const struct hx_dominators *dominators = plan->dominators;
    for (hx_obj i = 0; i < dominators->n; i++) {
        if (plan->group[i] >= plan->result->n || !hx_dominators_has(dominators, i))
            continue;
        struct group *g = &group[plan->group[i]];
        g->bytes += plan->snapshot->graph.size[i];
        g->objects++;
        g->last = i;
    }
}

/* Answers what needs no search; the others come to the front of the array, largest first. */
static void choose_searched_groups(struct plan *plan, struct group *group, uint32_t limit)
{
    struct hx_groups *result = plan->result;
    plan->todo = group;
    for (uint32_t k = 0; k < result->n; k++) {
        struct group g = group[k];
        g.number = k;
        result->bytes[k] = result->objects[k] = HX_RETAINED_UNKNOWN;
        if (g.objects > 1) {
            plan->todo[plan->n_todo++] = g;
            continue;
        }
        result->bytes[k] = g.objects ? plan->dominators->bytes[g.last] : 0;
        result->objects[k] = g.objects ? plan->dominators->objects[g.last] : 0;
    }
    result->measured = result->n - plan->n_todo;
    qsort(plan->todo, plan->n_todo, sizeof *plan->todo, larger_group_first);
    if (limit && plan->n_todo > limit)
        plan->n_todo = limit;
    result->measured += plan->n_todo;
}

static hx_error *measure_group_retained(struct plan *plan, uint32_t limit, unsigned threads)
{
    struct hx_groups *result = plan->result;
    result->bytes = calloc((size_t)result->n + 1, sizeof *result->bytes);
    result->objects = calloc((size_t)result->n + 1, sizeof *result->objects);
    struct group *group = calloc((size_t)result->n + 1, sizeof *group);
    if (!result->bytes || !result->objects || !group) {
        free(group);
        return hx_error_nomem();
    }
    sum_groups(plan, group);
    choose_searched_groups(plan, group, limit);
    unsigned batches = plan->n_todo / BATCH + (plan->n_todo % BATCH != 0);
    threads = hx_threads(threads);
    hx_parallel(batches < threads ? batches : threads, group_worker, plan);
    free(group);
    return atomic_load(&plan->err);
}

hx_error *hx_groups_measure(const struct hx_snapshot *snapshot,
                            const struct hx_dominators *dominators, const uint32_t *group,
                            uint32_t n_groups, uint32_t limit, unsigned threads,
                            const struct hx_progress *progress, struct hx_groups *ret)
{
    *ret = (struct hx_groups){.n = n_groups};
    struct plan plan = {.snapshot = snapshot,
                        .dominators = dominators,
                        .group = group,
                        .progress = progress,
                        .result = ret};
    hx_error *err = measure_group_retained(&plan, limit, threads);
    if (err)
        hx_groups_deinit(ret);
    return err;
}

void hx_groups_deinit(struct hx_groups *groups)
{
    free(groups->bytes);
    free(groups->objects);
    *groups = (struct hx_groups){0};
}
