/* rootmap.h - which memory holds roots, and how it is called; the account; the heap's pages.
 *
 * After the allocator walk, everything writable that no segment explains is a root
 * region: globals by symbol, stacks from the stack pointer minus the red zone,
 * thread-local storage, registers, other mappings. The allocator's own structures and
 * the stacks of threads that have exited are not.
 */
#ifndef HX_ATTACH_ROOTS_ROOTMAP_H
#define HX_ATTACH_ROOTS_ROOTMAP_H

#include "attach/roots/frame_parts.h"
#include "base/progress.h"
#include "model/snapshot.h"
#include "sym/module.h"

/* Roots that somebody has found already. */
typedef HX_VEC(struct hx_root) hx_root_list;

/* Fills snapshot.roots. `excluded`: the allocator's own ranges outside segments, and others that
 * hold nothing; `frames` can be empty. Takes the roots over from `given` (NULL: none), where they
 * lie neither in these, nor in segments, stacks, or each other. */
hx_error *hx_rootmap(struct hx_snapshot *snapshot, hx_modules *modules, const hx_ranges *excluded,
                     const hx_frame_parts *frames, hx_root_list *given);
void hx_root_list_free(hx_root_list *roots);

/* Names a root without a name that a part of a frame is: a word of one is the function's, and where
 * it has a name, the variable's. `where`: "", or what holds it instead of memory (" in rbx"). */
hx_error *hx_frame_root_name(struct hx_root *root, const struct hx_frame_part *part,
                             const char *where);

/* Calls the roots that hx_scan() has left what their programs call them: until then the name of one
 * with a symbol is that symbol. HX_E_CANCEL. */
hx_error *hx_rootmap_names(struct hx_snapshot *snapshot, hx_modules *modules,
                           const struct hx_progress *progress);

/* Fills snapshot.account and rss_bytes from the mappings (rss_bytes of each, as of the stop),
 * segments, objects and free ranges; the image says which heap pages were resident. */
hx_error *hx_account(struct hx_snapshot *snapshot);

/* Fills snapshot.resident from what the agent found at the stop: `present` are page ranges that
 * were in memory or swapped out, `swapped` those that were swapped out; both sorted. */
hx_error *hx_resident(struct hx_snapshot *snapshot, const hx_ranges *present,
                      const hx_ranges *swapped);

#endif
