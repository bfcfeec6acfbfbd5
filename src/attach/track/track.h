/* track.h - which pages a running process writes, told by the kernel.
 *
 * A tracker protects pages and learns later which of them were written: pre-copy
 * (attach/precopy.h) copies what it protected while the process runs. All of it runs in the
 * agent's worker.
 */
#ifndef HX_ATTACH_TRACK_TRACK_H
#define HX_ATTACH_TRACK_TRACK_H

#include "attach/track/remote_uffd.h"

/* One process under one tracker. */
struct hx_track {
    pid_t pid;
    int pagemap; /* /proc/PID/pagemap */
    int uffd;    /* -1: none */
    struct hx_uffd_way way;
    hx_ranges ranges; /* what is tracked; in order */
    uint64_t held_ns; /* the longest call that held the lock of its mappings */
};

typedef bool hx_track_each(void *context, uint64_t start, uint64_t end, uint64_t categories);

struct hx_tracker {
    const char *name;

    /* While it runs: can this process be tracked? False: why says what is in the way. */
    bool (*prepare)(struct hx_track *track, const struct hx_mapping *mapping, size_t n,
                    char why[HX_UFFD_WHY]);

    /* While all its threads stand still, on the tracing thread. */
    bool (*begin)(struct hx_track *track, struct hx_tracer *tracer, char why[HX_UFFD_WHY]);

    /* While it runs: tracks a mapping; false: that cannot be. */
    bool (*add)(struct hx_track *track, uint64_t start, uint64_t end);

    /* While it runs, for a part of a tracked range: protects what is there (`again`: and was
     * written since it was protected), and tells of it. */
    bool (*protect)(struct hx_track *track, uint64_t start, uint64_t end, bool again,
                    hx_track_each *each, void *context);

    /* While it stands still: what was written or discarded since, or never protected, to be looked
     * at. False: the range is not tracked any more. */
    bool (*written)(struct hx_track *track, uint64_t start, uint64_t end, hx_track_each *each,
                    void *context);

    /* While it runs: lifts all of it. */
    void (*end)(struct hx_track *track);
};

/* userfaultfd's write protection without faults to handle, since Linux 6.7. */
extern const struct hx_tracker hx_track_wp;

void hx_track_deinit(struct hx_track *track);

#endif
