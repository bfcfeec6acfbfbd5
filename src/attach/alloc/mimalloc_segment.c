/* mimalloc_segment.c - the segments of mimalloc 2: where its pages are.
 *
 * A segment begins at a multiple of its size. Its head has a table of slices of 64 KiB; a run of
 * slices is a page, or free, and begins with how long it is. So it can be seen without symbols: the
 * runs of a segment follow each other to its very end, each page has as many blocks as fit into it,
 * and as many pages are in use as the head says.
 */
#include "attach/alloc/mimalloc.h"
#include "base/cleanup.h"

#include <string.h>

#define SEGMENT_A .shift = 23, .slices_max = 128
#define HEAD_A                                                                                     \
    .segment_slices = 88, .info_slices = 96, .kind = 104, .slice_entries = 120, .used_pages = 72,  \
    .cookie = 80, .slices = 128
#define SEGMENT_B .shift = 26, .slices_max = 1024
#define HEAD_B                                                                                     \
    .segment_slices = 328, .info_slices = 336, .kind = 344, .slice_entries = 360,                  \
    .used_pages = 312, .cookie = 320, .slices = 368
#define SEGMENT_C .shift = 25, .slices_max = 512
#define HEAD_C                                                                                     \
    .segment_slices = 224, .info_slices = 232, .kind = 240, .slice_entries = 248,                  \
    .used_pages = 208, .cookie = 216, .slices = 264
#define HEAD_E                                                                                     \
    .segment_slices = 248, .info_slices = 256, .kind = 264, .slice_entries = 272,                  \
    .used_pages = 216, .cookie = 224, .slices = 288
#define PAGE_A                                                                                     \
    .slice_bytes = 80, .used = 24, .used_bytes = 4, .block_size = 28, .block_size_bytes = 4,       \
    .local_free = 32, .xthread_free = 40, .xheap = 48, .near = 56
#define PAGE_A_KEYS                                                                                \
    .slice_bytes = 96, .keys = 24, .used = 40, .used_bytes = 4, .block_size = 44,                  \
    .block_size_bytes = 4, .local_free = 48, .xthread_free = 56, .xheap = 64, .near = 72
#define PAGE_C_KEYS                                                                                \
    .slice_bytes = 96, .keys = 40, .used = 24, .used_bytes = 4, .block_size = 28,                  \
    .block_size_bytes = 4, .local_free = 32, .xthread_free = 56, .xheap = 64, .near = 72
#define PAGE_D                                                                                     \
    .slice_bytes = 96, .used = 32, .used_bytes = 2, .block_size = 40, .block_size_bytes = 8,       \
    .page_start = 48, .local_free = 24, .xthread_free = 56, .xheap = 64, .near = 72
#define PAGE_D_KEYS                                                                                \
    .slice_bytes = 112, .keys = 56, .used = 32, .used_bytes = 2, .block_size = 40,                 \
    .block_size_bytes = 8, .page_start = 48, .local_free = 24, .xthread_free = 72, .xheap = 80,    \
    .near = 88
#define HEAP_A .heap_delayed = 2840, .heap_keys = {2864, 2872}, .heap_padded = true
#define HEAP_D .heap_delayed = 8, .heap_keys = {40, 40}

const struct hx_mi_layout hx_mi_layouts[] = {
    {209, 209, SEGMENT_C, HEAD_C, PAGE_A, HEAP_A, .start_rule = HX_MI_START_384},
    {209, 209, SEGMENT_C, HEAD_C, PAGE_C_KEYS, HEAP_A, .start_rule = HX_MI_START_384},
    {210, 212, SEGMENT_C, HEAD_C, PAGE_A, HEAP_A, .start_rule = HX_MI_START_BLOCKS},
    {210, 212, SEGMENT_C, HEAD_C, PAGE_C_KEYS, HEAP_A, .start_rule = HX_MI_START_BLOCKS},
    {214, 217, SEGMENT_C, HEAD_C, PAGE_D, HEAP_D},
    {214, 217, SEGMENT_C, HEAD_C, PAGE_D_KEYS, HEAP_D},
    {218, 20401, SEGMENT_C, HEAD_E, PAGE_D, HEAP_D},
    {218, 20401, SEGMENT_C, HEAD_E, PAGE_D_KEYS, HEAP_D},
    {203, 207, SEGMENT_B, HEAD_B, PAGE_A, HEAP_A, .start_rule = HX_MI_START_128},
    {203, 207, SEGMENT_B, HEAD_B, PAGE_A_KEYS, HEAP_A, .start_rule = HX_MI_START_128},
    {200, 202, SEGMENT_A, HEAD_A, PAGE_A, HEAP_A},
    {200, 202, SEGMENT_A, HEAD_A, PAGE_A_KEYS, HEAP_A},
};
const size_t hx_mi_n_layouts = sizeof hx_mi_layouts / sizeof *hx_mi_layouts;

enum { PAGE_COUNT = 0, PAGE_OFFSET = 4, PAGE_CAPACITY = 10, PAGE_RESERVED = 12, PAGE_FREE = 16 };
static const uint64_t slice_size = UINT64_C(1) << HX_MI_SLICE_SHIFT;

static uint64_t word(const uint8_t *bytes, size_t offset, size_t width)
{
    uint64_t value = 0;
    memcpy(&value, bytes + offset, width);
    return value;
}

/* --- a head ---------------------------------------------------------------------------- */

bool hx_mi_is_likely(const struct hx_mi_layout *layout, uint64_t addr, const uint8_t *bytes)
{
    const uint8_t *slice = bytes + layout->slices;
    uint64_t slices = word(bytes, layout->segment_slices, 8);
    uint64_t info = word(bytes, layout->info_slices, 8);
    uint64_t entries = word(bytes, layout->slice_entries, 8);
    uint64_t kind = word(bytes, layout->kind, 4);
    uint64_t used = word(bytes, layout->used_pages, 8);
    if (addr & ((UINT64_C(1) << layout->shift) - 1) || kind > 1 || !info || info >= entries ||
        entries > slices || entries > layout->slices_max || used > entries || slices >> 32)
        return false;
    if (kind == 0 && (slices != layout->slices_max || entries + 1 < slices))
        return false;
    return word(slice, PAGE_COUNT, 4) == info && word(slice, PAGE_OFFSET, 4) == 0 &&
           word(slice, layout->block_size, layout->block_size_bytes) == info * slice_size;
}

/* --- a page ---------------------------------------------------------------------------- */

static uint64_t first_block(const struct hx_mi_layout *layout, const uint8_t *slice, uint64_t start,
                            uint64_t size)
{
    if (layout->page_start)
        return word(slice, layout->page_start, 8);
    switch ((enum hx_mi_start)layout->start_rule) {
    case HX_MI_START_128:
        return start + (size >= 8 && size <= 1024 ? 128 : 0);
    case HX_MI_START_384:
        return start + (size >= 8 && size <= 1024 ? 384 : 0);
    case HX_MI_START_BLOCKS:
        return start + (size > 512 ? 0 : size > 64 ? size : 3 * size);
    default:
        return start;
    }
}

/* Fills in a page that begins with the given slice of a segment. False: there can be no such page.
 */
static bool read_page(const struct hx_mi_layout *layout, const uint8_t *slice,
                      struct hx_mi_page *ret)
{
    static const uint64_t huge = UINT64_C(2) << 30, huge_old = UINT64_C(128) << 20;
    uint64_t size = word(slice, layout->block_size, layout->block_size_bytes);
    uint64_t reserved = word(slice, PAGE_RESERVED, 2);
    /* what does not fit into 32 bits: the only block of its page */
    if (layout->block_size_bytes == 4 && size >= (layout->shift == 23 ? huge_old : huge))
        size = ret->end - ret->start;
    ret->block_size = size;
    ret->capacity = (uint32_t)word(slice, PAGE_CAPACITY, 2);
    ret->used = (uint32_t)word(slice, layout->used, layout->used_bytes);
    ret->list[0] = word(slice, PAGE_FREE, 8);
    ret->list[1] = word(slice, layout->local_free, 8);
    ret->list[2] = word(slice, layout->xthread_free, 8) & ~UINT64_C(3);
    ret->heap = word(slice, layout->xheap, 8);
    if (ret->heap)
        memcpy(ret->near, slice + layout->near, sizeof ret->near);
    if (layout->keys)
        memcpy(ret->keys, slice + layout->keys, sizeof ret->keys);
    ret->slab = UINT64_MAX;
    ret->first = first_block(layout, slice, ret->start, size);
    return size >= 8 && !(size & 7) && !(ret->first & 7) && ret->first >= ret->start &&
           ret->first < ret->end && reserved == (uint16_t)((ret->end - ret->first) / size) &&
           reserved && ret->capacity <= reserved;
}

/* --- a segment ------------------------------------------------------------------------- */

struct segment {
    const struct hx_mi_layout *layout;
    uint64_t addr, slices, entries, info, used;
    const uint8_t *bytes; /* its head */
};

static struct segment read_head(const struct hx_mi_layout *layout, uint64_t addr,
                                const uint8_t *bytes)
{
    return (struct segment){.layout = layout,
                            .addr = addr,
                            .slices = word(bytes, layout->segment_slices, 8),
                            .entries = word(bytes, layout->slice_entries, 8),
                            .info = word(bytes, layout->info_slices, 8),
                            .used = word(bytes, layout->used_pages, 8),
                            .bytes = bytes};
}

/* A run of slices. */
struct run {
    uint64_t slice, count;
    bool is_free;
    struct hx_mi_page page;
};

/* The run that begins at slice i. False: none can. */
static bool read_run(const struct segment *segment, uint64_t i, struct run *ret)
{
    const struct hx_mi_layout *layout = segment->layout;
    uint64_t at = layout->slices + i * layout->slice_bytes;
    const uint8_t *slice = segment->bytes + at;
    uint64_t size = word(slice, layout->block_size, layout->block_size_bytes);
    uint64_t start = segment->addr + i * slice_size;
    *ret = (struct run){.slice = i, .count = word(slice, PAGE_COUNT, 4), .is_free = !size};
    if (!ret->count || ret->count > segment->slices - i || word(slice, PAGE_OFFSET, 4))
        return false;
    if (ret->is_free)
        return true;
    ret->page.addr = segment->addr + at;
    ret->page.start = start;
    ret->page.end = start + ret->count * slice_size;
    return read_page(layout, slice, &ret->page);
}

/* Do the runs follow each other to the end, and are as many of them pages as it says? */
static bool is_proven(const struct segment *segment)
{
    uint64_t n = 0, i = segment->info;
    while (i < segment->entries) {
        struct run run;
        if (!read_run(segment, i, &run))
            return false;
        n += !run.is_free;
        i += run.count;
    }
    /* only what is longer than the table ends behind it */
    return n == segment->used &&
           (i == segment->entries || segment->slices > segment->layout->slices_max);
}

static hx_error *add_run(struct hx_mi_walk *walk, const struct segment *segment,
                         const struct run *run)
{
    uint64_t start = segment->addr + run->slice * slice_size;
    if (run->is_free)
        return hx_mi_add_memory(walk, start, start + run->count * slice_size, HX_BLOCK_FREE);
    HX_NEED(hx_vec_push(&walk->pages, run->page));
    return NULL;
}

/* Adds it as far as its runs make sense; what is behind them is lost. */
static hx_error *add_segment(struct hx_mi_walk *walk, const struct segment *segment)
{
    uint64_t end = segment->addr + segment->slices * slice_size, i = segment->info, n = 0;
    bool damaged = false;
    HX_TRY(hx_mi_add_memory(walk, segment->addr, segment->addr + i * slice_size, HX_BLOCK_OWN));
    while (i < segment->entries && !damaged) {
        struct run run;
        bool good = read_run(segment, i, &run);
        damaged = !run.count || run.count > segment->slices - i;
        if (damaged)
            break;
        if (good) {
            HX_TRY(add_run(walk, segment, &run));
            n += !run.is_free;
        } else {
            walk->slabs.outside++;
            walk->slabs.outside_bytes += run.count * slice_size;
        }
        i += run.count;
    }
    if (damaged) {
        walk->slabs.outside++;
        walk->slabs.outside_bytes += end - (segment->addr + i * slice_size);
        walk->n_damaged++;
    } else {
        HX_TRY(hx_mi_add_memory(walk, segment->addr + i * slice_size, end, HX_BLOCK_OWN));
    }
    walk->n_torn += n != segment->used;
    HX_NEED(hx_vec_push(&walk->segments, (struct hx_mi_segment){segment->addr, end, true}));
    return NULL;
}

/* The layout that a likely segment of pages in use proves; NULL: none. */
static const struct hx_mi_layout *choose(uint64_t addr, const uint8_t *bytes)
{
    for (size_t i = 0; i < hx_mi_n_layouts; i++) {
        if (!hx_mi_is_likely(&hx_mi_layouts[i], addr, bytes))
            continue;
        struct segment segment = read_head(&hx_mi_layouts[i], addr, bytes);
        if (segment.used && is_proven(&segment))
            return &hx_mi_layouts[i];
    }
    return NULL;
}

/* --- all of them ----------------------------------------------------------------------- */

/* Addresses where a segment can begin. */
static hx_error *find_likely(struct hx_mi_walk *walk, hx_mi_addresses *ret)
{
    const struct hx_image *image = &walk->snapshot->image;
    const uint64_t step = UINT64_C(1) << 23; /* the smallest segments */
    for (size_t i = 0; i < image->n; i++) {
        uint64_t at = (image->span[i].start + step - 1) & ~(step - 1);
        for (; at >= image->span[i].start && at < image->span[i].end; at += step) {
            uint8_t bytes[HX_MI_HEADER_BYTES];
            hx_mi_read(walk, at, bytes, sizeof bytes);
            for (size_t k = 0; k < hx_mi_n_layouts; k++) {
                if (!hx_mi_is_likely(&hx_mi_layouts[k], at, bytes))
                    continue;
                HX_NEED(hx_vec_push(ret, at));
                break;
            }
        }
    }
    walk->n_likely = ret->n;
    return NULL;
}

static void choose_layout(struct hx_mi_walk *walk, const hx_mi_addresses *likely, uint8_t *bytes)
{
    for (size_t i = 0; i < likely->n && !walk->layout; i++) {
        hx_mi_read(walk, likely->v[i], bytes, HX_MI_SEGMENT_HEAD);
        walk->layout = choose(likely->v[i], bytes);
    }
}

static hx_error *read_segments(struct hx_mi_walk *walk, const hx_mi_addresses *likely,
                               uint8_t *bytes, hx_mi_addresses *unused)
{
    uint64_t end = 0;
    for (size_t i = 0; i < likely->n; i++) {
        uint64_t at = likely->v[i];
        if (at < end)
            continue; /* contents of a block */
        hx_mi_read(walk, at, bytes, HX_MI_SEGMENT_HEAD);
        if (!hx_mi_is_likely(walk->layout, at, bytes))
            continue;
        struct segment segment = read_head(walk->layout, at, bytes);
        if (!segment.used) {
            HX_NEED(hx_vec_push(unused, at));
            continue;
        }
        HX_TRY(add_segment(walk, &segment));
        end = at + segment.slices * slice_size;
    }
    return NULL;
}

/* Without blocks in use: it is kept for later, or was given back to an arena, where others may
 * have begun since. */
static hx_error *add_unused(struct hx_mi_walk *walk, const hx_mi_addresses *unused, uint8_t *bytes)
{
    size_t k = 0, n = walk->segments.n;
    uint64_t done = 0;
    for (size_t i = 0; i < unused->n; i++) {
        uint64_t at = unused->v[i];
        hx_mi_read(walk, at, bytes, HX_MI_HEADER_BYTES);
        uint64_t end = at + word(bytes, walk->layout->segment_slices, 8) * slice_size;
        while (k < n && walk->segments.v[k].start < at)
            k++;
        if (k < n && end > walk->segments.v[k].start)
            end = walk->segments.v[k].start;
        if (at < done)
            at = done;
        if (at >= end)
            continue;
        HX_TRY(hx_mi_add_memory(walk, at, end, HX_BLOCK_FREE));
        HX_NEED(hx_vec_push(&walk->segments, (struct hx_mi_segment){at, end, false}));
        done = end;
    }
    return NULL;
}

hx_error *hx_mi_segments(struct hx_mi_walk *walk)
{
    hx_mi_addresses likely = {0}, unused = {0};
    HX_FREE uint8_t *bytes = malloc(HX_MI_SEGMENT_HEAD);
    HX_NEED(bytes);
    hx_error *err = find_likely(walk, &likely);
    if (!err)
        choose_layout(walk, &likely, bytes);
    if (!err && walk->layout)
        err = read_segments(walk, &likely, bytes, &unused);
    if (!err && walk->layout)
        err = add_unused(walk, &unused, bytes);
    hx_vec_free(&likely);
    hx_vec_free(&unused);
    return err;
}
