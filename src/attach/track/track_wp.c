/* track_wp.c - pages that a userfaultfd write-protects: the kernel lifts that by itself at the
 * first write (UFFD_FEATURE_WP_ASYNC), and PAGEMAP_SCAN tells where it did. */
#include "attach/track/track.h"

#include "attach/ranges.h"
#include "attach/stop/pagemap.h"
#include "base/cleanup.h"
#include "base/proc.h"
#include "base/progress.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#define WP_ASYNC ((uint64_t)1 << 15) /* UFFD_FEATURE_WP_ASYNC: newer than Debian 12's headers */

/* A call of the kernel holds the lock of the target's mappings for all that it goes over: so much
 * where pages are, at least a huge one, which would be split else; so much of what may be empty. */
static const uint64_t piece_bytes = 8 << 20, least_bytes = 2 << 20, hole_bytes = 1 << 30;
static const uint64_t whole_bytes = 32 << 20; /* a mapping that is lifted at once, at most */
enum { PAGE = 4096, NS_PAGE = 500 /* what protecting takes, at most */ };

static bool prepare(struct hx_track *track, const struct hx_mapping *mapping, size_t n,
                    char why[HX_UFFD_WHY])
{
    if (!hx_track_open(track, mapping, n) || !track->scans) {
        snprintf(why, HX_UFFD_WHY, "the kernel has no PAGEMAP_SCAN (Linux 6.7)");
        return false;
    }
    if (track->max_held_ns && track->max_held_ns < least_bytes / PAGE * NS_PAGE) {
        snprintf(why, HX_UFFD_WHY, "protecting pages could hold it up for 1 ms");
        return false;
    }
    HX_FREE char *most = hx_proc_text("/proc/sys/vm/max_map_count");
    if (most && n > strtoull(most, NULL, 10) / 4 * 3) {
        snprintf(why, HX_UFFD_WHY, "it has %zu mappings, and tracking them can make more", n);
        return false;
    }
    return hx_uffd_prepare(track->pid, mapping, n, &track->way, why);
}

static bool begin(struct hx_track *track, struct hx_tracer *tracer, char why[HX_UFFD_WHY])
{
    struct uffdio_api api = {.api = UFFD_API, .features = WP_ASYNC};
    if (!hx_uffd_make(&track->way, tracer, &track->uffd, why))
        return false;
    if (ioctl(track->uffd, UFFDIO_API, &api) == 0)
        return true;
    snprintf(why, HX_UFFD_WHY, "the kernel protects no pages without faults (Linux 6.7)");
    return false;
}

static bool add(struct hx_track *track, uint64_t start, uint64_t end)
{
    struct uffdio_register range = {.range = {start, end - start}, .mode = UFFDIO_REGISTER_MODE_WP};
    uint64_t since = hx_lock_begin(&track->lock);
    bool ok = ioctl(track->uffd, UFFDIO_REGISTER, &range) == 0;
    hx_lock_used(&track->lock, since);
    return ok && hx_ranges_add(&track->ranges, start, end);
}

/* Half of what was promised: the kernel may give the processor to others meanwhile. */
static uint64_t piece_size(const struct hx_track *track)
{
    uint64_t bytes = track->max_held_ns / 2 / NS_PAGE * PAGE / least_bytes * least_bytes;
    return !track->max_held_ns || bytes > piece_bytes ? piece_bytes
           : bytes < least_bytes                      ? least_bytes
                                                      : bytes;
}

static bool see_first(void *context, uint64_t start, uint64_t end, uint64_t categories)
{
    (void)end, (void)categories;
    *(uint64_t *)context = start;
    return false;
}

/* The end of the piece that begins at `at`: behind its first such page, *ret_first, or of a hole.
 */
static uint64_t end_of_piece(struct hx_track *track, uint64_t at, uint64_t end,
                             struct hx_page_scan how, uint64_t *ret_first)
{
    uint64_t hole = end - at < hole_bytes ? end : at + hole_bytes;
    *ret_first = hole;
    how.flags = 0;
    how.max_pages = 1;
    if (hx_pagemap_each(track->pagemap, at, hole, &how, see_first, ret_first) < 0)
        *ret_first = at;
    const uint64_t piece = piece_size(track);
    uint64_t to = *ret_first / piece * piece + piece;
    return *ret_first == hole ? hole : to < end ? to : end;
}

static struct hx_page_scan there(struct hx_track *track, bool again)
{
    return (struct hx_page_scan){.none = HX_PAGE_ZERO | HX_PAGE_GUARD,
                                 .all = again ? HX_PAGE_WRITTEN : 0,
                                 .any = HX_PAGE_PRESENT | HX_PAGE_SWAPPED,
                                 .told = HX_PAGE_PRESENT | HX_PAGE_HUGE,
                                 .lock = &track->lock};
}

static bool protect(struct hx_track *track, uint64_t start, uint64_t end, bool again,
                    hx_track_each *each, void *context)
{
    struct hx_page_scan how = there(track, again);
    how.flags = HX_SCAN_PROTECT | HX_SCAN_CHECK;
    bool all = true;
    for (uint64_t at = start, first, to; at < end; at = to) {
        to = end_of_piece(track, at, end, how, &first);
        all &= hx_pagemap_each(track->pagemap, first, to, &how, each, context) == 1;
    }
    return all;
}

static bool written(struct hx_track *track, uint64_t start, uint64_t end, hx_track_each *each,
                    void *context)
{
    /* asked for alone, which the kernel answers several times as fast */
    const struct hx_page_scan how = {
        .flags = HX_SCAN_CHECK, .all = HX_PAGE_WRITTEN, .told = HX_PAGE_WRITTEN};
    return hx_pagemap_each(track->pagemap, start, end, &how, each, context) == 1;
}

/* Closing the descriptor would hold the target's lock for all of it. Until the last piece of a
 * mapping is lifted it is two in the kernel's eyes, which mremap() does not move, so only large
 * ones are taken in pieces. */
static void lift(struct hx_track *track, uint64_t start, uint64_t end)
{
    const bool whole =
        end - start <= whole_bytes &&
        (!track->max_held_ns || (end - start) / PAGE * NS_PAGE <= track->max_held_ns);
    for (uint64_t at = start, first, to; at < end; at = to) {
        to = whole ? end : end_of_piece(track, at, end, there(track, false), &first);
        struct uffdio_range range = {at, to - at};
        uint64_t since = hx_lock_begin(&track->lock);
        ioctl(track->uffd, UFFDIO_UNREGISTER, &range); /* what was unmapped meanwhile is not */
        hx_lock_used(&track->lock, since);
    }
}

static void end_tracking(struct hx_track *track)
{
    for (size_t i = 0; track->uffd >= 0 && i < track->ranges.n; i++)
        lift(track, track->ranges.v[i].start, track->ranges.v[i].end);
}

const struct hx_tracker hx_track_wp = {
    .name = "userfaultfd",
    .begins_stopped = true,
    .prepare = prepare,
    .begin = begin,
    .add = add,
    .protect = protect,
    .written = written,
    .end = end_tracking,
};
