/* screen_leaks.c - lost and possibly lost objects by kind. */
#include "ui/app.h"
#include "ui/data/difference.h"
#include "ui/list/pane.h"

#include <string.h>

static const struct hx_column columns[] = {
    {"kind", NULL, HX_AS_TEXT, 9, 0, NULL, NULL},
    {"type", NULL, HX_AS_TYPE, -12, 1, NULL, NULL},
    {"bytes", NULL, HX_AS_BYTES, 8, 0, NULL, NULL},
    {"bytes", "of heap", HX_AS_SHARE, 7, 5, "heap_bytes", NULL},
    {"objects", NULL, HX_AS_COUNT, 10, 3, NULL, NULL},
    {"bytes_delta", "change", HX_AS_CHANGE, 7, 2, NULL, NULL},
    {"bytes", "", HX_AS_BAR, 10, 6, "heap_bytes", NULL},
    {"about", "", HX_AS_CALLS, -26, 4, NULL, NULL},
    {0},
};

static const struct hx_column differences[] = {
    HX_DIFFERENCE_COLUMNS,
    {"kind", NULL, HX_AS_TEXT, 8, 0, NULL, NULL},
    {"type", NULL, HX_AS_TYPE, -8, 1, NULL, NULL},
    {"about", "", HX_AS_CALLS, -12, 6, NULL, NULL},
    {0},
};

static const char *const key[] = {"kind", "type", "site", NULL};
static void leaks_title(const struct hx_ui *ui, const struct hx_pane *pane, struct hx_text *ret)
{
    (void)ui;
    char size[HX_HUMAN];
    int64_t bytes = hx_table_int(&pane->facts, 0, "leaked_bytes", -1);
    int64_t heap = hx_table_int(&pane->facts, 0, "heap_bytes", 0);
    hx_text_puts(ret, hx_table_int(&pane->facts, 0, "sites", 0) ? "Leaks by kind, type and site"
                                                                : "Leaks by kind and type");
    if (bytes >= 0) {
        hx_text_putf(ret, ": %s in ", hx_human_bytes((uint64_t)bytes, size));
        hx_text_count(ret, hx_table_int(&pane->facts, 0, "leaked_objects", 0));
        hx_text_puts(ret, " objects lost");
        if (heap > 0)
            hx_text_putf(ret, ", %.1f%% of the heap", 100.0 * (double)bytes / (double)heap);
    }
}

static bool leak_row_set(const struct hx_pane *pane, size_t row, struct hx_of *ret)
{
    bool typed = hx_table_at(&pane->rows, row, "type")->type == HX_VALUE_TEXT;
    *ret = (struct hx_of){HX_SUBSET_LEAK, hx_table_text(&pane->rows, row, "kind"),
                          typed ? hx_table_text(&pane->rows, row, "type") : NULL,
                          hx_table_int(&pane->rows, row, "stack_id", 0)};
    return true;
}

const struct hx_screen hx_screen_leaks = {
    .name = "leaks",
    .about = "lost objects by kind",
    .digit = 6,
    .columns = columns,
    .key = key,
    .sort = "bytes",
    .census = "leak",
    .differences = differences,
    .source = hx_census_source,
    .head = leaks_title,
    .empty = "Nothing is lost among the objects that were found; i tells what was not.",
    .open = hx_ui_open_objects,
    .of = leak_row_set,
};
