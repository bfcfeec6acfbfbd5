/* screen_tree.c - the heap as a merged tree, level by level: of dominators, or of the chains of
 * holders; all of it, or what is below one root. */
#include "ui/app.h"
#include "ui/command/requests.h"
#include "ui/list/pane.h"

#include <stdlib.h>
#include <string.h>

enum { LEVELS = 3 };

struct tree {
    bool holders;
    int64_t levels; /* rows are at most so deep */
};

/* What a pane begins with. */
static const struct tree first = {.levels = LEVELS};

static const struct hx_column columns[] = {
    {"total", "with below", HX_AS_BYTES, 10, 0, NULL, NULL},
    {"total", "of heap", HX_AS_SHARE, 7, 2, "heap_bytes", NULL},
    {"total", "", HX_AS_BAR, 10, 3, "heap_bytes", NULL},
    {"bytes", "own", HX_AS_BYTES, 8, 1, NULL, NULL},
    {"label", "what", HX_AS_TYPE, -30, 0, NULL, NULL},
    {0},
};

static const struct tree *tree_of(const struct hx_pane *pane)
{
    return pane->data ? pane->data : &first;
}

static void tree_source(const struct hx_pane *pane, int64_t snapshot, struct hx_source *ret)
{
    const struct tree *tree = tree_of(pane);
    const struct hx_query_args args = {.snapshot = snapshot,
                                       .text = tree->holders ? "holder" : "dominator",
                                       .more = pane->text,
                                       .id = tree->levels};
    hx_query_put(HX_QUERY_merged_tree, &args, &ret->sql);
    hx_query_put(HX_QUERY_merged_tree_facts, &args, &ret->facts);
}

static void tree_title(const struct hx_ui *ui, const struct hx_pane *pane, struct hx_text *ret)
{
    const struct tree *tree = tree_of(pane);
    hx_text_puts(ret, tree->holders ? "Chains of holders" : "Dominators");
    if (pane->text) {
        hx_text_puts(ret, " below ");
        hx_pane_put_text(pane, !ui->term.utf8, ret);
    }
    hx_text_putf(ret, ", merged by type or shape: %d levels, + - *; :tree %s", (int)tree->levels,
                 tree->holders ? "dominators" : "holders");
}

static void tree_instead(const struct hx_ui *ui, const struct hx_pane *pane, struct hx_text *ret)
{
    (void)ui;
    if (pane->text && !tree_of(pane)->holders)
        hx_text_puts(ret, "It keeps nothing alone; :tree holders shows who holds what others reach,"
                          " too.");
}

/* --- levels ---------------------------------------------------------------------------------- */

/* NULL: there is no memory. */
static struct tree *own_tree(struct hx_pane *pane)
{
    if (!pane->data && (pane->data = malloc(sizeof first)))
        memcpy(pane->data, &first, sizeof first);
    pane->free_data = free;
    return pane->data;
}

hx_error *hx_ui_tree_levels(struct hx_ui *ui, struct hx_pane *pane, int more)
{
    struct tree *tree = own_tree(pane);
    HX_NEED(tree);
    int64_t deepest = hx_table_int(&pane->facts, 0, "deepest", LEVELS);
    int64_t levels = (tree->levels < deepest ? tree->levels : deepest) + more;
    levels = levels < 0 ? 0 : levels > deepest ? deepest : levels;
    if (levels == tree->levels)
        hx_ui_say(ui, "there are no %s levels", more > 0 ? "more" : "fewer");
    tree->levels = levels;
    hx_pane_reload(ui, pane);
    return NULL;
}

static hx_error *open_level(struct hx_ui *ui, struct hx_pane *pane, size_t row)
{
    (void)row;
    return hx_ui_tree_levels(ui, pane, 1);
}

/* --- of a row -------------------------------------------------------------------------------- */

/* The root or holder that a row names; NULL: it names none. */
static const char *name_of_row(const struct hx_pane *pane, size_t row, bool *ret_holders)
{
    const char *holder = hx_table_text(&pane->rows, row, "holder");
    *ret_holders = *holder != 0;
    if (*holder)
        return holder;
    if (pane->screen == &hx_screen_leaks)
        return "(unreachable)";
    if (pane->screen == &hx_screen_roots)
        return hx_table_text(&pane->rows, row, "name");
    if (pane->screen == &hx_screen_bins)
        return hx_table_text(&pane->rows, row, "roots");
    if (pane->screen == &hx_screen_retainers)
        return hx_table_text(&pane->rows, row, "label");
    return NULL;
}

hx_error *hx_do_tree(struct hx_ui *ui, const char *arg)
{
    struct hx_pane *pane = hx_ui_pane(ui);
    bool holders = strcmp(arg, "holders") == 0;
    const char *name = NULL;
    size_t row;
    if (*arg && !holders && strcmp(arg, "dominators") != 0)
        return hx_error_new(HX_E_USAGE, arg, "say holders or dominators", "is no tree");
    if (!*arg && hx_pane_row(pane, &row))
        name = name_of_row(pane, row, &holders);
    HX_TRY(hx_ui_open_text(ui, &hx_screen_tree, name, 0));
    struct tree *tree = own_tree(hx_ui_pane(ui));
    HX_NEED(tree);
    tree->holders = holders;
    return NULL;
}

static const char *const key[] = {"node", NULL};

const struct hx_screen hx_screen_tree = {
    .name = "tree",
    .about = "the heap in few rows: dominators or holders, merged by type",
    .digit = -1,
    .needs = HX_ANALYSE_RETAINED,
    .lacks = "Dominators are",
    .columns = columns,
    .key = key,
    .view = &hx_screen_dominators,
    .source = tree_source,
    .head = tree_title,
    .empty = "There is no such tree in this snapshot: :analyse may make it.",
    .instead = tree_instead,
    .open = open_level,
};
