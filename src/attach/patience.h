/* patience.h - calls with a time limit go on with the time that was left.
 *
 * A call that is begun again after a stop (hx_arch_restart_call) would begin its time limit
 * again, too: snapshots that follow each other quickly could keep it from ever running
 * out. So for threads that sleep in such a call it is learnt, before the stop, since when they
 * sleep, and before they are let go the limit is shortened by that time. What cannot be
 * learnt for sure leaves the limit as it is: a call may end late, never early.
 */
#ifndef HX_ATTACH_PATIENCE_H
#define HX_ATTACH_PATIENCE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct hx_patience {
    bool known;
    uint64_t since_ns; /* CLOCK_MONOTONIC: the thread fell asleep then, or earlier */
    uint64_t ran_ns;   /* what it had used of a processor */
    uint64_t slices;   /* how often it had been given one */
};

/* What the scheduler's clocks of the processors show; zero-initialise. */
enum { HX_PATIENCE_CPUS = 256 };
struct hx_patience_clocks {
    bool known;
    /* CLOCK_MONOTONIC - the scheduler's clock: at least, at most; INT64_MAX: not known */
    int64_t least_ns[HX_PATIENCE_CPUS], most_ns[HX_PATIENCE_CPUS];
};

/* For a running thread. */
void hx_patience_learn(pid_t pid, pid_t tid, struct hx_patience_clocks *clocks,
                       struct hx_patience *ret);

/* For the same thread in its stop, just before it is let go. interrupted_ns: CLOCK_MONOTONIC
 * just before it was told to stop. */
void hx_patience_apply(pid_t pid, pid_t tid, const struct hx_patience_clocks *clocks,
                       const struct hx_patience *patience, uint64_t interrupted_ns);

#endif
