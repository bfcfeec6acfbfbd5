/* memwatch.h - heapx never takes memory away from others.
 *
 * heapx makes itself the OOM killer's first choice. While a snapshot is made it also watches how
 * near the limits are: when a limit is the target's, too, or a whole cgroup is killed together, the
 * OOM killer may still choose the target, and shared memory is freed too late.
 */
#ifndef HX_ATTACH_MEMWATCH_H
#define HX_ATTACH_MEMWATCH_H

#include "attach/memory_limits.h"

#include <stdatomic.h>

/* The OOM killer shall choose this process and its children. Not to be called before a program is
 * started that shall not inherit that. */
void hx_oom_volunteer(void);

struct hx_memwatch; /* a thread */

/* *exhausted turns true when less than the reserve is left below a limit of heapx, or below one
 * that `need` concerns. Work then stops and frees its memory. When so little is left that the
 * kernel would kill others, the process ends itself. Takes over and empties `limits`. NULL when no
 * thread can be made: then nothing is watched. */
struct hx_memwatch *hx_memwatch_begin(hx_limits *limits, const struct hx_memory_need *need,
                                      atomic_bool *exhausted);

/* Ends it, NULL is legal. */
void hx_memwatch_end(struct hx_memwatch *watch);

/* What *exhausted means, as an error: HX_E_LIMIT. */
hx_error *hx_memwatch_error(const struct hx_memwatch *watch);

/* Has the kernel ended processes for lack of memory since the watch began? */
bool hx_memwatch_killed(const struct hx_memwatch *watch);

#endif
