/* test_shapes.c - which blocks look alike, and the labels that they get. */
#include "analysis_check.h"

#include "../image/image.h"
#include "traverse/hold/evidence.h"
#include "traverse/scan/scan.h"

#include <stdlib.h>

#define MODULE UINT64_C(0x7e0000000000)

static struct hx_drawing find(const struct hx_text *text, unsigned threads)
{
    struct hx_drawing drawing;
    const struct hx_scan_options scan = {.threads = threads};
    assert_false(text->failed);
    assert_null(hx_image_draw(text->s, &drawing));
    struct hx_snapshot *snapshot = drawing.snapshot;
    snapshot->mapping = calloc(1, sizeof *snapshot->mapping);
    assert_non_null(snapshot->mapping);
    *snapshot->mapping = (struct hx_mapping){.start = MODULE,
                                             .end = MODULE + 0x10000,
                                             .prot = HX_PROT_R,
                                             .inode = 1,
                                             .path = strdup("/lib/libdrawn.so")};
    snapshot->n_mappings = 1;
    assert_null(hx_scan(snapshot, &scan, NULL));
    assert_null(hx_evidence_find(snapshot, threads, NULL));
    return drawing;
}

static const char *label(const struct hx_drawing *drawing, hx_obj object)
{
    const struct hx_snapshot *snapshot = drawing->snapshot;
    assert_true(snapshot->graph.shape[object] < snapshot->shapes.n);
    return snapshot->shapes.v[snapshot->graph.shape[object]].label;
}

/* Labels are unique, each object has one, and one and three workers find the same. */
static void check(const struct hx_text *text, const struct hx_drawing *drawing)
{
    const struct hx_snapshot *snapshot = drawing->snapshot;
    for (size_t i = 0; i < snapshot->shapes.n; i++) {
        assert_true(strlen(snapshot->shapes.v[i].label) < 80);
        for (size_t k = 0; k < i; k++)
            assert_string_not_equal(snapshot->shapes.v[i].label, snapshot->shapes.v[k].label);
    }
    struct hx_drawing other = find(text, 3);
    for (hx_obj i = 0; i < snapshot->graph.n; i++)
        assert_string_equal(label(drawing, i), label(&other, i));
    hx_drawing_deinit(&other);
}

static void assert_label(struct hx_text *text, const char *object, const char *expected)
{
    struct hx_drawing drawing = find(text, 1);
    check(text, &drawing);
    assert_string_equal(label(&drawing, hx_drawing_object(&drawing, object)), expected);
    hx_drawing_deinit(&drawing);
}

/* A word of text. */
static void put_text(struct hx_text *text, const char *s)
{
    char bytes[8] = "";
    uint64_t word;
    memcpy(bytes, s, strlen(s));
    memcpy(&word, bytes, sizeof word);
    hx_text_putf(text, "0x%llx ", (unsigned long long)word);
}

/* A list of `n` nodes of 40 bytes, each with a text of its own. */
static void draw_list(struct hx_text *text, unsigned n)
{
    for (unsigned i = 0; i < n; i++) {
        hx_text_putf(text, "obj n%u 40: n%u t%u %u 0x3ff8000000000000 0\nobj t%u 24: ", i,
                     (i + 1) % n, i, i + 1, i);
        put_text(text, "hello to");
        put_text(text, "you");
        hx_text_puts(text, "\n");
    }
    hx_text_puts(text, "root g: n0\n");
}

static void structs(void **state)
{
    (void)state;
    struct hx_text text = {0};
    draw_list(&text, 100);
    assert_label(&text, "n0", "40 bytes: {-> self, -> text, int, double, 0}");
    assert_label(&text, "n99", "40 bytes: {-> self, -> text, int, double, 0}");
    assert_label(&text, "t7", "1..24 bytes of text");
    hx_text_free(&text);
}

/* Fewer than a few dozen have no fields. */
static void few(void **state)
{
    (void)state;
    struct hx_text text = {0};
    draw_list(&text, 20);
    assert_label(&text, "n3", "40 bytes");
    assert_label(&text, "t3", "1..24 bytes of text");
    hx_text_puts(&text, "obj one 1:\n");
    assert_label(&text, "one", "1 byte");
    hx_text_free(&text);
}

/* Blocks of one size are told apart by what they are. */
static void variants(void **state)
{
    (void)state;
    struct hx_text text = {0};
    for (unsigned i = 0; i < 80; i++) {
        hx_text_putf(&text, "obj v%u 40: 0x%llx v%u 1 2 3\n", i,
                     (unsigned long long)MODULE + 0x100 + i / 40 * 64, (i + 1) % 80);
        hx_text_putf(&text, "obj p%u 40: p%u p%u v%u 1 0\n", i, (i + 1) % 80, (i + 79) % 80, i);
        hx_text_putf(&text, "obj s%u 40: ", i);
        put_text(&text, "a longer");
        put_text(&text, " text of");
        put_text(&text, " twenty");
        hx_text_puts(&text, "\n");
    }
    hx_text_puts(&text, "root g: v0 p0\n");
    assert_label(&text, "v0", "40 bytes: {vtable libdrawn.so+0x100, -> self, 3 x int}");
    assert_label(&text, "v50", "40 bytes: {vtable libdrawn.so+0x140, -> self, 3 x int}");
    assert_label(&text, "p5", "40 bytes: {2 x -> self, -> 40 bytes, int, 0}");
    assert_label(&text, "s5", "25..40 bytes of text");
    hx_text_free(&text);
}

/* A null word says nothing of the variant. */
static void nulls(void **state)
{
    (void)state;
    struct hx_text text = {0};
    for (unsigned i = 0; i < 200; i++) {
        hx_text_putf(&text, "obj n%u 56: ", i);
        for (unsigned word = 0; word < 4; word++)
            if ((i >> word & 1) && i)
                hx_text_putf(&text, "n%u ", i - 1);
            else
                hx_text_puts(&text, "0 ");
        hx_text_puts(&text, "9 9 9\n");
    }
    hx_text_puts(&text, "root g: n199\n");
    assert_label(&text, "n0", "56 bytes: {4 x -> self, 3 x int}");
    assert_label(&text, "n15", "56 bytes: {4 x -> self, 3 x int}");
    hx_text_free(&text);
}

/* Large blocks are looked at one by one. */
static void arrays(void **state)
{
    (void)state;
    struct hx_text text = {0};
    draw_list(&text, 100);
    hx_text_puts(&text, "obj pointers 12288:");
    for (unsigned i = 0; i < 1536; i++)
        hx_text_putf(&text, " n%u", i % 100);
    hx_text_puts(&text, "\nobj pairs 16384:");
    for (unsigned i = 0; i < 1024; i++)
        hx_text_putf(&text, " t%u %u", i % 100, i + 1);
    hx_text_puts(&text, "\nobj numbers 2048:");
    for (unsigned i = 0; i < 256; i++)
        hx_text_putf(&text, " %u", i + 1);
    hx_text_puts(&text, "\nobj nothing 20000: 0\nobj letters 1032: ");
    for (unsigned i = 0; i < 128; i++)
        put_text(&text, "lettersl");
    hx_text_puts(&text, "0\nroot h: pointers pairs numbers nothing letters\n");
    assert_label(&text, "pointers", "12 KiB: array of -> 40 bytes");
    assert_label(&text, "pairs", "16 KiB: array of {-> text, int}");
    assert_label(&text, "numbers", "2048 bytes: array of int");
    assert_label(&text, "nothing", "20 KiB of zeros");
    assert_label(&text, "letters", "1032 bytes of text");
    hx_text_free(&text);
}

/* What the store says: the view sums up to the heap, and the table has the same labels. */
static void stored(void **state)
{
    (void)state;
    struct hx_text text = {0};
    struct hx_analysis analysis = {.scheme = hx_scheme_find("root")};
    hx_store *store;
    int64_t id;
    draw_list(&text, 100);
    hx_text_puts(&text, "obj large 20480: n0 1\nobj other 32: 0\n");
    struct hx_drawing drawing = find(&text, 1);
    struct hx_snapshot *snapshot = drawing.snapshot;
    assert_done(hx_reach(snapshot, HX_INTERIOR_KNOWN, 1, NULL));
    assert_done(hx_store_temporary(&store));
    assert_done(hx_store_add(store, snapshot, &analysis, NULL, &id));
    assert_same_rows(store, "SELECT sum(bytes), sum(objects) FROM shapes",
                     "SELECT sum(bytes), count(*) FROM objects");
    assert_same_rows(store, "SELECT shape, bytes, objects FROM shapes",
                     "SELECT shape, sum(bytes), count(*) FROM objects GROUP BY 1");
    assert_nothing(store, "SELECT 1 FROM objects WHERE shape IS NULL");
    assert_done(hx_store_close(store));
    hx_drawing_deinit(&drawing);
    hx_text_free(&text);
}

/* Objects are called by their types, else by shapes and who allocated them. */
static void names(void **state)
{
    (void)state;
    static const char *const labels[] = {"#3 app::put(int) < main", "std::f<(a)>::operator()() < g",
                                         "(anonymous namespace)::make(int) < main",
                                         "std::__new_allocator<int>::allocate(unsigned long) < "
                                         "std::vector<int>::_M_insert() < app::put(int) < main",
                                         "<unknown>"};
    static const char *const expected[] = {
        "40 bytes: {-> self, -> text, int, double, 0} from app::put",
        "40 bytes: {-> self, -> text, int, double, 0} from std::f<(a)>::operator()",
        "40 bytes: {-> self, -> text, int, double, 0} from (anonymous namespace)::make",
        "40 bytes: {-> self, -> text, int, double, 0} from app::put",
        "40 bytes: {-> self, -> text, int, double, 0}",
    };
    struct hx_text text = {0}, name = {0};
    draw_list(&text, 100);
    struct hx_drawing drawing = find(&text, 1);
    struct hx_snapshot *snapshot = drawing.snapshot;
    struct hx_graph *graph = &snapshot->graph;
    const hx_obj node = hx_drawing_object(&drawing, "n5");
    assert_done(hx_big_array(graph->site, graph->n));
    for (uint32_t i = 0; i < 5; i++) {
        struct hx_site site = {.label = strdup(labels[i]), .stack = i < 4 ? i : HX_SITE_UNKNOWN};
        assert_true(hx_vec_push(&snapshot->sites, site));
        graph->site[node] = i;
        hx_text_clear(&name);
        hx_snapshot_put_name(snapshot, node, &name);
        assert_string_equal(hx_text_str(&name), expected[i]);
    }
    assert_done(hx_big_array(graph->type, graph->n));
    assert_true(hx_vec_push(&snapshot->types, ((struct hx_type){.name = strdup("Node")})));
    hx_text_clear(&name);
    hx_snapshot_put_name(snapshot, node, &name);
    assert_string_equal(hx_text_str(&name), "Node");
    hx_text_free(&name);
    hx_drawing_deinit(&drawing);
    hx_text_free(&text);
}

/* Any words give labels that keep the rules. */
static void anything(void **state)
{
    (void)state;
    struct unit_random random = unit_random_begin("shapes");
    for (size_t round = 0; round < unit_rounds(30); round++) {
        struct hx_text text = {0};
        const unsigned n = 1 + unit_below(&random, 300);
        for (unsigned i = 0; i < n; i++) {
            const unsigned words = 1 + (unsigned)unit_below(&random, 6);
            hx_text_putf(&text, "obj o%u %u:", i, words * 8);
            for (unsigned k = 0; k < words; k++)
                if (unit_below(&random, 3) == 0)
                    hx_text_putf(&text, " o%u", (unsigned)unit_below(&random, n));
                else
                    hx_text_putf(&text, " 0x%llx",
                                 (unsigned long long)unit_random(&random) >>
                                     unit_below(&random, 64));
            hx_text_puts(&text, "\n");
        }
        hx_text_puts(&text, "root g: o0\n");
        struct hx_drawing drawing = find(&text, 1);
        check(&text, &drawing);
        hx_drawing_deinit(&drawing);
        hx_text_free(&text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(structs), cmocka_unit_test(few),    cmocka_unit_test(variants),
        cmocka_unit_test(nulls),   cmocka_unit_test(arrays), cmocka_unit_test(anything),
        cmocka_unit_test(stored),  cmocka_unit_test(names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
