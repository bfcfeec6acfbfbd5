/* thread_locals.h - where the thread-local variables of each module lie, thread by thread.
 *
 * glibc keeps a block of each module with such variables for each thread, and a vector of the
 * blocks (the dtv) for each thread; which entry is a module's is told by its link_map, whose member
 * is found through libc's descriptors for debuggers (nptl_db). Source: Drepper, "ELF Handling For
 * Thread-Local Storage".
 */
#ifndef HX_ATTACH_ROOTS_THREAD_LOCALS_H
#define HX_ATTACH_ROOTS_THREAD_LOCALS_H

#include "model/snapshot.h"
#include "sym/module.h"

/* The variables of one module and thread. */
struct hx_thread_block {
    uint64_t start, end;
    size_t module;
    pid_t tid;
};
typedef HX_VEC(struct hx_thread_block) hx_thread_blocks;

/* By address, not overlapping; none of threads and modules that cannot be made out. The caller
 * frees the vector, also after an error. */
hx_error *hx_thread_blocks_find(const struct hx_snapshot *snapshot, hx_modules *modules,
                                hx_thread_blocks *ret);

#endif
