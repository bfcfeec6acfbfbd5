/* jemalloc_cache.c - blocks in the caches of threads.
 *
 * Each arena has a ring of the caches of its threads, those in thread-local storage and those that
 * the program made itself. A cache has a stack for each size class; all stacks of one cache are one
 * block, which jemalloc has from itself.
 */
#include "attach/alloc/jemalloc.h"

#include <string.h>

/* In thread-local storage a cache of 5.3 is two: what arenas have in their ring, and what has the
 * stacks, behind a pointer back. */
enum {
    CACHES_MAX = 1 << 20, /* in the ring of an arena */
    STACK_MAX = 8192,     /* blocks in a stack */
    BIN_BYTES = 24,
};

/* One size class of a cache. */
struct stack {
    uint64_t top;   /* of what it holds: there, and above */
    uint64_t n;     /* how many that are */
    uint64_t guard; /* blocks that wait, freed and looked after, from here on */
    uint64_t n_guarded;
    uint16_t bottom; /* low bits of where the stack begins, above */
};

static uint64_t word_at(const uint8_t *at)
{
    uint64_t word;
    memcpy(&word, at, sizeof word);
    return word;
}

/* 5.3: pointer to the top; of the other bounds only the low 16 bits. Below what it holds is room,
 * and below that, from the bottom of the next lower size class on, what waits. */
static struct stack read_stack(const uint8_t *bin, uint16_t below)
{
    uint16_t full, bottom;
    struct stack stack = {.top = word_at(bin)};
    memcpy(&full, bin + 18, sizeof full);
    memcpy(&bottom, bin + 20, sizeof bottom);
    stack.bottom = bottom;
    stack.n = (uint16_t)(bottom - (uint16_t)stack.top) / 8;
    if (full == bottom)
        return stack; /* it is switched off */
    stack.n_guarded = (uint16_t)(full - below) / 8;
    stack.guard = stack.top - (uint16_t)((uint16_t)stack.top - below);
    return stack;
}

/* 5.2: a count, and a pointer to the end. */
static struct stack read_counted(const uint8_t *bin)
{
    uint64_t end = word_at(bin + 16);
    uint32_t n;
    memcpy(&n, bin + 4, sizeof n);
    return (struct stack){.top = end ? end - 8 * (uint64_t)n : 0, .n = n};
}

static void mark_cached(struct hx_jemalloc_walk *walk, uint64_t addr, unsigned szind)
{
    struct hx_slabs *slabs = walk->slabs;
    const struct hx_slab *slab = hx_slabs_find(slabs, addr);
    uint64_t i = slab ? hx_slab_block(slab, addr) : UINT64_MAX;
    if (i == UINT64_MAX || hx_jemalloc_tag_size(slab->tag) != szind)
        slabs->stray++;
    else
        hx_slabs_mark(slabs, slab, i, HX_BLOCK_CACHED);
}

static void mark_all(struct hx_jemalloc_walk *walk, uint64_t at, uint64_t n, unsigned szind)
{
    const uint8_t *entry = n && n <= STACK_MAX ? hx_image_at(walk->image, at, n * 8) : NULL;
    walk->bad_caches += n && !entry;
    for (uint64_t i = 0; entry && i < n; i++)
        mark_cached(walk, word_at(entry + 8 * i), szind);
}

/* Marks the block that an address lies in as jemalloc's; where it begins, 0: there is none. */
static uint64_t mark_own(struct hx_jemalloc_walk *walk, uint64_t addr)
{
    struct hx_slabs *slabs = walk->slabs;
    const struct hx_slab *slab = hx_slabs_find(slabs, addr);
    uint64_t i = 0;
    if (slab && slab->n > 1 && addr >= slab->first)
        i = (addr - slab->first) / slab->stride;
    if (!slab || i >= slab->n || addr < slab->first ||
        hx_slabs_use(slabs, slab, i) != HX_BLOCK_LIVE) {
        walk->bad_caches++;
        return 0;
    }
    hx_slabs_mark(slabs, slab, i, HX_BLOCK_OWN);
    walk->own_bytes += slab->usable;
    return slab->first + i * slab->stride;
}

/* Words of a cache; pages that nobody has touched are zero. False: there are none. */
static bool read_bins(const struct hx_jemalloc_walk *walk, uint64_t bins, unsigned n,
                      uint8_t (*ret)[BIN_BYTES])
{
    bool found = false;
    for (unsigned i = 0; i < n * (BIN_BYTES / 8); i++) {
        uint64_t word = 0;
        found |= hx_image_u64(walk->image, bins + 8 * (uint64_t)i, &word);
        memcpy((uint8_t *)ret + 8 * (size_t)i, &word, sizeof word);
    }
    return found;
}

static hx_error *mark_bins(struct hx_jemalloc_walk *walk, uint64_t bins, unsigned first, unsigned n,
                           hx_ranges *excluded)
{
    uint8_t bin[HX_JEMALLOC_SIZES][BIN_BYTES];
    uint16_t below = 0;
    if (!read_bins(walk, bins, n, bin)) {
        walk->bad_caches += first == 0;
        return NULL;
    }
    if (!hx_slabs_find(walk->slabs, bins))
        HX_NEED(hx_vec_push(excluded, (struct hx_range){bins, bins + (uint64_t)n * BIN_BYTES}));
    for (unsigned i = 0; i < n; i++) {
        uint64_t block = 0, place = word_at(bin[i] + (walk->layout->stacks ? 0 : 16));
        if (!place)
            continue;
        if (i + first == 0) {
            block = mark_own(walk, place);
            below = (uint16_t)(block + 8);
        }
        struct stack stack =
            walk->layout->stacks ? read_stack(bin[i], below) : read_counted(bin[i]);
        mark_all(walk, stack.top, stack.n, first + i);
        mark_all(walk, stack.guard, i || block ? stack.n_guarded : 0, first + i);
        below = stack.bottom;
    }
    return NULL;
}

/* 5.2: what a thread notes of each arena is a block of 8 bytes for each. */
static void mark_notes(struct hx_jemalloc_walk *walk, uint64_t cache)
{
    enum { THREAD = 496 + 920, NUMBER = 4, NOTES = 448 };
    uint64_t notes = 0;
    uint32_t n;
    if (!hx_image_u64(walk->image, cache - THREAD + NOTES, &notes) || !notes ||
        !hx_image_u32(walk->image, cache - THREAD + NUMBER, &n) || !n || n > 1 << 16)
        return;
    const struct hx_slab *slab = hx_slabs_find(walk->slabs, notes);
    unsigned szind = slab ? hx_jemalloc_tag_size(slab->tag) : 0;
    if (slab && hx_slab_block(slab, notes) != UINT64_MAX && slab->usable >= 8 * (uint64_t)n &&
        (!szind || hx_jemalloc_size(szind - 1) < 8 * (uint64_t)n))
        mark_own(walk, notes);
}

static hx_error *mark_cache(struct hx_jemalloc_walk *walk, uint64_t cache, hx_ranges *excluded)
{
    const struct hx_jemalloc_layout *layout = walk->layout;
    unsigned small = hx_jemalloc_bins(layout);
    uint64_t bins = 0, large = 0;
    walk->n_caches++;
    if (!hx_image_u64(walk->image, cache + (layout->stacks ? layout->cache_self : 16), &bins) ||
        (!layout->stacks && !hx_image_u64(walk->image, cache + 24, &large))) {
        walk->bad_caches++;
        return NULL;
    }
    if (!hx_slabs_find(walk->slabs, cache))
        HX_NEED(hx_vec_push(excluded, (struct hx_range){cache, cache + 32}));
    if (layout->stacks)
        return mark_bins(walk, bins + 8, 0, layout->cache_bins, excluded);
    mark_notes(walk, cache);
    HX_TRY(mark_bins(walk, bins, 0, small, excluded));
    return mark_bins(walk, large, small, HX_JEMALLOC_SIZES - small, excluded);
}

/* Each in the ring points back to the one before: so no ring can be met twice. */
static hx_error *mark_ring(struct hx_jemalloc_walk *walk, uint64_t first, hx_ranges *excluded)
{
    uint64_t cache = first, next, back;
    for (unsigned i = 0; first && i < CACHES_MAX; i++, cache = next) {
        if (!hx_image_u64(walk->image, cache, &next) ||
            !hx_image_u64(walk->image, next + 8, &back) || back != cache) {
            walk->bad_caches++;
            return NULL;
        }
        HX_TRY(mark_cache(walk, cache, excluded));
        if (next == first)
            return NULL;
    }
    return NULL;
}

hx_error *hx_jemalloc_caches(struct hx_jemalloc_walk *walk, hx_ranges *excluded)
{
    for (size_t i = 0; i < walk->arenas.n; i++) {
        uint64_t first = 0;
        if (!hx_image_u64(walk->image, walk->arenas.v[i].addr + walk->layout->caches, &first))
            walk->bad_caches++;
        HX_TRY(mark_ring(walk, first, excluded));
    }
    return NULL;
}

/* --- caches in no ring --------------------------------------------------------------------- */

/* Is there a cache at that address, in use and not met before? What it consists of leads back to
 * it, and its stacks lie in a block. */
static bool is_lost_cache(const struct hx_jemalloc_walk *walk, uint64_t cache)
{
    enum { SMALL_52 = 16 - 920, LARGE_52 = 1000 - 920 };
    const struct hx_jemalloc_layout *layout = walk->layout;
    uint64_t bins, large, back, stack;
    if (!hx_image_u64(walk->image, cache + (layout->stacks ? layout->cache_self : 16), &bins))
        return false;
    bins += layout->stacks ? 8 : 0;
    if (layout->stacks
            ? !hx_image_u64(walk->image, bins - 8, &back) || back != cache - 16
            : bins != cache + SMALL_52 || !hx_image_u64(walk->image, cache + 24, &large) ||
                  large != cache + LARGE_52)
        return false;
    if (!hx_image_u64(walk->image, bins + (layout->stacks ? 0 : 16), &stack))
        return false;
    const struct hx_slab *slab = hx_slabs_find(walk->slabs, stack);
    return slab && slab->n == 1 && stack >= slab->first &&
           hx_slabs_use(walk->slabs, slab, 0) == HX_BLOCK_LIVE;
}

static bool is_arena(const struct hx_jemalloc_walk *walk, uint64_t addr)
{
    for (size_t i = 0; i < walk->arenas.n; i++)
        if (walk->arenas.v[i].addr == addr)
            return true;
    return false;
}

hx_error *hx_jemalloc_lost_caches(struct hx_jemalloc_walk *walk, hx_ranges *excluded)
{
    const struct hx_image *image = walk->image;
    uint64_t low = UINT64_MAX, high = 0, arena_at = walk->layout->stacks ? 24 : 32;
    for (size_t i = 0; i < walk->arenas.n; i++) {
        low = walk->arenas.v[i].addr < low ? walk->arenas.v[i].addr : low;
        high = walk->arenas.v[i].addr > high ? walk->arenas.v[i].addr : high;
    }
    for (size_t i = 0; i < image->n; i++) {
        const struct hx_span *span = &image->span[i];
        for (uint64_t at = span->start; at + 8 <= span->end; at += 8) {
            uint64_t word = word_at(span->bytes + (at - span->start));
            if (word < low || word > high || !is_arena(walk, word) ||
                !is_lost_cache(walk, at - arena_at))
                continue;
            walk->n_lost_caches++;
            HX_TRY(mark_cache(walk, at - arena_at, excluded));
        }
    }
    return NULL;
}
