/* screen_types.c - bytes by the type of the object. */
#include "ui/app.h"
#include "ui/data/difference.h"

#include <inttypes.h>
#include <string.h>

/* Of a heap of which less than that is known something else tells more. */
#define KNOWN_PART 20

static const struct hx_column columns[] = {
    {"type", NULL, HX_AS_TYPE, -32, 0, NULL, NULL},
    {"confidence", NULL, HX_AS_TEXT, 10, 4, NULL, NULL},
    {"bytes", NULL, HX_AS_BYTES, 8, 0, NULL, NULL},
    {"bytes", "of heap", HX_AS_SHARE, 7, 3, "heap_bytes", NULL},
    {"bytes_delta", "change", HX_AS_CHANGE, 7, 2, NULL, NULL},
    {"objects", NULL, HX_AS_COUNT, 10, 2, NULL, NULL},
    {"retained_bytes", "retained", HX_AS_BYTES, 9, 1, NULL, NULL},
    {"only_pages", "own pages", HX_AS_COUNT, 9, 5, NULL, NULL},
    {"shared_pages", "shared", HX_AS_COUNT, 8, 6, NULL, NULL},
    {0},
};

static const struct hx_column differences[] = {
    HX_DIFFERENCE_COLUMNS,
    {"type", NULL, HX_AS_TYPE, -24, 0, NULL, NULL},
    {0},
};

static const char *const by_type[] = {"type", NULL};
static const char *const kept[] = {"confidence", NULL};

/* Types that objects are of; those of an imported profile, too, which counts none. */
#define COUNTED(table)                                                                             \
    "(" table "objects > 0 OR (" table "objects IS NULL AND " table "bytes IS NOT NULL))"

static void put_type_rows_sql(const struct hx_pane *pane, int64_t snapshot, struct hx_text *sql)
{
    (void)pane;
    hx_text_putf(sql,
                 "SELECT coalesce(name, '(unknown)') AS type, confidence, bytes, objects"
                 " FROM hx_type WHERE " COUNTED("") " AND snapshot = %" PRId64,
                 snapshot);
}

static const struct hx_difference difference = {
    .title = "Types",
    .lacks = "sums by type",
    .total = "heap_bytes",
    .total_title = "heap",
    .total_objects = "heap_objects",
    .keys = by_type,
    .kept = kept,
    .rows = put_type_rows_sql,
    .written = "type",
};

/* Types are numbered in each snapshot anew: those of the other one go by name. */
static void put_type_join_sql(const struct hx_pane *pane, struct hx_text *sql)
{
    if (pane->before)
        hx_text_putf(sql,
                     " LEFT JOIN (SELECT coalesce(name, '(unknown)') AS name, sum(bytes) AS bytes"
                     " FROM hx_type WHERE " COUNTED(
                         "") " AND snapshot = %" PRId64
                             " GROUP BY 1) AS o ON o.name = coalesce(t.name, '(unknown)')",
                     pane->before);
}

static void put_type_change_sql(const struct hx_pane *pane, struct hx_text *sql)
{
    char made[96];
    snprintf(made, sizeof made, "EXISTS (SELECT 1 FROM hx_type WHERE snapshot = %" PRId64 ")",
             pane->before);
    hx_change_sql(pane->before, "t.bytes", "o.bytes", made, sql);
}

static void types_source(const struct hx_pane *pane, int64_t snapshot, struct hx_source *ret)
{
    ret->like = "types";
    hx_text_puts(
        &ret->sql,
        "SELECT t.snapshot AS snapshot, coalesce(t.name, '(unknown)') AS type,"
        " t.confidence AS confidence, t.bytes AS bytes, t.objects AS objects,"
        " t.retained_bytes AS retained_bytes, t.symbol AS symbol, p.only_pages AS only_pages,"
        " p.shared_pages AS shared_pages");
    put_type_change_sql(pane, &ret->sql);
    hx_text_puts(&ret->sql, " FROM hx_type t LEFT JOIN hx_page p ON p.snapshot = t.snapshot"
                            " AND p.census = 'type' AND p.key = t.type");
    put_type_join_sql(pane, &ret->sql);
    hx_text_putf(&ret->sql, " WHERE " COUNTED("t.") " AND t.snapshot = %" PRId64, snapshot);
    hx_text_putf(&ret->facts,
                 "SELECT (SELECT count(*) FROM types WHERE snapshot = %" PRId64 ") AS rows,"
                 " (SELECT sum(bytes) FROM hx_type WHERE snapshot = %" PRId64
                 " AND name IS NOT NULL) AS typed, heap_bytes FROM snapshots"
                 " WHERE snapshot = %" PRId64,
                 snapshot, snapshot, snapshot);
}

static void types_title(const struct hx_ui *ui, const struct hx_pane *pane, struct hx_text *ret)
{
    int64_t heap = hx_table_int(&pane->facts, 0, "heap_bytes", 0);
    int64_t typed = hx_table_int(&pane->facts, 0, "typed", 0);
    hx_text_puts(ret, "Types");
    if (pane->total && heap > 0)
        hx_text_putf(ret, ": known for %.1f%% of the heap", 100.0 * (double)typed / (double)heap);
    if (pane->total && heap > 0 && typed < heap / KNOWN_PART) {
        bool recorded = hx_table_int(&ui->snapshots, hx_ui_snapshot_row(ui), "recorded", 0);
        hx_text_puts(ret, "\ntypes are those of C++ classes; ");
        hx_text_puts(ret, recorded ? "screen 4 tells who allocated the rest"
                                   : "heapx record tells who allocated the rest");
    }
}

static bool type_row_set(const struct hx_pane *pane, size_t row, struct hx_of *ret)
{
    bool known = hx_table_at(&pane->rows, row, "confidence")->type == HX_VALUE_TEXT;
    *ret = (struct hx_of){HX_SUBSET_TYPE, known ? hx_table_text(&pane->rows, row, "type") : NULL,
                          NULL, 0};
    return true;
}

static const char *const key[] = {"type", "confidence", NULL};

const struct hx_screen hx_screen_types = {
    .name = "types",
    .about = "bytes by type of the object",
    .digit = 5,
    .needs = HX_ANALYSE_RETAINED,
    .lacks = "Sums by type are",
    .columns = columns,
    .key = key,
    .sort = "bytes",
    .differences = differences,
    .differences_sort = HX_DIFFERENCE_SORT,
    .difference = &difference,
    .source = types_source,
    .head = types_title,
    .empty = "There are no objects, and so no types.",
    .open = hx_ui_open_objects,
    .of = type_row_set,
};
