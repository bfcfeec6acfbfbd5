/* sigframe_x86_64.c - the signal frame of Linux on x86-64: struct ucontext. */
#include "attach/roots/sigframe.h"

/* Words of struct ucontext, from its start. */
enum {
    UC_STACK_SP = 2,
    UC_STACK_SIZE = 4,
    UC_SP = 20,
    UC_SEGMENTS = 23, /* cs, gs, fs, ss: 16 bits each */
};

#define CS_USER    0x33
#define SS_USER    0x2b
#define SEARCH_MAX ((uint64_t)256 << 10) /* bytes a handler may have pushed since */
#define STACK_MAX  ((uint64_t)1 << 40)

static bool is_segments(uint64_t word)
{
    return (word & 0xffff) == CS_USER && word >> 48 == SS_USER;
}

static bool read_frame(const struct hx_image *image, uint64_t context, uint64_t sp,
                       struct hx_sigframe *ret)
{
    uint64_t start, size;
    if (!hx_image_u64(image, context + 8 * UC_STACK_SP, &start) ||
        !hx_image_u64(image, context + 8 * UC_STACK_SIZE, &size) ||
        !hx_image_u64(image, context + 8 * UC_SP, &ret->sp))
        return false;
    if (!start || size > STACK_MAX || start > UINT64_MAX - size || sp < start ||
        sp - start >= size || context - start >= size)
        return false;
    ret->start = start;
    ret->end = start + size;
    return ret->sp < ret->start || ret->sp >= ret->end;
}

bool hx_sigframe_find(const struct hx_image *image, uint64_t sp, uint64_t limit,
                      struct hx_sigframe *ret)
{
    uint64_t at = (sp + 7) & ~(uint64_t)7;
    if (at < sp || at >= limit)
        return false;
    uint64_t end = limit - at < SEARCH_MAX ? limit : at + SEARCH_MAX;
    HX_PEEKED peeked = {0};
    for (size_t i = hx_image_find(image, at); i < image->n && image->span[i].start < end; i++) {
        const struct hx_span *span = &image->span[i];
        uint64_t stop = span->end < end ? span->end : end;
        for (at = at > span->start ? at : span->start; at < stop && stop - at >= 8; at += 8) {
            const uint64_t *word = hx_image_peek(image, at, 1, &peeked);
            if (word && is_segments(*word) && at >= sp + 8 * UC_SEGMENTS &&
                read_frame(image, at - 8 * UC_SEGMENTS, sp, ret))
                return true;
        }
    }
    return false;
}
