/* arch_x86_64.c - registers and interrupted calls on x86-64. */
#include "attach/arch.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/user.h>

bool hx_arch_registers(pid_t tid, struct hx_thread *ret)
{
    struct user_regs_struct regs;
    if (ptrace(PTRACE_GETREGS, tid, NULL, &regs) != 0)
        return false;
    const uint64_t general[] = {regs.rax, regs.rbx, regs.rcx, regs.rdx, regs.rsi, regs.rdi,
                                regs.rbp, regs.rsp, regs.r8,  regs.r9,  regs.r10, regs.r11,
                                regs.r12, regs.r13, regs.r14, regs.r15};
    memcpy(ret->regs, general, sizeof general);
    ret->n_regs = sizeof general / sizeof *general;
    ret->sp = regs.rsp;
    ret->pc = regs.rip;
    ret->tp = regs.fs_base;
    ret->in_syscall = (int64_t)regs.orig_rax >= 0;
    ret->has_regs = true;
    /* At a system call the vector registers are dead: the ABI lets every call clobber them,
     * and what is left in them would keep freed structures alive. */
    struct user_fpregs_struct vector;
    ret->n_vector = 0;
    if (!ret->in_syscall && ptrace(PTRACE_GETFPREGS, tid, NULL, &vector) == 0) {
        _Static_assert(sizeof vector.xmm_space == sizeof ret->vector, "sixteen xmm registers");
        memcpy(ret->vector, vector.xmm_space, sizeof vector.xmm_space);
        ret->n_vector = sizeof ret->vector / sizeof *ret->vector;
    }
    return true;
}

/* Calls that return EINTR instead of being restarted by the kernel, and that did nothing
 * yet when they do. See signal(7), "Interruption of system calls by stop signals". */
static bool answers_eintr(uint64_t call)
{
    switch (call) {
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

void hx_arch_restart_call(pid_t tid)
{
    errno = 0;
    long call = ptrace(PTRACE_PEEKUSER, tid, offsetof(struct user_regs_struct, orig_rax), NULL);
    if (errno || call < 0 || !answers_eintr((uint64_t)call))
        return;
    long answer = ptrace(PTRACE_PEEKUSER, tid, offsetof(struct user_regs_struct, rax), NULL);
    if (errno || answer != -EINTR)
        return;
    ptrace(PTRACE_POKEUSER, tid, offsetof(struct user_regs_struct, rax),
           (void *)(long)-RESTART_NO_HANDLER);
}
