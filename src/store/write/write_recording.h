/* write_recording.h - who allocated, on its way into the store.
 *
 * Before anything of a snapshot is written its stacks get their numbers in the tree of frames, and
 * the objects sites that have these numbers: the writer goes on with a copy of the snapshot that
 * differs in nothing else.
 */
#ifndef HX_STORE_WRITE_WRITE_RECORDING_H
#define HX_STORE_WRITE_WRITE_RECORDING_H

#include "store/cost/attribute.h"
#include "store/write/writer.h"

#define HX_STACK_FRAMES 12 /* of a stack's label, as a leak has it */

/* Where the stacks of a recording stand in the tree. */
struct hx_placed {
    uint32_t *node;   /* of each stack; HX_NO_PAIR for those that nothing is of */
    uint32_t *origin; /* of each of these: the frame that asked for the memory */
    bool *wanted;     /* it is a whole stack, not just where something entered */
};

struct hx_recorded {
    struct hx_snapshot shadow; /* owns its sites and its graph's column of sites, nothing else */
    struct hx_frames frames;
    bool has_frames;
    struct hx_attributing attributing;
    struct hx_placed stacks, backtraces; /* NULL without such a recording */
};

static inline bool hx_has_costs(const struct hx_rec_costs *costs)
{
    return costs->allocs || costs->alloc_bytes || costs->frees || costs->freed_bytes ||
           costs->live || costs->live_bytes || costs->entries;
}

/* The snapshot as it is stored: w->snapshot and w->graph are its copy from now on. Within a
 * transaction; w->recorded is made, and freed by hx_recorded_destroy(). */
hx_error *hx_writer_recorded(struct hx_writer *w);
void hx_recorded_destroy(struct hx_recorded *recorded); /* NULL is legal */

/* What was recorded: costs, sites with their census and pages, notes (in w->notes), losses. Needs
 * the sums that writing the objects leaves. Nothing when nothing was recorded. */
hx_error *hx_writer_recording(struct hx_writer *w);

/* The sites of a snapshot by the cost-centre stack that they belong to. */
struct hx_site_groups {
    uint32_t n;
    int64_t *ccs_id;         /* of each group, ascending */
    const uint32_t *group;   /* of each object */
    struct hx_big group_mem; /* what holds them */
};
hx_error *hx_site_groups_make(const struct hx_snapshot *snapshot, struct hx_site_groups *ret);
void hx_site_groups_deinit(struct hx_site_groups *groups);

/* The resident pages of these groups, as the census `site`. */
hx_error *hx_writer_site_pages(struct hx_writer *w, const struct hx_site_groups *groups);

#endif
