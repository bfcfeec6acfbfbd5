/* test_why.c - chains, against all simple paths of small graphs: each root that reaches an object
 * has its shortest one before any root has a second. */
#include "random_graph.h"

#include "traverse/leaks.h"
#include "traverse/reach.h"
#include "traverse/scan/scan.h"

/* --- all chains, by trying everything ------------------------------------------ */

#define PATH_MAX_OBJECTS 8

struct path {
    uint32_t root;
    hx_obj object[PATH_MAX_OBJECTS];
    size_t n;
    bool strong; /* can be walked without a plain interior edge */
};

typedef HX_VEC(struct path) paths;

static bool has_edge(const struct hx_drawn_edge *edge, size_t n, uint32_t source, hx_obj target,
                     unsigned follows, bool *strong)
{
    bool found = false;
    *strong = false;
    for (size_t i = 0; i < n; i++) {
        if (edge[i].source != source || edge[i].target != target || !(follows >> edge[i].kind & 1))
            continue;
        found = true;
        *strong |= edge[i].kind != HX_EDGE_INTERIOR;
    }
    return found;
}

/* Extends the path in every way; the graph is tiny. */
static void try_all(const struct random_graph *graph, unsigned follows, hx_obj target,
                    struct path *path, paths *found)
{
    hx_obj last = path->object[path->n - 1];
    if (last == target) {
        assert_true(hx_vec_push(found, *path));
        return;
    }
    for (hx_obj next = 0; next < graph->n; next++) {
        bool strong, seen = false;
        for (size_t i = 0; i < path->n; i++)
            seen |= path->object[i] == next;
        if (seen || !has_edge(graph->edge, graph->n_edges, last, next, follows, &strong))
            continue;
        struct path longer = *path;
        longer.object[longer.n++] = next;
        longer.strong &= strong;
        try_all(graph, follows, target, &longer, found);
    }
}

static int by_length(const void *a, const void *b)
{
    const struct path *x = a, *y = b;
    return x->n < y->n ? -1 : x->n > y->n;
}

/* roots: bit for each that counts. */
static paths all_paths(const struct random_graph *graph, unsigned follows, uint64_t roots,
                       hx_obj target)
{
    paths found = {0};
    for (uint32_t root = 0; root < graph->n_roots; root++) {
        if (!(roots >> root & 1))
            continue;
        for (hx_obj first = 0; first < graph->n; first++) {
            bool strong;
            if (!has_edge(graph->root_edge, graph->n_root_edges, root, first, follows, &strong))
                continue;
            struct path path = {.root = root, .object = {first}, .n = 1, .strong = strong};
            try_all(graph, follows, target, &path, &found);
        }
    }
    if (found.n)
        qsort(found.v, found.n, sizeof *found.v, by_length);
    return found;
}

/* --- what every chain must be ---------------------------------------------------- */

static void assert_is_chain(const struct hx_snapshot *snapshot, const struct hx_chain *chain,
                            hx_obj object)
{
    const struct hx_graph *graph = &snapshot->graph;
    assert_true(chain->n > 0);
    assert_int_equal(chain->step[chain->n - 1].target, object);
    for (size_t i = 0; i < chain->n; i++) {
        const struct hx_step *step = &chain->step[i];
        bool real = false;
        if (i == 0) {
            assert_int_equal(step->source, HX_NO_OBJ);
            for (size_t e = 0; e < snapshot->root_edges.n; e++) {
                const struct hx_root_edge *edge = &snapshot->root_edges.v[e];
                real |= edge->root == step->root && edge->target == step->target &&
                        edge->kind == step->kind &&
                        edge->address == snapshot->roots.v[edge->root].address + step->offset;
            }
        } else {
            assert_int_equal(step->root, UINT32_MAX);
            assert_int_equal(step->source, chain->step[i - 1].target);
            for (hx_eidx e = graph->fwd[step->source]; e < graph->fwd[step->source + 1]; e++)
                real |= graph->edge[e] == hx_edge_make(step->target, step->offset / 8, step->kind);
        }
        assert_true(real);
        for (size_t k = 0; k < i && chain->n < 1000; k++)
            assert_int_not_equal(chain->step[k].target, step->target);
    }
}

static bool is_strong(const struct hx_chain *chain)
{
    for (size_t i = 0; i < chain->n; i++)
        if (chain->step[i].kind == HX_EDGE_INTERIOR)
            return false;
    return true;
}

static bool same_way(const struct hx_chain *a, const struct hx_chain *b)
{
    if (a->n != b->n || a->step[0].root != b->step[0].root)
        return false;
    for (size_t i = 0; i < a->n; i++)
        if (a->step[i].target != b->step[i].target)
            return false;
    return true;
}

/* What must come: the shortest of each root, then the shortest of all others. */
struct wanted {
    uint64_t roots; /* bit for each that has a chain */
    size_t n_roots, n;
    size_t best[64]; /* for each root */
    size_t *length;  /* n, in this order */
    bool strong;     /* there is one without plain interior edges */
};

static void make_wanted(const paths *all, struct wanted *ret)
{
    *ret = (struct wanted){.length = calloc(all->n + 1, sizeof *ret->length)};
    for (unsigned pass = 0; pass < 2; pass++) {
        uint64_t seen = 0;
        for (size_t i = 0; i < all->n; i++) {
            const struct path *path = &all->v[i];
            bool first = !(seen >> path->root & 1);
            seen |= (uint64_t)1 << path->root;
            if (first == (pass == 0))
                ret->length[ret->n++] = path->n;
            if (first)
                ret->best[path->root] = path->n;
            ret->strong |= path->strong;
        }
        ret->roots = seen;
        ret->n_roots = (size_t)__builtin_popcountll(seen);
    }
}

static int by_size(const void *a, const void *b)
{
    size_t x = *(const size_t *)a, y = *(const size_t *)b;
    return x < y ? -1 : x > y;
}

/* Have the chains but `skip` the first `n` lengths that were wanted? */
static bool has_lengths(const struct wanted *wanted, size_t n, const struct hx_chains *chains,
                        size_t skip)
{
    size_t *length = calloc(n + 1, sizeof *length), at = 0;
    bool same = true;
    memcpy(length, wanted->length, n * sizeof *length);
    qsort(length, n, sizeof *length, by_size);
    for (size_t i = 0; i < chains->n; i++)
        if (i != skip)
            same &= chains->chain[i].n == length[at++];
    free(length);
    return same && at == n;
}

static void assert_order(const struct hx_snapshot *snapshot, const struct hx_chains *chains,
                         hx_obj object)
{
    for (size_t i = 0; i < chains->n; i++) {
        assert_is_chain(snapshot, &chains->chain[i], object);
        for (size_t k = 0; k < i; k++)
            assert_false(same_way(&chains->chain[i], &chains->chain[k]));
        if (i)
            assert_true(chains->chain[i - 1].n <= chains->chain[i].n);
    }
}

/* A chain without plain interior edges may stand for the last one that was wanted; only where its
 * root would otherwise have none, when roots have no second chains. */
static void assert_selection(const struct wanted *wanted, const struct hx_chains *chains,
                             size_t limit, bool may_stand_in)
{
    size_t n = wanted->n < limit ? wanted->n : limit, strong = 0, stand_in = SIZE_MAX;
    uint64_t seen = 0;
    assert_int_equal(chains->n, n);
    for (size_t i = 0; i < n; i++) {
        strong += is_strong(&chains->chain[i]);
        stand_in = is_strong(&chains->chain[i]) ? i : stand_in;
    }
    if (has_lengths(wanted, n, chains, SIZE_MAX)) {
        stand_in = SIZE_MAX;
    } else {
        assert_true(may_stand_in && strong == 1 && n == limit);
        assert_true(has_lengths(wanted, n - 1, chains, stand_in));
    }
    for (size_t i = 0; i < n; i++) {
        uint32_t root = chains->chain[i].step[0].root;
        assert_true(wanted->roots >> root & 1);
        if (!(seen >> root & 1) && i != stand_in)
            assert_int_equal(chains->chain[i].n, wanted->best[root]);
        assert_true(limit > wanted->n_roots || !(seen >> root & 1));
        seen |= (uint64_t)1 << root;
    }
    if (limit >= wanted->n_roots)
        assert_int_equal(seen, wanted->roots);
    if (may_stand_in && limit > wanted->n_roots)
        assert_int_equal(strong > 0, wanted->strong);
}

static void compare(const struct random_graph *graph, struct hx_snapshot *snapshot, hx_obj object,
                    const struct hx_why_options *options)
{
    unsigned follows = snapshot->interior == HX_INTERIOR_OFF ? 3 : 7;
    uint64_t roots = options->roots ? *options->roots : UINT64_MAX;
    for (size_t i = 0; i < snapshot->roots.n; i++)
        if (snapshot->roots.v[i].kind == HX_ROOT_NAMED)
            roots &= ~((uint64_t)1 << i);
    paths all = all_paths(graph, follows, roots, object);
    struct wanted wanted;
    make_wanted(&all, &wanted);
    struct hx_chains chains, again;
    assert_null(hx_why(snapshot, object, options, NULL, &chains));
    assert_order(snapshot, &chains, object);
    uint8_t state = snapshot->graph.state[object];
    bool may_stand_in = options->limit > 1 && snapshot->interior == HX_INTERIOR_KNOWN &&
                        state == HX_STATE_REACHABLE;
    assert_selection(&wanted, &chains, options->limit, may_stand_in);
    if (!options->roots)
        assert_int_equal(all.n > 0, state == HX_STATE_REACHABLE || state == HX_STATE_POSSIBLE);
    assert_null(hx_why(snapshot, object, options, NULL, &again));
    assert_int_equal(again.n, chains.n);
    for (size_t i = 0; i < chains.n; i++)
        assert_true(same_way(&chains.chain[i], &again.chain[i]));
    hx_chains_deinit(&chains);
    hx_chains_deinit(&again);
    hx_vec_free(&all);
    free(wanted.length);
}

static void test_all_of_small(void **state)
{
    (void)state;
    struct unit_random random = unit_random_begin("why, small");
    static const size_t limits[] = {1, 2, 3, 4, 5, 20, 1000000};
    for (size_t round = unit_rounds(4000); round; round--) {
        struct random_graph graph;
        random_graph_make(&random, PATH_MAX_OBJECTS, &graph);
        struct hx_snapshot *snapshot = random_graph_snapshot(&graph);
        if (graph.n_roots && unit_below(&random, 4) == 0)
            snapshot->roots.v[graph.n_roots - 1].kind = HX_ROOT_NAMED;
        assert_null(hx_graph_reverse(&snapshot->graph, 1, NULL));
        assert_null(hx_reach(snapshot, (enum hx_interior)(round % 3), 1, NULL));
        for (hx_obj object = 0; object < graph.n; object++) {
            uint64_t roots = unit_below(&random, 32);
            const struct hx_why_options options = {
                .limit = limits[unit_below(&random, sizeof limits / sizeof *limits)],
                .roots = unit_below(&random, 3) ? NULL : &roots};
            compare(&graph, snapshot, object, &options);
        }
        hx_snapshot_destroy(snapshot);
    }
}

/* Distances of larger graphs, by relaxing until nothing changes. */
static void test_shortest(void **state)
{
    (void)state;
    struct unit_random random = unit_random_begin("why, shortest");
    for (size_t round = unit_rounds(3000); round; round--) {
        struct random_graph graph;
        random_graph_make(&random, RANDOM_GRAPH_MAX, &graph);
        enum hx_interior interior = (enum hx_interior)(round % 3);
        unsigned follows = interior == HX_INTERIOR_OFF ? 3 : 7;
        size_t length[RANDOM_GRAPH_MAX];
        memset(length, 0xff, sizeof length);
        for (size_t e = 0; e < graph.n_root_edges; e++)
            if (follows >> graph.root_edge[e].kind & 1)
                length[graph.root_edge[e].target] = 1;
        for (bool changed = true; changed;) {
            changed = false;
            for (size_t e = 0; e < graph.n_edges; e++) {
                const struct hx_drawn_edge *edge = &graph.edge[e];
                if (follows >> edge->kind & 1 && length[edge->source] != SIZE_MAX &&
                    length[edge->source] + 1 < length[edge->target]) {
                    length[edge->target] = length[edge->source] + 1;
                    changed = true;
                }
            }
        }
        struct hx_snapshot *snapshot = random_graph_snapshot(&graph);
        assert_null(hx_graph_reverse(&snapshot->graph, 2, NULL));
        assert_null(hx_reach(snapshot, interior, 1, NULL));
        for (hx_obj object = 0; object < graph.n; object++) {
            struct hx_chains chains;
            assert_null(
                hx_why(snapshot, object, &(struct hx_why_options){.limit = 8}, NULL, &chains));
            assert_int_equal(chains.n > 0, length[object] != SIZE_MAX);
            for (size_t i = 0; i < chains.n; i++)
                assert_is_chain(snapshot, &chains.chain[i], object);
            if (chains.n)
                assert_int_equal(chains.chain[0].n, length[object]);
            hx_chains_deinit(&chains);
        }
        hx_snapshot_destroy(snapshot);
    }
}

/* The leak that a lost object hangs below, by relaxing the distance from each leak over
 * lost objects. */
static void check_holder(const struct random_graph *graph, const struct hx_snapshot *snapshot,
                         hx_obj object)
{
    const uint8_t *state = snapshot->graph.state;
    hx_obj best = HX_NO_OBJ, found;
    uint64_t fewest = UINT64_MAX, steps;
    for (hx_obj leak = 0; leak < graph->n && state[object] == HX_STATE_INDIRECT; leak++) {
        uint64_t length[RANDOM_GRAPH_MAX];
        memset(length, 0xff, sizeof length);
        if (state[leak] != HX_STATE_DEFINITE)
            continue;
        length[leak] = 0;
        for (bool changed = true; changed;) {
            changed = false;
            for (size_t e = 0; e < graph->n_edges; e++) {
                const struct hx_drawn_edge *edge = &graph->edge[e];
                uint8_t to = state[edge->target];
                if ((to == HX_STATE_DEFINITE || to == HX_STATE_INDIRECT) &&
                    length[edge->source] != UINT64_MAX &&
                    length[edge->source] + 1 < length[edge->target]) {
                    length[edge->target] = length[edge->source] + 1;
                    changed = true;
                }
            }
        }
        if (length[object] < fewest) {
            fewest = length[object];
            best = leak;
        }
    }
    assert_null(hx_leaks_holder(&snapshot->graph, object, NULL, &found, &steps));
    assert_int_equal(found, best);
    assert_int_equal(steps, best == HX_NO_OBJ ? 0 : fewest);
    assert_int_equal(best != HX_NO_OBJ, state[object] == HX_STATE_INDIRECT);
}

static void test_lost(void **state)
{
    (void)state;
    struct unit_random random = unit_random_begin("why, lost");
    for (size_t round = unit_rounds(1000); round; round--) {
        struct random_graph graph;
        random_graph_make(&random, RANDOM_GRAPH_MAX, &graph);
        graph.n_root_edges = graph.n_root_edges < 2 ? graph.n_root_edges : 2;
        struct hx_snapshot *snapshot = random_graph_snapshot(&graph);
        assert_null(hx_graph_reverse(&snapshot->graph, 1, NULL));
        assert_null(hx_reach(snapshot, (enum hx_interior)(round % 3), 1, NULL));
        for (hx_obj object = 0; object < graph.n; object++)
            check_holder(&graph, snapshot, object);
        hx_snapshot_destroy(snapshot);
    }
}

/* --- drawn cases ----------------------------------------------------------------- */

/* "g a b | h b": the objects of each chain behind its root. */
static void check_chains(const char *text, const char *object, size_t limit, const char *expected)
{
    struct hx_drawing drawing;
    assert_null(hx_image_draw(text, &drawing));
    assert_null(hx_scan(drawing.snapshot, NULL, NULL));
    assert_null(hx_graph_reverse(&drawing.snapshot->graph, 1, NULL));
    assert_null(hx_reach(drawing.snapshot, HX_INTERIOR_KNOWN, 1, NULL));
    struct hx_chains chains;
    assert_null(hx_why(drawing.snapshot, hx_drawing_object(&drawing, object),
                       &(struct hx_why_options){.limit = limit}, NULL, &chains));
    struct hx_text found = {0};
    for (size_t i = 0; i < chains.n; i++) {
        const struct hx_chain *chain = &chains.chain[i];
        assert_is_chain(drawing.snapshot, chain, hx_drawing_object(&drawing, object));
        hx_text_putf(&found, "%s%s", i ? " | " : "",
                     drawing.snapshot->roots.v[chain->step[0].root].name);
        for (size_t k = 0; k < chain->n; k++)
            hx_text_putf(&found, " %s", drawing.drawn[chain->step[k].target].name);
    }
    assert_string_equal(hx_text_str(&found), expected);
    hx_text_free(&found);
    hx_chains_deinit(&chains);
    hx_drawing_deinit(&drawing);
}

static void test_drawn(void **state)
{
    (void)state;
    check_chains("obj a 24: b; obj b 24; root g: a; root h: 0 b", "b", 9, "h b | g a b");
    check_chains("obj a 24: b; obj b 24; root g: a; root h: 0 b", "b", 1, "h b");
    check_chains("obj a 24: b c; obj b 24: d; obj c 24: d; obj d 24; root g: a", "d", 9,
                 "g a b d | g a c d");
    check_chains("obj a 24: b; obj b 24: a c; obj c 24; root g: a", "c", 9, "g a b c");
    check_chains("obj a 24: a; obj b 24", "a", 9, "");
    check_chains("obj a 24; root g named: a", "a", 9, "");
    /* Of two equally short ones that without a plain interior edge comes first; one is there
     * even when all others are shorter. */
    check_chains("obj a 24; root g: a+3; root h: a", "a", 9, "h a | g a");
    check_chains("obj a 24; obj b 24: a; root g: a+3; root h: a+4; root i: b", "a", 2,
                 "g a | i b a");
    /* Registers, whose word has no address. */
    check_chains("obj a 24; root rax register: a", "a", 9, "rax a");
    /* A table of one root has many ways, another root a longer one. */
    check_chains("obj t 40: a b c d; obj a 24: x; obj b 24: x; obj c 24: x; obj d 24: x; obj x 24; "
                 "obj p 24: q; obj q 24: r; obj r 24: x; root g: t; root h: p",
                 "x", 2, "g t a x | h p q r x");
    check_chains("obj t 40: a b c d; obj a 24: x; obj b 24: x; obj c 24: x; obj d 24: x; obj x 24; "
                 "obj p 24: q; obj q 24: r; obj r 24: x; root g: t; root h: p",
                 "x", 3, "g t a x | g t b x | h p q r x");
}

/* --- sizes ------------------------------------------------------------------------ */

static void free_edges(struct hx_drawn_edge **edge)
{
    free(*edge);
}

/* A doubly linked list: everywhere a way back. */
static void test_long_list(void **state)
{
    (void)state;
    hx_obj n = hx_image_objects(unit_rounds(1000000));
    struct hx_drawn_edge *edge __attribute__((cleanup(free_edges))) =
        calloc((size_t)n * 2, sizeof *edge);
    size_t n_edges = 0;
    for (hx_obj i = 0; i < n; i++) {
        if (i)
            edge[n_edges++] = (struct hx_drawn_edge){i, i - 1, HX_EDGE_START};
        if (i + 1 < n)
            edge[n_edges++] = (struct hx_drawn_edge){i, i + 1, HX_EDGE_START};
    }
    struct hx_drawn_edge root = {0, 0, HX_EDGE_START};
    struct hx_snapshot *snapshot;
    assert_null(hx_image_graph(n, edge, n_edges, 1, &root, 1, &snapshot));
    assert_null(hx_graph_reverse(&snapshot->graph, 2, NULL));
    assert_null(hx_graph_check(&snapshot->graph));
    assert_null(hx_reach(snapshot, HX_INTERIOR_KNOWN, 1, NULL));
    struct hx_chains chains;
    assert_null(hx_why(snapshot, n - 1, &(struct hx_why_options){.limit = 5}, NULL, &chains));
    assert_int_equal(chains.n, 1);
    assert_int_equal(chains.chain[0].n, n);
    assert_is_chain(snapshot, &chains.chain[0], n - 1);
    hx_chains_deinit(&chains);

    atomic_bool cancel = true;
    hx_error *err = hx_why(snapshot, n - 1, &(struct hx_why_options){.limit = 5},
                           &(struct hx_progress){.cancel = &cancel}, &chains);
    assert_non_null(err);
    assert_int_equal(err->kind, HX_E_CANCEL);
    hx_error_free(err);
    err = hx_why(snapshot, n, &(struct hx_why_options){.limit = 5}, NULL, &chains);
    assert_int_equal(err->kind, HX_E_ABSENT);
    hx_error_free(err);
    hx_snapshot_destroy(snapshot);
}

/* Forty diamonds in a row have 2^40 chains of one length; some must come soon. */
static void test_many_ways(void **state)
{
    (void)state;
    enum { DIAMONDS = 40 };
    struct hx_drawn_edge edge[DIAMONDS * 4 + 1], root = {0, 0, HX_EDGE_START};
    size_t n_edges = 0;
    for (hx_obj i = 0; i < DIAMONDS; i++) {
        edge[n_edges++] = (struct hx_drawn_edge){3 * i, 3 * i + 1, HX_EDGE_START};
        edge[n_edges++] = (struct hx_drawn_edge){3 * i, 3 * i + 2, HX_EDGE_KNOWN};
        edge[n_edges++] = (struct hx_drawn_edge){3 * i + 1, 3 * i + 3, HX_EDGE_START};
        edge[n_edges++] = (struct hx_drawn_edge){3 * i + 2, 3 * i + 3, HX_EDGE_INTERIOR};
    }
    struct hx_snapshot *snapshot;
    assert_null(hx_image_graph(3 * DIAMONDS + 1, edge, n_edges, 1, &root, 1, &snapshot));
    assert_null(hx_graph_reverse(&snapshot->graph, 1, NULL));
    assert_null(hx_reach(snapshot, HX_INTERIOR_KNOWN, 1, NULL));
    struct hx_chains chains;
    assert_null(
        hx_why(snapshot, 3 * DIAMONDS, &(struct hx_why_options){.limit = 1000}, NULL, &chains));
    assert_int_equal(chains.n, 1000);
    for (size_t i = 0; i < chains.n; i++) {
        assert_is_chain(snapshot, &chains.chain[i], 3 * DIAMONDS);
        assert_int_equal(chains.chain[i].n, 2 * DIAMONDS + 1);
        for (size_t k = 0; k < i; k++)
            assert_false(same_way(&chains.chain[i], &chains.chain[k]));
    }
    assert_true(is_strong(&chains.chain[0]));
    hx_chains_deinit(&chains);
    hx_snapshot_destroy(snapshot);
}

/* As many roots as there can be, each with an entry of its own in a table of a million ways: each
 * has a chain, and the table is not read for each. */
static void test_many_roots(void **state)
{
    (void)state;
    const hx_obj entries = hx_image_objects(unit_rounds(200000) + 2) - 2, target = entries + 1;
    const uint32_t n_roots = (uint32_t)unit_rounds(65536);
    struct hx_drawn_edge *edge __attribute__((cleanup(free_edges))) =
        calloc((size_t)entries * 2, sizeof *edge);
    struct hx_drawn_edge *root __attribute__((cleanup(free_edges))) = calloc(n_roots, sizeof *root);
    size_t n_edges = 0;
    for (hx_obj i = 1; i <= entries; i++)
        edge[n_edges++] = (struct hx_drawn_edge){0, i, HX_EDGE_INTERIOR};
    for (hx_obj i = 1; i <= entries; i++)
        edge[n_edges++] = (struct hx_drawn_edge){i, target, HX_EDGE_START};
    for (uint32_t i = 0; i < n_roots; i++)
        root[i] = (struct hx_drawn_edge){i, 0, HX_EDGE_START};
    struct hx_snapshot *snapshot;
    assert_null(hx_image_graph(entries + 2, edge, n_edges, n_roots, root, n_roots, &snapshot));
    assert_null(hx_graph_reverse(&snapshot->graph, 2, NULL));
    assert_null(hx_reach(snapshot, HX_INTERIOR_KNOWN, 1, NULL));
    struct hx_chains chains;
    const struct hx_why_options options = {.limit = n_roots + 10};
    assert_null(hx_why(snapshot, target, &options, NULL, &chains));
    assert_true(chains.n >= n_roots);
    assert_int_equal(chains.left_out, 0);
    uint8_t *seen = calloc(n_roots, 1);
    uint32_t n = 0;
    for (size_t i = 0; i < chains.n; i++) {
        const struct hx_chain *chain = &chains.chain[i];
        assert_int_equal(chain->n, 3);
        assert_int_equal(chain->step[2].target, target);
        n += !seen[chain->step[0].root];
        seen[chain->step[0].root] = 1;
    }
    assert_int_equal(n, n_roots);
    free(seen);
    hx_chains_deinit(&chains);
    hx_snapshot_destroy(snapshot);
}

/* Chains that would be too long together are counted instead. */
static void test_left_out(void **state)
{
    (void)state;
    enum { ROOTS = 100 };
    const hx_obj n = hx_image_objects(100000);
    struct hx_drawn_edge *edge __attribute__((cleanup(free_edges))) = calloc(n, sizeof *edge);
    struct hx_drawn_edge root[ROOTS];
    for (hx_obj i = 0; i + 1 < n; i++)
        edge[i] = (struct hx_drawn_edge){i, i + 1, HX_EDGE_START};
    for (uint32_t i = 0; i < ROOTS; i++)
        root[i] = (struct hx_drawn_edge){i, 0, HX_EDGE_START};
    struct hx_snapshot *snapshot;
    assert_null(hx_image_graph(n, edge, n - 1, ROOTS, root, ROOTS, &snapshot));
    assert_null(hx_graph_reverse(&snapshot->graph, 2, NULL));
    assert_null(hx_reach(snapshot, HX_INTERIOR_KNOWN, 1, NULL));
    struct hx_chains chains;
    const struct hx_why_options options = {.limit = 1000};
    assert_null(hx_why(snapshot, n - 1, &options, NULL, &chains));
    assert_int_equal(chains.n + chains.left_out, ROOTS);
    assert_true(chains.n > 0 && chains.n * n <= (size_t)1 << 23);
    for (size_t i = 0; i < chains.n; i++)
        assert_int_equal(chains.chain[i].n, n);
    hx_chains_deinit(&chains);
    const uint64_t last[] = {0, (uint64_t)1 << (ROOTS - 1 - 64)};
    const struct hx_why_options only = {.limit = 1000, .roots = last};
    assert_null(hx_why(snapshot, n - 1, &only, NULL, &chains));
    assert_int_equal(chains.n, 1);
    assert_int_equal(chains.chain[0].step[0].root, ROOTS - 1);
    hx_chains_deinit(&chains);
    hx_snapshot_destroy(snapshot);
}

/* A table whose every entry leads to the target and back to the table. */
static void test_hub(void **state)
{
    (void)state;
    hx_obj n = hx_image_objects(unit_rounds(200000) + 2) - 2, target = n + 1;
    struct hx_drawn_edge *edge __attribute__((cleanup(free_edges))) =
        calloc((size_t)n * 3, sizeof *edge);
    struct hx_drawn_edge root = {0, 0, HX_EDGE_START};
    size_t n_edges = 0;
    for (hx_obj i = 1; i <= n; i++)
        edge[n_edges++] = (struct hx_drawn_edge){0, i, HX_EDGE_START};
    for (hx_obj i = 1; i <= n; i++) {
        edge[n_edges++] = (struct hx_drawn_edge){i, target, HX_EDGE_START};
        edge[n_edges++] = (struct hx_drawn_edge){i, 0, HX_EDGE_START};
    }
    struct hx_snapshot *snapshot;
    assert_null(hx_image_graph(n + 2, edge, n_edges, 1, &root, 1, &snapshot));
    assert_null(hx_graph_reverse(&snapshot->graph, 2, NULL));
    assert_null(hx_reach(snapshot, HX_INTERIOR_KNOWN, 1, NULL));
    struct hx_chains chains;
    assert_null(hx_why(snapshot, target, &(struct hx_why_options){.limit = 5}, NULL, &chains));
    assert_int_equal(chains.n, 5);
    for (size_t i = 0; i < chains.n; i++) {
        assert_is_chain(snapshot, &chains.chain[i], target);
        assert_int_equal(chains.chain[i].n, 3);
    }
    hx_chains_deinit(&chains);
    hx_snapshot_destroy(snapshot);
}

/* The sort of a chain's root when root 0 has a name: named, variables, stacks, registers, others.
 */
static int sort_of_chain(const struct hx_snapshot *snapshot, const struct hx_chain *chain)
{
    static const int sorts[] = {
        [HX_ROOT_GLOBAL] = 1, [HX_ROOT_TLS] = 1,      [HX_ROOT_STACK] = 2,
        [HX_ROOT_FRAME] = 2,  [HX_ROOT_REGISTER] = 3, [HX_ROOT_MAPPING] = 4};
    if (chain->step[0].root == 0) {
        assert_ptr_equal(hx_chain_named(snapshot, chain), &snapshot->named.v[0]);
        return 0;
    }
    assert_null(hx_chain_named(snapshot, chain));
    return sorts[snapshot->roots.v[chain->step[0].root].kind];
}

static void check_named_first(const struct hx_snapshot *snapshot, hx_obj object, size_t limit)
{
    struct hx_chains chains, all;
    size_t roots = 0;
    uint64_t seen = 0, wanted = 0;
    assert_null(hx_why(snapshot, object, &(struct hx_why_options){.limit = 1000}, NULL, &all));
    assert_null(hx_why_named_first(snapshot, object, limit, NULL, &chains));
    for (size_t i = 0; i < all.n; i++) {
        roots += !(wanted >> all.chain[i].step[0].root & 1);
        wanted |= (uint64_t)1 << all.chain[i].step[0].root;
    }
    assert_int_equal(chains.n, all.n < limit ? all.n : limit);
    for (size_t i = 0; i < chains.n; i++) {
        assert_is_chain(snapshot, &chains.chain[i], object);
        seen |= (uint64_t)1 << chains.chain[i].step[0].root;
        for (size_t k = 0; k < i; k++)
            assert_false(same_way(&chains.chain[i], &chains.chain[k]));
        if (!i)
            continue;
        int before = sort_of_chain(snapshot, &chains.chain[i - 1]);
        int now = sort_of_chain(snapshot, &chains.chain[i]);
        assert_true(before < now || (before == now && chains.chain[i - 1].n <= chains.chain[i].n));
    }
    if (limit >= roots)
        assert_int_equal(seen, wanted);
    else
        assert_int_equal(__builtin_popcountll(seen), limit);
    if (chains.n && wanted & 1)
        assert_int_equal(sort_of_chain(snapshot, &chains.chain[0]), 0);
    hx_chains_deinit(&chains);
    hx_chains_deinit(&all);
}

static void test_named_first(void **state)
{
    (void)state;
    struct unit_random random = unit_random_begin("why, named first");
    for (size_t round = unit_rounds(1000); round; round--) {
        struct random_graph graph;
        random_graph_make(&random, PATH_MAX_OBJECTS, &graph);
        struct hx_snapshot *snapshot = random_graph_snapshot(&graph);
        for (uint32_t i = 0; i < graph.n_roots; i++)
            snapshot->roots.v[i].kind = (enum hx_root_kind)unit_below(&random, HX_ROOT_NAMED);
        struct hx_named named = {.name = strdup("it"), .root = 0};
        if (graph.n_roots)
            assert_true(named.name && hx_vec_push(&snapshot->named, named));
        else
            free(named.name);
        assert_null(hx_graph_reverse(&snapshot->graph, 1, NULL));
        assert_null(hx_reach(snapshot, HX_INTERIOR_KNOWN, 1, NULL));
        for (hx_obj object = 0; object < graph.n; object++)
            check_named_first(snapshot, object, 1 + unit_below(&random, 6));
        hx_snapshot_destroy(snapshot);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all_of_small), cmocka_unit_test(test_shortest),
        cmocka_unit_test(test_lost),         cmocka_unit_test(test_drawn),
        cmocka_unit_test(test_long_list),    cmocka_unit_test(test_many_ways),
        cmocka_unit_test(test_many_roots),   cmocka_unit_test(test_left_out),
        cmocka_unit_test(test_hub),          cmocka_unit_test(test_named_first),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
