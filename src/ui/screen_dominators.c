/* screen_dominators.c - the objects whose end would give back most. */
#include "ui/app.h"

#include <inttypes.h>

static const struct hx_column columns[] = {
    {"address", NULL, HX_AS_HEX, 14, 0, NULL, NULL},
    {"bytes", NULL, HX_AS_BYTES, 8, 3, NULL, NULL},
    {"retained_bytes", "retained", HX_AS_BYTES, 9, 0, NULL, NULL},
    {"retained_bytes", "of heap", HX_AS_SHARE, 7, 4, "heap_bytes", NULL},
    {"retained_bytes", "", HX_AS_BAR, -8, 2, "heap_bytes", NULL},
    {"sure_retained_bytes", "surely", HX_AS_BYTES, 8, 5, NULL, NULL},
    {"retained_objects", "objects", HX_AS_COUNT, 9, 6, NULL, NULL},
    {"type", NULL, HX_AS_TEXT, -12, 1, NULL, NULL},
    {0},
};

static void source(const struct hx_pane *pane, int64_t snapshot, struct hx_source *ret)
{
    (void)pane;
    ret->view = "dominators";
    hx_text_putf(&ret->facts,
                 "SELECT (SELECT count(*) FROM dominators WHERE snapshot = %" PRId64 ") AS rows,"
                 " heap_bytes FROM snapshots WHERE snapshot = %" PRId64,
                 snapshot, snapshot);
}

static void head(const struct hx_ui *ui, const struct hx_pane *pane, struct hx_text *ret)
{
    (void)ui;
    hx_text_puts(ret, "Dominators: what would be freed with an object");
    if (hx_table_int(&pane->facts, 0, "rows", 0) >= 1000) /* the view has no more */
        hx_text_puts(ret, "; the largest 1,000");
}

hx_error *hx_ui_open_dominated(struct hx_ui *ui, struct hx_pane *pane, size_t row)
{
    uint64_t address;
    if (!hx_pane_object(pane, row, &address))
        return NULL;
    /* It retains nothing but itself: what it points to is the next question. */
    if (hx_table_int(&pane->rows, row, "retained_objects", 0) <= 1)
        return hx_ui_open_object(ui, address);
    struct hx_pane *dominated;
    HX_TRY(hx_pane_create(ui, &hx_screen_dominated, &dominated));
    dominated->address = address;
    return hx_ui_push(ui, dominated);
}

static const char *const key[] = {"address", NULL};

const struct hx_screen hx_screen_dominators = {
    .name = "dominators",
    .brief = "doms",
    .about = "objects by what would be freed with them",
    .digit = 7,
    .needs = HX_ANALYSE_RETAINED,
    .lacks = "Dominators are",
    .columns = columns,
    .key = key,
    .sort = "retained_bytes",
    .object = "address",
    .source = source,
    .head = head,
    .empty = "Nothing in the heap is reachable, so nothing retains.",
    .open = hx_ui_open_dominated,
    .objects = hx_ui_open_dominated,
};
