/* screen_account.c - resident memory by what it is used for. */
#include "ui/app.h"
#include "ui/data/difference.h"
#include "ui/list/pane.h"

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
    .census = "account",
    .differences = differences,
    .source = hx_census_source,
    .head = account_title,
    .empty = "This snapshot has no account of the resident memory.",
    .open = open_account_part_row,
    .of = account_part_row_set,
};
