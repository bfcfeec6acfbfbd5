/* store_private.h - what the files of this folder share of an open store. */
#ifndef HX_STORE_STORE_PRIVATE_H
#define HX_STORE_STORE_PRIVATE_H

#include "base/folder.h"
#include "base/pin.h"
#include "store/file/vfs.h"
#include "store/objects/blocks.h"
#include "store/query.h"
#include "store/sqlite.h"
#include "store/store.h"

/* How long a call waits for another process's transaction: a writer holds the store while
 * it commits, readers while they recover a log. */
enum { HX_STORE_BUSY_MS = 10000 };

/* The progress handler is asked each so many steps of SQLite (some 50 us), and ends what loads a
 * schema after so many calls. */
enum { HX_STORE_STEPS = 1000, HX_STORE_GRACE = 2000 };

/* Tables of the file, by hx_schema_number(). */
enum { HX_TABLES_MAX = 128 };
struct hx_tables {
    uint64_t bit[HX_TABLES_MAX / 64];
    unsigned queries; /* in a statement, itself one of them */
};

struct hx_store {
    sqlite3 *db;
    hx_vfs *vfs; /* what db opens files through */
    hx_blocks
        *blocks; /* of the object tables: call hx_blocks_forget() when a snapshot was revised */
    struct hx_ccs_overlay *overlay; /* what lies over it in memory */
    char *path;                     /* as the user gave it: for messages */
    struct hx_pin file;             /* where it leads */
    struct hx_folder scratch;       /* with a private copy, or a temporary store; none: fd is -1 */
    int schema;                     /* of the file, as it was checked when it was connected to */
    const atomic_bool *cancel;      /* ends statements when it turns on; NULL: nobody does */
    int grace;                      /* calls of the progress handler until it ends them; -1: none */
    struct hx_tables sound;         /* found to be, in a file that nobody has written to since */
    unsigned sound_at;              /* SQLITE_FCNTL_DATA_VERSION */
    bool writer;                    /* opened for appending */
    bool created;                   /* the file was made by this open */
    bool added;                     /* a snapshot was stored */
    char *answer_order;             /* what temp.hx_answer_order holds (answer.h); NULL: nothing */
    bool temporary;
    bool attributed; /* anew: hx_schema_overlay_attribution() */
    bool overlaid;   /* hx_schema_overlay() */
};

/* Ends an attribution that lies over the file's own; before a snapshot is added. */
hx_error *hx_store_attributed_end(hx_store *store);

/* What an authorizer was told that a statement reads; tables of other databases are none. */
void hx_tables_note(struct hx_tables *tables, const char *name, const char *database);

/* HX_E_CORRUPT when one of them is not as SQLite writes tables. Each is gone through once; objects
 * and edges are no such tables, and are checked when they are decoded. */
hx_error *hx_tables_check(hx_store *store, const struct hx_tables *tables);

/* Prepares a statement of the user's, which may only read. *ret_offset, which may be NULL: where it
 * is wrong, bytes from the beginning; untouched when that is not known. */
hx_error *hx_query_prepare(hx_store *store, const char *sql, size_t *ret_offset,
                           sqlite3_stmt **ret);

/* Rows of a statement, which they own from now on, also when this fails. One that was stepped
 * stands on the first of them. */
hx_error *hx_rows_over(hx_store *store, sqlite3_stmt *statement, hx_rows **ret);

/* hx_query_view() over a SELECT that has the columns of the view, and some of its rows; NULL: over
 * the view itself. */
hx_error *hx_query_from(hx_store *store, const struct hx_query *query, const char *from,
                        hx_rows **ret);

#endif
