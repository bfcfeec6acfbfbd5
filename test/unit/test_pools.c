/* test_pools.c - who holds blocks into which others point at many places. */
#include "unit.h"

#include "../image/image.h"
#include "traverse/hold/evidence.h"
#include "traverse/hold/holders.h"
#include "traverse/hold/rounds.h"
#include "traverse/scan/scan.h"

#include <stdlib.h>

struct held {
    struct hx_drawing drawing;
    struct hx_scheme_rule rule;
    struct hx_holders holders;
};

static void find(const char *text, unsigned threads, struct held *ret)
{
    const struct hx_scan_options scan = {.threads = threads};
    const struct hx_hold_options hold = {.holders = true};
    *ret = (struct held){.holders.n = 0};
    assert_null(hx_image_draw(text, &ret->drawing));
    struct hx_snapshot *snapshot = ret->drawing.snapshot;
    assert_null(hx_scan(snapshot, &scan, NULL));
    assert_null(hx_evidence_find(snapshot, threads, NULL));
    assert_null(hx_scheme_apply(&hx_scheme_root, snapshot, NULL, &ret->rule));
    assert_null(hx_holders_find(snapshot, &ret->rule, &hold, threads, NULL, &ret->holders));
}

static void deinit(struct held *held)
{
    hx_holders_deinit(&held->holders);
    hx_scheme_rule_deinit(&held->rule);
    hx_drawing_deinit(&held->drawing);
}

/* The holder of an object: that of root `name`'s object `own`, which nobody else has. */
static bool is_held_as(const struct held *held, const char *name, const char *own)
{
    const uint32_t *of = held->holders.of;
    return of[hx_drawing_object(&held->drawing, name)] ==
           of[hx_drawing_object(&held->drawing, own)];
}

enum { SLABS = 6, PIECES = 10 };

/* `far` leads to most pieces of slabs by a table, `near` is nearer to one of each, of `rooted`
 * slabs by words of its own, and leads to as many as `shared` says by a table. Slabs lead to each
 * other and to leaves. */
static void draw(struct hx_text *text, unsigned shared, unsigned rooted)
{
    hx_text_puts(text, "obj table 1024:");
    for (unsigned i = 0; i < SLABS * PIECES; i++)
        hx_text_putf(text, " s%u+%u", i % SLABS, 8 + 64 * (i / SLABS));
    hx_text_puts(text, "\nobj other 1024: 1 2 3");
    for (unsigned i = 0; i < shared; i++)
        hx_text_putf(text, " s%u+%u", i % SLABS, 8 + 64 * (i / SLABS));
    hx_text_puts(text, "\nobj far1 32: table\nobj near1 72: other");
    for (unsigned i = rooted; i < SLABS; i++)
        hx_text_putf(text, " s%u+72", i);
    hx_text_puts(text, "\n");
    for (unsigned i = 0; i < SLABS; i++) {
        hx_text_putf(text, "obj s%u 680: 7 16->leaf%u 80->s%u+72", i, i, (i + 1) % SLABS);
        for (unsigned k = 0; k < PIECES; k++)
            hx_text_putf(text, " %u->deep%u+%u", 200 + 8 * k, i, 8 + 64 * k);
        hx_text_putf(text, "\nobj deep%u 680: 9\n", i);
    }
    hx_text_puts(text, "obj near2 56:");
    for (unsigned i = 0; i < SLABS; i++)
        hx_text_putf(text, " deep%u+72", i);
    hx_text_puts(text, "\n");
    for (unsigned i = 0; i < SLABS; i++)
        hx_text_putf(text, "obj leaf%u 40: 5 6\n", i);
    hx_text_puts(text, "root far: far1\nroot near: near1 near2");
    for (unsigned i = 0; i < rooted; i++)
        hx_text_putf(text, " s%u+72", i);
    hx_text_puts(text, "\n");
}

static void go_to_whom_they_serve(void **state)
{
    (void)state;
    struct hx_text text = {0};
    draw(&text, 0, 1);
    for (unsigned threads = 1; threads <= 3; threads += 2) {
        struct held held;
        find(hx_text_str(&text), threads, &held);
        assert_false(is_held_as(&held, "far1", "near1"));
        for (unsigned i = 0; i < SLABS; i++) {
            char slab[16], leaf[16], deep[16];
            snprintf(slab, sizeof slab, "s%u", i);
            snprintf(leaf, sizeof leaf, "leaf%u", i);
            snprintf(deep, sizeof deep, "deep%u", i);
            assert_int_equal(
                held.drawing.snapshot->graph.round[hx_drawing_object(&held.drawing, slab)],
                HX_ROUNDS);
            assert_true(is_held_as(&held, slab, i ? "far1" : "near1"));
            assert_true(is_held_as(&held, leaf, i ? "far1" : "near1"));
            assert_true(is_held_as(&held, deep, i ? "far1" : "near1"));
        }
        uint64_t objects = 0;
        for (size_t i = 0; i < held.holders.n; i++)
            objects += held.holders.holder[i].objects;
        assert_int_equal(objects, held.drawing.snapshot->graph.n);
        deinit(&held);
    }
    hx_text_free(&text);
}

static void serve_several(void **state)
{
    (void)state;
    struct hx_text text = {0};
    struct held held;
    draw(&text, SLABS * PIECES, 0);
    find(hx_text_str(&text), 1, &held);
    for (unsigned i = 0; i < SLABS; i++) {
        char slab[16];
        snprintf(slab, sizeof slab, "s%u", i);
        assert_int_equal(held.holders.of[hx_drawing_object(&held.drawing, slab)], HX_HOLDER_MIXED);
    }
    deinit(&held);
    hx_text_free(&text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(go_to_whom_they_serve),
        cmocka_unit_test(serve_several),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
