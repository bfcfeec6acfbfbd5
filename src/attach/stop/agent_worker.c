/* agent_worker.c - one capture: stop, copy, let go, reply. */
#include "attach/precopy.h"
#include "attach/stop/agent_protocol.h"
#include "attach/stop/copy.h"
#include "attach/stop/stop_maps.h"
#include "attach/stop/tracer.h"
#include "base/cleanup.h"
#include "base/packet.h"
#include "base/parallel.h"
#include "base/proc.h"
#include "model/process.h"

#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

/* The most that leading threads out of malloc may add to a stop. Most critical sections of an
 * allocator take well under a microsecond. */
static const uint64_t lead_out_ns = 50000000;

/* How often is looked, while the copy is made, whether the target must be let go; how long is
 * waited afterwards for a copying thread to notice. */
static const uint64_t watch_ns = 500000, late_copy_ns = 1000000000;

static const uint64_t much_bytes = 256 << 20;

/* With fewer mappings, starting a thread takes longer than reading them. */
enum { CONCURRENT_MAPPINGS = 256 };

/* Four threads share it, each its own part until it is joined: the first prepares and answers;
 * the tracing one stops, settles, waits for the copy, lets go; the copying one reads memory, and
 * one maps. The last two stand by before the stop, which would wait for them to be made. */
struct capture {
    pid_t pid;
    uint64_t started;
    const struct hx_agent_request *request;
    struct hx_agent_shared *shared;
    struct hx_tracer tracer;
    hx_error *trace_error;
    pthread_t copier, reader;
    bool copying, reading; /* they were started and not joined yet */
    sem_t go;              /* once for each of them */
    bool gone, abandoned;  /* it was; and there is nothing to do */
    hx_error *copy_error;
    struct hx_copy copy;
    struct hx_precopy pre;
    struct hx_stop_maps maps;
    hx_error *maps_error;
    struct hx_agent_reply reply;
};

static bool await_stop(struct capture *capture)
{
    while (sem_wait(&capture->go) != 0) /* EINTR */
        ;
    return !capture->abandoned;
}

static void *read_maps_concurrently(void *argument)
{
    struct capture *capture = argument;
    if (await_stop(capture))
        capture->maps_error = hx_stop_maps_read(capture->pid, &capture->maps);
    return NULL;
}

static size_t locks_held(void *context)
{
    const struct capture *capture = context;
    const struct hx_agent_request *request = capture->request;
    size_t held = 0;
    for (uint32_t i = 0; i < request->n_locks;) {
        uint32_t word[64];
        struct iovec local = {.iov_base = word};
        struct iovec remote[64];
        uint32_t n = request->n_locks - i < 64 ? request->n_locks - i : 64;
        for (uint32_t k = 0; k < n; k++)
            remote[k] = (struct iovec){.iov_base = (void *)request->lock[i + k].addr,
                                       .iov_len = sizeof word[0]};
        local.iov_len = n * sizeof word[0];
        ssize_t got = process_vm_readv(capture->pid, &local, 1, remote, n, 0);
        for (ssize_t k = 0; k < got / (ssize_t)sizeof word[0]; k++)
            held += (word[k] & request->lock[i + (uint32_t)k].mask) != 0;
        i += n;
    }
    return held;
}

/* Leads threads out of the allocator while all others stand still. */
static hx_error *settle_threads(struct capture *capture)
{
    const struct hx_agent_request *request = capture->request;
    struct hx_way_out way = {request->code, request->n_codes, request->lockless, locks_held,
                             capture};
    /* again, because a thread that was led out can have woken one that waited */
    for (int i = 0; i < 3 && way.n_codes; i++) {
        HX_TRY(hx_tracer_lead_out(&capture->tracer, &way, lead_out_ns));
        if (!locks_held(capture))
            break;
    }
    capture->reply.locked = locks_held(capture) != 0;
    if (!capture->reply.locked || request->accept_locked)
        return NULL;
    return hx_error_new(HX_E_BUSY, "allocator", "try again", "an arena is locked");
}

static void join_reader(struct capture *capture)
{
    if (capture->reading)
        pthread_join(capture->reader, NULL);
    capture->reading = false;
}

static hx_error *see_memory(struct capture *capture)
{
    bool concurrent = capture->reading;
    hx_error *err = hx_copy_scan(&capture->copy);
    join_reader(capture);
    if (!concurrent && !err)
        return hx_stop_maps_read(capture->pid, &capture->maps);
    if (!err)
        return hx_steal(capture->maps_error);
    hx_error_free(hx_steal(capture->maps_error));
    return err;
}

static hx_error *copy_memory(struct capture *capture)
{
    struct hx_stop_maps *maps = &capture->maps;
    capture->copy.threads = hx_threads(capture->request->threads);
    HX_TRY(see_memory(capture));
    HX_TRY(hx_copy_plan(&capture->copy, maps->now, maps->n, maps->before, maps->n_before));
    atomic_store(&capture->shared->bytes_total, capture->copy.used);
    return hx_copy_read_rest(&capture->copy, &capture->tracer);
}

static void *copy_concurrently(void *argument)
{
    struct capture *capture = argument;
    if (await_stop(capture))
        capture->copy_error = copy_memory(capture);
    return NULL;
}

static void stand_by(struct capture *capture)
{
    sem_init(&capture->go, 0, 0);
    capture->copying = pthread_create(&capture->copier, NULL, copy_concurrently, capture) == 0;
    capture->reading = capture->maps.n_before >= CONCURRENT_MAPPINGS &&
                       pthread_create(&capture->reader, NULL, read_maps_concurrently, capture) == 0;
}

static void let_go(struct capture *capture)
{
    capture->gone = true;
    for (int i = capture->copying + capture->reading; i; i--)
        sem_post(&capture->go);
}

/* Behind what was no stop. */
static void dismiss(struct capture *capture)
{
    capture->abandoned = true;
    let_go(capture);
    join_reader(capture);
    if (capture->copying)
        pthread_join(capture->copier, NULL);
    capture->copying = false;
}

/* Waits for the copying thread; false when it takes longer. */
static bool join_copier(struct capture *capture, uint64_t ns)
{
    uint64_t end = hx_now_ns() + ns;
    struct timespec until = {.tv_sec = (time_t)(end / 1000000000),
                             .tv_nsec = (long)(end % 1000000000)};
    if (pthread_clockjoin_np(capture->copier, NULL, CLOCK_MONOTONIC, &until) != 0)
        return false;
    capture->copying = false;
    return true;
}

/* Copies in another thread, so that this one can let the target go the moment it must, however
 * long a read from it takes (a swapped page, the maps of many mappings). */
static hx_error *copy_and_watch(struct capture *capture)
{
    let_go(capture);
    if (!capture->copying)
        return copy_memory(capture);
    while (!join_copier(capture, watch_ns))
        HX_TRY(hx_tracer_pressed(&capture->tracer));
    return hx_steal(capture->copy_error);
}

/* From here on no thread runs before all are let go. */
static void set_mark(struct hx_stop_mark *mark)
{
    atomic_store_explicit(&mark->ticks, hx_now_ticks(), memory_order_relaxed);
    atomic_store_explicit(&mark->ns, hx_now_ns(), memory_order_release);
}

static hx_error *while_stopped(struct capture *capture)
{
    struct timespec now;
    HX_TRY(hx_tracer_stop(&capture->tracer));
    HX_TRY(settle_threads(capture));
    set_mark(&capture->shared->mark);
    clock_gettime(CLOCK_REALTIME, &now);
    capture->reply.taken_at_ns = (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
    return copy_and_watch(capture);
}

/* On a busy machine the target should not wait for others while it stands still; but where much is
 * left to be copied the others should not wait for all of that. */
static void go_before_others(const struct capture *capture)
{
    const struct hx_stop_maps *maps = &capture->maps;
    struct hx_urgent until_it_ends;
    uint64_t rest = hx_copy_bytes(maps->before, maps->n_before);
    if (capture->pre.tracker)
        rest = capture->pre.hot_bytes;
    if (rest <= much_bytes)
        hx_urgent_begin(&until_it_ends);
    else
        hx_urgent_begin_long(&until_it_ends);
}

/* The body of the tracing thread. When it ends, the kernel lets go of what is still traced (a
 * thread that could not be stopped in time, and who waits for it): at once, because the memory of
 * the copy stays. */
static void *tracing_thread(void *argument)
{
    struct capture *capture = argument;
    struct hx_stop_maps *maps = &capture->maps;
    hx_error *err = NULL;
    capture->pre.where_it_pays = capture->request->precopy_from != 0;
    if (hx_copy_bytes(maps->before, maps->n_before) >= capture->request->precopy_from)
        err = hx_precopy_begin(&capture->pre, &capture->copy, &capture->tracer, maps);
    go_before_others(capture);
    if (!err) {
        stand_by(capture);
        err = hx_tracer_seize(&capture->tracer);
    }
    if (!err && hx_proc_started(capture->pid) != capture->started)
        err = hx_agent_target_gone(capture->pid); /* another one has its number now */
    if (!err) {
        atomic_store(&capture->shared->stopped_at_ns, hx_now_ns());
        err = while_stopped(capture);
    }
    hx_tracer_release(&capture->tracer);
    if (!capture->gone)
        dismiss(capture);
    if (capture->tracer.stopped_at_ns)
        capture->reply.pause_ns = capture->tracer.released_at_ns - capture->tracer.stopped_at_ns;
    if (capture->reply.pause_ns < capture->pre.short_stop_ns)
        capture->reply.pause_ns = capture->pre.short_stop_ns;
    if (capture->tracer.short_calls.n) {
        capture->tracer.short_calls.n += capture->shared->short_calls.n;
        capture->shared->short_calls = capture->tracer.short_calls;
    }
    atomic_store(&capture->shared->stopped_at_ns, 0);
    capture->trace_error = err;
    return NULL;
}

static hx_error *run_capture_job(struct capture *capture)
{
    struct hx_stop_maps *maps = &capture->maps;
    HX_TRY(hx_stop_maps_prepare(capture->pid, capture->request->max_pause_ns, maps));
    HX_TRY(hx_copy_prepare(&capture->copy, maps->before, maps->n_before, &capture->tracer));
    hx_proc_await_heapx(capture->pid);
    HX_TRY(hx_tracer_pressed(&capture->tracer));
    pthread_t tracing;
    capture->tracer.ending = true;
    if (pthread_create(&tracing, NULL, tracing_thread, capture) == 0) {
        pthread_join(tracing, NULL);
    } else {
        capture->tracer.ending = false;
        tracing_thread(capture);
    }
    hx_tracer_name_rest(&capture->tracer);
    if (capture->copying)
        join_copier(capture, late_copy_ns);
    return hx_steal(capture->trace_error);
}

static bool write_fully(int fd, const void *bytes, size_t len)
{
    const char *at = bytes;
    while (len) {
        ssize_t n = write(fd, at, len);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return false;
        at += n;
        len -= (size_t)n;
    }
    return true;
}

/* So far: the end of pre-copy is still to come when the reply goes out. */
static void note_held(const struct capture *capture)
{
    const uint64_t before = capture->maps.held_ns, held = capture->pre.track.lock.longest_ns;
    atomic_store(&capture->shared->held_ns, held > before ? held : before);
}

/* Threads, pieces, losses and smaps, one behind the other. */
static hx_error *write_tables(struct capture *capture, int fd)
{
    struct hx_agent_reply *reply = &capture->reply;
    bool ok = true;
    char *smaps;
    size_t smaps_len;
    HX_TRY(hx_stop_maps_print(&capture->maps, &smaps, &smaps_len));
    for (size_t i = 0; i < capture->tracer.tracee.n && ok; i++) {
        struct hx_tracee *tracee = &capture->tracer.tracee.v[i];
        if (!tracee->thread.has_regs && tracee->state != HX_TRACEE_STUCK)
            continue;
        reply->n_threads++;
        reply->n_stuck += tracee->state == HX_TRACEE_STUCK;
        ok = write_fully(fd, &tracee->thread, sizeof tracee->thread);
    }
    reply->n_pieces = capture->copy.pieces.n;
    reply->n_lost = capture->copy.lost.n;
    reply->n_swapped = capture->copy.swapped.n;
    reply->pages_known = capture->copy.pages_known;
    reply->smaps_len = smaps_len;
    reply->memory_bytes = capture->copy.used;
    reply->precopied = capture->pre.tracker != NULL;
    reply->prepare_ns = capture->pre.prepare_ns;
    reply->hot_bytes = capture->pre.hot_bytes;
    reply->may_be_stale = capture->pre.may_be_stale;
    note_held(capture);
    snprintf(reply->why_not, sizeof reply->why_not, "%s", capture->pre.why);
    ok = ok &&
         write_fully(fd, capture->copy.pieces.v,
                     capture->copy.pieces.n * sizeof *capture->copy.pieces.v) &&
         write_fully(fd, capture->copy.lost.v,
                     capture->copy.lost.n * sizeof *capture->copy.lost.v) &&
         write_fully(fd, capture->copy.swapped.v,
                     capture->copy.swapped.n * sizeof *capture->copy.swapped.v) &&
         write_fully(fd, smaps, smaps_len);
    free(smaps);
    if (!ok || ftruncate(capture->copy.memory_fd, (off_t)capture->copy.used) != 0)
        return hx_error_os(errno, "copy of the target's memory", "write");
    return NULL;
}

void hx_agent_worker(const struct hx_agent_job *job)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGCHLD);
    sigaddset(&set, SIGTERM);
    sigprocmask(SIG_BLOCK, &set, NULL);
    sigdelset(&set, SIGCHLD);

    struct capture capture = {
        .pid = job->pid, .started = job->started, .request = job->request, .shared = job->shared};
    capture.tracer.pid = job->pid;
    capture.tracer.deadline_ns = job->request->max_pause_ns;
    capture.tracer.parent_fd = job->socket;
    capture.tracer.exhausted = &job->shared->exhausted;
    capture.tracer.cancel_fd = signalfd(-1, &set, SFD_CLOEXEC);
    capture.copy.pid = job->pid;
    capture.copy.threads = hx_threads(job->request->beside);
    capture.copy.memory_fd = job->memory_fd;
    capture.copy.pagemap = -1;
    capture.copy.progress = &job->shared->bytes_read;
    capture.reply.serial = job->serial;
    capture.reply.kind = -1;

    int tables = memfd_create("heapx tables", MFD_CLOEXEC);
    hx_error *err =
        tables < 0 ? hx_error_os(errno, "agent", "memfd_create") : run_capture_job(&capture);
    if (!err)
        err = write_tables(&capture, tables);
    if (err)
        hx_agent_fill_error(&capture.reply, err);
    /* the copy goes back even after a failure: the next try finds it touched */
    int fds[2] = {tables, capture.copying ? -1 : capture.copy.memory_fd};
    if (!atomic_load(&job->shared->given_up))
        hx_packet_send(job->socket, &capture.reply, sizeof capture.reply, fds, tables < 0 ? 0 : 2);
    hx_precopy_end(&capture.pre);
    note_held(&capture);
    _exit(0);
}
