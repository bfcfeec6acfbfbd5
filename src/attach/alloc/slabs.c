/* slabs.c - heaps that consist of runs of equal blocks, as those of most allocators do. */
#include "attach/alloc/slabs.h"

#include "base/cleanup.h"

#include <inttypes.h>
#include <stdlib.h>

enum { PROGRESS_STEP = 1 << 12 /* slabs between two calls of progress */ };

void hx_slabs_init(struct hx_slabs *slabs, const struct hx_snapshot *snapshot)
{
    *slabs = (struct hx_slabs){.mapping = snapshot->mapping, .n_mappings = snapshot->n_mappings};
}

void hx_slabs_deinit(struct hx_slabs *slabs)
{
    hx_vec_free(&slabs->slab);
    hx_big_array_free(slabs->use);
}

/* --- slabs ----------------------------------------------------------------------------- */

/* Is all of it mapped so that the program can write there? Several mappings may adjoin. */
static bool is_writable(const struct hx_slabs *slabs, uint64_t start, uint64_t end)
{
    size_t i = hx_mapping_find(slabs->mapping, slabs->n_mappings, start);
    for (; i < slabs->n_mappings && slabs->mapping[i].start <= start; i++) {
        if (!(slabs->mapping[i].prot & HX_PROT_W))
            return false;
        if (slabs->mapping[i].end >= end)
            return true;
        start = slabs->mapping[i].end;
    }
    return false;
}

static bool can_be(const struct hx_slab *slab)
{
    if (slab->start >= slab->end)
        return false;
    if (!slab->n)
        return true;
    return slab->first >= slab->start && slab->first < slab->end && slab->usable &&
           slab->usable <= slab->end - slab->first &&
           (slab->n == 1 ||
            (slab->stride && slab->usable <= slab->stride &&
             slab->n - 1 <= (slab->end - slab->first - slab->usable) / slab->stride));
}

hx_error *hx_slabs_add(struct hx_slabs *slabs, const struct hx_slab *slab)
{
    if (!can_be(slab) || !is_writable(slabs, slab->start, slab->end)) {
        slabs->outside++;
        slabs->outside_bytes += slab->start < slab->end ? slab->end - slab->start : 0;
        return NULL;
    }
    HX_NEED(hx_vec_push(&slabs->slab, *slab));
    return NULL;
}

hx_error *hx_slabs_add_memory(struct hx_slabs *slabs, uint64_t start, uint64_t end,
                              enum hx_block_use use)
{
    return hx_slabs_add(slabs, &(struct hx_slab){.start = start, .end = end, .rest = use});
}

static int by_start(const void *a, const void *b)
{
    const struct hx_slab *x = a, *y = b;
    return (x->start > y->start) - (x->start < y->start);
}

static bool is_sorted(const struct hx_slabs *slabs)
{
    for (size_t i = 1; i < slabs->slab.n; i++)
        if (slabs->slab.v[i - 1].start > slabs->slab.v[i].start)
            return false;
    return true;
}

hx_error *hx_slabs_sort(struct hx_slabs *slabs)
{
    size_t n = 0;
    struct hx_slab *slab = slabs->slab.v;
    if (!is_sorted(slabs))
        qsort(slab, slabs->slab.n, sizeof *slab, by_start);
    slabs->n_blocks = 0;
    for (size_t i = 0; i < slabs->slab.n; i++) {
        if (n && slab[n - 1].end > slab[i].start) {
            slabs->overlaps++;
            slabs->overlaps_bytes += slab[i].end - slab[i].start;
            continue;
        }
        slab[n] = slab[i];
        slab[n].first_use = slabs->n_blocks;
        slabs->n_blocks += slab[n++].n;
    }
    slabs->slab.n = n;
    return hx_big_array(slabs->use, slabs->n_blocks);
}

struct hx_slab *hx_slabs_find(const struct hx_slabs *slabs, uint64_t addr)
{
    size_t low = 0, high = slabs->slab.n;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (slabs->slab.v[middle].end > addr)
            high = middle;
        else
            low = middle + 1;
    }
    bool found = low < slabs->slab.n && slabs->slab.v[low].start <= addr;
    return found ? &slabs->slab.v[low] : NULL;
}

uint64_t hx_slab_block(const struct hx_slab *slab, uint64_t addr)
{
    if (addr == slab->first && slab->n)
        return 0;
    if (addr < slab->first || slab->n < 2)
        return UINT64_MAX;
    uint64_t i = (addr - slab->first) / slab->stride;
    return i < slab->n && slab->first + i * slab->stride == addr ? i : UINT64_MAX;
}

bool hx_slabs_mark_at(struct hx_slabs *slabs, uint64_t addr, enum hx_block_use use)
{
    const struct hx_slab *slab = hx_slabs_find(slabs, addr);
    uint64_t i = slab ? hx_slab_block(slab, addr) : UINT64_MAX;
    if (i != UINT64_MAX)
        return hx_slabs_mark(slabs, slab, i, use);
    slabs->stray++;
    return false;
}

uint64_t hx_slabs_link(const struct hx_image *image, uint64_t addr)
{
    uint64_t link;
    return hx_image_u64(image, addr, &link) ? link : 0;
}

/* --- into a snapshot ------------------------------------------------------------------- */

struct put {
    const struct hx_slabs *slabs;
    const struct hx_slabs_place *place;
    struct hx_snapshot *snapshot;
    struct hx_allocator_share *share;
    uint64_t n, max, overfull;
    hx_error *err;
};

static void put_free(struct put *put, uint64_t start, uint64_t end)
{
    hx_ranges *ranges = &put->snapshot->free_ranges;
    if (start >= end || put->err)
        return;
    put->snapshot->free_bytes += end - start;
    if (ranges->n && ranges->v[ranges->n - 1].end == start)
        ranges->v[ranges->n - 1].end = end;
    else if (!hx_vec_push(ranges, (struct hx_range){start, end}))
        put->err = hx_error_nomem();
}

static void put_object(struct put *put, const struct hx_slab *slab, uint32_t i, uint64_t addr)
{
    uint64_t bytes = slab->usable;
    if (put->n == put->max) {
        put->overfull++;
        return;
    }
    if (put->place) {
        uint64_t start = addr, end = addr + (slab->n == 1 ? slab->usable : slab->stride);
        end = slab->wide ? slab->end : end;
        bytes = end - start;
        if (!put->place->find(put->place->context, slab, i, &addr, &bytes))
            return;
        addr = addr < start || addr >= end ? start : addr;
        bytes = bytes < end - addr ? bytes : end - addr;
    }
    put->snapshot->graph.addr[put->n] = addr;
    put->snapshot->graph.size[put->n++] = bytes;
    put->snapshot->heap_bytes += bytes;
}

static void put_blocks(struct put *put, const struct hx_slab *slab)
{
    uint64_t addr = slab->first, stride = slab->n == 1 ? slab->usable : slab->stride;
    for (uint32_t i = 0; i < slab->n; i++, addr += stride) {
        enum hx_block_use use = hx_slabs_use(put->slabs, slab, i);
        uint64_t end = addr + (i + 1 == slab->n ? slab->usable : stride);
        if (use == HX_BLOCK_LIVE)
            put_object(put, slab, i, addr);
        else if (use != HX_BLOCK_OWN)
            put_free(put, addr, end);
        if (use == HX_BLOCK_CACHED)
            put->share->cached_bytes += end - addr;
    }
}

static void put_slab(struct put *put, const struct hx_slab *slab)
{
    hx_segments *segments = &put->snapshot->segments;
    if (segments->n && segments->v[segments->n - 1].end == slab->start)
        segments->v[segments->n - 1].end = slab->end;
    else if (!hx_vec_push(segments, (struct hx_segment){slab->start, slab->end, 0}))
        put->err = hx_error_nomem();
    put->share->walked_bytes += slab->end - slab->start;
    uint64_t first = slab->n ? slab->first : slab->end, after = slab->end;
    if (slab->n)
        after = first + (slab->n - 1) * slab->stride + slab->usable;
    if (slab->rest == HX_BLOCK_FREE)
        put_free(put, slab->start, first);
    put_blocks(put, slab);
    if (slab->rest == HX_BLOCK_FREE)
        put_free(put, after, slab->end);
}

hx_error *hx_slabs_put(const struct hx_slabs *slabs, const struct hx_slabs_place *place,
                       struct hx_snapshot *snapshot, struct hx_allocator_share *share,
                       const struct hx_progress *progress)
{
    struct hx_graph *graph = &snapshot->graph;
    struct put put = {.slabs = slabs, .place = place, .snapshot = snapshot, .share = share};
    put.max = slabs->n_blocks < HX_OBJECTS_MAX ? slabs->n_blocks : HX_OBJECTS_MAX;
    HX_TRY(hx_big_array(graph->addr, put.max));
    HX_TRY(hx_big_array(graph->size, put.max));
    for (size_t i = 0; i < slabs->slab.n && !put.err; i++) {
        put_slab(&put, &slabs->slab.v[i]);
        if (i % PROGRESS_STEP)
            continue;
        hx_progress_at(progress, "objects", put.n, 0);
        hx_progress_at(progress, "walk", i, slabs->slab.n);
        if (hx_progress_cancelled(progress))
            put.err = hx_error_cancelled("heap");
    }
    graph->n = (hx_obj)put.n;
    hx_big_trim(&graph->addr_mem, put.n * sizeof *graph->addr);
    hx_big_trim(&graph->size_mem, put.n * sizeof *graph->size);
    share->cache_known = true;
    share->claimed_bytes = share->walked_bytes + slabs->outside_bytes + slabs->overlaps_bytes;
    snapshot->overhead_bytes = share->walked_bytes - snapshot->heap_bytes - snapshot->free_bytes;
    if (put.overfull)
        hx_snapshot_lose(snapshot, "objects beyond what one snapshot can number", put.overfull, 0,
                         0);
    return put.err;
}

bool hx_slabs_tell(const struct hx_slabs *slabs, const char *allocator,
                   struct hx_snapshot *snapshot)
{
    uint64_t lost = slabs->outside + slabs->overlaps, marks = slabs->twice + slabs->stray;
    if (lost) {
        hx_snapshot_note(snapshot, true,
                         "%" PRIu64 " runs of %s's memory cannot be what they are said to be: "
                         "%" PRIu64 " bytes are not explained",
                         lost, allocator, slabs->outside_bytes + slabs->overlaps_bytes);
        hx_snapshot_lose(snapshot, "runs of an allocator's memory that cannot be", lost,
                         slabs->outside_bytes + slabs->overlaps_bytes, 0);
    }
    if (marks) {
        hx_snapshot_note(snapshot, true,
                         "%" PRIu64 " links of %s's free blocks lead nowhere or twice to a block: "
                         "free blocks can count as live",
                         marks, allocator);
        hx_snapshot_lose(snapshot, "links of free heap blocks that lead nowhere", marks, 0, 0);
    }
    return lost || marks;
}
