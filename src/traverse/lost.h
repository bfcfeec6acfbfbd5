/* lost.h - which lost objects are leaks of their own. Used by reach.c only. */
#ifndef HX_TRAVERSE_LOST_H
#define HX_TRAVERSE_LOST_H

#include "base/progress.h"
#include "model/graph.h"

/* Gives every object whose state is HX_STATE_NONE the state definite or indirect: the
 * lost objects are condensed over edges of every kind; the lowest address of a
 * component that no other lost component points to is definite. */
hx_error *hx_lost_classify(struct hx_graph *graph, const struct hx_progress *progress);

#endif
