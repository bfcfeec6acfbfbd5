/* ui_options.h - what a run of the explorer is about, and who takes its snapshots. */
#ifndef HX_UI_UI_OPTIONS_H
#define HX_UI_UI_OPTIONS_H

#include "base/error.h"
#include "base/progress.h"
#include "base/text.h"
#include "store/store.h"

/* What a recorder of the live target does at the moment. */
struct hx_ui_recording {
    uint64_t events, lost;
    bool ended; /* by itself: the process is gone, or an error */
};

struct hx_ui_options {
    hx_store *store;
    const char *title;  /* file name or "PID 12 (redis-server)" */
    const char *script; /* file of keys and commands; NULL: a terminal */
    int color;          /* -1: decide, 0: never, 1: always */
    /* Takes another snapshot, which the explorer then adds to the store; called on a thread
     * of its own and must not use the store. NULL: no live target, key `a` says so. */
    hx_error *(*take)(void *context, const struct hx_progress *progress, struct hx_snapshot **ret);
    /* Adds it to the store as hx_store_add() does, which stands for NULL. */
    hx_error *(*add)(void *context, hx_store *store, struct hx_snapshot *snapshot,
                     const struct hx_analysis *analysis, const struct hx_progress *progress,
                     int64_t *ret);
    /* What take() gave is not wanted after all, or add() is done with it; NULL: nobody asks. */
    void (*drop)(void *context);
    /* Gives the names that take() left to later (`unnamed`) to a snapshot that is in the store. */
    hx_error *(*name)(void *context, hx_store *store, int64_t number, const struct hx_apart *apart,
                      const struct hx_progress *progress);
    /* NULL: nobody records. Quick; called on the screen's thread while snapshots are taken. */
    void (*recording)(void *context, struct hx_ui_recording *ret);
    /* Copies up to n bytes of the live target as they are now; *ret_n: so many, from the first on.
     * Quick; called on a thread of its own, also while take() runs. NULL: no live target. */
    hx_error *(*read)(void *context, uint64_t address, size_t n, uint8_t *ret, size_t *ret_n);
    /* Appends what is known of the live target before there is a snapshot: lines, each a name, a
     * tab and a value, escaped for a terminal. Quick; NULL: nothing is. */
    void (*facts)(void *context, struct hx_text *ret);
    void *context;
    const char *news;  /* said at the beginning; NULL: nothing */
    uint64_t every_ns; /* 0: only on request */
    /* Nothing but a private temporary store holds the snapshots, and nobody can take them again:
     * who quits is asked. */
    bool precious;
    /* How snapshots are analysed when they are stored (NULL: as usual); in a store that is only
     * read its scheme may be NULL: each snapshot's own. Roots ("NAME=EXPR") take the
     * place of those that were given when it was stored. */
    const struct hx_analysis *analysis;
    bool shown_only; /* what the user chooses is not stored; what was left to later is */
    const char *const *root;
    size_t n_roots;
};

#endif
