/* migrate.h - stores of older schemas. */
#ifndef HX_STORE_SCHEMA_MIGRATE_H
#define HX_STORE_SCHEMA_MIGRATE_H

#include "base/error.h"
#include "base/progress.h"
#include "store/sqlite.h"

/* Brings a store of an older schema (1 <= version) up to date, in one transaction. */
hx_error *hx_schema_migrate(sqlite3 *db, const char *what, int version,
                            const struct hx_progress *progress);

#endif
