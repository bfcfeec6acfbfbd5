/* vfs.h - how SQLite opens a store: through a thin layer over the system's own file functions,
 * which lets it touch nothing but the store and what lies beside it (sidecar.h).
 *
 * A journal can name a super-journal, which SQLite would open and delete, whatever file that is:
 * such a store is refused, and so is every other file by name. Temporary files without a name stay.
 */
#ifndef HX_STORE_FILE_VFS_H
#define HX_STORE_FILE_VFS_H

#include "base/error.h"
#include "base/pin.h"
#include "store/sqlite.h"

typedef struct hx_vfs hx_vfs;

/* Opens a pinned store, with SQLite's flags. immutable: nobody changes it, so no file is looked for
 * beside it. *ret_vfs belongs to the connection: hx_vfs_close(). `what` is the store for people. */
hx_error *hx_vfs_open(const struct hx_pin *store, const char *what, int flags, bool immutable,
                      hx_vfs **ret_vfs, sqlite3 **ret);

/* Ends both; NULL is legal. */
void hx_vfs_close(hx_vfs *vfs, sqlite3 *db);

/* The better word for an error of the connection, when it came from asking for another file; else
 * the error itself. */
hx_error *hx_vfs_explain(const hx_vfs *vfs, const char *what, hx_error *err);

#endif
