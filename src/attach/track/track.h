/* track.h - which pages a running process writes, told by the kernel.
 *
 * A tracker protects pages and learns later which of them were written: pre-copy
 * (attach/precopy.h) copies what it protected while the process runs. All of it runs in the
 * agent's worker.
 */
#ifndef HX_ATTACH_TRACK_TRACK_H
#define HX_ATTACH_TRACK_TRACK_H

#include "attach/stop/pagemap.h"
#include "attach/track/remote_uffd.h"

/* One process under one tracker. */
struct hx_track {
    pid_t pid;
    int pagemap;    /* /proc/PID/pagemap */
    int uffd;       /* -1: none */
    int clear_refs; /* /proc/PID/clear_refs, to be written; -1: not open */
    bool scans;     /* the kernel has PAGEMAP_SCAN */
    struct hx_uffd_way way;
    hx_ranges ranges; /* what is tracked: whole mappings, by address */
    struct hx_lock_use lock;
    struct hx_page_room room; /* for the entries that the stop reads; none where it scans */
    uint64_t renewal_ns;      /* what renew() is expected to take */
    uint64_t max_held_ns;     /* none may be expected to hold it for longer; 0: no matter */
};

typedef bool hx_track_each(void *context, uint64_t start, uint64_t end, uint64_t categories);

/* Adds the pages to a uint64_t. */
hx_track_each hx_track_count;

struct hx_tracker {
    const char *name;
    bool begins_stopped; /* begin() wants all threads to stand still, and their tracer */
    bool tells_all;      /* written() tells of all that is there, WRITTEN or not */
    /* NULL: protect() protects `again` in the step that tells. Else it only tells, and this
     * protects all that it told of: no thread may run in between. */
    bool (*renew)(struct hx_track *track);

    /* While it runs: can this process be tracked? False: why says what is in the way. */
    bool (*prepare)(struct hx_track *track, const struct hx_mapping *mapping, size_t n,
                    char why[HX_UFFD_WHY]);

    /* On the tracing thread. */
    bool (*begin)(struct hx_track *track, struct hx_tracer *tracer, char why[HX_UFFD_WHY]);

    /* While it runs: tracks a mapping; false: that cannot be. */
    bool (*add)(struct hx_track *track, uint64_t start, uint64_t end);

    /* While it runs, for a part of a tracked range: protects what is there (`again`: and was
     * written since it was protected), and tells of it. */
    bool (*protect)(struct hx_track *track, uint64_t start, uint64_t end, bool again,
                    hx_track_each *each, void *context);

    /* While it stands still: what was written or discarded since, or never protected, to be looked
     * at (tells_all: PRESENT or swapped out, and WRITTEN where it may have changed). False: the
     * range is not tracked any more. */
    bool (*written)(struct hx_track *track, uint64_t start, uint64_t end, hx_track_each *each,
                    void *context);

    /* While it runs: lifts all of it. */
    void (*end)(struct hx_track *track);
};

/* userfaultfd's write protection without faults to handle, since Linux 6.7. */
extern const struct hx_tracker hx_track_wp;

/* Soft-dirty bits, where the kernel keeps them. */
extern const struct hx_tracker hx_track_soft;

/* Does the kernel keep them? Tried on a child: asking for them succeeds where it does not. */
bool hx_track_soft_works(void);

/* Nothing open yet. */
struct hx_track hx_track_none(pid_t pid);

/* Opens pagemap and looks what it can do. False: it cannot be read. */
bool hx_track_open(struct hx_track *track, const struct hx_mapping *mapping, size_t n);

void hx_track_deinit(struct hx_track *track);

#endif
