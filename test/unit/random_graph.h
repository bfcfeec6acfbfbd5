/* random_graph.h - small random graphs with every shape that matters. */
#ifndef HX_TEST_RANDOM_GRAPH_H
#define HX_TEST_RANDOM_GRAPH_H

#include "unit.h"

#include "../image/image.h"

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

/* So large that what looks ahead does, with objects of many edges. Islands of a hundred objects,
 * and now and then an edge between them. */
static inline struct hx_snapshot *random_graph_large(struct unit_random *random, uint32_t n_roots)
{
    enum { MOST = 3000, MOST_EDGES = MOST * 40, ISLAND = 100 };
    struct hx_drawn_edge *edge = malloc(MOST_EDGES * sizeof *edge);
    struct hx_drawn_edge *root_edge = malloc(n_roots * sizeof *root_edge + 1);
    struct hx_snapshot *snapshot;
    size_t n_edges = 0;
    hx_obj n = (hx_obj)(1 + unit_below(random, MOST));
    assert_true(edge && root_edge);
    for (hx_obj i = 0; i < n; i++) {
        uint64_t degree = unit_below(random, 50) ? unit_below(random, 3) : unit_below(random, 100);
        for (; degree && n_edges < MOST_EDGES; degree--) {
            uint64_t to = i / ISLAND * ISLAND + unit_below(random, ISLAND);
            if (to >= n || unit_below(random, 300) == 0)
                to = unit_below(random, n);
            edge[n_edges++] = (struct hx_drawn_edge){i, (hx_obj)to, (uint8_t)unit_below(random, 3)};
        }
    }
    for (uint32_t i = 0; i < n_roots; i++)
        root_edge[i] = (struct hx_drawn_edge){i, (hx_obj)unit_below(random, n), HX_EDGE_START};
    assert_null(hx_image_graph(n, edge, n_edges, n_roots, root_edge, n_roots, &snapshot));
    free(edge);
    free(root_edge);
    return snapshot;
}

#endif
