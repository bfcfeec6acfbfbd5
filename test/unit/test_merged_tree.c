/* test_merged_tree.c - merged trees, chains of holders and what one name alone reaches, against
 * the definitions. */
#include "random_graph.h"

#include "traverse/dominate/alone.h"
#include "traverse/dominate/merged_tree.h"
#include "traverse/hold/chains.h"

#include <limits.h>

enum { MOST = 60, KINDS = 6, TOPS = 3 };

/* --- the definition of the merged tree ----------------------------------------------------- */

struct drawn {
    hx_obj n, parent[MOST];
    uint64_t size[MOST];
    uint32_t top[MOST], kind[MOST], order[MOST];
};

/* A row is its path: the top, then kinds. */
struct path {
    size_t n;
    uint32_t name[MOST + 1];
    uint64_t bytes, objects, total;
};

struct paths {
    struct path v[MOST * 2 + TOPS];
    size_t n;
};

static uint32_t drawn_top(const void *context, hx_obj object)
{
    return ((const struct drawn *)context)->top[object];
}

static uint32_t drawn_kind(const void *context, hx_obj object)
{
    return ((const struct drawn *)context)->kind[object];
}

static void make_path(const struct drawn *drawn, hx_obj object, struct path *path)
{
    hx_obj up[MOST];
    size_t n = 0;
    *path = (struct path){0};
    for (hx_obj at = object; at != HX_NO_OBJ; at = drawn->parent[at])
        up[n++] = at;
    path->name[path->n++] = drawn->top[up[n - 1]];
    while (n--) {
        uint32_t kind = drawn->kind[up[n]];
        size_t k = 1;
        while (k < path->n && path->name[k] != kind)
            k++;
        path->name[k] = kind;
        path->n = k + 1;
    }
}

/* Is a row above the other one, or the same? */
static bool is_above(const struct path *a, const struct path *b)
{
    return a->n <= b->n && memcmp(a->name, b->name, a->n * sizeof *a->name) == 0;
}

static struct path *find_path(struct paths *paths, const struct path *path)
{
    for (size_t i = 0; i < paths->n; i++)
        if (paths->v[i].n == path->n && is_above(&paths->v[i], path))
            return &paths->v[i];
    paths->v[paths->n] = *path;
    return &paths->v[paths->n++];
}

static void make_paths(const struct drawn *drawn, struct paths *paths)
{
    paths->n = 0;
    for (hx_obj i = 0; i < drawn->n; i++) {
        struct path path;
        make_path(drawn, i, &path);
        struct path *own = find_path(paths, &path);
        own->bytes += drawn->size[i];
        own->objects++;
        path.n = 1;
        find_path(paths, &path);
    }
    for (size_t i = 0; i < paths->n; i++)
        for (size_t k = 0; k < paths->n; k++)
            if (is_above(&paths->v[i], &paths->v[k]))
                paths->v[i].total += paths->v[k].bytes;
}

static void draw_tree(struct unit_random *random, struct drawn *drawn)
{
    drawn->n = (hx_obj)unit_below(random, MOST + 1);
    uint64_t kinds = 1 + unit_below(random, KINDS), deep = unit_below(random, 2);
    uint32_t *order = drawn->order;
    for (hx_obj i = 0; i < drawn->n; i++) {
        hx_obj at = (hx_obj)unit_below(random, i + 1u); /* parents have any place among all */
        order[i] = order[at];
        order[at] = i;
    }
    for (hx_obj i = 0; i < drawn->n; i++) {
        hx_obj object = (hx_obj)order[i];
        uint64_t above = i && deep ? i - 1 : unit_below(random, i + 1u);
        drawn->parent[object] = !i || unit_below(random, 10) == 0
                                    ? HX_NO_OBJ
                                    : (hx_obj)order[above < i ? above : i - 1u];
        drawn->size[object] = 1 + unit_below(random, 100);
        drawn->top[object] = (uint32_t)unit_below(random, TOPS);
        drawn->kind[object] = (uint32_t)unit_below(random, kinds);
    }
}

/* The path of a row; false for others, whose path is that of their parent. */
static bool row_path(const struct hx_merged_tree *tree, size_t row, struct path *path)
{
    bool others = tree->row[row].name == HX_MERGED_OTHERS;
    size_t at = others ? tree->row[row].parent : row, n = 0;
    *path = (struct path){0};
    for (size_t up = at; up != HX_MERGED_NO_PARENT; up = tree->row[up].parent)
        n++;
    path->n = n;
    for (size_t up = at; up != HX_MERGED_NO_PARENT; up = tree->row[up].parent)
        path->name[--n] = tree->row[up].name;
    return !others;
}

static void check_order(const struct hx_merged_tree *tree, size_t i)
{
    const struct hx_merged_row *row = &tree->row[i];
    bool at_top = row->parent == HX_MERGED_NO_PARENT;
    assert_int_equal(row->depth, at_top ? 0 : tree->row[row->parent].depth + 1);
    assert_true(at_top || row->parent < i);
    assert_true(i == 0 || tree->row[i - 1].depth + 1 >= row->depth);
    uint64_t below = row->bytes, last = UINT64_MAX;
    for (size_t k = 0; k < tree->n; k++) {
        if (tree->row[k].parent != i)
            continue;
        below += tree->row[k].total_bytes;
        assert_true(tree->row[k].total_bytes <= last || tree->row[k].name == HX_MERGED_OTHERS);
        last = tree->row[k].name == HX_MERGED_OTHERS ? 0 : tree->row[k].total_bytes;
    }
    assert_int_equal(row->total_bytes, below);
}

static void compare_tree(const struct drawn *drawn, const struct hx_merged_tree *tree,
                         size_t max_rows)
{
    static struct paths paths;
    make_paths(drawn, &paths);
    uint64_t bytes = 0, objects = 0, least = UINT64_MAX;
    size_t own = 0;
    bool seen[MOST * 2 + TOPS] = {false};
    for (size_t i = 0; i < tree->n; i++) {
        struct path path;
        bytes += tree->row[i].bytes;
        objects += tree->row[i].objects;
        check_order(tree, i);
        if (!row_path(tree, i, &path))
            continue;
        size_t known = paths.n;
        struct path *expected = find_path(&paths, &path);
        assert_int_equal(paths.n, known);
        assert_false(seen[expected - paths.v]);
        seen[expected - paths.v] = true;
        assert_int_equal(tree->row[i].bytes, expected->bytes);
        assert_int_equal(tree->row[i].objects, expected->objects);
        assert_int_equal(tree->row[i].total_bytes, expected->total);
        least = expected->total < least ? expected->total : least;
        own++;
    }
    assert_int_equal(own, paths.n < max_rows ? paths.n : max_rows);
    for (size_t i = 0; i < paths.n; i++) {
        assert_true(seen[i] || paths.v[i].total <= least);
        bytes -= paths.v[i].bytes;
        objects -= paths.v[i].objects;
    }
    assert_int_equal(bytes, 0);
    assert_int_equal(objects, 0);
}

static struct hx_merged_tree make_tree(const struct drawn *drawn, size_t max_rows)
{
    struct hx_merged_tree tree;
    struct hx_merge merge = {.n = drawn->n,
                             .parent = drawn->parent,
                             .order = drawn->order,
                             .size = drawn->size,
                             .n_tops = TOPS,
                             .top = drawn_top,
                             .kind = drawn_kind,
                             .context = drawn,
                             .max_rows = max_rows};
    assert_null(hx_merged_tree_make(&merge, NULL, &tree));
    return tree;
}

static void test_random_trees(void **state)
{
    (void)state;
    struct unit_random random = unit_random_begin("test_random_trees");
    for (size_t round = unit_rounds(20000); round; round--) {
        struct drawn drawn;
        draw_tree(&random, &drawn);
        size_t max_rows = unit_below(&random, 2) ? 1000 : unit_below(&random, 20);
        struct hx_merged_tree tree = make_tree(&drawn, max_rows);
        compare_tree(&drawn, &tree, max_rows);
        hx_merged_tree_deinit(&tree);
    }
}

/* --- large ones ------------------------------------------------------------------------------ */

struct large {
    hx_obj n;
    uint32_t kinds;
    hx_obj *parent;
    uint32_t *order;
    uint64_t *size;
    struct hx_big parent_mem, order_mem, size_mem;
};

static uint32_t only_top(const void *context, hx_obj object)
{
    (void)context;
    (void)object;
    return 0;
}

static uint32_t kind_by_number(const void *context, hx_obj object)
{
    return object % ((const struct large *)context)->kinds;
}

/* A chain from the last object to the first. */
static struct hx_merged_tree merge_chain(struct large *large, hx_obj n, uint32_t kinds)
{
    struct hx_merged_tree tree;
    *large = (struct large){.n = n, .kinds = kinds};
    assert_null(hx_big_array(large->parent, n));
    assert_null(hx_big_array(large->order, n));
    assert_null(hx_big_array(large->size, n));
    for (hx_obj i = 0; i < n; i++) {
        large->parent[i] = i + 1 < n ? (hx_obj)(i + 1) : HX_NO_OBJ;
        large->order[i] = n - 1u - i;
        large->size[i] = 32;
    }
    struct hx_merge merge = {.n = n,
                             .parent = large->parent,
                             .order = large->order,
                             .size = large->size,
                             .n_tops = 1,
                             .top = only_top,
                             .kind = kind_by_number,
                             .context = large,
                             .max_rows = 1000};
    assert_null(hx_merged_tree_make(&merge, NULL, &tree));
    hx_big_free(&large->parent_mem);
    hx_big_free(&large->order_mem);
    hx_big_free(&large->size_mem);
    return tree;
}

static void test_list_is_one_row(void **state)
{
    (void)state;
    const hx_obj n = sizeof n == 2 ? 60000 : 1000000;
    struct large large;
    struct hx_merged_tree tree = merge_chain(&large, n, 1);
    assert_int_equal(tree.n, 2);
    assert_int_equal(tree.row[1].objects, n);
    assert_int_equal(tree.row[1].bytes, UINT64_C(32) * n);
    hx_merged_tree_deinit(&tree);
    tree = merge_chain(&large, n, 2);
    assert_int_equal(tree.n, 3);
    assert_int_equal(tree.row[1].objects + tree.row[2].objects, n);
    hx_merged_tree_deinit(&tree);
}

/* As many kinds as objects: paths end, and nothing is missing. */
static void test_depth_has_a_bound(void **state)
{
    (void)state;
    const hx_obj n = 50000;
    struct large large;
    struct hx_merged_tree tree = merge_chain(&large, n, n);
    uint64_t objects = 0;
    for (size_t i = 0; i < tree.n; i++) {
        assert_true(tree.row[i].depth <= HX_MERGED_DEPTH + 1);
        objects += tree.row[i].objects;
    }
    assert_int_equal(tree.row[tree.n - 1].name, HX_MERGED_OTHERS);
    assert_int_equal(objects, n);
    hx_merged_tree_deinit(&tree);
}

/* --- chains ---------------------------------------------------------------------------------- */

/* How far each object is from the root edges of its holder, over what it holds. */
static void measure(const struct hx_snapshot *snapshot, const uint32_t *holder,
                    const uint32_t *holder_of_root, unsigned *far)
{
    const struct hx_graph *graph = &snapshot->graph;
    for (hx_obj i = 0; i < graph->n; i++)
        far[i] = UINT_MAX;
    for (size_t i = 0; i < snapshot->root_edges.n; i++) {
        const struct hx_root_edge *edge = &snapshot->root_edges.v[i];
        if (holder_of_root[edge->root] == holder[edge->target])
            far[edge->target] = 0;
    }
    for (hx_obj round = 0; round < graph->n; round++)
        for (hx_obj i = 0; i < graph->n; i++)
            for (hx_eidx e = graph->fwd[i]; e < graph->fwd[i + 1]; e++) {
                hx_obj to = hx_edge_target(graph->edge[e]);
                if (far[i] != UINT_MAX && holder[i] == holder[to] && far[i] + 1 < far[to])
                    far[to] = far[i] + 1;
            }
}

static bool has_edge(const struct hx_graph *graph, hx_obj from, hx_obj to)
{
    for (hx_eidx e = graph->fwd[from]; e < graph->fwd[from + 1]; e++)
        if (hx_edge_target(graph->edge[e]) == to)
            return true;
    return false;
}

/* All objects, each behind its parent? */
static void check_behind_parents(hx_obj n, const hx_obj *parent, const uint32_t *order)
{
    bool seen[RANDOM_GRAPH_MAX] = {false};
    for (hx_obj i = 0; i < n; i++) {
        hx_obj object = (hx_obj)order[i];
        assert_true(object < n && !seen[object]);
        assert_true(parent[object] == HX_NO_OBJ || seen[parent[object]]);
        seen[object] = true;
    }
}

static void test_chains(void **state)
{
    (void)state;
    struct unit_random random = unit_random_begin("test_chains");
    for (size_t round = unit_rounds(10000); round; round--) {
        struct random_graph graph;
        random_graph_make(&random, RANDOM_GRAPH_MAX, &graph);
        HX_SNAPSHOT struct hx_snapshot *snapshot = random_graph_snapshot(&graph);
        uint32_t holder[RANDOM_GRAPH_MAX], of_root[8];
        unsigned far[RANDOM_GRAPH_MAX];
        uint32_t holders = 1 + (uint32_t)unit_below(&random, 3);
        for (hx_obj i = 0; i < graph.n; i++)
            holder[i] = (uint32_t)unit_below(&random, holders);
        for (size_t i = 0; i < snapshot->roots.n; i++)
            of_root[i] =
                unit_below(&random, 5) ? (uint32_t)unit_below(&random, holders) : HX_CHAINS_NOBODY;
        struct hx_big mem = {0}, order_mem = {0};
        assert_null(hx_chains_find(snapshot, holder, of_root, NULL, &mem, &order_mem));
        measure(snapshot, holder, of_root, far);
        const hx_obj *parent = mem.base;
        for (hx_obj i = 0; i < graph.n; i++) {
            size_t steps = 0;
            for (hx_obj at = i; parent[at] != HX_NO_OBJ; at = parent[at], steps++) {
                assert_true(steps < graph.n);
                assert_int_equal(holder[parent[at]], holder[at]);
                assert_true(has_edge(&snapshot->graph, parent[at], at));
            }
            if (far[i] != UINT_MAX)
                assert_int_equal(steps, far[i]);
        }
        check_behind_parents(graph.n, parent, order_mem.base);
        hx_big_free(&order_mem);
        hx_big_free(&mem);
    }
}

/* --- alone ----------------------------------------------------------------------------------- */

static void test_alone(void **state)
{
    (void)state;
    struct unit_random random = unit_random_begin("test_alone");
    for (size_t round = unit_rounds(10000); round; round--) {
        struct random_graph graph;
        random_graph_make(&random, RANDOM_GRAPH_MAX, &graph);
        HX_SNAPSHOT struct hx_snapshot *snapshot = random_graph_snapshot(&graph);
        uint32_t of_root[8], by[RANDOM_GRAPH_MAX] = {0}; /* bit for each name */
        unsigned follows = unit_below(&random, 2) ? 7 : 3;
        for (size_t i = 0; i < snapshot->roots.n; i++)
            of_root[i] = unit_below(&random, 5) ? (uint32_t)unit_below(&random, 3) : HX_ALONE_NONE;
        for (size_t i = 0; i < snapshot->root_edges.n; i++) {
            const struct hx_root_edge *edge = &snapshot->root_edges.v[i];
            if (of_root[edge->root] != HX_ALONE_NONE && follows >> edge->kind & 1)
                by[edge->target] |= 1u << of_root[edge->root];
        }
        for (hx_obj pass = 0; pass < graph.n; pass++)
            for (size_t e = 0; e < graph.n_edges; e++)
                if (follows >> graph.edge[e].kind & 1)
                    by[graph.edge[e].target] |= by[graph.edge[e].source];
        struct hx_big mem = {0};
        assert_null(hx_alone_find(snapshot, of_root, follows, NULL, &mem));
        const uint32_t *of = mem.base;
        for (hx_obj i = 0; i < graph.n; i++) {
            uint32_t expected = !by[i]                ? HX_ALONE_NONE
                                : by[i] & (by[i] - 1) ? HX_ALONE_SEVERAL
                                                      : (uint32_t)__builtin_ctz(by[i]);
            assert_int_equal(of[i], expected);
        }
        hx_big_free(&mem);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random_trees),
        cmocka_unit_test(test_list_is_one_row),
        cmocka_unit_test(test_depth_has_a_bound),
        cmocka_unit_test(test_chains),
        cmocka_unit_test(test_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
