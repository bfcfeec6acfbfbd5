/* chart.c - stacked areas in cells. */
#include "ui/picture/chart.h"

#include "base/cleanup.h"
#include "layout/axis.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define GUTTER 6 /* labels of the y axis, and the axis */
/* A line that is higher than so many times the bands would press them flat. */
#define BEYOND 4
/* Charts with fewer lines have no line of their own for times. */
#define LABELS_MIN 8

/* --- where it is --- */

bool hx_chart_line_beyond(const struct hx_chart *chart)
{
    double bands = hx_areas_highest(&chart->areas);
    return bands > 0 && hx_areas_highest_line(&chart->areas) > BEYOND * bands;
}

static int units_of(const struct hx_chart *chart)
{
    return chart->ink < HX_CHART_COLOR ? 1 : chart->fine ? 8 : 2;
}

void hx_chart_plot(const struct hx_chart *chart, int width, int height, struct hx_plot *ret)
{
    *ret = (struct hx_plot){.left = GUTTER, .units = units_of(chart)};
    ret->labels = height >= LABELS_MIN;
    ret->height = height - (ret->labels ? 2 : 1);
    ret->width = width - GUTTER - 1;
    if (ret->height < 1 || ret->width < 1)
        ret->height = ret->width = 0;
    bool beyond = hx_chart_line_beyond(chart);
    double line = beyond ? 0 : hx_areas_highest_line(&chart->areas);
    if (beyond && ret->height > 3) { /* a line for it alone */
        ret->upper = 1;
        ret->height--;
    }
    ret->top = fmax(hx_areas_highest(&chart->areas), line);
    if (!(ret->top > 0))
        ret->top = 1;
}

/* The column of a snapshot. */
static int snapshot_column(const struct hx_chart *chart, const struct hx_plot *plot, size_t i)
{
    return hx_areas_column_of(&chart->areas, plot->width, i);
}

static void band_edges(const struct hx_chart *chart, const struct hx_plot *plot,
                       const struct hx_areas_column *column, int ret[HX_AREAS_BANDS])
{
    hx_areas_edges(&chart->areas, column, plot->height * plot->units, plot->top, ret);
}

/* --- bands --- */

char hx_chart_letter(const struct hx_chart *chart, size_t band)
{
    return chart->other && band + 1 == chart->areas.n_bands ? 'o' : (char)('a' + band % 26);
}

/* Of others always the last, however many there are. */
static enum hx_style band_style(const struct hx_chart *chart, size_t band)
{
    bool other = chart->other && band + 1 == chart->areas.n_bands;
    return HX_STYLE_BAND + (other ? HX_BANDS - 1 : (int)(band % HX_BANDS));
}

uint32_t hx_chart_fill(const struct hx_chart *chart, size_t band)
{
    /* All of them are in the fonts of the Linux console. */
    static const uint32_t patterns[HX_BANDS] = {0x2588, 0x2591, 0x2593, 0x2550,
                                                0x2592, 0x2551, 0x256c, 0x253c};
    bool other = chart->other && band + 1 == chart->areas.n_bands;
    switch (chart->ink) {
    case HX_CHART_ASCII:
        return other ? '.' : (uint32_t)hx_chart_letter(chart, band);
    case HX_CHART_MONO:
        return other ? 0xb7 : patterns[band % HX_BANDS];
    case HX_CHART_COLOR:
        return other ? 0x2591 : 0x2588;
    case HX_CHART_BLEND:
        break;
    }
    return 0x2588;
}

/* The band of a unit; HX_CHART_NONE above all. */
static size_t band_at(const struct hx_chart *chart, const int *edge, int unit)
{
    for (size_t b = 0; b < chart->areas.n_bands; b++)
        if (unit < edge[b])
            return b;
    return HX_CHART_NONE;
}

/* The lower part of a cell, in units. */
static uint32_t part_of_cell(int part, int units)
{
    return units == 2 ? 0x2584 : part >= units ? 0x2588 : 0x2580 + (uint32_t)part;
}

/* The chosen band is strewn with its letter. */
static bool strewn(int x, int line)
{
    return (x + 4 * line) % 8 == 0;
}

/* The letter of a band on a cell of it. */
static struct hx_ink letter_cell(const struct hx_chart *chart, size_t band)
{
    uint8_t style = (uint8_t)band_style(chart, band);
    bool blend = chart->ink == HX_CHART_BLEND;
    struct hx_ink ink = {.c = (uint32_t)hx_chart_letter(chart, band),
                         .style = blend ? HX_STYLE_MARK : style,
                         .over = blend ? style : 0};
    return ink;
}

static struct hx_ink whole_cell(const struct hx_chart *chart, size_t band, int x, int line)
{
    struct hx_ink ink = {hx_chart_fill(chart, band), (uint8_t)band_style(chart, band), 0};
    if (band != chart->chosen)
        return ink;
    if (chart->ink == HX_CHART_ASCII)
        ink.c = (uint32_t)hx_chart_letter(chart, band) - 'a' + 'A';
    else if (strewn(x, line))
        return letter_cell(chart, band);
    return ink;
}

/* The cell of a column whose lowest unit is `low`. */
static struct hx_ink band_cell(const struct hx_chart *chart, const struct hx_plot *plot,
                               const int *edge, int low, int x, int line)
{
    int units = plot->units;
    size_t bottom = band_at(chart, edge, low), top = band_at(chart, edge, low + units - 1);
    if (bottom == HX_CHART_NONE)
        return (struct hx_ink){0};
    if (top == HX_CHART_NONE) {
        int part = edge[chart->areas.n_bands - 1] - low;
        size_t band = band_at(chart, edge, low + (part - 1) / 2);
        struct hx_ink ink = {part_of_cell(part, units), (uint8_t)band_style(chart, band), 0};
        return ink;
    }
    if (bottom != top && chart->ink == HX_CHART_BLEND) {
        struct hx_ink ink = {part_of_cell(edge[bottom] - low, units),
                             (uint8_t)band_style(chart, bottom), (uint8_t)band_style(chart, top)};
        return ink;
    }
    return whole_cell(chart, band_at(chart, edge, low + units / 2), x, line);
}

static void draw_column(const struct hx_chart *chart, const struct hx_plot *plot,
                        const struct hx_areas_column *column, int x, struct hx_canvas *canvas)
{
    int edge[HX_AREAS_BANDS];
    int hatched = 0;
    if (column->known)
        band_edges(chart, plot, column, edge);
    else if (column->whole > 0)
        hatched = (int)ceil(fmin(column->whole / plot->top, 1) * plot->height);
    for (int line = 0; line < plot->height; line++) {
        int row = plot->height - 1 - line; /* from below */
        struct hx_ink *ink = hx_canvas_at(canvas, plot->left + x, plot->upper + line);
        if (!ink)
            continue;
        if (column->known)
            *ink = band_cell(chart, plot, edge, row * plot->units, x, line);
        else if (row < hatched && (x + line) % 2 == 0)
            *ink = (struct hx_ink){'/', HX_STYLE_DIM, 0};
    }
}

/* Is a cell the band's, and are those beside it? */
static bool is_inside_band(const struct hx_chart *chart, size_t band,
                           const struct hx_canvas *canvas, int x, int y)
{
    for (int i = x - 1; i <= x + 1; i++) {
        const struct hx_ink *ink = hx_canvas_at(canvas, i, y);
        if (!ink || ink->over || ink->c != hx_chart_fill(chart, band) ||
            ink->style != band_style(chart, band))
            return false;
    }
    return true;
}

/* Each band has its letter once: where it is thickest, near the middle. */
static void draw_letters(const struct hx_chart *chart, const struct hx_plot *plot,
                         const struct hx_areas_column *column, struct hx_canvas *canvas)
{
    int best[HX_BANDS] = {0}, left[HX_BANDS], line[HX_BANDS], edge[HX_AREAS_BANDS];
    for (int x = 0; x < plot->width; x++) {
        if (!column[x].known)
            continue;
        band_edges(chart, plot, &column[x], edge);
        for (size_t b = 0; b < chart->areas.n_bands; b++) {
            int low = b ? edge[b - 1] : 0, off = abs(x - plot->width / 2);
            int value = (edge[b] - low) * HX_CANVAS_MAX + HX_CANVAS_MAX - off;
            int y = plot->upper + plot->height - 1 - (low + edge[b]) / 2 / plot->units;
            if (value <= best[b] || !is_inside_band(chart, b, canvas, plot->left + x, y))
                continue;
            best[b] = value;
            left[b] = plot->left + x;
            line[b] = y;
        }
    }
    for (size_t b = 0; b < chart->areas.n_bands; b++)
        if (best[b] && b != chart->chosen)
            *hx_canvas_at(canvas, left[b], line[b]) = letter_cell(chart, b);
}

/* --- lines --- */

/* A character of a line; what lies under it keeps its colour where a cell can have two. */
static void put_line_cell(const struct hx_chart *chart, struct hx_canvas *canvas, int x, int y,
                          uint32_t c)
{
    struct hx_ink *ink = hx_canvas_at(canvas, x, y);
    if (!ink)
        return;
    bool area = ink->style >= HX_STYLE_BAND && ink->style <= HX_STYLE_BAND_LAST && ink->c == 0x2588;
    uint8_t over = ink->over ? ink->over : area ? ink->style : 0;
    *ink = (struct hx_ink){c, HX_STYLE_MARK, chart->ink == HX_CHART_BLEND ? over : 0};
}

/* The line of the canvas on which a value lies. */
static int value_line(const struct hx_plot *plot, double value)
{
    int row = (int)lround(value / plot->top * plot->height) - 1;
    row = row < 0 ? 0 : row >= plot->height ? plot->height - 1 : row;
    return plot->upper + plot->height - 1 - row;
}

static void draw_line(const struct hx_chart *chart, const struct hx_plot *plot,
                      const struct hx_areas_column *column, struct hx_canvas *canvas)
{
    static const uint32_t boxes[] = {0x2500, 0x2502, 0x256f, 0x256d, 0x256e, 0x2570};
    static const uint32_t ascii[] = {'-', '|', '+', '+', '+', '+'};
    const uint32_t *c = chart->ink == HX_CHART_ASCII ? ascii : boxes;
    int before = -1;
    for (int x = 0; x < plot->width; x++) {
        if (column[x].line < 0) {
            before = -1;
            continue;
        }
        int y = value_line(plot, column[x].line), at = plot->left + x;
        if (before < 0 || before == y) {
            put_line_cell(chart, canvas, at, y, c[0]);
        } else {
            bool up = y < before;
            put_line_cell(chart, canvas, at, before, up ? c[2] : c[4]);
            for (int i = up ? y + 1 : before + 1; i < (up ? before : y); i++)
                put_line_cell(chart, canvas, at, i, c[1]);
            put_line_cell(chart, canvas, at, y, up ? c[3] : c[5]);
        }
        before = y;
    }
}

/* Above the broken axis; how high it comes stands there. */
static void draw_beyond(const struct hx_chart *chart, const struct hx_plot *plot,
                        const struct hx_areas_column *column, struct hx_canvas *canvas)
{
    bool ascii = chart->ink == HX_CHART_ASCII;
    char label[HX_HUMAN];
    for (int x = 0; x < plot->width; x++)
        if (column[x].line >= 0)
            put_line_cell(chart, canvas, plot->left + x, 0, ascii ? '-' : 0x2500);
    hx_human_bytes((uint64_t)fmin(hx_areas_highest_line(&chart->areas), 9e18), label);
    hx_canvas_text(canvas, plot->left - 1 - (int)strlen(label), 0, label, HX_STYLE_DIM);
    hx_canvas_put(canvas, plot->left - 1, 0, ascii ? '~' : 0x2248, HX_STYLE_DIM);
}

/* Heavier where it crosses the chosen band. */
static void draw_cursor(const struct hx_chart *chart, const struct hx_plot *plot,
                        const struct hx_areas_column *column, struct hx_canvas *canvas)
{
    if (chart->cursor >= chart->areas.n || chart->areas.n < 2)
        return;
    int x = snapshot_column(chart, plot, chart->cursor), edge[HX_AREAS_BANDS];
    bool ascii = chart->ink == HX_CHART_ASCII;
    band_edges(chart, plot, &column[x], edge);
    for (int line = 0; line < plot->height; line++) {
        int middle = (plot->height - 1 - line) * plot->units + plot->units / 2;
        bool chosen = column[x].known && chart->chosen < chart->areas.n_bands &&
                      band_at(chart, edge, middle) == chart->chosen;
        put_line_cell(chart, canvas, plot->left + x, plot->upper + line,
                      ascii    ? (chosen ? '#' : '|')
                      : chosen ? 0x2503
                               : 0x2502);
    }
}

/* --- axes --- */

static void draw_bytes(const struct hx_chart *chart, const struct hx_plot *plot,
                       struct hx_canvas *canvas)
{
    bool ascii = chart->ink == HX_CHART_ASCII;
    int most = plot->height > 20 ? 10 : plot->height > 3 ? plot->height / 2 : 1;
    int axis = plot->left - 1;
    double step = hx_nice_bytes(plot->top, most);
    int zero = plot->upper + plot->height;
    for (int line = plot->upper; line < zero; line++)
        hx_canvas_put(canvas, axis, line, ascii ? '|' : 0x2502, HX_STYLE_DIM);
    hx_canvas_put(canvas, axis, zero, ascii ? '+' : 0x2514, HX_STYLE_DIM);
    hx_canvas_put(canvas, axis - 1, zero, '0', HX_STYLE_DIM);
    if (plot->top < step) /* the only tick would be above it */
        step = hx_nice_bytes(plot->top / 2, most);
    for (double value = step; value <= plot->top * 1.0001; value += step) {
        char label[HX_HUMAN];
        int line = value_line(plot, value);
        hx_put_nice_bytes(value, label);
        hx_canvas_text(canvas, axis - (int)strlen(label), line, label, HX_STYLE_DIM);
        hx_canvas_put(canvas, axis, line, ascii ? '+' : 0x2524, HX_STYLE_DIM);
    }
}

/* Where snapshots are, as long as they can be told apart. */
static void draw_samples(const struct hx_chart *chart, const struct hx_plot *plot,
                         const struct hx_areas_column *column, struct hx_canvas *canvas)
{
    bool ascii = chart->ink == HX_CHART_ASCII;
    for (int x = 0; x < plot->width; x++) {
        bool mark =
            column[x].sampled && chart->areas.n > 1 && chart->areas.n <= (size_t)plot->width / 3;
        hx_canvas_put(canvas, plot->left + x, plot->upper + plot->height,
                      ascii  ? (mark ? '\'' : '-')
                      : mark ? 0x2534
                             : 0x2500,
                      HX_STYLE_DIM);
    }
}

static void draw_times(const struct hx_chart *chart, const struct hx_plot *plot,
                       struct hx_canvas *canvas)
{
    if (chart->areas.n < 2)
        return;
    bool ascii = chart->ink == HX_CHART_ASCII;
    double span = chart->areas.time[chart->areas.n - 1] - chart->areas.time[0];
    double step = hx_nice_seconds(span, plot->width / 12 > 1 ? plot->width / 12 : 1);
    int axis = plot->upper + plot->height, y = axis + (plot->labels ? 1 : 0), end = -1;
    for (double at = 0; span > 0 && at <= span * 1.0001; at += step) {
        char label[32];
        int x = (int)lround(at / span * (plot->width - 1));
        hx_put_nice_seconds(at, label);
        int n = (int)strlen(label);
        if (plot->labels)
            hx_canvas_put(canvas, plot->left + x, axis, ascii ? '+' : 0x252c, HX_STYLE_DIM);
        int from = x + n > plot->width ? plot->width - n : x;
        if (from > end) {
            hx_canvas_text(canvas, plot->left + from, y, label, HX_STYLE_DIM);
            end = from + n;
        }
    }
}

static void draw_marks(const struct hx_chart *chart, const struct hx_plot *plot,
                       struct hx_canvas *canvas)
{
    bool ascii = chart->ink == HX_CHART_ASCII;
    int axis = plot->upper + plot->height;
    if (chart->cursor < chart->areas.n && chart->areas.n > 1)
        hx_canvas_put(canvas, plot->left + snapshot_column(chart, plot, chart->cursor), axis,
                      ascii ? '^' : 0x25b2, HX_STYLE_MARK);
    if (chart->marked < chart->areas.n)
        hx_canvas_put(canvas, plot->left + snapshot_column(chart, plot, chart->marked), axis, '*',
                      HX_STYLE_MARK);
}

hx_error *hx_chart_draw(const struct hx_chart *chart, struct hx_canvas *canvas)
{
    struct hx_plot plot;
    hx_chart_plot(chart, canvas->width, canvas->height, &plot);
    if (!chart->areas.n || !plot.width)
        return NULL;
    HX_FREE struct hx_areas_column *column = calloc((size_t)plot.width, sizeof *column);
    HX_NEED(column);
    hx_areas_columns(&chart->areas, plot.width, column);
    for (int x = 0; x < plot.width; x++)
        draw_column(chart, &plot, &column[x], x, canvas);
    if (chart->ink != HX_CHART_ASCII)
        draw_letters(chart, &plot, column, canvas);
    if (plot.upper)
        draw_beyond(chart, &plot, column, canvas);
    else if (chart->areas.line && !hx_chart_line_beyond(chart))
        draw_line(chart, &plot, column, canvas);
    draw_cursor(chart, &plot, column, canvas);
    draw_samples(chart, &plot, column, canvas);
    draw_bytes(chart, &plot, canvas);
    draw_times(chart, &plot, canvas);
    draw_marks(chart, &plot, canvas);
    return NULL;
}

bool hx_chart_at(const struct hx_chart *chart, int width, int height, int x, int y,
                 size_t *ret_snapshot, size_t *ret_band)
{
    struct hx_plot plot;
    int edge[HX_AREAS_BANDS];
    hx_chart_plot(chart, width, height, &plot);
    x -= plot.left;
    if (!chart->areas.n || x < 0 || y < 0 || x >= plot.width)
        return false;
    HX_FREE struct hx_areas_column *column = calloc((size_t)plot.width, sizeof *column);
    if (!column)
        return false;
    hx_areas_columns(&chart->areas, plot.width, column);
    if (column[x].snapshot == HX_CHART_NONE)
        return false;
    *ret_snapshot = column[x].snapshot;
    *ret_band = HX_CHART_NONE;
    y -= plot.upper;
    if (column[x].known && y >= 0 && y < plot.height) {
        band_edges(chart, &plot, &column[x], edge);
        int middle = (plot.height - 1 - y) * plot.units + plot.units / 2;
        *ret_band = band_at(chart, edge, middle);
    }
    return true;
}
