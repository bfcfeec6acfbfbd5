/* test_backwards.c - the part of a graph that concerns one object: chains in it are those of the
 * whole, and where only some of it is taken, its shortest ones. */
#include "analysis_check.h"

#include "traverse/leaks.h"
#include "traverse/reach.h"
#include "traverse/why/backwards.h"

static void nothing(void *context)
{
    (*(unsigned *)context)++;
}

static struct hx_chains chains_of(const struct hx_snapshot *s, uint64_t address)
{
    const struct hx_why_options options = {.limit = 20};
    struct hx_chains chains;
    hx_obj object = hx_graph_find(&s->graph, address);
    assert_true(object != HX_NO_OBJ);
    assert_done(hx_why(s, object, &options, NULL, &chains));
    return chains;
}

static struct hx_snapshot *part_of(hx_store *store, int64_t id, const hx_backwards *backwards,
                                   uint64_t address, size_t most)
{
    struct hx_snapshot *part;
    uint64_t *chosen;
    hx_obj object;
    assert_done(hx_store_object(store, id, address, &object));
    assert_done(hx_store_load_roots(store, id, NULL, &part));
    assert_done(hx_backwards_choose(backwards, part, object, most, NULL, &chosen));
    assert_done(hx_store_load_chosen(store, id, chosen, NULL, part));
    assert_done(hx_graph_check(&part->graph));
    assert_done(hx_graph_reverse(&part->graph, 1, NULL));
    free(chosen);
    return part;
}

static void compare_all(const struct hx_snapshot *whole, const struct hx_snapshot *part,
                        uint64_t address)
{
    struct hx_chains a = chains_of(whole, address), b = chains_of(part, address);
    assert_int_equal(a.n, b.n);
    for (size_t i = 0; i < a.n; i++) {
        assert_int_equal(a.chain[i].n, b.chain[i].n);
        for (size_t k = 0; k < a.chain[i].n; k++) {
            const struct hx_step *x = &a.chain[i].step[k], *y = &b.chain[i].step[k];
            assert_int_equal(x->root, y->root);
            assert_int_equal(x->offset, y->offset);
            assert_int_equal(x->kind, y->kind);
            assert_int_equal(whole->graph.addr[x->target], part->graph.addr[y->target]);
        }
    }
    hx_chains_deinit(&a), hx_chains_deinit(&b);
}

/* Every root that has a chain in the whole has one of the same length in the part. */
static void compare_first(const struct hx_snapshot *whole, const struct hx_snapshot *part,
                          uint64_t address)
{
    struct hx_chains a = chains_of(whole, address), b = chains_of(part, address);
    assert_int_equal(a.n > 0, b.n > 0);
    for (size_t i = 0; i < a.n; i++) {
        size_t k = 0;
        while (k < b.n && b.chain[k].step[0].root != a.chain[i].step[0].root)
            k++;
        assert_true(k < b.n);
        assert_true(b.chain[k].n <= a.chain[i].n);
    }
    hx_chains_deinit(&a), hx_chains_deinit(&b);
}

static void compare_leak(const struct hx_snapshot *whole, const struct hx_snapshot *part,
                         uint64_t address)
{
    hx_obj a, b;
    uint64_t a_steps, b_steps;
    assert_done(
        hx_leaks_holder(&whole->graph, hx_graph_find(&whole->graph, address), NULL, &a, &a_steps));
    assert_done(
        hx_leaks_holder(&part->graph, hx_graph_find(&part->graph, address), NULL, &b, &b_steps));
    assert_int_equal(a == HX_NO_OBJ, b == HX_NO_OBJ);
    assert_int_equal(a_steps, b_steps);
    if (a != HX_NO_OBJ)
        assert_int_equal(whole->graph.addr[a], part->graph.addr[b]);
}

static void parts(void **state)
{
    (void)state;
    struct unit_random random = unit_random_begin("parts");
    for (size_t round = 0; round < unit_rounds(200); round++) {
        struct hx_snapshot *s = model_to_analyse(&random, 40), *whole, *part;
        hx_backwards *backwards;
        hx_store *store;
        int64_t id;
        unsigned paused = 0;
        assert_done(hx_store_temporary(&store));
        assert_done(hx_store_add(store, s, NULL, NULL, &id));
        assert_done(hx_store_load(store, id, NULL, &whole));
        assert_done(hx_graph_reverse(&whole->graph, 1, NULL));
        assert_done(hx_store_backwards(store, id, NULL, nothing, &paused, &backwards));
        assert_true(paused > 0 || !whole->graph.n);
        for (hx_obj i = 0; i < whole->graph.n; i++) {
            uint64_t address = whole->graph.addr[i];
            if (hx_graph_find(&whole->graph, address) != i)
                continue; /* of no bytes */
            part = part_of(store, id, backwards, address, SIZE_MAX);
            compare_all(whole, part, address);
            compare_leak(whole, part, address);
            hx_snapshot_destroy(part);
            part = part_of(store, id, backwards, address, unit_below(&random, 4));
            compare_first(whole, part, address);
            hx_snapshot_destroy(part);
        }
        hx_backwards_destroy(backwards);
        hx_snapshot_destroy(whole);
        hx_snapshot_destroy(s);
        assert_done(hx_store_close(store));
    }
}

/* An object with more edges than a byte counts, and a level with more objects than its list. */
static void wide(void **state)
{
    (void)state;
    enum { N = 300000 };
    struct hx_snapshot *roots;
    hx_backwards *backwards;
    uint64_t *chosen;
    assert_done(hx_backwards_create(N, N - 1, &backwards));
    for (hx_obj i = 0; i < N; i++)
        assert_done(hx_backwards_count(backwards, i, i ? 0 : N - 1));
    assert_done(hx_backwards_begin(backwards));
    for (hx_obj i = 1; i < N; i++)
        assert_done(hx_backwards_add(backwards, i, 0, i % 2 ? HX_EDGE_START : HX_EDGE_INTERIOR));
    assert_refused(hx_backwards_add(backwards, 1, 0, HX_EDGE_START), HX_E_CORRUPT, "edge");
    assert_done(hx_snapshot_create(&roots));
    assert_done(hx_backwards_choose(backwards, roots, 0, SIZE_MAX, NULL, &chosen));
    for (size_t i = 0; i < N; i++)
        assert_true(chosen[i / 64] >> i % 64 & 1);
    free(chosen);
    struct hx_root root = {.kind = HX_ROOT_GLOBAL, .name = strdup("far"), .module = strdup("")};
    assert_true(hx_vec_push(&roots->roots, root));
    assert_true(hx_vec_push(&roots->root_edges, ((struct hx_root_edge){.target = N - 1})));
    assert_done(hx_backwards_choose(backwards, roots, 0, 10, NULL, &chosen));
    size_t n = 0;
    for (size_t i = 0; i < N; i++)
        n += chosen[i / 64] >> i % 64 & 1;
    assert_int_equal(n, 11);
    assert_true(chosen[(N - 1) / 64] >> (N - 1) % 64 & 1);
    free(chosen);
    hx_snapshot_destroy(roots);
    hx_backwards_destroy(backwards);
    assert_done(hx_backwards_create(2, 1, &backwards));
    assert_done(hx_backwards_count(backwards, 0, 0));
    assert_done(hx_backwards_count(backwards, 1, 2));
    assert_refused(hx_backwards_begin(backwards), HX_E_CORRUPT, "counts");
    hx_backwards_destroy(backwards);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parts),
        cmocka_unit_test(wide),
    };
    return unit_run_some(tests);
}
