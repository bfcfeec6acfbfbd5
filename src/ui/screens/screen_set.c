/* screen_set.c - one retainer set, or one bin: its members, its largest objects, and its bytes
 * over the snapshots. */
#include "ui/app.h"

#include <inttypes.h>
#include <string.h>

#define LARGEST 5     /* so many objects are among the rows; `o` shows all of them */
#define CELLS   "200" /* of its bytes over time, at most */

static const struct hx_column columns[] = {
    {"what", NULL, HX_AS_TEXT, 8, 0, NULL, NULL},
    {"label", "", HX_AS_TEXT, -23, 0, NULL, NULL},
    {"about", "", HX_AS_TEXT, -16, 3, NULL, NULL},
    {"bytes", NULL, HX_AS_BYTES, 8, 0, NULL, NULL},
    {"bytes", "", HX_AS_BAR, -8, 1, "most", NULL},
    {"objects", NULL, HX_AS_COUNT, 10, 2, NULL, NULL},
    {0},
};

static bool is_bin(const struct hx_pane *pane)
{
    return pane->subset == HX_SUBSET_BIN;
}

/* The rows of this set or bin in the table of sums `t`. */
static void put_sums(const struct hx_pane *pane, struct hx_text *sql)
{
    if (is_bin(pane)) {
        hx_text_puts(sql, "t.objects > 0 AND t.roots = ");
        hx_text_sql(sql, pane->text);
    } else {
        hx_text_putf(sql, "t.set_id = %" PRId64, pane->id);
    }
}

static void put_members(const struct hx_pane *pane, int64_t snapshot, struct hx_text *sql)
{
    if (is_bin(pane)) {
        hx_text_puts(sql, "SELECT 1 AS rank, n.position AS position, 'root' AS what,"
                          " n.name AS label, coalesce(n.expr, r.kind) AS about, NULL AS bytes,"
                          " NULL AS objects, NULL AS object, NULL AS number,"
                          " n.root_id AS root_id, 'root' AS kind FROM hx_named n"
                          " LEFT JOIN roots r ON r.snapshot = n.snapshot"
                          " AND r.root_id = n.root_id WHERE instr('+' || ");
        hx_text_sql(sql, pane->text);
        hx_text_putf(sql, " || '+', '+' || n.name || '+') > 0 AND n.snapshot = %" PRId64, snapshot);
        return;
    }
    hx_text_putf(sql,
                 "SELECT 1 AS rank, m.position AS position, 'retainer' AS what, m.label AS label,"
                 " m.kind || coalesce(' of ' || m.module, '') AS about, NULL AS bytes,"
                 " NULL AS objects, NULL AS object, NULL AS number,"
                 " (SELECT min(root_id) FROM roots r WHERE r.snapshot = %" PRId64
                 " AND r.name = m.label AND r.kind = m.kind) AS root_id, m.kind AS kind"
                 " FROM retainer_members m WHERE m.set_id = %" PRId64,
                 snapshot, pane->id);
}

static void put_set_objects_sql(const struct hx_pane *pane, int64_t snapshot, struct hx_text *sql)
{
    hx_text_putf(sql,
                 " UNION ALL SELECT 2, -bytes, 'object', printf('0x%%x', address), type, bytes,"
                 " 1, address, NULL, NULL, NULL FROM (SELECT address, bytes, type FROM objects"
                 " WHERE snapshot = %" PRId64 " AND ",
                 snapshot);
    struct hx_of of = hx_pane_of(pane);
    hx_of_where(&of, sql);
    hx_text_putf(sql, " ORDER BY bytes DESC, address LIMIT %d)", LARGEST);
}

/* Its bytes and objects in each snapshot; one in which it was looked for without success has 0
 * bytes of it. */
static void put_history(const struct hx_pane *pane, int64_t snapshot, struct hx_text *sql)
{
    hx_text_puts(sql, "SELECT s.snapshot AS snapshot, s.taken_at AS taken_at,"
                      " t.objects AS objects, coalesce(t.bytes, ");
    if (is_bin(pane))
        hx_text_puts(sql, "CASE WHEN EXISTS (SELECT 1 FROM hx_bin WHERE snapshot = s.snapshot)"
                          " THEN 0 END");
    else
        hx_text_putf(sql,
                     "CASE WHEN c.scheme = (SELECT scheme FROM censuses WHERE snapshot = %" PRId64
                     ") THEN 0 END",
                     snapshot);
    hx_text_puts(sql, ") AS bytes FROM snapshots s");
    hx_text_putf(sql, " LEFT JOIN %s t ON t.snapshot = s.snapshot AND ",
                 is_bin(pane) ? "hx_bin" : "hx_retention");
    put_sums(pane, sql);
    if (!is_bin(pane))
        hx_text_puts(sql, " LEFT JOIN censuses c ON c.snapshot = s.snapshot");
}

static void put_times(const struct hx_pane *pane, int64_t snapshot, struct hx_text *sql)
{
    hx_text_putf(sql,
                 " UNION ALL SELECT 3, snapshot, 'snapshot', snapshot || CASE snapshot"
                 " WHEN %" PRId64 " THEN ' (this one)' ELSE '' END,"
                 " replace(substr(taken_at, 6, 14), 'T', ' '), bytes, objects, NULL, snapshot,"
                 " NULL, NULL FROM (",
                 snapshot);
    put_history(pane, snapshot, sql);
    hx_text_puts(sql, ")");
}

/* ", ... AS history": the bytes as numbers with blanks between, of many snapshots the largest of
 * those that lie together; and the first, the last and the largest of all. */
static void put_spark(const struct hx_pane *pane, int64_t snapshot, struct hx_text *sql)
{
    static const char *const ends[] = {"ASC", "DESC"};
    hx_text_puts(sql, ", (SELECT group_concat(coalesce(peak, '-'), ' ') FROM (SELECT max(bytes)"
                      " AS peak FROM (SELECT bytes, row_number() OVER (ORDER BY snapshot) - 1 AS i,"
                      " count(*) OVER () AS n FROM (");
    put_history(pane, snapshot, sql);
    hx_text_puts(sql, ")) GROUP BY CASE WHEN n > " CELLS " THEN i * " CELLS
                      " / n ELSE i END ORDER BY i)) AS history");
    for (int i = 0; i < 2; i++) {
        hx_text_puts(sql, ", (SELECT bytes FROM (");
        put_history(pane, snapshot, sql);
        hx_text_putf(sql, ") WHERE bytes IS NOT NULL ORDER BY snapshot %s LIMIT 1) AS %s", ends[i],
                     i ? "last" : "first");
    }
}

static void set_source(const struct hx_pane *pane, int64_t snapshot, struct hx_source *ret)
{
    put_members(pane, snapshot, &ret->sql);
    put_set_objects_sql(pane, snapshot, &ret->sql);
    put_times(pane, snapshot, &ret->sql);
    hx_text_puts(&ret->sql, " ORDER BY rank, position, object");

    const char *table = is_bin(pane) ? "hx_bin" : "hx_retention";
    hx_text_putf(&ret->facts,
                 "SELECT (SELECT count(*) FROM snapshots) + min(%d, coalesce(t.objects, 0))"
                 " + coalesce((SELECT members FROM hx_set WHERE set_id = %" PRId64 "), 0) AS rows,"
                 " t.bytes AS bytes, t.objects AS objects, s.heap_bytes AS heap_bytes,"
                 " p.only_pages AS only_pages, p.shared_pages AS shared_pages,"
                 " (SELECT scheme FROM censuses WHERE snapshot = s.snapshot) AS scheme,"
                 " (SELECT max(t.bytes) FROM %s t WHERE ",
                 LARGEST, pane->id, table);
    put_sums(pane, &ret->facts);
    hx_text_putf(&ret->facts, ") AS most, (SELECT count(*) FROM snapshots) AS snapshots");
    put_spark(pane, snapshot, &ret->facts);
    hx_text_putf(&ret->facts, " FROM snapshots s LEFT JOIN %s t ON t.snapshot = s.snapshot AND ",
                 table);
    put_sums(pane, &ret->facts);
    hx_text_putf(&ret->facts,
                 " LEFT JOIN hx_page p ON p.snapshot = s.snapshot AND p.census = '%s'"
                 " AND p.key = %s WHERE s.snapshot = %" PRId64,
                 is_bin(pane) ? "bin" : "retainer", is_bin(pane) ? "t.bin" : "t.set_id", snapshot);
}

/* "Over 4 snapshots: .-=# first 12.8K, last 20.6K, most 20.6K" */
static void put_history_line(const struct hx_ui *ui, const struct hx_pane *pane,
                             struct hx_text *ret)
{
    static const char *const marks[] = {"first", "last", "most"};
    const struct hx_table *facts = &pane->facts;
    int64_t snapshots = hx_table_int(facts, 0, "snapshots", 0);
    struct hx_text words = {0};
    char size[HX_HUMAN];
    if (snapshots < 2)
        return;
    for (size_t i = 0; i < sizeof marks / sizeof *marks; i++) {
        int64_t bytes = hx_table_int(facts, 0, marks[i], -1);
        if (bytes >= 0)
            hx_text_putf(&words, "%s%s %s", words.n ? ", " : "", marks[i],
                         hx_human_bytes((uint64_t)bytes, size));
    }
    hx_text_puts(ret, "\nOver ");
    hx_text_count(ret, snapshots);
    hx_text_puts(ret, " snapshots: ");
    int room = hx_term_columns() - 2 - (int)sizeof "Over 1,000,000 snapshots: " - (int)words.n;
    hx_text_spark_of(ret, hx_table_text(facts, 0, "history"), room, !ui->term.utf8);
    hx_text_putf(ret, " %s", hx_text_str(&words));
    hx_text_free(&words);
}

static void set_title(const struct hx_ui *ui, const struct hx_pane *pane, struct hx_text *ret)
{
    char size[HX_HUMAN];
    const struct hx_table *facts = &pane->facts;
    if (!is_bin(pane) && pane->id == 0) {
        hx_text_puts(ret, "Unreachable: retained by nobody");
    } else if (!is_bin(pane) && pane->id == 1) {
        hx_text_puts(ret, "Retained by many (:max-set 0 names them all)");
    } else {
        hx_text_puts(ret, is_bin(pane) ? "Bin " : "Retained by ");
        hx_pane_put_text(pane, !ui->term.utf8, ret);
    }
    int64_t bytes = hx_table_int(facts, 0, "bytes", -1);
    int64_t heap = hx_table_int(facts, 0, "heap_bytes", 0);
    if (!facts->n_rows || bytes < 0) {
        if (pane->loaded && !pane->problem)
            hx_text_puts(ret, "\nnothing in this snapshot");
        if (facts->n_rows)
            put_history_line(ui, pane, ret);
        return;
    }
    hx_text_putf(ret, "\n%s", hx_human_bytes((uint64_t)bytes, size));
    int64_t objects = hx_table_int(facts, 0, "objects", -1);
    if (objects >= 0) { /* else nobody counted them */
        hx_text_puts(ret, " in ");
        hx_text_count(ret, objects);
        hx_text_puts(ret, objects == 1 ? " object (o lists it)" : " objects (o lists them)");
    }
    if (heap > 0)
        hx_text_putf(ret, ", %.1f%% of the heap", 100.0 * (double)bytes / (double)heap);
    put_history_line(ui, pane, ret);
    int64_t only = hx_table_int(facts, 0, "only_pages", -1);
    if (only >= 0) {
        hx_text_puts(ret, "\nresident pages: ");
        hx_text_count(ret, only);
        hx_text_puts(ret, " of its own, ");
        hx_text_count(ret, hx_table_int(facts, 0, "shared_pages", 0));
        hx_text_puts(ret, " shared with others");
    }
}

static hx_error *open_set_row(struct hx_ui *ui, struct hx_pane *pane, size_t row)
{
    const struct hx_table *rows = &pane->rows;
    int64_t number = hx_table_int(rows, row, "number", 0);
    int64_t root = hx_table_int(rows, row, "root_id", -1);
    const char *label = hx_table_text(rows, row, "label");
    uint64_t address;
    if (hx_pane_object(pane, row, &address))
        return hx_ui_open_object(ui, address);
    if (number) {
        hx_ui_set_snapshot(ui, number);
        return NULL;
    }
    if (root >= 0)
        return hx_ui_open_text(ui, &hx_screen_root, label, root);
    if (strcmp(hx_table_text(rows, row, "kind"), "type") == 0)
        return hx_ui_open_of(ui, &hx_screen_objects,
                             &(struct hx_of){HX_SUBSET_TYPE, label, NULL, 0});
    return hx_ui_open_text(ui, &hx_screen_details, NULL, 0);
}

/* From a retainer to the largest object that it retains. */
static hx_error *why(struct hx_ui *ui, struct hx_pane *pane, size_t row)
{
    const struct hx_table *rows = &pane->rows;
    const char *label = hx_table_text(rows, row, "label");
    uint64_t address = 0;
    if (strcmp(hx_table_text(rows, row, "what"), "retainer") != 0)
        return hx_error_new(HX_E_ABSENT, "this row", "choose a retainer or an object",
                            "stands for no object");
    if (strcmp(hx_table_text(rows, row, "kind"), "type") == 0)
        return hx_error_new(HX_E_ABSENT, "this row", "Enter lists them",
                            "stands for all objects of a type");
    size_t i = 0;
    while (i < rows->n_rows && !hx_pane_object(pane, i, &address))
        i++;
    if (i == rows->n_rows)
        return hx_error_new(HX_E_ABSENT, "this set", "o lists its objects",
                            "has no object in this list");
    struct hx_pane *chains;
    HX_TRY(hx_pane_create(ui, &hx_screen_why, &chains));
    chains->address = address;
    chains->more = strdup(hx_table_text(&pane->facts, 0, "scheme"));
    hx_error *error = chains->more ? hx_pane_set_text(chains, label) : hx_error_nomem();
    if (error) {
        hx_pane_destroy(chains);
        return error;
    }
    return hx_ui_push(ui, chains);
}

static bool set_row_set(const struct hx_pane *pane, size_t row, struct hx_of *ret)
{
    (void)row;
    *ret = hx_pane_of(pane);
    return true;
}

static const char *const key[] = {"what", "position", "object", NULL};

const struct hx_screen hx_screen_set = {
    .name = "set",
    .about = "a retainer set: members, objects, bytes over time",
    .digit = -1,
    .by_argument = true,
    .needs = HX_ANALYSE_RETAINERS,
    .lacks = "Retainer sets are",
    .columns = columns,
    .key = key,
    .object = "object",
    .source = set_source,
    .head = set_title,
    .open = open_set_row,
    .of = set_row_set,
    .why = why,
};

const struct hx_screen hx_screen_bin = {
    .name = "bin",
    .about = "a bin: named roots, objects, bytes over time",
    .digit = -1,
    .by_argument = true,
    .needs = HX_ANALYSE_BINS,
    .lacks = "Root bins are",
    .columns = columns,
    .key = key,
    .object = "object",
    .source = set_source,
    .head = set_title,
    .open = open_set_row,
    .of = set_row_set,
};
