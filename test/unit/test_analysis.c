/* test_analysis.c - what the store says of a snapshot, against each figure's definition. */
#include "analysis_check.h"

#include "store/sqlite.h"

static void figures(void **state)
{
    (void)state;
    struct unit_random random = unit_random_begin("figures");
    for (size_t round = 0; round < unit_rounds(40); round++) {
        hx_store *store;
        assert_done(hx_store_temporary(&store));
        for (int64_t k = 1; k <= 4; k++) {
            struct hx_snapshot *s = model_to_analyse(&random, k % 2 ? 12 : MODEL_MAX);
            struct hx_analysis analysis = some_analysis(&random);
            int64_t id;
            unsigned parts;
            assert_done(hx_store_add(store, s, &analysis, NULL, &id));
            assert_int_equal(id, k);
            assert_done(hx_store_parts(store, id, &parts));
            assert_int_equal(parts, HX_ANALYSE_EVER);
            check_all(store, id, s, &analysis);
            hx_snapshot_destroy(s);
        }
        check_sums(store);
        assert_done(hx_store_close(store));
    }
}

/* --- numbers that last ------------------------------------------------------------- */

static void lasting_numbers(void **state)
{
    (void)state;
    static const struct {
        const char *first, *second, *scheme;
    } steps[] = {{"b", "a", "root"}, {"c", "a", "root"}, {"a", "b", "type"},
                 {"c", "b", "root"}, {"a", "c", "root"}, {"x", "y", "module"}};
    hx_store *store;
    assert_done(hx_store_temporary(&store));
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
        struct hx_snapshot *s = two_roots(steps[i].first, steps[i].second);
        struct hx_analysis analysis = {.scheme = hx_scheme_find(steps[i].scheme), .max_set = 8};
        int64_t id;
        assert_done(hx_store_add(store, s, &analysis, NULL, &id));
        hx_snapshot_destroy(s);
    }
    /* one number a label, one label a number */
    assert_nothing(store, "SELECT label FROM retainers GROUP BY label"
                          " HAVING count(DISTINCT set_id) > 1");
    assert_nothing(store, "SELECT set_id FROM retainers GROUP BY set_id"
                          " HAVING count(DISTINCT label) > 1");
    assert_int_equal(ask_int(store, "SELECT min(set_id) FROM retainers"), 2);
    /* a, b, c, ab, ac, bc and two modules with both */
    assert_int_equal(ask_int(store, "SELECT count(DISTINCT set_id) FROM retainers"), 9);
    assert_int_equal(ask_int(store, "SELECT max(set_id) FROM retainers"), 10);
    char *found = tell_format(store, "SELECT label, module FROM retainer_members"
                                     " WHERE kind = 'global' AND set_id IN (SELECT set_id FROM"
                                     " retainers WHERE members = 1) ORDER BY label");
    /* a was in both modules, c in both, b in both */
    assert_string_equal(found, "a|NULL|\nb|NULL|\nc|NULL|\n");
    free(found);
    assert_done(hx_store_close(store));
}

/* What nobody asks for is as it was for the snapshot before. */
static void rule_of_the_last(void **state)
{
    (void)state;
    static const char *const pattern[] = {"Node", "std"};
    const struct hx_analysis given[] = {
        {.scheme = &hx_scheme_type, .options = {pattern, 2, HX_THREADS_AS_ONE}, .max_set = 3},
        {.max_set = HX_SETS_AUTO},
        {.max_set = HX_SETS_AUTO, .has_max_set = true},
        {.max_set = HX_SETS_AUTO, .has_threads_as = true},
        {.scheme = &hx_scheme_root, .max_set = 1},
        {.scheme = &hx_scheme_thread, .max_set = HX_SETS_AUTO},
    };
    hx_store *store;
    assert_done(hx_store_temporary(&store));
    for (size_t i = 0; i < sizeof given / sizeof *given; i++) {
        struct hx_snapshot *s = two_roots("a", "b");
        int64_t id;
        assert_done(hx_store_add(store, s, &given[i], NULL, &id));
        if (i == 1) { /* its own, not that of the last */
            assert_done(hx_store_revise(store, 1, s, &given[1], HX_ANALYSE_RETAINERS, NULL));
            assert_int_equal(ask_int(store, "SELECT threads_as = 'one' FROM censuses"
                                            " WHERE snapshot = 1"),
                             1);
            assert_done(hx_store_revise(store, 1, s, &given[0], HX_ANALYSE_RETAINERS, NULL));
        }
        hx_snapshot_destroy(s);
    }
    char *found = tell_format(store, "SELECT scheme, max_set, threads_as, replace(patterns, x'0a',"
                                     " '/') FROM hx_census ORDER BY snapshot");
    assert_string_equal(found, "type|3|one|Node/std|\n"
                               "type|3|one|Node/std|\n"
                               "type|0|one|Node/std|\n"
                               "type|0|name|Node/std|\n"
                               "root|1|name|NULL|\n"
                               "thread|0|name|NULL|\n");
    free(found);
    assert_done(hx_store_close(store));
}

/* A large set is told by the members that hold most of the heap, and views have all of them. */
static void brief_labels(void **state)
{
    (void)state;
    enum { ROOTS = 9 };
    struct hx_drawn_edge root_edge[2 * ROOTS];
    struct hx_analysis analysis = {.scheme = &hx_scheme_root, .max_set = HX_SETS_AUTO};
    struct hx_snapshot *s;
    hx_store *store;
    int64_t id;
    for (uint32_t i = 0; i < ROOTS; i++) { /* object 0 has all, object 1 has five */
        root_edge[2 * i] = (struct hx_drawn_edge){i, 0, 0};
        root_edge[2 * i + 1] = (struct hx_drawn_edge){i, i < 5, 0};
    }
    assert_done(hx_image_graph(2, NULL, 0, ROOTS, root_edge, 2 * ROOTS, &s));
    s->method = "copy";
    for (size_t i = 0; i < ROOTS; i++) {
        s->roots.v[i].name[0] = (char)('a' + i);
        s->roots.v[i].name[1] = 0;
    }
    assert_done(hx_reach(s, HX_INTERIOR_KNOWN, 1, NULL));
    char *directory = model_directory(), *path = model_path(directory, "brief");
    assert_done(hx_store_append(path, &store));
    assert_done(hx_store_add(store, s, &analysis, NULL, &id));
    assert_done(hx_store_close(store));
    hx_snapshot_destroy(s);
    for (int held = 0; held < 2; held++) {
        sqlite3 *db;
        assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
        if (held)
            assert_int_equal(
                sqlite3_exec(db,
                             "INSERT INTO hx_holding(snapshot, holder, bytes, retainer)"
                             " SELECT 1, 1 + retainer, CASE label WHEN 'h' THEN 900 WHEN 'c' THEN"
                             " 2000 ELSE 1 END, retainer FROM hx_retainer",
                             NULL, NULL, NULL),
                SQLITE_OK);
        assert_int_equal(sqlite3_close(db), SQLITE_OK);
        assert_done(hx_store_open(path, &store));
        const char *want[] = {held ? "c, h, a and 6 others" : "a, b, c and 6 others",
                              "a, b, c, d, e"};
        for (int brief = 0; brief < 2; brief++) {
            const struct hx_query query = {
                .view = "retainers", .snapshot = 1, .sort = "members", .limit = -1, .brief = brief};
            HX_ROWS hx_rows *rows = NULL;
            bool more;
            assert_done(hx_query_view(store, &query, &rows));
            for (int i = 0; i < 2; i++) {
                assert_done(hx_rows_next(rows, &more));
                assert_true(more);
                assert_string_equal(hx_rows_value(rows, 4).text, brief ? want[i]
                                                                 : i   ? want[1]
                                                                     : "a, b, c, d, e, f, g, h, i");
            }
        }
        assert_done(hx_store_close(store));
    }
    model_remove(directory);
    free(path);
}

/* A root and a type of one name are two retainers, and what is retained by both is in a third set
 * whose members stand in the order of their names. */
static void names_of_two_kinds(void **state)
{
    (void)state;
    struct hx_snapshot *s = two_roots("b", "m");
    assert_true(hx_vec_push(&s->types, (struct hx_type){.name = strdup("b")}));
    assert_done(hx_big_reserve(&s->graph.type_mem, 3 * sizeof(uint32_t)));
    s->graph.type = s->graph.type_mem.base;
    s->graph.type[1] = s->graph.type[2] = HX_NO_TYPE;
    struct hx_analysis analysis = {.scheme = hx_scheme_find("type")};
    hx_store *store;
    int64_t id;
    assert_done(hx_store_temporary(&store));
    assert_done(hx_store_add(store, s, &analysis, NULL, &id));
    char *found = tell_format(store, "SELECT r.label, r.objects, m.position, m.kind, m.label"
                                     " FROM retainers AS r JOIN retainer_members AS m"
                                     " USING(set_id) ORDER BY r.label, m.position");
    assert_string_equal(found, "b|1|1|global|b|\nb, m|1|1|type|b|\nb, m|1|2|global|m|\n"
                               "m|1|1|global|m|\n");
    free(found);
    hx_snapshot_destroy(s);
    assert_done(hx_store_close(store));
}

/* --- the edges --------------------------------------------------------------------- */

static void nothing_there(void **state)
{
    (void)state;
    struct hx_analysis analysis = {.scheme = hx_scheme_find("root"), .max_set = 8};
    hx_store *store;
    int64_t id;
    unsigned parts;
    assert_done(hx_store_temporary(&store));
    struct hx_snapshot *s;
    assert_done(hx_snapshot_create(&s));
    s->method = "copy";
    assert_done(hx_store_add(store, s, &analysis, NULL, &id)); /* no object */
    s->no_heap = true;
    assert_done(hx_store_add(store, s, &analysis, NULL, &id)); /* no allocator */
    assert_done(hx_store_revise(store, id, s, &analysis, HX_ANALYSE_EVER, NULL));
    assert_done(hx_store_parts(store, id, &parts));
    assert_int_equal(parts, 0);
    char *found = tell_format(store, "SELECT * FROM censuses");
    assert_string_equal(found, "1|root|8|0|name|NULL|0|0|\n");
    free(found);
    assert_nothing(store, "SELECT snapshot FROM retainers UNION ALL SELECT snapshot FROM bins"
                          " UNION ALL SELECT snapshot FROM types UNION ALL SELECT snapshot FROM"
                          " dominators UNION ALL SELECT snapshot FROM pages");
    assert_refused(hx_store_parts(store, 9, &parts), HX_E_ABSENT, "no snapshot 9");
    s->no_heap = false;
    assert_refused(hx_store_revise(store, 9, s, &analysis, HX_ANALYSE_EVER, NULL), HX_E_ABSENT,
                   "no snapshot 9");
    hx_snapshot_destroy(s);
    s = two_roots("a", "b");
    assert_refused(hx_store_revise(store, 1, s, &analysis, HX_ANALYSE_RETAINED, NULL), HX_E_FAIL,
                   "other objects");
    assert_refused(hx_store_revise(store, 1, s, &analysis, HX_ANALYSE_EVER, NULL), HX_E_FAIL,
                   "other roots");
    hx_snapshot_destroy(s);
    assert_done(hx_store_close(store));
}

/* A list with a named root at each link: its bins would have n * n / 2 members. */
static void too_many_bins(void **state)
{
    (void)state;
    hx_obj n = (hx_obj)unit_rounds(6000);
    struct hx_drawn_edge *edge = calloc(n, sizeof *edge), *root = calloc(n, sizeof *root);
    assert_true(edge && root);
    for (hx_obj i = 0; i < n; i++) {
        edge[i] = (struct hx_drawn_edge){i, i + 1, HX_EDGE_START};
        root[i] = (struct hx_drawn_edge){i, i, HX_EDGE_START};
    }
    struct hx_snapshot *s;
    assert_done(hx_image_graph(n, edge, n - 1, n, root, n, &s));
    assert_done(hx_reach(s, HX_INTERIOR_KNOWN, 1, NULL));
    for (hx_obj i = 0; i < n; i++) {
        struct hx_named named = {.root = i};
        assert_true(asprintf(&named.name, "r%u", (unsigned)i) > 0);
        assert_true(hx_vec_push(&s->named, named));
    }
    struct hx_analysis analysis = {.scheme = hx_schemes[0], .max_set = 8};
    hx_store *store;
    int64_t id;
    unsigned parts;
    assert_done(hx_store_temporary(&store));
    assert_done(hx_store_add(store, s, &analysis, NULL, &id));
    assert_done(hx_store_parts(store, id, &parts));
    if (n == 6000) {
        assert_int_equal(parts, HX_ANALYSE_ALL & ~(HX_ANALYSE_BINS | HX_ANALYSE_HOLDERS));
        assert_nothing(store,
                       "SELECT snapshot FROM snapshots WHERE notes NOT LIKE '%bins left out%'");
        assert_nothing(store, "SELECT roots FROM bins");
        assert_nothing(store, "SELECT address FROM objects WHERE bin IS NOT NULL");
        assert_refused(hx_store_revise(store, id, s, &analysis, HX_ANALYSE_BINS, NULL), HX_E_LIMIT,
                       "names in all");
    } else {
        assert_int_equal(parts, HX_ANALYSE_ALL);
    }
    hx_snapshot_destroy(s);
    assert_done(hx_store_close(store));
    free(edge);
    free(root);
}

/* Each sentence once, whoever says it how often. */
static void notes(void **state)
{
    (void)state;
    struct hx_analysis analysis = {.scheme = hx_scheme_find("root"), .max_set = 8};
    struct hx_snapshot *s = two_roots("a", "b");
    hx_store *store;
    int64_t id;
    hx_snapshot_note(s, false, "one more");
    hx_snapshot_note(s, false, "one");
    assert_done(hx_store_temporary(&store));
    assert_done(hx_store_add(store, s, &analysis, NULL, &id));
    hx_text_clear(&s->notes);
    hx_snapshot_note(s, false, "one more");
    hx_snapshot_note(s, false, "more");
    for (int i = 0; i < 2; i++)
        assert_done(hx_store_revise(store, id, s, &analysis, HX_ANALYSE_BINS, NULL));
    char *found = tell_format(store, "SELECT notes FROM snapshots");
    assert_string_equal(found, "one more; one; more|\n");
    free(found);
    hx_snapshot_destroy(s);
    assert_done(hx_store_close(store));
}

/* More than fit into hx_dominator: the largest are there. */
static void largest(void **state)
{
    (void)state;
    struct unit_random random = unit_random_begin("largest");
    struct hx_analysis analysis = {.scheme = hx_scheme_find("root"), .max_set = 8};
    hx_obj n = 5000;
    struct hx_snapshot *s = many_sets(n);
    uint64_t at = HX_DRAW_HEAP_BASE;
    for (hx_obj i = 0; i < n; i++) {
        s->graph.addr[i] = at;
        s->graph.size[i] = 8 + 16 * unit_below(&random, 300);
        at += s->graph.size[i] + 8;
    }
    hx_store *store;
    int64_t id;
    assert_done(hx_store_temporary(&store));
    assert_done(hx_store_add(store, s, &analysis, NULL, &id));
    char *found = tell_format(store, "SELECT address, retained_bytes FROM dominators"
                                     " ORDER BY retained_bytes DESC, address");
    char *expected = tell_format(store, "SELECT address, retained_bytes FROM objects"
                                        " ORDER BY retained_bytes DESC, address LIMIT 1000");
    assert_string_equal(found, expected);
    free(found), free(expected);
    hx_snapshot_destroy(s);
    assert_done(hx_store_close(store));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(figures),
        cmocka_unit_test(lasting_numbers),
        cmocka_unit_test(rule_of_the_last),
        cmocka_unit_test(brief_labels),
        cmocka_unit_test(names_of_two_kinds),
        cmocka_unit_test(nothing_there),
        cmocka_unit_test(too_many_bins),
        cmocka_unit_test(notes),
        cmocka_unit_test(largest),
    };
    return unit_run_some(tests);
}
