/* test_histogram.c - histograms of chosen objects, against sums over the table of objects. */
#include "analysis_check.h"

#include "store/query/histogram.h"

/* What is chosen, in the filter language and in SQL. */
static const struct {
    const char *of, *sql;
} choices[] = {
    {NULL, "1"},
    {"bytes > 200", "bytes > 200"},
    {"state = 'definite' or type = 'Node'", "state = 'definite' OR type IS 'Node'"},
    {"set = 2", "set_id = 2"},
    {"retainer = 'r1'", "set_id IN (SELECT set_id FROM retainer_members WHERE label = 'r1')"},
    {"thread = '1'", "set_id IN (SELECT set_id FROM retainer_members WHERE label = 'thread 1'"
                     " AND kind = 'thread')"},
    {"label = 'r, 1, r1'", "set_id IN (SELECT set_id FROM retainers WHERE label = 'r, 1, r1')"},
    {"root = 'r1'", "address IN (SELECT e.target FROM root_edges e JOIN roots r USING(snapshot,"
                    " root_id) WHERE r.name = 'r1' AND e.snapshot = o.snapshot)"},
    {"retainer = 'r1' and bytes > 50",
     "bytes > 50 AND set_id IN (SELECT set_id FROM retainer_members WHERE label = 'r1')"},
    {"root = 'r1' or set = 0", "set_id = 0 OR address IN (SELECT e.target FROM root_edges e JOIN"
                               " roots r USING(snapshot, root_id) WHERE r.name = 'r1'"
                               " AND e.snapshot = o.snapshot)"},
    {"root is null and retainer = 'r1'",
     "address NOT IN (SELECT target FROM root_edges e WHERE e.snapshot = o.snapshot)"
     " AND set_id IN (SELECT set_id FROM retainer_members WHERE label = 'r1')"},
};

static const char *const keys[][2] = {
    {"type", "coalesce(type, '(unknown)')"},
    {"shape", "coalesce(shape, '(unknown)')"},
    {"size", "hx_size_class(bytes)"},
    {"state", "state"},
    {"site", "'(unknown)'"},
};

static void compare(hx_store *store, int64_t id, size_t choice, const char *by, const char *key)
{
    struct hx_text sql = {0}, where = {0};
    char expected[1024];
    if (choices[choice].of)
        assert_done(hx_objects_where(choices[choice].of, id, &where));
    hx_text_puts(&sql, "SELECT key, bytes, objects, snapshot FROM (");
    hx_histogram_sql(by, id, hx_text_str(&where), &sql);
    hx_text_puts(&sql, ") ORDER BY 1");
    snprintf(expected, sizeof expected,
             "SELECT %s, sum(bytes), count(*), snapshot FROM objects o WHERE snapshot = %d"
             " AND (%s) GROUP BY 1 ORDER BY 1",
             key, (int)id, choices[choice].sql);
    char *found = tell_format(store, "%s", hx_text_str(&sql));
    char *wanted = tell_format(store, "%s", expected);
    assert_same_lines(found, wanted);
    free(found);
    free(wanted);
    hx_text_free(&sql);
    hx_text_free(&where);
}

static void sums(void **state)
{
    (void)state;
    struct unit_random random = unit_random_begin("sums");
    for (size_t round = unit_rounds(60); round; round--) {
        hx_store *store;
        int64_t id;
        struct hx_analysis analysis = {.scheme = hx_scheme_find("root")};
        struct hx_snapshot *s = model_to_analyse(&random, MODEL_MAX);
        assert_done(hx_store_temporary(&store));
        assert_done(hx_store_add(store, s, &analysis, NULL, &id));
        hx_snapshot_destroy(s);
        for (size_t choice = 0; choice < sizeof choices / sizeof *choices; choice++)
            for (size_t k = 0; k < sizeof keys / sizeof *keys; k++)
                compare(store, id, choice, keys[k][0], keys[k][1]);
        assert_done(hx_store_close(store));
    }
}

/* One heap three times, the second time with larger objects: they are new, and new again. */
static void ages(void **state)
{
    (void)state;
    hx_store *store;
    int64_t id;
    assert_done(hx_store_temporary(&store));
    for (int i = 0; i < 4; i++) {
        struct hx_snapshot *s = two_roots("a", "b");
        s->graph.size[0] += i == 1 ? 8 : 0;
        s->heap_bytes += i == 1 ? 8 : 0;
        assert_done(hx_store_add(store, s, NULL, NULL, &id));
        hx_snapshot_destroy(s);
    }
    struct hx_text sql = {0};
    hx_text_puts(&sql, "SELECT key, objects FROM (");
    hx_histogram_sql("age", id, "", &sql);
    hx_text_puts(&sql, ") ORDER BY 1");
    char *found = tell_format(store, "%s", hx_text_str(&sql));
    assert_string_equal(found, "since snapshot 1 or before|2|\nsince snapshot 3|1|\n");
    free(found);
    hx_text_free(&sql);
    assert_done(hx_store_close(store));
}

static void refused(void **state)
{
    (void)state;
    struct hx_text where = {0};
    assert_refused(hx_objects_where("frob = 1", 1, &where), HX_E_USAGE, "frob");
    assert_refused(hx_objects_where("retainer", 1, &where), HX_E_USAGE, "comparison");
    assert_refused(hx_objects_where("", 1, &where), HX_E_USAGE, "condition");
    hx_text_free(&where);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sums),
        cmocka_unit_test(ages),
        cmocka_unit_test(refused),
    };
    return unit_run_some(tests);
}
