/* bench_stacks.c - what many events of many stacks cost: the reader that takes them, the snapshot
 * that stores what they came to, and another choice of cost centres afterwards.
 *
 *   bench_stacks [EVENTS] [STACKS] [DEPTH]
 *
 * The stacks are walks through a made-up call graph with recursion. Each figure stands beside one
 * plain pass over the same frames. */
#include "base/cleanup.h"
#include "record/read/reader.h"
#include "store/cost/attribution.h"
#include "store/query.h"
#include "store/store.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { FUNCTIONS = 20000, CALLEES = 6, FILES = 40, LIVE = 1 << 20, BATCH = 1 << 16 };

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* Of the processor, which other programs do not lengthen. */
static double worked(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void must(hx_error *err)
{
    char line[512];
    if (!err)
        return;
    hx_error_line(err, line, sizeof line);
    fprintf(stderr, "bench_stacks: %s\n", line);
    exit(1);
}

static uint64_t rng = 88172645463325252u;
static uint64_t draw(uint64_t n)
{
    rng ^= rng << 13;
    rng ^= rng >> 7;
    rng ^= rng << 17;
    return (uint64_t)((unsigned __int128)rng * n >> 64);
}

/* --- the program ------------------------------------------------------------------- */

struct program {
    uint32_t callee[FUNCTIONS][CALLEES];
    uint64_t *frame; /* of all stacks, innermost first: function << 8 | call */
    uint32_t *first; /* of each stack, and of the one behind the last */
    uint32_t stacks;
};

static void make_program(struct program *p, uint32_t stacks, uint32_t depth)
{
    for (uint32_t f = 0; f < FUNCTIONS; f++)
        for (uint32_t c = 0; c < CALLEES; c++) /* one call in 30 goes back up */
            p->callee[f][c] = draw(30) && f + 1 < FUNCTIONS
                                  ? f + 1 + (uint32_t)draw((FUNCTIONS - f - 1) / depth + 1)
                                  : (uint32_t)draw(f + 1);
    p->stacks = stacks;
    p->frame = malloc((size_t)stacks * depth * 2 * sizeof *p->frame);
    p->first = malloc((stacks + 1) * sizeof *p->first);
    if (!p->frame || !p->first)
        must(hx_error_nomem());
    uint32_t n = 0;
    for (uint32_t i = 0; i < stacks; i++) {
        uint32_t length = depth / 2 + (uint32_t)draw(depth), f = 0;
        p->first[i] = n;
        n += length;
        for (uint32_t k = 0; k < length; k++) {
            uint64_t call = draw(4) ? 0 : draw(CALLEES); /* most go the same way */
            p->frame[n - 1 - k] = (uint64_t)(f + 1) << 8 | call;
            f = p->callee[f][call] % FUNCTIONS;
        }
    }
    p->first[stacks] = n;
}

/* --- the source of the events ------------------------------------------------------ */

static bool give_stack(void *context, uint64_t key, uint64_t *frame, size_t max, size_t *ret_n,
                       uint64_t *ret_exact, bool *ret_cut)
{
    const struct program *p = context;
    uint64_t i = key - HX_EV_KEY_FIRST;
    if (i >= p->stacks)
        return false;
    size_t n = p->first[i + 1] - p->first[i];
    *ret_n = n < max ? n : max;
    memcpy(frame, p->frame + p->first[i], *ret_n * sizeof *frame);
    *ret_exact = 0;
    *ret_cut = n > max;
    return true;
}

static void give_place(void *context, uint64_t pc, struct hx_location *ret)
{
    (void)context;
    *ret = (struct hx_location){
        .file = (uint32_t)(pc >> 8) % FILES, .vaddr = pc, .start = pc >> 8 == 1};
}

static uint64_t give_time(void *context, uint64_t when)
{
    (void)context;
    return when;
}

/* Block i lives at one address; each event frees it or hands it out again. */
static void feed(hx_reader *reader, const struct program *p, uint64_t events)
{
    HX_FREE uint64_t *buffer = malloc(BATCH * sizeof(struct hx_ev_alloc));
    HX_FREE bool *live = calloc(LIVE, 1);
    if (!buffer || !live)
        must(hx_error_nomem());
    uint64_t when = 1;
    for (uint64_t done = 0; done < events;) {
        uint8_t *at = (uint8_t *)buffer;
        for (uint32_t i = 0; i < BATCH && done < events; i++, done++, when++) {
            uint64_t block = draw(LIVE), address = (block + 1) * 4096;
            if (live[block]) {
                struct hx_ev_free event = {HX_EV_HEAD(HX_EV_FREE, when), address};
                memcpy(at, &event, sizeof event);
                at += sizeof event;
            } else {
                struct hx_ev_alloc event = {HX_EV_HEAD(HX_EV_ALLOC, when), address,
                                            16 + draw(1u << (4 + draw(9))), 0,
                                            HX_EV_KEY_FIRST + draw(p->stacks)};
                memcpy(at, &event, sizeof event);
                at += sizeof event;
            }
            live[block] = !live[block];
        }
        size_t taken;
        hx_reader_one_stream(reader);
        must(hx_reader_feed(reader, buffer, (size_t)(at - (uint8_t *)buffer), UINT64_MAX, &taken));
        must(hx_reader_end_round(reader));
    }
}

/* --- the snapshot ------------------------------------------------------------------ */

static char *text(const char *before, uint64_t n, const char *behind)
{
    char *ret;
    if (asprintf(&ret, "%s%u%s", before, (unsigned)n, behind) < 0)
        must(hx_error_nomem());
    return ret;
}

static void name(struct hx_recording *recording)
{
    for (uint32_t i = 0; i < FILES; i++) {
        struct hx_rec_file file = {text("/usr/lib/lib", i, ".so"), text("lib", i, ".so"),
                                   text("", i, "")};
        if (!hx_vec_push(&recording->files, file))
            must(hx_error_nomem());
    }
    for (size_t i = 0; i < recording->places.n; i++) {
        struct hx_rec_place *place = &recording->places.v[i];
        uint64_t function = place->vaddr >> 8;
        place->lines = calloc(1, sizeof *place->lines);
        place->n_lines = 1;
        if (!place->lines)
            must(hx_error_nomem());
        place->lines[0] = (struct hx_rec_line){.function = text("function_", function, ""),
                                               .source = text("part_", function / 50, ".c"),
                                               .line = (uint32_t)(place->vaddr & 0xffff),
                                               .declared = text("part_", function / 50, ".c"),
                                               .declared_line = (uint32_t)function,
                                               .entry = function << 8};
    }
}

static int64_t count(hx_store *store, const char *sql)
{
    hx_rows *rows;
    bool more;
    must(hx_query_sql(store, sql, &rows));
    must(hx_rows_next(rows, &more));
    int64_t n = more ? hx_rows_value(rows, 0).i : 0;
    hx_rows_end(rows);
    return n;
}

static void attribute(hx_store *store, const char *what, const struct hx_attribution *how,
                      double pass)
{
    double begun = now(), work = worked();
    must(hx_store_attribute(store, 1, how, NULL, NULL));
    double took = now() - begun;
    work = worked() - work;
    printf("%-34s %8.3f s, %.3f s of work, %.0f x the pass, %lld stacks of centres\n", what, took,
           work, work / pass, (long long)count(store, "SELECT count(*) FROM ccs"));
}

static void store(struct hx_recording *recording, double pass)
{
    char path[] = "/tmp/bench_stacks.XXXXXX";
    int fd = mkstemp(path);
    if (fd < 0)
        must(hx_error_new(HX_E_FAIL, path, NULL, "cannot be made"));
    close(fd);
    unlink(path);
    HX_SNAPSHOT struct hx_snapshot *snapshot;
    hx_store *file;
    int64_t number;
    struct hx_analysis analysis = {.scheme = hx_schemes[0], .max_set = HX_SETS_AUTO};
    must(hx_snapshot_create(&snapshot));
    snapshot->no_heap = true;
    snapshot->pid = 1;
    snapshot->recording = recording;
    for (int i = 0; i < 2; i++) {
        double begun = now(), work = worked();
        must(hx_store_append(path, &file));
        must(hx_store_add(file, snapshot, &analysis, NULL, &number));
        must(hx_store_close(file));
        work = worked() - work;
        printf("%-34s %8.3f s, %.3f s of work, %.0f x the pass\n",
               i ? "a second snapshot of it" : "store a snapshot", now() - begun, work,
               work / pass);
    }
    must(hx_store_open(path, &file));
    printf("%-34s %lld frames, %lld stacks of centres\n", "in it",
           (long long)count(file, "SELECT count(*) FROM frames"),
           (long long)count(file, "SELECT count(*) FROM ccs"));
    static const char *const modules[] = {"module:lib1", "!function_7"};
    struct hx_attribution how = HX_ATTRIBUTION_DEFAULT;
    attribute(file, "attribute anew: every function", &how, pass);
    how.recursion = HX_RECURSION_WHOLE;
    attribute(file, "with whole recursion", &how, pass);
    how = HX_ATTRIBUTION_DEFAULT;
    how.pattern = modules;
    how.n_patterns = 2;
    attribute(file, "some modules, without a few", &how, pass);
    how.chain_depth = 0;
    attribute(file, "and whole chains", &how, pass);
    must(hx_store_close(file));
    unlink(path);
}

int main(int argc, char **argv)
{
    static struct program program;
    uint64_t events = argc > 1 ? strtoull(argv[1], NULL, 10) : 100000000;
    uint32_t stacks = argc > 2 ? (uint32_t)strtoul(argv[2], NULL, 10) : 50000;
    uint32_t depth = argc > 3 ? (uint32_t)strtoul(argv[3], NULL, 10) : 30;
    if (!events || !stacks || depth < 2 || depth > 100) {
        fprintf(stderr, "usage: bench_stacks [EVENTS] [STACKS] [DEPTH]\n");
        return 2;
    }
    make_program(&program, stacks, depth);
    struct hx_reader_source source = {
        .stack = give_stack, .locate = give_place, .to_ns = give_time, .context = &program};
    struct hx_reader_options options = {.from_start = true, .method = "run"};
    hx_reader *reader;
    struct hx_recording *recording;
    must(hx_reader_create(&source, &options, &reader));
    double begun = now();
    feed(reader, &program, events);
    double took = now() - begun;
    printf("%-34s %8.3f s %8.1f ns an event, made here\n", "take the events", took,
           1e9 * took / (double)events);
    begun = now();
    must(hx_reader_freeze(reader, &recording));
    hx_recording_sort(recording);
    printf("%-34s %8.3f s, %zu stacks\n", "freeze", now() - begun, recording->stacks.n);
    hx_reader_destroy(reader);
    begun = now();
    volatile uint64_t sum = 0;
    for (size_t i = 0; i < recording->stack_places.n; i++)
        sum += recording->places.v[recording->stack_places.v[i]].vaddr;
    double pass = now() - begun;
    printf("%-34s %8.5f s, %zu frames\n", "a plain pass over the frames", pass,
           (size_t)recording->stack_places.n);
    name(recording);
    store(recording, pass);
    free(program.frame);
    free(program.first);
    return 0;
}
