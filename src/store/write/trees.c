/* trees.c - from dominators and from chains of holders to rows with names. */
#include "store/write/trees.h"

#include "base/cleanup.h"
#include "base/timing.h"
#include "store/db.h"
#include "store/objects/sizes.h"
#include "store/write/alike.h"
#include "traverse/dominate/alone.h"
#include "traverse/dominate/merged_tree.h"
#include "traverse/hold/chains.h"
#include "traverse/retain/scheme.h"

#include <stdlib.h>

#define ROWS 1000 /* of a tree, as many as there are of the largest dominators */

struct tree {
    struct hx_writer *w;
    const char *kind;     /* of the rows */
    const uint32_t *top;  /* of each object that has no parent */
    HX_VEC(char *) label; /* of what stands at the top */
    const struct hx_dominators *dominators;
    uint32_t several, unreachable; /* of dominators */
    struct hx_merged_tree merged;
    struct hx_big top_mem, parent_mem, order_mem;
};

static hx_error *add_label(struct tree *tree, const char *label)
{
    char *copy = strdup(label);
    HX_NEED(copy);
    if (hx_vec_push(&tree->label, copy))
        return NULL;
    free(copy);
    return hx_error_nomem();
}

static void deinit_tree(struct tree *tree)
{
    for (size_t i = 0; i < tree->label.n; i++)
        free(tree->label.v[i]);
    hx_vec_free(&tree->label);
    hx_merged_tree_deinit(&tree->merged);
    hx_big_free(&tree->top_mem);
    hx_big_free(&tree->parent_mem);
    hx_big_free(&tree->order_mem);
}

/* --- kinds ------------------------------------------------------------------------------ */

/* A type, else a shape, else a size class. */
static uint32_t kind_of(const void *context, hx_obj object)
{
    const struct hx_writer *w = ((const struct tree *)context)->w;
    uint32_t kind = hx_writer_type(w, object), types = (uint32_t)w->snapshot->types.n;
    if (kind)
        return kind - 1;
    kind = hx_writer_shape(w, object);
    return kind ? types + kind - 1
                : types + (uint32_t)w->snapshot->shapes.n +
                      hx_block_size_class(w->graph->size[object]);
}

static void put_kind(const struct hx_writer *w, uint32_t kind, struct hx_text *label)
{
    const struct hx_snapshot *snapshot = w->snapshot;
    char name[HX_SIZE_NAME];
    if (kind < snapshot->types.n) {
        hx_text_puts(label, snapshot->types.v[kind].name);
        return;
    }
    kind -= (uint32_t)snapshot->types.n;
    if (kind < snapshot->shapes.n)
        hx_text_puts(label, snapshot->shapes.v[kind].label);
    else
        hx_text_putf(label, "%s bytes",
                     hx_block_size_name(kind - (uint32_t)snapshot->shapes.n, name));
}

/* --- rows ------------------------------------------------------------------------------- */

/* What is lost is retained by nobody. */
static hx_error *write_row(const struct tree *tree, size_t number, bool retained,
                           struct hx_text *label)
{
    struct hx_writer *w = tree->w;
    const struct hx_merged_row *row = &tree->merged.row[number];
    bool at_top = row->parent == HX_MERGED_NO_PARENT;
    hx_text_clear(label);
    if (row->name == HX_MERGED_OTHERS)
        hx_text_puts(label, "(others)");
    else if (at_top)
        hx_text_puts(label, tree->label.v[row->name]);
    else
        put_kind(w, row->name, label);
    HX_NEED(!label->failed);
    return hx_write(w, tree, .kind = hx_str(tree->kind), .node = hx_int(number + 1),
                    .parent = hx_int_if(!at_top, row->parent + 1), .depth = hx_int(row->depth),
                    .label = {hx_text_str(label), label->n}, .bytes = hx_int(row->bytes),
                    .objects = hx_int(row->objects),
                    .retained_bytes = hx_int_if(retained, row->total_bytes));
}

static hx_error *write_rows(const struct tree *tree)
{
    HX_CLEANUP(hx_text_free) struct hx_text label = {0};
    uint64_t bytes = 0, objects = 0;
    bool retained = tree->dominators != NULL;
    for (size_t i = 0; i < tree->merged.n; i++) {
        const struct hx_merged_row *row = &tree->merged.row[i];
        bytes += row->bytes;
        objects += row->objects;
        if (tree->dominators && row->depth == 0)
            retained = row->name != tree->unreachable;
        HX_TRY(write_row(tree, i, retained, &label));
    }
    HX_TRY(hx_analyse_is_heap(tree->w, bytes, objects, "rows of the merged tree"));
    return hx_alike_share(tree->w, tree->dominators ? HX_ALIKE_TREE : HX_ALIKE_HOLDER_TREE);
}

static hx_error *merge(struct tree *tree, const hx_obj *parent, const uint32_t *order,
                       uint32_t (*top)(const void *context, hx_obj object))
{
    struct hx_writer *w = tree->w;
    struct hx_merge what = {
        .n = w->graph->n,
        .parent = parent,
        .order = order,
        .size = w->graph->size,
        .n_tops = (uint32_t)tree->label.n,
        .top = top,
        .kind = kind_of,
        .context = tree,
        .max_rows = ROWS,
    };
    uint64_t begun = hx_timing_begin();
    HX_TRY(hx_writer_leave(w));
    HX_TRY(hx_writer_enter(w, hx_merged_tree_make(&what, w->progress, &tree->merged)));
    hx_timing_end(begun, "tree", tree->merged.n);
    return write_rows(tree);
}

/* --- dominators ------------------------------------------------------------------------- */

static uint32_t dominators_top(const void *context, hx_obj object)
{
    const struct tree *tree = context;
    if (!hx_dominators_has(tree->dominators, object))
        return tree->unreachable;
    return tree->top[object] < tree->several ? tree->top[object] : tree->several;
}

static hx_error *find_alone(struct tree *tree)
{
    struct hx_writer *w = tree->w;
    uint64_t begun = hx_timing_begin();
    HX_TRY(hx_writer_leave(w));
    HX_TRY(
        hx_writer_enter(w, hx_alone_find(w->snapshot, w->roots.rule.of_root,
                                         tree->dominators->follows, w->progress, &tree->top_mem)));
    hx_timing_end(begun, "alone", w->graph->n);
    return NULL;
}

static hx_error *merge_dominators(struct tree *tree, const struct hx_analysis *analysis)
{
    struct hx_writer *w = tree->w;
    HX_TRY(hx_alike_forget(w, HX_ALIKE_TREE));
    HX_TRY(hx_analyse_roots(w, analysis));
    for (size_t i = 0; i < w->roots.n_identities; i++)
        HX_TRY(add_label(tree, w->roots.identity[i].label));
    tree->several = (uint32_t)tree->label.n;
    tree->unreachable = tree->several + 1;
    HX_TRY(add_label(tree, "(several)"));
    HX_TRY(add_label(tree, "(unreachable)"));
    if (!tree->top_mem.base)
        HX_TRY(find_alone(tree));
    tree->top = tree->top_mem.base;
    return merge(tree, tree->dominators->parent, tree->dominators->order, dominators_top);
}

hx_error *hx_trees_dominators(struct hx_writer *w, const struct hx_analysis *analysis,
                              const struct hx_dominators *dominators, struct hx_big *alone)
{
    struct tree tree = {.w = w, .kind = "dominator", .dominators = dominators, .top_mem = *alone};
    *alone = (struct hx_big){0};
    hx_error *err = merge_dominators(&tree, analysis);
    deinit_tree(&tree);
    return err;
}

/* --- holders ---------------------------------------------------------------------------- */

static uint32_t holders_top(const void *context, hx_obj object)
{
    return ((const struct tree *)context)->top[object];
}

/* Rows of hx_holding have numbers without gaps. */
static hx_error *read_labels(struct tree *tree)
{
    struct hx_writer *w = tree->w;
    HX_STATEMENT sqlite3_stmt *st = NULL;
    HX_TRY(hx_db_prepare(w->db, w->what,
                         "SELECT name FROM hx_holding WHERE snapshot = ? ORDER BY holder", &st));
    sqlite3_bind_int64(st, 1, w->id);
    int code;
    while ((code = sqlite3_step(st)) == SQLITE_ROW) {
        const char *name = (const char *)sqlite3_column_text(st, 0);
        HX_TRY(add_label(tree, name ? name : ""));
    }
    return code == SQLITE_DONE ? NULL : hx_db_error(w->db, code, w->what);
}

static hx_error *read_holders(struct tree *tree, uint32_t *holder)
{
    struct hx_writer *w = tree->w;
    for (size_t b = 0; b < w->objects.n; b++) {
        const struct hx_object_block *block = &w->objects.v[b];
        HX_TRY(hx_analyse_read_back(w, block, HX_COL_HOLDER));
        for (uint64_t i = block->from; i < block->to; i++) {
            uint64_t number = w->value[i - block->from];
            if (!number || number > tree->label.n)
                return hx_error_new(HX_E_FAIL, w->what, "report it: this is a mistake in heapx",
                                    "an object has a holder that is none");
            holder[i] = (uint32_t)number - 1;
        }
        if (hx_progress_cancelled(w->progress))
            return hx_error_cancelled(w->what);
    }
    tree->top = holder;
    return NULL;
}

/* The number of each root's holder. */
static hx_error *find_holders_of_roots(const struct hx_writer *w, uint32_t **ret)
{
    const hx_retainer *of_root = w->roots.rule.of_root;
    size_t n = w->snapshot->roots.n;
    uint32_t *number = malloc((n + 1) * sizeof *number);
    HX_NEED(number);
    for (size_t i = 0; i < n; i++) {
        bool known = of_root && of_root[i] < w->n_holding && w->holding[of_root[i]] >= 0;
        number[i] = known ? (uint32_t)w->holding[of_root[i]] : HX_CHAINS_NOBODY;
    }
    *ret = number;
    return NULL;
}

static hx_error *merge_holders(struct tree *tree)
{
    struct hx_writer *w = tree->w;
    HX_FREE uint32_t *of_root = NULL;
    HX_TRY(hx_trees_forget_holders(w));
    HX_TRY(read_labels(tree));
    HX_TRY(hx_big_reserve(&tree->top_mem, (size_t)w->graph->n * sizeof *tree->top));
    HX_TRY(read_holders(tree, tree->top_mem.base));
    HX_TRY(find_holders_of_roots(w, &of_root));
    uint64_t begun = hx_timing_begin();
    HX_TRY(hx_writer_leave(w));
    HX_TRY(hx_writer_enter(w, hx_chains_find(w->snapshot, tree->top, of_root, w->progress,
                                             &tree->parent_mem, &tree->order_mem)));
    hx_timing_end(begun, "chains", w->graph->n);
    return merge(tree, tree->parent_mem.base, tree->order_mem.base, holders_top);
}

hx_error *hx_trees_holders(struct hx_writer *w)
{
    struct tree tree = {.w = w, .kind = "holder"};
    hx_error *err = merge_holders(&tree);
    deinit_tree(&tree);
    return err;
}

hx_error *hx_trees_forget_holders(struct hx_writer *w)
{
    return hx_alike_forget(w, HX_ALIKE_HOLDER_TREE);
}
