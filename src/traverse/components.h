/* components.h - strongly connected components of a part of the graph, in topological order.
 *
 * What no cycle leads to is numbered first, as soon as all that lead to it are (A. B. Kahn,
 * "Topological sorting of large networks", 1962): a queue whose next entries can be fetched ahead.
 * The rest is searched depth first with D. J. Pearce's variant of Tarjan's algorithm ("A
 * space-efficient algorithm for finding strongly connected components", 2016), with explicit
 * stacks: one number an object serves as visit index while its component is open and as the
 * component's number afterwards.
 */
#ifndef HX_TRAVERSE_COMPONENTS_H
#define HX_TRAVERSE_COMPONENTS_H

#include "base/bits.h"
#include "base/progress.h"
#include "model/graph.h"

/* Which objects and which edges. */
struct hx_scope {
    unsigned states;      /* bit for each enum hx_state: objects in this state are in scope */
    unsigned follows;     /* bit for each enum hx_edge_kind that is followed */
    const uint64_t *cut;  /* bit for each object: its edges are not followed; NULL: none */
    const uint64_t *only; /* bit for each object: it may be in scope; NULL: all may */
};

static inline bool hx_scope_has(const struct hx_scope *scope, const struct hx_graph *graph,
                                hx_obj object)
{
    return (scope->states >> graph->state[object] & 1) &&
           (!scope->only || hx_bit(scope->only, object));
}
static inline bool hx_scope_cuts(const struct hx_scope *scope, hx_obj object)
{
    return scope->cut && hx_bit(scope->cut, object);
}

/* All NULL when no object is in scope. Invariants: an edge in scope leads from number a to number b
 * with a <= b; order holds the objects in scope by growing number. */
struct hx_components {
    hx_obj n;         /* components are 0 .. n-1 */
    hx_obj n_objects; /* in scope */
    hx_obj *number;   /* for each object of the graph; HX_NO_OBJ: not in scope */
    hx_obj *order;    /* n_objects */
    struct hx_big number_mem, order_mem;
};

/* Linear. Takes 4 bytes an object of the graph and 4 an object in scope; until it returns a bit an
 * object more, 12 bytes an object in a cycle or below one, and when these are not more than half of
 * all 17 more and 8 an edge of theirs. */
hx_error *hx_components_find(const struct hx_graph *graph, const struct hx_scope *scope,
                             const struct hx_progress *progress, struct hx_components *ret);
void hx_components_deinit(struct hx_components *components);

#endif
