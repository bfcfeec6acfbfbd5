/* db.h - SQLite calls that speak hx_error. `what` is the store's path or name. */
#ifndef HX_STORE_DB_H
#define HX_STORE_DB_H

#include "base/error.h"
#include "store/sqlite.h"

#include <stdint.h>

/* The error of the last call on db, which gave `code`. */
hx_error *hx_db_error(sqlite3 *db, int code, const char *what);

hx_error *hx_db_exec(sqlite3 *db, const char *what, const char *sql);

/* Ends a transaction: commits it, or rolls it back after the error `err` or when it can't be
 * committed. Nothing stays open, even where SQLite has rolled it back already (a full disk) or
 * where sqlite3_interrupt() meets the rollback itself. The error, or `err`. */
hx_error *hx_db_end(sqlite3 *db, const char *what, hx_error *err);

hx_error *hx_db_prepare(sqlite3 *db, const char *what, const char *sql, sqlite3_stmt **ret);

/* Runs a statement that gives no rows and resets it. */
hx_error *hx_db_run(sqlite3 *db, const char *what, sqlite3_stmt *statement);

/* The first column of the first row; 0 when there is none or it is NULL. */
hx_error *hx_db_int(sqlite3 *db, const char *what, const char *sql, int64_t *ret);

static inline void hx_cleanup_statement(sqlite3_stmt **statement)
{
    sqlite3_finalize(*statement);
}
#define HX_STATEMENT __attribute__((cleanup(hx_cleanup_statement)))

/* An error in a method of a virtual table, which SQLite then has; returns the code for it,
 * `damaged` when the store is. Frees the error. */
int hx_db_table_error(sqlite3_vtab *table, hx_error *err, int damaged);

/* A module whose methods have these names in their file. */
#define HX_DB_MODULE(create)                                                                       \
    {                                                                                              \
        .xCreate = create, .xConnect = table_connect, .xBestIndex = table_best_index,              \
        .xDisconnect = table_disconnect, .xDestroy = table_disconnect, .xOpen = cursor_open,       \
        .xClose = cursor_close, .xFilter = cursor_filter, .xNext = cursor_next,                    \
        .xEof = cursor_eof, .xColumn = cursor_column, .xRowid = cursor_rowid,                      \
    }

#endif
