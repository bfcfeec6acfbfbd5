/* screen_snapshots.c - a row and a bar for each snapshot. */
#include "ui/app.h"
#include "ui/list/pane.h"

static const struct hx_column columns[] = {
    {"snapshot", "#", HX_AS_COUNT, 5, 0, NULL, NULL},
    {"taken_at", "time (UTC)", HX_AS_TIME, 14, 4, NULL, NULL},
    {"heap_bytes", "heap", HX_AS_BYTES, 7, 0, NULL, NULL},
    {"heap_bytes", "", HX_AS_BAR, -12, 2, "most", "leaked_bytes"},
    {"leaked_bytes", "leaked", HX_AS_BYTES, 7, 1, NULL, NULL},
    {"rss_bytes", "rss", HX_AS_BYTES, 7, 3, NULL, NULL},
    {"pause_us", "pause", HX_AS_US, 7, 5, NULL, NULL},
    {"method", NULL, HX_AS_TEXT, 7, 7, NULL, NULL},
    {"whole", NULL, HX_AS_TEXT, 7, 6, NULL, NULL},
    {"notes", NULL, HX_AS_TEXT, -24, 8, NULL, NULL},
    {0},
};

static void snapshots_source(const struct hx_pane *pane, int64_t snapshot, struct hx_source *ret)
{
    (void)pane;
    (void)snapshot;
    ret->like = "snapshots";
    /* All of them, whichever is the current one. */
    hx_query_put(HX_QUERY_snapshot_list, HX_QUERY_ARGS(), &ret->sql);
    hx_query_put(HX_QUERY_snapshot_list_facts, HX_QUERY_ARGS(), &ret->facts);
}

static void snapshots_title(const struct hx_ui *ui, const struct hx_pane *pane, struct hx_text *ret)
{
    size_t n = ui->snapshots.n_rows;
    (void)pane;
    hx_text_puts(ret, "Snapshots");
    int64_t now = n > 1 ? hx_table_int(&ui->snapshots, n - 1, "heap_bytes", -1) : -1;
    int64_t then = n > 1 ? hx_table_int(&ui->snapshots, 0, "heap_bytes", -1) : -1;
    if (now >= 0 && then >= 0) { /* both were measured */
        hx_text_puts(ret, ": heap ");
        hx_text_change(ret, now - then);
        hx_text_puts(ret, " since the first");
    }
    hx_text_puts(ret,
                 ui->term.utf8 ? " (\u2588 reachable, \u2592 leaked)" : " (# reachable, x leaked)");
    hx_text_puts(ret, "  v: chart");
}

static hx_error *open_snapshot_row(struct hx_ui *ui, struct hx_pane *pane, size_t row)
{
    hx_ui_set_snapshot(ui, hx_table_int(&pane->rows, row, "snapshot", ui->snapshot));
    return hx_ui_open_text(ui, &hx_screen_account, NULL, 0);
}

static const char *const key[] = {"snapshot", NULL};

const struct hx_screen hx_screen_snapshots = {
    .name = "snapshots",
    .brief = "snaps",
    .about = "the list of snapshots; Enter picks one, Space marks it",
    .digit = -1,
    .over_time = true,
    .columns = columns,
    .key = key,
    .view = &hx_screen_timeline,
    .source = snapshots_source,
    .head = snapshots_title,
    .open = open_snapshot_row,
};
