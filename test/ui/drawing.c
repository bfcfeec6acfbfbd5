/* drawing.c - a synthetic heap for tests of the explorer, the same in every run. */
#include "drawing.h"

#include "config.h"

#include "base/cleanup.h"
#include "traverse/hold/rules.h"
#include "traverse/named.h"
#include "traverse/reach.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BASE    0x55d0c0de1000u
#define MAX_OUT 8

/* One object while the heap is drawn. */
struct drawn {
    uint64_t size;
    uint32_t type;
    unsigned n_out;
    struct {
        uint32_t target;
        uint32_t word;
        enum hx_edge_kind kind;
    } out[MAX_OUT];
};

struct drawing {
    HX_VEC(struct drawn) objects;
    struct hx_snapshot *snapshot;
};

static uint32_t object(struct drawing *drawing, uint64_t size)
{
    struct drawn drawn = {.size = size, .type = HX_NO_TYPE};
    if (!hx_vec_push(&drawing->objects, drawn))
        must(hx_error_nomem());
    return (uint32_t)drawing->objects.n - 1;
}

static void edge(struct drawing *drawing, uint32_t source, uint32_t target, uint32_t word,
                 enum hx_edge_kind kind)
{
    struct drawn *drawn = &drawing->objects.v[source];
    if (drawn->n_out == MAX_OUT)
        abort();
    drawn->out[drawn->n_out].target = target;
    drawn->out[drawn->n_out].word = word;
    drawn->out[drawn->n_out++].kind = kind;
}

static uint32_t root(struct drawing *drawing, enum hx_root_kind kind, const char *name,
                     const char *module, uint64_t address, uint64_t size)
{
    struct hx_root root = {.kind = kind,
                           .name = strdup(name),
                           .module = strdup(module),
                           .address = address,
                           .size = size,
                           .tid = kind == HX_ROOT_STACK || kind == HX_ROOT_REGISTER ? 4242 : 0};
    if (!root.name || !root.module || !hx_vec_push(&drawing->snapshot->roots, root))
        must(hx_error_nomem());
    return (uint32_t)drawing->snapshot->roots.n - 1;
}

static void root_edge(struct drawing *drawing, uint32_t from, uint32_t target, uint64_t offset,
                      enum hx_edge_kind kind)
{
    struct hx_root *owner = &drawing->snapshot->roots.v[from];
    struct hx_root_edge found = {.root = from,
                                 .target = target,
                                 .address = owner->address ? owner->address + offset : 0,
                                 .kind = (uint8_t)kind};
    if (!hx_vec_push(&drawing->snapshot->root_edges, found))
        must(hx_error_nomem());
    owner->direct_objects++;
}

enum { TYPE_NODE, TYPE_BLOCK, TYPE_SESSION, TYPE_EVIL };

static void draw_types(struct drawing *drawing)
{
    static const struct {
        const char *name;
        enum hx_confidence confidence;
    } types[] = {
        [TYPE_NODE] = {"cache::node", HX_CONFIDENCE_CERTAIN},
        [TYPE_BLOCK] = {"block", HX_CONFIDENCE_LIKELY},
        [TYPE_SESSION] = {"net::session<std::string>", HX_CONFIDENCE_CERTAIN},
        [TYPE_EVIL] = {"it's \x1b[31mevil", HX_CONFIDENCE_CERTAIN},
    };
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        struct hx_type type = {.name = strdup(types[i].name), .confidence = types[i].confidence};
        if (!type.name || !hx_vec_push(&drawing->snapshot->types, type))
            must(hx_error_nomem());
    }
}

static uint32_t typed(struct drawing *drawing, uint32_t object, uint32_t type)
{
    drawing->objects.v[object].type = type;
    return object;
}

/* A list of n nodes, each with a buffer; returns its first node. */
static uint32_t list(struct drawing *drawing, unsigned n)
{
    uint32_t first = 0, last = 0;
    for (unsigned i = 0; i < n; i++) {
        uint32_t node = typed(drawing, object(drawing, 24), TYPE_NODE),
                 buffer = object(drawing, 104 + 16 * (i % 7));
        edge(drawing, node, buffer, 0, HX_EDGE_START);
        if (i)
            edge(drawing, last, node, 1, HX_EDGE_START);
        else
            first = node;
        last = node;
    }
    return first;
}

static void draw_lost(struct drawing *drawing, unsigned number)
{
    for (unsigned i = 0; i < 3 * number; i++) {
        uint32_t head = typed(drawing, object(drawing, 56), TYPE_SESSION),
                 tail = object(drawing, 200 + 8 * i);
        edge(drawing, head, tail, 2, HX_EDGE_START);
    }
    uint32_t ring[3];
    for (int i = 0; i < 3; i++)
        ring[i] = object(drawing, 40);
    for (int i = 0; i < 3; i++)
        edge(drawing, ring[i], ring[(i + 1) % 3], 0, HX_EDGE_START);
}

/* Some grow, some shrink, some come and go. */
static void draw_shards(struct drawing *drawing, unsigned number)
{
    for (unsigned i = 0; i < 24; i++) {
        char name[32];
        snprintf(name, sizeof name, "shard_%02u", i);
        uint32_t from = root(drawing, HX_ROOT_GLOBAL, name, "victim", 0x55d0c0cb0000 + 0x40 * i, 8);
        uint64_t size = 4000 * (24 - i) + (i % 3 == 0   ? 9000 * number
                                           : i % 3 == 1 ? 400000 / (number + 1)
                                                        : 20000 * (number * (i + 3) % 7));
        if (i % 5 || number % 8)
            root_edge(drawing, from, object(drawing, size), 0, HX_EDGE_START);
    }
}

enum drawn_as { PLAIN, CROWD, HELD };

/* A table that somebody keeps to find nodes of the list again, and a few words left behind. */
static void draw_index(struct drawing *drawing, uint32_t node, unsigned n)
{
    uint32_t from = root(drawing, HX_ROOT_GLOBAL, "(anonymous namespace)::by_key", "victim",
                         0x55d0c0ca00c0, 8),
             seen = root(drawing, HX_ROOT_GLOBAL, "svc::(anonymous namespace)::seen", "victim",
                         0x55d0c0ca0100, 8),
             other = root(drawing, HX_ROOT_GLOBAL, "svc::seen", "libsvc.so", 0x7f0000002000, 8);
    for (unsigned i = 0; i < n; i += MAX_OUT) {
        uint32_t page = object(drawing, 8 * MAX_OUT);
        root_edge(drawing, from, page, 8 * i, HX_EDGE_START);
        for (unsigned k = 0; k < MAX_OUT && i + k < n; k++)
            edge(drawing, page, node + 2 * (i + k), k, HX_EDGE_START);
    }
    root_edge(drawing, seen, node + 2, 0, HX_EDGE_START);
    root_edge(drawing, seen, object(drawing, 520), 8, HX_EDGE_START);
    root_edge(drawing, other, object(drawing, 536), 0, HX_EDGE_START);
}

static void draw(struct drawing *drawing, unsigned number, unsigned n, enum drawn_as as)
{
    static const struct {
        const char *name, *module, *symbol;
    } nasty[] = {
        {"evil\x1b[2J\x1b]0;owned\x07name", "lib\x1b[31mred.so", NULL},
        {"\xe6\x97\xa5\xe6\x9c\xac\xe8\xaa\x9e\xe3\x82\xad\xe3\x83\xa3\xe3\x83\x83\xe3\x82\xb7"
         "\xe3\x83\xa5",
         "lib\xe8\xa1\xa8.so", NULL},
        {"e\xcc\x81"
         "clair \xe2\x80\xaetxet\xe2\x80\xac",
         "victim", NULL},
        {"broken\xff\xfe\xc2\x9bm", "victim", NULL},
        {"svc::registry<std::string, std::vector<std::shared_ptr<svc::connection> > >"
         "::live_sessions",
         "libstdc++.so.6",
         "_ZN3svc8registryISsSt6vectorISt10shared_ptrINS_10connectionEEEE13live_sessionsE"},
    };
    draw_types(drawing);
    uint32_t cache = root(drawing, HX_ROOT_GLOBAL, "cache_head", "victim", 0x55d0c0ca0040, 16);
    uint32_t first = list(drawing, n);
    root_edge(drawing, cache, first, 0, HX_EDGE_START);
    uint32_t table_root = root(drawing, HX_ROOT_GLOBAL, "table", "victim", 0x55d0c0ca0080, 8);
    uint32_t table = object(drawing, 4096);
    root_edge(drawing, table_root, table, 0, HX_EDGE_START);
    for (unsigned i = 0; i < MAX_OUT; i++)
        edge(drawing, table, typed(drawing, object(drawing, 65544 + 1024 * i), TYPE_BLOCK), 3 * i,
             HX_EDGE_KNOWN);
    for (unsigned i = 0; i < sizeof nasty / sizeof *nasty; i++) {
        uint32_t from = root(drawing, HX_ROOT_GLOBAL, nasty[i].name, nasty[i].module,
                             0x7f0000001000 + 0x100 * i, 64);
        uint32_t held = object(drawing, 1000 + 8 * i);
        if (nasty[i].symbol)
            drawing->snapshot->roots.v[from].symbol = strdup(nasty[i].symbol);
        if (!i)
            typed(drawing, held, TYPE_EVIL);
        root_edge(drawing, from, held, 8 * i, HX_EDGE_START);
    }
    uint32_t stack = root(drawing, HX_ROOT_STACK, "stack of thread 4242", "", 0x7ffc00001000, 8192);
    uint32_t held = object(drawing, 120);
    root_edge(drawing, stack, table, 256, HX_EDGE_START);
    root_edge(drawing, stack, held, 512, HX_EDGE_INTERIOR);
    edge(drawing, held, object(drawing, 72), 4, HX_EDGE_START);
    uint32_t rax = root(drawing, HX_ROOT_REGISTER, "rax of thread 4242", "", 0, 8);
    root_edge(drawing, rax, table, 0, HX_EDGE_START);
    draw_lost(drawing, number);
    if (as == CROWD)
        draw_shards(drawing, number);
    if (as == HELD)
        draw_index(drawing, first, n / 2);
}

/* From the drawing to the columns of the graph. */
static void build(struct drawing *drawing)
{
    struct hx_graph *graph = &drawing->snapshot->graph;
    size_t n = drawing->objects.n, edges = 0;
    for (size_t i = 0; i < n; i++)
        edges += drawing->objects.v[i].n_out;
    must(hx_big_reserve(&graph->addr_mem, n * sizeof *graph->addr));
    must(hx_big_reserve(&graph->size_mem, n * sizeof *graph->size));
    must(hx_big_reserve(&graph->type_mem, n * sizeof *graph->type));
    must(hx_big_reserve(&graph->fwd_mem, (n + 1) * sizeof *graph->fwd));
    must(hx_big_reserve(&graph->edge_mem, (edges + 1) * sizeof *graph->edge));
    graph->addr = graph->addr_mem.base;
    graph->size = graph->size_mem.base;
    graph->type = graph->type_mem.base;
    graph->fwd = graph->fwd_mem.base;
    graph->edge = graph->edge_mem.base;
    graph->n = (hx_obj)n;
    uint64_t address = BASE;
    for (size_t i = 0; i < n; i++) {
        const struct drawn *drawn = &drawing->objects.v[i];
        graph->addr[i] = address;
        graph->size[i] = drawn->size;
        graph->type[i] = drawn->type;
        address += (drawn->size + 8 + 15) / 16 * 16;
        drawing->snapshot->heap_bytes += drawn->size;
        for (unsigned k = 0; k < drawn->n_out; k++)
            graph->edge[graph->n_edges++] =
                hx_edge_make(drawn->out[k].target, drawn->out[k].word, drawn->out[k].kind);
        graph->fwd[i + 1] = graph->n_edges;
    }
    /* Every other 64 KiB of it was in memory. */
    for (uint64_t at = BASE & ~(uint64_t)4095; at < address; at += 0x20000) {
        struct hx_range range = {at, at + 0x10000};
        if (!hx_vec_push(&drawing->snapshot->resident, range))
            must(hx_error_nomem());
    }
    drawing->snapshot->has_resident = true;
    must(hx_graph_check(graph));
}

static void figures(struct hx_snapshot *snapshot, unsigned number)
{
    static const uint64_t account[HX_PARTS] = {
        [HX_PART_FREE] = 421888,  [HX_PART_OVERHEAD] = 16384,  [HX_PART_FILES] = 3751936,
        [HX_PART_STACKS] = 45056, [HX_PART_ANONYMOUS] = 81920, [HX_PART_OTHER] = 8192,
    };
    snapshot->taken_at_ns = 1767323045000000000 + (int64_t)number * 90500000000;
    snapshot->pid = 4242;
    snapshot->comm = strdup("victim \x1b[7m\xe6\x97\xa5");
    snapshot->exe = strdup("/usr/bin/victim");
    snapshot->allocator = strdup("glibc 2.36");
    snapshot->pause_us = 8200 + 731 * number;
    snapshot->free_bytes = account[HX_PART_FREE];
    snapshot->overhead_bytes = account[HX_PART_OVERHEAD];
    snapshot->has_account = snapshot->has_rss = true;
    memcpy(snapshot->account, account, sizeof account);
    snapshot->account[HX_PART_LIVE] = snapshot->heap_bytes;
    for (int i = 0; i < HX_PARTS; i++)
        snapshot->rss_bytes += snapshot->account[i];
    if (number == 3) {
        hx_snapshot_note(snapshot, true, "one block header made no sense, its run was left");
        hx_snapshot_note(snapshot, false, "pause method precopy is not possible here, copy used");
        hx_snapshot_lose(snapshot, "block header", 1, 4096, 0x55d0c0df0000);
        hx_snapshot_lose(snapshot, "unreadable page", 7, 28672, 0);
    }
    if (!snapshot->comm || !snapshot->exe || !snapshot->allocator)
        must(hx_error_nomem());
}

/* All words are firm but every seventh of those in objects. */
static void judge(struct hx_snapshot *snapshot)
{
    struct hx_graph *graph = &snapshot->graph;
    must(hx_big_array(graph->evidence, graph->n_edges + 1));
    for (hx_eidx e = 0; e < graph->n_edges; e++)
        graph->evidence[e] =
            HX_EVIDENCE(e % 7 == 3 ? HX_RULE_slack : HX_RULE_NONE, hx_edge_kind_of(graph->edge[e]));
    for (size_t i = 0; i < snapshot->root_edges.n; i++) {
        struct hx_root_edge *edge = &snapshot->root_edges.v[i];
        edge->evidence = HX_EVIDENCE(HX_RULE_NONE, edge->kind);
    }
}

static struct hx_snapshot *draw_any(unsigned number, unsigned n, enum drawn_as as)
{
    struct drawing drawing = {0};
    must(hx_snapshot_create(&drawing.snapshot));
    draw(&drawing, number, n + n / 4 * number, as);
    build(&drawing);
    if (as == HELD)
        judge(drawing.snapshot);
    must(hx_reach(drawing.snapshot, HX_INTERIOR_KNOWN, 1, NULL));
    figures(drawing.snapshot, number);
    static const struct hx_naming naming[] = {{.name = "cache", .expr = "cache_head"},
                                              {.name = "the table", .expr = "table"},
                                              {.name = "thread", .expr = "thread:4242"}};
    size_t missing;
    must(hx_named_set(drawing.snapshot, naming, sizeof naming / sizeof *naming, &missing));
    hx_vec_free(&drawing.objects);
    return drawing.snapshot;
}

struct hx_snapshot *draw_snapshot(unsigned number, unsigned n)
{
    return draw_any(number, n, PLAIN);
}

struct hx_snapshot *draw_held(unsigned number, unsigned n)
{
    return draw_any(number, n, HELD);
}

struct hx_snapshot *draw_crowd(unsigned number, unsigned n)
{
    struct hx_snapshot *snapshot = draw_any(number, n, CROWD);
    snapshot->taken_at_ns += (int64_t)(number * number % 5) * 15000000000;
    snapshot->taken_at_ns += number > 12 ? 1800000000000 : 0;
    return snapshot;
}
