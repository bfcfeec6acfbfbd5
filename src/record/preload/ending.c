/* ending.c - the last snapshot: the program waits for it, bounded, before it ends.
 *
 * By exit(): the first function that was registered, so the last to run, behind all destructors. By
 * _exit(): its wrapper. By a signal: a handler where the default would end the program. None of
 * these handlers is visible to the program, and after the snapshot it ends as it would have.
 */
#include "record/preload/wrapper.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

/* A large heap takes its time, and others may be in front; but a heapx that is not at work is not
 * waited for. */
#define SNAPSHOT_TIMEOUT_NS 600000000000ULL
#define SILENCE_NS          1000000000ULL

static _Atomic bool requested;

/* Not a child between vfork and exec, which has the same memory. Cannot be known where system calls
 * are forbidden. */
static bool is_own_process(void)
{
    return atomic_load(&hx_process.barred) || (int)HX_SYS(SYS_getpid, 0, 0, 0, 0) == hx_process.pid;
}

void hx_ending_snapshot(int signal)
{
    struct hx_region *region = hx_process.region;
    if (hx_mode() == HX_GATE_SHUT || !(hx_process.flags & HX_RUN_AT_EXIT) || !is_own_process() ||
        atomic_exchange(&requested, true))
        return;
    region->exit_tid = atomic_load(&hx_process.barred) ? (int32_t)hx_thread_state.tid
                                                       : (int32_t)HX_SYS(SYS_gettid, 0, 0, 0, 0);
    region->exit_signal = signal;
    hx_record_word(HX_EV_EXIT, (uint64_t)signal);
    atomic_store(&region->exit_requested, 1);
    hx_wake_reader();
    hx_wait_for(&region->exit_done, 1, SNAPSHOT_TIMEOUT_NS, SILENCE_NS);
}

/* --- by its own will ------------------------------------------------------------------------ */

extern int __cxa_atexit(void (*function)(void *), void *context, void *object);
extern int __cxa_at_quick_exit(void (*function)(void *), void *object);

static void at_exit(void *context)
{
    (void)context;
    hx_ending_snapshot(0);
}

#define LEAVE(name)                                                                                \
    HX_EXPORT void name(int status)                                                                \
    {                                                                                              \
        static void (*real)(int);                                                                  \
        if (!real)                                                                                 \
            *(void **)&real = hx_real_next(#name);                                                 \
        hx_ending_snapshot(0);                                                                     \
        real(status);                                                                              \
        __builtin_unreachable();                                                                   \
    }
LEAVE(_exit)
LEAVE(_Exit)

/* --- by a signal -------------------------------------------------------------------------- */

/* Those whose default ends a process. */
static const uint8_t fatal[] = {SIGHUP,  SIGINT,  SIGQUIT, SIGILL,    SIGTRAP, SIGABRT, SIGBUS,
                                SIGFPE,  SIGUSR1, SIGSEGV, SIGUSR2,   SIGPIPE, SIGALRM, SIGTERM,
                                SIGXCPU, SIGXFSZ, SIGSYS,  SIGVTALRM, SIGPROF, SIGIO,   SIGPWR};

static __typeof__(&sigaction) real_sigaction;

static bool is_fatal(int signal)
{
    for (size_t i = 0; i < sizeof fatal; i++)
        if (fatal[i] == signal)
            return true;
    return false;
}

static void by_signal(int signal, siginfo_t *info, void *context)
{
    (void)context;
    int saved = errno;
    struct sigaction action = {.sa_handler = SIG_DFL};
    hx_ending_snapshot(signal);
    real_sigaction(signal, &action, NULL);
    /* A fault comes again by itself, at the same instruction. Anything else is sent once more, and
     * arrives when this handler returns. */
    bool again = info->si_code > 0 &&
                 (signal == SIGSEGV || signal == SIGBUS || signal == SIGFPE || signal == SIGILL);
    if (!again) {
        long tid = HX_SYS(SYS_gettid, 0, 0, 0, 0), pid = HX_SYS(SYS_getpid, 0, 0, 0, 0);
        if (HX_SYS(SYS_rt_tgsigqueueinfo, pid, tid, signal, info) != 0)
            HX_SYS(SYS_tgkill, pid, tid, signal, 0);
    }
    errno = saved;
}

static struct sigaction own_action(void)
{
    struct sigaction action = {.sa_sigaction = by_signal, .sa_flags = SA_SIGINFO | SA_ONSTACK};
    sigfillset(&action.sa_mask);
    sigdelset(&action.sa_mask, SIGSEGV); /* ours, too, would be a fault */
    return action;
}

static __typeof__(&sigaltstack) real_sigaltstack;
static void *own_stack;

/* Something else than the stack of the thread, which may be what ran out. */
static void use_alternate_stack(void)
{
    stack_t have;
    enum { BYTES = 128 << 10 };
    *(void **)&real_sigaltstack = hx_real_next("sigaltstack");
    if (!real_sigaltstack || real_sigaltstack(NULL, &have) != 0 || !(have.ss_flags & SS_DISABLE))
        return;
    long p = hx_sys6(SYS_mmap, 0, BYTES, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p < 0 && p > -4096)
        return;
    stack_t stack = {.ss_sp = (void *)p, .ss_size = BYTES};
    if (real_sigaltstack(&stack, NULL) == 0)
        own_stack = stack.ss_sp;
}

void hx_ending_start(void)
{
    __cxa_atexit(at_exit, NULL, NULL);
    __cxa_at_quick_exit(at_exit, NULL);
    *(void **)&real_sigaction = hx_real_next("sigaction");
    if (!real_sigaction)
        return;
    use_alternate_stack();
    for (size_t i = 0; i < sizeof fatal; i++) {
        struct sigaction have, own = own_action();
        if (real_sigaction(fatal[i], NULL, &have) == 0 && !(have.sa_flags & SA_SIGINFO) &&
            have.sa_handler == SIG_DFL)
            real_sigaction(fatal[i], &own, NULL);
    }
}

/* --- what the program sees of it ------------------------------------------------------------ */

static bool is_own_handler(const struct sigaction *action)
{
    return action->sa_flags & SA_SIGINFO && action->sa_sigaction == by_signal;
}

HX_EXPORT int sigaction(int signal, const struct sigaction *restrict action,
                        struct sigaction *restrict old)
{
    static __typeof__(&sigaction) real;
    struct sigaction own, before;
    if (!real)
        *(void **)&real = hx_real_next("sigaction");
    if (!real_sigaction || !is_fatal(signal))
        return real(signal, action, old);
    bool defaults = action && !(action->sa_flags & SA_SIGINFO) && action->sa_handler == SIG_DFL;
    if (defaults && hx_mode() != HX_GATE_SHUT) {
        own = own_action();
        action = &own;
    }
    int ret = real(signal, action, &before);
    if (ret == 0 && is_own_handler(&before))
        before = (struct sigaction){.sa_handler = SIG_DFL};
    if (ret == 0 && old)
        *old = before;
    return ret;
}

HX_EXPORT int sigaltstack(const stack_t *restrict stack, stack_t *restrict old)
{
    static __typeof__(&sigaltstack) real;
    if (!real)
        *(void **)&real = hx_real_next("sigaltstack");
    int ret = real(stack, old);
    if (ret == 0 && old && own_stack && old->ss_sp == own_stack)
        *old = (stack_t){.ss_flags = SS_DISABLE};
    return ret;
}

typedef void (*handler)(int);

/* The older ways to say the same; each has its own flags, so the real one is asked. */
static handler set_handler(handler (*real)(int, handler), int signal, handler to)
{
    handler before = real(signal, to);
    if (!real_sigaction || before == SIG_ERR || !is_fatal(signal))
        return before;
    if (to == SIG_DFL && hx_mode() != HX_GATE_SHUT) {
        struct sigaction own = own_action();
        real_sigaction(signal, &own, NULL);
    }
    return (void *)before == (void *)by_signal ? SIG_DFL : before;
}

#define SET_HANDLER(name)                                                                          \
    handler name(int signal, handler to);                                                          \
    HX_EXPORT handler name(int signal, handler to)                                                 \
    {                                                                                              \
        static handler (*real)(int, handler);                                                      \
        if (!real)                                                                                 \
            *(void **)&real = hx_real_next(#name);                                                 \
        return set_handler(real, signal, to);                                                      \
    }
SET_HANDLER(signal)
SET_HANDLER(bsd_signal)
SET_HANDLER(ssignal)
SET_HANDLER(sysv_signal)
SET_HANDLER(__sysv_signal)
SET_HANDLER(sigset)
