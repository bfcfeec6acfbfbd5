/* arch.h - the little that depends on the processor: registers and interrupted calls.
 *
 * One file an architecture implements it (arch_x86_64.c), together with the register names
 * in src/model/arch_*.c. All functions are for a thread in a ptrace stop.
 */
#ifndef HX_ATTACH_ARCH_H
#define HX_ATTACH_ARCH_H

#include "model/process.h"

/* Fills registers, sp, pc, tp, in_syscall and, outside system calls, the vector registers.
 * False with errno when the thread is gone. */
bool hx_arch_registers(pid_t tid, struct hx_thread *ret);

/* Some calls (epoll_wait, sigtimedwait, semtimedop, ...) answer any wake-up with EINTR, even
 * a stop that no signal caused. Turns that answer into the kernel's own "begin again unless a
 * handler runs", which the kernel carries out when the thread leaves the stop: the target
 * sees EINTR when, and only when, a handler of its own ran. Safe at any stop; does nothing
 * for other calls. */
void hx_arch_restart_call(pid_t tid);

#endif
