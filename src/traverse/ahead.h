/* ahead.h - reads ahead for searches along a list of objects. */
#ifndef HX_TRAVERSE_AHEAD_H
#define HX_TRAVERSE_AHEAD_H

#include "base/prefetch.h"
#include "model/graph.h"

enum { HX_AHEAD_RANGE = 48, HX_AHEAD_EDGES = 32, HX_AHEAD_TARGETS = 16, HX_AHEAD_FEW = 8 };

/* Before list[i] of n is looked at: its edges will be, and what two arrays say of their targets (of
 * elements of `size` bytes; NULL: none). */
HX_PREFETCHES void hx_look_ahead(const struct hx_graph *graph, const hx_obj *list, size_t i,
                                 size_t n, const void *of, size_t size, const void *also,
                                 size_t also_size)
{
    if (i + HX_AHEAD_RANGE < n)
        __builtin_prefetch(&graph->fwd[list[i + HX_AHEAD_RANGE]]);
    if (i + HX_AHEAD_EDGES < n)
        __builtin_prefetch(&graph->edge[graph->fwd[list[i + HX_AHEAD_EDGES]]]);
    if (i + HX_AHEAD_TARGETS >= n)
        return;
    hx_obj soon = list[i + HX_AHEAD_TARGETS];
    hx_eidx from = graph->fwd[soon], to = graph->fwd[(size_t)soon + 1];
    for (hx_eidx e = from; e < to && e < from + HX_AHEAD_FEW; e++) {
        size_t target = hx_edge_target(graph->edge[e]);
        __builtin_prefetch((const char *)of + target * size, 1);
        if (also)
            __builtin_prefetch((const char *)also + target * also_size, 1);
    }
}

/* As soon as an object is come to: where so few wait that nothing was read ahead, as along a list,
 * its edges are looked for while others still wait for what is said of it. */
HX_PREFETCHES void hx_look_at_once(const struct hx_graph *graph, hx_obj object, size_t waiting)
{
    if (waiting < HX_AHEAD_RANGE)
        __builtin_prefetch(&graph->fwd[object]);
}

#endif
