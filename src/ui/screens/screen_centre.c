/* screen_centre.c - one cost-centre stack: its costs, what it called, its largest objects, and its
 * bytes over the snapshots. */
#include "ui/app.h"
#include "ui/data/call_label.h"
#include "ui/list/tree.h"

#include <inttypes.h>
#include <string.h>

#define LARGEST   5    /* so many objects are among the rows; `o` shows all of them */
#define CALLED    100  /* so many of what it called; screen 4 shows all of them */
#define CALLERS   6    /* so many functions of the way to it stand above the list */
#define OVER_TIME 1000 /* so many snapshots are in the line of its bytes, the last ones */
#define SPARK     24   /* cells of that line */

static const struct hx_column columns[] = {
    {"what", NULL, HX_AS_TEXT, 8, 0, NULL, NULL},
    {"label", "", HX_AS_TREE, -20, 0, NULL, NULL},
    {"about", "", HX_AS_SOURCE, -14, 3, NULL, NULL},
    {"bytes", "live", HX_AS_BYTES, 8, 0, NULL, NULL},
    {"own", "own live", HX_AS_BYTES, 8, 2, NULL, NULL},
    {"bytes", "", HX_AS_BAR, 6, 1, "most", NULL},
    {"objects", NULL, HX_AS_COUNT, 9, 4, NULL, NULL},
    {0},
};

static void put_called(const struct hx_pane *pane, int64_t snapshot, struct hx_text *sql)
{
    hx_text_putf(sql,
                 "SELECT 1 AS rank, row_number() OVER () AS position, 'called' AS what, label,"
                 " about, bytes, own, objects, NULL AS object, NULL AS number, ccs_id,"
                 " module, kind, recursive FROM (SELECT n.label AS label,"
                 " coalesce(n.source, n.module) AS about, n.module AS module, n.kind AS kind,"
                 " c.recursive AS recursive,"
                 " k.inherited_live_bytes AS bytes, k.live_bytes AS own,"
                 " k.inherited_live_objects AS objects, c.ccs_id AS ccs_id FROM hx_ccs c"
                 " CROSS JOIN hx_cost k ON k.snapshot = %" PRId64 " AND k.ccs_id = c.ccs_id"
                 " LEFT JOIN hx_centre n ON n.centre = c.centre WHERE c.parent_id = %" PRId64
                 " ORDER BY k.inherited_live_bytes DESC, c.ccs_id LIMIT %d)",
                 snapshot, pane->id, CALLED);
}

static void put_centre_objects_sql(const struct hx_pane *pane, int64_t snapshot,
                                   struct hx_text *sql)
{
    hx_text_putf(sql,
                 " UNION ALL SELECT 2, -bytes, 'object', printf('0x%%x', address), type, bytes,"
                 " bytes, 1, address, NULL, NULL, NULL, NULL, NULL FROM (SELECT address, bytes, "
                 "type FROM objects"
                 " WHERE snapshot = %" PRId64 " AND ccs_id = %" PRId64
                 " ORDER BY bytes DESC, address LIMIT %d)",
                 snapshot, pane->id, LARGEST);
}

/* A snapshot with a recording in which it is not has 0 bytes of it. */
static void put_times(const struct hx_pane *pane, int64_t snapshot, struct hx_text *sql)
{
    hx_text_putf(sql,
                 " UNION ALL SELECT 3, s.snapshot, 'snapshot', s.snapshot || CASE s.snapshot"
                 " WHEN %" PRId64 " THEN ' (this one)' ELSE '' END,"
                 " replace(substr(s.taken_at, 6, 14), 'T', ' '),"
                 " coalesce(k.inherited_live_bytes, CASE WHEN m.ccs_id THEN 0 END),"
                 " coalesce(k.live_bytes, CASE WHEN m.ccs_id THEN 0 END),"
                 " k.inherited_live_objects, NULL, s.snapshot, NULL, NULL, NULL, NULL"
                 " FROM snapshots s"
                 " LEFT JOIN hx_cost k ON k.snapshot = s.snapshot AND k.ccs_id = %" PRId64
                 " LEFT JOIN hx_cost m ON m.snapshot = s.snapshot AND m.ccs_id = 1",
                 snapshot, pane->id);
}

static void centre_source(const struct hx_pane *pane, int64_t snapshot, struct hx_source *ret)
{
    struct hx_text id = {0};
    put_called(pane, snapshot, &ret->sql);
    put_centre_objects_sql(pane, snapshot, &ret->sql);
    put_times(pane, snapshot, &ret->sql);
    hx_text_puts(&ret->sql, " ORDER BY rank, position, object");

    /* One row for each function on the way to it. */
    hx_text_putf(&id, "%" PRId64, pane->id);
    hx_text_putf(&ret->facts,
                 "SELECT (SELECT count(*) FROM snapshots) + %d AS rows, k.*, n.label AS label,"
                 " n.module AS module, n.source AS source, n.kind AS kind,"
                 " c.recursive AS recursive, (SELECT group_concat(coalesce(bytes, '-'), ' ') FROM"
                 " (SELECT coalesce(y.inherited_live_bytes, CASE WHEN m.ccs_id THEN 0 END) AS bytes"
                 " FROM (SELECT snapshot FROM snapshots ORDER BY snapshot DESC LIMIT %d) s"
                 " LEFT JOIN hx_cost y ON y.snapshot = s.snapshot"
                 " AND y.ccs_id = c.ccs_id LEFT JOIN hx_cost m ON m.snapshot = s.snapshot"
                 " AND m.ccs_id = %d ORDER BY s.snapshot)) AS over_time,"
                 " x.retained_bytes AS retained_bytes,"
                 " x.retained_objects AS retained_objects, c.depth AS depth,"
                 " f.label AS caller, (SELECT max(y.inherited_live_bytes) FROM snapshots s"
                 " CROSS JOIN hx_cost y ON y.snapshot = s.snapshot AND y.ccs_id = c.ccs_id) AS "
                 "most FROM hx_ccs c"
                 " LEFT JOIN hx_centre n ON n.centre = c.centre"
                 " LEFT JOIN hx_cost k ON k.snapshot = %" PRId64 " AND k.ccs_id = c.ccs_id"
                 " LEFT JOIN hx_site x ON x.snapshot = %" PRId64 " AND x.ccs_id = c.ccs_id"
                 " LEFT JOIN (",
                 CALLED + LARGEST, OVER_TIME, HX_TREE_TOP, snapshot, snapshot);
    hx_centres_sql(&ret->facts, hx_text_str(&id), CALLERS + 2);
    hx_text_putf(&ret->facts, ") f WHERE c.ccs_id = %" PRId64, pane->id);
    ret->facts.failed |= id.failed;
    hx_text_free(&id);
}

/* "1.2M in 5,000 objects" */
static void put_centre_sum(const struct hx_table *facts, const char *bytes, const char *objects,
                           struct hx_text *ret)
{
    char size[HX_HUMAN];
    int64_t n = hx_table_int(facts, 0, objects, -1), sum = hx_table_int(facts, 0, bytes, 0);
    hx_text_puts(ret, hx_human_bytes(sum > 0 ? (uint64_t)sum : 0, size));
    if (n < 0) /* nobody counted them */
        return;
    hx_text_puts(ret, " in ");
    hx_text_count(ret, n);
    hx_text_puts(ret, n == 1 ? " object" : " objects");
}

static void put_costs(const struct hx_table *facts, struct hx_text *ret)
{
    hx_text_puts(ret, "\nlive: ");
    put_centre_sum(facts, "inherited_live_bytes", "inherited_live_objects", ret);
    hx_text_puts(ret, ", of its own ");
    put_centre_sum(facts, "live_bytes", "live_objects", ret);
    if (hx_table_at(facts, 0, "alloc_bytes")->type == HX_VALUE_INT) {
        hx_text_puts(ret, "\nallocated so far: ");
        put_centre_sum(facts, "inherited_alloc_bytes", "inherited_alloc_objects", ret);
        hx_text_puts(ret, ", of its own ");
        put_centre_sum(facts, "alloc_bytes", "alloc_objects", ret);
        hx_text_puts(ret, "\nfreed of its own: ");
        put_centre_sum(facts, "freed_bytes", "freed_objects", ret);
    }
    if (hx_table_at(facts, 0, "retained_bytes")->type == HX_VALUE_INT) {
        hx_text_puts(ret, "\nretained by its own: ");
        put_centre_sum(facts, "retained_bytes", "retained_objects", ret);
    }
    if (hx_table_at(facts, 0, "entries")->type == HX_VALUE_INT) {
        hx_text_puts(ret, "\nentered: ");
        hx_text_count(ret, hx_table_int(facts, 0, "entries", 0));
    }
}

/* Its bytes in each snapshot, as a line of heights. */
static void put_over_time(const struct hx_table *facts, bool ascii, struct hx_text *ret)
{
    const char *numbers = hx_table_text(facts, 0, "over_time");
    char size[HX_HUMAN];
    int64_t most = hx_table_int(facts, 0, "most", 0);
    if (!strchr(numbers, ' ') || most <= 0)
        return; /* one snapshot, or nothing in any of them */
    hx_text_puts(ret, "\nlive over all snapshots: ");
    hx_text_spark_of(ret, numbers, SPARK, ascii);
    hx_text_putf(ret, " most %s", hx_human_bytes((uint64_t)most, size));
}

/* What the marks of its name mean. */
static void put_marks(const struct hx_table *facts, struct hx_text *ret)
{
    if (strcmp(hx_table_text(facts, 0, "kind"), "caf") == 0)
        hx_text_puts(ret, "\nwhat the module's initialisers do, before main and when it is loaded");
    if (hx_table_int(facts, 0, "recursive", 0))
        hx_text_puts(ret, "\nrecursive: what deeper calls of it do is counted here, too");
}

/* "< serve < main" */
static void put_callers(const struct hx_table *facts, bool ascii, struct hx_text *ret)
{
    int64_t depth = hx_table_int(facts, 0, "depth", 0);
    for (size_t i = 1; i < facts->n_rows && i <= CALLERS; i++) {
        struct hx_text call = {0};
        hx_text_calls(&call, hx_table_text(facts, i, "caller"));
        hx_text_puts(ret, i > 1 ? " < " : "\ncalled by ");
        hx_text_escape(ret, hx_text_str(&call), call.n, ascii);
        hx_text_free(&call);
    }
    if (depth > CALLERS + 1)
        hx_text_puts(ret, " < ...");
}

static void centre_title(const struct hx_ui *ui, const struct hx_pane *pane, struct hx_text *ret)
{
    bool ascii = !ui->term.utf8;
    const struct hx_table *facts = &pane->facts;
    const char *module = hx_table_text(facts, 0, "module");
    const char *source = hx_source_file(hx_table_text(facts, 0, "source"));
    bool known = pane->loaded && !pane->problem && facts->n_rows;
    hx_text_puts(ret, "Cost centre ");
    if (known)
        hx_node_name(facts, 0, ascii, ret);
    else
        hx_pane_put_calls(pane, ascii, ret);
    if (!known)
        return;
    if (*source) {
        hx_text_puts(ret, " at ");
        hx_text_escape(ret, source, strlen(source), ascii);
    }
    if (*module && strcmp(hx_table_text(facts, 0, "kind"), "caf") != 0) {
        hx_text_puts(ret, " (");
        hx_text_escape(ret, module, strlen(module), ascii);
        hx_text_putc(ret, ')');
    }
    if (hx_table_at(facts, 0, "inherited_live_bytes")->type == HX_VALUE_INT)
        put_costs(facts, ret);
    else
        hx_text_puts(ret, "\nnothing in this snapshot");
    put_over_time(facts, ascii, ret);
    put_marks(facts, ret);
    put_callers(facts, ascii, ret);
}

static hx_error *open_centre_row(struct hx_ui *ui, struct hx_pane *pane, size_t row)
{
    const struct hx_table *rows = &pane->rows;
    int64_t id = hx_table_int(rows, row, "ccs_id", 0);
    uint64_t address;
    if (hx_pane_object(pane, row, &address))
        return hx_ui_open_object(ui, address);
    if (id)
        return hx_ui_open_of(
            ui, &hx_screen_centre,
            &(struct hx_of){HX_SUBSET_CCS, hx_table_text(rows, row, "label"), NULL, id});
    hx_ui_set_snapshot(ui, hx_table_int(rows, row, "number", ui->snapshot));
    return NULL;
}

/* Of what it called everything; of any other row its own. */
static bool centre_row_set(const struct hx_pane *pane, size_t row, struct hx_of *ret)
{
    int64_t id = hx_table_int(&pane->rows, row, "ccs_id", 0);
    *ret = id ? (struct hx_of){HX_SUBSET_BELOW, hx_table_text(&pane->rows, row, "label"), NULL, id}
              : (struct hx_of){HX_SUBSET_CCS, pane->text, NULL, pane->id};
    return true;
}

static const char *const key[] = {"what", "position", "object", NULL};

const struct hx_screen hx_screen_centre = {
    .name = "centre",
    .about = "a cost centre: what it called, objects, bytes over time",
    .digit = -1,
    .by_argument = true,
    .columns = columns,
    .key = key,
    .object = "object",
    .source = centre_source,
    .head = centre_title,
    .open = open_centre_row,
    .of = centre_row_set,
};
