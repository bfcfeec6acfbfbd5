/* flood.h - the first set that comes to each object, by several threads. Used by retain.c only.
 *
 * Whatever the order in which the threads come by, what is unsettled, once all that unsettled
 * objects lead to is added, is the same: the objects that more than one set comes to.
 */
#ifndef HX_TRAVERSE_RETAIN_FLOOD_H
#define HX_TRAVERSE_RETAIN_FLOOD_H

#include "base/progress.h"
#include "model/graph.h"
#include "traverse/retain/retset.h"

struct hx_flood {
    const struct hx_graph *graph;
    const struct hx_progress *progress;
    unsigned threads;    /* as in hx_threads() */
    unsigned follows;    /* bit for each enum hx_edge_kind */
    const uint64_t *cut; /* bit for each object: its edges are not followed; NULL: none */
    hx_set *set;         /* for each object; HX_SET_NONE: nothing came to it yet */
    uint64_t *unsettled; /* bit for each object: another set came than the first one */
    const hx_obj *seed;  /* the objects that have sets, each once */
    size_t n_seeds;
    bool any_unsettled;
    uint64_t visits; /* edges followed; added to */
};

/* Linear. Takes 4 bytes an object until it returns. */
hx_error *hx_flood(struct hx_flood *flood);

#endif
