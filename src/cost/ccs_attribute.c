/* ccs_attribute.c - recorded stacks run through the machine: to which cost-centre stack each frame
 * belongs, and who called it as mprof sees it.
 *
 * A frame stands behind its parent, so one pass suffices: the machine enters the parent's stack as
 * the current one, does what the frame says, and leaves again. */
#include "cost/ccs.h"

#include "base/cleanup.h"

#include <stdlib.h>

#define FRAMES_A_STEP 4096u /* between looks whether to go on */

static hx_error *damaged_frame(uint32_t at, const char *why)
{
    return hx_error_new(HX_E_CORRUPT, "recorded stacks", NULL, "frame %u: %s", at, why);
}

/* Is it sound? Frame 0 is, whatever it says: it is MAIN. */
static hx_error *test_frame(const struct hx_frame *frame, uint32_t i)
{
    if (frame[i].parent >= i)
        return damaged_frame(i, "its parent stands behind it");
    if (frame[i].kind == HX_FRAME_DEFERRED && frame[i].target != UINT32_MAX && frame[i].target >= i)
        return damaged_frame(i, "what it entered stands behind it");
    if (frame[i].kind == HX_FRAME_BUILTIN && frame[i].centre == HX_NO_CENTRE)
        return damaged_frame(i, "a built-in cost centre is missing");
    return NULL;
}

/* The frame whose stack a frame goes on from. */
static uint32_t goes_on_from(const struct hx_frame *frame)
{
    return frame->kind == HX_FRAME_DEFERRED && frame->target != UINT32_MAX ? frame->target
                                                                           : frame->parent;
}

/* Does what a frame says, on the stack that is current outside of it. */
static hx_error *step_ccs_frame(struct hx_ccs_machine *machine, const struct hx_frame *frame,
                                const bool *selected)
{
    hx_ccs_row root;
    if (frame->kind == HX_FRAME_BUILTIN) {
        HX_TRY(hx_ccs_root(machine->table, frame->centre, false, &root));
        return hx_ccs_push_stack(machine, root);
    }
    if (frame->caf != HX_NO_CENTRE) {
        HX_TRY(hx_ccs_root(machine->table, frame->caf, true, &root));
        HX_TRY(hx_ccs_push_stack(machine, root));
    }
    if (frame->kind == HX_FRAME_DEFERRED || frame->centre == HX_NO_CENTRE ||
        (selected && !selected[frame->centre]))
        return NULL;
    return hx_ccs_push_center(machine, frame->centre);
}

hx_error *hx_ccs_attribute(const struct hx_frame *frame, uint32_t n, const bool *selected,
                           struct hx_ccs_table *table, const struct hx_progress *progress,
                           hx_ccs_row **ret_row)
{
    HX_FREE hx_ccs_row *row = malloc(((size_t)n + !n) * sizeof *row);
    HX_NEED(row);
    HX_CLEANUP(hx_ccs_machine_deinit) struct hx_ccs_machine machine;
    HX_TRY(hx_ccs_machine_init(&machine, table));
    row[0] = HX_CCS_TOP;
    for (uint32_t i = 1; i < n; i++) {
        if (i % FRAMES_A_STEP == 0) {
            if (hx_progress_cancelled(progress))
                return hx_error_cancelled("attribution of stacks");
            hx_progress_at(progress, "attribute", i, n);
        }
        HX_TRY(test_frame(frame, i));
        HX_TRY(hx_ccs_push_stack(&machine, row[goes_on_from(&frame[i])]));
        HX_TRY(step_ccs_frame(&machine, &frame[i], selected));
        row[i] = hx_ccs_current(&machine);
        while (machine.stack.n > 1)
            hx_ccs_pop_stack(&machine);
    }
    *ret_row = hx_steal(row);
    return NULL;
}

hx_error *hx_frames_callers(const struct hx_frame *frame, uint32_t n, uint32_t **ret_parent)
{
    HX_FREE uint32_t *caller = malloc(((size_t)n + !n) * sizeof *caller);
    HX_NEED(caller);
    caller[0] = 0;
    for (uint32_t i = 1; i < n; i++) {
        HX_TRY(test_frame(frame, i));
        uint32_t above = 0; /* from an initialiser, and from what is MAIN's child anyway */
        if (frame[i].caf == HX_NO_CENTRE && frame[i].kind != HX_FRAME_BUILTIN) {
            above = goes_on_from(&frame[i]);
            /* of one without a centre, its own nearest one is known already */
            if (frame[above].kind == HX_FRAME_DEFERRED || frame[above].centre == HX_NO_CENTRE)
                above = caller[above];
        }
        caller[i] = above;
    }
    *ret_parent = hx_steal(caller);
    return NULL;
}
