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
 * start, end and bytes are multiples of 8 (of the page size in a live capture). */
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
};

/* The first span with end > addr, n when there is none. */
size_t hx_image_find(const struct hx_image *image, uint64_t addr);

/* The len bytes at addr, NULL when they do not lie in one span. */
const uint8_t *hx_image_at(const struct hx_image *image, uint64_t addr, size_t len);

/* Copies len bytes, across adjoining spans where needed; false (dst undefined)
 * when a byte is missing. */
bool hx_image_read(const struct hx_image *image, uint64_t addr, void *dst, size_t len);

/* One little-endian word. */
bool hx_image_u64(const struct hx_image *image, uint64_t addr, uint64_t *ret);
bool hx_image_u32(const struct hx_image *image, uint64_t addr, uint32_t *ret);

/* Frees spans and bytes and leaves an empty image. */
void hx_image_deinit(struct hx_image *image);

#endif
