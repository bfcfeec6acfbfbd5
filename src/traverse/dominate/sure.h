/* sure.h - retained figures over sure edges, where they differ from those over all of them.
 *
 * Plain interior edges (uncertain ones, for short) mostly concern few objects. Let F be the graph
 * of all edges that are followed, S that of the sure ones, R what the targets of uncertain edges
 * reach over sure ones, U the rest of the scope.
 *
 *   - Each edge into U begins in U and is sure. So U's objects have the same dominators in F and
 *     S, and all of these are in U.
 *   - A chain of S to an object x in R stays in U up to some source of an edge into R, then in
 *     R. What it must pass in U are the dominators of that source: there is a chain around
 *     anything else. So U may be replaced by its part of F's dominator tree, and of that only
 *     the sources and what dominates them is needed: A.
 *
 * What is left is a graph of R and A, whose dominators are sought as those of any graph. An
 * object of A stands for what it retains over F without R and A, too. That is the same in S, and
 * so the sums over the small tree are what R and A retain over S; for all other objects it is what
 * they retain over F.
 *
 * An uncertain edge decides nothing when its target, or something with a sure edge to its target,
 * dominates its source in F: a chain over it has a shorter one among its own nodes. All roots are
 * one node here. Such edges are left out from the beginning, where that is cheap to see.
 */
#ifndef HX_TRAVERSE_DOMINATE_SURE_H
#define HX_TRAVERSE_DOMINATE_SURE_H

#include "traverse/dominate/dominators.h"

/* Invariants: object[k] < object[k + 1] < the graph's n. */
struct hx_sure {
    bool too_many;   /* more are concerned than was allowed: n is 0, nothing is known */
    hx_obj n;        /* objects whose figures may differ; */
    hx_obj *object;  /* n: these, by growing index */
    uint64_t *bytes; /* n: retained over start and known edges, as HX_OVER_SURE has it */
    hx_obj *objects; /* n: 0: not reached over them */
    struct hx_big object_mem, bytes_mem, objects_mem;
};

/* The differences between HX_OVER_SURE and `all`, which was found HX_OVER_FOLLOWED in this
 * snapshot and still has its `parent`. Gives up when more than a `part`-th (at least 1) of the
 * objects, or sure edges from and to as large a part of them, are concerned. Near-linear in what
 * is concerned, after two passes over the edges. Takes 16 bytes an object that is concerned; until
 * it returns half a byte an object, up to 80 for each that is concerned and 20 for each sure edge
 * between those. Cancelled work is HX_E_CANCEL. */
hx_error *hx_sure_find(const struct hx_snapshot *snapshot, const struct hx_dominators *all,
                       unsigned part, const struct hx_progress *progress, struct hx_sure *ret);
void hx_sure_deinit(struct hx_sure *sure);

/* The first k with object[k] >= object; n when there is none. */
hx_obj hx_sure_from(const struct hx_sure *sure, hx_obj object);

#endif
