/* timepoints.h - the snapshots that an export is about, in the order in which they were taken, each
 * with its time since the target began. */
#ifndef HX_EXPORT_TIMEPOINTS_H
#define HX_EXPORT_TIMEPOINTS_H

#include "export/export.h"

#include "base/vec.h"

struct hx_timepoint {
    int64_t snapshot;    /* its number */
    int64_t taken_at_ns; /* since 1970-01-01 UTC */
    /* Wall time since hx_timepoints.began_ns. Invariant: at least 1, and more than that of the
     * moment before, also when the clock was set back between two snapshots. */
    uint64_t since_ns;
    int64_t heap_bytes, heap_objects; /* -1: not measured */
};

struct hx_timepoints {
    HX_VEC(struct hx_timepoint) v;
    int64_t began_ns; /* the target's start since 1970-01-01 UTC; where it is not known, a moment
                         before the first snapshot */
    bool has_start;   /* it is known */
    int64_t pid;      /* of the last snapshot; 0: not known */
    char *comm, *exe; /* of the last snapshot; "" when not known */
};

/* HX_E_ABSENT when there is none. */
hx_error *hx_timepoints_load(const struct hx_export *export, struct hx_timepoints *ret);
void hx_timepoints_deinit(struct hx_timepoints *timepoints);
#define HX_TIMEPOINTS __attribute__((cleanup(hx_timepoints_deinit)))

#endif
