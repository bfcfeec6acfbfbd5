/* test_store_holders.c - what the store keeps beside stacks for mprof's tables: who holds the
 * objects of each stack, requests by size, and the types of these sizes. */
#include "analysis_check.h"

#include "store/query.h"

enum { STACKS = 5 };

/* --- snapshots --------------------------------------------------------------------- */

/* Stacks of one function each; the last one is `cut`, and nothing else. */
static void add_stacks(struct hx_recording *recording)
{
    struct hx_rec_file file = {strdup("/bin/shop"), strdup("shop"), strdup("00ff")};
    assert_true(hx_vec_push(&recording->files, file));
    for (uint32_t i = 0; i < STACKS; i++) {
        struct hx_rec_place place = {.vaddr = 0x1000 + i, .n_lines = 1};
        struct hx_rec_stack stack = {.first = i, .n = i + 1 < STACKS, .cut = i + 1 == STACKS};
        struct hx_rec_costs costs = {.allocs = 1, .live = 1};
        place.lines = calloc(1, sizeof *place.lines);
        assert_non_null(place.lines);
        assert_true(asprintf(&place.lines->function, "f%u", i) > 0);
        assert_true(hx_vec_push(&recording->places, place));
        assert_true(hx_vec_push(&recording->stack_places, i));
        assert_true(hx_vec_push(&recording->stacks, stack));
        assert_true(hx_vec_push(&recording->costs, costs));
    }
}

/* All sizes once, in order, those without room last. */
static void add_sizes(struct unit_random *random, struct hx_recording *recording)
{
    uint64_t size = unit_below(random, 3);
    for (uint64_t n = unit_below(random, 40); n > 0; n--) {
        struct hx_rec_size some = {.size = size,
                                   .allocs = unit_below(random, 1000),
                                   .alloc_bytes =
                                       unit_random(random) >> unit_below(random, 64) >> 1,
                                   .frees = unit_below(random, 1000),
                                   .freed_bytes = unit_below(random, 1 << 20)};
        assert_true(hx_vec_push(&recording->sizes, some));
        size += 1 + (unit_random(random) >> (16 + unit_below(random, 48)));
    }
    if (unit_below(random, 2)) {
        struct hx_rec_size rest = {UINT64_MAX, 7, 70000, 3, 30000};
        assert_true(hx_vec_push(&recording->sizes, rest));
    }
}

static void add_types(struct unit_random *random, struct hx_recording *recording)
{
    static const char *const names[] = {"", "\x1b[31m", "'; DROP TABLE hx_size; --", "Item",
                                        "std::vector<int, std::allocator<int> >"};
    for (size_t i = 0; i < recording->sizes.n && recording->sizes.v[i].size != UINT64_MAX; i++)
        for (size_t k = 0; k < sizeof names / sizeof *names; k++) {
            if (unit_below(random, 4))
                continue;
            struct hx_rec_sized_type type = {recording->sizes.v[i].size, strdup(names[k])};
            assert_true(hx_vec_push(&recording->sized_types, type));
        }
}

/* Recorded stacks, what was before them and what is not known, and sometimes no site at all. */
static void give_sites(struct unit_random *random, struct hx_snapshot *s)
{
    struct hx_graph *g = &s->graph;
    for (uint32_t i = 0; i < STACKS + 2; i++) {
        struct hx_site site = {.stack = i < STACKS    ? i
                                        : i == STACKS ? HX_SITE_BEFORE
                                                      : HX_SITE_UNKNOWN};
        assert_true(asprintf(&site.label, "site %u", i) > 0);
        assert_true(hx_vec_push(&s->sites, site));
    }
    assert_done(hx_big_reserve(&g->site_mem, (size_t)g->n * sizeof *g->site + 1));
    assert_done(hx_big_reserve(&g->requested_mem, (size_t)g->n * sizeof *g->requested + 1));
    g->site = g->site_mem.base;
    g->requested = g->requested_mem.base;
    size_t span = g->n > 30 ? 2 : STACKS + 3; /* more sets of a stack than have rows */
    for (hx_obj i = 0; i < g->n; i++) {
        size_t site = unit_below(random, span);
        g->site[i] = site < s->sites.n ? (uint32_t)site : HX_NO_SITE;
        g->requested[i] = HX_NO_REQUEST;
    }
}

static void record(struct unit_random *random, struct hx_snapshot *s)
{
    s->taken_at_ns = 86400 * INT64_C(1000000000);
    assert_done(hx_recording_create(&s->recording));
    s->recording->method = "run";
    add_stacks(s->recording);
    add_sizes(random, s->recording);
    add_types(random, s->recording);
    assert_done(hx_recording_check(s->recording));
    give_sites(random, s);
}

/* --- holders ------------------------------------------------------------------------- */

/* The store's own objects by the raw stack of each, and what hx_holder says of them. */
static void put_model(struct hx_text *sql, int64_t id, const struct hx_snapshot *loaded)
{
    hx_text_puts(sql, "WITH object(address, raw) AS (VALUES(-1, -1)");
    for (hx_obj i = 0; i < loaded->graph.n; i++)
        hx_text_putf(sql, ", (%lld, %lld)", (long long)loaded->graph.addr[i],
                     (long long)loaded->sites.v[loaded->graph.site[i]].stack_id);
    hx_text_putf(
        sql,
        "), model AS (SELECT raw AS stack_id, state, set_id, sum(bytes) AS bytes, count(*) AS"
        " objects FROM objects JOIN object USING(address) WHERE snapshot = %lld"
        " GROUP BY 1, 2, 3), held AS (SELECT stack_id, state, set_id, bytes, objects FROM"
        " hx_holder WHERE snapshot = %lld), missing AS (SELECT * FROM model AS m WHERE NOT"
        " EXISTS (SELECT 1 FROM held AS h WHERE h.stack_id = m.stack_id"
        " AND h.state = m.state AND h.set_id = m.set_id)) ",
        (long long)id, (long long)id);
}

static void check_holders(hx_store *store, int64_t id, const struct hx_snapshot *loaded)
{
    static const char *const wrong[] = {
        /* each set has its own figures, and comes once */
        "SELECT * FROM held WHERE set_id IS NOT NULL EXCEPT SELECT * FROM model",
        "SELECT stack_id, state, set_id FROM held GROUP BY 1, 2, 3 HAVING count(*) > 1",
        /* what is left out is less than the eight that are there, and in the rest */
        "SELECT * FROM missing AS m WHERE 8 <> (SELECT count(set_id) FROM held AS h"
        " WHERE h.stack_id = m.stack_id AND h.state = m.state)",
        "SELECT m.* FROM missing AS m JOIN held AS h USING(stack_id, state)"
        " WHERE h.set_id IS NOT NULL AND h.bytes < m.bytes",
        "SELECT * FROM (SELECT stack_id, state, sum(bytes), sum(objects) FROM held GROUP BY 1, 2"
        " EXCEPT SELECT stack_id, state, sum(bytes), sum(objects) FROM model GROUP BY 1, 2)",
        "SELECT stack_id, state FROM model EXCEPT SELECT stack_id, state FROM held",
        "SELECT * FROM held WHERE NOT objects > 0",
        "SELECT stack_id FROM held EXCEPT SELECT stack_id FROM hx_stack",
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        struct hx_text sql = {0};
        put_model(&sql, id, loaded);
        hx_text_puts(&sql, wrong[i]);
        assert_nothing(store, hx_text_str(&sql));
        hx_text_free(&sql);
    }
}

/* Once when a snapshot is stored, once more for another scheme, laid over the file's tables. */
static void holders(void **state)
{
    (void)state;
    struct unit_random random = unit_random_begin("holders");
    char *directory = model_directory(), *path = model_path(directory, "store");
    uint64_t rests = 0;
    for (size_t round = unit_rounds(30); round > 0; round--) {
        struct hx_snapshot *s[2] = {model_to_analyse(&random, 24), many_sets(40)}, *loaded;
        hx_store *store;
        int64_t id;
        assert_done(hx_store_append(path, &store));
        for (int i = 0; i < 2; i++) {
            struct hx_analysis analysis = some_analysis(&random);
            if (i == 1)
                analysis.scheme = hx_schemes[0];
            record(&random, s[i]);
            assert_done(hx_store_add(store, s[i], &analysis, NULL, &id));
            assert_int_equal(id, i + 1);
        }
        assert_done(hx_store_close(store));
        assert_done(hx_store_open(path, &store));
        rests += (uint64_t)ask_int(store, "SELECT count(*) FROM hx_holder WHERE set_id IS NULL");
        for (id = 1; id <= 2; id++) {
            struct hx_analysis analysis = some_analysis(&random);
            assert_done(hx_store_load(store, id, NULL, &loaded));
            if (loaded->graph.site)
                check_holders(store, id, loaded);
            assert_done(hx_store_revise(store, id, loaded, &analysis, HX_ANALYSE_ALL, NULL));
            if (loaded->graph.site)
                check_holders(store, id, loaded);
            hx_snapshot_destroy(loaded);
        }
        assert_done(hx_store_close(store));
        for (int i = 0; i < 2; i++)
            hx_snapshot_destroy(s[i]);
        assert_int_equal(unlink(path), 0);
    }
    assert_true(rests > 0);
    free(path);
    model_remove(directory);
}

/* --- sizes --------------------------------------------------------------------------- */

static void check_sizes(hx_store *store, int64_t id, const struct hx_recording *recording)
{
    struct hx_text sizes = {0}, types = {0};
    size_t n = recording->sizes.n, rest = n && recording->sizes.v[n - 1].size == UINT64_MAX;
    for (size_t i = 0; i < n; i++) { /* those without room have no size, and come first */
        const struct hx_rec_size *size = &recording->sizes.v[(i + n - rest) % n];
        hx_text_putf(&sizes, "%lld|%llu|%llu|%llu|%llu|\n", (long long)size->size,
                     (unsigned long long)size->allocs, (unsigned long long)size->alloc_bytes,
                     (unsigned long long)size->frees, (unsigned long long)size->freed_bytes);
    }
    char *found = tell_format(store,
                              "SELECT size, alloc_objects, alloc_bytes, freed_objects, freed_bytes"
                              " FROM hx_size WHERE snapshot = %d ORDER BY size",
                              (int)id);
    assert_same_lines(found, hx_text_str(&sizes));
    free(found);
    hx_text_free(&sizes);
    for (size_t i = 0; i < recording->sized_types.n; i++)
        hx_text_putf(&types, "%llu|%s|\n", (unsigned long long)recording->sized_types.v[i].bytes,
                     recording->sized_types.v[i].name);
    found = tell_format(
        store, "SELECT size, name FROM hx_size_type WHERE snapshot = %d ORDER BY size, name",
        (int)id);
    assert_same_lines(found, hx_text_str(&types));
    free(found);
    hx_text_free(&types);
}

static void sizes(void **state)
{
    (void)state;
    struct unit_random random = unit_random_begin("sizes");
    for (size_t round = unit_rounds(30); round > 0; round--) {
        struct hx_snapshot *s[3];
        hx_store *store;
        int64_t id;
        assert_done(hx_store_temporary(&store));
        for (int i = 0; i < 3; i++) {
            s[i] = many_sets(3);
            if (i != 1)
                record(&random, s[i]);
            assert_done(hx_store_add(store, s[i], NULL, NULL, &id));
        }
        check_sizes(store, 1, s[0]->recording);
        check_sizes(store, 3, s[2]->recording);
        assert_nothing(store, "SELECT 1 FROM hx_size WHERE snapshot = 2 UNION ALL"
                              " SELECT 1 FROM hx_size_type WHERE snapshot = 2 UNION ALL"
                              " SELECT 1 FROM hx_holder WHERE snapshot = 2");
        assert_done(hx_store_close(store));
        for (int i = 0; i < 3; i++)
            hx_snapshot_destroy(s[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(holders), cmocka_unit_test(sizes)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
