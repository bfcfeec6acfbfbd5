/* prof_costs.c - the table of cost centres as GHC's time and allocation profiler writes it: flat,
 * and as the tree of cost-centre stacks with what each one inherits.
 *
 * The table has a column for times, which nobody measured: they are `-`, as are entries that cannot
 * be seen. No cell holds a blank, so that who splits lines at blanks finds all columns. Requested
 * bytes since the recording began are what percentages are of. The tree has no back edges.
 */
#include "export/ghc/prof.h"

#include "base/cleanup.h"
#include "base/preorder.h"
#include "export/ghc/bands.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum {
    CELL_LIMIT = 400, /* bytes of a cell */
    WIDE = 100,       /* columns that are kept in line */
    DEEPEST = 1000,   /* levels that are indented: a chain of 65,536 would fill gigabytes */
};

/* -1: cannot be seen. */
struct cost {
    int64_t entries, alloc, inherited;
    bool unseen; /* what it allocated; so nobody knows that it is nothing */
    bool kept;   /* it has a cost, or one below it has; of MAIN always */
    int depth;   /* of those that are kept */
};

struct flat {
    uint32_t centre;
    int64_t alloc;
};

struct table {
    const struct hx_export *export;
    struct hx_sink *sink;
    struct hx_stacktree tree;
    struct cost *cost; /* by stack */
    uint32_t *order;   /* of stacks in the tree */
    struct flat *flat; /* by centre, then sorted */
    int64_t total;
    uint64_t deeper; /* rows that are not indented as deep as they are */
    int label_width, module_width, source_width;
    struct hx_text text, words;
};

static void deinit_cost_table(struct table *t)
{
    hx_stacktree_deinit(&t->tree);
    free(t->cost);
    free(t->order);
    free(t->flat);
    hx_text_free(&t->text);
    hx_text_free(&t->words);
}

/* --- rows ---------------------------------------------------------------------------- */

static int64_t cost_figure(struct hx_value value)
{
    return value.type == HX_VALUE_INT && value.i >= 0 ? value.i : -1;
}

static hx_error *read_cost(void *context, hx_rows *rows)
{
    struct table *t = context;
    uint32_t at = hx_stacktree_find(&t->tree, hx_rows_value(rows, HX_WEIGHT_ID).i);
    if (at == HX_NO_STACK)
        return hx_export_damaged(t->export, "costs");
    t->cost[at] = (struct cost){
        .entries = cost_figure(hx_rows_value(rows, HX_WEIGHT_ENTRIES)),
        .alloc = cost_figure(hx_rows_value(rows, HX_WEIGHT_BYTES)),
        .inherited = cost_figure(hx_rows_value(rows, HX_WEIGHT_INHERITED)),
    };
    t->cost[at].unseen = t->cost[at].alloc < 0;
    if (t->cost[at].unseen)
        return NULL;
    uint32_t centre = t->tree.rows.v[at].centre;
    t->flat[centre].centre = centre;
    if (__builtin_add_overflow(t->total, t->cost[at].alloc, &t->total))
        return hx_export_damaged(t->export, "costs");
    t->flat[centre].alloc += t->cost[at].alloc;
    return NULL;
}

static hx_error *load_costs(struct table *t, int64_t snapshot)
{
    size_t n = t->tree.rows.n;
    t->cost = calloc(n + 1, sizeof *t->cost);
    t->flat = calloc(t->tree.centres.n + 1, sizeof *t->flat);
    HX_NEED(t->cost && t->flat);
    for (size_t i = 0; i < n; i++)
        t->cost[i] = (struct cost){.entries = -1, .alloc = -1, .inherited = -1};
    return hx_query_each(t->export->store, hx_stack_weights(HX_TREE_CCS, HX_WEIGHTS_ALLOCATED),
                         HX_QUERY_ARGS(.snapshot = snapshot), read_cost, t);
}

/* --- order ------------------------------------------------------------------------- */

static const char *centre_label(const struct table *t, uint32_t centre)
{
    return hx_stacktree_text(&t->tree, t->tree.centres.v[centre].label);
}

/* Siblings: by entries, the most first, then labels, then numbers. */
static int compare_siblings(const void *left, const void *right, void *context)
{
    const struct table *t = context;
    uint32_t a = *(const uint32_t *)left, b = *(const uint32_t *)right;
    const struct hx_stack_row *x = &t->tree.rows.v[a], *y = &t->tree.rows.v[b];
    if (t->cost[a].entries != t->cost[b].entries)
        return t->cost[a].entries > t->cost[b].entries ? -1 : 1;
    int order =
        x->centre == y->centre ? 0 : strcmp(centre_label(t, x->centre), centre_label(t, y->centre));
    return order ? order : a < b ? -1 : a > b;
}

static int by_alloc(const void *left, const void *right, void *context)
{
    const struct table *t = context;
    const struct flat *a = left, *b = right;
    if (a->alloc != b->alloc)
        return a->alloc > b->alloc ? -1 : 1;
    int order = strcmp(centre_label(t, a->centre), centre_label(t, b->centre));
    return order ? order : a->centre < b->centre ? -1 : a->centre > b->centre;
}

static hx_error *sort_tree(struct table *t)
{
    const struct hx_stack_row *row = t->tree.rows.v;
    size_t n = t->tree.rows.n;
    for (size_t i = n; i-- > 0;) {
        struct cost *cost = &t->cost[i];
        bool top = row[i].parent == HX_NO_STACK;
        cost->kept |= cost->alloc > 0 || cost->entries > 0 || cost->unseen || top;
        if (cost->kept && !top)
            t->cost[row[i].parent].kept = true;
    }
    for (size_t i = 0; i < n; i++)
        t->cost[i].depth = row[i].parent == HX_NO_STACK ? 0 : t->cost[row[i].parent].depth + 1;
    return hx_preorder(HX_PARENTS(row, parent, n), compare_siblings, t, &t->order);
}

/* --- cells --------------------------------------------------------------------------- */

/* A word; "-" where nothing is known. */
static const char *cost_cell(struct table *t, const char *s)
{
    struct hx_text *text = &t->text;
    hx_text_clear(text);
    hx_band_clean(text, HX_BAND_WORD, s, strlen(s));
    if (!text->n)
        hx_text_putc(text, '-');
    if (text->failed)
        return "-";
    hx_band_cut(text, CELL_LIMIT);
    return text->s;
}

/* In columns: a character is one, and that is what GHC counts as well. */
static int width_of(const char *s)
{
    int n = 0;
    for (; *s; s++)
        n += ((unsigned char)*s & 0xc0) != 0x80;
    return n;
}

static void put_cell(struct table *t, const char *s, int width, int indent)
{
    for (int i = 0; i < indent; i++)
        hx_sink_putc(t->sink, ' ');
    hx_sink_puts(t->sink, s);
    int n = width_of(s) + indent;
    do
        hx_sink_putc(t->sink, ' ');
    while (n++ < width);
}

static int wider(int a, int b)
{
    return b <= WIDE && b > a ? b : a;
}

static void measure_cost_columns(struct table *t)
{
    t->label_width = 11;
    t->module_width = 6;
    t->source_width = 3;
    for (size_t i = 0; i < t->tree.centres.n; i++) {
        const struct hx_stack_centre *centre = &t->tree.centres.v[i];
        t->label_width =
            wider(t->label_width, width_of(cost_cell(t, centre_label(t, (uint32_t)i))));
        t->module_width = wider(
            t->module_width, width_of(cost_cell(t, hx_stacktree_text(&t->tree, centre->module))));
        t->source_width = wider(
            t->source_width, width_of(cost_cell(t, hx_stacktree_text(&t->tree, centre->source))));
    }
}

static void put_centre(struct table *t, uint32_t index, int label_width, int indent)
{
    const struct hx_stack_centre *centre = &t->tree.centres.v[index];
    put_cell(t, cost_cell(t, centre_label(t, index)), label_width, indent);
    put_cell(t, cost_cell(t, hx_stacktree_text(&t->tree, centre->module)), t->module_width, 0);
    put_cell(t, cost_cell(t, hx_stacktree_text(&t->tree, centre->source)), t->source_width, 0);
}

static void put_cost_percent(struct table *t, int64_t bytes, int width)
{
    if (bytes < 0)
        hx_sink_putf(t->sink, "%*s", width, "-");
    else
        hx_sink_putf(t->sink, "%*.1f", width,
                     t->total ? 100.0 * (double)bytes / (double)t->total : 0);
}

static void put_cost_figure(struct table *t, int64_t figure, int width)
{
    if (figure < 0)
        hx_sink_putf(t->sink, "%*s", width, "-");
    else
        hx_sink_putf(t->sink, "%*" PRId64, width, figure);
}

/* --- tables -------------------------------------------------------------------------- */

/* "1,234,567" */
static void put_commas(struct hx_text *text, int64_t value)
{
    char digits[24];
    int n = snprintf(digits, sizeof digits, "%" PRId64, value);
    for (int i = 0; i < n; i++) {
        hx_text_putc(text, digits[i]);
        if ((n - i) % 3 == 1 && i + 1 < n)
            hx_text_putc(text, ',');
    }
}

static void put_cost_head(struct table *t, const struct hx_timepoints *timepoints,
                          const struct hx_timepoint *timepoint)
{
    struct hx_sink *sink = t->sink;
    char date[HX_BAND_DATE];
    hx_text_clear(&t->words);
    hx_text_clear(&t->text);
    put_commas(&t->words, t->total);
    const char *program = hx_timepoints_program(timepoints, t->export);
    hx_band_clean(&t->text, HX_BAND_TEXT, program, strlen(program));
    hx_sink_putf(sink, "\t%s Time and Allocation Profiling Report  (Final)\n\n\t   %s\n\n",
                 hx_band_date(timepoint->taken_at_ns, date), hx_text_str(&t->text));
    hx_sink_putf(sink, "\ttotal time  = %8" PRIu64 ".%02" PRIu64, timepoint->since_ns / 1000000000,
                 timepoint->since_ns / 10000000 % 100);
    hx_sink_puts(sink, " secs   (wall time since the start; by cost centre not measured)\n");
    hx_sink_putf(sink, "\ttotal alloc = %11s bytes  (requested by the program)\n\n",
                 hx_text_str(&t->words));
}

static hx_error *put_flat(struct table *t)
{
    size_t n = 0;
    for (size_t i = 0; i < t->tree.centres.n; i++)
        if (t->flat[i].alloc > t->total / 100)
            t->flat[n++] = t->flat[i];
    qsort_r(t->flat, n, sizeof *t->flat, by_alloc, t);
    put_cell(t, "COST CENTRE", t->label_width, 0);
    put_cell(t, "MODULE", t->module_width, 0);
    put_cell(t, "SRC", t->source_width, 0);
    hx_sink_puts(t->sink, " %time %alloc  ticks     bytes\n\n");
    for (size_t i = 0; i < n; i++) {
        put_centre(t, t->flat[i].centre, t->label_width, 0);
        hx_sink_puts(t->sink, "     - ");
        put_cost_percent(t, t->flat[i].alloc, 6);
        hx_sink_puts(t->sink, "      - ");
        put_cost_figure(t, t->flat[i].alloc, 9);
        hx_sink_putc(t->sink, '\n');
    }
    return NULL;
}

static void put_row(struct table *t, uint32_t at, int width)
{
    const struct cost *cost = &t->cost[at];
    t->deeper += cost->depth > DEEPEST;
    put_centre(t, t->tree.rows.v[at].centre, width, cost->depth < DEEPEST ? cost->depth : DEEPEST);
    hx_sink_putf(t->sink, "%6" PRId64 " ", t->tree.rows.v[at].id);
    put_cost_figure(t, cost->entries, 11);
    hx_sink_puts(t->sink, "      -  ");
    put_cost_percent(t, cost->alloc, 5);
    hx_sink_puts(t->sink, "       -  ");
    put_cost_percent(t, cost->inherited, 5);
    hx_sink_puts(t->sink, "      - ");
    put_cost_figure(t, cost->alloc, 9);
    hx_sink_putc(t->sink, '\n');
}

/* How wide the first column becomes with its indents. */
static int tree_width(const struct table *t)
{
    int width = t->label_width;
    for (size_t i = 0; i < t->tree.rows.n; i++)
        if (t->cost[i].kept && t->cost[i].depth)
            width = wider(width, t->cost[i].depth + 20);
    return width;
}

static void put_tree(struct table *t)
{
    int width = tree_width(t);
    int before = width + t->module_width + t->source_width + 3;
    hx_sink_putf(t->sink, "\n\n%*s%18s  %13s   %13s\n", before, "", "", "individual", "inherited");
    put_cell(t, "COST CENTRE", width, 0);
    put_cell(t, "MODULE", t->module_width, 0);
    put_cell(t, "SRC", t->source_width, 0);
    hx_sink_puts(t->sink, "   no.     entries  %time %alloc   %time %alloc  ticks     bytes\n\n");
    for (size_t i = 0; i < t->tree.rows.n; i++)
        if (t->cost[t->order[i]].kept)
            put_row(t, t->order[i], width);
}

hx_error *hx_prof_write_costs(const struct hx_export *export,
                              const struct hx_timepoints *timepoints, struct hx_sink *sink)
{
    HX_CLEANUP(deinit_cost_table) struct table t = {.export = export, .sink = sink};
    int64_t snapshot = 0; /* the last one in question of which allocations were recorded */
    HX_TRY(hx_query_number(export->store, HX_QUERY_last_allocations,
                           HX_QUERY_ARGS(.snapshot = export->snapshot), &snapshot));
    const struct hx_timepoint *timepoint = NULL;
    for (size_t i = 0; i < timepoints->v.n; i++)
        if (timepoints->v.v[i].snapshot == snapshot)
            timepoint = &timepoints->v.v[i];
    if (!timepoint)
        return hx_export_absent(export, "ccs");
    HX_TRY(hx_export_stacktree(export, HX_TREE_CCS, &t.tree));
    HX_TRY(load_costs(&t, snapshot));
    HX_TRY(sort_tree(&t));
    measure_cost_columns(&t);
    put_cost_head(&t, timepoints, timepoint);
    HX_TRY(put_flat(&t));
    put_tree(&t);
    if (t.deeper)
        hx_text_putf(export->notes, "rows deeper than %d, not indented any more: %" PRIu64 "\n",
                     DEEPEST, t.deeper);
    return t.text.failed || t.words.failed ? hx_error_nomem() : NULL;
}
