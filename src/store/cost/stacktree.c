/* stacktree.c - the stacks of a store as a tree in memory. */
#include "store/cost/stacktree.h"

#include "base/lower_bound.h"
#include "base/text.h"
#include "model/function_name.h"

#include <stdlib.h>
#include <string.h>

static const struct {
    enum hx_query_name centres, rows, weights[2];
} queries[] = {
    [HX_TREE_CCS] =
        {HX_QUERY_centres,
         HX_QUERY_ccs_tree,
         {[HX_WEIGHTS_LIVE] = HX_QUERY_ccs_live, [HX_WEIGHTS_ALLOCATED] = HX_QUERY_ccs_allocated}},
    [HX_TREE_FRAMES] = {HX_QUERY_places,
                        HX_QUERY_frame_tree,
                        {[HX_WEIGHTS_LIVE] = HX_QUERY_frame_live,
                         [HX_WEIGHTS_ALLOCATED] = HX_QUERY_frame_allocated}},
};

enum hx_query_name hx_stack_weights(enum hx_stacktree_of of, enum hx_stack_weights which)
{
    return queries[of].weights[which];
}

/* Keeps a text; *ret is its place, 0 when there is none. */
static bool keep_tree_text(struct hx_stacktree *tree, const char *s, size_t *ret)
{
    size_t n = s ? strlen(s) : 0;
    *ret = 0;
    if (!n)
        return true;
    if (!hx_vec_reserve(&tree->strings, tree->strings.n + n + 1))
        return false;
    *ret = tree->strings.n;
    memcpy(tree->strings.v + *ret, s, n + 1);
    tree->strings.n += n + 1;
    return true;
}

static bool keep_value(struct hx_stacktree *tree, struct hx_value value, size_t *ret)
{
    return keep_tree_text(tree, value.type == HX_VALUE_TEXT ? value.text : NULL, ret);
}

static void note_damage(struct hx_stacktree *tree, const char *what)
{
    if (!tree->damage)
        tree->damage = what;
}

static hx_error *check_room(size_t n)
{
    return n < HX_NO_STACK - 1
               ? NULL
               : hx_error_new(HX_E_LIMIT, "stacks", NULL, "there are too many to look at");
}

static hx_error *add_centre(void *context, hx_rows *rows)
{
    struct hx_stacktree *tree = context;
    struct hx_value id = hx_rows_value(rows, 0), caf = hx_rows_value(rows, 5);
    struct hx_stack_centre centre = {.id = id.i, .is_caf = caf.type == HX_VALUE_INT && caf.i};
    if (id.type != HX_VALUE_INT)
        note_damage(tree, "cost centres");
    HX_TRY(check_room(tree->centres.n));
    HX_NEED(keep_value(tree, hx_rows_value(rows, 1), &centre.label) &&
            keep_value(tree, hx_rows_value(rows, 2), &centre.module) &&
            keep_value(tree, hx_rows_value(rows, 3), &centre.source) &&
            keep_value(tree, hx_rows_value(rows, 4), &centre.symbol) &&
            hx_vec_push(&tree->centres, centre));
    return NULL;
}

static uint32_t find_tree_centre(const struct hx_stacktree *tree, struct hx_value id)
{
    size_t at = id.type != HX_VALUE_INT
                    ? SIZE_MAX
                    : HX_FIND_ID(tree->centres.n, i, tree->centres.v[i].id, id.i);
    return at == SIZE_MAX ? HX_NO_STACK : (uint32_t)at;
}

static hx_error *add_stack_row(void *context, hx_rows *rows)
{
    struct hx_stacktree *tree = context;
    struct hx_value id = hx_rows_value(rows, 0), up = hx_rows_value(rows, 1);
    struct hx_stack_row row = {.id = id.i,
                               .parent = HX_NO_STACK,
                               .centre = find_tree_centre(tree, hx_rows_value(rows, 2))};
    if (up.type == HX_VALUE_INT)
        row.parent = hx_stacktree_find(tree, up.i);
    if (id.type != HX_VALUE_INT || row.centre == HX_NO_STACK ||
        (up.type != HX_VALUE_NULL && row.parent == HX_NO_STACK))
        note_damage(tree, "stacks");
    HX_TRY(check_room(tree->rows.n));
    return hx_vec_push(&tree->rows, row) ? NULL : hx_error_nomem();
}

hx_error *hx_stacktree_load(hx_store *store, enum hx_stacktree_of of, struct hx_stacktree *ret)
{
    HX_STACKTREE struct hx_stacktree tree = {0};
    HX_NEED(hx_vec_push(&tree.strings, 0)); /* place 0 is no text */
    HX_TRY(hx_query_each(store, queries[of].centres, HX_QUERY_ARGS(), add_centre, &tree));
    HX_TRY(hx_query_each(store, queries[of].rows, HX_QUERY_ARGS(), add_stack_row, &tree));
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
    bool kept = !text.failed && keep_tree_text(tree, text.s, &centre->shown);
    hx_text_free(&text);
    return kept ? tree->strings.v + centre->shown : NULL;
}
