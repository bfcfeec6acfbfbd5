/* test_store_schema.c - the statements that lie in a store are those of heapx and no others, in
 * each schema there was; what a hostile file says instead is neither run nor waited for. Rows are
 * read as they were written. */
#include "store_model.h"

#include "store/schema/row.h"
#include "store/schema/schema.h"

#include <pthread.h>
#include <sqlite3.h>
#include <time.h>

static void must_run(sqlite3 *db, const char *sql)
{
    char *message = NULL;
    if (sqlite3_exec(db, sql, NULL, NULL, &message) != SQLITE_OK)
        fail_msg("%s: %s", sql, message);
}

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static sqlite3 *open_new(const char *path)
{
    sqlite3 *db;
    unlink(path);
    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    must_run(db, "PRAGMA synchronous = OFF; PRAGMA journal_mode = MEMORY");
    return db;
}

/* An empty store, as heapx made it when that schema was the newest. */
static void make_of(const char *path, int version)
{
    sqlite3 *db = open_new(path);
    const char *source = getenv("HX_SRCDIR");
    static char sql[1 << 17];
    char name[64];
    snprintf(name, sizeof name, "test/golden/store-schema-%d.sql", version);
    char *golden = model_path(source ? source : ".", name);
    FILE *file = fopen(golden, "rb");
    assert_non_null(file);
    sql[fread(sql, 1, sizeof sql - 1, file)] = 0;
    fclose(file);
    free(golden);
    must_run(db, sql);
    assert_int_equal(sqlite3_close(db), SQLITE_OK);
}

static void change(const char *path, const char *sql)
{
    sqlite3 *db;
    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    must_run(db, "PRAGMA writable_schema = 1; PRAGMA synchronous = OFF");
    must_run(db, sql);
    assert_int_equal(sqlite3_close(db), SQLITE_OK);
}

static void refused_both(const char *path, const char *word)
{
    hx_store *store;
    double began = now();
    assert_refused(hx_store_open(path, &store), HX_E_CORRUPT, word);
    assert_refused(hx_store_append(path, &store), HX_E_CORRUPT, word);
    assert_true(now() - began < 20);
}

static void opens_both(const char *path)
{
    for (int i = 0; i < 3; i++) { /* last: what appending has brought up to date */
        hx_store *store;
        hx_rows *rows;
        assert_done(i % 2 ? hx_store_append(path, &store) : hx_store_open(path, &store));
        assert_done(hx_query_sql(store, "SELECT * FROM leaks, types, objects", &rows));
        bool more;
        assert_done(hx_rows_next(rows, &more));
        assert_false(more);
        hx_rows_end(rows);
        assert_done(hx_store_close(store));
    }
}

static const int versions[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, HX_STORE_SCHEMA};

static void each_schema_passes(void **state)
{
    (void)state;
    char *directory = model_directory(), *path = model_path(directory, "a.hpx");
    for (size_t i = 0; i < sizeof versions / sizeof *versions; i++) {
        make_of(path, versions[i]);
        opens_both(path);
        make_of(path, versions[i]);
        change(path, "ANALYZE; CREATE TABLE x(a); DROP TABLE x; VACUUM");
        opens_both(path);
    }
    unlink(path);
    hx_store *store;
    assert_done(hx_store_append(path, &store)); /* the present one */
    assert_done(hx_store_close(store));
    free(path);
    model_remove(directory);
}

/* The whole text of sqlite_schema, which the caller frees. */
static char *text_of(const char *path)
{
    sqlite3 *db;
    sqlite3_stmt *st;
    struct hx_text text = {0};
    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    assert_int_equal(sqlite3_prepare_v2(db,
                                        "SELECT type, name, tbl_name, coalesce(sql, 'NULL')"
                                        " FROM sqlite_schema ORDER BY type, name",
                                        -1, &st, NULL),
                     SQLITE_OK);
    while (sqlite3_step(st) == SQLITE_ROW) {
        for (int i = 0; i < 4; i++)
            hx_text_putf(&text, "%s%c", (const char *)sqlite3_column_text(st, i),
                         i < 3 ? ' ' : '\n');
    }
    sqlite3_finalize(st);
    sqlite3_close(db);
    assert_false(text.failed);
    return text.s;
}

/* What is new and what was migrated from any schema have the text of the golden store of this one:
 * files are compared with it, so that a change of it is a new schema. */
static void one_text(void **state)
{
    (void)state;
    char *directory = model_directory(), *path = model_path(directory, "a.hpx");
    make_of(path, HX_STORE_SCHEMA);
    char *golden = text_of(path);
    sqlite3 *db = open_new(path);
    assert_done(hx_schema_create(db, path));
    assert_int_equal(sqlite3_close(db), SQLITE_OK);
    for (size_t i = 0; i < sizeof versions / sizeof *versions; i++) {
        hx_store *store;
        char *text = text_of(path); /* first the new one */
        assert_string_equal(text, golden);
        free(text);
        make_of(path, versions[i]);
        assert_done(hx_store_append(path, &store));
        assert_done(hx_store_close(store));
    }
    free(golden);
    free(path);
    model_remove(directory);
}

/* What the newest text must be, so that a change of it needs a new schema: as SQLite keeps it. */
static void made_as_expected(void **state)
{
    (void)state;
    sqlite3 *db, *expected;
    assert_int_equal(sqlite3_open(":memory:", &db), SQLITE_OK);
    assert_int_equal(sqlite3_open(":memory:", &expected), SQLITE_OK);
    assert_done(hx_schema_create(db, "store"));
    assert_done(hx_schema_expect(expected, "store", HX_STORE_SCHEMA));
    sqlite3_stmt *mine, *theirs;
    const char *order = " ORDER BY type, name";
    char sql[128];
    snprintf(sql, sizeof sql, "SELECT type, name, tbl_name, sql FROM sqlite_schema%s", order);
    assert_int_equal(sqlite3_prepare_v2(db, sql, -1, &mine, NULL), SQLITE_OK);
    snprintf(sql, sizeof sql, "SELECT type, name, tbl_name, sql FROM temp.expected%s", order);
    assert_int_equal(sqlite3_prepare_v2(expected, sql, -1, &theirs, NULL), SQLITE_OK);
    int rows = 0, code;
    while ((code = sqlite3_step(mine)) == SQLITE_ROW) {
        assert_int_equal(sqlite3_step(theirs), SQLITE_ROW);
        for (int i = 0; i < 4; i++) {
            const char *a = (const char *)sqlite3_column_text(mine, i);
            const char *b = (const char *)sqlite3_column_text(theirs, i);
            assert_string_equal(a ? a : "NULL", b ? b : "NULL");
        }
        rows++;
    }
    assert_int_equal(code, SQLITE_DONE);
    assert_int_equal(sqlite3_step(theirs), SQLITE_DONE);
    assert_true(rows > 60);
    sqlite3_finalize(mine);
    sqlite3_finalize(theirs);
    sqlite3_close(db);
    sqlite3_close(expected);
}

/* --- rows ------------------------------------------------------------------------------ */

/* Any value of a column: as long as the longest row has columns. */
union cell {
    struct hx_int n;
    struct hx_real real;
    struct hx_str text;
    struct hx_blob blob;
};
enum { MOST_COLUMNS = 32 };

/* NULL now and then, but not where a row must have a value. */
static union cell any_cell(struct unit_random *random, const struct hx_column_info *column)
{
    static const char text[] = "a\0b and so on";
    union cell cell = {0};
    if (!*column->constraint && unit_below(random, 4) == 0)
        return cell;
    if (column->type == HX_INTEGER)
        cell.n = hx_int(unit_random(random));
    else if (column->type == HX_REAL)
        cell.real = hx_real(0.25 * (double)unit_below(random, 100));
    else if (column->type == HX_BLOB)
        cell.blob = (struct hx_blob){text, 1 + unit_below(random, sizeof text)};
    else
        cell.text = (struct hx_str){text, unit_below(random, sizeof text)};
    return cell;
}

static void assert_same_cell(enum hx_column_type type, const union cell *a, const union cell *b)
{
    if (type == HX_INTEGER) {
        assert_int_equal(a->n.known, b->n.known);
        assert_int_equal(a->n.value, b->n.value);
    } else if (type == HX_REAL) {
        assert_int_equal(a->real.known, b->real.known);
        assert_true(a->real.value == b->real.value);
    } else { /* blobs lie like texts */
        assert_int_equal(!a->text.s, !b->text.s);
        assert_int_equal(a->text.n, b->text.n);
        if (a->text.s)
            assert_memory_equal(a->text.s, b->text.s, a->text.n);
    }
}

/* What is written of a row of any table is what is read. */
static void rows(void **state)
{
    (void)state;
    struct unit_random random = unit_random_begin("rows");
    sqlite3 *db;
    assert_int_equal(sqlite3_open(":memory:", &db), SQLITE_OK);
    assert_done(hx_schema_create(db, "store"));
    struct hx_inserter inserter = {.db = db, .what = "store"};
    for (size_t t = 0; t < HX_TABLES * unit_rounds(10); t++) {
        enum hx_table_id id = (enum hx_table_id)(t % HX_TABLES);
        const struct hx_column_info *column = hx_tables[id].column;
        union cell row[MOST_COLUMNS], read[MOST_COLUMNS];
        char sql[64];
        sqlite3_stmt *st;
        for (size_t i = 0; column[i].name; i++) {
            assert_in_range(i, 0, MOST_COLUMNS - 1);
            row[i] = any_cell(&random, &column[i]);
            if (hx_tables[id].primary_key && column[i].type == HX_INTEGER)
                row[i].n.known = true; /* it may be of the key */
            else if (hx_tables[id].primary_key && !row[i].text.s && column[i].type != HX_REAL)
                row[i].text.s = "";
        }
        assert_done(hx_insert_row(&inserter, id, row));
        snprintf(sql, sizeof sql, "SELECT * FROM %s", hx_tables[id].name);
        assert_int_equal(sqlite3_prepare_v2(db, sql, -1, &st, NULL), SQLITE_OK);
        assert_int_equal(sqlite3_step(st), SQLITE_ROW);
        hx_read_row(st, id, read);
        for (size_t i = 0; column[i].name; i++)
            assert_same_cell(column[i].type, &row[i], &read[i]);
        sqlite3_finalize(st);
        snprintf(sql, sizeof sql, "DELETE FROM %s", hx_tables[id].name);
        must_run(db, sql);
    }
    hx_inserter_deinit(&inserter);
    sqlite3_close(db);
}

#define ENDLESS "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i FROM n"
#define SCHEMA(type, name, of, sql)                                                                \
    "INSERT INTO sqlite_schema VALUES('" type "', '" name "', '" of "', 2, " sql ")"
#define REWRITE(name, sql) "UPDATE sqlite_schema SET sql = " sql " WHERE name = '" name "'"

static void strangers(void **state)
{
    (void)state;
    static const struct {
        const char *sql, *word;
    } attacks[] = {
        {"CREATE VIEW objects AS " ENDLESS, "view objects"},
        {"CREATE VIEW more AS SELECT 1", "view more"},
        {"CREATE TABLE more(a)", "table more"},
        {"CREATE TABLE more(a UNIQUE)", "table more"},
        {"CREATE INDEX more ON hx_leak(bytes)", "index more"},
        {"CREATE INDEX more ON hx_leak(hex(zeroblob(bytes)))", "index more"},
        {"CREATE INDEX more ON hx_leak(bytes) WHERE bytes > 1", "index more"},
        {"CREATE TRIGGER more AFTER INSERT ON hx_leak BEGIN SELECT 1; END", "trigger more"},
        {"CREATE VIRTUAL TABLE more USING fts5(a)", "table more"},
        {SCHEMA("table", "more", "more", "'CREATE VIRTUAL TABLE more USING none()'"), "table more"},
        {SCHEMA("view", "more", "more", "NULL"), "view more"},
        {SCHEMA("strange", "more", "hx_leak", "'CREATE'"), "object more"},
        {SCHEMA("table", "hx_leak", "hx_leak", "'CREATE TABLE hx_leak(a)'"), "table hx_leak"},
        {SCHEMA("index", "sqlite_autoindex_hx_leak_1", "hx_leak", "NULL"),
         "index sqlite_autoindex_hx_leak_1"},
        {SCHEMA("view", "sqlite_stat1", "sqlite_stat1",
                "'CREATE VIEW sqlite_stat1 AS " ENDLESS "'"),
         "view sqlite_stat1"},
        {SCHEMA("table", "sqlite_stat1", "sqlite_stat1",
                "'CREATE TABLE sqlite_stat1(tbl,idx,stat AS (hex(zeroblob(900000000))))'"),
         "table sqlite_stat1 has another"},
        {"INSERT INTO sqlite_schema SELECT 'view', 'v' || value, 'v', 0,"
         " 'CREATE VIEW v' || value || ' AS SELECT 1' FROM"
         " (WITH RECURSIVE n(value) AS (SELECT 1 UNION ALL SELECT value + 1 FROM n LIMIT 300000)"
         " SELECT value FROM n)",
         "view v1 "},
        {"INSERT INTO sqlite_schema SELECT type, name, tbl_name, rootpage, sql FROM sqlite_schema"
         " WHERE name = 'hx_loss'",
         "table hx_loss"},
        {"DELETE FROM sqlite_schema WHERE name = 'hx_loss_snapshot'", "missing: hx_loss_snapshot"},
        {"DELETE FROM sqlite_schema", "tables are missing"},
        {REWRITE("hx_loss", "sql || ' '"), "table hx_loss has another"},
        {REWRITE("hx_loss", "upper(sql)"), "table hx_loss has another"},
        {REWRITE("hx_loss", "CAST(sql AS BLOB)"), "table hx_loss has another"},
        {REWRITE("hx_loss", "NULL"), "table hx_loss has another"},
        {REWRITE("hx_loss", "sql || char(0) || 'x'"), "table hx_loss has another"},
        {REWRITE("hx_loss", "replace(sql, 'address INTEGER', 'address INTEGER CHECK(count < 1)')"),
         "table hx_loss has another"},
        {REWRITE("hx_loss", "replace(sql, 'address INTEGER', 'address AS (hex(count))')"),
         "table hx_loss has another"},
        {REWRITE("hx_loss", "replace(sql, 'address INTEGER', 'address DEFAULT (random())')"),
         "table hx_loss has another"},
        {REWRITE("hx_loss", "sql || replace(hex(zeroblob(900000)), '0', ' ')"),
         "table hx_loss has another"},
        {REWRITE("hx_loss", "replace(hex(zeroblob(40000)), '0', '(')"), "table hx_loss"},
        {REWRITE("hx_loss_snapshot", "sql || ' WHERE bytes > 0'"), "index hx_loss_snapshot"},
        {"UPDATE sqlite_schema SET tbl_name = 'hx_leak' WHERE name = 'hx_loss_snapshot'",
         "index hx_loss_snapshot is none"},
        {"UPDATE sqlite_schema SET type = 'view' WHERE name = 'hx_loss'", "view hx_loss is none"},
        {"UPDATE sqlite_schema SET name = NULL WHERE name = 'hx_loss'", "(unnamed)"},
        {"UPDATE sqlite_schema SET name = replace(hex(zeroblob(900000)), '0', 'a')"
         " WHERE name = 'hx_loss'",
         "damaged"},
    };
    char *directory = model_directory(), *path = model_path(directory, "a.hpx");
    for (size_t i = 0; i < sizeof versions / sizeof *versions; i += 6)
        for (size_t k = 0; k < sizeof attacks / sizeof *attacks; k++) {
            make_of(path, versions[i]);
            change(path, attacks[k].sql);
            refused_both(path, attacks[k].word);
        }
    /* with rows that the statistics' columns would be generated from */
    make_of(path, 6);
    change(path, "ANALYZE; INSERT INTO sqlite_stat1 VALUES('hx_leak', 'hx_leak_snapshot', '1 1');"
                 "UPDATE sqlite_schema SET sql = 'CREATE TABLE sqlite_stat1(tbl,idx,stat AS"
                 " (hex(zeroblob(900000000))))' WHERE name = 'sqlite_stat1'");
    refused_both(path, "table sqlite_stat1 has another");
    free(path);
    model_remove(directory);
}

/* A view of today is refused; one of an older schema is never looked at. */
static void views_that_never_end(void **state)
{
    (void)state;
    char *directory = model_directory(), *path = model_path(directory, "a.hpx");
    for (size_t i = 0; i < sizeof versions / sizeof *versions; i++) {
        make_of(path, versions[i]);
        change(path, "UPDATE sqlite_schema SET sql = 'CREATE VIEW ' || name || ' AS " ENDLESS
                     "' WHERE type = 'view'");
        if (versions[i] == HX_STORE_SCHEMA)
            refused_both(path, "has another text");
        else
            opens_both(path);
    }
    free(path);
    model_remove(directory);
}

/* --- trees of pages that a walk never leaves ------------------------------------------- */

enum { PAGE = 4096, LEVELS = 17, CHILDREN = 300 };

static void put16(unsigned char *at, unsigned value)
{
    at[0] = (unsigned char)(value >> 8);
    at[1] = (unsigned char)value;
}

static void put32(unsigned char *at, unsigned value)
{
    put16(at, value >> 16);
    put16(at + 2, value & 0xffff);
}

/* Makes page `root` the top of a tree whose pages have the next one CHILDREN times; what was in it
 * is the leaf below them all. */
static void make_endless(const char *path, unsigned root)
{
    FILE *file = fopen(path, "r+b");
    assert_non_null(file);
    unsigned char header[100], leaf[PAGE], page[PAGE];
    assert_int_equal(fread(header, 1, sizeof header, file), sizeof header);
    assert_int_equal(header[16] << 8 | header[17], PAGE);
    fseek(file, 0, SEEK_END);
    unsigned pages = (unsigned)(ftell(file) / PAGE), first = root == 1 ? 100 : 0;
    fseek(file, (long)(root - 1) * PAGE, SEEK_SET);
    assert_int_equal(fread(leaf, 1, PAGE, file), PAGE);
    for (unsigned level = 0; level < LEVELS; level++) {
        unsigned at = level ? 0 : first, child = pages + 1 + level;
        memset(page, 0, sizeof page);
        if (!level)
            memcpy(page, leaf, first);
        page[at] = 5;
        put16(page + at + 3, CHILDREN);
        put16(page + at + 5, PAGE - 6 * CHILDREN);
        put32(page + at + 8, child);
        for (unsigned i = 0; i < CHILDREN; i++) {
            unsigned cell = PAGE - 6 * (i + 1);
            put16(page + at + 12 + 2 * i, cell);
            put32(page + cell, child);
            page[cell + 4] = 1;
        }
        fseek(file, (long)(level ? pages + level - 1 : root - 1) * PAGE, SEEK_SET);
        assert_int_equal(fwrite(page, 1, PAGE, file), PAGE);
    }
    if (first) /* the leaf has no header of the file before it: its only row points behind itself */
        memmove(leaf, leaf + first, 8 + 2);
    fseek(file, (long)(pages + LEVELS - 1) * PAGE, SEEK_SET);
    assert_int_equal(fwrite(leaf, 1, PAGE, file), PAGE);
    put32(header + 28, pages + LEVELS);
    rewind(file);
    assert_int_equal(fwrite(header, 1, sizeof header, file), sizeof header);
    fclose(file);
}

static unsigned root_of(const char *path, const char *table)
{
    sqlite3 *db;
    sqlite3_stmt *st;
    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    assert_int_equal(
        sqlite3_prepare_v2(db, "SELECT rootpage FROM sqlite_schema WHERE name = ?", -1, &st, NULL),
        SQLITE_OK);
    sqlite3_bind_text(st, 1, table, -1, NULL);
    assert_int_equal(sqlite3_step(st), SQLITE_ROW);
    unsigned root = (unsigned)sqlite3_column_int(st, 0);
    sqlite3_finalize(st);
    sqlite3_close(db);
    return root;
}

static void endless_schema(void **state)
{
    (void)state;
    char *directory = model_directory(), *path = model_path(directory, "a.hpx");
    sqlite3 *db;
    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    must_run(db, "PRAGMA page_size = 4096; CREATE TABLE hx_leak(a)");
    char mark[96];
    snprintf(mark, sizeof mark, "PRAGMA application_id = %d; PRAGMA user_version = 6",
             HX_STORE_APPLICATION_ID);
    must_run(db, mark);
    sqlite3_close(db);
    make_endless(path, 1);
    double began = now();
    refused_both(path, "");
    assert_true(now() - began < 5);

    /* nor do statistics, which are loaded with the schema */
    for (int version = HX_STORE_SCHEMA - 1; version <= HX_STORE_SCHEMA; version++) {
        make_of(path, version);
        change(path, "INSERT INTO hx_leak(snapshot) VALUES(1); ANALYZE");
        make_endless(path, root_of(path, "sqlite_stat1"));
        began = now();
        refused_both(path, "");
        assert_true(now() - began < 5);
    }
    free(path);
    model_remove(directory);
}

/* --- who waits for a statement can end it ------------------------------------------------ */

struct impatient {
    atomic_bool flag;
    double at;
};

static void *lose_patience(void *context)
{
    struct impatient *impatient = context;
    while (now() < impatient->at)
        usleep(10000);
    atomic_store(&impatient->flag, true);
    return NULL;
}

static pthread_t begin_to_lose_patience(struct impatient *impatient)
{
    pthread_t thread;
    impatient->at = now() + 0.3;
    assert_int_equal(pthread_create(&thread, NULL, lose_patience, impatient), 0);
    return thread;
}

static void cancelled(void **state)
{
    (void)state;
    char *directory = model_directory(), *path = model_path(directory, "a.hpx");
    hx_store *store;
    pthread_t thread;
    for (int round = 0; round < 4; round++) {
        struct impatient impatient = {.flag = false};
        make_of(path, 3);
        if (round < 2) { /* migration walks over all stacks */
            change(path, "INSERT INTO hx_stack VALUES(1, 'a', 'a', 'a', 1)");
            make_endless(path, root_of(path, "hx_stack"));
            thread = begin_to_lose_patience(&impatient);
        }
        hx_error *err = round % 2 ? hx_store_append_until(path, &impatient.flag, &store)
                                  : hx_store_open_until(path, &impatient.flag, &store);
        if (round >= 2) {
            hx_rows *rows;
            bool more = true;
            assert_done(err);
            thread = begin_to_lose_patience(&impatient);
            if (round == 3) { /* before there is a statement to interrupt */
                pthread_join(thread, NULL);
                impatient.at = now();
            }
            assert_done(hx_query_sql(store, "SELECT max(i) FROM (" ENDLESS ")", &rows));
            err = hx_rows_next(rows, &more);
            hx_rows_end(rows);
            assert_done(hx_store_close(store));
        }
        assert_refused(err, HX_E_CANCEL, "");
        assert_true(now() - impatient.at < 1);
        if (round != 3)
            pthread_join(thread, NULL);
    }
    free(path);
    model_remove(directory);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_schema_passes), cmocka_unit_test(made_as_expected),
        cmocka_unit_test(one_text),           cmocka_unit_test(rows),
        cmocka_unit_test(strangers),          cmocka_unit_test(views_that_never_end),
        cmocka_unit_test(endless_schema),     cmocka_unit_test(cancelled),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
