/* glibc_area.c - the memory of every arena, and blocks that have a mapping of their own. */
#include "attach/alloc/glibc.h"

#include <stdlib.h>
#include <string.h>

/* Objects have addresses of 48 bits. */
#define ADDRESS_END (UINT64_C(1) << 48)

enum {
    PIECE_STEPS = 64,       /* so many sane headers make a piece worth to look for its end */
    PIECE_FAILURES = 64,    /* after so many that had none, only shorter ones are tried */
    MOVED_EFFORT = 1 << 23, /* pages, in one walk */
};

static hx_error *push_area(struct hx_glibc_walk *walk, struct hx_glibc_area area)
{
    return hx_vec_push(&walk->areas, area) ? NULL : hx_error_nomem();
}

static int compare_area_starts(const void *a, const void *b)
{
    const struct hx_glibc_area *x = a, *y = b;
    if (x->start != y->start)
        return x->start < y->start ? -1 : 1;
    return x->end < y->end ? 1 : x->end > y->end ? -1 : 0;
}

/* Sorts; of two areas that overlap the later one goes. Returns how many went. */
static size_t sort_areas(struct hx_glibc_walk *walk)
{
    size_t kept = 0, n = walk->areas.n;
    if (n)
        qsort(walk->areas.v, n, sizeof *walk->areas.v, compare_area_starts);
    for (size_t i = 0; i < n; i++)
        if (!kept || walk->areas.v[i].start >= walk->areas.v[kept - 1].end)
            walk->areas.v[kept++] = walk->areas.v[i];
    walk->areas.n = kept;
    return n - kept;
}

/* --- heaps of the other arenas --------------------------------------------- */

struct heap_info {
    uint64_t arena, prev, size, mprotect_size;
};

static bool read_heap(const struct hx_glibc_walk *walk, uint64_t heap, uint64_t arena, uint64_t max,
                      struct heap_info *ret)
{
    return hx_image_read(walk->image, heap, ret, sizeof *ret) && ret->arena == arena &&
           ret->size >= HX_GLIBC_PAGE && ret->size <= max && ret->size % HX_GLIBC_PAGE == 0 &&
           ret->prev % max == 0;
}

/* The alignment of heaps: 64 MiB, or by the size of huge pages. The heap that holds top says
 * which. */
static uint64_t heap_alignment(const struct hx_glibc_walk *walk, const struct hx_glibc_arena *arena)
{
    struct heap_info info;
    uint64_t usual = UINT64_C(64) << 20;
    uint64_t huge = walk->param[arena->main].hp_pagesize * 4;
    if (read_heap(walk, arena->top & ~(usual - 1), arena->addr, usual, &info))
        return usual;
    if (huge && read_heap(walk, arena->top & ~(huge - 1), arena->addr, huge, &info))
        return huge;
    for (uint64_t max = UINT64_C(1) << 36; max >= UINT64_C(1) << 19; max /= 2)
        if (read_heap(walk, arena->top & ~(max - 1), arena->addr, max, &info))
            return max;
    return 0;
}

static hx_error *heaps_of(struct hx_glibc_walk *walk, uint32_t index)
{
    const struct hx_glibc_arena *arena = &walk->arenas.v[index];
    const struct hx_glibc_state_shape *shape = walk->glibc->main[arena->main].shape;
    uint64_t max = heap_alignment(walk, arena);
    uint64_t heap = max ? arena->top & ~(max - 1) : 0;
    uint64_t home = max ? arena->addr & ~(max - 1) : 0;
    struct heap_info info;
    bool whole = false;
    while (heap && walk->areas.n < walk->pages && read_heap(walk, heap, arena->addr, max, &info)) {
        uint64_t first = heap == home ? arena->addr + shape->size : heap + walk->layout->heap_info;
        HX_TRY(push_area(walk, (struct hx_glibc_area){.kind = HX_AREA_HEAP,
                                                      .start = heap,
                                                      .end = heap + info.size,
                                                      .first = (first + 15) & ~UINT64_C(15),
                                                      .arena = index}));
        whole = heap == home && !info.prev;
        if (info.prev == heap || whole)
            break;
        heap = info.prev;
    }
    if (!whole)
        hx_snapshot_note(walk->snapshot, true, "arena at 0x%lx: not all of its heaps were found",
                         (unsigned long)arena->addr);
    return NULL;
}

/* --- brk ------------------------------------------------------------------- */

/* Private memory without a file, in which glibc could have mapped something; whatever its
 * protection, as a program may protect a part of a block. */
static bool is_mmap_candidate(const struct hx_mapping *mapping)
{
    if (mapping->prot & HX_PROT_SHARED || mapping->device)
        return false;
    if (strncmp(mapping->path, "/anon_hugepage", 14) == 0)
        return true;
    return !mapping->inode && (!mapping->path[0] || strncmp(mapping->path, "[anon", 5) == 0);
}

static bool has_main_memory(const struct hx_glibc_walk *walk)
{
    for (size_t i = 0; i < walk->arenas.n; i++)
        if (walk->arenas.v[i].is_main && (walk->arenas.v[i].top || walk->is_cut))
            return true;
    return false;
}

/* Runs of [heap] lines that adjoin each other. The first chunk is at sbrk_base; where that is
 * elsewhere it must be searched. */
static hx_error *brk_areas(struct hx_glibc_walk *walk)
{
    const struct hx_mapping *mapping = walk->snapshot->mapping;
    size_t n = walk->snapshot->n_mappings;
    if (!has_main_memory(walk))
        return NULL;
    for (size_t i = 0; i < n; i++) {
        if (!hx_mapping_is_brk(&mapping[i]))
            continue;
        struct hx_glibc_area area = {
            .kind = HX_AREA_BRK, .start = mapping[i].start, .end = mapping[i].end};
        while (i + 1 < n && hx_mapping_is_brk(&mapping[i + 1]) && mapping[i + 1].start == area.end)
            area.end = mapping[++i].end;
        for (size_t k = 0; k < walk->glibc->n_mains; k++) {
            uint64_t base = (walk->param[k].sbrk_base + 15) & ~UINT64_C(15);
            if (base >= area.start && base < area.end && walk->param[k].sbrk_base &&
                (!area.first || base < area.first)) {
                area.first = base;
                area.arena = (uint32_t)k;
            }
        }
        HX_TRY(push_area(walk, area));
    }
    return NULL;
}

/* --- nameless memory ------------------------------------------------------- */

/* Chunk at base + lead of a block that was aligned (memalign); total in *ret_total. */
static bool aligned_chunk(struct hx_chunk_cursor *cursor, const struct hx_glibc_layout *layout,
                          uint64_t base, uint64_t lead, uint64_t room, uint64_t *ret_total)
{
    uint64_t words[2];
    if (lead + 16 > room || !hx_chunk_header(cursor, base + lead, words))
        return false;
    uint64_t offset = layout->mmapped_header ? words[0] & ~UINT64_C(1) : words[0];
    uint64_t size = words[1] & ~(uint64_t)HX_CHUNK_FLAGS;
    if (offset != lead || (words[1] & HX_CHUNK_FLAGS) != HX_CHUNK_MMAPPED || size > room - lead)
        return false;
    uint64_t total = lead + size + (layout->mmapped_header ? 16 : 0);
    if (total > room || total % HX_GLIBC_PAGE)
        return false;
    *ret_total = total;
    return true;
}

/* A block with a mapping of its own that begins at base, a page: its chunk and total size.
 * One that was aligned to more than a page and then moved by realloc (mremap) lies at any page:
 * looked for only while there is `effort`, as that reads a word of each page. */
static bool mmapped_at(struct hx_chunk_cursor *cursor, const struct hx_glibc_layout *layout,
                       uint64_t *effort, uint64_t base, uint64_t room, uint64_t *ret_chunk,
                       uint64_t *ret_total)
{
    uint64_t words[2];
    if (!hx_chunk_header(cursor, base, words) || (words[1] & 15) != HX_CHUNK_MMAPPED)
        return false;
    uint64_t tail = layout->mmapped_header ? 16 : 0;
    uint64_t own = (words[1] & ~(uint64_t)HX_CHUNK_FLAGS) + tail;
    if (words[0] > (layout->mmapped_header ? 1 : 0) || own < HX_GLIBC_PAGE || own % HX_GLIBC_PAGE)
        return false;
    /* The header at base stays when the block was aligned: look where its own would be. */
    HX_CHUNK_CURSOR ahead = hx_chunk_cursor(cursor->image);
    for (uint64_t alignment = 32; alignment <= UINT64_C(1) << 46; alignment *= 2) {
        uint64_t chunk = ((base + 16 + alignment - 1) & -alignment) - 16;
        if (chunk - base > 0 && chunk - base < HX_CHUNK_MIN && !layout->mmapped_header)
            chunk += alignment;
        if (chunk != base && aligned_chunk(&ahead, layout, base, chunk - base, room, ret_total)) {
            *ret_chunk = chunk;
            return true;
        }
    }
    uint64_t end = own < room ? own : room;
    for (uint64_t lead = HX_GLIBC_PAGE - 16; lead < end && *effort; lead += HX_GLIBC_PAGE) {
        --*effort;
        if (aligned_chunk(&ahead, layout, base, lead, room, ret_total)) {
            *ret_chunk = base + lead;
            return true;
        }
    }
    if (own > room)
        return false;
    *ret_chunk = base;
    *ret_total = own;
    return true;
}

/* The top of a main arena inside [start, end), 0: none. */
static uint64_t top_inside(const struct hx_glibc_walk *walk, uint64_t start, uint64_t end,
                           uint32_t *ret_arena)
{
    for (uint32_t i = 0; i < walk->glibc->n_mains; i++) {
        const struct hx_glibc_arena *arena = &walk->arenas.v[i];
        if (arena->top >= start && arena->top < end) {
            *ret_arena = i;
            return arena->top;
        }
    }
    return 0;
}

/* A piece of the main arena that begins at base: *ret_end is its end. Damaged headers inside
 * are passed over. */
static hx_error *walk_area_piece(struct hx_glibc_walk *walk, uint64_t base, uint64_t limit,
                                 uint64_t *ret_end)
{
    HX_CHUNK_CURSOR cursor = hx_chunk_cursor(walk->image);
    uint64_t words[2], size, p = base, steps = 0;
    struct hx_chunk_rule rule = {.limit = limit, .main = true};
    uint32_t arena;
    *ret_end = 0;
    if (!hx_chunk_header(&cursor, p, words) || words[0] || (words[1] & 15) != HX_CHUNK_PREV_INUSE)
        return NULL;
    rule.top = top_inside(walk, base, limit, &arena);
    for (;; steps++) {
        enum hx_chunk_end end = HX_CHUNK_INSANE;
        if (hx_chunk_header(&cursor, p, words))
            end = hx_chunk_judge(&cursor, &rule, p, words[1], &size);
        if (end == HX_CHUNK_TOP || end == HX_CHUNK_FENCE) {
            if ((p + size) % HX_GLIBC_PAGE == 0)
                *ret_end = p + size;
            else
                walk->piece_failures += steps > PIECE_STEPS;
            return NULL;
        }
        if (end == HX_CHUNK_INSANE) {
            if (steps < PIECE_STEPS || walk->piece_failures >= PIECE_FAILURES)
                return NULL;
            HX_TRY(hx_chunk_resume(walk, &rule, p + 16, &p));
            if (p == UINT64_MAX) {
                walk->piece_failures++;
                return NULL;
            }
            continue;
        }
        p += size;
    }
}

/* Is the memory of the main arena not all in [heap]? */
static bool wants_pieces(const struct hx_glibc_walk *walk)
{
    for (size_t i = 0; i < walk->arenas.n; i++) {
        const struct hx_glibc_arena *arena = &walk->arenas.v[i];
        if (!arena->is_main || !arena->top)
            continue;
        size_t k = hx_mapping_find(walk->snapshot->mapping, walk->snapshot->n_mappings, arena->top);
        if (arena->flags & 2 || k == walk->snapshot->n_mappings ||
            !hx_mapping_is_brk(&walk->snapshot->mapping[k]))
            return true;
    }
    return false;
}

struct scan {
    uint64_t start, end; /* of mappings that adjoin */
    size_t next_area;    /* of those known before the scan */
    size_t n_known;
    bool pieces;
    uint64_t effort; /* pages that the search for moved blocks may still look at */
};

/* Looks at each page of [start, end) that is there and that no area explains yet. */
static hx_error *scan_pages(struct hx_glibc_walk *walk, struct scan *scan)
{
    HX_CHUNK_CURSOR cursor = hx_chunk_cursor(walk->image);
    uint64_t at = scan->start;
    size_t span = hx_image_find(walk->image, at);
    while (at < scan->end) {
        while (span < walk->image->n && walk->image->span[span].end <= at)
            span++;
        if (span == walk->image->n || walk->image->span[span].start >= scan->end)
            return NULL;
        if (at < walk->image->span[span].start) {
            at = (walk->image->span[span].start + HX_GLIBC_PAGE - 1) & -(uint64_t)HX_GLIBC_PAGE;
            continue;
        }
        while (scan->next_area < scan->n_known && walk->areas.v[scan->next_area].end <= at)
            scan->next_area++;
        uint64_t room = scan->end - at, chunk, total = 0;
        if (scan->next_area < scan->n_known) {
            const struct hx_glibc_area *next = &walk->areas.v[scan->next_area];
            if (next->start <= at) {
                at = next->end;
                continue;
            }
            if (next->start - at < room)
                room = next->start - at;
        }
        if (mmapped_at(&cursor, walk->layout, &scan->effort, at, room, &chunk, &total)) {
            HX_TRY(push_area(walk, (struct hx_glibc_area){.kind = HX_AREA_MMAPPED,
                                                          .start = at,
                                                          .end = at + total,
                                                          .first = chunk,
                                                          .arena = HX_ARENA_MMAP}));
        } else if (scan->pieces) {
            uint64_t end;
            uint32_t arena = 0;
            HX_TRY(walk_area_piece(walk, at, at + room, &end));
            if (end) {
                top_inside(walk, at, end, &arena);
                HX_TRY(push_area(walk, (struct hx_glibc_area){.kind = HX_AREA_RUN,
                                                              .start = at,
                                                              .end = end,
                                                              .first = at,
                                                              .arena = arena}));
                total = end - at;
            }
        }
        at += total ? total : HX_GLIBC_PAGE;
        if (hx_progress_cancelled(walk->progress))
            return hx_error_cancelled("heap");
    }
    return NULL;
}

static hx_error *scan_nameless(struct hx_glibc_walk *walk, bool moved)
{
    const struct hx_mapping *mapping = walk->snapshot->mapping;
    size_t n = walk->snapshot->n_mappings;
    struct scan scan = {
        .n_known = walk->areas.n, .pieces = wants_pieces(walk), .effort = moved ? MOVED_EFFORT : 0};
    for (size_t i = 0; i < n; i++) {
        if (!is_mmap_candidate(&mapping[i]))
            continue;
        scan.start = mapping[i].start;
        while (i + 1 < n && is_mmap_candidate(&mapping[i + 1]) &&
               mapping[i + 1].start == mapping[i].end)
            i++;
        scan.end = mapping[i].end;
        walk->window.start = walk->window.end = 0;
        HX_TRY(scan_pages(walk, &scan));
    }
    return NULL;
}

/* --- are the mmapped ones those that mp_ counts? --------------------------- */

static bool meets_mapping(const struct hx_glibc_walk *walk, uint64_t addr, bool start)
{
    const struct hx_mapping *mapping = walk->snapshot->mapping;
    size_t n = walk->snapshot->n_mappings;
    size_t i = hx_mapping_find(mapping, n, start ? addr : addr - 1);
    return i < n && (start ? mapping[i].start : mapping[i].end) == addr;
}

/* Drops what is too much by mp_'s count: memory of the program that looks like a block. First
 * those that meet neither mappings nor blocks at an end; never more than the surplus. */
static void drop_surplus(struct hx_glibc_walk *walk, uint64_t surplus, uint64_t bytes)
{
    size_t n = walk->areas.n;
    struct hx_glibc_area *area = walk->areas.v;
    /* One that is exactly the difference. */
    for (size_t i = 0; i < n && surplus == 1; i++)
        if (area[i].kind == HX_AREA_MMAPPED && area[i].end - area[i].start == bytes) {
            area[i].loose = true;
            surplus = 0;
        }
    for (int round = 0; round < 2 && surplus; round++)
        for (size_t i = 0; i < n && surplus; i++) {
            if (area[i].kind != HX_AREA_MMAPPED || area[i].loose)
                continue;
            bool left = (i > 0 && area[i - 1].end == area[i].start) ||
                        meets_mapping(walk, area[i].start, true);
            bool right = (i + 1 < n && area[i + 1].start == area[i].end) ||
                         meets_mapping(walk, area[i].end, false);
            if (left + right <= round && area[i].end - area[i].start <= bytes) {
                area[i].loose = true;
                bytes -= area[i].end - area[i].start;
                surplus--;
            }
        }
    size_t kept = 0;
    for (size_t i = 0; i < n; i++)
        if (!area[i].loose)
            area[kept++] = area[i];
    walk->areas.n = kept;
}

static void count_mmapped(struct hx_glibc_walk *walk)
{
    walk->n_mmapped = walk->mmapped_bytes = 0;
    for (size_t i = 0; i < walk->areas.n; i++)
        if (walk->areas.v[i].kind == HX_AREA_MMAPPED) {
            walk->n_mmapped++;
            walk->mmapped_bytes += walk->areas.v[i].end - walk->areas.v[i].start;
        }
}

/* What mp_ counts; false where it is not known. */
static bool counted_mmapped(const struct hx_glibc_walk *walk, uint64_t *ret_n, uint64_t *ret_bytes)
{
    *ret_n = *ret_bytes = 0;
    for (size_t i = 0; i < walk->glibc->n_mains; i++) {
        if (!walk->param[i].addr)
            return false;
        *ret_n += (uint64_t)walk->param[i].n_mmaps;
        *ret_bytes += walk->param[i].mmapped_mem;
    }
    return true;
}

/* Are there others than mp_ counts? Then some may have moved. */
static bool misses_mmapped(struct hx_glibc_walk *walk)
{
    uint64_t n, bytes;
    if (!counted_mmapped(walk, &n, &bytes))
        return false;
    count_mmapped(walk);
    return walk->n_mmapped != n || walk->mmapped_bytes != bytes;
}

/* Forgets what scan_nameless() found. */
static void forget_nameless(struct hx_glibc_walk *walk)
{
    size_t kept = 0;
    for (size_t i = 0; i < walk->areas.n; i++)
        if (walk->areas.v[i].kind != HX_AREA_MMAPPED && walk->areas.v[i].kind != HX_AREA_RUN)
            walk->areas.v[kept++] = walk->areas.v[i];
    walk->areas.n = kept;
    walk->piece_failures = 0;
}

static void verify_mmapped(struct hx_glibc_walk *walk)
{
    uint64_t n, bytes;
    if (!counted_mmapped(walk, &n, &bytes))
        return;
    count_mmapped(walk);
    if (walk->n_mmapped > n && walk->mmapped_bytes > bytes) {
        drop_surplus(walk, walk->n_mmapped - n, walk->mmapped_bytes - bytes);
        count_mmapped(walk);
    }
}

/* A mapping of a core can be said to lie where no process has memory. */
static void drop_impossible(struct hx_glibc_walk *walk)
{
    size_t kept = 0;
    for (size_t i = 0; i < walk->areas.n; i++) {
        const struct hx_glibc_area *area = &walk->areas.v[i];
        if (area->end <= ADDRESS_END)
            walk->areas.v[kept++] = *area;
        else
            hx_snapshot_lose(walk->snapshot, "heap memory beyond the address space", 1,
                             area->end - area->start, area->start);
    }
    if (kept < walk->areas.n)
        hx_snapshot_note(walk->snapshot, true, "%zu parts of the heap lie beyond the address space",
                         walk->areas.n - kept);
    walk->areas.n = kept;
}

hx_error *hx_glibc_areas(struct hx_glibc_walk *walk)
{
    /* Every heap has a page of its own: a chain of them that is longer goes in circles. */
    walk->pages = 1;
    for (size_t i = 0; i < walk->image->n; i++)
        walk->pages += (walk->image->span[i].end - walk->image->span[i].start) / HX_GLIBC_PAGE;
    for (uint32_t i = 0; i < walk->arenas.n; i++)
        if (!walk->arenas.v[i].is_main && walk->arenas.v[i].top)
            HX_TRY(heaps_of(walk, i));
    HX_TRY(brk_areas(walk));
    size_t lost = sort_areas(walk);
    if (lost)
        hx_snapshot_note(walk->snapshot, true, "%zu heaps overlap others", lost);
    HX_TRY(scan_nameless(walk, false));
    sort_areas(walk);
    if (misses_mmapped(walk)) {
        forget_nameless(walk);
        HX_TRY(scan_nameless(walk, true));
        sort_areas(walk);
    }
    drop_impossible(walk);
    verify_mmapped(walk);
    return NULL;
}
