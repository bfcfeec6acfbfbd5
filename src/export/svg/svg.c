/* svg.c - a census as a drawing for reports: areas over time, bars of one snapshot, and root bins
 * as the intersections of sets. */
#include "export/svg/svg.h"

#include "base/cleanup.h"
#include "store/census_series.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* --- figures -------------------------------------------------------------------------- */

/* The figures of a moment, which is snapshot `at` of the census. */
static void take_timepoint(const struct hx_census_series *from, size_t at, size_t i,
                           struct hx_series *series)
{
    series->total[i] = -1;
    if (at == from->n || !from->known[at])
        return;
    series->total[i] = series->rest[i] = from->rest.bytes[at];
    for (size_t b = 0; b < series->n; b++) {
        series->band[b].bytes[i] = from->band[b].bytes[at];
        if (__builtin_add_overflow(series->total[i], series->band[b].bytes[i], &series->total[i]))
            series->total[i] = INT64_MAX; /* a store that lies */
    }
}

static hx_error *take_series(struct hx_census_series *from, struct hx_series *series)
{
    size_t n = series->timepoints.v.n;
    series->rest = calloc(n, sizeof *series->rest);
    series->total = calloc(n, sizeof *series->total);
    HX_NEED(series->rest && series->total);
    for (; series->n < from->n_bands; series->n++) {
        struct hx_series_band *band = &series->band[series->n];
        band->bytes = calloc(n, sizeof *band->bytes);
        HX_NEED(band->bytes);
        band->label = hx_steal(from->band[series->n].label);
    }
    series->others = from->n_rest;
    for (size_t i = 0; i < n; i++)
        take_timepoint(from, hx_census_series_find(from, series->timepoints.v.v[i].snapshot), i,
                       series);
    return NULL;
}

hx_error *hx_series_load(const struct hx_export *export, const struct hx_stored_census *census,
                         size_t most, struct hx_series *series)
{
    bool has;
    const struct hx_census_series_request request = {.census = census,
                                                     .most = most < HX_SERIES_MOST ? most
                                                                                   : HX_SERIES_MOST,
                                                     .plain = true,
                                                     .snapshot = export->snapshot};
    struct hx_census_series *from = NULL;
    *series = (struct hx_series){.export = export, .census = census};
    HX_TRY(hx_export_has(export, census, &has));
    if (!has)
        return hx_export_absent(export, census->name);
    HX_TRY(hx_timepoints_load(export, &series->timepoints));
    HX_TRY(hx_census_series_read(export->store, &request, export->progress, &from));
    hx_error *err = take_series(from, series);
    hx_census_series_destroy(from);
    return err;
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
