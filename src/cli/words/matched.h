/* matched.h - which of the call's --root and --retainer stand for anything in its snapshots.
 *
 * What stands for nothing is no error: it may come later, or have gone. stderr is told of it once.
 */
#ifndef HX_CLI_WORDS_MATCHED_H
#define HX_CLI_WORDS_MATCHED_H

#include "cli/console.h"
#include "cli/words/options.h"
#include "model/snapshot.h"

/* What a --root stands for; the more telling answer of several snapshots counts. */
enum hx_matched_root {
    HX_MATCHED_NOTHING,
    HX_MATCHED_TAKEN, /* the program has a root of this name */
    HX_MATCHED_SOMETHING,
};

struct hx_matched {
    const struct hx_args *args;
    enum hx_matched_root *root; /* by number of the option */
    bool *retainer;             /* the same: a type matches */
    bool looked;                /* at a snapshot */
};

hx_error *hx_matched_init(const struct hx_args *args, struct hx_matched *ret);
void hx_matched_deinit(struct hx_matched *matched);

/* Looks at a snapshot whose roots are named. */
hx_error *hx_matched_look(struct hx_matched *matched, const struct hx_snapshot *snapshot);

/* Nothing when no snapshot was looked at. */
void hx_matched_tell(const struct hx_matched *matched, struct hx_console *console);

#endif
