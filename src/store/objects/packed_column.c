/* packed_column.c - compressed columns: byte planes and zstd. */
#include "store/objects/packed_column.h"

#include <endian.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <zstd.h>

/* Planes are counts and differences: short matches in them are chance, and cost more to find, and
 * to read, than they save. */
enum { LEVEL = 3, SHORTEST_MATCH = 7 };

enum { HEADER_BYTES = 24, FORMAT = 1 };
enum plane_kind { PLANE_ZSTD = 0, PLANE_RAW = 1, PLANE_CONSTANT = 2 };
#define LENGTH_MASK (((uint32_t)1 << 30) - 1)

struct hx_codec {
    ZSTD_CCtx *compress;
    ZSTD_DCtx *decompress;
    uint8_t plane[8][HX_BLOCK_ROWS];
    uint32_t joined[HX_BLOCK_ROWS]; /* the four lowest planes, as they lie */
};

hx_error *hx_codec_create(hx_codec **ret)
{
    hx_codec *codec = calloc(1, sizeof *codec);
    HX_NEED(codec);
    codec->compress = ZSTD_createCCtx();
    codec->decompress = ZSTD_createDCtx();
    if (!codec->compress || !codec->decompress ||
        ZSTD_isError(ZSTD_CCtx_setParameter(codec->compress, ZSTD_c_compressionLevel, LEVEL)) ||
        ZSTD_isError(ZSTD_CCtx_setParameter(codec->compress, ZSTD_c_minMatch, SHORTEST_MATCH))) {
        hx_codec_destroy(codec);
        return hx_error_nomem();
    }
    *ret = codec;
    return NULL;
}

void hx_codec_destroy(hx_codec *codec)
{
    if (!codec)
        return;
    ZSTD_freeCCtx(codec->compress);
    ZSTD_freeDCtx(codec->decompress);
    free(codec);
}

static void put_u32(uint8_t *p, uint32_t v)
{
    for (int i = 0; i < 4; i++)
        p[i] = (uint8_t)(v >> 8 * i);
}

static void put_u64(uint8_t *p, uint64_t v)
{
    for (int i = 0; i < 8; i++)
        p[i] = (uint8_t)(v >> 8 * i);
}

static inline uint32_t get_u32(const uint8_t *p)
{
    uint32_t v;
    memcpy(&v, p, sizeof v);
    return le32toh(v);
}

static inline uint64_t get_u64(const uint8_t *p)
{
    uint64_t v;
    memcpy(&v, p, sizeof v);
    return le64toh(v);
}

/* Finds damage, not forgery: four independent multiply-and-rotate lanes over the words, so
 * that it runs at memory speed, and a last mix. */
static uint64_t column_checksum(const uint8_t *p, size_t n)
{
    const uint64_t m = 0x9e3779b97f4a7c15u;
    uint64_t lane[4] = {1, 2, 3, n};
    for (; n >= 32; p += 32, n -= 32) {
        for (int i = 0; i < 4; i++) {
            uint64_t h = (lane[i] ^ get_u64(p + 8 * i)) * m;
            lane[i] = h << 29 | h >> 35;
        }
    }
    uint64_t h = lane[0];
    for (int i = 1; i < 4; i++)
        h = (h ^ lane[i]) * m + (h >> 31);
    for (; n; p++, n--)
        h = (h ^ *p) * m + (h >> 29);
    h ^= h >> 32;
    h *= m;
    return h ^ h >> 29;
}

size_t hx_column_bound(size_t n)
{
    return HEADER_BYTES + 8 * (4 + ZSTD_compressBound(n));
}

/* Stores one plane at out; returns its bytes with the length word, 0 when zstd failed. */
static size_t encode_plane(hx_codec *codec, size_t n, uint8_t *out)
{
    const uint8_t *plane = codec->plane[0];
    if (memcmp(plane, plane + 1, n - 1) == 0) {
        put_u32(out, (uint32_t)PLANE_CONSTANT << 30 | 1);
        out[4] = plane[0];
        return 5;
    }
    size_t packed = ZSTD_compress2(codec->compress, out + 4, ZSTD_compressBound(n), plane, n);
    if (ZSTD_isError(packed))
        return 0;
    if (packed < n) {
        put_u32(out, (uint32_t)PLANE_ZSTD << 30 | (uint32_t)packed);
        return 4 + packed;
    }
    put_u32(out, (uint32_t)PLANE_RAW << 30 | (uint32_t)n);
    memcpy(out + 4, plane, n);
    return 4 + n;
}

HX_HOT static void cut_plane(const uint64_t *value, uint64_t low, unsigned shift,
                             const uint16_t *place, size_t n, uint8_t *restrict plane)
{
    for (size_t i = 0; !place && i < n; i++)
        plane[i] = (uint8_t)((value[i] - low) >> shift);
    for (size_t i = 0; place && i < n; i++)
        plane[place[i]] = (uint8_t)((value[i] - low) >> shift);
}

HX_HOT hx_error *hx_column_encode(hx_codec *codec, const uint64_t *value, const uint16_t *place,
                                  size_t n, uint8_t *out, size_t *ret_bytes)
{
    uint64_t low = n ? UINT64_MAX : 0, high = 0;
    for (size_t i = 0; i < n; i++) {
        low = value[i] < low ? value[i] : low;
        high = value[i] > high ? value[i] : high;
    }
    unsigned planes = 0;
    for (uint64_t range = high - low; range; range >>= 8)
        planes++;
    size_t used = HEADER_BYTES;
    for (unsigned p = 0; p < planes; p++) {
        cut_plane(value, low, 8 * p, place, n, codec->plane[0]);
        size_t bytes = encode_plane(codec, n, out + used);
        if (!bytes)
            return hx_error_new(HX_E_FAIL, "store", NULL, "zstd cannot compress a column");
        used += bytes;
    }
    memset(out + 8, 0, 8);
    out[8] = planes && place ? HX_PLACED : FORMAT;
    out[9] = (uint8_t)planes;
    put_u32(out + 12, (uint32_t)n);
    put_u64(out + 16, low);
    put_u64(out, column_checksum(out + 8, used - 8));
    *ret_bytes = used;
    return NULL;
}

static hx_error *damaged_column(const char *how)
{
    return hx_error_new(HX_E_CORRUPT, "store", "take it from a backup or make it again",
                        "a column is damaged (%s)", how);
}

/* Reads one plane of n bytes from *in into `room`, or points to where it lies as it is; a constant
 * goes into the base. NULL or what is wrong. */
static const char *read_plane(hx_codec *codec, const uint8_t **in, const uint8_t *end, size_t n,
                              unsigned number, struct hx_planes *planes)
{
    if (end - *in < 4)
        return "it ends early";
    uint32_t word = get_u32(*in);
    size_t length = word & LENGTH_MASK;
    const uint8_t *data = *in + 4;
    if (length > (size_t)(end - data))
        return "it ends early";
    *in = data + length;
    planes->plane[number] = NULL;
    switch (word >> 30) {
    case PLANE_CONSTANT:
        if (length != 1)
            return "wrong length";
        planes->base += (uint64_t)data[0] << 8 * number;
        return NULL;
    case PLANE_RAW:
        if (length != n)
            return "wrong length";
        planes->plane[number] = data;
        return NULL;
    case PLANE_ZSTD:
        if (ZSTD_decompressDCtx(codec->decompress, codec->plane[number], n, data, length) != n)
            return "a zstd frame does not hold what it should";
        planes->plane[number] = codec->plane[number];
        return NULL;
    default:
        return "unknown plane";
    }
}

hx_error *hx_column_planes(hx_codec *codec, const void *blob, size_t bytes, const uint16_t *place,
                           size_t n, struct hx_planes *ret)
{
    const uint8_t *in = blob, *end = in + bytes;
    if (n > HX_BLOCK_ROWS)
        return damaged_column("too many rows");
    if (bytes < HEADER_BYTES || get_u64(in) != column_checksum(in + 8, bytes - 8))
        return damaged_column("checksum");
    unsigned planes = in[9];
    bool placed = in[8] == HX_PLACED && place;
    if ((in[8] != FORMAT && !placed) || planes > 8 || get_u32(in + 12) != n)
        return damaged_column("header");
    ret->base = get_u64(in + 16);
    ret->n = planes;
    ret->place = placed ? place : NULL;
    ret->rows = n;
    ret->room = codec->joined;
    ret->joined = NULL;
    in += HEADER_BYTES;
    for (unsigned p = 0; p < planes; p++) {
        const char *wrong = read_plane(codec, &in, end, n, p, ret);
        if (wrong)
            return damaged_column(wrong);
    }
    while (ret->n && !ret->plane[ret->n - 1])
        ret->n--;
    return in == end ? NULL : damaged_column("bytes behind its end");
}

/* --- from planes to values ------------------------------------------------------------ */

HX_HOT static void narrow_8(const uint8_t *a, const uint16_t *place, size_t n,
                            uint8_t *restrict ret)
{
    if (!place)
        memcpy(ret, a, n);
    for (size_t i = 0; place && i < n; i++)
        ret[i] = a[place[i]];
}

HX_HOT static void narrow_16(const uint8_t *a, const uint8_t *b, size_t n, uint16_t *restrict ret)
{
    for (size_t i = 0; i < n; i++)
        ret[i] = (uint16_t)(a[i] | b[i] << 8);
}

HX_HOT static void narrow_32(const uint8_t *const *p, size_t n, uint32_t *restrict ret)
{
    const uint8_t *a = p[0], *b = p[1], *c = p[2], *d = p[3];
    for (size_t i = 0; i < n; i++)
        ret[i] = a[i] | (uint32_t)b[i] << 8 | (uint32_t)c[i] << 16 | (uint32_t)d[i] << 24;
}

/* From places to rows: planes are joined first, so that each row is looked for once. */
HX_HOT static void place_16(const uint32_t *from, const uint16_t *place, size_t n,
                            uint16_t *restrict ret)
{
    for (size_t i = 0; i < n; i++)
        ret[i] = (uint16_t)from[place[i]];
}

HX_HOT static void place_32(const uint32_t *from, const uint16_t *place, size_t n,
                            uint32_t *restrict ret)
{
    for (size_t i = 0; i < n; i++)
        ret[i] = from[place[i]];
}

HX_HOT static void add_plane(const uint8_t *plane, unsigned shift, const uint16_t *place, size_t n,
                             uint64_t *restrict ret)
{
    for (size_t i = 0; !place && i < n; i++)
        ret[i] += (uint64_t)plane[i] << shift;
    for (size_t i = 0; place && i < n; i++)
        ret[i] += (uint64_t)plane[place[i]] << shift;
}

HX_HOT static void widen(const uint32_t *low, uint64_t base, size_t n, uint64_t *restrict ret)
{
    for (size_t i = 0; i < n; i++)
        ret[i] = base + low[i];
}

static const uint8_t zeros[HX_BLOCK_ROWS];

/* The four lowest planes from a row on, or from a place. */
static void lowest_planes(const struct hx_planes *planes, size_t from, const uint8_t *ret[4])
{
    for (unsigned k = 0; k < 4; k++)
        ret[k] = (k < planes->n && planes->plane[k] ? planes->plane[k] : zeros) + from;
}

static const uint32_t *join_planes(const struct hx_planes *planes)
{
    const uint8_t *p[4];
    if (planes->joined)
        return planes->joined;
    lowest_planes(planes, 0, p);
    narrow_32(p, planes->rows, planes->room);
    return planes->room;
}

void hx_planes_join(struct hx_planes *planes)
{
    if (planes->place)
        planes->joined = join_planes(planes);
}

static void expand_planes(const struct hx_planes *planes, uint64_t base, size_t from, size_t n,
                          uint64_t *ret)
{
    uint32_t low[1024];
    const uint32_t *joined = planes->place ? join_planes(planes) : NULL;
    for (size_t end = from + n, part; from < end; from += part, ret += part) {
        const uint16_t *place = planes->place ? planes->place + from : NULL;
        const uint8_t *p[4];
        part = end - from < 1024 ? end - from : 1024;
        if (place) {
            place_32(joined, place, part, low);
        } else {
            lowest_planes(planes, from, p);
            narrow_32(p, part, low);
        }
        widen(low, base, part, ret);
        for (unsigned k = 4; k < planes->n; k++)
            if (planes->plane[k])
                add_plane(planes->plane[k] + (place ? 0 : from), 8 * k, place, part, ret);
    }
}

void hx_planes_narrow(const struct hx_planes *planes, size_t n, unsigned shift, void *ret)
{
    const uint16_t *place = planes->place;
    const uint8_t *p[4];
    lowest_planes(planes, 0, p);
    if (shift == 0)
        narrow_8(p[0], place, n, ret);
    else if (shift == 1 && place)
        place_16(join_planes(planes), place, n, ret);
    else if (shift == 1)
        narrow_16(p[0], p[1], n, ret);
    else if (shift == 2 && place)
        place_32(join_planes(planes), place, n, ret);
    else if (shift == 2)
        narrow_32(p, n, ret);
    else
        expand_planes(planes, 0, 0, n, ret);
}

HX_HOT void hx_planes_clip(const struct hx_planes *planes, size_t from, size_t n, uint8_t most,
                           uint8_t *ret)
{
    const uint8_t base = planes->base < most ? (uint8_t)planes->base : most;
    const uint8_t room = (uint8_t)(most - base);
    const uint8_t *low = planes->n && planes->plane[0] ? planes->plane[0] + from : zeros;
    for (size_t i = 0; i < n; i++)
        ret[i] = (uint8_t)(base + (low[i] < room ? low[i] : room));
    for (unsigned p = 1; p < planes->n; p++) {
        const uint8_t *plane = planes->plane[p] ? planes->plane[p] + from : zeros;
        for (size_t i = 0; i < n; i++)
            ret[i] = plane[i] ? most : ret[i];
    }
}

void hx_planes_expand(const struct hx_planes *planes, size_t from, size_t n, uint64_t *ret)
{
    expand_planes(planes, planes->base, from, n, ret);
}

hx_error *hx_column_decode(hx_codec *codec, const void *blob, size_t bytes, const uint16_t *place,
                           uint64_t *value, size_t n)
{
    struct hx_planes planes;
    HX_TRY(hx_column_planes(codec, blob, bytes, place, n, &planes));
    hx_planes_expand(&planes, 0, n, value);
    return NULL;
}
