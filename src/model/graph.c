/* graph.c - columns of objects and edges. */
#include "model/graph.h"

const char *hx_edge_kind_name(enum hx_edge_kind kind)
{
    static const char *const names[] = {"start", "known", "interior"};
    return (size_t)kind < sizeof names / sizeof *names ? names[kind] : "?";
}

const char *hx_state_name(enum hx_state state)
{
    static const char *const names[HX_STATES] = {"unknown", "reachable", "possible", "definite",
                                                 "indirect"};
    return (size_t)state < HX_STATES ? names[state] : "?";
}

hx_obj hx_graph_find(const struct hx_graph *graph, uint64_t addr)
{
    size_t low = 0, high = graph->n;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (graph->addr[middle] <= addr)
            low = middle + 1;
        else
            high = middle;
    }
    if (low == 0 || addr - graph->addr[low - 1] >= graph->size[low - 1])
        return HX_NO_OBJ;
    return (hx_obj)(low - 1);
}

void hx_graph_deinit(struct hx_graph *graph)
{
    hx_big_free(&graph->addr_mem);
    hx_big_free(&graph->size_mem);
    hx_big_free(&graph->state_mem);
    hx_big_free(&graph->fwd_mem);
    hx_big_free(&graph->edge_mem);
    hx_big_free(&graph->rev_mem);
    hx_big_free(&graph->rev_source_mem);
    *graph = (struct hx_graph){0};
}
