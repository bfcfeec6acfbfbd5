/* mark.h - spreading a state over the graph from seeds. Used by reach.c only.
 *
 * An explicit stack feeds three short queues (an object's place in fwd, its edges,
 * the states of their targets); what the next queue will read is prefetched while an
 * entry waits. Several workers mark at once: a state only ever grows from "none", two
 * workers that mark the same object merely do it twice, and a worker with a long
 * stack gives of it to one that has nothing.
 */
#ifndef HX_TRAVERSE_MARK_H
#define HX_TRAVERSE_MARK_H

#include "base/progress.h"
#include "model/graph.h"

/* A state for the time of the marking: so far reached by plain interior edges only. */
#define HX_MARK_PENDING HX_STATES

struct hx_mark_worker;

struct hx_mark {
    const struct hx_graph *graph; /* state is written */
    const struct hx_progress *progress;
    unsigned threads;
    uint8_t state;    /* what is given */
    unsigned follows; /* bit for each edge kind that is followed */
    bool pending;     /* plain interior edges that are not followed make HX_MARK_PENDING of NONE */
    /* Gives a worker seeds through hx_mark_seed(); false when none are left. Called by
     * several workers at once. */
    bool (*seed)(struct hx_mark_worker *worker, void *context);
    void *context;
};

/* Marks what the seeds reach. */
hx_error *hx_mark_run(const struct hx_mark *mark);

/* A pointer of this kind to this object was found; prefetches and marks in a while.
 * For seed functions. */
void hx_mark_seed(struct hx_mark_worker *worker, hx_obj object, enum hx_edge_kind kind);

/* This object has its state already; what it points to has to be marked. */
void hx_mark_expand(struct hx_mark_worker *worker, hx_obj object);

#endif
