/* test_dominators.c - dominators and retained sizes, against the removal of each node. */
#include "random_graph.h"

#include "traverse/dominate/dominators.h"
#include "traverse/dominate/groups.h"
#include "traverse/reach.h"

#include <stdatomic.h>

#define WEAK_BIT   (1u << HX_EDGE_INTERIOR)
#define STRONG_BIT (1u << HX_EDGE_START | 1u << HX_EDGE_KNOWN)

typedef uint64_t row; /* a set of objects */

/* --- the definitions -------------------------------------------------------------- */

/* What the roots reach over edges of these kinds without the objects in `gone` and without
 * root `no_root`. */
static row reached(const struct random_graph *graph, const struct hx_snapshot *snapshot,
                   unsigned follows, row gone, uint32_t no_root)
{
    row next[RANDOM_GRAPH_MAX] = {0}, seen = 0, todo = 0;
    for (size_t e = 0; e < graph->n_edges; e++)
        if (follows >> graph->edge[e].kind & 1)
            next[graph->edge[e].source] |= (row)1 << graph->edge[e].target;
    for (size_t e = 0; e < graph->n_root_edges; e++) {
        const struct hx_drawn_edge *edge = &graph->root_edge[e];
        if (snapshot->roots.v[edge->source].kind != HX_ROOT_NAMED && edge->source != no_root &&
            follows >> edge->kind & 1)
            todo |= (row)1 << edge->target;
    }
    for (todo &= ~gone; todo; todo &= ~seen & ~gone) {
        hx_obj object = (hx_obj)__builtin_ctzll(todo);
        seen |= (row)1 << object;
        todo |= next[object];
    }
    return seen;
}

static uint64_t bytes_of(const struct hx_snapshot *snapshot, row set)
{
    uint64_t bytes = 0;
    for (; set; set &= set - 1)
        bytes += snapshot->graph.size[__builtin_ctzll(set)];
    return bytes;
}

/* The nearest object whose removal cuts `object` off: the one that all others dominate. */
static hx_obj immediate(const row *lost, hx_obj n, hx_obj object)
{
    hx_obj nearest = HX_NO_OBJ;
    for (hx_obj i = 0; i < n; i++)
        if (i != object && lost[i] >> object & 1 &&
            (nearest == HX_NO_OBJ || lost[nearest] >> i & 1))
            nearest = i;
    return nearest;
}

/* --- comparisons ------------------------------------------------------------------- */

static void compare_objects(const struct random_graph *graph, const struct hx_snapshot *snapshot,
                            const struct hx_dominators *found)
{
    row all = reached(graph, snapshot, found->follows, 0, UINT32_MAX);
    row lost[RANDOM_GRAPH_MAX];
    for (hx_obj i = 0; i < graph->n; i++)
        lost[i] = all & ~reached(graph, snapshot, found->follows, (row)1 << i, UINT32_MAX);
    for (hx_obj i = 0; i < graph->n; i++) {
        assert_int_equal(hx_dominators_has(found, i), all >> i & 1);
        assert_int_equal(found->bytes[i], bytes_of(snapshot, lost[i]));
        assert_int_equal(found->objects[i], __builtin_popcountll(lost[i]));
        assert_int_equal(found->parent[i], all >> i & 1 ? immediate(lost, graph->n, i) : HX_NO_OBJ);
    }
    assert_int_equal(found->scope_bytes, bytes_of(snapshot, all));
    assert_int_equal(found->scope_objects, __builtin_popcountll(all));
    for (uint32_t r = 0; r < graph->n_roots; r++) {
        row kept = all & ~reached(graph, snapshot, found->follows, 0, r);
        bool named = snapshot->roots.v[r].kind == HX_ROOT_NAMED;
        assert_int_equal(found->root_bytes[r],
                         named ? HX_RETAINED_UNKNOWN : bytes_of(snapshot, kept));
        assert_int_equal(found->root_objects[r],
                         named ? HX_RETAINED_UNKNOWN : (uint64_t)__builtin_popcountll(kept));
    }
}

/* The scope is what has a state, and neither states nor reverse edges were needed for it. */
static void compare_states(struct hx_snapshot *snapshot, enum hx_dominators_over over,
                           const struct hx_dominators *found)
{
    if (over == HX_OVER_SURE && snapshot->interior == HX_INTERIOR_ON)
        return;
    assert_null(hx_reach(snapshot, snapshot->interior, 1, NULL));
    for (hx_obj i = 0; i < snapshot->graph.n; i++) {
        uint8_t state = snapshot->graph.state[i];
        assert_int_equal(hx_dominators_has(found, i),
                         state == HX_STATE_REACHABLE ||
                             (state == HX_STATE_POSSIBLE && over == HX_OVER_FOLLOWED));
    }
}

static void compare_groups(struct unit_random *random, const struct random_graph *graph,
                           const struct hx_snapshot *snapshot, const struct hx_dominators *found)
{
    uint32_t group[RANDOM_GRAPH_MAX];
    uint32_t n = (uint32_t)unit_below(random, 8) ? (uint32_t)unit_below(random, 12) : 200;
    for (hx_obj i = 0; i < graph->n; i++)
        group[i] = n && unit_below(random, 4) ? (uint32_t)unit_below(random, n) : HX_NO_GROUP;
    uint32_t limit = (uint32_t)unit_below(random, 6);
    struct hx_groups groups;
    assert_null(hx_groups_measure(snapshot, found, group, n, limit, 1 + unit_below(random, 2) % 2,
                                  NULL, &groups));
    row all = reached(graph, snapshot, found->follows, 0, UINT32_MAX);
    uint64_t least_done = UINT64_MAX, most_left = 0;
    uint32_t measured = 0, searched = 0;
    for (uint32_t k = 0; k < n; k++) {
        row set = 0;
        for (hx_obj i = 0; i < graph->n; i++)
            if (group[i] == k)
                set |= (row)1 << i;
        row kept = all & ~reached(graph, snapshot, found->follows, set, UINT32_MAX);
        uint64_t own = bytes_of(snapshot, set & all);
        bool search = __builtin_popcountll(set & all) > 1;
        if (groups.bytes[k] == HX_RETAINED_UNKNOWN) {
            assert_int_equal(groups.objects[k], HX_RETAINED_UNKNOWN);
            assert_true(search);
            most_left = own > most_left ? own : most_left;
            continue;
        }
        measured++;
        searched += search;
        if (search && own < least_done)
            least_done = own;
        assert_int_equal(groups.bytes[k], bytes_of(snapshot, kept));
        assert_int_equal(groups.objects[k], __builtin_popcountll(kept));
    }
    assert_int_equal(groups.measured, measured);
    assert_true(least_done >= most_left);
    assert_true(!limit || searched <= limit);
    assert_true(!limit || measured == n || searched == limit);
    assert_true(limit || measured == n);
    hx_groups_deinit(&groups);
}

static void test_random(void **state)
{
    (void)state;
    struct unit_random random = unit_random_begin("dominators");
    struct random_graph graph;
    for (size_t round = 0; round < unit_rounds(2000); round++) {
        random_graph_make(&random, RANDOM_GRAPH_MAX, &graph);
        struct hx_snapshot *snapshot = random_graph_snapshot(&graph);
        snapshot->interior = (enum hx_interior)unit_below(&random, 3);
        for (uint32_t r = 0; r < graph.n_roots; r++)
            if (unit_below(&random, 6) == 0)
                snapshot->roots.v[r].kind = HX_ROOT_NAMED;
        for (int over = HX_OVER_FOLLOWED; over <= HX_OVER_SURE; over++) {
            struct hx_dominators found;
            assert_null(hx_dominators_find(snapshot, (enum hx_dominators_over)over, NULL, &found));
            bool weak = over == HX_OVER_FOLLOWED && snapshot->interior != HX_INTERIOR_OFF;
            assert_int_equal(found.follows, weak ? STRONG_BIT | WEAK_BIT : STRONG_BIT);
            compare_objects(&graph, snapshot, &found);
            compare_states(snapshot, (enum hx_dominators_over)over, &found);
            compare_groups(&random, &graph, snapshot, &found);
            hx_dominators_deinit(&found);
        }
        hx_snapshot_destroy(snapshot);
    }
}

/* --- shapes made to hurt ------------------------------------------------------------- */

struct shape {
    struct hx_drawn_edge *edge, *root_edge;
    size_t n_edges, n_root_edges;
};

/* As many objects as asked for, when the index has room for them. */
static size_t objects(size_t n)
{
    n = unit_rounds(n);
    return n < HX_NO_OBJ ? n : HX_NO_OBJ;
}

static void shape_begin(struct shape *shape, size_t n_edges, size_t n_root_edges)
{
    *shape = (struct shape){.edge = calloc(n_edges + 1, sizeof *shape->edge),
                            .root_edge = calloc(n_root_edges + 1, sizeof *shape->edge)};
    assert_non_null(shape->edge);
    assert_non_null(shape->root_edge);
}

static void shape_edge(struct shape *shape, size_t source, size_t target)
{
    shape->edge[shape->n_edges++] = (struct hx_drawn_edge){(uint32_t)source, (hx_obj)target, 0};
}

static void shape_root(struct shape *shape, size_t root, size_t target)
{
    shape->root_edge[shape->n_root_edges++] =
        (struct hx_drawn_edge){(uint32_t)root, (hx_obj)target, 0};
}

static struct hx_snapshot *shape_end(struct shape *shape, size_t n, size_t n_roots)
{
    struct hx_snapshot *snapshot;
    assert_null(hx_image_graph((hx_obj)n, shape->edge, shape->n_edges, (uint32_t)n_roots,
                               shape->root_edge, shape->n_root_edges, &snapshot));
    free(shape->edge);
    free(shape->root_edge);
    return snapshot;
}

static struct hx_dominators dominators_of(const struct hx_snapshot *snapshot)
{
    struct hx_dominators found;
    assert_null(hx_dominators_find(snapshot, HX_OVER_FOLLOWED, NULL, &found));
    return found;
}

/* Every second node of a list forms a group, and both directions are linked. */
static void test_list(void **state)
{
    (void)state;
    const size_t n = objects(2000000);
    struct shape shape;
    shape_begin(&shape, 2 * n, 1);
    for (size_t i = 0; i < n; i++) {
        if (i)
            shape_edge(&shape, i, i - 1);
        if (i + 1 < n)
            shape_edge(&shape, i, i + 1);
    }
    shape_root(&shape, 0, 0);
    struct hx_snapshot *snapshot = shape_end(&shape, n, 1);
    struct hx_dominators found = dominators_of(snapshot);
    uint64_t bytes = 0;
    for (size_t i = n; i-- > 0;) {
        bytes += snapshot->graph.size[i];
        assert_true(found.bytes[i] == bytes && found.objects[i] == n - i &&
                    found.parent[i] == (i ? (hx_obj)(i - 1) : HX_NO_OBJ));
    }
    assert_int_equal(found.root_bytes[0], bytes);
    assert_int_equal(found.root_objects[0], n);
    uint32_t *group = calloc(n, sizeof *group);
    assert_non_null(group);
    for (size_t i = 0; i < n; i++)
        group[i] = i < 10 ? HX_NO_GROUP : (uint32_t)(i & 1);
    struct hx_groups groups;
    assert_null(hx_groups_measure(snapshot, &found, group, 2, 0, 1, NULL, &groups));
    assert_int_equal(groups.objects[0], n - 10);
    assert_int_equal(groups.objects[1], n - 11);
    hx_groups_deinit(&groups);
    free(group);
    hx_dominators_deinit(&found);
    hx_snapshot_destroy(snapshot);
}

static void test_complete(void **state)
{
    (void)state;
    const size_t n = unit_rounds(1000);
    struct shape shape;
    shape_begin(&shape, n * n, 1);
    for (size_t i = 0; i < n; i++)
        for (size_t k = 0; k < n; k++)
            shape_edge(&shape, i, k);
    shape_root(&shape, 0, n / 2);
    struct hx_snapshot *snapshot = shape_end(&shape, n, 1);
    struct hx_dominators found = dominators_of(snapshot);
    for (size_t i = 0; i < n; i++) {
        assert_int_equal(found.objects[i], i == n / 2 ? n : 1);
        assert_int_equal(found.parent[i], i == n / 2 ? HX_NO_OBJ : n / 2);
    }
    hx_dominators_deinit(&found);
    hx_snapshot_destroy(snapshot);
}

static void test_many_roots(void **state)
{
    (void)state;
    const size_t n = unit_rounds(100000);
    struct shape shape;
    shape_begin(&shape, 2, n + 1);
    shape_edge(&shape, 0, 1);
    for (size_t r = 0; r < n; r++)
        shape_root(&shape, r, 0);
    shape_root(&shape, n - 1, 2);
    struct hx_snapshot *snapshot = shape_end(&shape, 3, n);
    struct hx_dominators found = dominators_of(snapshot);
    assert_int_equal(found.parent[0], HX_NO_OBJ);
    assert_int_equal(found.objects[0], 2);
    assert_int_equal(found.parent[1], 0);
    for (size_t r = 0; r + 1 < n; r++)
        assert_true(found.root_bytes[r] == 0 && found.root_objects[r] == 0);
    assert_int_equal(found.root_objects[n - 1], 1);
    assert_int_equal(found.root_bytes[n - 1], snapshot->graph.size[2]);
    hx_dominators_deinit(&found);
    hx_snapshot_destroy(snapshot);
}

/* A long list whose last node points to many objects, each of which another root holds, too:
 * the way from each of them up to its dominator is as long as the list. */
static void test_long_ways(void **state)
{
    (void)state;
    const size_t n = objects(300000), list = n / 2;
    struct shape shape;
    shape_begin(&shape, n, 1 + n);
    for (size_t i = 0; i + 1 < list; i++)
        shape_edge(&shape, i, i + 1);
    for (size_t i = list; i < n; i++)
        shape_edge(&shape, list - 1, i);
    shape_root(&shape, 0, 0);
    for (size_t i = list; i < n; i++)
        shape_root(&shape, 1, i);
    struct hx_snapshot *snapshot = shape_end(&shape, n, 2);
    struct hx_dominators found = dominators_of(snapshot);
    for (size_t i = list; i < n; i++)
        assert_true(found.parent[i] == HX_NO_OBJ && found.objects[i] == 1);
    assert_int_equal(found.objects[0], list);
    assert_int_equal(found.root_objects[0], list);
    assert_int_equal(found.root_objects[1], 0);
    hx_dominators_deinit(&found);
    hx_snapshot_destroy(snapshot);
}

/* A tree with `fan` children a node; its leaves point back to the top. */
static void try_tree(size_t n, size_t fan)
{
    struct shape shape;
    shape_begin(&shape, 2 * n, 1);
    for (size_t i = 0; i < n; i++) {
        if (i * fan + 1 >= n)
            shape_edge(&shape, i, 0);
        for (size_t k = i * fan + 1; k <= i * fan + fan && k < n; k++)
            shape_edge(&shape, i, k);
    }
    shape_root(&shape, 0, 0);
    struct hx_snapshot *snapshot = shape_end(&shape, n, 1);
    struct hx_dominators found = dominators_of(snapshot);
    assert_int_equal(found.objects[0], n);
    assert_int_equal(found.bytes[0], found.scope_bytes);
    for (size_t i = 1; i < n; i++)
        assert_true(found.parent[i] == (i - 1) / fan);
    hx_dominators_deinit(&found);
    hx_snapshot_destroy(snapshot);
}

static void test_trees(void **state)
{
    (void)state;
    try_tree(objects(200000), 2);
    try_tree(objects(200000), 500);
    try_tree(objects(200000), 200000);
}

/* Two singletons of one group share a third object: more than the sum of both. */
static void test_group_is_more_than_its_parts(void **state)
{
    (void)state;
    struct shape shape;
    shape_begin(&shape, 2, 2);
    shape_edge(&shape, 0, 2);
    shape_edge(&shape, 1, 2);
    shape_root(&shape, 0, 0);
    shape_root(&shape, 0, 1);
    struct hx_snapshot *snapshot = shape_end(&shape, 3, 1);
    struct hx_dominators found = dominators_of(snapshot);
    assert_int_equal(found.objects[0] + found.objects[1], 2);
    const uint32_t group[] = {0, 0, HX_NO_GROUP};
    struct hx_groups groups;
    assert_null(hx_groups_measure(snapshot, &found, group, 1, 0, 1, NULL, &groups));
    assert_int_equal(groups.objects[0], 3);
    hx_groups_deinit(&groups);
    hx_dominators_deinit(&found);
    hx_snapshot_destroy(snapshot);
}

/* More groups than one pass takes, on two threads. */
static void test_many_groups(void **state)
{
    (void)state;
    enum { PAIRS = 300 };
    struct shape shape;
    shape_begin(&shape, 2 * PAIRS, 2 * PAIRS);
    uint32_t group[3 * PAIRS];
    for (uint32_t k = 0; k < PAIRS; k++) {
        shape_edge(&shape, 3 * k, 3 * k + 2);
        shape_edge(&shape, 3 * k + 1, 3 * k + 2);
        shape_root(&shape, 0, 3 * k);
        shape_root(&shape, 0, 3 * k + 1);
        group[3 * k] = group[3 * k + 1] = k;
        group[3 * k + 2] = HX_NO_GROUP;
    }
    struct hx_snapshot *snapshot = shape_end(&shape, sizeof group / sizeof *group, 1);
    struct hx_dominators found = dominators_of(snapshot);
    for (uint32_t limit = 0; limit <= PAIRS; limit += 130) {
        struct hx_groups groups;
        assert_null(hx_groups_measure(snapshot, &found, group, PAIRS, limit, 2, NULL, &groups));
        assert_int_equal(groups.measured, limit ? limit : PAIRS);
        for (uint32_t k = 0; k < PAIRS; k++)
            assert_true(groups.objects[k] ==
                        (limit && k >= limit ? HX_RETAINED_UNKNOWN : (uint64_t)3));
        hx_groups_deinit(&groups);
    }
    hx_dominators_deinit(&found);
    hx_snapshot_destroy(snapshot);
}

static void test_empty(void **state)
{
    (void)state;
    struct hx_snapshot *snapshot;
    assert_null(hx_image_graph(0, NULL, 0, 1, NULL, 0, &snapshot));
    struct hx_dominators found = dominators_of(snapshot);
    assert_int_equal(found.scope_objects, 0);
    assert_int_equal(found.root_bytes[0], 0);
    struct hx_groups groups;
    assert_null(hx_groups_measure(snapshot, &found, NULL, 0, 0, 2, NULL, &groups));
    hx_groups_deinit(&groups);
    assert_null(hx_groups_measure(snapshot, &found, NULL, 3, 0, 2, NULL, &groups));
    assert_int_equal(groups.bytes[2], 0);
    hx_groups_deinit(&groups);
    hx_dominators_deinit(&found);
    hx_snapshot_destroy(snapshot);
}

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
    const size_t n = 150000 < HX_NO_OBJ ? 150000 : HX_NO_OBJ;
    struct shape shape;
    shape_begin(&shape, n, 1);
    for (size_t i = 0; i < n; i++)
        shape_edge(&shape, i, (i + 1) % n);
    shape_root(&shape, 0, 0);
    struct hx_snapshot *snapshot = shape_end(&shape, n, 1);
    bool done = false;
    unsigned reports = 0;
    for (; !done; reports++) {
        struct patience patience = {.left = reports};
        const struct hx_progress progress = {
            .report = lose_patience, .context = &patience, .cancel = &patience.cancel};
        struct hx_dominators found;
        hx_error *err = hx_dominators_find(snapshot, HX_OVER_SURE, &progress, &found);
        done = !err;
        assert_true(err || !atomic_load(&patience.cancel));
        assert_true(!err || err->kind == HX_E_CANCEL);
        hx_error_free(err);
        if (done)
            hx_dominators_deinit(&found);
    }
    assert_true(n < 150000 || reports > 6);
    struct hx_dominators found = dominators_of(snapshot);
    uint32_t *group = calloc(n, sizeof *group);
    assert_non_null(group);
    struct patience patience = {.left = 0};
    const struct hx_progress progress = {
        .report = lose_patience, .context = &patience, .cancel = &patience.cancel};
    struct hx_groups groups;
    hx_error *err = hx_groups_measure(snapshot, &found, group, 1, 0, 1, &progress, &groups);
    assert_true(err && err->kind == HX_E_CANCEL);
    hx_error_free(err);
    free(group);
    hx_dominators_deinit(&found);
    hx_snapshot_destroy(snapshot);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random),
        cmocka_unit_test(test_list),
        cmocka_unit_test(test_complete),
        cmocka_unit_test(test_many_roots),
        cmocka_unit_test(test_long_ways),
        cmocka_unit_test(test_trees),
        cmocka_unit_test(test_group_is_more_than_its_parts),
        cmocka_unit_test(test_many_groups),
        cmocka_unit_test(test_empty),
        cmocka_unit_test(test_cancelled),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
