/* siphash.h - SipHash-2-4 with 128 bits (J.-P. Aumasson, D. J. Bernstein, "SipHash: a fast
 * short-input PRF", 2012): who does not know the key can neither foresee a hash nor find two texts
 * with the same.
 */
#ifndef HX_BASE_SIPHASH_H
#define HX_BASE_SIPHASH_H

#include <stddef.h>
#include <stdint.h>

struct hx_hash128 {
    uint64_t word[2];
};

struct hx_siphash {
    uint64_t v[4], bytes;
    uint8_t rest[8]; /* bytes % 8 of them */
};

void hx_siphash_begin(struct hx_siphash *hash, const uint64_t key[2]);
void hx_siphash_add(struct hx_siphash *hash, const void *text, size_t n);
struct hx_hash128 hx_siphash_end(struct hx_siphash *hash);

static inline void hx_siphash_number(struct hx_siphash *hash, uint64_t number)
{
    hx_siphash_add(hash, &number, sizeof number);
}

#endif
