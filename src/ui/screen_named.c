/* screen_named.c - the roots that were given names, and what each of them reaches. */
#include "ui/app.h"

#include <inttypes.h>

static const struct hx_column columns[] = {
    {"name", NULL, HX_AS_TEXT, -16, 0, NULL, NULL},
    {"expr", "stands for", HX_AS_TEXT, -16, 1, NULL, NULL},
    {"direct_objects", "objects", HX_AS_COUNT, 9, 3, NULL, NULL},
    {"exclusive_bytes", "alone", HX_AS_BYTES, 8, 0, NULL, NULL},
    {"shared_bytes", "shared", HX_AS_BYTES, 8, 2, NULL, NULL},
    {0},
};

void hx_named_bytes_sql(struct hx_text *sql)
{
    hx_text_puts(sql,
                 "(SELECT coalesce(sum(b.bytes), 0) FROM hx_bin b WHERE b.snapshot = n.snapshot"
                 " AND b.roots = n.name) AS exclusive_bytes,"
                 " (SELECT coalesce(sum(b.bytes), 0) FROM hx_bin b WHERE b.snapshot = n.snapshot"
                 " AND b.roots <> n.name"
                 " AND instr('+' || b.roots || '+', '+' || n.name || '+') > 0) AS shared_bytes");
}

static void source(const struct hx_pane *pane, int64_t snapshot, struct hx_source *ret)
{
    (void)pane;
    hx_text_puts(&ret->sql, "SELECT n.snapshot AS snapshot, n.position AS position,"
                            " n.name AS name, coalesce(n.expr, '(by the program itself)') AS expr,"
                            " n.root_id AS root_id, r.kind AS kind, r.module AS module,"
                            " r.address AS address, r.direct_objects AS direct_objects, ");
    hx_named_bytes_sql(&ret->sql);
    hx_text_putf(&ret->sql,
                 " FROM hx_named n LEFT JOIN roots r ON r.snapshot = n.snapshot"
                 " AND r.root_id = n.root_id WHERE n.snapshot = %" PRId64 " ORDER BY n.position",
                 snapshot);
    hx_text_putf(&ret->facts, "SELECT count(*) AS rows FROM hx_named WHERE snapshot = %" PRId64,
                 snapshot);
}

static void head(const struct hx_ui *ui, const struct hx_pane *pane, struct hx_text *ret)
{
    (void)ui;
    (void)pane;
    hx_text_puts(ret, "Named roots (:root NAME=EXPR adds one, :unroot NAME takes it away)");
}

static hx_error *open_row(struct hx_ui *ui, struct hx_pane *pane, size_t row)
{
    return hx_ui_open_text(ui, &hx_screen_root, hx_table_text(&pane->rows, row, "name"),
                           hx_table_int(&pane->rows, row, "root_id", -1));
}

static const char *const key[] = {"name", NULL};

const struct hx_screen hx_screen_named = {
    .name = "named",
    .about = "the roots that have names for bins",
    .digit = -1,
    .columns = columns,
    .key = key,
    .source = source,
    .head = head,
    .empty = "No root is named; :root NAME=SYMBOL names one.",
    .open = open_row,
    .objects = open_row,
};
