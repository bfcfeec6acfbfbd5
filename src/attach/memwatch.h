/* memwatch.h - heapx never costs anybody else his memory.
 *
 * Volunteers for the kernel's choice when memory runs out, and watches how near the limits are
 * while a snapshot is made: where a limit is the target's too, or a whole cgroup ends together, the
 * choice may still fall on the target, and what is shared is given back too late.
 */
#ifndef HX_ATTACH_MEMWATCH_H
#define HX_ATTACH_MEMWATCH_H

#include "attach/memory_limits.h"

#include <stdatomic.h>

/* When memory runs out, the kernel shall end this process and its children, who only look on. Not
 * to be called before a program is started that shall not. */
void hx_oom_volunteer(void);

struct hx_memwatch; /* a thread that looks */

/* From here on *exhausted turns true when less than the reserve is left below a limit of heapx, or
 * one that `need` concerns. Who sees it ends his work and gives his memory back; when even so
 * little is left that the kernel would end others, the process ends itself. Takes over and empties
 * `limits`. NULL when no thread can be made: then nobody looks. */
struct hx_memwatch *hx_memwatch_begin(hx_limits *limits, const struct hx_memory_need *need,
                                      atomic_bool *exhausted);

/* Ends it, NULL is legal. */
void hx_memwatch_end(struct hx_memwatch *watch);

/* What *exhausted means, as an error: HX_E_LIMIT. */
hx_error *hx_memwatch_error(const struct hx_memwatch *watch);

/* Has the kernel ended processes for lack of memory since the watch began? */
bool hx_memwatch_killed(const struct hx_memwatch *watch);

#endif
