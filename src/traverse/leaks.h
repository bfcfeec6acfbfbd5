/* leaks.h - which unreachable objects are leaks of their own, and which are held by others. */
#ifndef HX_TRAVERSE_LEAKS_H
#define HX_TRAVERSE_LEAKS_H

#include "base/progress.h"
#include "model/graph.h"

/* Gives every object whose state is HX_STATE_NONE the state definite or indirect: the
 * unreachable objects are condensed over edges of every kind; the lowest address of a
 * component that no other unreachable component points to is definite. */
hx_error *hx_leaks_classify(struct hx_graph *graph, const struct hx_progress *progress);

/* The definite object that holds an indirect one: the nearest over leaked objects and edges of
 * every kind, of equally near ones that with the lowest address. *ret_steps: edges between.
 * HX_NO_OBJ and 0 for an object in any other state. Needs states and graph.rev; linear. */
hx_error *hx_leaks_holder(const struct hx_graph *graph, hx_obj object,
                          const struct hx_progress *progress, hx_obj *ret, uint64_t *ret_steps);

#endif
