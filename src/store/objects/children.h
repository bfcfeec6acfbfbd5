/* children.h - the objects that one dominates immediately, without a look at all objects.
 *
 * Most of them are targets of its own edges. Whether these are all is known: each child retains so
 * many objects, and the dominator as many as all of them together and itself. */
#ifndef HX_STORE_OBJECTS_CHILDREN_H
#define HX_STORE_OBJECTS_CHILDREN_H

#include "store/objects/blocks.h"

/* The rows, rising; the caller frees them. *ret_all false: there may be others, and all objects
 * have to be looked through; *ret is NULL then. */
hx_error *hx_children_find(hx_blocks *blocks, const struct hx_block_index *objects,
                           uint64_t dominator, uint64_t **ret, size_t *ret_n, bool *ret_all);

#endif
