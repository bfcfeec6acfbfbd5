/* screen_leaks.c - lost and possibly lost objects by kind. */
#include "ui/app.h"

#include <inttypes.h>
#include <string.h>

static const struct hx_column columns[] = {
    {"kind", NULL, HX_AS_TEXT, 9, 0, NULL, NULL},
    {"type", NULL, HX_AS_TEXT, -12, 1, NULL, NULL},
    {"bytes", NULL, HX_AS_BYTES, 8, 0, NULL, NULL},
    {"bytes", "of heap", HX_AS_SHARE, 7, 3, "heap_bytes", NULL},
    {"objects", NULL, HX_AS_COUNT, 10, 2, NULL, NULL},
    {"bytes", "", HX_AS_BAR, 10, 5, "heap_bytes", NULL},
    {"about", "", HX_AS_CALLS, -26, 4, NULL, NULL},
    {0},
};

static void source(const struct hx_pane *pane, int64_t snapshot, struct hx_source *ret)
{
    (void)pane;
    ret->like = "leaks";
    hx_text_putf(&ret->sql,
                 "SELECT l.snapshot AS snapshot, l.kind AS kind, l.type AS type,"
                 " coalesce(t.label, l.site) AS site, sum(l.bytes) AS bytes,"
                 " sum(l.objects) AS objects, coalesce(t.label, CASE l.kind"
                 " WHEN 'definite' THEN 'nothing points to it'"
                 " WHEN 'indirect' THEN 'held by lost objects only'"
                 " WHEN 'possible' THEN 'by interior pointers only' END) AS about,"
                 " max(l.stack_id) AS stack_id FROM hx_leak AS l"
                 " LEFT JOIN hx_stack AS t ON t.stack_id = l.stack_id WHERE l.snapshot = %" PRId64
                 " GROUP BY 1, 2, 3, 4",
                 snapshot);
    hx_text_putf(&ret->facts,
                 "SELECT (SELECT count(*) FROM leaks WHERE snapshot = %" PRId64 ") AS rows,"
                 " heap_bytes, leaked_bytes, leaked_objects, EXISTS (SELECT 1 FROM hx_leak"
                 " WHERE snapshot = %" PRId64 " AND stack_id IS NOT NULL) AS sites FROM snapshots"
                 " WHERE snapshot = %" PRId64,
                 snapshot, snapshot, snapshot);
}

static void head(const struct hx_ui *ui, const struct hx_pane *pane, struct hx_text *ret)
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

static bool of(const struct hx_pane *pane, size_t row, struct hx_of *ret)
{
    bool typed = hx_table_at(&pane->rows, row, "type")->type == HX_VALUE_TEXT;
    *ret = (struct hx_of){HX_SUBSET_LEAK, hx_table_text(&pane->rows, row, "kind"),
                          typed ? hx_table_text(&pane->rows, row, "type") : NULL,
                          hx_table_int(&pane->rows, row, "stack_id", 0)};
    return true;
}

static const char *const key[] = {"kind", "type", "site", NULL};

const struct hx_screen hx_screen_leaks = {
    .name = "leaks",
    .about = "lost objects by kind",
    .digit = 6,
    .columns = columns,
    .key = key,
    .sort = "bytes",
    .source = source,
    .head = head,
    .empty = "Nothing is lost among the objects that were found; i tells what was not.",
    .open = hx_ui_open_objects,
    .of = of,
};
