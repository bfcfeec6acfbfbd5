/* registers_x86_64.c - registers and interrupted calls on x86-64. */
#include "attach/stop/registers.h"

#include <cpuid.h>
#include <elf.h>
#include <errno.h>
#include <stddef.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/procfs.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <time.h>

#define REGISTER(name) offsetof(struct user_regs_struct, name)

static void take_general(const struct user_regs_struct *regs, struct hx_thread *ret)
{
    const uint64_t general[] = {regs->rax, regs->rbx, regs->rcx, regs->rdx, regs->rsi, regs->rdi,
                                regs->rbp, regs->rsp, regs->r8,  regs->r9,  regs->r10, regs->r11,
                                regs->r12, regs->r13, regs->r14, regs->r15};
    memcpy(ret->regs, general, sizeof general);
    ret->n_regs = sizeof general / sizeof *general;
    ret->sp = regs->rsp;
    ret->pc = regs->rip;
    ret->tp = regs->fs_base;
    ret->in_syscall = (int64_t)regs->orig_rax >= 0;
    ret->has_regs = true;
    ret->n_vector = 0;
}

/* Where an extended state (XSAVE, standard form) has the parts of the vector registers: a number of
 * pieces of equal size, which belong to words `word` and following of registers from `first` on. */
struct vector_part {
    size_t at;
    unsigned component, first, n, word, words; /* component: its bit in the header */
};
enum { XMM_AT = 160, HEADER_AT = 512, HEADER_END = 576, YMM_HIGH = 2, ZMM_HIGH = 6, ZMM_16 = 7 };

static void take_part(const uint8_t *state, size_t bytes, const struct vector_part *part,
                      struct hx_thread *ret)
{
    size_t piece = part->words * sizeof *ret->vector;
    if (!part->at || part->at > bytes || part->n * piece > bytes - part->at)
        return;
    for (unsigned i = 0; i < part->n; i++)
        memcpy(&ret->vector[(part->first + i) * HX_VECTOR_WORDS + part->word],
               state + part->at + i * piece, piece);
}

/* At a system call the vector registers are dead: the ABI lets every call clobber them, and what is
 * left in them would keep freed structures alive. high_at: of ZMM_HIGH and ZMM_16. */
static void take_vector(const uint8_t *state, size_t bytes, const size_t high_at[2],
                        struct hx_thread *ret)
{
    const struct vector_part parts[] = {
        {.at = XMM_AT, .component = 1, .n = 16, .words = 2},
        {.at = HEADER_END, .component = YMM_HIGH, .n = 16, .word = 2, .words = 2},
        {.at = high_at[0], .component = ZMM_HIGH, .n = 16, .word = 4, .words = 4},
        {.at = high_at[1], .component = ZMM_16, .first = 16, .n = 16, .words = 8},
    };
    uint64_t in_use = 0; /* what is not, is 0 */
    if (!ret->n_vector)
        memset(ret->vector, 0, sizeof ret->vector);
    ret->n_vector = sizeof ret->vector / sizeof *ret->vector;
    if (bytes >= HEADER_END)
        memcpy(&in_use, state + HEADER_AT, sizeof in_use);
    take_part(state, bytes, &parts[0], ret);
    for (size_t i = 1; i < sizeof parts / sizeof *parts; i++)
        if (in_use >> parts[i].component & 1)
            take_part(state, bytes, &parts[i], ret);
}

static size_t component_offset(unsigned component)
{
    unsigned size = 0, at = 0, flags, unused;
    return __get_cpuid_count(0xd, component, &size, &at, &flags, &unused) ? at : 0;
}

void hx_arch_learn_layout(struct hx_arch_layout *ret)
{
    ret->high[0] = component_offset(ZMM_HIGH);
    ret->high[1] = component_offset(ZMM_16);
}

static void read_vector(pid_t tid, const struct hx_arch_layout *layout, struct hx_thread *ret)
{
    uint8_t state[HX_ARCH_EXTENDED_BYTES];
    struct user_fpregs_struct old;
    struct iovec all = {.iov_base = state, .iov_len = sizeof state};
    if (ptrace(PTRACE_GETREGSET, tid, (void *)NT_X86_XSTATE, &all) == 0)
        take_vector(state, all.iov_len, layout->high, ret);
    else if (ptrace(PTRACE_GETFPREGS, tid, NULL, &old) == 0)
        take_vector((const uint8_t *)&old, sizeof old, (size_t[]){0, 0}, ret);
}

void hx_arch_core_status(const void *bytes, struct hx_thread *ret, int *ret_signal)
{
    struct elf_prstatus status;
    struct user_regs_struct regs;
    _Static_assert(sizeof status == HX_ARCH_STATUS_BYTES, "as the kernel writes it");
    _Static_assert(sizeof regs == sizeof status.pr_reg, "all of them");
    memcpy(&status, bytes, sizeof status);
    memcpy(&regs, status.pr_reg, sizeof regs);
    take_general(&regs, ret);
    ret->tid = ret->ns_tid = status.pr_pid;
    *ret_signal = status.pr_cursig;
}

/* Intel's layout reserves room for the bound registers (MPX), AMD's has none: the size of the
 * whole state tells which one it is. */
void hx_arch_core_float(const void *state, size_t bytes, struct hx_thread *ret)
{
    enum { HIGH = 896, HIGH_16 = 1408, BOUNDS = 256, WITH_BOUNDS = 2688 };
    _Static_assert(sizeof(struct user_fpregs_struct) == HX_ARCH_FLOAT_BYTES, "what comes first");
    size_t shift = bytes >= WITH_BOUNDS ? BOUNDS : 0;
    if (!ret->in_syscall)
        take_vector(state, bytes, (size_t[]){HIGH + shift, HIGH_16 + shift}, ret);
}

/* Of TCSETSW2 and TCSETSF2, whose structure the C library has not. */
enum { TERMIOS2_SETSW = 0x402c542c, TERMIOS2_SETSF = 0x402c542d };

/* Calls that return EINTR instead of being restarted by the kernel, and that did nothing
 * yet when they do. See signal(7), "Interruption of system calls by stop signals". */
static bool answers_eintr(const struct user_regs_struct *regs)
{
    switch (regs->orig_rax) {
    case SYS_ioctl: /* tcdrain() and tcsetattr(), which wait for a terminal first */
        return (regs->rsi == TCSBRK && regs->rdx) || regs->rsi == TCSETSW || regs->rsi == TCSETSF ||
               regs->rsi == TERMIOS2_SETSW || regs->rsi == TERMIOS2_SETSF;
    case SYS_ppoll: /* with a time limit that cannot be written to */
    case SYS_pselect6:
    case SYS_select:
    case SYS_epoll_wait:
    case SYS_epoll_pwait:
    case SYS_epoll_pwait2:
    case SYS_rt_sigtimedwait:
    case SYS_semop:
    case SYS_semtimedop:
    case SYS_io_getevents:
    case SYS_io_pgetevents:
    case SYS_io_uring_enter:
    case SYS_msgrcv:
    case SYS_msgsnd:
    case SYS_futex:
    case SYS_futex_waitv:
    case SYS_read: /* inotify, and sockets with a time limit */
    case SYS_readv:
    case SYS_write:
    case SYS_writev:
    case SYS_recvfrom:
    case SYS_recvmsg:
    case SYS_recvmmsg:
    case SYS_sendto:
    case SYS_sendmsg:
    case SYS_sendmmsg:
    case SYS_accept:
    case SYS_accept4:
    case SYS_connect:
        return true;
    default:
        return false;
    }
}

/* The kernel's own code, never seen by user space unless we forget it: "restart, unless a
 * handler runs, then EINTR" (include/linux/errno.h). */
enum { RESTART_NO_HANDLER = 514 };

static bool restart_call(pid_t tid, struct user_regs_struct *regs)
{
    if ((int64_t)regs->orig_rax < 0 || (int64_t)regs->rax != -EINTR || !answers_eintr(regs) ||
        ptrace(PTRACE_POKEUSER, tid, REGISTER(rax), (void *)(long)-RESTART_NO_HANDLER) != 0)
        return false;
    regs->rax = (uint64_t)-RESTART_NO_HANDLER;
    return true;
}

/* Calls that move bytes, and how it is said how many. */
enum length { IN_RSI, IN_RDX, IN_R10, VECTOR, HEADER, COMPLETIONS };
static const struct moving_call {
    uint64_t call;
    const char *name;
    enum hx_short_kind kind;
    enum length length;
    size_t flags;          /* offset in user_regs_struct; 0: it has none */
    uint64_t least, never; /* flags that it must have, and must not have */
} moving_calls[] = {
    {.call = SYS_write, .name = "write", .kind = HX_SHORT_MOVED, .length = IN_RDX},
    {.call = SYS_writev, .name = "writev", .kind = HX_SHORT_MOVED, .length = VECTOR},
    {.call = SYS_sendto,
     .name = "send",
     .kind = HX_SHORT_MOVED,
     .length = IN_RDX,
     .flags = REGISTER(r10),
     .never = MSG_DONTWAIT},
    {.call = SYS_sendmsg,
     .name = "sendmsg",
     .kind = HX_SHORT_MOVED,
     .length = HEADER,
     .flags = REGISTER(rdx),
     .never = MSG_DONTWAIT},
    {.call = SYS_sendfile, .name = "sendfile", .kind = HX_SHORT_MOVED, .length = IN_R10},
    {.call = SYS_recvfrom,
     .name = "recv",
     .kind = HX_SHORT_MOVED,
     .length = IN_RDX,
     .flags = REGISTER(r10),
     .least = MSG_WAITALL,
     .never = MSG_DONTWAIT},
    {.call = SYS_recvmsg,
     .name = "recvmsg",
     .kind = HX_SHORT_MOVED,
     .length = HEADER,
     .flags = REGISTER(rdx),
     .least = MSG_WAITALL,
     .never = MSG_DONTWAIT},
    {.call = SYS_read, .name = "read", .kind = HX_SHORT_READ, .length = IN_RDX},
    {.call = SYS_getrandom, .name = "getrandom", .kind = HX_SHORT_RANDOM, .length = IN_RSI},
    {.call = SYS_io_uring_enter,
     .name = "io_uring_enter",
     .kind = HX_SHORT_COMPLETIONS,
     .length = COMPLETIONS,
     .flags = REGISTER(r10),
     .least = 1 /* GETEVENTS */,
     .never = 16 /* REGISTERED_RING */},
};

static const struct moving_call *moving_call(uint64_t call)
{
    for (size_t i = 0; i < sizeof moving_calls / sizeof *moving_calls; i++)
        if (moving_calls[i].call == call)
            return &moving_calls[i];
    return NULL;
}

bool hx_arch_stopped(pid_t tid, const struct hx_arch_layout *layout, struct hx_thread *ret,
                     struct hx_arch_call *ret_call)
{
    struct user_regs_struct regs;
    if (ptrace(PTRACE_GETREGS, tid, NULL, &regs) != 0)
        return false;
    /* First of all, so that even our sudden end leaves no trace in the thread's call. */
    ret_call->restarted = restart_call(tid, &regs);
    ret_call->partial = (int64_t)regs.rax > 0 && moving_call(regs.orig_rax);
    take_general(&regs, ret);
    if (!ret->in_syscall)
        read_vector(tid, layout, ret);
    return true;
}

static bool read_target(pid_t pid, uint64_t addr, void *dst, size_t bytes)
{
    struct iovec local = {dst, bytes}, remote = {(void *)addr, bytes};
    return process_vm_readv(pid, &local, 1, &remote, 1, 0) == (ssize_t)bytes;
}

/* Bytes of an array of struct iovec, 0 when it cannot be read. */
static uint64_t vector_bytes(pid_t pid, uint64_t addr, uint64_t n)
{
    enum { VECTORS_MAX = 1024 };
    uint64_t sum = 0;
    for (uint64_t i = 0; i < n && n <= VECTORS_MAX; i++) {
        struct iovec one;
        if (!read_target(pid, addr + i * sizeof one, &one, sizeof one))
            return 0;
        sum += one.iov_len;
    }
    return sum;
}

static uint64_t requested_length(pid_t pid, enum length length, const struct user_regs_struct *regs)
{
    struct msghdr header;
    switch (length) {
    case IN_RSI:
        return regs->rsi;
    case IN_RDX:
    case COMPLETIONS:
        return regs->rdx;
    case IN_R10:
        return regs->r10;
    case VECTOR:
        return vector_bytes(pid, regs->rsi, regs->rdx);
    case HEADER:
        return read_target(pid, regs->rsi, &header, sizeof header)
                   ? vector_bytes(pid, (uint64_t)header.msg_iov, header.msg_iovlen)
                   : 0;
    }
    return 0;
}

bool hx_arch_short_result(pid_t pid, pid_t tid, struct hx_short_result *ret)
{
    struct user_regs_struct regs;
    const struct moving_call *call;
    if (ptrace(PTRACE_GETREGS, tid, NULL, &regs) != 0 || (int64_t)regs.rax <= 0 ||
        !(call = moving_call(regs.orig_rax)))
        return false;
    uint64_t flags = call->flags ? *(uint64_t *)((char *)&regs + call->flags) : 0;
    *ret = (struct hx_short_result){call->kind, call->name, (int)regs.rdi, regs.rax,
                                    requested_length(pid, call->length, &regs)};
    /* what io_uring_enter answers is how many it submitted */
    bool is_short = call->length == COMPLETIONS ? ret->requested : ret->done < ret->requested;
    return is_short && (flags & call->least) == call->least && !(flags & call->never);
}

/* The kernel's "restart, unless a handler runs that wants EINTR". */
enum { RESTART = 512 };

void hx_arch_begin_again(pid_t tid)
{
    ptrace(PTRACE_POKEUSER, tid, REGISTER(rax), (void *)(long)-RESTART);
}

/* Which register holds the relative time limit, and in which form. */
static const struct timed_call {
    uint64_t call;
    size_t limit; /* offset in user_regs_struct */
    bool in_ms;   /* an int of milliseconds, -1: none; else the address of a timespec */
} timed_calls[] = {
    {.call = SYS_epoll_wait, .limit = REGISTER(r10), .in_ms = true},
    {.call = SYS_epoll_pwait, .limit = REGISTER(r10), .in_ms = true},
    {.call = SYS_epoll_pwait2, .limit = REGISTER(r10)},
    {.call = SYS_rt_sigtimedwait, .limit = REGISTER(rdx)},
    {.call = SYS_semtimedop, .limit = REGISTER(r10)},
    {.call = SYS_io_getevents, .limit = REGISTER(r8)},
    {.call = SYS_io_pgetevents, .limit = REGISTER(r8)},
};

static const struct timed_call *timed_call(uint64_t call)
{
    for (size_t i = 0; i < sizeof timed_calls / sizeof *timed_calls; i++)
        if (timed_calls[i].call == call)
            return &timed_calls[i];
    return NULL;
}

bool hx_arch_is_timed_call(uint64_t call)
{
    return timed_call(call) != NULL;
}

/* A timespec of at most 292 years, or none. */
static bool peek_timespec(pid_t tid, uint64_t addr, uint64_t *ret_ns)
{
    errno = 0;
    long seconds = ptrace(PTRACE_PEEKDATA, tid, (void *)addr, NULL);
    long ns = errno ? 0 : ptrace(PTRACE_PEEKDATA, tid, (void *)(addr + 8), NULL);
    if (errno || seconds < 0 || seconds > INT64_MAX / 1000000000 - 1 || ns < 0 || ns >= 1000000000)
        return false;
    *ret_ns = (uint64_t)seconds * 1000000000u + (uint64_t)ns;
    return true;
}

void hx_arch_shorten_call(pid_t tid, uint64_t ns)
{
    struct user_regs_struct regs;
    if (ptrace(PTRACE_GETREGS, tid, NULL, &regs) != 0 || (int64_t)regs.rax != -RESTART_NO_HANDLER)
        return;
    const struct timed_call *timed = timed_call(regs.orig_rax);
    if (!timed)
        return;
    uint64_t *limit = (uint64_t *)((char *)&regs + timed->limit), left;
    if (timed->in_ms) {
        int ms = (int)*limit;
        uint64_t gone = ns / 1000000; /* rounded down: never early */
        if (ms <= 0)
            return;
        *limit = (uint64_t)ms > gone ? (uint64_t)ms - gone : 0;
    } else {
        if (!*limit || !peek_timespec(tid, *limit, &left))
            return;
        left = left > ns ? left - ns : 0;
        *limit = (regs.rsp - HX_RED_ZONE - 2 * sizeof(struct timespec)) & ~(uint64_t)15;
        if (ptrace(PTRACE_POKEDATA, tid, (void *)*limit, (void *)(left / 1000000000)) != 0 ||
            ptrace(PTRACE_POKEDATA, tid, (void *)(*limit + 8), (void *)(left % 1000000000)) != 0)
            return;
    }
    ptrace(PTRACE_SETREGS, tid, NULL, &regs);
}
