/* random_store.c - writes a store of small random heaps, for tests of the formats.
 *
 *   random_store FILE [SNAPSHOTS [SEED [MOST]]]
 *
 * Each snapshot is another heap of at most MOST (60) objects: chains, cycles, self references,
 * several references between the same two objects, interior ones, lost objects, objects of 4 GiB
 * and more, two roots of one object, roots of all kinds (named ones too), names that try to harm a
 * reader; all three --interior rules; every third one with recorded allocations. The seed, that of
 * HX_SEED when it is set and none is given, is printed: the same seed gives the same file.
 */
#include "../ui/drawing.h"

#include "base/cleanup.h"
#include "store/store.h"
#include "traverse/reach.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

static uint64_t state; /* of the random numbers */

/* splitmix64 */
static uint64_t random_word(void)
{
    uint64_t z = state += 0x9e3779b97f4a7c15;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
    z = (z ^ z >> 27) * 0x94d049bb133111eb;
    return z ^ z >> 31;
}

static uint64_t below(uint64_t limit)
{
    return random_word() % limit;
}

static char *copy(const char *text)
{
    char *made = strdup(text);
    if (!made)
        must(hx_error_nomem());
    return made;
}

static const char *const nasty[] = {
    "plain",
    "two words",
    "app::cache<std::string, int>",
    "_ZN3app5cache4headE",
    "quote\"back\\slash",
    "\"nodes\":[1],\"edges\":[",
    "]}]}",
    "=1+2",
    "+cmd|' /C calc'!A0",
    "-1",
    "@SUM(1)",
    "line\nend\ttab\rreturn",
    "\x1b[31mred\x07",
    "\xff\xfe not text \xc2",
    "\xe6\x97\xa5\xe6\x9c\xac\xe8\xaa\x9e",
    "\xe2\x80\xaetfel",
    "semi;colon, comma",
    "<script>&amp;</script>",
    "<div id=1>",
    "0",
    "",
    " blank ",
    "(unknown)",
    "MANY",
    "__proto__",
    "toString",
    "{a,b}",
};
#define NASTY (sizeof nasty / sizeof *nasty)

/* --- objects ------------------------------------------------------------------------ */

static uint64_t random_size(void)
{
    switch (below(40)) {
    case 0:
        return UINT32_MAX - 1 + below(4); /* around 4 GiB */
    case 1:
        return ((uint64_t)1 << 32) + below((uint64_t)1 << 36);
    case 2:
        return below(3);
    default:
        return 24 + 16 * below(20);
    }
}

static void make_types(struct hx_snapshot *s)
{
    for (size_t n = below(6), i = 0, first = below(NASTY); i < n; i++) {
        const char *name = nasty[(first + i) % NASTY];
        struct hx_type type = {.name = copy(*name ? name : "a"),
                               .confidence = (enum hx_confidence)below(3)};
        if (!hx_vec_push(&s->types, type))
            must(hx_error_nomem());
    }
}

static void make_objects(struct hx_snapshot *s, hx_obj n)
{
    struct hx_graph *g = &s->graph;
    g->n = n;
    must(hx_big_reserve(&g->addr_mem, (size_t)n * sizeof *g->addr));
    must(hx_big_reserve(&g->size_mem, (size_t)n * sizeof *g->size));
    must(hx_big_reserve(&g->type_mem, (size_t)n * sizeof *g->type));
    g->addr = g->addr_mem.base;
    g->size = g->size_mem.base;
    g->type = g->type_mem.base;
    uint64_t at = below(2) ? 0x55d0c0de1000 : 0x7f0000001230;
    for (hx_obj i = 0; i < n; i++) {
        g->addr[i] = at;
        g->size[i] = random_size();
        g->type[i] = s->types.n && below(3) ? (uint32_t)below(s->types.n) : HX_NO_TYPE;
        at = (at + g->size[i] + 8 + 15) / 16 * 16 + (below(8) ? 0 : 16 * below(1000));
        s->heap_bytes += g->size[i];
    }
}

static uint8_t random_kind(unsigned weak)
{
    return below(100) < weak ? HX_EDGE_INTERIOR : (uint8_t)below(2);
}

/* Near targets make long chains and cycles, far ones diamonds. */
static hx_obj random_target(hx_obj n, hx_obj from)
{
    return (hx_obj)(below(2) ? below(n) : (from + below(3)) % n);
}

static void make_edges(struct hx_snapshot *s, unsigned weak)
{
    struct hx_graph *g = &s->graph;
    enum { MOST = 5 };
    uint64_t dense = 1 + below(MOST - 1), fan = below(2); /* at least so many */
    must(hx_big_reserve(&g->fwd_mem, ((size_t)g->n + 1) * sizeof *g->fwd));
    must(hx_big_reserve(&g->edge_mem, ((size_t)g->n + 1) * MOST * sizeof *g->edge));
    g->fwd = g->fwd_mem.base;
    g->edge = g->edge_mem.base;
    for (hx_obj i = 0; i < g->n; i++) {
        hx_obj last = i;
        uint64_t word = below(3), most = g->size[i] / 8;
        if (most > HX_EDGE_OFFSET_MAX)
            most = HX_EDGE_OFFSET_MAX;
        for (uint64_t k = fan + below(dense + 1); k && word < most; k--) {
            hx_obj target = below(6) ? random_target(g->n, i) : last; /* twice the same */
            g->edge[g->n_edges++] =
                hx_edge_make(target, word, (enum hx_edge_kind)random_kind(weak));
            last = target;
            word += 1 + below(3);
            if (most == HX_EDGE_OFFSET_MAX && word < most / 2)
                word += below(most / 2);
        }
        g->fwd[i + 1] = g->n_edges;
    }
}

/* --- roots ---------------------------------------------------------------------------- */

static void make_root(struct hx_snapshot *s, enum hx_root_kind kind, uint64_t *at, unsigned weak)
{
    struct hx_root root = {
        .kind = kind,
        .name = copy(nasty[below(NASTY)]),
        .module = copy(below(3) ? "victim" : nasty[below(NASTY)]),
        .address = kind == HX_ROOT_REGISTER ? 0 : *at,
        .size = kind == HX_ROOT_REGISTER ? 8 : 16 + 8 * below(8),
        .tid = kind == HX_ROOT_GLOBAL || kind == HX_ROOT_MAPPING ? 0 : 4242,
    };
    uint32_t number = (uint32_t)s->roots.n;
    uint64_t words = s->graph.n ? below(5) : 0;
    for (uint64_t word = 0; word < words && word * 8 < root.size; word++) {
        struct hx_root_edge edge = {.root = number,
                                    .target = (hx_obj)below(s->graph.n),
                                    .address = root.address ? root.address + 8 * word : 0,
                                    .kind = random_kind(weak)};
        if (!hx_vec_push(&s->root_edges, edge))
            must(hx_error_nomem());
        root.direct_objects++;
    }
    if (kind != HX_ROOT_NAMED)
        *at += root.size + 8 * below(10);
    if (!hx_vec_push(&s->roots, root))
        must(hx_error_nomem());
}

/* Named roots stand behind the others. */
static void make_roots(struct hx_snapshot *s, unsigned weak)
{
    uint64_t at = 0x55d0c0c00000;
    for (uint64_t n = below(8); n; n--)
        make_root(s, (enum hx_root_kind)below(HX_ROOT_NAMED), &at, weak);
    for (uint64_t n = below(3); n; n--) {
        char name[16];
        snprintf(name, sizeof name, "named %u", (unsigned)n);
        struct hx_named named = {
            .name = copy(name), .expr = copy("type:x"), .root = (uint32_t)s->roots.n};
        make_root(s, HX_ROOT_NAMED, &at, weak);
        s->roots.v[s->roots.n - 1].address = s->roots.v[s->roots.n - 1].size = 0;
        if (!hx_vec_push(&s->named, named))
            must(hx_error_nomem());
    }
}

/* --- the whole ------------------------------------------------------------------------ */

static struct hx_snapshot *make_snapshot(unsigned number, uint64_t most)
{
    struct hx_snapshot *s;
    unsigned weak = (unsigned)below(4) * 20;
    must(hx_snapshot_create(&s));
    make_types(s);
    make_objects(s, (hx_obj)(1 + below(most)));
    make_edges(s, weak);
    make_roots(s, weak);
    must(hx_graph_check(&s->graph));
    must(hx_reach(s, (enum hx_interior)below(3), 1, NULL));
    s->started_at_ns = 1767323000000000000;
    s->taken_at_ns = s->started_at_ns + (int64_t)number * 1500000000;
    s->pid = 4242;
    s->comm = copy("random");
    s->exe = copy("/usr/bin/random");
    s->allocator = copy("glibc 2.36");
    if (number % 3 == 0)
        draw_recording(s, number);
    return s;
}

static uint64_t argument(int argc, char **argv, int i, uint64_t other)
{
    uint64_t value;
    return i < argc && hx_parse_u64(argv[i], &value) ? value : other;
}

int main(int argc, char **argv)
{
    if (argc < 2)
        return 2;
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    const char *given = getenv("HX_SEED");
    if (!given || !hx_parse_u64(given, &state))
        state = (uint64_t)now.tv_nsec ^ (uint64_t)now.tv_sec;
    state = argument(argc, argv, 3, state);
    printf("HX_SEED=%llu\n", (unsigned long long)state);
    struct hx_analysis analysis = {.scheme = hx_schemes[0], .max_set = 8, .threads = 1};
    uint64_t snapshots = argument(argc, argv, 2, 10), most = argument(argc, argv, 4, 60);
    hx_store *store;
    must(hx_store_append(argv[1], &store));
    for (unsigned number = 1; number <= snapshots; number++) {
        int64_t stored;
        struct hx_snapshot *snapshot = make_snapshot(number, most ? most : 1);
        must(hx_store_add(store, snapshot, &analysis, NULL, &stored));
        hx_snapshot_destroy(snapshot);
    }
    must(hx_store_close(store));
    return 0;
}
