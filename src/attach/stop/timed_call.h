/* timed_call.h - calls with a time limit go on with the time that was left.
 *
 * A call that is begun again after a stop (hx_arch_restart_call) would begin its time limit
 * again, too: snapshots that follow each other quickly could keep it from ever running
 * out. So for threads that sleep in such a call it is learnt, before the stop, since when they
 * sleep, and before they are let go the limit is shortened by that time. What cannot be
 * learnt for sure leaves the limit as it is: a call may end late, never early.
 *
 * The scheduler's clocks fall behind, by what interrupts and the hypervisor take: what they are
 * behind now is the most that they were when a thread fell asleep earlier, and less than what they
 * will be for one that falls asleep later. So all threads come first, then the clocks.
 */
#ifndef HX_ATTACH_STOP_TIMED_CALL_H
#define HX_ATTACH_STOP_TIMED_CALL_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* A thread's own figures. */
struct hx_timeout {
    bool known;       /* it sleeps in such a call */
    int sched;        /* its figures, open, so that nothing is opened in the stop; -1: too many */
    int cpu;          /* the processor on which it ran last, < HX_TIMEOUT_CPUS */
    uint64_t seen_ns; /* when it was last seen to run, on that one's clock: it fell asleep then;
                       * 0: moved to another since */
    uint64_t read_ns; /* CLOCK_MONOTONIC: not before these figures were read */
    uint64_t ran_ns;  /* what it had used of a processor */
    uint64_t slices;  /* how often it had left one */
    uint64_t moves;   /* how often it had moved to another */
};

/* What the scheduler's clocks of the processors show. */
enum { HX_TIMEOUT_CPUS = 256 };
struct hx_timeout_clocks {
    uint64_t learnt_ns; /* CLOCK_MONOTONIC, afterwards */
    /* CLOCK_MONOTONIC - the scheduler's clock: at least, at most; INT64_MAX: not known */
    int64_t least_ns[HX_TIMEOUT_CPUS], most_ns[HX_TIMEOUT_CPUS];
};

/* For a running thread. */
void hx_timeout_sample(pid_t pid, pid_t tid, struct hx_timeout *ret);

/* After that was done for all of them, before they are told to stop. */
void hx_timeout_sample_clocks(struct hx_timeout_clocks *clocks);

/* For the same thread in its stop, just before it is let go. interrupted_ns: CLOCK_MONOTONIC
 * just before it was told to stop. */
void hx_timeout_shorten(pid_t pid, pid_t tid, const struct hx_timeout_clocks *clocks,
                        const struct hx_timeout *asleep, uint64_t interrupted_ns);

#endif
