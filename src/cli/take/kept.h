/* kept.h - snapshots of an explorer that was cut off (SIGHUP, SIGTERM, a lost terminal).
 *
 * What only a private temporary store holds then is put into a file of its own, mode 0600, that
 * nothing is overwritten by: heapx-PID-TIME.db in $XDG_STATE_HOME/heapx (~/.local/state/heapx), or,
 * where that cannot be or belongs to somebody else, in the current directory, else in TMPDIR. */
#ifndef HX_CLI_TAKE_KEPT_H
#define HX_CLI_TAKE_KEPT_H

#include "base/text.h"
#include "store/store.h"

#include <sys/types.h>

/* *ret: where it is; the caller's. */
hx_error *hx_kept_put(hx_store *store, pid_t pid, char **ret);

/* Appends a line on such files that lie in the state directory, other than `shown`; nothing when
 * there are none. */
void hx_kept_list(const char *shown, struct hx_text *ret);

#endif
