/* sound.c - are the pages of a table what SQLite wrote?
 *
 * Columns of objects and edges have a checksum each; rows have none. What a statement reads of the
 * file is gone through once before, table by table: garbage in a page gives cells that overlap,
 * keys out of order, values that are not of their column's type. */
#include "base/bits.h"
#include "store/db.h"
#include "store/schema/row.h"
#include "store/schema/schema.h"
#include "store/store_private.h"

#include <string.h>

void hx_tables_note(struct hx_tables *tables, const char *name, const char *database)
{
    int number = name && database && strcmp(database, "main") == 0 ? hx_schema_number(name) : -1;
    if (number >= 0 && number < HX_TABLES_MAX)
        hx_bit_set(tables->bit, (size_t)number);
}

static hx_error *check(hx_store *store, const char *table)
{
    char sql[96];
    HX_STATEMENT sqlite3_stmt *st = NULL;
    snprintf(sql, sizeof sql, "PRAGMA main.quick_check(%s)", table);
    HX_TRY(hx_db_prepare(store->db, store->path, sql, &st));
    int code = sqlite3_step(st);
    if (code != SQLITE_ROW)
        return code == SQLITE_DONE ? NULL : hx_db_error(store->db, code, store->path);
    const char *found = (const char *)sqlite3_column_text(st, 0);
    if (found && strcmp(found, "ok") == 0)
        return NULL;
    return hx_error_new(HX_E_CORRUPT, store->path, "take it from a backup or make it again",
                        "the store is damaged (in its table %s)", table);
}

/* A table that was sound may be another one when somebody has written since. */
static void forget_changed(hx_store *store)
{
    unsigned version = 0;
    if (sqlite3_file_control(store->db, "main", SQLITE_FCNTL_DATA_VERSION, &version) == SQLITE_OK &&
        version == store->sound_at)
        return;
    memset(&store->sound, 0, sizeof store->sound);
    store->sound_at = version;
}

hx_error *hx_tables_check(hx_store *store, const struct hx_tables *tables)
{
    if (store->writer) /* which makes these rows itself */
        return NULL;
    forget_changed(store);
    for (unsigned number = 0; number < HX_TABLES_MAX; number++) {
        if (!hx_bit(tables->bit, number) || hx_bit(store->sound.bit, number))
            continue;
        HX_TRY(check(store, hx_tables[number].name));
        hx_bit_set(store->sound.bit, number);
    }
    return NULL;
}
