/* snapshot_series.h - one snapshot after the other of a process, into a store: snap, record, run.
 */
#ifndef HX_CLI_TAKE_SNAPSHOT_SERIES_H
#define HX_CLI_TAKE_SNAPSHOT_SERIES_H

#include "cli/take/take.h"

/* Times are CLOCK_MONOTONIC. Ticks lie at start + i * every, so a series does not drift; those
 * that pass while a snapshot is taken are left out. */
struct hx_series {
    struct hx_session *session;
    struct hx_output *output;
    struct hx_console *console;
    int pidfd;    /* -1: the kernel has none */
    bool at_once; /* the first one when it begins, else at the first tick */
    bool last;    /* one more when it ends, also when the user interrupts */
    FILE *lines;  /* one line a snapshot goes there; NULL: nowhere */

    /* Is there something to do before the next tick? Asked every few milliseconds; NULL: never. */
    hx_error *(*poll)(struct hx_series *series, bool *ret_done);
    /* The user interrupts. True: the series goes on all the same; NULL: it does not. */
    bool (*interrupt)(struct hx_series *series);
    void *context;
    /* Is a snapshot wanted at this tick? NULL: at each. */
    hx_error *(*when)(struct hx_series *series, bool *ret_due);
    struct hx_watch *watch; /* whose that is */

    uint64_t start_ns, every_ns, end_ns; /* every 0: no ticks; end 0: none */
    uint64_t wanted;                     /* 0: no limit */
    uint64_t stored, missed;
    int unprinted; /* errno of the first line that could not be printed, 0: none */
};

/* Reads --every, --count and --duration; a series without an --every has one a second when the
 * others ask for several (`ticks`), else none. */
void hx_series_plan(const struct hx_args *args, bool ticks, struct hx_series *series);

/* One snapshot now, into the store; its line. */
hx_error *hx_series_take(struct hx_series *series);

/* The process has ended: what was recorded of it, if anything was; its line. */
hx_error *hx_series_take_late(struct hx_series *series);

/* The user has ended it: what is kept. */
hx_error *hx_series_interrupted(const struct hx_series *series);

/* The whole series. HX_E_GONE when a count that was asked for cannot be reached, HX_E_CANCEL when
 * the user ended it; what is stored stays. */
hx_error *hx_series_run(struct hx_series *series);

#endif
