/* screen_leaks.c - lost and possibly lost objects by kind. */
#include "ui/app.h"
#include "ui/data/difference.h"

#include <inttypes.h>
#include <string.h>

static const struct hx_column columns[] = {
    {"kind", NULL, HX_AS_TEXT, 9, 0, NULL, NULL},
    {"type", NULL, HX_AS_TYPE, -12, 1, NULL, NULL},
    {"bytes", NULL, HX_AS_BYTES, 8, 0, NULL, NULL},
    {"bytes", "of heap", HX_AS_SHARE, 7, 5, "heap_bytes", NULL},
    {"objects", NULL, HX_AS_COUNT, 10, 3, NULL, NULL},
    {"bytes_delta", "change", HX_AS_CHANGE, 7, 2, NULL, NULL},
    {"bytes", "", HX_AS_BAR, 10, 6, "heap_bytes", NULL},
    {"about", "", HX_AS_CALLS, -26, 4, NULL, NULL},
    {0},
};

static const struct hx_column differences[] = {
    HX_DIFFERENCE_COLUMNS,
    {"kind", NULL, HX_AS_TEXT, 8, 0, NULL, NULL},
    {"type", NULL, HX_AS_TYPE, -8, 1, NULL, NULL},
    {"about", "", HX_AS_CALLS, -12, 6, NULL, NULL},
    {0},
};

static const char *const key[] = {"kind", "type", "site", NULL};
static const char *const kept[] = {"stack_id", NULL};

/* Who allocated, else what the kind means. */
#define ABOUT(site, kind)                                                                          \
    "coalesce(" site ", CASE " kind " WHEN 'definite' THEN 'nothing points to it'"                 \
    " WHEN 'indirect' THEN 'held by lost objects only'"                                            \
    " WHEN 'possible' THEN 'by interior pointers only' END) AS about"

static void put_leak_rows_sql(const struct hx_pane *pane, int64_t snapshot, struct hx_text *sql)
{
    (void)pane;
    hx_text_putf(sql,
                 "SELECT l.kind AS kind, l.type AS type, coalesce(t.label, l.site) AS site,"
                 " l.stack_id AS stack_id, l.bytes AS bytes, l.objects AS objects FROM hx_leak AS l"
                 " LEFT JOIN hx_stack AS t ON t.stack_id = l.stack_id WHERE l.snapshot = %" PRId64,
                 snapshot);
}

static void put_leak_columns_sql(const struct hx_pane *pane, int64_t snapshot, struct hx_text *sql)
{
    (void)pane;
    (void)snapshot;
    hx_text_puts(sql, ", " ABOUT("d.site", "d.kind"));
}

static const struct hx_difference difference = {
    .title = "Leaks",
    .lacks = "states of objects",
    .total = "leaked_bytes",
    .total_title = "lost",
    .total_objects = "leaked_objects",
    .keys = key,
    .kept = kept,
    .rows = put_leak_rows_sql,
    .written = "kind, type, site",
    .more = put_leak_columns_sql,
    .made = "SELECT reachable_bytes IS NOT NULL FROM hx_snapshot WHERE snapshot = ",
};

/* The same leak in the other snapshot; texts that are NULL are told from empty ones. */
static void put_leak_join_sql(const struct hx_pane *pane, struct hx_text *sql)
{
    if (!pane->before)
        return;
    hx_text_puts(sql, " LEFT JOIN (SELECT kind, quote(type) AS type, quote(site) AS site,"
                      " sum(bytes) AS bytes FROM (");
    put_leak_rows_sql(pane, pane->before, sql);
    hx_text_puts(sql, ") GROUP BY 1, 2, 3) AS o ON o.kind = x.kind AND o.type = quote(x.type)"
                      " AND o.site = quote(x.site)");
}

static void put_leak_change_sql(const struct hx_pane *pane, struct hx_text *sql)
{
    char made[128];
    snprintf(made, sizeof made,
             "(SELECT reachable_bytes IS NOT NULL FROM hx_snapshot WHERE snapshot = %" PRId64 ")",
             pane->before);
    hx_change_sql(pane->before, "x.bytes", "o.bytes", made, sql);
}

static void leaks_source(const struct hx_pane *pane, int64_t snapshot, struct hx_source *ret)
{
    ret->like = "leaks";
    hx_text_puts(&ret->sql, "SELECT x.*");
    put_leak_change_sql(pane, &ret->sql);
    hx_text_putf(&ret->sql,
                 " FROM (SELECT l.snapshot AS snapshot, l.kind AS kind, l.type AS type,"
                 " coalesce(t.label, l.site) AS site, sum(l.bytes) AS bytes,"
                 " sum(l.objects) AS objects, " ABOUT(
                     "t.label", "l.kind") ", max(l.stack_id) AS stack_id FROM hx_leak AS l"
                                          " LEFT JOIN hx_stack AS t ON t.stack_id = l.stack_id "
                                          "WHERE l.snapshot = %" PRId64
                                          " GROUP BY 1, 2, 3, 4) AS x",
                 snapshot);
    put_leak_join_sql(pane, &ret->sql);
    hx_text_putf(&ret->facts,
                 "SELECT (SELECT count(*) FROM leaks WHERE snapshot = %" PRId64 ") AS rows,"
                 " heap_bytes, leaked_bytes, leaked_objects, EXISTS (SELECT 1 FROM hx_leak"
                 " WHERE snapshot = %" PRId64 " AND stack_id IS NOT NULL) AS sites FROM snapshots"
                 " WHERE snapshot = %" PRId64,
                 snapshot, snapshot, snapshot);
}

static void leaks_title(const struct hx_ui *ui, const struct hx_pane *pane, struct hx_text *ret)
{
    (void)ui;
    char size[HX_HUMAN];
    int64_t bytes = hx_table_int(&pane->facts, 0, "leaked_bytes", -1);
    int64_t heap = hx_table_int(&pane->facts, 0, "heap_bytes", 0);
    hx_text_puts(ret, hx_table_int(&pane->facts, 0, "sites", 0) ? "Leaks by kind, type and site"
                                                                : "Leaks by kind and type");
    if (bytes >= 0) {
        hx_text_putf(ret, ": %s in ", hx_human_bytes((uint64_t)bytes, size));
        hx_text_count(ret, hx_table_int(&pane->facts, 0, "leaked_objects", 0));
        hx_text_puts(ret, " objects lost");
        if (heap > 0)
            hx_text_putf(ret, ", %.1f%% of the heap", 100.0 * (double)bytes / (double)heap);
    }
}

static bool leak_row_set(const struct hx_pane *pane, size_t row, struct hx_of *ret)
{
    bool typed = hx_table_at(&pane->rows, row, "type")->type == HX_VALUE_TEXT;
    *ret = (struct hx_of){HX_SUBSET_LEAK, hx_table_text(&pane->rows, row, "kind"),
                          typed ? hx_table_text(&pane->rows, row, "type") : NULL,
                          hx_table_int(&pane->rows, row, "stack_id", 0)};
    return true;
}

const struct hx_screen hx_screen_leaks = {
    .name = "leaks",
    .about = "lost objects by kind",
    .digit = 6,
    .columns = columns,
    .key = key,
    .sort = "bytes",
    .differences = differences,
    .differences_sort = HX_DIFFERENCE_SORT,
    .difference = &difference,
    .source = leaks_source,
    .head = leaks_title,
    .empty = "Nothing is lost among the objects that were found; i tells what was not.",
    .open = hx_ui_open_objects,
    .of = leak_row_set,
};
