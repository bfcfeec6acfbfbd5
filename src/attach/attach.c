/* attach.c - from a live target, or a core, to a snapshot: capture, walk, try again, name the
 * roots. */
#include "attach/attach.h"

#include "attach/stop/agent.h"
#include "attach/roots/backtrace.h"
#include "attach/stop/copy.h"
#include "attach/core/core.h"
#include "attach/live_image.h"
#include "attach/memwatch.h"
#include "attach/preflight.h"
#include "base/proc.h"
#include "attach/roots/program_roots.h"
#include "record/read/join.h"
#include "record/launch.h"
#include "attach/roots/rootmap.h"
#include "attach/types/rtti.h"
#include "attach/vitals.h"
#include "attach/types/vtable.h"
#include "base/cleanup.h"
#include "base/timing.h"
#include "sym/code/code.h"
#include "sym/module.h"
#include "sym/reading.h"
#include "model/process.h"

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

struct hx_attach {
    pid_t pid;
    uint64_t started; /* when it began: it, and no later one of its number */
    pid_t via;        /* the thread that stands for it: pid, unless its first thread has exited */
    struct hx_agent *agent;
    hx_core *core;             /* the target is this core: no process, no agent */
    hx_code *code;             /* for the stacks of threads: the names stay for the next capture */
    struct hx_memwatch *watch; /* from the beginning of a capture until it is settled */
    atomic_bool no_agent;      /* stands for the agent's flag where there is none */
    uint64_t short_calls_told; /* of those that the agent counts */
    /* of the newest capture */
    hx_modules *modules;
    struct hx_live_memory live;   /* for who reads with it */
    const struct hx_image *image; /* owned by that snapshot */
};

/* Before heapx itself has taken much: where not even what the process has to itself can be copied,
 * there is no room for finding out more. What is not known is no reason yet. */
static hx_error *fits_roughly(pid_t pid)
{
    struct hx_vitals vitals;
    hx_limits limits = {0};
    hx_error *err = hx_vitals_read(pid, 1u << HX_VITAL_ANON, &vitals);
    bool known = !err && vitals.known[HX_VITAL_ANON];
    hx_error_free(err);
    if (!known)
        return NULL;
    uint64_t bytes = (uint64_t)vitals.value[HX_VITAL_ANON];
    HX_TRY(hx_limits_find("", pid, &limits));
    struct hx_memory_need need = {.ours = bytes + hx_memory_analysis(bytes)};
    err = hx_limits_fit(&limits, &need);
    hx_limits_deinit(&limits);
    return err;
}

static hx_error *open_process(hx_attach *first, pid_t pid, hx_attach **ret)
{
    hx_oom_volunteer();
    HX_TRY(hx_preflight_error(pid));
    if (!first) /* one more may only be recorded, which takes little */
        HX_TRY(fits_roughly(pid));
    struct hx_attach *attach = calloc(1, sizeof *attach);
    HX_NEED(attach);
    attach->pid = pid;
    attach->started = hx_proc_started(pid);
    attach->via = hx_proc_living(pid);
    if (!attach->via)
        attach->via = pid;
    hx_error *err = first ? hx_agent_start_by(first->agent, attach->via, &attach->agent)
                          : hx_agent_start(attach->via, &attach->agent);
    if (!err)
        err = hx_code_create(&attach->code);
    if (err) {
        hx_attach_close(attach);
        return err;
    }
    *ret = attach;
    return NULL;
}

hx_error *hx_attach_open(pid_t pid, hx_attach **ret)
{
    return open_process(NULL, pid, ret);
}

hx_error *hx_attach_open_sibling(hx_attach *first, pid_t pid, hx_attach **ret)
{
    return open_process(first, pid, ret);
}

hx_error *hx_attach_open_core(const char *path, const char *exe, const char *sysroot,
                              hx_attach **ret)
{
    struct hx_attach *attach = calloc(1, sizeof *attach);
    HX_NEED(attach);
    hx_error *err = hx_core_open(path, exe, sysroot, &attach->core);
    if (!err)
        err = hx_code_create(&attach->code);
    if (err) {
        hx_attach_close(attach);
        return err;
    }
    *ret = attach;
    return NULL;
}

void hx_attach_close(hx_attach *attach)
{
    if (!attach)
        return;
    hx_memwatch_end(attach->watch);
    if (attach->agent)
        hx_agent_stop(attach->agent);
    hx_core_close(attach->core);
    hx_code_destroy(attach->code);
    hx_modules_destroy(attach->modules);
    free(attach);
}

void hx_attach_share_code(hx_attach *attach, hx_code *code)
{
    hx_code_destroy(attach->code);
    attach->code = hx_code_share(code);
}

/* --- memory --------------------------------------------------------------------------- */

static atomic_bool *exhausted(hx_attach *attach)
{
    return attach->agent ? hx_agent_exhausted(attach->agent) : &attach->no_agent;
}

const atomic_bool *hx_attach_exhausted(hx_attach *attach)
{
    return exhausted(attach);
}

/* Refuses what does not fit, and watches from here on what is taken. */
static hx_error *begin_watch(hx_attach *attach, const struct hx_memory_need *need)
{
    hx_limits limits = {0};
    hx_memwatch_end(hx_steal(attach->watch));
    atomic_store(exhausted(attach), false);
    HX_TRY(hx_limits_find("", attach->core ? 0 : attach->via, &limits));
    hx_error *err = hx_limits_fit(&limits, need);
    if (!err)
        attach->watch = hx_memwatch_begin(&limits, need, exhausted(attach));
    hx_limits_deinit(&limits);
    return err;
}

hx_error *hx_attach_settle(hx_attach *attach, hx_error *err, bool *ret_killed)
{
    if (err && attach->watch && atomic_load(exhausted(attach))) {
        hx_error_free(err);
        err = hx_memwatch_error(attach->watch);
    }
    *ret_killed = !attach->core && hx_memwatch_killed(attach->watch) &&
                  (!hx_proc_living(attach->pid) || hx_proc_started(attach->pid) != attach->started);
    hx_memwatch_end(hx_steal(attach->watch));
    atomic_store(exhausted(attach), false); /* the next one begins anew */
    return err;
}

static hx_error *has_exited(const hx_attach *attach)
{
    char what[32];
    snprintf(what, sizeof what, "PID %d", attach->pid);
    return hx_error_new(HX_E_GONE, what, NULL, "has exited");
}

hx_error *hx_attach_peek(const hx_attach *attach, uint64_t addr, size_t n, void *ret, size_t *ret_n)
{
    if (attach->core)
        return hx_error_new(HX_E_ABSENT, "the process", NULL, "is not there: this is a core");
    pid_t living = hx_proc_living(attach->pid);
    if (!living || hx_proc_started(attach->pid) != attach->started)
        return has_exited(attach);
    struct iovec local = {.iov_base = ret, .iov_len = n};
    struct iovec remote = {.iov_base = (void *)(uintptr_t)addr, .iov_len = n};
    ssize_t got = process_vm_readv(living, &local, 1, &remote, 1, 0);
    int err = got < 0 ? errno : 0;
    /* Looked at once more: its number may have gone to another one before it was read. */
    if (err == ESRCH || hx_proc_started(attach->pid) != attach->started)
        return has_exited(attach);
    if (err && err != EFAULT)
        return hx_error_os(err, "the running process", "read");
    *ret_n = got > 0 ? (size_t)got : 0;
    return NULL;
}

struct hx_stop_mark *hx_attach_stop_mark(hx_attach *attach)
{
    return attach->core ? NULL : hx_agent_stop_mark(attach->agent);
}

bool hx_attach_is_vtable(void *context, uint64_t addr)
{
    const struct hx_attach *attach = context;
    return hx_is_vtable(attach->image, attach->modules, addr);
}

static bool read_module(void *modules, uint64_t addr, void *dst, size_t len)
{
    return hx_module_read(modules, addr, dst, len);
}

hx_error *hx_attach_names(hx_attach *attach, struct hx_snapshot *snapshot,
                          const struct hx_progress *progress)
{
    return hx_rootmap_names(snapshot, attach->modules, progress);
}

static bool has_namesake(void *modules, const char *symbol, const char *untagged)
{
    for (size_t i = 0; i < hx_modules_count(modules); i++)
        if (hx_module_has_namesake(modules, i, symbol, untagged))
            return true;
    return false;
}

hx_error *hx_attach_types(hx_attach *attach, struct hx_snapshot *snapshot, unsigned threads,
                          const struct hx_progress *progress)
{
    hx_ranges segments = {0};
    struct hx_range segment;
    for (size_t k = 0; hx_modules_segment(attach->modules, k, &segment.start, &segment.end); k++)
        if (!hx_vec_push(&segments, segment)) {
            hx_vec_free(&segments);
            return hx_error_nomem();
        }
    struct hx_rtti_source source = {.range = segments.v,
                                    .n_ranges = segments.n,
                                    .read = read_module,
                                    .has_namesake = has_namesake,
                                    .context = attach->modules};
    hx_error *err = hx_rtti(snapshot, &source, threads, progress);
    hx_vec_free(&segments);
    return err;
}

/* --- reading through the agent and from the image ------------------------------------- */

/* Of a core what was not dumped is read from the files. */
static bool peek_files(void *context, uint64_t addr, void *dst, size_t len)
{
    hx_modules *modules = context;
    for (size_t done = 0, n; done < len; done += n) {
        n = hx_module_read_initial(modules, addr + done, (char *)dst + done, len - done);
        if (!n)
            return false;
    }
    return true;
}

/* Memory of the target that no image holds: it is read-only, and as it was at the stop. */
static struct hx_peek constant(hx_attach *attach)
{
    if (attach->core)
        return (struct hx_peek){.read = peek_files, .context = attach->modules};
    attach->live = (struct hx_live_memory){
        .pid = attach->via, .agent = attach->agent, .modules = attach->modules};
    return (struct hx_peek){.read = hx_live_memory_read, .context = &attach->live};
}

/* What the image leaves out because nobody may write there (text, constants) is the same in
 * the running target. */
struct frozen {
    const struct hx_snapshot *snapshot;
    struct hx_peek constant;
};

static bool peek_image(void *context, uint64_t addr, void *dst, size_t len)
{
    const struct frozen *frozen = context;
    const struct hx_snapshot *snapshot = frozen->snapshot;
    if (hx_image_read(&snapshot->image, addr, dst, len))
        return true;
    size_t i = hx_mapping_find(snapshot->mapping, snapshot->n_mappings, addr);
    if (i == snapshot->n_mappings || snapshot->mapping[i].prot & HX_PROT_W ||
        len > snapshot->mapping[i].end - addr)
        return false;
    return frozen->constant.read(frozen->constant.context, addr, dst, len);
}

hx_error *hx_attach_program_roots(hx_attach *attach, struct hx_snapshot *snapshot,
                                  const struct hx_progress *progress, struct hx_program_roots *ret)
{
    struct hx_peek peek = constant(attach);
    struct hx_program_source source = {.snapshot = snapshot,
                                       .modules = attach->modules,
                                       .read_live = peek.read,
                                       .context = peek.context};
    hx_reading_listen(hx_modules_reading(attach->modules), progress);
    hx_error *err = hx_program_roots_find(&source, ret);
    hx_reading_listen(hx_modules_reading(attach->modules), NULL);
    if (err || !hx_progress_cancelled(progress))
        return err;
    hx_program_roots_deinit(ret);
    return hx_error_cancelled("roots");
}

void hx_attach_each_variable(hx_attach *attach, const char *module,
                             bool (*each)(void *context, const char *name, bool tls), void *context)
{
    for (size_t i = 0; i < hx_modules_count(attach->modules); i++)
        if ((!module || strcmp(hx_module_name(attach->modules, i), module) == 0) &&
            !hx_module_each_variable(attach->modules, i, each, context))
            return;
}

/* --- before the stop ------------------------------------------------------------------ */

/* The code of the allocator, as far as exported names tell: its entry points lie in one
 * object file together with the functions that they share. */
static void find_code(hx_modules *modules, uint64_t code[2])
{
    static const char *const names[] = {"malloc",         "free",           "calloc",
                                        "realloc",        "memalign",       "malloc_trim",
                                        "__libc_malloc",  "__libc_free",    "__libc_calloc",
                                        "__libc_realloc", "__libc_memalign"};
    for (size_t i = 0; i < hx_modules_count(modules); i++) {
        uint64_t addr, size, low = UINT64_MAX, high = 0;
        if (!hx_module_symbol(modules, i, "__libc_malloc", &addr, &size) &&
            !hx_module_symbol(modules, i, "malloc_trim", &addr, &size))
            continue;
        for (size_t k = 0; k < sizeof names / sizeof *names; k++) {
            if (!hx_module_symbol(modules, i, names[k], &addr, &size))
                continue;
            low = addr < low ? addr : low;
            high = addr + size > high ? addr + size : high;
        }
        if (low >= high || high - low > 1 << 20)
            continue;
        /* the functions that they share come first in that file */
        code[0] = low - (low < 0x5000 ? low : 0x5000);
        code[1] = high;
        return;
    }
}

static hx_error *find_locks(const struct hx_mapping *mapping, size_t n, pid_t pid,
                            const struct hx_peek *peek, hx_lock_words *ret)
{
    hx_error *err = NULL;
    for (size_t i = 0; !err && hx_allocators[i]; i++) {
        void *state = NULL;
        err = hx_allocators[i]->find(mapping, n, pid, peek, &state);
        if (!err && state)
            err = hx_allocators[i]->locks(state, peek, ret);
        if (state)
            hx_allocators[i]->end(state);
    }
    return err;
}

/* Where the locks are and which code takes them, and what memory the capture will take, as of now:
 * read from the running target. */
static hx_error *read_running_target(hx_attach *attach, struct hx_agent_request *request,
                                     const struct hx_progress *progress,
                                     struct hx_memory_need *ret_need)
{
    HX_FREE char *smaps = NULL;
    size_t len = 0, n = 0;
    struct hx_mapping *mapping = NULL;
    HX_TRY(hx_agent_smaps(attach->agent, &smaps, &len));
    HX_TRY(hx_proc_mappings(smaps, len, &mapping, &n));
    *ret_need = hx_copy_need(mapping, n);
    hx_lock_words locks = {0};
    hx_modules *modules = NULL;
    hx_error *err = hx_modules_create(attach->via, mapping, n, &modules);
    struct hx_live_memory live = {.pid = attach->via, .agent = attach->agent, .modules = modules};
    struct hx_peek peek = {.read = hx_live_memory_read, .context = &live};
    if (!err) {
        hx_reading_listen(hx_modules_reading(modules), progress);
        find_code(modules, request->code);
    }
    if (!err)
        err = find_locks(mapping, n, attach->via, &peek, &locks);
    for (size_t i = 0; !err && i < locks.n && i < HX_AGENT_LOCKS_MAX; i++)
        request->lock[request->n_locks++] = locks.v[i];
    hx_vec_free(&locks);
    hx_modules_destroy(modules);
    hx_mappings_free(mapping, n);
    return err;
}

/* --- from the agent's answer to a snapshot --------------------------------------------- */

/* Pieces become spans; pages that were lost are cut out. */
static hx_error *make_image(const struct hx_agent_result *result, struct hx_image *image)
{
    if (result->memory_bytes) {
        void *memory = mmap(NULL, result->memory_bytes, PROT_READ, MAP_SHARED | MAP_NORESERVE,
                            result->memory_fd, 0);
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

static hx_error *fill_process(struct hx_snapshot *snapshot, const hx_attach *attach,
                              struct hx_agent_result *result)
{
    char path[64];
    size_t len = 0;
    snapshot->pid = attach->pid;
    snapshot->taken_at_ns = result->taken_at_ns;
    snapshot->started_at_ns = hx_proc_started_at_ns(attach->pid);
    snapshot->exe = read_link(attach->via, "exe");
    snprintf(path, sizeof path, "/proc/%d/comm", attach->pid);
    hx_error *unread = hx_proc_read(path, &snapshot->comm, &len);
    hx_error_free(unread);
    if (snapshot->comm && len && snapshot->comm[len - 1] == '\n')
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
    return make_image(result, &snapshot->image);
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

/* Nobody knows what the heap holds: that is no heap of 0 bytes. */
static void lose_heap(struct hx_snapshot *snapshot)
{
    snapshot->no_heap = snapshot->segments.n == 0;
    hx_snapshot_lose(snapshot, "heap of an unknown allocator", 1, 0, 0);
}

/* Walks every allocator that is there. */
static hx_error *walk_allocators(hx_attach *attach, struct hx_snapshot *snapshot,
                                 hx_ranges *excluded, const struct hx_progress *progress,
                                 enum hx_walk_verdict *ret)
{
    struct frozen frozen = {.snapshot = snapshot, .constant = constant(attach)};
    struct hx_peek peek = {.read = peek_image, .context = &frozen};
    bool found = false;
    *ret = HX_WALK_OK;
    for (size_t i = 0; hx_allocators[i] && !found; i++) {
        void *state = NULL;
        HX_TRY(hx_allocators[i]->find(snapshot->mapping, snapshot->n_mappings, attach->via, &peek,
                                      &state));
        if (!state)
            continue;
        found = true;
        hx_error *err = hx_allocators[i]->walk(state, snapshot, excluded, progress, ret);
        hx_allocators[i]->end(state);
        HX_TRY(err);
    }
    if (!found && attach->core && hx_core_lacks_memory(attach->core))
        HX_TRY(hx_glibc_walk_cut(snapshot, excluded, progress, ret, &found));
    if (!found) {
        snapshot->allocator = strdup("none found");
        hx_snapshot_note(snapshot, true,
                         "no allocator that heapx knows was found: the heap has no objects");
        lose_heap(snapshot);
    }
    return NULL;
}

/* The module that is the C library; SIZE_MAX: none. Allocators that take its place export most of
 * its names for malloc, but none of these. */
static size_t c_library(hx_modules *modules)
{
    uint64_t addr, size;
    for (size_t i = 0; i < hx_modules_count(modules); i++)
        if (hx_module_symbol(modules, i, "__libc_start_main", &addr, &size))
            return i;
    return SIZE_MAX;
}

/* Does a word of [start, end) have one of these values? */
static bool holds_word(const struct hx_image *image, uint64_t start, uint64_t end,
                       const uint64_t *value, size_t n)
{
    for (size_t i = hx_image_find(image, start); i < image->n && image->span[i].start < end; i++) {
        const struct hx_span *span = &image->span[i];
        uint64_t at = (start > span->start ? start : span->start) + 7;
        at &= ~(uint64_t)7;
        for (; at < span->end && at < end && span->end - at >= 8; at += 8) {
            uint64_t word;
            memcpy(&word, span->bytes + (at - span->start), sizeof word);
            for (size_t k = 0; word && k < n; k++)
                if (value[k] == word)
                    return true;
        }
    }
    return false;
}

/* Is a module's malloc a mere wrapper? Then the module keeps where the C library's is. */
static bool is_wrapper(const struct hx_snapshot *snapshot, hx_modules *modules, size_t module,
                       size_t library)
{
    enum { RANGES = 16 };
    static const char *const names[] = {"malloc", "calloc", "realloc", "memalign", "aligned_alloc"};
    uint64_t value[sizeof names / sizeof *names], ranges[RANGES][2], size;
    size_t n_values = 0, n = hx_module_data(modules, module, ranges, RANGES);
    for (size_t i = 0; library != SIZE_MAX && i < sizeof names / sizeof *names; i++)
        n_values += hx_module_symbol(modules, library, names[i], &value[n_values], &size);
    for (size_t i = 0; n_values && i < n; i++)
        if (holds_word(&snapshot->image, ranges[i][0], ranges[i][1], value, n_values))
            return true;
    return false;
}

/* Another malloc than the C library's: what it hands out nobody walks, unless it is a wrapper
 * or was recorded. Where the C library's heap is empty it is the allocator. */
static void note_other_malloc(hx_attach *attach, struct hx_snapshot *snapshot)
{
    hx_modules *modules = attach->modules;
    size_t library = c_library(modules);
    for (size_t i = 0; i < hx_modules_count(modules); i++) {
        const char *name = hx_module_name(modules, i);
        uint64_t addr, size;
        if (strncmp(name, "ld-", 3) == 0 || strcmp(name, HX_RECORD_LIBRARY) == 0 ||
            (i == library && !snapshot->no_heap) ||
            !hx_module_symbol(modules, i, "malloc", &addr, &size))
            continue;
        if (snapshot->graph.n == 0) {
            hx_snapshot_note(snapshot, true,
                             "malloc is that of %s, which this version does not know: its blocks "
                             "are no objects",
                             name);
            lose_heap(snapshot);
        } else if (snapshot->recording || is_wrapper(snapshot, modules, i, library)) {
            hx_snapshot_note(snapshot, false,
                             "%s has a malloc, too: blocks that it keeps to itself are no objects",
                             name);
        } else {
            hx_snapshot_note(snapshot, true,
                             "%s has a malloc of its own, which this version does not know: its "
                             "blocks are no objects",
                             name);
            lose_heap(snapshot);
        }
        return;
    }
}

/* Who allocated, where somebody recorded it. That he has ended is no reason to have no heap. */
static hx_error *ask_recorder(hx_attach *attach, struct hx_snapshot *snapshot,
                              const struct hx_capture_options *options,
                              const struct hx_progress *progress)
{
    struct hx_recording *recording = NULL;
    if (!options->recording || attach->core)
        return NULL;
    uint64_t stop_ns = atomic_load(&hx_agent_stop_mark(attach->agent)->ns);
    hx_error *err = options->recording(options->context, stop_ns, progress, &recording);
    if (err && err->kind == HX_E_ABSENT) {
        hx_snapshot_note(snapshot, true, "who allocated is not known: %s", err->why);
        hx_error_free(err);
        return NULL;
    }
    HX_TRY(err);
    return hx_join(snapshot, recording);
}

/* From process and image to heap and roots. */
static hx_error *build_heap_and_roots(hx_attach *attach, struct hx_snapshot *snapshot,
                                      const struct hx_capture_options *options,
                                      const struct hx_progress *progress, enum hx_walk_verdict *ret)
{
    hx_modules_destroy(attach->modules);
    attach->modules = NULL;
    HX_TRY(
        hx_modules_create(attach->via, snapshot->mapping, snapshot->n_mappings, &attach->modules));
    hx_reading_listen(hx_modules_reading(attach->modules), progress);
    attach->image = &snapshot->image;
    hx_ranges excluded = {0};
    uint64_t begun = hx_timing_begin();
    hx_error *err = walk_allocators(attach, snapshot, &excluded, progress, ret);
    hx_timing_end(begun, "walk", snapshot->graph.n);
    begun = hx_timing_begin();
    if (!err)
        err = ask_recorder(attach, snapshot, options, progress);
    hx_timing_end(begun, "recording", snapshot->recording ? snapshot->recording->n_blocks : 0);
    if (!err)
        note_other_malloc(attach, snapshot);
    begun = hx_timing_begin();
    if (!err)
        err = hx_rootmap(snapshot, attach->modules, &excluded);
    hx_vec_free(&excluded);
    hx_timing_end(begun, "roots", 0);
    if (!err && hx_progress_cancelled(progress))
        err = hx_error_cancelled("roots");
    return err;
}

static hx_error *fill_snapshot(hx_attach *attach, struct hx_snapshot *snapshot,
                               struct hx_agent_result *result,
                               const struct hx_capture_options *options,
                               const struct hx_progress *progress, enum hx_walk_verdict *ret)
{
    HX_TRY(fill_process(snapshot, attach, result));
    HX_TRY(build_heap_and_roots(attach, snapshot, options, progress, ret));
    uint64_t begun = hx_timing_begin();
    HX_TRY(hx_account(snapshot));
    HX_TRY(find_resident(snapshot, result));
    hx_timing_end(begun, "account", 0);
    return NULL;
}

static void tell_locked(struct hx_snapshot *snapshot)
{
    hx_snapshot_note(snapshot, true,
                     "an arena was locked at the stop: blocks on their way through malloc or "
                     "free may be missing");
    hx_snapshot_lose(snapshot, "arenas locked at the stop", 1, 0, 0);
}

/* Not a loss of the snapshot's, but the process may ask who did that; also what a capture did that
 * came to nothing. */
static void tell_short_calls(hx_attach *attach, struct hx_snapshot *snapshot)
{
    const struct hx_short_calls *calls = hx_agent_short_calls(attach->agent);
    uint64_t n = calls->n - attach->short_calls_told;
    attach->short_calls_told = calls->n;
    if (n)
        hx_snapshot_note(snapshot, false,
                         "the stop cut %" PRIu64 " call%s of the process short: %s%.*s", n,
                         n == 1 ? "" : "s", n == 1 ? "" : "the newest is ",
                         (int)sizeof calls->newest - 1, calls->newest);
}

static void rest(unsigned attempt)
{
    /* 1, 2, 4, ... ms: let the update end, and do not beat in step with the target */
    struct timespec pause = {.tv_nsec = 1000000L << attempt};
    nanosleep(&pause, NULL);
}

/* One stop and one walk; *longest_us grows to the length of the stop. When a lock was held the
 * verdict is TORN and, unless the request accepts that, there is no snapshot. */
static hx_error *take_once(hx_attach *attach, struct hx_agent_request *request, int *memory_fd,
                           const struct hx_capture_options *options,
                           const struct hx_progress *progress, uint64_t *longest_us,
                           struct hx_snapshot **ret, enum hx_walk_verdict *ret_verdict)
{
    struct hx_agent_result result = {.memory_fd = -1};
    hx_error *refused = hx_agent_capture(attach->agent, request, memory_fd, progress, &result);
    if ((result.pause_ns + 500) / 1000 > *longest_us)
        *longest_us = (result.pause_ns + 500) / 1000;
    if (refused && refused->kind == HX_E_BUSY && result.locked && !request->accept_locked) {
        hx_error_free(refused);
        *ret_verdict = HX_WALK_TORN;
        return NULL;
    }
    HX_TRY(refused);
    HX_SNAPSHOT struct hx_snapshot *snapshot = NULL;
    bool locked = result.locked;
    hx_error *err = hx_snapshot_create(&snapshot);
    if (!err)
        err = fill_snapshot(attach, snapshot, &result, options, progress, ret_verdict);
    *memory_fd = result.memory_fd;
    result.memory_fd = -1;
    hx_agent_result_deinit(&result);
    HX_TRY(err);
    if (locked)
        tell_locked(snapshot);
    *ret = hx_steal(snapshot);
    return NULL;
}

/* What was left out of the files: names are missing, no figure is wrong. */
static void tell_unread(struct hx_snapshot *snapshot, const struct hx_text *notes, uint64_t n)
{
    if (!n || notes->failed)
        return;
    if (!snapshot->notes.n || !strstr(hx_text_str(&snapshot->notes), notes->s))
        hx_snapshot_note(snapshot, false, "%s", notes->s);
    hx_snapshot_lose(snapshot, "parts of files with names that were not read", n, 0, 0);
}

/* What comes last, and what every snapshot has to say. */
static hx_error *finish_snapshot(hx_attach *attach, struct hx_snapshot *snapshot,
                                 const struct hx_progress *progress)
{
    struct hx_text notes = {0};
    uint64_t n;
    HX_TRY(hx_backtraces(snapshot, attach->via, attach->code, progress));
    hx_reading_tell(hx_modules_reading(attach->modules), &notes, &n);
    if (n)
        tell_unread(snapshot, &notes, n);
    hx_text_free(&notes);
    const struct hx_recording *named[] = {snapshot->recording, snapshot->backtraces};
    for (size_t i = 0; i < 2; i++)
        if (named[i] && named[i]->unread)
            tell_unread(snapshot, &named[i]->unread_notes, named[i]->unread);
    if (!snapshot->complete && !snapshot->losses.n)
        hx_snapshot_lose(snapshot, "parts of the heap that the notes tell of", 1, 0, 0);
    return NULL;
}

/* --- a core ---------------------------------------------------------------------------- */

/* Did a thread hold an arena when it was stopped for ever? */
static hx_error *look_at_locks(hx_attach *attach, struct hx_snapshot *snapshot)
{
    struct frozen frozen = {.snapshot = snapshot, .constant = constant(attach)};
    struct hx_peek peek = {.read = peek_image, .context = &frozen};
    hx_lock_words locks = {0};
    bool locked = false;
    hx_error *err = find_locks(snapshot->mapping, snapshot->n_mappings, attach->via, &peek, &locks);
    for (size_t i = 0; !err && i < locks.n && !locked; i++) {
        uint32_t word;
        locked = hx_image_u32(&snapshot->image, locks.v[i].addr, &word) && word & locks.v[i].mask;
    }
    hx_vec_free(&locks);
    if (locked)
        tell_locked(snapshot);
    return err;
}

static hx_error *capture_core(hx_attach *attach, const struct hx_capture_options *options,
                              const struct hx_progress *progress, struct hx_snapshot **ret)
{
    HX_SNAPSHOT struct hx_snapshot *snapshot = NULL;
    enum hx_walk_verdict verdict = HX_WALK_OK;
    uint64_t begun = hx_timing_begin();
    HX_TRY(begin_watch(attach, &(struct hx_memory_need){.ours = 1}));
    HX_TRY(hx_snapshot_create(&snapshot));
    HX_TRY(hx_core_take(attach->core, options->threads, progress, snapshot));
    hx_timing_end(begun, "core", 0);
    HX_TRY(build_heap_and_roots(attach, snapshot, options, progress, &verdict));
    HX_TRY(look_at_locks(attach, snapshot));
    if (verdict == HX_WALK_TORN)
        hx_snapshot_note(snapshot, true,
                         "the core was taken in the middle of a change of the heap: "
                         "some blocks may be missing or stale");
    HX_TRY(finish_snapshot(attach, snapshot, progress));
    *ret = hx_steal(snapshot);
    attach->image = &(*ret)->image;
    return NULL;
}

/* --- a process ------------------------------------------------------------------------- */

static hx_error *capture_process(hx_attach *attach, const struct hx_capture_options *options,
                                 const struct hx_progress *progress, struct hx_snapshot **ret)
{
    HX_FREE struct hx_agent_request *request = calloc(1, sizeof *request);
    HX_NEED(request);
    pid_t living = hx_proc_living(attach->pid);
    attach->via = living ? living : attach->via;
    request->max_pause_ns = options->max_pause_ns;
    request->threads = options->threads ? options->threads : 2;
    HX_FD int memory_fd = -1;
    uint64_t longest_us = 0;
    for (unsigned attempt = 0, damaged = 0;; attempt++) {
        if (hx_progress_cancelled(progress))
            return hx_error_cancelled("capture");
        bool last = attempt + 1 == TRIES;
        request->n_locks = 0;
        request->accept_locked = last;
        struct hx_memory_need need;
        HX_TRY(read_running_target(attach, request, progress, &need));
        if (attempt == 0)
            HX_TRY(begin_watch(attach, &need));
        HX_SNAPSHOT struct hx_snapshot *snapshot = NULL;
        enum hx_walk_verdict verdict = HX_WALK_OK;
        HX_TRY(take_once(attach, request, &memory_fd, options, progress, &longest_us, &snapshot,
                         &verdict));
        bool doubtful =
            verdict == HX_WALK_TORN || (verdict == HX_WALK_BAD && ++damaged < DAMAGED_TRIES);
        if (doubtful && !last) {
            rest(attempt);
            continue;
        }
        if (verdict == HX_WALK_TORN) /* what and how much: the walk has said */
            hx_snapshot_note(snapshot, true,
                             "none of %d stops found them in agreement: some blocks may be missing "
                             "or stale",
                             TRIES);
        tell_short_calls(attach, snapshot);
        HX_TRY(finish_snapshot(attach, snapshot, progress));
        snapshot->pause_us = longest_us;
        *ret = hx_steal(snapshot);
        attach->image = &(*ret)->image;
        return NULL;
    }
}

hx_error *hx_attach_capture(hx_attach *attach, const struct hx_capture_options *options,
                            const struct hx_progress *progress, struct hx_snapshot **ret)
{
    hx_reading_listen(hx_code_reading(attach->code), progress);
    hx_error *err = (attach->core ? capture_core : capture_process)(attach, options, progress, ret);
    hx_reading_listen(hx_code_reading(attach->code), NULL);
    if (attach->modules)
        hx_reading_listen(hx_modules_reading(attach->modules), NULL);
    return err;
}
