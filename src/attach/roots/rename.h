/* rename.h - the roots of a snapshot that was stored, by names of files that are found later.
 *
 * Nothing is read of the target, which is gone: the snapshot says where its files lay, where the
 * frames of its threads and their thread-local variables are (snapshot.loaded, frames, tls_blocks),
 * and which words point to objects (root_edges).
 */
#ifndef HX_ATTACH_ROOTS_RENAME_H
#define HX_ATTACH_ROOTS_RENAME_H

#include "base/progress.h"
#include "model/snapshot.h"
#include "sym/code/code.h"
#include "sym/module.h"

/* Cuts roots without names into the variables that lie in them. Module i of `modules` and
 * loaded[i].code are the files that loaded[i] names. Thread-local variables in blocks on the heap
 * stay words of these blocks. NULL: symbols had their say already, only frames are cut. */
hx_error *hx_roots_rename(struct hx_snapshot *snapshot, hx_modules *modules, hx_code *code,
                          const struct hx_progress *progress);

#endif
