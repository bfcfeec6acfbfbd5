/* test_filter.c - the filter language: src/query/filter*.c and regexp.c.
 *
 * Random conditions over random rows are judged three times: by the evaluator, by a walk over
 * the tree that they were drawn from, and by SQLite. */
#include "unit.h"

#include "base/cleanup.h"
#include "query/filter.h"
#include "query/regexp.h"

#include <math.h>
#include <regex.h>
#include <sqlite3.h>

/* --- rows -------------------------------------------------------------------------- */

enum { I, J, R, T, U, X, Y, Z, COLUMNS };

/* What SQL declares is part of the trap: X, Y and Z are of unknown class, with every affinity. */
static const char *const declared[] = {"INTEGER", "INTEGER", "REAL", "TEXT",
                                       "TEXT",    "",        "TEXT", "INTEGER"};
static const struct hx_filter_column columns[] = {
    {NULL, "i", HX_FILTER_NUMBER, I}, {NULL, "j", HX_FILTER_NUMBER, J},
    {NULL, "r", HX_FILTER_NUMBER, R}, {NULL, "t", HX_FILTER_TEXT, T},
    {NULL, "u", HX_FILTER_TEXT, U},   {NULL, "x", HX_FILTER_ANY, X},
    {NULL, "y", HX_FILTER_ANY, Y},    {NULL, "z", HX_FILTER_ANY, Z},
};
static const struct hx_filter_schema schema = {columns, COLUMNS, "v"};

struct row {
    struct hx_filter_value value[COLUMNS];
};

static struct hx_filter_value get(void *context, size_t id)
{
    const struct row *row = context;
    return row->value[id];
}

static struct hx_filter_value integer(int64_t i)
{
    return (struct hx_filter_value){.type = HX_FILTER_INT, .i = i};
}

static struct hx_filter_value real(double real)
{
    return (struct hx_filter_value){.type = HX_FILTER_REAL, .real = real};
}

static struct hx_filter_value text(const char *text)
{
    return (struct hx_filter_value){.type = HX_FILTER_STRING, .text = text, .n = strlen(text)};
}

static hx_filter *parsed(const char *condition)
{
    hx_filter *filter = NULL;
    hx_error *err = hx_filter_parse(condition, &schema, NULL, &filter);
    if (err) {
        char line[512];
        hx_error_line(err, line, sizeof line);
        hx_error_free(err);
        fail_msg("%s: %s", condition, line);
    }
    return filter;
}

static bool holds(const char *condition, const struct row *row)
{
    hx_filter *filter = parsed(condition);
    bool is = hx_filter_holds(filter, get, (void *)row);
    hx_filter_destroy(filter);
    return is;
}

/* --- SQLite ------------------------------------------------------------------------ */

static struct hx_filter_value from_sql(sqlite3_value *value)
{
    switch (sqlite3_value_type(value)) {
    case SQLITE_INTEGER:
        return integer(sqlite3_value_int64(value));
    case SQLITE_FLOAT:
        return real(sqlite3_value_double(value));
    case SQLITE_TEXT:
        return (struct hx_filter_value){.type = HX_FILTER_STRING,
                                        .text = (const char *)sqlite3_value_text(value),
                                        .n = (size_t)sqlite3_value_bytes(value)};
    default:
        return (struct hx_filter_value){.type = HX_FILTER_NULL};
    }
}

static void destroy_regexp(void *regexp)
{
    hx_regexp_destroy(regexp);
}

/* What the store is to register. */
static void sql_regexp(sqlite3_context *context, int n, sqlite3_value **arguments)
{
    (void)n;
    struct hx_filter_value value = from_sql(arguments[1]);
    hx_regexp *regexp = sqlite3_get_auxdata(context, 0), *fresh = NULL;
    if (value.type == HX_FILTER_NULL)
        return;
    if (!regexp) {
        assert_null(hx_regexp_create((const char *)sqlite3_value_text(arguments[0]), &fresh));
        regexp = fresh;
    }
    sqlite3_result_int(context, hx_regexp_matches(regexp, value));
    if (fresh)
        sqlite3_set_auxdata(context, 0, fresh, destroy_regexp);
}

static void run_sql(sqlite3 *db, const char *sql)
{
    if (sqlite3_exec(db, sql, NULL, NULL, NULL) != SQLITE_OK)
        fail_msg("%s: %s", sql, sqlite3_errmsg(db));
}

static sqlite3 *open_table(void)
{
    sqlite3 *db;
    assert_int_equal(sqlite3_open(":memory:", &db), SQLITE_OK);
    assert_int_equal(sqlite3_create_function(db, "regexp", 2, SQLITE_UTF8 | SQLITE_DETERMINISTIC,
                                             NULL, sql_regexp, NULL, NULL),
                     SQLITE_OK);
    struct hx_text sql = {0};
    hx_text_puts(&sql, "CREATE TABLE v(n INTEGER PRIMARY KEY");
    for (size_t c = 0; c < COLUMNS; c++)
        hx_text_putf(&sql, ", %s %s", columns[c].name, declared[c]);
    hx_text_puts(&sql, "); CREATE INDEX v_i ON v(i); CREATE INDEX v_t ON v(t)");
    run_sql(db, hx_text_str(&sql));
    hx_text_free(&sql);
    return db;
}

/* Stores a row and reads back what the columns' affinities have made of it. Texts live in the
 * statement, which the caller keeps. */
static sqlite3_stmt *store_row(sqlite3 *db, int number, struct row *row)
{
    sqlite3_stmt *st;
    assert_int_equal(
        sqlite3_prepare_v2(db, "INSERT INTO v VALUES(?,?,?,?,?,?,?,?,?)", -1, &st, NULL),
        SQLITE_OK);
    sqlite3_bind_int(st, 1, number);
    for (int c = 0; c < COLUMNS; c++) {
        const struct hx_filter_value *value = &row->value[c];
        if (value->type == HX_FILTER_INT)
            sqlite3_bind_int64(st, c + 2, value->i);
        else if (value->type == HX_FILTER_REAL)
            sqlite3_bind_double(st, c + 2, value->real);
        else if (value->type == HX_FILTER_STRING)
            sqlite3_bind_text(st, c + 2, value->text, (int)value->n, SQLITE_TRANSIENT);
    }
    assert_int_equal(sqlite3_step(st), SQLITE_DONE);
    sqlite3_finalize(st);
    assert_int_equal(sqlite3_prepare_v2(db, "SELECT * FROM v WHERE n = ?", -1, &st, NULL),
                     SQLITE_OK);
    sqlite3_bind_int(st, 1, number);
    assert_int_equal(sqlite3_step(st), SQLITE_ROW);
    for (int c = 0; c < COLUMNS; c++) {
        /* what text and its length need is made once, so that asking again moves nothing */
        row->value[c] = from_sql(sqlite3_column_value(st, c + 1));
    }
    return st;
}

/* The rows for which SQLite finds it true, as bits. */
static uint64_t rows_by_sql(sqlite3 *db, const hx_filter *filter)
{
    struct hx_text sql = {0};
    hx_text_puts(&sql, "SELECT n FROM v WHERE n >= 0 AND (");
    hx_filter_sql(filter, &sql);
    hx_text_puts(&sql, ") ORDER BY n LIMIT 1000 OFFSET 0");
    assert_false(sql.failed);
    sqlite3_stmt *st;
    if (sqlite3_prepare_v2(db, hx_text_str(&sql), -1, &st, NULL) != SQLITE_OK)
        fail_msg("%s\n%s: %s", hx_filter_source(filter), hx_text_str(&sql), sqlite3_errmsg(db));
    uint64_t found = 0;
    int code;
    while ((code = sqlite3_step(st)) == SQLITE_ROW)
        found |= UINT64_C(1) << sqlite3_column_int(st, 0);
    assert_int_equal(code, SQLITE_DONE);
    sqlite3_finalize(st);
    hx_text_free(&sql);
    return found;
}

static void check_sql(const char *condition, const char *want)
{
    hx_filter *filter = parsed(condition);
    struct hx_text sql = {0};
    hx_filter_sql(filter, &sql);
    assert_string_equal(hx_text_str(&sql), want);
    hx_text_free(&sql);
    hx_filter_destroy(filter);
}

/* --- grammar ----------------------------------------------------------------------- */

static const struct row sample = {{
    [I] = {.type = HX_FILTER_INT, .i = 1536},
    [J] = {.type = HX_FILTER_NULL},
    [R] = {.type = HX_FILTER_REAL, .real = 0.5},
    [T] = {.type = HX_FILTER_STRING, .text = "it's", .n = 4},
    [U] = {.type = HX_FILTER_STRING, .text = "a\0b", .n = 3},
    [X] = {.type = HX_FILTER_STRING, .text = "10", .n = 2},
    [Y] = {.type = HX_FILTER_INT, .i = -7},
    [Z] = {.type = HX_FILTER_NULL},
}};

#define YES(condition) assert_true(holds(condition, &sample))
#define NO(condition)  assert_false(holds(condition, &sample))

static void operators(void **state)
{
    (void)state;
    YES("i = 1536"), YES("i == 1536"), NO("i != 1536"), NO("i <> 1536");
    YES("i < 1537"), YES("i <= 1536"), YES("i > 1535"), YES("i >= 1536"), NO("i < 1536");
    YES("1535 < i"), NO("1536 < i"), YES("1536 <= i"), YES("1537 > i"), YES("1536 = i");
    YES("i>r"), YES("r<i"), NO("i = r"), YES("r = r");
    YES("I > 1 AND R < 1 Or i is NULL");
    YES("v.i = i"), YES("V.I = 1536");
    YES("\t(\n( i = 1536 )\r)  ");
    YES("1 < 2"), NO("'a' > 'b'");
}

static void numbers(void **state)
{
    (void)state;
    YES("i = 1.5K"), YES("i = 1.5k"), YES("i = 1.5KB"), YES("i = 1.5KiB"), YES("i = 1536B");
    YES("i = 0x600"), YES("i = 0X600"), YES("i = 1536.0"), YES("i = 1.536e3"), YES("i = 15360e-1");
    YES("i < 1M"), YES("i < 1g"), YES("i < 1Ti"), YES("r = .5"), YES("r = 0.5"), YES("i = 01536");
    YES("y = -7"), YES("y=-0x7"), YES("y < -6.5"), YES("y > -0.007K"), YES("r > -1e-300");
    struct row row = sample;
    row.value[I] = integer(INT64_MAX);
    assert_true(holds("i = 9223372036854775807", &row));
    assert_true(holds("i < 9223372036854775808", &row));
    assert_true(holds("i < 0xffffffffffffffff", &row));
    assert_true(holds("i < 8388608T", &row)); /* 2^63 */
    assert_true(holds("i > 9223372036854775806", &row));
    row.value[I] = integer(INT64_MIN);
    assert_true(holds("i = -9223372036854775808", &row));
    assert_true(holds("i > -9223372036854775809.5e1", &row));
    assert_true(holds("i = -8388608T", &row));
    row.value[I] = integer((INT64_C(1) << 53) + 1);
    row.value[R] = real(0x1p53);
    assert_true(holds("i = 9007199254740993", &row));
    assert_true(holds("i != 9007199254740992", &row));
    assert_true(holds("i > 9007199254740992.0", &row));
    assert_true(holds("i > r and r < i and i != r", &row));
    row.value[R] = real(-INFINITY);
    assert_true(holds("r < -1.7e308 and r < i", &row));
    row.value[R] = real(0.1);
    assert_true(holds("r = 0.1", &row));
}

static void texts(void **state)
{
    (void)state;
    YES("t = 'it''s'"), YES("t = \"it's\""), YES("t != 'it''''s'"), YES("t > 'it'"),
        YES("t < 'iu'");
    YES("t != ''"), YES("u > 'a'"), NO("u = 'a'"), YES("t > u");
    YES("t ~ '^it.s$'"), NO("t !~ '^it.s$'"), YES("t !~ 'IT'"), YES("t ~ \"t's\""), YES("t ~ ''");
    YES("u ~ 'b$'"), NO("u ~ '^b'"), YES("t ~ '^(a|it).s$' and t ~ '[[:punct:]]'");
    YES("t ~ '\\.' or t !~ '\\.'");
    struct row row = sample;
    row.value[T] = text("say \"\"\\");
    assert_true(holds("t = \"say \"\"\"\"\\\"", &row));
    assert_true(holds("t = 'say \"\"\\'", &row));
    row.value[T] = text("gr\xc3\xbc\xc3\x9f"
                        "e \xff");
    assert_true(holds("t = 'gr\xc3\xbc\xc3\x9f"
                      "e \xff'",
                      &row));
}

static void numbers_beside_texts(void **state)
{
    (void)state;
    struct row row = sample;
    row.value[T] = text("2G");
    assert_true(holds("t = 2G and 2G = t and t != 2147483648", &row));
    row.value[T] = text("-5");
    assert_true(holds("t = -5", &row));
    YES("i = '1536'"), YES("i = \"1.5K\""), YES("'0x600' = i");
    /* of unknown class: every number is less than every text */
    YES("x = '10'"), NO("x = 10"), YES("x > 1000"), YES("y < '0'"), YES("y < x"), YES("i < x");
    YES("x > i and x < t");
    YES("i ~ '^15'"), NO("i ~ '^16'"), YES("r ~ '^0\\.5$'"), YES("y ~ '-'");
}

static void nulls(void **state)
{
    (void)state;
    NO("j = 1"), NO("j != 1"), NO("j < 1"), NO("j >= 1"), NO("j = j"), NO("z ~ ''"), NO("z !~ ''");
    NO("1 > j"), NO("i > j"), NO("j < i"), YES("not j = 1"), YES("not j != 1"), YES("not z !~ ''");
    YES("j is null"), NO("j is not null"), NO("i is null"), YES("i IS NOT NULL");
    NO("not j is null"), YES("not not j is null"), YES("not i is null");
    YES("not j is not null");
    YES("not (j > 1 or j < 1)"), YES("not (j > 1 and i > 1)"), NO("not (not (j > 1))");
    struct row row = sample;
    row.value[R] = real(NAN);
    assert_true(holds("r is null and not r > 0 and not r ~ '.'", &row));
}

static void precedence(void **state)
{
    (void)state;
    /* yes: i = 1536; no: i = 0 */
    YES("i=1536 or i=0 and i=0"), NO("(i=1536 or i=0) and i=0"), YES("i=0 and i=0 or i=1536");
    YES("not i=0 or i=1536 and i=0"), NO("not (i=1536) and i=0"), NO("not i=1536 and i=0");
    NO("not (i=0 or i=1536) or i=0"), YES("not i=0 and i=1536"), NO("not i=1536 or i=0");
    YES("not not i=1536"), NO("not not not i=1536"), YES("not (not (not (i=0)))");
    YES("i=0 or i=0 or i=1536"), NO("i=1536 and i=1536 and i=0"), YES("i=1536 and not i=0");
    YES("not(i=0)and(i=1536)or(i=0)"), YES("i=0 and(i=0 or i=1536)or not(i=0 and i=1536)");
}

static void sql_shape(void **state)
{
    (void)state;
    check_sql("i > 1K", "\"i\" > 1024");
    check_sql("1K < v.i and t = 'it''s'", "\"i\" > 1024 AND \"t\" = 'it''s'");
    check_sql("(i = 1 or j = 2) and r = 0.75",
              "(\"i\" = 1 OR \"j\" = 2) AND \"r\" = (3 / CAST(4 AS REAL))");
    check_sql("i = 1 or (j = 2 or (i = 3))", "\"i\" = 1 OR \"j\" = 2 OR \"i\" = 3");
    check_sql("i = 1 or j = 2 and i = 3", "\"i\" = 1 OR \"j\" = 2 AND \"i\" = 3");
    check_sql("not i = 1", "(\"i\" = 1) IS NOT TRUE");
    check_sql("not not i = 1", "\"i\" = 1");
    check_sql("not (not (i = 1))", "\"i\" = 1");
    check_sql("not i is null", "\"i\" IS NOT NULL");
    check_sql("not (i = 1 or not j = 2)", "(\"i\" = 1 OR (\"j\" = 2) IS NOT TRUE) IS NOT TRUE");
    check_sql("t !~ 'a''b'", "NOT regexp('a''b', \"t\")");
    check_sql("i < j", "+\"i\" < +\"j\"");
    check_sql("x < 5", "+\"x\" < 5");
    check_sql("i >= -9223372036854775808", "\"i\" >= -9223372036854775808");
    check_sql("i < 1e19", "\"i\" < (19073486328125 * CAST(524288 AS REAL))");
}

/* The plan that SQLite makes for it has this word. */
static void check_plan(sqlite3 *db, const char *condition, const char *word)
{
    HX_FILTER hx_filter *filter = parsed(condition);
    struct hx_text sql = {0};
    hx_text_puts(&sql, "EXPLAIN QUERY PLAN SELECT * FROM v WHERE ");
    hx_filter_sql(filter, &sql);
    sqlite3_stmt *st;
    assert_int_equal(sqlite3_prepare_v2(db, hx_text_str(&sql), -1, &st, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_step(st), SQLITE_ROW);
    if (!strstr((const char *)sqlite3_column_text(st, 3), word))
        fail_msg("%s: %s", condition, sqlite3_column_text(st, 3));
    sqlite3_finalize(st);
    hx_text_free(&sql);
}

static void plain_comparisons_use_indexes(void **state)
{
    (void)state;
    sqlite3 *db = open_table();
    check_plan(db, "i > 5", "USING INDEX v_i (i>?)");
    check_plan(db, "4.5 > i and not r = 1", "USING INDEX v_i (i<?)");
    check_plan(db, "r > 1 and (x ~ 'a' or j = 2) and (t = 'a' and r < 2)", "v_t (t=?)");
    check_plan(db, "not not t = 5", "v_t (t=?)");
    check_plan(db, "not i > 5", "SCAN v");
    sqlite3_close(db);
}

static void views(void **state)
{
    (void)state;
    static const struct hx_filter_column known[] = {
        {"snapshots", "heap_bytes", HX_FILTER_NUMBER, 10},
        {"leaks", "bytes", HX_FILTER_NUMBER, 20},
        {"leaks", "odd\"name", HX_FILTER_TEXT, 21},
        {"leaks", "kind", HX_FILTER_TEXT, 22},
    };
    struct hx_filter_schema of = {known, 4, "snapshots"};
    hx_filter *filter;
    assert_null(hx_filter_parse("Leaks.bytes > 5 and heap_bytes > leaks.bytes and "
                                "snapshots.HEAP_BYTES > 0 and leaks.kind = 'x'",
                                &of, NULL, &filter));
    const struct hx_filter_column *used;
    assert_int_equal(hx_filter_columns(filter, &used), 3);
    assert_string_equal(used[0].view, "leaks");
    assert_string_equal(used[0].name, "bytes");
    assert_int_equal(used[0].id, 20);
    assert_int_equal(used[1].id, 10);
    assert_int_equal(used[2].id, 22);
    struct hx_text sql = {0};
    hx_filter_sql(filter, &sql);
    assert_string_equal(hx_text_str(&sql),
                        "\"leaks\".\"bytes\" > 5 AND +\"snapshots\".\"heap_bytes\" > "
                        "+\"leaks\".\"bytes\" AND \"snapshots\".\"heap_bytes\" > 0 AND "
                        "\"leaks\".\"kind\" = 'x'");
    hx_text_free(&sql);
    hx_filter_destroy(filter);
}

/* --- errors ------------------------------------------------------------------------ */

static void refused(const char *condition, size_t column, const char *word)
{
    static const struct hx_filter_column known[] = {
        {NULL, "bytes", HX_FILTER_NUMBER, 0},   {NULL, "kind", HX_FILTER_TEXT, 0},
        {NULL, "address", HX_FILTER_NUMBER, 0}, {"roots", "name", HX_FILTER_TEXT, 0},
        {"roots", "size", HX_FILTER_NUMBER, 0},
    };
    struct hx_filter_schema of = {known, 5, "leaks"};
    struct hx_filter_position place = {0};
    hx_filter *filter = NULL;
    hx_error *err = hx_filter_parse(condition, &of, &place, &filter);
    char line[1024], at[40];
    if (!err)
        fail_msg("not refused: %s", condition);
    hx_error_line(err, line, sizeof line);
    snprintf(at, sizeof at, "at column %zu", column);
    if (err->kind != HX_E_USAGE || place.column != column || !strstr(line, word) ||
        !strstr(line, at))
        fail_msg("%s: kind %d, column %zu: %s", condition, err->kind, place.column, line);
    assert_true(place.offset + place.length <= strlen(condition));
    hx_error_free(err);
}

static void errors(void **state)
{
    (void)state;
    refused("", 1, "no condition");
    refused("  ", 3, "no condition");
    refused("bytes", 6, "a comparison is missing behind bytes");
    refused("bytes >", 8, "ends too early");
    refused("bytes > 1 and", 14, "ends too early");
    refused("bytes > and", 9, "\"and\" where a value");
    refused("bytes > 5 kind", 11, "behind a complete condition");
    refused("bytes > 5)", 10, "closes nothing");
    refused("(bytes > 5", 1, "never closed");
    refused("bytes > 1 and ((kind = 'x')", 15, "never closed");
    refused("bytes in (5)", 7, "the operators are");
    refused("()", 2, "\")\" where a value");
    refused("bytes > 5 && bytes < 9", 11, "write: and");
    refused("bytes > 5 || bytes < 9", 11, "write: or");
    refused("! bytes > 5", 1, "write: not");
    refused("bytes ; 5", 7, "no word of a filter");
    refused("bytes > \xc3\xbc", 9, "\xc3\xbc");
    refused("kind = '\xc3\xbc\xc3\xbc' x", 13, "complete condition"); /* characters, not bytes */
    /* names */
    refused("byte > 5", 1, "did you mean bytes?");
    refused("kind = 'x' or adress = 5", 15, "did you mean address?");
    refused("nothing > 5", 1, "the columns are: bytes, kind, address");
    refused("kind = definite", 8, "a text stands in quotes");
    refused("root.size > 5", 1, "unknown view \"root\"");
    refused("root.size > 5", 1, "did you mean roots?");
    refused("roots.sice > 5", 1, "did you mean size?");
    refused("roots.kind = 'x'", 1, "the columns of roots are: name, size");
    refused("leaks.name = 'x'", 1, "the columns of leaks are: bytes, kind, address");
    /* numbers */
    refused("bytes > 5ms", 10, "\"ms\" is not part of a number");
    refused("bytes > 0x", 10, "\"x\"");
    refused("bytes > 0xfg", 12, "\"g\"");
    refused("bytes > 1.", 10, "\".\"");
    refused("bytes > 1.5.2", 12, "\".2\"");
    refused("bytes > 1KK", 10, "\"KK\"");
    refused("bytes > 1e", 10, "\"e\"");
    refused("bytes > 1e999", 9, "too large");
    refused("bytes > 1e308T", 9, "too large");
    refused("bytes > --5", 9, "\"-\"");
    refused("bytes > 0x1e-5", 13, "complete condition");
    /* kinds */
    refused("bytes > 'x'", 9, "bytes is a number, 'x' is none");
    refused("'x' < bytes", 1, "bytes is a number, 'x' is none");
    refused("bytes > ''", 9, "is none");
    refused("bytes = kind", 9, "bytes is a number, kind is a text");
    refused("1 = 'x'", 5, "1 is a number, 'x' is a text");
    refused("kind = 'abc", 8, "without an end");
    refused("kind = 'abc''", 8, "without an end");
    /* is null */
    refused("bytes is 5", 10, "null is missing");
    refused("bytes is not 5", 14, "null is missing");
    refused("5 is null", 1, "only a column can be null");
    refused("bytes = null", 9, "where a value should stand");
    /* expressions */
    refused("kind ~ 'a('", 8, "nmatched (");
    refused("kind ~ '[a'", 8, "nmatched [");
    refused("kind ~ '(a)\\1'", 8, "back references");
    refused("kind ~ 5", 8, "a regular expression is missing");
    refused("kind ~ bytes", 8, "a regular expression is missing");
    refused("'x' ~ 'x'", 1, "only a column is matched");
}

static void regexp_limits(void **state)
{
    (void)state;
    static const char *const large[] = {"(a{1000}){1000}",
                                        "a{2001}",
                                        "a{1,}{1,}{1,}{1,99999}",
                                        "((((((((((a+)+)+)+)+)+)+)+)+)+)+",
                                        "(a|b{500,}){3}(x{255}){255}",
                                        "((|)*((,|^|)){32}+x),",
                                        "((a*)*){20}",
                                        "(a*|b*){30}*",
                                        NULL};
    static const char *const good[] = {
        "a{100}",     "[]a\\1]+",      "[^]x{9999}]",
        "a{0}b",      "(x{2}){3,4}",   "[[:alpha:]{9999}]",
        "\\{9999\\}", "^$|()",         "^(std::)?(vector|map|)(<.*>)?$",
        "(a*)*b",     "a{0,3}(b{2})*", NULL};
    hx_regexp *regexp;
    for (size_t i = 0; large[i]; i++) {
        hx_error *err = hx_regexp_create(large[i], &regexp);
        if (!err)
            fail_msg("accepted: %s", large[i]);
        assert_int_equal(err->kind, HX_E_USAGE);
        hx_error_free(err);
    }
    for (size_t i = 0; good[i]; i++) {
        hx_error *err = hx_regexp_create(good[i], &regexp);
        if (err)
            fail_msg("refused: %s: %s", good[i], err->why);
        hx_regexp_destroy(regexp);
    }
    hx_regexp_destroy(NULL);
}

/* --- hostile input ----------------------------------------------------------------- */

/* Refused or not, it neither crashes nor leaks, and what is accepted is SQL. */
static hx_error *attempt(sqlite3 *db, const char *condition)
{
    struct hx_filter_position place = {0};
    hx_filter *filter = NULL;
    hx_error *err = hx_filter_parse(condition, &schema, &place, &filter);
    if (err) {
        assert_int_equal(err->kind, HX_E_USAGE);
        assert_true(place.column >= 1);
        assert_null(filter);
        return err;
    }
    rows_by_sql(db, filter);
    hx_filter_destroy(filter);
    return NULL;
}

static char *repeated(const char *before, const char *unit, size_t n, const char *after)
{
    struct hx_text text = {0};
    hx_text_puts(&text, before);
    while (n--)
        hx_text_puts(&text, unit);
    hx_text_puts(&text, after);
    assert_false(text.failed);
    return text.s;
}

static void accepted_or_not(sqlite3 *db, char *condition, bool want)
{
    hx_error *err = attempt(db, condition);
    if (!err != want)
        fail_msg("%.60s...: %s", condition, err ? err->why : "accepted");
    hx_error_free(err);
    free(condition);
}

static void large_input(void **state)
{
    (void)state;
    sqlite3 *db = open_table();
    accepted_or_not(db, repeated("", "(", 1000000, ""), false);
    accepted_or_not(db, repeated("", "(", 1000, "i = 1"), false);
    accepted_or_not(db, repeated("i = 1", ")", 50000, ""), false);
    accepted_or_not(db, repeated("", "not ", 16000, "i = 1"), true);
    accepted_or_not(db, repeated("", "not(", 16000, "i = 1"), false);
    accepted_or_not(db, repeated("", "i", 1 << 20, ""), false);
    accepted_or_not(db, repeated("", "i", 60000, " > 1"), false);
    accepted_or_not(db, repeated("i > ", "9", 300, ""), true);
    accepted_or_not(db, repeated("i > ", "9", 60000, ""), false);
    accepted_or_not(db, repeated("i > 0.", "9", 60000, ""), true);
    accepted_or_not(db, repeated("i > 0x", "f", 200, ""), true);
    accepted_or_not(db, repeated("i > 0x", "f", 60000, ""), false);
    accepted_or_not(db, repeated("t > '", "\xff", 60000, "'"), true);
    accepted_or_not(db, repeated("t > '", "''", 30000, "'"), true);
    accepted_or_not(db, repeated("t > '", "'", 60000, ""), false);
    accepted_or_not(db, repeated("t ~ '", "(", 1900, "'"), false);
    accepted_or_not(db, repeated("t ~ '", "a?", 900, "'"), true);
    accepted_or_not(db, repeated("t ~ '", "a", 2001, "'"), false);
    accepted_or_not(db, repeated("i > 1", " and t ~ '(a|b)*c{9}'", 64, ""), true);
    accepted_or_not(db, repeated("i > 1", " and t ~ 'a'", 65, ""), false);
    accepted_or_not(db, repeated("i > 1", " or i = 1", 799, ""), true);
    accepted_or_not(db, repeated("i > 1", " and i < -1.5", 799, ""), true);
    accepted_or_not(db, repeated("i > 1", " and i < 4.9e-324", 799, ""), true);
    accepted_or_not(db, repeated("i > 1", " or i = 1 and not i = 2", 399, ""), false);
    accepted_or_not(db, repeated("i > 1", " or i = 1", 800, ""), false);
    accepted_or_not(db, repeated("i > 1", " or", 20000, ""), false);
    sqlite3_close(db);
}

/* Nested to every depth: accepted first and refused from some depth on, and what is accepted
 * suits SQLite. */
static void nest(sqlite3 *db, const char *front, const char *back, size_t least)
{
    static const char *const leaves[] = {"t ~ 'a'", "x !~ 'a'", "i < 4.9e-324", "not x = -1.5",
                                         "j is not null"};
    size_t step = unit_rounds(10) < 10 ? 15 : 1; /* SQLite takes long where and joins many or */
    bool before = true;
    for (size_t depth = 1; depth < 220; depth += step) {
        const char *leaf = leaves[depth / step % (sizeof leaves / sizeof *leaves)];
        HX_FREE char *open = repeated("", front, depth, leaf);
        HX_FREE char *all = repeated(open, back, depth, "");
        hx_error *err = attempt(db, all);
        if (err && depth <= least)
            fail_msg("depth %zu of %s: %s", depth, front, err->why);
        if (!err && !before && depth > least + 10)
            fail_msg("depth %zu of %s: accepted again", depth, front);
        before = !err;
        hx_error_free(err);
    }
    assert_false(before);
}

static void nesting(void **state)
{
    (void)state;
    sqlite3 *db = open_table();
    nest(db, "(", ")", 150);
    nest(db, "not (i = 1 or ", ")", 15);
    nest(db, "i = 1 or (i = 2 and (", "))", 12);
    nest(db, "i = 1 and (i = 2 or not (", "))", 8);
    nest(db, "i = 1 and not (i = 2 or not (t ~ 'x' and (", ")))", 4);
    nest(db, "(i = 1 or i = 2) and (", ")", 150);
    nest(db, "i = 1 or (", ")", 150);
    nest(db, "((", " or r < 4.9e-324) and not x is null)", 40);
    sqlite3_close(db);
}

/* Expressions of any shape are refused or match in no time. */
static void random_regexps(void **state)
{
    (void)state;
    static const char alphabet[] = "ab(((()))){}{2}{3,}[[]]|*+?.^$\\,:=-0\xff";
    struct unit_random random = unit_random_begin("regexps");
    for (size_t n = unit_rounds(4000); n; n--) {
        char pattern[64];
        size_t length = unit_below(&random, sizeof pattern);
        for (size_t i = 0; i < length; i++)
            pattern[i] = alphabet[unit_below(&random, sizeof alphabet - 1)];
        pattern[length] = 0;
        hx_regexp *regexp;
        hx_error *err = hx_regexp_create(pattern, &regexp);
        if (err) {
            assert_int_equal(err->kind, HX_E_USAGE);
            hx_error_free(err);
            continue;
        }
        hx_regexp_matches(regexp, text("aaaaaaaaaaaaaaaaaaaaaaaabaababbbab\xff[](){}"));
        hx_regexp_matches(regexp, integer(-20));
        hx_regexp_destroy(regexp);
    }
}

/* --- random conditions ------------------------------------------------------------- */

static const double real_pool[] = {
    0,        -0.0,    0.5,    -0.5,       1.5,     1e-300,   0.1,     1024.25,
    4.9e-324, 1e19,    -1e19,  1e300,      3,       -2.25,    0x1p53,  0x1p62,
    0x1p63,   -0x1p63, 0x1p64, 0x1p53 + 2, -0x1p53, 1e18 + 1, -0x1p64, 0x1.fffffffffffffp62};
static const int64_t int_pool[] = {0,
                                   1,
                                   -1,
                                   2,
                                   3,
                                   10,
                                   1024,
                                   -2048,
                                   1536,
                                   5368709120,
                                   INT64_C(1) << 53,
                                   (INT64_C(1) << 53) + 1,
                                   (INT64_C(1) << 53) - 1,
                                   -(INT64_C(1) << 53) - 1,
                                   INT64_MAX,
                                   INT64_MAX - 1,
                                   INT64_MAX - 512,
                                   INT64_MIN,
                                   INT64_MIN + 1,
                                   INT64_C(1) << 62};
static const char *const text_pool[] = {"",   "a",  "b",   "A",   "ab",   "it's", "10",        "9",
                                        "1K", "-1", "\"q", "1.0", "\xff", "0.5",  "\xc3\xbc z"};
static const char *const pattern_pool[] = {"^a",      "b$",    "[0-9]+", "^$",     ".",
                                           "(a|b)+$", "'",     "\\.",    "^-?1",   "\"",
                                           "^.$",     "e[+-]", "^10$",   "x{2,3}", ""};
#define ANY_OF(random, pool) ((pool)[unit_below(random, sizeof(pool) / sizeof *(pool))])

struct generator {
    struct unit_random *random;
    bool plain; /* this SQLite compares through doubles: no numbers at the borders */
};

static int64_t any_int(struct generator *g)
{
    return g->plain ? int_pool[unit_below(g->random, 10)] : ANY_OF(g->random, int_pool);
}

static double any_real(struct generator *g)
{
    return g->plain ? real_pool[unit_below(g->random, 14)] : ANY_OF(g->random, real_pool);
}

static struct hx_filter_value any_text(struct generator *g)
{
    if (unit_below(g->random, 20) == 0)
        return (struct hx_filter_value){.type = HX_FILTER_STRING, .text = "a\0b", .n = 3};
    return text(ANY_OF(g->random, text_pool));
}

static struct hx_filter_value any_value(struct generator *g, enum hx_filter_class class)
{
    if (unit_below(g->random, 5) == 0)
        return (struct hx_filter_value){.type = HX_FILTER_NULL};
    if (class == HX_FILTER_TEXT || (class == HX_FILTER_ANY && unit_below(g->random, 2)))
        return any_text(g);
    return unit_below(g->random, 2) ? integer(any_int(g)) : real(any_real(g));
}

/* A drawn condition; recursion is bounded by its depth. */
struct drawn {
    enum { DRAWN_TEST, DRAWN_NOT, DRAWN_AND, DRAWN_OR } what;
    struct drawn *part[2];
    unsigned op;   /* index in signs */
    int column[2]; /* -1: the constant */
    struct hx_filter_value constant;
    char spelling[64]; /* of the constant or the pattern, and what it points into */
    char bytes[64];
    bool swapped; /* the constant stands on the left */
};

static const char *const signs[] = {"=",  "!=", "<",  "<=",       ">",
                                    ">=", "~",  "!~", " is null", " is not null"};

static void spell_text(struct generator *g, struct drawn *drawn, const char *s)
{
    char quote = unit_below(g->random, 2) ? '\'' : '"', *out = drawn->spelling;
    *out++ = quote;
    for (; *s; s++) {
        *out++ = *s;
        if (*s == quote)
            *out++ = quote;
    }
    *out++ = quote;
    *out = 0;
}

static void spell_number(struct generator *g, struct drawn *drawn)
{
    size_t size = sizeof drawn->spelling;
    long long i = drawn->constant.i;
    const char *sign = i < 0 ? "-" : "";
    unsigned long long positive = i < 0 ? 0 - (unsigned long long)i : (unsigned long long)i;
    unsigned how = (unsigned)unit_below(g->random, 4);
    if (drawn->constant.type == HX_FILTER_REAL)
        snprintf(drawn->spelling, size, "%.17g", drawn->constant.real);
    else if (how == 0)
        snprintf(drawn->spelling, size, "%s0x%llx", sign, positive);
    else if (how == 1 && i % 1024 == 0)
        snprintf(drawn->spelling, size, "%s%lluKiB", sign, positive / 1024);
    else if (how == 2)
        snprintf(drawn->spelling, size, "%lld.00", i);
    else
        snprintf(drawn->spelling, size, "%lld", i);
}

static void draw_constant(struct generator *g, struct drawn *drawn, enum hx_filter_class class)
{
    bool as_text = class == HX_FILTER_TEXT || (class == HX_FILTER_ANY && unit_below(g->random, 2));
    if (as_text && unit_below(g->random, 8)) {
        const char *s = ANY_OF(g->random, text_pool);
        drawn->constant = text(s);
        spell_text(g, drawn, s);
        return;
    }
    drawn->constant = unit_below(g->random, 2) ? integer(any_int(g)) : real(any_real(g));
    spell_number(g, drawn);
    if (as_text && class == HX_FILTER_TEXT) { /* a number beside a column of texts */
        strcpy(drawn->bytes, drawn->spelling);
        drawn->constant = text(drawn->bytes);
    } else if (class == HX_FILTER_NUMBER && unit_below(g->random, 4) == 0) {
        strcpy(drawn->bytes, drawn->spelling);
        spell_text(g, drawn, drawn->bytes);
    }
}

static void draw_test(struct generator *g, struct drawn *drawn)
{
    drawn->op = (unsigned)unit_below(g->random, 10);
    drawn->column[0] = (int)unit_below(g->random, COLUMNS);
    drawn->column[1] = -1;
    enum hx_filter_class class = columns[drawn->column[0]].class;
    if (drawn->op >= 8)
        return;
    if (drawn->op >= 6) {
        const char *pattern = ANY_OF(g->random, pattern_pool);
        drawn->constant = text(pattern);
        spell_text(g, drawn, pattern);
        return;
    }
    if (unit_below(g->random, 4) == 0) {
        int other = (int)unit_below(g->random, COLUMNS);
        if (class == HX_FILTER_ANY || columns[other].class == HX_FILTER_ANY ||
            class == columns[other].class) {
            drawn->column[1] = other;
            return;
        }
    }
    draw_constant(g, drawn, class);
    drawn->swapped = unit_below(g->random, 3) == 0;
}

static struct drawn *draw(struct generator *g, unsigned depth)
{
    struct drawn *drawn = calloc(1, sizeof *drawn);
    assert_non_null(drawn);
    drawn->what = depth ? (unsigned)unit_below(g->random, 4) : DRAWN_TEST;
    if (drawn->what == DRAWN_TEST) {
        draw_test(g, drawn);
        return drawn;
    }
    drawn->part[0] = draw(g, depth - 1);
    if (drawn->what != DRAWN_NOT)
        drawn->part[1] = draw(g, depth - 1);
    return drawn;
}

static void erase(struct drawn *drawn)
{
    if (!drawn)
        return;
    erase(drawn->part[0]);
    erase(drawn->part[1]);
    free(drawn);
}

/* As text, with no more parentheses than `tight`, which binds around it, asks for, or some. */
static void write_drawn(struct generator *g, const struct drawn *drawn, unsigned tight,
                        struct hx_text *out)
{
    static const unsigned binds[] = {
        [DRAWN_TEST] = 4, [DRAWN_NOT] = 3, [DRAWN_AND] = 2, [DRAWN_OR] = 1};
    bool wrap = binds[drawn->what] < tight || unit_below(g->random, 8) == 0;
    hx_text_puts(out, wrap ? "(" : "");
    if (drawn->what == DRAWN_NOT) {
        hx_text_puts(out, unit_below(g->random, 2) ? "not " : "NOT ");
        write_drawn(g, drawn->part[0], 3, out);
    } else if (drawn->what != DRAWN_TEST) {
        unsigned own = binds[drawn->what];
        write_drawn(g, drawn->part[0], own, out);
        hx_text_puts(out, drawn->what == DRAWN_AND ? " and " : " or ");
        write_drawn(g, drawn->part[1], own + (unsigned)unit_below(g->random, 2), out);
    } else {
        static const char *const turned[] = {"=", "!=", ">", ">=", "<", "<="};
        const char *column = columns[drawn->column[0]].name,
                   *blank = unit_below(g->random, 2) ? " " : "";
        const char *other = drawn->op >= 8          ? ""
                            : drawn->column[1] >= 0 ? columns[drawn->column[1]].name
                                                    : drawn->spelling;
        if (drawn->swapped)
            hx_text_putf(out, "%s%s%s%s%s", other, blank, turned[drawn->op], blank, column);
        else
            hx_text_putf(out, "%s%s%s%s%s", column, blank, signs[drawn->op], blank, other);
    }
    hx_text_puts(out, wrap ? ")" : "");
}

/* Values as the contract orders them, by another way than the evaluator's: quad precision
 * holds every int64 and every double. */
static int brute_order(struct hx_filter_value a, struct hx_filter_value b)
{
    if (a.type == HX_FILTER_STRING && b.type == HX_FILTER_STRING) {
        for (size_t i = 0; i < a.n && i < b.n; i++)
            if (a.text[i] != b.text[i])
                return (unsigned char)a.text[i] < (unsigned char)b.text[i] ? -1 : 1;
        return a.n < b.n ? -1 : a.n > b.n;
    }
    if (a.type == HX_FILTER_STRING || b.type == HX_FILTER_STRING)
        return a.type == HX_FILTER_STRING ? 1 : -1;
    __extension__ __float128 x = a.type == HX_FILTER_INT ? (__float128)a.i : (__float128)a.real;
    __extension__ __float128 y = b.type == HX_FILTER_INT ? (__float128)b.i : (__float128)b.real;
    return x < y ? -1 : x > y;
}

static bool brute_match(const char *pattern, struct hx_filter_value value)
{
    char buf[64];
    if (value.type != HX_FILTER_STRING) {
        if (value.type == HX_FILTER_INT)
            snprintf(buf, sizeof buf, "%lld", (long long)value.i);
        else if (snprintf(buf, sizeof buf, "%.15g", value.real), atof(buf) != value.real)
            snprintf(buf, sizeof buf, "%.17g", value.real);
        if (value.type == HX_FILTER_REAL && !strchr(buf, '.') && !strchr(buf, 'e'))
            strcat(buf, ".0");
        value = text(buf);
    }
    regex_t compiled;
    assert_int_equal(regcomp(&compiled, pattern, REG_EXTENDED), 0);
    regmatch_t span = {0, (regoff_t)value.n};
    bool found = regexec(&compiled, value.text, 1, &span, REG_STARTEND) == 0;
    regfree(&compiled);
    return found;
}

static bool brute(const struct drawn *drawn, const struct row *row)
{
    if (drawn->what == DRAWN_NOT)
        return !brute(drawn->part[0], row);
    if (drawn->what != DRAWN_TEST) {
        bool a = brute(drawn->part[0], row), b = brute(drawn->part[1], row);
        return drawn->what == DRAWN_AND ? a && b : a || b;
    }
    struct hx_filter_value a = row->value[drawn->column[0]];
    if (drawn->op >= 8)
        return (a.type == HX_FILTER_NULL) == (drawn->op == 8);
    struct hx_filter_value b =
        drawn->column[1] >= 0 ? row->value[drawn->column[1]] : drawn->constant;
    if (a.type == HX_FILTER_NULL || b.type == HX_FILTER_NULL)
        return false;
    if (drawn->op >= 6)
        return brute_match(b.text, a) == (drawn->op == 6);
    int order = brute_order(a, b);
    return (bool[]){order == 0, order != 0, order<0, order <= 0, order> 0, order >= 0}[drawn->op];
}

/* --- all three --------------------------------------------------------------------- */

enum { ROWS = 24 };

struct table {
    sqlite3 *db;
    struct row row[ROWS];
    sqlite3_stmt *held[ROWS];
};

/* Valgrind has no more than doubles for the long doubles that SQLite compares with. */
static bool compares_through_doubles(sqlite3 *db)
{
    sqlite3_stmt *st;
    assert_int_equal(sqlite3_prepare_v2(db, "SELECT ?1 = ?2", -1, &st, NULL), SQLITE_OK);
    sqlite3_bind_int64(st, 1, (INT64_C(1) << 53) + 1);
    sqlite3_bind_double(st, 2, 0x1p53);
    assert_int_equal(sqlite3_step(st), SQLITE_ROW);
    bool equal = sqlite3_column_int(st, 0);
    sqlite3_finalize(st);
    return equal;
}

static void fill(struct generator *g, struct table *table)
{
    table->db = open_table();
    g->plain = compares_through_doubles(table->db);
    for (int n = 0; n < ROWS; n++) {
        for (int c = 0; c < COLUMNS; c++)
            table->row[n].value[c] = any_value(g, columns[c].class);
        table->held[n] = store_row(table->db, n, &table->row[n]);
    }
    run_sql(table->db, "ANALYZE");
}

static void empty(struct table *table)
{
    for (int n = 0; n < ROWS; n++)
        sqlite3_finalize(table->held[n]);
    assert_int_equal(sqlite3_close(table->db), SQLITE_OK);
}

static void compare(struct table *table, const hx_filter *filter, const struct drawn *drawn)
{
    uint64_t by_sql = rows_by_sql(table->db, filter);
    for (int n = 0; n < ROWS; n++) {
        bool is = hx_filter_holds(filter, get, &table->row[n]);
        bool sql = by_sql >> n & 1;
        if (is != sql || (drawn && is != brute(drawn, &table->row[n]))) {
            struct hx_text text = {0};
            hx_filter_sql(filter, &text);
            fail_msg("row %d: evaluator %d, SQLite %d, tree %d\n%s\n%s", n, is, sql,
                     drawn ? brute(drawn, &table->row[n]) : -1, hx_filter_source(filter),
                     hx_text_str(&text));
        }
    }
}

static void three_judges(void **state)
{
    (void)state;
    struct unit_random random = unit_random_begin("filter");
    struct generator g = {.random = &random};
    for (size_t round = unit_rounds(40); round; round--) {
        struct table table;
        fill(&g, &table);
        for (size_t n = 0; n < 150; n++) {
            struct drawn *drawn = draw(&g, (unsigned)unit_below(&random, 5));
            struct hx_text condition = {0};
            write_drawn(&g, drawn, 0, &condition);
            hx_filter *filter = parsed(hx_text_str(&condition));
            compare(&table, filter, drawn);
            hx_filter_destroy(filter);
            hx_text_free(&condition);
            erase(drawn);
        }
        empty(&table);
    }
}

/* Words in any order, and any bytes: mostly refused; what is not means the same to both. */
static void soup(void **state)
{
    (void)state;
    static const char *const words[] = {"i",     "j",     "t",  "x",    "y",   "r",  "and ", " or ",
                                        " not ", "(",     ")",  "=",    "!=",  "<",  ">=",   "~",
                                        "!~",    "1",     "-1", "0x1f", "'a'", "is", "null", " ",
                                        "1.5",   "\"b\"", "'",  "v.",   "1e3", "K",  ".",    "-",
                                        "'10'",  "\n",    "!",  "{",    "\x80"};
    struct unit_random random = unit_random_begin("soup");
    struct generator g = {.random = &random};
    struct table table;
    fill(&g, &table);
    size_t accepted = 0;
    for (size_t n = 0; n < unit_rounds(60000) || !accepted; n++) { /* one in some hundreds is */
        char condition[128] = "";
        size_t length = 1 + unit_below(&random, 14);
        if (n % 4 == 0) {
            for (size_t i = 0; i < length; i++)
                condition[i] = (char)(1 + unit_below(&random, 255));
            condition[length] = 0;
        } else {
            while (length--)
                strcat(condition, ANY_OF(&random, words));
        }
        struct hx_filter_position place = {0};
        hx_filter *filter = NULL;
        hx_error *err = hx_filter_parse(condition, &schema, &place, &filter);
        if (err) {
            assert_int_equal(err->kind, HX_E_USAGE);
            assert_true(place.column >= 1 && place.offset + place.length <= strlen(condition));
            hx_error_free(err);
            continue;
        }
        accepted++;
        compare(&table, filter, NULL);
        hx_filter_destroy(filter);
    }
    empty(&table);
}

/* --- in parts ---------------------------------------------------------------------- */

/* A condition of comparisons a, b, c, by their truth. */
static bool by_truth(const char *condition, unsigned truth)
{
    hx_filter *filter = parsed(condition);
    bool holds[32] = {false};
    unsigned n = 0;
    assert_true(hx_filter_parts(filter) <= 32);
    for (size_t i = 0; i < hx_filter_parts(filter); i++)
        if (hx_filter_part(filter, i).is_test)
            holds[i] = truth >> n++ & 1;
    bool is = hx_filter_holds_by(filter, holds);
    hx_filter_destroy(filter);
    return is;
}

static void parts_join(void **state)
{
    (void)state;
    for (unsigned truth = 0; truth < 8; truth++) {
        bool a = truth & 1, b = truth & 2, c = truth & 4;
        assert_int_equal(by_truth("i = 1 and t = 'b' or j = 3", truth), (a && b) || c);
        assert_int_equal(by_truth("i = 1 and (t = 'b' or j = 3)", truth), a && (b || c));
        assert_int_equal(by_truth("not (i = 1 or not t = 'b') and j = 3", truth), !a && b && c);
        assert_int_equal(by_truth("not (i is null and t ~ 'b' and j = i)", truth), !(a && b && c));
    }
}

static void parts_tell_views(void **state)
{
    (void)state;
    static const struct hx_filter_column of_views[] = {
        {"one", "i", HX_FILTER_NUMBER, 0},
        {"two", "i", HX_FILTER_NUMBER, 1},
        {NULL, "own", HX_FILTER_NUMBER, 2},
    };
    static const struct {
        const char *condition, *view;
        bool two, test;
    } parts[] = {
        {"one.i = 1", "one", false, true},     {"1 < two.i", "two", false, true},
        {"one.i = two.i", "one", true, true},  {"one.i > one.i", "one", false, true},
        {"own = 1", NULL, false, true},        {"own = two.i", NULL, true, true},
        {"1 = 1", NULL, false, true},          {"one.i is null", "one", false, true},
        {"not one.i = 1", NULL, false, false}, /* the whole is none */
    };
    const struct hx_filter_schema two = {of_views, 3, NULL};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        hx_filter *filter;
        assert_null(hx_filter_parse(parts[i].condition, &two, NULL, &filter));
        struct hx_filter_part part = hx_filter_part(filter, hx_filter_parts(filter) - 1);
        assert_int_equal(part.is_test, parts[i].test);
        assert_int_equal(part.two_views, parts[i].two);
        if (parts[i].view)
            assert_string_equal(part.view, parts[i].view);
        else
            assert_null(part.view);
        hx_filter_destroy(filter);
    }
    struct hx_text sql = {0};
    hx_filter *filter = parsed("i = 1 or t ~ 'b'");
    hx_filter_part_sql(filter, 1, &sql);
    assert_string_equal(hx_text_str(&sql), "regexp('b', \"t\")");
    hx_text_free(&sql);
    hx_filter_destroy(filter);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parts_join),
        cmocka_unit_test(parts_tell_views),
        cmocka_unit_test(operators),
        cmocka_unit_test(numbers),
        cmocka_unit_test(texts),
        cmocka_unit_test(numbers_beside_texts),
        cmocka_unit_test(nulls),
        cmocka_unit_test(precedence),
        cmocka_unit_test(sql_shape),
        cmocka_unit_test(views),
        cmocka_unit_test(plain_comparisons_use_indexes),
        cmocka_unit_test(errors),
        cmocka_unit_test(regexp_limits),
        cmocka_unit_test(large_input),
        cmocka_unit_test(nesting),
        cmocka_unit_test(random_regexps),
        cmocka_unit_test(three_judges),
        cmocka_unit_test(soup),
    };
    return unit_run_some(tests);
}
