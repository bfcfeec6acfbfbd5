/* vtab.h - the object tables: `objects`, `edges` and `root_edges` as eponymous virtual
 * tables over the compressed columns of the connection's main database. */
#ifndef HX_STORE_OBJECTS_VTAB_H
#define HX_STORE_OBJECTS_VTAB_H

#include "base/error.h"
#include "store/objects/blocks.h"
#include "store/sqlite.h"

/* Makes the three tables known to a connection. *ret, which may not be asked for, is a reference
 * to what they keep of the blocks. */
hx_error *hx_object_tables(sqlite3 *db, hx_blocks **ret);

#endif
