/* migrate.c - stores of older schemas: tables and views first, then what their rows lack. */
#include "store/schema/migrate.h"

#include "base/text.h"
#include "store/cost/attribute.h"
#include "store/db.h"
#include "store/schema/rename.h"
#include "store/schema/schema.h"
#include "store/store.h"

static hx_error *migrate_rows(sqlite3 *db, const char *what, int version,
                              const struct hx_progress *progress)
{
    if (version < 4)
        HX_TRY(hx_attribute_migrated(db, what, progress));
    else if (version < 5)
        HX_TRY(hx_attribute_recursion(db, what, progress));
    return version < 7 ? hx_rename_migrated(db, what) : NULL;
}

static hx_error *migrate_tables(sqlite3 *db, const char *what, int version)
{
    struct hx_text sql = {0};
    hx_text_puts(&sql, "BEGIN IMMEDIATE;\n");
    hx_schema_migration(version, &sql);
    hx_error *err = sql.failed ? hx_error_nomem() : hx_db_exec(db, what, hx_text_str(&sql));
    hx_text_free(&sql);
    return err;
}

hx_error *hx_schema_migrate(sqlite3 *db, const char *what, int version,
                            const struct hx_progress *progress)
{
    if (version >= HX_STORE_SCHEMA)
        return NULL;
    hx_error *err = migrate_tables(db, what, version);
    if (!err)
        err = migrate_rows(db, what, version, progress);
    return hx_db_end(db, what, err);
}
