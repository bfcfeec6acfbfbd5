/* program_roots.h - the roots that a target names itself, with heapx/roots.h.
 *
 * Each module of the target may have one array, found by a note or a symbol; what the arrays hold
 * is read as it was at the stop.
 */
#ifndef HX_ATTACH_ROOTS_PROGRAM_ROOTS_H
#define HX_ATTACH_ROOTS_PROGRAM_ROOTS_H

#include "attach/attach.h"
#include "sym/module.h"

#define HX_PROGRAM_ROOTS_MAX 65536 /* of all modules together */
#define HX_ROOT_NAME_MAX     255   /* bytes */

struct hx_program_source {
    struct hx_snapshot *snapshot; /* with image and mappings; notes go there */
    hx_modules *modules;
    /* Reads the target as it is now: only for what nobody may write and no module's file has. */
    bool (*read_live)(void *context, uint64_t addr, void *dst, size_t len);
    void *context;
};

/* Nothing that the target has there is an error: what makes no sense is a note. Every name is
 * fit for a bin: not empty, without '+', neither "-" nor "(unreachable)". */
hx_error *hx_program_roots_find(const struct hx_program_source *source,
                                struct hx_program_roots *ret);

#endif
