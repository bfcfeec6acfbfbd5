/* stacks.h - where the stacks and the thread-local storage of a snapshot's threads lie.
 *
 * The bounds of a thread's stack come from the C library's own record of it (struct pthread
 * at the thread pointer), found by its shape and not by its version; a mapping can hold
 * more than one stack, and other things above one. Without such a record the stack ends
 * with its mapping.
 */
#ifndef HX_ATTACH_ROOTS_STACKS_H
#define HX_ATTACH_ROOTS_STACKS_H

#include "attach/stop/registers.h"
#include "model/snapshot.h"
#include "sym/module.h"

/* A part of a thread's memory that holds pointers. */
struct hx_stack_part {
    uint64_t start, end;
    enum hx_root_kind kind; /* HX_ROOT_STACK or HX_ROOT_TLS */
    pid_t tid;              /* 0: of a thread that has exited */
};

struct hx_stacks {
    HX_VEC(struct hx_stack_part) parts; /* by address, not overlapping */
    hx_ranges dead;    /* in order: below the stack pointers, and of exited threads */
    hx_ranges extents; /* in order: all of every stack, for the account */
};

/* `modules` may be NULL; with it, a stack in a global variable ends with that variable. */
hx_error *hx_stacks_find(const struct hx_snapshot *snapshot, hx_modules *modules,
                         struct hx_stacks *ret);
void hx_stacks_deinit(struct hx_stacks *stacks);

#endif
