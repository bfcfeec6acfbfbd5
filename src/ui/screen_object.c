/* screen_object.c - one object: itself, what refers to it, what it refers to. */
#include "ui/app.h"
#include "ui/calls.h"

#include <inttypes.h>
#include <string.h>

/* So many calls of its stack stand above the list, chosen from so many innermost ones. */
#define FRAMES      3
#define FRAMES_READ 32

static const struct hx_column columns[] = {
    {"direction", "", HX_AS_TEXT, 4, 0, NULL, NULL},
    {"other", "object or root", HX_AS_TEXT, -18, 0, NULL, NULL},
    {"offset", NULL, HX_AS_OFFSET, 10, 1, NULL, NULL},
    {"kind", "points", HX_AS_TEXT, 8, 2, NULL, NULL},
    {"bytes", NULL, HX_AS_BYTES, 7, 3, NULL, NULL},
    {"state", NULL, HX_AS_TEXT, 9, 4, NULL, NULL},
    {0},
};

static void source(const struct hx_pane *pane, int64_t snapshot, struct hx_source *ret)
{
    int64_t address = (int64_t)pane->address;
    struct hx_text self = {0}, site = {0};
    hx_text_putf(&self, "%" PRId64, address);
    /* Outer joins keep the order of the tables: the edges first, then one object for each. */
    hx_text_putf(&ret->sql,
                 "SELECT 'from' AS direction, r.name AS other, e.address - r.address AS offset,"
                 " e.kind AS kind, r.size AS bytes, r.kind AS state, NULL AS object,"
                 " e.root_id AS root_id, r.module AS module FROM root_edges e"
                 " LEFT JOIN roots r ON r.snapshot = e.snapshot AND r.root_id = e.root_id"
                 " WHERE e.snapshot = %" PRId64 " AND e.target = %s",
                 snapshot, self.s);
    hx_text_putf(&ret->sql,
                 " UNION ALL SELECT 'from', printf('0x%%x', e.source), e.offset, e.kind, o.bytes,"
                 " o.state, e.source, NULL, NULL FROM edges e LEFT JOIN objects o"
                 " ON o.snapshot = e.snapshot AND o.address = e.source"
                 " WHERE e.snapshot = %" PRId64 " AND e.target = %s",
                 snapshot, self.s);
    hx_text_putf(&ret->sql,
                 " UNION ALL SELECT 'to', printf('0x%%x', e.target), e.offset, e.kind, o.bytes,"
                 " o.state, e.target, NULL, NULL FROM edges e LEFT JOIN objects o"
                 " ON o.snapshot = e.snapshot AND o.address = e.target"
                 " WHERE e.snapshot = %" PRId64 " AND e.source = %s",
                 snapshot, self.s);
    hx_text_putf(&ret->facts,
                 "SELECT coalesce(o.edges_in, 0) + coalesce(o.edges_out, 0) + q.roots AS rows,"
                 " q.roots, t.label AS label, c.depth AS depth, f.frame AS frame,"
                 " f.label AS function, f.module AS module, f.source AS source, o.*"
                 " FROM (SELECT count(*) AS roots FROM root_edges"
                 " WHERE snapshot = %" PRId64 " AND target = %s) q"
                 " LEFT JOIN objects o ON o.snapshot = %" PRId64 " AND o.address = %s"
                 " LEFT JOIN retainers t ON t.snapshot = %" PRId64 " AND t.set_id = o.set_id"
                 " LEFT JOIN hx_frame c ON c.frame_id = o.stack_id LEFT JOIN (",
                 snapshot, self.s, snapshot, self.s, snapshot);
    hx_text_putf(&site,
                 "(SELECT stack_id FROM objects WHERE snapshot = %" PRId64 " AND address = %s)",
                 snapshot, self.s);
    hx_calls_sql(&ret->facts, hx_text_str(&site), FRAMES_READ);
    hx_text_puts(&ret->facts, ") f");
    ret->facts.failed |= site.failed || self.failed;
    hx_text_free(&site);
    hx_text_free(&self);
}

/* What would go with it, and what it would go with. */
static void put_retained(const struct hx_table *facts, struct hx_text *ret)
{
    char size[HX_HUMAN];
    int64_t retained = hx_table_int(facts, 0, "retained_bytes", -1);
    int64_t sure = hx_table_int(facts, 0, "sure_retained_bytes", -1);
    int64_t dominator = hx_table_int(facts, 0, "dominator", 0);
    if (retained < 0)
        return;
    hx_text_putf(ret, "\nretains %s in ", hx_human_bytes((uint64_t)retained, size));
    int64_t objects = hx_table_int(facts, 0, "retained_objects", 0);
    hx_text_count(ret, objects);
    hx_text_puts(ret, objects == 1 ? " object" : " objects");
    if (sure >= 0 && sure != retained)
        hx_text_putf(ret, " (surely %s)", hx_human_bytes((uint64_t)sure, size));
    if (dominator)
        hx_text_putf(ret, "; goes with 0x%" PRIx64, (uint64_t)dominator);
}

/* A line of text that came from the target. */
static void put_fact(const struct hx_table *facts, const char *column, const char *what, bool ascii,
                     struct hx_text *ret)
{
    const struct hx_cell *cell = hx_table_at(facts, 0, column);
    if (cell->type != HX_VALUE_TEXT)
        return;
    const char *text = hx_cell_shown(cell);
    hx_text_puts(ret, what);
    hx_text_escape(ret, text, strlen(text), ascii);
}

static void put_frame(const struct hx_table *facts, size_t i, bool ascii, struct hx_text *ret)
{
    struct hx_text call = {0};
    const char *source = hx_source_file(hx_table_shown(facts, i, "source"));
    const char *module = hx_table_shown(facts, i, "module");
    hx_text_calls(&call, hx_table_shown(facts, i, "function"));
    hx_text_putf(ret, "%s ", hx_table_text(facts, i, "frame"));
    hx_text_escape(ret, hx_text_str(&call), call.n, ascii);
    hx_text_free(&call);
    if (*source) {
        hx_text_puts(ret, " at ");
        hx_text_escape(ret, source, strlen(source), ascii);
    } else if (*module) {
        hx_text_puts(ret, " in ");
        hx_text_escape(ret, module, strlen(module), ascii);
    }
}

/* Who allocated it: the innermost calls, from where the program left its own code on. */
static void put_stack(const struct hx_table *facts, bool ascii, struct hx_text *ret)
{
    size_t n = facts->n_rows, first = 0;
    int64_t depth = n < FRAMES_READ ? (int64_t)n : hx_table_int(facts, 0, "depth", 0);
    if (!*hx_table_text(facts, 0, "frame"))
        return;
    while (first < n && hx_call_is_library(hx_table_shown(facts, first, "function")))
        first++;
    first = first == n ? 0 : first ? first - 1 : 0;
    size_t end = first + FRAMES < n ? first + FRAMES : n;
    for (size_t i = first; i < end; i++) {
        hx_text_puts(ret, i > first ? "\n             " : "\nallocated by ");
        put_frame(facts, i, ascii, ret);
    }
    if (first || depth > (int64_t)end)
        hx_text_putf(ret, "\n             %" PRId64 " more: s shows the stack",
                     depth - (int64_t)(end - first));
}

static void head(const struct hx_ui *ui, const struct hx_pane *pane, struct hx_text *ret)
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
    put_fact(facts, "type", ", ", ascii, ret);
    hx_text_puts(ret, "\nreferences: ");
    hx_text_count(ret, hx_table_int(facts, 0, "roots", 0));
    hx_text_puts(ret, " from roots, ");
    hx_text_count(ret, hx_table_int(facts, 0, "edges_in", 0));
    hx_text_puts(ret, " from objects, ");
    hx_text_count(ret, hx_table_int(facts, 0, "edges_out", 0));
    hx_text_puts(ret, " to objects");
    put_retained(facts, ret);
    put_fact(facts, "label", "\nretained by ", ascii, ret);
    put_fact(facts, "bin", "\nroot bin ", ascii, ret);
    put_stack(facts, ascii, ret);
}

static hx_error *open_row(struct hx_ui *ui, struct hx_pane *pane, size_t row)
{
    uint64_t address;
    if (hx_pane_object(pane, row, &address))
        return hx_ui_open_object(ui, address);
    return hx_ui_open_text(ui, &hx_screen_root, hx_table_text(&pane->rows, row, "other"),
                           hx_table_int(&pane->rows, row, "root_id", -1));
}

static const char *const key[] = {"direction", "other", "offset", NULL};

const struct hx_screen hx_screen_object = {
    .name = "object",
    .about = "an object, what refers to it and what it refers to",
    .digit = -1,
    .by_argument = true,
    .columns = columns,
    .key = key,
    .object = "object",
    .source = source,
    .head = head,
    .empty = "Nothing refers to it, and it refers to nothing.",
    .open = open_row,
};
