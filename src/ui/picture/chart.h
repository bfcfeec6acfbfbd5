/* chart.h - a stacked area chart: bytes in bands over time, with axes.
 *
 * Bands lie on each other, the first at the bottom; places on the x axis are proportional to
 * time. Where several snapshots fall into one column, the one with most bytes is drawn, so that no
 * peak is lost; between snapshots lie straight lines. What is drawn depends on nothing else than
 * the chart and the size.
 */
#ifndef HX_UI_PICTURE_CHART_H
#define HX_UI_PICTURE_CHART_H

#include "ui/picture/canvas.h"

#define HX_CHART_NONE ((size_t)-1)

/* How bands are told from each other. */
enum hx_chart_ink {
    HX_CHART_ASCII, /* by letters */
    HX_CHART_MONO,  /* by patterns */
    HX_CHART_COLOR, /* by colours */
    HX_CHART_BLEND, /* the same, and a cell can have two of them */
};

/* Nothing is owned. Invariants: n_bands <= HX_BANDS; time never falls; values of snapshots that
 * are known are not negative. */
struct hx_chart {
    size_t n;           /* snapshots */
    const double *time; /* seconds */
    size_t n_bands;
    const int64_t *value[HX_BANDS]; /* in each snapshot */
    const bool *known;              /* has the snapshot this break-down? */
    const int64_t *whole; /* the height of what is not known; -1, or NULL for all: not even that */
    const int64_t *line;  /* drawn over it; -1: not measured; NULL: no line */
    bool other;           /* the last band is what the others leave */

    size_t cursor; /* snapshot; HX_CHART_NONE: none of it */
    size_t marked; /* the same */
    size_t chosen; /* band; the same */
    enum hx_chart_ink ink;
    bool fine; /* there are eighths of cells */
};

/* The line would leave too little room for the bands: the axis is broken, and it lies above. */
bool hx_chart_line_beyond(const struct hx_chart *chart);

/* Draws it on the whole of a canvas. */
hx_error *hx_chart_draw(const struct hx_chart *chart, struct hx_canvas *canvas);

/* The snapshot at a place of a canvas of that size, and the band there (HX_CHART_NONE: none).
 * False when it is none of the chart. */
bool hx_chart_at(const struct hx_chart *chart, int width, int height, int x, int y,
                 size_t *ret_snapshot, size_t *ret_band);

/* What a band is drawn with, and its letter ("o" of others). */
uint32_t hx_chart_fill(const struct hx_chart *chart, size_t band);
char hx_chart_letter(const struct hx_chart *chart, size_t band);

/* The part of a canvas that the areas take. */
struct hx_plot {
    int left, upper, width, height;
    bool labels; /* there is a line for times below the axis */
    int units;   /* of a cell's height */
    double top;  /* bytes at its upper edge */
};
void hx_chart_plot(const struct hx_chart *chart, int width, int height, struct hx_plot *ret);

/* One column of it. */
struct hx_chart_column {
    bool sampled;    /* a snapshot is here, else between two */
    bool known;      /* values are; else `whole` perhaps (-1: not) */
    size_t snapshot; /* the one that is drawn, or nearest */
    double value[HX_BANDS], sum, whole, line;
};
/* Fills ret[0 .. plot->width - 1]. */
void hx_chart_columns(const struct hx_chart *chart, const struct hx_plot *plot,
                      struct hx_chart_column *ret);

/* Upper edges of the bands of a column, in units from below. ret[n_bands - 1] is that of all;
 * none is above height * units. */
void hx_chart_edges(const struct hx_chart *chart, const struct hx_plot *plot,
                    const struct hx_chart_column *column, int ret[HX_BANDS]);

/* Steps of axes: the smallest nice one with at most `most` steps in `range`. Bytes: 1, 2, 5, 10,
 * ... 500 of B, K, M, ..., a fourth and half of these; time in seconds. */
double hx_nice_bytes(double range, int most);
double hx_nice_seconds(double range, int most);
/* "0", "500K", "10M": of a multiple of a nice step; "+90s", "+2h", "+1d6h". */
void hx_put_nice_bytes(double bytes, char ret[HX_HUMAN]);
void hx_put_nice_seconds(double seconds, char ret[32]);

#endif
