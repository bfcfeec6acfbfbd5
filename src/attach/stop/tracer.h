/* tracer.h - stopping all threads of a target and letting them go.
 *
 * Used by the agent's capture process only: that process is small and its end, however
 * it comes, makes the kernel let every thread go as if nothing had been. Signals that
 * arrive while a thread stands still are kept and delivered; a group stop stays one.
 */
#ifndef HX_ATTACH_STOP_TRACER_H
#define HX_ATTACH_STOP_TRACER_H

#include "attach/stop/registers.h"
#include "attach/stop/short_call.h"
#include "attach/stop/timed_call.h"
#include "base/error.h"
#include "base/timing.h"
#include "base/vec.h"
#include "model/snapshot.h"

#include <dirent.h>
#include <stdatomic.h>

enum hx_tracee_state {
    HX_TRACEE_SEIZED,  /* asked to stop */
    HX_TRACEE_STOPPED, /* stands still; thread holds its registers */
    HX_TRACEE_STUCK,   /* waits in the kernel, where no stop reaches it; runs no user code */
    HX_TRACEE_GONE,
    HX_TRACEE_LISTED, /* not traced yet */
};

struct hx_tracee {
    enum hx_tracee_state state;
    int deliver;     /* a signal that was on its way to the thread when it stopped; 0: none */
    bool group_stop; /* stood still by a signal (SIGSTOP ...) before we came */
    bool idle;       /* did not leave the call that it sleeps in: leading it on is no use */
    uint64_t interrupted_ns; /* CLOCK_MONOTONIC, just before it was first told to stop */
    bool addressee;          /* ignored signals may come by way of it */
    bool learnt;             /* what /proc tells of it beforehand is known */
    struct hx_arch_call call;
    struct hx_timeout timeout;
    struct hx_thread thread;
};

/* Invariant: tracee is sorted by tid. */
struct hx_tracer {
    pid_t pid;
    pid_t leader; /* of the process: the one thread that stays when it has exited; 0: unknown */
    DIR *tasks;   /* /proc/PID/task */
    HX_VEC(struct hx_tracee) tracee;
    struct hx_arch_layout layout;
    size_t n_partial;        /* tracees whose call has to be looked at */
    uint64_t stopped_at_ns;  /* CLOCK_MONOTONIC of the first interrupt, 0 while none stands */
    uint64_t released_at_ns; /* CLOCK_MONOTONIC of the last release */
    uint64_t deadline_ns;    /* CLOCK_MONOTONIC; 0: none */
    struct hx_timeout_clocks clocks;
    struct hx_short_calls short_calls;
    int cancel_fd;                /* readable: give up (a signalfd) */
    int parent_fd;                /* hung up: heapx is gone, give up (a socket); 0: none */
    const atomic_bool *exhausted; /* memory runs out: give up; NULL: nobody looks */
    bool ending;                  /* the calling thread ends right behind hx_tracer_release() */
};

/* Learns the names of all threads and what else of them is in files, and seizes them, which stops
 * none, just before the stop: between the interrupt of a thread and its release nothing of it is
 * opened or parsed, unless its call came back short (short_call.h), it sleeps with a time limit
 * (timed_call.h: one read) or does not stop at all. Must be called on the thread that stops and
 * releases. SIGCHLD must be blocked.
 */
hx_error *hx_tracer_seize(struct hx_tracer *tracer);

/* Sleeps until a SIGCHLD comes, 200 us at most: a thread of the target may need the processor. */
void hx_await_sigchld(void);

/* A thread of it by its number; NULL: it is not known. */
struct hx_tracee *hx_tracer_find(const struct hx_tracer *tracer, pid_t tid);

/* Stops every thread, also those born meanwhile; returns when none runs user code. On an
 * error some may stand still: release. */
hx_error *hx_tracer_stop(struct hx_tracer *tracer);

/* What threads are led out of: code whose critical sections are guarded by locks. */
struct hx_way_out {
    const struct hx_range *code;
    size_t n_codes;
    bool lockless;                 /* it makes updates without locks, too */
    size_t (*held)(void *context); /* how many of its locks are held now */
    void *context;
};

/* Leads stopped threads whose program counter or newest stack words lie in the code out of their
 * critical sections: lets one after the other run for some microseconds, again and again,
 * until it gave up a lock or, in a process of one thread or where there are updates without locks,
 * left the code, while all others stand still. This is how threads come out of malloc. Gives up
 * after limit_ns. */
hx_error *hx_tracer_lead_out(struct hx_tracer *tracer, const struct hx_way_out *way,
                             uint64_t limit_ns);

/* Lets everything go, but for what does not come to stand still, and with it, where the thread is
 * `ending`, those whom that would harm: all of these go at once when the thread has ended. Never
 * fails; may be called twice. */
void hx_tracer_release(struct hx_tracer *tracer);

/* Afterwards: the names of threads that were born too late for hx_tracer_seize(). */
void hx_tracer_name_rest(struct hx_tracer *tracer);
void hx_tracer_deinit(struct hx_tracer *tracer);

/* HX_E_CANCEL when the cancel descriptor is readable or memory runs out, HX_E_BUSY past the
 * deadline. */
hx_error *hx_tracer_pressed(const struct hx_tracer *tracer);

#endif
