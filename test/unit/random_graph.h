/* random_graph.h - small random graphs with every shape that matters. */
#ifndef HX_TEST_RANDOM_GRAPH_H
#define HX_TEST_RANDOM_GRAPH_H

#include "unit.h"

#include "image/image.h"

#define RANDOM_GRAPH_MAX 60

struct random_graph {
    hx_obj n;
    uint32_t n_roots;
    struct hx_drawn_edge edge[RANDOM_GRAPH_MAX * 8];
    size_t n_edges;
    struct hx_drawn_edge root_edge[16];
    size_t n_root_edges;
};

/* Mostly sparse, so that islands, chains and cycles all occur; now and then dense.
 * `weak` of 100 edges are plain interior ones. Self edges and double edges occur. */
static inline void random_graph_make(struct unit_random *random, hx_obj most,
                                     struct random_graph *graph)
{
    memset(graph, 0, sizeof *graph);
    graph->n = (hx_obj)unit_below(random, most + 1);
    graph->n_roots = (uint32_t)unit_below(random, 5);
    unsigned weak = (unsigned)unit_below(random, 4) * 20;
    unsigned dense = 1 + (unsigned)unit_below(random, 4);
    for (hx_obj i = 0; i < graph->n; i++) {
        for (uint64_t k = unit_below(random, dense + 1); k; k--) {
            /* Near targets make long paths and cycles, far ones diamonds. */
            hx_obj target = unit_below(random, 2)
                                ? (hx_obj)unit_below(random, graph->n)
                                : (hx_obj)((i + unit_below(random, 3)) % graph->n);
            uint8_t kind =
                unit_below(random, 100) < weak ? HX_EDGE_INTERIOR : (uint8_t)unit_below(random, 2);
            graph->edge[graph->n_edges++] = (struct hx_drawn_edge){i, target, kind};
        }
    }
    for (uint32_t i = 0; graph->n && i < graph->n_roots; i++) {
        for (uint64_t k = unit_below(random, 4); k; k--) {
            uint8_t kind =
                unit_below(random, 100) < weak ? HX_EDGE_INTERIOR : (uint8_t)unit_below(random, 2);
            graph->root_edge[graph->n_root_edges++] =
                (struct hx_drawn_edge){i, (hx_obj)unit_below(random, graph->n), kind};
        }
    }
}

static inline struct hx_snapshot *random_graph_snapshot(const struct random_graph *graph)
{
    struct hx_snapshot *snapshot;
    assert_null(hx_image_graph(graph->n, graph->edge, graph->n_edges, graph->n_roots,
                               graph->root_edge, graph->n_root_edges, &snapshot));
    assert_null(hx_graph_check(&snapshot->graph));
    return snapshot;
}

#endif
