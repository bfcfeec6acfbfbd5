/* explore.h - the explorer on a terminal, the summary elsewhere: what attach, open and demo
 * share. */
#ifndef HX_CLI_EXPLORE_H
#define HX_CLI_EXPLORE_H

#include "cli/take/take.h"

/* Takes a first snapshot of the session's target (into -o FILE, else a temporary store) and shows
 * it. `precious`: who quits without -o is asked, and what is cut off is kept (kept.h). */
hx_error *hx_explore_process(const struct hx_args *args, struct hx_session *session, bool precious,
                             int *status);

/* Shows a store; there is no live target. */
hx_error *hx_explore_store(const struct hx_args *args, hx_store *store, const char *title);

#endif
