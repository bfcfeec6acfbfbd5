/* entries.h - by how many blocks each member of a retainer set comes into the objects of the set.
 *
 * A member enters a set S by words of its roots that point to an object of S, and by objects of
 * other sets with it that do. These are counted beside the number of blocks that are like them
 * (same set and shape or, where that is not known, size); a root's own words are like themselves
 * only. What a program links on purpose stands in a field where most of the blocks alike have a
 * reference, be it to S or not: a member that comes in by no such field is in doubt.
 */
#ifndef HX_TRAVERSE_RETAIN_ENTRIES_H
#define HX_TRAVERSE_RETAIN_ENTRIES_H

#include "base/progress.h"
#include "model/snapshot.h"
#include "traverse/retain/retain.h"

struct hx_entry {
    hx_retainer member;
    uint64_t entries; /* words of roots, and blocks */
    uint64_t alike;   /* how many there are like them, themselves included */
    bool doubt;       /* by no usual field, while another member comes in by one */
};

/* Entries of a chosen set: entry[first .. first + n), in the order of hx_sets_elements(). */
struct hx_set_entries {
    hx_set set;
    size_t first, n;
};

struct hx_entries {
    struct hx_set_entries *of;
    size_t n;
    struct hx_entry *entry;
    size_t n_entries;
};

/* Of the `n` sets in `chosen`, none of them twice, NONE or MANY. Linear in objects and edges, and
 * in the members of sets that lead to these. */
hx_error *hx_entries_find(const struct hx_snapshot *snapshot, const struct hx_retain_rule *rule,
                          const hx_sets *sets, const struct hx_retention *retention,
                          const hx_set *chosen, size_t n, const struct hx_progress *progress,
                          struct hx_entries *ret);
void hx_entries_deinit(struct hx_entries *entries);

#endif
