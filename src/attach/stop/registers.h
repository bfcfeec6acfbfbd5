/* registers.h - the little that depends on the processor: registers and interrupted calls.
 *
 * One file an architecture implements it (registers_x86_64.c), together with the register names
 * in src/model/arch_*.c. All functions are for a thread in a ptrace stop.
 */
#ifndef HX_ATTACH_STOP_REGISTERS_H
#define HX_ATTACH_STOP_REGISTERS_H

#include "model/process.h"

/* How much below the stack pointer a leaf function may use (the ABI's red zone). */
#define HX_RED_ZONE 128

/* Where the kernel puts the parts of the vector registers: asking the processor takes long, on a
 * virtual machine above all, and so is done before a stop. */
struct hx_arch_layout {
    size_t high[2];
};
void hx_arch_learn_layout(struct hx_arch_layout *ret);

/* For a thread that has just stopped: fills registers, sp, pc, tp, in_syscall and, outside system
 * calls, the vector registers; and sees to its call. False with errno when the thread is gone.
 *
 * Some calls (epoll_wait, sigtimedwait, semtimedop, ...) answer any wake-up with EINTR, even
 * a stop that no signal caused. That answer is turned into the kernel's own "begin again unless a
 * handler runs", which the kernel carries out when the thread leaves the stop: the target
 * sees EINTR when, and only when, a handler of its own ran. Safe at any stop; does nothing
 * to other calls. */
struct hx_arch_call {
    bool restarted; /* it did that */
    bool partial;   /* may have done part of what it was to do: hx_arch_short_result() */
};
bool hx_arch_stopped(pid_t tid, const struct hx_arch_layout *layout, struct hx_thread *ret,
                     struct hx_arch_call *ret_call);

/* The registers from a core's notes of a thread: its status, of exactly HX_ARCH_STATUS_BYTES, with
 * the signal that it got (0: none), then its floating-point state or its extended state, of at
 * least HX_ARCH_FLOAT_BYTES. Of a longer one no more than HX_ARCH_EXTENDED_BYTES count. */
#define HX_ARCH_STATUS_BYTES   336
#define HX_ARCH_FLOAT_BYTES    512
#define HX_ARCH_EXTENDED_BYTES 4096
void hx_arch_core_status(const void *status, struct hx_thread *ret, int *ret_signal);
void hx_arch_core_float(const void *state, size_t bytes, struct hx_thread *ret);

/* A call that answered with less than it was asked for. */
enum hx_short_kind {
    HX_SHORT_MOVED,       /* bytes that are gone from where they were */
    HX_SHORT_READ,        /* as much as there was, or random bytes */
    HX_SHORT_RANDOM,      /* random bytes */
    HX_SHORT_COMPLETIONS, /* submitted, but did not wait; `done` is not known */
};
struct hx_short_result {
    enum hx_short_kind kind;
    const char *name;
    int fd;
    uint64_t done, requested;
};

/* For a thread that leaves a system call; false when it is none of those. */
bool hx_arch_short_result(pid_t pid, pid_t tid, struct hx_short_result *ret);

/* Has the kernel carry out the call that the thread leaves from its beginning. */
void hx_arch_begin_again(pid_t tid);

/* Is it one of those calls, with a relative time limit among its arguments? */
bool hx_arch_is_timed_call(uint64_t call);

/* For a thread whose call will begin again: takes `ns` off its time limit, down to 0. A limit in
 * memory is not changed; a shorter one is written where no memory of the thread is in use, below
 * its red zone. */
void hx_arch_shorten_call(pid_t tid, uint64_t ns);

#endif
