/* screen_holders.c - bytes by who holds them: one root for each object. */
#include "ui/app.h"
#include "ui/data/difference.h"
#include "ui/list/pane.h"

#include <string.h>

static const struct hx_column columns[] = {
    {"bytes", NULL, HX_AS_BYTES, 8, 0, NULL, NULL},
    {"bytes", "of heap", HX_AS_SHARE, 7, 3, "heap_bytes", NULL},
    {"bytes", "", HX_AS_BAR, 6, 9, "heap_bytes", NULL},
    {"objects", NULL, HX_AS_COUNT, 9, 5, NULL, NULL},
    {"bytes_delta", "change", HX_AS_CHANGE, 7, 7, NULL, NULL},
    {"holder", "held by", HX_AS_TYPE, -20, 0, NULL, NULL},
    {"alone_bytes", "alone", HX_AS_BYTES, 7, 1, NULL, NULL},
    {"contested_bytes", "contested", HX_AS_BYTES, 9, 2, NULL, NULL},
    {"contested_with", "with", HX_AS_TYPE, -9, 4, NULL, NULL},
    {"entries", NULL, HX_AS_COUNT, 7, 6, NULL, NULL},
    {"module", NULL, HX_AS_TEXT, -12, 8, NULL, NULL},
    {0},
};

static const struct hx_column differences[] = {
    HX_DIFFERENCE_COLUMNS,
    {"holder", "held by", HX_AS_TYPE, -24, 0, NULL, NULL},
    {0},
};

static const char *const key[] = {"holder", NULL};

/* Does the shown snapshot have holders? -1: they may still be worked out. */
static int64_t has_holders(const struct hx_ui *ui)
{
    return hx_table_int(&ui->snapshots, hx_ui_snapshot_row(ui), "held", -1);
}

const struct hx_screen *hx_ui_stands_for(const struct hx_ui *ui, const struct hx_screen *screen)
{
    return screen == &hx_screen_holders && !has_holders(ui) ? &hx_screen_retainers : screen;
}

void hx_ui_put_no_holders(const struct hx_ui *ui, struct hx_text *ret)
{
    size_t row = hx_ui_snapshot_row(ui);
    if (has_holders(ui) || strcmp(hx_table_text(&ui->snapshots, row, "method"), "import") == 0)
        return;
    bool judged = hx_table_at(&ui->snapshots, row, "stray_edges")->type == HX_VALUE_INT;
    hx_text_puts(ret, judged ? "\nno holders: `:holders on` finds them"
                             : "\nno holders: its words were not judged");
}

static void put_part(const struct hx_table *facts, const char *name, const char *what,
                     struct hx_text *ret)
{
    char size[HX_HUMAN];
    int64_t bytes = hx_table_int(facts, 0, name, 0), heap = hx_table_int(facts, 0, "heap_bytes", 0);
    if (bytes > 0 && heap > 0)
        hx_text_putf(ret, ", %s %s (%.1f%%)", what, hx_human_bytes((uint64_t)bytes, size),
                     100.0 * (double)bytes / (double)heap);
}

/* "Holders: 12; contested 1.20M (3.1%), mixed 40.0K (0.1%)" */
static void holders_title(const struct hx_ui *ui, const struct hx_pane *pane, struct hx_text *ret)
{
    const struct hx_table *facts = &pane->facts;
    struct hx_text parts = {0};
    hx_text_puts(ret, "Holders");
    if (!hx_table_int(facts, 0, "rows", 0))
        return;
    hx_text_puts(ret, ": ");
    hx_text_count(ret, hx_table_int(facts, 0, "holders", 0));
    hx_text_puts(ret, "; v: all retainer sets");
    put_part(facts, "contested_bytes", "contested", &parts);
    put_part(facts, "mixed_bytes", "mixed", &parts);
    put_part(facts, "lost_bytes", "unreachable", &parts);
    if (parts.n)
        hx_text_putf(ret, "\n%s", parts.s + 2);
    hx_text_free(&parts);
    hx_ui_put_nameless(pane, "holder", hx_table_int(facts, 0, "heap_bytes", 0) / 100,
                       !ui->term.utf8, ret);
}

static bool holder_row_set(const struct hx_pane *pane, size_t row, struct hx_of *ret)
{
    *ret = (struct hx_of){HX_SUBSET_KEY, hx_table_text(&pane->rows, row, "holder"), NULL,
                          hx_screen_census(pane->screen) - hx_stored_censuses};
    return true;
}

static hx_error *open_holder_row(struct hx_ui *ui, struct hx_pane *pane, size_t row)
{
    struct hx_of holder;
    holder_row_set(pane, row, &holder);
    return hx_ui_open_of(ui, &hx_screen_holder, &holder);
}

const struct hx_screen hx_screen_holders = {
    .name = "holders",
    .brief = "held",
    .about = "bytes by who holds them",
    .digit = 2,
    .needs = HX_ANALYSE_HOLDERS,
    .lacks = "Holders are",
    .columns = columns,
    .key = key,
    .sort = "bytes",
    .census = "holder",
    .differences = differences,
    .view = &hx_screen_retainers,
    .source = hx_census_source,
    .head = holders_title,
    .empty = "There are no objects, and so no holders.",
    .open = open_holder_row,
    .of = holder_row_set,
};
