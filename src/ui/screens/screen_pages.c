/* screen_pages.c - resident pages by what lies on them alone: what would go back to the system
 * with a retainer set, a bin, a type or what one cost centre allocated. */
#include "ui/app.h"
#include "ui/list/pane.h"

#include <string.h>

static const struct hx_column columns[] = {
    {"census", NULL, HX_AS_TEXT, 9, 1, NULL, NULL},
    {"label", "all that is of", HX_AS_NAMES, -24, 0, NULL, NULL},
    {"only_pages", "own pages", HX_AS_COUNT, 10, 0, NULL, NULL},
    {"shared_pages", "shared", HX_AS_COUNT, 10, 2, NULL, NULL},
    {0},
};

/* `key` is that of the view, `label` the same for people, `id` the number of the set, bin, type or
 * cost centre; `known` tells a type from the objects without one. */
static void pages_source(const struct hx_pane *pane, int64_t snapshot, struct hx_source *ret)
{
    (void)pane;
    ret->like = "pages";
    hx_query_put(HX_QUERY_page_list, HX_QUERY_ARGS(.snapshot = snapshot), &ret->sql);
    hx_query_put(HX_QUERY_count, HX_QUERY_ARGS(.view = "pages", .snapshot = snapshot), &ret->facts);
}

static void pages_title(const struct hx_ui *ui, const struct hx_pane *pane, struct hx_text *ret)
{
    (void)ui;
    (void)pane;
    hx_text_puts(ret, "Resident pages that hold nothing else, by set, bin, type and site");
}

static bool page_row_set(const struct hx_pane *pane, size_t row, struct hx_of *ret)
{
    const char *census = hx_table_text(&pane->rows, row, "census");
    const char *label = hx_table_text(&pane->rows, row, "label");
    bool known = hx_table_int(&pane->rows, row, "known", 0);
    if (strcmp(census, "retainer") == 0)
        *ret = (struct hx_of){HX_SUBSET_SET, label, NULL, hx_table_int(&pane->rows, row, "id", -1)};
    else if (strcmp(census, "site") == 0)
        *ret = (struct hx_of){HX_SUBSET_CCS, label, NULL, hx_table_int(&pane->rows, row, "id", -1)};
    else if (strcmp(census, "bin") == 0)
        *ret = (struct hx_of){HX_SUBSET_BIN, label, NULL, 0};
    else
        *ret = (struct hx_of){HX_SUBSET_TYPE, known ? label : NULL, NULL, 0};
    return true;
}

static hx_error *open_page_row(struct hx_ui *ui, struct hx_pane *pane, size_t row)
{
    struct hx_of what;
    page_row_set(pane, row, &what);
    return hx_ui_open_of(ui,
                         what.subset == HX_SUBSET_SET   ? &hx_screen_set
                         : what.subset == HX_SUBSET_BIN ? &hx_screen_bin
                                                        : &hx_screen_objects,
                         &what);
}

static const char *const key[] = {"census", "id", NULL};

const struct hx_screen hx_screen_pages = {
    .name = "pages",
    .about = "resident pages by what alone is on them",
    .digit = -1,
    .needs = HX_ANALYSE_ALL,
    .lacks = "Pages are",
    .columns = columns,
    .key = key,
    .sort = "only_pages",
    .source = pages_source,
    .head = pages_title,
    .empty = "Which pages are resident is not recorded in this snapshot.",
    .open = open_page_row,
    .of = page_row_set,
};
