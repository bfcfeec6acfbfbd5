/* graph.c - columns of objects and edges. */
#include "model/graph.h"

#include "base/lower_bound.h"
#include "base/parallel.h"

#include <inttypes.h>
#include <stdio.h>

const char *hx_edge_kind_name(enum hx_edge_kind kind)
{
    static const char *const names[] = {"start", "known", "interior", "aside"};
    return (size_t)kind < sizeof names / sizeof *names ? names[kind] : "?";
}

const char *hx_state_name(enum hx_state state)
{
    static const char *const names[HX_STATES] = {"unknown", "reachable", "possible", "definite",
                                                 "indirect"};
    return (size_t)state < HX_STATES ? names[state] : "?";
}

const char *hx_confidence_name(enum hx_confidence confidence)
{
    static const char *const names[] = {"certain", "likely", "guess"};
    return (size_t)confidence < 3 ? names[confidence] : "?";
}

const char *hx_type_source_name(enum hx_type_source source)
{
    static const char *const names[HX_TYPE_SOURCES] = {"", "vtable", "pointer", "site", "python"};
    return (size_t)source < HX_TYPE_SOURCES ? names[source] : "?";
}

hx_obj hx_graph_find(const struct hx_graph *graph, uint64_t addr)
{
    size_t low = HX_LOWER_BOUND(graph->n, i, graph->addr[i] <= addr);
    if (low == 0 || addr - graph->addr[low - 1] >= graph->size[low - 1])
        return HX_NO_OBJ;
    return (hx_obj)(low - 1);
}

hx_eidx hx_graph_edge_from(const struct hx_graph *graph, hx_obj object, uint64_t offset)
{
    hx_eidx first = graph->fwd[object], n = graph->fwd[(size_t)object + 1] - first;
    return first + HX_LOWER_BOUND(n, i, hx_edge_offset(graph->edge[first + i]) < offset);
}

/* --- the reversal ------------------------------------------------------------ */

/* Counting sort by target. rev has two entries more than objects: rev[t + 2] counts the
 * edges into t, then rev[t + 1] is where the next source of t goes and so ends as the first
 * place of t + 1. The scattered writes are hidden behind prefetches, which leaves little for
 * a second thread that would have to read all edges too; it clears fresh memory instead. */
struct reversal {
    const struct hx_graph *graph;
    const struct hx_progress *progress;
    hx_eidx *rev;
    hx_obj *source;
    bool cancelled;
};

#define AHEAD     32     /* edges: how far ahead the scattered writes are prefetched */
#define BLOCK     65536  /* edges between two looks at whether to stop */
#define FEW_EDGES 100000 /* below this a second thread costs more than it brings */
#define PAGE      (size_t)4096

/* Before the block of edges at e; `of` edges were done in earlier passes. */
static bool should_stop(struct reversal *reversal, hx_eidx e, hx_eidx of)
{
    hx_progress_at(reversal->progress, "reverse", e + of, 2 * reversal->graph->n_edges);
    reversal->cancelled |= hx_progress_cancelled(reversal->progress);
    return reversal->cancelled;
}

static void count_targets(struct reversal *reversal)
{
    const hx_edge *edge = reversal->graph->edge;
    const hx_eidx n = reversal->graph->n_edges;
    hx_eidx *count = reversal->rev + 2;
    for (hx_eidx start = 0; start < n && !should_stop(reversal, start, 0); start += BLOCK) {
        hx_eidx end = n - start < BLOCK ? n : start + BLOCK;
        for (hx_eidx e = start; e < end; e++) {
            __builtin_prefetch(&count[hx_edge_target(edge[e + AHEAD < n ? e + AHEAD : e])], 1);
            count[hx_edge_target(edge[e])]++;
        }
    }
}

/* The first write to a page costs as much as many edges. */
static void touch_sources(const struct reversal *reversal)
{
    volatile uint8_t *bytes = (volatile uint8_t *)reversal->source;
    size_t n = reversal->graph->n_edges * sizeof *reversal->source;
    for (size_t i = 0; i < n; i += PAGE)
        bytes[i] = 0;
}

static void count_and_touch(void *context, unsigned i)
{
    if (i == 0)
        count_targets(context);
    else
        touch_sources(context);
}

static void place_sources(struct reversal *reversal)
{
    const struct hx_graph *graph = reversal->graph;
    const hx_edge *edge = graph->edge;
    const hx_eidx n = graph->n_edges;
    hx_eidx *next = reversal->rev + 1;
    hx_obj source = 0;
    for (hx_eidx start = 0; start < n && !should_stop(reversal, start, n); start += BLOCK) {
        hx_eidx end = n - start < BLOCK ? n : start + BLOCK;
        for (hx_eidx e = start; e < end; e++) {
            hx_eidx soon = e + AHEAD < n ? e + AHEAD : e,
                    later = soon + AHEAD < n ? soon + AHEAD : e;
            __builtin_prefetch(&next[hx_edge_target(edge[later])], 1);
            __builtin_prefetch(&reversal->source[next[hx_edge_target(edge[soon])]], 1);
            while (graph->fwd[source + 1] <= e)
                source++;
            reversal->source[next[hx_edge_target(edge[e])]++] = source;
        }
    }
}

hx_error *hx_graph_reverse(struct hx_graph *graph, unsigned threads,
                           const struct hx_progress *progress)
{
    struct hx_big rev = {0}, source = {0};
    HX_TRY(hx_big_reserve(&rev, ((size_t)graph->n + 2) * sizeof(hx_eidx)));
    hx_error *err = hx_big_reserve(&source, graph->n_edges * sizeof(hx_obj));
    struct reversal reversal = {
        .graph = graph, .progress = progress, .rev = rev.base, .source = source.base};
    if (!err) {
        bool two = graph->n_edges >= FEW_EDGES && hx_threads(threads) > 1;
        hx_parallel(two ? 2 : 1, count_and_touch, &reversal);
        for (size_t i = 2; i < (size_t)graph->n + 2; i++)
            reversal.rev[i] += reversal.rev[i - 1];
        if (!reversal.cancelled)
            place_sources(&reversal);
        if (reversal.cancelled)
            err = hx_error_cancelled("reverse edges");
    }
    if (err) {
        hx_big_free(&rev);
        hx_big_free(&source);
        return err;
    }
    hx_big_free(&graph->rev_mem);
    hx_big_free(&graph->rev_source_mem);
    graph->rev_mem = rev;
    graph->rev_source_mem = source;
    graph->rev = rev.base;
    graph->rev_source = source.base;
    return NULL;
}

/* --- the invariants ---------------------------------------------------------- */

static hx_error *broken_graph(const char *invariant, uint64_t at)
{
    return hx_error_new(HX_E_CORRUPT, "object graph", NULL, "%s does not hold at %" PRIu64,
                        invariant, at);
}

static hx_error *check_forward(const struct hx_graph *graph)
{
    if (graph->fwd[0] != 0 || graph->fwd[graph->n] != graph->n_edges)
        return broken_graph("fwd[0] == 0 and fwd[n] == n_edges", graph->n);
    for (hx_obj i = 0; i < graph->n; i++)
        if (graph->fwd[i] > graph->fwd[i + 1])
            return broken_graph("fwd[i] <= fwd[i + 1]", i);
    for (hx_obj i = 0; i < graph->n; i++) {
        for (hx_eidx e = graph->fwd[i]; e < graph->fwd[i + 1]; e++) {
            hx_edge edge = graph->edge[e];
            if (hx_edge_target(edge) >= graph->n || hx_edge_kind_of(edge) > HX_EDGE_INTERIOR)
                return broken_graph("an edge has a target and a kind", e);
            if (hx_edge_offset(edge) >= graph->size[i] || graph->size[i] - hx_edge_offset(edge) < 8)
                return broken_graph("the word of an edge lies in its source", e);
            if (e > graph->fwd[i] && hx_edge_offset(edge) <= hx_edge_offset(graph->edge[e - 1]))
                return broken_graph("edges of an object are in order of offset", e);
        }
    }
    return NULL;
}

/* Is there an edge from source to target? */
static bool has_edge(const struct hx_graph *graph, hx_obj source, hx_obj target)
{
    for (hx_eidx e = graph->fwd[source]; e < graph->fwd[source + 1]; e++)
        if (hx_edge_target(graph->edge[e]) == target)
            return true;
    return false;
}

#define SHORT_LIST 64 /* sources with more edges are not searched, so that this stays linear */

static hx_error *check_reverse(const struct hx_graph *graph)
{
    if (graph->rev[0] != 0 || graph->rev[graph->n] != graph->n_edges)
        return broken_graph("rev[0] == 0 and rev[n] == n_edges", graph->n);
    for (hx_obj i = 0; i < graph->n; i++)
        if (graph->rev[i] > graph->rev[i + 1])
            return broken_graph("rev[i] <= rev[i + 1]", i);
    for (hx_obj i = 0; i < graph->n; i++) {
        for (hx_eidx r = graph->rev[i]; r < graph->rev[i + 1]; r++) {
            hx_obj source = graph->rev_source[r];
            if (source >= graph->n || (r > graph->rev[i] && source < graph->rev_source[r - 1]))
                return broken_graph("sources of an object are in order", r);
            if (graph->fwd && graph->fwd[source + 1] - graph->fwd[source] <= SHORT_LIST &&
                !has_edge(graph, source, i))
                return broken_graph("every source has its edge", r);
        }
    }
    return NULL;
}

hx_error *hx_graph_check(const struct hx_graph *graph)
{
    for (hx_obj i = 0; i < graph->n; i++) {
        if (graph->size[i] > UINT64_MAX - graph->addr[i])
            return broken_graph("addr[i] + size[i] fits", i);
        if (i + 1 < graph->n && graph->addr[i] + graph->size[i] > graph->addr[i + 1])
            return broken_graph("addr[i] + size[i] <= addr[i + 1]", i);
        if (graph->state && graph->state[i] >= HX_STATES)
            return broken_graph("state[i] is a state", i);
    }
    if (graph->fwd)
        HX_TRY(check_forward(graph));
    if (graph->rev)
        HX_TRY(check_reverse(graph));
    return NULL;
}

void hx_graph_deinit(struct hx_graph *graph)
{
    hx_big_free(&graph->addr_mem);
    hx_big_free(&graph->size_mem);
    hx_big_free(&graph->state_mem);
    hx_big_free(&graph->type_mem);
    hx_big_free(&graph->typed_mem);
    hx_big_free(&graph->site_mem);
    hx_big_free(&graph->requested_mem);
    hx_big_free(&graph->shape_mem);
    hx_big_free(&graph->round_mem);
    hx_big_free(&graph->fwd_mem);
    hx_big_free(&graph->edge_mem);
    hx_big_free(&graph->evidence_mem);
    hx_big_free(&graph->rev_mem);
    hx_big_free(&graph->rev_source_mem);
    *graph = (struct hx_graph){0};
}
