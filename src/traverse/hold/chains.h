/* chains.h - by which chain a holder comes to each of its objects.
 *
 * Breadth first from the edges of its roots, over edges of the chosen graph (rounds.h) between
 * objects that it holds. What it holds and does not come to that way begins a chain of its own
 * where others point to it. Of lost objects chains begin at those that are definitely lost.
 */
#ifndef HX_TRAVERSE_HOLD_CHAINS_H
#define HX_TRAVERSE_HOLD_CHAINS_H

#include "base/progress.h"
#include "model/snapshot.h"

#define HX_CHAINS_NOBODY UINT32_MAX

/* Fills *ret_parent, for each object the one before it in its chain (hx_obj), HX_NO_OBJ where one
 * begins. `holder` is for each object who holds it, holder_of_root for each root who it is, or
 * HX_CHAINS_NOBODY. *ret_order: the objects, each behind its parent. Linear; 8 bytes an object. */
hx_error *hx_chains_find(const struct hx_snapshot *snapshot, const uint32_t *holder,
                         const uint32_t *holder_of_root, const struct hx_progress *progress,
                         struct hx_big *ret_parent, struct hx_big *ret_order);

#endif
