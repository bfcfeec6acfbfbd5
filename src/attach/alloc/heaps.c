/* heaps.c - the heaps of all allocators of a target, put together into one.
 *
 * Most targets have one, which stays where its walk left it. Where there are several they are
 * merged in order of address. A heap may lie inside a block of another one: an allocator that got
 * its memory by malloc, or the arenas of an interpreter. Then the blocks are its blocks, and what
 * is left of the block around them is overhead of the allocator that handed it out.
 */
#include "attach/alloc/alloc.h"
#include "base/cleanup.h"
#include "base/timing.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

hx_error *hx_guard_lockless(struct hx_guard *guard, struct hx_range code)
{
    HX_NEED(hx_vec_push(&guard->code, code));
    guard->lockless = true;
    return NULL;
}

void hx_guard_deinit(struct hx_guard *guard)
{
    hx_vec_free(&guard->locks);
    hx_vec_free(&guard->code);
}

/* A segment that lies in objects of another heap. */
struct nested {
    struct hx_range range;
    struct heap *outer;
    uint64_t object_bytes; /* of that object, or of several that adjoin */
};

/* What a walk writes into a snapshot, and what of it does not count. */
struct heap {
    hx_segments segments;
    hx_ranges free;
    uint64_t *addr, *size;
    struct hx_big addr_mem, size_mem;
    uint64_t n;
    size_t share;                 /* in snapshot->allocators */
    bool doubtful;                /* its self-check does not hold */
    hx_ranges lost;               /* whole segments that another allocator has */
    hx_ranges around;             /* objects that another heap lies in */
    HX_VEC(struct nested) inside; /* whole segments */
};

enum { HEAPS_MAX = 16 };

static void heap_deinit(struct heap *heap)
{
    hx_vec_free(&heap->segments);
    hx_vec_free(&heap->free);
    hx_big_array_free(heap->addr);
    hx_big_array_free(heap->size);
    hx_vec_free(&heap->lost);
    hx_vec_free(&heap->around);
    hx_vec_free(&heap->inside);
}

/* Moves a heap out of a snapshot, which is left without one, or into it. */
static void take_heap(struct hx_snapshot *snapshot, struct heap *ret)
{
    struct hx_graph *graph = &snapshot->graph;
    memcpy(&ret->segments, &snapshot->segments, sizeof ret->segments);
    memcpy(&ret->free, &snapshot->free_ranges, sizeof ret->free);
    ret->addr = graph->addr, ret->addr_mem = graph->addr_mem;
    ret->size = graph->size, ret->size_mem = graph->size_mem;
    ret->n = graph->n;
    memset(&snapshot->segments, 0, sizeof snapshot->segments);
    memset(&snapshot->free_ranges, 0, sizeof snapshot->free_ranges);
    graph->addr = graph->size = NULL;
    graph->addr_mem = graph->size_mem = (struct hx_big){0};
    graph->n = 0;
}

static void put_heap(struct hx_snapshot *snapshot, struct heap *heap)
{
    struct hx_graph *graph = &snapshot->graph;
    memcpy(&snapshot->segments, &heap->segments, sizeof heap->segments);
    memcpy(&snapshot->free_ranges, &heap->free, sizeof heap->free);
    graph->addr = heap->addr, graph->addr_mem = heap->addr_mem;
    graph->size = heap->size, graph->size_mem = heap->size_mem;
    graph->n = (hx_obj)heap->n;
    memset(heap, 0, sizeof *heap);
}

/* --- where two heaps meet -------------------------------------------------------------- */

/* The first object that ends behind addr; n: there is none. */
static uint64_t object_behind(const struct heap *heap, uint64_t addr)
{
    uint64_t low = 0, high = heap->n;
    while (low < high) {
        uint64_t middle = low + (high - low) / 2;
        if (heap->addr[middle] + heap->size[middle] > addr)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

/* Notes that `segment` of a heap lies inside an object of `outer`, or in several that leave nothing
 * between them; *ret false: it does not. */
static hx_error *note_inside(struct heap *outer, struct heap *inner,
                             const struct hx_segment *segment, bool *ret)
{
    uint64_t first = object_behind(outer, segment->start), at = segment->start, i = first;
    for (; i < outer->n && at < segment->end && outer->addr[i] <= at; i++)
        at = outer->addr[i] + outer->size[i];
    *ret = at >= segment->end;
    if (!*ret)
        return NULL;
    struct nested nested = {{segment->start, segment->end}, outer, at - outer->addr[first]};
    HX_NEED(hx_vec_push(&inner->inside, nested));
    for (; first < i; first++) {
        struct hx_range around = {outer->addr[first], outer->addr[first] + outer->size[first]};
        HX_NEED(hx_vec_push(&outer->around, around));
    }
    return NULL;
}

static hx_error *lose_segment(struct heap *heap, const struct hx_segment *segment,
                              struct hx_snapshot *snapshot)
{
    hx_snapshot_lose(snapshot, "memory that two allocators claim", 1, segment->end - segment->start,
                     0);
    HX_NEED(hx_vec_push(&heap->lost, (struct hx_range){segment->start, segment->end}));
    return NULL;
}

/* Two segments that overlap. */
static hx_error *settle_overlap(struct heap *a, const struct hx_segment *at_a, struct heap *b,
                                const struct hx_segment *at_b, struct hx_snapshot *snapshot)
{
    bool settled;
    HX_TRY(note_inside(a, b, at_b, &settled));
    if (!settled)
        HX_TRY(note_inside(b, a, at_a, &settled));
    if (settled)
        return NULL;
    if (!snapshot->losses.n || strcmp(snapshot->losses.v[snapshot->losses.n - 1].what,
                                      "memory that two allocators claim") != 0)
        hx_snapshot_note(snapshot, true, "two allocators claim the same memory: one was believed");
    return a->doubtful && !b->doubtful ? lose_segment(a, at_a, snapshot)
                                       : lose_segment(b, at_b, snapshot);
}

static hx_error *settle_overlaps(struct heap *a, struct heap *b, struct hx_snapshot *snapshot)
{
    for (size_t i = 0, k = 0; i < a->segments.n && k < b->segments.n;) {
        const struct hx_segment *at_a = &a->segments.v[i], *at_b = &b->segments.v[k];
        if (at_a->end > at_b->start && at_b->end > at_a->start)
            HX_TRY(settle_overlap(a, at_a, b, at_b, snapshot));
        if (at_a->end <= at_b->end)
            i++;
        else
            k++;
    }
    return NULL;
}

/* --- one heap of several --------------------------------------------------------------- */

/* Those in the smallest objects first. */
static int by_place(const void *a, const void *b)
{
    const struct nested *x = a, *y = b;
    if (x->range.start != y->range.start)
        return x->range.start < y->range.start ? -1 : 1;
    return (x->object_bytes > y->object_bytes) - (x->object_bytes < y->object_bytes);
}

static void sort_ranges(hx_ranges *ranges)
{
    size_t n = 0;
    hx_ranges_sort(ranges);
    for (size_t i = 0; i < ranges->n; i++)
        if (!n || ranges->v[n - 1].start != ranges->v[i].start)
            ranges->v[n++] = ranges->v[i];
    ranges->n = n;
}

/* What lies in an object of several heaps lies in the innermost one. */
static void sort_nested(struct heap *heap)
{
    size_t n = 0;
    if (heap->inside.n)
        qsort(heap->inside.v, heap->inside.n, sizeof *heap->inside.v, by_place);
    for (size_t i = 0; i < heap->inside.n; i++)
        if (!n || heap->inside.v[n - 1].range.start != heap->inside.v[i].range.start)
            heap->inside.v[n++] = heap->inside.v[i];
    heap->inside.n = n;
}

/* Is addr in one of the ranges? Addresses that are asked for never shrink. */
static bool in_ranges(const hx_ranges *ranges, size_t *at, uint64_t addr)
{
    while (*at < ranges->n && ranges->v[*at].end <= addr)
        ++*at;
    return *at < ranges->n && ranges->v[*at].start <= addr;
}

static void filter_objects(struct heap *heap, struct hx_allocator_share *share)
{
    uint64_t n = 0;
    size_t lost = 0, around = 0;
    for (uint64_t i = 0; i < heap->n; i++) {
        bool gone = in_ranges(&heap->lost, &lost, heap->addr[i]);
        bool opened = in_ranges(&heap->around, &around, heap->addr[i]);
        if (gone || opened) {
            share->bytes -= heap->size[i];
            share->objects--;
            share->overhead_bytes += heap->size[i];
            continue;
        }
        heap->addr[n] = heap->addr[i];
        heap->size[n++] = heap->size[i];
    }
    heap->n = n;
}

/* Memory that went to another allocator is nobody's overhead. */
static void filter_memory(struct heap *heap, struct hx_allocator_share *share)
{
    size_t n = 0, lost = 0, inside = 0;
    for (size_t i = 0; i < heap->free.n; i++) {
        const struct hx_range range = heap->free.v[i];
        if (!in_ranges(&heap->lost, &lost, range.start)) {
            heap->free.v[n++] = range;
            continue;
        }
        share->free_bytes -= range.end - range.start;
        share->overhead_bytes += range.end - range.start;
    }
    heap->free.n = n;
    n = lost = 0;
    for (size_t i = 0; i < heap->segments.n; i++) {
        const struct hx_segment segment = heap->segments.v[i];
        uint64_t bytes = segment.end - segment.start;
        bool gone = in_ranges(&heap->lost, &lost, segment.start);
        if (gone) {
            share->walked_bytes -= bytes;
            share->overhead_bytes -= bytes;
        }
        bool nested =
            inside < heap->inside.n && heap->inside.v[inside].range.start == segment.start;
        inside += nested;
        if (!gone && !nested)
            heap->segments.v[n++] = segment;
    }
    heap->segments.n = n;
}

static void filter_heap(struct heap *heap, struct hx_snapshot *snapshot)
{
    struct hx_allocator_share *shares = snapshot->allocators.v;
    sort_ranges(&heap->lost);
    sort_ranges(&heap->around);
    sort_nested(heap);
    for (size_t i = 0; i < heap->inside.n; i++) {
        const struct nested *nested = &heap->inside.v[i];
        shares[nested->outer->share].overhead_bytes -= nested->range.end - nested->range.start;
    }
    filter_objects(heap, &shares[heap->share]);
    filter_memory(heap, &shares[heap->share]);
}

static hx_error *merge_objects(const struct heap *heap, size_t n, struct heap *ret,
                               struct hx_snapshot *snapshot)
{
    uint64_t at[HEAPS_MAX] = {0}, objects = 0;
    for (size_t i = 0; i < n; i++)
        objects += heap[i].n;
    if (objects > HX_OBJECTS_MAX) {
        hx_snapshot_lose(snapshot, "objects beyond what one snapshot can number",
                         objects - HX_OBJECTS_MAX, 0, 0);
        objects = HX_OBJECTS_MAX;
    }
    HX_TRY(hx_big_array(ret->addr, objects));
    HX_TRY(hx_big_array(ret->size, objects));
    for (; ret->n < objects; ret->n++) {
        size_t first = n;
        for (size_t i = 0; i < n; i++)
            if (at[i] < heap[i].n &&
                (first == n || heap[i].addr[at[i]] < heap[first].addr[at[first]]))
                first = i;
        ret->addr[ret->n] = heap[first].addr[at[first]];
        ret->size[ret->n] = heap[first].size[at[first]++];
    }
    return NULL;
}

static hx_error *merge_memory(const struct heap *heap, size_t n, struct heap *ret)
{
    for (size_t i = 0; i < n; i++) {
        for (size_t k = 0; k < heap[i].free.n; k++)
            HX_NEED(hx_vec_push(&ret->free, heap[i].free.v[k]));
        for (size_t k = 0; k < heap[i].segments.n; k++)
            HX_NEED(hx_vec_push(&ret->segments, heap[i].segments.v[k]));
    }
    hx_ranges_sort(&ret->free);
    hx_segments_sort(&ret->segments);
    return NULL;
}

static hx_error *merge_heaps(struct heap *heap, size_t n, struct hx_snapshot *snapshot,
                             struct heap *ret)
{
    for (size_t i = 0; i < n; i++)
        for (size_t k = i + 1; k < n; k++)
            HX_TRY(settle_overlaps(&heap[i], &heap[k], snapshot));
    for (size_t i = 0; i < n; i++)
        filter_heap(&heap[i], snapshot);
    HX_TRY(merge_objects(heap, n, ret, snapshot));
    return merge_memory(heap, n, ret);
}

/* --- all of them ------------------------------------------------------------------------ */

struct heaps {
    const struct hx_heaps_options *options;
    const struct hx_alloc_target *target;
    struct hx_snapshot *snapshot;
    hx_ranges *excluded;
    const struct hx_progress *progress;
    struct heap heap[HEAPS_MAX];
    size_t n;
    enum hx_walk_verdict verdict;
};

static void note_evidence(struct hx_snapshot *snapshot, const struct hx_allocator_share *share)
{
    const char *version = share->version ? share->version : "";
    if (!share->proven) {
        hx_snapshot_note(snapshot, true,
                         "the heap of %s%s%s was recognised and not proven: %s: its blocks are no "
                         "objects",
                         share->name, *version ? " " : "", version, share->evidence);
        hx_snapshot_lose(snapshot, "heap of an allocator that was not proven", 1,
                         share->claimed_bytes, 0);
    } else if (share->claimed_bytes) {
        hx_snapshot_note(snapshot, false, "%s%s%s: %s", share->name, *version ? " " : "", version,
                         share->evidence);
    }
}

/* What the walk of one has left in the snapshot. */
static hx_error *add_heap(struct heaps *heaps, struct hx_allocator_share *share,
                          enum hx_walk_verdict verdict)
{
    struct hx_snapshot *snapshot = heaps->snapshot;
    share->bytes = snapshot->heap_bytes;
    share->objects = snapshot->graph.n;
    share->free_bytes = snapshot->free_bytes;
    share->overhead_bytes = snapshot->overhead_bytes;
    snapshot->heap_bytes = snapshot->free_bytes = snapshot->overhead_bytes = 0;
    note_evidence(snapshot, share);
    if (verdict == HX_WALK_TORN || heaps->verdict == HX_WALK_OK)
        heaps->verdict = verdict;
    struct heap *heap = &heaps->heap[heaps->n];
    heap->share = snapshot->allocators.n;
    heap->doubtful = verdict != HX_WALK_OK;
    HX_NEED(hx_vec_push(&snapshot->allocators, *share));
    *share = (struct hx_allocator_share){0};
    take_heap(snapshot, heap);
    if (heap->segments.n)
        heaps->n++;
    else
        heap_deinit(heap);
    return NULL;
}

/* One that is there. */
struct present {
    const struct hx_allocator *allocator;
    struct hx_allocator_share share;
    void *state; /* NULL: it is not */
};

static void end_all(struct present *present, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (present[i].state)
            present[i].allocator->end(present[i].state);
        hx_allocator_share_deinit(&present[i].share);
    }
}

static hx_error *find_all(struct heaps *heaps, struct present *ret, size_t *ret_n, bool *ret_linked)
{
    const struct hx_allocator *const *allocator = heaps->options->allocators;
    for (size_t i = 0; allocator[i] && *ret_n < HEAPS_MAX; i++) {
        struct present *present = &ret[*ret_n];
        *present = (struct present){.allocator = allocator[i]};
        ++*ret_n;
        HX_TRY(allocator[i]->find(heaps->target, &present->share, &present->state));
        *ret_linked |= present->state && allocator[i]->linked;
        if (!present->state) {
            hx_allocator_share_deinit(&present->share);
            --*ret_n;
        }
    }
    return NULL;
}

/* What a thread does that is inside code which takes no lock may be half done. */
static size_t count_inside(const struct hx_snapshot *snapshot, const struct hx_guard *guard)
{
    size_t n = 0;
    for (size_t i = 0; i < snapshot->n_threads && guard->lockless; i++) {
        const struct hx_thread *thread = &snapshot->thread[i];
        for (size_t k = 0; thread->has_regs && k < guard->code.n; k++)
            n += thread->pc >= guard->code.v[k].start && thread->pc < guard->code.v[k].end;
    }
    return n;
}

static hx_error *walk_one(struct heaps *heaps, struct present *present)
{
    enum hx_walk_verdict verdict = HX_WALK_OK;
    struct hx_snapshot *snapshot = heaps->snapshot;
    HX_TRY(present->allocator->walk(present->state, snapshot, &present->share, heaps->excluded,
                                    heaps->progress, &verdict));
    if (!present->share.name)
        return NULL;
    HX_CLEANUP(hx_guard_deinit) struct hx_guard guard = {0};
    HX_TRY(present->allocator->guard(present->state, heaps->target, &guard));
    const size_t inside = count_inside(snapshot, &guard);
    if (inside) {
        hx_snapshot_note(snapshot, true,
                         "%zu threads were inside %s at the stop: a few blocks can be wrong",
                         inside, present->share.name);
        hx_snapshot_lose(snapshot, "threads inside an allocator at the stop", inside, 0, 0);
        verdict = HX_WALK_TORN;
    }
    return add_heap(heaps, &present->share, verdict);
}

/* "jemalloc 5.3.0, glibc 2.36": those that have something, or the only one, which is unused. */
static hx_error *name_allocators(struct hx_snapshot *snapshot, size_t n)
{
    HX_CLEANUP(hx_text_free) struct hx_text text = {0};
    for (size_t i = 0; i < snapshot->allocators.n; i++) {
        const struct hx_allocator_share *share = &snapshot->allocators.v[i];
        if (n && !share->claimed_bytes)
            continue;
        hx_text_putf(&text, "%s%s%s%s", text.n ? ", " : "", share->name, share->version ? " " : "",
                     share->version ? share->version : "");
        hx_text_puts(&text, !share->proven ? " (not proven)" : n ? "" : ", unused");
    }
    free(snapshot->allocator);
    snapshot->allocator = strdup(text.n ? hx_text_str(&text) : "none found");
    HX_NEED(!text.failed && snapshot->allocator);
    if (!text.n)
        hx_snapshot_note(snapshot, true,
                         "no allocator that heapx knows was found: the heap has no objects");
    return NULL;
}

/* Where one was recognised and not proven, an empty heap of another one is not all there is. */
static void sum_up(struct hx_snapshot *snapshot, bool *ret_found)
{
    bool proven = false, refused = false, used = false;
    for (size_t i = 0; i < snapshot->allocators.n; i++) {
        const struct hx_allocator_share *share = &snapshot->allocators.v[i];
        snapshot->heap_bytes += share->bytes;
        snapshot->free_bytes += share->free_bytes;
        snapshot->overhead_bytes += share->overhead_bytes;
        proven |= share->proven;
        refused |= !share->proven;
        used |= share->proven && share->claimed_bytes;
    }
    *ret_found = used || (proven && !refused);
}

static hx_error *walk_cut(struct heaps *heaps)
{
    struct hx_allocator_share share = {0};
    enum hx_walk_verdict verdict;
    bool found = false;
    hx_error *err = hx_glibc_walk_cut(heaps->snapshot, &share, heaps->excluded, heaps->progress,
                                      &verdict, &found);
    if (!err && found)
        err = add_heap(heaps, &share, verdict);
    hx_allocator_share_deinit(&share);
    return err;
}

static hx_error *pack(const struct heaps *heaps)
{
    uint64_t begun = hx_timing_begin();
    hx_error *err = hx_image_pack(&heaps->snapshot->image, heaps->options->threads);
    hx_timing_end(begun, "pack", 0);
    return err;
}

static hx_error *walk_all(struct heaps *heaps)
{
    struct present present[HEAPS_MAX];
    size_t n = 0;
    bool linked = false;
    hx_error *err = find_all(heaps, present, &n, &linked);
    if (!err && !linked)
        err = pack(heaps);
    uint64_t begun = hx_timing_begin();
    for (size_t i = 0; i < n && !err; i++)
        err = walk_one(heaps, &present[i]);
    end_all(present, n);
    if (!err && heaps->options->cut && !heaps->snapshot->allocators.n)
        err = walk_cut(heaps);
    hx_timing_end(begun, "walk", heaps->snapshot->allocators.n);
    if (!err && linked)
        err = pack(heaps);
    return err;
}

hx_error *hx_heaps_walk(const struct hx_heaps_options *options,
                        const struct hx_alloc_target *target, struct hx_snapshot *snapshot,
                        hx_ranges *excluded, const struct hx_progress *progress,
                        enum hx_walk_verdict *ret, bool *ret_found)
{
    struct heap all = {0};
    struct heaps heaps = {.options = options,
                          .target = target,
                          .snapshot = snapshot,
                          .excluded = excluded,
                          .progress = progress};
    hx_error *err = walk_all(&heaps);
    if (!err)
        err = name_allocators(snapshot, heaps.n);
    if (!err && heaps.n > 1)
        err = merge_heaps(heaps.heap, heaps.n, snapshot, &all);
    if (heaps.n)
        put_heap(snapshot, heaps.n == 1 ? &heaps.heap[0] : &all);
    for (size_t i = 0; i < heaps.n; i++)
        heap_deinit(&heaps.heap[i]);
    sum_up(snapshot, ret_found);
    *ret = heaps.verdict;
    return err;
}
