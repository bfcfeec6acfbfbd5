/* screen_dominators.c - the dominator tree as a disk-usage tool shows folders: what hangs directly
 * under the roots, and as the other view the largest objects of all levels. */
#include "ui/app.h"
#include "ui/list/pane.h"

static void dominators_title(const struct hx_ui *ui, const struct hx_pane *pane,
                             struct hx_text *ret)
{
    char size[HX_HUMAN];
    int64_t bytes = hx_table_int(&pane->facts, 0, "all_bytes", -1);
    (void)ui;
    hx_text_puts(ret, "Directly under the roots");
    if (bytes >= 0) {
        hx_text_putf(ret, ": %s in ", hx_human_bytes((uint64_t)bytes, size));
        hx_text_count(ret, hx_table_int(&pane->facts, 0, "all_objects", 0));
        hx_text_puts(ret, " objects, all that is reachable");
    }
    hx_text_puts(ret, "\nbar: by all references; sure refs: by sure ones (:analyse sure);"
                      " v: all levels");
}

hx_error *hx_ui_open_dominated(struct hx_ui *ui, struct hx_pane *pane, size_t row)
{
    uint64_t address = 0;
    bool object = hx_pane_object(pane, row, &address);
    /* It retains nothing but itself: what it points to is the next question. */
    if (object && hx_table_int(&pane->rows, row, "retained_objects", 0) <= 1)
        return hx_ui_open_object(ui, address);
    struct hx_pane *dominated;
    HX_TRY(hx_pane_create(ui, &hx_screen_dominated, &dominated));
    dominated->address = object ? address : pane->address; /* 0: under the roots */
    dominated->id = !object; /* the row of the rest: all of this level */
    return hx_ui_push(ui, dominated);
}

static const char *const key[] = {"rest", "address", NULL};

const struct hx_screen hx_screen_dominators = {
    .name = "dominators",
    .brief = "doms",
    .about = "what the roots hold, by what would be freed with it",
    .digit = 7,
    .needs = HX_ANALYSE_RETAINED,
    .lacks = "Dominators are",
    .columns = hx_dominated_columns,
    .key = key,
    .sort = "retained_bytes",
    .object = "address",
    .view = &hx_screen_largest,
    .source = hx_dominated_source,
    .head = dominators_title,
    .empty = "Nothing in the heap is reachable, so nothing retains.",
    .open = hx_ui_open_dominated,
    .objects = hx_ui_open_dominated,
};

/* --- the largest of all levels --- */

static const struct hx_column largest_columns[] = {
    {"address", NULL, HX_AS_HEX, 14, 0, NULL, NULL},
    {"retained_bytes", "retained", HX_AS_BYTES, 9, 0, NULL, NULL},
    {"retained_bytes", "", HX_AS_BAR, -8, 2, "heap_bytes", NULL},
    {"retained_bytes", "of heap", HX_AS_SHARE, 7, 4, "heap_bytes", NULL},
    {"sure_retained_bytes", "sure refs", HX_AS_BYTES, 9, 5, NULL, NULL},
    {"retained_objects", "objects", HX_AS_COUNT, 9, 3, NULL, NULL},
    {"bytes", "own", HX_AS_BYTES, 8, 6, NULL, NULL},
    {"type", NULL, HX_AS_TYPE, -12, 1, NULL, NULL},
    {0},
};

static void largest_source(const struct hx_pane *pane, int64_t snapshot, struct hx_source *ret)
{
    (void)pane;
    ret->like = "dominators";
    hx_query_put(HX_QUERY_dominators, HX_QUERY_ARGS(.snapshot = snapshot), &ret->sql);
    hx_query_put(HX_QUERY_dominators_facts, HX_QUERY_ARGS(.snapshot = snapshot), &ret->facts);
}

static void largest_head(const struct hx_ui *ui, const struct hx_pane *pane, struct hx_text *ret)
{
    (void)ui;
    (void)pane;
    hx_text_puts(ret, "The largest of all levels, some of them parts of others; v: merged by type");
}

static const char *const largest_key[] = {"address", NULL};

const struct hx_screen hx_screen_largest = {
    .name = "largest",
    .about = "the objects that retain most, of all levels",
    .digit = -1,
    .needs = HX_ANALYSE_RETAINED,
    .lacks = "Dominators are",
    .columns = largest_columns,
    .key = largest_key,
    .sort = "retained_bytes",
    .object = "address",
    .view = &hx_screen_tree,
    .source = largest_source,
    .head = largest_head,
    .empty = "Nothing in the heap is reachable, so nothing retains.",
    .open = hx_ui_open_dominated,
    .objects = hx_ui_open_dominated,
};
