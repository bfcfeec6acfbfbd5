/* packed.h - the words of an image in less room.
 *
 * Words of a heap are small numbers, null, addresses of that heap, or what stands before them. Each
 * is four bits that say which, and as many bytes as it then needs: a third to a half of its room.
 * Pages (512 words) begin with where their units (32 words) begin, so that any word is found.
 */
#ifndef HX_MODEL_PACKED_H
#define HX_MODEL_PACKED_H

#include "base/vec.h"

#include <stdatomic.h>
#include <stdint.h>

enum {
    HX_PAGE_WORDS = 512,
    HX_UNIT_WORDS = 32,
    HX_PAGE_UNITS = HX_PAGE_WORDS / HX_UNIT_WORDS,
    HX_UNIT_TAGS = HX_UNIT_WORDS / 2, /* bytes */
    /* of a page at most, with what is written or read beyond its end */
    HX_PAGE_PACKED = HX_PAGE_UNITS * (2 + HX_UNIT_TAGS + HX_UNIT_WORDS * 8) + 16
};

/* How two words are put together of their bytes, for each pair of tags: two shuffles, of these
 * bytes and of the two words before, and which of the words are near. */
struct hx_unpacking {
    uint8_t bytes[256][16], before[256][16], near[256][16];
    uint8_t length[256];
};
void hx_unpacking_init(struct hx_unpacking *ret);

/* What is added to the four bytes of a near word, of a span that begins at `start`. */
static inline uint64_t hx_near_base(uint64_t start)
{
    return start - (UINT64_C(1) << 30);
}

/* Packs a page. Returns how many bytes it takes; ret has room for HX_PAGE_PACKED. */
size_t hx_page_pack(const uint64_t *word, uint64_t base, uint8_t *ret);

/* Words [from, to) of a page; how NULL: without shuffles. */
void hx_page_unpack(const struct hx_unpacking *how, const uint8_t *page, uint64_t base, size_t from,
                    size_t to, uint64_t *ret);

/* Where a unit of a page begins. */
static inline const uint8_t *hx_page_unit(const uint8_t *page, size_t unit)
{
    uint16_t at;
    __builtin_memcpy(&at, page + 2 * unit, sizeof at);
    return page + at;
}

/* Of an image whose spans were packed. */
struct hx_packed {
    struct hx_unpacking how;
    const uint8_t **page; /* all pages of packed spans */
    uint64_t *first;      /* of each span, in `page`; UINT64_MAX: it is not packed */
    struct hx_big *store; /* what workers packed */
    unsigned stores;
    struct hx_big page_mem;
    atomic_bool failed; /* there was no memory for words that somebody wanted to see */
};
void hx_packed_destroy(struct hx_packed *packed); /* NULL is legal */

#endif
