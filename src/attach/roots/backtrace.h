/* backtrace.h - the stacks of the threads of a snapshot.
 *
 * Unwound from the copy, after the target goes on, by the rules of the files that its code came
 * from: what a debugger would have shown at the stop.
 */
#ifndef HX_ATTACH_ROOTS_BACKTRACE_H
#define HX_ATTACH_ROOTS_BACKTRACE_H

#include "attach/roots/frame_parts.h"
#include "base/progress.h"
#include "model/snapshot.h"
#include "sym/code/code.h"

#define HX_BACKTRACES_MAX 20000 /* threads; of more no stack is looked at, which a note says */

/* Fills snapshot->backtraces, with names, thread_stack, loaded and frames; needs the image. `via`:
 * the thread through which the files of the target are opened; `code` keeps them and their names
 * for the next snapshot. Where names of debug information take too long, symbols are used:
 * longer than names_ns, which also ends what was begun, and the snapshot is `unnamed`; 0: than some
 * seconds. *ret, which is empty, gets what lies in the frames; valid as long as `code`. */
hx_error *hx_backtraces(struct hx_snapshot *snapshot, pid_t via, hx_code *code, uint64_t names_ns,
                        const struct hx_progress *progress, hx_frame_parts *ret);

#endif
