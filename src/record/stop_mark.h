/* stop_mark.h - when a capture stopped the target: told to a recorder while it stands still.
 *
 * Lies in memory that the agent shares. The agent sets it after the last thread has come to its
 * stop and before it lets any go on; it stays until the next stop. A recorder that reads the clock
 * and then finds no pending mark knows that all events up to that time came before any stop.
 */
#ifndef HX_RECORD_STOP_MARK_H
#define HX_RECORD_STOP_MARK_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct hx_stop_mark {
    _Atomic uint64_t ticks;   /* time-stamp counter at the stop; written before ns */
    _Atomic uint64_t ns;      /* CLOCK_MONOTONIC at the stop; 0: there was none yet */
    _Atomic uint64_t handled; /* by the recorder: the stop (its ns) whose state it has kept */
};

/* Is there a stop whose state is not kept yet? Then its times. mark may be NULL: no. */
static inline bool hx_stop_mark_pending(const struct hx_stop_mark *mark, uint64_t *ret_ticks,
                                        uint64_t *ret_ns)
{
    if (!mark)
        return false;
    uint64_t ns = atomic_load_explicit(&mark->ns, memory_order_acquire);
    if (ns == atomic_load_explicit(&mark->handled, memory_order_relaxed))
        return false;
    *ret_ticks = atomic_load_explicit(&mark->ticks, memory_order_relaxed);
    *ret_ns = ns;
    return true;
}

#endif
