/* screen_roots.c - named places outside the heap that hold pointers. */
#include "ui/app.h"

#include <inttypes.h>

static const struct hx_column columns[] = {
    {"kind", NULL, HX_AS_TEXT, 8, 2, NULL, NULL},
    {"name", NULL, HX_AS_TEXT, -18, 0, NULL, NULL},
    {"module", NULL, HX_AS_TEXT, 14, 4, NULL, NULL},
    {"address", NULL, HX_AS_HEX, 14, 5, NULL, NULL},
    {"size", NULL, HX_AS_BYTES, 7, 3, NULL, NULL},
    {"direct_objects", "objects", HX_AS_COUNT, 9, 1, NULL, NULL},
    {"retained_bytes", "retained", HX_AS_BYTES, 9, 0, NULL, NULL},
    {0},
};

static void source(const struct hx_pane *pane, int64_t snapshot, struct hx_source *ret)
{
    (void)pane;
    ret->view = "roots";
    hx_text_putf(&ret->facts, "SELECT count(*) AS rows FROM roots WHERE snapshot = %" PRId64,
                 snapshot);
}

static void head(const struct hx_ui *ui, const struct hx_pane *pane, struct hx_text *ret)
{
    (void)ui;
    hx_text_puts(ret, "Roots: places outside the heap that hold pointers");
    if (pane->loaded) {
        hx_text_puts(ret, ": ");
        hx_text_count(ret, pane->total);
    }
}

static hx_error *open_row(struct hx_ui *ui, struct hx_pane *pane, size_t row)
{
    return hx_ui_open_text(ui, &hx_screen_root, hx_table_text(&pane->rows, row, "name"),
                           hx_table_int(&pane->rows, row, "root_id", -1));
}

static const char *const key[] = {"kind", "name", "module", "address", NULL};

const struct hx_screen hx_screen_roots = {
    .name = "roots",
    .about = "places outside that hold pointers",
    .digit = 9,
    .columns = columns,
    .key = key,
    .sort = "retained_bytes",
    .source = source,
    .head = head,
    .empty = "No place outside the heap holds a pointer into it.",
    .open = open_row,
    .objects = open_row,
};
