/* bench_analysis.c - what the analysis of a graph costs, beside a plain depth-first marking.
 *
 *     bench_analysis [OBJECTS] [ROUNDS] [STAGE]
 *
 * Makes the forest of synthetic.h with a tenth of the objects and with all of them (10 million
 * unless told otherwise) and prints for each stage the best of ROUNDS, how many times the plain
 * marking of the same run that is and may be, the growth between the two sizes, and the most
 * memory, with the graph. With STAGE, only the stages that have that in their name, of the larger
 * size. Then retainer sets beside the algorithm that the document describes,
 * on a graph with dozens of retainers an object.
 */
#include "synthetic.h"

#include "base/parallel.h"
#include "traverse/components.h"
#include "traverse/dominate/dominators.h"
#include "traverse/dominate/groups.h"
#include "traverse/dominate/sure.h"
#include "traverse/key_sums.h"
#include "traverse/reach.h"
#include "traverse/retain/bins.h"
#include "traverse/retain/scheme.h"
#include "traverse/scan/scan.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BINS = 64, GROUPS = 128, RETAINERS = 40, SURE_PART = 4 };

static uint64_t sink; /* keeps results alive */

/* --- roots ------------------------------------------------------------------------ */

/* Divides the root edges among n roots, 0: a root each. */
static void split_roots(struct forest *forest, size_t n)
{
    struct hx_snapshot *snapshot = forest->snapshot;
    const size_t n_edges = snapshot->root_edges.n;
    n = n && n < n_edges ? n : n_edges;
    set_roots(forest);
    while (snapshot->roots.n < n) {
        struct hx_root root = {.address = ROOT_BASE, .size = 8, .module = strdup("")};
        if (asprintf(&root.name, "root%zu", snapshot->roots.n) < 0 ||
            !hx_vec_push(&snapshot->roots, root))
            die("out of memory");
    }
    for (size_t i = 0; i < n_edges; i++)
        snapshot->root_edges.v[i].root = (uint32_t)(i * n / n_edges);
}

/* 64 of them, from all over. */
static void name_roots(struct forest *forest)
{
    struct hx_snapshot *snapshot = forest->snapshot;
    for (uint64_t i = 0; i < BINS && i < snapshot->roots.n; i++) {
        const uint32_t root = (uint32_t)(i * snapshot->roots.n / BINS);
        struct hx_named named = {.name = strdup(snapshot->roots.v[root].name), .root = root};
        if (!named.name || !hx_vec_push(&snapshot->named, named))
            die("out of memory");
    }
}

static void forget_names(struct forest *forest)
{
    struct hx_snapshot *snapshot = forest->snapshot;
    for (size_t i = 0; i < snapshot->named.n; i++)
        free(snapshot->named.v[i].name);
    snapshot->named.n = 0;
}

/* --- stages ----------------------------------------------------------------------- */

static double time_components(struct forest *forest)
{
    const struct hx_scope scope = {.states = 1u << HX_STATE_REACHABLE | 1u << HX_STATE_POSSIBLE,
                                   .follows = 7};
    struct hx_components components;
    double start = now();
    must(hx_components_find(&forest->snapshot->graph, &scope, NULL, &components));
    double took = now() - start;
    sink += components.n;
    hx_components_deinit(&components);
    return took;
}

static double time_sets(struct forest *forest)
{
    struct hx_scheme_rule rule;
    struct hx_retention retention;
    hx_sets *sets;
    double start = now();
    must(hx_sets_create(HX_SETS_AUTO, &sets));
    must(hx_scheme_apply(hx_scheme_find("root"), forest->snapshot, NULL, &rule));
    must(hx_retain(forest->snapshot, &rule.rule, sets, NULL, &retention));
    double took = now() - start;
    sink += retention.visits;
    hx_retention_deinit(&retention);
    hx_scheme_rule_deinit(&rule);
    hx_sets_destroy(sets);
    return took;
}

static double time_bins(struct forest *forest)
{
    struct hx_bins bins;
    double start = now();
    must(hx_bins_find(forest->snapshot, NULL, &bins));
    double took = now() - start;
    sink += bins.n;
    hx_bins_deinit(&bins);
    return took;
}

struct tree_choices {
    const struct hx_snapshot *snapshot;
    struct hx_dominators found[2]; /* by enum hx_dominators_over */
};

static void find_tree(void *context, unsigned i)
{
    struct tree_choices *choices = context;
    must(hx_dominators_find(choices->snapshot, (enum hx_dominators_over)i, NULL,
                            &choices->found[i]));
}

/* `n` choices of edges at once. */
static double time_dominators(const struct forest *forest, unsigned n)
{
    struct tree_choices choices = {.snapshot = forest->snapshot};
    double start = now();
    hx_parallel(n, find_tree, &choices);
    double took = now() - start;
    for (unsigned i = 0; i < n; i++) {
        sink += choices.found[i].scope_objects;
        hx_dominators_deinit(&choices.found[i]);
    }
    return took;
}

/* All edges; then the differences that sure ones make, or these on their own. */
static double time_both(struct forest *forest)
{
    struct hx_dominators all;
    struct hx_sure sure;
    double start = now();
    must(hx_dominators_find(forest->snapshot, HX_OVER_FOLLOWED, NULL, &all));
    must(hx_sure_find(forest->snapshot, &all, SURE_PART, NULL, &sure));
    if (sure.too_many) {
        hx_dominators_deinit(&all);
        must(hx_dominators_find(forest->snapshot, HX_OVER_SURE, NULL, &all));
    }
    double took = now() - start;
    sink += all.scope_objects + sure.n;
    hx_sure_deinit(&sure);
    hx_dominators_deinit(&all);
    return took;
}

/* The same with a 64th of the leaves uncertain. They stay so: this is the last stage. */
static double time_uncertain(struct forest *forest)
{
    struct hx_graph *graph = &forest->snapshot->graph;
    for (hx_eidx e = 0; e < graph->n_edges; e++) {
        hx_obj target = hx_edge_target(graph->edge[e]);
        if (target % 64 == 0 && graph->fwd[target] == graph->fwd[(size_t)target + 1])
            graph->edge[e] = (graph->edge[e] & ~(hx_edge)3) | HX_EDGE_INTERIOR;
    }
    return time_both(forest);
}

static double time_followed(struct forest *forest)
{
    return time_dominators(forest, 1);
}

static double time_each(struct forest *forest)
{
    return time_dominators(forest, 2);
}

/* 128 groups by size, of what the dominators found. */
static double time_groups(struct forest *forest)
{
    const struct hx_graph *graph = &forest->snapshot->graph;
    struct hx_dominators dominators;
    must(hx_dominators_find(forest->snapshot, HX_OVER_FOLLOWED, NULL, &dominators));
    hx_dominators_drop_parent(&dominators);
    uint32_t *group = malloc(graph->n * sizeof *group);
    if (!group)
        die("out of memory");
    for (hx_obj i = 0; i < graph->n; i++)
        group[i] = (uint32_t)(graph->size[i] / 16 % GROUPS);
    struct hx_groups groups;
    peak_since();
    double start = now();
    must(hx_groups_measure(forest->snapshot, &dominators, group, GROUPS, 0, 1, NULL, &groups));
    double took = now() - start;
    sink += groups.bytes[0];
    hx_groups_deinit(&groups);
    hx_dominators_deinit(&dominators);
    free(group);
    return took;
}

/* By thousands of keys that change with each object. */
static double time_census(struct forest *forest)
{
    const struct hx_graph *graph = &forest->snapshot->graph;
    struct hx_key_sums census;
    uint32_t *key = malloc(graph->n * sizeof *key);
    if (!key)
        die("out of memory");
    for (hx_obj i = 0; i < graph->n; i++)
        key[i] = (uint32_t)(i * UINT64_C(2654435761) >> 16 & 0xfff);
    double start = now();
    must(hx_key_sums_make(forest->snapshot, key, 0x1000, NULL, &census));
    double took = now() - start;
    sink += census.bytes[0];
    hx_key_sums_deinit(&census);
    free(key);
    return took;
}

static double time_reach(struct forest *forest)
{
    double start = now();
    must(hx_reach(forest->snapshot, HX_INTERIOR_KNOWN, 1, NULL));
    return now() - start;
}

static double time_plain(struct forest *forest)
{
    uint64_t marked;
    double took = time_plain_mark(forest, &marked);
    sink += marked;
    return took;
}

/* Of how many roots the stage wants the root edges to be. */
enum { ONE = 1, EACH = 0 };

static const struct stage {
    const char *what;
    double (*run)(struct forest *forest);
    double limit; /* times the plain marking; 0: none */
    size_t roots;
    bool named;
} stages[] = {
    {"plain depth-first mark", time_plain, 0, ONE, false},
    {"states (mark and leak search)", time_reach, 0, ONE, false},
    {"components in topological order", time_components, 1, ONE, false},
    {"retainer sets, a root for each word", time_sets, 1, EACH, false},
    {"retainer sets, 64 roots", time_sets, 1, BINS, false},
    {"bins, 64 named roots", time_bins, 0.7, BINS, true},
    {"bins, 64 of many roots", time_bins, 0.7, EACH, true},
    {"dominators, edges that are followed", time_followed, 2, EACH, false},
    {"dominators, both choices, a thread each", time_each, 0, EACH, false},
    {"dominators, then differences", time_both, 0, EACH, false},
    {"retained sizes of 128 groups", time_groups, 0, EACH, false},
    {"census of 4096 keys with pages", time_census, 0, EACH, false},
    {"dominators, a 64th of leaves uncertain", time_uncertain, 0, EACH, false},
};
enum { STAGES = sizeof stages / sizeof *stages };

struct figure {
    double seconds, plain, peak; /* plain: the marking, in turns with the stage */
};

static void run_stage(struct forest *forest, const struct stage *stage, int rounds,
                      struct figure *ret)
{
    split_roots(forest, stage->roots);
    if (stage->named)
        name_roots(forest);
    peak_since();
    for (int r = 0; r < rounds; r++)
        BEST(ret->seconds, r, stage->run(forest));
    ret->peak = peak_since();
    for (int r = 0; r < rounds; r++) { /* in turns, as other work comes and goes */
        BEST(ret->plain, r, time_plain(forest));
        BEST(ret->seconds, 1, stage->run(forest));
    }
    forget_names(forest);
}

static double budget(const struct hx_graph *graph)
{
    return 60.0 * graph->n + 12.0 * (double)graph->n_edges;
}

static void print_stage(const struct hx_graph *graph, const struct stage *stage,
                        const struct figure *figure, const struct figure *small)
{
    printf("%-40s %8.3f s %6.1f M/s %5.2f", stage->what, figure->seconds,
           graph->n / figure->seconds * 1e-6, figure->seconds / figure->plain);
    if (stage->limit > 0)
        printf(" of %.1f", stage->limit);
    else
        printf("       ");
    if (small)
        printf("  growth %4.1f, marking %4.1f", figure->seconds / small->seconds,
               figure->plain / small->plain);
    printf("  %5.1f B/object, %.2f of 60 + 12 an edge\n", figure->peak / graph->n,
           figure->peak / budget(graph));
    fflush(stdout);
}

static void measure(hx_obj n, int rounds, const char *only, const struct figure *small,
                    struct figure *figures)
{
    struct forest forest = {0};
    make_forest(&forest, n);
    set_roots(&forest);
    struct hx_snapshot *snapshot = forest.snapshot;
    const struct hx_scan_options options = {.is_vtable = is_vtable};
    must(hx_scan(snapshot, &options, NULL));
    const struct hx_range all = {HEAP_BASE, HEAP_BASE + forest.heap_bytes};
    if (!hx_vec_push(&snapshot->resident, all))
        die("out of memory");
    snapshot->has_resident = true;
    hx_snapshot_drop_image(snapshot);
    must(hx_reach(snapshot, HX_INTERIOR_KNOWN, 1, NULL));
    const struct hx_graph *graph = &snapshot->graph;
    printf("--- %u objects, %.2f edges each, %zu root words\n", graph->n,
           (double)graph->n_edges / graph->n, snapshot->root_edges.n);
    for (size_t i = 0; i < STAGES; i++) {
        if (i && only && !strstr(stages[i].what, only))
            continue;
        run_stage(&forest, &stages[i], rounds, &figures[i]);
        print_stage(graph, &stages[i], &figures[i], small ? &small[i] : NULL);
    }
    hx_snapshot_destroy(snapshot);
}

/* --- beside the document's algorithm ------------------------------------------------ */

/* Every object is reached from nearly all roots, by edges to random ones. */
static struct hx_snapshot *make_web(hx_obj n)
{
    struct forest random = {.random = 1};
    struct hx_snapshot *snapshot;
    must(hx_snapshot_create(&snapshot));
    struct hx_graph *graph = &snapshot->graph;
    graph->n = n;
    graph->n_edges = (hx_eidx)n * 2;
    must(hx_big_reserve(&graph->addr_mem, n * sizeof *graph->addr));
    must(hx_big_reserve(&graph->size_mem, n * sizeof *graph->size));
    must(hx_big_reserve(&graph->fwd_mem, ((size_t)n + 1) * sizeof *graph->fwd));
    must(hx_big_reserve(&graph->edge_mem, graph->n_edges * sizeof *graph->edge));
    graph->addr = graph->addr_mem.base;
    graph->size = graph->size_mem.base;
    graph->fwd = graph->fwd_mem.base;
    graph->edge = graph->edge_mem.base;
    for (hx_obj i = 0; i < n; i++) {
        graph->addr[i] = HEAP_BASE + (uint64_t)i * 32;
        graph->size[i] = 24;
        graph->fwd[i + 1] = 2 * ((hx_eidx)i + 1);
        for (uint64_t k = 0; k < 2; k++) /* downwards, but for one in 16 */
            graph->edge[2 * (hx_eidx)i + k] = hx_edge_make(
                (hx_obj)(below(&random, 16) ? i + below(&random, n - i) : below(&random, n)), k,
                HX_EDGE_START);
    }
    for (uint32_t r = 0; r < RETAINERS; r++) {
        struct hx_root root = {.address = ROOT_BASE + r * 8, .size = 8, .module = strdup("")};
        struct hx_root_edge edge = {.root = r, .target = (hx_obj)r, .address = root.address};
        if (asprintf(&root.name, "root%u", r) < 0 || !hx_vec_push(&snapshot->roots, root) ||
            !hx_vec_push(&snapshot->root_edges, edge))
            die("out of memory");
    }
    must(hx_reach(snapshot, HX_INTERIOR_KNOWN, 1, NULL));
    return snapshot;
}

/* retain(c, r): a retainer is added at each visit, then comes to all that c points to. */
static double time_document(const struct hx_snapshot *snapshot, double *ret_members)
{
    struct visit {
        hx_obj object;
        hx_retainer retainer;
    };
    HX_VEC(struct visit) stack = {0};
    const struct hx_graph *graph = &snapshot->graph;
    hx_sets *sets;
    double start = now();
    must(hx_sets_create(0, &sets));
    hx_set *set = calloc(graph->n, sizeof *set);
    if (!set)
        die("out of memory");
    for (size_t i = 0; i < snapshot->root_edges.n; i++) {
        const struct hx_root_edge *edge = &snapshot->root_edges.v[i];
        if (!hx_vec_push(&stack, (struct visit){edge->target, edge->root}))
            die("out of memory");
        while (stack.n) {
            struct visit visit = stack.v[--stack.n];
            if (hx_sets_member(sets, set[visit.object], visit.retainer))
                continue;
            set[visit.object] = hx_sets_add(sets, set[visit.object], visit.retainer);
            for (hx_eidx e = graph->fwd[visit.object]; e < graph->fwd[visit.object + 1]; e++)
                if (!hx_vec_push(&stack,
                                 (struct visit){hx_edge_target(graph->edge[e]), visit.retainer}))
                    die("out of memory");
        }
    }
    double took = now() - start;
    uint64_t members = 0, objects = 0;
    const hx_retainer *element;
    for (hx_obj i = 0; i < graph->n; i++) {
        members += hx_sets_elements(sets, set[i], &element);
        objects += set[i] != HX_SET_NONE;
    }
    *ret_members = (double)members / (double)objects;
    hx_vec_free(&stack);
    hx_sets_destroy(sets);
    free(set);
    return took;
}

static double time_ours(const struct hx_snapshot *snapshot)
{
    struct hx_retention retention;
    hx_retainer of_root[RETAINERS];
    hx_sets *sets;
    for (hx_retainer i = 0; i < RETAINERS; i++)
        of_root[i] = i;
    double start = now();
    must(hx_sets_create(0, &sets));
    must(hx_retain(snapshot, &(struct hx_retain_rule){.of_root = of_root}, sets, NULL, &retention));
    double took = now() - start;
    sink += retention.visits;
    hx_retention_deinit(&retention);
    hx_sets_destroy(sets);
    return took;
}

static void beside_document(hx_obj n, int rounds)
{
    struct hx_snapshot *snapshot = make_web(n);
    double document = 0, ours = 0, members = 0;
    for (int r = 0; r < rounds; r++) {
        BEST(document, r, time_document(snapshot, &members));
        BEST(ours, r, time_ours(snapshot));
    }
    printf("--- %u objects of %.1f retainers each\n", n, members);
    row("the document's algorithm", document, n, "M objects/s");
    row("retainer sets", ours, n, "M objects/s");
    printf("%-44s %8.1f times as fast\n", "", document / ours);
    hx_snapshot_destroy(snapshot);
}

int main(int argc, char **argv)
{
    unsigned long objects = argc > 1 ? strtoul(argv[1], NULL, 0) : 10000000;
    int rounds = argc > 2 ? atoi(argv[2]) : 3;
    if (objects < 10000 || objects > UINT32_MAX - 1 || rounds < 1)
        die("OBJECTS is from 10000, ROUNDS from 1");
    const char *only = argc > 3 ? argv[3] : NULL;
    struct figure small[STAGES], large[STAGES];
    if (!only)
        measure((hx_obj)(objects / 10), rounds, NULL, NULL, small);
    measure((hx_obj)objects, rounds, only, only ? NULL : small, large);
    if (!only)
        beside_document((hx_obj)(objects / 50), rounds);
    return sink == 42; /* never */
}
