/* test_store_census.c - the censuses of a store as rows of one form: each counts every object once,
 * and says what the views say. */
#include "analysis_check.h"

#include "store/census.h"
#include "store/query.h"

enum { STACKS = 6, SNAPSHOTS = 3 };

/* --- snapshots --------------------------------------------------------------------- */

/* Stacks of one function each, of two files. */
static void add_stacks(struct hx_recording *recording)
{
    for (int i = 0; i < 2; i++) {
        struct hx_rec_file file = {strdup(i ? "/lib/libstock.so" : "/bin/shop"),
                                   strdup(i ? "libstock.so" : "shop"), strdup(i ? "01" : "02")};
        assert_true(hx_vec_push(&recording->files, file));
    }
    for (uint32_t i = 0; i < STACKS; i++) {
        struct hx_rec_place place = {.file = i % 2, .vaddr = 0x1000 + i, .n_lines = 1};
        struct hx_rec_stack stack = {.first = i, .n = 1};
        struct hx_rec_costs costs = {.allocs = 1, .live = 1};
        place.lines = calloc(1, sizeof *place.lines);
        assert_non_null(place.lines);
        assert_true(asprintf(&place.lines->function, "f%u", i / 2) > 0);
        assert_true(hx_vec_push(&recording->places, place));
        assert_true(hx_vec_push(&recording->stack_places, i));
        assert_true(hx_vec_push(&recording->stacks, stack));
        assert_true(hx_vec_push(&recording->costs, costs));
    }
}

/* Some objects have a stack, some were there before, of some nothing is known. */
static void record(struct unit_random *random, struct hx_snapshot *s)
{
    struct hx_graph *g = &s->graph;
    s->taken_at_ns = 86400 * INT64_C(1000000000);
    assert_done(hx_recording_create(&s->recording));
    s->recording->method = "run";
    add_stacks(s->recording);
    assert_done(hx_recording_check(s->recording));
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
    for (hx_obj i = 0; i < g->n; i++) {
        size_t site = unit_below(random, STACKS + 3);
        g->site[i] = site < s->sites.n ? (uint32_t)site : HX_NO_SITE;
        g->requested[i] = HX_NO_REQUEST;
    }
}

static void give_account(struct unit_random *random, struct hx_snapshot *s)
{
    s->has_rss = s->has_account = true;
    for (int part = 0; part < HX_PARTS; part++) {
        s->account[part] = unit_below(random, 1 << 30);
        s->rss_bytes += s->account[part];
    }
}

static void store_random(struct unit_random *random, hx_store *store)
{
    for (int i = 0; i < SNAPSHOTS; i++) {
        struct hx_snapshot *s = model_to_analyse(random, 40);
        struct hx_analysis analysis = some_analysis(random);
        int64_t id;
        analysis.hold.holders = true;
        record(random, s);
        give_account(random, s);
        assert_done(hx_store_add(store, s, &analysis, NULL, &id));
        hx_snapshot_destroy(s);
    }
}

/* --- what has to hold ---------------------------------------------------------------- */

static void check_census(hx_store *store, const struct hx_stored_census *census)
{
    struct hx_text all = {0}, one = {0}, sql = {0};
    bool counted = strcmp(census->total, "heap_bytes") == 0;
    /* words are not judged in each of them, and holders may be off */
    const char *made = strcmp(census->name, "holder") == 0
                           ? "(SELECT holders FROM censuses AS c WHERE c.snapshot = s.snapshot)"
                       : strcmp(census->name, "shape") == 0 ? "stray_edges IS NOT NULL"
                                                            : "1";
    hx_census_sql(census, 0, &all);
    hx_text_putf(&sql,
                 "SELECT snapshot, %s, %s FROM snapshots AS s WHERE %s AND (%s, %s) IS NOT"
                 " (SELECT coalesce(sum(bytes), 0), %s FROM (%s) AS c"
                 " WHERE c.snapshot = s.snapshot)",
                 census->total, counted ? "heap_objects" : "NULL", made, census->total,
                 counted ? "heap_objects" : "NULL",
                 counted ? "coalesce(sum(objects), 0)" : "max(objects)", hx_text_str(&all));
    assert_nothing(store, hx_text_str(&sql));
    hx_text_clear(&sql);
    hx_text_putf(&sql,
                 "SELECT * FROM (%s) GROUP BY snapshot, key HAVING count(*) > 1 OR key IS NULL"
                 " OR label IS NULL OR objects = 0",
                 hx_text_str(&all));
    assert_nothing(store, hx_text_str(&sql));
    for (int i = 1; i <= SNAPSHOTS; i++) {
        hx_text_putf(&one, "%sSELECT * FROM (", i > 1 ? " UNION ALL " : "");
        hx_census_sql(census, i, &one);
        hx_text_puts(&one, ")");
    }
    /* EXCEPT and UNION ALL have one rank: the statements go into brackets */
    hx_text_clear(&sql);
    hx_text_putf(&sql, "SELECT * FROM (%s)", hx_text_str(&one));
    hx_text_clear(&one);
    hx_text_putf(&one, "SELECT * FROM (%s)", hx_text_str(&all));
    assert_same_rows(store, hx_text_str(&sql), hx_text_str(&one));
    hx_text_free(&all);
    hx_text_free(&one);
    hx_text_free(&sql);
}

/* The views say the same in other words. */
static void check_views(hx_store *store)
{
    static const struct {
        const char *census, *view;
    } same[] = {
        {"retainer", "SELECT snapshot, set_id, label, bytes, objects FROM retainers"},
        {"holder", "SELECT snapshot, holder, holder, bytes, objects FROM holders"},
        {"shape", "SELECT snapshot, shape, shape, bytes, objects FROM shapes"},
        {"bin", "SELECT snapshot, roots, roots, bytes, objects FROM bins"},
        {"type", "SELECT snapshot, type, type, bytes, objects FROM types"},
        {"module", "SELECT snapshot, module, module, bytes, objects FROM modules"},
        {"account", "SELECT snapshot, part, part, bytes, NULL FROM account"},
        {"leak", "SELECT snapshot, kind, kind, sum(bytes), sum(objects) FROM leaks GROUP BY 1, 2"
                 " UNION ALL SELECT snapshot, 'reachable', 'reachable', sum(bytes), count(*)"
                 " FROM objects WHERE state = 'reachable' GROUP BY 1"},
        {"site", "SELECT snapshot, stack_id, site, bytes, objects FROM stacks WHERE objects > 0"
                 " UNION SELECT s.snapshot, s.stack_id, t.label, s.bytes, s.objects"
                 " FROM hx_stack_site AS s JOIN hx_stack AS t USING(stack_id)"},
    };
    for (size_t i = 0; i < sizeof same / sizeof *same; i++) {
        struct hx_text sql = {0}, view = {0};
        hx_text_puts(&sql, "SELECT * FROM (");
        hx_census_sql(hx_census_find(same[i].census), 0, &sql);
        hx_text_puts(&sql, ")");
        hx_text_putf(&view, "SELECT * FROM (%s)", same[i].view);
        assert_same_rows(store, hx_text_str(&sql), hx_text_str(&view));
        hx_text_free(&sql);
        hx_text_free(&view);
    }
    struct hx_text sql = {0};
    hx_text_puts(&sql, "SELECT snapshot, key, bytes, objects FROM (");
    hx_census_sql(hx_census_find("ccs"), 0, &sql);
    hx_text_puts(&sql, ")");
    assert_same_rows(store, hx_text_str(&sql),
                     "SELECT snapshot, ccs_id, bytes, objects FROM sites");
    hx_text_free(&sql);
}

static void sums(void **state)
{
    (void)state;
    struct unit_random random = unit_random_begin("sums");
    char *directory = model_directory(), *path = model_path(directory, "store");
    for (size_t round = unit_rounds(30); round > 0; round--) {
        hx_store *store;
        assert_done(hx_store_append(path, &store));
        store_random(&random, store);
        assert_done(hx_store_close(store));
        assert_done(hx_store_open(path, &store));
        for (const struct hx_stored_census *c = hx_stored_censuses; c->name; c++)
            if (strcmp(c->name, "biography") != 0) /* which only imported profiles have */
                check_census(store, c);
        check_views(store);
        assert_done(hx_store_close(store));
        assert_int_equal(unlink(path), 0);
    }
    free(path);
    model_remove(directory);
}

/* Labels are those of the rows, also when they are asked for afterwards. */
static void labels(void **state)
{
    (void)state;
    struct unit_random random = unit_random_begin("labels");
    hx_store *store;
    assert_done(hx_store_temporary(&store));
    store_random(&random, store);
    for (const struct hx_stored_census *c = hx_stored_censuses; c->name; c++) {
        assert_true(c->view || !(c->formats & HX_CENSUS_SHEET)); /* a sheet is of a view */
        assert_true(!c->of || c->of[0] == ' ');
        struct hx_text sql = {0};
        hx_text_puts(&sql, "SELECT * FROM (");
        hx_census_sql(c, 0, &sql);
        hx_text_puts(&sql, ") AS rows WHERE label IS NOT ");
        hx_census_label_sql(c, "rows.key", &sql);
        assert_nothing(store, hx_text_str(&sql));
        hx_text_free(&sql);
    }
    assert_null(hx_census_find("nothing"));
    assert_string_equal(hx_census_find("bin")->view, "bins");
    assert_done(hx_store_close(store));
}

/* Without an analysis there is no row of what it would tell. */
static void not_made(void **state)
{
    (void)state;
    struct unit_random random = unit_random_begin("not_made");
    struct hx_snapshot *s = model_to_analyse(&random, 40);
    hx_store *store;
    int64_t id;
    assert_done(hx_store_temporary(&store));
    assert_done(hx_store_add(store, s, NULL, NULL, &id));
    static const char *const absent[] = {"retainer", "holder", "bin",   "type",
                                         "ccs",      "site",   "module"};
    for (size_t i = 0; i < sizeof absent / sizeof *absent; i++) {
        struct hx_text sql = {0};
        hx_census_sql(hx_census_find(absent[i]), id, &sql);
        assert_nothing(store, hx_text_str(&sql));
        hx_text_free(&sql);
    }
    hx_snapshot_destroy(s);
    assert_done(hx_store_close(store));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sums),
        cmocka_unit_test(labels),
        cmocka_unit_test(not_made),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
