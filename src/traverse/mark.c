/* mark.c - the marker: explicit stacks, prefetch queues, shared work. */
#include "traverse/mark.h"

#include "base/parallel.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#define QUEUE      32 /* entries of each prefetch queue; a power of two */
#define SLOT(i)    ((i) & (QUEUE - 1))
#define SHARE      512   /* objects that change the worker at once */
#define CHECK_MASK 0xfff /* every so many objects + 1: cancelled, anyone idle, progress */
#define LONG_LIST  65536 /* edges between two tests for cancellation */

/* Work given away, a stack of parcels. */
struct parcel {
    struct parcel *next;
    size_t n;
    hx_obj object[SHARE];
};

struct team {
    const struct hx_mark *mark;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct parcel *parcels; /* lock */
    unsigned active;        /* lock: workers that may still make work */
    atomic_uint waiting;    /* workers that wait for a parcel */
    atomic_bool stop;
    atomic_uint_fast64_t marked;
    struct hx_mark_worker *worker;
};

struct run {
    hx_eidx from, to;
};

/* head and tail of a queue only grow; it holds tail - head entries. */
struct hx_mark_worker {
    struct team *team;
    struct hx_big stack_mem;
    hx_obj *stack;
    size_t bottom, top; /* stack[bottom .. top) waits */
    hx_obj object[QUEUE];
    struct run run[QUEUE];
    uint64_t target[QUEUE]; /* object << 2 | kind */
    unsigned object_head, object_tail, run_head, run_tail, target_head, target_tail;
    uint64_t expanded;
};

static inline uint8_t load_state(const struct hx_graph *graph, hx_obj object)
{
    return __atomic_load_n(&graph->state[object], __ATOMIC_RELAXED);
}

/* --- one worker -------------------------------------------------------------- */

static inline void mark_next_target(struct hx_mark_worker *worker, const struct hx_mark *mark)
{
    uint64_t entry = worker->target[SLOT(worker->target_head++)];
    hx_obj object = (hx_obj)(entry >> 2);
    uint8_t *state = &mark->graph->state[object];
    uint8_t now = load_state(mark->graph, object);
    if (mark->follows >> (entry & 3) & 1) {
        if (now != HX_STATE_NONE && now != HX_MARK_PENDING)
            return;
        __atomic_store_n(state, mark->state, __ATOMIC_RELAXED);
        worker->stack[worker->top++] = object;
    } else if (mark->pending && now == HX_STATE_NONE) {
        /* Must not take back what another worker marks at this moment. */
        __atomic_compare_exchange_n(state, &now, HX_MARK_PENDING, false, __ATOMIC_RELAXED,
                                    __ATOMIC_RELAXED);
    }
}

static inline void mark_object(struct hx_mark_worker *worker, const struct hx_mark *mark,
                               hx_obj object, unsigned kind)
{
    __builtin_prefetch(&mark->graph->state[object], 1);
    if (worker->target_tail - worker->target_head == QUEUE)
        mark_next_target(worker, mark);
    worker->target[SLOT(worker->target_tail++)] = (uint64_t)object << 2 | kind;
}

/* An object's edges, oldest in the queue; false when the marking was stopped. */
static inline bool expand_object(struct hx_mark_worker *worker, const struct hx_mark *mark)
{
    struct run run = worker->run[SLOT(worker->run_head++)];
    const hx_edge *edge = mark->graph->edge;
    unsigned wanted = mark->follows | (mark->pending ? 1u << HX_EDGE_INTERIOR : 0);
    while (run.to - run.from > LONG_LIST) {
        for (hx_eidx e = run.from; e < run.from + LONG_LIST; e++)
            if (wanted >> (edge[e] & 3) & 1)
                mark_object(worker, mark, hx_edge_target(edge[e]), edge[e] & 3);
        run.from += LONG_LIST;
        if (hx_progress_cancelled(mark->progress))
            return false;
    }
    for (hx_eidx e = run.from; e < run.to; e++)
        if (wanted >> (edge[e] & 3) & 1)
            mark_object(worker, mark, hx_edge_target(edge[e]), edge[e] & 3);
    return true;
}

static inline void find_run(struct hx_mark_worker *worker, const struct hx_graph *graph)
{
    hx_obj object = worker->object[SLOT(worker->object_head++)];
    struct run run = {graph->fwd[object], graph->fwd[object + 1]};
    if (run.from == run.to)
        return;
    __builtin_prefetch(&graph->edge[run.from]);
    worker->run[SLOT(worker->run_tail++)] = run;
}

/* Gives half a stack away, in parcels, the oldest objects: below them lies most. */
static void share_work(struct hx_mark_worker *worker)
{
    struct team *team = worker->team;
    while (worker->top - worker->bottom >= 2 * SHARE &&
           atomic_load_explicit(&team->waiting, memory_order_relaxed)) {
        struct parcel *parcel = malloc(sizeof *parcel);
        if (!parcel)
            return; /* then this worker does it all */
        parcel->n = SHARE;
        memcpy(parcel->object, worker->stack + worker->bottom, sizeof parcel->object);
        worker->bottom += SHARE;
        pthread_mutex_lock(&team->lock);
        bool more = team->parcels != NULL;
        parcel->next = team->parcels;
        team->parcels = parcel; /* from here on whoever takes it may free it */
        pthread_cond_signal(&team->changed);
        pthread_mutex_unlock(&team->lock);
        if (more) /* enough for now */
            return;
    }
}

static void stop_team(struct team *team)
{
    pthread_mutex_lock(&team->lock);
    atomic_store(&team->stop, true);
    pthread_cond_broadcast(&team->changed);
    pthread_mutex_unlock(&team->lock);
}

/* Now and then; false when the marking should end. */
static bool poll_team(struct hx_mark_worker *worker)
{
    struct team *team = worker->team;
    uint64_t marked = atomic_fetch_add(&team->marked, CHECK_MASK + 1) + CHECK_MASK + 1;
    hx_progress_at(team->mark->progress, "mark", marked, team->mark->graph->n);
    if (hx_progress_cancelled(team->mark->progress) || atomic_load(&team->stop))
        return false;
    if (atomic_load_explicit(&team->waiting, memory_order_relaxed))
        share_work(worker);
    return true;
}

/* Works until the stack and all queues are empty; false when the marking was stopped. */
static bool drain_queues(struct hx_mark_worker *worker)
{
    const struct hx_mark *mark = worker->team->mark;
    const struct hx_graph *graph = mark->graph;
    for (;;) {
        if (worker->top != worker->bottom) {
            hx_obj object = worker->stack[--worker->top];
            __builtin_prefetch(&graph->fwd[object]);
            worker->object[SLOT(worker->object_tail++)] = object;
            if ((++worker->expanded & CHECK_MASK) == 0 && !poll_team(worker))
                return false;
            if (worker->object_tail - worker->object_head < QUEUE)
                continue;
            find_run(worker, graph);
            if (worker->run_tail - worker->run_head == QUEUE && !expand_object(worker, mark))
                return false;
            continue;
        }
        worker->bottom = worker->top = 0;
        /* Nothing waits: what is deepest in the queues may bring new work. */
        if (worker->target_tail != worker->target_head) {
            mark_next_target(worker, mark);
        } else if (worker->run_tail != worker->run_head) {
            if (!expand_object(worker, mark))
                return false;
        } else if (worker->object_tail != worker->object_head) {
            find_run(worker, graph);
        } else {
            return true;
        }
    }
}

/* --- the team ---------------------------------------------------------------- */

/* Takes a parcel, waiting while another worker may still make one. */
static bool take_parcel(struct hx_mark_worker *worker)
{
    struct team *team = worker->team;
    pthread_mutex_lock(&team->lock);
    team->active--;
    atomic_fetch_add(&team->waiting, 1);
    while (!team->parcels && team->active && !atomic_load(&team->stop))
        pthread_cond_wait(&team->changed, &team->lock);
    atomic_fetch_sub(&team->waiting, 1);
    struct parcel *parcel = atomic_load(&team->stop) ? NULL : team->parcels;
    if (parcel) {
        team->parcels = parcel->next;
        team->active++;
    } else {
        pthread_cond_broadcast(&team->changed);
    }
    pthread_mutex_unlock(&team->lock);
    if (!parcel)
        return false;
    memcpy(worker->stack, parcel->object, parcel->n * sizeof *parcel->object);
    worker->bottom = 0;
    worker->top = parcel->n;
    free(parcel);
    return true;
}

static void mark_worker(void *context, unsigned i)
{
    struct team *team = context;
    struct hx_mark_worker *worker = &team->worker[i];
    const struct hx_mark *mark = team->mark;
    pthread_mutex_lock(&team->lock);
    team->active++;
    pthread_mutex_unlock(&team->lock);
    bool go_on = true;
    while (go_on) {
        go_on = drain_queues(worker);
        while (go_on && mark->seed(worker, mark->context))
            go_on = drain_queues(worker);
        if (!go_on)
            stop_team(team);
        go_on = take_parcel(worker);
    }
}

static hx_error *prepare_mark_team(struct team *team)
{
    const struct hx_mark *mark = team->mark;
    team->worker = calloc(mark->threads, sizeof *team->worker);
    HX_NEED(team->worker);
    for (unsigned i = 0; i < mark->threads; i++) {
        struct hx_mark_worker *worker = &team->worker[i];
        worker->team = team;
        /* A worker pushes an object once, as it sees its own marks, and gets another
         * one's parcel only into an empty stack. */
        HX_TRY(hx_big_array(worker->stack, (size_t)mark->graph->n * 2 + SHARE));
    }
    return NULL;
}

hx_error *hx_mark_run(const struct hx_mark *mark)
{
    struct team team = {
        .mark = mark, .lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};
    hx_error *err = prepare_mark_team(&team);
    if (!err) {
        hx_parallel(mark->threads, mark_worker, &team);
        if (atomic_load(&team.stop) || hx_progress_cancelled(mark->progress))
            err = hx_error_cancelled("mark");
    }
    while (team.parcels) {
        struct parcel *next = team.parcels->next;
        free(team.parcels);
        team.parcels = next;
    }
    for (unsigned i = 0; team.worker && i < mark->threads; i++)
        hx_big_free(&team.worker[i].stack_mem);
    free(team.worker);
    return err;
}

void hx_mark_seed(struct hx_mark_worker *worker, hx_obj object, enum hx_edge_kind kind)
{
    mark_object(worker, worker->team->mark, object, kind);
}

void hx_mark_expand(struct hx_mark_worker *worker, hx_obj object)
{
    worker->stack[worker->top++] = object;
}
