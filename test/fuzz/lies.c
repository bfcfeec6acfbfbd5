/* lies.c - changes of what a store says: numbers, names, rows, tables, columns of objects. Tables
 * and columns are those of store/schema/tables.h. */
#include "lies.h"

#include "base/text.h"
#include "fuzz.h"
#include "store/objects/packed_column.h"
#include "store/schema/row.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct lie {
    sqlite3 *db;
    uint64_t *state;
    const struct hx_table_info *table;
    size_t columns; /* of it */
};

#define COUNT(array)     (sizeof(array) / sizeof *(array))
#define PICK(lie, array) ((array)[hx_fuzz_below((lie)->state, COUNT(array))])

static const int64_t numbers[] = {0,
                                  1,
                                  2,
                                  3,
                                  5,
                                  7,
                                  100,
                                  127,
                                  128,
                                  255,
                                  256,
                                  65535,
                                  65536,
                                  65537,
                                  -1,
                                  -2,
                                  -1000,
                                  INT32_MAX,
                                  INT64_C(1) << 31,
                                  UINT32_MAX,
                                  INT64_C(1) << 32,
                                  INT64_C(1) << 40,
                                  INT64_C(1) << 48,
                                  (INT64_C(1) << 53) + 1,
                                  INT64_C(1) << 57,
                                  INT64_C(1) << 62,
                                  INT64_MAX,
                                  INT64_MAX - 1,
                                  INT64_MIN,
                                  INT64_MIN + 1};
static const double reals[] = {0.5, -0.5, 1e18, 1e19, -1e19, 1e300, -1e300, 4.9e-324};
static const char *const texts[] = {
    "",
    " ",
    "a\nb\rc\td",
    "\x1b[31mred\x1b]0;title\x07",
    "\xff\xfe\xc3",
    "\xe2\x80\xae right",
    "\xed\xa0\x80",
    "%s%n%d",
    "quote\" and ' and \\ and ]]> and </text>",
    "_ZN3app5cacheISt6vectorIiSaIiEEE4headEv",
    "_ZZZZZZN",
    "std::map<std::string, std::vector<int, std::allocator<int> > >::push_back(int const&)",
    "(unknown)",
    "(unreachable)",
    "MANY",
    "MAIN",
    "=1+2",
    "-",
    "lag",
    "root",
    "site",
    "type",
    "bin",
    "retainer",
    "string",
    "const_data",
    "named",
    "definite",
    "99999999999999999999",
};

static bool run(struct lie *lie, const char *sql)
{
    return sqlite3_exec(lie->db, sql, NULL, NULL, NULL) == SQLITE_OK;
}

static int64_t ask(struct lie *lie, const char *sql)
{
    sqlite3_stmt *st = NULL;
    int64_t value = 0;
    if (sqlite3_prepare_v2(lie->db, sql, -1, &st, NULL) == SQLITE_OK &&
        sqlite3_step(st) == SQLITE_ROW)
        value = sqlite3_column_int64(st, 0);
    sqlite3_finalize(st);
    return value;
}

static bool fits(int n)
{
    return n < 1024;
}
#define with(format, a, b, sql) fits(snprintf(sql, 1024, format, a, b))

/* --- which ---------------------------------------------------------------------- */

/* A table, rather one that has rows. */
static void choose_table(struct lie *lie)
{
    char sql[1024];
    for (int attempt = 0; attempt < 6; attempt++) {
        lie->table = &hx_tables[hx_fuzz_below(lie->state, HX_TABLES)];
        with("SELECT EXISTS (SELECT 1 FROM \"%s\")%s", lie->table->name, "", sql);
        if (ask(lie, sql))
            break;
    }
    for (lie->columns = 0; lie->table->column[lie->columns].name;)
        lie->columns++;
}

static const struct hx_column_info *a_column(struct lie *lie)
{
    return &lie->table->column[hx_fuzz_below(lie->state, lie->columns)];
}

/* Appends the condition: one row or a few that go together, a part of them, or all. */
static void put_where(struct lie *lie, struct hx_text *sql)
{
    char count[1024];
    with("SELECT count(*) FROM \"%s\"%s", lie->table->name, "", count);
    size_t rows = (size_t)ask(lie, count);
    size_t kind = hx_fuzz_below(lie->state, 10);
    if (kind < 7) { /* of a row: its first column, or its first two ones */
        size_t row = hx_fuzz_below(lie->state, rows);
        for (size_t i = 0; i < (lie->columns > 1 && kind < 5 ? 2u : 1u); i++)
            hx_text_putf(sql, " %s \"%s\" = (SELECT \"%s\" FROM \"%s\" LIMIT 1 OFFSET %zu)",
                         i ? "AND" : "WHERE", lie->table->column[i].name,
                         lie->table->column[i].name, lie->table->name, row);
    } else if (kind < 9) {
        hx_text_putf(sql, " WHERE chance(%zu) = 0", 2 + hx_fuzz_below(lie->state, 20));
    }
}

/* --- what -------------------------------------------------------------------------- */

static void bind_text(struct lie *lie, sqlite3_stmt *st, int at)
{
    const char *text = PICK(lie, texts);
    size_t n = strlen(text), times = 1;
    size_t kind = hx_fuzz_below(lie->state, 12);
    if (kind == 0 && n)
        times = 1 + hx_fuzz_below(lie->state, 3000);
    char *all = malloc(n * times + 8);
    if (!all)
        abort();
    for (size_t i = 0; i < times; i++)
        memcpy(all + i * n, text, n);
    n *= times;
    if (kind == 1) { /* behind an end that is none */
        memcpy(all + n, "\0hidden", 7);
        n += 7;
    }
    if (kind == 2)
        sqlite3_bind_blob(st, at, all, (int)n, SQLITE_TRANSIENT);
    else
        sqlite3_bind_text(st, at, all, (int)n, SQLITE_TRANSIENT);
    free(all);
}

/* Rather of the column's type. */
static void bind_any(struct lie *lie, sqlite3_stmt *st, int at, enum hx_column_type type)
{
    size_t kind = hx_fuzz_below(lie->state, 20), integers = type == HX_INTEGER ? 11 : 4;
    if (kind < integers)
        sqlite3_bind_int64(st, at, PICK(lie, numbers));
    else if (kind < integers + 1)
        sqlite3_bind_double(st, at, PICK(lie, reals));
    else if (kind < integers + 3)
        sqlite3_bind_null(st, at);
    else
        bind_text(lie, st, at);
}

/* Runs and frees the statement, with any value for its parameter. */
static void run_with_any(struct lie *lie, struct hx_text *sql, enum hx_column_type type)
{
    sqlite3_stmt *st = NULL;
    if (!sql->failed && sqlite3_prepare_v2(lie->db, hx_text_str(sql), -1, &st, NULL) == SQLITE_OK) {
        if (sqlite3_bind_parameter_count(st))
            bind_any(lie, st, 1, type);
        sqlite3_step(st);
    }
    sqlite3_finalize(st);
    hx_text_free(sql);
}

static void change_values(struct lie *lie)
{
    static const char *const sums[] = {"+ 1",  "- 1", "* 2",   "/ 2",   "% 7",
                                       "* -1", "| 1", "<< 20", "<< 40", "+ 4294967296"};
    struct hx_text sql = {0};
    const char *table = lie->table->name;
    const struct hx_column_info *changed = a_column(lie);
    const char *column = changed->name;
    hx_text_putf(&sql, "UPDATE OR IGNORE \"%s\" SET \"%s\" = ", table, column);
    switch (hx_fuzz_below(lie->state, 8)) {
    case 0: /* what another row has, perhaps elsewhere */
        hx_text_putf(&sql, "(SELECT \"%s\" FROM \"%s\" LIMIT 1 OFFSET %zu)",
                     hx_fuzz_below(lie->state, 3) ? column : a_column(lie)->name, table,
                     hx_fuzz_below(lie->state, 20));
        break;
    case 1:
        hx_text_putf(&sql, "\"%s\" %s", column, PICK(lie, sums));
        break;
    case 2: /* cycles, of itself or of many */
        hx_text_putf(&sql, "\"%s\"",
                     hx_fuzz_below(lie->state, 2) ? lie->table->column[0].name
                                                  : a_column(lie)->name);
        break;
    case 3:
        hx_text_putf(&sql, "(SELECT max(\"%s\") FROM \"%s\") - \"%s\"", column, table, column);
        break;
    default:
        hx_text_puts(&sql, "?1");
    }
    put_where(lie, &sql);
    run_with_any(lie, &sql, changed->type);
}

/* Rows that are there, with another value in one column. */
static void add_rows(struct lie *lie)
{
    struct hx_text sql = {0};
    size_t other = hx_fuzz_below(lie->state, lie->columns);
    hx_text_putf(&sql, "INSERT OR IGNORE INTO \"%s\" SELECT ", lie->table->name);
    for (size_t i = 0; i < lie->columns; i++) {
        hx_text_puts(&sql, i ? ", " : "");
        if (i == other)
            hx_text_puts(&sql, "?1");
        else
            hx_text_putf(&sql, "\"%s\"", lie->table->column[i].name);
    }
    hx_text_putf(&sql, " FROM \"%s\"", lie->table->name);
    put_where(lie, &sql);
    run_with_any(lie, &sql, lie->table->column[other].type);
}

static void remove_rows(struct lie *lie)
{
    struct hx_text sql = {0};
    hx_text_putf(&sql, "DELETE FROM \"%s\"", lie->table->name);
    put_where(lie, &sql);
    run_with_any(lie, &sql, HX_INTEGER);
}

/* Appends an expression for a column of the copies that grow() makes: row `k` of many. */
static void put_grown(struct lie *lie, struct hx_text *sql, size_t i)
{
    const char *name = lie->table->column[i].name, *table = lie->table->name;
    if (strcmp(name, "parent_id") == 0 || strcmp(name, "parent") == 0) /* one long chain */
        hx_text_putf(sql, "(SELECT max(\"%s\") FROM \"%s\") + k - 1", lie->table->column[0].name,
                     table);
    else if (i == 0 && hx_fuzz_below(lie->state, 4))
        hx_text_putf(sql, "(SELECT max(\"%s\") FROM \"%s\") + k", name, table);
    else if (hx_fuzz_below(lie->state, 3) == 0)
        hx_text_putf(sql, "k + \"%s\"", name);
    else if (hx_fuzz_below(lie->state, 8) == 0)
        hx_text_putf(sql, "\"%s\" || k", name);
    else
        hx_text_putf(sql, "\"%s\"", name);
}

/* Many rows, deep trees: what is read in time must not depend on how they lie. */
static void grow(struct lie *lie)
{
    static const size_t rows[] = {50, 500, 5000};
    struct hx_text sql = {0};
    hx_text_putf(&sql,
                 "WITH RECURSIVE n(k) AS (SELECT 1 UNION ALL SELECT k + 1 FROM n WHERE k < %zu)"
                 " INSERT OR IGNORE INTO \"%s\" SELECT ",
                 PICK(lie, rows), lie->table->name);
    for (size_t i = 0; i < lie->columns; i++) {
        hx_text_puts(&sql, i ? ", " : "");
        put_grown(lie, &sql, i);
    }
    hx_text_putf(&sql, " FROM n, (SELECT * FROM \"%s\" LIMIT 1 OFFSET %zu)", lie->table->name,
                 hx_fuzz_below(lie->state, 4));
    run_with_any(lie, &sql, HX_INTEGER);
}

/* --- tables and views ---------------------------------------------------------------- */

static void change_view(struct lie *lie)
{
    static const char *const views[] = {"snapshots", "retainers", "types",      "bins",
                                        "roots",     "leaks",     "dominators", "costs",
                                        "sites",     "ccs",       "biography",  "frames"};
    static const char *const becomes[] = {
        "",
        "VIEW AS SELECT 1 AS snapshot",
        "VIEW AS SELECT 'x' AS snapshot, -5 AS bytes, x'ff00' AS label",
        "VIEW AS SELECT * FROM itself",
        "TABLE (snapshot, bytes, objects, label)",
        "VIEW AS SELECT * FROM nowhere",
    };
    char sql[1024];
    const char *view = PICK(lie, views), *instead = PICK(lie, becomes);
    if (!with("DROP VIEW %s%s", view, "", sql) || !run(lie, sql) || !*instead)
        return;
    const char *what = strchr(instead, ' '), *itself = strstr(what, "itself");
    snprintf(sql, sizeof sql, "CREATE %.*s %s%.*s%s", (int)(what - instead), instead, view,
             itself ? (int)(itself - what) : (int)strlen(what), what, itself ? view : "");
    run(lie, sql);
}

static void change_schema(struct lie *lie)
{
    static const char *const pragmas[] = {
        "PRAGMA user_version = 0",  "PRAGMA user_version = 1",  "PRAGMA user_version = 2",
        "PRAGMA user_version = 3",  "PRAGMA user_version = 4",  "PRAGMA user_version = 5",
        "PRAGMA user_version = -1", "PRAGMA user_version = 99", "PRAGMA application_id = 1"};
    char sql[1024];
    switch (hx_fuzz_below(lie->state, 6)) {
    case 0:
        with("DROP TABLE \"%s\"%s", lie->table->name, "", sql);
        break;
    case 1:
        with("ALTER TABLE \"%s\" ADD COLUMN %s", lie->table->name, "more DEFAULT 'more'", sql);
        break;
    case 2:
        with("ALTER TABLE \"%s\" RENAME COLUMN \"%s\" TO was_renamed", lie->table->name,
             a_column(lie)->name, sql);
        break;
    case 3:
        with("ALTER TABLE \"%s\" DROP COLUMN \"%s\"", lie->table->name, a_column(lie)->name, sql);
        break;
    case 4:
        with("%s%s", PICK(lie, pragmas), "", sql);
        break;
    default:
        change_view(lie);
        return;
    }
    /* what a view would be left without is no reason to refuse */
    run(lie, "PRAGMA legacy_alter_table = 1");
    run(lie, sql);
}

/* --- columns of objects and edges -------------------------------------------------------- */

static uint32_t values_of(const uint8_t *blob, size_t n)
{
    uint32_t values = 0;
    if (n >= 16)
        memcpy(&values, blob + 12, sizeof values);
    return values;
}

static void change_value(struct lie *lie, uint64_t *value, size_t n)
{
    uint64_t *at = value + hx_fuzz_below(lie->state, n);
    switch (hx_fuzz_below(lie->state, 5)) {
    case 0:
        *at += hx_fuzz_below(lie->state, 9);
        *at -= 4;
        break;
    case 1:
        *at ^= UINT64_C(1) << hx_fuzz_below(lie->state, 64);
        break;
    case 2:
        *at = value[hx_fuzz_below(lie->state, n)];
        break;
    case 3:
        *at = hx_fuzz_below(lie->state, 2 * n + 2);
        break;
    default:
        *at = (uint64_t)PICK(lie, numbers);
    }
}

/* A blob that can be decoded, of other values or of another number of them. Returns its bytes. */
static size_t change_values_of(struct lie *lie, const uint8_t *blob, size_t bytes, uint8_t **ret)
{
    uint32_t n = values_of(blob, bytes);
    hx_codec *codec = NULL;
    size_t encoded = 0;
    if (n == 0 || n >= HX_BLOCK_ROWS || hx_codec_create(&codec))
        return 0;
    uint64_t *value = calloc(n + 1, sizeof *value);
    uint16_t *place = calloc(n + 2, sizeof *place);
    *ret = malloc(hx_column_bound(n + 1));
    if (!value || !place || !*ret)
        abort();
    for (size_t i = 0; i <= n; i++)
        place[i] = (uint16_t)i; /* as they lie */
    hx_error *err = hx_column_decode(codec, blob, bytes, place, value, n);
    size_t changes = hx_fuzz_below(lie->state, 4) ? 1 + hx_fuzz_below(lie->state, 3) : n;
    for (size_t i = 0; i < changes; i++)
        change_value(lie, value, n);
    size_t left = hx_fuzz_below(lie->state, 20) ? n : n - 1 + 2 * hx_fuzz_below(lie->state, 2);
    if (!err)
        err = hx_column_encode(codec, value, hx_fuzz_below(lie->state, 2) ? place : NULL, left,
                               *ret, &encoded);
    if (err)
        encoded = 0;
    hx_error_free(err);
    hx_codec_destroy(codec);
    free(value);
    free(place);
    return encoded;
}

/* The bytes themselves, which the checksum tells. */
static size_t damage(struct lie *lie, const uint8_t *blob, size_t bytes, uint8_t **ret)
{
    *ret = malloc(bytes + 1);
    if (!*ret)
        abort();
    if (bytes)
        memcpy(*ret, blob, bytes);
    if (bytes && hx_fuzz_below(lie->state, 2)) {
        (*ret)[hx_fuzz_below(lie->state, bytes)] ^= (uint8_t)hx_fuzz_next(lie->state);
        return bytes;
    }
    return hx_fuzz_below(lie->state, bytes + 1);
}

static void change_blob(struct lie *lie)
{
    sqlite3_stmt *st = NULL, *to = NULL;
    int64_t rows = ask(lie, "SELECT count(*) FROM hx_column"), id = 0;
    uint8_t *changed = NULL;
    size_t n = 0;
    if (rows > 0 && sqlite3_prepare_v2(lie->db,
                                       ask(lie, "SELECT count(*) FROM hx_pack") > 0
                                           ? "SELECT id, coalesce((SELECT p.data FROM hx_pack p"
                                             " WHERE p.pack = c.data), data) FROM hx_column c"
                                             " ORDER BY id LIMIT 1 OFFSET ?"
                                           : "SELECT id, data FROM hx_column ORDER BY id LIMIT 1"
                                             " OFFSET ?",
                                       -1, &st, NULL) == SQLITE_OK) {
        sqlite3_bind_int64(st, 1, (int64_t)hx_fuzz_below(lie->state, (size_t)rows));
        if (sqlite3_step(st) == SQLITE_ROW) {
            const uint8_t *blob = sqlite3_column_blob(st, 1);
            size_t bytes = (size_t)sqlite3_column_bytes(st, 1);
            id = sqlite3_column_int64(st, 0);
            n = hx_fuzz_below(lie->state, 8) ? change_values_of(lie, blob, bytes, &changed)
                                             : damage(lie, blob, bytes, &changed);
        }
    }
    sqlite3_finalize(st);
    if (changed && sqlite3_prepare_v2(lie->db, "UPDATE hx_column SET data = ? WHERE id = ?", -1,
                                      &to, NULL) == SQLITE_OK) {
        sqlite3_bind_blob(to, 1, changed, (int)n, SQLITE_TRANSIENT);
        sqlite3_bind_int64(to, 2, id);
        sqlite3_step(to);
    }
    sqlite3_finalize(to);
    free(changed);
}

/* --- the call -------------------------------------------------------------------------------- */

/* chance(n): a random number below n */
static void chance(sqlite3_context *context, int n, sqlite3_value **value)
{
    (void)n;
    uint64_t *state = sqlite3_user_data(context);
    sqlite3_result_int64(context,
                         (int64_t)hx_fuzz_below(state, (size_t)sqlite3_value_int64(value[0])));
}

void hx_lies(sqlite3 *db, uint64_t *state)
{
    struct lie lie = {.db = db, .state = state};
    sqlite3_create_function(db, "chance", 1, SQLITE_UTF8, state, chance, NULL, NULL);
    run(&lie, "PRAGMA journal_mode = MEMORY; PRAGMA synchronous = OFF; BEGIN");
    for (size_t i = 1 + hx_fuzz_below(state, 4); i-- > 0;) {
        size_t kind = hx_fuzz_below(state, 100);
        choose_table(&lie);
        if (kind < 25)
            change_blob(&lie);
        else if (kind < 75)
            change_values(&lie);
        else if (kind < 77)
            grow(&lie);
        else if (kind < 84)
            add_rows(&lie);
        else if (kind < 93)
            remove_rows(&lie);
        else
            change_schema(&lie);
    }
    run(&lie, "COMMIT");
}
