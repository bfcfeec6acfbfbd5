/* subgraph.h - some objects of a graph and the edges between them, as a graph of its own.
 *
 * What is looked at several times in no good order is close together in it. Used by
 * components.c and retain.c only.
 */
#ifndef HX_TRAVERSE_SUBGRAPH_H
#define HX_TRAVERSE_SUBGRAPH_H

#include "base/bits.h"
#include "model/graph.h"

/* Where more than half of the objects belong to the part, it is the whole graph, to save memory:
 * then `whole` says so, and the objects outside have to be left alone. */
struct hx_subgraph {
    struct hx_graph graph; /* n, fwd, edge, state (of no meaning); others only when whole */
    bool whole;
    const uint64_t *bits; /* borrowed: bit for each object of the whole graph: it belongs */
    hx_obj *object;       /* n, rising: which one this is in the whole graph; NULL when whole */
    hx_obj *before;       /* for 64 objects each: how many belong before them; NULL when whole */
    struct hx_big object_mem, before_mem;
};

/* Only edges that are followed (bit for each enum hx_edge_kind), and none of objects that are cut
 * (a bit each, or NULL). HX_EDGE_ASIDE among them, but not all kinds: edges that were set aside are
 * in it as what their evidence says, and it is never whole. Linear; takes at most 7 bytes an object
 * and 4 an edge of the whole graph, if the subgraph has its share of edges. */
hx_error *hx_subgraph_make(const struct hx_graph *graph, const uint64_t *bits, unsigned follows,
                           const uint64_t *cut, struct hx_subgraph *ret);
void hx_subgraph_deinit(struct hx_subgraph *subgraph);

/* From an object of the whole graph, which must belong, to that of the subgraph, and back. */
static inline hx_obj hx_subgraph_index(const struct hx_subgraph *subgraph, hx_obj object)
{
    if (subgraph->whole)
        return object;
    return (hx_obj)(subgraph->before[object / 64] + hx_bits_below(subgraph->bits, object));
}
static inline hx_obj hx_subgraph_object(const struct hx_subgraph *subgraph, hx_obj index)
{
    return subgraph->whole ? index : subgraph->object[index];
}

#endif
