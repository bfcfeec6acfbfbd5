/* screen_named.c - the roots that were given names, and what each of them reaches. */
#include "ui/app.h"

#include <inttypes.h>

static const struct hx_column columns[] = {
    {"name", NULL, HX_AS_TEXT, -16, 0, NULL, NULL},
    {"expr", "stands for", HX_AS_TEXT, -16, 1, NULL, NULL},
    {"direct_objects", "objects", HX_AS_COUNT, 9, 3, NULL, NULL},
    {"exclusive_bytes", "alone", HX_AS_BYTES, 8, 0, NULL, NULL},
    {"shared_bytes", "shared", HX_AS_BYTES, 8, 2, NULL, NULL},
    {"retained_bytes", "retains", HX_AS_BYTES, 8, 4, NULL, NULL},
    {0},
};

void hx_named_bytes_sql(int64_t snapshot, struct hx_text *sql)
{
    /* One pass over the bins, of which there may be many times more than roots; what '+' joins is
     * taken apart as the list that it is once each '+' stands between quotes. */
    hx_text_putf(sql,
                 "(SELECT j.value AS name,"
                 " sum(CASE WHEN b.roots = j.value THEN b.bytes ELSE 0 END) AS exclusive_bytes,"
                 " sum(CASE WHEN b.roots = j.value THEN 0 ELSE b.bytes END) AS shared_bytes"
                 " FROM hx_bin b CROSS JOIN"
                 " json_each('[' || replace(json_quote(b.roots), '+', '\",\"') || ']') j"
                 " WHERE b.snapshot = %" PRId64 " AND b.objects > 0 GROUP BY j.value)",
                 snapshot);
}

/* So many roots are offered to be named. */
#define OFFERS 10

void hx_nameable_sql(int64_t snapshot, struct hx_text *sql)
{
    /* Names with '+' or '=' cannot be written so; one that several modules have is the largest of
     * them. */
    hx_text_putf(sql,
                 "SELECT row_number() OVER (ORDER BY max(r.retained_bytes) DESC, r.name) AS rank,"
                 " r.name AS name, r.name || '=' || CASE WHEN r.module <> '' THEN r.module || '!'"
                 " ELSE '' END || r.name AS expr, r.module AS module, r.root_id AS root_id,"
                 " r.direct_objects AS direct_objects,"
                 " max(r.retained_bytes) AS retained_bytes"
                 " FROM hx_root r WHERE r.snapshot = %" PRId64 " AND r.kind_name = 'global'"
                 " AND r.retained_bytes > 0 AND r.name <> '' AND length(r.name) <= 200"
                 " AND instr(r.name, '+') = 0 AND instr(r.name, '=') = 0"
                 " AND NOT EXISTS (SELECT 1 FROM hx_named n WHERE n.snapshot = r.snapshot"
                 " AND (n.name = r.name OR n.root_id = r.root_id))"
                 " GROUP BY r.name ORDER BY retained_bytes DESC, name LIMIT %d",
                 snapshot, OFFERS);
}

static void named_source(const struct hx_pane *pane, int64_t snapshot, struct hx_source *ret)
{
    (void)pane;
    hx_text_puts(&ret->sql, "SELECT 0 AS rank, n.position AS position, n.snapshot AS snapshot,"
                            " n.name AS name, coalesce(n.expr, '(by the program itself)') AS expr,"
                            " n.root_id AS root_id, r.kind AS kind, r.module AS module,"
                            " r.address AS address, r.direct_objects AS direct_objects,"
                            " coalesce(t.exclusive_bytes, 0) AS exclusive_bytes,"
                            " coalesce(t.shared_bytes, 0) AS shared_bytes,"
                            " r.retained_bytes AS retained_bytes, NULL AS naming"
                            " FROM hx_named n LEFT JOIN roots r ON r.snapshot = n.snapshot"
                            " AND r.root_id = n.root_id LEFT JOIN ");
    hx_named_bytes_sql(snapshot, &ret->sql);
    hx_text_putf(&ret->sql,
                 " t ON t.name = n.name WHERE n.snapshot = %" PRId64
                 " UNION ALL SELECT 1, rank, %" PRId64 ", name, '(Enter names it)',"
                 " root_id, 'global', module, NULL, direct_objects, NULL, NULL, retained_bytes,"
                 " expr FROM (",
                 snapshot, snapshot);
    hx_nameable_sql(snapshot, &ret->sql);
    hx_text_puts(&ret->sql, ") ORDER BY 1, 2");
    hx_text_putf(&ret->facts,
                 "SELECT (SELECT count(*) FROM hx_named WHERE snapshot = %" PRId64
                 ") AS named, (SELECT count(*) FROM hx_named WHERE snapshot = %" PRId64 ")"
                 " + %d AS rows",
                 snapshot, snapshot, OFFERS);
}

static void named_title(const struct hx_ui *ui, const struct hx_pane *pane, struct hx_text *ret)
{
    int64_t named = hx_table_int(&pane->facts, 0, "named", 0);
    hx_text_puts(ret, "Named roots");
    if (pane->loaded) {
        hx_text_puts(ret, ": ");
        hx_text_count(ret, named);
    }
    if (ui->revising)
        hx_text_puts(ret, "; being worked out");
    hx_text_puts(ret, "; Enter names the others, :root NAME=EXPR adds, :unroot NAME removes");
}

static hx_error *open_named_root_row(struct hx_ui *ui, struct hx_pane *pane, size_t row)
{
    const char *naming = hx_table_text(&pane->rows, row, "naming");
    if (*naming)
        return hx_ui_choose_root(ui, naming);
    return hx_ui_open_text(ui, &hx_screen_root, hx_table_text(&pane->rows, row, "name"),
                           hx_table_int(&pane->rows, row, "root_id", -1));
}

static hx_error *open_objects(struct hx_ui *ui, struct hx_pane *pane, size_t row)
{
    return hx_ui_open_text(ui, &hx_screen_root, hx_table_text(&pane->rows, row, "name"),
                           hx_table_int(&pane->rows, row, "root_id", -1));
}

static const char *const key[] = {"rank", "name", NULL};

const struct hx_screen hx_screen_named = {
    .name = "named",
    .about = "the roots that have names for bins",
    .digit = -1,
    .columns = columns,
    .key = key,
    .source = named_source,
    .head = named_title,
    .empty =
        "No root is named, and no global has a name here; :root NAME=thread:TID or NAME=0xADDRESS.",
    .open = open_named_root_row,
    .objects = open_objects,
};
