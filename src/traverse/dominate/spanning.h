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

/* An edge to a node from one that is numbered above it. */
struct hx_late_edge {
    hx_eidx next; /* the next one to the same node; 0: none */
    hx_node source;
} __attribute__((packed));

/* Invariants, for 0 < w < n:
 *   parent[w] < w,  low[w] <= parent[w]
 *   late[late_of[w]] and so on are the edges into w whose sources are numbered above it
 * n is 1 when no root has an edge.
 * There is room for as many nodes as there are objects, at least. */
struct hx_spanning {
    hx_node n;
    hx_node *number;   /* for each object; 0: not reached */
    hx_node *vertex;   /* for each node: object, or index of a root */
    uint64_t *is_root; /* bit for each node: vertex is the index of a root */
    hx_node *parent;   /* in the tree */
    hx_node *low;      /* the least node with an edge to this one, at most parent */
    hx_eidx *late_of;  /* the first one; 0: none */
    struct hx_late_edge *late;
    struct hx_big room; /* HX_NODE_ROOM bytes a node, of any content */
    struct hx_big number_mem, vertex_mem, is_root_mem, parent_mem, low_mem, late_of_mem, late_mem;
};
#define HX_NODE_ROOM 16

static inline bool hx_spanning_is_root(const struct hx_spanning *tree, hx_node node)
{
    return hx_bit(tree->is_root, node);
}

/* follows: bit for each enum hx_edge_kind. Roots of kind HX_ROOT_NAMED are left out. Linear.
 * Takes 4 bytes an object, 36 a node and 12 a late edge; until it returns 16 more for each object
 * on the longest path. */
hx_error *hx_spanning_find(const struct hx_snapshot *snapshot, unsigned follows,
                           const struct hx_progress *progress, struct hx_spanning *ret);
void hx_spanning_deinit(struct hx_spanning *tree);

#endif
