/* mprof_tree.c - the tree of callers that mprof's tables are made of. */
#include "store/cost/mprof_fill.h"

#include "base/cleanup.h"

#include <stdlib.h>
#include <string.h>

/* Regions are centres like functions; a frame without a centre is where deferred work was entered.
 */
static bool is_chosen(const struct hx_attributing *a, uint32_t i)
{
    const struct hx_frame *frame = &a->frame[i];
    if (!i || frame->kind == HX_FRAME_BUILTIN)
        return true;
    return frame->centre < a->frames->centres.n && (!a->selected || a->selected[frame->centre]);
}

static bool is_main(const struct hx_attributing *a, uint32_t i)
{
    const struct hx_frame *frame = &a->frame[i];
    return frame->kind == HX_FRAME_CODE && frame->centre < a->frames->centres.n &&
           strcmp(hx_frames_label(a->frames, frame->centre), "main") == 0;
}

static void walk_mprof_tree(const struct hx_attributing *a, const uint32_t *parent,
                            bool *below_main, struct hx_mprof_tree *tree)
{
    for (uint32_t i = 1; i < tree->n; i++) { /* of 0 all is 0 */
        uint32_t above = parent[i];
        bool outermost = !below_main[above] && is_main(a, i);
        below_main[i] = outermost || below_main[above];
        tree->caller[i] = outermost ? 0 : tree->near[above];
        tree->near[i] = is_chosen(a, i) ? i : tree->caller[i];
    }
}

hx_error *hx_mprof_tree_make(const struct hx_attributing *a, struct hx_mprof_tree *ret)
{
    uint32_t n = (uint32_t)a->frames->node.n;
    HX_FREE uint32_t *parent = NULL;
    HX_TRY(hx_frames_callers(a->frame, n, &parent));
    HX_FREE bool *below_main = calloc((size_t)n + 1, sizeof *below_main);
    HX_FREE uint32_t *caller = calloc((size_t)n + 1, sizeof *caller);
    HX_FREE uint32_t *near = calloc((size_t)n + 1, sizeof *near);
    HX_NEED(below_main && caller && near);
    *ret = (struct hx_mprof_tree){.n = n, .caller = hx_steal(caller), .near = hx_steal(near)};
    walk_mprof_tree(a, parent, below_main, ret);
    return NULL;
}

void hx_mprof_tree_deinit(struct hx_mprof_tree *tree)
{
    free(tree->caller);
    free(tree->near);
    *tree = (struct hx_mprof_tree){0};
}

hx_error *hx_mprof_origin(const struct hx_attributing *a, const struct hx_mprof_tree *tree,
                          int64_t origin, int64_t stack_id, uint32_t *ret)
{
    size_t frame = hx_frames_index(a->frames, origin ? origin : stack_id);
    if (frame >= tree->n)
        return hx_error_new(HX_E_CORRUPT, a->what, "take it from a backup or make it again",
                            "stack %lld has no frames", (long long)stack_id);
    *ret = tree->near[frame];
    return NULL;
}
