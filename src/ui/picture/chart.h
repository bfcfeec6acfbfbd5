/* chart.h - stacked areas in cells, with axes. What is drawn depends on nothing else than the chart
 * and the size.
 */
#ifndef HX_UI_PICTURE_CHART_H
#define HX_UI_PICTURE_CHART_H

#include "layout/areas.h"
#include "ui/picture/canvas.h"

#define HX_CHART_NONE ((size_t)-1)

/* How bands are told from each other. */
enum hx_chart_ink {
    HX_CHART_ASCII, /* by letters */
    HX_CHART_MONO,  /* by patterns */
    HX_CHART_COLOR, /* by colours */
    HX_CHART_BLEND, /* the same, and a cell can have two of them */
};

/* Nothing is owned. Invariant: areas.n_bands <= HX_BANDS. */
struct hx_chart {
    struct hx_areas areas;
    bool other;    /* the last band is what the others leave */
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

#endif
