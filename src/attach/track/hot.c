/* hot.c - samples of tracked ranges, watched for some milliseconds. */
#include "attach/track/hot.h"

#include "attach/stop/pagemap.h"
#include "base/index.h"
#include "base/timing.h"

#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>

enum {
    PAGE = 4096,
    SAMPLES = 256, /* of a range */
    NAPS = 4,
    NS_COPY = 460, /* what copying a page takes */
    WORTH = 8,     /* a stop of 1 ms is as bad as so much of faults */
};

static const struct timespec nap = {.tv_nsec = 12000000};
static const uint64_t least_bytes = 16 << 20;

struct candidate {
    struct hx_range range;
    unsigned n;
    uint64_t page[SAMPLES];
};

typedef HX_VEC(struct candidate) candidate_vec;

/* No part of a huge page, which would be split. */
static bool protect_small(const struct hx_tracker *tracker, struct hx_track *track, uint64_t page)
{
    const struct hx_page_scan small = {
        .none = HX_PAGE_HUGE | HX_PAGE_ZERO, .all = HX_PAGE_PRESENT, .told = HX_PAGE_PRESENT};
    uint64_t found = 0, protected = 0;
    hx_pagemap_each(track->pagemap, page, page + PAGE, &small, hx_track_count, &found);
    return found && tracker->protect(track, page, page + PAGE, false, hx_track_count, &protected) &&
           protected;
}

static void take_samples(const struct hx_tracker *tracker, struct hx_track *track,
                         struct candidate *candidate)
{
    const struct hx_range *range = &candidate->range;
    const uint64_t step = (range->end - range->start) / SAMPLES / PAGE;
    uint64_t dice = range->start;
    for (unsigned i = 0; i < SAMPLES; i++) {
        dice = hx_mix(dice, i); /* not in step with the target */
        const uint64_t page = range->start + (i * step + dice % step) * PAGE;
        if (protect_small(tracker, track, page))
            candidate->page[candidate->n++] = page;
    }
}

static uint64_t written_samples(const struct hx_tracker *tracker, struct hx_track *track,
                                const struct candidate *candidate)
{
    uint64_t written = 0;
    for (unsigned i = 0; i < candidate->n; i++)
        tracker->written(track, candidate->page[i], candidate->page[i] + PAGE, hx_track_count,
                         &written);
    return written;
}

/* What the first write to a page costs here: from 0.3 us to 20, where a hypervisor keeps page
 * tables in software. The least of some, because others may get the processor. */
static uint64_t measure_fault(void)
{
    enum { PAGES = 64, FEW = 8 };
    uint8_t *memory = mmap(NULL, (size_t)PAGES * PAGE, PROT_READ | PROT_WRITE,
                           MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    uint64_t least = memory == MAP_FAILED ? 0 : UINT64_MAX;
    for (size_t i = 0; least && i < PAGES;) {
        const uint64_t since = hx_now_ns();
        do
            *(volatile uint8_t *)(memory + i++ * PAGE) = 1;
        while (i % FEW);
        const uint64_t took = (hx_now_ns() - since) / FEW;
        least = took < least ? took : least;
    }
    if (memory != MAP_FAILED)
        munmap(memory, (size_t)PAGES * PAGE);
    return least;
}

static bool is_hot(uint64_t written, uint64_t pages, uint64_t ns_fault)
{
    return written >= pages || written * ns_fault > WORTH * NS_COPY * (pages - written);
}

/* Keeps those that are hot. While some may turn out so they are watched. */
static void watch(const struct hx_tracker *tracker, struct hx_track *track, candidate_vec *some)
{
    const uint64_t ns_fault = measure_fault();
    bool undecided = some->n != 0;
    for (unsigned naps = 1; undecided; naps++) {
        size_t n = 0;
        undecided = false;
        clock_nanosleep(CLOCK_MONOTONIC, 0, &nap, NULL);
        for (size_t i = 0; i < some->n; i++) {
            const struct candidate *candidate = &some->v[i];
            const uint64_t written = written_samples(tracker, track, candidate);
            const bool hot = is_hot(written, candidate->n, ns_fault);
            if (!hot &&
                (naps == NAPS || !is_hot(2 * written * NAPS / naps, candidate->n, ns_fault)))
                continue;
            undecided |= !hot;
            some->v[n++] = *candidate;
        }
        some->n = n;
    }
}

static hx_error *find_hot(const struct hx_tracker *tracker, struct hx_track *track,
                          candidate_vec *candidates)
{
    for (size_t i = 0; i < track->ranges.n; i++) {
        struct candidate candidate = {.range = track->ranges.v[i]};
        if (candidate.range.end - candidate.range.start < least_bytes)
            continue;
        take_samples(tracker, track, &candidate);
        if (candidate.n >= SAMPLES / 2)
            HX_NEED(hx_vec_push(candidates, candidate));
    }
    watch(tracker, track, candidates);
    return NULL;
}

hx_error *hx_track_leave_hot(const struct hx_tracker *tracker, struct hx_track *track,
                             uint64_t *ret_bytes)
{
    candidate_vec hot = {0};
    hx_ranges *ranges = &track->ranges;
    hx_error *err = find_hot(tracker, track, &hot);
    size_t n = 0, k = 0;
    *ret_bytes = 0;
    for (size_t i = 0; !err && i < ranges->n; i++) {
        const struct hx_range range = ranges->v[i];
        if (k < hot.n && hot.v[k].range.start == range.start) {
            tracker->leave(track, range.start, range.end);
            *ret_bytes += range.end - range.start;
            k++;
        } else {
            ranges->v[n++] = range;
        }
    }
    ranges->n = err ? ranges->n : n;
    hx_vec_free(&hot);
    return err;
}
