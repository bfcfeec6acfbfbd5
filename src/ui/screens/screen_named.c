/* screen_named.c - the roots that were given names, and what each of them reaches. */
#include "ui/analysis.h"
#include "ui/app.h"
#include "ui/list/pane.h"

static const struct hx_column columns[] = {
    {"name", NULL, HX_AS_TEXT, -16, 0, NULL, NULL},
    {"expr", "stands for", HX_AS_TEXT, -16, 1, NULL, NULL},
    {"direct_objects", "objects", HX_AS_COUNT, 9, 3, NULL, NULL},
    {"exclusive_bytes", "alone", HX_AS_BYTES, 8, 0, NULL, NULL},
    {"shared_bytes", "shared", HX_AS_BYTES, 8, 2, NULL, NULL},
    {"retained_bytes", "retains", HX_AS_BYTES, 8, 4, NULL, NULL},
    {0},
};

static void named_source(const struct hx_pane *pane, int64_t snapshot, struct hx_source *ret)
{
    (void)pane;
    hx_query_put(HX_QUERY_named_roots, HX_QUERY_ARGS(.snapshot = snapshot), &ret->sql);
    hx_query_put(HX_QUERY_named_roots_facts, HX_QUERY_ARGS(.snapshot = snapshot), &ret->facts);
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
