/* test_reach.c - states, against a brute-force reading of their definition. */
#include "random_graph.h"

#include "traverse/reach.h"
#include "traverse/scan/scan.h"

/* --- the definition, by transitive closure ------------------------------------ */

typedef uint64_t row; /* a set of objects */

static void close_over(row *matrix, hx_obj n)
{
    for (hx_obj via = 0; via < n; via++)
        for (hx_obj from = 0; from < n; from++)
            if (matrix[from] >> via & 1)
                matrix[from] |= matrix[via];
}

/* What is reached from roots over edges of the kinds in `follows`. */
static row reached(const struct random_graph *graph, unsigned follows)
{
    row path[RANDOM_GRAPH_MAX] = {0}, all = 0;
    for (hx_obj i = 0; i < graph->n; i++)
        path[i] = (row)1 << i;
    for (size_t e = 0; e < graph->n_edges; e++)
        if (follows >> graph->edge[e].kind & 1)
            path[graph->edge[e].source] |= (row)1 << graph->edge[e].target;
    close_over(path, graph->n);
    for (size_t e = 0; e < graph->n_root_edges; e++)
        if (follows >> graph->root_edge[e].kind & 1)
            all |= path[graph->root_edge[e].target];
    return all;
}

static void brute_states(const struct random_graph *graph, enum hx_interior interior,
                         uint8_t *states)
{
    const unsigned strong = 1 << HX_EDGE_START | 1 << HX_EDGE_KNOWN;
    const unsigned all = strong | 1 << HX_EDGE_INTERIOR;
    row reachable = reached(graph, interior == HX_INTERIOR_ON ? all : strong);
    row alive = reached(graph, interior == HX_INTERIOR_OFF ? strong : all);
    row path[RANDOM_GRAPH_MAX] = {0};
    for (size_t e = 0; e < graph->n_edges; e++) {
        hx_obj from = graph->edge[e].source, to = graph->edge[e].target;
        if (!(alive >> from & 1) && !(alive >> to & 1))
            path[from] |= (row)1 << to;
    }
    row lost_edge[RANDOM_GRAPH_MAX];
    memcpy(lost_edge, path, sizeof path);
    close_over(path, graph->n);
    for (hx_obj i = 0; i < graph->n; i++) {
        if (reachable >> i & 1) {
            states[i] = HX_STATE_REACHABLE;
            continue;
        }
        if (alive >> i & 1) {
            states[i] = HX_STATE_POSSIBLE;
            continue;
        }
        row component = (row)1 << i;
        for (hx_obj k = 0; k < graph->n; k++)
            if ((path[i] >> k & 1) && (path[k] >> i & 1))
                component |= (row)1 << k;
        bool led_to = false;
        for (hx_obj k = 0; k < graph->n; k++)
            led_to |= !(component >> k & 1) && (lost_edge[k] & component);
        bool lowest = !(component & (((row)1 << i) - 1));
        states[i] = lowest && !led_to ? HX_STATE_DEFINITE : HX_STATE_INDIRECT;
    }
}

static void compare(const struct random_graph *graph, struct hx_snapshot *snapshot,
                    enum hx_interior interior)
{
    uint8_t states[RANDOM_GRAPH_MAX];
    uint64_t objects[HX_STATES] = {0}, bytes[HX_STATES] = {0};
    assert_null(hx_reach(snapshot, interior, 1 + interior, NULL));
    brute_states(graph, interior, states);
    for (hx_obj i = 0; i < graph->n; i++) {
        if (snapshot->graph.state[i] != states[i])
            fail_msg("interior %d, object %u of %u: %s instead of %s", (int)interior, i, graph->n,
                     hx_state_name(snapshot->graph.state[i]), hx_state_name(states[i]));
        objects[states[i]]++;
        bytes[states[i]] += snapshot->graph.size[i];
    }
    assert_memory_equal(snapshot->state_objects, objects, sizeof objects);
    assert_memory_equal(snapshot->state_bytes, bytes, sizeof bytes);
    assert_int_equal(snapshot->interior, interior);
}

static void test_random(void **state)
{
    (void)state;
    struct unit_random random = unit_random_begin("reach");
    for (size_t round = unit_rounds(6000); round; round--) {
        struct random_graph graph;
        random_graph_make(&random, round % 2 ? 12 : RANDOM_GRAPH_MAX, &graph);
        struct hx_snapshot *snapshot = random_graph_snapshot(&graph);
        compare(&graph, snapshot, HX_INTERIOR_KNOWN);
        compare(&graph, snapshot, HX_INTERIOR_ON);
        compare(&graph, snapshot, HX_INTERIOR_OFF);
        hx_snapshot_destroy(snapshot);
    }
}

/* --- drawn cases --------------------------------------------------------------- */

/* "a reachable, b possible" */
static void check_states(const char *text, enum hx_interior interior, const char *expected)
{
    struct hx_drawing drawing;
    assert_null(hx_image_draw(text, &drawing));
    assert_null(hx_scan(drawing.snapshot, NULL, NULL));
    assert_null(hx_reach(drawing.snapshot, interior, 1, NULL));
    struct hx_text found = {0};
    for (size_t i = 0; i < drawing.n; i++)
        hx_text_putf(&found, "%s%s %s", i ? ", " : "", drawing.drawn[i].name,
                     hx_state_name(drawing.snapshot->graph.state[i]));
    assert_string_equal(hx_text_str(&found), expected);
    hx_text_free(&found);
    hx_drawing_deinit(&drawing);
}

static void test_drawn(void **state)
{
    (void)state;
    const char *chain = "obj a 24: b+16; obj b 24: c; obj c 24; root g: a";
    check_states(chain, HX_INTERIOR_KNOWN, "a reachable, b possible, c possible");
    check_states(chain, HX_INTERIOR_ON, "a reachable, b reachable, c reachable");
    check_states(chain, HX_INTERIOR_OFF, "a reachable, b definite, c indirect");

    /* A second, stronger way wins wherever it joins. */
    check_states("obj a 24: b+16; obj b 24: c; obj c 24: d+4; obj d 24; root g: a; root h: c",
                 HX_INTERIOR_KNOWN, "a reachable, b possible, c reachable, d possible");
    /* A length prefix counts as start. */
    check_states("obj a 24: b+8; obj b 56: 40; root g: a", HX_INTERIOR_KNOWN,
                 "a reachable, b reachable");
    check_states("obj a 24: b+8; obj b 56: 40; root g: a", HX_INTERIOR_OFF,
                 "a reachable, b reachable");
    /* Lost: a cycle of two with a tail is one leak, at its lowest address; a cycle below
     * another lost block is none of its own. */
    check_states("obj a 24: b; obj b 24: a c; obj c 24", HX_INTERIOR_KNOWN,
                 "a definite, b indirect, c indirect");
    check_states("obj a 24: b; obj b 24: a; obj c 24: b", HX_INTERIOR_KNOWN,
                 "a indirect, b indirect, c definite");
    check_states("obj a 24: a", HX_INTERIOR_KNOWN, "a definite");
    /* Lost objects are condensed over plain interior edges too. */
    check_states("obj a 24: b+16; obj b 24", HX_INTERIOR_OFF, "a definite, b indirect");
    /* An edge from a live object that the rule ignores does not make a leak indirect. */
    check_states("obj a 24: b+16; obj b 24: c+16; obj c 24: b+16; root g: a", HX_INTERIOR_OFF,
                 "a reachable, b definite, c indirect");
    /* Named roots decide bins only. */
    check_states("obj a 24; root g named: a", HX_INTERIOR_KNOWN, "a definite");
    check_states("root g: 1", HX_INTERIOR_KNOWN, "");
}

/* --- long and large -------------------------------------------------------------- */

struct built {
    struct hx_drawn_edge *edge;
    size_t n;
};

static struct hx_snapshot *build(hx_obj n, struct built built, hx_obj root_target)
{
    struct hx_snapshot *snapshot;
    struct hx_drawn_edge root = {0, root_target, HX_EDGE_START};
    assert_null(hx_image_graph(n, built.edge, built.n, 1, &root, root_target < n, &snapshot));
    free(built.edge);
    return snapshot;
}

/* 0 -> 1 -> 2 -> ... */
static struct built list(hx_obj n)
{
    struct built built = {.edge = calloc(n, sizeof *built.edge), .n = n - 1};
    for (hx_obj i = 0; i + 1 < n; i++)
        built.edge[i] = (struct hx_drawn_edge){i, i + 1, HX_EDGE_START};
    return built;
}

static void test_long_list(void **state)
{
    (void)state;
    hx_obj n = hx_image_objects(unit_rounds(2000000));
    struct hx_snapshot *snapshot = build(n, list(n), 0);
    assert_null(hx_reach(snapshot, HX_INTERIOR_KNOWN, 2, NULL));
    assert_int_equal(snapshot->state_objects[HX_STATE_REACHABLE], n);
    hx_snapshot_destroy(snapshot);

    snapshot = build(n, list(n), n);
    assert_null(hx_reach(snapshot, HX_INTERIOR_KNOWN, 1, NULL));
    assert_int_equal(snapshot->state_objects[HX_STATE_DEFINITE], 1);
    assert_int_equal(snapshot->graph.state[0], HX_STATE_DEFINITE);
    assert_int_equal(snapshot->state_objects[HX_STATE_INDIRECT], n - 1);
    hx_snapshot_destroy(snapshot);
}

/* Large enough that workers share stacks: all give the same states. */
static void test_threads(void **state)
{
    (void)state;
    struct unit_random random = unit_random_begin("reach, threads");
    hx_obj n = hx_image_objects(unit_rounds(300000));
    for (int round = 0; round < 4; round++) {
        struct built built = {.edge = calloc((size_t)n * 3, sizeof *built.edge)};
        for (hx_obj i = 0; i < n; i++)
            for (uint64_t k = unit_below(&random, 3); k; k--)
                built.edge[built.n++] = (struct hx_drawn_edge){
                    i, (hx_obj)unit_below(&random, n),
                    unit_below(&random, 10) ? HX_EDGE_START : HX_EDGE_INTERIOR};
        struct hx_snapshot *snapshot = build(n, built, 0);
        for (hx_obj i = 0; i < 20; i++)
            assert_true(
                hx_vec_push(&snapshot->root_edges,
                            (struct hx_root_edge){.target = (hx_obj)unit_below(&random, n)}));
        assert_null(hx_reach(snapshot, HX_INTERIOR_KNOWN, 1, NULL));
        uint8_t *alone = malloc(n);
        memcpy(alone, snapshot->graph.state, n);
        for (unsigned threads = 2; threads <= 5; threads += 3) {
            assert_null(hx_reach(snapshot, HX_INTERIOR_KNOWN, threads, NULL));
            assert_memory_equal(alone, snapshot->graph.state, n);
        }
        free(alone);
        hx_snapshot_destroy(snapshot);
    }
}

static void test_cancel(void **state)
{
    (void)state;
    atomic_bool cancel = true;
    struct hx_progress progress = {.cancel = &cancel};
    const hx_obj n = hx_image_objects(200000);
    for (int lost = 0; lost <= 1; lost++) { /* marking, leak search */
        for (unsigned threads = 1; threads <= 2; threads++) {
            struct hx_snapshot *snapshot = build(n, list(n), lost ? n : 0);
            hx_error *err = hx_reach(snapshot, HX_INTERIOR_KNOWN, threads, &progress);
            assert_non_null(err);
            assert_int_equal(err->kind, HX_E_CANCEL);
            assert_null(snapshot->graph.state);
            hx_error_free(err);
            hx_snapshot_destroy(snapshot);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random),    cmocka_unit_test(test_drawn),
        cmocka_unit_test(test_long_list), cmocka_unit_test(test_threads),
        cmocka_unit_test(test_cancel),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
