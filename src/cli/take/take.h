/* take.h - from a process, or a core, to a snapshot in memory or in a store; from TARGET to a
 * store. */
#ifndef HX_CLI_TAKE_TAKE_H
#define HX_CLI_TAKE_TAKE_H

#include "attach/attach.h"
#include "cli/console.h"
#include "cli/words/options.h"
#include "record/record.h"
#include "store/store.h"

/* What a stored snapshot lacks that waits for names. */
struct hx_unnamed {
    int64_t number;
    struct hx_snapshot *stacks; /* nothing but threads and their backtraces; owned */
};

/* A target and how it is taken. Use: {.args, .console} and hx_session_open(), before anything
 * large is mapped and before threads. */
struct hx_session {
    const struct hx_args *args;
    pid_t pid; /* 0: a core */
    hx_attach *attach;
    hx_recorder *recorder;       /* NULL: nobody records */
    char *recorder_notes;        /* what it says of itself; NULL: nothing */
    struct hx_analysis analysis; /* what is worked out when a snapshot is stored */
    bool partial;                /* a snapshot so far was not complete, or it was killed */
    bool killed;                 /* for lack of memory, while its snapshot was made */
    bool late;                   /* one had no heap, as the process had ended */
    bool store_failed;           /* an error was that of the store, not of the process */
    char *late_why;              /* why there was no snapshot before it ended; NULL: no reason */
    bool hurries;                /* the explorer waits: names of debug information can come later */
    HX_VEC(struct hx_unnamed) unnamed; /* snapshots that wait for names */
    bool roots_tested;                 /* every variable of --root was there once */
    bool matches_reported; /* what of --root and --retainer stood for nothing at first */
};

hx_error *hx_session_open(const struct hx_args *args, const char *pid, struct hx_session *ret);
hx_error *hx_session_open_pid(const struct hx_args *args, pid_t pid, struct hx_session *ret);
/* One more, of the same call, when the first one is recorded already. */
hx_error *hx_session_open_sibling(const struct hx_session *first, pid_t pid,
                                  struct hx_session *ret);
hx_error *hx_session_open_core(const struct hx_args *args, const char *path,
                               struct hx_session *ret);

/* Records with this source from now on; takes it and the notes (NULL: none) over. */
hx_error *hx_session_record(struct hx_session *session, const struct hx_source *source, void *state,
                            char *notes);

/* What recording has cost the program so far, as a sentence. False: it was not measured. */
bool hx_session_overhead(struct hx_session *session, char *ret, size_t size);

void hx_session_close(struct hx_session *session);
#define HX_SESSION __attribute__((cleanup(hx_session_close)))

/* Makes the named roots of a capture that was scanned and still has its image. At the first one a
 * variable that no module has is HX_E_ABSENT, later only a note. */
hx_error *hx_take_roots(struct hx_session *session, struct hx_snapshot *snapshot,
                        const struct hx_progress *progress);

/* Capture, scan and states, with the options of the call; the image is gone. */
hx_error *hx_take(struct hx_session *session, const struct hx_progress *progress,
                  struct hx_snapshot **ret);

/* A snapshot that hx_take() has made into a store. Memory is watched from the one to the other. */
hx_error *hx_take_add(struct hx_session *session, hx_store *store, struct hx_snapshot *snapshot,
                      const struct hx_analysis *analysis, const struct hx_progress *progress,
                      int64_t *ret);

/* The same, and into the store. *ret: its number. With a console (NULL: none) stderr is told what
 * is missing, when something is. */
hx_error *hx_take_into(struct hx_session *session, hx_store *store,
                       const struct hx_progress *progress, struct hx_console *console,
                       int64_t *ret);

/* The names and types that a snapshot in the store lacks (`unnamed`); what was worked out of it is
 * to be worked out anew. The store is left to others meanwhile. */
hx_error *hx_take_names(struct hx_session *session, hx_store *store, int64_t number,
                        const struct hx_apart *apart, const struct hx_progress *progress);

/* What hx_take() has made shall be in no store: memory is watched no longer. Legal after
 * hx_take_add(), too. */
void hx_take_drop(struct hx_session *session);

/* What a recorder knows of a process that has ended: a snapshot without a heap. HX_E_ABSENT: it
 * knows nothing. */
hx_error *hx_take_late(struct hx_session *session, hx_store *store, struct hx_console *console,
                       int64_t *ret);

/* The store behind -o, for appending. */
struct hx_output {
    const char *path;
    hx_store *store;
    bool made;  /* by this call: taken away again when it stays empty */
    bool keeps; /* a snapshot was stored */
};
hx_error *hx_output_open(const char *path, struct hx_output *ret);
hx_error *hx_output_close(struct hx_output *output);

/* Names roots and works out retainer sets as the call says, of the snapshots that it asks for,
 * and those of `parts` (enum hx_analysis_part) that the store does not have. The file does not
 * change. With no such options, and nothing missing, nothing is done. */
hx_error *hx_revise(const struct hx_args *args, struct hx_console *console, hx_store *store,
                    const char *which, unsigned parts);

/* Attributes what was recorded of the snapshots to the cost centres that the call chooses. The file
 * does not change. Nothing without such options. */
hx_error *hx_reattribute(const struct hx_args *args, struct hx_console *console, hx_store *store,
                         const char *which);

/* TARGET for reading: a file, revised, or a process, of which a snapshot is taken into a temporary
 * store. *ret_partial: that snapshot is not complete. */
hx_error *hx_target_open(const struct hx_args *args, struct hx_console *console, const char *target,
                         unsigned parts, hx_store **ret, bool *ret_partial);

/* Prints rows of a store as results, and ends them; an interrupt ends the query. */
hx_error *hx_print_rows(hx_store *store, hx_rows *rows, enum hx_format format);

static inline void hx_cleanup_store(hx_store **store)
{
    hx_error_free(hx_store_close(*store));
}
#define HX_STORE __attribute__((cleanup(hx_cleanup_store)))

#endif
