/* lookup.h - a batch of words on its way to becoming edges.
 *
 * A word costs up to three cache misses (unit of the block map, place of the object,
 * its first bytes). Words are therefore collected and looked up together, each step
 * for all of them with the memory of the next step prefetched.
 */
#ifndef HX_TRAVERSE_SCAN_LOOKUP_H
#define HX_TRAVERSE_SCAN_LOOKUP_H

#include "traverse/scan/blockmap.h"
#include "traverse/scan/interior.h"

#define HX_LOOKUP_BATCH 128 /* looked up when this many are there */
#define HX_LOOKUP_RUN   64  /* hx_lookup_words() takes so many at once */

struct hx_lookup {
    const struct hx_blockmap *map;
    const struct hx_graph *graph;
    struct hx_interior_rules rules;
    size_t n; /* collected, below HX_LOOKUP_BATCH between calls */
    uint64_t value[HX_LOOKUP_BATCH + HX_LOOKUP_RUN];
    uint64_t tag[HX_LOOKUP_BATCH + HX_LOOKUP_RUN]; /* the collector's, carried along */
    /* after hx_lookup_run() */
    hx_obj target[HX_LOOKUP_BATCH + HX_LOOKUP_RUN];
    uint8_t kind[HX_LOOKUP_BATCH + HX_LOOKUP_RUN];
};

/* Collects those of words[0..n) that lie between the first and last object, n <=
 * HX_LOOKUP_RUN; the tag of words[i] is tag + i * step. Afterwards the caller runs the
 * lookup when n has reached HX_LOOKUP_BATCH. */
static inline void hx_lookup_words(struct hx_lookup *lookup, const uint64_t *words, size_t n,
                                   uint64_t tag, uint64_t step)
{
    const uint64_t low = lookup->map->low, len = lookup->map->len;
    size_t at = lookup->n;
    for (size_t i = 0; i < n; i++, tag += step) {
        const uint64_t value = words[i];
        lookup->value[at] = value; /* kept only if it is worth a look */
        lookup->tag[at] = tag;
        at += value - low < len;
    }
    lookup->n = at;
}

/* Looks the collected words up. What points into an object is left in tag, target
 * and kind, in the order of collection; returns how many. The collection is empty
 * afterwards. */
size_t hx_lookup_run(struct hx_lookup *lookup);

#endif
