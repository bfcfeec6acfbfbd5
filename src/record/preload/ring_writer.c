/* ring_writer.c - the writer's side of the rings: taking one, room in it, events, waking the
 * reader.
 *
 * On the usual path an event is a comparison, some stores and the release of the head. What a
 * signal handler interrupts is never continued by the handler: it writes to a ring of its own.
 */
#include "record/preload/preload.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <string.h>
#include <sys/mman.h>

__thread struct hx_thread_state hx_thread_state;

#define EIGHTH (HX_RING_BYTES / 8)

/* --- time --------------------------------------------------------------------------------- */

uint64_t hx_now_ns(void)
{
    struct timespec ts = {0};
    clock_gettime(CLOCK_MONOTONIC, &ts); /* the vDSO; does not fail */
    return (uint64_t)ts.tv_sec * 1000000000 + (uint64_t)ts.tv_nsec;
}

static bool writer_barred(void)
{
    return atomic_load_explicit(&hx_process.barred, memory_order_relaxed);
}

/* --- the reader ----------------------------------------------------------------------------- */

void hx_wake_reader(void)
{
    struct hx_region *region = hx_process.region;
    if (!atomic_load(&region->asleep))
        return;
    atomic_fetch_add(&region->wake, 1);
    /* once is enough: it may be a while until it runs */
    if (!writer_barred() && atomic_exchange(&region->asleep, 0))
        HX_SYS(SYS_futex, &region->wake, FUTEX_WAKE, 1, 0);
}

void hx_sleep_ns(uint64_t ns)
{
    struct timespec ts = {0, (long)ns};
    if (!writer_barred())
        HX_SYS(SYS_nanosleep, &ts, NULL, 0, 0);
}

/* A wait that ends by itself: after `ns`, or when the reader is gone, or has shown no sign of life
 * for `silence`. Where system calls are forbidden the time is that of the processor, and a wait
 * that may be long goes on as long as the signs come. */
struct waiting {
    uint64_t ns, silence, began, seen;
    uint32_t turns;
    _Atomic uint32_t *word; /* futex, which the reader wakes; NULL: there is none */
};

#define SPINS    64 /* turns that are short */
#define YIELDS   32 /* and then those that let others run */
#define NAP_NS   50000
#define FUTEX_NS 20000000

#define BARRED_TICKS 400000000ULL   /* 0.1 to 0.3 s */
#define COMING_NS    1000000000ULL  /* for the first sign of a reader */
#define UNKNOWN_NS   2000000000ULL  /* of silence at work, when nobody knows whether it lives */
#define BUSY_NS      10000000000ULL /* and of one that is known to live */

static struct waiting waiting_begin(uint64_t ns, uint64_t silence)
{
    return (struct waiting){.ns = ns,
                            .silence = silence,
                            .began = writer_barred() ? hx_tsc() : hx_now_ns(),
                            .seen = atomic_load(&hx_process.region->reader_ns)};
}

/* Killed, and its parent has not heard of it yet: for kill() it still lives. */
static bool is_zombie(int pid)
{
    char text[128] = "/proc/"; /* "PID (NAME) STATE", the name has 15 characters at most */
    size_t len = 6, at = 0;
    hx_number_add(text, sizeof text, &len, (uint64_t)pid, 10);
    hx_text_add(text, sizeof text, &len, "/stat");
    int fd = (int)HX_SYS(SYS_openat, AT_FDCWD, text, O_RDONLY | O_CLOEXEC, 0);
    if (fd < 0)
        return false;
    long n = HX_SYS(SYS_read, fd, text, sizeof text, 0);
    HX_SYS(SYS_close, fd, 0, 0, 0);
    for (size_t i = 0; n > 0 && i + 2 < (size_t)n; i++)
        if (text[i] == ')')
            at = i + 2;
    return at && (text[at] == 'Z' || text[at] == 'X');
}

static bool reader_died(bool closely)
{
    int pid = hx_process.reader_pid;
    return pid && (HX_SYS(SYS_kill, pid, 0, 0, 0) == -ESRCH || (closely && is_zombie(pid)));
}

static bool waiting_goes_on_barred(struct waiting *waiting)
{
    uint64_t seen = atomic_load(&hx_process.region->reader_ns);
    __builtin_ia32_pause();
    if (waiting->ns > HX_RING_TIMEOUT_NS && seen != waiting->seen) {
        waiting->seen = seen;
        waiting->began = hx_tsc();
    }
    return hx_tsc() - waiting->began < BARRED_TICKS;
}

/* How long the reader may show no sign of life. */
static uint64_t silence_of(const struct waiting *waiting)
{
    if (waiting->ns <= HX_RING_TIMEOUT_NS || !atomic_load(&hx_process.region->busy))
        return waiting->silence;
    return hx_process.reader_pid ? BUSY_NS : UNKNOWN_NS;
}

/* value: of the word, when it was looked at. */
static void waiting_nap(const struct waiting *waiting, uint32_t value)
{
    const struct timespec most = {0, FUTEX_NS};
    if (waiting->word)
        hx_sys6(SYS_futex, (long)waiting->word, FUTEX_WAIT, (long)value, (long)&most, 0, 0);
    else if (waiting->turns < SPINS + YIELDS)
        HX_SYS(SYS_sched_yield, 0, 0, 0, 0);
    else
        hx_sleep_ns(NAP_NS);
}

static bool waiting_goes_on(struct waiting *waiting, uint32_t value)
{
    struct hx_region *region = hx_process.region;
    if (atomic_load(&region->reader_gone))
        return false;
    waiting->turns++;
    if (writer_barred())
        return waiting_goes_on_barred(waiting);
    if (waiting->turns < SPINS) {
        __builtin_ia32_pause();
        return true;
    }
    uint32_t each = waiting->word ? 1 : YIELDS;
    if (waiting->turns % each == 0 && reader_died(waiting->turns % (8 * each) == 0))
        return false;
    uint64_t now = hx_now_ns(), seen = atomic_load(&region->reader_ns);
    if (seen && !waiting->seen) { /* it has come: from now on it has its time */
        waiting->seen = seen;
        waiting->began = now;
    }
    if (now > waiting->began + (seen ? waiting->ns : COMING_NS))
        return false;
    if (seen && now > seen && now - seen > silence_of(waiting))
        return false;
    waiting_nap(waiting, value);
    return true;
}

/* Nobody waits again for a reader that did not come, until it shows a sign of life. */
static bool gave_up(void)
{
    return atomic_load(&hx_process.gave_up) &&
           atomic_load(&hx_process.gave_up_at) == atomic_load(&hx_process.region->reader_ns);
}
static void give_up_reader(void)
{
    atomic_store(&hx_process.gave_up_at, atomic_load(&hx_process.region->reader_ns));
    atomic_store(&hx_process.gave_up, true);
}

bool hx_wait_for(_Atomic uint32_t *word, uint32_t value, uint64_t ns, uint64_t silence)
{
    if (gave_up())
        return false;
    struct waiting waiting = waiting_begin(ns, silence);
    waiting.word = word;
    hx_wake_reader();
    for (;;) {
        uint32_t current = atomic_load(word);
        if ((int32_t)(current - value) >= 0)
            return true;
        if (!waiting_goes_on(&waiting, current)) {
            give_up_reader();
            return false;
        }
    }
}

/* --- taking and leaving a ring -------------------------------------------------------------- */

static uint8_t *ring_slot(uint32_t index)
{
    return hx_process.slots - (index + (size_t)1) * hx_process.slot_bytes;
}

static bool is_populated(uint32_t index)
{
    return atomic_load(&hx_process.populated[index / 64]) >> index % 64 & 1;
}

/* A ring whose pages cannot be allocated (a full tmpfs) would be a SIGBUS later. */
static bool populate(uint32_t index)
{
    if (is_populated(index))
        return true;
    if (writer_barred() || !hx_try_again(&hx_process.rings_refused))
        return false;
    if (HX_SYS(SYS_mprotect, ring_slot(index), hx_process.slot_bytes, PROT_READ | PROT_WRITE, 0) ||
        !hx_pages_fill(&hx_process.ring[index], sizeof(struct hx_ring))) {
        atomic_fetch_add(&hx_process.rings_refused, 1);
        return false;
    }
    atomic_store(&hx_process.rings_refused, 0);
    atomic_fetch_or(&hx_process.populated[index / 64], 1ULL << index % 64);
    return true;
}

static bool claim_ring(uint32_t index, uint32_t tid)
{
    struct hx_ring *ring = &hx_process.ring[index];
    if (!populate(index))
        return false;
    uint32_t state = atomic_load(&ring->state);
    if (state == HX_RING_USED)
        return false;
    if (!atomic_compare_exchange_strong(&ring->state, &state, HX_RING_USED)) {
        /* the reader has just freed it */
        if (state != HX_RING_FREE ||
            !atomic_compare_exchange_strong(&ring->state, &state, HX_RING_USED))
            return false;
    }
    atomic_store(&ring->tid, tid);
    uint32_t used = atomic_load(&hx_process.region->rings_used);
    while (used < index + 1 &&
           !atomic_compare_exchange_weak(&hx_process.region->rings_used, &used, index + 1))
        ;
    return true;
}

/* The lowest ring that no thread has. When all are taken, perhaps one is among them whose thread
 * ended without a word, which the reader has noticed. */
static int find_ring(uint32_t tid)
{
    uint32_t n = hx_process.n_rings;
    for (uint32_t word = 0; word * 64 < n; word++) {
        uint64_t taken = atomic_load(&hx_process.rings[word]);
        while (~taken) {
            uint32_t bit = (uint32_t)__builtin_ctzll(~taken), index = word * 64 + bit;
            if (index >= n)
                break;
            uint64_t before = atomic_fetch_or(&hx_process.rings[word], 1ULL << bit);
            taken = before | 1ULL << bit;
            if (before & 1ULL << bit)
                continue;
            if (claim_ring(index, tid))
                return (int)index;
            if (!is_populated(index)) { /* no memory: only those that are there */
                atomic_fetch_and(&hx_process.rings[word], ~(1ULL << bit));
                n = index;
            }
        }
    }
    for (uint32_t i = 0; i < n; i++)
        if (is_populated(i) && claim_ring(i, tid))
            return (int)i;
    return -1;
}

static uint32_t own_tid(struct hx_thread_state *thread)
{
    if (thread->tid)
        return thread->tid;
    if (!writer_barred())
        thread->tid = (uint32_t)HX_SYS(SYS_gettid, 0, 0, 0, 0);
    else if (hx_process.tid_offset)
        memcpy(&thread->tid, (const char *)__builtin_thread_pointer() + hx_process.tid_offset, 4);
    return thread->tid;
}

struct hx_writer *hx_writer_take(struct hx_thread_state *thread, uint32_t level)
{
    int index = find_ring(own_tid(thread));
    if (index < 0)
        return NULL;
    uint8_t *slot = ring_slot((uint32_t)index);
    struct hx_writer *writer = (struct hx_writer *)slot;
    writer->ring = &hx_process.ring[index];
    writer->unwind = (struct hx_unwind_thread *)(slot + 4096);
    writer->head = atomic_load(&writer->ring->head);
    writer->limit = writer->head; /* to be asked at the first event */
    writer->visit = thread->ending;
    if (thread->ending)
        return writer;
    thread->writer[level] = writer;
    if (level == 0 && hx_process.has_key)
        pthread_setspecific(hx_process.key, thread);
    return writer;
}

void hx_writer_leave(struct hx_writer *writer)
{
    uint32_t index = (uint32_t)(writer->ring - hx_process.ring);
    atomic_store(&writer->ring->state, HX_RING_LEFT);
    atomic_fetch_and(&hx_process.rings[index / 64], ~(1ULL << (index % 64)));
}

void hx_thread_leave(struct hx_thread_state *thread)
{
    thread->ending = true;
    for (uint32_t i = HX_LEVELS; i-- > 0;) {
        struct hx_writer *writer = thread->writer[i];
        thread->writer[i] = NULL;
        atomic_signal_fence(memory_order_seq_cst);
        if (writer)
            hx_writer_leave(writer);
    }
}

/* --- room --------------------------------------------------------------------------------- */

/* The ring is full: the reader gets some time, once, as long as it lives. */
static bool wait_for_room(struct hx_writer *writer, uint64_t bytes)
{
    if (gave_up())
        return false;
    struct hx_region *region = hx_process.region;
    struct waiting waiting = waiting_begin(HX_RING_TIMEOUT_NS, HX_RING_TIMEOUT_NS);
    uint64_t begun = hx_now();
    bool room;
    do {
        uint64_t used = writer->head + bytes - atomic_load(&writer->ring->tail);
        room = used <= HX_RING_BYTES;
        if (!room)
            hx_wake_reader();
    } while (!room && waiting_goes_on(&waiting, 0));
    if (!room)
        give_up_reader();
    atomic_fetch_add(&region->waits, 1);
    atomic_fetch_add(&region->wait_ticks, hx_now() - begun);
    hx_thread_state.waits++;
    return room;
}

bool hx_writer_room(struct hx_writer *writer, uint64_t bytes)
{
    uint64_t tail = atomic_load_explicit(&writer->ring->tail, memory_order_acquire);
    if (tail > writer->head || writer->head - tail > HX_RING_BYTES)
        return false; /* whoever wrote that, it was not a reader */
    if (writer->head + bytes - tail <= HX_RING_BYTES / 2) {
        writer->limit = tail + HX_RING_BYTES / 2;
        return true;
    }
    hx_wake_reader();
    if (writer->head + bytes - tail > HX_RING_BYTES) {
        if (!wait_for_room(writer, bytes))
            return false;
        tail = atomic_load_explicit(&writer->ring->tail, memory_order_acquire);
        if (tail > writer->head)
            return false;
    }
    uint64_t next = writer->head + bytes + EIGHTH;
    writer->limit = next < tail + HX_RING_BYTES ? next : tail + HX_RING_BYTES;
    return true;
}

/* --- events --------------------------------------------------------------------------------------
 * Each is: enter_writer() the next level, fill, leave_writer(). Between the two a handler uses the
 * next level. */

static inline struct hx_writer *enter_writer(struct hx_thread_state *thread)
{
    uint32_t level = thread->levels;
    if (HX_RARELY(level >= HX_LEVELS))
        return NULL;
    thread->levels = level + 1;
    atomic_signal_fence(memory_order_seq_cst);
    struct hx_writer *writer = thread->writer[level];
    if (HX_LIKELY(writer))
        return writer;
    writer = hx_writer_take(thread, level);
    if (!writer)
        thread->levels = level;
    return writer;
}

static inline void leave_writer(struct hx_thread_state *thread, struct hx_writer *writer)
{
    if (HX_RARELY(writer->visit))
        hx_writer_leave(writer);
    atomic_signal_fence(memory_order_seq_cst);
    thread->levels--;
}

/* Where a record of so many bytes goes; NULL: there is no room. */
static inline uint64_t *begin_record(struct hx_writer *writer, uint64_t bytes)
{
    uint64_t at = writer->head % HX_RING_BYTES;
    uint64_t pad = at + bytes > HX_RING_BYTES ? HX_RING_BYTES - at : 0;
    if (HX_RARELY(writer->head + pad + bytes > writer->limit) &&
        !hx_writer_room(writer, pad + bytes))
        return NULL;
    if (HX_RARELY(pad)) {
        *(uint64_t *)(writer->ring->bytes + at) = HX_EV_PAD;
        writer->head += pad;
        at = 0;
    }
    return (uint64_t *)(writer->ring->bytes + at);
}

static inline void publish(struct hx_writer *writer, uint64_t bytes)
{
    writer->head += bytes;
    atomic_store_explicit(&writer->ring->head, writer->head, memory_order_release);
}

static void add_relaxed(_Atomic uint64_t *count, uint64_t n)
{
    atomic_store_explicit(count, atomic_load_explicit(count, memory_order_relaxed) + n,
                          memory_order_relaxed);
}

static __attribute__((noinline, cold)) void lost_alloc(struct hx_writer *writer, uint64_t bytes)
{
    if (!writer) {
        atomic_fetch_add(&hx_process.region->no_ring_allocs, 1);
        return;
    }
    add_relaxed(&writer->ring->lost_allocs, 1);
    add_relaxed(&writer->ring->lost_bytes, bytes);
}

static __attribute__((noinline, cold)) void lost_free(struct hx_writer *writer)
{
    if (writer)
        add_relaxed(&writer->ring->lost_frees, 1);
    else
        atomic_fetch_add(&hx_process.region->no_ring_frees, 1);
}

static inline uint64_t take_ring_stack(struct hx_writer *writer, uint64_t pc, uint64_t sp,
                                       uint64_t fp)
{
    if (HX_RARELY(hx_marks.n))
        return hx_unwind_marked(hx_process.unwind, writer->unwind, pc, sp, fp, &hx_marks);
    return hx_unwind_stack(hx_process.unwind, writer->unwind, pc, sp, fp);
}

static inline bool write_alloc(struct hx_thread_state *thread, uint64_t address, uint64_t bytes,
                               uint64_t usable, uint64_t pc, uint64_t sp, uint64_t fp)
{
    struct hx_writer *writer = enter_writer(thread);
    if (HX_RARELY(!writer)) {
        lost_alloc(NULL, bytes);
        return false;
    }
    uint64_t stack = take_ring_stack(writer, pc, sp, fp);
    struct hx_ev_alloc *event = (struct hx_ev_alloc *)begin_record(writer, sizeof *event);
    bool ok = event;
    if (HX_LIKELY(ok)) {
        event->head = HX_EV_HEAD(HX_EV_ALLOC, hx_now());
        event->address = address;
        event->requested = bytes;
        event->usable = usable;
        event->stack = stack;
        publish(writer, sizeof *event);
    } else {
        lost_alloc(writer, bytes);
    }
    leave_writer(thread, writer);
    return ok;
}

/* Asks the allocator, which may allocate for its answer (tcmalloc, the first time). */
uint64_t hx_usable(void *p)
{
    if (HX_LIKELY(hx_real.libc))
        return hx_real.malloc_usable_size(p);
    struct hx_thread_state *thread = &hx_thread_state;
    uint64_t outer = thread->outer;
    thread->outer = (uint64_t)__builtin_frame_address(0);
    atomic_signal_fence(memory_order_seq_cst);
    uint64_t usable = hx_real.malloc_usable_size(p);
    atomic_signal_fence(memory_order_seq_cst);
    thread->outer = outer;
    return usable;
}

/* --- what it costs ------------------------------------------------------------------------------
 * Of every so many events of a thread one is timed. What takes longer than any event can was
 * interrupted, or the first touch of memory. */
#define TIMED_EACH 1024
#define TIMED_MOST ((uint64_t)1 << 18) /* ticks, or nanoseconds */

static inline bool is_timed(uint32_t *count)
{
    return HX_RARELY(++*count % TIMED_EACH == 0);
}

static void note_time(uint64_t begun, uint32_t waits, _Atomic uint64_t *count,
                      _Atomic uint64_t *ticks)
{
    uint64_t took = hx_now() - begun;
    if (took >= TIMED_MOST || hx_thread_state.waits != waits)
        return;
    took -= took < hx_process.clock_cost ? took : hx_process.clock_cost;
    atomic_fetch_add_explicit(ticks, took, memory_order_relaxed);
    atomic_fetch_add_explicit(count, 1, memory_order_relaxed);
}

void hx_clock_measure(void)
{
    uint64_t least = UINT64_MAX;
    for (int i = 0; i < 16; i++) {
        uint64_t begun = hx_now(), took = hx_now() - begun;
        least = took < least ? took : least;
    }
    hx_process.clock_cost = least;
}

static __attribute__((noinline, cold)) void *write_alloc_timed(struct hx_thread_state *thread,
                                                               void *p, uint64_t bytes, uint64_t pc,
                                                               uint64_t sp, uint64_t fp)
{
    struct hx_region *region = hx_process.region;
    uint32_t waits = thread->waits;
    uint64_t begun = hx_now();
    write_alloc(thread, (uint64_t)p, bytes, hx_usable(p), pc, sp, fp);
    note_time(begun, waits, &region->timed_allocs, &region->timed_alloc_ticks);
    return p;
}

void *hx_record_alloc(void *p, uint64_t bytes, uint64_t pc, uint64_t sp, uint64_t fp)
{
    struct hx_thread_state *thread = &hx_thread_state;
    uint64_t address = (uint64_t)p;
    if (HX_RARELY(hx_process.mode == HX_GATE_SAMPLED) && !hx_sample_add(address)) {
        lost_alloc(NULL, bytes);
        return p;
    }
    if (is_timed(&thread->allocs))
        return write_alloc_timed(thread, p, bytes, pc, sp, fp);
    write_alloc(thread, address, bytes, hx_usable(p), pc, sp, fp);
    return p;
}

void hx_record_mapping(void *p, uint64_t bytes, const struct hx_caller *caller)
{
    write_alloc(&hx_thread_state, (uint64_t)p, bytes, (bytes + 4095) & ~4095ULL, caller->pc,
                caller->sp, caller->fp);
}

static inline void write_free(struct hx_thread_state *thread, uint64_t address)
{
    struct hx_writer *writer = enter_writer(thread);
    if (HX_RARELY(!writer)) {
        lost_free(NULL);
        return;
    }
    struct hx_ev_free *event = (struct hx_ev_free *)begin_record(writer, sizeof *event);
    if (HX_LIKELY(event)) {
        event->head = HX_EV_HEAD(HX_EV_FREE, hx_now());
        event->address = address;
        publish(writer, sizeof *event);
    } else {
        lost_free(writer);
    }
    leave_writer(thread, writer);
}

static __attribute__((noinline, cold)) void write_free_timed(struct hx_thread_state *thread,
                                                             uint64_t address)
{
    struct hx_region *region = hx_process.region;
    uint32_t waits = thread->waits;
    uint64_t begun = hx_now();
    write_free(thread, address);
    note_time(begun, waits, &region->timed_frees, &region->timed_free_ticks);
}

void hx_record_free(uint64_t address)
{
    struct hx_thread_state *thread = &hx_thread_state;
    if (is_timed(&thread->frees))
        write_free_timed(thread, address);
    else
        write_free(thread, address);
}

void hx_record_realloc_begin(uint64_t old)
{
    struct hx_thread_state *thread = &hx_thread_state;
    struct hx_writer *writer = enter_writer(thread);
    if (HX_RARELY(!writer)) {
        lost_free(NULL);
        return;
    }
    struct hx_ev_realloc_begin *event =
        (struct hx_ev_realloc_begin *)begin_record(writer, sizeof *event);
    if (HX_LIKELY(event)) {
        event->head = HX_EV_HEAD(HX_EV_REALLOC_BEGIN, hx_now());
        event->address = old;
        event->tid = own_tid(thread);
        event->unused = 0;
        publish(writer, sizeof *event);
    } else {
        lost_free(writer);
    }
    leave_writer(thread, writer);
}

void hx_record_realloc(uint64_t old, void *p, uint64_t bytes, bool freed, uint64_t usable,
                       const struct hx_caller *caller)
{
    struct hx_thread_state *thread = &hx_thread_state;
    struct hx_writer *writer = enter_writer(thread);
    if (HX_RARELY(!writer)) {
        lost_alloc(NULL, bytes);
        return;
    }
    uint64_t stack =
        p ? take_ring_stack(writer, caller->pc, caller->sp, caller->fp) : HX_EV_KEY_UNKNOWN;
    struct hx_ev_realloc_end *event =
        (struct hx_ev_realloc_end *)begin_record(writer, sizeof *event);
    if (HX_LIKELY(event)) {
        event->head = HX_EV_HEAD(HX_EV_REALLOC_END, hx_now());
        event->old = old;
        event->address = (uint64_t)p;
        event->requested = bytes;
        event->usable = usable;
        event->stack = stack;
        event->tid = own_tid(thread);
        event->freed = freed;
        publish(writer, sizeof *event);
    } else {
        lost_alloc(writer, bytes);
    }
    leave_writer(thread, writer);
}

struct hx_writer *hx_writer_enter(struct hx_thread_state *thread)
{
    return enter_writer(thread);
}

void hx_writer_exit(struct hx_thread_state *thread, struct hx_writer *writer)
{
    leave_writer(thread, writer);
}

void hx_writer_word(struct hx_writer *writer, enum hx_event_kind kind, uint64_t word)
{
    struct hx_ev_word *event = (struct hx_ev_word *)begin_record(writer, sizeof *event);
    if (event) {
        event->head = HX_EV_HEAD(kind, hx_now());
        event->word = word;
        publish(writer, sizeof *event);
    } else if (kind == HX_EV_ENTRY) {
        add_relaxed(&writer->ring->lost_entries, 1);
    }
}

void hx_record_word(enum hx_event_kind kind, uint64_t word)
{
    struct hx_thread_state *thread = &hx_thread_state;
    struct hx_writer *writer = enter_writer(thread);
    if (!writer)
        return;
    hx_writer_word(writer, kind, word);
    leave_writer(thread, writer);
}
