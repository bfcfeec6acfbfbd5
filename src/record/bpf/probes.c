/* probes.c - records a running process by probes in the kernel: the source of its events.
 *
 * One ring, whose order is the order of what happened. A round takes what stood in it when the
 * round began.
 */
#include "base/cleanup.h"
#include "base/proc.h"
#include "base/text.h"
#include "base/timing.h"
#include "record/bpf/probes_private.h"
#include "sym/demangle.h"

#include <bpf/bpf.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Room for events while heapx is busy elsewhere. */
static const uint64_t ring_bytes = 16 << 20;

/* How much of the ring is handed to the reader at once. */
enum { batch_bytes = 256 << 10 };

/* Captured stacks that can be told at a time, when the program defers work and when only a library
 * that it loads later may. */
enum { captures_marked = 1 << 17, captures_later = 1 << 14 };

/* Less than this is not worth another round at once. */
enum { worth_bytes = 64 << 10 };

struct probes {
    pid_t pid;
    int pidfd, epoll;
    bool mappings;
    const atomic_bool *hurry; /* nobody waits until the probes are gone */
    hx_code *code;
    hx_space *space;
    hx_reader *reader;
    struct hx_probe_tables tables;
    struct hx_probe_functions functions, marks;
    uint32_t files; /* that were searched for allocators and marks */
    unsigned allocators;
    uint64_t odd_marks; /* probes that call themselves heapx's, and are not as its header's */
    char *marks_error;  /* why those of some file could not be set; NULL: they were */
    struct hx_probe_kernel kernel;
    struct hx_probe_cost cost;
    pid_t linked;       /* the thread by which the kernel knows the process */
    uint64_t linked_ns; /* when that was looked at */
    bool maps_changed;  /* since they were read; also: a raw stack came */
    uint8_t *batch;
};

/* --- for the reader ------------------------------------------------------------------- */

static void probes_locate(void *context, uint64_t pc, struct hx_location *ret)
{
    struct probes *p = context;
    hx_space_locate(p->space, pc, ret);
}

static uint64_t probes_to_ns(void *context, uint64_t when)
{
    (void)context;
    return when; /* of the same clock */
}

/* The memory that came with a raw stack. */
struct raw_memory {
    uint64_t from, bytes;
    const uint8_t *memory;
};

static bool read_raw(void *context, uint64_t addr, uint64_t *ret)
{
    const struct raw_memory *raw = context;
    uint64_t at = addr - raw->from;
    if (addr < raw->from || raw->bytes < 8 || at > raw->bytes - 8)
        return false;
    memcpy(ret, raw->memory + at, 8);
    return true;
}

static void probes_unwind(void *context, const struct hx_ev_raw_stack *raw, uint64_t *frame,
                          size_t max, size_t *n, uint64_t *exact, bool *cut)
{
    struct probes *p = context;
    struct raw_memory memory = {
        .from = raw->sp, .bytes = raw->n_bytes, .memory = (const uint8_t *)(raw->frame + raw->n)};
    bool is_exact = raw->n && raw->n <= 64 && raw->exact >> (raw->n - 1) & 1;
    struct hx_cfi_frame from = {
        .pc = raw->pc, .sp = raw->sp, .fp = raw->fp, .fp_known = raw->fp != 0, .exact = is_exact};
    p->maps_changed = true;
    if (!hx_space_find(p->space, raw->pc))
        hx_error_free(hx_space_refresh(p->space));
    *cut = !hx_space_unwind(p->space, from, read_raw, &memory, frame, NULL, max, n, exact);
}

static void probes_event(void *context, enum hx_event_kind kind, uint64_t when, uint64_t word)
{
    struct probes *p = context;
    (void)when, (void)word;
    if (kind != HX_EV_MAPS)
        return;
    hx_error_free(hx_space_refresh(p->space));
    p->maps_changed = true;
}

/* A region that the probes could not read, as its page was not in memory: reading it from here
 * brings it. */
static bool centre(void *context, uint64_t word, struct hx_ev_centre *ret)
{
    const struct probes *p = context;
    static const size_t most[] = {128, 96, 160};
    struct {
        uint64_t text[3];
        uint32_t line, unused;
    } region;
    char path[64];
    pid_t living = hx_proc_living(p->pid);
    snprintf(path, sizeof path, "/proc/%d/mem", (int)(living ? living : p->pid));
    HX_FD int fd = open(path, O_RDONLY | O_CLOEXEC);
    uint64_t address = HX_PROBE_REGION_ADDRESS(word);
    if (fd < 0 || pread(fd, &region, sizeof region, (off_t)address) != sizeof region)
        return false;
    *ret = (struct hx_ev_centre){
        .head = HX_EV_HEAD(HX_EV_CENTRE, 0), .word = word, .address = address, .line = region.line};
    for (size_t i = 0; i < 3; i++) {
        char *to = ret->text + ret->n;
        ssize_t n = 0;
        if (region.text[i] && region.text[i] <= INT64_MAX)
            n = pread(fd, to, most[i] - 1, (off_t)region.text[i]);
        to[n > 0 ? n : 0] = 0;
        ret->n += (uint32_t)strlen(to) + 1;
    }
    return true;
}

/* --- rounds ------------------------------------------------------------------------------ */

static hx_error *search_files(struct probes *p)
{
    for (size_t n = hx_code_count(p->code); p->files < n; p->files++) {
        HX_TRY(hx_probe_find(p->code, p->files, p->mappings, &p->functions, &p->allocators));
        HX_TRY(hx_probe_find_marks(p->code, p->files, &p->marks, &p->odd_marks));
    }
    return NULL;
}

/* Probes of what the program marks, from number `from` on. Without them its allocations are
 * recorded all the same. */
static hx_error *link_marks(struct probes *p, size_t from)
{
    if (from >= p->marks.n)
        return NULL;
    hx_error *err = hx_probe_load_marks(&p->kernel);
    /* before: whatever marks meanwhile takes its stack already */
    __atomic_store_n(&p->kernel.shared->marks_ns, hx_now_ns(), __ATOMIC_SEQ_CST);
    if (!err)
        err = hx_probe_link(&p->kernel, p->code, p->linked, &p->marks, from);
    __atomic_store_n(&p->kernel.shared->marks_ns, hx_now_ns(), __ATOMIC_SEQ_CST);
    if (!err || err->kind == HX_E_NOMEM)
        return err;
    if (!p->marks_error)
        p->marks_error = strdup(err->why);
    hx_error_free(err);
    return NULL;
}

/* Probes of files that were not there before; a failure is told by the caller's notes only. */
static hx_error *find_new(struct probes *p)
{
    size_t from = p->functions.n, marks = p->marks.n;
    HX_TRY(search_files(p));
    /* another allocator may be called by what was thought to call none */
    for (size_t i = from; i < p->functions.n; i++)
        p->functions.v[i].leaf &= p->allocators == 1;
    HX_TRY(link_marks(p, marks));
    return hx_probe_link(&p->kernel, p->code, p->linked, &p->functions, from);
}

static hx_error *follow_maps(struct probes *p)
{
    if (__atomic_load_n(&p->kernel.shared->ended, __ATOMIC_RELAXED)) {
        /* what the process runs now is not recorded, and need not pay for it */
        static const atomic_bool at_once = true;
        hx_probe_unlink(&p->kernel, &at_once);
        return NULL;
    }
    if (!p->maps_changed)
        return NULL;
    p->maps_changed = false;
    HX_TRY(hx_probe_tables_push(&p->tables, &p->kernel));
    hx_error *err = find_new(p);
    if (err && err->kind == HX_E_NOMEM)
        return err;
    hx_error_free(
        err); /* a probe that cannot be set in a library loaded late is no reason to end */
    return NULL;
}

/* The probes of old kernels go with the thread that they were set by, silently. Then another one
 * has them; how much was missed meanwhile nobody knows, but that something was. */
static hx_error *follow_thread(struct probes *p)
{
    enum { gap_ns = 50000000 };
    struct hx_probe_shared *shared = p->kernel.shared;
    uint64_t now = hx_now_ns();
    if (p->kernel.session || !p->kernel.links.n || now - p->linked_ns < gap_ns)
        return NULL;
    p->linked_ns = now;
    char state = hx_proc_state(p->pid, p->linked);
    if (state && state != 'Z' && state != 'X')
        return NULL;
    pid_t living = hx_proc_living(p->pid);
    if (!living || living == p->linked)
        return NULL;
    p->linked = living;
    HX_TRY(hx_probe_relink(&p->kernel, p->code, living, &p->functions, &p->marks));
    __atomic_fetch_add(&shared->lost_allocs, 1, __ATOMIC_RELAXED);
    __atomic_fetch_add(&shared->lost_frees, 1, __ATOMIC_RELAXED);
    return NULL;
}

static hx_error *feed_batch(struct probes *p, size_t len, uint64_t until)
{
    size_t fed = 0;
    if (!len)
        return NULL;
    HX_TRY(hx_reader_feed(p->reader, p->batch, len, until, &fed));
    if (fed != len)
        return hx_error_new(HX_E_CORRUPT, "the ring of the probes", NULL,
                            "holds an event that makes no sense");
    return NULL;
}

/* Takes events up to a position of the ring; before `until`. */
static hx_error *probes_drain(struct probes *p, uint64_t end, uint64_t until)
{
    struct hx_probe_kernel *kernel = &p->kernel;
    uint64_t at = atomic_load_explicit(kernel->consumed, memory_order_relaxed);
    size_t len = 0;
    hx_error *err = NULL;
    while (!err && at < end) {
        const uint8_t *record = kernel->ring + (at & (kernel->ring_bytes - 1));
        uint32_t head = __atomic_load_n((const uint32_t *)(const void *)record, __ATOMIC_ACQUIRE);
        uint32_t bytes = head & ~(BPF_RINGBUF_BUSY_BIT | BPF_RINGBUF_DISCARD_BIT);
        if (head & BPF_RINGBUF_BUSY_BIT)
            break;
        if (!(head & BPF_RINGBUF_DISCARD_BIT)) {
            uint64_t first;
            memcpy(&first, record + BPF_RINGBUF_HDR_SZ, sizeof first);
            if (HX_EV_WHEN(first) >= until)
                break;
            if (len + bytes > batch_bytes) {
                err = feed_batch(p, len, until);
                atomic_store_explicit(kernel->consumed, at, memory_order_release);
                len = 0;
            }
            memcpy(p->batch + len, record + BPF_RINGBUF_HDR_SZ, bytes);
            len += bytes;
        }
        at += ((uint64_t)bytes + BPF_RINGBUF_HDR_SZ + 7) & ~(uint64_t)7;
    }
    if (!err)
        err = feed_batch(p, len, until);
    atomic_store_explicit(kernel->consumed, at, memory_order_release);
    return err;
}

static hx_error *run_round(void *state, const struct hx_stop_mark *mark, bool *ret_idle,
                           uint64_t *ret_stop_ns)
{
    struct probes *p = state;
    struct hx_probe_kernel *kernel = &p->kernel;
    uint64_t begin = atomic_load_explicit(kernel->consumed, memory_order_relaxed);
    uint64_t end = atomic_load_explicit(kernel->produced, memory_order_acquire);
    uint64_t until = UINT64_MAX, ticks, stop_ns = 0;
    if (hx_stop_mark_pending(mark, &ticks, &stop_ns)) {
        until = stop_ns;
        end = atomic_load_explicit(kernel->produced, memory_order_acquire);
    }
    HX_TRY(probes_drain(p, end, until));
    hx_reader_add_losses(p->reader, __atomic_load_n(&kernel->shared->lost_allocs, __ATOMIC_RELAXED),
                         __atomic_load_n(&kernel->shared->lost_frees, __ATOMIC_RELAXED));
    hx_reader_add_lost_entries(p->reader,
                               __atomic_load_n(&kernel->shared->lost_entries, __ATOMIC_RELAXED));
    HX_TRY(hx_reader_end_round(p->reader));
    HX_TRY(follow_maps(p));
    HX_TRY(follow_thread(p));
    /* a reader that looks at the ring all the time makes each event dearer */
    *ret_idle = atomic_load_explicit(kernel->consumed, memory_order_relaxed) - begin < worth_bytes;
    *ret_stop_ns = stop_ns;
    return NULL;
}

static void probes_wait(void *state, uint64_t ns)
{
    struct probes *p = state;
    struct epoll_event event;
    struct timespec most = {.tv_sec = (time_t)(ns / 1000000000),
                            .tv_nsec = (long)(ns % 1000000000)};
    __atomic_store_n(&p->kernel.shared->asleep, 1, __ATOMIC_SEQ_CST);
    /* edge-triggered: of what is there already only the process's end wakes */
    if (syscall(SYS_epoll_pwait2, p->epoll, &event, 1, &most, NULL, 0) < 0 && errno == ENOSYS)
        epoll_wait(p->epoll, &event, 1, (int)(ns / 1000000) + 1);
    __atomic_store_n(&p->kernel.shared->asleep, 0, __ATOMIC_RELAXED);
}

static hx_error *probes_freeze(void *state, struct hx_recording **ret)
{
    struct probes *p = state;
    return hx_reader_freeze(p->reader, ret);
}

static hx_error *probes_name(void *state, struct hx_recording *recording,
                             const struct hx_progress *progress)
{
    const struct probes *p = state;
    return hx_recording_name(recording, p->code, progress);
}

static void probes_figures(void *state, struct hx_reader_figures *ret)
{
    struct probes *p = state;
    hx_reader_figures(p->reader, ret);
}

static void probes_overhead(void *state, struct hx_record_overhead *ret)
{
    struct probes *p = state;
    hx_probe_cost_now(&p->cost, &p->kernel, p->pid, ret);
}

static bool probes_ended(void *state)
{
    struct probes *p = state;
    struct pollfd poll_fd = {.fd = p->pidfd, .events = POLLIN};
    if (!__atomic_load_n(&p->kernel.shared->ended, __ATOMIC_ACQUIRE) &&
        !(poll(&poll_fd, 1, 0) > 0 && poll_fd.revents))
        return false;
    return atomic_load_explicit(p->kernel.consumed, memory_order_relaxed) ==
           atomic_load_explicit(p->kernel.produced, memory_order_acquire);
}

static void probes_end(void *state)
{
    struct probes *p = state;
    if (!p)
        return;
    hx_probe_unlink(&p->kernel, p->hurry);
    hx_probe_unload(&p->kernel);
    hx_reader_destroy(p->reader);
    hx_probe_tables_deinit(&p->tables);
    hx_vec_free(&p->functions);
    hx_vec_free(&p->marks);
    free(p->marks_error);
    hx_space_destroy(p->space);
    hx_code_destroy(p->code);
    if (p->pidfd >= 0)
        close(p->pidfd);
    if (p->epoll >= 0)
        close(p->epoll);
    free(p->batch);
    free(p);
}

static const struct hx_source source = {
    .method = "probes",
    .round = run_round,
    .wait = probes_wait,
    .freeze = probes_freeze,
    .name = probes_name,
    .figures = probes_figures,
    .overhead = probes_overhead,
    .ended = probes_ended,
    .close = probes_end,
};

/* --- opening --------------------------------------------------------------------------------- */

/* log2(1 + i/256) in units of 2^-16, by squaring: each squaring gives one more bit. */
static uint32_t log2_of(unsigned i)
{
    uint64_t x = ((uint64_t)(256 + i)) << 22; /* 2^30 is 1 */
    uint32_t bits = 0;
    if (i == 256)
        return 1 << 16;
    for (int k = 0; k < 16; k++) {
        x = x * x >> 30;
        bits <<= 1;
        if (x >> 31) {
            bits |= 1;
            x >>= 1;
        }
    }
    return bits;
}

/* The innermost PID namespace of the process, and its number there. */
static hx_error *find_pid_space(pid_t *pid, struct stat *ret)
{
    char path[64];
    HX_FREE char *status = NULL;
    size_t len;
    snprintf(path, sizeof path, "/proc/%d/ns/pid", (int)*pid);
    if (!stat(path, ret)) {
        snprintf(path, sizeof path, "/proc/%d/status", (int)*pid);
        HX_TRY(hx_proc_read(path, &status, &len));
        const char *numbers = hx_proc_field(status, "NSpid");
        char *end;
        for (long n; numbers && (n = strtol(numbers, &end, 10)) > 0 && end != numbers;) {
            *pid = (pid_t)n;
            numbers = *end == '\n' ? NULL : end;
        }
        return NULL;
    }
    /* not allowed to look: most live in heapx's own */
    return stat("/proc/self/ns/pid", ret) ? hx_error_os(errno, "/proc/self/ns/pid", "stat") : NULL;
}

static hx_error *make_config(const struct hx_record_options *options, pid_t pid,
                             struct hx_probe_config *ret)
{
    struct stat space;
    long cpus = sysconf(_SC_NPROCESSORS_CONF);
    HX_TRY(find_pid_space(&pid, &space));
    *ret = (struct hx_probe_config){
        .sample_bytes = options->sample_bytes,
        .least_bytes = options->least_bytes,
        .most_bytes = options->most_bytes,
        .wake_bytes = ring_bytes / 4,
        .pid = (uint32_t)pid,
        .pid_space_dev = space.st_dev,
        .pid_space_inode = space.st_ino,
        .cpus = cpus > 0 ? (uint32_t)cpus : 1,
    };
    ret->scratches = 4 * ret->cpus;
    for (unsigned i = 0; i <= 256; i++)
        ret->log2[i] = log2_of(i);
    return NULL;
}

/* Room for sampled blocks: several times what the resident memory can hold of them. */
static uint32_t sampled_blocks(pid_t pid, const struct hx_record_options *options)
{
    enum { least = 1 << 16, most = 1 << 20 };
    unsigned long long pages = 0, resident = 0;
    if (!options->sample_bytes)
        return options->least_bytes || options->most_bytes ? most : 1;
    HX_FREE char *text = hx_proc_text("/proc/%d/statm", (int)pid);
    if (text)
        sscanf(text, "%llu %llu", &pages, &resident);
    uint64_t blocks = 8 * (resident << 12) / options->sample_bytes;
    return blocks < least ? least : blocks > most ? most : (uint32_t)blocks;
}

static hx_error *probes_poll(struct probes *p)
{
    char name[32];
    snprintf(name, sizeof name, "PID %d", (int)p->pid);
    HX_TRY(hx_code_create(&p->code));
    HX_TRY(hx_space_create(p->pid, p->code, &p->space));
    HX_TRY(hx_space_refresh(p->space));
    HX_TRY(hx_probe_tables_init(&p->tables, p->code, p->space));
    HX_TRY(search_files(p));
    if (!p->allocators)
        return hx_error_new(HX_E_ABSENT, name,
                            "`heapx snap` tells its memory, and in its notes whose heap it has",
                            "no file that it has mapped defines malloc and free (a program of Go, "
                            "a static one without symbols, or one with an allocator of its own)");
    for (size_t i = 0; i < p->functions.n; i++)
        p->functions.v[i].leaf &= p->allocators == 1;
    return NULL;
}

/* Everything that is in the kernel, in one way or the other. */
static hx_error *probes_install(struct probes *p, const struct hx_probe_config *config,
                                bool session)
{
    hx_probe_unload(&p->kernel);
    HX_TRY(hx_probe_load(config, &p->tables.sizes, session, &p->kernel));
    hx_probe_measure(&p->kernel, config, &p->cost);
    if (hx_probe_is_filtered(p->pid))
        HX_TRY(hx_probe_try_filtered(&p->kernel, p->pid));
    uint64_t seed = hx_now_ns();
    if (getrandom(&seed, sizeof seed, GRND_NONBLOCK) < 0)
        seed ^= (uint64_t)p->pid << 32;
    p->kernel.shared->seed = seed;
    HX_TRY(hx_probe_tables_push(&p->tables, &p->kernel));
    HX_TRY(hx_probe_link_exec(&p->kernel));
    p->linked = session ? p->pid : hx_proc_living(p->pid);
    HX_TRY(hx_probe_link(&p->kernel, p->code, p->linked, &p->functions, 0));
    free(hx_steal(p->marks_error));
    return link_marks(p, 0);
}

static hx_error *watch_target(struct probes *p)
{
    p->epoll = epoll_create1(EPOLL_CLOEXEC);
    struct epoll_event event = {.events = EPOLLIN | EPOLLET};
    if (p->epoll < 0 || epoll_ctl(p->epoll, EPOLL_CTL_ADD, p->kernel.ring_fd, &event))
        return hx_error_os(errno, "the ring of the probes", "epoll");
    if (epoll_ctl(p->epoll, EPOLL_CTL_ADD, p->pidfd, &event))
        return hx_error_os(errno, "the process", "epoll");
    return NULL;
}

static bool is_allocators(const struct hx_probe_function *f)
{
    return f->kind != HX_PROBE_MAPS;
}

/* "47 functions of libc.so.6 and libjemalloc.so.2" */
static void put_files(const struct probes *p, struct hx_text *text)
{
    size_t functions = 0, files = 0, nth = 0;
    uint32_t last = HX_NO_FILE;
    for (size_t i = 0; i < p->functions.n; i++) {
        const struct hx_probe_function *f = &p->functions.v[i];
        if (!is_allocators(f))
            continue;
        functions++;
        files += f->file != last;
        last = f->file;
    }
    hx_text_putf(text, "%zu function%s of ", functions, functions == 1 ? "" : "s");
    last = HX_NO_FILE;
    for (size_t i = 0; i < p->functions.n; i++) {
        const struct hx_probe_function *f = &p->functions.v[i];
        if (!is_allocators(f) || f->file == last)
            continue;
        last = f->file;
        const char *name = hx_code_name(p->code, f->file);
        hx_text_puts(text, !nth ? "" : nth + 1 == files ? " and " : ", ");
        hx_text_escape(text, name, strlen(name), true);
        nth++;
    }
}

/* Functions that begin with an instruction that the kernel has to step over. */
static void put_slow(const struct probes *p, struct hx_text *text)
{
    const char *before = "; slow, by the instruction they begin with: ";
    for (size_t i = 0; i < p->functions.n; i++) {
        const struct hx_probe_function *f = &p->functions.v[i];
        if (!is_allocators(f) || !f->stepped)
            continue;
        hx_text_puts(text, before);
        hx_demangle_symbol(text, f->name);
        before = ", ";
    }
}

/* What the program marks by heapx/scc.h, where that is not seen. */
static void note_unseen_marks(const struct probes *p, struct hx_text *text)
{
    if (p->marks_error) {
        hx_text_puts(text, "; regions that the program marks are not seen: ");
        hx_text_escape(text, p->marks_error, strlen(p->marks_error), true);
    }
    if (p->odd_marks)
        hx_text_putf(text,
                     "; %" PRIu64 " probes of provider heapx are not as heapx/scc.h has them, "
                     "and are left alone",
                     p->odd_marks);
}

/* One sentence. */
static void probes_describe(const struct probes *p, char **ret)
{
    struct hx_text text = {0};
    hx_text_puts(&text, "probes on ");
    put_files(p, &text);
    put_slow(p, &text);
    note_unseen_marks(p, &text);
    if (p->tables.too_many_parts || p->tables.too_large)
        hx_text_puts(&text, "; not all of its code has unwind tables in the kernel");
    *ret = text.failed ? NULL : hx_steal(text.s);
    hx_text_free(&text);
}

static hx_error *open_all(struct probes *p, const struct hx_record_options *options)
{
    struct hx_probe_config config;
    char name[32];
    snprintf(name, sizeof name, "PID %d", (int)p->pid);
    p->pidfd = (int)syscall(SYS_pidfd_open, p->pid, 0);
    if (p->pidfd < 0)
        return errno == ESRCH ? hx_error_new(HX_E_GONE, name, NULL, "no such process")
                              : hx_error_os(errno, name, "pidfd_open");
    HX_TRY(probes_poll(p));
    HX_TRY(make_config(options, p->pid, &config));
    config.rules = p->tables.sizes.rules;
    p->tables.sizes.ring_bytes = ring_bytes;
    p->tables.sizes.sampled = sampled_blocks(p->pid, options);
    p->tables.sizes.captures = p->marks.n ? captures_marked : captures_later;
    /* the better way needs Linux 6.13, and the first thread to be alive */
    hx_error *err = NULL;
    bool session = hx_proc_living(p->pid) == p->pid;
    if (session)
        err = probes_install(p, &config, true);
    if (!session || (err && err->kind != HX_E_NOMEM && err->kind != HX_E_LIMIT)) {
        hx_error_free(err);
        hx_probe_tables_forget(&p->tables);
        err = probes_install(p, &config, false);
    }
    HX_TRY(err);
    HX_TRY(watch_target(p));
    struct hx_reader_source reader = {.locate = probes_locate,
                                      .centre = centre,
                                      .to_ns = probes_to_ns,
                                      .unwind = probes_unwind,
                                      .process_event = probes_event,
                                      .context = p};
    struct hx_reader_options reading = {.sample_bytes = options->sample_bytes, .method = "probes"};
    HX_TRY(hx_reader_create(&reader, &reading, &p->reader));
    p->batch = malloc(batch_bytes);
    HX_NEED(p->batch);
    hx_probe_cost_begin(&p->cost, p->pid);
    __atomic_store_n(&p->kernel.shared->armed, 1, __ATOMIC_SEQ_CST);
    /* mappings made since the last look caused no event */
    p->maps_changed = true;
    return hx_space_refresh(p->space);
}

hx_error *hx_probes_open(pid_t pid, const struct hx_record_options *options,
                         const struct hx_source **ret, void **ret_state, char **ret_notes)
{
    HX_TRY(hx_probes_possible());
    struct probes *p = calloc(1, sizeof *p);
    HX_NEED(p);
    p->pid = pid;
    p->pidfd = p->epoll = -1;
    p->kernel.ring_fd = -1;
    p->mappings = options->mappings;
    p->hurry = options->hurry;
    hx_error *err = open_all(p, options);
    if (err) {
        probes_end(p);
        return err;
    }
    if (ret_notes)
        probes_describe(p, ret_notes);
    *ret = &source;
    *ret_state = p;
    return NULL;
}
