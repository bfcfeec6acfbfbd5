/* test_answer.c - answers to SQL that are kept: values as they were, names, bounds, errors. */
#include "store_model.h"

#include "store/answer.h"

#include <pthread.h>

static int64_t next_id = 1;

/* Asks, and gives the answer's id back through it. */
static void ask(hx_store *store, const char *sql, struct hx_answer *ret)
{
    struct hx_answer_place place;
    assert_done(hx_answer_make(store, next_id++, sql, NULL, &place, ret));
}

/* The error of a statement, and where it is. */
static void refuse(hx_store *store, const char *sql, const char *word, size_t offset)
{
    struct hx_answer_place place;
    struct hx_answer answer;
    assert_refused(hx_answer_make(store, next_id++, sql, NULL, &place, &answer), HX_E_USAGE, word);
    assert_true(place.offset == offset);
}

/* The first row of a statement as "a|b|c". */
static void assert_row(hx_store *store, const char *sql, const char *expected)
{
    hx_rows *rows;
    bool more = false;
    struct hx_text text = {0};
    assert_done(hx_query_sql(store, sql, &rows));
    assert_done(hx_rows_next(rows, &more));
    assert_true(more);
    for (size_t i = 0; i < hx_rows_columns(rows); i++) {
        struct hx_value value = hx_rows_value(rows, i);
        hx_text_puts(&text, i ? "|" : "");
        if (value.type == HX_VALUE_INT)
            hx_text_putf(&text, "%lld", (long long)value.i);
        else if (value.type == HX_VALUE_REAL)
            hx_text_putf(&text, "%g", value.real);
        else if (value.type == HX_VALUE_TEXT)
            hx_text_putn(&text, value.text, value.text_bytes);
        else
            hx_text_puts(&text, "NULL");
    }
    assert_string_equal(hx_text_str(&text), expected);
    hx_text_free(&text);
    hx_rows_end(rows);
}

static void test_values(void **state)
{
    hx_store *store;
    struct hx_answer answer;
    char sql[200];
    (void)state;
    assert_done(hx_store_temporary(&store));
    ask(store,
        "SELECT 1, 2.5, NULL, 'text', x'00ff', 9223372036854775807, '12' UNION ALL"
        " SELECT -7, NULL, 1, 'b', NULL, 1, 13",
        &answer);
    assert_int_equal(answer.n_columns, 7);
    assert_int_equal(answer.rows, 2);
    assert_false(answer.cut);
    assert_true(answer.columns[0].values == HX_ANSWER_INTS && answer.columns[0].least == -7 &&
                answer.columns[0].most == 1);
    assert_true(answer.columns[1].values == (HX_ANSWER_REALS | HX_ANSWER_NULLS));
    assert_true(answer.columns[6].values == (HX_ANSWER_TEXTS | HX_ANSWER_INTS));
    snprintf(sql, sizeof sql, "SELECT *, typeof(%s) FROM %s", answer.columns[6].name, answer.table);
    assert_row(store, sql, "1|2.5|NULL|text|x'00ff'|9223372036854775807|12|text");
    hx_answer_deinit(&answer);
    ask(store, "PRAGMA table_info(bins)", &answer);
    assert_true(answer.rows > 2);
    hx_answer_deinit(&answer);
    assert_done(hx_store_close(store));
}

static void test_column_names(void **state)
{
    static const char *const names[] = {"bytes", "bytes_2", "BYTES_3", "sum_bytes", "count",
                                        "null_", "c_1",     "column",  "a_b_c",     "column_2"};
    hx_store *store;
    struct hx_answer answer;
    (void)state;
    assert_done(hx_store_temporary(&store));
    ask(store,
        "SELECT 1 AS bytes, 2 AS bytes, 3 AS BYTES, sum(0) AS \"sum(bytes)\", 1 AS \"count(*)\","
        " NULL, 1 AS \"1\", 1 AS \"\", 1 AS \"a\"\"b'; c\", 1 AS \"*\"",
        &answer);
    assert_int_equal(answer.n_columns, sizeof names / sizeof *names);
    for (size_t i = 0; i < answer.n_columns; i++)
        if (i != 5) /* as it stands there, in the case of the statement */
            assert_string_equal(answer.columns[i].name, names[i]);
    assert_string_equal(answer.columns[5].name, "NULL_");
    assert_string_equal(answer.columns[8].given, "a\"b'; c");
    hx_answer_deinit(&answer);
    assert_done(hx_store_close(store));
}

static void test_refused(void **state)
{
    hx_store *store;
    struct hx_answer answer;
    (void)state;
    assert_done(hx_store_temporary(&store));
    refuse(store, "SELECT * FORM objects", "near \"FORM\"", 9);
    refuse(store, "SELECT * FROM objcts", "did you mean objects?", 14);
    refuse(store, "SELECT \xc3\xa9, byts FROM bins", "no such column: \xc3\xa9", 7);
    refuse(store, "SELECT byts FROM bins", "did you mean bytes?", 7);
    refuse(store, "SELECT nothing_like_it FROM bins", "there are: snapshot, roots", 7);
    refuse(store, "DELETE FROM hx_snapshot", "only reading", SIZE_MAX);
    refuse(store, "CREATE TEMP TABLE x (y)", "only reading", SIZE_MAX);
    refuse(store, "ATTACH 'x' AS x", "only reading", SIZE_MAX);
    refuse(store, "PRAGMA journal_mode = DELETE", "only reading", SIZE_MAX);
    refuse(store, "BEGIN", "", SIZE_MAX);
    refuse(store, "SELECT 1; SELECT 2", "more than one", SIZE_MAX);
    refuse(store, " -- nothing\n", "no statement", SIZE_MAX);
    refuse(store, "SELECT abs(-9223372036854775807 - 1)", "integer overflow", SIZE_MAX);
    /* nothing of them is left that would be in the way */
    ask(store, "SELECT count(*) FROM snapshots; -- that is all", &answer);
    assert_int_equal(answer.rows, 1);
    hx_answer_deinit(&answer);
    assert_done(hx_store_close(store));
}

static void test_bounds(void **state)
{
    static const char endless[] =
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i%s FROM n";
    hx_store *store;
    struct hx_answer answer;
    char sql[200], table[64];
    (void)state;
    assert_done(hx_store_temporary(&store));
    if (!unit_quick()) {
        snprintf(sql, sizeof sql, endless, "");
        ask(store, sql, &answer);
        assert_true(answer.cut && answer.rows == HX_ANSWER_ROWS);
        assert_int_equal(answer.columns[0].most, HX_ANSWER_ROWS);
        hx_answer_deinit(&answer);
    }
    snprintf(sql, sizeof sql, endless, ", zeroblob(1000000)");
    ask(store, sql, &answer);
    assert_true(answer.cut && answer.rows > 0 && answer.rows < 1000);
    snprintf(sql, sizeof sql, "SELECT length(%s) FROM %s LIMIT 1", answer.columns[1].name,
             answer.table);
    assert_row(store, sql, "1048581"); /* x', the digits, ... */
    snprintf(table, sizeof table, "SELECT * FROM %s", answer.table);
    assert_done(hx_answer_drop(store, answer.id));
    assert_done(hx_answer_drop(store, answer.id));
    hx_answer_deinit(&answer);
    hx_rows *rows;
    assert_refused(hx_query_sql(store, table, &rows), HX_E_USAGE, "no such table");
    assert_done(hx_store_close(store));
}

/* One column of some rows as "1 2 3". */
static void assert_window(hx_store *store, const struct hx_answer_query *query,
                          const char *expected)
{
    hx_rows *rows;
    bool more = false;
    struct hx_text text = {0};
    assert_done(hx_answer_rows(store, query, &rows));
    for (;;) {
        assert_done(hx_rows_next(rows, &more));
        if (!more)
            break;
        struct hx_value value = hx_rows_value(rows, 0);
        if (value.type == HX_VALUE_INT)
            hx_text_putf(&text, "%lld ", (long long)value.i);
        else
            hx_text_puts(&text, "- ");
    }
    assert_string_equal(hx_text_str(&text), expected);
    hx_text_free(&text);
    hx_rows_end(rows);
}

/* Windows of any order are parts of one list, and NULL comes last. */
static void test_windows(void **state)
{
    hx_store *store;
    struct hx_answer answer;
    (void)state;
    assert_done(hx_store_temporary(&store));
    ask(store, "SELECT column1 AS x, column2 AS y FROM (VALUES (3, 1), (1, 2), (NULL, 1), (2, 2))",
        &answer);
    struct hx_answer_query query = {.table = answer.table, .limit = -1};
    assert_window(store, &query, "3 1 - 2 ");
    query.offset = 1, query.limit = 2;
    assert_window(store, &query, "1 - ");
    query.sort = "x";
    assert_window(store, &query, "2 1 ");
    query.ascending = true;
    assert_window(store, &query, "2 3 ");
    query.offset = 0, query.limit = INT64_MAX;
    assert_window(store, &query, "1 2 3 - ");
    query.sort = "y";
    assert_window(store, &query, "3 - 1 2 ");
    query.where = "x > 1";
    assert_window(store, &query, "3 2 ");
    query.sort = NULL;
    query.offset = 1;
    assert_window(store, &query, "2 ");
    query.columns = "a.y AS \"y*\"";
    assert_window(store, &query, "2 ");
    query.offset = INT64_MAX;
    assert_window(store, &query, "");
    hx_answer_deinit(&answer);
    assert_done(hx_store_close(store));
}

/* Interrupts until the statement has heard of it. */
struct interrupting {
    hx_store *store;
    atomic_bool ended;
};

static void *interrupt(void *context)
{
    struct interrupting *interrupting = context;
    while (!atomic_load(&interrupting->ended)) {
        usleep(20000);
        hx_store_interrupt(interrupting->store);
    }
    return NULL;
}

static void test_interrupted(void **state)
{
    struct interrupting interrupting = {0};
    struct hx_answer_place place;
    struct hx_answer answer;
    pthread_t thread;
    (void)state;
    assert_done(hx_store_temporary(&interrupting.store));
    assert_int_equal(pthread_create(&thread, NULL, interrupt, &interrupting), 0);
    hx_error *error = hx_answer_make(
        interrupting.store, next_id++,
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n",
        NULL, &place, &answer);
    atomic_store(&interrupting.ended, true);
    pthread_join(thread, NULL);
    assert_true(error && error->kind == HX_E_CANCEL);
    hx_error_free(error);
    ask(interrupting.store, "SELECT 1", &answer);
    hx_answer_deinit(&answer);
    assert_done(hx_store_close(interrupting.store));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_values),  cmocka_unit_test(test_column_names),
        cmocka_unit_test(test_refused), cmocka_unit_test(test_bounds),
        cmocka_unit_test(test_windows), cmocka_unit_test(test_interrupted),
    };
    return unit_run_some(tests);
}
