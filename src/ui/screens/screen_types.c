/* screen_types.c - bytes by the type of the object. */
#include "ui/app.h"
#include "ui/command/requests.h"
#include "ui/data/difference.h"
#include "ui/list/pane.h"

#include <string.h>

/* Of a heap of which less than that is known something else tells more. */
#define KNOWN_PART 20

static const struct hx_column columns[] = {
    {"type", NULL, HX_AS_TYPE, -32, 0, NULL, NULL},
    {"confidence", NULL, HX_AS_TEXT, 10, 4, NULL, NULL},
    {"source", "told by", HX_AS_TEXT, 8, 7, NULL, NULL},
    {"bytes", NULL, HX_AS_BYTES, 8, 0, NULL, NULL},
    {"bytes", "of heap", HX_AS_SHARE, 7, 3, "heap_bytes", NULL},
    {"bytes_delta", "change", HX_AS_CHANGE, 7, 2, NULL, NULL},
    {"objects", NULL, HX_AS_COUNT, 10, 2, NULL, NULL},
    {"retained_bytes", "retained", HX_AS_BYTES, 9, 1, NULL, NULL},
    {"only_pages", "own pages", HX_AS_COUNT, 9, 5, NULL, NULL},
    {"shared_pages", "shared", HX_AS_COUNT, 8, 6, NULL, NULL},
    {0},
};

static const struct hx_column differences[] = {
    HX_DIFFERENCE_COLUMNS,
    {"type", NULL, HX_AS_TYPE, -24, 0, NULL, NULL},
    {0},
};

static void types_title(const struct hx_ui *ui, const struct hx_pane *pane, struct hx_text *ret)
{
    int64_t heap = hx_table_int(&pane->facts, 0, "heap_bytes", 0);
    int64_t typed = hx_table_int(&pane->facts, 0, "typed", 0);
    hx_text_puts(ret, "Types");
    if (pane->total && heap > 0)
        hx_text_putf(ret, ": known for %.1f%% of the heap", 100.0 * (double)typed / (double)heap);
    if (pane->total && heap > 0 && typed < heap / KNOWN_PART) {
        bool recorded = hx_table_int(&ui->snapshots, hx_ui_snapshot_row(ui), "recorded", 0);
        if (hx_table_int(&pane->facts, 0, "shapes", 0))
            hx_text_putf(ret, "\ntypes are of C++ classes; Enter: shapes of the rest; %s: by whom",
                         recorded ? "screen 4" : "heapx record");
        else
            hx_text_putf(ret, "\ntypes are those of C++ classes; %s tells who allocated the rest",
                         recorded ? "screen 4" : "heapx record");
    }
}

static bool type_row_set(const struct hx_pane *pane, size_t row, struct hx_of *ret)
{
    bool known = hx_table_at(&pane->rows, row, "confidence")->type == HX_VALUE_TEXT;
    *ret = (struct hx_of){HX_SUBSET_TYPE, known ? hx_table_text(&pane->rows, row, "type") : NULL,
                          NULL, 0};
    return true;
}

/* What has no type is told by shape, where shapes are known. */
static hx_error *open_type(struct hx_ui *ui, struct hx_pane *pane, size_t row)
{
    const bool known = hx_table_at(&pane->rows, row, "confidence")->type == HX_VALUE_TEXT;
    if (known || hx_table_int(&pane->facts, 0, "shapes", 0) == 0)
        return hx_ui_open_objects(ui, pane, row);
    return hx_do_histogram(ui, "shape");
}

static const char *const key[] = {"type", "confidence", NULL};

const struct hx_screen hx_screen_types = {
    .name = "types",
    .about = "bytes by type of the object",
    .digit = 5,
    .needs = HX_ANALYSE_TYPES,
    .lacks = "Sums by type are",
    .columns = columns,
    .key = key,
    .sort = "bytes",
    .census = "type",
    .differences = differences,
    .source = hx_census_source,
    .head = types_title,
    .empty = "There are no objects, and so no types.",
    .open = open_type,
    .of = type_row_set,
};
