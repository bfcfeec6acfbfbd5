/* subgraph.c - copying a part of a graph. */
#include "traverse/subgraph.h"

static hx_obj count_set_bits(const uint64_t *bits, size_t words)
{
    size_t n = 0;
    for (size_t i = 0; i < words; i++)
        n += (size_t)__builtin_popcountll(bits[i]);
    return (hx_obj)n;
}

/* Copies the objects; returns how many edges they have, those that are not followed included. */
static hx_eidx copy_objects(const struct hx_graph *graph, struct hx_subgraph *subgraph,
                            size_t words)
{
    hx_obj n = 0;
    hx_eidx edges = 0;
    for (size_t i = 0; i < words; i++) {
        subgraph->before[i] = n;
        for (uint64_t left = subgraph->bits[i]; left; left &= left - 1) {
            hx_obj object = (hx_obj)(i * 64 + (size_t)__builtin_ctzll(left));
            subgraph->object[n++] = object;
            edges += graph->fwd[object + 1] - graph->fwd[object];
        }
    }
    return edges;
}

static void copy_edges(const struct hx_graph *graph, unsigned follows, const uint64_t *cut,
                       struct hx_subgraph *subgraph)
{
    hx_eidx n = 0;
    for (hx_obj i = 0; i < subgraph->graph.n; i++) {
        hx_obj object = subgraph->object[i];
        hx_eidx to = cut && hx_bit(cut, object) ? 0 : graph->fwd[object + 1];
        for (hx_eidx e = graph->fwd[object]; e < to; e++) {
            hx_edge edge = graph->edge[e];
            enum hx_edge_kind kind = hx_edge_kind_over(graph, e, follows);
            if ((follows >> kind & 1) && hx_bit(subgraph->bits, hx_edge_target(edge)))
                subgraph->graph.edge[n++] =
                    hx_edge_make(hx_subgraph_index(subgraph, hx_edge_target(edge)),
                                 hx_edge_offset(edge) / 8, kind);
        }
        subgraph->graph.fwd[i + 1] = n;
    }
    subgraph->graph.n_edges = n;
}

static hx_error *make_subgraph(const struct hx_graph *graph, unsigned follows, const uint64_t *cut,
                               struct hx_subgraph *subgraph)
{
    const size_t words = ((size_t)graph->n + 63) / 64;
    struct hx_graph *copy = &subgraph->graph;
    const size_t n = copy->n = count_set_bits(subgraph->bits, words);
    HX_TRY(hx_big_array(subgraph->before, words));
    HX_TRY(hx_big_array(subgraph->object, n));
    HX_TRY(hx_big_array(copy->state, n));
    HX_TRY(hx_big_array(copy->fwd, n + 1));
    hx_eidx edges = copy_objects(graph, subgraph, words);
    HX_TRY(hx_big_array(copy->edge, edges));
    copy_edges(graph, follows, cut, subgraph);
    return NULL;
}

hx_error *hx_subgraph_make(const struct hx_graph *graph, const uint64_t *bits, unsigned follows,
                           const uint64_t *cut, struct hx_subgraph *ret)
{
    *ret = (struct hx_subgraph){.bits = bits};
    /* Of edges that were set aside a copy tells what they are otherwise. */
    bool as_is = !(follows >> HX_EDGE_ASIDE & 1) || follows == HX_EDGE_KINDS_ALL;
    if (as_is && count_set_bits(bits, ((size_t)graph->n + 63) / 64) > graph->n / 2) {
        ret->graph = *graph;
        ret->whole = true;
        return NULL;
    }
    hx_error *err = make_subgraph(graph, follows, cut, ret);
    if (err)
        hx_subgraph_deinit(ret);
    return err;
}

void hx_subgraph_deinit(struct hx_subgraph *subgraph)
{
    if (!subgraph->whole)
        hx_graph_deinit(&subgraph->graph);
    hx_big_free(&subgraph->object_mem);
    hx_big_free(&subgraph->before_mem);
    *subgraph = (struct hx_subgraph){0};
}
