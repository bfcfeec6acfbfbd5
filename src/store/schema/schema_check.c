/* schema_check.c - is what a file holds a store, and nothing but that?
 *
 * The text of tables, indexes and views lies in the file, and SQLite runs it: generated columns,
 * expressions of indexes, views that never end. So it has to be, letter by letter, what this
 * program writes when it makes a store of that schema, which it does in memory to compare.
 *
 * It is read before SQLite parses any of it. With writable_schema SQLite goes on when it cannot
 * parse a statement, and by the limits that it has meanwhile it can parse hardly any. What it runs
 * by itself when it loads a schema are columns of statistics, which may be generated: it leaves
 * these out when a statement was wrong, and the limits let no function in if all were right.
 */
#include "store/schema/schema.h"

#include "store/db.h"
#include "store/store.h"

#include <string.h>

#define ENTRIES "SELECT type,name,tbl_name FROM sqlite_schema"
#define TEXTS   "SELECT sql FROM sqlite_schema"

static const struct bound {
    int limit, value;
} bounds[] = {
    {SQLITE_LIMIT_LENGTH, 1 << 16}, /* of a name or statement; ours have a fourth of it at most */
    {SQLITE_LIMIT_SQL_LENGTH, 96},  /* what SQLite's own statement and those above need */
    {SQLITE_LIMIT_FUNCTION_ARG, 0},
    {SQLITE_LIMIT_LIKE_PATTERN_LENGTH, 0},
};

static hx_error *not_ours(const char *what, const char *type, const char *name, const char *how)
{
    static const char *const types[] = {"table", "index", "view", "trigger"};
    const char *kind = "object";
    for (size_t i = 0; type && i < sizeof types / sizeof *types; i++)
        if (strcmp(type, types[i]) == 0)
            kind = types[i];
    return hx_error_new(HX_E_CORRUPT, what, "take it from whoever made it once more",
                        "not as heapx makes stores: its %s %.80s %s", kind,
                        name ? name : "(unnamed)", how);
}

static hx_error *missing(const char *what, const char *name)
{
    return hx_error_new(HX_E_CORRUPT, what, "take it from a backup or make it again",
                        "the store is damaged (tables are missing: %s)", name);
}

/* --- what has to be there ------------------------------------------------------------ */

struct expected {
    sqlite3 *db; /* in memory; temp.expected loses what was found */
    sqlite3_stmt *names, *take;
};

static void expected_deinit(struct expected *expected)
{
    sqlite3_finalize(expected->names);
    sqlite3_finalize(expected->take);
    sqlite3_close_v2(expected->db);
}

static hx_error *expected_init(struct expected *expected, const char *what, int version)
{
    int code = sqlite3_open_v2(":memory:", &expected->db, SQLITE_OPEN_READWRITE, NULL);
    if (code != SQLITE_OK)
        return hx_db_error(expected->db, code, what);
    HX_TRY(hx_schema_expect(expected->db, what, version));
    HX_TRY(hx_db_exec(
        expected->db, what,
        "INSERT INTO expected SELECT 'table', column1, column1,"
        " 'CREATE TABLE ' || column1 || column2, 1 FROM (VALUES"
        " ('sqlite_stat1', '(tbl,idx,stat)'), ('sqlite_stat2', '(tbl,idx,sampleno,sample)'),"
        " ('sqlite_stat3', '(tbl,idx,neq,nlt,ndlt,sample)'),"
        " ('sqlite_stat4', '(tbl,idx,neq,nlt,ndlt,sample)'))"));
    HX_TRY(hx_db_prepare(expected->db, what,
                         "SELECT 1 FROM expected WHERE type IS ?1 AND name IS ?2"
                         " AND tbl_name IS ?3",
                         &expected->names));
    return hx_db_prepare(expected->db, what,
                         version == HX_STORE_SCHEMA
                             ? "DELETE FROM expected WHERE name IS ?1 AND sql IS ?2"
                             : "DELETE FROM expected WHERE name IS ?1"
                               " AND (sql IS ?2 OR type = 'view')",
                         &expected->take);
}

/* One of the file's, by its row in ENTRIES and, when it can be read, in TEXTS (or NULL). */
static hx_error *compare_schema_entry(struct expected *expected, const char *what,
                                      sqlite3_stmt *entry, sqlite3_stmt *text)
{
    for (int i = 0; i < 3; i++)
        sqlite3_bind_value(expected->names, i + 1, sqlite3_column_value(entry, i));
    int code = sqlite3_step(expected->names);
    sqlite3_reset(expected->names);
    bool known = code == SQLITE_ROW, ours = false;
    if (known && text) {
        sqlite3_bind_value(expected->take, 1, sqlite3_column_value(entry, 1));
        sqlite3_bind_value(expected->take, 2, sqlite3_column_value(text, 0));
        HX_TRY(hx_db_run(expected->db, what, expected->take));
        ours = sqlite3_changes(expected->db) == 1;
    }
    if (ours)
        return NULL;
    return not_ours(what, (const char *)sqlite3_column_text(entry, 0),
                    (const char *)sqlite3_column_text(entry, 1),
                    known ? "has another text" : "is none of a store");
}

static hx_error *compare_all(sqlite3 *db, const char *what, struct expected *expected)
{
    HX_STATEMENT sqlite3_stmt *entry = NULL;
    HX_STATEMENT sqlite3_stmt *text = NULL;
    HX_TRY(hx_db_prepare(db, what, ENTRIES, &entry));
    HX_TRY(hx_db_prepare(db, what, TEXTS, &text));
    int code;
    while ((code = sqlite3_step(entry)) == SQLITE_ROW) {
        int read = sqlite3_step(text);
        if (read != SQLITE_ROW && read != SQLITE_TOOBIG)
            return hx_db_error(db, read == SQLITE_DONE ? SQLITE_CORRUPT : read, what);
        HX_TRY(compare_schema_entry(expected, what, entry, read == SQLITE_ROW ? text : NULL));
    }
    if (code != SQLITE_DONE)
        return hx_db_error(db, code == SQLITE_TOOBIG ? SQLITE_CORRUPT : code, what);
    HX_STATEMENT sqlite3_stmt *rest = NULL;
    HX_TRY(
        hx_db_prepare(expected->db, what, "SELECT name FROM expected WHERE NOT optional", &rest));
    code = sqlite3_step(rest);
    return code == SQLITE_ROW    ? missing(what, (const char *)sqlite3_column_text(rest, 0))
           : code == SQLITE_DONE ? NULL
                                 : hx_db_error(expected->db, code, what);
}

/* --- the file's, unparsed ------------------------------------------------------------ */

static void swap_limits(sqlite3 *db, int limits[])
{
    for (size_t i = 0; i < sizeof bounds / sizeof *bounds; i++)
        limits[i] = sqlite3_limit(db, bounds[i].limit, limits[i]);
}

static hx_error *check_unparsed(sqlite3 *db, const char *what, struct expected *expected)
{
    int limits[sizeof bounds / sizeof *bounds];
    for (size_t i = 0; i < sizeof bounds / sizeof *bounds; i++)
        limits[i] = bounds[i].value;
    sqlite3_db_config(db, SQLITE_DBCONFIG_DEFENSIVE, 0, NULL);
    hx_error *err = hx_db_exec(db, what, "PRAGMA writable_schema = 1; BEGIN");
    sqlite3_db_config(db, SQLITE_DBCONFIG_DEFENSIVE, 1, NULL);
    if (err)
        return err;
    swap_limits(db, limits);
    err = compare_all(db, what, expected);
    swap_limits(db, limits);
    hx_error *end = hx_db_exec(db, what, "ROLLBACK; PRAGMA writable_schema = RESET");
    if (err)
        hx_error_free(end);
    return err ? err : end;
}

hx_error *hx_schema_check(sqlite3 *db, const char *what, int *ret_version)
{
    int64_t id, version;
    HX_TRY(hx_db_int(db, what, "PRAGMA application_id", &id));
    if (id != HX_STORE_APPLICATION_ID)
        return hx_schema_foreign(what, "an SQLite file of another program");
    HX_TRY(hx_db_int(db, what, "PRAGMA user_version", &version));
    if (version > HX_STORE_SCHEMA)
        return hx_schema_newer(what, (long)version);
    if (version < 1)
        return missing(what, "all");
    struct expected expected = {0};
    hx_error *err = expected_init(&expected, what, (int)version);
    if (!err)
        err = check_unparsed(db, what, &expected);
    expected_deinit(&expected);
    if (err)
        return err;
    *ret_version = (int)version;
    return NULL;
}
