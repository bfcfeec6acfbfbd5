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

static void compare_texts(const char *what, struct hx_text *found, struct hx_text *expected)
{
    if (strcmp(hx_text_str(found), hx_text_str(expected)) != 0)
        print_error("%s\n", what);
    assert_same_lines(hx_text_str(found), hx_text_str(expected));
    hx_text_clear(found), hx_text_clear(expected);
}

/* Which row of all is that of an address; -1: none. */
static int64_t place_of(hx_store *store, const struct hx_query *query, int64_t address)
{
    hx_rows *rows;
    struct hx_query all = *query;
    int64_t at = 0, place = -1;
    all.offset = 0, all.limit = 1000000000;
    assert_done(hx_query_view(store, &all, &rows));
    for (bool more = true; place < 0; at++) {
        assert_done(hx_rows_next(rows, &more));
        if (!more)
            break;
        if (hx_rows_value(rows, 1).i == address)
            place = at;
    }
    hx_rows_end(rows);
    return place;
}

/* The same by a call, which puts what is not known behind all others. */
static void compare_call(struct unit_random *random, hx_store *store, uint64_t objects,
                         const struct hx_query *query)
{
    struct hx_text found = {0}, expected = {0}, sql = {0};
    hx_rows *rows;
    const char *where = query->where ? query->where : "1";
    int64_t count, address, place;
    assert_done(hx_query_view(store, query, &rows));
    tell_rows(rows, &found);
    hx_text_putf(&sql,
                 "SELECT * FROM " COPY " AND (%s) ORDER BY %s %s, address LIMIT %lld OFFSET %lld",
                 where, query->sort, query->ascending ? "NULLS LAST" : "DESC",
                 (long long)query->limit, (long long)query->offset);
    tell(store, &expected, hx_text_str(&sql));
    compare_texts(hx_text_str(&sql), &found, &expected);
    hx_text_clear(&sql);
    hx_text_putf(&sql, "SELECT count(*) FROM " COPY " AND (%s)", where);
    assert_done(hx_query_count(store, query, &count));
    if (count != ask_int(store, hx_text_str(&sql)))
        fail_msg("%s: %lld", hx_text_str(&sql), (long long)count);
    hx_text_clear(&sql);
    hx_text_putf(&sql, "SELECT address + %d FROM objects WHERE rowid = %llu",
                 unit_below(random, 8) ? 0 : 1,
                 (unsigned long long)((uint64_t)1 << 40 | unit_below(random, objects)));
    address = ask_int(store, hx_text_str(&sql));
    assert_done(hx_query_place(store, query, (uint64_t)address, false, &place));
    if (place >= 0 || !query->where) /* else it may be more than a pass can tell */
        assert_int_equal(place, place_of(store, query, address));
    assert_done(hx_query_place(store, query, (uint64_t)address, true, &count));
    assert_true(count == place || (count == -1 && place >= 2048));
    hx_text_free(&found), hx_text_free(&expected), hx_text_free(&sql);
}

static void compare(struct unit_random *random, hx_store *store, uint64_t objects)
{
    struct hx_text where = {0}, found = {0}, expected = {0}, a = {0}, b = {0};
    for (size_t n = unit_below(random, 4); n > 0; n--)
        put_condition(random, store, objects, &where);
    const char *sort = some_column(random);
    bool down = unit_below(random, 2);
    unsigned long long limit = unit_below(random, unit_below(random, 3) ? 40 : objects + 2);
    unsigned long long offset = unit_below(random, unit_below(random, 2) ? objects + 10 : 50);
    hx_text_putf(&a, ROWS "objects WHERE snapshot = 1");
    hx_text_putf(&b, ROWS COPY);
    for (int i = 0; i < 2; i++)
        hx_text_putf(i ? &a : &b, "%s ORDER BY %s%s, address LIMIT %llu OFFSET %llu",
                     hx_text_str(&where), sort, down ? " DESC" : "", limit, offset);
    tell(store, &found, hx_text_str(&a));
    tell(store, &expected, hx_text_str(&b));
    compare_texts(hx_text_str(&a), &found, &expected);
    struct hx_query query = {.view = "objects",
                             .snapshot = 1,
                             .sort = sort,
                             .ascending = !down,
                             .where = where.n ? where.s + 5 : NULL,
                             .limit = (int64_t)limit,
                             .offset = (int64_t)offset};
    compare_call(random, store, objects, &query);
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
    while (!s->graph.n) { /* an address is asked for */
        hx_snapshot_destroy(s);
        s = model_to_analyse(&random, 40);
    }
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
    int64_t place; /* only where a pass can tell it is it told */
    assert_done(hx_query_place(store, &query, s->graph.addr[0], false, &place));
    assert_int_equal(place, -1);
    query.where = "bytes > (SELECT min(bytes) FROM objects WHERE snapshot = 1)";
    assert_done(hx_query_place(store, &query, s->graph.addr[0], false, &place));
    assert_int_equal(place, -1);
    query.where = "bytes < 'SELECT'"; /* a text, above all numbers */
    assert_done(hx_query_place(store, &query, s->graph.addr[0], false, &place));
    assert_int_equal(place, place_of(store, &query, (int64_t)s->graph.addr[0]));
    assert_true(place >= 0);
    query.snapshot = 9;
    query.where = NULL;
    assert_done(hx_query_place(store, &query, s->graph.addr[0], false, &place));
    assert_int_equal(place, -1);
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
    return unit_run_some(tests);
}
