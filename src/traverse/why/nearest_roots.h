/* nearest_roots.h - the roots nearest to an object, each with its shortest chain. Used by why.c
 * only. */
#ifndef HX_TRAVERSE_WHY_NEAREST_ROOTS_H
#define HX_TRAVERSE_WHY_NEAREST_ROOTS_H

#include "traverse/reach.h"
#include "traverse/why/distance.h"

/* A root that reaches the object. */
struct hx_near_root {
    uint32_t root;
    uint32_t edge;     /* index in root_edges: where its shortest chain begins */
    uint32_t distance; /* edges from that edge's target to the object */
};
typedef HX_VEC(struct hx_near_root) hx_near_roots;

/* The `limit` nearest roots, nearest first; all when there are no more. Distances must go far
 * enough for that. Add to *ret, which the caller frees also after an error. Linear but for the
 * sorting of the roots. */
hx_error *hx_nearest_roots_find(const struct hx_distance *distance, size_t limit,
                                hx_near_roots *ret);

/* Walks down to the object. What the walks have in common is looked up once. */
struct hx_walker {
    const struct hx_distance *distance;
    hx_eidx *next_1; /* for each object: the edge to go on by, + 1; 0: not looked up yet */
    struct hx_big next_mem;
};
hx_error *hx_walker_init(struct hx_walker *walker, const struct hx_distance *distance);
void hx_walker_deinit(struct hx_walker *walker);

/* The shortest chain of a near. Of several ways it takes the strongest edge, then the first. */
hx_error *hx_walk(struct hx_walker *walker, const struct hx_near_root *near, struct hx_chain *ret);

/* The first step of a chain, by an index in root_edges, and a later one, by an edge of `source`. */
struct hx_step hx_step_from_root(const struct hx_snapshot *snapshot, uint32_t edge);
struct hx_step hx_step_from_object(const struct hx_graph *graph, hx_obj source, hx_eidx edge);

#endif
