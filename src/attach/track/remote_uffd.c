/* remote_uffd.c - leads a stopped thread through userfaultfd() and close(). x86-64. */
#include "attach/track/remote_uffd.h"

#include "attach/stop/pagemap.h"
#include "attach/stop/registers.h"
#include "base/cleanup.h"
#include "base/proc.h"
#include "base/progress.h"

#include <cpuid.h>
#include <dirent.h>
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/kcmp.h>
#include <linux/userfaultfd.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

/* Newer than Debian 12's headers, or not in them. */
#ifndef UFFD_USER_MODE_ONLY
#define UFFD_USER_MODE_ONLY 1
#endif
#define GET_RSEQ          0x420f /* PTRACE_GET_RSEQ_CONFIGURATION, since Linux 5.13 */
#define GET_USER_DISPATCH 0x4211 /* PTRACE_GET_SYSCALL_USER_DISPATCH_CONFIG, since Linux 6.4 */
struct rseq_configuration {
    uint64_t pointer;
    uint32_t size, signature, flags, unused;
};

enum {
    THREADS_LOOKED_AT = 256,
    CODE_MAX = 64 << 20,        /* bytes of code that are searched for instructions */
    STACK_ROOM = 16 << 10,      /* what a stack must have below the stack pointer */
    STATE_MAX = 4096,           /* extended state without the tiles of AMX */
    EXTENDED_SIZE = 0x46505853, /* what marks an extended state in a signal's frame: in front */
    EXTENDED_END = 0x46505845,  /* ... and behind */
    SOFTWARE_AT = 464,
    HEADER_AT = 512,
    RESTART = 512,
    RESTART_NOHAND = 514,
    RESTART_BLOCK = 516, /* ERESTARTSYS and its like */
    STOPS_MAX = 100,     /* SIGSTOP and SIGCONT on the way */
    LEAD_NS = 500000000, /* how long one call may take */
    SPIN_NS = 20000,     /* as long as it takes where a processor is free */
};

/* --- what is laid by ------------------------------------------------------------------- */

/* The frames, as they lie in memory. A stack pointer at `pop` finds the next two words as
 * arguments: rt_sigreturn's number for rax, and the call; then the frame itself. */
struct back {
    uint64_t pop, number, call;
    ucontext_t to;
};
struct frames {
    struct back close, home;
    /* the extended state follows, at a multiple of 64 */
};
/* What the kernel reads of a frame ends with the mask of signals, of 8 bytes. */
_Static_assert(offsetof(ucontext_t, uc_sigmask) == 296, "as the kernel has it");

/* How a thread stands, and the way back. */
struct hx_uffd_led {
    struct hx_tracee *tracee;
    struct user_regs_struct regs;
    uint64_t signals;                                       /* its mask */
    uint8_t all[16384];                                     /* its extended state as it is */
    uint8_t state[STATE_MAX];                               /* ... as a frame has it */
    size_t state_bytes;                                     /* with the mark behind it */
    uint64_t base;                                          /* of the frames in its stack */
    uint8_t frames[sizeof(struct frames) + 64 + STATE_MAX]; /* what is written there */
    uint8_t before[sizeof(struct frames) + 64 + STATE_MAX]; /* what was there */
};
#define LED struct hx_uffd_led

/* --- before the stop -------------------------------------------------------------------- */

static bool refuse(char why[HX_UFFD_WHY], const char *text)
{
    snprintf(why, HX_UFFD_WHY, "%s", text);
    return false;
}

/* A process apart that has the same table of files would take numbers while ours stands still. */
static bool shares_files(pid_t pid)
{
    HX_DIR DIR *dir = opendir("/proc");
    struct dirent *entry;
    while (dir && (entry = readdir(dir))) {
        pid_t other = atoi(entry->d_name);
        if (other > 0 && other != pid && syscall(SYS_kcmp, pid, other, KCMP_FILES, 0, 0) == 0)
            return true;
    }
    return false;
}

static bool is_filtered(const char *status)
{
    const char *mode = hx_proc_field(status, "Seccomp");
    return mode && mode[strspn(mode, " \t")] != '0';
}

/* In a version 2 cgroup: a thread there does not set out, however it is asked to. */
static bool is_frozen(pid_t pid)
{
    HX_FREE char *cgroup = hx_proc_text("/proc/%d/cgroup", pid);
    const char *path = cgroup ? strstr(cgroup, "0::") : NULL;
    if (!path)
        return false;
    path += strlen("0::");
    const int n = (int)strcspn(path, "\n");
    HX_FREE char *events = hx_proc_text("/sys/fs/cgroup%.*s/cgroup.events", n, path);
    if (!events) /* beside those of version 1 */
        events = hx_proc_text("/sys/fs/cgroup/unified%.*s/cgroup.events", n, path);
    return events && strstr(events, "frozen 1");
}

/* The threads that have its table of files; false: one is under a filter, or has a shadow stack. */
static bool look_at_threads(struct hx_uffd_way *way, char why[HX_UFFD_WHY])
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/task", way->pid);
    HX_DIR DIR *dir = opendir(path);
    struct dirent *entry;
    for (int n = 0; dir && n < THREADS_LOOKED_AT && (entry = readdir(dir));) {
        pid_t tid = atoi(entry->d_name);
        HX_FREE char *status =
            tid > 0 ? hx_proc_text("/proc/%d/task/%d/status", way->pid, tid) : NULL;
        if (!status)
            continue;
        n++;
        const char *features = hx_proc_field(status, "x86_Thread_features");
        if (is_filtered(status))
            return refuse(why, "it is under a seccomp filter");
        if (features && strstr(features, "shstk"))
            return refuse(why, "it has shadow stacks");
        /* (no kcmp: only the first one is known to have it) */
        bool same = tid == way->pid || syscall(SYS_kcmp, way->pid, tid, KCMP_FILES, 0, 0) == 0;
        if (same && !hx_vec_push(&way->tid, tid))
            return refuse(why, "there is no memory");
    }
    return way->tid.n || refuse(why, "its threads cannot be seen");
}

/* Code that is searched for both instructions, which may lie anywhere, also within others. */
struct search {
    struct hx_uffd_way *way;
    uint64_t left; /* bytes that may be looked at yet */
    struct hx_lock_use lock;
    uint8_t bytes[1 << 16];
};

/* Only pages that are there: looking must not bring any in. */
static bool search_code(void *context, uint64_t start, uint64_t end, bool swapped)
{
    struct search *search = context;
    struct hx_uffd_way *way = search->way;
    const uint8_t *bytes = search->bytes;
    for (uint64_t at = start; at < end && !swapped && search->left;) {
        size_t len = end - at < sizeof search->bytes ? end - at : sizeof search->bytes;
        struct iovec local = {search->bytes, len}, remote = {(void *)(uintptr_t)at, len};
        ssize_t got = hx_lock_readv(&search->lock, way->pid, &local, 1, &remote, 1);
        for (ssize_t i = 0; i + 3 <= got; i++) {
            if (!way->call && bytes[i] == 0x0f && bytes[i + 1] == 0x05 && bytes[i + 2] == 0xc3)
                way->call = at + (uint64_t)i;
            if (!way->pop && bytes[i] == 0x58 && bytes[i + 1] == 0xc3)
                way->pop = at + (uint64_t)i;
        }
        search->left -= len < search->left ? len : search->left;
        at += len;
    }
    return !(way->call && way->pop);
}

static bool find_instructions(struct hx_uffd_way *way)
{
    HX_FD int pagemap = hx_pagemap_open(way->pid);
    HX_FREE struct search *search = calloc(1, sizeof *search);
    if (!search || pagemap < 0)
        return false;
    search->way = way;
    search->left = CODE_MAX;
    for (size_t i = 0; i < way->n_mappings && !(way->call && way->pop); i++) {
        const struct hx_mapping *mapping = &way->mapping[i];
        if (mapping->prot & HX_PROT_X && !(mapping->prot & HX_PROT_W) &&
            strncmp(mapping->path, "[v", 2) != 0)
            hx_pagemap_runs(pagemap, mapping->start, mapping->end, false, &search->lock,
                            search_code, search);
    }
    return way->call && way->pop;
}

bool hx_uffd_prepare(pid_t pid, const struct hx_mapping *mapping, size_t n, struct hx_uffd_way *ret,
                     char why[HX_UFFD_WHY])
{
    *ret = (struct hx_uffd_way){.pid = pid, .pidfd = -1, .mapping = mapping, .n_mappings = n};
    if (!look_at_threads(ret, why))
        return false;
    if (shares_files(pid))
        return refuse(why, "another process has the same table of files");
    if (is_frozen(pid))
        return refuse(why, "it is frozen by its cgroup");
    ret->pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
    if (ret->pidfd < 0)
        return refuse(why, errno == ENOSYS ? "the kernel has no pidfd_open"
                                           : "its first thread has ended");
    ret->led = calloc(1, sizeof *ret->led);
    if (!ret->led)
        return refuse(why, "there is no memory");
    return find_instructions(ret) || refuse(why, "of its code in memory none has `syscall; ret`");
}

void hx_uffd_deinit(struct hx_uffd_way *way)
{
    if (way->pidfd >= 0)
        close(way->pidfd);
    hx_vec_free(&way->tid);
    free(way->led);
}

/* --- the thread ------------------------------------------------------------------------- */

/* Is it the stack of a thread, with room below? That of the first one, or one with a guard below
 * and the thread's own data at its upper end: coroutines have stacks in memory that may be
 * anybody's below. */
static bool has_stack(const struct hx_uffd_way *way, const struct user_regs_struct *regs)
{
    size_t i = hx_mapping_find(way->mapping, way->n_mappings, regs->rsp);
    if (i == way->n_mappings || regs->rsp - way->mapping[i].start < STACK_ROOM)
        return false;
    const struct hx_mapping *stack = &way->mapping[i], *below = i ? stack - 1 : NULL;
    if (!(stack->prot & HX_PROT_W) || stack->prot & HX_PROT_SHARED)
        return false;
    if (strcmp(stack->path, "[stack]") == 0)
        return true;
    return below && below->end == stack->start && !(below->prot & (HX_PROT_R | HX_PROT_W)) &&
           !below->inode && regs->fs_base > regs->rsp && regs->fs_base < stack->end;
}

/* 0: it must not be led. Else the more the better: a call that is begun again as it was, then code
 * outside any restartable sequence, then a call whose time would begin anew if the agent died. */
static int rate_thread(const struct hx_uffd_way *way, const struct hx_tracee *tracee,
                       struct user_regs_struct *regs)
{
    pid_t tid = tracee->thread.tid;
    if (tracee->state != HX_TRACEE_STOPPED || tracee->deliver || tracee->group_stop ||
        ptrace(PTRACE_GETREGS, tid, NULL, regs) != 0 || regs->cs != 0x33 || !has_stack(way, regs))
        return 0;
    struct rseq_configuration rseq = {0};
    uint64_t sequence = 0;
    if (ptrace(GET_RSEQ, tid, (void *)sizeof rseq, &rseq) == sizeof rseq && rseq.pointer) {
        struct iovec local = {&sequence, sizeof sequence};
        struct iovec remote = {(void *)(uintptr_t)(rseq.pointer + 8), sizeof sequence};
        if (process_vm_readv(way->pid, &local, 1, &remote, 1, 0) != sizeof sequence || sequence)
            return 0;
    }
    struct {
        uint64_t mode, selector, offset, len;
    } dispatch = {0};
    if (ptrace(GET_USER_DISPATCH, tid, (void *)sizeof dispatch, &dispatch) == 0 && dispatch.mode)
        return 0;
    if ((int64_t)regs->orig_rax < 0)
        return 2;
    int64_t answer = (int64_t)regs->rax;
    if (answer == -RESTART_BLOCK)
        return 1;
    return answer <= -RESTART && answer >= -RESTART_NOHAND ? 3 : 2;
}

/* The size of the extended state that a signal's frame holds of a thread without tiles, and which
 * parts: 0 when the processor does not tell. */
static size_t frame_state_bytes(uint64_t parts)
{
    size_t end = HEADER_AT + 64;
    for (unsigned i = 2; i < 63; i++) {
        unsigned size = 0, at = 0, flags, unused;
        if (!(parts >> i & 1))
            continue;
        if (!__get_cpuid_count(0xd, i, &size, &at, &flags, &unused) || flags & 1)
            return 0;
        end = at + size > end ? at + size : end;
    }
    return end;
}

/* The vector state as rt_sigreturn wants it. */
static bool take_state(LED *led)
{
    static uint64_t const tiles = (uint64_t)3 << 17;
    uint8_t *all = led->all;
    struct iovec whole = {all, sizeof led->all};
    uint64_t parts, in_use;
    if (ptrace(PTRACE_GETREGSET, led->tracee->thread.tid, (void *)NT_X86_XSTATE, &whole) != 0 ||
        whole.iov_len < HEADER_AT + 64 || whole.iov_len == sizeof led->all)
        return false;
    memcpy(&parts, all + SOFTWARE_AT, sizeof parts);
    memcpy(&in_use, all + HEADER_AT, sizeof in_use);
    parts &= ~tiles;
    size_t bytes = frame_state_bytes(parts);
    if (in_use & tiles || bytes < HEADER_AT + 64 || bytes > whole.iov_len ||
        bytes + sizeof(uint32_t) > sizeof led->state)
        return false;
    const struct {
        uint32_t mark, extended_bytes;
        uint64_t parts;
        uint32_t state_bytes, unused[7];
    } software = {EXTENDED_SIZE, (uint32_t)(bytes + 4), parts, (uint32_t)bytes, {0}};
    _Static_assert(sizeof software == HEADER_AT - SOFTWARE_AT, "as the kernel has it");
    memcpy(led->state, all, bytes);
    memcpy(led->state + SOFTWARE_AT, &software, sizeof software);
    memcpy(led->state + bytes, &(uint32_t){EXTENDED_END}, sizeof(uint32_t));
    led->state_bytes = bytes + sizeof(uint32_t);
    return true;
}

/* A frame that goes on with these registers. The alternate stack of signals stays what it is: the
 * kernel refuses these flags, and goes on. */
static void fill_frame(const struct hx_uffd_way *way, const struct user_regs_struct *regs,
                       uint64_t signals, uint64_t state, struct back *ret)
{
    enum { ALL_STATE_AND_SEGMENTS = 7, NO_SUCH_FLAGS = 5 };
    greg_t *to = ret->to.uc_mcontext.gregs;
    memset(ret, 0, sizeof *ret);
    ret->pop = way->pop;
    ret->number = SYS_rt_sigreturn;
    ret->call = way->call;
    ret->to.uc_flags = ALL_STATE_AND_SEGMENTS;
    ret->to.uc_stack.ss_flags = NO_SUCH_FLAGS;
    const struct {
        int at;
        uint64_t value;
    } general[] = {
        {REG_R8, regs->r8},
        {REG_R9, regs->r9},
        {REG_R10, regs->r10},
        {REG_R11, regs->r11},
        {REG_R12, regs->r12},
        {REG_R13, regs->r13},
        {REG_R14, regs->r14},
        {REG_R15, regs->r15},
        {REG_RDI, regs->rdi},
        {REG_RSI, regs->rsi},
        {REG_RBP, regs->rbp},
        {REG_RBX, regs->rbx},
        {REG_RDX, regs->rdx},
        {REG_RAX, regs->rax},
        {REG_RCX, regs->rcx},
        {REG_RSP, regs->rsp},
        {REG_RIP, regs->rip},
        {REG_EFL, regs->eflags},
        {REG_CSGSFS, regs->cs | regs->ss << 48},
    };
    for (size_t i = 0; i < sizeof general / sizeof *general; i++)
        to[general[i].at] = (greg_t)general[i].value;
    memcpy(&ret->to.uc_mcontext.fpregs, &state, sizeof state);
    memcpy(&ret->to.uc_sigmask, &signals, sizeof signals);
}

/* Where the thread goes on when nobody is there: its call begins again, as the kernel would. */
static struct user_regs_struct registers_at_home(const LED *led)
{
    struct user_regs_struct home = led->regs;
    int64_t answer = (int64_t)home.rax;
    bool again = (int64_t)home.orig_rax >= 0 &&
                 ((answer <= -RESTART && answer >= -RESTART_NOHAND) || answer == -RESTART_BLOCK);
    if (again) {
        home.rip -= 2;
        home.rax = home.orig_rax;
    }
    return home;
}

static uint64_t state_at(const LED *led)
{
    return (led->base + sizeof(struct frames) + 63) / 64 * 64;
}

static bool save_bytes(LED *led, pid_t pid)
{
    struct iovec local = {led->before, sizeof led->before};
    struct iovec remote = {(void *)(uintptr_t)led->base, sizeof led->before};
    return process_vm_readv(pid, &local, 1, &remote, 1, 0) == (ssize_t)sizeof led->before;
}

static bool write_bytes(LED *led, pid_t pid, uint8_t bytes[sizeof led->before])
{
    struct iovec local = {bytes, sizeof led->before};
    struct iovec remote = {(void *)(uintptr_t)led->base, sizeof led->before};
    return process_vm_writev(pid, &local, 1, &remote, 1, 0) == (ssize_t)sizeof led->before;
}

/* Lays the way back below the red zone. */
static bool lay_frames(const struct hx_uffd_way *way, LED *led, int number)
{
    struct frames frames;
    struct user_regs_struct closing = led->regs, home = registers_at_home(led);
    closing.rip = way->call;
    closing.rax = SYS_close;
    closing.rdi = (uint64_t)number;
    closing.rsp = led->base + offsetof(struct frames, home);
    fill_frame(way, &closing, ~(uint64_t)0, state_at(led), &frames.close);
    fill_frame(way, &home, led->signals, state_at(led), &frames.home);
    memcpy(led->frames, led->before, sizeof led->frames);
    memcpy(led->frames, &frames, sizeof frames);
    memcpy(led->frames + (state_at(led) - led->base), led->state, led->state_bytes);
    return write_bytes(led, way->pid, led->frames);
}

/* --- leading ------------------------------------------------------------------------------ */

/* Waits for a stop of the thread, which stays to be collected; returns its status, 0: none came.
 * Soon no longer awake: where others have all other processors it needs this one. */
static int await_stop(pid_t tid)
{
    const uint64_t since = hx_now_ns();
    for (uint64_t now = since; now < since + LEAD_NS; now = hx_now_ns()) {
        siginfo_t info = {.si_pid = 0};
        if (waitid(P_PID, (id_t)tid, &info, WEXITED | WSTOPPED | __WALL | WNOHANG | WNOWAIT) != 0)
            return 0;
        if (info.si_pid)
            return info.si_code == CLD_TRAPPED || info.si_code == CLD_STOPPED ? info.si_status : 0;
        if (now > since + SPIN_NS)
            hx_await_sigchld();
    }
    return 0;
}

/* Has the thread go on to its next stop. SIGSTOP, which no mask holds back, goes its way; the
 * thread does not stand still for it before it is home, because on its own it would go the rest of
 * its way later, beside others. */
static int go_on(pid_t tid, enum __ptrace_request how)
{
    int status = 0;
    for (int i = 0; i < STOPS_MAX; i++) {
        if (ptrace(how, tid, NULL, (void *)(uintptr_t)(status == SIGSTOP ? SIGSTOP : 0)) != 0)
            return 0;
        status = await_stop(tid);
        if (status != SIGSTOP && (how != PTRACE_SYSCALL || status >> 8 != PTRACE_EVENT_STOP))
            return status;
    }
    return 0;
}

/* Has the thread make one call, from the instruction that its registers lead to, and stops it
 * behind it. False: something else happened. */
static bool make_call(pid_t tid, struct user_regs_struct *regs, uint64_t number)
{
    for (int half = 0; half < 2; half++)
        if (go_on(tid, PTRACE_SYSCALL) != (SIGTRAP | 0x80))
            return false;
    return ptrace(PTRACE_GETREGS, tid, NULL, regs) == 0 && regs->orig_rax == number;
}

/* In a stop that is no call's: the kernel begins the thread's call again from there. */
static bool settle_at_home(const LED *led)
{
    pid_t tid = led->tracee->thread.tid;
    /* the mask first: the frames put it back, the registers do not */
    return ptrace(PTRACE_SETSIGMASK, tid, (void *)sizeof led->signals, &led->signals) == 0 &&
           ptrace(PTRACE_SETREGS, tid, NULL, &led->regs) == 0 &&
           ptrace(PTRACE_SETOPTIONS, tid, NULL, NULL) == 0;
}

static bool bring_home(const LED *led)
{
    pid_t tid = led->tracee->thread.tid;
    return ptrace(PTRACE_INTERRUPT, tid, NULL, NULL) == 0 &&
           ptrace(PTRACE_CONT, tid, NULL, NULL) == 0 && await_stop(tid) >> 8 == PTRACE_EVENT_STOP &&
           settle_at_home(led);
}

/* One that never set out (its cgroup has been frozen) stands where it stood, and need not. */
static bool take_back(const struct hx_uffd_way *way, const LED *led)
{
    pid_t tid = led->tracee->thread.tid;
    struct user_regs_struct regs;
    return ptrace(PTRACE_INTERRUPT, tid, NULL, NULL) == 0 &&
           await_stop(tid) >> 8 == PTRACE_EVENT_STOP &&
           ptrace(PTRACE_GETREGS, tid, NULL, &regs) == 0 && regs.rip == way->call &&
           (int64_t)regs.orig_rax < 0 && regs.rax == SYS_userfaultfd && settle_at_home(led);
}

/* The lowest number that no file has, which the next one gets; -1: it cannot be seen. The kernel
 * lists them in order, many times as fast as it answers for each. */
static int lowest_free(pid_t pid)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/fd", pid);
    HX_DIR DIR *dir = opendir(path);
    int number = 0;
    for (const struct dirent *entry; dir && (entry = readdir(dir));) {
        if (entry->d_name[0] == '.')
            continue;
        if (atoi(entry->d_name) != number)
            break;
        number++;
    }
    return dir ? number : -1;
}

/* Leads the thread through both calls. Whatever fails on the way, the frames bring it home. */
static bool lead(const struct hx_uffd_way *way, LED *led, int *ret, char why[HX_UFFD_WHY])
{
    const uint64_t none = ~(uint64_t)0;
    pid_t tid = led->tracee->thread.tid;
    struct user_regs_struct regs = led->regs;
    regs.rip = way->call;
    regs.rax = SYS_userfaultfd;
    regs.rdi = O_CLOEXEC | O_NONBLOCK | UFFD_USER_MODE_ONLY;
    regs.rsp = led->base + offsetof(struct frames, close);
    regs.orig_rax = (uint64_t)-1;
    if (ptrace(PTRACE_SETOPTIONS, tid, NULL, (void *)PTRACE_O_TRACESYSGOOD) != 0)
        return refuse(why, "a thread could not be led");
    /* from here on it must go all the way: the mask last, which the frames put back */
    led->tracee->state = HX_TRACEE_SEIZED;
    if (ptrace(PTRACE_SETREGS, tid, NULL, &regs) != 0 ||
        ptrace(PTRACE_SETSIGMASK, tid, (void *)sizeof none, &none) != 0 ||
        !make_call(tid, &regs, SYS_userfaultfd)) {
        if (!take_back(way, led))
            return refuse(why, "a thread did not come back from userfaultfd");
        led->tracee->state = HX_TRACEE_STOPPED;
        return refuse(why, "a thread did not set out for userfaultfd");
    }
    int64_t made = (int64_t)regs.rax;
    *ret = made < 0 ? -1 : (int)syscall(SYS_pidfd_getfd, way->pidfd, (int)made, 0);
    if (made < 0)
        snprintf(why, HX_UFFD_WHY, "userfaultfd: %s", strerror((int)-made));
    else if (*ret < 0)
        snprintf(why, HX_UFFD_WHY, "pidfd_getfd: %s", strerror(errno));
    regs.rip = way->call;
    regs.rax = SYS_close;
    regs.orig_rax = (uint64_t)-1;
    regs.rdi = (uint64_t)made;
    regs.rsp = led->base + offsetof(struct frames, home);
    if (made >= 0 &&
        (ptrace(PTRACE_SETREGS, tid, NULL, &regs) != 0 || !make_call(tid, &regs, SYS_close)))
        return refuse(why, "a thread did not come back from close");
    if (!bring_home(led))
        return refuse(why, "a thread did not come back");
    led->tracee->state = HX_TRACEE_STOPPED;
    return *ret >= 0;
}

static bool is_code(const struct hx_uffd_way *way)
{
    uint8_t call[3], pop[2];
    struct iovec local[2] = {{call, sizeof call}, {pop, sizeof pop}};
    struct iovec remote[2] = {{(void *)(uintptr_t)way->call, sizeof call},
                              {(void *)(uintptr_t)way->pop, sizeof pop}};
    return process_vm_readv(way->pid, local, 2, remote, 2, 0) == sizeof call + sizeof pop &&
           memcmp(call, "\x0f\x05\xc3", sizeof call) == 0 && memcmp(pop, "\x58\xc3", 2) == 0;
}

static struct hx_tracee *choose_thread(const struct hx_uffd_way *way, struct hx_tracer *tracer,
                                       struct user_regs_struct *ret)
{
    struct hx_tracee *best = NULL;
    int most = 0;
    for (size_t i = 0; i < way->tid.n && most < 3; i++) {
        struct user_regs_struct regs;
        struct hx_tracee *tracee = hx_tracer_find(tracer, way->tid.v[i]);
        int rate = tracee ? rate_thread(way, tracee, &regs) : 0;
        if (rate <= most)
            continue;
        most = rate;
        best = tracee;
        *ret = regs;
    }
    return best;
}

bool hx_uffd_make(const struct hx_uffd_way *way, struct hx_tracer *tracer, int *ret,
                  char why[HX_UFFD_WHY])
{
    LED *led = way->led;
    *ret = -1;
    led->tracee = choose_thread(way, tracer, &led->regs);
    if (!led->tracee || !is_code(way))
        return refuse(why, "none of its threads can be led through a call now");
    HX_FREE char *status =
        hx_proc_text("/proc/%d/task/%d/status", way->pid, led->tracee->thread.tid);
    if (!status || is_filtered(status)) /* since it was looked at */
        return refuse(why, "it is under a seccomp filter");
    led->base = (led->regs.rsp - HX_RED_ZONE - sizeof led->before) / 64 * 64;
    int number = lowest_free(way->pid);
    if (number < 0)
        return refuse(why, "its table of files cannot be seen");
    if (!take_state(led) || !save_bytes(led, way->pid) ||
        ptrace(PTRACE_GETSIGMASK, led->tracee->thread.tid, (void *)sizeof led->signals,
               &led->signals) != 0 ||
        !lay_frames(way, led, number))
        return refuse(why, "the state of a thread could not be laid by");
    bool ok = lead(way, led, ret, why);
    if (led->tracee->state == HX_TRACEE_STOPPED) /* home: the bytes below are its own again */
        write_bytes(led, way->pid, led->before);
    return ok;
}
