/* mimalloc_walk.c - what is free in the pages of mimalloc 2 and 3, and the proof of it.
 *
 * Of the blocks of a page as many are in use as it counts, and the others are in its lists. A block
 * that another thread gave back counts as in use, until the owner of the page takes it: from a list
 * of the page, or from one of the heap.
 */
#include "attach/alloc/mimalloc.h"
#include "base/cleanup.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* --- memory ---------------------------------------------------------------------------- */

void hx_mi_read(const struct hx_mi_walk *walk, uint64_t addr, uint8_t *dst, size_t len)
{
    const struct hx_image *image = &walk->snapshot->image;
    if (hx_image_read(image, addr, dst, len))
        return;
    for (size_t done = 0, part; done < len; done += part) {
        part = 4096 - ((addr + done) & 4095);
        part = part < len - done ? part : len - done;
        if (!hx_image_read(image, addr + done, dst + done, part))
            memset(dst + done, 0, part);
    }
}

hx_error *hx_mi_add_memory(struct hx_mi_walk *walk, uint64_t start, uint64_t end,
                           enum hx_block_use use)
{
    const struct hx_snapshot *snapshot = walk->snapshot;
    size_t i = hx_mapping_find(snapshot->mapping, snapshot->n_mappings, start);
    for (; i < snapshot->n_mappings && snapshot->mapping[i].start < end; i++) {
        const struct hx_mapping *mapping = &snapshot->mapping[i];
        uint64_t from = mapping->start > start ? mapping->start : start;
        uint64_t to = mapping->end < end ? mapping->end : end;
        if (mapping->prot & HX_PROT_W && from < to)
            HX_TRY(hx_slabs_add_memory(&walk->slabs, from, to, use));
    }
    return NULL;
}

/* --- links ----------------------------------------------------------------------------- */

static uint64_t rotate_right(uint64_t x, uint64_t by)
{
    by &= 63;
    return by ? x >> by | x << (64 - by) : x;
}

static uint64_t rotate_left(uint64_t x, uint64_t by)
{
    return rotate_right(x, 64 - (by & 63));
}

/* The last link of a list leads to its owner. */
static uint64_t decode(uint64_t link, uint64_t owner, const uint64_t keys[2])
{
    uint64_t addr = rotate_right(link - keys[0], keys[0]) ^ keys[1];
    return addr == owner ? 0 : addr;
}

static uint64_t encode(uint64_t addr, const uint64_t keys[2])
{
    return rotate_left(addr ^ keys[1], keys[0]) + keys[0];
}

/* --- lists ----------------------------------------------------------------------------- */

/* Where a page's blocks lie in the image; NULL: not in one piece. */
static const uint8_t *page_bytes(const struct hx_mi_walk *walk, const struct hx_mi_page *page)
{
    return hx_image_at(&walk->snapshot->image, page->first, page->capacity * page->block_size);
}

/* Marks the blocks of one list of a page; how many there were. The first wrong link ends it. */
static uint64_t mark_list(struct hx_mi_walk *walk, const struct hx_mi_page *page,
                          const struct hx_slab *slab, uint64_t addr, enum hx_block_use use)
{
    const uint8_t *bytes = page_bytes(walk, page);
    uint64_t n = 0;
    while (addr) {
        uint64_t i = hx_slab_block(slab, addr), link;
        if (i == UINT64_MAX) {
            walk->slabs.stray++;
            break;
        }
        if (!hx_slabs_mark(&walk->slabs, slab, i, use))
            break;
        n++;
        if (bytes)
            memcpy(&link, bytes + (addr - slab->first), sizeof link);
        else
            link = hx_slabs_link(&walk->snapshot->image, addr);
        addr = walk->layout->keys ? decode(link, page->addr, page->keys) : link;
    }
    return n;
}

static void mark_page(struct hx_mi_walk *walk, const struct hx_mi_page *page)
{
    const struct hx_slab *slab = &walk->slabs.slab.v[page->slab];
    uint64_t free = mark_list(walk, page, slab, page->list[0], HX_BLOCK_FREE);
    free += mark_list(walk, page, slab, page->list[1], HX_BLOCK_FREE);
    uint64_t remote = mark_list(walk, page, slab, page->list[2], HX_BLOCK_CACHED);
    walk->n_torn += page->used + free != page->capacity || remote > page->used;
}

static struct hx_mi_page *page_of(const struct hx_mi_walk *walk, uint64_t addr)
{
    const struct hx_slab *slab = hx_slabs_find(&walk->slabs, addr);
    return slab && slab->n ? &walk->pages.v[slab->tag] : NULL;
}

/* Follows the list of blocks that other threads gave back to a heap; with `mark` it marks them.
 * False: a link is no block of that heap's pages. */
static bool follow_delayed(struct hx_mi_walk *walk, uint64_t heap, uint64_t head,
                           const uint64_t keys[2], bool mark)
{
    uint64_t addr = head;
    for (uint64_t n = 0; addr; n++) {
        struct hx_mi_page *page = page_of(walk, addr);
        if (!page || n > walk->slabs.n_blocks)
            return false;
        const struct hx_slab *slab = &walk->slabs.slab.v[page->slab];
        uint64_t i = hx_slab_block(slab, addr), link;
        if (i == UINT64_MAX || page->heap != heap)
            return false;
        if (mark && !hx_slabs_mark(&walk->slabs, slab, i, HX_BLOCK_CACHED))
            return true; /* has been counted */
        link = hx_slabs_link(&walk->snapshot->image, addr);
        addr = walk->layout->keys ? decode(link, heap, keys) : link;
    }
    return true;
}

/* A heap that is in a block is no object. */
static void mark_own(struct hx_mi_walk *walk, uint64_t heap)
{
    const struct hx_slab *slab = hx_slabs_find(&walk->slabs, heap);
    if (!slab || !slab->n || heap < slab->first)
        return;
    uint64_t i = (heap - slab->first) / slab->stride;
    if (i < slab->n && hx_slabs_use(&walk->slabs, slab, i) == HX_BLOCK_LIVE)
        hx_slabs_mark(&walk->slabs, slab, i, HX_BLOCK_OWN);
}

/* What a heap of all threads points to are its tables. */
static void mark_whole_heap(struct hx_mi_walk *walk, uint64_t heap)
{
    uint64_t words[HX_MI_WHOLE_HEAP / 8];
    mark_own(walk, heap);
    if (!hx_image_read(&walk->snapshot->image, heap, words, sizeof words))
        return;
    for (size_t i = 0; i < HX_MI_WHOLE_HEAP / 8; i++)
        mark_own(walk, words[i]);
}

static void mark_heap(struct hx_mi_walk *walk, uint64_t heap)
{
    const struct hx_mi_layout *layout = walk->layout;
    uint64_t shift = layout->heap_padded ? walk->padding : 0, head, keys[2] = {0};
    const struct hx_image *image = &walk->snapshot->image;
    mark_own(walk, heap);
    if (!layout->heap_delayed)
        return;
    if (!hx_image_u64(image, heap + layout->heap_delayed + shift, &head) || !head)
        return;
    for (int i = 0; i < 2; i++) {
        if (!hx_image_read(image, heap + layout->heap_keys[i] + shift, keys, sizeof keys))
            continue;
        if (follow_delayed(walk, heap, head, keys, false)) {
            follow_delayed(walk, heap, head, keys, true);
            return;
        }
    }
    walk->slabs.stray++;
}

/* --- padded blocks --------------------------------------------------------------------- */

/* Behind each block of a padded build stand a canary and how many bytes were not asked for. */
static bool read_padding(const struct hx_mi_walk *walk, const struct hx_mi_page *page,
                         uint64_t addr, uint64_t *ret_usable)
{
    uint32_t padding[2];
    uint64_t size = page->block_size - HX_MI_PADDING;
    if (!hx_image_read(&walk->snapshot->image, addr + size, padding, sizeof padding) ||
        padding[1] > size)
        return false;
    uint32_t canary = (uint32_t)encode(addr, page->keys); /* its last byte is 0 since 2.1.8 */
    if (padding[0] != canary && padding[0] != (canary & ~UINT32_C(0xff)))
        return false;
    *ret_usable = size - padding[1];
    return true;
}

/* Do blocks end in canaries? Free ones and those that were written past their end do not. */
static void measure_padding(struct hx_mi_walk *walk)
{
    enum { ENOUGH = 64, PAGES = 4096, BLOCKS = 256 };
    uint64_t found = 0, usable;
    if (!walk->layout->keys)
        return;
    for (size_t i = 0; i < walk->pages.n && i < PAGES && found < ENOUGH; i++) {
        const struct hx_mi_page *page = &walk->pages.v[i];
        uint64_t n = page->block_size >= 16 ? page->capacity : 0;
        for (uint64_t k = 0; k < n && k < BLOCKS && found < ENOUGH; k++)
            found += read_padding(walk, page, page->first + k * page->block_size, &usable);
    }
    walk->padding = found ? HX_MI_PADDING : 0;
}

static bool find_usable(void *context, const struct hx_slab *slab, uint32_t i, uint64_t *addr,
                        uint64_t *bytes)
{
    struct hx_mi_walk *walk = context;
    *bytes = slab->usable;
    if (!read_padding(walk, &walk->pages.v[slab->tag], *addr, bytes))
        walk->n_overrun++;
    (void)i;
    return true;
}

/* --- the walk -------------------------------------------------------------------------- */

static hx_error *add_pages(struct hx_mi_walk *walk)
{
    for (size_t i = 0; i < walk->pages.n; i++) {
        struct hx_mi_page *page = &walk->pages.v[i];
        uint64_t end = page->first + page->capacity * page->block_size;
        struct hx_slab slab = {.start = page->start,
                               .end = end,
                               .first = page->first,
                               .stride = page->block_size,
                               .usable = page->block_size - walk->padding,
                               .n = page->capacity,
                               .rest = HX_BLOCK_OWN,
                               .tag = i};
        if (page->capacity)
            HX_TRY(hx_slabs_add(&walk->slabs, &slab));
        HX_TRY(hx_mi_add_memory(walk, end, page->end, HX_BLOCK_FREE));
    }
    return NULL;
}

static int by_value(const void *a, const void *b)
{
    const uint64_t *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

void hx_mi_sort_addresses(hx_mi_addresses *addresses)
{
    size_t n = 0;
    if (addresses->n)
        qsort(addresses->v, addresses->n, sizeof *addresses->v, by_value);
    for (size_t i = 0; i < addresses->n; i++)
        if (!n || addresses->v[n - 1] != addresses->v[i])
            addresses->v[n++] = addresses->v[i];
    addresses->n = n;
}

hx_error *hx_mi_find_heaps(struct hx_mi_walk *walk)
{
    uint64_t heap = 0, whole = 0;
    for (size_t i = 0; i < walk->pages.n; i++) {
        const struct hx_mi_page *page = &walk->pages.v[i];
        if (page->heap && page->heap != heap)
            HX_NEED(hx_vec_push(&walk->heaps, heap = page->heap));
        if (page->whole_heap && page->whole_heap != whole)
            HX_NEED(hx_vec_push(&walk->whole_heaps, whole = page->whole_heap));
    }
    hx_mi_sort_addresses(&walk->heaps);
    hx_mi_sort_addresses(&walk->whole_heaps);
    return NULL;
}

static bool is_in_segment(const struct hx_mi_walk *walk, uint64_t addr)
{
    for (size_t i = 0; i < walk->segments.n; i++)
        if (walk->segments.v[i].start <= addr && addr < walk->segments.v[i].end)
            return true;
    return false;
}

/* Heaps of threads have mappings of their own; the first one is a variable; what the program made
 * is in blocks. */
static hx_error *add_heaps(struct hx_mi_walk *walk, hx_ranges *excluded)
{
    const struct hx_snapshot *snapshot = walk->snapshot;
    for (size_t i = 0; i < walk->heaps.n; i++) {
        uint64_t heap = walk->heaps.v[i];
        if (hx_mapping_find(snapshot->mapping, snapshot->n_mappings, heap) ==
                snapshot->n_mappings ||
            is_in_segment(walk, heap))
            continue;
        if (walk->layout->memid || heap & 4095)
            HX_NEED(hx_vec_push(excluded, (struct hx_range){heap, heap + HX_MI_HEAP}));
        else
            HX_TRY(hx_mi_add_memory(walk, heap, heap + HX_MI_THREAD_DATA, HX_BLOCK_OWN));
    }
    return NULL;
}

/* Pages name those beside them: are all of them here? */
static hx_error *check_pages(struct hx_mi_walk *walk)
{
    hx_mi_addresses known = {0};
    bool room = hx_vec_reserve(&known, walk->pages.n);
    for (size_t i = 0; room && i < walk->pages.n; i++)
        known.v[known.n++] = walk->pages.v[i].addr;
    hx_mi_sort_addresses(&known);
    for (size_t i = 0; room && i < 2 * walk->pages.n; i++) {
        uint64_t addr = walk->pages.v[i / 2].near[i % 2];
        walk->n_missing += addr && !bsearch(&addr, known.v, known.n, sizeof *known.v, by_value);
    }
    hx_vec_free(&known);
    HX_NEED(room);
    return NULL;
}

static void mark_all(struct hx_mi_walk *walk, const struct hx_progress *progress)
{
    for (size_t i = 0; i < walk->slabs.slab.n; i++)
        if (walk->slabs.slab.v[i].n)
            walk->pages.v[walk->slabs.slab.v[i].tag].slab = i;
    for (size_t i = 0; i < walk->pages.n; i++) {
        if (walk->pages.v[i].slab != UINT64_MAX)
            mark_page(walk, &walk->pages.v[i]);
        if (i % 256 == 0)
            hx_progress_at(progress, "walk", i, walk->pages.n);
    }
    for (size_t i = 0; i < walk->heaps.n; i++)
        mark_heap(walk, walk->heaps.v[i]);
    for (size_t i = 0; i < walk->whole_heaps.n; i++)
        mark_whole_heap(walk, walk->whole_heaps.v[i]);
}

/* A thread in the middle of an update spoils no more than one page. */
static enum hx_walk_verdict judge(struct hx_mi_walk *walk, bool told)
{
    struct hx_snapshot *snapshot = walk->snapshot;
    if (walk->n_overrun)
        hx_snapshot_note(snapshot, false,
                         "%" PRIu64 " blocks of mimalloc were written beyond their end",
                         walk->n_overrun);
    if (!told && !walk->n_torn && !walk->n_damaged && !walk->n_missing)
        return HX_WALK_OK;
    if (walk->n_missing) {
        hx_snapshot_note(snapshot, true,
                         "%" PRIu64 " pages that others of mimalloc name were not found",
                         walk->n_missing);
        hx_snapshot_lose(snapshot, "pages of mimalloc that were not found", walk->n_missing,
                         walk->n_missing << HX_MI_SLICE_SHIFT, 0);
    }
    if (walk->n_torn) {
        hx_snapshot_note(snapshot, true,
                         "counts of %" PRIu64 " pages of mimalloc disagree with its lists of free "
                         "blocks (damaged, or an update was under way)",
                         walk->n_torn);
        hx_snapshot_lose(snapshot, "pages of mimalloc whose counts disagree", walk->n_torn, 0, 0);
    }
    return walk->n_torn + walk->n_missing + walk->slabs.outside + walk->slabs.stray <=
                   snapshot->n_threads
               ? HX_WALK_TORN
               : HX_WALK_BAD;
}

/* --- what is told of it ---------------------------------------------------------------- */

int hx_mi_name_version(char *buf, size_t len, int version)
{
    if (version < 1000)
        return snprintf(buf, len, "%d.%d.%d", version / 100, version / 10 % 10, version % 10);
    if (version < 10000)
        return snprintf(buf, len, "%d.%d.%d", version / 1000, version / 100 % 10, version % 100);
    return snprintf(buf, len, "%d.%d.%d", version / 10000, version / 100 % 100, version % 100);
}

/* "2.0.9", "2.1.4 to 2.1.7" */
static hx_error *tell_version(const struct hx_mi_walk *walk, struct hx_allocator_share *share)
{
    char from[32], to[32];
    if (share->version)
        return NULL;
    hx_mi_name_version(from, sizeof from, walk->layout->first);
    hx_mi_name_version(to, sizeof to, walk->layout->last);
    if (walk->layout->first == walk->layout->last)
        HX_NEED(share->version = strdup(from));
    else
        HX_NEED(asprintf(&share->version, "%s to %s", from, to) >= 0);
    return NULL;
}

static hx_error *tell_evidence(const struct hx_mi_walk *walk, enum hx_walk_verdict verdict,
                               struct hx_allocator_share *share)
{
    static const char *const verdicts[] = {"counts agree", "counts disagree", "damaged"};
    size_t used = 0;
    char *evidence;
    for (size_t i = 0; i < walk->segments.n; i++)
        used += walk->segments.v[i].used;
    HX_NEED(asprintf(&evidence, "%s, %zu %s by shape%s%s, %zu pages, %s",
                     share->version ? "mi_version()" : "layout by shape", used,
                     walk->map ? "arenas" : "segments", walk->layout->keys ? ", encoded links" : "",
                     walk->padding ? ", padding" : "", walk->pages.n, verdicts[verdict]) >= 0);
    free(share->evidence);
    share->evidence = evidence;
    return NULL;
}

hx_error *hx_mi_refuse(const struct hx_mi_walk *walk, struct hx_allocator_share *share)
{
    static const char knows[] = "a version that heapx knows (2.0 to 2.4, 3.0 to 3.4)";
    char *evidence;
    int n =
        walk->n_likely
            ? asprintf(&evidence, "%" PRIu64 " %s look like mimalloc's, but none like those of %s",
                       walk->n_likely, walk->map ? "pages" : "segments", knows)
            : asprintf(&evidence, "mi_version(), and no heap of %s was found", knows);
    HX_NEED(n >= 0);
    free(share->evidence);
    share->evidence = evidence;
    share->proven = false;
    return NULL;
}

hx_error *hx_mi_walk_heap(struct hx_mi_walk *walk, struct hx_allocator_share *share,
                          hx_ranges *excluded, const struct hx_progress *progress,
                          enum hx_walk_verdict *ret)
{
    *ret = HX_WALK_OK;
    HX_TRY(walk->map ? hx_mi_map_pages(walk) : hx_mi_segments(walk));
    if (!walk->layout && walk->n_likely && !share->version && !share->module) {
        free(hx_steal(share->name)); /* looked like it, and nothing else speaks for it */
        return NULL;
    }
    if (!walk->layout && walk->n_likely)
        return hx_mi_refuse(walk, share);
    share->proven = true;
    if (!walk->layout) /* a map without pages: nobody has called malloc */
        return NULL;
    measure_padding(walk);
    HX_TRY(add_pages(walk));
    HX_TRY(hx_mi_find_heaps(walk));
    HX_TRY(add_heaps(walk, excluded));
    HX_TRY(check_pages(walk));
    HX_TRY(hx_slabs_sort(&walk->slabs));
    mark_all(walk, progress);
    struct hx_slabs_place place = {find_usable, walk};
    HX_TRY(
        hx_slabs_put(&walk->slabs, walk->padding ? &place : NULL, walk->snapshot, share, progress));
    share->claimed_bytes += walk->n_missing << HX_MI_SLICE_SHIFT;
    *ret = judge(walk, hx_slabs_tell(&walk->slabs, "mimalloc", walk->snapshot));
    HX_TRY(tell_evidence(walk, *ret, share));
    return tell_version(walk, share);
}

void hx_mi_walk_deinit(struct hx_mi_walk *walk)
{
    hx_slabs_deinit(&walk->slabs);
    hx_vec_free(&walk->segments);
    hx_vec_free(&walk->pages);
    hx_vec_free(&walk->heaps);
    hx_vec_free(&walk->whole_heaps);
}
