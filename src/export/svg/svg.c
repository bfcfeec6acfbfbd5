/* svg.c - a census as a drawing for reports: areas over time, bars of one snapshot, and root bins
 * as the intersections of sets. */
#include "export/svg/svg.h"

#include "base/cleanup.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* --- figures -------------------------------------------------------------------------- */

hx_error *hx_series_load(const struct hx_export *export, const struct hx_stored_census *census,
                         size_t most, struct hx_series *series)
{
    bool has;
    const struct hx_census_series_request request = {.census = census,
                                                     .most = most < HX_SERIES_MOST ? most
                                                                                   : HX_SERIES_MOST,
                                                     .plain = true,
                                                     .snapshot = export->snapshot};
    *series = (struct hx_series){.export = export};
    HX_TRY(hx_export_has(export, census, &has));
    if (!has)
        return hx_export_absent(export, census->name);
    HX_TRY(hx_timepoints_load(export, &series->timepoints));
    HX_TRY(hx_census_series_read(export->store, &request, export->progress, &series->figures));
    const struct hx_census_series *figures = series->figures;
    const struct hx_timepoint *timepoint = series->timepoints.v.v;
    size_t last = series->timepoints.v.n - 1;
    series->first = hx_census_series_find(figures, timepoint[0].snapshot);
    if (series->first + last >= figures->n ||
        figures->snapshot[series->first + last] != timepoint[last].snapshot)
        return hx_error_new(HX_E_FAIL, export->title, NULL, "was changed while it was read");
    return NULL;
}

void hx_series_deinit(struct hx_series *series)
{
    hx_census_series_destroy(series->figures);
    hx_timepoints_deinit(&series->timepoints);
    *series = (struct hx_series){0};
}

const int64_t *hx_series_bytes(const struct hx_series *series, size_t band)
{
    const struct hx_census_series *figures = series->figures;
    return (band < figures->n_bands ? figures->band[band].bytes : figures->rest.bytes) +
           series->first;
}

int64_t hx_series_total(const struct hx_series *series, size_t timepoint)
{
    int64_t sum = 0;
    if (!series->figures->known[series->first + timepoint])
        return -1;
    for (size_t b = 0; b <= series->figures->n_bands; b++)
        if (__builtin_add_overflow(sum, hx_series_bytes(series, b)[timepoint], &sum))
            sum = INT64_MAX; /* a store that lies */
    return sum;
}

/* --- words ------------------------------------------------------------------------------ */

void hx_timepoints_title(const struct hx_timepoints *timepoints, const struct hx_export *export,
                         const struct hx_stored_census *census, struct hx_text *text)
{
    hx_text_puts(text, timepoints->comm[0] ? timepoints->comm : export->title);
    if (timepoints->pid)
        hx_text_putf(text, " (PID %" PRId64 ")", timepoints->pid);
    if (census->subject)
        hx_text_putf(text, ": %s", census->subject);
    else
        hx_text_putf(text, ": heap by %s", census->title);
}

void hx_series_rest(const struct hx_series *series, struct hx_text *text)
{
    size_t n = series->figures->n_rest;
    hx_text_putf(text, "%zu other%s", n, n == 1 ? "" : "s");
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
