/* components.h - strongly connected components of a part of the graph, in topological order.
 *
 * D. J. Pearce's variant of Tarjan's algorithm ("A space-efficient algorithm for finding
 * strongly connected components", 2016), with explicit stacks: one number an object serves
 * as visit index while its component is open and as the component's number afterwards.
 */
#ifndef HX_TRAVERSE_COMPONENTS_H
#define HX_TRAVERSE_COMPONENTS_H

#include "base/progress.h"
#include "model/graph.h"

/* Which objects and which edges. */
struct hx_scope {
    unsigned states;     /* bit for each enum hx_state: objects in this state are in scope */
    unsigned follows;    /* bit for each enum hx_edge_kind that is followed */
    const uint64_t *cut; /* bit for each object: its edges are not followed; NULL: none */
};

static inline bool hx_scope_has(const struct hx_scope *scope, const struct hx_graph *graph,
                                hx_obj object)
{
    return scope->states >> graph->state[object] & 1;
}
static inline bool hx_scope_cuts(const struct hx_scope *scope, hx_obj object)
{
    return scope->cut && scope->cut[object >> 6] >> (object & 63) & 1;
}

/* All NULL when no object is in scope. Invariants: an edge in scope leads from number a to number b
 * with a <= b; order holds the objects in scope by growing number. */
struct hx_components {
    hx_obj n;         /* components are 0 .. n-1 */
    hx_obj n_objects; /* in scope */
    hx_obj *number;   /* for each object of the graph; HX_NO_OBJ: not in scope */
    hx_obj *order;    /* n_objects */
    uint64_t *led_to; /* read by hx_components_is_led() */
    struct hx_big number_mem, order_mem, led_mem;
};

/* Does an edge from another component lead to this one? */
static inline bool hx_components_is_led(const struct hx_components *components, hx_obj number)
{
    hx_obj bit = components->n - 1 - number;
    return components->led_to[bit >> 6] >> (bit & 63) & 1;
}

/* Linear. Takes 4 bytes an object of the graph and 4 an object in scope, and 12 more an object in
 * scope until it returns. */
hx_error *hx_components_find(const struct hx_graph *graph, const struct hx_scope *scope,
                             const struct hx_progress *progress, struct hx_components *ret);
void hx_components_deinit(struct hx_components *components);

#endif
