/* test_window.c - windows of objects in any order, with conditions: what one pass over the columns
 * finds is what SQLite finds by sorting rows. */
#include "analysis_check.h"

#include "store/query.h"

enum { LARGE = 150000 }; /* three blocks */

static const char *const columns[] = {
    "address",
    "bytes",
    "requested",
    "type",
    "state",
    "set_id",
    "bin",
    "ccs_id",
    "retained_bytes",
    "retained_objects",
    "edges_in",
    "edges_out",
    "sure_retained_bytes",
    "sure_retained_objects",
};
enum { COLUMNS = sizeof columns / sizeof *columns };

static const char *some_column(struct unit_random *random)
{
    return columns[unit_below(random, COLUMNS)];
}

/* What a column holds in some row, as a literal. */
static char *some_value(struct unit_random *random, hx_store *store, const char *column,
                        uint64_t objects)
{
    struct hx_text text = {0}, sql = {0};
    hx_text_putf(&sql, "SELECT quote(%s) FROM objects WHERE rowid = %llu", column,
                 (unsigned long long)((uint64_t)1 << 40 | unit_below(random, objects)));
    tell(store, &text, hx_text_str(&sql));
    hx_text_free(&sql);
    char *value = text.s ? text.s : strdup("NULL|\n");
    value[strlen(value) - 2] = 0; /* what tell() puts behind it */
    return value;
}

static void put_condition(struct unit_random *random, hx_store *store, uint64_t objects,
                          struct hx_text *ret)
{
    static const char *const others[] = {"-1",   "0",     "17.5", "-0.5", "'abc'", "NULL",
                                         "1e30", "-1e30", "'24'", "24.0", "x'00'"};
    static const char *const signs[] = {"=", "<", "<=", ">", ">=", "IS", "="};
    const char *column = some_column(random);
    char *value = unit_below(random, 4)
                      ? some_value(random, store, column, objects)
                      : strdup(others[unit_below(random, sizeof others / sizeof *others)]);
    size_t kind = unit_below(random, 9);
    if (kind < 7)
        hx_text_putf(ret, " AND %s %s %s", column, signs[kind], value);
    else
        hx_text_putf(ret, " AND %s %s", column, kind == 7 ? "IS NULL" : "IS NOT NULL");
    free(value);
}

/* The rows as they come from the object table, and from a copy that SQLite makes of them. */
#define ROWS "SELECT address, bytes, type, state, retained_bytes, edges_in, dominator FROM "
#define COPY "(SELECT * FROM objects WHERE snapshot = 1 LIMIT 1000000000) WHERE 1"

static bool has_plan(hx_store *store, const char *sql)
{
    hx_rows *rows;
    hx_error *error = hx_query_sql(store, sql, &rows);
    bool there = !error;
    hx_error_free(error);
    if (there)
        hx_rows_end(rows);
    return there;
}

static void compare(struct unit_random *random, hx_store *store, uint64_t objects)
{
    struct hx_text where = {0}, found = {0}, expected = {0}, a = {0}, b = {0};
    for (size_t n = unit_below(random, 4); n > 0; n--)
        put_condition(random, store, objects, &where);
    const char *sort = some_column(random);
    bool down = unit_below(random, 2), last = !down && unit_below(random, 2);
    unsigned long long limit = unit_below(random, unit_below(random, 3) ? 40 : objects + 2);
    unsigned long long offset = unit_below(random, unit_below(random, 2) ? objects + 10 : 50);
    hx_text_putf(&a, ROWS "objects WHERE snapshot = 1%s%s ORDER BY %s%s, address",
                 last ? " AND nulls_last = 1" : "", hx_text_str(&where), sort, down ? " DESC" : "");
    hx_text_putf(&b, ROWS COPY "%s ORDER BY %s%s, address", hx_text_str(&where), sort,
                 down   ? " DESC"
                 : last ? " NULLS LAST"
                        : "");
    hx_text_putf(&a, " LIMIT %llu OFFSET %llu", limit, offset);
    hx_text_putf(&b, " LIMIT %llu OFFSET %llu", limit, offset);
    if (last && !has_plan(store, hx_text_str(&a))) /* the table may not be able to test it all */
        hx_text_clear(&a), hx_text_puts(&a, hx_text_str(&b));
    tell(store, &found, hx_text_str(&a));
    tell(store, &expected, hx_text_str(&b));
    if (strcmp(hx_text_str(&found), hx_text_str(&expected)) != 0)
        print_error("%s\n", hx_text_str(&a));
    assert_same_lines(hx_text_str(&found), hx_text_str(&expected));
    struct hx_query query = {
        .view = "objects", .snapshot = 1, .where = where.n ? where.s + 5 : NULL, .limit = -1};
    int64_t counted;
    assert_done(hx_query_count(store, &query, &counted));
    hx_text_clear(&b);
    hx_text_putf(&b, "SELECT count(*) FROM " COPY "%s", hx_text_str(&where));
    if (counted != ask_int(store, hx_text_str(&b)))
        fail_msg("%s: %lld", hx_text_str(&b), (long long)counted);
    hx_text_free(&where), hx_text_free(&found), hx_text_free(&expected);
    hx_text_free(&a), hx_text_free(&b);
}

static void analysed(void **state)
{
    (void)state;
    struct unit_random random = unit_random_begin("analysed");
    for (size_t round = 0; round < unit_rounds(20); round++) {
        struct hx_snapshot *s = model_to_analyse(&random, 40);
        struct hx_analysis analysis = {.scheme = hx_scheme_find("root"), .max_set = 8};
        hx_store *store;
        int64_t id;
        assert_done(hx_store_temporary(&store));
        assert_done(hx_store_add(store, s, &analysis, NULL, &id));
        for (int i = 0; i < 50 && s->graph.n; i++)
            compare(&random, store, s->graph.n);
        hx_snapshot_destroy(s);
        assert_done(hx_store_close(store));
    }
}

static void large(void **state)
{
    (void)state;
    struct unit_random random = unit_random_begin("large");
    struct hx_snapshot *s = model_snapshot(&random, LARGE);
    hx_store *store;
    int64_t id;
    assert_done(hx_store_temporary(&store));
    assert_done(hx_store_add(store, s, NULL, NULL, &id));
    for (size_t i = 0; i < unit_rounds(20); i++)
        compare(&random, store, s->graph.n);
    hx_snapshot_destroy(s);
    assert_done(hx_store_close(store));
}

/* Ascending lists of the explorer have what is not known at their end. */
static void nulls_last(void **state)
{
    (void)state;
    struct unit_random random = unit_random_begin("nulls_last");
    struct hx_snapshot *s = model_to_analyse(&random, 40);
    struct hx_query query = {.view = "objects",
                             .snapshot = 1,
                             .sort = "retained_bytes",
                             .ascending = true,
                             .limit = 1000};
    hx_store *store;
    int64_t id;
    assert_done(hx_store_temporary(&store));
    assert_done(hx_store_add(store, s, NULL, NULL, &id));
    for (int i = 0; i < 2; i++) {
        hx_rows *rows;
        bool more = true, null = false;
        assert_done(hx_query_view(store, &query, &rows));
        for (int64_t before = -1; more;) {
            assert_done(hx_rows_next(rows, &more));
            struct hx_value value = hx_rows_value(rows, 10);
            if (!more)
                break;
            assert_false(null && value.type != HX_VALUE_NULL);
            null = value.type == HX_VALUE_NULL;
            assert_true(null || value.i >= before);
            before = value.i;
        }
        hx_rows_end(rows);
        query.where = "bytes % 16 = 8"; /* SQLite has to test this */
    }
    hx_snapshot_destroy(s);
    assert_done(hx_store_close(store));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(analysed),
        cmocka_unit_test(large),
        cmocka_unit_test(nulls_last),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
