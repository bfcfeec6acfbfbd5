/* prof.c - reports as GHC's profilers write them: the retainer report of S. Park and S. Peyton
 * Jones, "Implementation of Retainer Profiling", and the table of cost centres.
 *
 * The retainer report has a block for each census, then the sets with their members. Numbers of
 * sets are the store's and thus the same in all censuses. What a member is depends on the scheme:
 * a cost-centre stack from the top to the bottom, or one name with its module. A file may come from
 * several schemes, so each member says it for itself.
 */
#include "export/ghc/prof.h"

#include "base/cleanup.h"
#include "export/ghc/bands.h"
#include "store/query/named.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { LABEL_LIMIT = 4000 }; /* bytes of a name */

static void put_seconds(struct hx_sink *sink, uint64_t ns)
{
    hx_sink_putf(sink, "%" PRIu64 ".%06" PRIu64, ns / 1000000000, ns / 1000 % 1000000);
}

/* A report on its way. */
struct report {
    const struct hx_export *export;
    struct hx_sink *sink;
    struct hx_timepoints timepoints;
    struct hx_stacktree tree; /* once a site is a member */
    bool has_tree;
    struct hx_text text;
};

static void deinit_report(struct report *report)
{
    hx_timepoints_deinit(&report->timepoints);
    hx_stacktree_deinit(&report->tree);
    hx_text_free(&report->text);
}

/* --- censuses ---------------------------------------------------------------------- */

/* Where the walk over the censuses is. */
struct walk {
    struct report *report;
    size_t next; /* moment */
    uint64_t number;
};

/* Columns of the query. */
enum { SNAPSHOT, VISITS, COSTS, NEW_SETS };

static hx_error *put_block(void *context, hx_rows *rows)
{
    struct walk *walk = context;
    struct report *report = walk->report;
    struct hx_value snapshot = hx_rows_value(rows, SNAPSHOT), visits = hx_rows_value(rows, VISITS);
    struct hx_value costs = hx_rows_value(rows, COSTS), sets = hx_rows_value(rows, NEW_SETS);
    const struct hx_timepoints *timepoints = &report->timepoints;
    while (walk->next < timepoints->v.n && timepoints->v.v[walk->next].snapshot < snapshot.i)
        walk->next++;
    if (walk->next == timepoints->v.n || timepoints->v.v[walk->next].snapshot != snapshot.i)
        return NULL; /* it came meanwhile */
    hx_sink_putf(report->sink, "Retainer Profiling: %" PRIu64 ", at ", walk->number++);
    put_seconds(report->sink, timepoints->v.v[walk->next].since_ns);
    hx_sink_puts(report->sink, " seconds\n  Average number of visits per object = ");
    if (visits.type == HX_VALUE_REAL)
        hx_sink_putf(report->sink, "%f\n", visits.real);
    else if (visits.type == HX_VALUE_INT)
        hx_sink_putf(report->sink, "%" PRId64 ".000000\n", visits.i);
    else
        hx_sink_puts(report->sink, "-\n");
    hx_sink_putf(report->sink, "  Current total costs = %" PRId64 "\n", costs.i);
    hx_sink_putf(report->sink, "  Number of retainer sets = %" PRId64 "\n", sets.i);
    return NULL;
}

static hx_error *put_censuses(struct report *report)
{
    struct walk walk = {.report = report};
    return hx_query_each(report->export->store, HX_QUERY_census_runs,
                         HX_QUERY_ARGS(.snapshot = report->export->snapshot), put_block, &walk);
}

/* --- sets --------------------------------------------------------------------------- */

/* "label[module]" */
static void put_centre_label(struct report *report, const char *label, size_t n, const char *module)
{
    struct hx_text *text = &report->text;
    hx_text_clear(text);
    hx_band_clean(text, HX_BAND_TEXT, label, n);
    if (!text->failed)
        hx_band_cut(text, LABEL_LIMIT);
    hx_sink_puts(report->sink, hx_text_str(text));
    hx_text_clear(text);
    if (module)
        hx_band_clean(text, HX_BAND_TEXT, module, strlen(module));
    if (!text->failed)
        hx_band_cut(text, LABEL_LIMIT);
    hx_sink_putf(report->sink, "[%s]", text->n ? hx_text_str(text) : "-");
    if (text->failed && !report->sink->failed)
        report->sink->failed = ENOMEM;
}

static void put_report_stack(struct report *report, uint32_t at)
{
    const struct hx_stacktree *tree = &report->tree;
    for (bool first = true; at != HX_NO_STACK; first = false) {
        const struct hx_stack_row *row = &tree->rows.v[at];
        const struct hx_stack_centre *centre = &tree->centres.v[row->centre];
        const char *label = hx_stacktree_text(tree, centre->label);
        if (!first)
            hx_sink_putc(report->sink, ',');
        put_centre_label(report, label, strlen(label), hx_stacktree_text(tree, centre->module));
        at = row->parent;
    }
}

/* The stack of a site, which is called "#ID ..." or by a built-in cost centre's name. */
static hx_error *find_site(struct report *report, const char *label, uint32_t *ret)
{
    if (!report->has_tree)
        HX_TRY(hx_export_stacktree(report->export, HX_TREE_CCS, &report->tree));
    report->has_tree = true;
    const struct hx_stacktree *tree = &report->tree;
    *ret = HX_NO_STACK;
    size_t digits = label[0] == '#' ? strspn(label + 1, "0123456789") : 0;
    if (digits && digits < 19) {
        *ret = hx_stacktree_find(tree, strtoll(label + 1, NULL, 10));
        return NULL;
    }
    for (uint32_t i = 0; i < tree->rows.n && *ret == HX_NO_STACK; i++) {
        const struct hx_stack_row *row = &tree->rows.v[i];
        size_t name = tree->centres.v[row->centre].label;
        bool outermost =
            row->parent == HX_NO_STACK || tree->rows.v[row->parent].parent == HX_NO_STACK;
        if (outermost && strcmp(hx_stacktree_text(tree, name), label) == 0)
            *ret = i;
    }
    return NULL;
}

/* Which set is being written; -1: none. */
struct sets {
    struct report *report;
    int64_t id;
};

static void begin_set(struct sets *sets, int64_t id)
{
    if (sets->id >= 0)
        hx_sink_puts(sets->report->sink, "}\n");
    sets->id = id;
    hx_sink_putf(sets->report->sink, "SET %" PRId64 " = {", id);
}

static hx_error *put_member(void *context, hx_rows *rows)
{
    struct sets *sets = context;
    struct report *report = sets->report;
    struct hx_value id = hx_rows_value(rows, 0), space = hx_rows_value(rows, 1);
    struct hx_value label = hx_rows_value(rows, 2), module = hx_rows_value(rows, 3);
    bool first = sets->id != id.i;
    if (id.type != HX_VALUE_INT || id.i < 0)
        return hx_export_damaged(report->export, "retainer sets");
    if (first)
        begin_set(sets, id.i);
    if (id.i < 2 || label.type != HX_VALUE_TEXT) {
        hx_sink_puts(report->sink, id.i == 1 ? "MANY" : "");
        return NULL;
    }
    uint32_t at = HX_NO_STACK;
    if (space.type == HX_VALUE_TEXT && strcmp(space.text, "site") == 0)
        HX_TRY(find_site(report, label.text, &at));
    hx_sink_puts(report->sink, first ? "<" : ", <");
    if (at != HX_NO_STACK)
        put_report_stack(report, at);
    else
        put_centre_label(report, label.text, strlen(label.text),
                         module.type == HX_VALUE_TEXT ? module.text : NULL);
    hx_sink_putc(report->sink, '>');
    return NULL;
}

/* Those that cost something at least once. (unreachable) has no members, MANY does not say. */
static hx_error *put_sets(struct report *report)
{
    struct sets sets = {.report = report, .id = -1};
    hx_sink_puts(report->sink, "\nRetainer sets created during profiling:\n");
    HX_TRY(hx_query_each(report->export->store, HX_QUERY_census_members,
                         HX_QUERY_ARGS(.snapshot = report->export->snapshot), put_member, &sets));
    if (sets.id >= 0)
        hx_sink_puts(report->sink, "}\n");
    return NULL;
}

/* --- the format ---------------------------------------------------------------------- */

static hx_error *write_retainers(struct report *report)
{
    HX_TRY(put_censuses(report));
    return put_sets(report);
}

static hx_error *write_prof(const struct hx_export *export, struct hx_sink *sink)
{
    HX_CLEANUP(deinit_report) struct report report = {.export = export, .sink = sink};
    bool costs = export->by && strcmp(export->by, "ccs") == 0, retainers = false;
    HX_TRY(hx_timepoints_load(export, &report.timepoints));
    HX_TRY(hx_export_has(export, hx_census_find("retainer"), &retainers));
    if (costs || (!retainers && !export->by))
        return hx_prof_write_costs(export, &report.timepoints, sink);
    if (!retainers)
        return hx_export_absent(export, "retainer");
    return write_retainers(&report);
}

const struct hx_exporter hx_export_prof = {
    .name = "prof",
    .about = "GHC's reports: retainer sets, or costs by cost centre",
    .by = "retainer ccs",
    .span = HX_EXPORT_SERIES,
    .write = write_prof,
};
