/* image.c - looking things up in a memory image. */
#include "model/image.h"

#include "base/lower_bound.h"
#include "base/prefetch.h"
#include "model/packed.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

size_t hx_image_find(const struct hx_image *image, uint64_t addr)
{
    return HX_LOWER_BOUND(image->n, i, image->span[i].end <= addr);
}

const uint8_t *hx_image_at(const struct hx_image *image, uint64_t addr, size_t len)
{
    size_t i = hx_image_find(image, addr);
    if (i == image->n)
        return NULL;
    const struct hx_span *span = &image->span[i];
    if (addr < span->start || len > span->end - addr || !span->bytes)
        return NULL;
    return span->bytes + (addr - span->start);
}

/* --- packed spans --------------------------------------------------------------------------- */

enum { WORD = 8, UNIT = HX_UNIT_WORDS, AHEAD = 8 * HX_UNIT_WORDS /* words */ };

/* Words [from, to) of a span. */
static void unpack(const struct hx_image *image, size_t span, uint64_t from, uint64_t to,
                   uint64_t *ret)
{
    const uint8_t **page = image->packed->page + image->packed->first[span];
    const uint64_t base = hx_near_base(image->span[span].start);
    for (uint64_t at = from, end; at < to; at = end) {
        const uint64_t begin = at / HX_PAGE_WORDS * HX_PAGE_WORDS;
        end = begin + HX_PAGE_WORDS < to ? begin + HX_PAGE_WORDS : to;
        hx_page_unpack(&image->packed->how, page[at / HX_PAGE_WORDS], base, at - begin, end - begin,
                       ret);
        ret += end - at;
    }
}

/* `len` bytes from byte `at` of a span on. */
static void read_packed(const struct hx_image *image, size_t span, uint64_t at, uint8_t *dst,
                        size_t len)
{
    uint64_t word[UNIT];
    for (size_t part; len; at += part, dst += part, len -= part) {
        const uint64_t skip = at % WORD, room = sizeof word - skip;
        part = len < room ? len : room;
        unpack(image, span, at / WORD, (at + part + WORD - 1) / WORD, word);
        memcpy(dst, (const uint8_t *)word + skip, part);
    }
}

/* Words [from, to) of the window's span, by addresses, for it. */
static bool refill(const struct hx_image *image, struct hx_peeked *window, uint64_t from,
                   uint64_t to)
{
    const size_t n = (to - from) / WORD;
    if (n > window->room) {
        uint64_t *word = malloc(n * sizeof *word);
        if (!word) {
            atomic_store(&image->packed->failed, true);
            return false;
        }
        free(window->word);
        window->word = word;
        window->room = n;
    }
    const uint64_t start = image->span[window->span].start;
    window->start = from;
    window->end = to;
    unpack(image, window->span, (from - start) / WORD, (to - start) / WORD, window->word);
    return true;
}

/* Asks for what comes behind word `at` of a span: where units begin is asked for by that of the
 * page, so it is about where they are. */
HX_PREFETCHES void prefetch_packed(const struct hx_image *image, size_t span, uint64_t at)
{
    if ((at + AHEAD) * WORD >= image->span[span].end - image->span[span].start)
        return;
    const uint8_t **page = image->packed->page + image->packed->first[span];
    const uint8_t *unit = hx_page_unit(page[at / HX_PAGE_WORDS], at % HX_PAGE_WORDS / UNIT);
    for (size_t i = 0; i < AHEAD * WORD / 2; i += 64)
        __builtin_prefetch(unit + i);
}

/* Who goes on where the window ends will go on. */
static const uint64_t *peek_packed(const struct hx_image *image, uint64_t addr, size_t n,
                                   struct hx_peeked *window)
{
    if (addr < window->start || addr > window->end || (window->end - addr) / WORD < n) {
        const uint64_t unit = UNIT * WORD, limit = image->span[window->span].end;
        const bool goes_on = addr > window->start && addr - window->end + unit < 3 * unit;
        uint64_t to = (addr + n * WORD + unit - 1) / unit * unit;
        if (goes_on && limit - to > AHEAD * WORD)
            to += AHEAD * WORD;
        if (!refill(image, window, addr / unit * unit, to))
            return NULL;
        if (goes_on)
            prefetch_packed(image, window->span, (to - image->span[window->span].start) / WORD);
    }
    return window->word + (addr - window->start) / WORD;
}

/* Is addr in the window's span, or in the one that it then has? */
static inline bool find_span(const struct hx_image *image, uint64_t addr, struct hx_peeked *window)
{
    if (window->span < image->n && addr >= image->span[window->span].start &&
        addr < image->span[window->span].end)
        return true;
    window->span = hx_image_find(image, addr);
    window->start = window->end = 0;
    return window->span < image->n && addr >= image->span[window->span].start;
}

const uint64_t *hx_image_peek(const struct hx_image *image, uint64_t addr, size_t n,
                              struct hx_peeked *window)
{
    if (addr % WORD || !find_span(image, addr, window))
        return NULL;
    const struct hx_span *span = &image->span[window->span];
    if ((span->end - addr) / WORD < n)
        return NULL;
    if (!span->bytes)
        return peek_packed(image, addr, n, window);
    return (const uint64_t *)(const void *)(span->bytes + (addr - span->start));
}

/* What is left in the window, or so many of the words that follow. */
static const uint64_t *run_packed(const struct hx_image *image, uint64_t addr, uint64_t to,
                                  struct hx_peeked *window, size_t *ret_n)
{
    const uint64_t unit = UNIT * WORD, most = addr / unit * unit + 4 * AHEAD * WORD;
    if (addr < window->start || addr >= window->end ||
        (window->end < to && window->end - addr < unit)) {
        uint64_t end = to < most ? (to + unit - 1) / unit * unit : most;
        if (!refill(image, window, addr / unit * unit, end))
            return NULL;
        prefetch_packed(image, window->span, (end - image->span[window->span].start) / WORD);
    }
    to = to < window->end ? to : window->end;
    *ret_n = (to - addr) / WORD;
    return window->word + (addr - window->start) / WORD;
}

const uint64_t *hx_image_run(const struct hx_image *image, uint64_t addr, uint64_t to,
                             struct hx_peeked *window, size_t *ret_n)
{
    if (addr % WORD || !find_span(image, addr, window))
        return NULL;
    const struct hx_span *span = &image->span[window->span];
    to = to < span->end ? to : span->end;
    if (!span->bytes)
        return run_packed(image, addr, to, window, ret_n);
    *ret_n = (to - addr) / WORD;
    return (const uint64_t *)(const void *)(span->bytes + (addr - span->start));
}

void hx_peeked_deinit(struct hx_peeked *window)
{
    free(window->word);
    *window = (struct hx_peeked){0};
}

hx_error *hx_image_failed(const struct hx_image *image)
{
    return image->packed && atomic_load(&image->packed->failed) ? hx_error_nomem() : NULL;
}

/* --- bytes ---------------------------------------------------------------------------------- */

bool hx_image_read(const struct hx_image *image, uint64_t addr, void *dst, size_t len)
{
    uint8_t *out = dst;
    for (size_t i = hx_image_find(image, addr); len; i++) {
        if (i == image->n || image->span[i].start > addr)
            return false;
        const struct hx_span *span = &image->span[i];
        size_t part = span->end - addr < len ? span->end - addr : len;
        if (span->bytes)
            memcpy(out, span->bytes + (addr - span->start), part);
        else
            read_packed(image, i, addr - span->start, out, part);
        out += part;
        addr += part;
        len -= part;
    }
    return true;
}

bool hx_image_u64(const struct hx_image *image, uint64_t addr, uint64_t *ret)
{
    return hx_image_read(image, addr, ret, sizeof *ret);
}

bool hx_image_u32(const struct hx_image *image, uint64_t addr, uint32_t *ret)
{
    return hx_image_read(image, addr, ret, sizeof *ret);
}

void hx_image_deinit(struct hx_image *image)
{
    free(image->span);
    hx_packed_destroy(image->packed);
    if (image->mapping)
        munmap(image->mapping, image->mapping_bytes);
    *image = (struct hx_image){0};
}
