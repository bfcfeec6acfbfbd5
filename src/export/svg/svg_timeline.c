/* svg_timeline.c - a census over time as stacked areas, and of one snapshot as bars. */
#include "export/svg/svg.h"

#include "base/cleanup.h"
#include "layout/areas.h"
#include "layout/axis.h"
#include "layout/type_name.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* Where things are. Left of the plot is room for "1.125G", below it for two lines. */
enum {
    EDGE = HX_DRAWING_LEFT,
    LEFT = 84,
    RIGHT = HX_DRAWING_RIGHT,
    UPPER = 76,
    PLOT = 300,
    LOWER = UPPER + PLOT,
    LEGEND = LOWER + 82,
    LINE = 25,
    BYTES = 610, /* right end of this column of the legend, and of the names */
    NAMES = 528,
    DOTS = 40,     /* moments that have one at most */
    COLUMNS = 600, /* moments that are drawn at most */
};

#define BAND_STYLE                                                                                 \
    ".band{stroke:var(--page);stroke-width:.7;stroke-linejoin:round}"                              \
    ".band:hover{opacity:.8}"                                                                      \
    ".whole{fill:none;stroke:var(--ink);stroke-width:1.6;stroke-linejoin:round}"                   \
    ".dot{fill:var(--page);stroke:var(--ink);stroke-width:1.4}"

struct timeline {
    const struct hx_series *series;
    struct hx_areas areas; /* bands from below: the rest, then the smallest first */
    double *time;          /* since `from` */
    struct hx_bytes_axis bytes;
    HX_VEC(size_t) drawn; /* moments */
    uint64_t from, to;    /* of since_ns: the ends of the axis */
    bool since_first;     /* the axis begins with the first snapshot, not with the process */
    size_t last;          /* moment that has the census */
};

/* The band at a level; number `n` is the rest. */
static size_t band_at(const struct timeline *timeline, size_t level)
{
    return timeline->series->figures->n_bands - level;
}

static bool has_rest(const struct hx_series *series)
{
    return series->figures->n_rest > 0;
}

static double x_of(const struct timeline *timeline, size_t timepoint)
{
    return LEFT + hx_areas_place(&timeline->areas, timepoint, RIGHT - LEFT);
}

/* The upper edge of so many bands. */
static double y_of(const struct timeline *timeline, size_t timepoint, size_t bands)
{
    return hx_bytes_axis_y(&timeline->bytes, hx_areas_edge(&timeline->areas, timepoint, bands));
}

/* --- what is drawn ------------------------------------------------------------------------ */

/* Of many moments the highest in each column, the first and the last always. Moments without the
 * census are kept where they leave a gap. */
static hx_error *choose_timepoints(struct timeline *timeline)
{
    const struct hx_areas *areas = &timeline->areas;
    size_t n = areas->n, best = 0;
    uint64_t column = UINT64_MAX;
    for (size_t i = 0; i < n; i++) {
        uint64_t here = n <= COLUMNS || i == 0 || i == n - 1
                            ? i + COLUMNS
                            : (uint64_t)(hx_areas_place(areas, i, 1) * (COLUMNS - 1));
        if (here == column && hx_areas_higher(areas, i, best))
            timeline->drawn.v[timeline->drawn.n - 1] = best = i;
        if (here == column)
            continue;
        column = here;
        best = i;
        HX_NEED(hx_vec_push(&timeline->drawn, i));
    }
    if (timeline->drawn.n < n)
        hx_text_putf(timeline->series->export->notes,
                     "%zu snapshots are more than it has columns: of each column the largest is"
                     " drawn\n",
                     n);
    return NULL;
}

static hx_error *measure_timeline(struct timeline *timeline)
{
    const struct hx_series *series = timeline->series;
    const struct hx_timepoint *timepoint = series->timepoints.v.v;
    size_t n = series->timepoints.v.n;
    timeline->time = calloc(n, sizeof *timeline->time);
    HX_NEED(timeline->time);
    timeline->from = timepoint[0].since_ns;
    timeline->to = timepoint[n - 1].since_ns;
    timeline->since_first =
        !series->timepoints.has_start || timeline->from / 4 > timeline->to - timeline->from;
    for (size_t i = 0; i < n; i++) {
        timeline->time[i] = (double)(timepoint[i].since_ns - timeline->from);
        if (series->figures->known[series->first + i])
            timeline->last = i;
    }
    timeline->areas = (struct hx_areas){.n = n,
                                        .time = timeline->time,
                                        .known = series->figures->known + series->first,
                                        .n_bands = series->figures->n_bands + 1};
    for (size_t level = 0; level < timeline->areas.n_bands; level++)
        timeline->areas.value[level] = hx_series_bytes(series, band_at(timeline, level));
    timeline->bytes =
        (struct hx_bytes_axis){.x = LEFT, .y = LOWER, .width = RIGHT - LEFT, .height = PLOT};
    hx_bytes_axis_scale(&timeline->bytes, (uint64_t)hx_areas_highest(&timeline->areas), 6);
    return choose_timepoints(timeline);
}

/* --- areas -------------------------------------------------------------------------------- */

static void put_point(struct hx_sink *sink, char how, double x, double y)
{
    hx_sink_putc(sink, how);
    hx_drawing_number(sink, x);
    hx_sink_putc(sink, ' ');
    hx_drawing_number(sink, y);
}

static bool is_known_timepoint(const struct timeline *timeline, size_t i)
{
    return timeline->areas.known[timeline->drawn.v[i]];
}

/* The end of the stretch of known moments that begins at i. */
static size_t stretch(const struct timeline *timeline, size_t i)
{
    while (i < timeline->drawn.n && is_known_timepoint(timeline, i))
        i++;
    return i;
}

/* The outline of a band over a stretch of moments; a single one is a post. */
static void put_outline(struct hx_sink *sink, const struct timeline *timeline, size_t level,
                        size_t from, size_t end)
{
    double half = end - from == 1 ? 1.5 : 0;
    for (size_t i = from; i < end; i++) {
        size_t timepoint = timeline->drawn.v[i];
        double x = x_of(timeline, timepoint), y = y_of(timeline, timepoint, level + 1);
        put_point(sink, i == from ? 'M' : 'L', x - half, y);
        if (half > 0)
            put_point(sink, 'L', x + half, y);
    }
    for (size_t i = end; i-- > from;) {
        size_t timepoint = timeline->drawn.v[i];
        double x = x_of(timeline, timepoint), y = y_of(timeline, timepoint, level);
        put_point(sink, 'L', x + half, y);
        if (half > 0)
            put_point(sink, 'L', x - half, y);
    }
    hx_sink_putc(sink, 'Z');
}

static void put_class(struct hx_text *text, const struct hx_series *series, size_t band)
{
    if (band < series->figures->n_bands)
        hx_text_putf(text, "b%zu", band);
    else
        hx_text_puts(text, "bo");
}

static void put_legend_label(struct hx_text *text, const struct hx_series *series, size_t band)
{
    if (band < series->figures->n_bands)
        hx_text_puts(text, series->figures->band[band].label);
    else
        hx_series_rest(series, text);
}

/* As people say it, unless another band would read the same; into an empty text. */
static void put_short_label(struct hx_text *text, const struct hx_series *series, size_t band)
{
    const struct hx_census_series *figures = series->figures;
    size_t n = hx_census_calls(figures->census) ? 0 : figures->n_bands;
    if (band >= n) {
        put_legend_label(text, series, band);
        return;
    }
    hx_text_type(text, figures->band[band].label);
    for (size_t i = 0; i < n; i++) {
        HX_CLEANUP(hx_text_free) struct hx_text other = {0};
        hx_text_type(&other, figures->band[i].label);
        if (strcmp(figures->band[i].label, figures->band[band].label) == 0 ||
            strcmp(hx_text_str(&other), hx_text_str(text)) != 0)
            continue;
        hx_text_clear(text);
        put_legend_label(text, series, band);
        return;
    }
}

static void draw_band(struct hx_sink *sink, const struct timeline *timeline, size_t level)
{
    const struct hx_series *series = timeline->series;
    size_t band = band_at(timeline, level);
    HX_CLEANUP(hx_text_free) struct hx_text text = {0};
    put_class(&text, series, band);
    hx_sink_putf(sink, "<path class=\"band %s\" data-bytes=\"", hx_text_str(&text));
    for (size_t i = 0; i < timeline->drawn.n; i++)
        if (is_known_timepoint(timeline, i))
            hx_sink_putf(sink, "%s%" PRId64, i ? " " : "",
                         hx_series_bytes(series, band)[timeline->drawn.v[i]]);
        else
            hx_sink_puts(sink, i ? " -" : "-");
    hx_sink_puts(sink, "\" d=\"");
    for (size_t i = 0, end; i < timeline->drawn.n; i = end + (end == i)) {
        end = stretch(timeline, i);
        if (end > i)
            put_outline(sink, timeline, level, i, end);
    }
    hx_sink_puts(sink, "\"><title>");
    hx_text_clear(&text);
    put_legend_label(&text, series, band);
    hx_sink_xml(sink, hx_text_str(&text), text.n);
    hx_sink_puts(sink, "</title></path>\n");
}

/* The heap as a line above all. */
static void draw_whole(struct hx_sink *sink, const struct timeline *timeline)
{
    hx_sink_puts(sink, "<path class=\"whole\" d=\"");
    for (size_t i = 0; i < timeline->drawn.n; i++) {
        size_t timepoint = timeline->drawn.v[i];
        if (is_known_timepoint(timeline, i))
            put_point(sink, i && is_known_timepoint(timeline, i - 1) ? 'L' : 'M',
                      x_of(timeline, timepoint),
                      y_of(timeline, timepoint, timeline->areas.n_bands));
    }
    hx_sink_puts(sink, "\"/>\n");
    for (size_t i = 0; i < timeline->drawn.n && timeline->drawn.n <= DOTS; i++) {
        size_t timepoint = timeline->drawn.v[i];
        if (!is_known_timepoint(timeline, i))
            continue;
        hx_sink_puts(sink, "<circle class=\"dot\" r=\"2.5\"");
        hx_drawing_at(sink, "cx", x_of(timeline, timepoint));
        hx_drawing_at(sink, "cy", y_of(timeline, timepoint, timeline->areas.n_bands));
        hx_sink_puts(sink, "/>\n");
    }
}

static void draw_areas(struct hx_sink *sink, const struct timeline *timeline)
{
    const struct hx_series *series = timeline->series;
    hx_sink_puts(sink, "<g data-snapshots=\"");
    for (size_t i = 0; i < timeline->drawn.n; i++)
        hx_sink_putf(sink, "%s%" PRId64, i ? " " : "",
                     series->timepoints.v.v[timeline->drawn.v[i]].snapshot);
    hx_sink_puts(sink, "\">\n");
    for (size_t level = has_rest(series) ? 0 : 1; level < timeline->areas.n_bands; level++)
        draw_band(sink, timeline, level);
    hx_sink_puts(sink, "</g>\n");
    draw_whole(sink, timeline);
}

/* --- axes --------------------------------------------------------------------------------- */

/* Do the labels of such steps stand apart? */
static bool stand_apart(const struct timeline *timeline, uint64_t first, uint64_t step,
                        uint64_t zero)
{
    double room = (RIGHT - LEFT) * (double)step / (double)(timeline->to - timeline->from);
    for (uint64_t at = first; at <= timeline->to; at += step) {
        HX_CLEANUP(hx_text_free) struct hx_text text = {0};
        hx_put_step_ns(&text, at - zero);
        if (hx_drawing_width(hx_text_str(&text), text.n, HX_LETTER_MOST) + 12 > room)
            return false;
        if (timeline->to - at < step)
            break;
    }
    return true;
}

static void draw_tick(struct hx_sink *sink, const struct timeline *timeline, uint64_t at,
                      uint64_t zero)
{
    HX_CLEANUP(hx_text_free) struct hx_text text = {0};
    double x = LEFT + (RIGHT - LEFT) * (double)(at - timeline->from) /
                          (double)(timeline->to - timeline->from);
    hx_put_step_ns(&text, at - zero);
    double width = hx_drawing_width(hx_text_str(&text), text.n, HX_LETTER_MOST);
    bool at_end = x + width / 2 > HX_DRAWING_WIDTH - 4;
    hx_drawing_line(sink, "axis", x, LOWER, x, LOWER + 5);
    hx_drawing_text(sink, "dim number", at_end ? HX_DRAWING_WIDTH - 4 : x, LOWER + 23,
                    at_end ? HX_ANCHOR_END : HX_ANCHOR_MIDDLE, LEFT * 2, hx_text_str(&text));
}

static void draw_time_axis(struct hx_sink *sink, const struct timeline *timeline)
{
    uint64_t zero = timeline->since_first ? timeline->from : 0;
    uint64_t range = timeline->to - timeline->from, step = 0, first = 0;
    for (unsigned most = 8; most >= 1; most--) {
        step = hx_step_ns(range, most);
        uint64_t from = timeline->from - zero;
        first = zero + (from + step - 1) / step * step;
        if (stand_apart(timeline, first, step, zero))
            break;
    }
    for (uint64_t at = first; at <= timeline->to; at += step) {
        draw_tick(sink, timeline, at, zero);
        if (timeline->to - at < step)
            break;
    }
    hx_drawing_text(sink, "dim", (LEFT + RIGHT) / 2.0, LOWER + 46, HX_ANCHOR_MIDDLE, RIGHT - LEFT,
                    timeline->since_first ? "time since the first snapshot"
                                          : "time since the process began");
}

/* --- words -------------------------------------------------------------------------------- */

static void draw_figures(struct hx_sink *sink, double y, int64_t bytes, int64_t whole)
{
    HX_CLEANUP(hx_text_free) struct hx_text share = {0};
    char human[HX_HUMAN];
    hx_put_share(&share, bytes, whole);
    hx_drawing_text(sink, "number", BYTES, y, HX_ANCHOR_END, 80,
                    hx_human_bytes((uint64_t)bytes, human));
    hx_drawing_text(sink, "dim number", RIGHT, y, HX_ANCHOR_END, 80, hx_text_str(&share));
}

/* As the bands lie, the upper one first. */
static void draw_legend(struct hx_sink *sink, const struct timeline *timeline)
{
    const struct hx_series *series = timeline->series;
    double y = LEGEND;
    hx_drawing_text(sink, "dim", 42, y, HX_ANCHOR_START, NAMES - 42,
                    series->figures->census->title);
    hx_drawing_text(sink, "dim", BYTES, y, HX_ANCHOR_END, 80, "last");
    hx_drawing_text(sink, "dim", RIGHT, y, HX_ANCHOR_END, 80, "share");
    for (size_t level = timeline->areas.n_bands; level-- > (has_rest(series) ? 0 : 1);) {
        HX_CLEANUP(hx_text_free) struct hx_text class = {0}, label = {0};
        size_t band = band_at(timeline, level);
        y += LINE;
        put_class(&class, series, band);
        put_short_label(&label, series, band);
        hx_drawing_box(sink, hx_text_str(&class), EDGE, y - 12, 14, 14, NULL);
        hx_drawing_text(sink, "", 42, y, HX_ANCHOR_START, NAMES - 42, hx_text_str(&label));
        draw_figures(sink, y, hx_series_bytes(series, band)[timeline->last],
                     hx_series_total(series, timeline->last));
    }
}

static void put_subtitle(struct hx_text *text, const struct timeline *timeline)
{
    const struct hx_timepoints *timepoints = &timeline->series->timepoints;
    char human[HX_HUMAN];
    hx_text_putf(text, "%zu snapshots in %s", timepoints->v.n,
                 hx_human_ns(timeline->to - timeline->from, human));
    hx_text_putf(text, ", at most %s",
                 hx_human_bytes((uint64_t)hx_areas_highest(&timeline->areas), human));
    hx_text_putf(
        text, ", last %s",
        hx_human_bytes((uint64_t)hx_series_total(timeline->series, timeline->last), human));
}

static void put_about(struct hx_text *text, const struct hx_series *series, size_t timepoint)
{
    for (size_t band = 0; band < series->figures->n_bands + has_rest(series); band++) {
        char human[HX_HUMAN];
        hx_text_puts(text, band ? "; " : ". In the last snapshot: ");
        put_legend_label(text, series, band);
        hx_text_putf(text, " %s",
                     hx_human_bytes((uint64_t)hx_series_bytes(series, band)[timepoint], human));
    }
    hx_text_putc(text, '.');
}

static void deinit_timeline(struct timeline *timeline)
{
    hx_vec_free(&timeline->drawn);
    free(timeline->time);
}

hx_error *hx_draw_timeline(const struct hx_series *series, struct hx_sink *sink)
{
    HX_CLEANUP(deinit_timeline) struct timeline timeline = {.series = series};
    HX_CLEANUP(hx_drawing_words_deinit) struct hx_drawing_words words = {0};
    HX_TRY(measure_timeline(&timeline));
    hx_timepoints_title(&series->timepoints, series->export, series->figures->census, &words.title);
    put_subtitle(&words.subtitle, &timeline);
    hx_text_putf(&words.about, "Stacked areas over time: %s", hx_text_str(&words.subtitle));
    put_about(&words.about, series, timeline.last);
    int lines = (int)series->figures->n_bands + has_rest(series);
    HX_TRY(hx_drawing_begin(sink, LEGEND + lines * LINE + EDGE, &words, BAND_STYLE));
    hx_bytes_axis_draw(sink, &timeline.bytes);
    draw_areas(sink, &timeline);
    draw_time_axis(sink, &timeline);
    draw_legend(sink, &timeline);
    hx_drawing_end(sink);
    return NULL;
}

/* --- one snapshot --------------------------------------------------------------------------- */

enum { BAR_LINE = 46, BAR = 12 };

static void draw_bar(struct hx_sink *sink, const struct hx_series *series, size_t band, double y,
                     int64_t most)
{
    HX_CLEANUP(hx_text_free) struct hx_text label = {0};
    int64_t bytes = *hx_series_bytes(series, band);
    put_short_label(&label, series, band);
    hx_drawing_text(sink, "", EDGE, y, HX_ANCHOR_START, NAMES - EDGE, hx_text_str(&label));
    draw_figures(sink, y, bytes, hx_series_total(series, 0));
    double width = (RIGHT - EDGE) * (double)bytes / (double)(most > 0 ? most : 1);
    hx_drawing_box(sink, "faint", EDGE, y + 7, RIGHT - EDGE, BAR, NULL);
    hx_text_clear(&label);
    put_legend_label(&label, series, band);
    hx_sink_putf(sink, "<g data-bytes=\"%" PRId64 "\">", bytes);
    hx_drawing_box(sink, band < series->figures->n_bands ? "b0" : "bo", EDGE, y + 7,
                   bytes && width < 1 ? 1 : width, BAR, hx_text_str(&label));
    hx_sink_puts(sink, "</g>\n");
}

hx_error *hx_draw_bars(const struct hx_series *series, struct hx_sink *sink)
{
    HX_CLEANUP(hx_drawing_words_deinit) struct hx_drawing_words words = {0};
    size_t n = series->figures->n_bands + has_rest(series);
    int64_t most = 0;
    char human[HX_HUMAN];
    for (size_t band = 0; band < n; band++)
        if (*hx_series_bytes(series, band) > most)
            most = *hx_series_bytes(series, band);
    hx_timepoints_title(&series->timepoints, series->export, series->figures->census, &words.title);
    hx_text_putf(
        &words.subtitle, "snapshot %" PRId64 ": %s in %zu %s", series->timepoints.v.v[0].snapshot,
        hx_human_bytes((uint64_t)hx_series_total(series, 0), human),
        series->figures->n_bands + series->figures->n_rest, series->figures->census->title);
    hx_text_putf(&words.about, "Bars: %s", hx_text_str(&words.subtitle));
    put_about(&words.about, series, 0);
    HX_TRY(hx_drawing_begin(sink, UPPER + (int)n * BAR_LINE + EDGE, &words, NULL));
    for (size_t band = 0; band < n; band++)
        draw_bar(sink, series, band, UPPER + 16 + (double)band * BAR_LINE, most);
    hx_drawing_end(sink);
    return NULL;
}
