/* test_bins.c - bins of named roots against one search for each root. */
#include "random_graph.h"

#include "traverse/key_sums.h"
#include "traverse/reach.h"
#include "traverse/retain/bins.h"
#include "traverse/scan/scan.h"

#include <inttypes.h>

enum { NAMED = 200, ROOTS = 200, WORDS = (NAMED + 63) / 64 };

struct bits {
    uint64_t word[WORDS];
};

static void name_root(struct hx_snapshot *snapshot, const char *name, uint32_t root)
{
    struct hx_named named = {.name = strdup(name), .root = root};
    assert_non_null(named.name);
    assert_true(hx_vec_push(&snapshot->named, named));
}

/* Depth first from the edges of one root. */
static void search(const struct hx_snapshot *snapshot, uint32_t root, size_t bit,
                   struct bits *reached)
{
    const struct hx_graph *graph = &snapshot->graph;
    bool off = snapshot->interior == HX_INTERIOR_OFF;
    hx_obj *stack = malloc((graph->n_edges + snapshot->root_edges.n + 1) * sizeof *stack);
    size_t n = 0;
    assert_non_null(stack);
    for (size_t e = 0; e < snapshot->root_edges.n; e++)
        if (snapshot->root_edges.v[e].root == root &&
            !(off && snapshot->root_edges.v[e].kind == HX_EDGE_INTERIOR))
            stack[n++] = snapshot->root_edges.v[e].target;
    while (n) {
        hx_obj object = stack[--n];
        if (reached[object].word[bit / 64] >> bit % 64 & 1)
            continue;
        reached[object].word[bit / 64] |= (uint64_t)1 << bit % 64;
        for (hx_eidx e = graph->fwd[object]; e < graph->fwd[object + 1]; e++)
            if (!(off && hx_edge_kind_of(graph->edge[e]) == HX_EDGE_INTERIOR))
                stack[n++] = hx_edge_target(graph->edge[e]);
    }
    free(stack);
}

static void check_members(const struct hx_bins *bins, uint32_t bin, const struct bits *want)
{
    struct bits got = {0};
    for (uint32_t i = bins->first[bin]; i < bins->first[bin + 1]; i++) {
        uint32_t member = bins->member[i];
        assert_true(i == bins->first[bin] || bins->member[i - 1] < member);
        got.word[member / 64] |= (uint64_t)1 << member % 64;
    }
    assert_memory_equal(&got, want, sizeof got);
}

static void check_objects(const struct hx_snapshot *snapshot, const struct hx_bins *bins,
                          const struct bits *want)
{
    const struct bits none = {0};
    uint32_t next = 2;
    for (hx_obj i = 0; i < snapshot->graph.n; i++) {
        uint32_t bin = bins->bin[i];
        assert_true(bin < bins->n);
        check_members(bins, bin, &want[i]);
        uint8_t state = snapshot->graph.state[i];
        bool alive = state == HX_STATE_REACHABLE || state == HX_STATE_POSSIBLE;
        if (memcmp(&want[i], &none, sizeof none) == 0)
            assert_int_equal(bin, alive ? HX_BIN_NONE : HX_BIN_LOST);
        else
            assert_true(bin >= 2 && bin <= next);
        next += bin == next; /* numbered as they come */
        for (hx_obj k = 0; k < i; k++)
            if (memcmp(&want[i], &want[k], sizeof none) == 0 && bin >= 2)
                assert_int_equal(bin, bins->bin[k]);
    }
    assert_int_equal(bins->n, next);
}

static void check_sums(const struct hx_snapshot *snapshot, const struct hx_bins *bins)
{
    struct hx_key_sums census;
    uint64_t bytes = 0, objects = 0, heap = 0;
    assert_null(hx_key_sums_make(snapshot, bins->bin, bins->n, NULL, &census));
    for (uint32_t i = 0; i < census.n; i++) {
        bytes += census.bytes[i];
        objects += census.objects[i];
        assert_true(i < 2 || census.objects[i]);
    }
    for (hx_obj i = 0; i < snapshot->graph.n; i++)
        heap += snapshot->graph.size[i];
    assert_int_equal(bytes, heap);
    assert_int_equal(objects, snapshot->graph.n);
    hx_key_sums_deinit(&census);
}

/* Roots of their own for most graphs, and some of them named only. */
static struct hx_snapshot *make_snapshot(struct unit_random *random)
{
    static const uint32_t counts[] = {1, 4, 70, ROOTS};
    struct random_graph graph;
    struct hx_drawn_edge root_edge[2 * ROOTS];
    struct hx_snapshot *snapshot;
    size_t n_edges = 0;
    random_graph_make(random, RANDOM_GRAPH_MAX, &graph);
    uint32_t n_roots = counts[unit_below(random, 4)];
    for (uint32_t i = 0; graph.n && i < n_roots; i++)
        for (uint64_t k = unit_below(random, 3); k; k--)
            root_edge[n_edges++] = (struct hx_drawn_edge){i, (hx_obj)unit_below(random, graph.n),
                                                          (uint8_t)unit_below(random, 3)};
    assert_null(
        hx_image_graph(graph.n, graph.edge, graph.n_edges, n_roots, root_edge, n_edges, &snapshot));
    for (uint64_t k = unit_below(random, n_roots + 1); k; k--)
        snapshot->roots.v[n_roots - k].kind = HX_ROOT_NAMED;
    return snapshot;
}

static void check_bins(struct unit_random *random, struct hx_snapshot *snapshot, size_t n_named)
{
    struct bits *want = calloc((size_t)snapshot->graph.n + 1, sizeof *want);
    struct hx_bins bins;
    assert_non_null(want);
    assert_null(hx_reach(snapshot, (enum hx_interior)unit_below(random, 3), 1, NULL));
    while (snapshot->named.n < n_named) {
        char name[32];
        uint32_t root = (uint32_t)unit_below(random, snapshot->roots.n);
        snprintf(name, sizeof name, "n%zu", snapshot->named.n);
        search(snapshot, root, snapshot->named.n, want);
        name_root(snapshot, name, root);
    }
    assert_null(hx_bins_find(snapshot, NULL, &bins));
    check_objects(snapshot, &bins, want);
    check_sums(snapshot, &bins);
    hx_bins_deinit(&bins);
    hx_snapshot_destroy(snapshot);
    free(want);
}

static void test_random_graphs(void **state)
{
    (void)state;
    struct unit_random random = unit_random_begin("bins");
    static const size_t counts[] = {0, 1, 3, 64, NAMED};
    for (size_t round = unit_rounds(3000); round; round--)
        check_bins(&random, make_snapshot(&random), counts[unit_below(&random, 5)]);
}

static void test_large_graphs(void **state)
{
    (void)state;
    struct unit_random random = unit_random_begin("bins of large graphs");
    for (size_t round = unit_rounds(20); round; round--)
        check_bins(&random, random_graph_large(&random, ROOTS), unit_below(&random, NAMED + 1));
}

/* --- the example of root-profiler.txt ---------------------------------------------------- */

/* A word of header for each, as there. */
static const char example[] = "obj x 16; obj y 16; obj z 16; obj e 16; obj f 16; obj t 16;"
                              "obj eps 32: 8->x y e;"
                              "obj fc 40: 8->x y z f;"
                              "obj other 32: 8->x z t;"
                              "obj hsc 32: 8->eps fc other;"
                              "root a: hsc; root b: eps; root c: fc";

static void expect_bin(const struct hx_snapshot *snapshot, const struct hx_bins *bins,
                       const struct hx_key_sums *census, const char *label, uint64_t bytes)
{
    uint64_t got = 0;
    for (uint32_t i = 0; i < bins->n; i++) {
        struct hx_text text = {0};
        hx_bin_label(snapshot, bins, i, &text);
        if (strcmp(hx_text_str(&text), label) == 0)
            got += census->bytes[i];
        hx_text_free(&text);
    }
    assert_int_equal(got, bytes);
}

static void test_example(void **state)
{
    (void)state;
    struct hx_drawing drawing;
    struct hx_bins bins;
    struct hx_key_sums census;
    assert_null(hx_image_draw(example, &drawing));
    struct hx_snapshot *snapshot = drawing.snapshot;
    const struct hx_scan_options options = {.threads = 1};
    assert_null(hx_scan(snapshot, &options, NULL));
    assert_null(hx_reach(snapshot, HX_INTERIOR_KNOWN, 1, NULL));
    name_root(snapshot, "hsc", hx_drawing_root(&drawing, "a"));
    name_root(snapshot, "eps", hx_drawing_root(&drawing, "b"));
    name_root(snapshot, "fc", hx_drawing_root(&drawing, "c"));
    assert_null(hx_bins_find(snapshot, NULL, &bins));
    assert_null(hx_key_sums_make(snapshot, bins.bin, bins.n, NULL, &census));
    expect_bin(snapshot, &bins, &census, "hsc", 80);
    expect_bin(snapshot, &bins, &census, "eps", 0);
    expect_bin(snapshot, &bins, &census, "fc", 0);
    expect_bin(snapshot, &bins, &census, "hsc+eps", 48);
    expect_bin(snapshot, &bins, &census, "hsc+fc", 72);
    expect_bin(snapshot, &bins, &census, "eps+fc", 0);
    expect_bin(snapshot, &bins, &census, "hsc+eps+fc", 32);
    expect_bin(snapshot, &bins, &census, "-", 0);
    expect_bin(snapshot, &bins, &census, "(unreachable)", 0);
    uint64_t sum = 0;
    for (uint32_t i = 0; i < census.n; i++)
        sum += census.bytes[i];
    assert_int_equal(sum, 232);
    hx_key_sums_deinit(&census);
    hx_bins_deinit(&bins);
    hx_drawing_deinit(&drawing);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random_graphs),
        cmocka_unit_test(test_large_graphs),
        cmocka_unit_test(test_example),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
