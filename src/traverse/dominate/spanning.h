/* spanning.h - depth-first spanning tree of what the roots reach. Used by dominators.c,
 * immediate.c and sure.c only.
 *
 * Nodes are numbered in preorder: 0 is a virtual root above all, its children are the roots
 * of the snapshot, theirs are objects. Working in these numbers instead of objects keeps
 * what belongs together close in memory. Of the edges that are not in the tree only what
 * semidominators need is kept.
 */
#ifndef HX_TRAVERSE_DOMINATE_SPANNING_H
#define HX_TRAVERSE_DOMINATE_SPANNING_H

#include "base/bits.h"
#include "base/progress.h"
#include "model/snapshot.h"

/* The number of a node; roots are nodes, too, so it is never narrower than their index. */
typedef __typeof__((hx_obj)0 + UINT32_C(0)) hx_node;

struct hx_node_pair {
    hx_node a, b;
};

/* Invariants, for 0 < w < n:
 *   parent[w] < w,  low[w] <= parent[w]
 *   late[first[w] .. first[w + 1]) are the sources, numbered above w, of the edges into w
 * n is 1 when no root has an edge. */
struct hx_spanning {
    hx_node n;
    hx_node *number;           /* for each object; 0: not reached; NULL once all is found */
    hx_node *vertex;           /* for each node: object, or index of a root */
    uint64_t *is_root;         /* bit for each node: vertex is the index of a root */
    hx_node *parent;           /* in the tree */
    hx_node *low;              /* the least node with an edge to this one, at most parent */
    hx_eidx *first;            /* n + 1 */
    hx_node *late;             /* first[n] */
    struct hx_node_pair *pair; /* room for a pair a node, of any content */
    struct hx_big number_mem, vertex_mem, is_root_mem, parent_mem, low_mem, first_mem, late_mem,
        pair_mem;
};

static inline bool hx_spanning_is_root(const struct hx_spanning *tree, hx_node node)
{
    return hx_bit(tree->is_root, node);
}

/* follows: bit for each enum hx_edge_kind. Roots of kind HX_ROOT_NAMED are left out. Linear.
 * At most 4 bytes an object, 20 a node and 4 a late edge are touched, of which 4 an object are
 * given back; `pair` is not touched yet. */
hx_error *hx_spanning_find(const struct hx_snapshot *snapshot, unsigned follows,
                           const struct hx_progress *progress, struct hx_spanning *ret);
void hx_spanning_deinit(struct hx_spanning *tree);

#endif
