/* timepoints.c - the snapshots of an export with their times. */
#include "export/timepoints.h"

#include "base/cleanup.h"
#include "store/query/named.h"

#include <stdlib.h>
#include <string.h>

static int64_t value_number(struct hx_value value)
{
    return value.type == HX_VALUE_INT ? value.i : -1;
}

static hx_error *copy_value_text(struct hx_value value, char **ret)
{
    char *copy = strdup(value.type == HX_VALUE_TEXT ? value.text : "");
    HX_NEED(copy);
    free(*ret);
    *ret = copy;
    return NULL;
}

/* Columns of the query. */
enum { SNAPSHOT, TAKEN, STARTED, PID, COMM, EXE, HEAP_BYTES, HEAP_OBJECTS };

static hx_error *add_timepoint(void *context, hx_rows *rows)
{
    struct hx_timepoints *timepoints = context;
    struct hx_timepoint timepoint = {
        .snapshot = hx_rows_value(rows, SNAPSHOT).i,
        .taken_at_ns = hx_rows_value(rows, TAKEN).i,
        .heap_bytes = value_number(hx_rows_value(rows, HEAP_BYTES)),
        .heap_objects = value_number(hx_rows_value(rows, HEAP_OBJECTS)),
    };
    struct hx_value started = hx_rows_value(rows, STARTED), pid = hx_rows_value(rows, PID);
    if (!timepoints->v.n) {
        timepoints->has_start = started.type == HX_VALUE_INT && started.i < timepoint.taken_at_ns;
        timepoints->began_ns = timepoints->has_start               ? started.i
                               : timepoint.taken_at_ns > INT64_MIN ? timepoint.taken_at_ns - 1
                                                                   : INT64_MIN;
    }
    timepoints->pid = pid.type == HX_VALUE_INT ? pid.i : 0;
    HX_TRY(copy_value_text(hx_rows_value(rows, COMM), &timepoints->comm));
    HX_TRY(copy_value_text(hx_rows_value(rows, EXE), &timepoints->exe));
    uint64_t before = timepoints->v.n ? timepoints->v.v[timepoints->v.n - 1].since_ns : 0;
    int64_t since;
    if (__builtin_sub_overflow(timepoint.taken_at_ns, timepoints->began_ns, &since) || since < 0)
        since = 0;
    timepoint.since_ns = (uint64_t)since > before ? (uint64_t)since : before + 1;
    return hx_vec_push(&timepoints->v, timepoint) ? NULL : hx_error_nomem();
}

hx_error *hx_timepoints_load(const struct hx_export *export, struct hx_timepoints *ret)
{
    HX_TIMEPOINTS struct hx_timepoints timepoints = {0};
    HX_TRY(hx_query_each(export->store, HX_QUERY_timepoints,
                         HX_QUERY_ARGS(.snapshot = export->snapshot), add_timepoint, &timepoints));
    if (!timepoints.v.n)
        return hx_error_new(HX_E_ABSENT, export->title, NULL, "holds no snapshot");
    *ret = timepoints;
    timepoints = (struct hx_timepoints){0};
    return NULL;
}

void hx_timepoints_deinit(struct hx_timepoints *timepoints)
{
    hx_vec_free(&timepoints->v);
    free(timepoints->comm);
    free(timepoints->exe);
    timepoints->comm = timepoints->exe = NULL;
}
