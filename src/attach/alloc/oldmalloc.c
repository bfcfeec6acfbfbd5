/* oldmalloc.c - the allocator of musl up to 1.2.0.
 *
 * Chunks as Doug Lea's have them: in front of a block the sizes of the chunk before and of its own,
 * bit 0: in use. Runs of them go from a chunk behind which nothing is (size before it 0) to one of
 * size 0; each chunk's size stands in the next one, too, which proves a run. Where runs begin
 * nothing tells: it is at the beginnings of pages, or where the dynamic linker left memory over.
 * The table of 64 bins is proven by its links, and its chunks are those that are free. A large
 * block has a mapping of its own with a header that no run has.
 */
#include "attach/alloc/musl.h"
#include "attach/alloc/slabs.h"

#include "base/cleanup.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    ALIGN = 32,
    OVERHEAD = 16, /* two sizes */
    PAGE = 4096,
    BINS = 64,
    BIN_BYTES = 24, /* lock, waiters, head, tail */
    TABLE_BYTES = 8 + BINS * BIN_BYTES,
    OWN_MIN = 0x1c00 * ALIGN, /* larger ones have mappings of their own */
};

enum { DONATED_MAX = 256 };

struct state {
    uint64_t table;
    struct hx_range code;
    /* memory that the dynamic linker may have left over: around the data of modules */
    struct hx_range donated[DONATED_MAX];
    size_t n_donated;
};

/* The pretended chunk whose links are those of bin i. */
static uint64_t bin_chunk(uint64_t table, unsigned i)
{
    return table + 8 + i * (uint64_t)BIN_BYTES + 8 - OVERHEAD;
}

/* --- where it is ------------------------------------------------------------------------ */

static void read_bin(const uint8_t *bytes, unsigned i, uint64_t *head, uint64_t *tail)
{
    memcpy(head, bytes + 8 + i * BIN_BYTES + 8, sizeof *head);
    memcpy(tail, bytes + 8 + i * BIN_BYTES + 16, sizeof *tail);
}

/* A bin that is empty leads to itself, or nowhere before its first use; one that is not has a bit
 * in the map and a chunk whose links lead back. All must fit, and some be used. */
static bool is_table(const struct hx_peek *peek, uint64_t addr, const uint8_t *bytes)
{
    uint64_t map, head, tail, back;
    unsigned used = 0;
    memcpy(&map, bytes, sizeof map);
    for (unsigned i = 0; i < BINS; i++) {
        uint64_t self = bin_chunk(addr, i);
        read_bin(bytes, i, &head, &tail);
        if (!head && !tail)
            continue;
        if (head == self ? tail != self : !(map >> i & 1))
            return false;
        if (head != self &&
            (head % 16 || tail % 16 || !hx_peek_u64(peek, head + 24, &back) || back != self))
            return false;
        used++;
    }
    return used != 0;
}

static bool find_table(void *context, const struct hx_alloc_target *target, uint64_t start,
                       uint64_t end)
{
    enum { STEP = PAGE };
    struct state *ret = context;
    uint8_t bytes[STEP + TABLE_BYTES];
    for (uint64_t at = (start + 7) & ~UINT64_C(7); at + TABLE_BYTES <= end; at += STEP) {
        size_t n = end - at < sizeof bytes ? end - at : sizeof bytes;
        hx_peek_pages(target->peek, at, bytes, n);
        for (size_t i = 0; i < STEP && i + TABLE_BYTES <= n; i += 8)
            if (is_table(target->peek, at + i, bytes + i)) {
                ret->table = at + i;
                return true;
            }
    }
    return false;
}

static void add_rest(struct state *state, uint64_t start, uint64_t end)
{
    start += ((ALIGN - 1) & (0 - start - OVERHEAD)); /* where a chunk can begin */
    if (start + ALIGN + OVERHEAD < end && state->n_donated < DONATED_MAX)
        state->donated[state->n_donated++] = (struct hx_range){start, end};
}

static void find_rests(const struct hx_alloc_target *target, struct state *state)
{
    enum { RANGES = 16 };
    uint64_t ranges[RANGES][2];
    for (size_t i = 0; i < hx_modules_count(target->modules); i++) {
        size_t n = hx_module_data(target->modules, i, ranges, RANGES);
        for (size_t k = 0; k < n; k++) {
            add_rest(state, ranges[k][0] / PAGE * PAGE, ranges[k][0]);
            add_rest(state, ranges[k][1], (ranges[k][1] + PAGE - 1) / PAGE * PAGE);
        }
    }
}

static hx_error *oldmalloc_find(const struct hx_alloc_target *target,
                                struct hx_allocator_share *share, void **ret_state)
{
    HX_FREE struct state *state = calloc(1, sizeof *state);
    size_t module;
    *ret_state = NULL;
    HX_NEED(state);
    if (!hx_musl_search(target, find_table, state, &module))
        return NULL;
    hx_musl_code(target->modules, module, &state->code);
    find_rests(target, state);
    *ret_state = hx_steal(state);
    share->name = strdup("oldmalloc");
    share->version = hx_musl_version(target, module);
    share->module = strdup(hx_module_name(target->modules, module));
    share->evidence = strdup("table of bins by shape");
    HX_NEED(share->name && share->module && share->evidence);
    return NULL;
}

/* A lock for each bin, and one for all. */
static hx_error *oldmalloc_guard(void *context, const struct hx_alloc_target *target,
                                 struct hx_guard *ret)
{
    (void)target;
    const struct state *state = context;
    if (state->code.start < state->code.end)
        HX_NEED(hx_vec_push(&ret->code, state->code));
    for (unsigned i = 0; i <= BINS; i++) {
        struct hx_lock_word lock = {state->table + 8 + i * (uint64_t)BIN_BYTES, UINT32_MAX};
        HX_NEED(hx_vec_push(&ret->locks, lock));
    }
    return NULL;
}

/* --- runs -------------------------------------------------------------------------------- */

struct walk {
    const struct state *state;
    struct hx_snapshot *snapshot;
    const struct hx_image *image;
    struct hx_slabs slabs;
    uint64_t runs, alone;
    uint64_t damaged, damaged_bytes;
    uint64_t free_chunks, binned; /* by their tags; in the bins */
};

static bool read_sizes(const struct walk *walk, uint64_t chunk, uint64_t ret[2])
{
    const uint8_t *bytes = hx_image_at(walk->image, chunk, 2 * sizeof *ret);
    if (bytes)
        memcpy(ret, bytes, 2 * sizeof *ret);
    return bytes || hx_image_read(walk->image, chunk, ret, 2 * sizeof *ret);
}

/* Follows the chunks from `chunk` to the end of their run; *ret_end is behind the last one that
 * makes sense. False: the run broke before its end. */
static bool follow_run(const struct walk *walk, uint64_t chunk, uint64_t limit, uint64_t *ret_end,
                       uint64_t *ret_n)
{
    uint64_t sizes[2], next[2];
    *ret_end = chunk;
    *ret_n = 0;
    if (!read_sizes(walk, chunk, sizes))
        return false;
    while (sizes[1] != 1) {
        uint64_t size = sizes[1] & ~UINT64_C(1);
        if (size < ALIGN || size % ALIGN || size > limit - chunk ||
            !read_sizes(walk, chunk + size, next) || next[0] != sizes[1])
            return false;
        chunk += size;
        *ret_end = chunk;
        ++*ret_n;
        memcpy(sizes, next, sizeof sizes);
    }
    return true;
}

/* A run that begins at `chunk`; *ret_end: behind it. False: there is none. What breaks off behind a
 * few chunks looks like one only. */
static hx_error *add_run(struct walk *walk, uint64_t start, uint64_t chunk, uint64_t limit,
                         uint64_t *ret_end, bool *ret)
{
    enum { FEW = 4 };
    uint64_t end, n;
    bool whole = follow_run(walk, chunk, limit, &end, &n);
    *ret = whole ? n != 0 : n > FEW;
    if (!*ret)
        return NULL;
    if (!whole) {
        walk->damaged++;
        walk->damaged_bytes += limit - end;
    }
    walk->runs++;
    *ret_end = end + OVERHEAD;
    struct hx_slab slab = {.start = start,
                           .end = end + OVERHEAD,
                           .first = chunk + OVERHEAD,
                           .stride = ALIGN,
                           .usable = OVERHEAD,
                           .n = (uint32_t)((end - chunk) / ALIGN),
                           .rest = HX_BLOCK_OWN,
                           .wide = true};
    return (end - chunk) / ALIGN <= UINT32_MAX ? hx_slabs_add(&walk->slabs, &slab) : NULL;
}

/* A large block at the beginning of a page. */
static bool is_alone(const uint64_t sizes[2], uint64_t room)
{
    return sizes[0] == ALIGN - OVERHEAD && !(sizes[1] & 1) && sizes[1] >= PAGE / 2 &&
           (sizes[1] + ALIGN - OVERHEAD) % PAGE == 0 && sizes[1] + ALIGN - OVERHEAD <= room;
}

/* One that was aligned has a second header in front of the block, with how far it is moved. */
static hx_error *add_alone(struct walk *walk, uint64_t at, uint64_t size)
{
    uint64_t end = at + ALIGN - OVERHEAD + size, block = at + ALIGN, sizes[2];
    for (unsigned k = 6; k < 48 && block == at + ALIGN; k++) {
        uint64_t moved = (block + (UINT64_C(1) << k) - 1) >> k << k;
        if (moved >= end || moved == block)
            continue;
        if (read_sizes(walk, moved - OVERHEAD, sizes) && sizes[0] == moved - OVERHEAD - at &&
            sizes[1] == end - (moved - OVERHEAD))
            block = moved;
    }
    walk->alone++;
    struct hx_slab slab = {.start = at,
                           .end = end,
                           .first = block,
                           .usable = end - block,
                           .n = 1,
                           .rest = HX_BLOCK_OWN};
    return hx_slabs_add(&walk->slabs, &slab);
}

/* Runs and large blocks at the beginnings of pages of [start, end). Between two of them pages of
 * others may lie. */
static hx_error *search_pages(struct walk *walk, uint64_t start, uint64_t end)
{
    uint64_t sizes[2], after;
    bool found;
    for (uint64_t at = start; at < end; at = (after + PAGE - 1) / PAGE * PAGE) {
        after = at + 1;
        if (!read_sizes(walk, at + ALIGN - OVERHEAD, sizes))
            continue;
        if (is_alone(sizes, end - at)) {
            HX_TRY(add_alone(walk, at, sizes[1]));
            after = at + ALIGN - OVERHEAD + sizes[1];
        } else if (sizes[0] == 1 && sizes[1] & 1) {
            HX_TRY(add_run(walk, at, at + ALIGN - OVERHEAD, end, &after, &found));
            after = found ? after : at + 1;
        }
    }
    return NULL;
}

static hx_error *search_mappings(struct walk *walk)
{
    const struct hx_snapshot *snapshot = walk->snapshot;
    for (size_t i = 0; i < snapshot->n_mappings; i++) {
        const struct hx_mapping *mapping = &snapshot->mapping[i];
        if (mapping->prot & HX_PROT_W && !mapping->inode &&
            (!mapping->path[0] || strcmp(mapping->path, "[heap]") == 0))
            HX_TRY(search_pages(walk, mapping->start, mapping->end));
    }
    return NULL;
}

static hx_error *search_donated(struct walk *walk)
{
    for (size_t i = 0; i < walk->state->n_donated; i++) {
        const struct hx_range *rest = &walk->state->donated[i];
        uint64_t sizes[2], end;
        bool found;
        if (read_sizes(walk, rest->start, sizes) && sizes[0] == 1)
            HX_TRY(add_run(walk, rest->start, rest->start, rest->end, &end, &found));
    }
    return NULL;
}

/* How many chunks are in the bins; a list is as long as memory allows. */
static uint64_t count_binned(const struct walk *walk)
{
    uint64_t max = 0, n = 0;
    for (size_t i = 0; i < walk->image->n; i++)
        max += (walk->image->span[i].end - walk->image->span[i].start) / ALIGN;
    for (unsigned i = 0; i < BINS; i++) {
        uint64_t self = bin_chunk(walk->state->table, i), at = self;
        while (hx_image_u64(walk->image, at + OVERHEAD, &at) && at && at != self && n < max)
            n++;
    }
    return n;
}

/* --- blocks ------------------------------------------------------------------------------- */

static void mark_run(struct walk *walk, const struct hx_slab *slab)
{
    uint64_t chunk = slab->first - OVERHEAD, sizes[2];
    for (uint64_t i = 0; i < slab->n;) {
        if (!read_sizes(walk, chunk, sizes))
            return;
        uint64_t n = (sizes[1] & ~UINT64_C(1)) / ALIGN;
        bool in_use = sizes[1] & 1;
        walk->free_chunks += !in_use;
        for (uint64_t k = in_use; k < n && i + k < slab->n; k++)
            hx_slabs_mark(&walk->slabs, slab, i + k, in_use ? HX_BLOCK_OWN : HX_BLOCK_FREE);
        i += n ? n : slab->n;
        chunk += n * ALIGN;
    }
}

static bool place_block(void *context, const struct hx_slab *slab, uint32_t i, uint64_t *addr,
                        uint64_t *bytes)
{
    const struct walk *walk = context;
    uint64_t sizes[2];
    (void)i;
    if (slab->wide && read_sizes(walk, *addr - OVERHEAD, sizes))
        *bytes = (sizes[1] & ~UINT64_C(1)) - OVERHEAD;
    else if (slab->wide)
        *bytes = OVERHEAD;
    return true;
}

static enum hx_walk_verdict judge(const struct walk *walk, bool told)
{
    struct hx_snapshot *snapshot = walk->snapshot;
    if (walk->damaged) {
        hx_snapshot_note(snapshot, true,
                         "%" PRIu64 " heap blocks have a damaged header: %" PRIu64
                         " bytes are not explained",
                         walk->damaged, walk->damaged_bytes);
        hx_snapshot_lose(snapshot, "heap blocks with a damaged header", walk->damaged,
                         walk->damaged_bytes, 0);
    }
    if (walk->damaged || told)
        return HX_WALK_BAD;
    if (walk->free_chunks == walk->binned)
        return HX_WALK_OK;
    hx_snapshot_note(snapshot, true,
                     "%" PRIu64 " chunks are free, and %" PRIu64 " are in the bins: a few blocks "
                     "can be wrong",
                     walk->free_chunks, walk->binned);
    hx_snapshot_lose(snapshot, "malloc's lists or counts that disagree with the blocks", 1, 0, 0);
    return HX_WALK_TORN;
}

static hx_error *say_evidence(const struct walk *walk, struct hx_allocator_share *share)
{
    char *evidence;
    HX_NEED(
        asprintf(&evidence,
                 "%s, %" PRIu64 " runs of chunks, %" PRIu64 " blocks with mappings of their own, "
                 "%" PRIu64 " chunks free, %" PRIu64 " in bins",
                 share->evidence, walk->runs, walk->alone, walk->free_chunks, walk->binned) >= 0);
    free(share->evidence);
    share->evidence = evidence;
    share->proven = true;
    return NULL;
}

static hx_error *do_walk(struct walk *walk, struct hx_allocator_share *share, hx_ranges *excluded,
                         const struct hx_progress *progress, enum hx_walk_verdict *ret)
{
    struct hx_slabs_place place = {place_block, walk};
    HX_TRY(search_mappings(walk));
    HX_TRY(search_donated(walk));
    HX_TRY(hx_slabs_sort(&walk->slabs));
    for (size_t i = 0; i < walk->slabs.slab.n; i++)
        if (walk->slabs.slab.v[i].wide)
            mark_run(walk, &walk->slabs.slab.v[i]);
    walk->binned = count_binned(walk);
    HX_TRY(hx_slabs_put(&walk->slabs, &place, walk->snapshot, share, progress));
    share->claimed_bytes += walk->damaged_bytes;
    *ret = judge(walk, hx_slabs_tell(&walk->slabs, share->name, walk->snapshot));
    struct hx_range own = {walk->state->table, walk->state->table + TABLE_BYTES + 8};
    HX_NEED(hx_vec_push(excluded, own));
    return say_evidence(walk, share);
}

static hx_error *oldmalloc_walk(void *state, struct hx_snapshot *snapshot,
                                struct hx_allocator_share *share, hx_ranges *excluded,
                                const struct hx_progress *progress, enum hx_walk_verdict *ret)
{
    struct walk walk = {.state = state, .snapshot = snapshot, .image = &snapshot->image};
    hx_slabs_init(&walk.slabs, snapshot);
    hx_error *err = do_walk(&walk, share, excluded, progress, ret);
    hx_slabs_deinit(&walk.slabs);
    return err;
}

static void oldmalloc_end(void *state)
{
    free(state);
}

const struct hx_allocator hx_allocator_oldmalloc = {.name = "oldmalloc",
                                                    .linked = true,
                                                    .find = oldmalloc_find,
                                                    .guard = oldmalloc_guard,
                                                    .walk = oldmalloc_walk,
                                                    .end = oldmalloc_end};
