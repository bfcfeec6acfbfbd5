/* mimalloc.c - mimalloc 2 and 3, 64 bit: its table of functions, and what is free in its pages. */
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
        else if (!hx_image_u64(&walk->snapshot->image, addr, &link))
            link = 0;
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
        if (!hx_image_u64(&walk->snapshot->image, addr, &link))
            return false;
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

static void find_usable(void *context, const struct hx_slab *slab, uint32_t i, uint64_t *addr,
                        uint64_t *bytes)
{
    struct hx_mi_walk *walk = context;
    *bytes = slab->usable;
    if (!read_padding(walk, &walk->pages.v[slab->tag], *addr, bytes))
        walk->n_overrun++;
    (void)i;
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

hx_error *hx_mi_find_heaps(struct hx_mi_walk *walk)
{
    size_t n = 0;
    for (size_t i = 0; i < walk->pages.n; i++)
        if (walk->pages.v[i].heap && (!i || walk->pages.v[i].heap != walk->pages.v[i - 1].heap))
            HX_NEED(hx_vec_push(&walk->heaps, walk->pages.v[i].heap));
    if (walk->heaps.n)
        qsort(walk->heaps.v, walk->heaps.n, sizeof *walk->heaps.v, by_value);
    for (size_t i = 0; i < walk->heaps.n; i++)
        if (!n || walk->heaps.v[n - 1] != walk->heaps.v[i])
            walk->heaps.v[n++] = walk->heaps.v[i];
    walk->heaps.n = n;
    return NULL;
}

/* Heaps of threads have mappings of their own; the first one is a variable. */
static hx_error *add_heaps(struct hx_mi_walk *walk, hx_ranges *excluded)
{
    const struct hx_snapshot *snapshot = walk->snapshot;
    for (size_t i = 0; i < walk->heaps.n; i++) {
        uint64_t heap = walk->heaps.v[i];
        size_t k = hx_mapping_find(snapshot->mapping, snapshot->n_mappings, heap);
        if (k == snapshot->n_mappings)
            continue;
        if (hx_mapping_is_file(&snapshot->mapping[k]))
            HX_NEED(hx_vec_push(excluded, (struct hx_range){heap, heap + HX_MI_HEAP}));
        else if (!(heap & 4095) && !walk->layout->memid)
            HX_TRY(hx_mi_add_memory(walk, heap, heap + HX_MI_THREAD_DATA, HX_BLOCK_OWN));
    }
    return NULL;
}

/* Pages name those beside them: are all of them here? */
static hx_error *check_pages(struct hx_mi_walk *walk)
{
    HX_VEC(uint64_t) known = {0};
    bool room = hx_vec_reserve(&known, walk->pages.n);
    for (size_t i = 0; room && i < walk->pages.n; i++)
        known.v[known.n++] = walk->pages.v[i].addr;
    if (known.n)
        qsort(known.v, known.n, sizeof *known.v, by_value);
    for (size_t i = 0; i < 2 * known.n; i++) {
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

/* --- the table of functions ------------------------------------------------------------ */

struct state {
    uint64_t map;     /* of mimalloc 3; 0: it is mimalloc 2 */
    int version;      /* as mi_version() tells it; 0: not known */
    size_t module;    /* that has it; SIZE_MAX: none is known */
    bool own_library; /* nothing else is in that module */
    struct hx_range code;
    hx_ranges data;
};

static bool is_library(const struct hx_alloc_target *target, size_t i)
{
    return strstr(hx_module_name(target->modules, i), "mimalloc") != NULL;
}

/* mi_version() returns a constant. */
static int read_version(const struct hx_alloc_target *target, uint64_t addr)
{
    uint8_t code[24];
    int32_t version;
    if (!hx_module_read(target->modules, addr, code, sizeof code))
        return 0;
    for (size_t i = 0; i + 5 < sizeof code; i++) {
        memcpy(&version, code + i + 1, sizeof version);
        if (code[i] == 0xb8 && version >= 100 && version < 100000)
            return version;
    }
    return 0;
}

static int name_version(char *buf, size_t len, int version)
{
    if (version < 1000)
        return snprintf(buf, len, "%d.%d.%d", version / 100, version / 10 % 10, version % 10);
    if (version < 10000)
        return snprintf(buf, len, "%d.%d.%d", version / 1000, version / 100 % 10, version % 100);
    return snprintf(buf, len, "%d.%d.%d", version / 10000, version / 100 % 100, version % 100);
}

/* Is there a segment in the first gigabytes of some mapping? */
static bool find_segment(const struct hx_alloc_target *target)
{
    enum { STEP_SHIFT = 25, PER_MAPPING = 1024, LOOKS = 8192 };
    const uint64_t step = UINT64_C(1) << STEP_SHIFT;
    int looks = 0;
    for (size_t i = 0; i < target->n_mappings; i++) {
        const struct hx_mapping *m = &target->mapping[i];
        if (!(m->prot & HX_PROT_W) || m->prot & HX_PROT_SHARED || m->device)
            continue;
        uint64_t at = (m->start + step - 1) & ~(step - 1);
        for (int n = 0; n < PER_MAPPING && at >= m->start && at < m->end; n++, at += step) {
            uint8_t bytes[HX_MI_HEADER_BYTES];
            if (looks++ == LOOKS)
                return false;
            if (!target->peek->read(target->peek->context, at, bytes, sizeof bytes))
                continue;
            for (size_t k = 0; k < hx_mi_n_layouts; k++)
                if (hx_mi_is_likely(&hx_mi_layouts[k], at, bytes))
                    return true;
        }
    }
    return false;
}

/* The module that exports mi_version; of a library, all of it is mimalloc's. */
static void find_module(const struct hx_alloc_target *target, struct state *state)
{
    uint64_t addr, size;
    for (size_t i = 0; i < hx_modules_count(target->modules); i++) {
        if (!hx_module_symbol(target->modules, i, "mi_version", &addr, &size))
            continue;
        state->module = i;
        state->version = read_version(target, addr);
        state->own_library = is_library(target, i);
        return;
    }
}

static bool is_loaded(const struct hx_alloc_target *target)
{
    for (size_t i = 0; i < hx_modules_count(target->modules); i++)
        if (is_library(target, i))
            return true;
    return false;
}

static hx_error *mimalloc_find(const struct hx_alloc_target *target,
                               struct hx_allocator_share *share, void **ret_state)
{
    char version[32];
    bool segment = find_segment(target);
    uint64_t map = segment ? 0 : hx_mi_find_map(target);
    *ret_state = NULL;
    if (!segment && !map && !is_loaded(target))
        return NULL;
    struct state *state = calloc(1, sizeof *state);
    HX_NEED(state);
    state->map = map;
    state->module = SIZE_MAX;
    find_module(target, state);
    if (!segment && !map && (state->version < 200 || state->version / 100 == 2)) {
        free(state);
        return NULL;
    }
    *ret_state = state;
    share->name = strdup("mimalloc");
    share->evidence = strdup(map ? "page map by its shape" : "segments by their shape");
    HX_NEED(share->name && share->evidence);
    if (state->module != SIZE_MAX)
        HX_NEED(share->module = strdup(hx_module_name(target->modules, state->module)));
    if (state->version) {
        name_version(version, sizeof version, state->version);
        HX_NEED(share->version = strdup(version));
    }
    return NULL;
}

static void mimalloc_end(void *pointer)
{
    struct state *state = pointer;
    hx_vec_free(&state->data);
    free(state);
}

/* Where its functions are: in a library that is all of its code, else where those with names are.
 */
static struct hx_range find_code(const struct state *state, const struct hx_alloc_target *target)
{
    static const char *const names[] = {"mi_malloc",  "mi_free",         "mi_realloc",
                                        "mi_calloc",  "_mi_page_retire", "_mi_malloc_generic",
                                        "mi_collect", "_mi_os_alloc",    "_mi_segment_page_alloc"};
    uint64_t addr, size, low = UINT64_MAX, high = 0;
    if (state->module == SIZE_MAX)
        return (struct hx_range){0};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (!hx_module_symbol(target->modules, state->module, names[i], &addr, &size))
            continue;
        low = addr < low ? addr : low;
        high = addr + size > high ? addr + size : high;
    }
    if (low < high && state->own_library) {
        size_t i = hx_mapping_find(target->mapping, target->n_mappings, low);
        if (i < target->n_mappings && target->mapping[i].start <= low)
            return (struct hx_range){target->mapping[i].start, target->mapping[i].end};
    }
    return low < high && high - low <= 1 << 20 ? (struct hx_range){low, high}
                                               : (struct hx_range){0};
}

static hx_error *mimalloc_guard(void *state, const struct hx_alloc_target *target,
                                struct hx_guard *ret)
{
    struct hx_range code = find_code(state, target);
    if (code.start < code.end)
        HX_NEED(hx_vec_push(&ret->code, code));
    return NULL;
}

/* "2.0.9", "2.1.4 to 2.1.7" */
static hx_error *tell_version(const struct hx_mi_walk *walk, struct hx_allocator_share *share)
{
    char from[32], to[32];
    if (share->version)
        return NULL;
    name_version(from, sizeof from, walk->layout->first);
    name_version(to, sizeof to, walk->layout->last);
    if (walk->layout->first == walk->layout->last)
        HX_NEED(share->version = strdup(from));
    else
        HX_NEED(asprintf(&share->version, "%s to %s", from, to) >= 0);
    return NULL;
}

static hx_error *tell_evidence(const struct hx_mi_walk *walk, const struct state *state,
                               enum hx_walk_verdict verdict, struct hx_allocator_share *share)
{
    static const char *const verdicts[] = {"counts agree", "counts disagree", "damaged"};
    size_t used = 0;
    char *evidence;
    for (size_t i = 0; i < walk->segments.n; i++)
        used += walk->segments.v[i].used;
    HX_NEED(asprintf(&evidence, "%s, %zu %s by shape%s%s, %zu pages, %s",
                     state->version ? "mi_version()" : "layout by shape", used,
                     state->map ? "arenas" : "segments",
                     walk->layout->keys ? ", encoded links" : "", walk->padding ? ", padding" : "",
                     walk->pages.n, verdicts[verdict]) >= 0);
    free(share->evidence);
    share->evidence = evidence;
    return NULL;
}

static hx_error *refuse(const struct hx_mi_walk *walk, const struct state *state,
                        struct hx_allocator_share *share)
{
    char *evidence;
    HX_NEED(asprintf(&evidence,
                     "%" PRIu64 " %s look like mimalloc's, but none like those of a version that "
                     "heapx knows (2.0 to 2.4, 3.0 to 3.4)",
                     walk->n_likely, state->map ? "pages" : "segments") >= 0);
    free(share->evidence);
    share->evidence = evidence;
    share->proven = false;
    return NULL;
}

static hx_error *do_walk(struct hx_mi_walk *walk, struct state *state,
                         struct hx_allocator_share *share, hx_ranges *excluded,
                         const struct hx_progress *progress, enum hx_walk_verdict *ret)
{
    *ret = HX_WALK_OK;
    HX_TRY(state->map ? hx_mi_map_pages(walk, state->map) : hx_mi_segments(walk));
    if (!walk->layout && walk->n_likely)
        return refuse(walk, state, share);
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
    HX_TRY(tell_version(walk, share));
    return tell_evidence(walk, state, *ret, share);
}

static hx_error *mimalloc_walk(void *state, struct hx_snapshot *snapshot,
                               struct hx_allocator_share *share, hx_ranges *excluded,
                               const struct hx_progress *progress, enum hx_walk_verdict *ret)
{
    struct hx_mi_walk walk = {.snapshot = snapshot};
    hx_slabs_init(&walk.slabs, snapshot);
    hx_error *err = do_walk(&walk, state, share, excluded, progress, ret);
    hx_slabs_deinit(&walk.slabs);
    hx_vec_free(&walk.segments);
    hx_vec_free(&walk.pages);
    hx_vec_free(&walk.heaps);
    return err;
}

const struct hx_allocator hx_allocator_mimalloc = {.name = "mimalloc",
                                                   .find = mimalloc_find,
                                                   .guard = mimalloc_guard,
                                                   .walk = mimalloc_walk,
                                                   .end = mimalloc_end};
