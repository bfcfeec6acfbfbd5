/* watch.h - `heapx snap --when`: a condition on a running process that is looked at now and then.
 */
#ifndef HX_CLI_TAKE_WATCH_H
#define HX_CLI_TAKE_WATCH_H

#include "attach/vitals.h"
#include "cli/take/snapshot_series.h"
#include "query/filter.h"

/* Its columns are those of vitals.h, and
 *   growth   bytes by which rss grew since the watch began, or since the last snapshot
 *   rate     bytes a second by which rss grew since the look before; the first one has none
 * Each time that it becomes true there is a snapshot: it has to be false before the next one. */
struct hx_watch {
    hx_filter *filter; /* NULL: none */
    unsigned wanted;   /* bits of enum hx_vital */
    struct hx_vitals vitals;
    bool began, held; /* there was a look before; it held then, and a snapshot was taken */
    bool due;         /* the look before asked for one */
    uint64_t stored;  /* snapshots before it */
    double base_rss, last_rss, growth, rate;
    bool has_rate;
    uint64_t looked_ns;
};

/* Parses the condition; HX_E_USAGE names the column. */
hx_error *hx_watch_init(const char *when, struct hx_watch *ret);
void hx_watch_deinit(struct hx_watch *watch);

/* Makes a series take its snapshots by it: looks every series->every_ns. */
void hx_watch_plan(struct hx_watch *watch, const struct hx_args *args, struct hx_series *series);

#endif
