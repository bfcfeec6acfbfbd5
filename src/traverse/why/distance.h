/* distance.h - how far objects are from one object, backwards along edges. Used by why.c and
 * holders.c only. */
#ifndef HX_TRAVERSE_WHY_DISTANCE_H
#define HX_TRAVERSE_WHY_DISTANCE_H

#include "base/bits.h"
#include "base/progress.h"
#include "model/snapshot.h"

/* Objects from which `target` is reached, by distance; as many levels as were needed to meet
 * `enough` roots, or all roots and `enough` objects that a root points to, and each level whole. */
struct hx_distance {
    const struct hx_snapshot *snapshot;
    const struct hx_progress *progress;
    unsigned follows;      /* bit for each edge kind that is used, in objects and roots */
    const uint64_t *roots; /* bit for each root that counts; NULL: all */
    uint32_t *plus_1;      /* for each object: distance + 1; else 0 or with the top bit set */
    struct hx_big plus_1_mem;
};

hx_error *hx_distance_init(struct hx_distance *distance, const struct hx_snapshot *snapshot,
                           unsigned follows, const uint64_t *roots, hx_obj target, size_t enough,
                           const struct hx_progress *progress);
void hx_distance_deinit(struct hx_distance *distance);

/* Is the target reached from `object`? If so *ret is the number of edges between. */
static inline bool hx_distance_of(const struct hx_distance *distance, hx_obj object, uint32_t *ret)
{
    uint32_t plus_1 = distance->plus_1[object];
    *ret = plus_1 - 1;
    return plus_1 != 0 && !(plus_1 >> 31);
}

static inline bool hx_distance_follows(const struct hx_distance *distance, unsigned kind)
{
    return distance->follows >> kind & 1;
}

/* Is this an edge by which a root keeps objects alive? */
static inline bool hx_distance_root_edge(const struct hx_distance *distance,
                                         const struct hx_root_edge *edge)
{
    return hx_distance_follows(distance, edge->kind) &&
           distance->snapshot->roots.v[edge->root].kind != HX_ROOT_NAMED &&
           (!distance->roots || hx_bit(distance->roots, edge->root));
}

#endif
