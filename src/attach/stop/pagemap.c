/* pagemap.c - PAGEMAP_SCAN, and the older 8 bytes a page where the kernel has none. */
#include "attach/stop/pagemap.h"

#include "base/parallel.h"
#include "base/timing.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <time.h>
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
#define SCAN_CALL _IOWR('f', 16, struct scan_arg)

enum {
    REGIONS = 128,
    REGIONS_LONG = 500,
    ENTRIES = 512,
    ENTRIES_BLOCK = 16384, /* that a thread reads at a time */
    FLAGS = 55             /* the lowest bit of an entry that says something of its page here */
};

/* Without PAGEMAP_SCAN a mapping costs 8 bytes a page, present or not: reservations of
 * terabytes are out of reach. */
static const uint64_t entries_limit = (uint64_t)1 << 38;

int hx_pagemap_open(pid_t pid)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/pagemap", pid);
    return open(path, O_RDONLY | O_CLOEXEC);
}

uint64_t hx_lock_begin(struct hx_lock_use *use)
{
    hx_urgent_begin(&use->urgent);
    return hx_now_ns();
}

void hx_lock_used(struct hx_lock_use *use, uint64_t since_ns)
{
    const uint64_t turn_ns = 300000;
    const struct timespec nap = {.tv_nsec = 50000};
    const int err = errno;
    const uint64_t held = hx_now_ns() - since_ns;
    use->longest_ns = held > use->longest_ns ? held : use->longest_ns;
    use->turn_ns += held;
    hx_urgent_end(&use->urgent);
    if (use->turn_ns >= turn_ns) {
        use->turn_ns = 0;
        nanosleep(&nap, NULL);
    }
    errno = err;
}

ssize_t hx_lock_readv(struct hx_lock_use *lock, pid_t pid, const struct iovec *local,
                      size_t n_local, const struct iovec *remote, size_t n_remote)
{
    const uint64_t since = lock ? hx_lock_begin(lock) : 0;
    ssize_t got = process_vm_readv(pid, local, n_local, remote, n_remote, 0);
    if (lock)
        hx_lock_used(lock, since);
    return got;
}

/* One call: regions from `start` on. Returns their number, -1 with errno; *ret_next: where to go
 * on. */
static int scan_once(int fd, uint64_t start, uint64_t end, struct hx_page_scan *how,
                     struct page_region *region, size_t n_regions, uint64_t *ret_next)
{
    for (;;) {
        struct scan_arg arg = {
            .size = sizeof arg,
            .flags = how->flags,
            .start = start,
            .end = end,
            .vec = (uintptr_t)region,
            .vec_len = n_regions,
            .max_pages = how->max_pages,
            .category_inverted = how->none,
            .category_mask = how->none | how->all,
            .category_anyof_mask = how->any,
            .return_mask = how->told,
        };
        uint64_t since = how->lock ? hx_lock_begin(how->lock) : 0;
        int n = ioctl(fd, SCAN_CALL, &arg);
        if (how->lock)
            hx_lock_used(how->lock, since);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && errno == EINVAL && how->none & HX_PAGE_GUARD) {
            how->none &= ~(uint64_t)HX_PAGE_GUARD;
            continue;
        }
        /* With a full vector the kernel's walk_end can lie before the last region. */
        *ret_next = arg.walk_end;
        if (n > 0 && region[n - 1].end > *ret_next)
            *ret_next = region[n - 1].end;
        return n;
    }
}

int hx_pagemap_each(int fd, uint64_t start, uint64_t end, const struct hx_page_scan *how,
                    bool (*each)(void *, uint64_t, uint64_t, uint64_t), void *context)
{
    struct page_region region[REGIONS] = {0};
    struct hx_page_scan scan = *how;
    uint64_t next;
    for (const uint64_t first = start; start < end; start = next) {
        int n = scan_once(fd, start, end, &scan, region, REGIONS, &next);
        if (n < 0)
            return start == first ? -1 : 0;
        for (int i = 0; i < n; i++)
            if (!each(context, region[i].start, region[i].end, region[i].categories))
                return 0;
        if (next <= start)
            return 0;
    }
    return 1;
}

/* All that is there. Guard pages (MADV_GUARD_INSTALL, which glibc 2.42 uses below stacks) count as
 * swapped, and cannot be read. */
static struct hx_page_scan whatever(void)
{
    return (struct hx_page_scan){.none = HX_PAGE_ZERO | HX_PAGE_GUARD,
                                 .any = HX_PAGE_PRESENT | HX_PAGE_SWAPPED,
                                 .told = HX_PAGE_PRESENT};
}

uint64_t hx_pagemap_scan(int fd, uint64_t start, uint64_t end, bool ask_file, hx_page_runs *runs,
                         bool *ret_failed)
{
    struct page_region region[REGIONS_LONG] = {0}; /* Valgrind does not know the call */
    struct hx_page_scan scan = whatever();
    uint64_t next;
    scan.told |= ask_file ? HX_PAGE_FILE : 0;
    for (; start < end; start = next) {
        int n = scan_once(fd, start, end, &scan, region, REGIONS_LONG, &next);
        if (n < 0 || next <= start)
            break;
        if (!hx_vec_reserve(runs, runs->n + (size_t)n)) {
            *ret_failed = true;
            break;
        }
        for (int i = 0; i < n; i++)
            runs->v[runs->n++] = (struct hx_page_run){region[i].start, region[i].end,
                                                      !(region[i].categories & HX_PAGE_PRESENT),
                                                      (region[i].categories & HX_PAGE_FILE) != 0};
    }
    return start;
}

static uint64_t categories_of(uint64_t entry)
{
    static const struct {
        int bit;
        uint64_t category;
    } known[] = {{63, HX_PAGE_PRESENT}, {62, HX_PAGE_SWAPPED}, {61, HX_PAGE_FILE},
                 {58, HX_PAGE_GUARD},   {56, HX_PAGE_ALONE},   {55, HX_PAGE_SOFT_DIRTY}};
    uint64_t categories = 0;
    for (size_t i = 0; entry && i < sizeof known / sizeof *known; i++)
        categories |= entry >> known[i].bit & 1 ? known[i].category : 0;
    return categories;
}

static bool is_asked_for(const struct hx_page_scan *how, uint64_t categories)
{
    return !(categories & how->none) && (categories & how->all) == how->all &&
           (!how->any || categories & how->any);
}

struct entries {
    int fd;
    uint64_t *entry, first; /* to be read: from the first-th page of the address space on */
    atomic_bool failed;
};

static void read_entries(void *context, unsigned reader, size_t from, size_t to)
{
    (void)reader;
    struct entries *entries = context;
    while (from < to && !atomic_load(&entries->failed)) {
        ssize_t got = pread(entries->fd, entries->entry + from, (to - from) * 8,
                            (off_t)((entries->first + from) * 8));
        if (got < 8)
            atomic_store(&entries->failed, true);
        else
            from += (size_t)got / 8;
    }
}

bool hx_pagemap_entries(int fd, uint64_t start, uint64_t end, const struct hx_page_scan *how,
                        bool (*each)(void *, uint64_t, uint64_t, uint64_t), void *context)
{
    const uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
    uint64_t few[ENTRIES], run = start, run_told = 0, last = 0;
    const struct hx_page_room small = {few, ENTRIES, 1}, *room = how->room ? how->room : &small;
    bool open = false, asked_for = is_asked_for(how, 0);
    uint64_t told = 0; /* of the last entry */
    for (uint64_t at = start; at < end;) {
        size_t n = (end - at) / page < room->n ? (end - at) / page : room->n;
        struct entries entries = {.fd = fd, .entry = room->entry, .first = at / page};
        hx_parallel_blocks(room->readers, n, ENTRIES_BLOCK, read_entries, &entries, NULL);
        if (!n || atomic_load(&entries.failed))
            return false;
        for (size_t i = 0; i < n; i++, at += page) {
            if (room->entry[i] >> FLAGS != last) {
                last = room->entry[i] >> FLAGS;
                uint64_t categories = categories_of(room->entry[i]);
                told = categories & how->told;
                asked_for = is_asked_for(how, categories);
            }
            if (open == asked_for && (!open || told == run_told))
                continue;
            if (open && !each(context, run, at, run_told))
                return false;
            open = asked_for;
            run = at;
            run_told = told;
        }
    }
    return !open || each(context, run, end, run_told);
}

struct runs {
    bool (*each)(void *context, uint64_t start, uint64_t end, bool swapped);
    void *context;
};

static bool pass_run(void *context, uint64_t start, uint64_t end, uint64_t categories)
{
    const struct runs *runs = context;
    return runs->each(runs->context, start, end, !(categories & HX_PAGE_PRESENT));
}

bool hx_pagemap_runs(int fd, uint64_t start, uint64_t end, bool own_only, struct hx_lock_use *lock,
                     bool (*each)(void *context, uint64_t start, uint64_t end, bool swapped),
                     void *context)
{
    if (fd < 0)
        return each(context, start, end, false);
    struct hx_page_scan scan = whatever();
    scan.none |= own_only ? HX_PAGE_FILE : 0;
    scan.lock = lock;
    int done = hx_pagemap_each(fd, start, end, &scan, pass_run, &(struct runs){each, context});
    if (done >= 0)
        return done == 1;
    return end - start <= entries_limit &&
           hx_pagemap_entries(fd, start, end, &scan, pass_run, &(struct runs){each, context});
}
