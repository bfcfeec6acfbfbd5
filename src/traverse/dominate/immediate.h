/* immediate.h - the dominator tree of numbered nodes. Used by dominators.c and sure.c only. */
#ifndef HX_TRAVERSE_DOMINATE_IMMEDIATE_H
#define HX_TRAVERSE_DOMINATE_IMMEDIATE_H

#include "traverse/dominate/spanning.h"

/* Makes tree.parent the immediate dominators, which have lower numbers than what they dominate.
 * Uses low, late_of and late up, and the room. */
hx_error *hx_immediate_dominators(struct hx_spanning *tree, const struct hx_progress *progress);

#endif
