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
    uint64_t slices;   /* how often it had been given a processor */
};

/* What the clocks of the processors show; zero-initialise. */
enum { HX_PATIENCE_CPUS = 256 };
struct hx_patience_clocks {
    bool known[HX_PATIENCE_CPUS];
    int64_t behind_ns[HX_PATIENCE_CPUS]; /* CLOCK_MONOTONIC - the scheduler's clock */
};

/* For a running thread. Moves the calling thread from processor to processor; call
 * hx_patience_settle() after the last one. */
void hx_patience_learn(pid_t pid, pid_t tid, struct hx_patience_clocks *clocks,
                       struct hx_patience *ret);
void hx_patience_settle(const struct hx_patience_clocks *clocks);

/* For the same thread in its stop, just before it is let go. */
void hx_patience_apply(pid_t pid, pid_t tid, const struct hx_patience *patience);

#endif
