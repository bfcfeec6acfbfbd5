/* test_flame.c - the layout of flame graphs: on small trees by hand, on random ones by what always
 * holds. */
#include "unit.h"

#include "layout/flame.h"
#include "store/cost/tree_rows.h"

static void test_small(void **state)
{
    (void)state;
    /* 100: 60 (of it 30 and 20 below, 10 without a block), 25, and 15 of its own */
    const struct hx_flame_node node[] = {
        {0, 100, 15}, {0, 60, 0}, {1, 30, 30}, {1, 20, 20}, {0, 25, 25}};
    struct hx_flame_block block[5];
    hx_flame_lay(node, 5, 50, block);
    const int x[] = {0, 0, 0, 15, 30}, width[] = {50, 30, 15, 10, 12}, line[] = {0, 1, 2, 2, 1};
    for (size_t i = 0; i < 5; i++) {
        assert_int_equal(block[i].x, x[i]);
        assert_int_equal(block[i].width, width[i]);
        assert_int_equal(block[i].line, line[i]);
    }
    assert_int_equal(block[1].rest, 10);
    assert_int_equal(block[1].rest_x, 25);
    assert_int_equal(block[1].rest_width, 5);
    assert_int_equal(block[0].rest, 0);
    assert_int_equal(hx_flame_lines(block, 5), 3);
    size_t at = 9;
    assert_true(hx_flame_at(block, 5, 2, 16, &at));
    assert_int_equal(at, 3);
    assert_true(hx_flame_at(block, 5, 1, 41, &at));
    assert_int_equal(at, 4);
    assert_false(hx_flame_at(block, 5, 1, 42, &at));
    assert_false(hx_flame_at(block, 5, 2, 25, &at));
}

static void test_nothing(void **state)
{
    (void)state;
    const struct hx_flame_node node[] = {{0, 0, 0}, {0, 5, 5}};
    struct hx_flame_block block[2];
    hx_flame_lay(node, 2, 40, block);
    assert_int_equal(block[0].width, 40);
    assert_int_equal(block[1].width, 0);
    assert_int_equal(hx_flame_lines(block, 0), 0);
    assert_int_equal(hx_tree_part(0, 80), 1);
    assert_int_equal(hx_tree_part(81, 80), 2);
    assert_int_equal(hx_tree_part(UINT64_MAX, 1), UINT64_MAX);
}

static void test_scroll(void **state)
{
    (void)state;
    for (int height = 1; height < 12; height++)
        for (int lines = 1; lines < 30; lines++)
            for (int line = 0; line < lines; line++)
                for (int before = 0; before < lines; before++) {
                    int first = hx_flame_first(line, lines, height, before);
                    assert_true(first >= 0 && first <= line && line < first + height);
                    assert_true(first == 0 || first + height <= lines);
                }
    assert_int_equal(hx_flame_first(5, 30, 10, 2), 2);
    assert_int_equal(hx_flame_first(9, 10, 10, 0), 0);
}

static void test_colour(void **state)
{
    (void)state;
    unsigned seen = 0;
    for (int i = 0; i < 100; i++) {
        char name[24];
        snprintf(name, sizeof name, "name_%d", i);
        unsigned colour = hx_flame_colour(name, 5);
        assert_true(colour < 5);
        assert_int_equal(colour, hx_flame_colour(name, 5));
        seen |= 1u << colour;
    }
    assert_int_equal(seen, 31);
}

/* --- random trees ------------------------------------------------------------------ */

#define NODES 400

/* A tree whose sums are right, unless it lies: then values are anything. In the order of the tree.
 */
static size_t make_tree(struct unit_random *random, struct hx_flame_node *node, bool lies)
{
    size_t n = 1 + unit_below(random, NODES);
    size_t open = 0; /* the last node, on whose way up the next one hangs */
    uint64_t left[NODES + 1];
    unsigned bits = 1 + (unsigned)unit_below(random, 63);
    node[0] = (struct hx_flame_node){0, unit_random(random) >> (64 - bits), 0};
    left[0] = node[0].value;
    for (size_t i = 1; i < n; i++) {
        size_t parent = open;
        while (parent && unit_below(random, 3) == 0)
            parent = node[parent].parent;
        uint64_t value = left[parent] ? unit_below(random, left[parent]) : 0;
        left[parent] -= value;
        left[i] = value;
        node[i] = (struct hx_flame_node){(uint32_t)parent, lies ? unit_random(random) : value, 0};
        open = i;
    }
    for (size_t i = 0; i < n; i++) {
        node[i].own = lies ? unit_random(random) : left[i] ? unit_below(random, left[i] + 1) : 0;
        left[i] -= lies ? 0 : node[i].own;
    }
    return n;
}

static void check_blocks(const struct hx_flame_node *node, const struct hx_flame_block *block,
                         size_t n, int columns, bool lies)
{
    uint64_t least = hx_tree_part(node[0].value, (uint32_t)columns);
    uint64_t children[NODES + 1] = {0};
    int end[NODES + 1];
    assert_int_equal(block[0].x, 0);
    assert_int_equal(block[0].width, columns);
    for (size_t i = 0; i < n; i++) {
        const struct hx_flame_block *b = &block[i], *p = &block[node[i].parent];
        end[i] = b->x;
        assert_true(b->width >= 0 && b->from <= b->end && b->end <= b->to);
        if (!i)
            continue;
        assert_int_equal(b->line, p->line + 1);
        assert_true(b->x >= p->x && b->x + b->width <= p->x + p->width);
        assert_true(b->x >= end[node[i].parent]); /* beside those before it */
        end[node[i].parent] = b->x + b->width;
        children[node[i].parent] += b->to - b->from;
        if (!lies) {
            assert_int_equal(b->to - b->from, node[i].value);
            assert_true(node[i].value < least || b->width > 0);
        }
    }
    for (size_t i = 0; i < n; i++) {
        const struct hx_flame_block *b = &block[i];
        uint64_t has = b->to - b->from, own = node[i].own < has ? node[i].own : has;
        assert_int_equal(children[i] + b->rest + own, has); /* nothing is lost */
        assert_true(b->rest_x >= end[i]);
        assert_true(b->rest_width >= 0 && b->rest_x + b->rest_width <= b->x + b->width);
    }
}

static void test_random(void **state)
{
    (void)state;
    struct unit_random random = unit_random_begin("flame");
    struct hx_flame_node node[NODES + 1];
    struct hx_flame_block block[NODES + 1];
    for (size_t round = 0; round < unit_rounds(2000); round++) {
        bool lies = unit_below(&random, 4) == 0;
        size_t n = make_tree(&random, node, lies), at;
        int columns = 1 + (int)unit_below(&random, 300);
        hx_flame_lay(node, n, columns, block);
        check_blocks(node, block, n, columns, lies);
        for (size_t i = 0; i < n; i++)
            if (block[i].width > 0) {
                int x = block[i].x + (int)unit_below(&random, (uint64_t)block[i].width);
                assert_true(hx_flame_at(block, n, block[i].line, x, &at));
                assert_int_equal(at, i);
            }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_small),  cmocka_unit_test(test_nothing),
        cmocka_unit_test(test_scroll), cmocka_unit_test(test_colour),
        cmocka_unit_test(test_random),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
