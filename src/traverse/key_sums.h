/* key_sums.h - a snapshot's objects by a key: sums, and the pages that the keys share.
 *
 * A key is a number for each object: a retainer set, a bin, a type.
 */
#ifndef HX_TRAVERSE_KEY_SUMS_H
#define HX_TRAVERSE_KEY_SUMS_H

#include "base/progress.h"
#include "model/snapshot.h"

/* Invariants: sum of bytes[k] = heap_bytes, sum of objects[k] = graph.n.
 * only_pages[k]: resident pages on which every object has key k; shared_pages[k]: those with an
 * object of key k and one of another. Both NULL when the snapshot does not know its resident
 * pages. An object lies on each page that holds a byte of it. */
struct hx_key_sums {
    uint32_t n;
    uint64_t *bytes, *objects;
    uint64_t *only_pages, *shared_pages;
    struct hx_big mem[4];
};

/* key[i] < n for every object, or UINT32_MAX, which counts as n - 1. Linear in objects, keys and
 * ranges of resident pages, whatever the size of an object is. */
hx_error *hx_key_sums_make(const struct hx_snapshot *snapshot, const uint32_t *key, uint32_t n,
                           const struct hx_progress *progress, struct hx_key_sums *ret);
void hx_key_sums_deinit(struct hx_key_sums *sums);

#endif
