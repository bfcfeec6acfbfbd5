/* bench_traverse.c - what scan, reversal and marking cost, beside the machine's own speed.
 *
 *     bench_traverse [OBJECTS] [ROUNDS]
 *
 * Makes a synthetic snapshot (10 million objects and about 1 GB unless told otherwise:
 * lists, hash maps of strings, trees with vtables, shared nodes, buffers; neighbours in a
 * structure lie at random places) and prints the best of ROUNDS for one and two threads.
 * Yardsticks of the same run: a sequential read of the image, a range check of every
 * word, and a marker without prefetch. With HX_BENCH_CPU set, seconds of processor time instead of
 * the clock's, for a machine that has other work to do.
 */
#include "synthetic.h"

#include "base/parallel.h"
#include "traverse/reach.h"
#include "traverse/scan/lookup.h"
#include "traverse/scan/scan.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

/* --- the table -------------------------------------------------------------------- */

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
    hx_interior_rules_init(&lookup->rules, &snapshot->image, &options);
    size_t n = forest->heap_bytes / 8, kept = 0;
    uint64_t *word = malloc(n * sizeof *word);
    for (size_t i = 0; i < n; i++) {
        memcpy(&word[kept], forest->bytes + i * 8, 8);
        kept += word[kept] - map.low < map.len;
    }
    double start = now();
    for (size_t i = 0; i < kept; i += HX_LOOKUP_RUN) {
        size_t some = kept - i < HX_LOOKUP_RUN ? kept - i : HX_LOOKUP_RUN;
        hx_lookup_words(lookup, &word[i], some, i, 1);
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

static double time_why(const struct forest *forest, hx_obj object)
{
    struct hx_chains chains;
    double start = now();
    must(hx_why(forest->snapshot, object, &(struct hx_why_options){.limit = 10}, NULL, &chains));
    double took = now() - start;
    hx_chains_deinit(&chains);
    return took;
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
    hx_snapshot_destroy(forest.snapshot);
    return sink == 42; /* never */
}
