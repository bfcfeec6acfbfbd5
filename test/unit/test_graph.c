/* test_graph.c - the reversal, the invariants and finding objects. */
#include "random_graph.h"

#include "base/parallel.h"

#include <unistd.h>

/* Every edge once more, by target. */
static void assert_reversed(const struct hx_graph *graph)
{
    hx_eidx *next = calloc((size_t)graph->n + 1, sizeof *next);
    memcpy(next, graph->rev, (size_t)graph->n * sizeof *next);
    for (hx_obj i = 0; i < graph->n; i++)
        for (hx_eidx e = graph->fwd[i]; e < graph->fwd[i + 1]; e++)
            assert_int_equal(graph->rev_source[next[hx_edge_target(graph->edge[e])]++], i);
    for (hx_obj i = 0; i < graph->n; i++)
        assert_int_equal(next[i], graph->rev[i + 1]);
    assert_int_equal(graph->rev[graph->n], graph->n_edges);
    free(next);
}

static void test_reverse(void **state)
{
    (void)state;
    struct unit_random random = unit_random_begin("reverse");
    for (size_t round = unit_rounds(1000); round; round--) {
        struct random_graph graph;
        random_graph_make(&random, RANDOM_GRAPH_MAX, &graph);
        struct hx_snapshot *snapshot = random_graph_snapshot(&graph);
        assert_null(hx_graph_reverse(&snapshot->graph, 1, NULL));
        assert_null(hx_graph_check(&snapshot->graph));
        assert_reversed(&snapshot->graph);
        hx_snapshot_destroy(snapshot);
    }
}

static struct hx_snapshot *large(struct unit_random *random, hx_obj n)
{
    struct hx_drawn_edge *edge = calloc((size_t)n * 4, sizeof *edge);
    size_t n_edges = 0;
    for (hx_obj i = 0; i < n; i++)
        for (uint64_t k = unit_below(random, 5); k; k--)
            edge[n_edges++] =
                (struct hx_drawn_edge){i, (hx_obj)unit_below(random, n), HX_EDGE_START};
    struct hx_snapshot *snapshot;
    assert_null(hx_image_graph(n, edge, n_edges, 0, NULL, 0, &snapshot));
    free(edge);
    return snapshot;
}

static void test_reverse_threads(void **state)
{
    (void)state;
    struct unit_random random = unit_random_begin("reverse, threads");
    struct hx_snapshot *snapshot = large(&random, hx_image_objects(100000));
    for (unsigned threads = 1; threads <= 3; threads++) {
        assert_null(hx_graph_reverse(&snapshot->graph, threads, NULL));
        assert_null(hx_graph_check(&snapshot->graph));
        assert_reversed(&snapshot->graph);
    }
    atomic_bool cancel = true;
    hx_error *err = hx_graph_reverse(&snapshot->graph, 2, &(struct hx_progress){.cancel = &cancel});
    assert_non_null(err);
    assert_int_equal(err->kind, HX_E_CANCEL);
    hx_error_free(err);
    assert_reversed(&snapshot->graph); /* the old one stays */
    hx_snapshot_destroy(snapshot);
}

static void expect_broken(struct hx_graph *graph)
{
    hx_error *err = hx_graph_check(graph);
    assert_non_null(err);
    assert_int_equal(err->kind, HX_E_CORRUPT);
    hx_error_free(err);
}

#define WITH(lvalue, value)                                                                        \
    do {                                                                                           \
        __auto_type before_ = (lvalue);                                                            \
        (lvalue) = (value);                                                                        \
        expect_broken(graph);                                                                      \
        (lvalue) = before_;                                                                        \
        assert_null(hx_graph_check(graph));                                                        \
    } while (0)

static void test_check(void **state)
{
    (void)state;
    const struct hx_drawn_edge edge[] = {{0, 1, 0}, {0, 2, 2}, {1, 0, 1}, {2, 0, 0}};
    struct hx_snapshot *snapshot;
    assert_null(hx_image_graph(3, edge, 4, 0, NULL, 0, &snapshot));
    struct hx_graph *graph = &snapshot->graph;
    assert_null(hx_graph_reverse(graph, 1, NULL));
    assert_null(hx_graph_check(graph));
    WITH(graph->addr[1], graph->addr[0]);
    WITH(graph->size[0], graph->size[0] + 100);
    WITH(graph->size[2], UINT64_MAX);
    WITH(graph->fwd[0], 1);
    WITH(graph->fwd[1], 4);
    WITH(graph->fwd[3], 3);
    WITH(graph->edge[0], hx_edge_make(3, 0, 0));
    WITH(graph->edge[0], hx_edge_make(1, 0, 3));
    WITH(graph->edge[0], hx_edge_make(1, 2, 0));
    WITH(graph->edge[1], hx_edge_make(2, 1000, 2));
    WITH(graph->rev[0], 1);
    WITH(graph->rev[3], 3);
    WITH(graph->rev_source[0], 0);
    WITH(graph->rev_source[0], 3);
    WITH(graph->rev_source[2], 1);
    hx_snapshot_destroy(snapshot);
}

static void test_find(void **state)
{
    (void)state;
    const uint64_t addr[] = {4096, 4128, 4200}, size[] = {24, 72, 8};
    struct hx_snapshot *snapshot;
    assert_null(hx_image_plain(addr, size, 3, &snapshot));
    const struct hx_graph *graph = &snapshot->graph;
    assert_int_equal(hx_graph_find(graph, 4095), HX_NO_OBJ);
    assert_int_equal(hx_graph_find(graph, 4096), 0);
    assert_int_equal(hx_graph_find(graph, 4119), 0);
    assert_int_equal(hx_graph_find(graph, 4120), HX_NO_OBJ);
    assert_int_equal(hx_graph_find(graph, 4199), 1);
    assert_int_equal(hx_graph_find(graph, 4200), 2);
    assert_int_equal(hx_graph_find(graph, 4208), HX_NO_OBJ);
    assert_int_equal(hx_graph_find(graph, UINT64_MAX), HX_NO_OBJ);
    hx_snapshot_destroy(snapshot);
}

static void test_empty(void **state)
{
    (void)state;
    struct hx_snapshot *snapshot;
    assert_null(hx_image_graph(0, NULL, 0, 0, NULL, 0, &snapshot));
    assert_null(hx_graph_reverse(&snapshot->graph, 0, NULL));
    assert_null(hx_graph_check(&snapshot->graph));
    assert_int_equal(hx_graph_find(&snapshot->graph, 0), HX_NO_OBJ);
    hx_snapshot_destroy(snapshot);
}

/* --- threads ---------------------------------------------------------------------- */

static void note(void *context, unsigned i)
{
    atomic_uint *called = context;
    atomic_fetch_add(&called[i], 1);
}

static void test_parallel(void **state)
{
    (void)state;
    atomic_uint called[HX_THREADS_MAX] = {0};
    hx_parallel(5, note, called);
    for (unsigned i = 0; i < HX_THREADS_MAX; i++)
        assert_int_equal(called[i], i < 5);
    hx_parallel(0, note, called);
    assert_int_equal(called[0], 1);
    assert_true(hx_threads(0) >= 1 && hx_threads(0) <= 16);
    assert_int_equal(hx_threads(3), 3);
    assert_int_equal(hx_threads(100000), HX_THREADS_MAX);
}

struct busy {
    atomic_bool ended, found;
};

static void keep_busy(void *context, unsigned i)
{
    struct busy *busy = context;
    while (i && !atomic_load(&busy->ended))
        ;
    for (int looks = 0; !i && looks < 2000 && !atomic_load(&busy->found); looks++) {
        atomic_store(&busy->found, hx_threads_free() == 1);
        usleep(1000);
    }
    atomic_store(&busy->ended, true);
}

/* Where others keep all processors busy, one is left to us. */
static void test_free_threads(void **state)
{
    (void)state;
    struct busy busy = {false, false};
    long all = sysconf(_SC_NPROCESSORS_ONLN);
    assert_true(hx_threads_free() >= 1 && hx_threads_free() <= hx_threads(0));
    if (all >= HX_THREADS_MAX)
        return;
    hx_parallel((unsigned)all + 1, keep_busy, &busy);
    assert_true(atomic_load(&busy.found));
}

/* Each worker of each piece: once, and none of another piece at the same time. */
struct pieces {
    atomic_uint called[HX_THREADS_MAX], inside;
    unsigned piece, wrong;
};

static void note_piece(void *context, unsigned i)
{
    struct pieces *pieces = context;
    atomic_fetch_add(&pieces->inside, 1);
    if (atomic_fetch_add(&pieces->called[i], 1) != pieces->piece)
        __atomic_store_n(&pieces->wrong, 1, __ATOMIC_RELAXED);
    if (i == 2 && pieces->piece % 64 == 5) /* the others wait for it, and go to sleep */
        nanosleep(&(struct timespec){.tv_nsec = 2000000}, NULL);
    atomic_fetch_sub(&pieces->inside, 1);
}

static void test_team(void **state)
{
    (void)state;
    struct pieces pieces = {.wrong = 0};
    struct hx_team *team = NULL;
    assert_null(hx_team_create(4, &team));
    for (pieces.piece = 0; pieces.piece < 500; pieces.piece++) {
        hx_team_run(team, note_piece, &pieces);
        assert_int_equal(atomic_load(&pieces.inside), 0);
        if (pieces.piece % 100 == 7) /* all sleep */
            nanosleep(&(struct timespec){.tv_nsec = 5000000}, NULL);
    }
    hx_team_destroy(team);
    for (unsigned i = 0; i < HX_THREADS_MAX; i++)
        assert_int_equal(pieces.called[i], i < 4 ? 500 : 0);
    assert_int_equal(pieces.wrong, 0);
    assert_null(hx_team_create(1, &team));
    pieces = (struct pieces){.wrong = 0};
    hx_team_run(team, note_piece, &pieces);
    assert_int_equal(pieces.called[0], 1);
    hx_team_destroy(team);
    hx_team_destroy(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_reverse), cmocka_unit_test(test_reverse_threads),
        cmocka_unit_test(test_check),   cmocka_unit_test(test_find),
        cmocka_unit_test(test_empty),   cmocka_unit_test(test_parallel),
        cmocka_unit_test(test_team),    cmocka_unit_test(test_free_threads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
