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
struct hx_part {
    struct hx_graph graph; /* n, fwd, edge, state (of no meaning); others only when whole */
    bool whole;
    const uint64_t *bits; /* borrowed: bit for each object of the whole graph: it belongs */
    hx_obj *object;       /* n, rising: which one this is in the whole graph; NULL when whole */
    hx_obj *before;       /* for 64 objects each: how many belong before them; NULL when whole */
    struct hx_big object_mem, before_mem;
};

/* Only edges that are followed (bit for each enum hx_edge_kind), and none of objects that are cut
 * (a bit each, or NULL). Linear; takes at most 7 bytes an object and 4 an edge of the whole graph,
 * if the part has its share of edges. */
hx_error *hx_part_make(const struct hx_graph *graph, const uint64_t *bits, unsigned follows,
                       const uint64_t *cut, struct hx_part *ret);
void hx_part_deinit(struct hx_part *part);

/* From an object of the whole graph, which must belong, to that of the part, and back. */
static inline hx_obj hx_part_index(const struct hx_part *part, hx_obj object)
{
    if (part->whole)
        return object;
    return (hx_obj)(part->before[object / 64] + hx_bits_below(part->bits, object));
}
static inline hx_obj hx_part_object(const struct hx_part *part, hx_obj index)
{
    return part->whole ? index : part->object[index];
}

#endif
