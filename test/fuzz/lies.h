/* lies.h - changes of what a store says, by SQL: every page stays right, and what is on it is not
 * true. */
#ifndef HX_TEST_LIES_H
#define HX_TEST_LIES_H

#include "store/sqlite.h"

#include <stdint.h>

/* Makes one to four changes; `state` is that of the random numbers. What SQLite refuses is left
 * out. */
void hx_lies(sqlite3 *db, uint64_t *state);

#endif
