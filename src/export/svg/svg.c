/* svg.c - a census as a drawing for reports: areas over time, bars of one snapshot, and root bins
 * as the intersections of sets. */
#include "export/svg/svg.h"

#include "base/cleanup.h"
#include "base/lower_bound.h"
#include "store/query.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* --- figures -------------------------------------------------------------------------- */

static hx_error *query_svg(const struct hx_export *export, struct hx_text *sql, hx_rows **ret)
{
    hx_error *err =
        sql->failed ? hx_error_nomem() : hx_query_sql(export->store, hx_text_str(sql), ret);
    hx_text_free(sql);
    return err;
}

static void put_census(const struct hx_series *series, struct hx_text *sql)
{
    hx_text_puts(sql, "(SELECT snapshot, key, bytes FROM (");
    hx_census_sql(series->census, series->export->snapshot, sql);
    hx_text_puts(sql, "))");
}

/* The keys with most bytes, in their order. */
static void put_largest(const struct hx_series *series, size_t most, struct hx_text *sql)
{
    hx_text_puts(sql, "(SELECT key, row_number() OVER (ORDER BY whole DESC, key) - 1 AS place FROM"
                      " (SELECT key, total(bytes) AS whole FROM ");
    put_census(series, sql);
    hx_text_putf(sql, " GROUP BY key) ORDER BY place LIMIT %zu)", most);
}

/* What a row of a snapshot is for: NULL when it is none of the moments, which are sorted. */
static bool timepoint_of(const struct hx_timepoints *timepoints, int64_t snapshot, size_t *ret)
{
    size_t low = HX_LOWER_BOUND(timepoints->v.n, i, timepoints->v.v[i].snapshot < snapshot);
    *ret = low;
    return low < timepoints->v.n && timepoints->v.v[low].snapshot == snapshot;
}

static hx_error *take_label(struct hx_series *series, hx_rows *rows)
{
    struct hx_value label = hx_rows_value(rows, 0);
    struct hx_series_band *band = &series->band[series->n];
    band->label = strdup(label.type == HX_VALUE_TEXT ? label.text : "(unknown)");
    band->bytes = calloc(series->timepoints.v.n, sizeof *band->bytes);
    series->n++; /* given back with the others, whole or not */
    return band->label && band->bytes ? NULL : hx_error_nomem();
}

static hx_error *take_total(struct hx_series *series, hx_rows *rows)
{
    size_t i;
    struct hx_value bytes = hx_rows_value(rows, 1);
    if (timepoint_of(&series->timepoints, hx_rows_value(rows, 0).i, &i) &&
        bytes.type == HX_VALUE_INT)
        series->rest[i] = series->total[i] = bytes.i;
    return NULL;
}

static hx_error *take_bytes(struct hx_series *series, hx_rows *rows)
{
    size_t i;
    int64_t place = hx_rows_value(rows, 1).i;
    struct hx_value bytes = hx_rows_value(rows, 2);
    if (!timepoint_of(&series->timepoints, hx_rows_value(rows, 0).i, &i) || place < 0 ||
        (size_t)place >= series->n || bytes.type != HX_VALUE_INT)
        return NULL;
    series->band[place].bytes[i] = bytes.i;
    if (bytes.i < 0 || __builtin_sub_overflow(series->rest[i], bytes.i, &series->rest[i]))
        return hx_error_new(HX_E_CORRUPT, series->export->title, NULL,
                            "snapshot %" PRId64 " has sizes that cannot be",
                            series->timepoints.v.v[i].snapshot);
    return NULL;
}

static hx_error *take_others(struct hx_series *series, hx_rows *rows)
{
    int64_t keys = hx_rows_value(rows, 0).i;
    series->others = keys > (int64_t)series->n ? (uint64_t)keys - series->n : 0;
    return NULL;
}

typedef hx_error *take_fn(struct hx_series *series, hx_rows *rows);

static hx_error *take_all(struct hx_series *series, struct hx_text *sql, take_fn *take)
{
    hx_rows *rows = NULL;
    HX_TRY(query_svg(series->export, sql, &rows));
    hx_error *err = NULL;
    for (bool more = true; !err && more;) {
        err = hx_rows_next(rows, &more);
        if (!err && more)
            err = take(series, rows);
    }
    hx_rows_end(rows);
    return err;
}

hx_error *hx_series_load(const struct hx_export *export, const struct hx_stored_census *census,
                         size_t most, struct hx_series *series)
{
    bool has;
    struct hx_text sql = {0};
    *series = (struct hx_series){.export = export, .census = census};
    HX_TRY(hx_export_has(export, census, &has));
    if (!has)
        return hx_export_absent(export, census->name);
    HX_TRY(hx_timepoints_load(export, &series->timepoints));
    size_t n = series->timepoints.v.n;
    series->rest = calloc(n, sizeof *series->rest);
    series->total = malloc(n * sizeof *series->total);
    HX_NEED(series->rest && series->total);
    for (size_t i = 0; i < n; i++)
        series->total[i] = -1;

    hx_text_puts(&sql, "SELECT ");
    hx_census_label_sql(census, "key", &sql);
    hx_text_puts(&sql, " FROM ");
    put_largest(series, most < HX_SERIES_MOST ? most : HX_SERIES_MOST, &sql);
    hx_text_puts(&sql, " ORDER BY place");
    HX_TRY(take_all(series, &sql, take_label));

    hx_text_puts(&sql, "SELECT snapshot, sum(bytes) FROM ");
    put_census(series, &sql);
    hx_text_puts(&sql, " GROUP BY snapshot");
    HX_TRY(take_all(series, &sql, take_total));

    hx_text_puts(&sql, "SELECT c.snapshot, t.place, sum(c.bytes) FROM ");
    put_census(series, &sql);
    hx_text_puts(&sql, " AS c JOIN ");
    put_largest(series, series->n, &sql);
    hx_text_puts(&sql, " AS t ON t.key IS c.key GROUP BY 1, 2");
    HX_TRY(take_all(series, &sql, take_bytes));

    hx_text_puts(&sql, "SELECT count(DISTINCT key) FROM ");
    put_census(series, &sql);
    return take_all(series, &sql, take_others);
}

void hx_series_deinit(struct hx_series *series)
{
    for (size_t i = 0; i < series->n; i++) {
        free(series->band[i].label);
        free(series->band[i].bytes);
    }
    free(series->rest);
    free(series->total);
    hx_timepoints_deinit(&series->timepoints);
    *series = (struct hx_series){0};
}

/* --- words ------------------------------------------------------------------------------ */

void hx_series_title(const struct hx_series *series, struct hx_text *text)
{
    const struct hx_timepoints *timepoints = &series->timepoints;
    hx_text_puts(text, timepoints->comm[0] ? timepoints->comm : series->export->title);
    if (timepoints->pid)
        hx_text_putf(text, " (PID %" PRId64 ")", timepoints->pid);
    if (series->census->subject)
        hx_text_putf(text, ": %s", series->census->subject);
    else
        hx_text_putf(text, ": heap by %s", series->census->title);
}

void hx_series_rest(const struct hx_series *series, struct hx_text *text)
{
    hx_text_putf(text, "%" PRIu64 " other%s", series->others, series->others == 1 ? "" : "s");
}

void hx_put_share(struct hx_text *text, int64_t part, int64_t whole)
{
    if (whole <= 0 || part < 0)
        hx_text_putc(text, '-');
    else if (part > 0 && (double)part < 0.0005 * (double)whole)
        hx_text_puts(text, "<0.1%");
    else if (part >= whole)
        hx_text_puts(text, "100%");
    else
        hx_text_putf(text, "%.1f%%", 100.0 * (double)part / (double)whole);
}

/* --- the format ------------------------------------------------------------------------- */

static hx_error *write_svg(const struct hx_export *export, struct hx_sink *sink)
{
    const struct hx_stored_census *census = NULL;
    if (export->by)
        census = hx_census_find(export->by);
    else
        HX_TRY(hx_export_choose(export, &census));
    if (census->subset == HX_SUBSET_BIN)
        return hx_draw_bins(export, sink);
    HX_CLEANUP(hx_series_deinit) struct hx_series series = {0};
    struct hx_timepoints *timepoints = &series.timepoints;
    HX_TRY(hx_timepoints_load(export, timepoints));
    bool one = timepoints->v.n == 1;
    hx_timepoints_deinit(timepoints);
    HX_TRY(hx_series_load(export, census, one ? HX_SERIES_MOST : HX_DRAWING_BANDS, &series));
    return one ? hx_draw_bars(&series, sink) : hx_draw_timeline(&series, sink);
}

const struct hx_exporter hx_export_svg = {
    .name = "svg",
    .about = "drawings for reports: bytes over time, root bins as sets",
    .by = "*",
    .censuses = HX_CENSUS_DRAWN,
    .span = HX_EXPORT_SERIES,
    .write = write_svg,
};
