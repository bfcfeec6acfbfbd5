/* groups.h - what would go if all objects of a type, or of a site, vanished at once.
 *
 * That is more than the sum of what each of them retains: two objects of a group may keep
 * a third one alive together. It is exact: "reached while avoiding group k" is spread over
 * the graph for 64 groups at a time, one bit each, until nothing changes. Each object is
 * visited again only when it gains a bit, so at most 64 times and mostly once or twice.
 */
#ifndef HX_TRAVERSE_DOMINATE_GROUPS_H
#define HX_TRAVERSE_DOMINATE_GROUPS_H

#include "traverse/dominate/dominators.h"

#define HX_NO_GROUP UINT32_MAX /* the object belongs to no group */

struct hx_groups {
    uint32_t n;
    uint32_t measured; /* groups with figures */
    uint64_t *bytes;   /* n each: retained by the whole group, its own objects included; */
    uint64_t *objects; /* HX_RETAINED_UNKNOWN: not measured */
};

/* group[i] < n_groups, or HX_NO_GROUP, is the group of object i. Of groups whose figures
 * need a search, the `limit` largest ones (bytes in scope; 0: all) are measured; those with no
 * object or one object in scope need none. `dominators` tells the scope and which edges are
 * followed. threads as in hx_threads(); each takes 12 bytes an object until it returns. */
hx_error *hx_groups_measure(const struct hx_snapshot *snapshot,
                            const struct hx_dominators *dominators, const uint32_t *group,
                            uint32_t n_groups, uint32_t limit, unsigned threads,
                            const struct hx_progress *progress, struct hx_groups *ret);
void hx_groups_deinit(struct hx_groups *groups);

#endif
