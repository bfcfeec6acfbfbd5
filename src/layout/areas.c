/* areas.c - from bands over time to columns and edges. */
#include "layout/areas.h"

#include <math.h>

double hx_areas_place(const struct hx_areas *areas, size_t i, double length)
{
    if (areas->n < 2)
        return 0;
    double span = areas->time[areas->n - 1] - areas->time[0];
    return span > 0 ? length * (areas->time[i] - areas->time[0]) / span
                    : length * (double)i / (double)(areas->n - 1);
}

double hx_areas_edge(const struct hx_areas *areas, size_t i, size_t bands)
{
    double sum = 0;
    for (size_t b = 0; b < bands; b++)
        sum += areas->value[b][i] > 0 ? (double)areas->value[b][i] : 0;
    return sum;
}

static double whole_of(const struct hx_areas *areas, size_t i)
{
    return areas->whole ? (double)areas->whole[i] : -1;
}

static double height_of(const struct hx_areas *areas, size_t i)
{
    return areas->known[i] ? hx_areas_edge(areas, i, areas->n_bands) : whole_of(areas, i);
}

double hx_areas_highest(const struct hx_areas *areas)
{
    double most = 0;
    for (size_t i = 0; i < areas->n; i++)
        most = fmax(most, height_of(areas, i));
    return most;
}

double hx_areas_highest_line(const struct hx_areas *areas)
{
    double most = -1;
    for (size_t i = 0; areas->line && i < areas->n; i++)
        most = fmax(most, (double)areas->line[i]);
    return most;
}

bool hx_areas_higher(const struct hx_areas *areas, size_t i, size_t other)
{
    return areas->known[i] != areas->known[other] ? areas->known[i]
                                                  : height_of(areas, i) > height_of(areas, other);
}

/* --- columns --- */

int hx_areas_column_of(const struct hx_areas *areas, int width, size_t i)
{
    int x = (int)lround(hx_areas_place(areas, i, 1) * (width - 1));
    return x < 0 ? 0 : x >= width ? width - 1 : x;
}

static void sample(const struct hx_areas *areas, size_t i, struct hx_areas_column *column)
{
    double line = areas->line ? (double)areas->line[i] : -1;
    column->line = column->sampled && column->line > line ? column->line : line;
    if (column->sampled && !hx_areas_higher(areas, i, column->snapshot))
        return;
    column->sampled = true;
    column->known = areas->known[i];
    column->snapshot = i;
    column->sum = column->known ? hx_areas_edge(areas, i, areas->n_bands) : 0;
    column->whole = whole_of(areas, i);
    for (size_t b = 0; b < areas->n_bands; b++)
        column->value[b] = column->known ? fmax(0, (double)areas->value[b][i]) : 0;
}

static double between(double a, double b, double part)
{
    return a < 0 || b < 0 ? (part < 0.5 ? a : b) : a + (b - a) * part;
}

/* Between two snapshots: straight lines; where one of them is not known, the nearer decides. */
static void fill_between(const struct hx_areas *areas, struct hx_areas_column *column, int a, int b)
{
    const struct hx_areas_column from = column[a], to = column[b];
    for (int x = a + 1; x < b; x++) {
        double part = (double)(x - a) / (b - a);
        struct hx_areas_column *at = &column[x];
        *at = part < 0.5 ? from : to;
        at->sampled = false;
        at->line = between(from.line, to.line, part);
        at->whole = between(from.whole, to.whole, part);
        at->sum = at->known ? at->sum : 0;
        if (!from.known || !to.known)
            continue;
        at->sum = 0;
        for (size_t i = 0; i < areas->n_bands; i++) {
            at->value[i] = between(from.value[i], to.value[i], part);
            at->sum += at->value[i];
        }
    }
}

/* One snapshot is a bar. */
static int bar_width(int width)
{
    return width / 3 > 8 ? width / 3 : width < 8 ? width : 8;
}

void hx_areas_columns(const struct hx_areas *areas, int width, struct hx_areas_column *ret)
{
    for (int x = 0; x < width; x++)
        ret[x] = (struct hx_areas_column){.snapshot = SIZE_MAX, .whole = -1, .line = -1};
    for (size_t i = 0; i < areas->n; i++)
        sample(areas, i, &ret[hx_areas_column_of(areas, width, i)]);
    int last = -1;
    for (int x = 0; x < width; x++) {
        if (!ret[x].sampled)
            continue;
        if (last >= 0)
            fill_between(areas, ret, last, x);
        last = x;
    }
    for (int x = 1; areas->n == 1 && x < bar_width(width); x++)
        ret[x] = ret[0];
}

void hx_areas_edges(const struct hx_areas *areas, const struct hx_areas_column *column, int units,
                    double top, int ret[HX_AREAS_BANDS])
{
    double scale = units / top, sum = 0;
    size_t largest = 0, n = areas->n_bands;
    for (size_t b = 0; b < n; b++) {
        sum += column->value[b];
        ret[b] = (int)lround(fmin(sum * scale, units));
        if (column->value[b] > column->value[largest])
            largest = b;
    }
    bool nothing = n && sum > 0 && ret[n - 1] == 0;
    for (size_t b = largest; nothing && b < n; b++)
        ret[b] = 1;
}
