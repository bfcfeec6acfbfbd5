/* bytes.h - what the eight bytes of a word are, all at once: each answer has bit 7 of those bytes
 * that are (as in H. S. Warren, "Hacker's Delight", 2012, 6-1).
 */
#ifndef HX_BASE_BYTES_H
#define HX_BASE_BYTES_H

#include <stdbool.h>
#include <stdint.h>

#define HX_BYTES(byte) (UINT64_C(0x0101010101010101) * (byte))

/* Below `limit`, which is at most 0x80. */
static inline uint64_t hx_bytes_below(uint64_t word, uint8_t limit)
{
    return ~(((word & HX_BYTES(0x7f)) + HX_BYTES(0x80 - limit)) | word) & HX_BYTES(0x80);
}

static inline uint64_t hx_bytes_that_are(uint64_t word, uint8_t byte)
{
    return hx_bytes_below(word ^ HX_BYTES(byte), 1);
}

/* How many a word has up to the last one that is not null. */
static inline unsigned hx_bytes_used(uint64_t word)
{
    return word ? 8 - (unsigned)__builtin_clzll(word) / 8 : 0;
}

/* The others, of so many that are used, become spaces. */
static inline uint64_t hx_bytes_pad(uint64_t word, unsigned used)
{
    return used < 8 ? word | HX_BYTES(' ') << 8 * used : word;
}

/* How many bytes an answer names. */
static inline unsigned hx_bytes_count(uint64_t answer)
{
    return (unsigned)((answer >> 7) * HX_BYTES(1) >> 56);
}

/* At least four letters from its first byte on, then nothing. */
static inline bool hx_bytes_are_text(uint64_t word)
{
    const unsigned used = hx_bytes_used(word);
    const uint64_t text = hx_bytes_pad(word, used), low = hx_bytes_below(text, ' ');
    if (used < 4 || hx_bytes_that_are(text, 0x7f) ||
        (low && low & ~(hx_bytes_that_are(text, '\n') | hx_bytes_that_are(text, '\t') |
                        hx_bytes_that_are(text, '\r'))))
        return false;
    const unsigned letters = used - hx_bytes_count(word & HX_BYTES(0x80));
    return letters >= 4 && letters * 4 >= used * 3;
}

#endif
