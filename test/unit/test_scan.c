/* test_scan.c - words to edges: kinds, holes, roots, clusters, block map. */
#include "unit.h"

#include "base/parallel.h"
#include "image/image.h"
#include "traverse/blockmap.h"
#include "traverse/scan.h"

#define BASE HX_DRAW_HEAP_BASE

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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_kinds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
