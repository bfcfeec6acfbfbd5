/* pairs.h - a table from 64-bit keys to numbers, for what is interned. */
#ifndef HX_BASE_PAIRS_H
#define HX_BASE_PAIRS_H

#include "base/error.h"

#include <stddef.h>
#include <stdint.h>

#define HX_NO_PAIR UINT32_MAX

struct hx_pair {
    uint64_t key;
    uint32_t value; /* HX_NO_PAIR: the slot is free */
};

/* Invariants: mask + 1 is a power of two or slot is NULL; at most half of the slots are taken. */
struct hx_pairs {
    struct hx_pair *slot;
    size_t mask, n;
};

/* *ret is where the number of the key stands, HX_NO_PAIR when it is new: then the caller writes
 * another one before the next call. */
hx_error *hx_pairs_at(struct hx_pairs *pairs, uint64_t key, uint32_t **ret);

/* The number of a key; HX_NO_PAIR: it has none. */
uint32_t hx_pairs_find(const struct hx_pairs *pairs, uint64_t key);
void hx_pairs_free(struct hx_pairs *pairs);

static inline uint64_t hx_pair_key(uint32_t a, uint32_t b)
{
    return (uint64_t)a << 32 | b;
}

#endif
