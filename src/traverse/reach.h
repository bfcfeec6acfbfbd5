/* reach.h - the state of every object: reachable, possible, definite, indirect.
 *
 * Definitions are the contract's: reachable from a root through start and known
 * edges; possible when every chain has a plain interior edge; the lost objects are
 * condensed (Tarjan's strongly connected components, iterative) over edges of every
 * kind, a component without an edge from another one gives one definite (its lowest
 * address), all other lost objects are indirect.
 */
#ifndef HX_TRAVERSE_REACH_H
#define HX_TRAVERSE_REACH_H

#include "base/progress.h"
#include "model/snapshot.h"

/* Fills graph.state, snapshot.state_bytes, state_objects and interior. threads as
 * in struct hx_scan_options. */
hx_error *hx_reach(struct hx_snapshot *snapshot, enum hx_interior interior, unsigned threads,
                   const struct hx_progress *progress);

/* A chain from a root to an object: step[0] begins in a root, the last one ends at
 * the object. */
struct hx_step {
    uint32_t root; /* first step: index in roots; else UINT32_MAX */
    hx_obj source; /* HX_NO_OBJ in the first step */
    hx_obj target;
    uint64_t offset; /* bytes: in the source object, or in the root's range */
    uint8_t kind;    /* enum hx_edge_kind */
};
/* The rule that says something of a step's word; 0: none does. *ret_edge: where the word stands in
 * graph.edge, of a step that does not begin in a root. */
unsigned hx_step_rule(const struct hx_snapshot *snapshot, const struct hx_step *step,
                      hx_eidx *ret_edge);

/* Appends the field that a step's word is, by the type of what it lies in: "next",
 * "db[0].dict". False: it is not known. */
bool hx_step_put_field(const struct hx_snapshot *snapshot, const struct hx_step *step,
                       struct hx_text *text);

struct hx_chain {
    struct hx_step *step;
    size_t n;
};
struct hx_chains {
    struct hx_chain *chain;
    size_t n;
    size_t left_out; /* roots that are without a chain, as all together would be too long */
};

struct hx_why_options {
    size_t limit;          /* chains at most */
    const uint64_t *roots; /* bit for each root: chains begin in these only; NULL: in any */
};

/* Distinct chains to `object`, shortest first (breadth-first search backwards over graph.rev;
 * chains are distinct in the root or in an object on the way). The nearest roots come with their
 * shortest chain, each; only when every root that reaches the object has one do further chains
 * fill the rest of the limit, and these are the next shortest. Of several chains to a reachable
 * object one has no plain interior edge, unless a root's shortest would have to go for it. Edges
 * that hx_reach's rule does not follow are not used, nor named roots. None for an object that is
 * lost. Needs graph.rev. */
hx_error *hx_why(const struct hx_snapshot *snapshot, hx_obj object,
                 const struct hx_why_options *options, const struct hx_progress *progress,
                 struct hx_chains *ret);
void hx_chains_deinit(struct hx_chains *chains);

/* At most `limit` chains: those that begin in a named root first, then those from variables, from
 * stacks, from registers, and from the rest; within each of these as hx_why() orders them. No root
 * has a second chain while there is one that has none. Needs graph.rev. */
hx_error *hx_why_named_first(const struct hx_snapshot *snapshot, hx_obj object, size_t limit,
                             const struct hx_progress *progress, struct hx_chains *ret);

/* The named root in which a chain begins, the first of several; NULL: none. */
const struct hx_named *hx_chain_named(const struct hx_snapshot *snapshot,
                                      const struct hx_chain *chain);

#endif
