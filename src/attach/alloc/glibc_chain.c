/* glibc_chain.c - chunk headers: what is sane, and where to go on after a damaged one. */
#include "attach/alloc/glibc.h"

#include <stdlib.h>
#include <string.h>

enum {
    WINDOW = 16 << 20,   /* bytes of heap that are judged at once */
    BELIEVABLE = 6,      /* so many sane headers in a row, or fewer up to a proper end */
    CERTAIN = UINT8_MAX, /* the chain arrives at top or at fenceposts */
};

bool hx_chunk_seek(struct hx_chunk_cursor *cursor, uint64_t p)
{
    const struct hx_image *image = cursor->image;
    size_t n;
    const uint64_t *words = hx_image_run(image, p, UINT64_MAX, &cursor->peeked, &n);
    cursor->low = cursor->high = 0;
    if (!words || n < 2)
        return false;
    const struct hx_span *span = &image->span[cursor->peeked.span];
    cursor->low = span->bytes ? span->start : p;
    cursor->high = span->bytes ? span->end : p + n * 8;
    cursor->bytes = span->bytes ? span->bytes : (const uint8_t *)words;
    return true;
}

static bool is_fence(uint64_t head)
{
    return (head & ~(uint64_t)HX_CHUNK_PREV_INUSE) == HX_CHUNK_HEADER;
}

/* The main arena ends a run with two headers of size 16, rarely three. */
static enum hx_chunk_end judge_main_fence(struct hx_chunk_cursor *cursor,
                                          const struct hx_chunk_rule *rule, uint64_t p,
                                          uint64_t *ret_size)
{
    uint64_t n = 1, words[2];
    while (n < 3 && rule->limit - p >= 16 * (n + 1) && hx_chunk_header(cursor, p + 16 * n, words) &&
           words[1] == (HX_CHUNK_HEADER | HX_CHUNK_PREV_INUSE))
        n++;
    *ret_size = 16 * n;
    return n > 1 ? HX_CHUNK_FENCE : HX_CHUNK_INSANE;
}

/* Other arenas end a heap with a header of size 16 (or 32, what was too small to free) and
 * one of size 0, flush with the end of the heap. */
static enum hx_chunk_end judge_heap_fence(struct hx_chunk_cursor *cursor,
                                          const struct hx_chunk_rule *rule, uint64_t p,
                                          uint64_t head, uint64_t *ret_size)
{
    uint64_t size = head & ~(uint64_t)HX_CHUNK_FLAGS, words[2];
    if (rule->limit - p < size + 16 || rule->limit - p > size + 32 || head & HX_CHUNK_NON_MAIN ||
        !hx_chunk_header(cursor, p + size, words) || words[1] != HX_CHUNK_PREV_INUSE)
        return HX_CHUNK_INSANE;
    *ret_size = rule->limit - p;
    return HX_CHUNK_FENCE;
}

enum hx_chunk_end hx_chunk_judge(struct hx_chunk_cursor *cursor, const struct hx_chunk_rule *rule,
                                 uint64_t p, uint64_t head, uint64_t *ret_size)
{
    uint64_t size = head & ~(uint64_t)HX_CHUNK_FLAGS;
    uint64_t forbidden = rule->main ? 0xe : 0xa;
    *ret_size = size;
    if (p > rule->limit - 16 || head & forbidden || size > rule->limit - p)
        return HX_CHUNK_INSANE;
    if (p == rule->top && size >= HX_CHUNK_MIN)
        return head & HX_CHUNK_PREV_INUSE ? HX_CHUNK_TOP : HX_CHUNK_INSANE;
    if (is_fence(head) && rule->main)
        return judge_main_fence(cursor, rule, p, ret_size);
    if (!rule->main && (size == 16 || size == 32) && !rule->top &&
        judge_heap_fence(cursor, rule, p, head, ret_size) == HX_CHUNK_FENCE)
        return HX_CHUNK_FENCE;
    *ret_size = size;
    if (size < HX_CHUNK_MIN || (p < rule->top && size > rule->top - p) ||
        size + 16 > rule->limit - p)
        return HX_CHUNK_INSANE;
    return HX_CHUNK_GOES_ON;
}

/* A step from p. 0: insane; else the next chunk, or UINT64_MAX after a proper end. */
static uint64_t step_chunk(struct hx_chunk_cursor *cursor, const struct hx_chunk_rule *rule,
                           uint64_t p)
{
    uint64_t words[2], after[2], size;
    if (!hx_chunk_header(cursor, p, words))
        return 0;
    switch (hx_chunk_judge(cursor, rule, p, words[1], &size)) {
    case HX_CHUNK_TOP:
    case HX_CHUNK_FENCE:
        return UINT64_MAX;
    case HX_CHUNK_INSANE:
        return 0;
    case HX_CHUNK_GOES_ON:
        break;
    }
    /* A free chunk is named by the next header. */
    if (!hx_chunk_header(cursor, p + size, after) ||
        (!(after[1] & HX_CHUNK_PREV_INUSE) && after[0] != size))
        return 0;
    return p + size;
}

/* How many sane headers follow each other from p on, at most BELIEVABLE; CERTAIN with a
 * proper end. */
static uint8_t follow_chunks(struct hx_chunk_cursor *cursor, const struct hx_chunk_rule *rule,
                             uint64_t p)
{
    uint8_t n = 0;
    while (n < BELIEVABLE && (p = step_chunk(cursor, rule, p)) != 0) {
        if (p == UINT64_MAX)
            return CERTAIN;
        n++;
    }
    return n;
}

unsigned hx_chunk_count(const struct hx_image *image, const struct hx_chunk_rule *rule, uint64_t p,
                        uint64_t to, unsigned max)
{
    HX_CHUNK_CURSOR cursor = hx_chunk_cursor(image);
    unsigned n = 0;
    while (n < max && p < to && (p = step_chunk(&cursor, rule, p)) != 0)
        n++;
    return n;
}

/* Judges every possible header of [start, end), from the last to the first, so that each
 * chain is followed once. */
static hx_error *judge_window(struct hx_glibc_walk *walk, const struct hx_chunk_rule *rule,
                              uint64_t start, uint64_t end)
{
    struct hx_chunk_window *window = &walk->window;
    size_t n = (end - start) / 16;
    HX_NEED(hx_vec_reserve_raw((void **)&window->steps, &window->cap, n, 1));
    window->start = start;
    window->end = end;
    HX_CHUNK_CURSOR cursor = hx_chunk_cursor(walk->image);
    HX_CHUNK_CURSOR far = hx_chunk_cursor(walk->image);
    for (size_t i = n; i-- > 0;) {
        uint64_t next = step_chunk(&cursor, rule, start + 16 * i);
        if (next == 0) {
            window->steps[i] = 0;
        } else if (next == UINT64_MAX) {
            window->steps[i] = CERTAIN;
        } else {
            uint8_t more =
                next < end ? window->steps[(next - start) / 16] : follow_chunks(&far, rule, next);
            window->steps[i] = more >= BELIEVABLE ? more : more + 1;
        }
    }
    return NULL;
}

hx_error *hx_chunk_resume(struct hx_glibc_walk *walk, const struct hx_chunk_rule *rule,
                          uint64_t from, uint64_t *ret)
{
    struct hx_chunk_window *window = &walk->window;
    from = (from + 15) & ~UINT64_C(15);
    *ret = UINT64_MAX;
    while (from < rule->limit) {
        if (hx_progress_cancelled(walk->progress))
            return hx_error_cancelled("heap");
        if (from < window->start || from >= window->end) {
            /* Pages that are not there hold no header. */
            size_t span = hx_image_find(walk->image, from);
            if (span == walk->image->n || walk->image->span[span].start >= rule->limit)
                return NULL;
            if (from < walk->image->span[span].start)
                from = (walk->image->span[span].start + 15) & ~UINT64_C(15);
            uint64_t end = rule->limit - from > WINDOW ? from + WINDOW : rule->limit;
            HX_TRY(judge_window(walk, rule, from, from + (end - from) / 16 * 16));
            if (window->end == window->start)
                return NULL;
        }
        uint64_t in_window = window->end < rule->limit ? window->end : rule->limit;
        for (; from < in_window; from += 16)
            if (window->steps[(from - window->start) / 16] >= BELIEVABLE) {
                *ret = from;
                return NULL;
            }
    }
    return NULL;
}
