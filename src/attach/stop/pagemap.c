/* pagemap.c - PAGEMAP_SCAN, and the older 8 bytes a page where the kernel has none. */
#include "attach/stop/pagemap.h"

#include <errno.h>
#include <sys/ioctl.h>
#include <unistd.h>

/* The kernel's interface (include/uapi/linux/fs.h since Linux 6.7), which Debian 12's headers
 * do not have yet. */
struct scan_arg {
    uint64_t size, flags, start, end, walk_end, vec, vec_len, max_pages;
    uint64_t category_inverted, category_mask, category_anyof_mask, return_mask;
};
struct page_region {
    uint64_t start, end, categories;
};
#define SCAN_CALL    _IOWR('f', 16, struct scan_arg)
#define SCAN_FILE    (1u << 2)
#define SCAN_PRESENT (1u << 3)
#define SCAN_SWAPPED (1u << 4)
#define SCAN_ZERO    (1u << 5)
#define SCAN_GUARD   (1u << 8) /* since Linux 6.15 */

enum { REGIONS = 128, ENTRIES = 512 };

/* Without PAGEMAP_SCAN a mapping costs 8 bytes a page, present or not: reservations of
 * terabytes are out of reach. */
static const uint64_t entries_limit = (uint64_t)1 << 38;

/* 1: done, 0: `each` had enough, -1: no such call. */
static int scan_pagemap(int fd, uint64_t start, uint64_t end, bool own_only,
                        bool (*each)(void *, uint64_t, uint64_t, bool), void *context)
{
    struct page_region region[REGIONS] = {0};
    /* Guard pages (MADV_GUARD_INSTALL, which glibc 2.42 uses below stacks) count as swapped, and
     * cannot be read. */
    uint64_t unwanted = SCAN_ZERO | SCAN_GUARD | (own_only ? SCAN_FILE : 0);
    for (const uint64_t first = start; start < end;) {
        struct scan_arg arg = {
            .size = sizeof arg,
            .start = start,
            .end = end,
            .vec = (uintptr_t)region,
            .vec_len = REGIONS,
            .category_inverted = unwanted,
            .category_mask = unwanted,
            .category_anyof_mask = SCAN_PRESENT | SCAN_SWAPPED,
            .return_mask = SCAN_PRESENT,
        };
        int n = ioctl(fd, SCAN_CALL, &arg);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && errno == EINVAL && unwanted & SCAN_GUARD) {
            unwanted &= ~(uint64_t)SCAN_GUARD;
            continue;
        }
        if (n < 0)
            return start == first ? -1 : 0;
        for (int i = 0; i < n; i++)
            if (!each(context, region[i].start, region[i].end,
                      !(region[i].categories & SCAN_PRESENT)))
                return 0;
        /* With a full vector the kernel's walk_end can lie before the last region. */
        uint64_t next = arg.walk_end;
        if (n > 0 && region[n - 1].end > next)
            next = region[n - 1].end;
        if (next <= start)
            return 0;
        start = next;
    }
    return 1;
}

bool hx_pagemap_runs(int fd, uint64_t start, uint64_t end, bool own_only,
                     bool (*each)(void *context, uint64_t start, uint64_t end, bool swapped),
                     void *context)
{
    if (fd < 0)
        return each(context, start, end, false);
    int done = scan_pagemap(fd, start, end, own_only, each, context);
    if (done >= 0)
        return done == 1;
    if (end - start > entries_limit)
        return false;
    const uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
    uint64_t entry[ENTRIES], run = 0;
    bool open = false, open_swapped = false;
    for (uint64_t at = start; at < end;) {
        uint64_t want = (end - at) / page < ENTRIES ? (end - at) / page : ENTRIES;
        ssize_t got = pread(fd, entry, want * 8, (off_t)(at / page * 8));
        if (got < 8)
            return false;
        for (ssize_t i = 0; i < got / 8; i++, at += page) {
            bool guard = entry[i] >> 58 & 1;
            bool there = entry[i] >> 62 != 0 && !guard && !(own_only && entry[i] >> 61 & 1);
            bool swapped = !(entry[i] >> 63);
            bool goes_on = there && open && swapped == open_swapped;
            if (open && !goes_on && !each(context, run, at, open_swapped))
                return false;
            if (!goes_on)
                run = at;
            open = there;
            open_swapped = swapped;
        }
    }
    return !open || each(context, run, end, open_swapped);
}
