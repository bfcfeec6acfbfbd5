/* store.h - snapshots in an SQLite file.
 *
 * The file is the contract with users (see heapx(1)): plain views for the sqlite3
 * shell, object tables as virtual tables over compressed columns. One transaction for
 * each snapshot; whatever kills the writer, every finished snapshot stays.
 */
#ifndef HX_STORE_STORE_H
#define HX_STORE_STORE_H

#include "base/error.h"
#include "base/progress.h"
#include "model/snapshot.h"

#define HX_STORE_APPLICATION_ID 0x48505831 /* "HPX1" */
#define HX_STORE_SCHEMA         1

/* An open store. One thread at a time uses it; only hx_store_interrupt() may come from
 * another one. */
typedef struct hx_store hx_store;

/* Opens for appending; makes the file (mode 0600) when absent. An existing file that is no
 * store is refused untouched. */
hx_error *hx_store_append(const char *path, hx_store **ret);

/* Opens for reading. Recovers after a crash; where the place is not writable, works on a
 * private copy. Older schemas are migrated on a copy, newer ones refused. */
hx_error *hx_store_open(const char *path, hx_store **ret);

/* A private temporary store, open for appending and reading, removed at close. */
hx_error *hx_store_temporary(hx_store **ret);

/* Returns to one plain file (journal_mode DELETE) after writing. NULL is legal. */
hx_error *hx_store_close(hx_store *store);

/* Adds one snapshot in one transaction; streams. *ret is its number, from 1. */
hx_error *hx_store_add(hx_store *store, const struct hx_snapshot *snapshot,
                       const struct hx_progress *progress, int64_t *ret);

/* Ends the queries that run on the store now: they return HX_E_CANCEL. From any thread or
 * a signal handler. */
void hx_store_interrupt(hx_store *store);

/* The number of a snapshot by "first", "last" or digits; HX_E_ABSENT when there is none. */
hx_error *hx_store_resolve(hx_store *store, const char *which, int64_t *ret);

/* Rebuilds the graph (objects, states, edges, roots, root edges; no image, no mappings). */
hx_error *hx_store_load(hx_store *store, int64_t snapshot, const struct hx_progress *progress,
                        struct hx_snapshot **ret);

#endif
