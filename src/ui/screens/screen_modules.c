/* screen_modules.c - bytes by the module that allocated them. */
#include "ui/app.h"
#include "ui/data/difference.h"

#include "store/census.h"

#include <inttypes.h>
#include <string.h>

static const struct hx_column columns[] = {
    {"bytes", NULL, HX_AS_BYTES, 8, 0, NULL, NULL},
    {"bytes", "of heap", HX_AS_SHARE, 7, 2, "heap_bytes", NULL},
    {"bytes", "", HX_AS_BAR, 10, 4, "heap_bytes", NULL},
    {"objects", NULL, HX_AS_COUNT, 10, 1, NULL, NULL},
    {"bytes_delta", "change", HX_AS_CHANGE, 7, 3, NULL, NULL},
    {"module", "allocated by", HX_AS_TEXT, -24, 0, NULL, NULL},
    {0},
};

static const struct hx_column differences[] = {
    HX_DIFFERENCE_COLUMNS,
    {"module", "allocated by", HX_AS_TEXT, -24, 0, NULL, NULL},
    {0},
};

static const char *const key[] = {"module", NULL};

static void put_module_rows_sql(const struct hx_pane *pane, int64_t snapshot, struct hx_text *sql)
{
    (void)pane;
    hx_text_puts(sql, "SELECT key AS module, bytes, objects FROM (");
    hx_census_sql(hx_census_find("module"), snapshot, sql);
    hx_text_puts(sql, ")");
}

#define RECORDED                                                                                   \
    "SELECT EXISTS (SELECT 1 FROM hx_stack_site x WHERE x.snapshot = s.snapshot)"                  \
    " OR s.heap_objects = 0 FROM hx_snapshot s WHERE s.snapshot = "

static const struct hx_difference difference = {
    .title = "Modules",
    .lacks = "modules (nobody recorded who allocates)",
    .total = "heap_bytes",
    .total_title = "heap",
    .total_objects = "heap_objects",
    .keys = key,
    .rows = put_module_rows_sql,
    .written = "module",
    .made = RECORDED,
};

static void modules_source(const struct hx_pane *pane, int64_t snapshot, struct hx_source *ret)
{
    char made[256];
    ret->like = "modules";
    snprintf(made, sizeof made, "(" RECORDED "%" PRId64 ")", pane->before);
    hx_text_putf(&ret->sql, "SELECT %" PRId64 " AS snapshot, b.*", snapshot);
    hx_change_sql(pane->before, "b.bytes", "o.bytes", made, &ret->sql);
    hx_text_puts(&ret->sql, " FROM (");
    put_module_rows_sql(pane, snapshot, &ret->sql);
    hx_text_puts(&ret->sql, ") AS b LEFT JOIN (");
    put_module_rows_sql(pane, pane->before, &ret->sql);
    hx_text_putf(&ret->sql, "%s) AS o ON o.module = b.module", pane->before ? "" : " WHERE 0");
    hx_text_putf(&ret->facts,
                 "SELECT (SELECT count(DISTINCT module) FROM modules WHERE snapshot = s.snapshot)"
                 " AS rows, heap_bytes FROM snapshots AS s WHERE snapshot = %" PRId64,
                 snapshot);
}

static void modules_title(const struct hx_ui *ui, const struct hx_pane *pane, struct hx_text *ret)
{
    (void)ui;
    hx_text_puts(ret, "Modules, by the frame that asked for the memory");
    if (pane->total) {
        hx_text_puts(ret, ": ");
        hx_text_count(ret, pane->total);
    }
}

static bool module_row_set(const struct hx_pane *pane, size_t row, struct hx_of *ret)
{
    *ret = (struct hx_of){HX_SUBSET_MODULE, hx_table_text(&pane->rows, row, "module"), NULL, 0};
    return true;
}

const struct hx_screen hx_screen_modules = {
    .name = "modules",
    .about = "bytes by the module that allocated them",
    .digit = -1,
    .columns = columns,
    .key = key,
    .sort = "bytes",
    .differences = differences,
    .differences_sort = HX_DIFFERENCE_SORT,
    .difference = &difference,
    .source = modules_source,
    .head = modules_title,
    .empty = HX_UI_NOT_RECORDED,
    .open = hx_ui_open_objects,
    .of = module_row_set,
};
