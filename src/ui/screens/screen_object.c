/* screen_object.c - one object: what it is, who allocated, retains and dominates it, what refers to
 * it and what it refers to. */
#include "ui/app.h"
#include "ui/data/call_label.h"
#include "ui/list/type_name.h"

#include <inttypes.h>
#include <string.h>

#define FRAMES_READ 32 /* innermost calls, of which some stand above the list */
#define FRAMES      3
#define LOOK_BACK   64 /* snapshots before this one in which it is looked for */

static const struct hx_column columns[] = {
    {"what", "", HX_AS_TEXT, 5, 0, NULL, NULL},
    {"other", "what, who, whom", HX_AS_NAME, -23, 0, NULL, NULL},
    {"offset", NULL, HX_AS_OFFSET, 8, 1, NULL, NULL},
    {"kind", "points", HX_AS_TEXT, 8, 3, NULL, NULL},
    {"bytes", NULL, HX_AS_BYTES, 7, 2, NULL, NULL},
    {"state", NULL, HX_AS_TEXT, 9, 5, NULL, NULL},
    {"type", NULL, HX_AS_TYPE, -8, 4, NULL, NULL},
    {0},
};

/* --- rows --- */

/* What all rows have; those before the references stand for a set of objects that it is in. Empty
 * texts are what does not apply, NULL is what is not known. */
static void put_type(const char *self, struct hx_text *sql)
{
    hx_text_putf(sql,
                 "SELECT 'type' AS what, coalesce(o.type,"
                 " 'unknown (no C++ class)') AS other, NULL AS offset,"
                 " coalesce(t.confidence, '') AS kind, t.bytes AS bytes, '' AS state, '' AS type,"
                 " NULL AS object, NULL AS root_id, NULL AS id, o.type AS text FROM objects o"
                 " LEFT JOIN hx_type t ON t.snapshot = o.snapshot AND t.name = o.type WHERE %s",
                 self);
}

static void put_object_stack_sql(const char *self, struct hx_text *sql)
{
    hx_text_putf(sql,
                 " UNION ALL SELECT 'stack', coalesce(t.label, 'not recorded (heapx run)'),"
                 " NULL, '', x.bytes, '', '', NULL, NULL, o.stack_id, t.label FROM objects o"
                 " LEFT JOIN hx_stack t ON t.stack_id = o.stack_id"
                 " LEFT JOIN hx_stack_site x ON x.stack_id = o.stack_id AND x.snapshot = o.snapshot"
                 " WHERE %s",
                 self);
}

static void put_holders(const char *self, struct hx_text *sql)
{
    hx_text_putf(sql,
                 " UNION ALL SELECT 'set', coalesce(t.label, 'not worked out: :analyse'), "
                 "NULL, '', t.bytes, '', '', NULL, NULL, o.set_id, t.label FROM objects o"
                 " LEFT JOIN retainers t ON t.snapshot = o.snapshot AND t.set_id = o.set_id"
                 " WHERE %s",
                 self);
    hx_text_putf(sql,
                 " UNION ALL SELECT 'bin', coalesce(CASE o.bin WHEN '-' THEN"
                 " 'none: no named root reaches it' ELSE o.bin END,"
                 " 'not worked out: :analyse'), NULL, '', b.bytes, '', '', NULL, NULL,"
                 " NULL, o.bin FROM objects o LEFT JOIN hx_bin b ON b.snapshot = o.snapshot"
                 " AND b.roots = o.bin WHERE %s",
                 self);
    hx_text_putf(sql,
                 " UNION ALL SELECT 'dom', CASE WHEN o.dominator IS NOT NULL"
                 " THEN printf('0x%%x', o.dominator) WHEN o.state IN ('definite', 'indirect')"
                 " THEN 'none: it is lost' WHEN o.retained_bytes IS NULL"
                 " THEN 'not worked out: :analyse' ELSE 'none: roots lead to it'"
                 " END, NULL, '', d.bytes, coalesce(d.state, ''), coalesce(d.type, ''),"
                 " o.dominator, NULL, NULL, NULL FROM objects o LEFT JOIN objects d"
                 " ON d.snapshot = o.snapshot AND d.address = o.dominator WHERE %s",
                 self);
}

/* Outer joins keep the order of the tables: the edges first, then one object for each. */
static void put_references(const struct hx_pane *pane, int64_t snapshot, struct hx_text *sql)
{
    int64_t address = (int64_t)pane->address;
    hx_text_putf(sql,
                 " UNION ALL SELECT 'root', r.name || CASE WHEN r.module <> ''"
                 " THEN ' of ' || r.module ELSE '' END, e.address - r.address, e.kind, r.size,"
                 " r.kind, '', NULL, e.root_id, NULL, r.name FROM root_edges e"
                 " LEFT JOIN roots r ON r.snapshot = e.snapshot AND r.root_id = e.root_id"
                 " WHERE e.snapshot = %" PRId64 " AND e.target = %" PRId64,
                 snapshot, address);
    hx_text_putf(sql,
                 " UNION ALL SELECT 'from', printf('0x%%x', e.source), e.offset, e.kind, o.bytes,"
                 " o.state, o.type, e.source, NULL, NULL, NULL FROM edges e LEFT JOIN objects o"
                 " ON o.snapshot = e.snapshot AND o.address = e.source"
                 " WHERE e.snapshot = %" PRId64 " AND e.target = %" PRId64,
                 snapshot, address);
    hx_text_putf(sql,
                 " UNION ALL SELECT 'to', printf('0x%%x', e.target), e.offset, e.kind, o.bytes,"
                 " o.state, o.type, e.target, NULL, NULL, NULL FROM edges e LEFT JOIN objects o"
                 " ON o.snapshot = e.snapshot AND o.address = e.target"
                 " WHERE e.snapshot = %" PRId64 " AND e.source = %" PRId64,
                 snapshot, address);
}

/* Since when an object of this size and type, from the same stack where that is known, has been at
 * its address; `looked` is the first snapshot that was asked. */
static void put_life(const char *self, int64_t snapshot, struct hx_text *sql)
{
    hx_text_putf(sql,
                 "(SELECT min(s.snapshot) FROM b s WHERE s.snapshot > coalesce((SELECT"
                 " max(t.snapshot) FROM b t WHERE t.snapshot < %" PRId64 " AND NOT EXISTS"
                 " (SELECT 1 FROM objects o JOIN objects p ON p.snapshot = t.snapshot"
                 " AND p.address = o.address WHERE %s AND p.bytes = o.bytes AND p.type IS o.type"
                 " AND coalesce(p.stack_id, o.stack_id) IS coalesce(o.stack_id, p.stack_id)"
                 " AND t.pid = (SELECT pid FROM b WHERE snapshot = %" PRId64 "))), 0)) AS since,"
                 " (SELECT min(snapshot) FROM b) AS looked,"
                 " (SELECT min(snapshot) FROM snapshots) AS earliest",
                 snapshot, self, snapshot);
}

static void object_source(const struct hx_pane *pane, int64_t snapshot, struct hx_source *ret)
{
    struct hx_text self = {0}, site = {0};
    hx_text_putf(&self, "o.snapshot = %" PRId64 " AND o.address = %" PRId64, snapshot,
                 (int64_t)pane->address);
    put_type(hx_text_str(&self), &ret->sql);
    put_object_stack_sql(hx_text_str(&self), &ret->sql);
    put_holders(hx_text_str(&self), &ret->sql);
    put_references(pane, snapshot, &ret->sql);

    hx_text_putf(&ret->facts,
                 "WITH b AS (SELECT snapshot, pid FROM snapshots WHERE snapshot <= %" PRId64
                 " ORDER BY snapshot DESC LIMIT %d)"
                 " SELECT 5 + coalesce(o.edges_in, 0) + coalesce(o.edges_out, 0) + q.roots AS rows,"
                 " q.roots, c.depth AS depth, t.confidence AS confidence, f.frame AS frame,"
                 " f.label AS label, f.module AS module, f.source AS source, l.*, o.*"
                 " FROM (SELECT count(*) AS roots FROM root_edges WHERE snapshot = %" PRId64
                 " AND target = %" PRId64 ") q LEFT JOIN objects o ON %s"
                 " LEFT JOIN hx_type t ON t.snapshot = o.snapshot AND t.name = o.type"
                 " LEFT JOIN hx_frame c ON c.frame_id = o.stack_id LEFT JOIN (SELECT ",
                 snapshot, LOOK_BACK, snapshot, (int64_t)pane->address, hx_text_str(&self));
    put_life(hx_text_str(&self), snapshot, &ret->facts);
    hx_text_puts(&ret->facts, ") l LEFT JOIN (");
    hx_text_putf(&site, "(SELECT stack_id FROM objects o WHERE %s)", hx_text_str(&self));
    hx_calls_sql(&ret->facts, hx_text_str(&site), FRAMES_READ);
    hx_text_puts(&ret->facts, ") f");
    ret->facts.failed |= site.failed || self.failed;
    hx_text_free(&site);
    hx_text_free(&self);
}

/* --- the title --- */

static void put_object_count(struct hx_text *ret, int64_t n)
{
    hx_text_count(ret, n);
    hx_text_puts(ret, n == 1 ? " object" : " objects");
}

/* What would go with it; more or less of it, where interior pointers do not count. */
static void put_retained(const struct hx_table *facts, struct hx_text *ret)
{
    char size[HX_HUMAN];
    int64_t retained = hx_table_int(facts, 0, "retained_bytes", -1);
    int64_t sure = hx_table_int(facts, 0, "sure_retained_bytes", -1);
    if (retained < 0)
        return;
    hx_text_putf(ret, "\nretains %s in ", hx_human_bytes((uint64_t)retained, size));
    put_object_count(ret, hx_table_int(facts, 0, "retained_objects", 0));
    if (sure < 0)
        return;
    int64_t objects = hx_table_int(facts, 0, "sure_retained_objects", 0);
    if (sure == retained && objects == hx_table_int(facts, 0, "retained_objects", 0))
        return;
    hx_text_putf(ret, "; by sure references %s in ", hx_human_bytes((uint64_t)sure, size));
    put_object_count(ret, objects);
}

/* "here since snapshot 2; references: ..." */
static void put_life_text(const struct hx_pane *pane, struct hx_text *ret)
{
    const struct hx_table *facts = &pane->facts;
    int64_t since = hx_table_int(facts, 0, "since", 0);
    int64_t earliest = hx_table_int(facts, 0, "earliest", 0);
    hx_text_puts(ret, "\n");
    if (since == pane->snapshot && since != earliest)
        hx_text_puts(ret, "new in this snapshot; ");
    else if (since && since != pane->snapshot)
        hx_text_putf(ret, "here %ssince snapshot %" PRId64 "%s; ",
                     since == hx_table_int(facts, 0, "looked", 0) && since != earliest ? "at least "
                                                                                       : "",
                     since, since == earliest ? ", the first" : "");
    int64_t roots = hx_table_int(facts, 0, "roots", 0), in = hx_table_int(facts, 0, "edges_in", 0);
    hx_text_puts(ret, "references from ");
    hx_text_count(ret, roots);
    hx_text_puts(ret, roots == 1 ? " root and " : " roots and ");
    put_object_count(ret, in);
    hx_text_puts(ret, ", to ");
    hx_text_count(ret, hx_table_int(facts, 0, "edges_out", 0));
}

/* Who allocated it: the innermost calls, from where the program left its own code on. */
static void put_frames(const struct hx_table *facts, bool ascii, struct hx_text *ret)
{
    struct hx_text calls = {0};
    size_t n = hx_frames_put(facts, FRAMES, "\n             ", ascii, &calls);
    int64_t depth = hx_table_int(facts, 0, "depth", 0);
    if (n)
        hx_text_putf(ret, "\nallocated by %s", hx_text_str(&calls));
    if (n && depth > (int64_t)n) {
        hx_text_puts(ret, "\n             ");
        hx_text_count(ret, depth - (int64_t)n);
        hx_text_puts(ret, " more: s shows the stack");
    }
    ret->failed |= calls.failed;
    hx_text_free(&calls);
}

static void object_title(const struct hx_ui *ui, const struct hx_pane *pane, struct hx_text *ret)
{
    bool ascii = !ui->term.utf8;
    const struct hx_table *facts = &pane->facts;
    hx_text_putf(ret, "Object 0x%" PRIx64, pane->address);
    if (!pane->loaded || pane->problem)
        return;
    if (hx_table_at(facts, 0, "address")->type != HX_VALUE_INT) {
        hx_text_puts(ret, ": there is none at this address in this snapshot");
        return;
    }
    hx_text_puts(ret, ": ");
    hx_text_count(ret, hx_table_int(facts, 0, "bytes", 0));
    hx_text_puts(ret, " bytes");
    if (hx_table_at(facts, 0, "requested")->type == HX_VALUE_INT) {
        hx_text_puts(ret, " (");
        hx_text_count(ret, hx_table_int(facts, 0, "requested", 0));
        hx_text_puts(ret, " requested)");
    }
    hx_text_putf(ret, ", %s", hx_table_text(facts, 0, "state"));
    const char *type = hx_table_text(facts, 0, "type");
    if (*type) {
        hx_text_puts(ret, ", ");
        hx_text_type_shown(ret, type, ascii);
        hx_text_putf(ret, " (%s)", hx_table_text(facts, 0, "confidence"));
    }
    if (pane->chosen)
        hx_text_putf(ret, "\n%s", pane->chosen);
    put_retained(facts, ret);
    put_life_text(pane, ret);
    put_frames(facts, ascii, ret);
}

/* --- what rows stand for --- */

static bool edge_row_set(const struct hx_pane *pane, size_t row, struct hx_of *ret)
{
    static const struct {
        const char *what;
        enum hx_subset subset;
        bool by_id;
    } sets[] = {
        {"type", HX_SUBSET_TYPE, false},
        {"stack", HX_SUBSET_SITE, true},
        {"set", HX_SUBSET_SET, true},
        {"bin", HX_SUBSET_BIN, false},
    };
    const struct hx_table *rows = &pane->rows;
    const char *what = hx_table_text(rows, row, "what");
    bool has_text = hx_table_at(rows, row, "text")->type == HX_VALUE_TEXT;
    bool has_id = hx_table_at(rows, row, "id")->type == HX_VALUE_INT;
    for (size_t i = 0; i < sizeof sets / sizeof *sets; i++) {
        if (strcmp(what, sets[i].what) != 0)
            continue;
        *ret = (struct hx_of){sets[i].subset, has_text ? hx_table_text(rows, row, "text") : NULL,
                              NULL, sets[i].by_id ? hx_table_int(rows, row, "id", 0) : 0};
        return sets[i].subset == HX_SUBSET_TYPE || (sets[i].by_id ? has_id : has_text);
    }
    return false;
}

static hx_error *open_set(struct hx_ui *ui, const struct hx_of *of)
{
    switch (of->subset) {
    case HX_SUBSET_SET:
        return hx_ui_open_of(ui, &hx_screen_set, of);
    case HX_SUBSET_BIN:
        return hx_ui_open_of(ui, &hx_screen_bin, of);
    case HX_SUBSET_SITE:
        return hx_ui_open_text(ui, &hx_screen_stack, NULL, of->id);
    default:
        return hx_ui_open_of(ui, &hx_screen_objects, of);
    }
}

static hx_error *open_edge_row(struct hx_ui *ui, struct hx_pane *pane, size_t row)
{
    const struct hx_table *rows = &pane->rows;
    int64_t root_id = hx_table_int(rows, row, "root_id", -1);
    uint64_t address;
    struct hx_of set;
    if (hx_pane_object(pane, row, &address))
        return hx_ui_open_object(ui, address);
    if (root_id >= 0)
        return hx_ui_open_text(ui, &hx_screen_root, hx_table_text(rows, row, "text"), root_id);
    if (edge_row_set(pane, row, &set))
        return open_set(ui, &set);
    return hx_error_new(HX_E_ABSENT, hx_table_text(rows, row, "what"), NULL, "%s",
                        hx_table_text(rows, row, "other"));
}

static const char *const key[] = {"what", "other", "offset", NULL};

const struct hx_screen hx_screen_object = {
    .name = "object",
    .about = "an object: what it is, who holds it, what it refers to",
    .digit = -1,
    .by_argument = true,
    .columns = columns,
    .key = key,
    .object = "object",
    .source = object_source,
    .head = object_title,
    .empty = "There is no object at this address in this snapshot.",
    .open = open_edge_row,
    .of = edge_row_set,
};
