/* sigframe.h - a thread that runs a signal handler on a stack of its own: where that stack
 * lies, and where the thread stood when the signal came.
 *
 * The kernel writes both into the frame that it pushes for the handler. Depends on the
 * processor: one file an architecture.
 */
#ifndef HX_ATTACH_ROOTS_SIGFRAME_H
#define HX_ATTACH_ROOTS_SIGFRAME_H

#include "model/image.h"

struct hx_sigframe {
    uint64_t start, end; /* the alternate stack */
    uint64_t sp;         /* the interrupted stack pointer, outside of it */
};

/* Looks upward from sp, below `limit`. False when sp is in no handler's alternate stack. */
bool hx_sigframe_find(const struct hx_image *image, uint64_t sp, uint64_t limit,
                      struct hx_sigframe *ret);

#endif
