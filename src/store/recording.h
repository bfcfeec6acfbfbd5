/* recording.h - who allocated, on its way into the store.
 *
 * Before anything of a snapshot is written its stacks get their numbers in the tree of cost
 * centres, and the objects sites that have these numbers: the writer goes on with a copy of the
 * snapshot that differs in nothing else.
 */
#ifndef HX_STORE_RECORDING_H
#define HX_STORE_RECORDING_H

#include "store/ccs.h"
#include "store/writer.h"

#define HX_SITE_FRAMES  5  /* of a site's label, as a retainer has it */
#define HX_STACK_FRAMES 12 /* of a stack's, as a leak has it */

struct hx_recorded {
    struct hx_snapshot shadow; /* owns its sites and its graph's column of sites, nothing else */
    struct hx_ccs ccs;
    bool has_ccs;
    uint32_t *node; /* of each stack of the recording, HX_NO_PAIR for those that nothing is of */
};

static inline bool hx_has_costs(const struct hx_rec_costs *costs)
{
    return costs->allocs || costs->alloc_bytes || costs->frees || costs->freed_bytes ||
           costs->live || costs->live_bytes;
}

/* The snapshot as it is stored: w->snapshot and w->graph are its copy from now on. Within a
 * transaction; w->recorded is made, and freed by hx_recorded_destroy(). */
hx_error *hx_writer_recorded(struct hx_writer *w);
void hx_recorded_destroy(struct hx_recorded *recorded); /* NULL is legal */

/* The label that a site's objects have as retainers. `label` is that of its stack. */
void hx_site_label(int64_t ccs_id, const char *label, struct hx_text *ret);

/* What was recorded: costs, sites with their census and pages, notes (in w->notes), losses. Needs
 * the sums that writing the objects leaves. Nothing when nothing was recorded. */
hx_error *hx_writer_recording(struct hx_writer *w);

#endif
