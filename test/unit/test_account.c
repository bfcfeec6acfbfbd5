/* test_account.c - the memory account against one that looks at every byte. */
#include "unit.h"

#include "attach/roots/rootmap.h"

#include <time.h>

/* Small pages: the account asks for none in particular, and every byte gets looked at. */
#define PAGE     64
#define MAPPINGS 24
#define BASE     0x10000u

struct layout {
    struct hx_snapshot *snapshot;
    uint64_t end;   /* everything lies in [BASE, end) */
    uint8_t *part;  /* by byte: enum hx_account_part */
    bool *resident; /* by byte */
    HX_VEC(struct hx_mapping) mappings;
    HX_VEC(struct hx_span) spans;
    HX_VEC(struct hx_thread) threads;
};

static const struct {
    const char *path;
    uint32_t prot;
    bool device;
    enum hx_account_part part;
} kinds[] = {
    {"", HX_PROT_R | HX_PROT_W, false, HX_PART_ANONYMOUS},
    {"", HX_PROT_R | HX_PROT_W, false, HX_PART_ANONYMOUS},
    {"[heap]", HX_PROT_R | HX_PROT_W, false, HX_PART_ANONYMOUS},
    {"[anon:name]", HX_PROT_R | HX_PROT_W, false, HX_PART_ANONYMOUS},
    {"/usr/lib/x.so", HX_PROT_R | HX_PROT_X, false, HX_PART_FILES},
    {"/usr/lib/x.so", HX_PROT_R | HX_PROT_W, false, HX_PART_FILES},
    {"/dev/shm/x", HX_PROT_R | HX_PROT_W | HX_PROT_SHARED, false, HX_PART_SHARED},
    {"", HX_PROT_R | HX_PROT_SHARED, false, HX_PART_SHARED},
    {"[stack]", HX_PROT_R | HX_PROT_W, false, HX_PART_STACKS},
    {"[vdso]", HX_PROT_R | HX_PROT_X, false, HX_PART_OTHER},
    {"[vvar]", HX_PROT_R, false, HX_PART_OTHER},
    {"/dev/dri/card0", HX_PROT_R | HX_PROT_W | HX_PROT_SHARED, true, HX_PART_OTHER},
};

static void paint(struct layout *layout, uint64_t start, uint64_t end, enum hx_account_part part)
{
    memset(layout->part + (start - BASE), (int)part, end - start);
}

static void draw_mappings(struct unit_random *random, struct layout *layout)
{
    uint64_t at = BASE;
    for (size_t i = 0; i < MAPPINGS; i++) {
        size_t k = unit_below(random, sizeof kinds / sizeof *kinds);
        at += unit_below(random, 3) ? 0 : PAGE * unit_below(random, 4);
        uint64_t end = at + PAGE * (1 + unit_below(random, 12));
        assert_true(
            hx_vec_push(&layout->mappings, (struct hx_mapping){.start = at,
                                                               .end = end,
                                                               .prot = kinds[k].prot,
                                                               .device = kinds[k].device,
                                                               .path = strdup(kinds[k].path)}));
        at = end;
    }
    layout->end = at;
    layout->part = calloc(1, at - BASE);
    layout->resident = calloc(1, at - BASE);
    assert_true(layout->part && layout->resident);
}

/* Which kind of mapping the bytes belong to, before heap and stacks are painted over them. */
static void paint_mappings(struct layout *layout)
{
    for (size_t i = 0; i < layout->mappings.n; i++) {
        const struct hx_mapping *mapping = &layout->mappings.v[i];
        for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++)
            if (!strcmp(kinds[k].path, mapping->path) && kinds[k].prot == mapping->prot)
                paint(layout, mapping->start, mapping->end, kinds[k].part);
    }
}

/* Objects and free ranges in a segment; the last word of an object can belong to the free
 * range behind it as well, as in glibc. */
static void fill_segment(struct unit_random *random, struct layout *layout, uint64_t start,
                         uint64_t end)
{
    struct hx_snapshot *snapshot = layout->snapshot;
    struct hx_graph *graph = &snapshot->graph;
    paint(layout, start, end, HX_PART_OVERHEAD);
    for (uint64_t at = start; at < end;) {
        uint64_t next = at + 8 * (1 + unit_below(random, 20));
        if (next > end)
            next = end;
        uint64_t what = unit_below(random, 4);
        if (what < 2 && next - at > 8) {
            graph->addr[graph->n] = at + 8;
            graph->size[graph->n++] = next - at - 8;
            paint(layout, at + 8, next, HX_PART_LIVE);
        } else if (what == 2) {
            bool shares = at > start && layout->part[at - 1 - BASE] == HX_PART_LIVE;
            assert_true(hx_vec_push(&snapshot->free_ranges,
                                    (struct hx_range){at - (shares ? 8 : 0), next}));
            paint(layout, at, next, HX_PART_FREE);
        }
        at = next;
    }
}

static void draw_heap(struct unit_random *random, struct layout *layout)
{
    struct hx_graph *graph = &layout->snapshot->graph;
    size_t most = (layout->end - BASE) / 8;
    assert_null(hx_big_reserve(&graph->addr_mem, most * 8));
    assert_null(hx_big_reserve(&graph->size_mem, most * 8));
    graph->addr = graph->addr_mem.base;
    graph->size = graph->size_mem.base;
    for (uint64_t at = BASE; at < layout->end;) {
        uint64_t start = at + 8 * unit_below(random, 100);
        uint64_t end = start + 8 * (1 + unit_below(random, 100));
        if (end > layout->end)
            break;
        assert_true(hx_vec_push(&layout->snapshot->segments,
                                (struct hx_segment){.start = start, .end = end}));
        fill_segment(random, layout, start, end);
        at = end;
    }
}

static void draw_pages(struct unit_random *random, struct layout *layout)
{
    uint64_t chance = unit_below(random, 4);
    for (uint64_t at = BASE; at < layout->end; at += PAGE) {
        if (unit_below(random, 3) < chance) {
            uint8_t *bytes = calloc(1, PAGE);
            assert_true(hx_vec_push(&layout->spans, (struct hx_span){at, at + PAGE, bytes}));
            memset(layout->resident + (at - BASE), 1, PAGE);
        }
    }
    for (size_t i = 0; i < layout->mappings.n; i++) {
        struct hx_mapping *mapping = &layout->mappings.v[i];
        uint64_t pages = (mapping->end - mapping->start) / PAGE, seen = 0;
        for (uint64_t at = mapping->start; at < mapping->end; at += PAGE)
            seen += layout->resident[at - BASE];
        mapping->rss_bytes = PAGE * (unit_below(random, 2) ? seen : unit_below(random, pages + 1));
    }
}

/* The account as the contract words it, byte by byte. */
static void look_at_every_byte(const struct layout *layout, uint64_t account[HX_PARTS])
{
    for (size_t i = 0; i < layout->mappings.n; i++) {
        const struct hx_mapping *mapping = &layout->mappings.v[i];
        uint64_t weight[HX_PARTS] = {0}, total = 0, given = 0;
        bool order[HX_PARTS] = {false};
        for (int all = 0; all < 2 && !total; all++)
            for (uint64_t at = mapping->start; at < mapping->end; at++)
                if (all || layout->resident[at - BASE]) {
                    weight[layout->part[at - BASE]]++;
                    total++;
                }
        for (size_t k = 0; k < HX_PARTS; k++) {
            account[k] += mapping->rss_bytes * weight[k] / total;
            given += mapping->rss_bytes * weight[k] / total;
        }
        for (; given < mapping->rss_bytes; given++) {
            size_t best = HX_PARTS;
            for (size_t k = 0; k < HX_PARTS; k++)
                if (!order[k] &&
                    (best == HX_PARTS || mapping->rss_bytes * weight[k] % total >
                                             mapping->rss_bytes * weight[best] % total))
                    best = k;
            order[best] = true;
            account[best]++;
        }
    }
}

static void end(struct layout *layout)
{
    for (size_t i = 0; i < layout->spans.n; i++)
        free((void *)(uintptr_t)layout->spans.v[i].bytes);
    free(layout->part);
    free(layout->resident);
    hx_snapshot_destroy(layout->snapshot);
}

static void try_layout(struct unit_random *random, bool with_heap)
{
    struct layout layout = {0};
    assert_null(hx_snapshot_create(&layout.snapshot));
    draw_mappings(random, &layout);
    paint_mappings(&layout);
    if (with_heap)
        draw_heap(random, &layout);
    draw_pages(random, &layout);
    struct hx_snapshot *snapshot = layout.snapshot;
    snapshot->mapping = layout.mappings.v;
    snapshot->n_mappings = layout.mappings.n;
    snapshot->image.span = layout.spans.v;
    snapshot->image.n = layout.spans.n;

    uint64_t expected[HX_PARTS] = {0}, sum = 0, rss = 0;
    look_at_every_byte(&layout, expected);
    assert_null(hx_account(snapshot));
    assert_true(snapshot->has_account && snapshot->has_rss);
    for (size_t k = 0; k < HX_PARTS; k++) {
        assert_int_equal(snapshot->account[k], expected[k]);
        sum += snapshot->account[k];
    }
    for (size_t i = 0; i < snapshot->n_mappings; i++)
        rss += snapshot->mapping[i].rss_bytes;
    assert_int_equal(snapshot->rss_bytes, rss);
    assert_int_equal(sum, rss);
    end(&layout);
}

static void test_random_layouts(void **state)
{
    (void)state;
    struct unit_random random = unit_random_begin("layouts");
    for (size_t round = unit_rounds(3000); round; round--)
        try_layout(&random, round % 8 != 0);
}

/* A thread's stack in the middle of a mapping counts as a stack. */
static void test_thread_stack(void **state)
{
    (void)state;
    struct layout layout = {0};
    assert_null(hx_snapshot_create(&layout.snapshot));
    struct hx_snapshot *snapshot = layout.snapshot;
    const uint64_t base = 0x7f0000000000;
    const uint32_t prots[] = {0, HX_PROT_R | HX_PROT_W, HX_PROT_R | HX_PROT_W};
    for (uint64_t i = 0; i < 3; i++)
        assert_true(hx_vec_push(&layout.mappings,
                                (struct hx_mapping){.start = base + i * 0x10000,
                                                    .end = base + (i + 1) * 0x10000 - i * 0x1000,
                                                    .prot = prots[i],
                                                    .rss_bytes = i * 0x3000,
                                                    .path = strdup("")}));
    assert_true(hx_vec_push(
        &layout.threads,
        (struct hx_thread){.tid = 1, .ns_tid = 1, .has_regs = true, .sp = base + 0x18000}));
    snapshot->mapping = layout.mappings.v;
    snapshot->n_mappings = layout.mappings.n;
    snapshot->thread = layout.threads.v;
    snapshot->n_threads = layout.threads.n;
    assert_null(hx_account(snapshot));
    assert_int_equal(snapshot->account[HX_PART_STACKS], 0x3000);
    assert_int_equal(snapshot->account[HX_PART_ANONYMOUS], 0x6000);
    end(&layout);
}

/* Two million objects in one pass. */
static void test_many_objects(void **state)
{
    (void)state;
    struct layout layout = {0};
    assert_null(hx_snapshot_create(&layout.snapshot));
    struct hx_snapshot *snapshot = layout.snapshot;
    const hx_obj n = (hx_obj)unit_rounds(2000000);
    const uint64_t base = 0x10000000, bytes = ((uint64_t)n * 64 + 4095) / 4096 * 4096;
    struct hx_graph *graph = &snapshot->graph;
    assert_null(hx_big_reserve(&graph->addr_mem, (size_t)n * 8));
    assert_null(hx_big_reserve(&graph->size_mem, (size_t)n * 8));
    graph->addr = graph->addr_mem.base;
    graph->size = graph->size_mem.base;
    for (; graph->n < n; graph->n++) {
        graph->addr[graph->n] = base + (uint64_t)graph->n * 64 + 16;
        graph->size[graph->n] = 48;
    }
    for (uint64_t at = base; at < base + bytes; at += 8192)
        assert_true(hx_vec_push(&layout.spans, (struct hx_span){at, at + 4096, NULL}));
    assert_true(
        hx_vec_push(&snapshot->segments, (struct hx_segment){.start = base, .end = base + bytes}));
    assert_true(
        hx_vec_push(&layout.mappings, (struct hx_mapping){.start = base,
                                                          .end = base + bytes,
                                                          .prot = HX_PROT_R,
                                                          .rss_bytes = layout.spans.n * 4096,
                                                          .path = strdup("[heap]")}));
    snapshot->mapping = layout.mappings.v;
    snapshot->n_mappings = layout.mappings.n;
    snapshot->image.span = layout.spans.v;
    snapshot->image.n = layout.spans.n;
    clock_t start = clock();
    assert_null(hx_account(snapshot));
    print_message("%u objects: %.3f s\n", n, (double)(clock() - start) / CLOCKS_PER_SEC);
    assert_int_equal(snapshot->account[HX_PART_LIVE] + snapshot->account[HX_PART_OVERHEAD],
                     snapshot->rss_bytes);
    assert_true(snapshot->account[HX_PART_LIVE] <= snapshot->rss_bytes / 64 * 48);
    assert_true(snapshot->account[HX_PART_LIVE] + 8192 > snapshot->rss_bytes / 64 * 48);
    end(&layout);
}

/* --- resident pages --------------------------------------------------------------------- */

/* Random ranges of pages in order, some of them touching; marks what they cover. */
static hx_ranges random_ranges(struct unit_random *random, uint64_t pages, bool *covered)
{
    hx_ranges ranges = {0};
    for (uint64_t at = unit_below(random, 6); at < pages;) {
        uint64_t end = at + 1 + unit_below(random, 8);
        end = end < pages ? end : pages;
        assert_true(hx_vec_push(&ranges, (struct hx_range){BASE + at * 4096, BASE + end * 4096}));
        for (; at < end; at++)
            covered[at] = true;
        at += unit_below(random, 6);
    }
    return ranges;
}

static void test_resident(void **state)
{
    (void)state;
    struct unit_random random = unit_random_begin("resident pages");
    for (size_t round = unit_rounds(2000); round; round--) {
        enum { PAGES = 100 };
        bool present[PAGES] = {false}, swapped[PAGES] = {false}, heap[PAGES] = {false};
        struct hx_snapshot *snapshot;
        assert_null(hx_snapshot_create(&snapshot));
        hx_ranges some = random_ranges(&random, PAGES, present);
        hx_ranges out = random_ranges(&random, PAGES, swapped);
        for (uint64_t at = unit_below(&random, 9000); at < PAGES * 4096u;) {
            uint64_t end = at + 8 + 8 * unit_below(&random, 4000);
            end = end < PAGES * 4096u ? end : PAGES * 4096u;
            assert_true(hx_vec_push(&snapshot->segments,
                                    (struct hx_segment){.start = BASE + at, .end = BASE + end}));
            for (uint64_t page = at / 4096; page <= (end - 1) / 4096; page++)
                heap[page] = true;
            at = end + 8 * unit_below(&random, 2000);
        }
        assert_null(hx_resident(snapshot, &some, &out));
        assert_true(snapshot->has_resident);
        uint64_t at = 0;
        for (size_t i = 0; i <= snapshot->resident.n; i++) {
            const struct hx_range *range =
                i < snapshot->resident.n ? &snapshot->resident.v[i] : NULL;
            uint64_t start = range ? (range->start - BASE) / 4096 : PAGES;
            assert_true(i == 0 || !range || range->start > range[-1].end);
            for (; at < start; at++)
                assert_false(heap[at] && present[at] && !swapped[at]);
            for (; range && at < (range->end - BASE) / 4096; at++)
                assert_true(heap[at] && present[at] && !swapped[at]);
        }
        hx_vec_free(&some);
        hx_vec_free(&out);
        hx_snapshot_destroy(snapshot);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random_layouts),
        cmocka_unit_test(test_thread_stack),
        cmocka_unit_test(test_many_objects),
        cmocka_unit_test(test_resident),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
