/* index.h - a table from hashes to numbers, for what is found by more than a 64-bit key.
 *
 * Open addressing with linear probing. Several numbers may have one hash; whoever looks something
 * up compares what the numbers stand for. Hashes have to be good: hx_hash() is seeded, so that a
 * target cannot choose addresses that collide.
 */
#ifndef HX_BASE_INDEX_H
#define HX_BASE_INDEX_H

#include "base/error.h"

#include <stdint.h>

/* Invariant: a slot is empty when number is 0; numbers are kept plus 1. n <= 3/4 * cap. */
struct hx_index {
    struct hx_index_slot {
        uint64_t hash;
        uint32_t number;
    } * slot;
    uint32_t cap, n; /* cap: a power of two, or 0 */
};

static inline uint64_t hx_hash(uint64_t seed, uint64_t word)
{
    unsigned __int128 product = (unsigned __int128)(word ^ seed) * 0x9e3779b97f4a7c15ULL;
    return (uint64_t)product ^ (uint64_t)(product >> 64);
}

/* One number of two whose order matters, and which may both be small: sums and chains of these do
 * not collide either (the finalizer of G. L. Steele, D. Lea, C. H. Flood, "Fast Splittable
 * Pseudorandom Number Generators", 2014). */
static inline uint64_t hx_mix(uint64_t a, uint64_t b)
{
    uint64_t z = a * 0x9e3779b97f4a7c15ULL + b + 0x632be59bd9b4e019ULL;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ULL;
    z = (z ^ z >> 27) * 0x94d049bb133111ebULL;
    return z ^ z >> 31;
}

/* FNV-1a, mixed once more for the low bits. */
static inline uint64_t hx_hash_bytes(const void *bytes, size_t n)
{
    const unsigned char *byte = bytes;
    uint64_t hash = 0xcbf29ce484222325;
    for (size_t i = 0; i < n; i++)
        hash = (hash ^ byte[i]) * 0x100000001b3;
    return hash ^ hash >> 32;
}

/* A seed that the target does not know. */
uint64_t hx_hash_seed(void);

hx_error *hx_index_add(struct hx_index *index, uint64_t hash, uint32_t number);

/* Removes the pair; nothing happens when it is not there. */
void hx_index_remove(struct hx_index *index, uint64_t hash, uint32_t number);

/* Empties it; gives back what is much. */
void hx_index_clear(struct hx_index *index);
void hx_index_free(struct hx_index *index);

/* Goes through the numbers of a hash: *at begins as 0; false when there are no more. */
static inline bool hx_index_next(const struct hx_index *index, uint64_t hash, uint32_t *at,
                                 uint32_t *ret)
{
    if (!index->n)
        return false;
    for (;; ++*at) {
        const struct hx_index_slot *slot = &index->slot[((uint32_t)hash + *at) & (index->cap - 1)];
        if (!slot->number)
            return false;
        if (slot->hash == hash) {
            *ret = slot->number - 1;
            ++*at;
            return true;
        }
    }
}

#endif
