/* hold_model.h - words of random snapshots judged at random, and in which round each object is
 * reached then: by relaxing every edge until nothing changes. */
#ifndef HX_TEST_HOLD_MODEL_H
#define HX_TEST_HOLD_MODEL_H

#include "store_model.h"

#include "traverse/hold/rounds.h"

/* Each word by any rule; firm ones, which no rule finds, most often. */
static inline hx_evidence model_evidence(struct unit_random *random, unsigned kind)
{
    unsigned rule = unit_below(random, 3) ? 0 : (unsigned)unit_below(random, HX_RULE_COUNT);
    return HX_EVIDENCE(rule, kind);
}

static inline void model_judge(struct unit_random *random, struct hx_snapshot *s)
{
    struct hx_graph *g = &s->graph;
    for (size_t i = 0; i < s->root_edges.n; i++)
        s->root_edges.v[i].evidence = HX_EVIDENCE(0, s->root_edges.v[i].kind);
    if (!g->n_edges || !unit_below(random, 3))
        return; /* nobody looked */
    assert_done(hx_big_array(g->evidence, g->n_edges));
    for (hx_eidx e = 0; e < g->n_edges; e++)
        g->evidence[e] = model_evidence(random, hx_edge_kind_of(g->edge[e]));
    for (size_t i = 0; i < s->root_edges.n; i++) {
        struct hx_root_edge *edge = &s->root_edges.v[i];
        if (s->roots.v[edge->root].kind != HX_ROOT_NAMED)
            edge->evidence = model_evidence(random, edge->kind);
    }
    static const char *const shapes[] = {"16 bytes: {}", "a'b", "48 bytes: {-> self}"};
    for (size_t i = 0; i < 3; i++)
        assert_true(hx_vec_push(&s->shapes, ((struct hx_shape){strdup(shapes[i])})));
    assert_done(hx_big_array(g->shape, g->n));
    for (hx_obj i = 0; i < g->n; i++) {
        uint64_t shape = unit_below(random, 4);
        g->shape[i] = shape < 3 ? (uint16_t)shape : HX_NO_SHAPE;
    }
}

/* As nobody had looked. */
static inline void model_unjudge(struct hx_snapshot *s)
{
    hx_big_array_free(s->graph.evidence);
    hx_big_array_free(s->graph.shape);
    while (s->shapes.n)
        free(s->shapes.v[--s->shapes.n].label);
    for (size_t i = 0; i < s->root_edges.n; i++)
        s->root_edges.v[i].evidence = HX_EVIDENCE(0, s->root_edges.v[i].kind);
}

static inline struct hx_hold_options model_some_hold(struct unit_random *random)
{
    struct hx_hold_options hold = {.holders = unit_below(random, 4)};
    for (unsigned rule = 1; rule < HX_RULE_COUNT; rule++)
        hold.off |= (uint64_t)!unit_below(random, 6) << rule;
    return hold;
}

/* --- rounds, by the words of the contract -------------------------------------------- */

enum { MODEL_UNREACHED = 9 };

static inline unsigned model_word_round(const struct hx_snapshot *s,
                                        const struct hx_hold_options *hold, hx_evidence evidence)
{
    static const unsigned of_rank[] = {1, 3, 4};
    unsigned rule = HX_EVIDENCE_RULE(evidence);
    bool interior = HX_EVIDENCE_KIND(evidence) == HX_EDGE_INTERIOR;
    bool intrusive =
        (rule == HX_RULE_intrusive || rule == HX_RULE_ring || rule == HX_RULE_inside) &&
        !(hold->off >> rule & 1);
    if (interior && s->interior == HX_INTERIOR_OFF)
        return MODEL_UNREACHED;
    bool piece = rule == HX_RULE_piece && !(hold->off >> rule & 1) && hold->holders;
    if (((interior && !intrusive) || piece) && s->interior == HX_INTERIOR_KNOWN)
        return 4;
    return hold->holders ? of_rank[hx_word_rank(evidence, hold)] : 1;
}

static inline bool model_is_named(const struct hx_snapshot *s, uint32_t root)
{
    bool named = s->roots.v[root].kind == HX_ROOT_NAMED;
    for (size_t i = 0; i < s->named.n; i++)
        named |= s->named.v[i].root == root;
    return named;
}

static inline unsigned model_root_round(const struct hx_snapshot *s,
                                        const struct hx_hold_options *hold,
                                        const struct hx_root_edge *edge, bool named)
{
    enum hx_root_kind kind = s->roots.v[edge->root].kind;
    unsigned round = model_word_round(s, hold, edge->evidence);
    if (round == MODEL_UNREACHED || (kind == HX_ROOT_NAMED && !named))
        return MODEL_UNREACHED;
    if (named && model_is_named(s, edge->root))
        return 1;
    bool thread = kind == HX_ROOT_STACK || kind == HX_ROOT_FRAME || kind == HX_ROOT_REGISTER;
    bool pointer =
        HX_EVIDENCE_RULE(edge->evidence) == HX_RULE_pointer && !(hold->off >> HX_RULE_pointer & 1);
    return thread && round == 1 && !pointer ? 2 : round;
}

static inline unsigned model_larger(unsigned a, unsigned b)
{
    return a > b ? a : b;
}

/* ret[i]: 1 to 4, or MODEL_UNREACHED. */
static inline void model_rounds(const struct hx_snapshot *s, const struct hx_hold_options *hold,
                                bool named, unsigned *ret)
{
    const struct hx_graph *g = &s->graph;
    for (hx_obj i = 0; i < g->n; i++)
        ret[i] = MODEL_UNREACHED;
    for (size_t i = 0; i < s->root_edges.n; i++) {
        const struct hx_root_edge *edge = &s->root_edges.v[i];
        unsigned round = model_root_round(s, hold, edge, named);
        if (round < ret[edge->target])
            ret[edge->target] = round;
    }
    for (bool more = true; more;) {
        more = false;
        for (hx_obj i = 0; i < g->n; i++) {
            for (hx_eidx e = g->fwd[i]; e < g->fwd[i + 1]; e++) {
                hx_obj to = hx_edge_target(g->edge[e]);
                unsigned round = model_larger(model_word_round(s, hold, g->evidence[e]), ret[i]);
                if (round >= ret[to])
                    continue;
                ret[to] = round;
                more = true;
            }
        }
    }
}

static inline bool model_is_chosen(const struct hx_snapshot *s, const struct hx_hold_options *hold,
                                   const unsigned *round, hx_obj source, hx_eidx e)
{
    const struct hx_graph *g = &s->graph;
    unsigned own = model_word_round(s, hold, g->evidence[e]);
    if (round[source] == MODEL_UNREACHED) /* of lost objects all */
        return true;
    return model_larger(own, round[source]) == round[hx_edge_target(g->edge[e])];
}

static inline bool model_root_is_chosen(const struct hx_snapshot *s,
                                        const struct hx_hold_options *hold, const unsigned *round,
                                        const struct hx_root_edge *edge, bool named)
{
    if (s->roots.v[edge->root].kind == HX_ROOT_NAMED || (named && model_is_named(s, edge->root)))
        return true;
    return model_root_round(s, hold, edge, named) == round[edge->target];
}

#endif
