/* ahead.h - reads ahead for searches along a list of objects. */
#ifndef HX_TRAVERSE_AHEAD_H
#define HX_TRAVERSE_AHEAD_H

#include "model/graph.h"

enum { HX_AHEAD_RANGE = 24, HX_AHEAD_EDGES = 16, HX_AHEAD_TARGETS = 8, HX_AHEAD_FEW = 8 };

/* Before list[i] of n is looked at: its edges will be, and what two arrays say of their targets. */
static inline void hx_look_ahead(const struct hx_graph *graph, const hx_obj *list, size_t i,
                                 size_t n, const uint32_t *of, const hx_obj *also)
{
    if (i + HX_AHEAD_RANGE < n)
        __builtin_prefetch(&graph->fwd[list[i + HX_AHEAD_RANGE]]);
    if (i + HX_AHEAD_EDGES < n)
        __builtin_prefetch(&graph->edge[graph->fwd[list[i + HX_AHEAD_EDGES]]]);
    if (i + HX_AHEAD_TARGETS >= n)
        return;
    hx_obj soon = list[i + HX_AHEAD_TARGETS];
    hx_eidx from = graph->fwd[soon], to = graph->fwd[soon + 1];
    for (hx_eidx e = from; e < to && e < from + HX_AHEAD_FEW; e++) {
        __builtin_prefetch(&of[hx_edge_target(graph->edge[e])], 1);
        if (also)
            __builtin_prefetch(&also[hx_edge_target(graph->edge[e])], 1);
    }
}

#endif
