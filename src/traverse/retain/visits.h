/* visits.h - how often the retainer-profiling document's own algorithm visits an object.
 *
 * It walks depth first from each root, and an object again for each retainer that its set has not
 * yet. The sets are those of traverse/retain.h, which finds them without all these visits; what is
 * asked for here is the document's figure, and only where somebody asks.
 */
#ifndef HX_TRAVERSE_RETAIN_VISITS_H
#define HX_TRAVERSE_RETAIN_VISITS_H

#include "traverse/retain/retain.h"

#define HX_VISITS_MAX 1000 /* on average, then it is given up */

struct hx_visits {
    uint64_t objects, visits;
    hx_set *set; /* for each object */
    struct hx_big set_mem;
};

/* As hx_retain(), but for `threads` and `everything`. HX_E_LIMIT: more than HX_VISITS_MAX, or a
 * path that is too long. */
hx_error *hx_visits(const struct hx_snapshot *snapshot, const struct hx_retain_rule *rule,
                    hx_sets *sets, const struct hx_progress *progress, struct hx_visits *ret);
void hx_visits_deinit(struct hx_visits *visits);

#endif
