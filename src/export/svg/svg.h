/* svg.h - what the drawings of censuses share: the figures, and axes. Used by svg*.c only. */
#ifndef HX_EXPORT_SVG_SVG_H
#define HX_EXPORT_SVG_SVG_H

#include "export/svg/drawing.h"
#include "export/timepoints.h"
#include "store/census_series.h"

enum { HX_SERIES_MOST = 12 };

/* One census over time: the bands with most bytes in all, and what the others leave. */
struct hx_series {
    const struct hx_export *export;
    struct hx_timepoints timepoints;
    struct hx_census_series *figures; /* of all snapshots; moments have the same order */
    size_t first;                     /* of them: the first moment */
};

/* At most `most` bands. HX_E_ABSENT: no data. To be given back also after an error. */
hx_error *hx_series_load(const struct hx_export *export, const struct hx_stored_census *census,
                         size_t most, struct hx_series *series);
void hx_series_deinit(struct hx_series *series);

/* The bytes of a band in each moment; number `figures->n_bands` is the rest. */
const int64_t *hx_series_bytes(const struct hx_series *series, size_t band);
/* All of them in a moment; -1: the census was not made of it. */
int64_t hx_series_total(const struct hx_series *series, size_t timepoint);

/* "python3 (PID 12): heap by types". */
void hx_timepoints_title(const struct hx_timepoints *timepoints, const struct hx_export *export,
                         const struct hx_stored_census *census, struct hx_text *text);
/* "17 others" */
void hx_series_rest(const struct hx_series *series, struct hx_text *text);

/* "33.1%", "100%", "<0.1%"; of 0: "-". */
void hx_put_share(struct hx_text *text, int64_t part, int64_t whole);

/* Each writes a whole document. */
hx_error *hx_draw_timeline(const struct hx_series *series, struct hx_sink *sink);
hx_error *hx_draw_bars(const struct hx_series *series, struct hx_sink *sink);
hx_error *hx_draw_bins(const struct hx_export *export, struct hx_sink *sink);

#endif
