/* stacktree.c - stacks of a store as a tree in memory. */
#include "export/paths/stacktree.h"

#include "base/cleanup.h"
#include "base/lower_bound.h"
#include "model/function_name.h"
#include "store/query.h"

#include <stdlib.h>
#include <string.h>

static const struct {
    const char *centres, *rows;
} statements[] = {
    [HX_TREE_CCS] = {"SELECT centre, label, module, source, is_caf FROM hx_centre ORDER BY centre",
                     "SELECT ccs_id, parent_id, centre FROM hx_ccs ORDER BY ccs_id"},
    [HX_TREE_FRAMES] = {"SELECT place, label, module, source, is_caf FROM hx_place ORDER BY place",
                        "SELECT frame_id, parent_id, place FROM hx_frame ORDER BY frame_id"},
};

hx_error *hx_export_damaged(const struct hx_export *export, const char *what)
{
    return hx_error_new(HX_E_CORRUPT, export->title, "take it from a backup or make it again",
                        "the store is damaged (%s)", what);
}

/* Keeps a text; *ret is its place, 0 when there is none. */
static bool keep_tree_text(struct hx_stacktree *tree, const char *s, size_t n, size_t *ret)
{
    *ret = 0;
    if (!s || !n)
        return true;
    if (!hx_vec_reserve(&tree->strings, tree->strings.n + n + 1))
        return false;
    *ret = tree->strings.n;
    memcpy(tree->strings.v + *ret, s, n);
    tree->strings.v[*ret + n] = 0;
    tree->strings.n += n + 1;
    return true;
}

static bool keep_value(struct hx_stacktree *tree, struct hx_value value, size_t *ret)
{
    bool text = value.type == HX_VALUE_TEXT;
    return keep_tree_text(tree, text ? value.text : NULL, text ? strlen(value.text) : 0, ret);
}

static hx_error *add_centre(const struct hx_export *export, hx_rows *rows,
                            struct hx_stacktree *tree)
{
    struct hx_value id = hx_rows_value(rows, 0), caf = hx_rows_value(rows, 4);
    struct hx_stack_centre centre = {.id = id.i, .is_caf = caf.type == HX_VALUE_INT && caf.i};
    if (id.type != HX_VALUE_INT || tree->centres.n >= HX_NO_STACK - 1)
        return hx_export_damaged(export, "cost centres");
    HX_NEED(keep_value(tree, hx_rows_value(rows, 1), &centre.label) &&
            keep_value(tree, hx_rows_value(rows, 2), &centre.module) &&
            keep_value(tree, hx_rows_value(rows, 3), &centre.source) &&
            hx_vec_push(&tree->centres, centre));
    return NULL;
}

static int compare_tree_centres(const void *left, const void *right)
{
    int64_t a = ((const struct hx_stack_centre *)left)->id;
    int64_t b = ((const struct hx_stack_centre *)right)->id;
    return (a > b) - (a < b);
}

static hx_error *add_stack_row(const struct hx_export *export, hx_rows *rows,
                               struct hx_stacktree *tree)
{
    struct hx_value id = hx_rows_value(rows, 0), up = hx_rows_value(rows, 1);
    struct hx_value centre = hx_rows_value(rows, 2);
    struct hx_stack_centre wanted = {.id = centre.i};
    struct hx_stack_centre *found = NULL;
    if (centre.type == HX_VALUE_INT && tree->centres.n)
        found =
            bsearch(&wanted, tree->centres.v, tree->centres.n, sizeof wanted, compare_tree_centres);
    struct hx_stack_row row = {.id = id.i, .parent = HX_NO_STACK};
    if (up.type == HX_VALUE_INT)
        row.parent = hx_stacktree_find(tree, up.i);
    if (id.type != HX_VALUE_INT || !found || tree->rows.n >= HX_NO_STACK - 1 ||
        (up.type != HX_VALUE_NULL && row.parent == HX_NO_STACK))
        return hx_export_damaged(export, "stacks");
    row.centre = (uint32_t)(found - tree->centres.v);
    return hx_vec_push(&tree->rows, row) ? NULL : hx_error_nomem();
}

typedef hx_error *add_fn(const struct hx_export *export, hx_rows *rows, struct hx_stacktree *tree);

static hx_error *load_stack_rows(const struct hx_export *export, const char *sql, add_fn *add,
                                 struct hx_stacktree *tree)
{
    hx_rows *rows = NULL;
    HX_TRY(hx_query_sql(export->store, sql, &rows));
    hx_error *err = NULL;
    for (bool more = true; !err && more;) {
        err = hx_rows_next(rows, &more);
        if (!err && more)
            err = add(export, rows, tree);
    }
    hx_rows_end(rows);
    return err;
}

hx_error *hx_stacktree_load(const struct hx_export *export, enum hx_stacktree_of of,
                            struct hx_stacktree *ret)
{
    HX_STACKTREE struct hx_stacktree tree = {0};
    HX_NEED(hx_vec_push(&tree.strings, 0)); /* place 0 is no text */
    HX_TRY(load_stack_rows(export, statements[of].centres, add_centre, &tree));
    HX_TRY(load_stack_rows(export, statements[of].rows, add_stack_row, &tree));
    *ret = tree;
    tree = (struct hx_stacktree){0};
    return NULL;
}

void hx_stacktree_deinit(struct hx_stacktree *tree)
{
    hx_vec_free(&tree->rows);
    hx_vec_free(&tree->centres);
    hx_vec_free(&tree->strings);
}

uint32_t hx_stacktree_find(const struct hx_stacktree *tree, int64_t id)
{
    size_t at = HX_FIND_ID(tree->rows.n, i, tree->rows.v[i].id, id);
    return at == SIZE_MAX ? HX_NO_STACK : (uint32_t)at;
}

const char *hx_stacktree_shown(struct hx_stacktree *tree, uint32_t index)
{
    struct hx_stack_centre *centre = &tree->centres.v[index];
    if (centre->shown)
        return tree->strings.v + centre->shown;
    const char *label = hx_stacktree_text(tree, centre->label);
    struct hx_text text = {0};
    if (centre->is_caf && centre->module)
        hx_text_putf(&text, "%s.", hx_stacktree_text(tree, centre->module));
    if (label[0])
        hx_function_name_short(&text, label);
    else
        hx_text_puts(&text, "(unknown)");
    bool kept = !text.failed && keep_tree_text(tree, text.s, text.n, &centre->shown);
    hx_text_free(&text);
    return kept ? tree->strings.v + centre->shown : NULL;
}
