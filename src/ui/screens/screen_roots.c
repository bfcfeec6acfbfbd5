/* screen_roots.c - named places outside the heap that hold pointers. */
#include "ui/app.h"
#include "ui/list/pane.h"

#include <string.h>

#define LOOKED_AT 3 /* rows: a variable without a name among them is worth a hint */

static const struct hx_column columns[] = {
    {"kind", NULL, HX_AS_TEXT, 8, 2, NULL, NULL},
    {"name", NULL, HX_AS_TYPE, -18, 0, NULL, NULL},
    {"module", NULL, HX_AS_TEXT, 14, 4, NULL, NULL},
    {"address", NULL, HX_AS_HEX, 14, 5, NULL, NULL},
    {"size", NULL, HX_AS_BYTES, 7, 3, NULL, NULL},
    {"direct_objects", "objects", HX_AS_COUNT, 9, 1, NULL, NULL},
    {"retained_bytes", "retained", HX_AS_BYTES, 9, 0, NULL, NULL},
    {0},
};

static void roots_source(const struct hx_pane *pane, int64_t snapshot, struct hx_source *ret)
{
    (void)pane;
    ret->view = "roots";
    hx_query_put(HX_QUERY_count, HX_QUERY_ARGS(.view = "roots", .snapshot = snapshot), &ret->facts);
}

/* Is it a global that goes by its place in the file ("vim+0x37a0d8")? */
static bool is_unnamed_global(const struct hx_table *rows, size_t row, const char *column)
{
    const char *module = hx_table_text(rows, row, "module");
    const char *name = hx_table_text(rows, row, column);
    size_t n = strlen(module);
    return n && strncmp(name, module, n) == 0 && strncmp(name + n, "+0x", 3) == 0;
}

void hx_ui_put_nameless(const struct hx_pane *pane, const char *column, int64_t least, bool ascii,
                        struct hx_text *ret)
{
    for (size_t i = 0; i < LOOKED_AT && i < pane->rows.n_rows && !pane->offset; i++) {
        const char *module = hx_table_text(&pane->rows, i, "module");
        if (!is_unnamed_global(&pane->rows, i, column) ||
            hx_table_int(&pane->rows, i, "bytes", 0) < least)
            continue;
        hx_text_puts(ret, "\nno names of variables in ");
        hx_text_escape(ret, module, strlen(module), ascii);
        hx_text_puts(ret, ": Enter on one says where they are");
        return;
    }
}

static void roots_title(const struct hx_ui *ui, const struct hx_pane *pane, struct hx_text *ret)
{
    hx_text_puts(ret, "Roots: places outside the heap that hold pointers");
    if (pane->loaded) {
        hx_text_puts(ret, ": ");
        hx_text_count(ret, pane->total);
        hx_ui_put_nameless(pane, "name", 0, !ui->term.utf8, ret);
    }
}

static hx_error *open_root_row(struct hx_ui *ui, struct hx_pane *pane, size_t row)
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
    .source = roots_source,
    .head = roots_title,
    .empty = "No place outside the heap holds a pointer into it.",
    .open = open_root_row,
    .objects = open_root_row,
};
