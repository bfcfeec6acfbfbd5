/* test_sure.c - sure retained figures as differences, against those found on their own. */
#include "random_graph.h"

#include "traverse/dominate/sure.h"

#include <stdatomic.h>

/* What the rounds met; each of it must have occurred. */
struct met {
    size_t none, some, all, lost, alike, refused;
};

/* --- comparison ------------------------------------------------------------------------ */

static void note(struct met *met, const struct hx_dominators *found,
                 const struct hx_dominators *expected, const struct hx_sure *sure)
{
    bool lost = false, alike = false;
    for (hx_obj k = 0; k < sure->n; k++) {
        hx_obj i = sure->object[k];
        lost |= !expected->objects[i];
        alike |= expected->objects[i] == found->objects[i];
    }
    met->none += sure->n == 0;
    met->all += sure->n && sure->n == found->scope_objects;
    met->some += sure->n && sure->n < found->scope_objects;
    met->lost += lost;
    met->alike += alike;
}

static void compare(const struct hx_dominators *found, const struct hx_dominators *expected,
                    const struct hx_sure *sure)
{
    hx_obj k = 0;
    for (hx_obj i = 0; i < found->n; i++) {
        assert_int_equal(hx_sure_from(sure, i), k);
        if (k < sure->n && sure->object[k] == i) {
            assert_true(hx_dominators_has(found, i));
            assert_int_equal(sure->bytes[k], expected->bytes[i]);
            assert_int_equal(sure->objects[k], expected->objects[i]);
            k++;
        } else {
            assert_int_equal(found->bytes[i], expected->bytes[i]);
            assert_int_equal(found->objects[i], expected->objects[i]);
        }
    }
    assert_int_equal(k, sure->n);
}

/* With every part as the limit up to `parts`. */
static void check(const struct hx_snapshot *snapshot, unsigned parts, struct met *met)
{
    struct hx_dominators found, expected;
    assert_null(hx_dominators_find(snapshot, HX_OVER_FOLLOWED, NULL, &found));
    assert_null(hx_dominators_find(snapshot, HX_OVER_SURE, NULL, &expected));
    for (unsigned part = 1; part <= parts; part++) {
        struct hx_sure sure;
        assert_null(hx_sure_find(snapshot, &found, part, NULL, &sure));
        met->refused += sure.too_many;
        if (sure.too_many) {
            assert_true(part > 1 || snapshot->graph.n == HX_OBJECTS_MAX);
            assert_int_equal(sure.n, 0);
        } else {
            assert_true(sure.n <= snapshot->graph.n / part);
            compare(&found, &expected, &sure);
            note(met, &found, &expected, &sure);
        }
        hx_sure_deinit(&sure);
    }
    hx_dominators_deinit(&found);
    hx_dominators_deinit(&expected);
}

/* --- random graphs --------------------------------------------------------------------- */

/* Makes most edges sure again, so that a few uncertain ones are left. */
static void settle(struct unit_random *random, struct random_graph *graph)
{
    uint64_t keep = unit_below(random, 8);
    for (size_t e = 0; e < graph->n_edges; e++)
        if (unit_below(random, 8) >= keep)
            graph->edge[e].kind = (uint8_t)unit_below(random, 2);
    for (size_t e = 0; e < graph->n_root_edges; e++)
        if (unit_below(random, 8) >= keep)
            graph->root_edge[e].kind = (uint8_t)unit_below(random, 2);
}

static void resize(struct unit_random *random, struct hx_snapshot *snapshot)
{
    for (hx_obj i = 0; i < snapshot->graph.n; i++)
        snapshot->graph.size[i] = 1 + unit_below(random, UINT64_C(1) << 40);
}

static void test_random(void **state)
{
    (void)state;
    struct unit_random random = unit_random_begin("sure");
    struct random_graph graph;
    struct met met = {0};
    for (size_t round = 0; round < unit_rounds(8000); round++) {
        random_graph_make(&random, RANDOM_GRAPH_MAX, &graph);
        if (unit_below(&random, 4))
            settle(&random, &graph);
        struct hx_snapshot *snapshot = random_graph_snapshot(&graph);
        resize(&random, snapshot);
        snapshot->interior = (enum hx_interior)unit_below(&random, 3);
        for (uint32_t r = 0; r < graph.n_roots; r++)
            if (unit_below(&random, 6) == 0)
                snapshot->roots.v[r].kind = HX_ROOT_NAMED;
        check(snapshot, 4, &met);
        hx_snapshot_destroy(snapshot);
    }
    assert_true(met.none && met.some && met.all && met.lost && met.alike && met.refused);
}

/* So that it passes what looks ahead. */
static void test_large(void **state)
{
    (void)state;
    struct unit_random random = unit_random_begin("large");
    struct met met = {0};
    /* few rounds may not meet both */
    for (size_t round = 0; round < unit_rounds(150) || (!(met.some && met.lost) && round < 1000);
         round++) {
        struct hx_snapshot *snapshot =
            random_graph_large(&random, 1 + (uint32_t)unit_below(&random, 100));
        uint64_t every = 1 + unit_below(&random, 300);
        for (hx_eidx e = 0; e < snapshot->graph.n_edges; e++)
            if (unit_below(&random, every))
                snapshot->graph.edge[e] &= ~(hx_edge)3;
        for (size_t e = 0; e < snapshot->root_edges.n; e++)
            if (unit_below(&random, every) == 0)
                snapshot->root_edges.v[e].kind = HX_EDGE_INTERIOR;
        resize(&random, snapshot);
        check(snapshot, 2, &met);
        hx_snapshot_destroy(snapshot);
    }
    assert_true(met.some && met.lost);
}

/* --- shapes ------------------------------------------------------------------------------ */

/* A list of n objects; `more`, by growing source, are added. */
static struct hx_snapshot *list_with(size_t n, const struct hx_drawn_edge *more, size_t n_more)
{
    struct hx_drawn_edge *edge = calloc(n + n_more, sizeof *edge);
    const struct hx_drawn_edge root = {0, 0, HX_EDGE_START};
    struct hx_snapshot *snapshot;
    size_t n_edges = 0, k = 0;
    assert_non_null(edge);
    for (size_t i = 0; i < n; i++) {
        if (i + 1 < n)
            edge[n_edges++] = (struct hx_drawn_edge){(uint32_t)i, (hx_obj)(i + 1), HX_EDGE_START};
        while (k < n_more && more[k].source == i)
            edge[n_edges++] = more[k++];
    }
    assert_int_equal(k, n_more);
    assert_null(hx_image_graph((hx_obj)n, edge, n_edges, 1, &root, 1, &snapshot));
    free(edge);
    return snapshot;
}

static size_t objects(size_t n)
{
    n = unit_rounds(n);
    return n < HX_OBJECTS_MAX ? n : HX_OBJECTS_MAX;
}

/* These uncertain edges concern nobody. */
static void try_idle(size_t n, const struct hx_drawn_edge *more, size_t n_more)
{
    struct hx_snapshot *snapshot = list_with(n, more, n_more);
    struct hx_dominators found;
    struct hx_sure sure;
    struct met met = {0};
    assert_null(hx_dominators_find(snapshot, HX_OVER_FOLLOWED, NULL, &found));
    assert_null(hx_sure_find(snapshot, &found, (unsigned)n, NULL, &sure));
    assert_true(!sure.too_many && sure.n == 0);
    hx_sure_deinit(&sure);
    hx_dominators_deinit(&found);
    check(snapshot, 1, &met);
    hx_snapshot_destroy(snapshot);
}

static void test_idle(void **state)
{
    (void)state;
    const size_t n = objects(100000) - 1;
    const uint32_t last = (uint32_t)(n - 1);
    /* To itself and to what dominates it; to where the root or a dominator points, too. */
    const struct hx_drawn_edge up[] = {{last, (hx_obj)last, HX_EDGE_INTERIOR},
                                       {last, (hx_obj)(last - 1), HX_EDGE_INTERIOR},
                                       {last, (hx_obj)(last - 4), HX_EDGE_INTERIOR}};
    const struct hx_drawn_edge beside[] = {{0, 1, HX_EDGE_INTERIOR},
                                           {last - 4, (hx_obj)last, HX_EDGE_KNOWN},
                                           {last - 4, (hx_obj)last, HX_EDGE_INTERIOR},
                                           {last - 2, (hx_obj)last, HX_EDGE_INTERIOR},
                                           {last, 0, HX_EDGE_INTERIOR}};
    try_idle(n, up, 3);
    try_idle(n, beside, 5);
}

/* Uncertain short cuts: the whole list is concerned, and deep. */
static void try_short_cut(size_t n)
{
    struct hx_drawn_edge more[] = {{0, (hx_obj)(n / 2), HX_EDGE_INTERIOR},
                                   {1, (hx_obj)(n - 2), HX_EDGE_INTERIOR},
                                   {(uint32_t)n - 1, 1, HX_EDGE_INTERIOR}};
    struct hx_snapshot *snapshot = list_with(n, more, 3);
    struct met met = {0};
    check(snapshot, 2, &met);
    bool full = n == HX_OBJECTS_MAX; /* no number is left for the top */
    assert_true(met.refused == (full ? 2 : 1) && met.all == (full ? 0 : 1));
    hx_snapshot_destroy(snapshot);
}

static void test_short_cut(void **state)
{
    (void)state;
    const size_t n = objects(300000);
    try_short_cut(n);
    try_short_cut(n - 1);
}

static void test_nothing(void **state)
{
    (void)state;
    struct hx_snapshot *snapshot;
    struct met met = {0};
    assert_null(hx_image_graph(0, NULL, 0, 1, NULL, 0, &snapshot));
    check(snapshot, 4, &met);
    assert_int_equal(met.none, 4);
    hx_snapshot_destroy(snapshot);
}

/* --- cancelled ------------------------------------------------------------------------------ */

/* Cancelled after so many reports. */
struct patience {
    atomic_bool cancel;
    unsigned left;
};

static void lose_patience(void *context, const char *stage, uint64_t done, uint64_t total)
{
    struct patience *patience = context;
    (void)stage;
    assert_true(done <= total);
    if (patience->left-- == 0)
        atomic_store(&patience->cancel, true);
}

static void test_cancelled(void **state)
{
    (void)state;
    const size_t n = objects(150000) - 1;
    struct hx_drawn_edge more = {1, (hx_obj)(n / 2), HX_EDGE_INTERIOR};
    struct hx_snapshot *snapshot = list_with(n, &more, 1);
    struct hx_dominators found;
    assert_null(hx_dominators_find(snapshot, HX_OVER_FOLLOWED, NULL, &found));
    bool done = false;
    unsigned reports = 0;
    for (; !done; reports++) {
        struct patience patience = {.left = reports};
        const struct hx_progress progress = {
            .report = lose_patience, .context = &patience, .cancel = &patience.cancel};
        struct hx_sure sure;
        hx_error *err = hx_sure_find(snapshot, &found, 1, &progress, &sure);
        done = !err;
        assert_true(err || !atomic_load(&patience.cancel));
        assert_true(!err || err->kind == HX_E_CANCEL);
        assert_true(err ? sure.n == 0 : sure.n == n);
        hx_error_free(err);
        hx_sure_deinit(&sure);
    }
    assert_true(reports > 6);
    hx_dominators_deinit(&found);
    hx_snapshot_destroy(snapshot);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random),  cmocka_unit_test(test_large),
        cmocka_unit_test(test_idle),    cmocka_unit_test(test_short_cut),
        cmocka_unit_test(test_nothing), cmocka_unit_test(test_cancelled),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
