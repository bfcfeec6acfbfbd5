/* image.c - looking things up in a memory image. */
#include "model/image.h"

#include "base/lower_bound.h"

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
    if (addr < span->start || len > span->end - addr)
        return NULL;
    return span->bytes + (addr - span->start);
}

bool hx_image_read(const struct hx_image *image, uint64_t addr, void *dst, size_t len)
{
    uint8_t *out = dst;
    for (size_t i = hx_image_find(image, addr); len; i++) {
        if (i == image->n || image->span[i].start > addr)
            return false;
        const struct hx_span *span = &image->span[i];
        size_t part = span->end - addr < len ? span->end - addr : len;
        memcpy(out, span->bytes + (addr - span->start), part);
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
    if (image->mapping)
        munmap(image->mapping, image->mapping_bytes);
    *image = (struct hx_image){0};
}
