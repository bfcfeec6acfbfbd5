/* test_leftovers.c - words of made heaps that are no references: behind a count, beside a tag that
 * says so, behind the request, and letters; and those that lead to a piece of a block. */
#include "analysis_check.h"

#include "../image/image.h"
#include "traverse/hold/evidence.h"
#include "traverse/scan/scan.h"

#include <stdlib.h>

#define LEAVES 200
#define FREED  "0x10000040" /* between the first two blocks */

/* Leaves, which are no text, and freed memory before them. */
static void draw_leaves(struct hx_text *text)
{
    hx_text_puts(text, "obj first 24 @0x10000010: 0\n");
    for (unsigned i = 0; i < LEAVES; i++)
        hx_text_putf(text, "obj l%u 32%s: %u 0x3ff8000000000000\n", i, i ? "" : " @0x10000100",
                     256 * (i + 1));
}

static struct hx_drawing find(const struct hx_text *text, unsigned threads)
{
    struct hx_drawing drawing;
    const struct hx_scan_options scan = {.threads = threads};
    assert_false(text->failed);
    assert_null(hx_image_draw(text->s, &drawing));
    assert_null(hx_scan(drawing.snapshot, &scan, NULL));
    assert_null(hx_evidence_find(drawing.snapshot, threads, NULL));
    return drawing;
}

/* The rule of the word at an offset; -1: it is no edge. */
static int rule_at(const struct hx_drawing *drawing, const char *name, uint64_t offset)
{
    const struct hx_graph *graph = &drawing->snapshot->graph;
    const hx_obj object = hx_drawing_object(drawing, name);
    assert_true(object != HX_NO_OBJ);
    for (hx_eidx e = graph->fwd[object]; e < graph->fwd[object + 1]; e++)
        if (hx_edge_offset(graph->edge[e]) == offset)
            return HX_EVIDENCE_RULE(graph->evidence[e]);
    return -1;
}

static unsigned count_rule(const struct hx_drawing *drawing, enum hx_rule rule)
{
    const struct hx_graph *graph = &drawing->snapshot->graph;
    unsigned n = 0;
    for (hx_eidx e = 0; e < graph->n_edges; e++)
        n += HX_EVIDENCE_RULE(graph->evidence[e]) == (unsigned)rule;
    return n;
}

/* --- counts ------------------------------------------------------------------------------- */

/* Nodes with room for 9 slots, of which 2 to 9 are in use; in every third of the others there is a
 * leftover. A word that is always a pointer stands before and behind the slots. */
static void draw_nodes(struct hx_text *text, struct unit_random *random, bool shuffled)
{
    draw_leaves(text);
    for (unsigned i = 0; i < 600; i++) {
        const unsigned used = 2 + i % 8;
        hx_text_putf(text, "obj n%u 104: 0x7fff%04x l%u", i, used, i % LEAVES);
        for (unsigned slot = 0; slot < 9; slot++) {
            bool set = shuffled ? unit_below(random, 9) < used : slot < used;
            hx_text_putf(text, set || unit_below(random, 3) == 0 ? " l%u" : " 0",
                         (i * 7 + slot) % LEAVES);
        }
        hx_text_putf(text, " l%u 0\n", (i + 1) % LEAVES);
    }
    hx_text_puts(text, "root g: n0 n1\n");
}

static void behind_counts(void **state)
{
    (void)state;
    struct unit_random random = unit_random_begin("counts");
    struct hx_text text = {0};
    draw_nodes(&text, &random, false);
    struct hx_drawing drawing = find(&text, 1), other = find(&text, 3);
    for (unsigned i = 0; i < 600; i++) {
        char name[16];
        snprintf(name, sizeof name, "n%u", i);
        assert_true(rule_at(&drawing, name, 8) != HX_RULE_count);
        assert_true(rule_at(&drawing, name, 88) != HX_RULE_count);
        for (unsigned slot = 0; slot < 9; slot++) {
            int rule = rule_at(&drawing, name, 16 + 8 * slot);
            assert_int_equal(rule, rule_at(&other, name, 16 + 8 * slot));
            if (slot < 2 + i % 8)
                assert_true(rule != HX_RULE_count && rule != -1);
            else
                assert_true(rule == HX_RULE_count || rule == -1);
        }
    }
    hx_drawing_deinit(&drawing);
    hx_drawing_deinit(&other);
    hx_text_free(&text);
}

/* A table of buckets with a count says nothing of its slots. */
static void counts_of_tables(void **state)
{
    (void)state;
    struct unit_random random = unit_random_begin("tables");
    struct hx_text text = {0};
    draw_nodes(&text, &random, true);
    struct hx_drawing drawing = find(&text, 1);
    assert_int_equal(count_rule(&drawing, HX_RULE_count), 0);
    hx_drawing_deinit(&drawing);
    hx_text_free(&text);
}

/* --- blocks that were not split ----------------------------------------------------------- */

/* A table that leads to 300 nodes of 24 bytes and to `larger` of 40, of which `used` have a word at
 * +24 that leads to a leaf. */
static void draw_table(struct hx_text *text, unsigned larger, unsigned used)
{
    draw_leaves(text);
    hx_text_puts(text, "obj t 2616:");
    for (unsigned i = 0; i < 300; i++)
        hx_text_putf(text, " n%u", i);
    for (unsigned i = 0; i < larger; i++)
        hx_text_putf(text, " m%u", i);
    hx_text_puts(text, "\n");
    for (unsigned i = 0; i < 300; i++)
        hx_text_putf(text, "obj n%u 24: l%u 0 %u\n", i, i % LEAVES, i << 12 | 7);
    for (unsigned i = 0; i < larger; i++)
        hx_text_putf(text, "obj m%u 40: l%u 0 %u%s 0\n", i, i, i << 12 | 7,
                     i < used ? " l9" : " 0");
    hx_text_puts(text, "root g: t\n");
}

static int rule_behind(unsigned larger, unsigned used, unsigned threads)
{
    struct hx_text text = {0};
    draw_table(&text, larger, used);
    struct hx_drawing drawing = find(&text, threads);
    const int rule = rule_at(&drawing, "m0", 24);
    assert_int_equal(rule_at(&drawing, "m0", 0), rule_at(&drawing, "n0", 0));
    hx_drawing_deinit(&drawing);
    hx_text_free(&text);
    return rule;
}

static void behind_the_usual_size(void **state)
{
    (void)state;
    assert_int_equal(rule_behind(3, 1, 1), HX_RULE_slack);
    assert_int_equal(rule_behind(3, 3, 3), HX_RULE_slack);
    assert_int_equal(rule_behind(10, 5, 3), HX_RULE_slack);
    /* they are of a type of their own: most use that word, or there are many */
    assert_int_not_equal(rule_behind(10, 6, 1), HX_RULE_slack);
    assert_int_not_equal(rule_behind(20, 1, 1), HX_RULE_slack);
}

/* --- records ------------------------------------------------------------------------------ */

/* 60 arrays of 16 records: a value, a word that is always a pointer, and a tag. Values of tag 1 are
 * numbers, or left over from one of tag 2. */
static void draw_arrays(struct hx_text *text, struct unit_random *random, bool told)
{
    draw_leaves(text);
    for (unsigned i = 0; i < 60; i++) {
        hx_text_putf(text, "obj a%u 392:", i);
        for (unsigned k = 0; k < 16; k++) {
            const unsigned tag = 1 + (i + k) % 3, leaf = (i * 5 + k) % LEAVES;
            if (tag > 1 || unit_below(random, 3) == 0)
                hx_text_putf(text, " l%u", leaf);
            else
                hx_text_putf(text, " 0x3ff%u000000000001", leaf % 8);
            hx_text_putf(text, " l%u %u", (leaf + 1) % LEAVES,
                         told ? tag : 1 + (unsigned)unit_below(random, 3));
        }
        hx_text_puts(text, " 0\n");
    }
    hx_text_puts(text, "root g: a0 a1\n");
}

static void tags(void **state)
{
    (void)state;
    struct unit_random random = unit_random_begin("tags");
    struct hx_text text = {0};
    unsigned stale = 0, found = 0;
    draw_arrays(&text, &random, true);
    struct hx_drawing drawing = find(&text, 1), other = find(&text, 3);
    for (unsigned i = 0; i < 60; i++)
        for (unsigned k = 0; k < 16; k++) {
            char name[16];
            snprintf(name, sizeof name, "a%u", i);
            int rule = rule_at(&drawing, name, 24 * k);
            assert_int_equal(rule, rule_at(&other, name, 24 * k));
            assert_true(rule_at(&drawing, name, 24 * k + 8) != HX_RULE_tag);
            if ((i + k) % 3) {
                assert_true(rule != HX_RULE_tag && rule != -1);
                continue;
            }
            stale += rule != -1;
            found += rule == HX_RULE_tag;
        }
    assert_true(stale > 60 && found * 10 > stale * 8); /* some lie across two pages of the image */
    hx_drawing_deinit(&drawing);
    hx_drawing_deinit(&other);
    hx_text_free(&text);
}

/* Small numbers that have nothing to do with the words beside them. */
static void no_tags(void **state)
{
    (void)state;
    struct unit_random random = unit_random_begin("no tags");
    struct hx_text text = {0};
    draw_arrays(&text, &random, false);
    struct hx_drawing drawing = find(&text, 1);
    assert_int_equal(count_rule(&drawing, HX_RULE_field), 0);
    assert_int_equal(count_rule(&drawing, HX_RULE_tag), 0);
    hx_drawing_deinit(&drawing);
    hx_text_free(&text);
}

#define OPTIONALS 400

/* Blocks in which a pointer is there or left over, as the last word tells: what is left over leads
 * to what another one has by now. A borrowed pointer beside it has nothing to do with the tag;
 * `owned`: nobody else has what the others point to. */
static void draw_optionals(struct hx_text *text, bool owned)
{
    draw_leaves(text);
    for (unsigned i = 0; i < OPTIONALS; i++)
        hx_text_putf(text, "obj p%u 40: %u 0x3ff8000000000000\n", i, 256 * (i + 1));
    for (unsigned i = 0; i < OPTIONALS; i++) {
        const bool set = i % 3 != 0;
        hx_text_putf(text, "obj o%u 72: 0x3ff%04x l%u ", i, i, i % LEAVES);
        if (set || owned)
            hx_text_putf(text, "p%u", i);
        else if (i % 2)
            hx_text_putf(text, "p%u", (i + 1) % OPTIONALS); /* which has it */
        else
            hx_text_puts(text, "0");
        hx_text_putf(text, " 0 0 0 0 0 %u\n", set);
    }
    hx_text_puts(text, "root g: o0 o1\n");
}

static void optionals(void **state)
{
    (void)state;
    struct hx_text text = {0};
    for (unsigned owned = 0; owned < 2; owned++) {
        hx_text_clear(&text);
        unsigned missed = 0;
        draw_optionals(&text, owned);
        struct hx_drawing drawing = find(&text, 1), other = find(&text, 3);
        for (unsigned i = 0; i < OPTIONALS; i++) {
            char name[16];
            snprintf(name, sizeof name, "o%u", i);
            const int rule = rule_at(&drawing, name, 16);
            assert_int_equal(rule, rule_at(&other, name, 16));
            const bool stale = !owned && i % 3 == 0 && i % 2;
            assert_true(stale || rule != HX_RULE_tag);
            missed += stale && rule != HX_RULE_tag; /* across two pages of the image */
            assert_true(rule_at(&drawing, name, 8) != HX_RULE_tag);
        }
        assert_true(missed <= OPTIONALS / 100);
        hx_drawing_deinit(&drawing);
        hx_drawing_deinit(&other);
    }
    hx_text_free(&text);
}

/* A word that only names what others have, also when it is gone. `owned`: or has some itself. */
static void names_only(void **state)
{
    (void)state;
    struct hx_text text = {0};
    for (unsigned owned = 0; owned < 2; owned++) {
        hx_text_clear(&text);
        draw_leaves(&text);
        for (unsigned i = 0; i < OPTIONALS; i++)
            hx_text_putf(&text, "obj p%u 40: %u 0x3ff8000000000000\n", i, 256 * (i + 1));
        for (unsigned i = 0; i < OPTIONALS; i++) {
            hx_text_putf(&text, "obj o%u 72: 0x3ff%04x l%u ", i, i, i % LEAVES);
            if (i % 20 == 0)
                hx_text_puts(&text, FREED);
            else
                hx_text_putf(&text, owned && i % 4 == 1 ? "p%u" : "l%u",
                             owned && i % 4 == 1 ? i : i % LEAVES);
            hx_text_puts(&text, " 0 0 0 0 0 0\n");
        }
        hx_text_puts(&text, "root g: o0 o1\n");
        struct hx_drawing drawing = find(&text, 1);
        assert_int_equal(rule_at(&drawing, "o1", 16) == HX_RULE_lent, !owned);
        assert_int_equal(rule_at(&drawing, "o1", 8) == HX_RULE_lent, 0);
        hx_drawing_deinit(&drawing);
    }
    hx_text_free(&text);
}

/* --- the request -------------------------------------------------------------------------- */

/* The last word leads to blocks, and in some members to where one was. */
static void draw_ends(struct hx_text *text, const char *gone)
{
    draw_leaves(text);
    for (unsigned i = 0; i < 400; i++) {
        hx_text_putf(text, "obj n%u 40: l%u l%u %u 7 ", i, i % LEAVES, (i + 3) % LEAVES, i + 1);
        if (i % 20 == 0)
            hx_text_putf(text, "%s\n", gone);
        else
            hx_text_putf(text, "l%u\n", (i + 5) % LEAVES);
    }
    hx_text_puts(text, "root g: n0\n");
}

static void ends(void **state)
{
    (void)state;
    struct hx_text text = {0};
    draw_ends(&text, FREED);
    struct hx_drawing drawing = find(&text, 1);
    assert_int_equal(rule_at(&drawing, "n1", 32), HX_RULE_slack);
    assert_int_equal(rule_at(&drawing, "n1", 0), HX_RULE_NONE);
    assert_int_equal(count_rule(&drawing, HX_RULE_slack), 380);
    hx_drawing_deinit(&drawing);
    hx_text_clear(&text);
    draw_ends(&text, "0");
    drawing = find(&text, 1);
    assert_int_equal(count_rule(&drawing, HX_RULE_slack), 0);
    hx_drawing_deinit(&drawing);
    hx_text_free(&text);
}

/* --- pieces ------------------------------------------------------------------------------- */

enum { SLABS = 80, PIECES = 8, USERS = 600 };

/* Users point to pieces of slabs, and where they own a block of that size, to its start. */
static void draw_slabs(struct hx_text *text, bool owned)
{
    for (unsigned i = 0; i < SLABS; i++)
        hx_text_putf(text, "obj s%u 520: %u\n", i, i + 1);
    for (unsigned i = 0; i < USERS; i++) {
        hx_text_putf(text, "obj u%u 40: %u s%u+%u", i, i + 1, i * 13 % SLABS, 64 * (i % PIECES));
        hx_text_putf(text, owned ? " s%u\n" : " 0\n", i % SLABS);
    }
    hx_text_puts(text, "root g: s1 u0\n");
}

static void pieces(void **state)
{
    (void)state;
    struct hx_text text = {0};
    for (unsigned owned = 0; owned < 2; owned++) {
        hx_text_clear(&text);
        draw_slabs(&text, owned);
        struct hx_drawing drawing = find(&text, 1), other = find(&text, 3);
        unsigned starts = 0;
        for (unsigned i = 0; i < USERS; i++) {
            char name[16];
            snprintf(name, sizeof name, "u%u", i);
            assert_int_equal(rule_at(&drawing, name, 8), HX_RULE_piece);
            assert_int_equal(rule_at(&other, name, 8), HX_RULE_piece);
            assert_true(rule_at(&drawing, name, 16) != HX_RULE_piece);
            starts += i % PIECES == 0;
        }
        assert_true(starts > USERS / 10);
        const struct hx_root_edge *edge = drawing.snapshot->root_edges.v;
        assert_int_equal(HX_EVIDENCE_RULE(edge[0].evidence), owned ? 0 : HX_RULE_piece);
        assert_int_equal(HX_EVIDENCE_RULE(edge[1].evidence), 0);
        hx_drawing_deinit(&drawing);
        hx_drawing_deinit(&other);
    }
    hx_text_free(&text);
}

/* What is alone of its kind points to many pieces, and to one start. */
static void draw_lone(struct hx_text *text, bool owned)
{
    draw_slabs(text, owned);
    hx_text_puts(text, "obj lone 1000:");
    for (unsigned i = 1; i < SLABS; i++)
        hx_text_putf(text, " s%u+%u", i, 64 * (i % (PIECES - 1) + 1));
    hx_text_puts(text, " s0\n");
}

static void starts_of_pieces(void **state)
{
    (void)state;
    struct hx_text text = {0};
    for (unsigned owned = 0; owned < 2; owned++) {
        hx_text_clear(&text);
        draw_lone(&text, owned);
        struct hx_drawing drawing = find(&text, 1), other = find(&text, 3);
        for (unsigned i = 0; i < SLABS; i++) {
            const int rule = i + 1 == SLABS && owned ? HX_RULE_NONE : HX_RULE_piece;
            assert_int_equal(rule_at(&drawing, "lone", 8 * i), rule);
            assert_int_equal(rule_at(&other, "lone", 8 * i), rule);
        }
        hx_drawing_deinit(&drawing);
        hx_drawing_deinit(&other);
    }
    hx_text_free(&text);
}

/* Users of several sizes, those of one size all lead to one place. */
static void landings(void **state)
{
    (void)state;
    struct hx_text text = {0};
    for (unsigned sizes = 2; sizes <= 6; sizes += 4) {
        hx_text_clear(&text);
        for (unsigned i = 0; i < SLABS; i++)
            hx_text_putf(&text, "obj s%u 520: %u\n", i, i + 1);
        for (unsigned i = 0; i < USERS; i++)
            hx_text_putf(&text, "obj u%u %u: %u s%u+%u 0\n", i, 40 + 16 * (i % sizes), i + 1,
                         i * 13 % SLABS, 64 * (i % sizes + 1));
        struct hx_drawing drawing = find(&text, 1);
        const unsigned found = count_rule(&drawing, HX_RULE_intrusive);
        assert_true(sizes == 2 ? found > USERS * 9 / 10 : !found);
        hx_drawing_deinit(&drawing);
    }
    hx_text_free(&text);
}

/* Letters are addresses in a heap that lies low: "sse2" leads into the middle of a word, "hre2" to
 * its beginning. */
static void letters(void **state)
{
    (void)state;
    struct hx_text text = {0};
    hx_text_puts(&text, "obj low 8184 @0x32656010: 1 2\n"
                        "obj text 40 @0x32659000: 0x32657373 0x32657268 0x32657303 low\n"
                        "root g: 0x32657373 0x32657268 text\n");
    struct hx_drawing drawing = find(&text, 1);
    assert_int_equal(rule_at(&drawing, "text", 0), HX_RULE_bytes);
    assert_int_equal(rule_at(&drawing, "text", 8), HX_RULE_NONE);
    assert_int_equal(rule_at(&drawing, "text", 16), HX_RULE_NONE);
    assert_int_equal(rule_at(&drawing, "text", 24), HX_RULE_NONE);
    const struct hx_root_edge *edge = drawing.snapshot->root_edges.v;
    assert_int_equal(drawing.snapshot->root_edges.n, 3);
    assert_int_equal(HX_EVIDENCE_RULE(edge[0].evidence), HX_RULE_bytes);
    assert_int_equal(HX_EVIDENCE_RULE(edge[1].evidence), HX_RULE_NONE);
    assert_int_equal(HX_EVIDENCE_RULE(edge[2].evidence), HX_RULE_NONE);
    hx_drawing_deinit(&drawing);
    hx_text_free(&text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(behind_counts),
        cmocka_unit_test(counts_of_tables),
        cmocka_unit_test(behind_the_usual_size),
        cmocka_unit_test(tags),
        cmocka_unit_test(no_tags),
        cmocka_unit_test(optionals),
        cmocka_unit_test(names_only),
        cmocka_unit_test(ends),
        cmocka_unit_test(pieces),
        cmocka_unit_test(starts_of_pieces),
        cmocka_unit_test(landings),
        cmocka_unit_test(letters),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
