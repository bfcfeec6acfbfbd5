/* svg_bins.c - root bins as a plot of intersections: a row for each named root, a column for each
 * bin with a dot in the rows of those roots that share it, and bars of bytes for both. */
#include "export/svg/svg.h"

#include "base/cleanup.h"
#include "base/lower_bound.h"
#include "layout/bin_roots.h"
#include "store/query/named.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum {
    EDGE = HX_DRAWING_LEFT,
    RIGHT = HX_DRAWING_RIGHT,
    LETTERS = 58, /* above the bars, for their bytes, which may stand upright */
    UPPER = HX_DRAWING_HEAD + 16 + LETTERS,
    PLOT = 180,
    LOWER = UPPER + PLOT,
    ROWS = LOWER + 14,
    LINE = 24,
    NAMES = 186,    /* right end of the names, */
    SIZES = 254,    /* of the bytes, and */
    SIZE_BAR = 330, /* of the bars beside the names */
    MATRIX = 346,
    COLUMN_LEAST = 21,
    COLUMN_MOST = 70,
    COLUMN_LYING = 64,                         /* where columns are that wide, their bytes lie */
    COLUMNS = (RIGHT - MATRIX) / COLUMN_LEAST, /* with the one of the others */
    DOT = 6,
    ROWS_MOST = 64 + 2, /* roots, and those that stand for none */
    SETS_MOST = 4096,
};

/* What dots are in rows of: a named root, or what stands for those that none reaches. */
struct set {
    char *name;
    int64_t bytes; /* of all bins that it has a part in */
    bool named;
    size_t row;
};

struct column {
    int64_t bytes, objects;
    char *roots;
};

struct plot {
    const struct hx_export *export;
    int64_t snapshot;
    HX_VEC(struct set) sets; /* by name; later by row */
    HX_VEC(struct column) columns;
    int64_t other_bytes, total;
    uint64_t others, bins;
    size_t rows; /* sets that are drawn */
    double pitch;
};

static void deinit_plot(struct plot *plot)
{
    for (size_t i = 0; i < plot->sets.n; i++)
        free(plot->sets.v[i].name);
    for (size_t i = 0; i < plot->columns.n; i++)
        free(plot->columns.v[i].roots);
    hx_vec_free(&plot->sets);
    hx_vec_free(&plot->columns);
}

/* --- figures -------------------------------------------------------------------------------- */

/* Where a name is in the sorted sets, or would be. */
static bool find_set(const struct plot *plot, const char *name, size_t n, size_t *ret)
{
    const struct set *set = plot->sets.v;
    size_t at = HX_LOWER_BOUND(plot->sets.n, i, strncmp(set[i].name, name, n) < 0);
    *ret = at;
    return at < plot->sets.n && strncmp(set[at].name, name, n) == 0 && !set[at].name[n];
}

static hx_error *cannot_be(const struct plot *plot)
{
    return hx_error_new(HX_E_CORRUPT, plot->export->title, NULL,
                        "snapshot %" PRId64 " has sizes that cannot be", plot->snapshot);
}

static hx_error *add_to_set(struct plot *plot, const char *name, size_t n, bool named,
                            int64_t bytes)
{
    size_t at;
    if (!find_set(plot, name, n, &at)) {
        if (plot->sets.n >= SETS_MOST)
            return hx_error_new(HX_E_LIMIT, plot->export->title, "name fewer with --root",
                                "has more than %d named roots", SETS_MOST);
        struct set set = {.name = strndup(name, n), .named = named};
        if (!set.name || !hx_vec_push(&plot->sets, set)) {
            free(set.name);
            return hx_error_nomem();
        }
        struct set *sets = plot->sets.v;
        memmove(sets + at + 1, sets + at, (plot->sets.n - 1 - at) * sizeof *sets);
        sets[at] = set;
    }
    if (bytes < 0 || __builtin_add_overflow(plot->sets.v[at].bytes, bytes, &plot->sets.v[at].bytes))
        return cannot_be(plot);
    return NULL;
}

/* Calls add_to_set() for each of the roots that '+' joins. */
static hx_error *add_to_sets(struct plot *plot, const char *roots, int64_t bytes)
{
    if (!hx_bin_is_named(roots))
        return add_to_set(plot, roots, strlen(roots), false, bytes);
    const char *name;
    for (size_t n; hx_bin_next(&roots, &name, &n);)
        HX_TRY(add_to_set(plot, name, n, true, bytes));
    return NULL;
}

static hx_error *add_bin(void *context, hx_rows *rows)
{
    struct plot *plot = context;
    struct hx_value roots = hx_rows_value(rows, 0);
    int64_t bytes = hx_rows_value(rows, 1).i;
    if (roots.type != HX_VALUE_TEXT)
        return NULL;
    HX_TRY(add_to_sets(plot, roots.text, bytes));
    plot->bins++;
    if (__builtin_add_overflow(plot->total, bytes, &plot->total))
        return cannot_be(plot);
    if (plot->columns.n < COLUMNS - 1) {
        struct column column = {bytes, hx_rows_value(rows, 2).i, strdup(roots.text)};
        if (column.roots && hx_vec_push(&plot->columns, column))
            return NULL;
        free(column.roots);
        return hx_error_nomem();
    }
    plot->others++;
    plot->other_bytes += bytes;
    return NULL;
}

static hx_error *add_root_name(void *context, hx_rows *rows)
{
    struct plot *plot = context;
    struct hx_value name = hx_rows_value(rows, 0);
    return name.type == HX_VALUE_TEXT ? add_to_set(plot, name.text, name.text_bytes, true, 0)
                                      : NULL;
}

/* Named roots first, the largest of them first. */
static int by_row(const void *a, const void *b)
{
    const struct set *x = a, *y = b;
    if (x->named != y->named)
        return x->named ? -1 : 1;
    if (x->bytes != y->bytes)
        return x->bytes > y->bytes ? -1 : 1;
    return strcmp(x->name, y->name);
}

static hx_error *load_bins_plot(struct plot *plot)
{
    plot->snapshot = plot->export->snapshot;
    if (!plot->snapshot)
        HX_TRY(hx_query_number(plot->export->store, HX_QUERY_last_bins, HX_QUERY_ARGS(),
                               &plot->snapshot));
    const struct hx_query_args args = {.snapshot = plot->snapshot};
    HX_TRY(
        hx_query_each(plot->export->store, HX_QUERY_named_root_names, &args, add_root_name, plot));
    HX_TRY(hx_query_each(plot->export->store, HX_QUERY_bin_sums, &args, add_bin, plot));
    if (!plot->bins)
        return hx_export_absent(plot->export, "bin");
    qsort(plot->sets.v, plot->sets.n, sizeof *plot->sets.v, by_row);
    plot->rows = plot->sets.n < ROWS_MOST ? plot->sets.n : ROWS_MOST;
    if (plot->rows < plot->sets.n)
        hx_text_putf(plot->export->notes, "of %zu roots the %zu largest have a row\n", plot->sets.n,
                     plot->rows);
    size_t n = plot->columns.n + (plot->others > 0);
    double pitch = (double)(RIGHT - MATRIX) / (double)n;
    plot->pitch = pitch < COLUMN_MOST ? pitch : COLUMN_MOST;
    return NULL;
}

/* --- drawing -------------------------------------------------------------------------------- */

static double row_y(size_t row)
{
    return ROWS + (double)row * LINE + LINE / 2.0;
}

static double column_x(const struct plot *plot, size_t column)
{
    return MATRIX + ((double)column + 0.5) * plot->pitch;
}

static const char *set_label(const struct set *set)
{
    return strcmp(set->name, "-") == 0 && !set->named ? "(other roots)" : set->name;
}

static void draw_rows(struct hx_sink *sink, const struct plot *plot)
{
    int64_t most = 1;
    for (size_t i = 0; i < plot->rows; i++)
        if (plot->sets.v[i].bytes > most)
            most = plot->sets.v[i].bytes;
    for (size_t i = 0; i < plot->rows; i++) {
        const struct set *set = &plot->sets.v[i];
        double y = row_y(i), width = (SIZE_BAR - SIZES - 10) * (double)set->bytes / (double)most;
        char human[HX_HUMAN];
        if (i % 2 == 0)
            hx_drawing_box(sink, "faint", EDGE - 6, y - LINE / 2.0, RIGHT - EDGE + 12, LINE, NULL);
        hx_sink_putf(sink, "<g class=\"set\" data-bytes=\"%" PRId64 "\">\n", set->bytes);
        hx_drawing_text(sink, set->named ? "" : "dim", EDGE, y + 5, HX_ANCHOR_START, NAMES - EDGE,
                        set_label(set));
        hx_drawing_text(sink, "dim number", SIZES, y + 5, HX_ANCHOR_END, 80,
                        hx_human_bytes((uint64_t)set->bytes, human));
        hx_drawing_box(sink, set->named ? "b4" : "bo", SIZE_BAR - width, y - 6, width, 12, NULL);
        hx_sink_puts(sink, "</g>\n");
    }
}

/* Dots in the rows of its members, and a line from the first to the last. */
static void draw_dots(struct hx_sink *sink, const struct plot *plot, size_t i)
{
    const char *roots = plot->columns.v[i].roots;
    double x = column_x(plot, i);
    size_t first = plot->rows, last = 0;
    bool *in = calloc(plot->rows + 1, sizeof *in);
    for (size_t row = 0; in && row < plot->rows; row++) {
        const char *name = plot->sets.v[row].name;
        in[row] = hx_bin_has(roots, name, strlen(name));
        if (in[row]) {
            first = first < row ? first : row;
            last = row;
        }
    }
    if (!in)
        sink->failed = sink->failed ? sink->failed : ENOMEM;
    if (in && first < last)
        hx_drawing_line(sink, "join", x, row_y(first), x, row_y(last));
    for (size_t row = 0; in && row < plot->rows; row++) {
        hx_sink_putf(sink, "<circle class=\"%s\" r=\"%s\"", in[row] ? "in" : "out",
                     in[row] ? "6" : "3");
        hx_drawing_at(sink, "cx", x);
        hx_drawing_at(sink, "cy", row_y(row));
        hx_sink_puts(sink, "/>\n");
    }
    free(in);
}

/* The bytes of a column above its bar. */
static void draw_figure(struct hx_sink *sink, const struct plot *plot, double x, double y,
                        const char *human)
{
    if (plot->pitch >= COLUMN_LYING) {
        hx_drawing_text(sink, "number over", x, y - 2, HX_ANCHOR_MIDDLE, 120, human);
        return;
    }
    hx_sink_puts(sink, "<text class=\"number over upright\" transform=\"translate(");
    hx_drawing_number(sink, x);
    hx_sink_putc(sink, ' ');
    hx_drawing_number(sink, y);
    hx_sink_putf(sink, ") rotate(-90)\">%s</text>\n", human);
}

static void draw_bar(struct hx_sink *sink, const struct plot *plot, size_t i,
                     const struct hx_bytes_axis *axis)
{
    bool rest = i == plot->columns.n;
    const struct column *column = &plot->columns.v[i];
    int64_t bytes = rest ? plot->other_bytes : column->bytes;
    double x = column_x(plot, i), height = PLOT * (double)bytes / (double)axis->top;
    bool beyond = height > PLOT; /* the others may be far more than any single bin */
    height = beyond ? PLOT : height;
    double width = plot->pitch * 0.68 < 34 ? plot->pitch * 0.68 : 34;
    HX_CLEANUP(hx_text_free) struct hx_text tip = {0};
    char human[HX_HUMAN];
    hx_human_bytes((uint64_t)bytes, human);
    if (rest)
        hx_text_putf(&tip, "%" PRIu64 " other bins: %s", plot->others, human);
    else
        hx_text_putf(&tip, "%s: %s in %" PRId64 " objects", column->roots, human, column->objects);
    hx_sink_putf(sink, "<g class=\"bin\" data-bytes=\"%" PRId64 "\" data-roots=\"", bytes);
    if (!rest)
        hx_sink_xml(sink, column->roots, strlen(column->roots));
    hx_sink_puts(sink, "\">\n");
    hx_drawing_box(sink, rest || !hx_bin_is_named(column->roots) ? "bo" : "b0", x - width / 2,
                   LOWER - height, width, bytes && height < 1 ? 1 : height, hx_text_str(&tip));
    for (int mark = 0; beyond && mark < 2; mark++)
        hx_drawing_line(sink, "cut", x - width / 2 - 3, LOWER - PLOT / 2.0 + mark * 9 + 4,
                        x + width / 2 + 3, LOWER - PLOT / 2.0 + mark * 9 - 4);
    draw_figure(sink, plot, x, LOWER - height - 6, human);
    if (!rest)
        draw_dots(sink, plot, i);
    hx_sink_puts(sink, "</g>\n");
}

static void draw_columns(struct hx_sink *sink, const struct plot *plot)
{
    int64_t most = plot->columns.n ? plot->columns.v[0].bytes : 0;
    struct hx_bytes_axis axis = {MATRIX, LOWER, RIGHT - MATRIX, PLOT, 0, 0};
    hx_bytes_axis_scale(&axis, (uint64_t)most, 5);
    hx_bytes_axis_draw(sink, &axis);
    for (size_t i = 0; i < plot->columns.n + (plot->others > 0); i++)
        draw_bar(sink, plot, i, &axis);
}

static void put_about(struct hx_text *text, const struct plot *plot)
{
    for (size_t i = 0; i < plot->columns.n; i++) {
        char human[HX_HUMAN];
        hx_text_putf(text, "%s%s %s", i ? "; " : ". ", plot->columns.v[i].roots,
                     hx_human_bytes((uint64_t)plot->columns.v[i].bytes, human));
    }
    hx_text_putc(text, '.');
}

static hx_error *load_title(const struct plot *plot, struct hx_text *text)
{
    struct hx_export one = *plot->export;
    one.snapshot = plot->snapshot;
    HX_TIMEPOINTS struct hx_timepoints timepoints = {0};
    HX_TRY(hx_timepoints_load(&one, &timepoints));
    hx_timepoints_title(&timepoints, plot->export, hx_census_find("bin"), text);
    return NULL;
}

hx_error *hx_draw_bins(const struct hx_export *export, struct hx_sink *sink)
{
    HX_CLEANUP(deinit_plot) struct plot plot = {.export = export};
    HX_CLEANUP(hx_drawing_words_deinit) struct hx_drawing_words words = {0};
    char human[HX_HUMAN];
    HX_TRY(load_bins_plot(&plot));
    HX_TRY(load_title(&plot, &words.title));
    hx_text_putf(&words.subtitle, "snapshot %" PRId64 ": %s in %" PRIu64 " bin%s", plot.snapshot,
                 hx_human_bytes((uint64_t)plot.total, human), plot.bins, plot.bins == 1 ? "" : "s");
    if (plot.others)
        hx_text_putf(&words.subtitle, "; last column: %" PRIu64 " others", plot.others);
    hx_text_putf(&words.about, "Sets of objects by the named roots that reach them; %s",
                 hx_text_str(&words.subtitle));
    put_about(&words.about, &plot);
    HX_TRY(hx_drawing_begin(sink, ROWS + (int)plot.rows * LINE + EDGE, &words,
                            ".in{fill:var(--ink)}.out{fill:var(--grid)}"
                            ".join{stroke:var(--ink);stroke-width:2.5}"
                            ".cut{stroke:var(--page);stroke-width:3}"
                            ".upright{dominant-baseline:central}"
                            ".over{paint-order:stroke;stroke:var(--page);stroke-width:5px}"));
    draw_rows(sink, &plot);
    draw_columns(sink, &plot);
    hx_drawing_end(sink);
    return NULL;
}
