/* from.h - which roots a name on the command line means. */
#ifndef HX_CLI_WORDS_FROM_H
#define HX_CLI_WORDS_FROM_H

#include "base/text.h"
#include "model/snapshot.h"

/* The roots whose name is `name` or, when there is none, those that it means as module!name; a C++
 * variable also as the source writes it (see traverse/cxxname.h); else the variable that was named
 * so for bins. *ret: a bit for each root, the caller's to free; *ret_n of them. Only roots in which
 * a chain can begin. */
hx_error *hx_from_roots(const struct hx_snapshot *snapshot, const char *name, uint64_t **ret,
                        size_t *ret_n);

/* Appends the names of the nearest roots that reach an object, some at most; nothing when there
 * is none. Needs graph.rev. */
hx_error *hx_from_others(const struct hx_snapshot *snapshot, hx_obj object,
                         const struct hx_progress *progress, struct hx_text *ret);

#endif
