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
#include "store/query.h"

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

typedef hx_error *row_fn(struct report *report, void *context, hx_rows *rows);

static hx_error *each_report_row(struct report *report, struct hx_text *sql, row_fn *row,
                                 void *context)
{
    hx_rows *rows = NULL;
    hx_error *err = sql->failed ? hx_error_nomem()
                                : hx_query_sql(report->export->store, hx_text_str(sql), &rows);
    hx_text_free(sql);
    for (bool more = !err; !err && more;) {
        err = hx_rows_next(rows, &more);
        if (!err && more)
            err = row(report, context, rows);
    }
    hx_rows_end(rows);
    return err;
}

/* " AND snapshot = N", when only one is asked for. */
static void put_which(const struct report *report, struct hx_text *sql)
{
    if (report->export->snapshot)
        hx_text_putf(sql, " AND snapshot = %" PRId64, report->export->snapshot);
}

/* --- censuses ---------------------------------------------------------------------- */

/* Where the walk over the censuses is. */
struct walk {
    size_t next; /* moment */
    uint64_t number;
};

/* Columns of the statement below. */
enum { SNAPSHOT, VISITS, COSTS, NEW_SETS };

static hx_error *put_block(struct report *report, void *context, hx_rows *rows)
{
    struct walk *walk = context;
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

/* Sets count from the snapshot on that had them first, also when that one is not asked for. */
static hx_error *put_censuses(struct report *report)
{
    struct hx_text sql = {0};
    struct walk walk = {0};
    hx_text_puts(
        &sql,
        "WITH first(snapshot, n) AS (SELECT snapshot, count(*) FROM (SELECT min(snapshot) AS"
        " snapshot FROM hx_retention WHERE set_id >= 2 AND snapshot IN (SELECT snapshot FROM"
        " hx_snapshot) GROUP BY set_id) GROUP BY 1),"
        " total(snapshot, n) AS (SELECT s.snapshot, sum(coalesce(first.n, 0)) OVER"
        " (ORDER BY s.snapshot) FROM hx_snapshot AS s LEFT JOIN first USING(snapshot))"
        " SELECT t.snapshot AS snapshot, c.visits_per_object, coalesce(c.total_bytes, (SELECT"
        " sum(x.bytes) FROM hx_retention AS x WHERE x.snapshot = t.snapshot AND x.set_id <> 0)),"
        " t.n"
        " FROM total AS t LEFT JOIN hx_census AS c ON c.snapshot = t.snapshot"
        " WHERE (c.snapshot IS NOT NULL OR EXISTS (SELECT 1 FROM hx_retention AS x WHERE"
        " x.snapshot = t.snapshot))");
    if (report->export->snapshot)
        hx_text_putf(&sql, " AND t.snapshot = %" PRId64, report->export->snapshot);
    hx_text_puts(&sql, " ORDER BY t.snapshot");
    return each_report_row(report, &sql, put_block, &walk);
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
        HX_TRY(hx_stacktree_load(report->export, HX_TREE_CCS, &report->tree));
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
    int64_t id;
};

static void begin_set(struct report *report, struct sets *sets, int64_t id)
{
    if (sets->id >= 0)
        hx_sink_puts(report->sink, "}\n");
    sets->id = id;
    hx_sink_putf(report->sink, "SET %" PRId64 " = {", id);
}

static hx_error *put_member(struct report *report, void *context, hx_rows *rows)
{
    struct sets *sets = context;
    struct hx_value id = hx_rows_value(rows, 0), space = hx_rows_value(rows, 1);
    struct hx_value label = hx_rows_value(rows, 2), module = hx_rows_value(rows, 3);
    bool first = sets->id != id.i;
    if (id.type != HX_VALUE_INT || id.i < 0)
        return hx_export_damaged(report->export, "retainer sets");
    if (first)
        begin_set(report, sets, id.i);
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
    struct hx_text sql = {0};
    struct sets sets = {.id = -1};
    hx_sink_puts(report->sink, "\nRetainer sets created during profiling:\n");
    hx_text_puts(&sql, "SELECT u.set_id, r.space, r.label, r.module FROM (SELECT DISTINCT set_id"
                       " FROM hx_retention WHERE bytes > 0 AND snapshot IN (SELECT snapshot FROM"
                       " hx_snapshot)");
    put_which(report, &sql);
    hx_text_puts(&sql, ") AS u LEFT JOIN hx_set_member AS m ON m.set_id = u.set_id LEFT JOIN"
                       " hx_retainer AS r ON r.retainer = m.retainer"
                       " ORDER BY u.set_id, m.position");
    HX_TRY(each_report_row(report, &sql, put_member, &sets));
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
