/* test_chart.c - stacked areas, their axes, and the series that they are drawn from. */
#include "unit.h"

#include "../ui/drawing.h"

#include "base/cleanup.h"
#include "layout/axis.h"
#include "layout/bin_roots.h"
#include "store/census_series.h"
#include "store/store.h"
#include "ui/picture/chart.h"

#include <math.h>

#define SNAPSHOTS_MAX 600

/* A chart with room for what it points to. */
struct made {
    struct hx_chart chart;
    double time[SNAPSHOTS_MAX];
    int64_t value[HX_BANDS][SNAPSHOTS_MAX], whole[SNAPSHOTS_MAX], line[SNAPSHOTS_MAX];
    bool known[SNAPSHOTS_MAX];
};

static void begin(struct made *made, size_t n, size_t n_bands)
{
    memset(made, 0, sizeof *made);
    made->chart = (struct hx_chart){.areas = {.n = n,
                                              .time = made->time,
                                              .n_bands = n_bands,
                                              .known = made->known,
                                              .whole = made->whole,
                                              .line = made->line},
                                    .cursor = HX_CHART_NONE,
                                    .marked = HX_CHART_NONE,
                                    .chosen = HX_CHART_NONE};
    for (size_t b = 0; b < n_bands; b++)
        made->chart.areas.value[b] = made->value[b];
    for (size_t i = 0; i < n; i++) {
        made->time[i] = (double)i;
        made->known[i] = true;
        made->line[i] = -1;
    }
}

static void make_random(struct unit_random *random, struct made *made)
{
    static const int64_t sizes[] = {1, 10, 5000, 1 << 20, (int64_t)1 << 40, INT64_MAX / 16};
    size_t n = 1 + unit_below(random, unit_below(random, 4) ? 40 : SNAPSHOTS_MAX - 1);
    begin(made, n, 1 + unit_below(random, HX_BANDS));
    int64_t size = sizes[unit_below(random, sizeof sizes / sizeof *sizes)];
    double at = 0;
    for (size_t i = 0; i < n; i++) {
        made->time[i] = at;
        at += unit_below(random, 5) ? (double)unit_below(random, 100) / 7 : 0;
        made->known[i] = unit_below(random, 8);
        made->line[i] =
            unit_below(random, 6) ? (int64_t)unit_below(random, (uint64_t)size * 8) : -1;
        made->whole[i] = unit_below(random, 3) ? (int64_t)unit_below(random, (uint64_t)size) : -1;
        for (size_t b = 0; b < made->chart.areas.n_bands && made->known[i]; b++) {
            made->value[b][i] = (int64_t)unit_below(random, (uint64_t)size + 1);
            if (!unit_below(random, 4))
                made->value[b][i] = 0;
        }
    }
    made->chart.ink = (enum hx_chart_ink)unit_below(random, 4);
    made->chart.fine = unit_below(random, 2) || made->chart.ink == HX_CHART_BLEND;
    made->chart.other = unit_below(random, 2);
    made->chart.cursor = unit_below(random, n);
    made->chart.marked = unit_below(random, 2) ? unit_below(random, n) : HX_CHART_NONE;
    made->chart.chosen = unit_below(random, made->chart.areas.n_bands + 1);
    if (unit_below(random, 4) == 0)
        made->chart.areas.line = NULL;
}

static void draw(const struct hx_chart *chart, int width, int height, struct hx_canvas *canvas)
{
    assert_null(hx_canvas_begin(canvas, width, height));
    assert_null(hx_chart_draw(chart, canvas));
}

static char *text_of(const struct hx_canvas *canvas)
{
    struct hx_text text = {0};
    for (int y = 0; y < canvas->height; y++) {
        hx_canvas_line(canvas, y, &text);
        while (text.n && text.s[text.n - 1] == ' ')
            text.s[--text.n] = 0;
        hx_text_putc(&text, '\n');
    }
    assert_false(text.failed);
    return text.s;
}

/* The edges of a column, against what they mean. */
static void check_edges(const struct hx_chart *chart, const struct hx_plot *plot,
                        const struct hx_areas_column *column)
{
    int edge[HX_AREAS_BANDS], before = 0, height = plot->height * plot->units;
    double sum = 0;
    hx_areas_edges(&chart->areas, column, plot->height * plot->units, plot->top, edge);
    for (size_t b = 0; b < chart->areas.n_bands; b++) {
        sum += column->value[b];
        assert_true(edge[b] >= before && edge[b] <= height);
        double exact = sum / plot->top * height;
        assert_true(fabs(exact - edge[b]) <= 1.0);
        before = edge[b];
    }
    assert_true(fabs(sum - column->sum) <= sum * 1e-9);
    assert_true(!(sum > 0) || before > 0);
}

/* Cells of a column that are neither covered by it nor by a line are blank. */
static void check_cells(const struct hx_chart *chart, const struct hx_plot *plot,
                        const struct hx_areas_column *column, int x, const struct hx_canvas *canvas)
{
    int edge[HX_AREAS_BANDS];
    hx_areas_edges(&chart->areas, column, plot->height * plot->units, plot->top, edge);
    int covered = (edge[chart->areas.n_bands - 1] + plot->units - 1) / plot->units;
    for (int y = 0; y < plot->height; y++) {
        const struct hx_ink *ink = hx_canvas_at(canvas, plot->left + x, plot->upper + y);
        if (plot->height - y > covered)
            assert_true(!ink->c || ink->style == HX_STYLE_MARK);
        else
            assert_true(ink->c);
    }
}

static void test_columns(void **state)
{
    struct unit_random random = unit_random_begin("columns");
    HX_FREE struct made *made = malloc(sizeof *made);
    struct hx_canvas canvas, again;
    (void)state;
    for (size_t round = 0, rounds = unit_rounds(600); round < rounds; round++) {
        int width = 8 + (int)unit_below(&random, 140), height = 2 + (int)unit_below(&random, 40);
        struct hx_plot plot;
        make_random(&random, made);
        hx_chart_plot(&made->chart, width, height, &plot);
        assert_true(plot.left + plot.width < width && plot.upper + plot.height < height);
        HX_FREE struct hx_areas_column *column = calloc((size_t)plot.width + 1, sizeof *column);
        hx_areas_columns(&made->chart.areas, plot.width, column);
        draw(&made->chart, width, height, &canvas);
        for (int x = 0; x < plot.width; x++) {
            if (!column[x].known)
                continue;
            check_edges(&made->chart, &plot, &column[x]);
            check_cells(&made->chart, &plot, &column[x], x, &canvas);
        }
        draw(&made->chart, width, height, &again);
        assert_memory_equal(canvas.ink, again.ink,
                            (size_t)width * (size_t)height * sizeof *canvas.ink);
        hx_canvas_end(&canvas);
        hx_canvas_end(&again);
    }
}

/* One snapshot among many that is higher than all others reaches the top. */
static void test_peak(void **state)
{
    struct unit_random random = unit_random_begin("peak");
    HX_FREE struct made *made = malloc(sizeof *made);
    (void)state;
    for (size_t round = 0, rounds = unit_rounds(200); round < rounds; round++) {
        size_t n = 2 + unit_below(&random, SNAPSHOTS_MAX - 2), peak = unit_below(&random, n);
        struct hx_plot plot;
        begin(made, n, 2);
        for (size_t i = 0; i < n; i++)
            made->value[0][i] = made->value[1][i] = 1000;
        made->value[1][peak] = 9000;
        hx_chart_plot(&made->chart, 60, 12, &plot);
        HX_FREE struct hx_areas_column *column = calloc((size_t)plot.width, sizeof *column);
        hx_areas_columns(&made->chart.areas, plot.width, column);
        int highest = 0, edge[HX_AREAS_BANDS];
        for (int x = 0; x < plot.width; x++) {
            hx_areas_edges(&made->chart.areas, &column[x], plot.height * plot.units, plot.top,
                           edge);
            highest = edge[1] > highest ? edge[1] : highest;
        }
        assert_int_equal(highest, plot.height * plot.units);
    }
}

/* Where a band is drawn, a click finds it; outside there is nothing. */
static void test_places(void **state)
{
    struct unit_random random = unit_random_begin("places");
    HX_FREE struct made *made = malloc(sizeof *made);
    (void)state;
    for (size_t round = 0, rounds = unit_rounds(300); round < rounds; round++) {
        struct hx_plot plot;
        struct hx_canvas canvas;
        make_random(&random, made);
        made->chart.ink = HX_CHART_MONO;
        made->chart.cursor = made->chart.chosen = HX_CHART_NONE;
        made->chart.areas.line = NULL;
        hx_chart_plot(&made->chart, 50, 14, &plot);
        draw(&made->chart, 50, 14, &canvas);
        for (int y = 0; y < 14; y++) {
            for (int x = 0; x < 50; x++) {
                size_t snapshot = 0, band = HX_CHART_NONE;
                const struct hx_ink *ink = hx_canvas_at(&canvas, x, y);
                if (!hx_chart_at(&made->chart, 50, 14, x, y, &snapshot, &band))
                    continue;
                assert_true(snapshot < made->chart.areas.n);
                assert_true(x >= plot.left && x < plot.left + plot.width);
                if (band != HX_CHART_NONE)
                    assert_true(ink->c == hx_chart_fill(&made->chart, band) ||
                                ink->c == (uint32_t)hx_chart_letter(&made->chart, band));
                else if (y < plot.height)
                    assert_true(!ink->c || ink->c == '/');
            }
        }
        hx_canvas_end(&canvas);
    }
}

static void test_sizes(void **state)
{
    struct unit_random random = unit_random_begin("sizes");
    HX_FREE struct made *made = malloc(sizeof *made);
    (void)state;
    make_random(&random, made);
    for (int width = 0; width < 40; width++) {
        for (int height = 0; height < 14; height++) {
            struct hx_canvas canvas;
            size_t snapshot, band;
            draw(&made->chart, width, height, &canvas);
            hx_chart_at(&made->chart, width, height, width - 2, height / 2, &snapshot, &band);
            hx_canvas_end(&canvas);
        }
    }
    struct hx_canvas canvas;
    hx_error *error = hx_canvas_begin(&canvas, HX_CANVAS_MAX + 1, 1);
    assert_non_null(error);
    hx_error_free(error);
    begin(made, 0, 1);
    draw(&made->chart, 40, 10, &canvas);
    hx_canvas_end(&canvas);
}

/* Three snapshots, the last an hour after the others; the second has no break-down. */
static void test_display(void **state)
{
    HX_FREE struct made *made = malloc(sizeof *made);
    struct hx_canvas canvas;
    (void)state;
    begin(made, 4, 2);
    made->time[1] = 600;
    made->time[2] = 1200;
    made->time[3] = 4800;
    made->known[1] = false;
    for (size_t i = 0; i < 4; i++) {
        made->value[0][i] = (int64_t)(i + 1) << 20;
        made->value[1][i] = 1 << 20;
        made->whole[i] = 3 << 20;
        made->line[i] = 6 << 20;
    }
    made->chart.chosen = 1;
    made->chart.cursor = 2;
    made->chart.marked = 0;
    made->chart.other = true;
    draw(&made->chart, 44, 10, &canvas);
    HX_FREE char *text = text_of(&canvas);
    hx_canvas_end(&canvas);
    assert_string_equal(text, "   6M+---------|---------------------------\n"
                              "     |         |                       OOOO\n"
                              "     |         |   OOOOOOOOOOOOOOOOOOOOOOOO\n"
                              "   4M+       OO#OOOOOOOOOOaaaaaaaaaaaaaaaaa\n"
                              "     |    / /aa|aaaaaaaaaaaaaaaaaaaaaaaaaaa\n"
                              "   2M+OOO/ / aa|aaaaaaaaaaaaaaaaaaaaaaaaaaa\n"
                              "     |OOO / /aa|aaaaaaaaaaaaaaaaaaaaaaaaaaa\n"
                              "     |aaa/ / aa|aaaaaaaaaaaaaaaaaaaaaaaaaaa\n"
                              "    0+*----'---^----+------------+--------'\n"
                              "      0             +30m         +1h\n");
}

/* A line far above everything is drawn above a broken axis. */
static void test_beyond(void **state)
{
    HX_FREE struct made *made = malloc(sizeof *made);
    struct hx_canvas canvas;
    (void)state;
    begin(made, 3, 1);
    for (size_t i = 0; i < 3; i++) {
        made->value[0][i] = (int64_t)(i + 1) << 20;
        made->line[i] = i ? 60 << 20 : -1;
    }
    draw(&made->chart, 24, 8, &canvas);
    HX_FREE char *text = text_of(&canvas);
    hx_canvas_end(&canvas);
    assert_string_equal(text, "60.0M~    -------------\n"
                              "     |              aaa\n"
                              "     |         aaaaaaaa\n"
                              "   2M+    aaaaaaaaaaaaa\n"
                              "     |aaaaaaaaaaaaaaaaa\n"
                              "     |aaaaaaaaaaaaaaaaa\n"
                              "    0++-------'-------+\n"
                              "      0             +2s\n");
    size_t snapshot, band;
    assert_true(hx_chart_at(&made->chart, 24, 8, 22, 0, &snapshot, &band));
    assert_int_equal(snapshot, 2);
    assert_true(band == HX_CHART_NONE);
    assert_true(hx_chart_at(&made->chart, 24, 8, 22, 1, &snapshot, &band));
    assert_true(band == 0);
}

static void test_steps(void **state)
{
    char text[32];
    (void)state;
    assert_true(hx_nice_bytes(10, 2) == 5);
    assert_true(hx_nice_bytes(0, 3) == 1);
    assert_true(hx_nice_bytes(12 << 20, 3) == 5 << 20);
    assert_true(hx_nice_bytes(1000.0 * 1024, 2) == 500.0 * 1024);
    assert_true(hx_nice_bytes(1001.0 * 1024, 2) == 1 << 19);
    assert_true(hx_nice_bytes(3 << 20, 2) == 2 << 20);
    assert_true(hx_nice_bytes(1.2 * (1 << 20), 5) == 1 << 18);
    assert_true(hx_nice_bytes(9e18, 3) >= 3e18);
    assert_true(hx_nice_seconds(7200, 6) == 1800);
    assert_true(hx_nice_seconds(0.7, 4) == 0.2);
    assert_true(hx_nice_seconds(1e10, 5) >= 2e9);
    hx_put_nice_bytes(0, text);
    assert_string_equal(text, "0");
    hx_put_nice_bytes(500.0 * 1024, text);
    assert_string_equal(text, "500K");
    hx_put_nice_bytes(10 << 20, text);
    assert_string_equal(text, "10M");
    hx_put_nice_seconds(0, text);
    assert_string_equal(text, "0");
    hx_put_nice_seconds(30, text);
    assert_string_equal(text, "+30s");
    hx_put_nice_seconds(90, text);
    assert_string_equal(text, "+1m30s");
    hx_put_nice_seconds(7200, text);
    assert_string_equal(text, "+2h");
    hx_put_nice_seconds(86400 + 21600, text);
    assert_string_equal(text, "+1d6h");
    hx_put_nice_seconds(0.2, text);
    assert_string_equal(text, "+0.2s");
}

static void check_step(uint64_t at, bool time, const char *expected)
{
    HX_CLEANUP(hx_text_free) struct hx_text text = {0};
    if (time)
        hx_put_step_ns(&text, at);
    else
        hx_put_step_bytes(&text, at);
    assert_string_equal(hx_text_str(&text), expected);
}

static void test_drawing_steps(void **state)
{
    const uint64_t second = 1000000000;
    (void)state;
    assert_true(hx_step_bytes(0, 6) == 1);
    assert_true(hx_step_bytes(12 << 20, 6) == 4 << 20);
    assert_true(hx_step_bytes(UINT64_MAX, 2) == UINT64_C(1) << 62);
    assert_true(hx_step_ns(7200 * second, 8) == 1800 * second);
    assert_true(hx_step_ns(7, 8) == 1);
    check_step(0, false, "0");
    check_step(1000, false, "1000");
    check_step(1280, false, "1.25K");
    check_step(UINT64_C(768) << 20, false, "768M");
    check_step(0, true, "0s");
    check_step(250000000, true, "250ms");
    check_step(90 * second, true, "1m30s");
    check_step(129600 * second, true, "1d12h");
}

static void test_bin_roots(void **state)
{
    (void)state;
    const char *at = "cache+index", *name;
    size_t n;
    assert_true(hx_bin_next(&at, &name, &n) && n == 5 && memcmp(name, "cache", n) == 0);
    assert_true(hx_bin_next(&at, &name, &n) && n == 5 && memcmp(name, "index", n) == 0);
    assert_false(hx_bin_next(&at, &name, &n));
    assert_true(hx_bin_has("cache+index", "index", 5));
    assert_false(hx_bin_has("cache+index", "ind", 3));
    assert_int_equal(hx_bin_count("a+b+c"), 3);
    assert_int_equal(hx_bin_count("-") + hx_bin_count("(unreachable)") + hx_bin_count(""), 0);
}

/* --- series --- */

static void make_store(hx_store **ret)
{
    struct hx_analysis analysis = {.scheme = hx_schemes[0], .max_set = 8, .threads = 1};
    must(hx_store_temporary(ret));
    for (unsigned number = 1; number <= 3; number++) {
        int64_t stored;
        struct hx_snapshot *snapshot = draw_crowd(number, 10);
        if (number > 1)
            draw_recording(snapshot, number);
        must(hx_store_add(*ret, snapshot, &analysis, NULL, &stored));
        hx_snapshot_destroy(snapshot);
    }
}

/* Opens what was left again and again: all bands of all levels, and each row once, add up. */
static void check_levels(hx_store *store, const struct hx_stored_census *census)
{
    HX_VEC(struct hx_band_key) without = {0};
    int64_t sum[3] = {0}, total[3] = {0};
    bool known[3] = {0};
    size_t rest = 1;
    for (int level = 0; rest && level < 100; level++) {
        struct hx_census_series *series;
        struct hx_census_series_request wish = {.census = census,
                                                .most = 4,
                                                .scheme = "root",
                                                .without = without.v,
                                                .n_without = without.n};
        must(hx_census_series_read(store, &wish, NULL, &series));
        assert_int_equal(series->n, 3);
        assert_true(level == 0 || series->n_bands + series->n_rest == rest);
        assert_true(series->n_bands <= 4 && (!series->n_rest || series->n_bands == 3));
        for (size_t i = 0; i < 3; i++) {
            total[i] = series->total[i];
            known[i] = series->known[i];
            assert_true(series->rest.bytes[i] == 0 || series->n_rest);
        }
        for (size_t b = 0; b < series->n_bands; b++) {
            struct hx_band_key key;
            for (size_t i = 0; i < 3; i++)
                sum[i] += series->band[b].bytes[i];
            assert_non_null(series->band[b].label);
            must(hx_band_key_copy(&series->band[b].key, &key));
            assert_true(hx_vec_push(&without, key));
        }
        rest = series->n_rest;
        hx_census_series_destroy(series);
    }
    assert_int_equal(rest, 0);
    for (size_t i = 0; i < 3; i++)
        if (known[i])
            assert_int_equal(sum[i], total[i]);
    assert_true(known[2]);
    for (size_t i = 0; i < without.n; i++)
        free(without.v[i].text);
    hx_vec_free(&without);
}

static void test_series(void **state)
{
    hx_store *store;
    (void)state;
    make_store(&store);
    for (const struct hx_stored_census *census = hx_stored_censuses; census->name; census++)
        if (strcmp(census->name, "biography") != 0 && /* which only imported profiles have */
            strcmp(census->name, "holder") != 0 &&
            strcmp(census->name, "shape") != 0) /* no words */
            check_levels(store, census);
    struct hx_census_series *series;
    struct hx_census_series_request wish = {.most = 8, .snapshot = 2};
    must(hx_census_series_read(store, &wish, NULL, &series));
    assert_string_equal(series->census->name, "retainer");
    assert_string_equal(series->scheme, "root");
    assert_int_equal(hx_census_series_find(series, 2), 1);
    assert_int_equal(hx_census_series_find(series, 7), 3);
    hx_census_series_destroy(series);
    must(hx_store_close(store));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_columns),       cmocka_unit_test(test_peak),
        cmocka_unit_test(test_places),        cmocka_unit_test(test_sizes),
        cmocka_unit_test(test_display),       cmocka_unit_test(test_steps),
        cmocka_unit_test(test_drawing_steps), cmocka_unit_test(test_bin_roots),
        cmocka_unit_test(test_series),        cmocka_unit_test(test_beyond),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
