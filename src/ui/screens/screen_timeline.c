/* screen_timeline.c - a census over all snapshots, as a stacked area chart; below it a row for each
 * band: what it is at the snapshot under the cursor. */
#include "layout/axis.h"
#include "store/census_series.h"
#include "ui/analysis.h"
#include "ui/app.h"
#include "ui/command/requests.h"
#include "ui/job.h"
#include "ui/list/pane.h"
#include "ui/picture/chart.h"
#include "ui/ui_options.h"

#include <inttypes.h>
#include <string.h>

/* Numbers of a history: more are not drawn. */
#define HISTORY 64

/* clang-format off */
#define COLUMNS(label)                                                                             \
    {                                                                                              \
        {"band", "", HX_AS_BAND, 2, 0, NULL, NULL},                                                \
        {"label", "", label, -14, 0, NULL, NULL},                                                  \
        {"bytes", NULL, HX_AS_BYTES, 7, 0, NULL, NULL},                                            \
        {"bytes", "share", HX_AS_SHARE, 6, 1, "total", NULL},                                      \
        {"change", NULL, HX_AS_CHANGE, 8, 2, NULL, NULL},                                          \
        {"history", NULL, HX_AS_SPARK, 12, 4, NULL, NULL},                                         \
        {"objects", NULL, HX_AS_COUNT, 9, 3, NULL, NULL},                                          \
        {0},                                                                                       \
    }
/* clang-format on */
static const struct hx_column columns[] = COLUMNS(HX_AS_TYPE);
static const struct hx_column columns_calls[] = COLUMNS(HX_AS_CALLS); /* labels are stacks */

/* What a pane keeps. Bands of the chart are those of the series, and its rest behind them. */
struct timeline {
    const struct hx_stored_census *chosen; /* NULL: whatever there is */
    struct hx_census_series *series;       /* NULL before it was read */
    HX_VEC(struct hx_band_key) without;    /* where OTHER was opened: what is no part of it */
    enum hx_chart_ink ink;                 /* of the last drawing */
};

static void free_keys(struct hx_band_key *keys, size_t n)
{
    for (size_t i = 0; i < n; i++)
        free(keys[i].text);
    free(keys);
}

static void free_timeline(void *data)
{
    struct timeline *timeline = data;
    hx_census_series_destroy(timeline->series);
    free_keys(timeline->without.v, timeline->without.n);
    free(timeline);
}

static hx_error *timeline_of(struct hx_pane *pane, struct timeline **ret)
{
    if (!pane->data) {
        pane->data = calloc(1, sizeof(struct timeline));
        HX_NEED(pane->data);
        pane->free_data = free_timeline;
    }
    *ret = pane->data;
    return NULL;
}

static const struct hx_census_series *series_of(const struct hx_pane *pane)
{
    const struct timeline *timeline = pane->data;
    return timeline ? timeline->series : NULL;
}

static bool is_opened(const struct hx_pane *pane)
{
    const struct timeline *timeline = pane->data;
    return timeline && timeline->without.n;
}

static size_t n_bands(const struct hx_census_series *series)
{
    return series->n_bands + (series->n_rest ? 1 : 0);
}

static const struct hx_census_band *band_of(const struct hx_census_series *series, size_t band)
{
    return band < series->n_bands ? &series->band[band] : &series->rest;
}

/* Bytes of a band in a snapshot; -1: not known. */
static int64_t bytes_at(const struct hx_census_series *series, size_t band, size_t i)
{
    return i < series->n && series->known[i] ? band_of(series, band)->bytes[i] : -1;
}

/* The place of the shown snapshot, or one after the last. */
static size_t current(const struct hx_ui *ui, const struct hx_census_series *series)
{
    return hx_census_series_find(series, ui->snapshot);
}

/* --- rows --- */

/* The largest of each of HISTORY parts. */
static void put_history(const struct hx_census_series *series, size_t band, struct hx_text *ret)
{
    size_t parts = series->n < HISTORY ? series->n : HISTORY;
    for (size_t part = 0; part < parts; part++) {
        int64_t most = -1;
        size_t end = (part + 1) * series->n / parts;
        for (size_t i = part * series->n / parts; i < end; i++) {
            int64_t bytes = bytes_at(series, band, i);
            most = bytes > most ? bytes : most;
        }
        if (most < 0)
            hx_text_puts(ret, part ? " -" : "-");
        else
            hx_text_putf(ret, "%s%" PRId64, part ? " " : "", most);
    }
}

static hx_error *put_band_label(const struct hx_census_series *series, size_t band,
                                struct hx_cell *cell)
{
    if (band < series->n_bands)
        return hx_cell_set_text(cell, series->band[band].label, strlen(series->band[band].label));
    char others[64];
    int n = snprintf(others, sizeof others, "OTHER (%zu more)", series->n_rest);
    return hx_cell_set_text(cell, others, (size_t)n);
}

enum { BAND, LABEL, BYTES, CHANGE, OBJECTS, CELL_HISTORY };

static hx_error *add_band_row(const struct hx_ui *ui, const struct hx_census_series *series,
                              size_t band, struct hx_table *rows)
{
    struct hx_cell *cell;
    struct hx_text history = {0};
    size_t i = current(ui, series);
    int64_t bytes = bytes_at(series, band, i);
    int64_t before = bytes_at(series, band, hx_census_series_find(series, hx_ui_other(ui)));
    HX_TRY(hx_table_add(rows, &cell));
    hx_cell_set_int(&cell[BAND], (int64_t)band);
    HX_TRY(put_band_label(series, band, &cell[LABEL]));
    if (bytes >= 0)
        hx_cell_set_int(&cell[BYTES], bytes);
    if (bytes >= 0 && before >= 0)
        hx_cell_set_int(&cell[CHANGE], bytes - before);
    if (bytes >= 0 && band_of(series, band)->objects[i] >= 0)
        hx_cell_set_int(&cell[OBJECTS], band_of(series, band)->objects[i]);
    put_history(series, band, &history);
    hx_error *error = history.failed
                          ? hx_error_nomem()
                          : hx_cell_set_text(&cell[CELL_HISTORY], hx_text_str(&history), history.n);
    hx_text_free(&history);
    return error;
}

static hx_error *add_facts(const struct hx_ui *ui, const struct hx_census_series *series,
                           struct hx_pane *pane)
{
    static const char *const names[] = {"total", NULL};
    struct hx_cell *cell;
    size_t i = current(ui, series);
    hx_table_deinit(&pane->facts);
    HX_TRY(hx_table_begin(&pane->facts, names));
    HX_TRY(hx_table_add(&pane->facts, &cell));
    if (i < series->n && series->total[i] >= 0)
        hx_cell_set_int(cell, series->total[i]);
    return NULL;
}

static hx_error *show_rows(const struct hx_ui *ui, struct hx_pane *pane)
{
    static const char *const names[] = {"band",    "label",   "bytes", "change",
                                        "objects", "history", NULL};
    const struct hx_census_series *series = series_of(pane);
    struct hx_table rows;
    HX_TRY(hx_table_begin(&rows, names));
    hx_error *error = series ? add_facts(ui, series, pane) : NULL;
    for (size_t band = 0; series && series->n_known && band < n_bands(series) && !error; band++)
        error = add_band_row(ui, series, band, &rows);
    if (error) {
        hx_table_deinit(&rows);
        return error;
    }
    if (series)
        pane->columns = hx_census_calls(series->census) ? columns_calls : columns;
    hx_pane_set_rows(pane, &rows);
    return NULL;
}

/* --- reading --- */

struct charting {
    struct hx_job job;
    uint64_t pane, want;
    struct hx_census_series_request request;
    struct hx_band_key *without; /* owned */
    size_t n_without;
    char *scheme; /* owned */
    struct hx_census_series *series;
};

static hx_error *charting_run(struct hx_job *job, hx_store *store,
                              const struct hx_progress *progress)
{
    struct charting *charting = (struct charting *)job;
    return hx_census_series_read(store, &charting->request, progress, &charting->series);
}

/* The cursor stays on its band, wherever that is now; who looks at the first wants to see the new
 * first. */
static void follow_band(struct hx_pane *pane, const struct hx_census_series *from,
                        const struct hx_census_series *to)
{
    size_t row, band;
    if (!from || !pane->cursor || !hx_pane_row(pane, &row))
        return;
    band = (size_t)hx_table_int(&pane->rows, row, "band", 0);
    bool rest = band >= from->n_bands;
    if (from->census != to->census) {
        hx_pane_go(pane, 0);
        return;
    }
    for (size_t i = 0; i < n_bands(to); i++)
        if (i < to->n_bands ? !rest && hx_band_key_same(&to->band[i].key, &from->band[band].key)
                            : rest)
            pane->cursor = (int64_t)i;
}

static void charting_done(struct hx_job *job, struct hx_ui *ui, hx_error *error)
{
    struct charting *charting = (struct charting *)job;
    struct hx_pane *pane = hx_ui_find_pane(ui, charting->pane);
    if (!pane || pane->want != charting->want) {
        hx_error_free(error);
        return;
    }
    pane->loading = false;
    free(hx_steal(pane->problem));
    if (error && error->kind == HX_E_CANCEL && !job->by_user) {
        pane->stale = true; /* another chart was wanted meanwhile */
        hx_error_free(error);
        return;
    }
    if (error) {
        hx_pane_problem(pane, error, "Cancelled. Ctrl-L draws the chart.");
        hx_ui_complain(ui, error);
        return;
    }
    struct timeline *timeline = pane->data;
    struct hx_census_series *before = timeline->series;
    timeline->series = hx_steal(charting->series);
    if (!pane->parsed)
        follow_band(pane, before, timeline->series);
    hx_census_series_destroy(before);
    hx_ui_complain(ui, show_rows(ui, pane));
}

static void charting_destroy(struct hx_job *job)
{
    struct charting *charting = (struct charting *)job;
    hx_census_series_destroy(charting->series);
    free_keys(charting->without, charting->n_without);
    free(charting->scheme);
    free(charting);
}

/* The scheme whose retainer sets are shown; NULL: whichever. */
static const char *wanted_scheme(const struct hx_ui *ui)
{
    if (ui->choice->scheme)
        return ui->choice->scheme->name;
    const char *scheme = hx_table_text(&ui->snapshots, hx_ui_snapshot_row(ui), "scheme");
    return *scheme ? scheme : NULL;
}

static hx_error *copy_request(const struct hx_ui *ui, const struct timeline *timeline,
                              struct charting *charting)
{
    const char *scheme = wanted_scheme(ui);
    size_t n = timeline->without.n;
    charting->request = (struct hx_census_series_request){
        .census = timeline->chosen, .most = HX_BANDS, .snapshot = ui->snapshot};
    if (scheme)
        HX_NEED(charting->scheme = strdup(scheme));
    charting->without = calloc(n + 1, sizeof *charting->without);
    HX_NEED(charting->without);
    for (; charting->n_without < n; charting->n_without++)
        HX_TRY(hx_band_key_copy(&timeline->without.v[charting->n_without],
                                &charting->without[charting->n_without]));
    charting->request.scheme = charting->scheme;
    charting->request.without = charting->without;
    charting->request.n_without = n;
    return NULL;
}

static hx_error *start_reading(struct hx_ui *ui, struct hx_pane *pane,
                               const struct timeline *timeline)
{
    struct charting *charting = calloc(1, sizeof *charting);
    HX_NEED(charting);
    charting->job = (struct hx_job){.what = "adding up the snapshots",
                                    .quiet = true,
                                    .lane = HX_LANE_READ,
                                    .run = charting_run,
                                    .done = charting_done,
                                    .destroy = charting_destroy};
    hx_error *error = copy_request(ui, timeline, charting);
    if (error) {
        charting_destroy(&charting->job);
        return error;
    }
    charting->pane = pane->serial;
    charting->want = ++pane->want;
    pane->loading = true;
    hx_jobs_supersede(ui->jobs, charting_run);
    hx_jobs_start(ui->jobs, &charting->job);
    return NULL;
}

/* Lists that are looked at wait for no chart; it is made when somebody comes back to it. */
void hx_timeline_leave(struct hx_ui *ui)
{
    if (hx_ui_pane(ui)->screen != &hx_screen_timeline)
        hx_jobs_supersede(ui->jobs, charting_run);
}

/* Does the series lack something that is there, or wanted, by now? */
static bool is_behind(const struct hx_ui *ui, const struct timeline *timeline)
{
    const struct hx_census_series *series = timeline->series;
    size_t n = ui->snapshots.n_rows;
    if (!series || series->n != n ||
        series->snapshot[n - 1] != hx_table_int(&ui->snapshots, n - 1, "snapshot", 0))
        return true;
    if (timeline->chosen && timeline->chosen != series->census)
        return true;
    size_t i = current(ui, series);
    if (i < series->n && series->differs[i])
        return true;
    const char *scheme = wanted_scheme(ui);
    return series->scheme && scheme && strcmp(series->scheme, scheme) != 0;
}

static hx_error *fill_timeline(struct hx_ui *ui, struct hx_pane *pane)
{
    struct timeline *timeline = NULL;
    HX_TRY(timeline_of(pane, &timeline));
    if (ui->snapshots.n_rows && (pane->stale || pane->problem || is_behind(ui, timeline)))
        HX_TRY(start_reading(ui, pane, timeline));
    return show_rows(ui, pane);
}

/* --- the chart --- */

static enum hx_chart_ink ink_of(const struct hx_term *term)
{
    return !term->utf8    ? HX_CHART_ASCII
           : !term->color ? HX_CHART_MONO
           : term->blend  ? HX_CHART_BLEND
                          : HX_CHART_COLOR;
}

/* The band under the cursor. */
static size_t chosen_band(const struct hx_pane *pane)
{
    size_t row;
    if (!hx_pane_row(pane, &row))
        return HX_CHART_NONE;
    return (size_t)hx_table_int(&pane->rows, row, "band", -1);
}

/* RSS is a line over the whole heap; over a part of it it would say nothing. */
static bool has_line(const struct hx_pane *pane, const struct hx_census_series *series)
{
    return !is_opened(pane) && strcmp(series->census->total, "rss_bytes") != 0;
}

static void make_chart(const struct hx_ui *ui, const struct hx_pane *pane, struct hx_chart *ret)
{
    const struct hx_census_series *series = series_of(pane);
    *ret = (struct hx_chart){.areas.n = series->n,
                             .areas.time = series->time,
                             .areas.n_bands = n_bands(series),
                             .areas.known = series->known,
                             .areas.whole = is_opened(pane) ? NULL : series->total,
                             .areas.line = has_line(pane, series) ? series->rss : NULL,
                             .other = series->n_rest > 0,
                             .cursor = current(ui, series),
                             .marked = ui->marked ? hx_census_series_find(series, ui->marked)
                                                  : HX_CHART_NONE,
                             .chosen = chosen_band(pane),
                             .ink = ink_of(&ui->term),
                             .fine = ui->term.fine};
    for (size_t band = 0; band < ret->areas.n_bands && band < HX_BANDS; band++)
        ret->areas.value[band] = band_of(series, band)->bytes;
}

static bool is_drawn(const struct hx_pane *pane)
{
    const struct hx_census_series *series = series_of(pane);
    return series && series->n_known && n_bands(series) && !pane->problem;
}

/* Three fifths, or what the rows leave. */
static int timeline_picture_lines(const struct hx_ui *ui, const struct hx_pane *pane, int lines,
                                  int width)
{
    (void)ui;
    if (!is_drawn(pane) || lines < 7 || width < 24)
        return 0;
    int rows = (int)n_bands(series_of(pane)) + 1; /* and the heading */
    int most = lines - rows, least = lines < 12 ? 5 : lines * 3 / 5;
    return most > least ? most : least;
}

static void draw_picture(struct hx_ui *ui, struct hx_pane *pane, int y, int height, int width)
{
    struct hx_chart chart;
    struct hx_canvas canvas;
    if (!is_drawn(pane))
        return;
    make_chart(ui, pane, &chart);
    hx_error *error = hx_canvas_begin(&canvas, width, height);
    if (!error)
        error = hx_chart_draw(&chart, &canvas);
    if (!error)
        hx_canvas_draw(&ui->term, &canvas, y, 0);
    hx_canvas_end(&canvas);
    hx_error_free(error); /* without memory: no picture */
}

static hx_error *open_timeline_row(struct hx_ui *ui, struct hx_pane *pane, size_t row);

/* Chooses the snapshot and the band there. */
static hx_error *click_timeline(struct hx_ui *ui, struct hx_pane *pane, int y, int x, bool twice)
{
    struct hx_chart chart;
    size_t snapshot, band, row;
    if (!is_drawn(pane))
        return NULL;
    make_chart(ui, pane, &chart);
    if (!hx_chart_at(&chart, hx_term_columns(), pane->picture_height, x, y, &snapshot, &band))
        return NULL;
    hx_ui_set_snapshot(ui, series_of(pane)->snapshot[snapshot]);
    bool found = false;
    for (size_t i = 0; band != HX_CHART_NONE && i < pane->rows.n_rows && !found; i++) {
        found = (size_t)hx_table_int(&pane->rows, i, "band", -1) == band;
        if (found)
            hx_pane_go(pane, (int64_t)i);
    }
    return twice && found && hx_pane_row(pane, &row) ? open_timeline_row(ui, pane, row) : NULL;
}

static const struct hx_picture picture = {timeline_picture_lines, draw_picture, click_timeline};

static void lay_out_timeline(const struct hx_ui *ui, struct hx_pane *pane, int width)
{
    struct timeline *timeline = pane->data;
    (void)width;
    if (timeline)
        timeline->ink = ink_of(&ui->term);
}

/* "#a": what a band is drawn with, and its letter. */
static void timeline_cell(const struct hx_pane *pane, size_t row, bool ascii, struct hx_text *ret)
{
    const struct timeline *timeline = pane->data;
    const struct hx_census_series *series = timeline->series;
    struct hx_chart chart = {.areas.n_bands = n_bands(series),
                             .other = series->n_rest > 0,
                             .ink = ascii ? HX_CHART_ASCII : timeline->ink};
    size_t band = (size_t)hx_table_int(&pane->rows, row, "band", 0);
    hx_text_utf8(ret, hx_chart_fill(&chart, band));
    if (!ascii)
        hx_text_putc(ret, hx_chart_letter(&chart, band));
}

/* --- what stands above it --- */

/* What is shown of the snapshot: of an opened OTHER only that. */
static int64_t shown_bytes(const struct hx_pane *pane, const struct hx_census_series *series,
                           size_t i)
{
    int64_t sum = 0;
    if (!is_opened(pane))
        return i < series->n ? series->total[i] : -1;
    for (size_t band = 0; band < n_bands(series); band++) {
        int64_t bytes = bytes_at(series, band, i);
        if (bytes < 0 || __builtin_add_overflow(sum, bytes, &sum))
            return -1;
    }
    return sum;
}

static void put_figures(const struct hx_ui *ui, const struct hx_pane *pane,
                        const struct hx_census_series *series, struct hx_text *ret)
{
    char size[HX_HUMAN], time[32];
    size_t i = current(ui, series);
    int64_t bytes = shown_bytes(pane, series, i);
    if (i < series->n && series->n > 1) {
        hx_put_nice_seconds(series->time[i], time);
        hx_text_putf(ret, " at %s", time);
    }
    if (bytes >= 0)
        hx_text_putf(ret, ": %s", hx_human_bytes((uint64_t)bytes, size));
    if (is_opened(pane) && i < series->n && series->total[i] >= 0)
        hx_text_putf(ret, " of %s", hx_human_bytes((uint64_t)series->total[i], size));
    if (!is_drawn(pane) || !has_line(pane, series) || i >= series->n || series->rss[i] < 0)
        return;
    hx_text_putf(ret, ", rss %s", hx_human_bytes((uint64_t)series->rss[i], size));
    hx_text_puts(ret, ui->term.utf8 ? " (\u2500)" : " (-)");
}

/* Why there is less to see than there could be, and what to do. */
static void put_timeline_notes(const struct hx_ui *ui, const struct hx_pane *pane,
                               const struct hx_census_series *series, struct hx_text *ret)
{
    bool bins = series->census->alike == HX_ALIKE_ROOTS;
    bool retainers = series->census->alike == HX_ALIKE_SCHEME;
    if (!series->n_known)
        return; /* instead() tells */
    bool heap = hx_table_int(&ui->snapshots, hx_ui_snapshot_row(ui), "heap_bytes", -1) >= 0;
    if (!heap) {
        hx_text_putc(ret, '\n');
        hx_ui_put_no_heap(ui, "\n", ret);
    } else if (bins && !series->named) {
        hx_text_puts(ret, "\nNo root has a name: :root NAME=EXPR gives it one.");
    } else if (series->n_known < series->n) {
        size_t lacking = series->n - series->n_known;
        hx_text_putf(ret, "\n%zu of %zu snapshots %s %s (%s)", lacking, series->n,
                     lacking == 1 ? "lacks" : "lack",
                     retainers ? "these sets"
                     : bins    ? "these bins"
                               : "it",
                     is_opened(pane) ? "blank" : "hatched");
        hx_text_puts(
            ret, series->census->needs && !series->census->todo ? ": go there, then :analyse" : "");
    } else if (series->n == 1) {
        hx_text_puts(ret,
                     ui->options->take
                         ? "\nOne snapshot: a takes another, --every DUR takes them by the clock."
                         : "\nOne snapshot: heapx snap PID -o FILE --every DUR takes more.");
    }
}

static void timeline_title(const struct hx_ui *ui, const struct hx_pane *pane, struct hx_text *ret)
{
    const struct hx_census_series *series = series_of(pane);
    if (!series) {
        hx_text_puts(ret, "The heap over time");
        return;
    }
    hx_text_puts(ret, series->census->heading);
    if (is_opened(pane))
        hx_text_puts(ret, ", OTHER");
    put_figures(ui, pane, series, ret);
    const char *hint = "   b: by what  v: list";
    if (hx_text_width(hx_text_str(ret)) + (int)strlen(hint) < hx_term_columns())
        hx_text_puts(ret, hint);
    put_timeline_notes(ui, pane, series, ret);
}

static void instead(const struct hx_ui *ui, const struct hx_pane *pane, struct hx_text *ret)
{
    const struct hx_census_series *series = series_of(pane);
    if (!series || series->n_known)
        return;
    if (ui->revising)
        hx_text_puts(ret, "It is being worked out.");
    else if (hx_table_int(&ui->snapshots, hx_ui_snapshot_row(ui), "heap_bytes", -1) < 0)
        hx_ui_put_no_heap(ui, " ", ret);
    else
        hx_text_putf(ret, "%s b shows another break-down.", series->census->missing);
}

/* --- drilling --- */

static bool timeline_row_set(const struct hx_pane *pane, size_t row, struct hx_of *ret)
{
    const struct hx_census_series *series = series_of(pane);
    size_t band = (size_t)hx_table_int(&pane->rows, row, "band", 0);
    if (!series || band >= series->n_bands)
        return false;
    const struct hx_stored_census *census = series->census;
    const struct hx_band_key *key = &series->band[band].key;
    *ret = (struct hx_of){.subset = census->subset,
                          .text = key->text ? key->text : series->band[band].label,
                          .id = census->subset == HX_SUBSET_KEY ? census - hx_stored_censuses
                                : key->text                     ? 0
                                                                : key->number};
    if (census->subset == HX_SUBSET_TYPE && strcmp(ret->text, "(unknown)") == 0)
        ret->text = NULL;
    if (census->subset == HX_SUBSET_ALL) { /* parts of the resident memory */
        ret->text = NULL;
        return strcmp(key->text ? key->text : "", "live") == 0;
    }
    return census->subset != HX_SUBSET_NONE;
}

/* The chart of what is in OTHER. */
static hx_error *open_rest(struct hx_ui *ui, const struct hx_pane *pane)
{
    const struct timeline *from = pane->data;
    struct hx_pane *opened;
    struct timeline *timeline = NULL;
    HX_TRY(hx_pane_create(ui, &hx_screen_timeline, &opened));
    hx_error *error = timeline_of(opened, &timeline);
    size_t n = from->without.n + from->series->n_bands;
    if (!error && !hx_vec_reserve(&timeline->without, n))
        error = hx_error_nomem();
    for (size_t i = 0; !error && i < n; i++) {
        const struct hx_band_key *key = i < from->without.n
                                            ? &from->without.v[i]
                                            : &from->series->band[i - from->without.n].key;
        error = hx_band_key_copy(key, &timeline->without.v[i]);
        timeline->without.n += !error;
    }
    if (error) {
        hx_pane_destroy(opened);
        return error;
    }
    timeline->chosen = from->series->census;
    return hx_ui_push(ui, opened);
}

static hx_error *open_timeline_row(struct hx_ui *ui, struct hx_pane *pane, size_t row)
{
    const struct hx_census_series *series = series_of(pane);
    size_t band = (size_t)hx_table_int(&pane->rows, row, "band", 0);
    struct hx_of which;
    if (!series)
        return NULL;
    if (band >= series->n_bands)
        return open_rest(ui, pane);
    timeline_row_set(pane, row, &which);
    switch (series->census->subset) {
    case HX_SUBSET_ALL:
        return hx_ui_open_text(ui, &hx_screen_account, NULL, 0);
    case HX_SUBSET_NONE:
        return hx_error_new(HX_E_ABSENT, series->census->title, "1 shows them over time",
                            "nothing is known below them");
    case HX_SUBSET_SET:
        return hx_ui_open_of(ui, &hx_screen_set, &which);
    case HX_SUBSET_BIN:
        return hx_ui_open_of(ui, &hx_screen_bin, &which);
    case HX_SUBSET_CCS:
        return hx_ui_open_of(ui, &hx_screen_centre, &which);
    default:
        return hx_ui_open_of(ui,
                             strcmp(series->census->name, "holder") == 0 ? &hx_screen_holder
                                                                         : &hx_screen_objects,
                             &which);
    }
}

/* --- what it is by --- */

static hx_error *no_breakdown(const char *arg)
{
    struct hx_text names = {0};
    for (const struct hx_stored_census *census = hx_stored_censuses; census->name; census++)
        hx_text_putf(&names, "%s%s", names.n ? ", " : "", census->name);
    hx_error *error =
        hx_error_new(HX_E_USAGE, arg, hx_text_str(&names), "no chart breaks down by that");
    hx_text_free(&names);
    return error;
}

hx_error *hx_do_by(struct hx_ui *ui, const char *arg)
{
    const struct hx_stored_census *census = *arg ? hx_census_find(arg) : NULL;
    struct timeline *timeline = NULL;
    if (hx_ui_pane(ui)->screen == &hx_screen_histogram)
        return hx_histogram_by(ui, hx_ui_pane(ui), arg);
    if (*arg && !census)
        return no_breakdown(arg);
    if (!*arg && hx_ui_pane(ui)->screen != &hx_screen_timeline)
        return hx_error_new(HX_E_ABSENT, "by", "1 shows it", "the chart is another screen");
    if (ui->at || hx_ui_pane(ui)->screen != &hx_screen_timeline) /* not a part of another one */
        HX_TRY(hx_ui_show(ui, &hx_screen_timeline));
    struct hx_pane *pane = hx_ui_pane(ui);
    HX_TRY(timeline_of(pane, &timeline));
    if (!census) {
        census = timeline->chosen   ? timeline->chosen
                 : timeline->series ? timeline->series->census
                                    : hx_stored_censuses;
        census = census[1].name ? census + 1 : hx_stored_censuses;
    }
    timeline->chosen = census;
    hx_pane_reload(ui, pane);
    return NULL;
}

static const char *const key[] = {"label", NULL};

const struct hx_screen hx_screen_timeline = {
    .name = "timeline",
    .brief = "time",
    .about = "bytes over time as a chart; Enter opens a band",
    .digit = 1,
    .over_time = true,
    .columns = columns,
    .key = key,
    .picture = &picture,
    .view = &hx_screen_snapshots,
    .fill = fill_timeline,
    .lay_out = lay_out_timeline,
    .cell = timeline_cell,
    .head = timeline_title,
    .empty = "There is nothing to break down: b shows another break-down.",
    .instead = instead,
    .open = open_timeline_row,
    .of = timeline_row_set,
};
