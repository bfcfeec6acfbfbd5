/* tbbmalloc.c - oneTBB's scalable allocator: from its table of back references to blocks.
 *
 * Small blocks lie in slabs of 16 KiB, which fill up from their end; large ones have a header of
 * their own. The table has an entry for each slab and each large block, which lead back to it. What
 * of its regions is in neither is free. Slabs count the blocks that their thread has not got back,
 * leaves of the table count their entries, and the pool its memory: that is the proof.
 *
 * An aligned block of a kilobyte and more is a part of a larger one, and nothing tells which: the
 * larger one is the object, and pointers of the program lead into it.
 */
#include "attach/alloc/tbbmalloc.h"

#include "attach/alloc/slabs.h"
#include "base/cleanup.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    THREADS_MAX = 1 << 16,
    POOLED_MAX = 1 << 10, /* slabs that one thread keeps; it would give some back at 32 */
    LINE = 64,            /* bytes of the processor's cache */
    LARGE_TAG = 1,        /* of slabs that are one large block, which is free */
};

struct walk {
    const struct hx_tbbmalloc *tbb;
    struct hx_snapshot *snapshot;
    const struct hx_image *image;
    const struct hx_progress *progress;
    struct hx_slabs slabs;
    HX_VEC(uint64_t) pooled; /* slabs that threads keep for later, sorted */
    hx_ranges regions;
    uint64_t mapped_bytes; /* of the whole target */
    uint64_t region_bytes;
    uint64_t unknown_bytes; /* of regions, neither known blocks nor free ones */
    uint64_t n_slabs, n_large, n_cached, n_threads;
    uint64_t n_damaged; /* entries that lead to neither */
    uint64_t in_flight; /* blocks that are neither counted nor free */
    uint64_t disagree;  /* counts that are not those of what they count */
    uint8_t leaf[HX_TBB_SLAB];
};

static uint16_t load16(const uint8_t *at)
{
    uint16_t quarter;
    memcpy(&quarter, at, sizeof quarter);
    return quarter;
}

static uint64_t load_pool(const struct walk *walk, uint64_t offset)
{
    uint64_t word = 0;
    if (!hx_image_u64(walk->image, walk->tbb->backend + offset, &word))
        return 0;
    return word;
}

/* --- what threads keep ----------------------------------------------------------------- */

static int by_address(const void *a, const void *b)
{
    const uint64_t *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

static hx_error *find_pooled(struct walk *walk)
{
    uint64_t thread = walk->tbb->first_thread, prev = 0, back, slab;
    for (; thread && walk->n_threads < THREADS_MAX; walk->n_threads++) {
        if (!hx_image_u64(walk->image, thread + 8, &back) || back != prev ||
            !hx_image_u64(walk->image, thread + HX_TBB_TLS_SLABS, &slab)) {
            walk->disagree++;
            break;
        }
        for (int i = 0; slab && !(slab & (HX_TBB_SLAB - 1)) && i < POOLED_MAX; i++) {
            HX_NEED(hx_vec_push(&walk->pooled, slab));
            if (!hx_image_u64(walk->image, slab + HX_TBB_NEXT, &slab))
                slab = 0;
        }
        prev = thread;
        if (!hx_image_u64(walk->image, thread, &thread))
            thread = 0;
    }
    if (walk->pooled.n)
        qsort(walk->pooled.v, walk->pooled.n, sizeof *walk->pooled.v, by_address);
    return NULL;
}

static bool is_pooled(const struct walk *walk, uint64_t slab)
{
    return walk->pooled.n &&
           bsearch(&slab, walk->pooled.v, walk->pooled.n, sizeof *walk->pooled.v, by_address);
}

/* --- slabs ----------------------------------------------------------------------------- */

/* Blocks of all sizes, each behind a word that says how long it is. Freed ones look like those in
 * use. */
static hx_error *add_startup(struct walk *walk, uint64_t addr, const uint8_t *bytes)
{
    uint64_t end = hx_load_u64(bytes + HX_TBB_BUMP) - addr, at = HX_TBB_HEADER;
    HX_TRY(hx_slabs_add_memory(&walk->slabs, addr, addr + HX_TBB_HEADER, HX_BLOCK_OWN));
    while (end <= HX_TBB_SLAB && at + 8 < end) {
        uint64_t size = hx_load_u64(bytes + at);
        if (!size || size & 7 || size > end - at - 8)
            break;
        struct hx_slab slab = {.start = addr + at,
                               .end = addr + at + 8 + size,
                               .first = addr + at + 8,
                               .stride = size,
                               .usable = size,
                               .n = 1,
                               .rest = HX_BLOCK_OWN};
        HX_TRY(hx_slabs_add(&walk->slabs, &slab));
        at += 8 + size;
    }
    walk->disagree += at != end;
    return hx_slabs_add_memory(&walk->slabs, addr + at, addr + HX_TBB_SLAB, HX_BLOCK_FREE);
}

static hx_error *add_slab(struct walk *walk, uint64_t addr, const uint8_t *bytes)
{
    uint64_t size = load16(bytes + HX_TBB_SIZE);
    struct hx_slab slab = {
        .start = addr, .end = addr + HX_TBB_SLAB, .rest = HX_BLOCK_OWN, .tag = addr};
    walk->n_slabs++;
    if (size == HX_TBB_STARTUP)
        return add_startup(walk, addr, bytes);
    if (!size || is_pooled(walk, addr)) {
        slab.first = addr;
        slab.usable = slab.stride = HX_TBB_SLAB;
        slab.n = 1;
        slab.tag = LARGE_TAG;
    } else if (size & 7 || size > HX_TBB_SIZE_MAX) {
        walk->n_damaged++;
        return NULL;
    } else {
        slab.n = (uint32_t)((HX_TBB_SLAB - HX_TBB_HEADER) / size);
        slab.first = slab.end - slab.n * size;
        slab.usable = slab.stride = size;
    }
    return hx_slabs_add(&walk->slabs, &slab);
}

/* --- large blocks ---------------------------------------------------------------------- */

/* Back references to a large block lead to the header right before what the program has. */
static hx_error *add_large(struct walk *walk, uint64_t header, uint32_t number, uint32_t index)
{
    const uint8_t *at = hx_image_at(walk->image, header, HX_TBB_LARGE_HEADER);
    uint64_t block = at ? hx_load_u64(at) : 0, object = header + HX_TBB_LARGE_HEADER;
    const uint8_t *large = block < header ? hx_image_at(walk->image, block, HX_TBB_LARGE) : NULL;
    if (!large || object & 63 || object - block < HX_TBB_LARGE + HX_TBB_LARGE_HEADER) {
        walk->n_damaged++;
        return NULL;
    }
    if (hx_load_u64(large + HX_TBB_LARGE_POOL) != walk->tbb->backend - HX_TBB_POOL_BACKEND)
        return NULL; /* of a pool that the program made, in memory that it gave */
    uint64_t bytes = hx_load_u64(large + HX_TBB_LARGE_BYTES);
    uint64_t asked = hx_load_u64(large + HX_TBB_LARGE_ASKED);
    bool live = hx_load_u32(at + 8) == number && load16(at + 12) == index;
    bool cached = hx_load_u32(at + 8) == UINT32_MAX;
    if (bytes < object - block || bytes > walk->mapped_bytes ||
        (live && asked > bytes - (object - block)) || (!live && !cached) ||
        hx_load_u32(large + HX_TBB_LARGE_INDEX) != number) {
        walk->n_damaged++;
        return NULL;
    }
    struct hx_slab slab = {.start = block, .end = block + bytes, .n = 1, .rest = HX_BLOCK_OWN};
    slab.first = live ? object : block;
    slab.usable = slab.stride = !live ? bytes : asked ? asked : 1; /* an object is not empty */
    slab.tag = live ? 0 : LARGE_TAG;
    walk->n_large += live;
    walk->n_cached += cached;
    return hx_slabs_add(&walk->slabs, &slab);
}

/* --- back references ------------------------------------------------------------------- */

static hx_error *visit_entry(struct walk *walk, uint64_t word, uint32_t number, uint32_t offset)
{
    uint32_t index = offset << 1;
    if (word & (HX_TBB_SLAB - 1))
        return add_large(walk, word, number, index | 1);
    const uint8_t *bytes = hx_image_at(walk->image, word, HX_TBB_SLAB);
    const uint8_t *head = bytes ? bytes : hx_image_at(walk->image, word, HX_TBB_HEADER);
    if (!head || hx_load_u32(head + HX_TBB_INDEX) != number ||
        load16(head + HX_TBB_INDEX + 4) != index) {
        walk->n_damaged++;
        return NULL;
    }
    if (bytes || load16(head + HX_TBB_SIZE) != HX_TBB_STARTUP)
        return add_slab(walk, word, head);
    walk->n_damaged++;
    return NULL;
}

/* Entries that are free lead to others of the same leaf. */
static hx_error *walk_leaf(struct walk *walk, uint64_t leaf, uint32_t number)
{
    const uint8_t *bytes = walk->leaf;
    uint32_t n = 0;
    if (leaf & (HX_TBB_SLAB - 1) && leaf & 4095)
        return NULL;
    if (!hx_image_read(walk->image, leaf, walk->leaf, sizeof walk->leaf) ||
        hx_load_u32(bytes + HX_TBB_LEAF_NUMBER) != number) {
        walk->n_damaged++;
        return NULL;
    }
    for (uint32_t i = 0; i < HX_TBB_ENTRIES; i++) {
        uint64_t word = hx_load_u64(bytes + HX_TBB_LEAF + (size_t)i * 8);
        if (!word || (word >= leaf && word < leaf + HX_TBB_SLAB))
            continue;
        n++;
        HX_TRY(visit_entry(walk, word, number, i));
    }
    walk->disagree += n != hx_load_u32(bytes + HX_TBB_LEAF_COUNT);
    return hx_slabs_add_memory(&walk->slabs, leaf, leaf + HX_TBB_SLAB, HX_BLOCK_OWN);
}

static hx_error *walk_table(struct walk *walk)
{
    uint64_t main = walk->tbb->main, last, leaf, room = walk->image->n ? 0 : 1;
    HX_TRY(hx_slabs_add_memory(&walk->slabs, main, main + HX_TBB_MAIN, HX_BLOCK_OWN));
    for (size_t i = 0; i < walk->image->n; i++)
        room += (walk->image->span[i].end - walk->image->span[i].start) / HX_TBB_SLAB + 1;
    if (!hx_image_u64(walk->image, main + HX_TBB_MAIN_LAST, &last) || last >= HX_TBB_LEAVES_MAX ||
        last >= room) {
        walk->n_damaged++;
        return NULL;
    }
    for (uint64_t i = 0; i <= last; i++) {
        if (hx_image_u64(walk->image, main + HX_TBB_MAIN_LEAVES + i * 8, &leaf))
            HX_TRY(walk_leaf(walk, leaf, (uint32_t)i));
        else
            walk->n_damaged++;
        if (hx_progress_cancelled(walk->progress))
            return hx_error_cancelled("heap");
    }
    return NULL;
}

/* --- regions --------------------------------------------------------------------------- */

static int by_start(const void *a, const void *b)
{
    const struct hx_range *x = a, *y = b;
    return (x->start > y->start) - (x->start < y->start);
}

static hx_error *find_regions(struct walk *walk)
{
    uint64_t region = load_pool(walk, HX_TBB_REGIONS), prev = 0, mapped = 0;
    for (size_t i = 0; i < walk->snapshot->n_mappings; i++)
        mapped += walk->snapshot->mapping[i].end - walk->snapshot->mapping[i].start;
    walk->mapped_bytes = mapped;
    while (region) {
        const uint8_t *at = hx_image_at(walk->image, region, HX_TBB_REGION);
        uint64_t bytes = at ? hx_load_u64(at + HX_TBB_REGION_BYTES) : 0;
        if (!at || hx_load_u64(at + 8) != prev || bytes < HX_TBB_REGION || bytes > mapped) {
            walk->n_damaged++;
            break;
        }
        mapped -= bytes;
        walk->region_bytes += bytes;
        HX_NEED(hx_vec_push(&walk->regions, (struct hx_range){region, region + bytes}));
        prev = region;
        region = hx_load_u64(at);
    }
    if (walk->regions.n)
        qsort(walk->regions.v, walk->regions.n, sizeof *walk->regions.v, by_start);
    uint64_t total = load_pool(walk, HX_TBB_TOTAL);
    walk->disagree += walk->region_bytes != total;
    if (total > walk->region_bytes && total <= walk->mapped_bytes)
        walk->unknown_bytes += total - walk->region_bytes;
    return NULL;
}

/* Where the free blocks from an address on end. */
static uint64_t free_until(const struct walk *walk, uint64_t from, uint64_t end)
{
    uint64_t bytes;
    while (
        from < end && hx_image_u64(walk->image, from, &bytes) &&
        (bytes != HX_TBB_WAITS || hx_image_u64(walk->image, from + HX_TBB_WAITING_BYTES, &bytes)) &&
        bytes >= 64 && !(bytes & 7) && bytes <= end - from)
        from += bytes;
    return from;
}

/* Memory in which nothing was found should be free. */
static hx_error *add_gap(struct walk *walk, uint64_t from, uint64_t end)
{
    uint64_t until = free_until(walk, from, end);
    if (from < until)
        HX_TRY(hx_slabs_add_memory(&walk->slabs, from, until, HX_BLOCK_FREE));
    if (until < end) {
        walk->unknown_bytes += end - until;
        walk->disagree++;
    }
    return NULL;
}

/* Adds what of a region is not used. `used`: in order of address; *at: the first that ends in the
 * region. */
static hx_error *add_region(struct walk *walk, const struct hx_range *region, const hx_ranges *used,
                            size_t *at)
{
    uint64_t block = 0, from = region->start + HX_TBB_REGION, end = region->end;
    uint32_t type = 0;
    hx_image_u64(walk->image, region->start + HX_TBB_REGION_BLOCK, &block);
    hx_image_u32(walk->image, region->start + HX_TBB_REGION_TYPE, &type);
    if (type)
        from = (from + 63) & ~(uint64_t)63;
    HX_TRY(hx_slabs_add_memory(&walk->slabs, region->start, from, HX_BLOCK_OWN));
    if (from < end && block < end - from)
        end = from + block;
    for (; *at < used->n && used->v[*at].start < end; ++*at) {
        const struct hx_range *range = &used->v[*at];
        if (range->start > from)
            HX_TRY(add_gap(walk, from, range->start));
        from = range->end > from ? range->end : from;
    }
    if (from < end)
        HX_TRY(add_gap(walk, from, end));
    from = from > end ? from : end;
    if (from < region->end)
        HX_TRY(hx_slabs_add_memory(&walk->slabs, from, region->end, HX_BLOCK_OWN));
    return NULL;
}

static hx_error *add_regions(struct walk *walk)
{
    hx_ranges used = {0};
    size_t n = walk->slabs.slab.n, at = 0;
    hx_error *err = NULL;
    for (size_t i = 0; i < n && !err; i++) {
        const struct hx_slab *slab = &walk->slabs.slab.v[i];
        if (!hx_vec_push(&used, (struct hx_range){slab->start, slab->end}))
            err = hx_error_nomem();
    }
    if (used.n)
        qsort(used.v, used.n, sizeof *used.v, by_start);
    for (size_t i = 0; i < walk->regions.n && !err; i++) {
        while (at < used.n && used.v[at].end <= walk->regions.v[i].start)
            at++;
        err = add_region(walk, &walk->regions.v[i], &used, &at);
    }
    hx_vec_free(&used);
    return err;
}

/* --- free blocks ----------------------------------------------------------------------- */

/* Marks the blocks of a list of a slab, whose memory is `bytes` if it is in one piece; returns how
 * many. It ends with nothing or an odd word. */
static uint64_t mark_list(struct walk *walk, const struct hx_slab *slab, const uint8_t *bytes,
                          uint64_t addr)
{
    uint64_t n = 0;
    for (; addr && !(addr & 1); n++) {
        uint64_t i = hx_slab_block(slab, addr);
        if (i == UINT64_MAX)
            walk->slabs.stray++;
        if (i == UINT64_MAX || !hx_slabs_mark(&walk->slabs, slab, i, HX_BLOCK_FREE))
            return n;
        addr = bytes ? hx_load_u64(bytes + (addr - slab->start)) : hx_slabs_link(walk->image, addr);
    }
    return n;
}

/* Blocks up to the one that comes next were never used; returns how many. */
static uint64_t mark_unused(struct walk *walk, const struct hx_slab *slab, uint64_t next)
{
    uint64_t i = next ? hx_slab_block(slab, next) : UINT64_MAX;
    if (i == UINT64_MAX) {
        walk->slabs.stray += next != 0;
        return 0;
    }
    for (uint64_t k = 0; k <= i; k++)
        hx_slabs_mark(&walk->slabs, slab, k, HX_BLOCK_FREE);
    return i + 1;
}

static void mark_own(struct walk *walk, const struct hx_slab *slab)
{
    for (uint32_t i = 0; i < slab->n; i++)
        if (hx_slabs_use(&walk->slabs, slab, i) == HX_BLOCK_LIVE)
            hx_slabs_mark(&walk->slabs, slab, i, HX_BLOCK_OWN);
}

static void mark_slab(struct walk *walk, const struct hx_slab *slab)
{
    const uint8_t *bytes = hx_image_at(walk->image, slab->tag, HX_TBB_SLAB);
    const uint8_t *head = bytes ? bytes : hx_image_at(walk->image, slab->tag, HX_TBB_HEADER);
    if (!head)
        return;
    /* Lists lead criss-cross through memory that nobody has looked at yet. */
    for (uint64_t i = 0; bytes && i < HX_TBB_SLAB; i += LINE)
        __builtin_prefetch(bytes + i);
    uint64_t count = load16(head + HX_TBB_COUNT), list = hx_load_u64(head + HX_TBB_FREE);
    uint64_t unused = mark_unused(walk, slab, hx_load_u64(head + HX_TBB_BUMP));
    uint64_t n = mark_list(walk, slab, bytes, list);
    uint64_t foreign = mark_list(walk, slab, bytes, hx_load_u64(head + HX_TBB_PUBLIC));
    /* Blocks in which it keeps what threads have: nobody counts these. */
    if (!count && !n && !foreign && unused < slab->n && !hx_load_u64(head + HX_TBB_OWNER))
        mark_own(walk, slab);
    else if (unused + n + count + 1 == slab->n && foreign <= count)
        walk->in_flight++;
    else
        walk->disagree += unused + n + count != slab->n || foreign > count;
}

static hx_error *mark_free(struct walk *walk)
{
    for (size_t i = 0; i < walk->slabs.slab.n; i++) {
        const struct hx_slab *slab = &walk->slabs.slab.v[i];
        if (slab->tag == LARGE_TAG && slab->n)
            hx_slabs_mark(&walk->slabs, slab, 0, HX_BLOCK_CACHED);
        else if (slab->tag)
            mark_slab(walk, slab);
        if (i % 4096 == 0 && hx_progress_cancelled(walk->progress))
            return hx_error_cancelled("heap");
    }
    return NULL;
}

/* --- proof ----------------------------------------------------------------------------- */

static enum hx_walk_verdict judge(struct walk *walk)
{
    struct hx_snapshot *snapshot = walk->snapshot;
    bool bad = hx_slabs_tell(&walk->slabs, "tbbmalloc", snapshot);
    /* Each thread may be about to take one or give one back, for which it takes no lock. */
    if (walk->in_flight > snapshot->n_threads)
        walk->disagree += walk->in_flight;
    else if (walk->in_flight)
        hx_snapshot_note(snapshot, false,
                         "%" PRIu64 " blocks were on their way through tbbmalloc and count as live",
                         walk->in_flight);
    if (walk->n_damaged) {
        hx_snapshot_note(snapshot, true,
                         "%" PRIu64 " entries of tbbmalloc's tables and lists lead nowhere",
                         walk->n_damaged);
        hx_snapshot_lose(snapshot, "runs of an allocator's memory that cannot be", walk->n_damaged,
                         0, 0);
    }
    if (walk->disagree) {
        hx_snapshot_note(snapshot, true,
                         "%" PRIu64 " counts of tbbmalloc disagree with what they count (damaged, "
                         "or an update was under way): a few blocks can be wrong",
                         walk->disagree);
        hx_snapshot_lose(snapshot, "malloc's lists or counts that disagree with the blocks",
                         walk->disagree, 0, 0);
    }
    /* What is damaged or under way cannot be told apart: there are few locks. */
    bad |= walk->n_damaged != 0;
    return bad || walk->disagree ? HX_WALK_TORN : HX_WALK_OK;
}

static hx_error *tell_evidence(const struct walk *walk, struct hx_allocator_share *share,
                               enum hx_walk_verdict verdict)
{
    free(share->evidence);
    share->evidence = NULL;
    HX_NEED(asprintf(&share->evidence,
                     "pool by shape at %s+0x%" PRIx64 ", %zu regions, %" PRIu64 " slabs, %" PRIu64
                     " large blocks and %" PRIu64 " cached, %" PRIu64 " threads, counts %s",
                     share->module, walk->tbb->backend - walk->tbb->data, walk->regions.n,
                     walk->n_slabs, walk->n_large, walk->n_cached, walk->n_threads,
                     verdict == HX_WALK_OK ? "agree" : "disagree") >= 0);
    return NULL;
}

static hx_error *refuse(const struct walk *walk, struct hx_allocator_share *share)
{
    free(share->evidence);
    share->claimed_bytes = walk->region_bytes;
    HX_NEED(share->evidence = strdup("its table of back references does not lead to blocks"));
    return NULL;
}

static hx_error *walk_heap(struct walk *walk, struct hx_allocator_share *share, hx_ranges *excluded,
                           enum hx_walk_verdict *ret)
{
    const struct hx_tbbmalloc *tbb = walk->tbb;
    HX_TRY(find_pooled(walk));
    HX_TRY(find_regions(walk));
    HX_TRY(walk_table(walk));
    if (walk->n_damaged > walk->n_slabs + walk->n_large + walk->n_cached)
        return refuse(walk, share);
    HX_TRY(add_regions(walk));
    HX_TRY(hx_slabs_sort(&walk->slabs));
    HX_TRY(mark_free(walk));
    if (tbb->threads)
        HX_NEED(hx_vec_push(excluded, (struct hx_range){tbb->backend, tbb->threads + 8}));
    *ret = judge(walk);
    share->proven = true;
    HX_TRY(hx_slabs_put(&walk->slabs, NULL, walk->snapshot, share, walk->progress));
    share->claimed_bytes += walk->unknown_bytes;
    return tell_evidence(walk, share, *ret);
}

static hx_error *tbbmalloc_walk(void *state, struct hx_snapshot *snapshot,
                                struct hx_allocator_share *share, hx_ranges *excluded,
                                const struct hx_progress *progress, enum hx_walk_verdict *ret)
{
    HX_FREE struct walk *walk = calloc(1, sizeof *walk);
    HX_NEED(walk);
    walk->tbb = state;
    walk->snapshot = snapshot;
    walk->image = &snapshot->image;
    walk->progress = progress;
    hx_slabs_init(&walk->slabs, snapshot);
    *ret = HX_WALK_OK;
    hx_error *err = walk_heap(walk, share, excluded, ret);
    hx_slabs_deinit(&walk->slabs);
    hx_vec_free(&walk->pooled);
    hx_vec_free(&walk->regions);
    return err;
}

const struct hx_allocator hx_allocator_tbbmalloc = {.name = "tbbmalloc",
                                                    .linked = true,
                                                    .find = hx_tbb_find,
                                                    .guard = hx_tbb_guard,
                                                    .walk = tbbmalloc_walk,
                                                    .end = free};
