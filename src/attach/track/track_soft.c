/* track_soft.c - soft-dirty bits: the kernel keeps one a page, clears all of a process at once when
 * it is asked to (clear_refs), and sets it at the next write. Nothing runs in the process.
 *
 * Cleared before anything is copied: a write up to the end of the clearing is older than the
 * copy, a later one sets the bit, which the stop reads. What is written between reading the bits
 * and clearing them again would be lost, so that is done while all threads stand still.
 *
 * A bit tells of writes alone. What else can be where something else was: nothing, which shows; the
 * page of zeros, a page of a file, or one that a child has, too, which do not look like a page that
 * the process has alone; and pages that mremap() brought, which have the bit set - but where it
 * moves whole tables of pages (2 MiB, both places aligned) onto memory that was given back while
 * it was copied, and nobody writes them, they pass for what was there.
 */
#include "attach/track/track.h"

#include "attach/ranges.h"
#include "attach/stop/pagemap.h"
#include "base/cleanup.h"
#include "base/parallel.h"
#include "base/proc.h"
#include "base/progress.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

/* What clearing takes, about, on a slow machine. */
enum { NS_PAGE = 25, NS_MAPPING = 500, PAGE = 4096 };

/* Without PAGEMAP_SCAN the stop reads 8 bytes a page, there or not: only where every so many-th is
 * there. */
static const uint64_t sparse = 64, small_bytes = 64 << 20;

/* --- does the kernel keep them? --------------------------------------------------------- */

static bool clear(int fd)
{
    return pwrite(fd, "4", 1, 0) == 1;
}

static bool is_dirty(int pagemap, const volatile uint8_t *page, bool dirty)
{
    uint64_t entry;
    off_t at = (off_t)((uintptr_t)page / PAGE * 8);
    return pread(pagemap, &entry, sizeof entry, at) == sizeof entry && entry >> 63 &&
           (entry >> 55 & 1) == dirty;
}

/* In a child, where nothing but this page is touched. */
static bool try_bits(volatile uint8_t *page)
{
    int clear_refs = open("/proc/self/clear_refs", O_WRONLY | O_CLOEXEC);
    int pagemap = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
    *page = 1;
    if (!clear(clear_refs) || !is_dirty(pagemap, page, false))
        return false;
    *page = 2;
    return is_dirty(pagemap, page, true);
}

bool hx_track_soft_works(void)
{
    uint8_t *page = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    bool *works = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    bool result = false;
    pid_t child = page == MAP_FAILED || (void *)works == MAP_FAILED ? -1 : fork();
    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        *works = try_bits(page);
        _exit(0);
    }
    while (child > 0 && waitpid(child, NULL, 0) < 0 && errno == EINTR)
        ;
    if ((void *)works != MAP_FAILED) {
        result = child > 0 && *works;
        munmap(works, PAGE);
    }
    if (page != MAP_FAILED)
        munmap(page, PAGE);
    return result;
}

/* --- one process -------------------------------------------------------------------------- */

/* Whose tracking would be reset: CRIU stops a process by ptrace. */
static bool is_traced(pid_t pid)
{
    HX_FREE char *status = hx_proc_text("/proc/%d/status", pid);
    const char *tracer = status ? hx_proc_field(status, "TracerPid") : NULL;
    return !tracer || atoi(tracer) != 0;
}

static uint64_t expected_ns(const struct hx_mapping *mapping, size_t n)
{
    uint64_t pages = 0;
    for (size_t i = 0; i < n; i++)
        pages += (mapping[i].rss_bytes + mapping[i].swap_bytes) / PAGE;
    return pages * NS_PAGE + n * NS_MAPPING;
}

static bool prepare(struct hx_track *track, const struct hx_mapping *mapping, size_t n,
                    char why[HX_UFFD_WHY])
{
    char path[64];
    track->way.mapping = mapping;
    track->way.n_mappings = n;
    uint64_t expected = track->renewal_ns = expected_ns(mapping, n);
    snprintf(path, sizeof path, "/proc/%d/clear_refs", track->pid);
    if (!hx_track_soft_works())
        snprintf(why, HX_UFFD_WHY, "no soft-dirty bits are kept here");
    else if (is_traced(track->pid))
        snprintf(why, HX_UFFD_WHY, "its tracer may need its soft-dirty bits");
    else if (track->max_held_ns && expected > track->max_held_ns)
        snprintf(why, HX_UFFD_WHY, "clearing soft-dirty bits could hold it up for %u ms",
                 (unsigned)(expected / 1000000 + 1));
    else if (!hx_track_open(track, mapping, n) ||
             (track->clear_refs = open(path, O_WRONLY | O_CLOEXEC)) < 0)
        snprintf(why, HX_UFFD_WHY, "its soft-dirty bits: %s", strerror(errno));
    else
        return true;
    return false;
}

/* Room for the entries of a GiB, touched; without it they are read a few at a time. */
static void make_room(struct hx_track *track)
{
    const size_t n = 1 << 18;
    uint64_t *entry = track->scans ? NULL : malloc(n * sizeof *entry);
    if (entry)
        track->room = (struct hx_page_room){memset(entry, 1, n * sizeof *entry), n, hx_threads(0)};
}

static bool renew(struct hx_track *track)
{
    uint64_t since = hx_lock_begin(&track->lock);
    bool ok = clear(track->clear_refs);
    hx_lock_used(&track->lock, since);
    return ok;
}

static bool begin(struct hx_track *track, struct hx_tracer *tracer, char why[HX_UFFD_WHY])
{
    (void)tracer;
    make_room(track);
    if (renew(track))
        return true;
    snprintf(why, HX_UFFD_WHY, "its soft-dirty bits: %s", strerror(errno));
    return false;
}

static bool add(struct hx_track *track, uint64_t start, uint64_t end)
{
    const struct hx_uffd_way *way = &track->way;
    size_t i = hx_mapping_find(way->mapping, way->n_mappings, start);
    bool is_sparse = end - start > small_bytes && i < way->n_mappings &&
                     way->mapping[i].rss_bytes < (end - start) / sparse;
    return (track->scans || !is_sparse) && hx_ranges_add(&track->ranges, start, end);
}

struct telling {
    hx_track_each *each;
    void *context;
    bool scans, by_entries, first, again;
};

static bool tell(void *context, uint64_t start, uint64_t end, uint64_t categories)
{
    const struct telling *telling = context;
    bool same =
        !(categories & HX_PAGE_FILE) &&
        (!telling->by_entries || !(categories & HX_PAGE_PRESENT) || categories & HX_PAGE_ALONE);
    if ((telling->first || telling->again) && !same) /* the stop would read it again */
        return true;
    uint64_t written = same && !(categories & HX_PAGE_SOFT_DIRTY) ? 0 : HX_PAGE_WRITTEN;
    if (telling->again && !written)
        return true;
    return telling->each(telling->context, start, end, (categories & HX_PAGE_PRESENT) | written);
}

static bool tell_all(const struct hx_track *track, int pagemap, uint64_t start, uint64_t end,
                     struct telling *telling)
{
    struct hx_page_scan how = {.none = HX_PAGE_ZERO | HX_PAGE_GUARD,
                               .any = HX_PAGE_PRESENT | HX_PAGE_SWAPPED,
                               .told = HX_PAGE_PRESENT | HX_PAGE_FILE | HX_PAGE_SOFT_DIRTY,
                               .room = track->room.entry ? &track->room : NULL};
    int done = telling->scans ? hx_pagemap_each(pagemap, start, end, &how, tell, telling) : -1;
    if (done >= 0)
        return done == 1;
    how.told |= HX_PAGE_ALONE;
    telling->by_entries = true;
    return hx_pagemap_entries(pagemap, start, end, &how, tell, telling);
}

/* Of whatever has its number now: it may be another program than it was, whose pages are all new.
 */
static bool tell_all_now(const struct hx_track *track, uint64_t start, uint64_t end,
                         struct telling *telling)
{
    HX_FD int pagemap = hx_pagemap_open(track->pid);
    return pagemap >= 0 && tell_all(track, pagemap, start, end, telling);
}

static bool protect(struct hx_track *track, uint64_t start, uint64_t end, bool again,
                    hx_track_each *each, void *context)
{
    struct telling telling = {
        .each = each, .context = context, .scans = track->scans, .first = !again, .again = again};
    return again ? tell_all_now(track, start, end, &telling)
                 : tell_all(track, track->pagemap, start, end, &telling);
}

static bool written(struct hx_track *track, uint64_t start, uint64_t end, hx_track_each *each,
                    void *context)
{
    struct telling telling = {.each = each, .context = context, .scans = track->scans};
    return tell_all_now(track, start, end, &telling);
}

/* Nothing is to be lifted. */
static void end_tracking(struct hx_track *track)
{
    (void)track;
}

const struct hx_tracker hx_track_soft = {
    .name = "soft-dirty",
    .tells_all = true,
    .renew = renew,
    .prepare = prepare,
    .begin = begin,
    .add = add,
    .protect = protect,
    .written = written,
    .end = end_tracking,
};
