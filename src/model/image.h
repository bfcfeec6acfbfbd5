/* image.h - the target's memory as it was at the stop.
 *
 * An image is a sorted list of spans that do not overlap; a span is a run of
 * pages that were resident (or swapped) and could be read. What lies between two
 * spans was not resident: the target would read zeros or file contents there.
 * An image never reads the target; once taken it does not change.
 */
#ifndef HX_MODEL_IMAGE_H
#define HX_MODEL_IMAGE_H

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* bytes[a - start] is the target's byte at address a, start <= a < end.
 * start, end and bytes are multiples of 8 (of the page size in a live capture). bytes NULL: it was
 * packed (hx_image_pack()), and is read by the functions below alone. */
struct hx_span {
    uint64_t start, end;
    const uint8_t *bytes;
};

/* Invariant: span[i].end <= span[i + 1].start. */
struct hx_image {
    struct hx_span *span;
    size_t n;
    void *mapping; /* what holds the bytes, unmapped by deinit; may be NULL */
    size_t mapping_bytes;
    struct hx_packed *packed; /* packed.h; NULL: no span is */
};

/* The first span with end > addr, n when there is none. */
size_t hx_image_find(const struct hx_image *image, uint64_t addr);

/* The len bytes at addr, NULL when they do not lie in one span, or in a packed one. */
const uint8_t *hx_image_at(const struct hx_image *image, uint64_t addr, size_t len);

/* Copies len bytes, across adjoining spans where needed; false (dst undefined)
 * when a byte is missing. */
bool hx_image_read(const struct hx_image *image, uint64_t addr, void *dst, size_t len);

/* One little-endian word. */
bool hx_image_u64(const struct hx_image *image, uint64_t addr, uint64_t *ret);
bool hx_image_u32(const struct hx_image *image, uint64_t addr, uint32_t *ret);

/* Packs spans that are not small, which then take a third to a half of their room, and gives that
 * back, a piece after the other. threads as in struct hx_scan_options. */
hx_error *hx_image_pack(struct hx_image *image, unsigned threads);

/* Words that somebody looks at, one place after the other: {0} at first, a hint in a span that is
 * not packed, else what was unpacked last. */
struct hx_peeked {
    size_t span;
    uint64_t start, end; /* of the words */
    uint64_t *word;
    size_t room; /* words */
};
void hx_peeked_deinit(struct hx_peeked *window);
#define HX_PEEKED __attribute__((cleanup(hx_peeked_deinit))) struct hx_peeked
static inline void hx_cleanup_two_peeked(struct hx_peeked (*two)[2])
{
    hx_peeked_deinit(&(*two)[0]);
    hx_peeked_deinit(&(*two)[1]);
}
#define HX_TWO_PEEKED __attribute__((cleanup(hx_cleanup_two_peeked))) struct hx_peeked

/* The n words at addr, NULL when they do not lie in one span, or addr is no multiple of 8. They are
 * there until the window is asked for others that it does not have. */
const uint64_t *hx_image_peek(const struct hx_image *image, uint64_t addr, size_t n,
                              struct hx_peeked *window);

/* The words from addr on, *ret_n of them, up to `to` at most, as far as they are at hand; NULL:
 * addr is in no span. */
const uint64_t *hx_image_run(const struct hx_image *image, uint64_t addr, uint64_t to,
                             struct hx_peeked *window, size_t *ret_n);

/* Was there no memory for words that somebody wanted to see? Then they were missing. */
hx_error *hx_image_failed(const struct hx_image *image);

/* Frees spans and bytes and leaves an empty image. */
void hx_image_deinit(struct hx_image *image);

#endif
