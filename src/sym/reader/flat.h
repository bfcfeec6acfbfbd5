/* flat.h - bytes between heapx and a reader: numbers and strings, one after the other.
 *
 * Whoever puts is trusted no more than a file: what is taken lies within the bytes, and a string
 * ends there. After the first thing that does not, `bad` stays true, numbers are 0, strings NULL.
 */
#ifndef HX_SYM_READER_FLAT_H
#define HX_SYM_READER_FLAT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Invariant: at <= size. */
struct hx_flat {
    uint8_t *bytes;
    size_t at, size;
    bool bad; /* putting: there was no room */
};

static inline uint8_t *hx_flat_step(struct hx_flat *flat, uint64_t n)
{
    if (flat->bad || n > flat->size - flat->at) {
        flat->bad = true;
        return NULL;
    }
    flat->at += n;
    return flat->bytes + flat->at - n;
}

static inline void hx_flat_put(struct hx_flat *flat, uint64_t number)
{
    uint8_t *to = hx_flat_step(flat, sizeof number);
    if (to)
        memcpy(to, &number, sizeof number);
}

/* NULL is another string than "". */
static inline void hx_flat_put_string(struct hx_flat *flat, const char *s)
{
    size_t n = s ? strlen(s) + 1 : 0;
    hx_flat_put(flat, n);
    uint8_t *to = n ? hx_flat_step(flat, n) : NULL;
    if (to)
        memcpy(to, s, n);
}

static inline uint64_t hx_flat_take(struct hx_flat *flat)
{
    uint64_t number = 0;
    const uint8_t *from = hx_flat_step(flat, sizeof number);
    if (from)
        memcpy(&number, from, sizeof number);
    return number;
}

/* A number that is at most max. */
static inline uint64_t hx_flat_take_below(struct hx_flat *flat, uint64_t max)
{
    uint64_t number = hx_flat_take(flat);
    flat->bad |= number > max;
    return flat->bad ? 0 : number;
}

/* Valid as long as the bytes. */
static inline const char *hx_flat_take_string(struct hx_flat *flat)
{
    uint64_t n = hx_flat_take(flat);
    const uint8_t *s = n ? hx_flat_step(flat, n) : NULL;
    if (s && s[n - 1])
        flat->bad = true;
    return flat->bad ? NULL : (const char *)s;
}

#endif
