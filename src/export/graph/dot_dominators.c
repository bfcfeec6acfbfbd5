/* dot_dominators.c - what an object, or all roots, alone keep alive: the largest nodes of the tree
 * of dominators, and for each of them what the rest below it is. */
#include "export/graph/dot.h"

#include "base/cleanup.h"
#include "base/vec.h"
#include "store/query/named.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* A drawing with more is not legible. Of a long list, where each object keeps the next one alive,
 * only the beginning is drawn, so that there is room for what lies beside it. */
enum { NODES = 80, DEPTH = 12 };

#define TOP ((size_t)-1) /* a parent that is the roots */

struct node {
    uint64_t address;
    int64_t bytes, retained, objects;
    int64_t rest_bytes, rest_objects; /* below it, and in no node of its own */
    size_t parent;                    /* a node before it; TOP */
    unsigned depth;                   /* nodes above it */
    char *type;                       /* NULL: not known */
    bool shown;                       /* chosen, not only offered */
};

struct tree {
    const struct hx_export *export;
    HX_VEC(struct node) nodes;
    int64_t rest_bytes, rest_objects; /* of the roots */
    size_t shown;
};

static void deinit_tree(struct tree *tree)
{
    for (size_t i = 0; i < tree->nodes.n; i++)
        free(tree->nodes.v[i].type);
    hx_vec_free(&tree->nodes);
}

/* --- the largest ---------------------------------------------------------------------- */

/* Whose children are offered. */
struct offer {
    struct tree *tree;
    size_t parent;
};

static hx_error *add_dominator_node(void *context, hx_rows *rows)
{
    const struct offer *offer = context;
    struct tree *tree = offer->tree;
    size_t parent = offer->parent;
    struct hx_value type = hx_rows_value(rows, 1);
    struct node node = {
        .address = (uint64_t)hx_rows_value(rows, 0).i,
        .bytes = hx_rows_value(rows, 2).i,
        .retained = hx_rows_value(rows, 3).i,
        .objects = hx_rows_value(rows, 4).i,
        .parent = parent,
        .depth = parent == TOP ? 0 : tree->nodes.v[parent].depth + 1,
    };
    node.rest_bytes = node.retained - node.bytes;
    node.rest_objects = node.objects - 1;
    if (node.bytes < 0 || node.retained < node.bytes || node.objects < 1)
        return hx_error_new(HX_E_CORRUPT, tree->export->title, NULL,
                            "0x%" PRIx64 " retains less than itself", node.address);
    if (type.type == HX_VALUE_TEXT)
        HX_NEED(node.type = strdup(type.text));
    if (hx_vec_push(&tree->nodes, node))
        return NULL;
    free(node.type);
    return hx_error_nomem();
}

/* Offers the largest children of a node, or (0) what the roots keep, or an object alone. */
static hx_error *offer_children(struct tree *tree, enum hx_query_name query, uint64_t address,
                                size_t parent)
{
    struct offer offer = {tree, parent};
    return hx_query_each(
        tree->export->store, query,
        HX_QUERY_ARGS(.snapshot = tree->export->snapshot, .address = address, .limit = NODES),
        add_dominator_node, &offer);
}

/* The largest one that is only offered; TOP: none. */
static size_t largest(const struct tree *tree)
{
    size_t best = TOP;
    for (size_t i = 0; i < tree->nodes.n; i++) {
        const struct node *node = &tree->nodes.v[i];
        if (!node->shown && (best == TOP || node->retained > tree->nodes.v[best].retained))
            best = i;
    }
    return best;
}

/* Takes one into the drawing, and its share from the rest of its parent. */
static hx_error *show_dominator_node(struct tree *tree, size_t i)
{
    struct node *node = &tree->nodes.v[i];
    bool top = node->parent == TOP;
    int64_t *bytes = top ? &tree->rest_bytes : &tree->nodes.v[node->parent].rest_bytes;
    int64_t *objects = top ? &tree->rest_objects : &tree->nodes.v[node->parent].rest_objects;
    node->shown = true;
    tree->shown++;
    *bytes -= node->retained;
    *objects -= node->objects;
    if (*bytes < 0 || *objects < 0)
        return hx_error_new(HX_E_CORRUPT, tree->export->title, NULL,
                            "0x%" PRIx64 " retains more than what keeps it alive", node->address);
    return node->rest_objects && node->depth + 1 < DEPTH
               ? offer_children(tree, HX_QUERY_largest_dominated, node->address, i)
               : NULL;
}

static hx_error *take_reachable(void *context, hx_rows *rows)
{
    struct tree *tree = context;
    tree->rest_bytes = hx_rows_value(rows, 0).i;
    tree->rest_objects = hx_rows_value(rows, 1).i;
    return NULL;
}

/* What the roots keep alive, in all. */
static hx_error *measure_top(struct tree *tree)
{
    hx_error *err =
        hx_query_each(tree->export->store, HX_QUERY_reachable_sums,
                      HX_QUERY_ARGS(.snapshot = tree->export->snapshot), take_reachable, tree);
    if (!err && (tree->rest_bytes < 0 || tree->rest_objects < 0))
        err = hx_error_new(HX_E_CORRUPT, tree->export->title, NULL,
                           "snapshot %" PRId64 " has sizes that cannot be", tree->export->snapshot);
    return err;
}

static hx_error *grow_dominator_tree(struct tree *tree)
{
    uint64_t address;
    if (tree->export->has_object) {
        HX_TRY(hx_dot_object(tree->export, &address));
        HX_TRY(offer_children(tree, HX_QUERY_object_retained, address, TOP));
        tree->rest_bytes = INT64_MAX; /* not drawn */
        tree->rest_objects = INT64_MAX;
    } else {
        HX_TRY(measure_top(tree));
        HX_TRY(offer_children(tree, HX_QUERY_largest_dominated, 0, TOP));
    }
    if (!tree->nodes.n)
        return hx_error_new(HX_E_ABSENT, tree->export->title, "see: heapx report FILE dominators",
                            tree->export->has_object ? "nothing keeps this object alive: it"
                                                       " retains nothing"
                                                     : "knows no dominators of snapshot %" PRId64,
                            tree->export->snapshot);
    for (size_t next; tree->shown < NODES && (next = largest(tree)) != TOP;) {
        hx_progress_at(tree->export->progress, "dominators", tree->shown, NODES);
        if (hx_progress_cancelled(tree->export->progress))
            return hx_error_cancelled(tree->export->title);
        HX_TRY(show_dominator_node(tree, next));
    }
    return NULL;
}

/* --- drawing ---------------------------------------------------------------------------- */

/* Edges are as thick as what hangs on them. */
static void draw_edge(struct hx_sink *sink, const char *from, const char *to, int64_t bytes,
                      int64_t whole)
{
    double part = whole > 0 ? (double)bytes / (double)whole : 0;
    hx_sink_putf(sink, "  \"%s\" -> \"%s\" [penwidth=%.1f];\n", from, to, 0.6 + 4 * sqrt(part));
}

static void put_id(const struct tree *tree, size_t i, char id[32])
{
    if (i == TOP)
        snprintf(id, 32, "roots");
    else
        snprintf(id, 32, "0x%" PRIx64, tree->nodes.v[i].address);
}

static void draw_rest(struct hx_sink *sink, const struct tree *tree, size_t i, int64_t bytes,
                      int64_t objects, int64_t whole)
{
    char id[32], rest[48], human[HX_HUMAN], count[HX_HUMAN];
    HX_CLEANUP(hx_text_free) struct hx_text label = {0};
    if (!objects)
        return;
    put_id(tree, i, id);
    snprintf(rest, sizeof rest, "rest of %s", id);
    hx_dot_linef(&label, "%s other object%s", hx_human_count((uint64_t)objects, count),
                 objects == 1 ? "" : "s");
    hx_dot_linef(&label, "%s", hx_human_bytes((uint64_t)bytes, human));
    hx_dot_node(sink, rest, &label, HX_DOT_OTHER, NULL);
    draw_edge(sink, id, rest, bytes, whole);
}

static void draw_node(struct hx_sink *sink, const struct tree *tree, size_t i, int64_t whole)
{
    const struct node *node = &tree->nodes.v[i];
    char id[32], parent[32], human[HX_HUMAN], count[HX_HUMAN];
    HX_CLEANUP(hx_text_free) struct hx_text label = {0};
    bool top = node->parent == TOP;
    put_id(tree, i, id);
    if (node->type)
        hx_dot_line(&label, node->type);
    hx_dot_linef(&label, "%s, %s", id, hx_human_bytes((uint64_t)node->bytes, human));
    hx_dot_linef(&label, "retains %s in %s", hx_human_bytes((uint64_t)node->retained, human),
                 hx_human_count((uint64_t)node->objects, count));
    hx_dot_node(sink, id, &label, top && tree->export->has_object ? HX_DOT_MAIN : "", node->type);
    put_id(tree, node->parent, parent);
    if (!top || !tree->export->has_object)
        draw_edge(sink, parent, id, node->retained, whole);
    draw_rest(sink, tree, i, node->rest_bytes, node->rest_objects, whole);
}

static void draw_dominator_tree(struct hx_sink *sink, const struct tree *tree, int64_t bytes,
                                int64_t objects)
{
    HX_CLEANUP(hx_text_free) struct hx_text title = {0}, label = {0};
    char human[HX_HUMAN], count[HX_HUMAN];
    int64_t whole = tree->export->has_object ? tree->nodes.v[0].retained : bytes;
    hx_text_putf(&title, "what keeps most alive, in snapshot %" PRId64 " of %s",
                 tree->export->snapshot, tree->export->title);
    hx_dot_begin(sink, "LR", hx_text_str(&title));
    if (!tree->export->has_object) {
        hx_dot_linef(&label, "the roots");
        hx_dot_linef(&label, "%s in %s", hx_human_bytes((uint64_t)bytes, human),
                     hx_human_count((uint64_t)objects, count));
        hx_dot_node(sink, "roots", &label, HX_DOT_ROOT, NULL);
        draw_rest(sink, tree, TOP, tree->rest_bytes, tree->rest_objects, whole);
    }
    for (size_t i = 0; i < tree->nodes.n; i++)
        if (tree->nodes.v[i].shown)
            draw_node(sink, tree, i, whole);
    hx_dot_end(sink);
}

hx_error *hx_dot_dominators(const struct hx_export *export, struct hx_sink *sink)
{
    HX_CLEANUP(deinit_tree) struct tree tree = {.export = export};
    HX_TRY(grow_dominator_tree(&tree));
    int64_t bytes = tree.rest_bytes, objects = tree.rest_objects;
    for (size_t i = 0; i < tree.nodes.n && !export->has_object; i++)
        if (tree.nodes.v[i].shown && tree.nodes.v[i].parent == TOP) {
            bytes += tree.nodes.v[i].retained;
            objects += tree.nodes.v[i].objects;
        }
    draw_dominator_tree(sink, &tree, bytes, objects);
    return NULL;
}
