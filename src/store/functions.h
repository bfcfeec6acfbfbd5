/* functions.h - SQL functions that conditions use: regexp(PATTERN, VALUE). */
#ifndef HX_STORE_FUNCTIONS_H
#define HX_STORE_FUNCTIONS_H

#include "base/error.h"
#include "store/sqlite.h"

/* Makes them known to a connection. */
hx_error *hx_functions(sqlite3 *db);

#endif
