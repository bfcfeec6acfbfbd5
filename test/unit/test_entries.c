/* test_entries.c - by how many blocks members come into their sets, and who is in doubt. */
#include "store_model.h"

#include "../image/image.h"

#include "traverse/reach.h"
#include "traverse/retain/entries.h"
#include "traverse/retain/scheme.h"

enum { NODES = 400, STALE = 5 };

static struct hx_snapshot *draw(const struct hx_drawn_edge *edge, size_t n_edges, hx_obj n)
{
    /* roots: the first list, the second one, and a word of the first value */
    static const struct hx_drawn_edge root[] = {{0, 0, 0}, {1, NODES, 0}};
    struct hx_snapshot *s;
    assert_done(hx_image_graph(n, edge, n_edges, 2, root, 2, &s));
    assert_done(hx_reach(s, HX_INTERIOR_KNOWN, 1, NULL));
    assert_done(hx_big_array(s->graph.shape, n)); /* nodes of all lists look alike */
    for (hx_obj i = 0; i < n; i++)
        s->graph.shape[i] = i >= 2 * NODES || (n == NODES + 1 && i == NODES);
    return s;
}

struct found {
    struct hx_scheme_rule rule;
    hx_sets *sets;
    struct hx_retention retention;
    struct hx_entries entries;
};

static void find(struct hx_snapshot *s, hx_obj of, struct found *f)
{
    *f = (struct found){0};
    assert_done(hx_scheme_apply(&hx_scheme_root, s, NULL, &f->rule));
    assert_done(hx_sets_create(0, &f->sets));
    assert_done(hx_retain(s, &f->rule.rule, f->sets, NULL, &f->retention));
    hx_set set = f->retention.set[of];
    assert_done(
        hx_entries_find(s, &f->rule.rule, f->sets, &f->retention, &set, 1, NULL, &f->entries));
    assert_int_equal(f->entries.n, 1);
    assert_int_equal(f->entries.of[0].set, set);
}

static void drop(struct hx_snapshot *s, struct found *f)
{
    hx_entries_deinit(&f->entries);
    hx_retention_deinit(&f->retention);
    hx_sets_destroy(f->sets);
    hx_scheme_rule_deinit(&f->rule);
    hx_snapshot_destroy(s);
}

/* Two lists; each node of the first has a value, and a few of the second point to some of them. */
static void few_of_those_alike(void **state)
{
    (void)state;
    static struct hx_drawn_edge edge[4 * NODES];
    size_t n = 0;
    for (hx_obj i = 0; i < 2 * NODES; i++) {
        if (i + 1 != NODES && i + 1 != 2 * NODES)
            edge[n++] = (struct hx_drawn_edge){i, i + 1, 0};
        if (i < NODES)
            edge[n++] = (struct hx_drawn_edge){i, 2 * NODES + i, 0};
        else if (i - NODES < STALE)
            edge[n++] = (struct hx_drawn_edge){i, 2 * NODES + (i - NODES), 0};
    }
    struct hx_snapshot *s = draw(edge, n, 3 * NODES);
    struct found f;
    find(s, 2 * NODES, &f);
    assert_int_equal(f.entries.of[0].n, 2);
    const struct hx_entry *entry = f.entries.entry;
    for (size_t i = 0; i < 2; i++) {
        assert_int_equal(entry[i].entries, STALE);
        assert_int_equal(entry[i].alike, NODES);
    }
    assert_false(entry[0].doubt);
    assert_true(entry[1].doubt);
    drop(s, &f);
}

/* The one header of all of it is like itself: it brings them all, and is not in doubt. */
static void one_header(void **state)
{
    (void)state;
    static struct hx_drawn_edge edge[4 * NODES];
    size_t n = 0;
    for (hx_obj i = 0; i + 1 < NODES; i++)
        edge[n++] = (struct hx_drawn_edge){i, i + 1, 0};
    /* object NODES is a header that leads to the first node's list, too */
    edge[n++] = (struct hx_drawn_edge){NODES, 7, 0};
    struct hx_snapshot *s = draw(edge, n, NODES + 1);
    struct found f;
    find(s, NODES - 1, &f);
    assert_int_equal(f.entries.of[0].n, 2);
    assert_int_equal(f.entries.entry[0].entries, 1);
    assert_int_equal(f.entries.entry[0].alike, 7);
    assert_int_equal(f.entries.entry[1].entries, 1);
    assert_int_equal(f.entries.entry[1].alike, 1);
    assert_false(f.entries.entry[0].doubt || f.entries.entry[1].doubt);
    drop(s, &f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(few_of_those_alike),
        cmocka_unit_test(one_header),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
