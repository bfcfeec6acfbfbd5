/* bits.h - a bit for each of many things, in words of 64; n / 64 + 1 words are enough for n. */
#ifndef HX_BASE_BITS_H
#define HX_BASE_BITS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

static inline bool hx_bit(const uint64_t *bits, size_t i)
{
    return bits[i / 64] >> i % 64 & 1;
}

static inline void hx_bit_set(uint64_t *bits, size_t i)
{
    bits[i / 64] |= (uint64_t)1 << i % 64;
}

static inline void hx_bit_clear(uint64_t *bits, size_t i)
{
    bits[i / 64] &= ~((uint64_t)1 << i % 64);
}

/* Sets it. False: it was set before. */
static inline bool hx_bit_add(uint64_t *bits, size_t i)
{
    bool was = hx_bit(bits, i);
    hx_bit_set(bits, i);
    return !was;
}

/* The same by several threads, where bits of other things are set meanwhile. */
static inline bool hx_bit_add_shared(uint64_t *bits, size_t i)
{
    const uint64_t bit = (uint64_t)1 << i % 64;
    return !(__atomic_load_n(&bits[i / 64], __ATOMIC_RELAXED) & bit) &&
           !(__atomic_fetch_or(&bits[i / 64], bit, __ATOMIC_RELAXED) & bit);
}

/* How many are set in the word of bit i, below it. */
static inline unsigned hx_bits_below(const uint64_t *bits, size_t i)
{
    return (unsigned)__builtin_popcountll(bits[i / 64] & (((uint64_t)1 << i % 64) - 1));
}

#endif
