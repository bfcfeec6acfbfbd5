/* rings.c - reads the rings of one process under `heapx run` into a reader.
 *
 * A round takes T, the time of now; then the heads of all rings; then all events before T. What
 * came before one of these events stands before the heads (event.h), so the events of a round are a
 * consistent prefix, whatever the threads do meanwhile. Each piece is copied before it is looked
 * at: the program can write to all of the region at any time, and is not believed.
 */
#include "base/cleanup.h"
#include "base/proc.h"
#include "base/timing.h"
#include "record/guard.h"
#include "record/read/space.h"
#include "record/record.h"
#include "record/ring.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <x86intrin.h>

#define PIECE        ((uint64_t)16 << 10)    /* copied at a time: stays in the first-level cache */
#define WANTED_BYTES (HX_RING_BYTES / 8 * 3) /* in the fullest ring, before it is worth a round */
#define SLEEP_NS     20000                   /* a shorter sleep is none */
#define LOSSES_NS    10000000 /* between looks at the losses, and at whether it has ended */
#define FORKS_KEPT   16
#define KEPT_BYTES   ((size_t)256 << 20) /* for children, but for the latest */
#define KEPT_NS      5000000000          /* a child that is recorded is found much earlier */
#define FORK_WAIT_NS 1000000000          /* for the parent's pump to come to a fork */
#define COMING_NS    100000000           /* a fork that does not come by then never will */
#define THREADS_NS   1000000000          /* between looks for threads that ended without a word */
#define WHEN_MASK    (UINT64_MAX >> 8)

/* What a child begins with. */
struct kept {
    uint64_t when; /* of the fork; 0: none */
    uint64_t kept_ns;
    void *events;
    size_t bytes;
};

struct rings {
    pid_t pid;
    int pidfd; /* -1: it is gone, or cannot be opened */
    int guard;
    struct hx_region *region;
    hx_code *code;
    hx_space *space;
    hx_reader *reader;
    uint8_t *piece;        /* HX_RING_BYTES */
    uint64_t *tail, *head; /* of each ring: how far it was read, and what the round found */
    uint64_t ticks0, ns0, ticks1, ns1; /* two moments by both clocks */
    uint64_t broken;                   /* rings that made no sense: events after were skipped */
    uint64_t round_ns, interval_ns;    /* when the last round was, and how long after another */
    uint64_t most_bytes;               /* that it brought from one ring */
    uint64_t looked_ns;                /* at losses */
    uint64_t stack_start; /* of the program: another one when it has executed another; 0: unknown */
    uint64_t program_ns;  /* processor time of the program, when it was looked at last */
    uint64_t threads_ns;  /* when threads were looked at last */
    pthread_mutex_t lock; /* of what is kept for children, which another thread opens */
    struct kept kept[FORKS_KEPT];
    _Atomic uint64_t fork_done; /* up to which fork_when */
    uint64_t coming_ns;         /* since when a fork is said to begin at once */
    uint32_t generation, maps_done;
    bool stale; /* the mappings may have changed */
    bool clock_ns, gone, drained;
    bool is_exact; /* the pump's timers are */
};

static uint64_t ticks_now(const struct rings *rings)
{
    if (rings->clock_ns)
        return hx_now_ns();
    _mm_lfence();
    uint64_t ticks = __rdtsc();
    _mm_lfence(); /* no head is read before it */
    return ticks & WHEN_MASK;
}

/* --- what the reader asks ----------------------------------------------------------- */

static bool read_ring_stack(void *context, uint64_t key, uint64_t *frame, size_t max, size_t *ret_n,
                            uint64_t *ret_exact, bool *ret_cut)
{
    const struct rings *rings = context;
    if (key < HX_EV_KEY_FIRST || key - HX_EV_KEY_FIRST >= HX_REGION_STACKS)
        return false;
    const struct hx_region_stack *stack = &rings->region->stack[key - HX_EV_KEY_FIRST];
    size_t n = atomic_load_explicit(&stack->n, memory_order_acquire);
    uint64_t first = *(const volatile uint64_t *)&stack->first;
    if (!n || n > HX_EV_FRAMES_MAX || n > max || first > HX_REGION_FRAMES - n)
        return false;
    memcpy(frame, &rings->region->frame[first], n * sizeof *frame);
    *ret_n = n;
    *ret_exact = stack->exact;
    *ret_cut = stack->flags & HX_EV_STACK_CUT;
    return true;
}

static bool read_ring_centre(void *context, uint64_t word, struct hx_ev_centre *ret)
{
    const struct rings *rings = context;
    uint64_t i = HX_EV_VALUE(word) - 1;
    if (i >= HX_REGION_CENTRES)
        return false;
    const struct hx_region_centre *centre = &rings->region->centres.centre[i];
    uint32_t n = atomic_load_explicit(&centre->n, memory_order_acquire);
    if (!n || n > HX_EV_CENTRE_TEXT)
        return false;
    *ret = (struct hx_ev_centre){
        .word = word, .address = centre->address, .line = centre->line, .n = n};
    memcpy(ret->text, centre->text, n);
    ret->text[n - 1] = 0;
    return true;
}

static void rings_locate(void *context, uint64_t pc, struct hx_location *ret)
{
    struct rings *rings = context;
    if (rings->stale) {
        rings->stale = false;
        hx_error_free(hx_space_refresh(rings->space)); /* else what was known is good enough */
    }
    hx_space_locate(rings->space, pc, ret);
}

static uint64_t rings_to_ns(void *context, uint64_t when)
{
    const struct rings *rings = context;
    if (rings->clock_ns)
        return when;
    uint64_t ticks = rings->ticks1 - rings->ticks0, ns = rings->ns1 - rings->ns0;
    if (!ticks)
        return rings->ns1;
    double away = ((double)when - (double)rings->ticks1) * ((double)ns / (double)ticks);
    double at = (double)rings->ns1 + away;
    return at < 0 ? 0 : at > 0x1p62 ? (uint64_t)1 << 62 : (uint64_t)at;
}

static void rings_event(void *context, enum hx_event_kind kind, uint64_t when, uint64_t word)
{
    struct rings *rings = context;
    (void)when;
    (void)word;
    rings->stale |= kind == HX_EV_MAPS;
}

static void calibrate(struct rings *rings)
{
    rings->ns1 = hx_now_ns();
    rings->ticks1 = rings->clock_ns ? rings->ns1 : ticks_now(rings);
    if (!rings->ns0) {
        rings->ns0 = rings->ns1;
        rings->ticks0 = rings->ticks1;
    }
}

/* --- one ring ------------------------------------------------------------------------ */

/* What stands at the place where the reader stopped, of which `left` bytes are there. */
enum stop { STOP_LATER, STOP_PAD, STOP_PART };
static enum stop why_stopped(const uint8_t *p, uint64_t until)
{
    uint64_t head;
    memcpy(&head, p, sizeof head);
    if (HX_EV_KIND(head) == HX_EV_PAD)
        return STOP_PAD;
    return HX_EV_WHEN(head) >= until ? STOP_LATER : STOP_PART;
}

/* Nothing that can be understood: what is there is skipped. */
static uint64_t skip_damaged_ring(struct rings *rings, uint64_t head)
{
    rings->broken++;
    return head;
}

/* The next piece of a ring. *ret_tail: how far it was read. False: the round has all of it. */
static hx_error *read_piece(struct rings *rings, const struct hx_ring *ring, uint64_t *tail,
                            uint64_t head, uint64_t until, uint64_t size, bool *ret_more)
{
    uint64_t at = *tail % HX_RING_BYTES, to_end = HX_RING_BYTES - at, n = head - *tail;
    size_t fed;
    if (n > to_end)
        n = to_end;
    bool whole = n <= size;
    if (!whole)
        n = size;
    memcpy(rings->piece, &ring->bytes[at], n);
    HX_TRY(hx_reader_feed(rings->reader, rings->piece, n, until, &fed));
    *tail += fed;
    *ret_more = *tail != head;
    if (fed == n)
        return NULL;
    enum stop stop = n - fed < 8 ? STOP_PART : why_stopped(rings->piece + fed, until);
    if (stop == STOP_LATER) {
        *ret_more = false;
    } else if (stop == STOP_PAD) {
        *tail =
            to_end - fed <= head - *tail ? *tail + to_end - fed : skip_damaged_ring(rings, head);
        *ret_more = *tail != head;
    } else if (!fed && size < HX_RING_BYTES && !whole) {
        return read_piece(rings, ring, tail, head, until, HX_RING_BYTES, ret_more);
    } else if (!fed || whole) {
        *tail = skip_damaged_ring(rings, head);
        *ret_more = false;
    }
    return NULL;
}

static hx_error *rings_drain(struct rings *rings, uint32_t number, uint64_t until)
{
    struct hx_ring *ring = &rings->region->ring[number];
    uint64_t tail = rings->tail[number], head = rings->head[number], before = tail;
    bool more = head != tail;
    if (head - tail > HX_RING_BYTES || head % 8) {
        tail = skip_damaged_ring(rings, head & ~(uint64_t)7);
        more = false;
    }
    while (more) {
        HX_TRY(read_piece(rings, ring, &tail, head, until, PIECE, &more));
        atomic_store_explicit(&ring->tail, tail, memory_order_release);
    }
    if (rings->most_bytes < tail - before)
        rings->most_bytes = tail - before;
    rings->tail[number] = tail;
    if (tail != before)
        atomic_store_explicit(&ring->tail, tail, memory_order_release);
    uint32_t left = HX_RING_LEFT;
    if (tail == head && atomic_load(&ring->state) == HX_RING_LEFT)
        atomic_compare_exchange_strong(&ring->state, &left, HX_RING_FREE);
    return NULL;
}

static uint32_t rings_used(const struct rings *rings)
{
    uint32_t used = atomic_load_explicit(&rings->region->rings_used, memory_order_acquire);
    return used > HX_RINGS ? HX_RINGS : used;
}

/* Where the stack of the program begins, by the kernel: random, so an execve() changes it. */
static uint64_t stack_start(pid_t pid)
{
    uint64_t value;
    return hx_proc_stat(pid, 0, 28, &value, 1) && value > 1 ? value
                                                            : 0; /* 1: not allowed to know */
}

/* Rings of threads that ended without a word are taken back. The numbers of threads have to be
 * the same here and there. */
static void check_writers(struct rings *rings, uint64_t now)
{
    if (now - rings->threads_ns < THREADS_NS || rings->gone || rings->region->pid != rings->pid)
        return;
    rings->threads_ns = now;
    uint64_t start = stack_start(rings->pid);
    if (start && rings->stack_start && start != rings->stack_start) {
        rings->gone = true; /* what it writes now is another region */
        return;
    }
    for (uint32_t i = 0, used = rings_used(rings); i < used; i++) {
        struct hx_ring *ring = &rings->region->ring[i];
        uint32_t state = HX_RING_USED, tid = atomic_load(&ring->tid);
        if (atomic_load(&ring->state) == HX_RING_USED && tid && tid <= INT_MAX &&
            syscall(SYS_tgkill, rings->pid, (pid_t)tid, 0) != 0 && errno == ESRCH &&
            atomic_load(&ring->tid) == tid)
            atomic_compare_exchange_strong(&ring->state, &state, HX_RING_LEFT);
    }
}

static void add_ring_losses(struct rings *rings, uint32_t used)
{
    const struct hx_region *region = rings->region;
    uint64_t allocs = atomic_load_explicit(&region->no_ring_allocs, memory_order_relaxed);
    uint64_t frees = atomic_load_explicit(&region->no_ring_frees, memory_order_relaxed);
    uint64_t entries = 0;
    for (uint32_t i = 0; i < used; i++) {
        allocs += atomic_load_explicit(&region->ring[i].lost_allocs, memory_order_relaxed);
        frees += atomic_load_explicit(&region->ring[i].lost_frees, memory_order_relaxed);
        entries += atomic_load_explicit(&region->ring[i].lost_entries, memory_order_relaxed);
    }
    frees += rings->broken + hx_guard_was_cut(rings->guard);
    hx_reader_add_losses(rings->reader, allocs, frees);
    hx_reader_add_lost_entries(rings->reader, entries);
}

static void wake_futex(_Atomic uint32_t *word)
{
    syscall(SYS_futex, word, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

static bool process_has_ended(struct rings *rings)
{
    struct pollfd gone = {.fd = rings->pidfd, .events = POLLIN};
    if (!rings->gone && rings->pidfd >= 0)
        rings->gone = poll(&gone, 1, 0) > 0;
    else if (!rings->gone && hx_now_ns() - rings->threads_ns >= THREADS_NS)
        rings->gone = !hx_proc_living(rings->pid); /* an old kernel */
    return rings->gone;
}

/* Drains each ring up to its head as it was when the round began. */
static hx_error *drain_all(struct rings *rings, uint32_t used, uint64_t until)
{
    const struct hx_region *region = rings->region;
    unsigned streams = 0;
    for (uint32_t i = 0; i < used; i++) {
        rings->head[i] = atomic_load_explicit(&region->ring[i].head, memory_order_acquire);
        streams += rings->head[i] != rings->tail[i];
    }
    if (streams < 2)
        hx_reader_one_stream(rings->reader);
    for (uint32_t i = 0; i < used; i++)
        if (rings->head[i] != rings->tail[i] ||
            atomic_load_explicit(&region->ring[i].state, memory_order_relaxed) == HX_RING_LEFT)
            HX_TRY(rings_drain(rings, i, until));
    return hx_reader_end_round(rings->reader);
}

/* --- forks --------------------------------------------------------------------------- */

static void drop_kept(struct kept *kept)
{
    free(kept->events);
    *kept = (struct kept){0};
}

/* Those of children that were not recorded. */
static void drop_old(struct rings *rings, uint64_t now)
{
    pthread_mutex_lock(&rings->lock);
    for (size_t i = 0; i < FORKS_KEPT; i++)
        if (rings->kept[i].when && now - rings->kept[i].kept_ns > KEPT_NS)
            drop_kept(&rings->kept[i]);
    pthread_mutex_unlock(&rings->lock);
}

/* The round that has just ended was up to a fork: what its child has is what the parent had. */
static hx_error *keep_for_child(struct rings *rings, uint64_t when, uint64_t now)
{
    struct kept made = {.when = when, .kept_ns = now};
    HX_TRY(hx_reader_inherit(rings->reader, &made.events, &made.bytes));
    pthread_mutex_lock(&rings->lock);
    size_t bytes = made.bytes, oldest = FORKS_KEPT - 1;
    for (size_t i = 0; i < FORKS_KEPT; i++) /* the latest stands first */
        if ((bytes += rings->kept[i].bytes) > KEPT_BYTES)
            drop_kept(&rings->kept[i]);
    drop_kept(&rings->kept[oldest]);
    memmove(&rings->kept[1], &rings->kept[0], oldest * sizeof rings->kept[0]);
    rings->kept[0] = made;
    pthread_mutex_unlock(&rings->lock);
    return NULL;
}

/* By the thread that opens the child: what was kept for it. False: nothing. */
static bool take_kept(struct rings *parent, uint64_t when, struct kept *ret)
{
    uint64_t end = hx_now_ns() + FORK_WAIT_NS;
    while (atomic_load(&parent->region->fork_when) == when &&
           atomic_load(&parent->fork_done) != when && hx_now_ns() < end) {
        struct timespec nap = {.tv_nsec = 200000};
        nanosleep(&nap, NULL); /* its pump comes to it soon */
    }
    bool found = false;
    pthread_mutex_lock(&parent->lock);
    for (size_t i = 0; i < FORKS_KEPT && !found; i++)
        if (parent->kept[i].when == when) {
            *ret = parent->kept[i];
            parent->kept[i] = (struct kept){0};
            found = true;
        }
    pthread_mutex_unlock(&parent->lock);
    return found;
}

/* What need not be done in each round. `must`: this time it does. */
static void rings_poll(struct rings *rings, uint32_t used, uint64_t now, bool must)
{
    if (now - rings->looked_ns < LOSSES_NS && !must)
        return;
    rings->looked_ns = now;
    add_ring_losses(rings, used);
    drop_old(rings, now);
    calibrate(rings);
    check_writers(rings, now);
}

/* All events before a stop that is pending, or else before now. */
static hx_error *take_events(struct rings *rings, const struct hx_stop_mark *mark,
                             uint64_t *ret_stop_ns)
{
    struct hx_region *region = rings->region;
    uint64_t now = hx_now_ns(), ticks, stop_ns;
    /* asking costs a system call: not each time while it writes */
    bool due = !rings->most_bytes || now - rings->looked_ns >= LOSSES_NS;
    bool gone = due ? process_has_ended(rings) : rings->gone;
    uint32_t maps_requested = atomic_load(&region->maps_requested);
    uint32_t generation = atomic_load(&region->generation);
    uint64_t until = ticks_now(rings);
    *ret_stop_ns = 0;
    if (hx_stop_mark_pending(mark, &ticks, &stop_ns)) {
        until = rings->clock_ns ? stop_ns : ticks & WHEN_MASK;
        *ret_stop_ns = stop_ns;
    } else if (gone) {
        until = WHEN_MASK; /* no more will come */
    }
    uint64_t fork = atomic_load(&region->fork_when); /* after the time was read */
    rings->coming_ns = fork != HX_FORK_COMING ? 0 : rings->coming_ns ? rings->coming_ns : now;
    if (rings->coming_ns && now - rings->coming_ns < COMING_NS && !gone && !*ret_stop_ns) {
        atomic_store(&region->reader_ns, now);
        return NULL;
    }
    bool at_fork = fork > HX_FORK_COMING && fork != rings->fork_done && fork < until;
    if (at_fork) { /* what comes after it, the next round takes */
        until = fork;
        *ret_stop_ns = 0;
        gone = false;
    }
    rings->stale |= generation != rings->generation;
    rings->generation = generation;
    rings->most_bytes = 0;
    rings->interval_ns = now - rings->round_ns;
    rings->round_ns = now;
    uint32_t used = rings_used(rings);
    HX_TRY(drain_all(rings, used, until));
    if (at_fork) {
        HX_TRY(keep_for_child(rings, fork, now));
        atomic_store(&rings->fork_done, fork);
    }
    rings->drained = gone && !*ret_stop_ns;
    rings_poll(rings, used, now, gone || *ret_stop_ns);
    atomic_store(&region->reader_ns, hx_now_ns());
    if (maps_requested != rings->maps_done) { /* their events came before, and are placed */
        rings->maps_done = maps_requested;
        atomic_store(&region->maps_done, maps_requested);
        wake_futex(&region->maps_done);
    }
    return NULL;
}

/* Always idle: rings_wait() knows better for how long. */
static hx_error *round_of(void *state, const struct hx_stop_mark *mark, bool *ret_idle,
                          uint64_t *ret_stop_ns)
{
    struct rings *rings = state;
    atomic_store(&rings->region->busy, 1);
    hx_error *err = take_events(state, mark, ret_stop_ns);
    atomic_store(&rings->region->busy, 0);
    *ret_idle = !err;
    return err;
}

/* --- waiting ------------------------------------------------------------------------- */

static bool is_maps_requested(const struct rings *rings)
{
    return atomic_load(&rings->region->maps_requested) != rings->maps_done;
}

/* How long the fullest ring takes to fill to WANTED_BYTES from the last round's moment on, if the
 * program goes on as it did; less the time since. */
static uint64_t until_filled(const struct rings *rings, uint64_t most)
{
    uint64_t since = hx_now_ns() - rings->round_ns;
    if (!rings->most_bytes || rings->interval_ns / rings->most_bytes > most / WANTED_BYTES)
        return most;
    uint64_t all = rings->interval_ns * WANTED_BYTES / rings->most_bytes;
    return all < since ? 0 : all - since < most ? all - since : most;
}

/* Large rounds are cheap ones, and a sleep costs the program nothing: it wakes us only when a ring
 * is half full before that was expected. */
static void rings_wait(void *state, uint64_t ns)
{
    struct rings *rings = state;
    struct hx_region *region = rings->region;
    if (rings->gone)
        return;
    ns = until_filled(rings, ns);
    if (ns < SLEEP_NS)
        return;
    if (!rings->is_exact) { /* the usual slack is as long as a whole wait */
        prctl(PR_SET_TIMERSLACK, 1000UL, 0UL, 0UL, 0UL);
        rings->is_exact = true;
    }
    struct timespec timeout = {(time_t)(ns / 1000000000), (long)(ns % 1000000000)};
    uint32_t seen = atomic_load(&region->wake);
    atomic_store(&region->asleep, 1);
    /* requests made from here on see that we sleep; earlier ones are seen here */
    if (!is_maps_requested(rings))
        syscall(SYS_futex, &region->wake, FUTEX_WAIT, seen, &timeout, NULL, 0);
    atomic_store(&region->asleep, 0);
    atomic_store(&region->reader_ns, hx_now_ns());
}

/* --- freezing --------------------------------------------------------------------------- */

static hx_error *rings_freeze(void *state, struct hx_recording **ret)
{
    struct rings *rings = state;
    calibrate(rings);
    atomic_store(&rings->region->busy, 1);
    hx_error *err = hx_reader_freeze(rings->reader, ret);
    atomic_store(&rings->region->reader_ns, hx_now_ns());
    atomic_store(&rings->region->busy, 0);
    HX_TRY(err);
    (*ret)->began_ns = rings_to_ns(rings, rings->region->began & WHEN_MASK);
    return NULL;
}

static hx_error *rings_name(void *state, struct hx_recording *recording,
                            const struct hx_progress *progress)
{
    const struct rings *rings = state;
    return hx_recording_name(recording, rings->code, progress);
}

static void rings_figures(void *state, struct hx_reader_figures *ret)
{
    const struct rings *rings = state;
    hx_reader_figures(rings->reader, ret);
}

static double mean_ticks(const _Atomic uint64_t *sum, const _Atomic uint64_t *count)
{
    uint64_t n = atomic_load_explicit(count, memory_order_relaxed);
    return n ? (double)atomic_load_explicit(sum, memory_order_relaxed) / (double)n : 0;
}

/* By the events that the library timed; waiting comes on top. Of a sampled recording nobody counts
 * the allocations that were no samples. */
static void rings_overhead(void *state, struct hx_record_overhead *ret)
{
    struct rings *rings = state;
    const struct hx_region *region = rings->region;
    struct hx_reader_figures figures;
    hx_reader_figures(rings->reader, &figures);
    uint64_t ticks = rings->ticks1 - rings->ticks0, ns = rings->ns1 - rings->ns0;
    double tick = rings->clock_ns ? 1 : ticks ? (double)ns / (double)ticks : 0;
    double alloc = mean_ticks(&region->timed_alloc_ticks, &region->timed_allocs) * tick;
    double free_ = mean_ticks(&region->timed_free_ticks, &region->timed_frees) * tick;
    double waited = (double)atomic_load_explicit(&region->wait_ticks, memory_order_relaxed) * tick;
    double spent = (double)figures.allocs * alloc + (double)figures.frees * free_ + waited;
    if (!rings->gone)
        hx_proc_cpu_ns(rings->pid, &rings->program_ns);
    ret->pair_ns = alloc && free_ && !region->sample_bytes ? alloc + free_ : 0;
    ret->spent_ns = alloc > 0 && spent > 0 && spent < 0x1p62 ? (uint64_t)spent : 0;
    ret->program_ns = rings->program_ns;
}

static bool rings_ended(void *state)
{
    const struct rings *rings = state;
    return rings->drained;
}

static void close_rings(void *state)
{
    struct rings *rings = state;
    if (!rings)
        return;
    if (rings->region) {
        struct hx_region *region = rings->region;
        atomic_store(&region->reader_gone, 1);
        atomic_store(&region->maps_done, atomic_load(&region->maps_requested));
        wake_futex(&region->maps_done);
        atomic_store(&region->exit_done, 1);
        wake_futex(&region->exit_done);
        hx_guard_remove(rings->guard);
        munmap(region, sizeof *region);
    }
    if (rings->pidfd >= 0)
        close(rings->pidfd);
    hx_reader_destroy(rings->reader);
    hx_space_destroy(rings->space);
    hx_code_destroy(rings->code);
    for (size_t i = 0; i < FORKS_KEPT; i++)
        drop_kept(&rings->kept[i]);
    pthread_mutex_destroy(&rings->lock);
    free(rings->piece);
    free(rings->tail);
    free(rings->head);
    free(rings);
}

bool hx_rings_wants_exit(void *state, int *ret_signal)
{
    struct rings *rings = state;
    if (atomic_load(&rings->region->exit_requested) != 1 || atomic_load(&rings->region->exit_done))
        return false;
    *ret_signal = rings->region->exit_signal;
    return true;
}

void hx_rings_let_exit(void *state)
{
    struct rings *rings = state;
    atomic_store(&rings->region->exit_done, 1);
    wake_futex(&rings->region->exit_done);
}

/* --- opening ------------------------------------------------------------------------------ */

static const struct hx_source rings_source = {
    .method = "run",
    .round = round_of,
    .wait = rings_wait,
    .freeze = rings_freeze,
    .name = rings_name,
    .figures = rings_figures,
    .overhead = rings_overhead,
    .ended = rings_ended,
    .close = close_rings,
};

/* PID.N: both numbers; false: another name. */
static bool parse_region_name(const char *name, pid_t *ret_pid, unsigned long *ret_number)
{
    char *end;
    if (*name < '1' || *name > '9')
        return false;
    unsigned long pid = strtoul(name, &end, 10);
    if (*end != '.' || end[1] < '0' || end[1] > '9' || pid > INT_MAX)
        return false;
    *ret_number = strtoul(end + 1, &end, 10);
    *ret_pid = (pid_t)pid;
    return !*end;
}

static DIR *open_folder(int folder_fd)
{
    int fd = openat(folder_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *folder = fd < 0 ? NULL : fdopendir(fd);
    if (!folder && fd >= 0)
        close(fd);
    return folder;
}

size_t hx_rings_list(int folder_fd, pid_t *ret, size_t max)
{
    HX_DIR DIR *folder = open_folder(folder_fd);
    size_t n = 0;
    for (struct dirent *entry; folder && n < max && (entry = readdir(folder));) {
        pid_t pid;
        unsigned long number;
        bool figures = !parse_region_name(entry->d_name, &pid, &number);
        for (size_t i = 0; i < n && !figures; i++)
            figures = ret[i] == pid;
        if (!figures)
            ret[n++] = pid;
    }
    return n;
}

static hx_error *no_region(pid_t pid)
{
    return hx_error_new(HX_E_ABSENT, "recorder", NULL, "process %d has no rings (yet)", (int)pid);
}

static hx_error *wrong_region(void)
{
    return hx_error_new(HX_E_CORRUPT, "recorder", "build and start the same version of heapx",
                        "the memory shared with the program is not of the expected kind");
}

/* The latest region of the process. */
static hx_error *find_region(int folder_fd, pid_t pid, unsigned long *ret)
{
    HX_DIR DIR *folder = open_folder(folder_fd);
    bool found = false;
    for (struct dirent *entry; folder && (entry = readdir(folder));) {
        pid_t other;
        unsigned long number;
        if (parse_region_name(entry->d_name, &other, &number) && other == pid &&
            (!found || number > *ret)) {
            *ret = number;
            found = true;
        }
    }
    return found ? NULL : no_region(pid);
}

/* Those of programs that the process was before are not needed any more. */
static void remove_names(int folder_fd, pid_t pid, unsigned long last)
{
    char name[64];
    for (unsigned long i = 0; i <= last && i < 1000; i++) {
        snprintf(name, sizeof name, "%d.%lu", (int)pid, i);
        unlinkat(folder_fd, name, 0);
    }
}

static hx_error *map_region(int folder_fd, struct rings *rings)
{
    char name[64];
    struct stat status;
    unsigned long number = 0;
    HX_TRY(find_region(folder_fd, rings->pid, &number));
    snprintf(name, sizeof name, "%d.%lu", (int)rings->pid, number);
    HX_FD int fd = openat(folder_fd, name, O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0)
        return errno == ENOENT ? no_region(rings->pid) : hx_error_os(errno, name, "open");
    if (fstat(fd, &status) != 0 || !S_ISREG(status.st_mode))
        return wrong_region();
    if (status.st_size == 0) /* it is about to be made */
        return no_region(rings->pid);
    if (status.st_size < (off_t)sizeof(struct hx_region))
        return wrong_region();
    struct hx_region *region =
        mmap(NULL, sizeof *region, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, 0);
    if (region == MAP_FAILED)
        return hx_error_os(errno, name, "mmap");
    hx_error *err = hx_guard_add(region, sizeof *region, &rings->guard);
    if (err) {
        munmap(region, sizeof *region);
        return err;
    }
    rings->region = region;
    uint64_t magic = __atomic_load_n(&region->magic, __ATOMIC_ACQUIRE);
    if (!magic)
        return no_region(rings->pid);
    if (magic != HX_REGION_MAGIC || region->version != HX_REGION_VERSION ||
        region->bytes != sizeof *region)
        return wrong_region();
    atomic_store(&region->busy, 1); /* until the first round, for which it is opened */
    remove_names(folder_fd, rings->pid, number);
    return NULL;
}

static hx_error *open_reader(struct rings *rings, const struct kept *inherited)
{
    const struct hx_reader_source source = {.stack = read_ring_stack,
                                            .centre = read_ring_centre,
                                            .locate = rings_locate,
                                            .to_ns = rings_to_ns,
                                            .process_event = rings_event,
                                            .context = rings};
    const struct hx_reader_options options = {.sample_bytes = rings->region->sample_bytes,
                                              .from_start =
                                                  rings->region->parent == 0 || inherited->when,
                                              .method = rings_source.method};
    size_t fed;
    if (!rings->code)
        HX_TRY(hx_code_create(&rings->code));
    HX_TRY(hx_space_create(rings->pid, rings->code, &rings->space));
    HX_TRY(hx_reader_create(&source, &options, &rings->reader));
    if (!inherited->bytes)
        return NULL;
    hx_reader_one_stream(rings->reader);
    HX_TRY(hx_reader_feed(rings->reader, inherited->events, inherited->bytes, UINT64_MAX, &fed));
    return hx_reader_end_round(rings->reader);
}

/* What the process had when it was forked off one of the others. */
static void rings_inherit(const struct rings *rings, void *const *others, size_t n,
                          struct kept *ret)
{
    const struct hx_region *region = rings->region;
    for (size_t i = 0; i < n && region->parent; i++) {
        struct rings *parent = others[i];
        if (parent && parent->region->pid == region->parent &&
            take_kept(parent, region->began, ret))
            return;
    }
}

static hx_error *open_rings(int folder_fd, struct rings *rings, void *const *others, size_t n)
{
    struct kept inherited = {0};
    rings->piece = malloc(HX_RING_BYTES);
    rings->tail = calloc(HX_RINGS, sizeof *rings->tail);
    rings->head = calloc(HX_RINGS, sizeof *rings->head);
    HX_NEED(rings->piece && rings->tail && rings->head);
    HX_TRY(map_region(folder_fd, rings));
    rings->clock_ns = rings->region->clock != 0;
    rings->pidfd = (int)syscall(SYS_pidfd_open, rings->pid, 0);
    rings->gone = rings->pidfd < 0 && errno == ESRCH;
    rings->stack_start = stack_start(rings->pid);
    calibrate(rings);
    rings_inherit(rings, others, n, &inherited);
    hx_error *err = open_reader(rings, &inherited);
    drop_kept(&inherited);
    return err;
}

hx_error *hx_rings_open(int folder_fd, pid_t pid, hx_code *code, void *const *others,
                        size_t n_others, const struct hx_source **ret, void **ret_state)
{
    struct rings *rings = calloc(1, sizeof *rings);
    HX_NEED(rings);
    rings->pid = pid;
    rings->pidfd = -1;
    rings->code = code ? hx_code_share(code) : NULL;
    pthread_mutex_init(&rings->lock, NULL);
    hx_error *err = open_rings(folder_fd, rings, others, n_others);
    if (err) {
        if (rings->region && err->kind == HX_E_ABSENT) { /* not ready: touch nothing */
            hx_guard_remove(rings->guard);
            munmap(rings->region, sizeof *rings->region);
            rings->region = NULL;
        }
        close_rings(rings);
        return err;
    }
    *ret = &rings_source;
    *ret_state = rings;
    return NULL;
}
