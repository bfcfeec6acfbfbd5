/* account.c - what the resident memory is used for, and which pages of the heap it is. */
#include "attach/roots/rootmap.h"

#include "attach/ranges.h"
#include "attach/roots/stacks.h"

#include <stdlib.h>
#include <string.h>

/* Places in the sorted columns, moved on as mappings come by in order of address. */
struct cursors {
    const struct hx_snapshot *snapshot;
    const struct hx_stacks *stacks;
    size_t segment, span, stack, free_range;
    hx_obj object;
};

static uint64_t overlap(uint64_t a_start, uint64_t a_end, uint64_t b_start, uint64_t b_end)
{
    uint64_t start = a_start > b_start ? a_start : b_start;
    uint64_t end = a_end < b_end ? a_end : b_end;
    return start < end ? end - start : 0;
}

/* What a mapping is when neither heap nor stack is in it. */
static enum hx_account_part mapping_part(const struct hx_mapping *mapping)
{
    const char *path = mapping->path ? mapping->path : "";
    if (mapping->device)
        return HX_PART_OTHER;
    if (strcmp(path, "[stack]") == 0)
        return HX_PART_STACKS;
    if (path[0] == '[' && strcmp(path, "[heap]") != 0 && strncmp(path, "[anon", 5) != 0)
        return HX_PART_OTHER;
    if (mapping->prot & HX_PROT_SHARED)
        return HX_PART_SHARED;
    return path[0] == '/' ? HX_PART_FILES : HX_PART_ANONYMOUS;
}

/* Adds the bytes of [start, end), which is within a segment, to live, free and overhead. An
 * object's byte is live even when a free range claims it too. */
static void weigh_heap(struct cursors *at, uint64_t start, uint64_t end, uint64_t weight[HX_PARTS])
{
    const struct hx_graph *graph = &at->snapshot->graph;
    const hx_ranges free_ranges = at->snapshot->free_ranges;
    uint64_t done = start;
    while (at->object < graph->n && graph->addr[at->object] + graph->size[at->object] <= start)
        at->object++;
    while (at->free_range < free_ranges.n && free_ranges.v[at->free_range].end <= start)
        at->free_range++;
    hx_obj object = at->object;
    size_t range = at->free_range;
    while (done < end) {
        uint64_t o_start = object < graph->n ? graph->addr[object] : UINT64_MAX;
        uint64_t o_end = object < graph->n ? o_start + graph->size[object] : UINT64_MAX;
        uint64_t f_start = range < free_ranges.n ? free_ranges.v[range].start : UINT64_MAX;
        uint64_t f_end = range < free_ranges.n ? free_ranges.v[range].end : UINT64_MAX;
        uint64_t stop;
        enum hx_account_part part;
        if (o_start <= done) {
            stop = o_end;
            part = HX_PART_LIVE;
        } else if (f_start <= done) {
            stop = f_end < o_start ? f_end : o_start;
            part = HX_PART_FREE;
        } else {
            stop = f_start < o_start ? f_start : o_start;
            part = HX_PART_OVERHEAD;
        }
        if (stop > end)
            stop = end;
        if (stop > done)
            weight[part] += stop - done;
        done = stop > done ? stop : done;
        while (object < graph->n && graph->addr[object] + graph->size[object] <= done)
            object++;
        while (range < free_ranges.n && free_ranges.v[range].end <= done)
            range++;
    }
    at->object = object;
    at->free_range = range;
}

/* Adds the bytes of a resident range outside the segments. */
static void weigh_rest(struct cursors *at, uint64_t start, uint64_t end, enum hx_account_part part,
                       uint64_t weight[HX_PARTS])
{
    const hx_ranges *extents = &at->stacks->extents;
    while (at->stack < extents->n && extents->v[at->stack].end <= start)
        at->stack++;
    uint64_t stack = 0;
    for (size_t i = at->stack; i < extents->n && extents->v[i].start < end; i++)
        stack += overlap(start, end, extents->v[i].start, extents->v[i].end);
    if (part != HX_PART_ANONYMOUS)
        stack = 0;
    weight[HX_PART_STACKS] += stack;
    weight[part] += end - start - stack;
}

/* Adds the bytes of a resident range by what lies on them. */
static void weigh_resident_range(struct cursors *at, uint64_t start, uint64_t end,
                                 enum hx_account_part part, uint64_t weight[HX_PARTS])
{
    const struct hx_snapshot *snapshot = at->snapshot;
    while (start < end) {
        while (at->segment < snapshot->segments.n && snapshot->segments.v[at->segment].end <= start)
            at->segment++;
        uint64_t stop = end;
        const struct hx_segment *segment =
            at->segment < snapshot->segments.n ? &snapshot->segments.v[at->segment] : NULL;
        if (segment && segment->start <= start) {
            if (segment->end < stop)
                stop = segment->end;
            weigh_heap(at, start, stop, weight);
        } else {
            if (segment && segment->start < stop)
                stop = segment->start;
            weigh_rest(at, start, stop, part, weight);
        }
        start = stop;
    }
}

/* Divides `bytes` in proportion to the weights, by largest remainder; the sum is exact. */
static void divide(uint64_t bytes, const uint64_t weight[HX_PARTS], uint64_t account[HX_PARTS])
{
    unsigned __int128 total = 0;
    for (size_t i = 0; i < HX_PARTS; i++)
        total += weight[i];
    unsigned __int128 remainder[HX_PARTS];
    uint64_t left = bytes;
    for (size_t i = 0; i < HX_PARTS; i++) {
        unsigned __int128 product = (unsigned __int128)bytes * weight[i];
        uint64_t share = (uint64_t)(product / total);
        remainder[i] = product % total;
        account[i] += share;
        left -= share;
    }
    while (left--) {
        size_t best = 0;
        for (size_t i = 1; i < HX_PARTS; i++)
            if (remainder[i] > remainder[best])
                best = i;
        account[best]++;
        remainder[best] = 0;
    }
}

static void account_mapping(struct cursors *at, const struct hx_mapping *mapping,
                            uint64_t account[HX_PARTS])
{
    const struct hx_image *image = &at->snapshot->image;
    enum hx_account_part part = mapping_part(mapping);
    struct cursors begin = *at;
    uint64_t weight[HX_PARTS] = {0};
    bool any = false;
    while (at->span < image->n && image->span[at->span].end <= mapping->start)
        at->span++;
    for (size_t i = at->span; i < image->n && image->span[i].start < mapping->end; i++) {
        const struct hx_span *span = &image->span[i];
        uint64_t start = span->start > mapping->start ? span->start : mapping->start;
        uint64_t end = span->end < mapping->end ? span->end : mapping->end;
        weigh_resident_range(at, start, end, part, weight);
        any |= start < end;
    }
    if (!any) { /* nobody knows which pages are resident: all alike */
        *at = begin;
        weigh_resident_range(at, mapping->start, mapping->end, part, weight);
    }
    if (mapping->rss_bytes && mapping->end > mapping->start)
        divide(mapping->rss_bytes, weight, account);
}

hx_error *hx_account(struct hx_snapshot *snapshot)
{
    struct hx_stacks stacks = {0};
    HX_TRY(hx_stacks_find(snapshot, NULL, &stacks));
    struct cursors at = {.snapshot = snapshot, .stacks = &stacks};
    memset(snapshot->account, 0, sizeof snapshot->account);
    snapshot->rss_bytes = 0;
    for (size_t i = 0; i < snapshot->n_mappings; i++) {
        account_mapping(&at, &snapshot->mapping[i], snapshot->account);
        snapshot->rss_bytes += snapshot->mapping[i].rss_bytes;
    }
    snapshot->has_account = snapshot->has_rss = true;
    hx_stacks_deinit(&stacks);
    return NULL;
}

/* Adds the pages of [start, end) that are in memory. *at: the place in `present`, *hole in
 * `swapped`, kept for growing addresses. */
static bool add_resident(hx_ranges *resident, const hx_ranges *present, size_t *at,
                         const hx_ranges *swapped, size_t *hole, uint64_t start, uint64_t end)
{
    while (*at < present->n && present->v[*at].end <= start)
        ++*at;
    for (size_t i = *at; i < present->n && present->v[i].start < end; i++) {
        uint64_t from = present->v[i].start > start ? present->v[i].start : start;
        uint64_t to = present->v[i].end < end ? present->v[i].end : end;
        struct hx_range part;
        while (hx_ranges_outside(swapped, hole, &from, to, &part))
            if (!hx_ranges_add(resident, part.start, part.end))
                return false;
    }
    return true;
}

hx_error *hx_resident(struct hx_snapshot *snapshot, const hx_ranges *present,
                      const hx_ranges *swapped)
{
    const uint64_t page = 4096;
    hx_ranges resident = {0};
    size_t at = 0, hole = 0;
    uint64_t done = 0; /* two segments may share a page */
    for (size_t i = 0; i < snapshot->segments.n; i++) {
        uint64_t start = snapshot->segments.v[i].start / page * page;
        uint64_t end = (snapshot->segments.v[i].end + page - 1) / page * page;
        start = start > done ? start : done;
        if (!add_resident(&resident, present, &at, swapped, &hole, start, end)) {
            hx_vec_free(&resident);
            return hx_error_nomem();
        }
        done = end > done ? end : done;
    }
    hx_ranges_join(&resident);
    hx_vec_free(&snapshot->resident);
    snapshot->resident = resident;
    snapshot->has_resident = true;
    return NULL;
}
