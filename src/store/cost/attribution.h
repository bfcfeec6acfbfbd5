/* attribution.h - recorded stacks attributed to cost centres, and what follows from it.
 *
 * The store holds whole stacks as a tree of frames (hx_frame), what each allocated (hx_stack_cost),
 * and the cost centre of each frame. Everything else is derived: cost-centre stacks, their costs,
 * the census of sites, mprof's tables. It is stored for the default choice (every function,
 * truncated at recursion, chains of five), and for any other one computed into temporary tables
 * that shadow the stored ones.
 */
#ifndef HX_STORE_COST_ATTRIBUTION_H
#define HX_STORE_COST_ATTRIBUTION_H

#include "cost/ccs.h"
#include "store/store.h"

#define HX_CHAIN_DEPTH 5

struct hx_attribution {
    const char *const *pattern; /* centres.h; none: every function and region */
    size_t n_patterns;
    enum hx_recursion recursion;
    uint32_t chain_depth; /* functions of a partial call chain in mprof_leaks; 0: whole chains */
    bool offsets;         /* tell call sites in chains apart: "f+offset" */
};
#define HX_ATTRIBUTION_DEFAULT                                                                     \
    ((struct hx_attribution){.recursion = HX_RECURSION_TRUNCATES, .chain_depth = HX_CHAIN_DEPTH})

/* Lays another attribution of one snapshot (0: of all) over the store's, for this connection.
 * Linear in the recorded stacks; no object is looked at: retained figures of sites are then NULL,
 * until hx_store_revise() with HX_ANALYSE_RETAINED. *ret_idle (may be NULL) as in centres.h; the
 * pattern is the caller's. HX_E_ABSENT: nothing was recorded. It lasts until the next one, or until
 * a snapshot is added. */
hx_error *hx_store_attribute(hx_store *store, int64_t snapshot, const struct hx_attribution *how,
                             const struct hx_progress *progress, const char **ret_idle);

#endif
