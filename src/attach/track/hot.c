/* hot.c - samples of ranges, read again and again for some milliseconds. */
#include "attach/track/hot.h"

#include "attach/stop/pagemap.h"
#include "attach/track/track.h"
#include "base/cleanup.h"
#include "base/index.h"
#include "base/timing.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <time.h>

enum {
    PAGE = 4096,
    WORDS = PAGE / 8,
    SAMPLES = 256, /* of a range */
    NAPS = 4,
    NS_COPY = 460, /* what copying a page takes */
    WORTH = 8,     /* a stop of 1 ms is as bad as so much of faults */
};

static const struct timespec nap = {.tv_nsec = 12000000};

struct sampled {
    struct hx_range range;
    unsigned n;
    uint64_t page[SAMPLES], hash[SAMPLES]; /* addresses; what was there at first, of n pages */
};

typedef HX_VEC(struct sampled) sampled_vec;

/* What a sampling works with. */
struct sampling {
    pid_t pid;
    int pagemap;
    struct hx_lock_use lock;
    sampled_vec some; /* that may be hot */
    uint64_t words[SAMPLES][WORDS];
};

/* Reading one that is not would bring it in. */
static bool is_present(int pagemap, uint64_t page)
{
    static const struct hx_page_scan present = {
        .none = HX_PAGE_ZERO, .all = HX_PAGE_PRESENT, .told = HX_PAGE_PRESENT};
    uint64_t pages = 0;
    hx_pagemap_each(pagemap, page, page + PAGE, &present, hx_track_count, &pages);
    return pages != 0;
}

/* Reads the pages; how many of them. */
static unsigned read_pages(struct sampling *sampling, const struct sampled *sampled)
{
    struct iovec local = {sampling->words, (size_t)sampled->n * PAGE}, remote[SAMPLES];
    for (unsigned i = 0; i < sampled->n; i++)
        remote[i] = (struct iovec){(void *)(uintptr_t)sampled->page[i], PAGE};
    ssize_t got = hx_lock_readv(&sampling->lock, sampling->pid, &local, 1, remote, sampled->n);
    return got < 0 ? 0 : (unsigned)(got / PAGE);
}

static uint64_t hash_page(const uint64_t words[WORDS])
{
    uint64_t hash = 0;
    for (size_t i = 0; i < WORDS; i++)
        hash = hx_hash(hash, words[i]);
    return hash;
}

static bool take_samples(struct sampling *sampling, const struct hx_range *range)
{
    struct sampled sampled = {.range = *range};
    const uint64_t step = (range->end - range->start) / SAMPLES / PAGE;
    uint64_t dice = range->start;
    for (unsigned i = 0; step && i < SAMPLES; i++) {
        dice = hx_mix(dice, i); /* not in step with the target */
        const uint64_t page = range->start + (i * step + dice % step) * PAGE;
        if (is_present(sampling->pagemap, page))
            sampled.page[sampled.n++] = page;
    }
    sampled.n = sampled.n < SAMPLES / 2 ? 0 : read_pages(sampling, &sampled);
    for (unsigned i = 0; i < sampled.n; i++)
        sampled.hash[i] = hash_page(sampling->words[i]);
    return !sampled.n || hx_vec_push(&sampling->some, sampled);
}

static uint64_t changed_samples(struct sampling *sampling, const struct sampled *sampled)
{
    uint64_t changed = 0;
    const unsigned n = read_pages(sampling, sampled);
    for (unsigned i = 0; i < n; i++)
        changed += hash_page(sampling->words[i]) != sampled->hash[i];
    return changed;
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
static void watch(struct sampling *sampling)
{
    const uint64_t ns_fault = measure_fault();
    bool undecided = sampling->some.n != 0;
    for (unsigned naps = 1; undecided; naps++) {
        size_t n = 0;
        undecided = false;
        clock_nanosleep(CLOCK_MONOTONIC, 0, &nap, NULL);
        for (size_t i = 0; i < sampling->some.n; i++) {
            const struct sampled *sampled = &sampling->some.v[i];
            const uint64_t written = changed_samples(sampling, sampled);
            const bool hot = is_hot(written, sampled->n, ns_fault);
            if (!hot && (naps == NAPS || !is_hot(2 * written * NAPS / naps, sampled->n, ns_fault)))
                continue;
            undecided |= !hot;
            sampling->some.v[n++] = *sampled;
        }
        sampling->some.n = n;
    }
}

static hx_error *find_hot(struct sampling *sampling, const hx_ranges *ranges, hx_ranges *hot)
{
    for (size_t i = 0; i < ranges->n; i++)
        HX_NEED(take_samples(sampling, &ranges->v[i]));
    watch(sampling);
    for (size_t i = 0; i < sampling->some.n; i++)
        HX_NEED(hx_vec_push(hot, sampling->some.v[i].range));
    return NULL;
}

hx_error *hx_hot_ranges(pid_t pid, int pagemap, const hx_ranges *ranges, hx_ranges *hot)
{
    HX_FREE struct sampling *sampling = ranges->n ? calloc(1, sizeof *sampling) : NULL;
    if (!ranges->n)
        return NULL;
    HX_NEED(sampling);
    sampling->pid = pid;
    sampling->pagemap = pagemap;
    hx_error *err = find_hot(sampling, ranges, hot);
    hx_vec_free(&sampling->some);
    return err;
}
