/* watch.c - `heapx snap --when`: a condition on a running process that is looked at now and then.
 */
#include "cli/take/watch.h"

#include "cli/words/view.h"

#include <stdio.h>
#include <string.h>

enum { GROWTH = HX_VITALS_N, RATE, COLUMNS };

static const uint64_t interval_ns = 1000000000;

hx_error *hx_watch_init(const char *when, struct hx_watch *ret)
{
    struct hx_filter_column columns[COLUMNS];
    const struct hx_filter_column *used;
    for (size_t i = 0; i < COLUMNS; i++)
        columns[i] = (struct hx_filter_column){
            .name = i == GROWTH ? "growth"
                    : i == RATE ? "rate"
                                : hx_vital_name((enum hx_vital)i),
            .class = HX_FILTER_NUMBER,
            .id = i,
        };
    const struct hx_filter_schema schema = {.columns = columns, .n = COLUMNS};
    *ret = (struct hx_watch){0};
    HX_TRY(hx_where_word("--when", when, &schema, &ret->filter));
    size_t n = hx_filter_columns(ret->filter, &used);
    for (size_t i = 0; i < n; i++)
        ret->wanted |= 1u << (used[i].id < HX_VITALS_N ? used[i].id : HX_VITAL_RSS);
    return NULL;
}

void hx_watch_deinit(struct hx_watch *watch)
{
    hx_filter_destroy(watch->filter);
    watch->filter = NULL;
}

/* How far resident memory has moved. */
static void compare_rss(struct hx_watch *watch)
{
    uint64_t now = hx_now_ns();
    double rss = watch->vitals.value[HX_VITAL_RSS];
    if (!watch->began)
        watch->base_rss = rss;
    watch->growth = rss - watch->base_rss;
    watch->has_rate = watch->began && now > watch->looked_ns;
    if (watch->has_rate)
        watch->rate = (rss - watch->last_rss) / ((double)(now - watch->looked_ns) / 1e9);
    watch->last_rss = rss;
    watch->looked_ns = now;
}

static struct hx_filter_value watch_operand(void *context, size_t id)
{
    const struct hx_watch *watch = context;
    bool has = watch->vitals.has[id < HX_VITALS_N ? id : HX_VITAL_RSS];
    if (!has || (id == RATE && !watch->has_rate))
        return (struct hx_filter_value){.type = HX_FILTER_NULL};
    return (struct hx_filter_value){.type = HX_FILTER_REAL,
                                    .real = id == GROWTH ? watch->growth
                                            : id == RATE ? watch->rate
                                                         : watch->vitals.value[id]};
}

/* What can not be read at the first look cannot be later either. */
static hx_error *check_readable(const struct hx_watch *watch)
{
    for (int i = 0; i < HX_VITALS_N; i++)
        if (watch->wanted >> i & 1 && !watch->vitals.has[i])
            return hx_error_new(HX_E_ABSENT, "--when", "ask for another column",
                                "%s cannot be read of this process",
                                hx_vital_name((enum hx_vital)i));
    return NULL;
}

/* The look before has led to a snapshot: growth begins anew, and that alone can end it. */
static void begin_anew(struct hx_watch *watch)
{
    watch->base_rss = watch->last_rss;
    watch->growth = 0;
    watch->held = hx_filter_holds(watch->filter, watch_operand, watch);
}

static hx_error *poll_watch(struct hx_series *series, bool *ret_due)
{
    struct hx_watch *watch = series->watch;
    if (watch->due && series->stored > watch->stored)
        begin_anew(watch);
    HX_TRY(hx_vitals_read(series->session->pid, watch->wanted, &watch->vitals));
    if (!watch->began)
        HX_TRY(check_readable(watch));
    compare_rss(watch);
    watch->began = true;
    bool holds = hx_filter_holds(watch->filter, watch_operand, watch);
    watch->held &= holds;
    *ret_due = watch->due = holds && !watch->held;
    watch->stored = series->stored;
    return NULL;
}

void hx_watch_plan(struct hx_watch *watch, const struct hx_args *args, struct hx_series *series)
{
    if (!watch->filter)
        return;
    series->watch = watch;
    series->when = poll_watch;
    series->every_ns = args->every_ns ? args->every_ns : interval_ns;
    series->wanted = args->count ? args->count : 1;
}
