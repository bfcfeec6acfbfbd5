/* packed.c - words by what they need, and an image packed by all cores. */
#include "model/packed.h"

#include "base/parallel.h"
#include "model/image.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#ifdef __x86_64__
#include <tmmintrin.h>
#endif

#define PAGE       (HX_PAGE_WORDS * (size_t)8)
#define PIECE      ((size_t)512) /* pages that a worker claims and gives back */
#define BEYOND     ((size_t)16)  /* bytes that are read behind a page */
#define SPAN_LEAST ((uint64_t)64 << 10)

/* 0 to 8: so many low bytes, the others are null. */
enum { SAME = 9, NEAR, TAGS };

static const uint8_t length[TAGS] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 0, 4};

/* --- packing -------------------------------------------------------------------------------- */

static inline unsigned tag_of(uint64_t word, uint64_t last, uint64_t base)
{
    if (word == last)
        return SAME; /* null, too, where it is first */
    if (word >> 32 && word - base < UINT64_C(1) << 32)
        return NEAR;
    return word ? (71 - (unsigned)__builtin_clzll(word)) / 8 : 0;
}

static inline uint8_t *put_word(uint64_t word, unsigned tag, uint64_t base, uint8_t *at)
{
    word -= tag == NEAR ? base : 0;
    memcpy(at, &word, sizeof word);
    return at + length[tag];
}

size_t hx_page_pack(const uint64_t *word, uint64_t base, uint8_t *ret)
{
    uint8_t *at = ret + 2 * HX_PAGE_UNITS;
    for (size_t unit = 0; unit < HX_PAGE_UNITS; unit++) {
        const uint16_t begin = (uint16_t)(at - ret);
        uint8_t *tags = at;
        uint64_t last = 0;
        memcpy(ret + 2 * unit, &begin, sizeof begin);
        at += HX_UNIT_TAGS;
        for (size_t i = 0; i < HX_UNIT_WORDS; i += 2, word += 2) {
            const unsigned one = tag_of(word[0], last, base), two = tag_of(word[1], word[0], base);
            at = put_word(word[0], one, base, at);
            at = put_word(word[1], two, base, at);
            *tags++ = (uint8_t)(one | two << 4);
            last = word[1];
        }
    }
    return (size_t)(at - ret);
}

/* --- unpacking ------------------------------------------------------------------------------ */

/* Half of a shuffle: `n` bytes from `first` on, the others null. */
static void take(uint8_t *shuffle, unsigned first, unsigned n)
{
    for (unsigned i = 0; i < 8; i++)
        shuffle[i] = i < n ? (uint8_t)(first + i) : 0x80;
}

void hx_unpacking_init(struct hx_unpacking *ret)
{
    memset(ret, 0, sizeof *ret);
    for (unsigned two = 0; two < TAGS; two++)
        for (unsigned one = 0; one < TAGS; one++) {
            const unsigned pair = one | two << 4;
            const bool as_one = two == SAME && one != SAME; /* it is made of the same bytes */
            take(ret->bytes[pair], 0, length[one]);
            take(ret->bytes[pair] + 8, as_one ? 0 : length[one], length[as_one ? one : two]);
            take(ret->before[pair], 8, one == SAME ? 8 : 0);
            take(ret->before[pair] + 8, 8, one == SAME && two == SAME ? 8 : 0);
            memset(ret->near[pair], one == NEAR ? 0xff : 0, 8);
            memset(ret->near[pair] + 8, (as_one ? one : two) == NEAR ? 0xff : 0, 8);
            ret->length[pair] = length[one] + length[two];
        }
}

/* The first `n` words of a unit. */
static void unpack_plain(const uint8_t *unit, uint64_t base, size_t n, uint64_t *ret)
{
    const uint8_t *at = unit + HX_UNIT_TAGS;
    uint64_t last = 0;
    for (size_t i = 0; i < n; i++) {
        const unsigned tag = unit[i / 2] >> i % 2 * 4 & 15;
        uint64_t word = 0;
        memcpy(&word, at, length[tag]);
        last = tag == SAME ? last : tag == NEAR ? word + base : word;
        ret[i] = last;
        at += length[tag];
    }
}

#ifdef __x86_64__
/* The same, and a word more where `n` is odd. The baseline cannot shuffle bytes; nearly every
 * machine can. */
__attribute__((target("ssse3"))) static void unpack_ssse3(const struct hx_unpacking *how,
                                                          const uint8_t *unit, uint64_t base,
                                                          size_t n, uint64_t *ret)
{
    const __m128i bases = _mm_set1_epi64x((long long)base);
    const uint8_t *at = unit + HX_UNIT_TAGS;
    __m128i last = _mm_setzero_si128();
    for (size_t i = 0; i < n; i += 2) {
        const uint8_t pair = unit[i / 2];
        const __m128i *bytes = (const __m128i *)how->bytes[pair],
                      *before = (const __m128i *)how->before[pair],
                      *near = (const __m128i *)how->near[pair];
        const __m128i raw = _mm_loadu_si128((const __m128i *)at);
        const __m128i words = _mm_add_epi64(_mm_shuffle_epi8(raw, _mm_loadu_si128(bytes)),
                                            _mm_and_si128(bases, _mm_loadu_si128(near)));
        last = _mm_or_si128(words, _mm_shuffle_epi8(last, _mm_loadu_si128(before)));
        _mm_storeu_si128((__m128i *)(ret + i), last);
        at += how->length[pair];
    }
}
#endif

static inline void unpack_unit(const struct hx_unpacking *how, const uint8_t *unit, uint64_t base,
                               size_t n, uint64_t *ret)
{
#ifdef __x86_64__
    if (how && __builtin_cpu_supports("ssse3")) {
        unpack_ssse3(how, unit, base, n, ret);
        return;
    }
#endif
    unpack_plain(unit, base, n, ret);
}

void hx_page_unpack(const struct hx_unpacking *how, const uint8_t *page, uint64_t base, size_t from,
                    size_t to, uint64_t *ret)
{
    for (size_t at = from, end; at < to; at = end) {
        const size_t unit = at / HX_UNIT_WORDS, begin = unit * HX_UNIT_WORDS;
        end = begin + HX_UNIT_WORDS < to ? begin + HX_UNIT_WORDS : to;
        if (end - at == HX_UNIT_WORDS) {
            unpack_unit(how, hx_page_unit(page, unit), base, HX_UNIT_WORDS, ret);
        } else {
            uint64_t word[HX_UNIT_WORDS];
            unpack_unit(how, hx_page_unit(page, unit), base, end - begin, word);
            memcpy(ret, word + (at - begin), (end - at) * sizeof *word);
        }
        ret += end - at;
    }
}

/* --- an image ------------------------------------------------------------------------------- */

struct packing {
    struct hx_image *image;
    struct hx_packed *packed;
    uint64_t pages;
    atomic_uint_fast64_t next;
};

static size_t pages_of(const struct hx_span *span)
{
    return (span->end - span->start) / PAGE;
}

/* Nobody reads these bytes any more. */
static void give_back(uint8_t *bytes, size_t n)
{
    if (n && madvise(bytes, n, MADV_REMOVE) != 0) /* private memory has no file behind it */
        madvise(bytes, n, MADV_DONTNEED);
}

/* Packs n pages to where they were, as they are memory that is there already; what does not fit in
 * what was read goes to `store`. */
static void pack_pages(uint8_t *bytes, size_t n, uint64_t base, const uint8_t **page,
                       uint8_t **store)
{
    uint8_t *at = bytes, packed[HX_PAGE_PACKED];
    for (size_t k = 0; k < n; k++) {
        const size_t left = (k + 1) * PAGE - (size_t)(at - bytes),
                     size = hx_page_pack((const uint64_t *)(const void *)(bytes + k * PAGE), base,
                                         packed);
        uint8_t **to = size + BEYOND <= left ? &at : store;
        memcpy(*to, packed, size);
        page[k] = *to;
        *to += size;
    }
    const size_t used = ((size_t)(at - bytes) + BEYOND + PAGE - 1) / PAGE;
    if (used < n)
        give_back(bytes + used * PAGE, (n - used) * PAGE);
}

static void pack_piece(struct packing *packing, uint64_t from, uint64_t to, uint8_t **store)
{
    struct hx_packed *packed = packing->packed;
    for (size_t i = 0; i < packing->image->n; i++) {
        const struct hx_span *span = &packing->image->span[i];
        const uint64_t first = packed->first[i];
        if (first == UINT64_MAX || first >= to || first + pages_of(span) <= from)
            continue;
        const uint64_t begin = from > first ? from : first;
        const uint64_t end = to < first + pages_of(span) ? to : first + pages_of(span);
        pack_pages((uint8_t *)span->bytes + (begin - first) * PAGE, end - begin,
                   hx_near_base(span->start), packed->page + begin, store);
    }
}

static void pack_worker(void *context, unsigned i)
{
    struct packing *packing = context;
    uint8_t *store = packing->packed->store[i].base;
    uint64_t from;
    while ((from = atomic_fetch_add(&packing->next, PIECE)) < packing->pages)
        pack_piece(packing, from, from + PIECE < packing->pages ? from + PIECE : packing->pages,
                   &store);
}

static bool is_worth_it(const struct hx_span *span)
{
    return span->end - span->start >= SPAN_LEAST && (span->end - span->start) % PAGE == 0 &&
           (uintptr_t)span->bytes % PAGE == 0;
}

static hx_error *pack_image(struct packing *packing, unsigned threads)
{
    struct hx_packed *packed = packing->packed;
    const struct hx_image *image = packing->image;
    hx_unpacking_init(&packed->how);
    packed->first = malloc((image->n + 1) * sizeof *packed->first);
    packed->store = calloc(threads, sizeof *packed->store);
    HX_NEED(packed->first && packed->store);
    packed->stores = threads;
    for (size_t i = 0; i < image->n; i++) {
        const bool packs = is_worth_it(&image->span[i]);
        packed->first[i] = packs ? packing->pages : UINT64_MAX;
        packing->pages += packs ? pages_of(&image->span[i]) : 0;
    }
    HX_TRY(hx_big_array(packed->page, packing->pages));
    for (unsigned i = 0; i < threads; i++)
        HX_TRY(hx_big_reserve(&packed->store[i], packing->pages * HX_PAGE_PACKED));
    hx_parallel(threads, pack_worker, packing);
    for (size_t i = 0; i < image->n; i++)
        if (packed->first[i] != UINT64_MAX)
            image->span[i].bytes = NULL;
    return NULL;
}

void hx_packed_destroy(struct hx_packed *packed)
{
    if (!packed)
        return;
    for (unsigned i = 0; i < packed->stores; i++)
        hx_big_free(&packed->store[i]);
    free(packed->store);
    free(packed->first);
    hx_big_free(&packed->page_mem);
    free(packed);
}

hx_error *hx_image_pack(struct hx_image *image, unsigned threads)
{
    if (!image->mapping || image->packed)
        return NULL;
    struct packing packing = {.image = image, .packed = calloc(1, sizeof *packing.packed)};
    HX_NEED(packing.packed);
    hx_error *err = pack_image(&packing, hx_threads(threads));
    if (err)
        hx_packed_destroy(packing.packed);
    else
        image->packed = packing.packed;
    return err;
}
