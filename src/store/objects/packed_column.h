/* packed_column.h - one compressed column of one block of rows.
 *
 * A blob holds up to HX_BLOCK_ROWS unsigned 64-bit values: the least value is taken off,
 * the rest is cut into byte planes (all lowest bytes, then all second bytes, ...), as many
 * as the largest value needs, and each plane is stored as a constant, as it is, or as a
 * zstd frame, whichever is smallest. A random plane so costs its own bytes and nothing
 * more, a regular one next to nothing, and decoding is a straight loop.
 *
 * Layout, little-endian:
 *   u64 checksum of all that follows
 *   u8 format (1, HX_PLACED: 2), u8 planes (0..8), u16 0, u32 values
 *   u64 base
 *   planes times: u32 kind << 30 | length, then length bytes
 *
 * In the format HX_PLACED the bytes of a plane stand in another order, which the reader knows.
 */
#ifndef HX_STORE_OBJECTS_PACKED_COLUMN_H
#define HX_STORE_OBJECTS_PACKED_COLUMN_H

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define HX_BLOCK_ROWS 65536 /* rows of a block; every block but the last of a table is full */
#define HX_PLACED     2     /* the format of values that are not in order of rows (classes.h) */

/* Compression state and scratch memory; one for each thread. */
typedef struct hx_codec hx_codec;
hx_error *hx_codec_create(hx_codec **ret);
void hx_codec_destroy(hx_codec *codec);

static inline void hx_cleanup_codec(hx_codec **codec)
{
    hx_codec_destroy(*codec);
}
#define HX_CODEC __attribute__((cleanup(hx_cleanup_codec)))

/* The largest blob of n values. */
size_t hx_column_bound(size_t n);

/* Encodes n <= HX_BLOCK_ROWS values; out has hx_column_bound(n) bytes. Value i is put at place[i],
 * a permutation; NULL: where it is. */
hx_error *hx_column_encode(hx_codec *codec, const uint64_t *value, const uint16_t *place, size_t n,
                           uint8_t *out, size_t *ret_bytes);

/* Is a place needed to decode it? */
static inline bool hx_column_is_placed(const void *blob, size_t bytes)
{
    return bytes > 8 && ((const uint8_t *)blob)[8] == HX_PLACED;
}

/* Decodes a blob that must hold exactly n <= HX_BLOCK_ROWS values. A blob that does not
 * is HX_E_CORRUPT, whatever is wrong with it. `place` is that of hx_column_encode(), less than n
 * everywhere; NULL: a placed one is damaged. */
hx_error *hx_column_decode(hx_codec *codec, const void *blob, size_t bytes, const uint16_t *place,
                           uint64_t *value, size_t n);

/* The byte planes of a blob: value i is base + the sum over p of plane[p][at] << 8 * p, where `at`
 * is place[i], or i where `place` is NULL. A plane that is NULL adds nothing. */
struct hx_planes {
    uint64_t base;
    unsigned n;
    const uint16_t *place;
    const uint8_t *plane[8];
    size_t rows;
    uint32_t *room;         /* the codec's, for as many */
    const uint32_t *joined; /* the four lowest planes as one; NULL: not yet */
};

/* The planes of a blob that must hold exactly n values, as hx_column_decode() does. They are valid
 * until the next call with the same codec and as long as the blob and `place` are there. */
hx_error *hx_column_planes(hx_codec *codec, const void *blob, size_t bytes, const uint16_t *place,
                           size_t n, struct hx_planes *ret);

/* All n values less the base, in elements of 1 << shift bytes, which hold 8 << shift bits: no plane
 * may lie beyond. */
void hx_planes_narrow(const struct hx_planes *planes, size_t n, unsigned shift, void *ret);

/* Before values that lie by class are read part by part. */
void hx_planes_join(struct hx_planes *planes);

/* The n values from row `from` on. */
void hx_planes_expand(const struct hx_planes *planes, size_t from, size_t n, uint64_t *ret);

/* The same of a column that does not lie by class, values above `most` as `most`. */
void hx_planes_clip(const struct hx_planes *planes, size_t from, size_t n, uint8_t most,
                    uint8_t *ret);

/* Loops that are worth vector registers, also where the rest of the program is built without. */
#if defined(__GNUC__) && !defined(__clang__)
#define HX_HOT __attribute__((optimize("O3")))
#else
#define HX_HOT
#endif

static inline uint64_t hx_planes_at(const struct hx_planes *planes, size_t i)
{
    uint64_t value = planes->base;
    size_t at = planes->place ? planes->place[i] : i;
    for (unsigned p = 0; p < planes->n; p++)
        value += planes->plane[p] ? (uint64_t)planes->plane[p][at] << 8 * p : 0;
    return value;
}

/* Signed differences as unsigned numbers, small ones small. */
static inline uint64_t hx_zigzag(int64_t v)
{
    return (uint64_t)v << 1 ^ (uint64_t)(v >> 63);
}
static inline int64_t hx_unzigzag(uint64_t v)
{
    return (int64_t)(v >> 1 ^ (0 - (v & 1)));
}

#endif
