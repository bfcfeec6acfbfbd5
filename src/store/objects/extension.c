/* extension.c - the object tables and functions as a loadable extension of SQLite, so that the
 * sqlite3 shell sees them in a store: `.load ./heapx_sqlite`. */
#include <sqlite3ext.h>
SQLITE_EXTENSION_INIT1

#include "store/functions.h"
#include "store/objects/vtab.h"

int sqlite3_heapxsqlite_init(sqlite3 *db, char **error, const sqlite3_api_routines *api);

/* The name follows from the file's: SQLite looks for it. */
__attribute__((visibility("default"))) int sqlite3_heapxsqlite_init(sqlite3 *db, char **error,
                                                                    const sqlite3_api_routines *api)
{
    SQLITE_EXTENSION_INIT2(api);
    hx_error *err = hx_object_tables(db, NULL);
    if (!err)
        err = hx_functions(db);
    if (!err)
        return SQLITE_OK;
    char line[512];
    hx_error_line(err, line, sizeof line);
    *error = sqlite3_mprintf("%s", line);
    hx_error_free(err);
    return SQLITE_ERROR;
}
