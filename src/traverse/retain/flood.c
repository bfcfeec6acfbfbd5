/* flood.c - breadth-first from all seeds at once; a queue for each thread. */
#include "traverse/retain/flood.h"

#include "base/bits.h"
#include "base/parallel.h"
#include "base/prefetch.h"
#include "base/vec.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define CHUNK       256   /* objects that a worker takes from a queue at once */
#define NAP_NS      20000 /* how long a worker waits until it looks for work again */
#define CHECK       16384 /* progress every so many objects */
#define FEW_OBJECTS 20000 /* below this a second thread costs more than it brings */
#define FEW_EDGES   16    /* of an object with so few all targets are prefetched */

/* How many objects ahead each level of the data is fetched: where an object's edges lie, the
 * edges, the sets of their targets. */
enum { AHEAD_RANGE = 48, AHEAD_EDGES = 32, AHEAD_SETS = 16 };

/* queue[head .. tail) waits. Its worker adds at the tail; anyone takes from the head. Each has a
 * cache line of its own. */
struct worker {
    atomic_size_t head, tail;
    hx_obj *queue;
    uint64_t visits;
    bool any_unsettled;
    struct hx_big queue_mem;
} __attribute__((aligned(64)));

struct team {
    struct hx_flood *flood;
    struct worker *worker;
    unsigned threads;
    atomic_uint active; /* workers that may still make work */
    atomic_size_t done; /* objects taken from queues */
    atomic_bool stop;
};

/* Objects a worker took from a queue: n of the `waiting` ones there, which it may prefetch. */
struct chunk {
    const hx_obj *object;
    size_t n, waiting;
};

/* At least `least` objects, or nothing. */
static bool steal_objects(struct worker *from, size_t least, struct chunk *ret)
{
    size_t head = atomic_load(&from->head), n;
    do {
        n = atomic_load(&from->tail) - head;
        if (n < least)
            return false;
        *ret = (struct chunk){from->queue + head, n < CHUNK ? n : CHUNK, n};
    } while (!atomic_compare_exchange_weak(&from->head, &head, head + ret->n));
    return true;
}

/* From its own queue or else, where enough waits, from another one. */
static bool steal_any(struct team *team, unsigned self, struct chunk *ret)
{
    if (steal_objects(&team->worker[self], 1, ret))
        return true;
    for (unsigned i = 0; i < team->threads; i++)
        if (steal_objects(&team->worker[i], CHUNK, ret))
            return true;
    return false;
}

HX_PREFETCHES void prefetch_flood_queue(const struct hx_flood *flood, const hx_obj *next,
                                        size_t waiting)
{
    const struct hx_graph *graph = flood->graph;
    if (waiting > AHEAD_RANGE)
        __builtin_prefetch(&graph->fwd[next[AHEAD_RANGE]]);
    if (waiting > AHEAD_EDGES)
        __builtin_prefetch(&graph->edge[graph->fwd[next[AHEAD_EDGES]]]);
    if (waiting <= AHEAD_SETS)
        return;
    hx_eidx from = graph->fwd[next[AHEAD_SETS]], to = graph->fwd[next[AHEAD_SETS] + 1];
    for (hx_eidx e = from; e < to && e < from + FEW_EDGES; e++)
        __builtin_prefetch(&flood->set[hx_edge_target(graph->edge[e])], 1);
}

/* Is the object's set still the first one? Then `set` is it now. */
static inline bool is_first(const struct team *team, hx_obj object, hx_set *now, hx_set set)
{
    hx_set *slot = &team->flood->set[object];
    *now = __atomic_load_n(slot, __ATOMIC_RELAXED);
    if (*now != HX_SET_NONE)
        return false;
    if (team->threads > 1)
        return __atomic_compare_exchange_n(slot, now, set, false, __ATOMIC_RELAXED,
                                           __ATOMIC_RELAXED);
    *slot = set;
    return true;
}

static inline void unsettle(const struct team *team, struct worker *worker, hx_obj object)
{
    hx_bit_add_shared(team->flood->unsettled, object);
    worker->any_unsettled = true;
}

/* Passes the set of an object on to what it leads to; new ones go to queue[tail ..). */
static inline size_t propagate_set(const struct team *team, struct worker *worker, hx_obj object,
                                   size_t tail)
{
    const struct hx_flood *flood = team->flood;
    const struct hx_graph *graph = flood->graph;
    if (flood->cut && hx_bit(flood->cut, object))
        return tail;
    hx_set set = __atomic_load_n(&flood->set[object], __ATOMIC_RELAXED), now;
    for (hx_eidx e = graph->fwd[object], to = graph->fwd[object + 1]; e < to; e++) {
        if (to - e > FEW_EDGES)
            __builtin_prefetch(&flood->set[hx_edge_target(graph->edge[e + FEW_EDGES])], 1);
        if (!(flood->follows >> hx_edge_kind_of(graph->edge[e]) & 1))
            continue;
        hx_obj target = hx_edge_target(graph->edge[e]);
        worker->visits++;
        if (is_first(team, target, &now, set))
            worker->queue[tail++] = target;
        else if (now != set)
            unsettle(team, worker, target);
    }
    return tail;
}

static void run_chunk(struct team *team, struct worker *worker, const struct chunk *chunk)
{
    const struct hx_progress *progress = team->flood->progress;
    size_t tail = atomic_load_explicit(&worker->tail, memory_order_relaxed);
    for (size_t i = 0; i < chunk->n; i++) {
        prefetch_flood_queue(team->flood, chunk->object + i, chunk->waiting - i);
        tail = propagate_set(team, worker, chunk->object[i], tail);
    }
    atomic_store_explicit(&worker->tail, tail, memory_order_release);
    size_t done = atomic_fetch_add_explicit(&team->done, chunk->n, memory_order_relaxed);
    if (done / CHECK != (done + chunk->n) / CHECK) {
        hx_progress_at(progress, "retainer sets", done, team->flood->graph->n);
        if (hx_progress_cancelled(progress))
            atomic_store(&team->stop, true);
    }
}

/* Waits for work; false when there is none and no worker is left that could make any. */
static bool wait_for_work(struct team *team, unsigned self, struct chunk *ret)
{
    atomic_fetch_sub(&team->active, 1);
    while (atomic_load(&team->active) && !atomic_load(&team->stop)) {
        if (steal_any(team, self, ret)) {
            atomic_fetch_add(&team->active, 1);
            return true;
        }
        nanosleep(&(struct timespec){.tv_nsec = NAP_NS}, NULL);
    }
    return false;
}

static void flood_worker(void *context, unsigned self)
{
    struct team *team = context;
    struct chunk chunk;
    if (self) /* the first one, who has the seeds, counts from the beginning */
        atomic_fetch_add(&team->active, 1);
    while (!atomic_load(&team->stop) &&
           (steal_any(team, self, &chunk) || wait_for_work(team, self, &chunk)))
        run_chunk(team, &team->worker[self], &chunk);
}

static hx_error *prepare_flood_team(struct team *team)
{
    const struct hx_flood *flood = team->flood;
    team->worker = aligned_alloc(_Alignof(struct worker), team->threads * sizeof *team->worker);
    HX_NEED(team->worker);
    memset(team->worker, 0, team->threads * sizeof *team->worker);
    for (unsigned i = 0; i < team->threads; i++) {
        struct worker *worker = &team->worker[i];
        HX_TRY(hx_big_array(worker->queue, flood->graph->n));
    }
    if (flood->n_seeds)
        memcpy(team->worker[0].queue, flood->seed, flood->n_seeds * sizeof *flood->seed);
    atomic_store(&team->worker[0].tail, flood->n_seeds);
    return NULL;
}

hx_error *hx_flood(struct hx_flood *flood)
{
    struct team team = {.flood = flood,
                        .threads = flood->graph->n < FEW_OBJECTS ? 1 : hx_threads(flood->threads),
                        .active = 1};
    hx_error *err = prepare_flood_team(&team);
    if (!err) {
        hx_parallel(team.threads, flood_worker, &team);
        if (atomic_load(&team.stop) || hx_progress_cancelled(flood->progress))
            err = hx_error_cancelled("retainer sets");
    }
    for (unsigned i = 0; team.worker && i < team.threads; i++) {
        flood->visits += team.worker[i].visits;
        flood->any_unsettled |= team.worker[i].any_unsettled;
        hx_big_free(&team.worker[i].queue_mem);
    }
    free(team.worker);
    return err;
}
