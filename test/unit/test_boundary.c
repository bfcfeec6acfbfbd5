/* test_boundary.c - graphs of as many objects as an index can number, and one fewer.
 *
 * Compiled with indexes of 16 bits: 65,535 objects are the most, HX_NO_OBJ is none of them. */
#include "unit.h"

#include "../image/image.h"
#include "base/cleanup.h"
#include "store/store.h"
#include "traverse/components.h"
#include "traverse/diff.h"
#include "traverse/dominate/dominators.h"
#include "traverse/dominate/groups.h"
#include "traverse/key_sums.h"
#include "traverse/reach.h"
#include "traverse/retain/bins.h"
#include "traverse/retain/retain.h"
#include "traverse/scan/scan.h"

#include <sqlite3.h>
#include <sys/mman.h>
#include <unistd.h>

enum { FEWER = 3 }; /* sizes looked at: the largest one, one fewer, two fewer */

/* --- shapes --------------------------------------------------------------------------- */

enum shape { LIST, CYCLE, SINGLES, STAR, TANGLE, SHAPES };

struct drawn {
    struct hx_drawn_edge *edge, *root_edge;
    size_t n_edges, n_root_edges;
};

static void add(struct drawn *drawn, size_t source, size_t target)
{
    drawn->edge[drawn->n_edges++] =
        (struct hx_drawn_edge){(uint32_t)source, (hx_obj)target, HX_EDGE_START};
}

static void draw_edges(struct drawn *drawn, enum shape shape, size_t n)
{
    struct unit_random random = {1};
    for (size_t i = 0; i < n; i++) {
        if (shape == LIST && i + 1 < n)
            add(drawn, i, i + 1);
        else if (shape == CYCLE)
            add(drawn, i, (i + 1) % n);
        else if (shape == STAR && i)
            add(drawn, i, 0);
        else if (shape == STAR)
            for (size_t k = 1; k < n; k++)
                add(drawn, 0, k);
        else if (shape == TANGLE)
            for (size_t k = 0; k < 3; k++)
                add(drawn, i, unit_below(&random, n));
    }
}

/* Roots lead to object 0; among singles to every one. */
static struct hx_snapshot *make(enum shape shape, hx_obj n, bool lost)
{
    struct drawn drawn = {.edge = calloc((size_t)n * 3, sizeof *drawn.edge),
                          .root_edge = calloc(n, sizeof *drawn.root_edge)};
    struct hx_snapshot *snapshot;
    assert_non_null(drawn.edge);
    assert_non_null(drawn.root_edge);
    draw_edges(&drawn, shape, n);
    drawn.n_root_edges = lost ? 0 : shape == SINGLES ? n : 1;
    for (size_t i = 0; i < drawn.n_root_edges; i++)
        drawn.root_edge[i] = (struct hx_drawn_edge){0, (hx_obj)i, HX_EDGE_START};
    assert_null(hx_image_graph(n, drawn.edge, drawn.n_edges, 1, drawn.root_edge, drawn.n_root_edges,
                               &snapshot));
    assert_int_equal(snapshot->graph.n, n);
    free(drawn.edge);
    free(drawn.root_edge);
    return snapshot;
}

/* --- what must hold of every shape ------------------------------------------------------- */

/* What the roots reach, with indexes that cannot wrap. */
static size_t reached(const struct hx_snapshot *snapshot, bool *seen)
{
    const struct hx_graph *graph = &snapshot->graph;
    size_t *queue = calloc((size_t)graph->n + 1, sizeof *queue), n = 0;
    for (size_t i = 0; i < snapshot->root_edges.n; i++) {
        size_t target = snapshot->root_edges.v[i].target;
        if (!seen[target])
            queue[n++] = target;
        seen[target] = true;
    }
    for (size_t k = 0; k < n; k++)
        for (hx_eidx e = graph->fwd[queue[k]]; e < graph->fwd[queue[k] + 1]; e++) {
            size_t target = hx_edge_target(graph->edge[e]);
            if (!seen[target])
                queue[n++] = target;
            seen[target] = true;
        }
    free(queue);
    return n;
}

static void check_states(struct hx_snapshot *snapshot, enum shape shape, bool lost)
{
    const size_t n = snapshot->graph.n;
    bool *seen = calloc(n, 1);
    size_t alive = reached(snapshot, seen);
    for (unsigned threads = 1; threads <= 3; threads++) {
        assert_null(hx_reach(snapshot, HX_INTERIOR_KNOWN, threads, NULL));
        const uint64_t *objects = snapshot->state_objects;
        assert_int_equal(objects[HX_STATE_REACHABLE], alive);
        assert_int_equal(objects[HX_STATE_DEFINITE] + objects[HX_STATE_INDIRECT], n - alive);
        for (size_t i = 0; i < n; i++)
            assert_int_equal(snapshot->graph.state[i] == HX_STATE_REACHABLE, seen[i]);
        if (lost && shape != TANGLE)
            assert_int_equal(objects[HX_STATE_DEFINITE], shape == SINGLES ? n : 1);
    }
    free(seen);
}

static void check_components(const struct hx_snapshot *snapshot, enum shape shape)
{
    const struct hx_graph *graph = &snapshot->graph;
    const size_t n = graph->n;
    const struct hx_scope scope = {.states = (1u << HX_STATES) - 1, .follows = 7};
    struct hx_components components;
    assert_null(hx_components_find(graph, &scope, NULL, &components));
    assert_int_equal(components.n_objects, n);
    if (shape != TANGLE)
        assert_int_equal(components.n, shape == CYCLE || shape == STAR ? 1 : n);
    bool *met = calloc(n, 1);
    for (size_t k = 0; k < n; k++) {
        assert_true(components.order[k] < n && !met[components.order[k]]);
        met[components.order[k]] = true;
        assert_true(components.number[k] < components.n);
        for (hx_eidx e = graph->fwd[k]; e < graph->fwd[k + 1]; e++)
            assert_true(components.number[k] <= components.number[hx_edge_target(graph->edge[e])]);
    }
    free(met);
    hx_components_deinit(&components);
}

/* Every object is a retainer of its own, then none is. */
static void check_sets(const struct hx_snapshot *snapshot)
{
    const size_t n = snapshot->graph.n;
    hx_retainer of_root[1] = {0}, *of_object = malloc(n * sizeof *of_object);
    for (size_t i = 0; i < n; i++)
        of_object[i] = (hx_retainer)i + 1;
    for (int own = 0; own <= 1; own++) {
        hx_sets *sets;
        struct hx_retention retention;
        const struct hx_retain_rule rule = {.of_root = of_root,
                                            .of_object = own ? of_object : NULL};
        uint64_t objects = 0;
        assert_null(hx_sets_create(0, &sets));
        assert_null(hx_retain(snapshot, &rule, sets, NULL, &retention));
        for (size_t i = 0; i < n; i++) {
            bool alive = snapshot->graph.state[i] == HX_STATE_REACHABLE;
            assert_int_equal(retention.set[i] != HX_SET_NONE, alive);
            objects += alive;
            for (hx_eidx e = snapshot->graph.fwd[i]; alive && e < snapshot->graph.fwd[i + 1]; e++)
                assert_true(hx_sets_member(sets,
                                           retention.set[hx_edge_target(snapshot->graph.edge[e])],
                                           own ? of_object[i] : 0));
        }
        assert_int_equal(retention.objects, objects);
        hx_retention_deinit(&retention);
        hx_sets_destroy(sets);
    }
    free(of_object);
}

static void check_dominators(const struct hx_snapshot *snapshot, enum shape shape)
{
    const size_t n = snapshot->graph.n;
    struct hx_dominators dominators;
    assert_null(hx_dominators_find(snapshot, HX_OVER_FOLLOWED, NULL, &dominators));
    assert_int_equal(dominators.scope_objects, snapshot->state_objects[HX_STATE_REACHABLE]);
    size_t *below = calloc(n, sizeof *below);
    uint64_t roots = 0;
    for (size_t i = 0; i < n; i++) {
        if (!hx_dominators_has(&dominators, (hx_obj)i)) {
            assert_int_equal(dominators.parent[i], HX_NO_OBJ);
            continue;
        }
        if (dominators.parent[i] == HX_NO_OBJ)
            roots += dominators.objects[i];
        else
            below[dominators.parent[i]] += dominators.objects[i];
        if (shape == LIST || shape == CYCLE)
            assert_int_equal(dominators.objects[i], n - i);
        if (shape == STAR)
            assert_int_equal(dominators.objects[i], i ? 1 : n);
    }
    assert_int_equal(roots, dominators.scope_objects);
    for (size_t i = 0; i < n; i++)
        if (hx_dominators_has(&dominators, (hx_obj)i))
            assert_int_equal(dominators.objects[i], 1 + below[i]);
    free(below);

    uint32_t *group = malloc(n * sizeof *group);
    struct hx_groups groups;
    for (size_t i = 0; i < n; i++)
        group[i] = i == 0;
    assert_null(hx_groups_measure(snapshot, &dominators, group, 2, 0, 2, NULL, &groups));
    assert_int_equal(groups.objects[1], dominators.objects[0]);
    if (dominators.scope_objects == n && shape != SINGLES)
        assert_int_equal(groups.objects[0], n - 1);
    hx_groups_deinit(&groups);
    hx_dominators_deinit(&dominators);
    free(group);
}

/* Named roots that reach everything, sums by key, and the same snapshot compared with itself. */
static void check_columns(struct hx_snapshot *snapshot)
{
    const size_t n = snapshot->graph.n;
    struct hx_bins bins;
    struct hx_key_sums census;
    struct hx_big same = {0};
    assert_true(hx_vec_push(&snapshot->named, (struct hx_named){.name = strdup("all")}));
    snapshot->has_resident = true;
    assert_true(hx_vec_push(&snapshot->resident, (struct hx_range){0, UINT64_MAX & ~4095ull}));
    assert_null(hx_bins_find(snapshot, NULL, &bins));
    assert_null(hx_key_sums_make(snapshot, bins.bin, bins.n, NULL, &census));
    uint64_t objects = 0, reached = bins.n > 2 ? census.objects[2] : 0;
    for (uint32_t k = 0; k < census.n; k++)
        objects += census.objects[k];
    assert_int_equal(objects, n);
    assert_int_equal(reached, snapshot->state_objects[HX_STATE_REACHABLE]);
    assert_null(hx_diff_objects(snapshot, snapshot, NULL, &same));
    for (size_t i = 0; i < n; i++)
        assert_true(hx_diff_has(&same, (hx_obj)i));
    hx_big_free(&same);
    hx_key_sums_deinit(&census);
    hx_bins_deinit(&bins);
}

static void check_why(const struct hx_snapshot *snapshot, enum shape shape)
{
    const hx_obj last = snapshot->graph.n - 1;
    struct hx_chains chains;
    assert_null(hx_why(snapshot, last, &(struct hx_why_options){.limit = 2}, NULL, &chains));
    if (snapshot->graph.state[last] != HX_STATE_REACHABLE) {
        assert_int_equal(chains.n, 0);
    } else {
        assert_true(chains.n >= 1);
        const struct hx_chain *chain = &chains.chain[0];
        assert_int_equal(chain->step[chain->n - 1].target, last);
        if (shape == LIST || shape == CYCLE)
            assert_int_equal(chain->n, (size_t)last + 1);
    }
    hx_chains_deinit(&chains);
}

static void test_shapes(void **state)
{
    (void)state;
    for (unsigned fewer = 0; fewer < FEWER; fewer++)
        for (enum shape shape = 0; shape < SHAPES; shape++)
            for (int lost = 0; lost <= 1; lost++) {
                struct hx_snapshot *snapshot = make(shape, (hx_obj)(HX_OBJECTS_MAX - fewer), lost);
                assert_null(hx_graph_reverse(&snapshot->graph, 2, NULL));
                assert_null(hx_graph_check(&snapshot->graph));
                check_states(snapshot, shape, lost);
                check_components(snapshot, shape);
                check_sets(snapshot);
                check_dominators(snapshot, shape);
                check_why(snapshot, shape);
                check_columns(snapshot);
                hx_snapshot_destroy(snapshot);
            }
}

/* --- the scan ------------------------------------------------------------------------------ */

/* Each object points to the next one, into the middle of another, and to nothing. */
static void test_scan(void **state)
{
    (void)state;
    enum { STEP = 32, BASE = 0x10000000, ROOT = 0x7000000 };
    for (unsigned fewer = 0; fewer < FEWER; fewer++) {
        const size_t n = (size_t)HX_OBJECTS_MAX - fewer;
        uint64_t *addr = malloc(n * sizeof *addr), *size = malloc(n * sizeof *size);
        for (size_t i = 0; i < n; i++) {
            addr[i] = BASE + i * STEP;
            size[i] = 24;
        }
        struct hx_snapshot *snapshot;
        assert_null(hx_image_plain(addr, size, (hx_obj)n, &snapshot));
        struct hx_image *image = &snapshot->image;
        image->mapping_bytes = (n * STEP + 2 * 4096) & ~(size_t)4095;
        image->mapping = mmap(NULL, image->mapping_bytes, PROT_READ | PROT_WRITE,
                              MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        assert_true(image->mapping != MAP_FAILED);
        uint64_t *root = image->mapping, *word = root + 512;
        for (size_t i = 0; i < n; i++, word += STEP / 8) {
            word[0] = addr[(i + 1) % n];
            word[1] = addr[n - 1 - i] + 20;
            word[2] = addr[i] + 24; /* its end */
        }
        root[0] = addr[n - 1];
        root[1] = addr[n - 1] + 24;
        image->span = calloc(2, sizeof *image->span);
        image->span[0] = (struct hx_span){ROOT, ROOT + 4096, (const uint8_t *)root};
        image->span[1] = (struct hx_span){BASE, BASE + image->mapping_bytes - 4096,
                                          (const uint8_t *)(root + 512)};
        image->n = 2;
        assert_true(hx_vec_push(&snapshot->roots, (struct hx_root){.address = ROOT,
                                                                   .size = 4096,
                                                                   .name = strdup("r"),
                                                                   .module = strdup("")}));
        for (unsigned threads = 1; threads <= 2; threads++) {
            assert_null(hx_scan(snapshot, &(struct hx_scan_options){.threads = threads}, NULL));
            const struct hx_graph *graph = &snapshot->graph;
            assert_null(hx_graph_check(graph));
            assert_int_equal(graph->n_edges, 2 * n);
            for (size_t i = 0; i < n; i++) {
                assert_int_equal(graph->fwd[i], 2 * i);
                assert_int_equal(hx_edge_target(graph->edge[2 * i]), (i + 1) % n);
                assert_int_equal(hx_edge_target(graph->edge[2 * i + 1]), n - 1 - i);
            }
            assert_int_equal(snapshot->root_edges.n, 1);
            assert_int_equal(snapshot->root_edges.v[0].target, n - 1);
        }
        hx_snapshot_destroy(snapshot);
        free(addr);
        free(size);
    }
}

/* --- the store ------------------------------------------------------------------------------- */

/* A file in $TMPDIR that does not exist. */
static void fresh_path(char *path, size_t bytes)
{
    const char *folder = getenv("TMPDIR");
    snprintf(path, bytes, "%s/test_boundary-%d.hpx", folder ? folder : "/tmp", (int)getpid());
    unlink(path);
}

static void execute(const char *path, const char *sql)
{
    sqlite3 *db;
    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    assert_int_equal(sqlite3_exec(db, sql, NULL, NULL, NULL), SQLITE_OK);
    sqlite3_close(db);
}

static void test_store(void **state)
{
    (void)state;
    char path[4096];
    int64_t number;
    hx_store *store;
    struct hx_snapshot *back;
    fresh_path(path, sizeof path);
    struct hx_snapshot *snapshot = make(TANGLE, HX_OBJECTS_MAX, false);
    snapshot->method = "copy";
    snapshot->comm = strdup("test");
    assert_null(hx_reach(snapshot, HX_INTERIOR_KNOWN, 1, NULL));
    assert_null(hx_store_append(path, &store));
    assert_null(hx_store_add(store, snapshot, NULL, NULL, &number));
    assert_null(hx_store_load(store, number, NULL, &back));
    assert_int_equal(back->graph.n, HX_OBJECTS_MAX);
    assert_int_equal(back->graph.n_edges, snapshot->graph.n_edges);
    assert_memory_equal(back->graph.edge, snapshot->graph.edge,
                        snapshot->graph.n_edges * sizeof(hx_edge));
    assert_null(hx_graph_check(&back->graph));
    hx_snapshot_destroy(back);
    hx_snapshot_destroy(snapshot);
    assert_null(hx_store_close(store));

    /* One more than can be numbered. */
    execute(path, "UPDATE hx_block SET n = 65536 WHERE family = 1");
    assert_null(hx_store_open(path, &store));
    hx_error *err = hx_store_load(store, number, NULL, &back);
    assert_non_null(err);
    char line[300];
    hx_error_line(err, line, sizeof line);
    assert_non_null(strstr(line, "too many objects"));
    hx_error_free(err);
    assert_null(hx_store_close(store));
    unlink(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_shapes),
        cmocka_unit_test(test_scan),
        cmocka_unit_test(test_store),
    };
    return unit_run_some(tests);
}
