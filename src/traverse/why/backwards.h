/* backwards.h - who refers to whom, in few bytes: for questions about one object of a heap that is
 * too large to be loaded.
 *
 * An edge takes as many bytes as an object's number needs, and a bit for its kind; an object one
 * byte. From it follows which objects may stand on a chain to one of them; only those are then
 * loaded, and chains are looked for among them.
 */
#ifndef HX_TRAVERSE_WHY_BACKWARDS_H
#define HX_TRAVERSE_WHY_BACKWARDS_H

#include "base/progress.h"
#include "model/snapshot.h"

typedef struct hx_backwards hx_backwards;

/* For n objects and so many edges. It is filled in three steps: the number of edges into each
 * object in their order, then hx_backwards_begin(), then each edge. */
hx_error *hx_backwards_create(hx_obj n, uint64_t edges, hx_backwards **ret);
void hx_backwards_destroy(hx_backwards *backwards); /* NULL is legal */

hx_error *hx_backwards_count(hx_backwards *backwards, hx_obj object, uint64_t edges_in);
/* HX_E_CORRUPT when the counts do not add up to all edges. */
hx_error *hx_backwards_begin(hx_backwards *backwards);
/* HX_E_CORRUPT when there are more edges into the target than were counted. */
hx_error *hx_backwards_add(hx_backwards *backwards, hx_obj source, hx_obj target,
                           enum hx_edge_kind kind);

/* A bit for each object from which `target` is reached over any edges, itself included, when there
 * are at most `most`. Else for `most` of those that are nearest, and those on a shortest chain from
 * each root, over all edges and over those that are no plain interior ones. `snapshot` has the
 * roots and root edges; its graph is not looked at. *ret is the caller's to free. */
hx_error *hx_backwards_choose(const hx_backwards *backwards, const struct hx_snapshot *snapshot,
                              hx_obj target, size_t most, const struct hx_progress *progress,
                              uint64_t **ret);

static inline void hx_cleanup_backwards(hx_backwards **backwards)
{
    hx_backwards_destroy(*backwards);
}
#define HX_BACKWARDS __attribute__((cleanup(hx_cleanup_backwards)))

#endif
