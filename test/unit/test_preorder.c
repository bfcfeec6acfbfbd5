/* test_preorder.c - the order of trees: of small ones by hand, of random ones by what always holds.
 */
#include "unit.h"

#include "base/preorder.h"

#define NODES 300

struct node {
    uint64_t weight;
    uint32_t parent;
};

static int heaviest_first(const void *a, const void *b, void *context)
{
    const struct node *node = context;
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    if (node[x].weight != node[y].weight)
        return node[x].weight > node[y].weight ? -1 : 1;
    return x < y ? -1 : x > y;
}

static void test_small(void **state)
{
    (void)state;
    /* two tops: 0 with 1 (3) and 2 (4, 5), and 6 */
    struct node node[] = {{0, 0}, {1, 0}, {2, 0}, {0, 1}, {0, 2}, {9, 2}, {5, UINT32_MAX}};
    const uint32_t by_number[] = {0, 1, 3, 2, 4, 5, 6}, by_weight[] = {6, 0, 2, 5, 4, 1, 3};
    uint32_t *order = NULL;
    assert_null(hx_preorder(HX_PARENTS(node, parent, 7), NULL, NULL, &order));
    assert_memory_equal(order, by_number, sizeof by_number);
    free(order);
    assert_null(hx_preorder(HX_PARENTS(node, parent, 7), heaviest_first, node, &order));
    assert_memory_equal(order, by_weight, sizeof by_weight);
    free(order);
    assert_null(hx_preorder(HX_PARENTS(node, parent, 0), NULL, NULL, &order));
    free(order);
}

/* UINT32_MAX: none. */
static uint32_t parent_of(const struct node *node, uint32_t at)
{
    return node[at].parent < at ? node[at].parent : UINT32_MAX;
}

static bool is_below(const struct node *node, uint32_t at, uint32_t top)
{
    while (at != top && at != UINT32_MAX)
        at = parent_of(node, at);
    return at == top;
}

/* What is below a node follows it without a gap; siblings are in order. */
static void check_order(struct node *node, const uint32_t *order, uint32_t n)
{
    bool seen[NODES] = {false};
    for (uint32_t i = 0; i < n; i++) {
        uint32_t at = order[i], end = i + 1;
        assert_true(at < n && !seen[at]);
        seen[at] = true;
        while (end < n && is_below(node, order[end], at))
            end++;
        for (uint32_t k = end; k < n; k++)
            assert_false(is_below(node, order[k], at));
        if (end < n && parent_of(node, order[end]) == parent_of(node, at))
            assert_true(heaviest_first(&at, &order[end], node) < 0);
    }
}

static void test_random(void **state)
{
    (void)state;
    struct unit_random random = unit_random_begin("preorder");
    for (size_t round = 0; round < unit_rounds(200); round++) {
        struct node node[NODES];
        uint32_t n = (uint32_t)unit_below(&random, NODES + 1), *order = NULL;
        for (uint32_t i = 0; i < n; i++)
            node[i] = (struct node){unit_below(&random, 5), (uint32_t)unit_below(&random, i + 2)};
        assert_null(hx_preorder(HX_PARENTS(node, parent, n), heaviest_first, node, &order));
        check_order(node, order, n);
        free(order);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_small),
        cmocka_unit_test(test_random),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
