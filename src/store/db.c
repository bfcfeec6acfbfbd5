/* db.c - SQLite calls that speak hx_error. */
#include "store/db.h"

#include "store/file/sidecar.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

/* errno of the system call that failed. SQLite keeps it for the connection, or, when other
 * calls came between, for the file: the database or its log. */
static int errno_of(sqlite3 *db)
{
    int err = db ? sqlite3_system_errno(db) : 0;
    sqlite3_file *log = NULL;
    if (!err && db)
        sqlite3_file_control(db, "main", SQLITE_FCNTL_LAST_ERRNO, &err);
    if (!err && db)
        sqlite3_file_control(db, "main", SQLITE_FCNTL_JOURNAL_POINTER, &log);
    if (log && log->pMethods)
        log->pMethods->xFileControl(log, SQLITE_FCNTL_LAST_ERRNO, &err);
    return err;
}

/* A failed system call: why, or what SQLite calls it when errno is not known. */
static hx_error *os_error(int os_errno, int code, const char *what, const char *call)
{
    char buf[128];
    hx_error *err;
    if (os_errno == HX_SIDECAR_REFUSED)
        err = hx_error_new(
            HX_E_PERM, what,
            "remove what lies beside it, or copy the store alone to a folder of your own",
            "%s: its -journal, -wal or -shm is not the store's", call);
    else
        err = hx_error_new(HX_E_OS, what, hx_error_os_todo(os_errno), "%s: %s", call,
                           os_errno ? strerror_r(os_errno, buf, sizeof buf) : sqlite3_errstr(code));
    if (err != hx_error_nomem())
        err->os_errno = os_errno;
    return err;
}

hx_error *hx_db_error(sqlite3 *db, int code, const char *what)
{
    switch (code & 0xff) {
    case SQLITE_NOMEM:
        return hx_error_nomem();
    case SQLITE_FULL:
        return os_error(ENOSPC, code, what, "cannot write");
    case SQLITE_IOERR:
        return os_error(errno_of(db), code, what, "cannot read or write");
    case SQLITE_CANTOPEN:
        return os_error(errno_of(db), code, what, "cannot open");
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
        return hx_error_new(HX_E_BUSY, what, "wait for it to end, or use another file",
                            "another program is using the store");
    case SQLITE_READONLY:
    case SQLITE_PERM:
        return hx_error_new(HX_E_PERM, what, "use a file and a directory that you may write",
                            "the store is read-only here");
    case SQLITE_CORRUPT:
        return hx_error_new(HX_E_CORRUPT, what, "take it from a backup or make it again",
                            "the store is damaged or truncated");
    case SQLITE_NOTADB:
        return hx_error_new(HX_E_CORRUPT, what, "give a file made by heapx", "not a heapx store");
    case SQLITE_INTERRUPT:
        return hx_error_new(HX_E_CANCEL, what, NULL, "interrupted");
    default:
        return hx_error_new(HX_E_FAIL, what, NULL, "%s",
                            db ? sqlite3_errmsg(db) : sqlite3_errstr(code));
    }
}

hx_error *hx_db_exec(sqlite3 *db, const char *what, const char *sql)
{
    int code = sqlite3_exec(db, sql, NULL, NULL, NULL);
    return code == SQLITE_OK ? NULL : hx_db_error(db, code, what);
}

hx_error *hx_db_end(sqlite3 *db, const char *what, hx_error *err)
{
    if (!err)
        err = hx_db_exec(db, what, "COMMIT");
    bool interrupted = err;
    while (interrupted && !sqlite3_get_autocommit(db)) {
        hx_error *end = hx_db_exec(db, what, "ROLLBACK");
        interrupted = end && end->kind == HX_E_CANCEL;
        hx_error_free(end);
    }
    return err;
}

hx_error *hx_db_prepare(sqlite3 *db, const char *what, const char *sql, sqlite3_stmt **ret)
{
    int code = sqlite3_prepare_v2(db, sql, -1, ret, NULL);
    return code == SQLITE_OK ? NULL : hx_db_error(db, code, what);
}

hx_error *hx_db_run(sqlite3 *db, const char *what, sqlite3_stmt *statement)
{
    int code = sqlite3_step(statement);
    hx_error *err = code == SQLITE_DONE || code == SQLITE_ROW ? NULL : hx_db_error(db, code, what);
    sqlite3_reset(statement);
    return err;
}

hx_error *hx_db_int(sqlite3 *db, const char *what, const char *sql, int64_t *ret)
{
    HX_STATEMENT sqlite3_stmt *statement = NULL;
    HX_TRY(hx_db_prepare(db, what, sql, &statement));
    int code = sqlite3_step(statement);
    if (code != SQLITE_ROW && code != SQLITE_DONE)
        return hx_db_error(db, code, what);
    *ret = code == SQLITE_ROW ? sqlite3_column_int64(statement, 0) : 0;
    return NULL;
}

int hx_db_table_error(sqlite3_vtab *table, hx_error *err, int damaged)
{
    char line[512];
    int code = err->kind == HX_E_NOMEM     ? SQLITE_NOMEM
               : err->kind == HX_E_CANCEL  ? SQLITE_INTERRUPT
               : err->kind == HX_E_CORRUPT ? damaged
               : err->kind == HX_E_BUSY    ? SQLITE_BUSY
                                           : SQLITE_ERROR;
    hx_error_line(err, line, sizeof line);
    sqlite3_free(table->zErrMsg);
    table->zErrMsg = sqlite3_mprintf("%s", line);
    hx_error_free(err);
    return code;
}
