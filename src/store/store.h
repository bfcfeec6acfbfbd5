/* store.h - snapshots in an SQLite file.
 *
 * The file is the contract with users (see heapx(5)): plain views for the sqlite3
 * shell, object tables as virtual tables over compressed columns. One transaction for
 * each snapshot; whatever kills the writer, every finished snapshot stays.
 */
#ifndef HX_STORE_STORE_H
#define HX_STORE_STORE_H

#include "base/error.h"
#include "base/progress.h"
#include "model/snapshot.h"
#include "query/suppress.h"
#include "traverse/hold/rules.h"
#include "traverse/retain/scheme.h"
#include "traverse/why/backwards.h"

#define HX_STORE_APPLICATION_ID 0x48505831 /* "HPX1" */
#define HX_STORE_SCHEMA         12

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

bool hx_store_is_temporary(const hx_store *store);

/* Copies what a temporary store holds to a path where nothing is, as a store of its own: complete
 * or not at all, mode 0600. Not while a snapshot is being added. */
hx_error *hx_store_save(hx_store *store, const char *path, const struct hx_progress *progress);

/* The first two for whoever may lose patience: opening, with what is migrated for it, and each
 * later statement return HX_E_CANCEL soon after the flag turns on. */
hx_error *hx_store_append_until(const char *path, const atomic_bool *cancel, hx_store **ret);
hx_error *hx_store_open_until(const char *path, const atomic_bool *cancel, hx_store **ret);

/* The flag that ends the statements from now on; NULL: none. By the thread that uses the store. */
void hx_store_cancelled_by(hx_store *store, const atomic_bool *cancel);

/* Returns to one plain file (journal_mode DELETE) after writing, whatever the flag says. NULL is
 * legal. */
hx_error *hx_store_close(hx_store *store);

/* While a part is computed others may use the store: it is left before, and entered again behind.
 */
struct hx_apart {
    void (*leave)(void *context), (*enter)(void *context); /* NULL: nobody waits for it here */
    void *context;
};

/* What is worked out of a snapshot's graph when it is stored. */
struct hx_analysis {
    const struct hx_scheme *scheme; /* whose retainer sets; NULL: of a new snapshot, those of the
                                       last one, else the default */
    struct hx_scheme_options options;
    unsigned max_set; /* a set with more names is MANY; 0: no limit; HX_SETS_AUTO: see retset.h */
    unsigned threads; /* 0: decide */
    struct hx_hold_options hold;
    /* It was asked for the default of these; else a default gives way to the snapshot's own rule,
     * or of a new one to that of the last one by the same scheme; what edges count: of any. */
    bool has_max_set, has_threads_as, has_hold;
    unsigned most_found; /* a limit that is found is at most this; 0: any */
    unsigned parts; /* of a new snapshot those that are worked out at once; 0: HX_ANALYSE_ALL */
    /* Of a stored one, parts that it lacks: in several transactions, none of which lasts as long as
     * the work. Who is killed leaves rows of a part that hx_store_parts() does not tell. NULL: in
     * one. */
    const struct hx_apart *apart;
    bool shown_only; /* also a store that is open for appending stays as it is on the disk */
};

enum hx_analysis_part {
    HX_ANALYSE_RETAINERS = 1, /* retainers, retainer_members, censuses, objects.set_id */
    HX_ANALYSE_BINS = 2,      /* bins, named roots with their edges, objects.bin */
    HX_ANALYSE_RETAINED = 4,  /* dominators, retained figures of objects and roots */
    HX_ANALYSE_HOLDERS = 8,   /* holders, objects.holder and round */
    HX_ANALYSE_SURE = 16,     /* what is retained over sure references alone */
    HX_ANALYSE_TYPES = 32,    /* retained figures of types and sites */
    HX_ANALYSE_ALL = 47,      /* all but the sure ones, which only who asks for them gets */
    HX_ANALYSE_EVER = 63,
    HX_ANALYSE_LATER = 64, /* none: the rule is kept for who works them out */
};

/* Begins to encode, on threads of its own, what of the objects and edges of a snapshot does not
 * change once its words are judged; hx_store_add() needs to write that only. `threads` as in
 * struct hx_scan_options: of one it does nothing, as for a small heap. Costs some 6 bytes an object
 * until then. */
void hx_early_columns_begin(struct hx_snapshot *snapshot, unsigned threads,
                            const struct hx_progress *progress);
/* Waits for it; after that `progress` is not looked at. */
void hx_early_columns_end(struct hx_snapshot *snapshot);

/* Adds one snapshot in one transaction; streams. *ret is its number, from 1. With an `analysis`
 * its parts are computed and written one after the other, so that their memory is not needed at
 * once, and types are counted in any case; NULL: none, and what it would tell is NULL in the
 * views. */
hx_error *hx_store_add(hx_store *store, struct hx_snapshot *snapshot,
                       const struct hx_analysis *analysis, const struct hx_progress *progress,
                       int64_t *ret);

/* Computes parts of the analysis of a stored snapshot anew: `snapshot` is what hx_store_load()
 * gave, perhaps with other named roots. In a store that is open for appending they replace those
 * in the file, in one transaction; else the file stays as it is, and this hx_store alone shows
 * them from now on. */
hx_error *hx_store_revise(hx_store *store, int64_t number, struct hx_snapshot *snapshot,
                          const struct hx_analysis *analysis, unsigned parts,
                          const struct hx_progress *progress);

/* Counts how often the document's algorithm visits the objects of such a snapshot (visits.h), by
 * the scheme of the analysis and the limit by which its sets were made: shown from now on, by this
 * hx_store alone. */
hx_error *hx_store_count_visits(hx_store *store, int64_t number, struct hx_snapshot *snapshot,
                                const struct hx_analysis *analysis,
                                const struct hx_progress *progress);

/* Which parts (enum hx_analysis_part) the store has of a snapshot. */
hx_error *hx_store_parts(hx_store *store, int64_t number, unsigned *ret);

/* Is there a snapshot whose analysis was left to later, or not finished? */
hx_error *hx_store_is_unfinished(hx_store *store, bool *ret);

/* Who retains in a stored snapshot: its scheme (NULL: never asked), and the patterns of types it
 * was asked with, one a line (NULL: none). The text is the caller's. */
hx_error *hx_store_scheme(hx_store *store, int64_t number, const struct hx_scheme **ret,
                          char **ret_patterns);

/* By which words: the rule of its sets, bins and dominators; where nothing was made of it that of
 * the snapshot before, and on where there is none. */
hx_error *hx_store_hold(hx_store *store, int64_t number, struct hx_hold_options *ret);

/* Takes out of what this hx_store shows of a snapshot the leaks that the list knows: of the view
 * `leaks`, and of leaked_bytes and leaked_objects in `snapshots`, whose notes say so. All else
 * stays, and so does the file. After everything else that changes what is shown. */
hx_error *hx_store_suppress(hx_store *store, int64_t number, hx_suppressions *list,
                            const struct hx_progress *progress);

/* Ends the queries that run on the store now: they return HX_E_CANCEL. From any thread or
 * a signal handler. */
void hx_store_interrupt(hx_store *store);

/* From `on` until off nobody looks at what is read: its columns take no room of others. */
void hx_store_aloof(hx_store *store, bool on);

/* The number of a snapshot by "first", "last" or digits; HX_E_ABSENT when there is none. */
hx_error *hx_store_resolve(hx_store *store, const char *which, int64_t *ret);

/* The first snapshot whose number is above `after` (0: of all); *ret is 0 when there is none. */
hx_error *hx_store_next(hx_store *store, int64_t after, int64_t *ret);

/* Rebuilds the graph (objects, states, types, sites, edges, roots, root edges, named roots,
 * resident pages; no image, no mappings, no recording). */
hx_error *hx_store_load(hx_store *store, int64_t snapshot, const struct hx_progress *progress,
                        struct hx_snapshot **ret);

/* Adds to such a snapshot what heapx symbolize asks for: loaded (none is opened), frames and
 * tls_blocks, all empty in a store of schema 9 or before. */
hx_error *hx_store_load_stop(hx_store *store, int64_t number, struct hx_snapshot *snapshot);

/* Stores the names that the roots, types and layouts of such a snapshot have got, and how its words
 * are judged by them, in place of what is there, in one transaction; with backtraces also threads
 * and their stacks; what was worked out of the snapshot is to be worked out anew (hx_store_parts()
 * tells of none). For stores that are open for appending. */
hx_error *hx_store_rename(hx_store *store, int64_t number, struct hx_snapshot *snapshot,
                          const struct hx_progress *progress);

/* The same without edges and roots: addresses, sizes, states, types, sites. */
hx_error *hx_store_load_objects(hx_store *store, int64_t snapshot,
                                const struct hx_progress *progress, struct hx_snapshot **ret);

/* --- parts of a snapshot that is too large to be loaded --- */

/* Who refers to whom in it. `pause` is called now and then, when no statement is under way; NULL:
 * never. */
typedef void hx_store_pause_fn(void *context);
hx_error *hx_store_backwards(hx_store *store, int64_t snapshot, const struct hx_progress *progress,
                             hx_store_pause_fn *pause, void *context, hx_backwards **ret);

/* What hx_store_load() gives without objects and edges: graph.n is their number all the same, and
 * that is what root edges speak of. */
hx_error *hx_store_load_roots(hx_store *store, int64_t snapshot, const struct hx_progress *progress,
                              struct hx_snapshot **ret);

/* The number of the object that contains an address; HX_NO_OBJ: none. */
hx_error *hx_store_object(hx_store *store, int64_t snapshot, uint64_t address, hx_obj *ret);

/* Puts the objects with a bit in `chosen`, with their states and types and the edges between them,
 * into such a snapshot, numbered anew. Root edges to all others go to one more object, the last,
 * without bytes or address. */
hx_error *hx_store_load_chosen(hx_store *store, int64_t snapshot, const uint64_t *chosen,
                               const struct hx_progress *progress, struct hx_snapshot *into);

#endif
