/* lifetime.c - the life of a recorded process: start, fork, execution of other programs, plugins
 * that are unloaded, system calls that are forbidden.
 */
#include "record/preload/wrapper.h"

#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <string.h>
#include <sys/mman.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <unistd.h>

struct hx_gate hx_gate;
struct hx_process hx_process;

static void open_gate(void)
{
    atomic_store(&hx_process.stage, HX_STAGE_RECORDS);
    atomic_store(&hx_gate.mode, hx_process.mode);
}

/* --- thread end --------------------------------------------------------------------------- */

/* A key's destructor. The program's own may allocate after it, so it comes again until the last
 * round. */
static void thread_ends(void *context)
{
    struct hx_thread_state *thread = context;
    if (hx_mode() == HX_GATE_SHUT)
        return;
    if (++thread->rounds < PTHREAD_DESTRUCTOR_ITERATIONS)
        pthread_setspecific(hx_process.key, thread);
    else {
        hx_thread_leave(thread);
        hx_marks_leave();
    }
}

/* --- start ---------------------------------------------------------------------------------- */

static bool mappings_wanted(const char *name)
{
    static const char *const names[] = {"mmap", "mmap64", "munmap", "mremap"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(name, names[i]) == 0)
            return hx_process.region && hx_process.flags & HX_RUN_MAPPINGS;
    return true;
}

static bool name_wanted(const char *name)
{
    bool is_operator, wanted = hx_cxx_wanted(name, &is_operator);
    if (is_operator)
        return wanted;
    return mappings_wanted(name) && hx_real_next(name);
}

/* The reader keeps the state of that very moment for the child. */
static void before_fork(void)
{
    bool recorded = hx_process.region && hx_process.flags & HX_RUN_CHILDREN;
    if (recorded)
        atomic_store(&hx_process.region->fork_when, HX_FORK_COMING);
    hx_process.fork_when = hx_now();
    if (recorded)
        atomic_store(&hx_process.region->fork_when, hx_process.fork_when);
}

static void after_fork(void)
{
    hx_process.fork_when = 0;
}

static void start_process(void)
{
    hx_real_find();
    hx_cxx_find();
    bool records = hx_env_take() && hx_region_make(0);
    hx_real_hide(name_wanted);
    /* the loader keeps what it would say of names that are nowhere; frees of it would be strange */
    dlerror();
    dlerror();
    if (!records) {
        atomic_store(&hx_process.stage, HX_STAGE_OFF);
        return;
    }
    struct hx_process *process = &hx_process;
    process->mode = process->sample_bytes                         ? HX_GATE_SAMPLED
                    : process->least_bytes || process->most_bytes ? HX_GATE_SIZES
                                                                  : HX_GATE_ALL;
    process->has_key = pthread_key_create(&process->key, thread_ends) == 0;
    hx_scc_find();
    open_gate();
    /* what these allocate is libc's, and lives on: it is recorded like all else */
    pthread_atfork(before_fork, after_fork, hx_forked);
    if (process->flags & HX_RUN_AT_EXIT)
        hx_ending_start();
}

void hx_start(void)
{
    int stage = HX_STAGE_NEW;
    if (HX_LIKELY(atomic_load(&hx_process.stage) != HX_STAGE_NEW) ||
        !atomic_compare_exchange_strong(&hx_process.stage, &stage, HX_STAGE_STARTING))
        return;
    int saved = errno;
    start_process();
    errno = saved;
}

static __attribute__((constructor)) void constructed(void)
{
    hx_start(); /* of a program that has not allocated yet */
}

bool hx_gate_check(void)
{
    int stage = atomic_load(&hx_process.stage);
    if (stage == HX_STAGE_RECORDS)
        hx_forked(); /* the page of the gate was cleared: another process */
    else if (stage == HX_STAGE_NEW)
        hx_start();
    return hx_mode() != HX_GATE_SHUT;
}

/* --- fork ----------------------------------------------------------------------------------- */

void hx_forked(void)
{
    struct hx_process *process = &hx_process;
    int stage = HX_STAGE_RECORDS;
    if (hx_mode() != HX_GATE_SHUT ||
        !atomic_compare_exchange_strong(&process->stage, &stage, HX_STAGE_STARTING))
        return;
    struct hx_thread_state *thread = &hx_thread_state;
    int parent = process->pid;
    process->pid = (int)HX_SYS(SYS_getpid, 0, 0, 0, 0);
    bool records = false;
    if (process->flags & HX_RUN_CHILDREN && !process->barred) {
        process->execed_from = 0;
        hx_env_write();
        records = hx_region_make(parent);
    }
    if (!records)
        hx_region_drop();
    process->fork_when = 0;
    memset(thread->writer, 0, sizeof thread->writer);
    thread->tid = 0;
    if (records)
        open_gate();
    else
        atomic_store(&process->stage, HX_STAGE_OFF);
}

/* --- code that goes ------------------------------------------------------------------------- */

HX_EXPORT int dlclose(void *handle)
{
    static int (*_Atomic real)(void *);
    if (!real)
        *(void **)&real = hx_real_next("dlclose");
    struct hx_region *region = hx_process.region;
    if (hx_mode() == HX_GATE_SHUT)
        return real(handle);
    atomic_fetch_add(&region->generation, 1);
    hx_unwind_forget(hx_process.unwind);
    uint32_t request = atomic_fetch_add(&region->maps_requested, 1) + 1;
    hx_wake_reader();
    hx_wait_for(&region->maps_done, request, HX_RING_TIMEOUT_NS, HX_RING_TIMEOUT_NS);
    int ret = real(handle);
    int saved = errno;
    hx_unwind_forget(hx_process.unwind);
    hx_record_word(HX_EV_MAPS, 0);
    errno = saved;
    return ret;
}

/* --- mappings ------------------------------------------------------------------------------- */

static bool maps_recorded(void)
{
    return hx_process.flags & HX_RUN_MAPPINGS &&
           (hx_mode() != HX_GATE_SHUT || (hx_process.stage == HX_STAGE_RECORDS && hx_gate_check()));
}

static void record_map_change(void *p, size_t bytes, const struct hx_caller *caller)
{
    if (p != MAP_FAILED && hx_wants(&hx_thread_state, bytes, caller->pc) &&
        (hx_process.mode != HX_GATE_SAMPLED || hx_sample_add((uint64_t)p)))
        hx_record_mapping(p, bytes, caller);
}

#define RECORDED_MMAP(name, offset_type)                                                           \
    HX_EXPORT void *name(void *addr, size_t len, int prot, int flags, int fd, offset_type offset)  \
    {                                                                                              \
        HX_REAL(name)                                                                              \
        if (!maps_recorded())                                                                      \
            return real(addr, len, prot, flags, fd, offset);                                       \
        struct hx_caller caller = HX_CALLER();                                                     \
        void *p = real(addr, len, prot, flags, fd, offset);                                        \
        record_map_change(p, len, &caller);                                                        \
        return p;                                                                                  \
    }
RECORDED_MMAP(mmap, off_t)
RECORDED_MMAP(mmap64, off64_t)

HX_EXPORT int munmap(void *addr, size_t len)
{
    HX_REAL(munmap)
    if (maps_recorded() && len && !((uint64_t)addr & 4095) &&
        hx_frees(&hx_thread_state, addr, (uint64_t)__builtin_return_address(0)))
        hx_record_free((uint64_t)addr);
    return real(addr, len);
}

HX_EXPORT void *mremap(void *old, size_t old_len, size_t len, int flags, ...)
{
    static void *(*real)(void *, size_t, size_t, int, void *);
    __builtin_va_list args;
    __builtin_va_start(args, flags);
    void *to = flags & MREMAP_FIXED ? __builtin_va_arg(args, void *) : NULL;
    __builtin_va_end(args);
    if (HX_RARELY(!real))
        *(void **)&real = hx_real_next("mremap");
    if (!maps_recorded() || !old_len)
        return real(old, old_len, len, flags, to);
    struct hx_caller caller = HX_CALLER();
    bool recorded = hx_frees(&hx_thread_state, old, caller.pc);
    if (recorded)
        hx_record_realloc_begin((uint64_t)old);
    void *p = real(old, old_len, len, flags, to);
    bool sampled = hx_process.mode == HX_GATE_SAMPLED;
    bool ok = p != MAP_FAILED;
    if (recorded && (!sampled || hx_sample_add((uint64_t)(ok ? p : old))))
        hx_record_realloc((uint64_t)old, ok ? p : NULL, len, false,
                          ok ? (len + 4095) & ~4095ULL : 0, &caller);
    return p;
}

/* --- system calls that the program forbids itself ----------------------------------------- */

void hx_bar_calls(void)
{
    if (hx_process.stage != HX_STAGE_RECORDS || hx_process.barred)
        return;
    hx_region_stock();
    atomic_store(&hx_process.barred, true);
    if (hx_process.unwind)
        hx_unwind_bar_calls(hx_process.unwind);
    if (hx_process.flags & HX_RUN_CHILDREN)
        hx_env_write();
}

/* Strict seccomp and PR_SET_TSC forbid reading the time-stamp counter: no event could be put in its
 * place any more, so that is the end of the recording. What comes is lost, and nobody counts it. */
static bool forbids_clock(int option, uint64_t how)
{
    return (option == PR_SET_SECCOMP && how == SECCOMP_MODE_STRICT) ||
           (option == PR_SET_TSC && how == PR_TSC_SIGSEGV);
}

static void end_recording(void)
{
    if (hx_process.stage != HX_STAGE_RECORDS)
        return;
    atomic_fetch_add(&hx_process.region->no_ring_frees, 1);
    atomic_store(&hx_process.stage, HX_STAGE_OFF);
    atomic_store(&hx_gate.mode, HX_GATE_SHUT);
}

static void hear_prctl(int option, uint64_t how)
{
    if (option == PR_SET_SECCOMP)
        hx_bar_calls();
    if (forbids_clock(option, how))
        end_recording();
}

typedef int prctl_fn(int option, uint64_t a, uint64_t b, uint64_t c, uint64_t d);

HX_EXPORT int hx_prctl(int option, uint64_t a, uint64_t b, uint64_t c, uint64_t d) __asm__("prctl");
HX_EXPORT int hx_prctl(int option, uint64_t a, uint64_t b, uint64_t c, uint64_t d)
{
    static prctl_fn *real;
    if (HX_RARELY(!real))
        *(void **)&real = hx_real_next("prctl");
    if (HX_RARELY(option == PR_SET_SECCOMP || option == PR_SET_TSC))
        hear_prctl(option, a);
    return real(option, a, b, c, d);
}

typedef long syscall_fn(long nr, uint64_t a, uint64_t b, uint64_t c, uint64_t d, uint64_t e,
                        uint64_t f);

/* A tail call: the seventh argument stays where the caller put it. */
HX_EXPORT long hx_syscall(long nr, uint64_t a, uint64_t b, uint64_t c, uint64_t d, uint64_t e,
                          uint64_t f) __asm__("syscall");
HX_EXPORT long hx_syscall(long nr, uint64_t a, uint64_t b, uint64_t c, uint64_t d, uint64_t e,
                          uint64_t f)
{
    static syscall_fn *real;
    if (HX_RARELY(!real))
        *(void **)&real = hx_real_next("syscall");
    if (HX_RARELY(nr == SYS_prctl))
        hear_prctl((int)a, b);
    if (HX_RARELY(nr == SYS_seccomp)) {
        hx_bar_calls();
        if (a == SECCOMP_SET_MODE_STRICT)
            end_recording();
    }
    return real(nr, a, b, c, d, e, f);
}
