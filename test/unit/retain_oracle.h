/* retain_oracle.h - retainer sets of small graphs, computed twice more: as the document has it and
 * from its equations. Identities are bits of 64. */
#ifndef HX_TEST_RETAIN_ORACLE_H
#define HX_TEST_RETAIN_ORACLE_H

#include "random_graph.h"

#include "traverse/retain/retain.h"

#define ORACLE_ROOTS 8

struct rule {
    hx_retainer of_root[ORACLE_ROOTS], of_object[RANDOM_GRAPH_MAX];
};

static inline bool is_followed(enum hx_interior interior, unsigned kind)
{
    return kind != HX_EDGE_INTERIOR || interior != HX_INTERIOR_OFF;
}

/* retain(c, r) as the document has it: depth first, a retainer added at each visit. */
static inline void document_retain(const struct random_graph *graph, enum hx_interior interior,
                                   const struct rule *rule, hx_obj object, hx_retainer retainer,
                                   uint64_t *set)
{
    struct visit {
        hx_obj object;
        hx_retainer retainer;
    } stack[RANDOM_GRAPH_MAX * 8 * 64 + 1];
    size_t n = 0;
    stack[n++] = (struct visit){object, retainer};
    while (n) {
        struct visit visit = stack[--n];
        if (set[visit.object] >> visit.retainer & 1)
            continue;
        set[visit.object] |= (uint64_t)1 << visit.retainer;
        hx_retainer own = rule->of_object[visit.object];
        for (size_t e = 0; e < graph->n_edges; e++)
            if (graph->edge[e].source == visit.object && is_followed(interior, graph->edge[e].kind))
                stack[n++] = (struct visit){graph->edge[e].target,
                                            own == HX_NO_RETAINER ? visit.retainer : own};
    }
}

/* How often it visits objects when a set with more than `max` elements (0: no limit) has them all,
 * as a recursion. */
struct document_walk {
    const struct random_graph *graph;
    enum hx_interior interior;
    const struct rule *rule;
    unsigned max;
    uint64_t set[RANDOM_GRAPH_MAX]; /* ~0: all */
    uint64_t visits;
};

static inline uint64_t document_limit(const struct document_walk *walk, uint64_t set)
{
    return walk->max && (unsigned)__builtin_popcountll(set) > walk->max ? ~(uint64_t)0 : set;
}

static inline void document_visit(struct document_walk *walk, hx_obj c, hx_retainer r)
{
    uint64_t was = walk->set[c];
    hx_retainer own = walk->rule->of_object[c];
    walk->visits++;
    if (was >> r & 1)
        return;
    walk->set[c] = document_limit(walk, was | (uint64_t)1 << r);
    if (was && own != HX_NO_RETAINER)
        return;
    for (size_t e = 0; e < walk->graph->n_edges; e++)
        if (walk->graph->edge[e].source == c &&
            is_followed(walk->interior, walk->graph->edge[e].kind))
            document_visit(walk, walk->graph->edge[e].target, own == HX_NO_RETAINER ? r : own);
}

/* The equations, applied until nothing changes. */
static inline void fixed_point(const struct random_graph *graph, enum hx_interior interior,
                               const struct rule *rule, const uint8_t *states, uint64_t *set)
{
    for (bool changed = true; changed;) {
        changed = false;
        for (size_t e = 0; e < graph->n_root_edges + graph->n_edges; e++) {
            bool root = e < graph->n_root_edges;
            const struct hx_drawn_edge *edge =
                root ? &graph->root_edge[e] : &graph->edge[e - graph->n_root_edges];
            hx_retainer own = root ? rule->of_root[edge->source] : rule->of_object[edge->source];
            if (!is_followed(interior, edge->kind) ||
                (!root && states[edge->source] != HX_STATE_REACHABLE &&
                 states[edge->source] != HX_STATE_POSSIBLE))
                continue;
            uint64_t from = own != HX_NO_RETAINER ? (uint64_t)1 << own
                            : root                ? 0
                                                  : set[edge->source];
            changed |= (set[edge->target] | from) != set[edge->target];
            set[edge->target] |= from;
        }
    }
}

/* What the distinct sets of at most `max` elements take (0: of any number). */
static inline uint64_t sets_take(const uint64_t *set, size_t n, unsigned max)
{
    uint64_t bytes = 0;
    for (size_t i = 0; i < n; i++) {
        unsigned size = (unsigned)__builtin_popcountll(set[i]);
        bool again = false;
        for (size_t k = 0; k < i && !again; k++)
            again = set[k] == set[i];
        if (size && !again && (!max || size <= max))
            bytes += HX_SET_BYTES + (uint64_t)size * HX_ELEMENT_BYTES;
    }
    return bytes;
}

/* The largest limit with which they have room; 0: none is needed. */
static inline unsigned limit_that_fits(const uint64_t *set, size_t n, uint64_t room)
{
    unsigned max = 64;
    if (sets_take(set, n, 0) <= room)
        return 0;
    while (max > 1 && sets_take(set, n, max) > room)
        max--;
    return max;
}

static inline void expect_set(const hx_sets *sets, hx_set got, uint64_t want, unsigned max)
{
    if (max && (unsigned)__builtin_popcountll(want) > max) {
        assert_int_equal(got, HX_SET_MANY);
        return;
    }
    const hx_retainer *element;
    size_t n = hx_sets_elements(sets, got, &element);
    uint64_t bits = 0;
    for (size_t i = 0; i < n; i++)
        bits |= (uint64_t)1 << element[i];
    assert_int_not_equal(got, HX_SET_MANY);
    assert_int_equal(bits, want);
}

#endif
