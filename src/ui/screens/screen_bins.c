/* screen_bins.c - bytes by the exact set of named roots that reach them: an intersection matrix,
 * or, while no root is named, the roots that could be. */
#include "ui/analysis.h"
#include "ui/app.h"
#include "ui/data/difference.h"
#include "ui/list/pane.h"
#include "ui/picture/matrix.h"

#include <string.h>

static const struct hx_column columns[] = {
    {"bytes", NULL, HX_AS_BYTES, 8, 0, NULL, NULL},
    {"bytes", "", HX_AS_BAR, -8, 3, "most", NULL},
    {"bytes", "of heap", HX_AS_SHARE, 7, 2, "heap_bytes", NULL},
    {"bytes_delta", "change", HX_AS_CHANGE, 7, 3, NULL, NULL},
    {"objects", NULL, HX_AS_COUNT, 10, 1, NULL, NULL},
    {"roots", "reached by exactly", HX_AS_TEXT, -18, 4, NULL, NULL},
    {"only_pages", "own pages", HX_AS_COUNT, 9, 5, NULL, NULL},
    {"shared_pages", "shared", HX_AS_COUNT, 8, 6, NULL, NULL},
    {0},
};

/* While no root is named. */
static const struct hx_column unnamed_columns[] = {
    {"bytes", NULL, HX_AS_BYTES, 8, 0, NULL, NULL},
    {"bytes", "of heap", HX_AS_SHARE, 7, 4, "heap_bytes", NULL},
    {"objects", NULL, HX_AS_COUNT, 10, 3, NULL, NULL},
    {"offer", "", HX_AS_OWN, 15, 2, NULL, NULL},
    {"roots", "reached by", HX_AS_TEXT, -16, 0, NULL, NULL},
    {"retained_bytes", "retains", HX_AS_BYTES, 8, 1, NULL, NULL},
    {0},
};

static const struct hx_column differences[] = {
    HX_DIFFERENCE_COLUMNS,
    {"roots", "reached by exactly", HX_AS_TEXT, -16, 6, NULL, NULL},
    {0},
};

static void bins_source(const struct hx_pane *pane, int64_t snapshot, struct hx_source *ret)
{
    const struct hx_stored_census *census = hx_screen_census(pane->screen);
    struct hx_text more = {0};
    struct hx_query_args args = {.snapshot = snapshot, .other = pane->before};
    ret->like = census->view;
    hx_text_puts(&ret->written,
                 "snapshot, roots, bytes, objects, only_pages, shared_pages, bytes_delta");
    ret->written_without = "expr"; /* what could be named is no bin */
    hx_query_put(HX_QUERY_nameable, &args, &more);
    args.where = hx_text_str(&more);
    hx_query_expand(census->list, &args, &ret->sql);
    ret->sql.failed |= more.failed;
    hx_text_clear(&more);
    hx_query_put(HX_QUERY_named_root_bytes, &args, &more);
    args.where = hx_text_str(&more);
    hx_query_expand(census->facts, &args, &ret->facts);
    hx_text_putf(&ret->facts, " LIMIT %d", HX_FACTS_MAX);
    ret->facts.failed |= more.failed;
    hx_text_free(&more);
}

/* Is it a root that could be named? */
static bool is_offer(const struct hx_pane *pane, size_t row)
{
    return hx_table_at(&pane->rows, row, "expr")->type == HX_VALUE_TEXT;
}

static void lay_out_bins(const struct hx_ui *ui, struct hx_pane *pane, int width)
{
    bool named = hx_table_int(&pane->facts, 0, "names", 1) > 0;
    hx_matrix_lay_out(ui, pane,
                      pane->other ? differences
                      : named     ? columns
                                  : unnamed_columns,
                      width);
}

/* The dots, or what a root that has no name is there for. */
static void bins_cell(const struct hx_pane *pane, size_t row, bool ascii, struct hx_text *ret)
{
    if (pane->columns != unnamed_columns)
        hx_matrix_cell(pane, row, ascii, ret);
    else if (is_offer(pane, row))
        hx_text_puts(ret, "Enter names it:");
}

static void bins_title(const struct hx_ui *ui, const struct hx_pane *pane, struct hx_text *ret)
{
    const struct hx_table *facts = &pane->facts;
    int64_t names = hx_table_int(facts, 0, "names", 0);
    if (!pane->loaded || !facts->n_rows || (pane->screen->needs & ~pane->parts)) {
        hx_text_puts(ret, "Root bins");
    } else if (!names) {
        hx_text_puts(ret, "No root is named: Enter names one of these, :root NAME=EXPR others");
    } else {
        hx_text_puts(ret, "Root bins of ");
        hx_text_count(ret, names);
        hx_text_puts(ret, names == 1 ? " named root" : " named roots");
    }
    struct hx_text window = {0};
    hx_matrix_window(pane, &window);
    if (window.n)
        hx_text_putf(ret, ", %s shown", window.s);
    hx_text_free(&window);
    if (ui->revising)
        hx_text_puts(ret, "; being worked out");
    else if (names)
        hx_text_puts(ret, "; :root NAME=EXPR adds one, :unroot NAME removes");
}

static bool bin_row_set(const struct hx_pane *pane, size_t row, struct hx_of *ret)
{
    if (is_offer(pane, row))
        return false;
    *ret = (struct hx_of){HX_SUBSET_BIN, hx_table_text(&pane->rows, row, "roots"), NULL, 0};
    return true;
}

static hx_error *open_bin_row(struct hx_ui *ui, struct hx_pane *pane, size_t row)
{
    struct hx_of bin;
    if (bin_row_set(pane, row, &bin))
        return hx_ui_open_of(ui, &hx_screen_bin, &bin);
    return hx_ui_choose_root(ui, hx_table_text(&pane->rows, row, "expr"));
}

static const char *const key[] = {"rank", "roots", NULL};

const struct hx_screen hx_screen_bins = {
    .name = "bins",
    .about = "bytes by the named roots that reach them",
    .digit = 3,
    .needs = HX_ANALYSE_BINS,
    .lacks = "Root bins are",
    .columns = columns,
    .key = key,
    .sort = "bytes",
    .census = "bin",
    .differences = differences,
    .picture = &hx_matrix_picture,
    .lay_out = lay_out_bins,
    .cell = bins_cell,
    .source = bins_source,
    .head = bins_title,
    .empty = "There are no objects, and so no bins.",
    .open = open_bin_row,
    .of = bin_row_set,
};
