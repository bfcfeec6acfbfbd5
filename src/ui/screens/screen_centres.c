/* screen_centres.c - the tree of cost-centre stacks: who allocated, by who called them. */
#include "ui/app.h"
#include "ui/list/pane.h"
#include "ui/list/tree.h"

#include <inttypes.h>

/* What is inherited includes all that is below; the rest is a node's own. */
static const struct hx_column columns[] = {
    {"inherited_live_bytes", "live", HX_AS_BYTES, 8, 0, NULL, NULL},
    {"live_bytes", "own live", HX_AS_BYTES, 9, 1, NULL, NULL},
    {"inherited_alloc_bytes", "alloc", HX_AS_BYTES, 8, 2, NULL, NULL},
    {"alloc_bytes", "own alloc", HX_AS_BYTES, 9, 5, NULL, NULL},
    {"inherited_live_objects", "objects", HX_AS_COUNT, 9, 3, NULL, NULL},
    {"entries", NULL, HX_AS_COUNT, 8, 6, NULL, NULL},
    {"retained_bytes", "own retain", HX_AS_BYTES, 10, 8, NULL, NULL},
    {"inherited_live_bytes", "", HX_AS_BAR, 5, 4, "whole", NULL},
    {"label", "cost centre", HX_AS_TREE, -33, 0, NULL, NULL},
    {"source", NULL, HX_AS_SOURCE, -18, 7, NULL, NULL},
    {0},
};

static void put_bytes(const struct hx_table *facts, const char *name, const char *before,
                      const char *after, struct hx_text *ret)
{
    char size[HX_HUMAN];
    int64_t bytes = hx_table_int(facts, 0, name, -1);
    if (bytes >= 0)
        hx_text_putf(ret, "%s%s%s", before, hx_human_bytes((uint64_t)bytes, size), after);
}

static void centres_title(const struct hx_ui *ui, const struct hx_pane *pane, struct hx_text *ret)
{
    (void)ui;
    char size[HX_HUMAN];
    const struct hx_table *facts = &pane->facts;
    int64_t sample = hx_table_int(facts, 0, "sample_bytes", 0);
    hx_text_puts(ret, "Cost centres");
    if (!pane->loaded || pane->problem || !facts->n_rows)
        return;
    put_bytes(facts, "live", ": ", " live", ret);
    put_bytes(facts, "alloc", ", ", " allocated so far", ret);
    if (sample > 0)
        hx_text_putf(ret, ", one in %s", hx_human_bytes((uint64_t)sample, size));
    if (pane->other)
        hx_text_putf(ret, "\ndifferences to snapshot %" PRId64 " (d shows the figures themselves)",
                     pane->other);
    if (hx_table_int(facts, 0, "upper_bounds", 0))
        hx_text_puts(ret, "\nevents were lost, frees among them: see :screen losses");
}

static hx_error *open_centre_tree_row(struct hx_ui *ui, struct hx_pane *pane, size_t row)
{
    int64_t id = hx_table_int(&pane->rows, row, "ccs_id", 0);
    if (!id)
        return hx_tree_unfold(ui, pane, row);
    return hx_ui_open_of(
        ui, &hx_screen_centre,
        &(struct hx_of){HX_SUBSET_CCS, hx_table_text(&pane->rows, row, "label"), NULL, id});
}

/* The flame with the cursor on the same node. */
static hx_error *show_view(struct hx_ui *ui, const struct hx_pane *pane)
{
    struct hx_tree_path path = {0};
    size_t row;
    hx_error *error = hx_pane_row(pane, &row) ? hx_tree_path_add(pane, row, &path) : NULL;
    if (!error)
        error = hx_tree_show(ui, &hx_screen_flame, &path);
    hx_vec_free(&path.id);
    return error;
}

/* A row for the rest of some children is no node. */
static bool centre_tree_row_set(const struct hx_pane *pane, size_t row, struct hx_of *ret)
{
    int64_t id = hx_table_int(&pane->rows, row, "ccs_id", 0);
    *ret = (struct hx_of){HX_SUBSET_BELOW, hx_table_text(&pane->rows, row, "label"), NULL, id};
    return id != 0;
}

static const char *const key[] = {"ccs_id", NULL};

const struct hx_screen hx_screen_centres = {
    .name = "centres",
    .brief = "ccs",
    .about = "the tree of cost centres: functions, by who called them",
    .digit = 4,
    .tree = true,
    .columns = columns,
    .key = key,
    .sort = "inherited_live_bytes",
    .differences = columns,
    .differences_sort = "inherited_live_bytes",
    .view = &hx_screen_flame,
    .show_view = show_view,
    .fill = hx_tree_fill,
    .head = centres_title,
    .empty = HX_UI_NOT_RECORDED,
    .open = open_centre_tree_row,
    .of = centre_tree_row_set,
};
