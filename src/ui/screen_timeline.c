/* screen_timeline.c - a row and a bar for each snapshot. */
#include "ui/app.h"

static const struct hx_column columns[] = {
    {"snapshot", "#", HX_AS_COUNT, 5, 0, NULL, NULL},
    {"taken_at", "time (UTC)", HX_AS_TIME, 14, 5, NULL, NULL},
    {"heap_bytes", "heap", HX_AS_BYTES, 7, 0, NULL, NULL},
    {"heap_bytes", "", HX_AS_BAR, 0, 0, "most", "leaked_bytes"},
    {"leaked_bytes", "leaked", HX_AS_BYTES, 7, 1, NULL, NULL},
    {"rss_bytes", "rss", HX_AS_BYTES, 7, 3, NULL, NULL},
    {"pause_us", "pause", HX_AS_US, 7, 4, NULL, NULL},
    {0},
};

static void source(const struct hx_pane *pane, int64_t snapshot, struct hx_source *ret)
{
    (void)pane;
    (void)snapshot;
    ret->view = "snapshots";
    /* All of them, whichever is the current one. */
    hx_text_puts(&ret->facts, "SELECT count(*) AS rows, max(heap_bytes) AS most FROM snapshots");
}

static void head(const struct hx_ui *ui, const struct hx_pane *pane, struct hx_text *ret)
{
    size_t n = ui->snapshots.n_rows;
    (void)pane;
    hx_text_puts(ret, "Heap over time");
    int64_t now = n > 1 ? hx_table_int(&ui->snapshots, n - 1, "heap_bytes", -1) : -1;
    int64_t then = n > 1 ? hx_table_int(&ui->snapshots, 0, "heap_bytes", -1) : -1;
    if (now >= 0 && then >= 0) { /* both were measured */
        int64_t change = now - then;
        char size[HX_HUMAN];
        hx_text_putf(ret, ": %s%s since the first snapshot", change < 0 ? "-" : "+",
                     hx_human_bytes(change < 0 ? 0 - (uint64_t)change : (uint64_t)change, size));
    }
    hx_text_puts(ret,
                 ui->term.utf8 ? " (\u2588 reachable, \u2592 leaked)" : " (# reachable, x leaked)");
}

static hx_error *open_row(struct hx_ui *ui, struct hx_pane *pane, size_t row)
{
    hx_ui_set_snapshot(ui, hx_table_int(&pane->rows, row, "snapshot", ui->snapshot));
    return hx_ui_open_text(ui, &hx_screen_account, NULL, 0);
}

static const char *const key[] = {"snapshot", NULL};

const struct hx_screen hx_screen_timeline = {
    .name = "timeline",
    .brief = "time",
    .about = "snapshots over time; Enter picks one",
    .digit = 1,
    .over_time = true,
    .columns = columns,
    .key = key,
    .source = source,
    .head = head,
    .open = open_row,
};
