/* overlay.c - blocks and columns, from the temporary tables first. */
#include "store/objects/overlay.h"

#include "store/db.h"

#include <stdbool.h>

/* The two tables are made together. */
static bool has_overlay(sqlite3 *db)
{
    return sqlite3_table_column_metadata(db, "temp", "hx_column", NULL, NULL, NULL, NULL, NULL,
                                         NULL) == SQLITE_OK;
}

#define BLOCKS(database)                                                                           \
    "SELECT id, first_row, n, first_key, last_key, bytes FROM " database                           \
    ".hx_block WHERE snapshot = ?1 AND family = ?2"

hx_error *hx_overlay_blocks(sqlite3 *db, const char *what, int64_t snapshot, enum hx_family family,
                            sqlite3_stmt **ret)
{
    HX_TRY(hx_db_prepare(db, what,
                         has_overlay(db)
                             ? BLOCKS("temp") " AND n <> 0 UNION ALL " BLOCKS(
                                   "main") " AND NOT EXISTS (" BLOCKS("temp") ") ORDER BY first_row"
                             : BLOCKS("main") " ORDER BY first_row",
                         ret));
    sqlite3_bind_int64(*ret, 1, snapshot);
    sqlite3_bind_int(*ret, 2, family);
    return NULL;
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
