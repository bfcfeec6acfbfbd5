/* bench_traverse.c - what scan, reversal and marking cost, beside the machine's own speed.
 *
 *     bench_traverse [OBJECTS] [ROUNDS]
 *
 * Makes a synthetic snapshot (10 million objects and about 1 GB unless told otherwise:
 * lists, hash maps of strings, trees with vtables, shared nodes, buffers; neighbours in a
 * structure lie at random places) and prints the best of ROUNDS for one and two threads.
 * Yardsticks of the same run: a sequential read of the image, a range check of every
 * word, and a marker without prefetch. Then dominators beside that marker. With HX_BENCH_CPU set,
 * seconds of processor time instead of the clock's, for a machine that has other work to do.
 */
#include "base/parallel.h"
#include "traverse/dominators.h"
#include "traverse/groups.h"
#include "traverse/lookup.h"
#include "traverse/reach.h"
#include "traverse/scan.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#define HEAP_BASE UINT64_C(0x555555600000)
#define ROOT_BASE UINT64_C(0x7ffff7d00000)
#define VTABLE    UINT64_C(0x555555550000)
#define LIST      1000 /* nodes of one list */
#define TREE      1023 /* nodes of one tree */

enum shape { LIST_NODE, ENTRY, STRING, TREE_NODE, SHARED, BUFFER, TABLE, SHAPES };

/* Objects of one shape, shuffled. */
struct members {
    hx_obj *object;
    size_t n;
};

struct forest {
    struct hx_snapshot *snapshot;
    struct members members[SHAPES];
    uint8_t *shape;
    uint8_t *bytes; /* of the heap, then of the roots */
    uint64_t heap_bytes, root_bytes;
    uint64_t *root;
    size_t n_roots;
    uint64_t random;
};

static void die(const char *why)
{
    fprintf(stderr, "bench_traverse: %s\n", why);
    exit(1);
}

static void must(hx_error *err)
{
    char line[200];
    if (!err)
        return;
    hx_error_line(err, line, sizeof line);
    die(line);
}

static double now(void)
{
    struct timespec t;
    clock_gettime(getenv("HX_BENCH_CPU") ? CLOCK_PROCESS_CPUTIME_ID : CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static uint64_t next_random(struct forest *forest)
{
    uint64_t z = forest->random += 0x9e3779b97f4a7c15;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
    z = (z ^ z >> 27) * 0x94d049bb133111eb;
    return z ^ z >> 31;
}

static uint64_t below(struct forest *forest, uint64_t limit)
{
    return next_random(forest) % limit;
}

/* --- the forest ---------------------------------------------------------------- */

static uint64_t choose_shape(struct forest *forest, uint8_t *shape)
{
    uint64_t dice = below(forest, 100);
    if (below(forest, 65536) == 0) {
        *shape = TABLE;
        return 16384 * 8;
    }
    *shape = dice < 30   ? LIST_NODE
             : dice < 54 ? ENTRY
             : dice < 78 ? STRING
             : dice < 91 ? TREE_NODE
             : dice < 97 ? SHARED
                         : BUFFER;
    switch (*shape) {
    case LIST_NODE:
        return 24;
    case ENTRY:
        return 40;
    case STRING:
        return 24 + 16 * below(forest, 3);
    case TREE_NODE:
        return 56;
    case SHARED:
        return 88;
    default:
        return 200 + 16 * below(forest, 128);
    }
}

static void place_objects(struct forest *forest, hx_obj n)
{
    struct hx_graph *graph = &forest->snapshot->graph;
    must(hx_big_reserve(&graph->addr_mem, n * sizeof(uint64_t)));
    must(hx_big_reserve(&graph->size_mem, n * sizeof(uint64_t)));
    graph->addr = graph->addr_mem.base;
    graph->size = graph->size_mem.base;
    graph->n = n;
    forest->shape = malloc(n);
    for (int s = 0; s < SHAPES; s++)
        forest->members[s].object = malloc(n * sizeof(hx_obj));
    uint64_t at = HEAP_BASE + 16;
    for (hx_obj i = 0; i < n; i++) {
        graph->addr[i] = at;
        graph->size[i] = ((choose_shape(forest, &forest->shape[i]) + 8 + 15) & ~UINT64_C(15)) - 8;
        at += graph->size[i] + 8;
        struct members *members = &forest->members[forest->shape[i]];
        members->object[members->n++] = i;
    }
    forest->heap_bytes = (at - HEAP_BASE + 4095) & ~UINT64_C(4095);
    for (int s = 0; s < SHAPES; s++) {
        struct members *members = &forest->members[s];
        for (size_t i = members->n; i > 1; i--) {
            size_t k = below(forest, i);
            hx_obj swap = members->object[k];
            members->object[k] = members->object[i - 1];
            members->object[i - 1] = swap;
        }
    }
}

/* The words of member k of a shape. */
static uint64_t *words(struct forest *forest, enum shape shape, size_t k)
{
    uint64_t addr = forest->snapshot->graph.addr[forest->members[shape].object[k]];
    return (uint64_t *)(void *)(forest->bytes + (addr - HEAP_BASE));
}

static uint64_t address(const struct forest *forest, enum shape shape, size_t k)
{
    const struct members *members = &forest->members[shape];
    return members->n ? forest->snapshot->graph.addr[members->object[k % members->n]] : 0;
}

static void add_root(struct forest *forest, uint64_t value)
{
    if (forest->n_roots < forest->root_bytes / 8)
        forest->root[forest->n_roots++] = value;
}

static void link_lists(struct forest *forest)
{
    size_t n = forest->members[LIST_NODE].n;
    for (size_t k = 0; k < n; k++) {
        uint64_t *node = words(forest, LIST_NODE, k);
        if (k % LIST == 0 && k / LIST % 16) /* one of 16 lists is leaked */
            add_root(forest, address(forest, LIST_NODE, k));
        node[0] = k + 1 < n && (k + 1) % LIST ? address(forest, LIST_NODE, k + 1) : 0;
        node[1] = k % 4 == 0 ? address(forest, BUFFER, k / 4) : k;
        node[2] = next_random(forest) >> 40;
    }
}

static void link_maps(struct forest *forest)
{
    size_t n = forest->members[ENTRY].n, tables = forest->members[TABLE].n;
    for (size_t k = 0; k < tables; k++)
        add_root(forest, address(forest, TABLE, k));
    for (size_t k = 0; k < n; k++) {
        uint64_t *entry = words(forest, ENTRY, k);
        if (tables) {
            uint64_t *bucket = words(forest, TABLE, k % tables) + below(forest, 16384);
            entry[0] = *bucket;
            *bucket = address(forest, ENTRY, k);
        }
        entry[1] = address(forest, STRING, k);
        entry[2] = k % 4 == 0 ? address(forest, SHARED, next_random(forest)) : 0;
        entry[3] = next_random(forest); /* hash */
        entry[4] = 1;
    }
    for (size_t k = 0; k < forest->members[STRING].n; k++)
        memcpy(words(forest, STRING, k), "some text that is", 17);
}

static void link_trees(struct forest *forest)
{
    size_t n = forest->members[TREE_NODE].n;
    for (size_t k = 0; k < n; k++) {
        uint64_t *node = words(forest, TREE_NODE, k);
        size_t place = k % TREE, first = k - place;
        size_t left = 2 * place + 1;
        node[0] = VTABLE + 64 * (k % 8);
        node[1] = left < TREE && first + left < n ? address(forest, TREE_NODE, first + left) : 0;
        node[2] = left + 1 < TREE && first + left + 1 < n
                      ? address(forest, TREE_NODE, first + left + 1)
                      : 0;
        node[3] = place ? address(forest, TREE_NODE, first + (place - 1) / 2) + 16 : 0;
        node[4] = k % 4 == 0 ? address(forest, SHARED, next_random(forest)) : 0;
        node[5] = UINT64_C(0x3ff0000000000000) | next_random(forest) >> 12; /* a double */
        node[6] = k;
        if (place == 0)
            add_root(forest, address(forest, TREE_NODE, k));
    }
}

static void link_rest(struct forest *forest)
{
    for (size_t k = 0; k < forest->members[SHARED].n; k++) {
        uint64_t *node = words(forest, SHARED, k);
        node[0] = address(forest, SHARED, next_random(forest));
        node[1] = address(forest, SHARED, next_random(forest));
        node[2] = address(forest, BUFFER, k);
        node[3] = k % 3;                                                 /* count */
        node[4] = UINT64_C(0x7ffff7000000) + 16 * below(forest, 100000); /* a function */
    }
    for (size_t k = 0; k < forest->members[BUFFER].n; k++) {
        uint64_t *buffer = words(forest, BUFFER, k);
        uint64_t n = forest->snapshot->graph.size[forest->members[BUFFER].object[k]] / 8;
        for (uint64_t i = 0; i < n; i++)
            buffer[i] = k % 3 == 0 ? next_random(forest) : k % 3 == 1 ? i : 0x2020202020202020;
    }
}

static void make_forest(struct forest *forest, hx_obj n)
{
    forest->random = 1;
    must(hx_snapshot_create(&forest->snapshot));
    place_objects(forest, n);
    struct hx_image *image = &forest->snapshot->image;
    forest->root_bytes = ((uint64_t)n / 50 + 4096) & ~UINT64_C(4095);
    image->mapping_bytes = forest->heap_bytes + forest->root_bytes;
    image->mapping = mmap(NULL, image->mapping_bytes, PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (image->mapping == MAP_FAILED)
        die("out of memory");
    madvise(image->mapping, image->mapping_bytes, MADV_HUGEPAGE);
    forest->bytes = image->mapping;
    forest->root = (uint64_t *)(void *)(forest->bytes + forest->heap_bytes);
    image->span = calloc(2, sizeof *image->span);
    image->span[0] = (struct hx_span){HEAP_BASE, HEAP_BASE + forest->heap_bytes, forest->bytes};
    image->span[1] = (struct hx_span){ROOT_BASE, ROOT_BASE + forest->root_bytes,
                                      forest->bytes + forest->heap_bytes};
    image->n = 2;
    link_lists(forest);
    link_maps(forest);
    link_trees(forest);
    link_rest(forest);
    for (int s = 0; s < SHAPES; s++)
        free(forest->members[s].object);
    free(forest->shape);
}

static void set_roots(struct forest *forest)
{
    struct hx_snapshot *snapshot = forest->snapshot;
    for (size_t i = 0; i < snapshot->roots.n; i++) {
        free(snapshot->roots.v[i].name);
        free(snapshot->roots.v[i].module);
    }
    snapshot->roots.n = 0;
    if (!hx_vec_push(&snapshot->roots, (struct hx_root){.address = ROOT_BASE,
                                                        .size = forest->root_bytes,
                                                        .name = strdup("forest"),
                                                        .module = strdup("")}))
        die("out of memory");
}

/* --- yardsticks ------------------------------------------------------------------ */

static uint64_t sink; /* keeps results alive */

struct reading {
    const struct forest *forest;
    unsigned threads;
    uint64_t low, len;
    uint64_t found[HX_THREADS_MAX];
};

static void share_of(const struct reading *reading, unsigned i, const uint64_t **from,
                     const uint64_t **to)
{
    const struct hx_image *image = &reading->forest->snapshot->image;
    const uint64_t *all = image->mapping;
    size_t n = image->mapping_bytes / 8;
    *from = all + n * i / reading->threads;
    *to = all + n * (i + 1) / reading->threads;
}

static void read_words(void *context, unsigned i)
{
    struct reading *reading = context;
    const uint64_t *word, *to;
    share_of(reading, i, &word, &to);
    uint64_t sum = 0;
    for (; word < to; word++)
        sum += *word;
    reading->found[i] = sum;
}

static void range_check(void *context, unsigned i)
{
    struct reading *reading = context;
    const uint64_t *word, *to;
    share_of(reading, i, &word, &to);
    uint64_t found = 0;
    for (; word < to; word++)
        found += *word - reading->low < reading->len;
    reading->found[i] = found;
}

static double time_reading(const struct forest *forest, unsigned threads,
                           void (*work)(void *, unsigned), uint64_t *ret)
{
    const struct hx_graph *graph = &forest->snapshot->graph;
    struct reading reading = {.forest = forest,
                              .threads = threads,
                              .low = graph->addr[0],
                              .len = graph->addr[graph->n - 1] - graph->addr[0]};
    double start = now();
    hx_parallel(threads, work, &reading);
    double took = now() - start;
    *ret = 0;
    for (unsigned i = 0; i < threads; i++)
        *ret += reading.found[i];
    return took;
}

/* Depth-first, nothing else. */
static uint64_t plain_mark(const struct hx_snapshot *snapshot)
{
    const struct hx_graph *graph = &snapshot->graph;
    uint8_t *seen = calloc(graph->n, 1);
    hx_obj *stack = malloc(graph->n * sizeof *stack);
    uint64_t top = 0, marked = 0;
    for (size_t i = 0; i < snapshot->root_edges.n; i++) {
        hx_obj first = snapshot->root_edges.v[i].target;
        if (seen[first])
            continue;
        seen[first] = 1;
        stack[top++] = first;
        while (top) {
            hx_obj object = stack[--top];
            marked++;
            for (hx_eidx e = graph->fwd[object]; e < graph->fwd[object + 1]; e++) {
                hx_obj target = hx_edge_target(graph->edge[e]);
                if (!seen[target] && hx_edge_kind_of(graph->edge[e]) != HX_EDGE_INTERIOR) {
                    seen[target] = 1;
                    stack[top++] = target;
                }
            }
        }
    }
    free(stack);
    free(seen);
    return marked;
}

/* The largest resident set since the last call, in bytes; 0 when the kernel does not say. */
static double peak_since(void)
{
    char line[200];
    double peak = 0;
    FILE *status = fopen("/proc/self/status", "re");
    while (status && fgets(line, sizeof line, status))
        if (strncmp(line, "VmHWM:", 6) == 0)
            peak = 1024 * strtod(line + 6, NULL);
    if (status)
        fclose(status);
    FILE *reset = fopen("/proc/self/clear_refs", "we");
    if (reset) {
        fputs("5", reset);
        fclose(reset);
    }
    return peak;
}

/* --- the table -------------------------------------------------------------------- */

static bool is_vtable(void *context, uint64_t addr)
{
    (void)context;
    return addr - VTABLE < 512;
}

#define BEST(best, round, expression)                                                              \
    do {                                                                                           \
        double took_ = (expression);                                                               \
        (best) = (round) == 0 || took_ < (best) ? took_ : (best);                                  \
    } while (0)

static void row(const char *what, double seconds, double count, const char *unit)
{
    printf("%-44s %8.1f ms %10.1f %s\n", what, seconds * 1e3, count / seconds * 1e-6, unit);
    fflush(stdout);
}

static double time_map(const struct hx_graph *graph)
{
    struct hx_blockmap map;
    double start = now();
    must(hx_blockmap_init(&map, graph));
    double took = now() - start;
    hx_blockmap_deinit(&map);
    return took;
}

/* Only the lookup, of the words that passed the range check. */
static double time_lookup(const struct forest *forest, uint64_t *ret)
{
    const struct hx_snapshot *snapshot = forest->snapshot;
    struct hx_blockmap map;
    must(hx_blockmap_init(&map, &snapshot->graph));
    struct hx_lookup *lookup = calloc(1, sizeof *lookup);
    const struct hx_scan_options options = {.is_vtable = is_vtable};
    lookup->map = &map;
    lookup->graph = &snapshot->graph;
    hx_known_init(&lookup->known, &snapshot->image, &options);
    size_t n = forest->heap_bytes / 8, kept = 0;
    uint64_t *word = malloc(n * sizeof *word);
    for (size_t i = 0; i < n; i++) {
        memcpy(&word[kept], forest->bytes + i * 8, 8);
        kept += word[kept] - map.low < map.len;
    }
    double start = now();
    for (size_t i = 0; i < kept; i += HX_LOOKUP_RUN) {
        size_t some = kept - i < HX_LOOKUP_RUN ? kept - i : HX_LOOKUP_RUN;
        hx_lookup_words(lookup, (const uint8_t *)&word[i], some, i, 1);
        if (lookup->n >= HX_LOOKUP_BATCH)
            sink += hx_lookup_run(lookup);
    }
    double took = now() - start;
    free(word);
    free(lookup);
    hx_blockmap_deinit(&map);
    *ret = kept;
    return took;
}

/* As before the first scan. */
static void forget_edges(struct hx_graph *graph)
{
    hx_big_free(&graph->rev_mem);
    hx_big_free(&graph->rev_source_mem);
    hx_big_free(&graph->state_mem);
    graph->rev = NULL;
    graph->rev_source = NULL;
    graph->state = NULL;
}

static double time_scan(struct forest *forest, unsigned threads)
{
    const struct hx_scan_options options = {.threads = threads, .is_vtable = is_vtable};
    set_roots(forest);
    double start = now();
    must(hx_scan(forest->snapshot, &options, NULL));
    return now() - start;
}

static double time_reverse(struct forest *forest, unsigned threads)
{
    double start = now();
    must(hx_graph_reverse(&forest->snapshot->graph, threads, NULL));
    return now() - start;
}

static double time_reach(struct forest *forest, unsigned threads)
{
    double start = now();
    must(hx_reach(forest->snapshot, HX_INTERIOR_KNOWN, threads, NULL));
    return now() - start;
}

static double time_plain_mark(const struct forest *forest, uint64_t *ret)
{
    double start = now();
    *ret = plain_mark(forest->snapshot);
    return now() - start;
}

static double time_why(const struct forest *forest, hx_obj object)
{
    struct hx_chains chains;
    double start = now();
    must(hx_why(forest->snapshot, object, 10, NULL, &chains));
    double took = now() - start;
    hx_chains_deinit(&chains);
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

/* Sure edges first, of which only the figures stay; then all. */
static double time_both(const struct forest *forest, struct hx_dominators *ret)
{
    struct hx_dominators sure;
    double start = now();
    must(hx_dominators_find(forest->snapshot, HX_OVER_SURE, NULL, &sure));
    hx_dominators_drop_parent(&sure);
    must(hx_dominators_find(forest->snapshot, HX_OVER_FOLLOWED, NULL, ret));
    double took = now() - start;
    hx_dominators_deinit(&sure);
    return took;
}

static double time_groups(const struct forest *forest, unsigned threads, uint32_t n_groups,
                          const uint32_t *group, const struct hx_dominators *dominators)
{
    struct hx_groups groups;
    double start = now();
    must(hx_groups_measure(forest->snapshot, dominators, group, n_groups, 0, threads, NULL,
                           &groups));
    double took = now() - start;
    sink += groups.bytes[0];
    hx_groups_deinit(&groups);
    return took;
}

static void memory_row(const struct hx_graph *graph, double peak)
{
    double budget = 60.0 * graph->n + 12.0 * (double)graph->n_edges;
    printf("%-44s %8.1f bytes an object, %.2f of 60 and 12 an edge\n",
           "    most memory, with the graph", peak / graph->n, peak / budget);
}

/* Without image and reverse edges, which dominators do not need. */
static void measure_dominators(struct forest *forest, int rounds)
{
    struct hx_graph *graph = &forest->snapshot->graph;
    double plain = 0, best = 0;
    uint64_t marked = 0;
    struct hx_dominators dominators = {0};
    hx_snapshot_drop_image(forest->snapshot);
    hx_big_free(&graph->rev_mem);
    hx_big_free(&graph->rev_source_mem);
    graph->rev = NULL;
    graph->rev_source = NULL;
    printf("--- dominators\n");
    for (int r = 0; r < rounds; r++)
        BEST(plain, r, time_plain_mark(forest, &marked));
    row("plain depth-first mark", plain, (double)marked, "M objects/s");
    for (unsigned n = 1; n <= 2; n++) {
        peak_since();
        for (int r = 0; r < rounds; r++)
            BEST(best, r, time_dominators(forest, n));
        row(n == 1 ? "dominators, all edges that are followed" : "    and sure ones, a thread each",
            best, (double)marked, "M objects/s");
        memory_row(graph, peak_since());
        printf("%-44s %8.2f times the plain mark\n", "", best / plain);
    }
    peak_since();
    best = time_both(forest, &dominators);
    row("    one after the other, figures only first", best, (double)marked, "M objects/s");
    memory_row(graph, peak_since());
    printf("%-44s %8.2f times the plain mark\n", "", best / plain);
    uint32_t *group = malloc(graph->n * sizeof *group);
    if (!group)
        die("out of memory");
    for (hx_obj i = 0; i < graph->n; i++)
        group[i] = (uint32_t)(graph->size[i] / 16 % 128);
    for (unsigned threads = 1; threads <= 2; threads++) {
        peak_since();
        best = time_groups(forest, threads, 128, group, &dominators);
        row(threads == 1 ? "retained sizes of 128 groups" : "    with two threads", best,
            (double)marked, "M objects/s");
        memory_row(graph, peak_since());
        printf("%-44s %8.2f times the plain mark\n", "", best / plain);
    }
    free(group);
    hx_dominators_deinit(&dominators);
}

static void measure(struct forest *forest, int rounds)
{
    struct hx_snapshot *snapshot = forest->snapshot;
    struct hx_graph *graph = &snapshot->graph;
    const double all = (double)(snapshot->image.mapping_bytes / 8);
    uint64_t found = 0, looked_up = 0, marked = 0;
    double best = 0;
    for (unsigned threads = 1; threads <= 2; threads++) {
        printf("--- %u thread%s\n", threads, threads > 1 ? "s" : "");
        for (int r = 0; r < rounds; r++)
            BEST(best, r, time_reading(forest, threads, read_words, &found));
        sink += found;
        row("sequential read of the image", best, all * 8, "MB/s");
        for (int r = 0; r < rounds; r++)
            BEST(best, r, time_reading(forest, threads, range_check, &found));
        row("range check of every word", best, all, "M words/s");
        if (threads == 1) {
            for (int r = 0; r < rounds; r++)
                BEST(best, r, time_map(graph));
            row("block map", best, graph->n, "M objects/s");
            for (int r = 0; r < rounds; r++)
                BEST(best, r, time_lookup(forest, &looked_up));
            row("lookup of the words in range", best, (double)looked_up, "M words/s");
        }
        forget_edges(graph);
        peak_since();
        for (int r = 0; r < rounds; r++)
            BEST(best, r, time_scan(forest, threads));
        row("scan, with the block map", best, all, "M words/s");
        printf("%-44s %8.2f times the image\n", "    most memory, with image and objects",
               peak_since() / (double)snapshot->image.mapping_bytes);
        row("    of these, words looked up", best, (double)looked_up, "M words/s");
        for (int r = 0; r < rounds; r++)
            BEST(best, r, time_reverse(forest, threads));
        row("reverse edges", best, (double)graph->n_edges, "M edges/s");
        if (threads == 1) {
            for (int r = 0; r < rounds; r++)
                BEST(best, r, time_plain_mark(forest, &marked));
            row("plain depth-first mark", best, (double)marked, "M objects/s");
        }
        for (int r = 0; r < rounds; r++)
            BEST(best, r, time_reach(forest, threads));
        row("states (mark and leak search)", best, graph->n, "M objects/s");
    }
    for (int r = 0; r < rounds; r++)
        BEST(best, r, time_why(forest, graph->n / 2));
    row("why, one object", best, 1, "M");
    for (int state = HX_STATE_REACHABLE; state < HX_STATES; state++)
        printf("%s %" PRIu64 "  ", hx_state_name((enum hx_state)state),
               snapshot->state_objects[state]);
    printf("\n");
}

int main(int argc, char **argv)
{
    unsigned long objects = argc > 1 ? strtoul(argv[1], NULL, 0) : 10000000;
    int rounds = argc > 2 ? atoi(argv[2]) : 3;
    if (objects < 1000 || objects > UINT32_MAX - 1 || rounds < 1)
        die("OBJECTS is from 1000, ROUNDS from 1");
    struct forest forest = {0};
    make_forest(&forest, (hx_obj)objects);
    measure(&forest, rounds);
    const struct hx_graph *graph = &forest.snapshot->graph;
    printf("%u objects, %.1f bytes each, %.2f edges each; image %.0f MB\n", graph->n,
           (double)forest.heap_bytes / graph->n, (double)graph->n_edges / graph->n,
           (double)forest.snapshot->image.mapping_bytes * 1e-6);
    measure_dominators(&forest, rounds);
    hx_snapshot_destroy(forest.snapshot);
    return sink == 42; /* never */
}
