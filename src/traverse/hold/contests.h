/* contests.h - objects that a second holder reaches from many places, and blocks that serve
 * several, or another one than the nearest.
 *
 * Used by holders.c only.
 */
#ifndef HX_TRAVERSE_HOLD_CONTESTS_H
#define HX_TRAVERSE_HOLD_CONTESTS_H

#include "traverse/hold/holders.h"
#include "traverse/hold/rounds.h"

struct hx_contest_work {
    const struct hx_snapshot *snapshot;
    const struct hx_edge_rounds *rounds;
    const hx_nearness *near; /* for each object */
    unsigned threads;
    const struct hx_progress *progress;
    struct hx_holders *holders; /* `of` is there; sets that of pools, and `contested` */
};

hx_error *hx_contests_find(struct hx_contest_work *work);

#endif
