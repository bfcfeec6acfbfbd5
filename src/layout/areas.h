/* areas.h - the layout of stacked areas: bytes in bands over time.
 *
 * Bands lie on each other, the first at the bottom; places on the x axis are proportional to
 * time. Where several snapshots fall into one column, the one with most bytes is drawn, so that no
 * peak is lost; between snapshots lie straight lines. Knows neither cells nor SVG.
 */
#ifndef HX_LAYOUT_AREAS_H
#define HX_LAYOUT_AREAS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define HX_AREAS_BANDS 9 /* at most: a palette, and what the others leave */

/* Nothing is owned. Invariants: n_bands <= HX_AREAS_BANDS; time never falls. */
struct hx_areas {
    size_t n;           /* snapshots */
    const double *time; /* of any unit */
    size_t n_bands;
    const int64_t *value[HX_AREAS_BANDS]; /* in each snapshot; below 0 it is drawn as 0 */
    const bool *known;                    /* has the snapshot this break-down? */
    const int64_t *whole; /* the height of what is not known; -1, or NULL for all: not even that */
    const int64_t *line;  /* drawn over it; -1: not measured; NULL: no line */
};

/* Where a snapshot is on an axis of that length; snapshots of one time stand evenly. */
double hx_areas_place(const struct hx_areas *areas, size_t i, double length);

/* The upper edge of its lowest bands, so many of them, in bytes. */
double hx_areas_edge(const struct hx_areas *areas, size_t i, size_t bands);

/* The highest snapshot, 0 and more, and the highest point of the line, -1 without one. */
double hx_areas_highest(const struct hx_areas *areas);
double hx_areas_highest_line(const struct hx_areas *areas);

/* Is snapshot i drawn where it falls into one column with `other`, which comes before it? */
bool hx_areas_higher(const struct hx_areas *areas, size_t i, size_t other);

/* What is drawn in a column. */
struct hx_areas_column {
    bool sampled;    /* a snapshot is here, else between two */
    bool known;      /* values are; else `whole` perhaps (-1: not) */
    size_t snapshot; /* the one that is drawn, or nearest; SIZE_MAX: none is near */
    double value[HX_AREAS_BANDS], sum, whole, line;
};

/* The column of a snapshot among `width`. */
int hx_areas_column_of(const struct hx_areas *areas, int width, size_t i);
/* Fills ret[0 .. width - 1]. */
void hx_areas_columns(const struct hx_areas *areas, int width, struct hx_areas_column *ret);

/* Upper edges of the bands of a column, in units from below, where `units` stand for `top` bytes.
 * ret[n_bands - 1] is that of all; none is above `units`, and what is something is not drawn as
 * nothing. */
void hx_areas_edges(const struct hx_areas *areas, const struct hx_areas_column *column, int units,
                    double top, int ret[HX_AREAS_BANDS]);

#endif
