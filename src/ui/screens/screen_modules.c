/* screen_modules.c - bytes by the module that allocated them. */
#include "ui/app.h"
#include "ui/data/difference.h"
#include "ui/list/pane.h"

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
    .census = "module",
    .differences = differences,
    .source = hx_census_source,
    .head = modules_title,
    .empty = HX_UI_NOT_RECORDED,
    .open = hx_ui_open_objects,
    .of = module_row_set,
};
