/* sidecar.h - the three files that SQLite keeps beside a store: its journal, its log, and the index
 * of the log.
 *
 * What they hold goes into the store, and they are written, cut off and deleted by their names. So
 * they are taken only when they are plain files with one name, and belong to us or to the owner of
 * the store; what SQLite has opened is asked, and not what was there a moment before.
 */
#ifndef HX_STORE_FILE_SIDECAR_H
#define HX_STORE_FILE_SIDECAR_H

#include "base/error.h"
#include "base/pin.h"

#include <errno.h>
#include <stddef.h>

#define HX_SIDECARS 3
extern const char *const hx_sidecar[HX_SIDECARS]; /* "-journal", "-wal", "-shm" */

/* Which of them a path ends in; HX_SIDECARS: none. */
size_t hx_sidecar_of(const char *path);

/* errno when one is not taken. */
#define HX_SIDECAR_REFUSED EKEYREJECTED

/* open() for the sidecar of a pinned store; one that is not there is made (O_CREAT) by O_EXCL, and
 * belongs to the owner of the store when root makes it. */
int hx_sidecar_open(const char *at, int flags, mode_t mode);

/* unlink() for it. */
int hx_sidecar_unlink(const char *at);

/* Is there one, of that many bytes at least? */
bool hx_sidecar_there(const struct hx_pin *store, const char *suffix, off_t least);

/* Looks at those of a store beforehand, so that what will not be taken is told with its name. made:
 * the store is to be made, and must have none. `what` is the store for people. */
hx_error *hx_sidecar_check(const struct hx_pin *store, const char *what, bool made);

/* The better word for an error that comes from HX_SIDECAR_REFUSED: one of them was put there after
 * that look. */
hx_error *hx_sidecar_explain(const struct hx_pin *store, const char *what, hx_error *err);

#endif
