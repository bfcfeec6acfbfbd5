/* mimalloc_map.c - the page map of mimalloc 3: where its pages are.
 *
 * For each slice of 64 KiB of address space the map has the page that begins or goes on there, in
 * two levels. The first entry leads right behind the first level, which is how the map is known
 * among all that a program's variables point to. A page says of which arena it is, and which slice
 * of that: so map, page and arena prove each other.
 */
#include "attach/alloc/mimalloc.h"
#include "base/cleanup.h"

#include <string.h>

#define PAGE_3                                                                                     \
    .used = 16, .used_bytes = 2, .block_size = 40, .block_size_bytes = 8, .local_free = 24,        \
    .xthread_free = 32
static const struct hx_mi_layout layouts[] = {
    {301, 316, PAGE_3, .page_start = 48, .xheap = 64, .near = 72, .memid = 96, .arena_slices = 32},
    {3206, 30302, PAGE_3, .page_start = 48, .xheap = 56, .whole_heap = 64, .near = 72, .memid = 96,
     .arena_slices = 40},
    {30400, 30403, PAGE_3, .page_offset = 48, .xheap = 56, .whole_heap = 64, .near = 72,
     .memid = 88, .arena_slices = 40},
    {301, 316, PAGE_3, .page_start = 48, .xheap = 80, .near = 88, .memid = 112, .arena_slices = 32,
     .keys = 64},
    {3206, 30302, PAGE_3, .page_start = 48, .xheap = 72, .whole_heap = 80, .near = 88, .memid = 112,
     .arena_slices = 40, .keys = 56},
    {30400, 30403, PAGE_3, .page_offset = 48, .xheap = 72, .whole_heap = 80, .near = 88,
     .memid = 104, .arena_slices = 40, .keys = 56},
};

enum {
    N_LAYOUTS = sizeof layouts / sizeof *layouts,
    PAGE_FREE = 8,
    PAGE_CAPACITY = 18,
    PAGE_RESERVED = 20,
    PAGE_BYTES = 136,
    ARENA_BYTES = 64,
    SUB_SHIFT = 13, /* slices of one entry of the first level */
    SUBS_MAX = 1 << 15,
    MAP_MAX = 1 << 23,
    MEMORY_OS = 4, /* kinds of memory: from 4 on of the system, */
    MEMORY_ARENA = 7,
};
static const uint64_t slice_size = UINT64_C(1) << HX_MI_SLICE_SHIFT;
static const uint64_t sub_bytes = UINT64_C(8) << SUB_SHIFT;

static uint64_t word(const uint8_t *bytes, size_t offset, size_t width)
{
    uint64_t value = 0;
    memcpy(&value, bytes + offset, width);
    return value;
}

/* --- the map --------------------------------------------------------------------------- */

/* How long the first level is; 0: there is no map at addr. */
static uint64_t map_bytes(const struct hx_peek *peek, uint64_t addr)
{
    uint64_t first, bytes;
    if (!addr || addr & 4095 || addr >> 47 || !hx_peek_u64(peek, addr, &first))
        return 0;
    bytes = first - addr;
    return bytes >= 4096 && bytes <= MAP_MAX && !(bytes & (bytes - 1)) ? bytes : 0;
}

/* Looks at all words of [start, end) of a module's data. */
static uint64_t search_data(const struct hx_peek *peek, uint64_t start, uint64_t end)
{
    enum { BLOCK = 4096, LOOKS = 1024 };
    uint64_t words[BLOCK / 8], last = 0;
    int looks = 0;
    start &= ~UINT64_C(7);
    for (uint64_t len; start + 8 <= end; start += len) {
        len = BLOCK - (start & (BLOCK - 1)); /* pages that were never written are not there */
        len = end - start < len ? end - start : len;
        if (!peek->read(peek->context, start, words, len))
            continue;
        for (size_t i = 0; i < len / 8; i++) {
            if (!words[i] || words[i] & 4095 || words[i] == last)
                continue;
            last = words[i];
            if (looks++ < LOOKS && map_bytes(peek, last))
                return last;
        }
    }
    return 0;
}

uint64_t hx_mi_find_map(const struct hx_alloc_target *target)
{
    enum { DATA_MAX = 4 << 20, RANGES = 8 };
    uint64_t addr, size, map, left = DATA_MAX;
    for (size_t i = 0; i < hx_modules_count(target->modules); i++) {
        uint64_t range[RANGES][2];
        size_t n = hx_module_data(target->modules, i, range, RANGES);
        for (size_t k = 0; k < n && left; k++) {
            uint64_t end = range[k][1] - range[k][0] > left ? range[k][0] + left : range[k][1];
            left -= end - range[k][0];
            if ((map = search_data(target->peek, range[k][0], end)))
                return map;
        }
        if (!left && hx_module_symbol(target->modules, i, "_mi_page_map", &addr, &size) &&
            hx_peek_u64(target->peek, addr, &map) && map_bytes(target->peek, map))
            return map;
    }
    return 0;
}

/* --- a page ---------------------------------------------------------------------------- */

/* A page and the arena that it is in. */
struct found {
    struct hx_mi_page page;
    uint64_t arena; /* 0: it has memory of its own */
};

static void parse_page(const struct hx_mi_layout *layout, uint64_t addr, const uint8_t *bytes,
                       struct hx_mi_page *page)
{
    *page =
        (struct hx_mi_page){.addr = addr,
                            .block_size = word(bytes, layout->block_size, 8),
                            .used = (uint32_t)word(bytes, layout->used, 2),
                            .capacity = (uint32_t)word(bytes, PAGE_CAPACITY, 2),
                            .slab = UINT64_MAX,
                            .list = {word(bytes, PAGE_FREE, 8), word(bytes, layout->local_free, 8),
                                     word(bytes, layout->xthread_free, 8) & ~UINT64_C(3)}};
    page->first = layout->page_start ? word(bytes, layout->page_start, 8)
                                     : addr + 8 * word(bytes, layout->page_offset, 4);
    if (layout->whole_heap)
        page->whole_heap = word(bytes, layout->whole_heap, 8);
    if (word(bytes, 0, 8) >> 3) { /* the thread, and flags */
        page->heap = word(bytes, layout->xheap, 8);
        memcpy(page->near, bytes + layout->near, sizeof page->near);
    }
    if (layout->keys)
        memcpy(page->keys, bytes + layout->keys, sizeof page->keys);
}

/* Where the memory of a page is, if it can be there: in the arena that it tells, or behind the
 * page's own structure. */
static bool place_page(const struct hx_mi_walk *walk, const struct hx_mi_layout *layout,
                       const uint8_t *bytes, struct found *found)
{
    struct hx_mi_page *page = &found->page;
    uint8_t arena[ARENA_BYTES];
    uint64_t kind = word(bytes, layout->memid + 16u, 4), base = word(bytes, layout->memid, 8);
    uint64_t last = page->first + word(bytes, PAGE_RESERVED, 2) * page->block_size;
    found->arena = 0;
    if (kind >= MEMORY_OS && kind < MEMORY_ARENA) {
        page->start = page->addr;
        page->end = (last + slice_size - 1) & ~(slice_size - 1);
        return !(page->addr & (slice_size - 1)) && base <= page->start;
    }
    if (kind != MEMORY_ARENA || base & (slice_size - 1) ||
        !hx_image_read(&walk->snapshot->image, base, arena, sizeof arena))
        return false;
    uint64_t at = word(bytes, layout->memid + 8u, 4), n = word(bytes, layout->memid + 12u, 4);
    uint64_t slices = word(arena, layout->arena_slices, 8);
    uint64_t info = word(arena, layout->arena_slices + 8u, 8);
    page->start = base + at * slice_size;
    page->end = page->start + n * slice_size;
    found->arena = base;
    return info && info <= at && n && at + n <= slices && last <= page->end;
}

/* Reads the page at addr that the map has for the slice at `slice`. */
static bool read_page(const struct hx_mi_walk *walk, const struct hx_mi_layout *layout,
                      uint64_t addr, uint64_t slice, struct found *ret)
{
    uint8_t bytes[PAGE_BYTES];
    struct hx_mi_page *page = &ret->page;
    if (addr & 7 || !hx_image_read(&walk->snapshot->image, addr, bytes, sizeof bytes))
        return false;
    parse_page(layout, addr, bytes, page);
    uint64_t reserved = word(bytes, PAGE_RESERVED, 2);
    return page->block_size >= 8 && !(page->block_size & 7) && !(page->block_size >> 47) &&
           reserved && page->capacity <= reserved && page->used <= page->capacity &&
           place_page(walk, layout, bytes, ret) && page->first >= page->start &&
           page->first < page->end && page->start <= slice && slice < page->end;
}

/* --- all of them ----------------------------------------------------------------------- */

struct reading {
    struct hx_mi_walk *walk;
    hx_mi_addresses arenas; /* as pages name them, in order of pages */
    uint64_t sub;           /* number of the second level that is being read */
    uint64_t n_subs;
    uint64_t last; /* page of the slice before */
    uint64_t end;  /* of the last page */
    uint64_t votes[N_LAYOUTS];
};

/* A page in an arena proves a layout more than one that has its own memory. */
static void vote(struct reading *reading, uint64_t addr, uint64_t slice)
{
    struct found found;
    for (size_t i = 0; i < N_LAYOUTS; i++)
        if (read_page(reading->walk, &layouts[i], addr, slice, &found))
            reading->votes[i] += found.arena ? 1000 : 1;
}

static void choose(struct reading *reading)
{
    size_t best = 0;
    for (size_t i = 1; i < N_LAYOUTS; i++)
        if (reading->votes[i] > reading->votes[best])
            best = i;
    if (reading->votes[best])
        reading->walk->layout = &layouts[best];
}

static hx_error *add_page(struct reading *reading, uint64_t addr, uint64_t slice)
{
    struct hx_mi_walk *walk = reading->walk;
    struct found found;
    walk->n_likely++;
    if (!walk->layout) {
        vote(reading, addr, slice);
        return NULL;
    }
    bool lost =
        !read_page(walk, walk->layout, addr, slice, &found) || found.page.start < reading->end;
    if (lost) {
        walk->slabs.outside++;
        walk->slabs.outside_bytes += slice_size;
        return NULL;
    }
    reading->end = found.page.end;
    HX_NEED(hx_vec_push(&walk->pages, found.page));
    if (found.arena &&
        (!reading->arenas.n || reading->arenas.v[reading->arenas.n - 1] != found.arena))
        HX_NEED(hx_vec_push(&reading->arenas, found.arena));
    return NULL;
}

/* Calls each() for all words of [addr, addr + bytes) that are not 0 and in the image. */
static hx_error *each_word(struct reading *reading, uint64_t addr, uint64_t bytes,
                           hx_error *(*each)(struct reading *, uint64_t i, uint64_t word))
{
    for (uint64_t at = 0; at < bytes; at += 4096) {
        uint8_t page[4096];
        bool there = hx_image_read(&reading->walk->snapshot->image, addr + at, page, sizeof page);
        for (uint64_t i = 0; there && i < sizeof page; i += 8) {
            uint64_t value = word(page, i, 8);
            if (value)
                HX_TRY(each(reading, (at + i) / 8, value));
        }
    }
    return NULL;
}

/* Entry i of the second level. Most pages have several. */
static hx_error *read_slice(struct reading *reading, uint64_t i, uint64_t page)
{
    uint64_t slice = ((reading->sub << SUB_SHIFT) + i) << HX_MI_SLICE_SHIFT;
    if (page == reading->last || !slice) /* address 0 is of an empty page */
        return NULL;
    reading->last = page;
    return add_page(reading, page, slice);
}

/* Entry i of the first level. */
static hx_error *read_sub(struct reading *reading, uint64_t i, uint64_t sub)
{
    if (sub & 7 || reading->n_subs++ == SUBS_MAX)
        return NULL;
    reading->sub = i;
    if (reading->walk->layout)
        HX_TRY(hx_mi_add_memory(reading->walk, sub, sub + sub_bytes, HX_BLOCK_OWN));
    return each_word(reading, sub, sub_bytes, read_slice);
}

static bool holds_heap(const struct hx_mi_walk *walk, uint64_t start, uint64_t end)
{
    for (size_t i = 0; i < walk->heaps.n; i++)
        if (walk->heaps.v[i] >= start && walk->heaps.v[i] < end)
            return true;
    return false;
}

/* What is in no page: free slices, and some where threads' heaps are. */
static hx_error *add_gap(struct hx_mi_walk *walk, uint64_t start, uint64_t end)
{
    for (; start < end; start += slice_size) {
        uint64_t first = start;
        while (start < end && !holds_heap(walk, start, start + slice_size))
            start += slice_size;
        if (first < start)
            HX_TRY(hx_mi_add_memory(walk, first, start, HX_BLOCK_FREE));
        if (start < end)
            HX_TRY(hx_mi_add_memory(walk, start, start + slice_size, HX_BLOCK_OWN));
    }
    return NULL;
}

static hx_error *add_arena(struct hx_mi_walk *walk, uint64_t arena)
{
    uint8_t bytes[ARENA_BYTES];
    hx_mi_read(walk, arena, bytes, sizeof bytes);
    uint64_t end = arena + word(bytes, walk->layout->arena_slices, 8) * slice_size;
    uint64_t at = arena + word(bytes, walk->layout->arena_slices + 8u, 8) * slice_size;
    if (at >= end || end - arena > UINT64_C(1) << 46)
        return NULL;
    HX_TRY(hx_mi_add_memory(walk, arena, at, HX_BLOCK_OWN));
    for (size_t i = 0; i < walk->pages.n; i++) {
        const struct hx_mi_page *page = &walk->pages.v[i];
        if (page->start < at || page->start >= end)
            continue;
        HX_TRY(add_gap(walk, at, page->start));
        at = page->end;
    }
    HX_TRY(add_gap(walk, at, end));
    HX_NEED(hx_vec_push(&walk->segments, (struct hx_mi_segment){arena, end, true}));
    return NULL;
}

static hx_error *add_arenas(struct hx_mi_walk *walk, hx_mi_addresses *arenas)
{
    hx_mi_sort_addresses(arenas);
    for (size_t i = 0; i < arenas->n; i++)
        HX_TRY(add_arena(walk, arenas->v[i]));
    return NULL;
}

hx_error *hx_mi_map_pages(struct hx_mi_walk *walk)
{
    const struct hx_image *image = &walk->snapshot->image;
    struct reading votes = {.walk = walk}, reading = {.walk = walk};
    uint64_t first, map = walk->map;
    if (!hx_image_u64(image, map, &first) || first - map > MAP_MAX)
        return NULL;
    HX_TRY(each_word(&votes, map, first - map, read_sub));
    choose(&votes);
    if (!walk->layout)
        return NULL;
    HX_TRY(hx_mi_add_memory(walk, map, first, HX_BLOCK_OWN));
    hx_error *err = each_word(&reading, map, first - map, read_sub);
    if (!err)
        err = hx_mi_find_heaps(walk);
    if (!err)
        err = add_arenas(walk, &reading.arenas);
    hx_vec_free(&reading.arenas);
    return err;
}
