/* immediate.h - the dominator tree of numbered nodes. Used by dominators.c and sure.c only. */
#ifndef HX_TRAVERSE_DOMINATE_IMMEDIATE_H
#define HX_TRAVERSE_DOMINATE_IMMEDIATE_H

#include "traverse/dominate/spanning.h"

/* Makes tree.parent the immediate dominators, which have lower numbers than what they dominate.
 * Of the rest vertex and is_root stay. 16 bytes a node are touched, beside what tree has. */
hx_error *hx_immediate_dominators(struct hx_spanning *tree, const struct hx_progress *progress);

#endif
