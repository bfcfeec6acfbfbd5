/* hints.h - SQL functions for what helps a person with an object or a variable.
 *
 * hx_names_in(PATH, BUILD_ID): who has the names of a file's variables. It looks at what is
 * installed here, so that its answer is no figure of a store. hx_maker(LABEL): " from f", the
 * function that allocates, of a stack's label. */
#ifndef HX_STORE_HINTS_H
#define HX_STORE_HINTS_H

#include "base/error.h"
#include "base/text.h"
#include "store/sqlite.h"

/* Makes them known to a connection. */
hx_error *hx_hints(sqlite3 *db);

/* Appends "package vim-dbgsym", "debug file of build-id 2e6a..." or "a build with -g". Either may
 * be NULL. */
void hx_names_in(const char *path, const char *build_id, struct hx_text *ret);

#endif
