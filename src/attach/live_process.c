/* live_process.c - a running process as a target: it is stopped through the agent, and stopped
 * again when that was in the middle of malloc. */
#include "attach/target.h"

#include "attach/live_image.h"
#include "attach/memwatch.h"
#include "attach/preflight.h"
#include "attach/roots/rootmap.h"
#include "attach/stop/agent.h"
#include "attach/stop/copy.h"
#include "attach/vitals.h"
#include "base/cleanup.h"
#include "base/proc.h"
#include "base/timing.h"
#include "model/process.h"
#include "sym/reading.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

/* How often a target that was caught in the middle of malloc is stopped again. */
enum { TRIES = 6 };

/* Damage is looked at that often before it is believed: an update under way can look like it. */
enum { DAMAGED_TRIES = 3 };

struct process {
    struct hx_attach attach;
    pid_t pid;
    uint64_t started; /* when it began: it, and no later one of its number */
    struct hx_agent *agent;
    uint64_t short_calls_noted; /* of those that the agent counts */
};

/* How much there must be to copy for pre-copy to be worth a second stop and a call in the target:
 * less is copied within some milliseconds. */
static const uint64_t precopy_from = 64 << 20;

/* One capture, of several stops if need be. */
struct capture {
    struct process *process;
    const struct hx_capture_options *options;
    const struct hx_progress *progress;
    struct hx_agent_request request;
    int memory_fd; /* of the try before; -1: none */
    uint64_t longest_us;
    uint64_t held_ns;   /* the longest call beside its stops that held the lock of the mappings */
    unsigned damaged;   /* walks that met damage */
    bool may_be_stale;  /* devices wrote into it during pre-copy */
    uint64_t hot_bytes; /* of mappings that pre-copy left to the stop */
    char why_not[HX_AGENT_WHY]; /* no pre-copy, or not by the best way; "": none was asked for */
};

/* --- before the stop ------------------------------------------------------------------ */

/* Where the locks are and which code takes them, and what memory the capture will take, as of now:
 * read from the running target. */
static hx_error *prepare_request(struct capture *capture, struct hx_memory_need *ret_need)
{
    const struct process *process = capture->process;
    struct hx_agent_request *request = &capture->request;
    struct hx_figures figures = {0};
    size_t n = 0;
    struct hx_mapping *mapping = NULL;
    HX_TRY(hx_agent_smaps(process->agent, request->max_pause_ns, &figures));
    HX_FREE char *text = figures.text;
    if (figures.held_ns > capture->held_ns)
        capture->held_ns = figures.held_ns;
    HX_TRY(hx_proc_mappings(text, figures.len, &mapping, &n));
    *ret_need = hx_copy_need(mapping, n);
    struct hx_guard guard = {0};
    hx_modules *modules = NULL;
    hx_error *err = hx_modules_create(process->attach.via, mapping, n, &modules);
    HX_FD int pagemap = hx_pagemap_open(process->attach.via);
    struct hx_live_memory live = {.pid = process->attach.via,
                                  .agent = process->agent,
                                  .modules = modules,
                                  .mapping = mapping,
                                  .n_mappings = n,
                                  .pagemap = pagemap};
    struct hx_peek peek = {.read = hx_live_memory_read, .context = &live};
    struct hx_alloc_target target = {mapping, n, process->attach.via, &peek, modules};
    if (!err) {
        hx_reading_listen(hx_modules_reading(modules), capture->progress);
        err = hx_target_guard(&target, &guard);
    }
    request->n_locks = request->n_codes = 0;
    request->lockless = guard.lockless;
    for (size_t i = 0; !err && i < guard.locks.n && i < HX_AGENT_LOCKS_MAX; i++)
        request->lock[request->n_locks++] = guard.locks.v[i];
    for (size_t i = 0; !err && i < guard.code.n && i < HX_AGENT_CODES_MAX; i++)
        request->code[request->n_codes++] = guard.code.v[i];
    hx_guard_deinit(&guard);
    hx_modules_destroy(modules);
    hx_mappings_free(mapping, n);
    return err;
}

/* --- from the result of the agent to a snapshot ----------------------------------------- */

/* Pieces become spans; pages that were lost are cut out. */
static hx_error *map_copy(const struct hx_agent_result *result, struct hx_image *image)
{
    if (result->memory_bytes) {
        /* to write: what is given back in pieces (hx_image_pack()) has to be so */
        void *memory = mmap(NULL, result->memory_bytes, PROT_READ | PROT_WRITE,
                            MAP_SHARED | MAP_NORESERVE, result->memory_fd, 0);
        if (memory == MAP_FAILED)
            return hx_error_os(errno, "copy of the target's memory", "mmap");
        image->mapping = memory;
        image->mapping_bytes = result->memory_bytes;
    }
    HX_VEC(struct hx_span) spans = {0};
    size_t lost = 0;
    for (size_t i = 0; i < result->n_pieces; i++) {
        const struct hx_piece *piece = &result->piece[i];
        const uint8_t *bytes = (const uint8_t *)image->mapping + piece->offset;
        uint64_t at = piece->start;
        while (lost < result->n_lost && result->lost[lost].end <= at)
            lost++;
        for (size_t k = lost; at < piece->end; k++) {
            bool hole = k < result->n_lost && result->lost[k].start < piece->end;
            uint64_t end = hole ? result->lost[k].start : piece->end;
            if (end > at &&
                !hx_vec_push(&spans, (struct hx_span){at, end, bytes + (at - piece->start)})) {
                hx_vec_free(&spans);
                return hx_error_nomem();
            }
            at = hole ? result->lost[k].end : end;
        }
    }
    image->span = spans.v;
    image->n = spans.n;
    return NULL;
}

static char *read_link(pid_t pid, const char *name)
{
    char path[64], target[PATH_MAX];
    snprintf(path, sizeof path, "/proc/%d/%s", pid, name);
    ssize_t n = readlink(path, target, sizeof target - 1);
    return n > 0 ? strndup(target, (size_t)n) : NULL;
}

static hx_error *fill_process(struct hx_snapshot *snapshot, const struct process *process,
                              struct hx_agent_result *result)
{
    snapshot->pid = process->pid;
    snapshot->taken_at_ns = result->taken_at_ns;
    snapshot->started_at_ns = hx_proc_started_at_ns(process->pid);
    snapshot->exe = read_link(process->attach.via, "exe");
    snapshot->comm = hx_proc_text("/proc/%d/comm", process->pid);
    size_t len = snapshot->comm ? strlen(snapshot->comm) : 0;
    if (len && snapshot->comm[len - 1] == '\n')
        snapshot->comm[len - 1] = 0; /* the last one only: names may hold others */
    snapshot->thread = hx_steal(result->thread);
    snapshot->n_threads = result->n_threads;
    HX_TRY(hx_proc_mappings(result->smaps, result->smaps_len, &snapshot->mapping,
                            &snapshot->n_mappings));
    for (size_t i = 0; i < result->n_lost; i++)
        hx_snapshot_lose(snapshot, "pages unreadable",
                         (result->lost[i].end - result->lost[i].start) / 4096,
                         result->lost[i].end - result->lost[i].start, result->lost[i].start);
    if (result->n_lost)
        hx_snapshot_note(snapshot, true, "%zu ranges of memory could not be read", result->n_lost);
    for (size_t i = 0; i < snapshot->n_threads; i++)
        if (!snapshot->thread[i].has_regs) {
            hx_snapshot_note(snapshot, true,
                             "thread %d waits in the kernel and could not be stopped: its "
                             "registers were not seen",
                             snapshot->thread[i].tid);
            hx_snapshot_lose(snapshot, "threads whose registers were not seen", 1, 0, 0);
        }
    return map_copy(result, &snapshot->image);
}

/* Which pages of the heap were in memory at the stop, where the kernel has told. */
static hx_error *find_resident(struct hx_snapshot *snapshot, const struct hx_agent_result *result)
{
    hx_ranges present = {0}, swapped = {.v = result->swapped, .n = result->n_swapped};
    if (!result->pages_known || snapshot->no_heap)
        return NULL;
    HX_NEED(hx_vec_reserve(&present, result->n_pieces));
    for (size_t i = 0; i < result->n_pieces; i++)
        present.v[present.n++] = (struct hx_range){result->piece[i].start, result->piece[i].end};
    hx_error *err = hx_resident(snapshot, &present, &swapped);
    hx_vec_free(&present);
    return err;
}

static hx_error *fill_snapshot(struct capture *capture, struct hx_snapshot *snapshot,
                               struct hx_agent_result *result, enum hx_walk_verdict *ret)
{
    HX_TRY(fill_process(snapshot, capture->process, result));
    HX_TRY(hx_target_build(&capture->process->attach, snapshot, capture->options, capture->progress,
                           ret));
    uint64_t begun = hx_timing_begin();
    HX_TRY(hx_account(snapshot));
    HX_TRY(find_resident(snapshot, result));
    hx_timing_end(begun, "account", 0);
    return NULL;
}

/* Not a loss of the snapshot's, but the process may ask who did that; also what a capture did that
 * came to nothing. */
static void note_short_calls(struct process *process, struct hx_snapshot *snapshot)
{
    const struct hx_short_calls *calls = hx_agent_short_calls(process->agent);
    uint64_t n = calls->n - process->short_calls_noted;
    process->short_calls_noted = calls->n;
    if (n)
        hx_snapshot_note(snapshot, false,
                         "the stop cut %" PRIu64 " call%s of the process short: %s%.*s", n,
                         n == 1 ? "" : "s", n == 1 ? "" : "the newest is ",
                         (int)sizeof calls->newest - 1, calls->newest);
}

/* --- captures -------------------------------------------------------------------------- */

static void back_off(unsigned attempt)
{
    /* 1, 2, 4, ... ms: let the update end, and do not beat in step with the target */
    struct timespec pause = {.tv_nsec = 1000000L << attempt};
    nanosleep(&pause, NULL);
}

/* One stop and one walk. When a lock was held the verdict is TORN and, unless the request accepts
 * that, there is no snapshot. */
static hx_error *stop_and_walk(struct capture *capture, struct hx_snapshot **ret,
                               enum hx_walk_verdict *ret_verdict)
{
    struct hx_agent_result result = {.memory_fd = -1};
    hx_error *refused = hx_agent_capture(capture->process->agent, &capture->request,
                                         &capture->memory_fd, capture->progress, &result);
    uint64_t pause_us = (result.pause_ns + 500) / 1000;
    capture->hot_bytes = result.hot_bytes;
    capture->may_be_stale = result.may_be_stale;
    memcpy(capture->why_not, result.why_not, sizeof capture->why_not);
    if (pause_us > capture->longest_us)
        capture->longest_us = pause_us;
    if (refused && refused->kind == HX_E_BUSY && result.locked && !capture->request.accept_locked) {
        hx_error_free(refused);
        *ret_verdict = HX_WALK_TORN;
        return NULL;
    }
    HX_TRY(refused);
    HX_SNAPSHOT struct hx_snapshot *snapshot = NULL;
    bool locked = result.locked;
    hx_error *err = hx_snapshot_create(&snapshot);
    if (!err && result.precopied) {
        snapshot->method = "precopy";
        snapshot->precopied = true;
        snapshot->prepare_us = result.prepare_ns / 1000;
    }
    if (!err)
        err = fill_snapshot(capture, snapshot, &result, ret_verdict);
    capture->memory_fd = result.memory_fd;
    result.memory_fd = -1;
    hx_agent_result_deinit(&result);
    HX_TRY(err);
    if (locked)
        hx_target_note_locked(snapshot);
    *ret = hx_steal(snapshot);
    return NULL;
}

/* Of what is over by now the end of a stop can have come too late. */
static hx_error *check_promise(const struct capture *capture, const struct hx_snapshot *snapshot)
{
    char what[32];
    const uint64_t most = capture->request.max_pause_ns;
    const uint64_t held = snapshot->precopied ? capture->held_ns : 0;
    if (!most || (capture->longest_us * 1000 <= most && held <= most))
        return NULL;
    snprintf(what, sizeof what, "PID %d", capture->process->pid);
    return hx_error_new(HX_E_BUSY, what, "try again, or allow a longer --max-pause",
                        "%s for %" PRIu64 " us, longer than --max-pause",
                        held > most ? "mmap() of the target had to wait" : "the target stood still",
                        held > most ? held / 1000 : capture->longest_us);
}

static hx_error *finish_capture(struct capture *capture, struct hx_snapshot *snapshot,
                                enum hx_walk_verdict verdict)
{
    if (verdict == HX_WALK_TORN) /* what and how much: the walk has said */
        hx_snapshot_note(snapshot, true,
                         "none of %d stops found them in agreement: some blocks may be missing "
                         "or stale",
                         TRIES);
    note_short_calls(capture->process, snapshot);
    hx_target_finish(&capture->process->attach, snapshot);
    snapshot->pause_us = capture->longest_us;
    if (snapshot->precopied)
        snapshot->held_us = (capture->held_ns + 999) / 1000;
    char hot[HX_HUMAN];
    if (capture->hot_bytes)
        hx_snapshot_note(snapshot, false,
                         "of mappings of %s nothing was pre-copied, because they are written all "
                         "the time: the stop copied them",
                         hx_human_bytes(capture->hot_bytes, hot));
    if (capture->may_be_stale)
        hx_snapshot_note(snapshot, false,
                         "devices write into its memory (O_DIRECT, or pinned pages): what one read "
                         "while it was pre-copied may be stale");
    if (capture->why_not[0])
        hx_snapshot_note(snapshot, false,
                         snapshot->precopied ? "pre-copied by soft-dirty bits, because %s"
                                             : "no pre-copy, because %s: the stop copied all",
                         capture->why_not);
    return check_promise(capture, snapshot);
}

static void note_held(struct capture *capture)
{
    uint64_t held_ns = hx_agent_held_ns(capture->process->agent);
    if (held_ns > capture->held_ns)
        capture->held_ns = held_ns;
}

static hx_error *try_to_capture(struct capture *capture, struct hx_snapshot **ret)
{
    struct hx_attach *attach = &capture->process->attach;
    for (unsigned attempt = 0;; attempt++) {
        if (hx_progress_cancelled(capture->progress))
            return hx_error_cancelled("capture");
        bool last = attempt + 1 == TRIES;
        struct hx_memory_need need;
        capture->request.accept_locked = last;
        HX_TRY(prepare_request(capture, &need));
        if (attempt == 0)
            HX_TRY(hx_target_watch(attach, &need));
        HX_SNAPSHOT struct hx_snapshot *snapshot = NULL;
        enum hx_walk_verdict verdict = HX_WALK_OK;
        HX_TRY(stop_and_walk(capture, &snapshot, &verdict));
        note_held(capture);
        bool doubtful = verdict == HX_WALK_TORN ||
                        (verdict == HX_WALK_BAD && ++capture->damaged < DAMAGED_TRIES);
        if (doubtful && !last) {
            back_off(attempt);
            continue;
        }
        HX_TRY(finish_capture(capture, snapshot, verdict));
        *ret = hx_steal(snapshot);
        return NULL;
    }
}

/* Whatever failed while the process went away failed because of that. */
static hx_error *exited_or(const struct process *process, hx_error *err)
{
    hx_error *refusal = err->kind == HX_E_CANCEL ? NULL : hx_preflight_error(process->pid);
    bool gone = refusal && (refusal->kind == HX_E_GONE || refusal->kind == HX_E_ABSENT);
    hx_error_free(refusal);
    if (!gone)
        return err;
    hx_error_free(err);
    return hx_error_new(HX_E_GONE, process->attach.name, NULL,
                        "has exited before a snapshot could be taken");
}

static hx_error *capture_process(hx_attach *attach, const struct hx_capture_options *options,
                                 const struct hx_progress *progress, struct hx_snapshot **ret)
{
    struct process *process = (struct process *)attach;
    HX_FREE struct capture *capture = calloc(1, sizeof *capture);
    HX_NEED(capture);
    /* field by field: it is too large for a stack */
    capture->process = process;
    capture->options = options;
    capture->progress = progress;
    capture->memory_fd = -1;
    capture->request.max_pause_ns = options->max_pause_ns;
    capture->request.precopy_from = options->pause == HX_PAUSE_AUTO      ? precopy_from
                                    : options->pause == HX_PAUSE_PRECOPY ? 0
                                                                         : UINT64_MAX;
    capture->request.threads = options->threads ? options->threads : 2;
    capture->request.beside = options->beside ? options->beside : capture->request.threads;
    pid_t living = hx_proc_living(process->pid);
    attach->via = living ? living : attach->via;
    hx_error *err = try_to_capture(capture, ret);
    if (capture->memory_fd >= 0)
        close(capture->memory_fd);
    return err ? exited_or(process, err) : NULL;
}

/* --- the running process --------------------------------------------------------------- */

static bool read_process(void *context, uint64_t addr, void *dst, size_t len)
{
    struct process *process = context;
    struct hx_live_memory live = {
        .pid = process->attach.via, .agent = process->agent, .modules = process->attach.modules};
    return hx_live_memory_read(&live, addr, dst, len);
}

/* What is left out of an image is pages that could not be read: they are counted. */
static bool never_lacks_memory(const hx_attach *attach)
{
    (void)attach;
    return false;
}

static bool process_has_exited(const hx_attach *attach)
{
    const struct process *process = (const struct process *)attach;
    return !hx_proc_living(process->pid) || hx_proc_started(process->pid) != process->started;
}

static hx_error *exited_error(const hx_attach *attach)
{
    return hx_error_new(HX_E_GONE, attach->name, NULL, "has exited");
}

static hx_error *peek_process(const hx_attach *attach, uint64_t addr, size_t n, void *ret,
                              size_t *ret_n)
{
    const struct process *process = (const struct process *)attach;
    pid_t living = hx_proc_living(process->pid);
    if (!living || hx_proc_started(process->pid) != process->started)
        return exited_error(attach);
    struct iovec local = {.iov_base = ret, .iov_len = n};
    struct iovec remote = {.iov_base = (void *)(uintptr_t)addr, .iov_len = n};
    struct hx_lock_use lock = {0};
    ssize_t got = hx_lock_readv(&lock, living, &local, 1, &remote, 1);
    int err = got < 0 ? errno : 0;
    /* Looked at once more: its number may have gone to another one before it was read. */
    if (err == ESRCH || hx_proc_started(process->pid) != process->started)
        return exited_error(attach);
    if (err && err != EFAULT)
        return hx_error_os(err, "the running process", "read");
    *ret_n = got > 0 ? (size_t)got : 0;
    return NULL;
}

static void close_process(hx_attach *attach)
{
    struct process *process = (struct process *)attach;
    hx_agent_stop(process->agent);
    free(process);
}

static const struct hx_target_ops process_ops = {
    .capture = capture_process,
    .read_constant = read_process,
    .lacks_memory = never_lacks_memory,
    .peek = peek_process,
    .has_exited = process_has_exited,
    .close = close_process,
};

/* --- opening --------------------------------------------------------------------------- */

/* Before heapx itself has taken much: where not even what the process has to itself can be copied,
 * there is no room for finding out more. What is not known is no reason yet. */
static hx_error *fits_roughly(pid_t pid)
{
    struct hx_vitals vitals;
    hx_limits limits = {0};
    hx_error *err = hx_vitals_read(pid, 1u << HX_VITAL_ANON, &vitals);
    bool is_known = !err && vitals.has[HX_VITAL_ANON];
    hx_error_free(err);
    if (!is_known)
        return NULL;
    uint64_t bytes = (uint64_t)vitals.value[HX_VITAL_ANON];
    HX_TRY(hx_limits_find("", pid, &limits));
    struct hx_memory_need need = {.ours = bytes + hx_memory_analysis(bytes)};
    err = hx_limits_fit(&limits, &need);
    hx_limits_deinit(&limits);
    return err;
}

static hx_error *start_agent(struct process *process, const hx_attach *first)
{
    struct hx_attach *attach = &process->attach;
    struct hx_agent *other = first ? ((const struct process *)first)->agent : NULL;
    HX_TRY(other ? hx_agent_start_by(other, attach->via, &process->agent)
                 : hx_agent_start(attach->via, &process->agent));
    attach->exhausted = hx_agent_exhausted(process->agent);
    attach->stop_mark = hx_agent_stop_mark(process->agent);
    return NULL;
}

static hx_error *open_process(const hx_attach *first, pid_t pid, hx_attach **ret)
{
    char name[32];
    hx_oom_volunteer();
    HX_TRY(hx_preflight_error(pid));
    if (!first) /* one more may only be recorded, which takes little */
        HX_TRY(fits_roughly(pid));
    struct process *process = calloc(1, sizeof *process);
    HX_NEED(process);
    process->pid = pid;
    process->started = hx_proc_started(pid);
    process->attach.ops = &process_ops;
    process->attach.via = hx_proc_living(pid);
    if (!process->attach.via)
        process->attach.via = pid;
    snprintf(name, sizeof name, "PID %d", pid);
    return hx_target_opened(&process->attach, strdup(name), start_agent(process, first), ret);
}

hx_error *hx_attach_open(pid_t pid, hx_attach **ret)
{
    return open_process(NULL, pid, ret);
}

hx_error *hx_attach_open_sibling(hx_attach *first, pid_t pid, hx_attach **ret)
{
    return open_process(first, pid, ret);
}
