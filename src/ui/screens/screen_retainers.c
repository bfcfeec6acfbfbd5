/* screen_retainers.c - bytes by the set of who retains them: the flat list of all sets. */
#include "ui/app.h"
#include "ui/data/difference.h"
#include "ui/list/pane.h"

#include <string.h>

static const struct hx_column columns[] = {
    {"bytes", NULL, HX_AS_BYTES, 8, 0, NULL, NULL},
    {"bytes", "of heap", HX_AS_SHARE, 7, 4, "heap_bytes", NULL},
    {"bytes", "", HX_AS_BAR, 8, 5, "heap_bytes", NULL},
    {"objects", NULL, HX_AS_COUNT, 9, 2, NULL, NULL},
    {"bytes_delta", "change", HX_AS_CHANGE, 7, 1, NULL, NULL},
    {"members", NULL, HX_AS_COUNT, 7, 6, NULL, NULL},
    {"label", "retained by", HX_AS_NAMES, -34, 0, NULL, "brief"},
    {"only_pages", "own pages", HX_AS_COUNT, 9, 7, NULL, NULL},
    {"shared_pages", "shared", HX_AS_COUNT, 8, 8, NULL, NULL},
    {0},
};

static const struct hx_column differences[] = {
    HX_DIFFERENCE_COLUMNS,
    {"label", "retained by", HX_AS_NAMES, -24, 0, NULL, "brief"},
    {0},
};

static const char *const key[] = {"set_id", NULL};

static void retainers_title(const struct hx_ui *ui, const struct hx_pane *pane, struct hx_text *ret)
{
    const struct hx_table *facts = &pane->facts;
    hx_text_puts(ret, "Retainer sets");
    const char *scheme = hx_table_text(facts, 0, "scheme");
    if (!*scheme)
        return;
    hx_text_puts(ret, ", scheme ");
    hx_text_escape(ret, scheme, strlen(scheme), !ui->term.utf8);
    int64_t sets = hx_table_int(facts, 0, "sets", -1);
    if (sets >= 0) {
        hx_text_puts(ret, ": ");
        hx_text_count(ret, sets);
        hx_text_puts(ret, sets == 1 ? " set" : " sets");
    }
    const struct hx_cell *visits = hx_table_at(facts, 0, "visits_per_object");
    if (visits->type == HX_VALUE_REAL)
        hx_text_putf(ret, ", %.2f visits per object", visits->real);
    if (sets >= 0)
        hx_ui_put_no_holders(ui, ret);
}

static hx_error *open_retainer_set_row(struct hx_ui *ui, struct hx_pane *pane, size_t row)
{
    return hx_ui_open_of(ui, &hx_screen_set,
                         &(struct hx_of){HX_SUBSET_SET, hx_table_text(&pane->rows, row, "brief"),
                                         NULL, hx_table_int(&pane->rows, row, "set_id", -1)});
}

static bool retainer_set_row_set(const struct hx_pane *pane, size_t row, struct hx_of *ret)
{
    *ret = (struct hx_of){HX_SUBSET_SET, hx_table_text(&pane->rows, row, "brief"), NULL,
                          hx_table_int(&pane->rows, row, "set_id", -1)};
    return true;
}

const struct hx_screen hx_screen_retainers = {
    .name = "retainers",
    .brief = "sets",
    .about = "bytes by all who retain them",
    .digit = -1,
    .needs = HX_ANALYSE_RETAINERS,
    .lacks = "Retainer sets are",
    .columns = columns,
    .key = key,
    .sort = "bytes",
    .census = "retainer",
    .differences = differences,
    .view = &hx_screen_holders,
    .source = hx_census_source,
    .head = retainers_title,
    .empty = "There are no objects, and so no retainer sets.",
    .open = open_retainer_set_row,
    .of = retainer_set_row_set,
};
