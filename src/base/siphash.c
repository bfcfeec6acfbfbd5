/* siphash.c - see siphash.h. */
#include "base/siphash.h"

#include <string.h>

#define ROTATE(x, n) ((x) << (n) | (x) >> (64 - (n)))

static inline void mix(uint64_t v[4])
{
    v[0] += v[1];
    v[2] += v[3];
    v[1] = ROTATE(v[1], 13) ^ v[0];
    v[3] = ROTATE(v[3], 16) ^ v[2];
    v[0] = ROTATE(v[0], 32);
    v[2] += v[1];
    v[0] += v[3];
    v[1] = ROTATE(v[1], 17) ^ v[2];
    v[3] = ROTATE(v[3], 21) ^ v[0];
    v[2] = ROTATE(v[2], 32);
}

static inline void add_word(uint64_t v[4], uint64_t word)
{
    v[3] ^= word;
    mix(v);
    mix(v);
    v[0] ^= word;
}

void hx_siphash_begin(struct hx_siphash *hash, const uint64_t key[2])
{
    *hash =
        (struct hx_siphash){.v = {key[0] ^ 0x736f6d6570736575, key[1] ^ 0x646f72616e646f6d ^ 0xee,
                                  key[0] ^ 0x6c7967656e657261, key[1] ^ 0x7465646279746573}};
}

void hx_siphash_add(struct hx_siphash *hash, const void *text, size_t n)
{
    const uint8_t *at = text;
    size_t have = hash->bytes % 8, room = 8 - have;
    uint64_t word, v[4];
    hash->bytes += n;
    if (have + n < 8) {
        memcpy(hash->rest + have, at, n);
        return;
    }
    memcpy(v, hash->v, sizeof v);
    if (have) {
        memcpy(hash->rest + have, at, room);
        memcpy(&word, hash->rest, sizeof word);
        add_word(v, word);
        at += room;
        n -= room;
    }
    for (; n >= 8; at += 8, n -= 8) {
        memcpy(&word, at, sizeof word);
        add_word(v, word);
    }
    memcpy(hash->rest, at, n);
    memcpy(hash->v, v, sizeof v);
}

struct hx_hash128 hx_siphash_end(struct hx_siphash *hash)
{
    struct hx_hash128 ret;
    uint64_t *v = hash->v, last = hash->bytes << 56;
    memcpy(&last, hash->rest, hash->bytes % 8);
    add_word(v, last);
    v[2] ^= 0xee;
    for (int i = 0; i < 2; i++) {
        for (int k = 0; k < 4; k++)
            mix(v);
        ret.word[i] = v[0] ^ v[1] ^ v[2] ^ v[3];
        v[1] ^= 0xdd;
    }
    return ret;
}
