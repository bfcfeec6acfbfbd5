/* sets.h - retainer sets that keep their number as long as a store lives.
 *
 * A traversal numbers retainers and sets anew each time; the store knows a retainer by its
 * name and a set by its retainers, so that a set has one number in all snapshots, whatever
 * scheme it came from.
 */
#ifndef HX_STORE_WRITE_SETS_H
#define HX_STORE_WRITE_SETS_H

#include "store/write/writer.h"
#include "traverse/retain/retset.h"
#include "traverse/retain/scheme.h"

/* Gives each set a number: stored[set], those of hx_sets_count(sets) sets; the empty set and MANY
 * keep theirs, sets of no object have -1. Retainers and sets that the store does not know are
 * added to it. objects[set]: how many objects have the set. The array is the caller's to free. */
hx_error *hx_sets_store(struct hx_writer *w, const hx_sets *sets, const struct hx_scheme_rule *rule,
                        const uint64_t *objects, int64_t **ret_stored);

/* Those of the rule's retainers with retainer[i] not 0 get their numbers in the store. */
hx_error *hx_retainers_store(struct hx_writer *w, const struct hx_scheme_rule *rule,
                             int64_t *retainer);

/* What a retainer, by its number in the store, adds to the keys of its sets. */
uint64_t hx_set_weight(int64_t retainer);

#endif
