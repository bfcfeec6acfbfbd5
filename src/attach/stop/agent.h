/* agent.h - the process that alone touches the target, and how one talks to it.
 *
 * hx_agent_start() forks a small supervisor. For each capture the supervisor forks a
 * worker, which stops, copies, releases and ends; the kernel lets go of whatever a worker
 * leaves behind. The supervisor ends a worker that makes no progress, and ends both when
 * its own parent is gone. Packets over a socket pair; bulk data in memfds.
 */
#ifndef HX_ATTACH_STOP_AGENT_H
#define HX_ATTACH_STOP_AGENT_H

#include "attach/alloc/alloc.h"
#include "attach/stop/figures.h"
#include "attach/stop/short_call.h"
#include "base/error.h"
#include "base/progress.h"
#include "model/process.h"
#include "record/stop_mark.h"

struct hx_agent; /* the parent's end */

hx_error *hx_agent_start(pid_t pid, struct hx_agent **ret);

/* The same where this process has threads by now, or is large: another agent, which has and is
 * neither, forks it. Of a thread that was not forked, locks would stay held for ever (malloc's are
 * not with glibc, and are with the sanitizers). */
hx_error *hx_agent_start_by(struct hx_agent *other, pid_t pid, struct hx_agent **ret);
void hx_agent_stop(struct hx_agent *agent);

/* Reads at most HX_AGENT_READ_MAX bytes of the running target. False when one cannot be read. */
enum { HX_AGENT_READ_MAX = 4096 };
bool hx_agent_read(struct hx_agent *agent, uint64_t addr, void *dst, size_t len);

/* What a capture asks for. */
enum { HX_AGENT_LOCKS_MAX = 4096, HX_AGENT_CODES_MAX = 16, HX_AGENT_WHY = 128 };
struct hx_agent_request {
    uint64_t max_pause_ns; /* 0: no limit */
    unsigned threads;      /* readers in the stop */
    unsigned beside;       /* and before it */
    bool accept_locked;    /* the last try: copy even if an arena stays locked */
    uint64_t
        precopy_from; /* bytes of copy from which on most is copied beside the running target */
    uint32_t n_codes; /* 0: not known */
    bool lockless;    /* as in struct hx_guard */
    struct hx_range code[HX_AGENT_CODES_MAX]; /* of allocators */
    uint32_t n_locks;
    struct hx_lock_word lock[HX_AGENT_LOCKS_MAX];
};

/* A piece of the copy: target addresses [start, end), at `offset` in the copy. */
struct hx_piece {
    uint64_t start, end, offset;
};
typedef HX_VEC(struct hx_piece) hx_pieces;

/* What a capture brings; owned by the caller, freed by hx_agent_result_deinit(). */
struct hx_agent_result {
    uint64_t pause_ns;
    int64_t taken_at_ns;
    bool locked;         /* an arena lock was held to the end, or why it was given up */
    uint64_t lost_bytes; /* could not be read: see lost */
    uint32_t n_stuck;
    struct hx_thread *thread;
    size_t n_threads;
    struct hx_piece *piece; /* sorted */
    size_t n_pieces;
    struct hx_range *lost; /* page ranges that could not be read, inside pieces; sorted */
    size_t n_lost;
    struct hx_range *swapped; /* page ranges that were swapped out, inside pieces; sorted */
    size_t n_swapped;
    bool pages_known; /* all other pages of the pieces were in memory */
    char *smaps;      /* the mappings at the stop, NUL-terminated: hx_stop_maps_print() */
    size_t smaps_len;
    int memory_fd; /* the copy; -1: none */
    uint64_t memory_bytes;
    bool precopied; /* else why not, "" when it was not wanted */
    char why_not[HX_AGENT_WHY];
    uint64_t prepare_ns; /* of pre-copy */
    bool may_be_stale;   /* ... into whose memory devices write meanwhile */
    uint64_t
        hot_bytes; /* of mappings that it left to the stop, because they are written too fast */
};

/* One capture. ret->pause_ns and locked are filled in even when the capture failed. *memory_fd: -1,
 * or the memory of an earlier try to use again; taken over either way (-1 afterwards). HX_E_BUSY:
 * an arena was locked, or the pause too long. */
hx_error *hx_agent_capture(struct hx_agent *agent, const struct hx_agent_request *request,
                           int *memory_fd, const struct hx_progress *progress,
                           struct hx_agent_result *ret);
void hx_agent_result_deinit(struct hx_agent_result *result);

/* The longest call of the kernel, of the newest capture, that held the lock of the target's
 * mappings while it ran. Waits until that capture has let go of its memory, which goes on behind
 * the result.
 */
uint64_t hx_agent_held_ns(struct hx_agent *agent);

/* The calls of the target that came back short because of a stop, of all captures so far. */
const struct hx_short_calls *hx_agent_short_calls(const struct hx_agent *agent);

/* Where the newest stop is marked; lives as long as the agent. */
struct hx_stop_mark *hx_agent_stop_mark(struct hx_agent *agent);

/* Set by whoever watches memory: a capture that sees it gives up. Lives as long as the agent. */
atomic_bool *hx_agent_exhausted(struct hx_agent *agent);

/* hx_figures_read() as the agent sees it now. The caller frees the text. */
hx_error *hx_agent_smaps(struct hx_agent *agent, uint64_t max_held_ns, struct hx_figures *ret);

#endif
