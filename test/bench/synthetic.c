/* synthetic.c - makes the forest. */
#include "synthetic.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#define LIST 1000 /* nodes of one list */
#define TREE 1023 /* nodes of one tree */

double now(void)
{
    struct timespec t;
    clock_gettime(getenv("HX_BENCH_CPU") ? CLOCK_PROCESS_CPUTIME_ID : CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

uint64_t next_random(struct forest *forest)
{
    uint64_t z = forest->random += 0x9e3779b97f4a7c15;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
    z = (z ^ z >> 27) * 0x94d049bb133111eb;
    return z ^ z >> 31;
}

uint64_t below(struct forest *forest, uint64_t limit)
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

void make_forest(struct forest *forest, hx_obj n)
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

void set_roots(struct forest *forest)
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

/* Depth-first, nothing else. */
uint64_t plain_mark(const struct hx_snapshot *snapshot)
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

double time_plain_mark(const struct forest *forest, uint64_t *ret)
{
    double start = now();
    *ret = plain_mark(forest->snapshot);
    return now() - start;
}

double peak_since(void)
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

bool is_vtable(void *context, uint64_t addr)
{
    (void)context;
    return addr - VTABLE < 512;
}

void row(const char *what, double seconds, double count, const char *unit)
{
    printf("%-44s %8.1f ms %10.1f %s\n", what, seconds * 1e3, count / seconds * 1e-6, unit);
    fflush(stdout);
}
