/* precopy.h - method `precopy`: most of the copy is made while the target runs.
 *
 * A short stop starts a tracker. What it protects is copied while the target goes on, what was
 * written meanwhile again, until little is left; the stop itself copies the pages that were
 * written since, and what cannot be tracked: small mappings, memory that is shared, new ones. After
 * VMware's pre-copy of virtual machines (Nelson, Lim and Hutchins, "Fast Transparent Migration for
 * Virtual Machines", 2005). Runs in the agent's worker.
 */
#ifndef HX_ATTACH_PRECOPY_H
#define HX_ATTACH_PRECOPY_H

#include "attach/stop/copy.h"
#include "attach/stop/stop_maps.h"
#include "attach/track/track.h"

struct hx_precopy {
    struct hx_copied copied; /* what the rounds copied; first, so that its look() finds this */
    const struct hx_tracker *tracker; /* NULL: there is none, and the stop copies all */
    struct hx_track track;
    bool where_it_pays; /* in: what is written all the time is left to the stop */
    bool may_be_stale;  /* devices write into memory of it, which leaves no trace */
    hx_ranges hot;      /* mappings that were */
    uint64_t hot_bytes;
    hx_ranges huge;                /* huge pages, as they were */
    uint64_t begun_ns, prepare_ns; /* CLOCK_MONOTONIC; how long it took up to the stop */
    uint64_t short_stop_ns;        /* the longest stop up to then */
    char why[HX_UFFD_WHY];         /* there is none, or not the best, because ...; "" */
};

/* Would a tracker start? Why it would be none, or not the best; "". Nothing of the target is
 * touched. `mapping` is smaps. */
bool hx_precopy_possible(pid_t pid, const struct hx_mapping *mapping, size_t n,
                         char why[HX_UFFD_WHY]);

/* While the target runs: starts a tracker if it may, and copies (copy->copied). `maps` is prepared,
 * and is read in the stop of a tracker that wants one; `tracer` will stop it, and has no threads
 * yet. A tracker that cannot start is no error. On the tracing thread. */
hx_error *hx_precopy_begin(struct hx_precopy *pre, struct hx_copy *copy, struct hx_tracer *tracer,
                           struct hx_stop_maps *maps);

/* While the target runs: lifts the protection, puts huge pages together again, frees. */
void hx_precopy_end(struct hx_precopy *pre);

#endif
