/* test_retain.c - retainer sets against the document's own algorithm and its equations. */
#include "retain_oracle.h"

#include "traverse/components.h"
#include "traverse/reach.h"
#include "traverse/retain/retain.h"
#include "traverse/retain/visits.h"

enum { RETAINERS = 12 };

/* --- sets ------------------------------------------------------------------------- */

static hx_set set_of_bits(hx_sets *sets, uint64_t bits, struct unit_random *random)
{
    hx_set set = HX_SET_NONE;
    while (bits) { /* in any order: the set must be the same */
        unsigned skip = (unsigned)unit_below(random, (uint64_t)__builtin_popcountll(bits));
        uint64_t rest = bits;
        for (unsigned i = 0; i < skip; i++)
            rest &= rest - 1;
        unsigned bit = (unsigned)__builtin_ctzll(rest);
        set = hx_sets_add(sets, set, bit);
        bits &= ~((uint64_t)1 << bit);
    }
    return set;
}

static void test_sets(void **state)
{
    (void)state;
    struct unit_random random = unit_random_begin("sets");
    for (unsigned max = 0; max <= 8; max += 4) {
        hx_sets *sets;
        assert_null(hx_sets_create(max, &sets));
        for (size_t round = unit_rounds(20000); round; round--) {
            uint64_t a = unit_random(&random) & unit_random(&random) & 0xffff;
            uint64_t b = unit_random(&random) & unit_random(&random) & 0xffff;
            hx_set x = set_of_bits(sets, a, &random), y = set_of_bits(sets, b, &random);
            hx_set both = hx_sets_union(sets, x, y);
            assert_int_equal(both, hx_sets_union(sets, y, x));
            assert_int_equal(both, set_of_bits(sets, a | b, &random));
            const hx_retainer *element;
            size_t n = hx_sets_elements(sets, both, &element);
            unsigned bits = (unsigned)__builtin_popcountll(a | b);
            assert_true(both == HX_SET_MANY ? max && bits > max : n == bits);
            for (size_t i = 0; i < n; i++) {
                assert_true((a | b) >> element[i] & 1);
                assert_true(i == 0 || element[i - 1] < element[i]);
            }
            for (hx_retainer i = 0; i < 16; i++)
                assert_int_equal(hx_sets_member(sets, both, i),
                                 both == HX_SET_MANY || ((a | b) >> i & 1));
        }
        assert_false(hx_sets_failed(sets));
        hx_sets_destroy(sets);
    }
}

/* --- graphs ------------------------------------------------------------------------ */

/* Several retainers share an identity; one graph in three has none among its objects. */
static void make_rule(struct unit_random *random, const struct random_graph *graph,
                      struct rule *rule)
{
    bool none = unit_below(random, 3) == 0;
    for (uint32_t i = 0; i < graph->n_roots; i++)
        rule->of_root[i] =
            unit_below(random, 8) ? (hx_retainer)unit_below(random, RETAINERS) : HX_NO_RETAINER;
    for (hx_obj i = 0; i < graph->n; i++)
        rule->of_object[i] = !none && unit_below(random, 4) == 0
                                 ? (hx_retainer)unit_below(random, RETAINERS)
                                 : HX_NO_RETAINER;
}

/* The document's own traversal comes to the same sets, and as often to objects as a recursion that
 * takes edges in the snapshot's order. */
static void expect_visits(const struct random_graph *graph, const struct rule *rule,
                          const struct hx_snapshot *snapshot, unsigned max,
                          const struct hx_retention *retention, hx_sets *sets)
{
    struct document_walk walk = {
        .graph = graph, .interior = snapshot->interior, .rule = rule, .max = max};
    struct hx_retain_rule given = {.of_root = rule->of_root, .of_object = rule->of_object};
    struct hx_visits visits;
    struct random_graph sorted = *graph;
    size_t n = 0;
    for (hx_obj i = 0; i < graph->n; i++)
        for (hx_eidx e = snapshot->graph.fwd[i]; e < snapshot->graph.fwd[(size_t)i + 1]; e++)
            sorted.edge[n++] =
                (struct hx_drawn_edge){i, hx_edge_target(snapshot->graph.edge[e]),
                                       (uint8_t)hx_edge_kind_of(snapshot->graph.edge[e])};
    sorted.n_edges = n;
    walk.graph = &sorted;
    for (size_t i = 0; i < snapshot->root_edges.n; i++)
        if (is_followed(walk.interior, snapshot->root_edges.v[i].kind))
            document_visit(&walk, snapshot->root_edges.v[i].target,
                           rule->of_root[snapshot->root_edges.v[i].root]);
    assert_null(hx_visits(snapshot, &given, sets, NULL, &visits));
    assert_int_equal(visits.visits, walk.visits);
    assert_int_equal(visits.objects, retention->objects);
    for (hx_obj i = 0; i < graph->n; i++)
        assert_int_equal(visits.set[i], retention->set[i]);
    hx_visits_deinit(&visits);
}

static void one_graph(struct unit_random *random)
{
    struct random_graph graph;
    struct rule rule;
    random_graph_make(random, RANDOM_GRAPH_MAX, &graph);
    make_rule(random, &graph, &rule);
    struct hx_snapshot *snapshot = random_graph_snapshot(&graph);
    enum hx_interior interior = (enum hx_interior)unit_below(random, 3);
    assert_null(hx_reach(snapshot, interior, 1, NULL));
    unsigned max = (unsigned)unit_below(random, 3) * 2;
    hx_sets *sets;
    struct hx_retention retention;
    struct hx_retain_rule given = {.of_root = rule.of_root, .of_object = rule.of_object};
    assert_null(hx_sets_create(max, &sets));
    assert_null(hx_retain(snapshot, &given, sets, NULL, &retention));

    uint64_t document[RANDOM_GRAPH_MAX] = {0}, equations[RANDOM_GRAPH_MAX] = {0};
    bool all = true;
    for (uint32_t i = 0; i < graph.n_roots; i++)
        all &= rule.of_root[i] != HX_NO_RETAINER;
    for (size_t e = 0; e < graph.n_root_edges; e++)
        if (rule.of_root[graph.root_edge[e].source] != HX_NO_RETAINER &&
            is_followed(interior, graph.root_edge[e].kind))
            document_retain(&graph, interior, &rule, graph.root_edge[e].target,
                            rule.of_root[graph.root_edge[e].source], document);
    fixed_point(&graph, interior, &rule, snapshot->graph.state, equations);
    for (hx_obj i = 0; i < graph.n; i++) {
        expect_set(sets, retention.set[i], equations[i], max);
        /* What only roots without an identity reach, the algorithm never comes to. */
        if (all)
            assert_int_equal(document[i], equations[i]);
        else
            assert_int_equal(document[i] & ~equations[i], 0);
    }
    if (all)
        expect_visits(&graph, &rule, snapshot, max, &retention, sets);
    hx_retention_deinit(&retention);
    hx_sets_destroy(sets);
    hx_snapshot_destroy(snapshot);
}

static void test_random_graphs(void **state)
{
    (void)state;
    struct unit_random random = unit_random_begin("retainer sets");
    for (size_t round = unit_rounds(4000); round; round--)
        one_graph(&random);
}

/* Graphs of thousands of objects, against the equations alone. */
static void large_equations(const struct hx_snapshot *snapshot, const struct hx_retain_rule *rule,
                            uint64_t *set)
{
    const struct hx_graph *graph = &snapshot->graph;
    for (size_t e = 0; e < snapshot->root_edges.n; e++)
        set[snapshot->root_edges.v[e].target] |= (uint64_t)1
                                                 << rule->of_root[snapshot->root_edges.v[e].root];
    for (bool changed = true; changed;) {
        changed = false;
        for (hx_obj i = 0; i < graph->n; i++) {
            hx_retainer own = rule->of_object ? rule->of_object[i] : HX_NO_RETAINER;
            uint64_t from = own != HX_NO_RETAINER && set[i] ? (uint64_t)1 << own : set[i];
            for (hx_eidx e = graph->fwd[i]; e < graph->fwd[i + 1]; e++) {
                uint64_t *to = &set[hx_edge_target(graph->edge[e])];
                changed |= (*to | from) != *to;
                *to |= from;
            }
        }
    }
}

static void test_large_graphs(void **state)
{
    (void)state;
    enum { ROOTS = 100 };
    struct unit_random random = unit_random_begin("retainer sets of large graphs");
    for (size_t round = unit_rounds(30); round; round--) {
        struct hx_snapshot *snapshot = random_graph_large(&random, ROOTS);
        hx_obj n = snapshot->graph.n;
        hx_retainer of_root[ROOTS], *of_object = malloc(n * sizeof *of_object);
        uint64_t *want = calloc(n, sizeof *want), rare = 2 + unit_below(&random, 50);
        assert_true(of_object && want);
        assert_null(hx_reach(snapshot, HX_INTERIOR_KNOWN, 1, NULL));
        for (size_t i = 0; i < ROOTS; i++)
            of_root[i] = (hx_retainer)unit_below(&random, 64);
        for (hx_obj i = 0; i < n; i++)
            of_object[i] =
                unit_below(&random, rare) ? HX_NO_RETAINER : (hx_retainer)unit_below(&random, 64);
        const struct hx_retain_rule rule = {.of_root = of_root,
                                            .of_object = unit_below(&random, 2) ? of_object : NULL};
        large_equations(snapshot, &rule, want);
        for (unsigned max = 0; max <= 8; max += 4) {
            hx_sets *sets;
            struct hx_retention retention;
            assert_null(hx_sets_create(max, &sets));
            assert_null(hx_retain(snapshot, &rule, sets, NULL, &retention));
            for (hx_obj i = 0; i < n; i++)
                expect_set(sets, retention.set[i], want[i], max);
            hx_retention_deinit(&retention);
            hx_sets_destroy(sets);
        }
        hx_snapshot_destroy(snapshot);
        free(of_object);
        free(want);
    }
}

/* --- edges that were set aside ----------------------------------------------------------- */

static void set_some_aside(struct unit_random *random, struct hx_snapshot *snapshot)
{
    struct hx_graph *graph = &snapshot->graph;
    uint64_t rare = 1 + unit_below(random, 20);
    assert_null(hx_big_array(graph->evidence, graph->n_edges + 1));
    for (hx_eidx e = 0; e < graph->n_edges; e++) {
        graph->evidence[e] = HX_EVIDENCE(0, hx_edge_kind_of(graph->edge[e]));
        if (unit_below(random, rare) == 0)
            graph->edge[e] |= HX_EDGE_ASIDE;
    }
    for (size_t i = 0; i < snapshot->root_edges.n; i++) {
        struct hx_root_edge *edge = &snapshot->root_edges.v[i];
        edge->evidence = HX_EVIDENCE(0, edge->kind);
        if (unit_below(random, rare) == 0)
            edge->kind = HX_EDGE_ASIDE;
    }
}

static uint64_t count_others(const struct hx_snapshot *snapshot, const hx_sets *sets,
                             const struct hx_retention *retention, const hx_sets *other_sets,
                             const struct hx_retention *other)
{
    uint64_t bytes = 0;
    for (hx_obj i = 0; i < snapshot->graph.n; i++) {
        const hx_retainer *x, *y;
        size_t n = hx_sets_elements(sets, retention->set[i], &x),
               m = hx_sets_elements(other_sets, other->set[i], &y);
        bool many = retention->set[i] == HX_SET_MANY, other_many = other->set[i] == HX_SET_MANY;
        if (many != other_many || n != m || (n && memcmp(x, y, n * sizeof *x) != 0))
            bytes += snapshot->graph.size[i];
    }
    return bytes;
}

/* `room`: elements of sets that there may be. */
static void compare_doubt(struct unit_random *random, struct hx_snapshot *snapshot,
                          const struct hx_retain_rule *rule, size_t room)
{
    unsigned max = (unsigned)unit_below(random, 3) * 4;
    hx_sets *sets, *all_sets;
    struct hx_retention retention, all;
    uint64_t bytes = 0;
    assert_null(hx_sets_create(max, &all_sets));
    assert_null(hx_retain(snapshot, rule, all_sets, NULL, &all));
    set_some_aside(random, snapshot);
    assert_null(hx_sets_create(max ? max : HX_SETS_AUTO, &sets));
    assert_null(hx_retain(snapshot, rule, sets, NULL, &retention));
    hx_error *err = hx_retain_doubt(snapshot, rule, sets, &retention, room, NULL, &bytes);
    if (err)
        assert_int_equal(err->kind, HX_E_LIMIT);
    else
        assert_int_equal(bytes, count_others(snapshot, sets, &retention, all_sets, &all));
    assert_true(!err || room < 1 << 20);
    hx_error_free(err);
    hx_retention_deinit(&retention);
    hx_retention_deinit(&all);
    hx_sets_destroy(sets);
    hx_sets_destroy(all_sets);
}

static void test_doubt(void **state)
{
    (void)state;
    enum { ROOTS = 100 };
    struct unit_random random = unit_random_begin("doubt");
    for (size_t round = unit_rounds(2000); round; round--) {
        bool large = round % 8 == 0;
        struct random_graph graph;
        random_graph_make(&random, RANDOM_GRAPH_MAX, &graph);
        struct hx_snapshot *snapshot =
            large ? random_graph_large(&random, ROOTS) : random_graph_snapshot(&graph);
        hx_obj n = snapshot->graph.n;
        uint64_t rare = 2 + unit_below(&random, 50);
        hx_retainer of_root[ROOTS], *of_object = malloc((n + 1u) * sizeof *of_object);
        assert_non_null(of_object);
        assert_null(hx_reach(snapshot, (enum hx_interior)unit_below(&random, 3), 1, NULL));
        for (size_t i = 0; i < ROOTS; i++)
            of_root[i] =
                unit_below(&random, 8) ? (hx_retainer)unit_below(&random, 64) : HX_NO_RETAINER;
        for (hx_obj i = 0; i < n; i++)
            of_object[i] =
                unit_below(&random, rare) ? HX_NO_RETAINER : (hx_retainer)unit_below(&random, 64);
        const struct hx_retain_rule rule = {.of_root = of_root,
                                            .of_object = unit_below(&random, 2) ? of_object : NULL,
                                            .threads = 1};
        bool little = unit_below(&random, 4) != 0;
        compare_doubt(&random, snapshot, &rule,
                      little ? unit_below(&random, large ? 20000 : 30) : 1 << 20);
        hx_snapshot_destroy(snapshot);
        free(of_object);
    }
}

/* --- components ----------------------------------------------------------------------- */

static void test_components(void **state)
{
    (void)state;
    struct unit_random random = unit_random_begin("components");
    for (size_t round = unit_rounds(3000); round; round--) {
        struct random_graph graph;
        random_graph_make(&random, RANDOM_GRAPH_MAX, &graph);
        struct hx_snapshot *snapshot = random_graph_snapshot(&graph);
        assert_null(hx_reach(snapshot, HX_INTERIOR_ON, 1, NULL));
        uint64_t cut[1] = {unit_random(&random) & unit_random(&random)};
        const struct hx_scope scope = {
            .states = 1u << HX_STATE_REACHABLE, .follows = 3, .cut = cut};
        struct hx_components components;
        assert_null(hx_components_find(&snapshot->graph, &scope, NULL, &components));
        uint64_t path[RANDOM_GRAPH_MAX] = {0}, in = 0;
        for (hx_obj i = 0; i < graph.n; i++)
            if (snapshot->graph.state[i] == HX_STATE_REACHABLE) {
                path[i] = (uint64_t)1 << i;
                in |= path[i];
            }
        for (size_t e = 0; e < graph.n_edges; e++) {
            hx_obj from = graph.edge[e].source, to = graph.edge[e].target;
            if (graph.edge[e].kind < 2 && (in >> from & 1) && (in >> to & 1) &&
                !(cut[0] >> from & 1))
                path[from] |= (uint64_t)1 << to;
        }
        uint64_t step[RANDOM_GRAPH_MAX];
        memcpy(step, path, sizeof step);
        for (hx_obj via = 0; via < graph.n; via++)
            for (hx_obj from = 0; from < graph.n; from++)
                if (path[from] >> via & 1)
                    path[from] |= path[via];
        assert_int_equal(components.n_objects, __builtin_popcountll(in));
        for (hx_obj a = 0; a < graph.n && components.n; a++) {
            assert_int_equal(components.number[a] == HX_NO_OBJ, !(in >> a & 1));
            for (hx_obj b = 0; b < graph.n; b++) {
                if (!(in >> a & 1) || !(in >> b & 1))
                    continue;
                bool same = (path[a] >> b & 1) && (path[b] >> a & 1);
                assert_int_equal(components.number[a] == components.number[b], same);
                if (step[a] >> b & 1)
                    assert_true(components.number[a] <= components.number[b]);
            }
        }
        for (hx_obj k = 1; k < components.n_objects; k++)
            assert_true(components.number[components.order[k - 1]] <=
                        components.number[components.order[k]]);
        hx_components_deinit(&components);
        hx_snapshot_destroy(snapshot);
    }
}

/* --- shapes that hurt --------------------------------------------------------------------- */

static uint64_t bits_of(const hx_sets *sets, hx_set set)
{
    const hx_retainer *element;
    uint64_t bits = 0;
    for (size_t i = hx_sets_elements(sets, set, &element); i; i--)
        bits |= (uint64_t)1 << element[i - 1];
    return bits;
}

/* The least sets that fulfil the equations, by going over all edges until nothing changes. */
static void check_equations(const struct hx_snapshot *snapshot, const struct hx_retain_rule *rule,
                            const hx_sets *sets, const hx_set *got)
{
    const struct hx_graph *graph = &snapshot->graph;
    uint64_t *want = calloc(graph->n, sizeof *want);
    for (size_t i = 0; i < snapshot->root_edges.n; i++)
        want[snapshot->root_edges.v[i].target] |= (uint64_t)1
                                                  << rule->of_root[snapshot->root_edges.v[i].root];
    for (bool changed = true; changed;) {
        changed = false;
        for (hx_obj i = 0; i < graph->n; i++) {
            bool retains = rule->of_object[i] != HX_NO_RETAINER;
            uint64_t from = !want[i] ? 0 : retains ? (uint64_t)1 << rule->of_object[i] : want[i];
            for (hx_eidx e = graph->fwd[i]; e < graph->fwd[i + 1]; e++) {
                uint64_t *to = &want[hx_edge_target(graph->edge[e])];
                changed |= (from & ~*to) != 0;
                *to |= from;
            }
        }
    }
    for (hx_obj i = 0; i < graph->n; i++)
        assert_int_equal(bits_of(sets, got[i]), want[i]);
    free(want);
}

/* The same limit is found by any number of threads, and the sets are those without a limit but for
 * the larger ones. */
static void check_found_limits(const struct hx_snapshot *snapshot,
                               const struct hx_retain_rule *given, const hx_sets *sets,
                               const hx_set *exact)
{
    const hx_obj n = snapshot->graph.n;
    for (uint64_t room = 200; room < 200000; room *= 10) {
        unsigned limit = 0;
        for (unsigned threads = 1; threads <= 4; threads += 3) {
            struct hx_retain_rule rule = *given;
            struct hx_retention retention;
            hx_sets *found;
            rule.threads = threads;
            assert_null(hx_sets_create(HX_SETS_AUTO, &found));
            hx_sets_make_room(found, room);
            assert_null(hx_retain(snapshot, &rule, found, NULL, &retention));
            if (threads == 1)
                limit = hx_sets_limit(found);
            assert_int_equal(hx_sets_limit(found), limit);
            for (hx_obj i = 0; i < n; i++)
                expect_set(found, retention.set[i], bits_of(sets, exact[i]), limit);
            hx_retention_deinit(&retention);
            hx_sets_destroy(found);
        }
    }
}

/* Large enough for several threads: whatever they do, the sets have the same numbers, and are
 * what the equations give. */
static void test_threads(void **state)
{
    (void)state;
    enum { ROOTS = 9 };
    struct unit_random random = unit_random_begin("retainer sets, threads");
    const hx_obj n = hx_image_objects(60000);
    struct hx_drawn_edge *edge = calloc((size_t)n * 3, sizeof *edge), root_edge[ROOTS * 40];
    hx_retainer of_root[ROOTS], *of_object = malloc(n * sizeof *of_object);
    for (size_t round = unit_rounds(10); round; round--) {
        size_t n_edges = 0, most = 1 + unit_below(&random, 3), far = unit_below(&random, 3);
        for (hx_obj i = 0; i < n; i++) {
            of_object[i] = round % 2 && unit_below(&random, 50) == 0
                               ? ROOTS + (hx_retainer)unit_below(&random, 3)
                               : HX_NO_RETAINER;
            for (uint64_t k = unit_below(&random, most + 1); k; k--)
                edge[n_edges++] = (struct hx_drawn_edge){
                    i, (hx_obj)((i + unit_below(&random, far ? n : 20)) % n), HX_EDGE_START};
        }
        for (uint32_t i = 0; i < ROOTS * 40; i++)
            root_edge[i] =
                (struct hx_drawn_edge){i / 40, (hx_obj)unit_below(&random, n), HX_EDGE_START};
        for (hx_retainer i = 0; i < ROOTS; i++)
            of_root[i] = i;
        struct hx_snapshot *snapshot;
        assert_null(hx_image_graph(n, edge, n_edges, ROOTS, root_edge, ROOTS * 40, &snapshot));
        assert_null(hx_reach(snapshot, HX_INTERIOR_KNOWN, 1, NULL));
        hx_set *alone = NULL;
        for (unsigned threads = 1; threads <= 4; threads++) {
            hx_sets *sets;
            struct hx_retention retention;
            const struct hx_retain_rule rule = {
                .of_root = of_root, .of_object = of_object, .threads = threads};
            assert_null(hx_sets_create(0, &sets));
            assert_null(hx_retain(snapshot, &rule, sets, NULL, &retention));
            if (!alone) {
                alone = malloc(n * sizeof *alone);
                memcpy(alone, retention.set, n * sizeof *alone);
                check_equations(snapshot, &rule, sets, retention.set);
                check_found_limits(snapshot, &rule, sets, retention.set);
            }
            assert_memory_equal(alone, retention.set, n * sizeof *alone);
            hx_retention_deinit(&retention);
            hx_sets_destroy(sets);
        }
        free(alone);
        hx_snapshot_destroy(snapshot);
    }
    free(edge);
    free(of_object);
}

/* A list of many objects with a retainer now and then: no recursion, linear time. */
static void test_long_list(void **state)
{
    (void)state;
    hx_obj n = hx_image_objects(unit_rounds(1000000));
    struct hx_drawn_edge *edge = calloc(n, sizeof *edge);
    hx_retainer *of_object = malloc(n * sizeof *of_object), of_root[1] = {0};
    for (hx_obj i = 0; i < n; i++) {
        if (i + 1 < n)
            edge[i] = (struct hx_drawn_edge){i, i + 1, HX_EDGE_START};
        of_object[i] = i % 1000 == 999 ? 1 + (hx_retainer)i / 1000 : HX_NO_RETAINER;
    }
    struct hx_drawn_edge root = {0, 0, HX_EDGE_START};
    struct hx_snapshot *snapshot;
    struct hx_retention retention;
    hx_sets *sets;
    assert_null(hx_image_graph(n, edge, n - 1, 1, &root, 1, &snapshot));
    assert_null(hx_reach(snapshot, HX_INTERIOR_KNOWN, 1, NULL));
    assert_null(hx_sets_create(8, &sets));
    struct hx_retain_rule rule = {.of_root = of_root, .of_object = of_object};
    assert_null(hx_retain(snapshot, &rule, sets, NULL, &retention));
    assert_int_equal(retention.objects, n);
    assert_int_equal(retention.visits, n);
    for (hx_obj i = 0; i < n; i++)
        assert_true(hx_sets_member(sets, retention.set[i], i / 1000));
    assert_int_equal(hx_sets_count(sets), 2 + (n + 999) / 1000);
    hx_retention_deinit(&retention);
    hx_sets_destroy(sets);
    hx_snapshot_destroy(snapshot);
    free(edge);
    free(of_object);
}

/* A list with a root of its own at each link asks for n * n / 2 names. */
static void test_budget(void **state)
{
    (void)state;
    enum { N = 1000 };
    struct hx_drawn_edge edge[N], root[N];
    hx_retainer of_root[N];
    for (hx_obj i = 0; i < N; i++) {
        edge[i] = (struct hx_drawn_edge){i, i + 1, HX_EDGE_START};
        root[i] = (struct hx_drawn_edge){i, i, HX_EDGE_START};
        of_root[i] = i;
    }
    struct hx_snapshot *snapshot;
    assert_null(hx_image_graph(N, edge, N - 1, N, root, N, &snapshot));
    assert_null(hx_reach(snapshot, HX_INTERIOR_KNOWN, 1, NULL));
    struct hx_retain_rule rule = {.of_root = of_root};
    for (size_t allowed = N; allowed <= N * N; allowed *= N) {
        struct hx_retention retention = {0};
        hx_sets *sets;
        assert_null(hx_sets_create(0, &sets));
        hx_sets_allow(sets, allowed);
        hx_error *err = hx_retain(snapshot, &rule, sets, NULL, &retention);
        assert_true(allowed == N ? err && err->kind == HX_E_LIMIT : !err);
        hx_error_free(err);
        hx_retention_deinit(&retention);
        hx_sets_destroy(sets);
    }
    /* a limit that is found: the sum of sizes has room, or the budget has an end */
    for (int hard = 0; hard < 2; hard++) {
        struct hx_retention retention;
        hx_sets *sets;
        uint64_t room = 1 << 20;
        unsigned limit = 0;
        for (uint64_t bytes = 0; bytes <= room; limit++)
            bytes += HX_SET_BYTES + (limit + 1) * HX_ELEMENT_BYTES;
        limit--;
        assert_null(hx_sets_create(HX_SETS_AUTO, &sets));
        hx_sets_make_room(sets, room);
        hx_sets_allow(sets, hard ? 3 * N : N * N);
        assert_null(hx_retain(snapshot, &rule, sets, NULL, &retention));
        if (!hard)
            assert_int_equal(hx_sets_limit(sets), limit);
        limit = hx_sets_limit(sets);
        for (hx_obj i = 0; i < N; i++) {
            const hx_retainer *element;
            assert_int_equal(hx_sets_elements(sets, retention.set[i], &element),
                             i < limit ? i + 1 : 0);
            assert_true((retention.set[i] == HX_SET_MANY) == (i >= limit));
        }
        hx_retention_deinit(&retention);
        hx_sets_destroy(sets);
    }
    hx_snapshot_destroy(snapshot);
}

static void test_cancel(void **state)
{
    (void)state;
    hx_obj n = hx_image_objects(200000);
    struct hx_drawn_edge *edge = calloc(n, sizeof *edge), root = {0, 0, HX_EDGE_START};
    for (hx_obj i = 0; i + 1 < n; i++)
        edge[i] = (struct hx_drawn_edge){i, i + 1, HX_EDGE_START};
    struct hx_snapshot *snapshot;
    struct hx_retention retention;
    hx_sets *sets;
    hx_retainer of_root[1] = {0};
    assert_null(hx_image_graph(n, edge, n - 1, 1, &root, 1, &snapshot));
    assert_null(hx_reach(snapshot, HX_INTERIOR_KNOWN, 1, NULL));
    assert_null(hx_sets_create(8, &sets));
    atomic_bool cancel = true;
    struct hx_retain_rule rule = {.of_root = of_root};
    hx_error *err =
        hx_retain(snapshot, &rule, sets, &(struct hx_progress){.cancel = &cancel}, &retention);
    assert_non_null(err);
    assert_int_equal(err->kind, HX_E_CANCEL);
    hx_error_free(err);
    hx_sets_destroy(sets);
    hx_snapshot_destroy(snapshot);
    free(edge);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sets),         cmocka_unit_test(test_random_graphs),
        cmocka_unit_test(test_large_graphs), cmocka_unit_test(test_doubt),
        cmocka_unit_test(test_components),   cmocka_unit_test(test_long_list),
        cmocka_unit_test(test_cancel),       cmocka_unit_test(test_budget),
        cmocka_unit_test(test_threads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
