/* tracer.h - stopping all threads of a target and letting them go.
 *
 * Used by the agent's capture process only: that process is small and its end, however
 * it comes, makes the kernel let every thread go as if nothing had been. Signals that
 * arrive while a thread stands still are kept and delivered; a group stop stays one.
 */
#ifndef HX_ATTACH_TRACER_H
#define HX_ATTACH_TRACER_H

#include "attach/patience.h"
#include "base/error.h"
#include "base/vec.h"
#include "model/process.h"

enum hx_tracee_state {
    HX_TRACEE_SEIZED,  /* asked to stop */
    HX_TRACEE_STOPPED, /* stands still; thread holds its registers */
    HX_TRACEE_STUCK,   /* waits in the kernel, where no stop reaches it; runs no user code */
    HX_TRACEE_GONE,
};

struct hx_tracee {
    enum hx_tracee_state state;
    int deliver;     /* a signal that was on its way to the thread when it stopped; 0: none */
    bool group_stop; /* stood still by a signal (SIGSTOP ...) before we came */
    bool idle;       /* sleeps in the call in which the last nudge found it: leave it alone */
    uint64_t nudged_pc;
    struct hx_patience patience;
    struct hx_thread thread;
};

/* Invariant: tracee is sorted by tid. */
struct hx_tracer {
    pid_t pid;
    HX_VEC(struct hx_tracee) tracee;
    uint64_t stopped_at_ns; /* CLOCK_MONOTONIC of the first interrupt, 0 while none stands */
    uint64_t deadline_ns;   /* CLOCK_MONOTONIC; 0: none */
    int cancel_fd;          /* readable: give up (a signalfd) */
};

uint64_t hx_now_ns(void); /* CLOCK_MONOTONIC */

/* Seizes every thread (which stops none) and learns their names. Must be called on the thread
 * that stops and releases. SIGCHLD must be blocked. */
hx_error *hx_tracer_seize(struct hx_tracer *tracer);

/* Stops every thread, also those born meanwhile; returns when none runs user code. On an
 * error some may stand still: release. */
hx_error *hx_tracer_stop(struct hx_tracer *tracer);

/* Lets the stopped threads whose program counter or newest stack words lie in [code[0],
 * code[1]) run for about `ns`, then stops them again; *ret_n is how many there were. The others
 * stand still. This is how a thread is led out of malloc. */
hx_error *hx_tracer_nudge(struct hx_tracer *tracer, const uint64_t code[2], uint64_t ns,
                          size_t *ret_n);

/* Lets everything go. Never fails; may be called twice. */
void hx_tracer_release(struct hx_tracer *tracer);
void hx_tracer_deinit(struct hx_tracer *tracer);

/* HX_E_CANCEL when the cancel descriptor is readable, HX_E_BUSY past the deadline. */
hx_error *hx_tracer_pressed(const struct hx_tracer *tracer);

#endif
