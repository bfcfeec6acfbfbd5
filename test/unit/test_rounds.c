/* test_rounds.c - rounds, nearest roots and the graph of holders on random graphs with random
 * evidence, against the plainest search. */
#include "random_graph.h"

#include "hold_model.h"

#include "traverse/reach.h"

static struct hx_snapshot *some_snapshot(struct unit_random *random, hx_obj most)
{
    static const enum hx_root_kind kinds[] = {HX_ROOT_GLOBAL, HX_ROOT_TLS, HX_ROOT_MAPPING,
                                              HX_ROOT_STACK, HX_ROOT_REGISTER};
    struct random_graph graph;
    struct hx_snapshot *s = NULL;
    while (!s || !s->graph.evidence) {
        hx_snapshot_destroy(s);
        random_graph_make(random, most, &graph);
        s = random_graph_snapshot(&graph);
        for (size_t i = 0; i < s->roots.n; i++)
            s->roots.v[i].kind = kinds[unit_below(random, 5)];
        model_judge(random, s);
    }
    s->interior = (enum hx_interior)unit_below(random, 3);
    for (size_t i = 0; i < s->roots.n; i++)
        if (!unit_below(random, 4)) {
            struct hx_named named = {.name = strdup("n"), .root = (uint32_t)i};
            assert_true(hx_vec_push(&s->named, named));
        }
    return s;
}

/* The last round has two stages: stray words are the last. */
static unsigned stage_of(const struct hx_hold_options *hold, hx_evidence evidence, unsigned round)
{
    return round == 4 && hx_word_rank(evidence, hold) == HX_RANK_STRAY ? 5 : round;
}

/* The distance in the graph of the stage, and the smallest order at it. *ret_stage: of each. */
static void nearest(const struct hx_snapshot *s, const struct hx_hold_options *hold,
                    const uint32_t *order, uint64_t *near, unsigned *ret_stage)
{
    const struct hx_graph *g = &s->graph;
    for (hx_obj i = 0; i < g->n; i++)
        near[i] = UINT64_MAX;
    for (unsigned now = 1; now <= HX_STAGES; now++) {
        uint64_t then[RANDOM_GRAPH_MAX]; /* those that this stage reaches */
        for (hx_obj i = 0; i < g->n; i++)
            then[i] = UINT64_MAX;
        for (size_t i = 0; i < s->root_edges.n; i++) {
            const struct hx_root_edge *edge = &s->root_edges.v[i];
            const unsigned round = model_root_round(s, hold, edge, false);
            const uint64_t from = (uint64_t)1 << 32 | order[edge->root];
            if (round != MODEL_UNREACHED && near[edge->target] == UINT64_MAX &&
                stage_of(hold, edge->evidence, round) <= now && from < then[edge->target])
                then[edge->target] = from;
        }
        for (bool more = true; more;) {
            more = false;
            for (hx_obj i = 0; i < g->n; i++) {
                const uint64_t at = near[i] != UINT64_MAX ? near[i] : then[i];
                for (hx_eidx e = g->fwd[i]; at != UINT64_MAX && e < g->fwd[i + 1]; e++) {
                    const hx_obj to = hx_edge_target(g->edge[e]);
                    const unsigned round = model_word_round(s, hold, g->evidence[e]);
                    const uint64_t next = at + ((uint64_t)1 << 32);
                    if (near[to] != UINT64_MAX || round == MODEL_UNREACHED ||
                        stage_of(hold, g->evidence[e], round) > now || next >= then[to])
                        continue;
                    then[to] = next;
                    more = true;
                }
            }
        }
        for (hx_obj i = 0; i < g->n; i++)
            if (then[i] != UINT64_MAX) {
                near[i] = then[i];
                ret_stage[i] = now;
            }
    }
}

static void compare_rounds(struct unit_random *random, struct hx_snapshot *s, unsigned threads)
{
    struct hx_graph *g = &s->graph;
    struct hx_hold_options hold = model_some_hold(random);
    bool named = unit_below(random, 2);
    unsigned round[RANDOM_GRAPH_MAX], stage[RANDOM_GRAPH_MAX];
    uint64_t near[RANDOM_GRAPH_MAX];
    uint32_t order[8];
    for (uint32_t i = 0; i < s->roots.n; i++)
        order[i] = (i * 3 + 1) % 8;
    model_rounds(s, &hold, named, round);
    if (named) {
        assert_done(hx_rounds_find(s, &hold, true, threads, NULL));
    } else {
        struct hx_big mem = {0};
        assert_done(hx_rounds_nearest(s, &hold, order, NULL, false, threads, NULL, &mem));
        nearest(s, &hold, order, near, stage);
        for (hx_obj i = 0; i < g->n; i++)
            assert_true(((const hx_nearness *)mem.base)[i] ==
                        (near[i] == UINT64_MAX
                             ? HX_UNREACHED
                             : hx_nearness_make(2 * stage[i], near[i] >> 32, (uint32_t)near[i])));
        hx_big_free(&mem);
    }
    for (hx_obj i = 0; i < g->n; i++)
        assert_int_equal(g->round[i], round[i] == MODEL_UNREACHED ? 0 : round[i]);
    if (named)
        assert_done(hx_edges_choose_named(s, &hold, threads));
    else
        hx_edges_choose(s, &hold, threads);
    for (hx_obj i = 0; i < g->n; i++)
        for (hx_eidx e = g->fwd[i]; e < g->fwd[i + 1]; e++)
            assert_int_equal(hx_edge_kind_of(g->edge[e]), model_is_chosen(s, &hold, round, i, e)
                                                              ? HX_EVIDENCE_KIND(g->evidence[e])
                                                              : HX_EDGE_ASIDE);
    for (size_t i = 0; i < s->root_edges.n; i++) {
        const struct hx_root_edge *edge = &s->root_edges.v[i];
        assert_int_equal(edge->kind, model_root_is_chosen(s, &hold, round, edge, named)
                                         ? HX_EVIDENCE_KIND(edge->evidence)
                                         : HX_EDGE_ASIDE);
    }
}

static void random_rounds(void **state)
{
    (void)state;
    struct unit_random random = unit_random_begin("random_rounds");
    for (size_t n = 0; n < unit_rounds(3000); n++) {
        struct hx_snapshot *s = some_snapshot(&random, n % 2 ? 8 : RANDOM_GRAPH_MAX);
        struct hx_graph *g = &s->graph;
        hx_edge *edge = malloc(g->n_edges * sizeof *edge);
        assert_non_null(edge);
        memcpy(edge, g->edge, g->n_edges * sizeof *edge);
        for (int again = 0; again < 2; again++) /* what is set aside does not matter */
            compare_rounds(&random, s, 1 + (unsigned)unit_below(&random, 2));
        hx_edges_restore(s, 1);
        assert_memory_equal(edge, g->edge, g->n_edges * sizeof *edge);
        for (size_t i = 0; i < s->root_edges.n; i++)
            assert_int_equal(s->root_edges.v[i].kind,
                             HX_EVIDENCE_KIND(s->root_edges.v[i].evidence));
        free(edge);
        hx_snapshot_destroy(s);
    }
}

/* What all edges reach the chosen ones reach. */
static void nothing_is_lost(void **state)
{
    (void)state;
    struct unit_random random = unit_random_begin("nothing_is_lost");
    for (size_t n = 0; n < unit_rounds(1000); n++) {
        struct hx_snapshot *s = some_snapshot(&random, RANDOM_GRAPH_MAX);
        struct hx_hold_options hold = model_some_hold(&random);
        assert_done(hx_reach(s, s->interior, 1, NULL));
        assert_done(hx_rounds_find(s, &hold, false, 1, NULL));
        for (hx_obj i = 0; i < s->graph.n; i++) {
            bool lost =
                s->graph.state[i] == HX_STATE_DEFINITE || s->graph.state[i] == HX_STATE_INDIRECT;
            assert_true(lost == !s->graph.round[i]);
        }
        hx_snapshot_destroy(s);
    }
}

/* Levels that several workers share. */
static void large(void **state)
{
    (void)state;
    struct unit_random random = unit_random_begin("large");
    enum { N = 200000 };
    struct hx_drawn_edge *edge = calloc(3 * (size_t)N, sizeof *edge);
    struct hx_drawn_edge root[64];
    assert_non_null(edge);
    for (size_t i = 0; i < 3 * (size_t)N; i++)
        edge[i] = (struct hx_drawn_edge){(hx_obj)(i / 3), (hx_obj)unit_below(&random, N),
                                         (uint8_t)unit_below(&random, 3)};
    for (uint32_t i = 0; i < 64; i++)
        root[i] = (struct hx_drawn_edge){i, (hx_obj)unit_below(&random, N), HX_EDGE_START};
    struct hx_snapshot *s;
    assert_done(hx_image_graph(N, edge, 3 * (size_t)N, 64, root, 64, &s));
    while (!s->graph.evidence)
        model_judge(&random, s);
    struct hx_hold_options hold = {.holders = true};
    unsigned *round = calloc(N, sizeof *round);
    uint32_t order[64];
    assert_non_null(round);
    for (uint32_t i = 0; i < 64; i++)
        order[i] = 63 - i;
    model_rounds(s, &hold, false, round);
    struct hx_big near[2] = {0};
    for (unsigned i = 0; i < 2; i++)
        assert_done(hx_rounds_nearest(s, &hold, order, NULL, false, i ? 4 : 1, NULL, &near[i]));
    assert_memory_equal(near[0].base, near[1].base, N * sizeof(hx_nearness));
    for (hx_obj i = 0; i < N; i++)
        assert_int_equal(s->graph.round[i], round[i] == MODEL_UNREACHED ? 0 : round[i]);
    hx_big_free(&near[0]);
    hx_big_free(&near[1]);
    hx_snapshot_destroy(s);
    free(round);
    free(edge);
}

/* A list that points back to its head is the head's, whatever else leads to its blocks. */
static void lists_have_heads(void **state)
{
    (void)state;
    enum { HEAD, FIRST, SECOND, LAST, ARRAY, N };
    static const struct hx_drawn_edge edge[] = {
        {HEAD, FIRST, HX_EDGE_START},   {FIRST, HEAD, HX_EDGE_INTERIOR},
        {FIRST, SECOND, HX_EDGE_START}, {SECOND, FIRST, HX_EDGE_START},
        {SECOND, LAST, HX_EDGE_START},  {LAST, SECOND, HX_EDGE_START},
        {LAST, HEAD, HX_EDGE_INTERIOR}, {ARRAY, FIRST, HX_EDGE_START},
        {ARRAY, SECOND, HX_EDGE_START}, {ARRAY, LAST, HX_EDGE_START},
    };
    static const struct hx_drawn_edge root[] = {{0, HEAD, HX_EDGE_START},
                                                {1, ARRAY, HX_EDGE_START}};
    const struct hx_hold_options hold = {.holders = true};
    for (uint32_t first = 0; first < 2; first++) { /* whoever comes first by order */
        const uint32_t order[] = {first, 1 - first};
        struct hx_snapshot *s;
        struct hx_structures structures;
        struct hx_big near = {0};
        assert_done(hx_image_graph(N, edge, sizeof edge / sizeof *edge, 2, root, 2, &s));
        struct hx_graph *g = &s->graph;
        assert_done(hx_big_array(g->evidence, g->n_edges));
        for (hx_obj i = 0; i < N; i++)
            for (hx_eidx e = g->fwd[i]; e < g->fwd[i + 1]; e++) {
                hx_obj to = hx_edge_target(g->edge[e]);
                bool link = i >= FIRST && i <= LAST && to >= FIRST && to <= LAST;
                g->evidence[e] =
                    HX_EVIDENCE(link ? HX_RULE_link : 0, (unsigned)hx_edge_kind_of(g->edge[e]));
            }
        for (size_t i = 0; i < s->root_edges.n; i++)
            s->root_edges.v[i].evidence = HX_EVIDENCE(0, HX_EDGE_START);
        assert_done(hx_structures_find(g, 1, NULL, &structures));
        for (hx_obj i = FIRST; i <= LAST; i++)
            assert_int_equal(structures.of[i], FIRST);
        assert_done(hx_rounds_nearest(s, &hold, order, &structures, false, 1, NULL, &near));
        for (hx_obj i = 0; i < N; i++)
            assert_int_equal(hx_nearness_order(((const hx_nearness *)near.base)[i]),
                             order[i == ARRAY]);
        hx_big_free(&near);
        hx_structures_deinit(&structures);
        hx_snapshot_destroy(s);
    }
}

static void rule_words(void **state)
{
    (void)state;
    uint64_t off = 0;
    assert_done(hx_rules_parse("-few,-field", &off));
    assert_int_equal(off, 1u << HX_RULE_few | 1u << HX_RULE_field);
    assert_done(hx_rules_parse("+few -text", &off));
    assert_int_equal(off, 1u << HX_RULE_field | 1u << HX_RULE_text);
    assert_done(hx_rules_parse("", &off));
    hx_error *err = hx_rules_parse("few", &off);
    assert_non_null(err);
    assert_int_equal(err->kind, HX_E_USAGE);
    hx_error_free(err);
    err = hx_rules_parse("-nothing", &off);
    assert_non_null(err);
    hx_error_free(err);
    const struct hx_hold_options hold = {.holders = true, .off = off};
    assert_int_equal(hx_word_rank(HX_EVIDENCE(HX_RULE_few, 0), &hold), HX_RANK_SPARSE);
    assert_int_equal(hx_word_rank(HX_EVIDENCE(HX_RULE_field, 2), &hold), HX_RANK_FIRM);
    assert_int_equal(hx_word_rank(HX_EVIDENCE(63, 2), &hold), HX_RANK_FIRM);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_rounds), cmocka_unit_test(nothing_is_lost),
        cmocka_unit_test(large),         cmocka_unit_test(lists_have_heads),
        cmocka_unit_test(rule_words),
    };
    return unit_run_some(tests);
}
