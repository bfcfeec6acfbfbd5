/* screen_account.c - resident memory by what it is used for. */
#include "ui/app.h"
#include "ui/data/difference.h"

#include <inttypes.h>
#include <string.h>

static const struct hx_column columns[] = {
    {"part", NULL, HX_AS_TEXT, 9, 0, NULL, NULL},
    {"bytes", NULL, HX_AS_BYTES, 8, 0, NULL, NULL},
    {"bytes", "share", HX_AS_SHARE, 7, 1, "rss_bytes", NULL},
    {"bytes_delta", "change", HX_AS_CHANGE, 7, 2, NULL, NULL},
    {"bytes", "", HX_AS_BAR, -7, 0, "rss_bytes", NULL},
    {"about", "", HX_AS_TEXT, 34, 3, NULL, NULL},
    {0},
};

/* No objects are counted here, so what they are has the room. */
static const struct hx_column differences[] = {
    {"part", NULL, HX_AS_TEXT, 9, 0, NULL, NULL},
    {"status", NULL, HX_AS_TEXT, 8, 2, NULL, NULL},
    {"bytes_delta", "change", HX_AS_CHANGE, 8, 0, NULL, NULL},
    {"bytes_a", "then", HX_AS_BYTES, 6, 1, NULL, NULL},
    {"bytes_b", "now", HX_AS_BYTES, 6, 0, NULL, NULL},
    {"bytes_delta", "", HX_AS_SWING, 7, 3, "moved", NULL},
    {"about", "", HX_AS_SAFE, -24, 4, NULL, NULL},
    {0},
};

static const char *const key[] = {"part", NULL};

#define ABOUT                                                                                      \
    ", CASE part WHEN 'live' THEN 'objects that the program holds'"                                \
    " WHEN 'free' THEN 'free and cached blocks of the heap'"                                       \
    " WHEN 'overhead' THEN 'the allocator''s own'"                                                 \
    " WHEN 'files' THEN 'mapped files: programs, libraries'"                                       \
    " WHEN 'stacks' THEN 'stacks of threads'"                                                      \
    " WHEN 'anonymous' THEN 'mapped, no allocator''s'"                                             \
    " WHEN 'shared' THEN 'shared with other processes'"                                            \
    " WHEN 'other' THEN 'all the rest' END AS about"

static void put_account_part_rows_sql(const struct hx_pane *pane, int64_t snapshot,
                                      struct hx_text *sql)
{
    (void)pane;
    hx_text_putf(sql,
                 "SELECT part, bytes, NULL AS objects FROM hx_account WHERE snapshot = %" PRId64,
                 snapshot);
}

static void put_account_part_columns_sql(const struct hx_pane *pane, int64_t snapshot,
                                         struct hx_text *sql)
{
    (void)pane;
    (void)snapshot;
    hx_text_puts(sql, ABOUT);
}

static const struct hx_difference difference = {
    .title = "Resident memory",
    .lacks = "account of the resident memory",
    .total = "rss_bytes",
    .total_title = "RSS",
    .keys = key,
    .rows = put_account_part_rows_sql,
    .written = "part",
    .more = put_account_part_columns_sql,
    .made = "SELECT rss_bytes IS NOT NULL FROM hx_snapshot WHERE snapshot = ",
};

static void put_account_part_change_sql(const struct hx_pane *pane, struct hx_text *sql)
{
    char then[128], made[128];
    snprintf(then, sizeof then,
             "(SELECT o.bytes FROM hx_account o WHERE o.snapshot = %" PRId64
             " AND o.part = account.part)",
             pane->before);
    snprintf(made, sizeof made,
             "(SELECT rss_bytes IS NOT NULL FROM hx_snapshot WHERE snapshot = %" PRId64 ")",
             pane->before);
    hx_change_sql(pane->before, "bytes", then, made, sql);
}

static void account_source(const struct hx_pane *pane, int64_t snapshot, struct hx_source *ret)
{
    hx_text_puts(&ret->sql, "SELECT snapshot, part, bytes" ABOUT);
    put_account_part_change_sql(pane, &ret->sql);
    hx_text_putf(&ret->sql, " FROM account WHERE snapshot = %" PRId64, snapshot);
    hx_text_putf(&ret->facts,
                 "SELECT (SELECT count(*) FROM account WHERE snapshot = %" PRId64 ") AS rows,"
                 " rss_bytes, (SELECT sum(bytes) FROM account WHERE snapshot = %" PRId64
                 ") AS total"
                 " FROM snapshots WHERE snapshot = %" PRId64,
                 snapshot, snapshot, snapshot);
}

static void account_title(const struct hx_ui *ui, const struct hx_pane *pane, struct hx_text *ret)
{
    char size[HX_HUMAN];
    int64_t rss = hx_table_int(&pane->facts, 0, "rss_bytes", -1);
    hx_text_puts(ret, "Resident memory by use");
    if (rss >= 0) {
        hx_text_putf(ret, ": %s (", hx_human_bytes((uint64_t)rss, size));
        hx_text_count(ret, rss);
        hx_text_puts(ret, " bytes) = the sum of the parts");
    }
    hx_ui_put_partial(ui, ret);
}

static hx_error *open_account_part_row(struct hx_ui *ui, struct hx_pane *pane, size_t row)
{
    const char *part = hx_table_text(&pane->rows, row, "part");
    if (part[0] == 'l') /* live: they have a screen of their own */
        return hx_ui_open_text(ui, &hx_screen_objects, NULL, 0);
    return hx_ui_open_text(ui, &hx_screen_details, NULL, 0);
}

static bool account_part_row_set(const struct hx_pane *pane, size_t row, struct hx_of *ret)
{
    *ret = (struct hx_of){.subset = HX_SUBSET_ALL};
    return strcmp(hx_table_text(&pane->rows, row, "part"), "live") == 0;
}

const struct hx_screen hx_screen_account = {
    .name = "account",
    .brief = "acct",
    .about = "resident memory by use; sums to RSS",
    .digit = 0,
    .columns = columns,
    .key = key,
    .sort = "bytes",
    .differences = differences,
    .differences_sort = HX_DIFFERENCE_SORT,
    .difference = &difference,
    .source = account_source,
    .head = account_title,
    .empty = "This snapshot has no account of the resident memory.",
    .open = open_account_part_row,
    .of = account_part_row_set,
};
