/* overlay.c - blocks and columns, from the temporary tables first. */
#include "store/objects/overlay.h"

#include "store/db.h"

#include <stdbool.h>

static bool has_overlay(sqlite3 *db)
{
    return sqlite3_table_column_metadata(db, "temp", "hx_block", NULL, NULL, NULL, NULL, NULL,
                                         NULL) == SQLITE_OK &&
           sqlite3_table_column_metadata(db, "temp", "hx_column", NULL, NULL, NULL, NULL, NULL,
                                         NULL) == SQLITE_OK;
}

static hx_error *prepare_blocks(sqlite3 *db, const char *what, const char *sql, int64_t snapshot,
                                enum hx_family family, sqlite3_stmt **ret)
{
    HX_TRY(hx_db_prepare(db, what, sql, ret));
    sqlite3_bind_int64(*ret, 1, snapshot);
    sqlite3_bind_int(*ret, 2, family);
    return NULL;
}

hx_error *hx_overlay_blocks(sqlite3 *db, const char *what, int64_t snapshot, enum hx_family family,
                            sqlite3_stmt **ret)
{
    if (has_overlay(db)) {
        HX_STATEMENT sqlite3_stmt *any = NULL;
        HX_TRY(prepare_blocks(db, what,
                              "SELECT 1 FROM temp.hx_block WHERE snapshot = ? AND family = ?",
                              snapshot, family, &any));
        int code = sqlite3_step(any);
        if (code == SQLITE_ROW)
            return prepare_blocks(db, what,
                                  "SELECT id, first_row, n, first_key, last_key, bytes"
                                  " FROM temp.hx_block WHERE snapshot = ? AND family = ?"
                                  " AND n <> 0 ORDER BY first_row",
                                  snapshot, family, ret);
        if (code != SQLITE_DONE)
            return hx_db_error(db, code, what);
    }
    return prepare_blocks(db, what,
                          "SELECT id, first_row, n, first_key, last_key, bytes FROM main.hx_block"
                          " WHERE snapshot = ? AND family = ? ORDER BY first_row",
                          snapshot, family, ret);
}

hx_error *hx_overlay_column(sqlite3 *db, const char *what, sqlite3_stmt **ret)
{
    if (!has_overlay(db))
        return hx_db_prepare(db, what, "SELECT (SELECT data FROM main.hx_column WHERE id = ?1)",
                             ret);
    return hx_db_prepare(db, what,
                         "SELECT coalesce((SELECT data FROM temp.hx_column WHERE id = ?1),"
                         " (SELECT data FROM main.hx_column WHERE id = ?1))",
                         ret);
}
