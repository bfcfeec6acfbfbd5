/* agent_protocol.h - packets between heapx and its agent, and inside the agent. */
#ifndef HX_ATTACH_STOP_AGENT_PROTOCOL_H
#define HX_ATTACH_STOP_AGENT_PROTOCOL_H

#include "attach/stop/agent.h"
#include "record/stop_mark.h"

#include <stdatomic.h>

enum hx_agent_op {
    HX_AGENT_READ = 1,
    HX_AGENT_SMAPS,
    HX_AGENT_CAPTURE,
    HX_AGENT_CANCEL,
    HX_AGENT_START, /* another agent: its socket and its struct hx_agent_shared come along */
};

/* No packet has padding: what is sent is all set. */
struct hx_agent_call {
    uint32_t op;     /* enum hx_agent_op */
    uint32_t serial; /* comes back in the reply */
    uint64_t addr;   /* READ; START: the process */
    uint64_t len;    /* READ; SMAPS: of hx_figures_read() */
};

/* The reply to READ; short of `bytes` when they cannot be read. */
struct hx_agent_bytes {
    uint32_t serial, ok;
    char bytes[HX_AGENT_READ_MAX];
};

/* Any other reply. A failure carries the parts of its error one after the other. */
struct hx_agent_reply {
    uint32_t serial;
    int32_t kind; /* enum hx_error_kind, -1: it worked */
    int32_t os_errno;
    uint32_t n_stuck;
    uint64_t pause_ns;
    int64_t taken_at_ns;
    uint64_t memory_bytes;
    uint64_t n_threads, n_pieces, n_lost, n_swapped, smaps_len;
    uint64_t prepare_ns, held_ns, hot_bytes;
    uint8_t locked, has_todo, pages_known, precopied, may_be_stale, unused[3];
    char why_not[HX_AGENT_WHY];
    char text[3][256]; /* what, why, todo */
};
_Static_assert(sizeof(struct hx_agent_reply) == 112 + HX_AGENT_WHY + 3 * 256, "no padding");

/* One page that heapx, supervisor and worker share. */
struct hx_agent_shared {
    _Atomic uint64_t bytes_read;
    _Atomic uint64_t bytes_total;
    _Atomic uint64_t stopped_at_ns; /* 0: the target runs */
    _Atomic uint64_t held_ns;       /* the longest call of the newest capture that held its lock */
    atomic_bool given_up;           /* the supervisor answers in place of the worker */
    atomic_bool exhausted;          /* heapx: memory runs out, give up */
    struct hx_stop_mark mark;
    struct hx_short_calls short_calls; /* of all captures; changes while one is under way */
};

/* One capture, as the worker is told of it. */
struct hx_agent_job {
    pid_t pid;
    uint64_t started; /* hx_proc_started() when the agent began: that process and no other */
    uint32_t serial;  /* of the call */
    int socket;
    int memory_fd; /* of an earlier try, or -1 */
    const struct hx_agent_request *request;
    struct hx_agent_shared *shared;
};

/* The body of the capture worker: does the job, answers on the socket. Never returns. */
void hx_agent_worker(const struct hx_agent_job *job) __attribute__((noreturn));

/* The body of the agent: out of reach of the terminal's signals and of everything that was
 * inherited. Answers calls on the socket until its other end is closed. */
void hx_agent_supervise(pid_t pid, int socket, struct hx_agent_shared *shared)
    __attribute__((noreturn));

hx_error *hx_agent_target_gone(pid_t pid);

/* One of ours got SIGKILL, which heapx did not send. */
hx_error *hx_agent_killed(const char *which);

/* Makes the reply a failure: the error's parts, cut where they are too long. */
void hx_agent_fill_error(struct hx_agent_reply *reply, const hx_error *err);

#endif
