/* mprof_fill.h - fills mprof's tables from recorded stacks: hx_chain and what else mprof_sql.h has.
 */
#ifndef HX_STORE_COST_MPROF_FILL_H
#define HX_STORE_COST_MPROF_FILL_H

#include "store/cost/attribute.h"

/* Writes the chains of all stacks in hx_stack that have none yet. Numbers that are there stay. */
hx_error *hx_mprof_chains(const struct hx_attributing *a);

/* Writes the figures of a snapshot from hx_stack_cost, in place of those that are there; behind
 * hx_mprof_chains(). Nothing, when nothing was recorded. */
hx_error *hx_mprof_snapshot(const struct hx_attributing *a, int64_t snapshot);

/* --- the tree of callers ------------------------------------------------------------ */

/* Who called a frame, as mprof sees it: across what is not chosen, by who asked for deferred work,
 * and nobody who called `main`. Invariants: caller[i] < i but for 0; near[i] <= i; both are chosen
 * frames, or 0, which is MAIN: nobody. */
struct hx_mprof_tree {
    uint32_t n;
    uint32_t *caller; /* of each frame the nearest chosen one above it */
    uint32_t *near;   /* itself when it is chosen, else its caller */
};

hx_error *hx_mprof_tree_make(const struct hx_attributing *a, struct hx_mprof_tree *ret);
void hx_mprof_tree_deinit(struct hx_mprof_tree *tree);

/* The frame that an allocation of a stack is charged to, by hx_stack.origin (0: none, by stack_id).
 * HX_E_CORRUPT: there is no such stack. */
hx_error *hx_mprof_origin(const struct hx_attributing *a, const struct hx_mprof_tree *tree,
                          int64_t origin, int64_t stack_id, uint32_t *ret);

#endif
