/* merged_tree.h - a tree of objects as a few rows: children of one kind under one row are one row.
 *
 * "g_cache > array > node > User" says what a million objects are. A kind stands once on each path:
 * objects that come again below their own kind belong to its row. So a list or a tree of nodes is
 * one row, however deep it is.
 */
#ifndef HX_TRAVERSE_DOMINATE_MERGED_TREE_H
#define HX_TRAVERSE_DOMINATE_MERGED_TREE_H

#include "base/progress.h"
#include "model/graph.h"

#define HX_MERGED_OTHERS    UINT32_MAX /* a row of what has none of its own */
#define HX_MERGED_NO_PARENT SIZE_MAX
#define HX_MERGED_DEPTH     64 /* rows of a path at most; what is deeper are others */

/* What is merged. At the top are rows with numbers below n_tops, of no objects of their own. */
struct hx_merge {
    hx_obj n;
    const hx_obj *parent;  /* of each object; HX_NO_OBJ: it stands under a top */
    const uint32_t *order; /* of the objects: each comes behind its parent */
    const uint64_t *size;
    uint32_t n_tops;
    uint32_t (*top)(const void *context, hx_obj object); /* of one that has no parent */
    uint32_t (*kind)(const void *context, hx_obj object);
    const void *context;
    size_t max_rows; /* others come on top of them, at most one for each */
};

struct hx_merged_row {
    size_t parent; /* index of an earlier row */
    uint32_t name; /* of a row at the top its number, else the kind; HX_MERGED_OTHERS */
    uint32_t depth;
    uint64_t bytes, objects; /* without the rows below */
    uint64_t total_bytes;    /* with them */
};

/* In preorder, of the children of a row the one with the largest total first, others last.
 * Invariants: bytes and objects of all rows add up to those of all objects; total_bytes of a row is
 * bytes plus total_bytes of its children. Rows without objects in or below them do not exist. */
struct hx_merged_tree {
    struct hx_merged_row *row;
    size_t n;
};

/* Linear. Needs 4 bytes an object, and what the rows take, of which there are never more than
 * a fraction of the objects. */
hx_error *hx_merged_tree_make(const struct hx_merge *merge, const struct hx_progress *progress,
                              struct hx_merged_tree *ret);
void hx_merged_tree_deinit(struct hx_merged_tree *tree);

#endif
