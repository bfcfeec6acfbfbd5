/* test_hurt.c - graphs made to hurt: long, dense, wide, and with as many sets as objects.
 *
 *     test_hurt [full]      the sizes that are promised instead of those of a unit test
 *
 * Each goes through states, retainer sets, bins and dominators, on a stack of 256 KiB. What they
 * give is compared with what the shape says, and the memory that they take with what is
 * allowed: 60 bytes an object and 12 an edge, with the graph, and the sets. Prints the times.
 */
#include "unit.h"

#include "../image/image.h"
#include "traverse/dominate/dominators.h"
#include "traverse/key_sums.h"
#include "traverse/reach.h"
#include "traverse/retain/bins.h"
#include "traverse/retain/retain.h"

#include <inttypes.h>
#include <pthread.h>
#include <sys/resource.h>

enum { STACK_KIB = 256 };

static bool full;

struct shape {
    struct hx_snapshot *snapshot;
    struct hx_drawn_edge *edge, *root_edge;
    size_t n_edges, n_root_edges;
    size_t resident_kib;
    double began; /* processor time, as the machine may have other work to do */
};

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* A tenth in a unit test, and a hundredth of that where it should be quick. */
static size_t scaled(size_t n)
{
    const char *quick = getenv("HX_QUICK");
    if (full)
        return n;
    return quick && *quick && *quick != '0' ? n / 1000 + 1 : n / 10;
}

static void begin(struct shape *shape, size_t edges, size_t root_edges)
{
    *shape = (struct shape){.edge = malloc(edges * sizeof *shape->edge + 1),
                            .root_edge = malloc(root_edges * sizeof *shape->root_edge + 1)};
    assert_true(shape->edge && shape->root_edge);
}

static void add_edge(struct shape *shape, size_t from, size_t to)
{
    shape->edge[shape->n_edges++] =
        (struct hx_drawn_edge){(uint32_t)from, (hx_obj)to, HX_EDGE_START};
}

static void add_root_edge(struct shape *shape, size_t root, size_t to)
{
    shape->root_edge[shape->n_root_edges++] =
        (struct hx_drawn_edge){(uint32_t)root, (hx_obj)to, HX_EDGE_START};
}

static void finish(struct shape *shape, size_t objects, size_t roots)
{
    assert_null(hx_image_graph((hx_obj)objects, shape->edge, shape->n_edges, (uint32_t)roots,
                               shape->root_edge, shape->n_root_edges, &shape->snapshot));
    free(shape->edge);
    free(shape->root_edge);
}

static void end(struct shape *shape)
{
    hx_snapshot_destroy(shape->snapshot);
}

/* --- memory ------------------------------------------------------------------------- */

static size_t status_kib(const char *what)
{
    char line[200];
    size_t kib = 0;
    FILE *status = fopen("/proc/self/status", "re");
    while (status && fgets(line, sizeof line, status))
        if (strncmp(line, what, strlen(what)) == 0)
            kib = strtoull(line + strlen(what), NULL, 10);
    if (status)
        fclose(status);
    return kib;
}

/* A stage begins. */
static void begin_stage(struct shape *shape)
{
    FILE *reset = fopen("/proc/self/clear_refs", "we");
    if (reset) {
        fputs("5", reset);
        fclose(reset);
    }
    shape->resident_kib = status_kib("VmRSS:");
    shape->began = now();
}

/* A stage is over: its time, and its memory with that of the graph. Beside that it may have the
 * memory of `sets`. */
static void end_stage(struct shape *shape, const char *what, size_t sets)
{
    const struct hx_graph *graph = &shape->snapshot->graph;
    const size_t n = graph->n, edges = graph->n_edges;
    const size_t own = n * (8 + 8 + 8 + 1) + edges * 8;
    double took = now() - shape->began;
    size_t peak = status_kib("VmHWM:"), before = shape->resident_kib;
    size_t more = peak > before ? (peak - before) * 1024 : 0;
    size_t allowed = 60 * n + 12 * edges;
    printf("    %-28s %8.3f s  %7.1f MB of %.1f and %.1f for sets\n", what, took,
           (double)(own + more) * 1e-6, (double)allowed * 1e-6, (double)sets * 1e-6);
    if (full) /* huge pages and what malloc keeps do not count */
        assert_true(own + more <= allowed + sets + ((size_t)16 << 20));
    fflush(stdout);
}

/* --- stages ------------------------------------------------------------------------- */

static void find_states(struct shape *shape)
{
    begin_stage(shape);
    assert_null(hx_reach(shape->snapshot, HX_INTERIOR_KNOWN, 1, NULL));
    end_stage(shape, "states", 0);
}

static void find_dominators(struct shape *shape, struct hx_dominators *ret)
{
    begin_stage(shape);
    assert_null(hx_dominators_find(shape->snapshot, HX_OVER_FOLLOWED, NULL, ret));
    end_stage(shape, "dominators", 24 * shape->snapshot->roots.n);
}

/* Each root under its own number; about so many elements may be in sets. */
static void find_sets(struct shape *shape, unsigned max_set, const hx_retainer *of_object,
                      size_t elements, void (*check)(const hx_sets *, const hx_set *, size_t))
{
    const struct hx_snapshot *snapshot = shape->snapshot;
    hx_retainer *of_root = malloc(snapshot->roots.n * sizeof *of_root + 1);
    hx_sets *sets;
    struct hx_retention retention;
    assert_non_null(of_root);
    for (size_t i = 0; i < snapshot->roots.n; i++)
        of_root[i] = (hx_retainer)i;
    const struct hx_retain_rule rule = {.of_root = of_root, .of_object = of_object};
    begin_stage(shape);
    assert_null(hx_sets_create(max_set, &sets));
    assert_null(hx_retain(snapshot, &rule, sets, NULL, &retention));
    end_stage(shape,
              max_set == HX_SETS_AUTO ? "retainer sets, limit found"
              : max_set               ? "retainer sets of 8 at most"
                                      : "retainer sets",
              64 * (size_t)hx_sets_count(sets) + 16 * elements);
    check(sets, retention.set, hx_sets_limit(sets));
    hx_retention_deinit(&retention);
    hx_sets_destroy(sets);
    free(of_root);
}

static void name_all_roots(struct shape *shape, size_t most)
{
    struct hx_snapshot *snapshot = shape->snapshot;
    for (uint32_t i = 0; i < snapshot->roots.n && i < most; i++) {
        struct hx_named named = {.name = strdup(snapshot->roots.v[i].name), .root = i};
        assert_non_null(named.name);
        assert_true(hx_vec_push(&snapshot->named, named));
    }
}

static uint32_t find_bins(struct shape *shape, size_t elements)
{
    struct hx_bins bins;
    struct hx_key_sums census;
    begin_stage(shape);
    assert_null(hx_bins_find(shape->snapshot, NULL, &bins));
    end_stage(shape, "bins", 64 * (size_t)bins.n + 16 * elements);
    assert_null(hx_key_sums_make(shape->snapshot, bins.bin, bins.n, NULL, &census));
    uint64_t objects = 0;
    for (uint32_t i = 0; i < census.n; i++)
        objects += census.objects[i];
    assert_int_equal(objects, shape->snapshot->graph.n);
    uint32_t n = bins.n;
    hx_key_sums_deinit(&census);
    hx_bins_deinit(&bins);
    return n;
}

/* --- shapes ------------------------------------------------------------------------- */

static void check_one(const hx_sets *sets, const hx_set *set, size_t max)
{
    (void)max;
    assert_int_equal(hx_sets_count(sets), 3);
    assert_int_equal(set[0], 2);
}

static void test_list(void **state)
{
    (void)state;
    struct shape shape;
    struct hx_dominators dominators;
    size_t n = scaled(10000000);
    begin(&shape, n, 1);
    for (size_t i = 0; i + 1 < n; i++)
        add_edge(&shape, i, i + 1);
    add_root_edge(&shape, 0, 0);
    finish(&shape, n, 1);
    printf("  a list of %zu\n", n);
    find_states(&shape);
    assert_int_equal(shape.snapshot->state_objects[HX_STATE_REACHABLE], n);
    find_dominators(&shape, &dominators);
    assert_int_equal(dominators.objects[0], n);
    hx_dominators_deinit(&dominators);
    find_sets(&shape, 8, NULL, 1, check_one);
    find_sets(&shape, 0, NULL, 1, check_one);
    name_all_roots(&shape, 1);
    assert_int_equal(find_bins(&shape, 1), 3);
    end(&shape);
}

static void test_complete_graph(void **state)
{
    (void)state;
    struct shape shape;
    struct hx_dominators dominators;
    size_t n = full ? 3000 : unit_rounds(900);
    begin(&shape, n * n, 1);
    for (size_t i = 0; i < n; i++)
        for (size_t k = 0; k < n; k++)
            add_edge(&shape, i, k);
    add_root_edge(&shape, 0, n / 2);
    finish(&shape, n, 1);
    printf("  %zu objects, each of which points to all\n", n);
    find_states(&shape);
    find_dominators(&shape, &dominators);
    assert_int_equal(dominators.objects[n / 2], n);
    assert_int_equal(dominators.objects[0], 1);
    hx_dominators_deinit(&dominators);
    find_sets(&shape, 8, NULL, 1, check_one);
    name_all_roots(&shape, 1);
    assert_int_equal(find_bins(&shape, 1), 3);
    end(&shape);
}

/* All roots, however many, make one set. */
static void check_all(const hx_sets *sets, const hx_set *set, size_t max)
{
    const hx_retainer *element;
    if (max) {
        assert_int_equal(set[0], HX_SET_MANY);
        return;
    }
    size_t n = hx_sets_elements(sets, set[0], &element);
    for (size_t i = 0; i < n; i++)
        assert_int_equal(element[i], i);
    assert_int_equal(n, element[n - 1] + 1);
    assert_int_equal(set[1], set[0]);
}

/* Directly, and each by an object of its own. */
static void many_roots(bool direct)
{
    struct shape shape;
    struct hx_dominators dominators;
    size_t n = scaled(100000), own = direct ? 0 : n;
    begin(&shape, own + 1, n);
    add_edge(&shape, 0, 1);
    for (size_t i = 0; i < own; i++)
        add_edge(&shape, 2 + i, 0);
    for (size_t i = 0; i < n; i++)
        add_root_edge(&shape, i, direct ? 0 : 2 + i);
    finish(&shape, 2 + own, n);
    printf("  %zu roots on one object%s\n", n, direct ? "" : ", by an object each");
    find_states(&shape);
    find_dominators(&shape, &dominators);
    assert_int_equal(dominators.objects[0], 2);
    hx_dominators_deinit(&dominators);
    find_sets(&shape, 8, NULL, n, check_all);
    find_sets(&shape, 0, NULL, 3 * n, check_all);
    find_sets(&shape, HX_SETS_AUTO, NULL, 3 * n, check_all);
    name_all_roots(&shape, n);
    assert_int_equal(find_bins(&shape, 3 * n), direct ? 3 : 3 + n);
    end(&shape);
}

static void test_many_roots(void **state)
{
    (void)state;
    many_roots(true);
    many_roots(false);
}

enum { STAIRS = 20000, SHARING = 10, SHARED_ROOTS = 2000 };

static void check_subsets(const hx_sets *sets, const hx_set *set, size_t max)
{
    assert_true(max || set[0] != set[1]);
    assert_true(hx_sets_count(sets) >= 3);
}

/* Object i is reached by the roots whose bits are set in a word that is its own. */
static void test_subsets(void **state)
{
    (void)state;
    struct shape shape;
    struct hx_dominators dominators;
    struct unit_random random = {1};
    size_t n = scaled(100000), elements = 0;
    uint64_t *word = malloc(n * sizeof *word);
    assert_non_null(word);
    for (size_t i = 0; i < n; i++) {
        word[i] = unit_random(&random); /* no two are the same: splitmix64 is a permutation */
        elements += (size_t)__builtin_popcountll(word[i]);
    }
    begin(&shape, n, elements);
    for (size_t root = 0; root < 64; root++)
        for (size_t i = 0; i < n; i++)
            if (word[i] >> root & 1)
                add_root_edge(&shape, root, i);
    for (size_t i = 0; i < n; i++) /* and an object below each of them */
        add_edge(&shape, i, n + i);
    finish(&shape, 2 * n, 64);
    printf("  64 roots in %zu combinations\n", n);
    find_states(&shape);
    find_dominators(&shape, &dominators);
    hx_dominators_deinit(&dominators);
    find_sets(&shape, 8, NULL, 8 * elements, check_subsets);
    find_sets(&shape, 0, NULL, elements, check_subsets);
    find_sets(&shape, HX_SETS_AUTO, NULL, elements, check_subsets);
    name_all_roots(&shape, 64);
    assert_int_equal(find_bins(&shape, elements), 2 + n);
    end(&shape);
    free(word);
}

static void check_singletons(const hx_sets *sets, const hx_set *set, size_t max)
{
    const hx_retainer *element;
    (void)max;
    size_t n = hx_sets_count(sets) - 2;
    for (size_t i = 0; i < n; i++) {
        assert_int_equal(hx_sets_elements(sets, set[i], &element), 1);
        assert_int_equal(*element, i ? i : 0);
    }
}

static void check_stairs(const hx_sets *sets, const hx_set *set, size_t max)
{
    const hx_retainer *element;
    size_t most = max ? max : SIZE_MAX;
    for (size_t i = 0; i < STAIRS && i < most; i++)
        assert_int_equal(hx_sets_elements(sets, set[i], &element), i + 1);
    for (size_t i = most; i < STAIRS; i++)
        assert_int_equal(set[i], HX_SET_MANY);
}

/* A list with a root of its own at each link, once more from the other end: n * n names. */
static void test_stairs(void **state)
{
    (void)state;
    struct shape shape;
    const size_t n = STAIRS;
    begin(&shape, 2 * n, 2 * n);
    for (size_t i = 0; i + 1 < n; i++)
        add_edge(&shape, i, i + 1);
    for (size_t i = n + 1; i < 2 * n; i++)
        add_edge(&shape, i, i - 1);
    for (size_t i = 0; i < 2 * n; i++)
        add_root_edge(&shape, i, i);
    finish(&shape, 2 * n, 2 * n);
    printf("  lists of %zu links, each with a root\n", n);
    find_states(&shape);
    find_sets(&shape, 8, NULL, 16 * n, check_stairs);
    find_sets(&shape, HX_SETS_AUTO, NULL, 2 * HX_SETS_ROOM / HX_ELEMENT_BYTES, check_stairs);
    end(&shape);
}

static void check_shared(const hx_sets *sets, const hx_set *set, size_t max)
{
    const hx_retainer *element;
    assert_int_equal(max, 0);
    for (size_t i = 0; i < SHARING; i++)
        assert_int_equal(hx_sets_elements(sets, set[i], &element), SHARED_ROOTS / 2);
    for (size_t i = SHARING; i < SHARING + 1000; i++)
        assert_in_range(hx_sets_elements(sets, set[i], &element), SHARED_ROOTS / 2, SHARED_ROOTS);
}

/* A few structures, each of which many roots lead to, share all else: three of them have each
 * object. */
static void test_shared(void **state)
{
    (void)state;
    struct shape shape;
    struct unit_random random = {1};
    size_t n = scaled(1000000), edges = 0;
    uint8_t *holder = malloc(3 * n);
    assert_non_null(holder);
    for (size_t i = 0; i < n; i++)
        for (size_t k = 0; k < 3; k++)
            holder[3 * i + k] = (uint8_t)((unit_below(&random, SHARING - 2) + k) % SHARING);
    begin(&shape, 3 * n, SHARING * SHARED_ROOTS / 2);
    for (size_t i = 0; i < SHARING; i++)
        for (size_t e = 0; e < 3 * n; e++)
            if (holder[e] == i) {
                add_edge(&shape, i, SHARING + e / 3);
                edges++;
            }
    assert_int_equal(edges, 3 * n);
    for (size_t root = 0; root < SHARED_ROOTS; root++)
        for (size_t i = 0; i < SHARING; i++)
            if ((root + i * SHARED_ROOTS / SHARING) % SHARED_ROOTS < SHARED_ROOTS / 2)
                add_root_edge(&shape, root, i);
    finish(&shape, SHARING + n, SHARED_ROOTS);
    printf("  %zu objects, each of three structures with %d roots\n", n, SHARED_ROOTS / 2);
    find_states(&shape);
    find_sets(&shape, HX_SETS_AUTO, NULL, 10 * n, check_shared);
    end(&shape);
    free(holder);
}

/* A list in which every object is a retainer of its own. */
static void test_singletons(void **state)
{
    (void)state;
    struct shape shape;
    struct hx_dominators dominators;
    size_t n = scaled(5000000);
    hx_retainer *of_object = malloc(n * sizeof *of_object);
    assert_non_null(of_object);
    begin(&shape, n, 1);
    for (size_t i = 0; i < n; i++) {
        of_object[i] = (hx_retainer)(i + 1);
        if (i + 1 < n)
            add_edge(&shape, i, i + 1);
    }
    add_root_edge(&shape, 0, 0);
    finish(&shape, n, 1);
    printf("  %zu retainers of one object each\n", n);
    find_states(&shape);
    find_dominators(&shape, &dominators);
    hx_dominators_deinit(&dominators);
    find_sets(&shape, 8, of_object, n, check_singletons);
    find_sets(&shape, 0, of_object, n, check_singletons);
    end(&shape);
    free(of_object);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_list),       cmocka_unit_test(test_complete_graph),
    cmocka_unit_test(test_many_roots), cmocka_unit_test(test_subsets),
    cmocka_unit_test(test_stairs),     cmocka_unit_test(test_shared),
    cmocka_unit_test(test_singletons),
};

/* A stack that recursion over an object would overflow. */
static void *run(void *failed)
{
    *(int *)failed = cmocka_run_group_tests(tests, NULL, NULL);
    return NULL;
}

int main(int argc, char **argv)
{
    pthread_attr_t attr;
    pthread_t thread;
    int failed = 1;
    full = argc > 1 && strcmp(argv[1], "full") == 0;
    pthread_attr_init(&attr);
    pthread_attr_setstacksize(&attr, STACK_KIB * 1024);
    if (pthread_create(&thread, &attr, run, &failed) != 0)
        return 1;
    pthread_join(thread, NULL);
    pthread_attr_destroy(&attr);
    return failed;
}
