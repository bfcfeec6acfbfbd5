/* jemalloc.c - jemalloc 5.2 and 5.3, 64 bit: its table of functions, and the walk.
 *
 * The tree tells all extents; the record of a slab has a bit for each block that is free. Then
 * caches of threads are looked through. The counters of arenas and bins must agree with all that.
 */
#include "attach/alloc/jemalloc.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BLOCKS_MAX = 1 << 20 /* base blocks of one jemalloc */ };

/* All that one target has. */
struct all {
    struct hx_jemalloc *found;
    struct hx_jemalloc_walk walk[HX_JEMALLOC_HEAPS];
    struct hx_slabs slabs;
    struct hx_snapshot *snapshot;
    struct hx_allocator_share *share;
    const struct hx_progress *progress;
};

/* --- arenas and their base blocks ---------------------------------------------------------- */

static bool read_image(void *context, uint64_t addr, void *dst, size_t len)
{
    return hx_image_read(context, addr, dst, len);
}

static hx_error *add_base_blocks(struct hx_jemalloc_walk *walk, uint64_t at)
{
    struct hx_peek peek = {read_image, (void *)walk->image};
    for (uint64_t size, next; at; at = next) {
        if (!hx_jemalloc_is_base(&peek, at, &size, &next) || walk->blocks.n == BLOCKS_MAX) {
            walk->bad_arenas++;
            return NULL;
        }
        HX_NEED(hx_vec_push(&walk->blocks, (struct hx_range){at, at + size}));
        HX_TRY(hx_slabs_add_memory(walk->slabs, at, at + size, HX_BLOCK_OWN));
    }
    return NULL;
}

static hx_error *add_arena(struct hx_jemalloc_walk *walk, uint64_t addr, unsigned number)
{
    const struct hx_jemalloc_layout *layout = walk->layout;
    struct hx_jemalloc_arena arena = {.addr = addr, .number = number};
    uint64_t blocks;
    uint32_t said;
    if (addr & 63 || !hx_image_u64(walk->image, addr + layout->base, &arena.base) ||
        !hx_image_u32(walk->image, arena.base, &said) || said != number ||
        !hx_image_u64(walk->image, arena.base + layout->base_blocks, &blocks)) {
        walk->bad_arenas++;
        return NULL;
    }
    HX_NEED(hx_vec_push(&walk->arenas, arena));
    return add_base_blocks(walk, blocks);
}

static int by_start(const void *a, const void *b)
{
    const struct hx_range *x = a, *y = b;
    return (x->start > y->start) - (x->start < y->start);
}

static hx_error *add_arenas(struct hx_jemalloc_walk *walk)
{
    size_t n = 0;
    for (unsigned i = 0; i < HX_JEMALLOC_ARENAS_MAX; i++) {
        uint64_t addr;
        if (hx_image_u64(walk->image, walk->heap->arenas + 8 * (uint64_t)i, &addr) && addr)
            HX_TRY(add_arena(walk, addr, i));
    }
    if (walk->blocks.n)
        qsort(walk->blocks.v, walk->blocks.n, sizeof *walk->blocks.v, by_start);
    for (size_t i = 0; i < walk->blocks.n; i++)
        if (!n || walk->blocks.v[n - 1].end <= walk->blocks.v[i].start)
            walk->blocks.v[n++] = walk->blocks.v[i];
    walk->blocks.n = n;
    return NULL;
}

/* --- what is free -------------------------------------------------------------------------- */

static void mark_free_blocks(struct hx_jemalloc_walk *walk, const struct hx_slab *slab)
{
    struct hx_jemalloc_extent extent;
    if (!hx_jemalloc_extent(walk, hx_jemalloc_tag_record(slab->tag), &extent) || !extent.slab)
        return;
    unsigned n = 0;
    for (uint32_t i = 0; i < slab->n; i += 64) {
        uint64_t word;
        memcpy(&word, extent.bitmap + i / 8, sizeof word);
        if (slab->n - i < 64 && word >> (slab->n - i)) {
            walk->bad_slabs++;
            word &= (UINT64_C(1) << (slab->n - i)) - 1;
        }
        for (; word; word &= word - 1, n++)
            hx_slabs_mark(walk->slabs, slab, i + (uint32_t)__builtin_ctzll(word), HX_BLOCK_FREE);
    }
    walk->bad_slabs += n != extent.nfree;
}

static void mark_free(struct all *all)
{
    for (size_t i = 0; i < all->slabs.slab.n; i++) {
        const struct hx_slab *slab = &all->slabs.slab.v[i];
        if (slab->n > 1)
            mark_free_blocks(&all->walk[slab->tag & 63], slab);
    }
}

/* --- the self-check ------------------------------------------------------------------------ */

/* How many slabs and blocks the bins of a class count, of all shards that were met. False: where
 * shards are is not known. */
static bool count_bin(const struct hx_jemalloc_walk *walk, const struct hx_jemalloc_arena *arena,
                      unsigned i, uint64_t *ret_slabs, uint64_t *ret_regs)
{
    const struct hx_jemalloc_layout *layout = walk->layout;
    uint64_t bin = hx_jemalloc_bin(walk, arena->addr, i);
    *ret_slabs = *ret_regs = 0;
    for (unsigned k = 0; k <= walk->shard_max[i]; k++, bin += layout->bin_bytes) {
        uint64_t slabs, regs;
        if (!hx_image_u64(walk->image, bin + layout->bin_slabs, &slabs) ||
            !hx_image_u64(walk->image, bin + layout->bin_regs, &regs))
            return false;
        *ret_slabs += slabs;
        *ret_regs += regs;
    }
    return true;
}

static bool has_shards(const struct hx_jemalloc_walk *walk)
{
    for (unsigned i = 0; i < HX_JEMALLOC_BINS_MAX; i++)
        if (walk->shard_max[i])
            return true;
    return false;
}

/* Built without statistics, bins count nothing. */
static void check_bins(struct hx_jemalloc_walk *walk, const struct hx_jemalloc_arena *arena)
{
    uint64_t counted = 0, disagree = 0, checked = 0;
    for (unsigned i = 0; i < hx_jemalloc_bins(walk->layout); i++) {
        uint64_t slabs, regs;
        if (!count_bin(walk, arena, i, &slabs, &regs))
            continue;
        counted |= slabs | regs;
        checked++;
        disagree += slabs != arena->bin[i].slabs || regs != arena->bin[i].regs;
    }
    if (!counted)
        return;
    walk->counts = true;
    walk->checked += checked;
    walk->disagree += disagree;
}

static void check_heap(struct hx_jemalloc_walk *walk)
{
    walk->shards = has_shards(walk);
    bool bins = !walk->layout->flat_bins || !walk->shards;
    for (size_t i = 0; i < walk->arenas.n; i++) {
        const struct hx_jemalloc_arena *arena = &walk->arenas.v[i];
        uint64_t active, internal;
        if (hx_image_u64(walk->image, arena->addr + walk->layout->nactive, &active)) {
            walk->checked++;
            walk->disagree += active != arena->pages;
            uint64_t lost = active > arena->pages ? active - arena->pages : 0;
            lost = lost < UINT32_MAX ? lost : 1; /* a count that lies */
            walk->lost_bytes += lost << walk->layout->lg_page;
            walk->active_bytes |= active | arena->pages;
        }
        if (hx_image_u64(walk->image, arena->addr + walk->layout->internal, &internal))
            walk->internal_bytes += internal;
        if (bins)
            check_bins(walk, arena);
    }
}

static uint64_t count_bad(const struct hx_jemalloc_walk *walk)
{
    return walk->bad_arenas + walk->bad_nodes + walk->bad_extents + walk->bad_slabs;
}

/* NULL: it is proven. */
static const char *why_not(const struct hx_jemalloc_walk *walk)
{
    if (!walk->layout)
        return "its structures are not those of the version that its file names";
    if (!walk->arenas.n)
        return "its arenas could not be read";
    if (!walk->root && walk->active_bytes)
        return "the tree of its extents was not found";
    if (walk->bad_slabs > walk->n_slabs / 2)
        return "what slabs say of their free blocks does not add up";
    if (walk->bad_extents > walk->n_extents)
        return "most records of extents make no sense";
    return NULL;
}

/* --- what is told -------------------------------------------------------------------------- */

static void tell_heap(const struct hx_jemalloc_walk *walk, struct hx_snapshot *snapshot)
{
    static const char *const kinds[] = {"arenas of jemalloc that make no sense",
                                        "nodes of jemalloc's tree that make no sense",
                                        "records of jemalloc's extents that make no sense",
                                        "slabs of jemalloc whose counts disagree",
                                        "caches of jemalloc's threads that make no sense"};
    const uint64_t counts[] = {walk->bad_arenas, walk->bad_nodes, walk->bad_extents,
                               walk->bad_slabs, walk->bad_caches};
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        if (!counts[i])
            continue;
        hx_snapshot_note(snapshot, true, "%" PRIu64 " %s", counts[i], kinds[i]);
        hx_snapshot_lose(snapshot, kinds[i], counts[i], 0, 0);
    }
    if (walk->disagree || walk->in_work) {
        hx_snapshot_note(snapshot, true,
                         "jemalloc's counts disagree with its extents (damaged, or an update was "
                         "under way): some blocks can be wrong");
        hx_snapshot_lose(snapshot, "jemalloc's counts that disagree with its extents",
                         walk->disagree + walk->in_work, walk->lost_bytes, 0);
    }
    if (walk->n_huge) {
        hx_snapshot_note(snapshot, true,
                         "jemalloc has huge pages: what of them is free is not seen as its memory");
        hx_snapshot_lose(snapshot, "free parts of jemalloc's huge pages", 1, 0, 0);
    }
    if (!walk->counts && walk->n_slabs && !walk->n_lost_caches && !walk->shards) {
        hx_snapshot_note(snapshot, true,
                         "jemalloc counts nothing and no cache of a thread was found: blocks in "
                         "them count as live");
        hx_snapshot_lose(snapshot, "caches of jemalloc's threads not found", 1, 0, 0);
    }
    if (walk->n_lost_caches && walk->counts)
        hx_snapshot_note(snapshot, false,
                         "%" PRIu64 " caches of threads that a fork left behind keep free blocks",
                         walk->n_lost_caches);
    if (walk->internal_bytes > walk->own_bytes) {
        hx_snapshot_note(snapshot, true,
                         "%" PRIu64
                         " bytes of blocks that jemalloc has from itself (for profiling) "
                         "count as objects",
                         walk->internal_bytes - walk->own_bytes);
        hx_snapshot_lose(snapshot, "blocks of jemalloc's own that were not found", 1,
                         walk->internal_bytes - walk->own_bytes, 0);
    }
}

static hx_error *note_evidence(struct all *all, const char *refused)
{
    const struct hx_jemalloc_walk *walk = &all->walk[0];
    uint64_t extents = 0, arenas = 0, caches = 0, disagree = 0;
    char *evidence = NULL;
    bool counts = true;
    for (size_t i = 0; i < all->found->n; i++) {
        extents += all->walk[i].n_extents;
        arenas += all->walk[i].arenas.n;
        caches += all->walk[i].n_caches;
        counts &= all->walk[i].counts;
        disagree += all->walk[i].disagree;
    }
    if (refused)
        HX_NEED(evidence = strdup(refused));
    else
        HX_NEED(asprintf(&evidence,
                         "%s, arenas and tree by shape in %s, %" PRIu64 " arenas, %" PRIu64
                         " extents, %" PRIu64 " caches of threads, %s",
                         walk->heap->version[0] ? "version string" : "no version string",
                         all->share->module, arenas, extents, caches,
                         disagree ? "counts disagree"
                         : counts ? "all counts agree"
                                  : "counts of pages agree") >= 0);
    free(all->share->evidence);
    all->share->evidence = evidence;
    return NULL;
}

/* A file that does not tell its version has the one of the layout. */
static hx_error *name_version(struct all *all)
{
    const struct hx_jemalloc_layout *layout = all->walk[0].layout;
    if (all->share->version || !layout)
        return NULL;
    HX_NEED(asprintf(&all->share->version, "%u.%u.%u", layout->last / 10000,
                     layout->last / 100 % 100, layout->last % 100) >= 0);
    return NULL;
}

static enum hx_walk_verdict judge(struct all *all)
{
    enum hx_walk_verdict verdict = HX_WALK_OK;
    bool told = hx_slabs_tell(&all->slabs, "jemalloc", all->snapshot);
    for (size_t i = 0; i < all->found->n; i++) {
        struct hx_jemalloc_walk *walk = &all->walk[i];
        tell_heap(walk, all->snapshot);
        if (walk->disagree || walk->in_work || walk->bad_caches)
            verdict = HX_WALK_TORN;
        else if (count_bad(walk) && verdict == HX_WALK_OK)
            verdict = HX_WALK_BAD;
    }
    return told && verdict == HX_WALK_OK ? HX_WALK_TORN : verdict;
}

/* --- the walk ------------------------------------------------------------------------------ */

static hx_error *exclude_globals(const struct hx_jemalloc_walk *walk, hx_ranges *excluded)
{
    uint64_t arenas = walk->heap->arenas;
    HX_NEED(hx_vec_push(excluded, (struct hx_range){arenas, arenas + 8 * HX_JEMALLOC_ARENAS_MAX}));
    if (walk->root)
        HX_NEED(
            hx_vec_push(excluded, (struct hx_range){walk->root, walk->root + walk->root_bytes}));
    return NULL;
}

static hx_error *gather(struct all *all, size_t i)
{
    struct hx_jemalloc_walk *walk = &all->walk[i];
    *walk = (struct hx_jemalloc_walk){.image = &all->snapshot->image,
                                      .heap = &all->found->heap[i],
                                      .layout = all->found->heap[i].layout,
                                      .slabs = &all->slabs,
                                      .number = (unsigned)i};
    if (!walk->layout)
        return NULL;
    HX_TRY(add_arenas(walk));
    hx_jemalloc_find_root(walk);
    if (walk->root)
        HX_TRY(hx_jemalloc_extents(walk));
    check_heap(walk);
    return NULL;
}

static const char *why_refused(const struct all *all)
{
    const char *why = NULL;
    for (size_t i = 0; i < all->found->n && !why; i++)
        why = why_not(&all->walk[i]);
    return why;
}

static hx_error *finish(struct all *all, hx_ranges *excluded, enum hx_walk_verdict *ret)
{
    uint64_t lost = 0;
    for (size_t i = 0; i < all->found->n; i++) {
        HX_TRY(exclude_globals(&all->walk[i], excluded));
        HX_TRY(hx_jemalloc_caches(&all->walk[i], excluded));
        if (!all->walk[i].counts || all->walk[i].internal_bytes > all->walk[i].own_bytes)
            HX_TRY(hx_jemalloc_lost_caches(&all->walk[i], excluded));
    }
    *ret = judge(all);
    HX_TRY(hx_slabs_put(&all->slabs, NULL, all->snapshot, all->share, all->progress));
    for (size_t i = 0; i < all->found->n; i++) {
        const struct hx_jemalloc_walk *walk = &all->walk[i];
        uint64_t least = count_bad(walk) << walk->layout->lg_page;
        lost += walk->lost_bytes > least ? walk->lost_bytes : least;
    }
    all->share->claimed_bytes += lost;
    all->share->proven = true;
    return note_evidence(all, NULL);
}

static hx_error *do_walk(struct all *all, hx_ranges *excluded, enum hx_walk_verdict *ret)
{
    for (size_t i = 0; i < all->found->n; i++)
        HX_TRY(gather(all, i));
    HX_TRY(hx_slabs_sort(&all->slabs));
    mark_free(all);
    HX_TRY(name_version(all));
    const char *refused = why_refused(all);
    if (!refused)
        return finish(all, excluded, ret);
    *ret = HX_WALK_BAD;
    return note_evidence(all, refused);
}

static hx_error *jemalloc_walk(void *state, struct hx_snapshot *snapshot,
                               struct hx_allocator_share *share, hx_ranges *excluded,
                               const struct hx_progress *progress, enum hx_walk_verdict *ret)
{
    struct all all = {.found = state, .snapshot = snapshot, .share = share, .progress = progress};
    hx_slabs_init(&all.slabs, snapshot);
    hx_error *err = do_walk(&all, excluded, ret);
    hx_slabs_deinit(&all.slabs);
    for (size_t i = 0; i < HX_JEMALLOC_HEAPS; i++) {
        hx_vec_free(&all.walk[i].arenas);
        hx_vec_free(&all.walk[i].blocks);
    }
    return err;
}

static void jemalloc_end(void *state)
{
    free(state);
}

const struct hx_allocator hx_allocator_jemalloc = {.name = "jemalloc",
                                                   .linked = true,
                                                   .find = hx_jemalloc_find,
                                                   .guard = hx_jemalloc_guard,
                                                   .walk = jemalloc_walk,
                                                   .end = jemalloc_end};
