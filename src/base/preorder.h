/* preorder.h - the nodes of a tree in the order in which it is written: a parent before its
 * children, and all that is below a node before its next sibling. Nothing recurses.
 */
#ifndef HX_BASE_PREORDER_H
#define HX_BASE_PREORDER_H

#include "base/error.h"

#include <stddef.h>
#include <stdint.h>

/* The parents of n nodes, as numbers of nodes, `stride` bytes apart: in an array of nodes. A node
 * whose parent is not before it is a top. */
struct hx_parents {
    const uint32_t *first;
    size_t stride;
    uint32_t n;
};
#define HX_PARENTS(v, member, count)                                                               \
    (&(const struct hx_parents){(count) ? &(v)->member : NULL, sizeof *(v), (uint32_t)(count)})

/* *ret: n numbers, the caller's to free. Siblings, and tops, as `compare` (of qsort_r, on their
 * numbers) has them; NULL: by number. */
hx_error *hx_preorder(const struct hx_parents *parents,
                      int (*compare)(const void *, const void *, void *), void *context,
                      uint32_t **ret);

#endif
