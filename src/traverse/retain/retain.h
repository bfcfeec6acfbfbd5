/* retain.h - the retainer set of every object.
 *
 * The least fixed point of S. Park, S. Peyton Jones, "Implementation of Retainer Profiling":
 * for every root r, R(r) is in the set of what r points to; for every edge from a to c, the set
 * of c contains {R(a)} when a is a retainer, else the set of a. It is computed in linear time:
 * retainers lose their edges, and what these led to begins with R(a); then sets flow, and only
 * where different ones meet the graph is condensed.
 */
#ifndef HX_TRAVERSE_RETAIN_RETAIN_H
#define HX_TRAVERSE_RETAIN_RETAIN_H

#include "base/progress.h"
#include "model/snapshot.h"
#include "traverse/retain/retset.h"

#define HX_NO_RETAINER ((hx_retainer)-1)

/* What the root edges [from, to) point to is retained by this one. */
struct hx_retain_seed {
    size_t from, to;
    hx_retainer retainer;
};

/* Who is a retainer, and which: the oracle and R(). */
struct hx_retain_rule {
    const hx_retainer *of_root; /* for each root; HX_NO_RETAINER: its edges do not count. NULL: no
                                   root counts */
    const hx_retainer
        *of_object; /* for each object; HX_NO_RETAINER: none. NULL: no object is one */
    const struct hx_retain_seed *seed; /* and these; the same edges may be in several */
    size_t n_seeds;
    unsigned threads; /* as in hx_threads() */
    bool everything;  /* lost objects take part as the others do */
};

/* Invariant: set[i] is HX_SET_NONE for exactly the objects that nothing retains; where the rule
 * gives every root but the named ones a retainer and not `everything`, these are the lost ones. */
struct hx_retention {
    hx_set *set;      /* for each object */
    uint64_t objects; /* that have a set */
    uint64_t visits;  /* edges walked, those of roots included */
    struct hx_big set_mem;
};

/* Needs states; follows what snapshot->interior says. Sets are made in `sets`, which may hold some
 * already. Takes 4 bytes an object for the result and 28 until it returns. */
hx_error *hx_retain(const struct hx_snapshot *snapshot, const struct hx_retain_rule *rule,
                    hx_sets *sets, const struct hx_progress *progress, struct hx_retention *ret);
/* The bytes of those objects that have another set once edges that were set aside (HX_EDGE_ASIDE)
 * are followed, too, as what their evidence says. `retention` is what hx_retain() found without
 * them, by the same rule, in `sets`; there may be so many more elements of sets. Only reads.
 * Linear; takes 8 bytes an object, and 28 where sets meet again and again. */
hx_error *hx_retain_doubt(const struct hx_snapshot *snapshot, const struct hx_retain_rule *rule,
                          const hx_sets *sets, const struct hx_retention *retention,
                          size_t elements, const struct hx_progress *progress, uint64_t *ret);
void hx_retention_deinit(struct hx_retention *retention);

#endif
