/* test_scan.c - words to edges: kinds, holes, roots, clusters, block map. */
#include "unit.h"

#include "../image/image.h"
#include "traverse/scan/blockmap.h"
#include "traverse/scan/scan.h"

/* Every drawing is scanned by one and by three workers; both must give the same. */
static unsigned workers;

static struct hx_drawing draw(const char *text)
{
    struct hx_drawing drawing;
    hx_error *err = hx_image_draw(text, &drawing);
    if (err) {
        char line[200];
        hx_error_line(err, line, sizeof line);
        fail_msg("%s", line);
    }
    return drawing;
}

static bool drawn_vtable(void *context, uint64_t addr)
{
    (void)context;
    return addr == 0x400100 || addr == 0x400200;
}

static struct hx_drawing scan(const char *text)
{
    struct hx_drawing drawing = draw(text);
    struct hx_scan_options options = {.threads = workers, .is_vtable = drawn_vtable};
    assert_null(hx_scan(drawing.snapshot, &options, NULL));
    assert_null(hx_graph_check(&drawing.snapshot->graph));
    return drawing;
}

/* "a+8->b start, a+16->b interior" for the edges between objects, in order. */
static void assert_edges(const struct hx_drawing *drawing, const char *expected)
{
    const struct hx_graph *graph = &drawing->snapshot->graph;
    struct hx_text text = {0};
    for (hx_obj i = 0; i < graph->n; i++) {
        for (hx_eidx e = graph->fwd[i]; e < graph->fwd[i + 1]; e++) {
            hx_edge edge = graph->edge[e];
            hx_text_putf(&text, "%s%s+%d->%s %s", text.n ? ", " : "", drawing->drawn[i].name,
                         (int)hx_edge_offset(edge), drawing->drawn[hx_edge_target(edge)].name,
                         hx_edge_kind_name(hx_edge_kind_of(edge)));
        }
    }
    assert_string_equal(hx_text_str(&text), expected);
    hx_text_free(&text);
}

/* "g+8->a start" for the edges from roots. */
static void assert_root_edges(const struct hx_drawing *drawing, const char *expected)
{
    const struct hx_snapshot *snapshot = drawing->snapshot;
    struct hx_text text = {0};
    for (size_t i = 0; i < snapshot->root_edges.n; i++) {
        const struct hx_root_edge *edge = &snapshot->root_edges.v[i];
        const struct hx_root *root = &snapshot->roots.v[edge->root];
        hx_text_putf(&text, "%s%s+%d->%s %s", text.n ? ", " : "", root->name,
                     (int)(edge->address - root->address), drawing->drawn[edge->target].name,
                     hx_edge_kind_name(edge->kind));
    }
    assert_string_equal(hx_text_str(&text), expected);
    hx_text_free(&text);
}

static void check_edges(const char *text, const char *expected)
{
    for (workers = 1; workers <= 3; workers += 2) {
        struct hx_drawing drawing = scan(text);
        assert_edges(&drawing, expected);
        hx_drawing_deinit(&drawing);
    }
}

static void check_root_edges(const char *text, const char *expected)
{
    for (workers = 1; workers <= 3; workers += 2) {
        struct hx_drawing drawing = scan(text);
        assert_root_edges(&drawing, expected);
        hx_drawing_deinit(&drawing);
    }
}

static void test_kinds(void **state)
{
    (void)state;
    check_edges("obj a 40: b b+1 b+23 b+24 a; obj b 24; obj c 24: 8->a+39",
                "a+0->b start, a+8->b interior, a+16->b interior, a+32->a start, "
                "c+8->a interior");
    check_edges("obj a 24: 1 2 3", "");
    check_edges("", "");
    check_root_edges("root g: 1 2", "");
    check_root_edges("obj a 24; root g: 0 a a+3; root s stack: 8->a; root r register: a+23",
                     "r+0->a interior, g+8->a start, g+16->a interior, s+8->a start");
}

/* Which shape of object a offset in it makes a pointer known: "a + offset" for a usable
 * size and the words at the object's beginning. */
static enum hx_edge_kind kind_of(uint64_t usable, uint64_t offset, const char *words)
{
    struct hx_text text = {0};
    hx_text_putf(&text, "obj a %llu: %s; root g: a+%llu", (unsigned long long)usable, words,
                 (unsigned long long)offset);
    struct hx_drawing drawing = scan(hx_text_str(&text));
    assert_int_equal(drawing.snapshot->root_edges.n, 1);
    enum hx_edge_kind kind = drawing.snapshot->root_edges.v[0].kind;
    hx_drawing_deinit(&drawing);
    hx_text_free(&text);
    return kind;
}

#define assert_known(usable, offset, words)                                                        \
    assert_int_equal(kind_of(usable, offset, words), HX_EDGE_KNOWN)
#define assert_plain(usable, offset, words)                                                        \
    assert_int_equal(kind_of(usable, offset, words), HX_EDGE_INTERIOR)

/* Requests from usable - 31 to usable fit, of new[] arrays from usable - 15 on. */
static void test_known_strings(void **state)
{
    (void)state;
    workers = 1;
    /* 25 bytes besides the capacity: 56 usable bytes hold capacities 0 to 31, 72 16 to 47. */
    assert_known(56, 24, "5 31");
    assert_plain(56, 24, "5 32");
    assert_known(56, 24, "5 16");
    assert_known(56, 24, "5 15");
    assert_known(72, 24, "5 47");
    assert_known(72, 24, "5 16");
    assert_plain(72, 24, "5 15");
    assert_known(56, 24, "31 31");
    assert_plain(56, 24, "32 31");
    assert_plain(56, 24, "5 0xffffffffffffffff");
    assert_plain(56, 24, "0xffffffffffffffff 20");
    assert_known(56, 24, "0 16");
    assert_plain(56, 32, "5 20");
    assert_plain(56, 25, "5 20");
    assert_plain(56, 16, "5 20");
    assert_known(40, 24, "0 0"); /* request 25, in (24, 40] */
    assert_plain(41 + 16, 24, "0 0 0");
}

static void test_known_counts(void **state)
{
    (void)state;
    workers = 1;
    /* A length prefix: request - 8. Requests 25 to 56. */
    assert_known(56, 8, "48");
    assert_plain(56, 8, "49");
    assert_known(56, 8, "33");
    assert_plain(56, 8, "0");
    assert_known(56, 8, "17");
    /* new[]: 50 divides nothing in 81..96, 64 neither, 32 only 96, 43 only 86. */
    assert_known(104, 8, "96");
    assert_known(104, 8, "65");
    assert_plain(104, 8, "64");
    assert_known(104, 8, "43");
    assert_known(104, 8, "32");
    assert_plain(104, 8, "50");
    assert_known(56, 8, "1");
    assert_plain(56, 8, "0xffffffffffffffff");
    assert_plain(56, 16, "48");
    assert_plain(56, 9, "48");
    /* Requests 9 to 24: nothing that is left over may be empty. */
    assert_known(24, 8, "16");
    assert_plain(24, 8, "17");
    assert_known(24, 8, "1");
}

static void test_known_classes(void **state)
{
    (void)state;
    workers = 1;
    assert_known(56, 16, "0x400100 0 0x400200");
    assert_known(56, 16, "0x400100 0 0x400100");
    assert_plain(56, 16, "0x400100 0 0x400300");
    assert_plain(56, 16, "0x400300 0 0x400100");
    assert_plain(56, 20, "0x400100 0 0x400200 0x400200");
    assert_plain(56, 24, "0x400100 0 0x400200");
    assert_known(24, 16, "0x400100 0 0x400200");
    /* The word pointed to must lie inside. */
    assert_plain(20, 16, "0x400100 0");
    /* Without a judge of vtables there are no base classes. */
    struct hx_drawing drawing = draw("obj a 56: 0x400100 0 0x400200; root g: a+16");
    assert_null(hx_scan(drawing.snapshot, NULL, NULL));
    assert_int_equal(drawing.snapshot->root_edges.v[0].kind, HX_EDGE_INTERIOR);
    hx_drawing_deinit(&drawing);
}

/* The leak checker's rules for one request, read off word by word. `split`: the block has no rest
 * that was too small for another one. */
static bool known_for(uint64_t request, uint64_t offset, const uint64_t *word, bool split)
{
    if (offset >= request) /* points behind the block */
        return false;
    if (offset == 24 && 24 + word[1] + 1 == request && word[0] <= word[1])
        return true;
    if (offset == 8 && word[0] > 0 && request - 8 == word[0])
        return true;
    if (offset == 8 && word[0] > 0 && (request - 8) % word[0] == 0 && split)
        return true;
    return split && offset % 8 == 0 && offset + 8 <= request &&
           drawn_vtable(NULL, word[offset / 8]) && drawn_vtable(NULL, word[0]);
}

static void test_known_random(void **state)
{
    (void)state;
    struct unit_random random = unit_random_begin("known shapes");
    workers = 1;
    for (size_t round = unit_rounds(4000); round; round--) {
        static const uint64_t offsets[] = {8, 24, 16, 32, 1, 12};
        uint64_t usable = 24 + 16 * unit_below(&random, 6), word[16] = {0};
        uint64_t offset = offsets[unit_below(&random, 6)];
        if (offset >= usable)
            continue;
        bool classes = unit_below(&random, 3) == 0;
        struct hx_text text = {0};
        for (uint64_t i = 0; i < usable / 8; i++) {
            word[i] = classes ? 0x400000 + 0x100 * unit_below(&random, 3)
                              : unit_below(&random, usable + 3);
            hx_text_putf(&text, " %llu", (unsigned long long)word[i]);
        }
        bool known = false;
        for (uint64_t request = usable < 32 ? 1 : usable - 31; request <= usable; request++)
            known |= known_for(request, offset, word, request + 15 >= usable);
        if ((kind_of(usable, offset, hx_text_str(&text)) == HX_EDGE_KNOWN) != known)
            fail_msg("usable %d, offset %d,%s: must %sbe known", (int)usable, (int)offset,
                     hx_text_str(&text), known ? "" : "not ");
        hx_text_free(&text);
    }
}

static void test_known_holes(void **state)
{
    (void)state;
    /* The first words are not in the image, though zeros would fit the shape. */
    check_root_edges("obj a 40 @0x10000ff0; hole 0x10000000 4096; root g: a+24", "g+0->a interior");
    check_root_edges("obj a 56 @0x10000ff8: 48; root g: a+8", "g+0->a known");
    check_root_edges("obj a 56 @0x10000ff8: 48; hole 0x10000ff8 8; root g: a+8", "g+0->a interior");
}

static void test_holes(void **state)
{
    (void)state;
    /* An object over four pages of which the second is missing. */
    check_edges("obj b 24 @0x10000000; hole 0x10002000 4096\n"
                "obj a 12296 @0x10001000: b 0xff8->b 0x1000->b 0x1ff8->b 0x2000->b 0x3000->b",
                "a+0->b start, a+4088->b start, a+8192->b start, a+12288->b start");
    /* Nothing of it is there. */
    check_edges("obj b 24 @0x10000000; obj a 24 @0x10002000: b; hole 0x10002000 4096", "");
    check_root_edges("obj b 24; hole 0x700000001000 4096; root s stack @0x700000000ff0: b b b b",
                     "s+0->b start, s+8->b start");
    /* Pointers to what the image does not hold are edges all the same. */
    check_edges("obj a 24 @0x10000000: b; obj b 24 @0x10002000: b; hole 0x10002000 4096",
                "a+0->b start");
}

static void test_alignment(void **state)
{
    (void)state;
    /* Blocks that follow each other every 8 bytes. */
    check_edges("obj a 8 @0x10000000: c; obj b 8 @0x10000008: a+4; obj c 8 @0x10000010: b",
                "a+0->c start, b+0->a interior, c+0->b start");
    /* An odd size ends with bytes that are no word; so does a root. */
    check_edges("obj a 12 @0x10000000: a; obj b 24: a+11 a+12", "a+0->a start, b+0->a interior");
    check_root_edges("obj a 24; root g @0x700000000004 /20: 4->a", "g+4->a start");
    check_root_edges("obj a 24; root g /12: a; root h @0x700000002001 /8: 7", "g+0->a start");
}

static void test_far_apart(void **state)
{
    (void)state;
    /* A heap below, one in the middle, one at the end of the address space; a pointer into
     * the middle of an object that covers whole areas and ranges of the map. */
    check_edges("obj a 24 @0x1000: d c+0x500000 0x3fffffffffff\n"
                "obj b 24 @0x3ffffffff000: a+23 e+1\n"
                "obj c 0x900000 @0x400000000000: b\n"
                "obj d 24 @0x7ffffffff000: 0x400000900000 0x4000008fffff 0x3ffffffff018\n"
                "obj e 24 @0x7ffffffff018: a",
                "a+0->d start, a+8->c interior, b+0->a interior, b+8->e interior, c+0->b start, "
                "d+8->c interior, e+0->a start");
}

/* A block map of objects in all kinds of places against binary search. */
static void test_blockmap(void **state)
{
    (void)state;
    struct unit_random random = unit_random_begin("block map");
    for (size_t round = unit_rounds(300); round; round--) {
        enum { N = 200 };
        uint64_t addr[N], size[N], at = unit_below(&random, 4) << 22;
        unsigned granule = unit_below(&random, 2) ? 16 : 8;
        for (hx_obj i = 0; i < N; i++) {
            static const uint64_t gaps[] = {1, 1, 1, 50, 5000, 500000, UINT64_C(100000000000)};
            at += granule * unit_below(&random, gaps[unit_below(&random, 7)] + 1);
            addr[i] = at;
            size[i] = unit_below(&random, 3)
                          ? granule * (1 + unit_below(&random, 20))
                          : 1 + unit_below(&random, gaps[unit_below(&random, 7)]);
            at = (at + size[i] + granule - 1) / granule * granule;
        }
        struct hx_snapshot *snapshot;
        struct hx_blockmap map;
        assert_null(hx_image_plain(addr, size, N, &snapshot));
        assert_null(hx_blockmap_init(&map, &snapshot->graph));
        for (hx_obj i = 0; i < N; i++) {
            const uint64_t tries[] = {addr[i] - 1,
                                      addr[i],
                                      addr[i] + 1,
                                      addr[i] + size[i] - 1,
                                      addr[i] + size[i],
                                      addr[i] + size[i] / 2,
                                      unit_below(&random, at + 1000),
                                      unit_random(&random)};
            for (size_t k = 0; k < sizeof tries / sizeof *tries; k++)
                assert_int_equal(hx_blockmap_find(&map, &snapshot->graph, tries[k]),
                                 hx_graph_find(&snapshot->graph, tries[k]));
        }
        hx_blockmap_deinit(&map);
        hx_snapshot_destroy(snapshot);
    }
}

static void refuse(const uint64_t *addr, const uint64_t *size, hx_obj n)
{
    struct hx_snapshot *snapshot;
    assert_null(hx_image_plain(addr, size, n, &snapshot));
    hx_error *err = hx_scan(snapshot, NULL, NULL);
    assert_non_null(err);
    assert_int_equal(err->kind, HX_E_CORRUPT);
    assert_null(snapshot->graph.fwd);
    hx_error_free(err);
    hx_snapshot_destroy(snapshot);
}

static void test_refused(void **state)
{
    (void)state;
    refuse((uint64_t[]){4096, 4112}, (uint64_t[]){24, 24}, 2);
    refuse((uint64_t[]){4096, 4096}, (uint64_t[]){0, 24}, 2);
    refuse((uint64_t[]){4112, 4096}, (uint64_t[]){8, 8}, 2);
    refuse((uint64_t[]){4100}, (uint64_t[]){24}, 1);
    refuse((uint64_t[]){UINT64_C(1) << 48}, (uint64_t[]){8}, 1);
    refuse((uint64_t[]){4096}, (uint64_t[]){UINT64_MAX}, 1);
}

static void assert_roots(const char *text, const char *expected)
{
    for (workers = 1; workers <= 3; workers += 2) {
        struct hx_drawing drawing = scan(text);
        struct hx_text found = {0};
        for (size_t i = 0; i < drawing.snapshot->roots.n; i++) {
            const struct hx_root *root = &drawing.snapshot->roots.v[i];
            assert_false(root->cluster);
            hx_text_putf(&found, "%s%s/%d=%d", i ? ", " : "", root->name, (int)root->size,
                         (int)root->direct_objects);
        }
        assert_string_equal(hx_text_str(&found), expected);
        hx_text_free(&found);
        hx_drawing_deinit(&drawing);
    }
}

static void test_roots(void **state)
{
    (void)state;
    /* Roots without edges go, stacks stay; distinct targets are counted. */
    assert_roots(
        "obj a 24; obj b 24; root g: a b a+3 a; root h: 1 2; root s stack: 0; root t tls: 0",
        "g/32=2, s/8=0");
    /* Registers come first. Roots out of order are put in order. */
    assert_roots("obj a 24; root h @0x700000002000: a; root g @0x700000001000: a; root rax "
                 "register: a; root rbx register: 5",
                 "rax/8=1, g/8=1, h/8=1");
    check_root_edges("obj a 24; obj b 24; root h @0x700000002000: a; root g @0x700000001000: b",
                     "g+0->b start, h+0->a start");
}

static void test_clusters(void **state)
{
    (void)state;
    /* 127 bytes between two words cannot be; 120 join, 128 part. */
    assert_roots("obj a 24; obj b 24; cluster lib.so @0x600000001000: 8->a 16->b 144->a 280->b",
                 "lib.so+0x1008/144=2, lib.so+0x1118/8=1");
    assert_roots("obj a 24; cluster lib.so @0x600000001000 /4096: 0", "");
    assert_roots("obj a 24; root g @0x600000000000: a; cluster lib.so @0x600000001000 /8192: "
                 "0->a 0x1ff8->a; root h @0x600000003000: a",
                 "g/8=1, lib.so+0x1000/8=1, lib.so+0x2ff8/8=1, h/8=1");
}

/* More groups than one root is split into: wider gaps join them. */
static void test_many_groups(void **state)
{
    (void)state;
    struct hx_text text = {0};
    hx_text_puts(&text, "obj a 24; cluster lib.so @0x600000001000:");
    for (unsigned i = 0; i < 65537; i++)
        hx_text_putf(&text, " %u->a", 136 * i);
    struct hx_drawing drawing = draw(hx_text_str(&text));
    assert_null(hx_scan(drawing.snapshot, NULL, NULL));
    assert_int_equal(drawing.snapshot->roots.n, 1);
    assert_int_equal(drawing.snapshot->roots.v[0].size, 136 * 65536 + 8);
    assert_int_equal(drawing.snapshot->root_edges.n, 65537);
    hx_drawing_deinit(&drawing);
    hx_text_free(&text);
}

/* Large enough for several pieces, with an object across pieces and roots in between. */
static void test_pieces(void **state)
{
    (void)state;
    struct unit_random random = unit_random_begin("pieces");
    struct hx_text text = {0};
    for (int i = 0; i < 12; i++) {
        unsigned mega = i == 5 ? 7 : 1;
        hx_text_putf(&text, "obj o%d %u:", i, mega << 20);
        for (unsigned offset = 0; offset < mega << 20; offset += 8 * (1 + unit_below(&random, 900)))
            hx_text_putf(&text, " %u->o%d+%u", offset, (int)unit_below(&random, 12),
                         unit_below(&random, 2) ? 0 : (unsigned)unit_below(&random, 1 << 20));
        hx_text_putf(&text, "\nroot r%d: o%d o%d\n", i, (int)unit_below(&random, 12),
                     (int)unit_below(&random, 12));
    }
    struct hx_drawing drawing[3];
    for (int i = 0; i < 3; i++) {
        workers = (unsigned)i + 1;
        drawing[i] = scan(hx_text_str(&text));
    }
    const struct hx_snapshot *one = drawing[0].snapshot;
    /* Every word once more, one by one. */
    hx_eidx e = 0;
    for (hx_obj i = 0; i < one->graph.n; i++) {
        for (uint64_t offset = 0; offset + 8 <= one->graph.size[i]; offset += 8) {
            uint64_t word;
            assert_true(hx_image_u64(&one->image, one->graph.addr[i] + offset, &word));
            hx_obj target = hx_graph_find(&one->graph, word);
            if (target == HX_NO_OBJ)
                continue;
            assert_int_equal(hx_edge_target(one->graph.edge[e]), target);
            assert_int_equal(hx_edge_offset(one->graph.edge[e]), offset);
            assert_int_equal(hx_edge_kind_of(one->graph.edge[e]) == HX_EDGE_START,
                             word == one->graph.addr[target]);
            e++;
        }
        assert_int_equal(one->graph.fwd[i + 1], e);
    }
    assert_int_equal(e, one->graph.n_edges);
    assert_int_equal(one->root_edges.n, 24);
    for (int i = 1; i < 3; i++) {
        const struct hx_snapshot *other = drawing[i].snapshot;
        assert_int_equal(other->graph.n_edges, one->graph.n_edges);
        assert_memory_equal(other->graph.edge, one->graph.edge, e * sizeof(hx_edge));
        assert_memory_equal(other->graph.fwd, one->graph.fwd, (one->graph.n + 1) * sizeof(hx_eidx));
        assert_int_equal(other->root_edges.n, one->root_edges.n);
        for (size_t k = 0; k < one->root_edges.n; k++) {
            assert_int_equal(other->root_edges.v[k].target, one->root_edges.v[k].target);
            assert_int_equal(other->root_edges.v[k].address, one->root_edges.v[k].address);
        }
    }
    for (int i = 0; i < 3; i++)
        hx_drawing_deinit(&drawing[i]);
    hx_text_free(&text);
}

static void test_again(void **state)
{
    (void)state;
    workers = 2;
    struct hx_drawing drawing = scan("obj a 24: a b; obj b 24; root g: a; root s stack: b");
    assert_null(hx_scan(drawing.snapshot, NULL, NULL)); /* a second scan replaces the first */
    assert_edges(&drawing, "a+0->a start, a+8->b start");
    assert_root_edges(&drawing, "g+0->a start, s+0->b start");
    hx_drawing_deinit(&drawing);
}

static void count_reports(void *context, const char *stage, uint64_t done, uint64_t total)
{
    assert_string_equal(stage, "scan");
    assert_true(done <= total);
    atomic_fetch_add((atomic_uint *)context, 1);
}

static void test_cancel(void **state)
{
    (void)state;
    struct hx_drawing drawing = draw("obj a 0x1000000: a; root g: a");
    atomic_bool cancel = true;
    atomic_uint reports = 0;
    struct hx_progress progress = {.cancel = &cancel, .report = count_reports, .context = &reports};
    hx_error *err = hx_scan(drawing.snapshot, NULL, &progress);
    assert_non_null(err);
    assert_int_equal(err->kind, HX_E_CANCEL);
    hx_error_free(err);
    assert_null(drawing.snapshot->graph.fwd);
    atomic_store(&cancel, false);
    assert_null(hx_scan(drawing.snapshot, NULL, &progress));
    assert_true(atomic_load(&reports) > 4);
    assert_edges(&drawing, "a+0->a start");
    hx_drawing_deinit(&drawing);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_kinds),        cmocka_unit_test(test_known_strings),
        cmocka_unit_test(test_known_counts), cmocka_unit_test(test_known_classes),
        cmocka_unit_test(test_known_random), cmocka_unit_test(test_known_holes),
        cmocka_unit_test(test_holes),        cmocka_unit_test(test_alignment),
        cmocka_unit_test(test_far_apart),    cmocka_unit_test(test_blockmap),
        cmocka_unit_test(test_refused),      cmocka_unit_test(test_roots),
        cmocka_unit_test(test_clusters),     cmocka_unit_test(test_many_groups),
        cmocka_unit_test(test_pieces),       cmocka_unit_test(test_again),
        cmocka_unit_test(test_cancel),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
