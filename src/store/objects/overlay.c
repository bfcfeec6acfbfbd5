/* overlay.c - blocks and columns, from the temporary tables first. */
#include "store/objects/overlay.h"

#include "store/db.h"

#include <stdbool.h>

static bool has_table(sqlite3 *db, const char *schema, const char *name)
{
    return sqlite3_table_column_metadata(db, schema, name, NULL, NULL, NULL, NULL, NULL, NULL) ==
           SQLITE_OK;
}

#define BLOCKS(database)                                                                           \
    "SELECT id, first_row, n, first_key, last_key, bytes FROM " database                           \
    ".hx_block WHERE snapshot = ?1 AND family = ?2"

hx_error *hx_overlay_blocks(sqlite3 *db, const char *what, int64_t snapshot, enum hx_family family,
                            sqlite3_stmt **ret)
{
    HX_TRY(hx_db_prepare(db, what,
                         has_table(db, "temp", "hx_column") /* the two are made together */
                             ? BLOCKS("temp") " AND n <> 0 UNION ALL " BLOCKS(
                                   "main") " AND NOT EXISTS (" BLOCKS("temp") ") ORDER BY first_row"
                             : BLOCKS("main") " ORDER BY first_row",
                         ret));
    sqlite3_bind_int64(*ret, 1, snapshot);
    sqlite3_bind_int(*ret, 2, family);
    return NULL;
}

#define COLUMN(database) "(SELECT data FROM " database ".hx_column WHERE id = ?1)"
/* What is told by its number and is not there has a column all the same: a damaged one. */
#define PACKED                                                                                     \
    "(SELECT iif(typeof(data) = 'integer', coalesce((SELECT p.data FROM main.hx_pack AS p"         \
    " WHERE p.pack = c.data), x''), data) FROM main.hx_column AS c WHERE id = ?1)"

hx_error *hx_overlay_column(sqlite3 *db, const char *what, sqlite3_stmt **ret)
{
    bool packs = has_table(db, "main", "hx_pack");
    if (!has_table(db, "temp", "hx_column"))
        return hx_db_prepare(db, what, packs ? "SELECT " PACKED : "SELECT " COLUMN("main"), ret);
    return hx_db_prepare(db, what,
                         packs ? "SELECT coalesce(" COLUMN("temp") ", " PACKED ")"
                               : "SELECT coalesce(" COLUMN("temp") ", " COLUMN("main") ")",
                         ret);
}
