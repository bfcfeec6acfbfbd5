/* schema.c - tables, views, and the steps from one schema to the next. */
#include "store/schema.h"

#include "store/db.h"
#include "store/store.h"

#include <stdio.h>

#define STR_(x) #x
#define STR(x)  STR_(x)

static const char create_sql[] = "PRAGMA application_id = " STR(
    HX_STORE_APPLICATION_ID) ";"
                             "PRAGMA user_version = " STR(
                                 HX_STORE_SCHEMA) ";"
                                                  "CREATE TABLE hx_snapshot(snapshot INTEGER "
                                                  "PRIMARY KEY, taken_at_ns INTEGER NOT NULL,"
                                                  " taken_at TEXT NOT NULL, pid INTEGER, comm "
                                                  "TEXT, exe TEXT, pause_us INTEGER, method TEXT,"
                                                  " allocator TEXT, heap_bytes INTEGER, "
                                                  "heap_objects INTEGER, reachable_bytes INTEGER,"
                                                  " reachable_objects INTEGER, leaked_bytes "
                                                  "INTEGER, leaked_objects INTEGER,"
                                                  " free_bytes INTEGER, overhead_bytes INTEGER, "
                                                  "rss_bytes INTEGER, scheme TEXT,"
                                                  " interior INTEGER NOT NULL, complete INTEGER "
                                                  "NOT NULL, notes TEXT);"
                                                  "CREATE TABLE hx_account(snapshot INTEGER, "
                                                  "position INTEGER, part TEXT, bytes INTEGER,"
                                                  " PRIMARY KEY(snapshot, position)) WITHOUT ROWID;"
                                                  "CREATE TABLE hx_root(snapshot INTEGER, root_id "
                                                  "INTEGER, kind INTEGER, kind_name TEXT,"
                                                  " name TEXT, module TEXT, address INTEGER, size "
                                                  "INTEGER, direct_objects INTEGER,"
                                                  " value INTEGER, tid INTEGER, PRIMARY "
                                                  "KEY(snapshot, root_id)) WITHOUT ROWID;"
                                                  "CREATE TABLE hx_leak(snapshot INTEGER, kind "
                                                  "TEXT, type TEXT, site TEXT, bytes INTEGER,"
                                                  " objects INTEGER);"
                                                  "CREATE INDEX hx_leak_snapshot ON "
                                                  "hx_leak(snapshot);"
                                                  "CREATE TABLE hx_loss(snapshot INTEGER, what "
                                                  "TEXT, count INTEGER, bytes INTEGER,"
                                                  " address INTEGER);"
                                                  "CREATE INDEX hx_loss_snapshot ON "
                                                  "hx_loss(snapshot);"
                                                  "CREATE TABLE hx_block(id INTEGER PRIMARY KEY, "
                                                  "snapshot INTEGER, family INTEGER,"
                                                  " first_row INTEGER, n INTEGER, first_key "
                                                  "INTEGER, last_key INTEGER, bytes INTEGER);"
                                                  "CREATE UNIQUE INDEX hx_block_place ON "
                                                  "hx_block(snapshot, family, first_row);"
                                                  "CREATE TABLE hx_column(id INTEGER PRIMARY KEY, "
                                                  "data BLOB);"

                                                  "CREATE VIEW snapshots AS SELECT snapshot, "
                                                  "taken_at, pid, comm, exe, pause_us, method,"
                                                  " allocator, heap_bytes, heap_objects, "
                                                  "reachable_bytes, reachable_objects, "
                                                  "leaked_bytes,"
                                                  " leaked_objects, free_bytes, overhead_bytes, "
                                                  "rss_bytes, scheme, complete, notes"
                                                  " FROM hx_snapshot;"
                                                  "CREATE VIEW account AS SELECT snapshot, part, "
                                                  "bytes FROM hx_account"
                                                  " WHERE snapshot IN (SELECT snapshot FROM "
                                                  "hx_snapshot);"
                                                  "CREATE VIEW roots AS SELECT snapshot, root_id, "
                                                  "kind_name AS kind, name, module, address,"
                                                  " size, direct_objects, NULL AS retained_bytes "
                                                  "FROM hx_root"
                                                  " WHERE snapshot IN (SELECT snapshot FROM "
                                                  "hx_snapshot);"
                                                  "CREATE VIEW leaks AS SELECT snapshot, kind, "
                                                  "type, site, bytes, objects FROM hx_leak"
                                                  " WHERE snapshot IN (SELECT snapshot FROM "
                                                  "hx_snapshot);"
                                                  "CREATE VIEW losses AS SELECT snapshot, what, "
                                                  "count, bytes, address FROM hx_loss"
                                                  " WHERE snapshot IN (SELECT snapshot FROM "
                                                  "hx_snapshot);";

hx_error *hx_schema_create(sqlite3 *db, const char *what)
{
    return hx_db_exec(db, what, create_sql);
}

/* step[v] leads from schema v to v + 1. */
static const char *const step[HX_STORE_SCHEMA] = {NULL};

hx_error *hx_schema_migrate(sqlite3 *db, const char *what, int version)
{
    if (version >= HX_STORE_SCHEMA)
        return NULL;
    HX_TRY(hx_db_exec(db, what, "BEGIN IMMEDIATE"));
    hx_error *err = NULL;
    for (int v = version; v < HX_STORE_SCHEMA && !err; v++)
        err = hx_db_exec(db, what, step[v] ? step[v] : "SELECT 1");
    char sql[64];
    snprintf(sql, sizeof sql, "PRAGMA user_version = %d", HX_STORE_SCHEMA);
    if (!err)
        err = hx_db_exec(db, what, sql);
    if (!err)
        return hx_db_exec(db, what, "COMMIT");
    hx_error_free(hx_db_exec(db, what, "ROLLBACK"));
    return err;
}

hx_error *hx_schema_foreign(const char *what, const char *why)
{
    return hx_error_new(HX_E_CORRUPT, what, "give a file made by heapx, or a new name",
                        "not a heapx store: %s", why);
}

hx_error *hx_schema_newer(const char *what, long version)
{
    return hx_error_new(HX_E_CORRUPT, what, "use that heapx, or update this one",
                        "made by a newer heapx (schema %ld, this one knows up to %d)", version,
                        HX_STORE_SCHEMA);
}

hx_error *hx_schema_check(sqlite3 *db, const char *what, int *ret_version)
{
    int64_t id, version, tables;
    HX_TRY(hx_db_int(db, what, "PRAGMA application_id", &id));
    if (id != HX_STORE_APPLICATION_ID)
        return hx_schema_foreign(what, "an SQLite file of another program");
    HX_TRY(hx_db_int(db, what, "PRAGMA user_version", &version));
    if (version > HX_STORE_SCHEMA)
        return hx_schema_newer(what, (long)version);
    HX_TRY(hx_db_int(db, what,
                     "SELECT count(*) FROM sqlite_schema WHERE name IN"
                     " ('hx_snapshot','hx_account','hx_root','hx_leak','hx_loss','hx_block',"
                     "'hx_column','snapshots','account','roots','leaks','losses')",
                     &tables));
    if (version < 1 || tables != 12)
        return hx_error_new(HX_E_CORRUPT, what, "take it from a backup or make it again",
                            "the store is damaged (tables are missing)");
    *ret_version = (int)version;
    return NULL;
}
