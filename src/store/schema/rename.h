/* rename.h - names of today in stores of schema 6 and before. */
#ifndef HX_STORE_SCHEMA_RENAME_H
#define HX_STORE_SCHEMA_RENAME_H

#include "base/error.h"
#include "store/sqlite.h"

/* Within the transaction that brings a store to schema 7, when its tables are there. */
hx_error *hx_rename_migrated(sqlite3 *db, const char *what);

#endif
