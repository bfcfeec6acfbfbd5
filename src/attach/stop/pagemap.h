/* pagemap.h - which pages of a mapping hold something. */
#ifndef HX_ATTACH_STOP_PAGEMAP_H
#define HX_ATTACH_STOP_PAGEMAP_H

#include "attach/stop/urgent.h"
#include "base/error.h"
#include "base/vec.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/uio.h>

/* /proc/PID/pagemap, to be closed by the caller; -1: it cannot be read. */
int hx_pagemap_open(pid_t pid);

struct hx_lock_use;

/* Calls each(context, start, end, swapped) for the runs of pages in [start, end) that are resident
 * or swapped out, each run one of the two (with `own_only`: that are not pages of a file), by
 * growing address. Zero pages count as empty where the kernel tells them apart (PAGEMAP_SCAN,
 * Linux 6.7). `fd` is open on /proc/PID/pagemap; -1: every page counts. Stops when `each` returns
 * false. Returns false when it did, or when the kernel does not answer. lock: as in hx_page_scan.
 */
bool hx_pagemap_runs(int fd, uint64_t start, uint64_t end, bool own_only, struct hx_lock_use *lock,
                     bool (*each)(void *context, uint64_t start, uint64_t end, bool swapped),
                     void *context);

/* A run of pages that are resident or swapped out, as above. */
struct hx_page_run {
    uint64_t start, end;
    bool swapped, file; /* file: only where that was asked for */
};
typedef HX_VEC(struct hx_page_run) hx_page_runs;

/* The same over a range of any mappings, in as few calls as there can be: a run may cover several.
 * Returns how far the kernel has answered: `start` where it has no PAGEMAP_SCAN. *ret_failed is set
 * when there is no memory for the runs. */
uint64_t hx_pagemap_scan(int fd, uint64_t start, uint64_t end, bool ask_file, hx_page_runs *runs,
                         bool *ret_failed);

/* What PAGEMAP_SCAN tells of a page. */
enum {
    HX_PAGE_WRITTEN = 1 << 1, /* or is not there: no userfaultfd protects it from being written */
    HX_PAGE_FILE = 1 << 2,
    HX_PAGE_PRESENT = 1 << 3,
    HX_PAGE_SWAPPED = 1 << 4,
    HX_PAGE_ZERO = 1 << 5, /* the kernel's page of zeros */
    HX_PAGE_HUGE = 1 << 6,
    HX_PAGE_SOFT_DIRTY = 1 << 7,
    HX_PAGE_GUARD = 1 << 8, /* since Linux 6.15 */
    HX_PAGE_ALONE = 1 << 30 /* in no other place: the entries alone tell, PAGEMAP_SCAN refuses it */
};
enum {
    HX_SCAN_PROTECT = 1 << 0, /* protects what it finds, in the same step */
    HX_SCAN_CHECK = 1 << 1,   /* EPERM where no userfaultfd could */
};
/* Calls that hold the lock of a running target's mappings. The kernel lets who reads them in again
 * before a call of the target that waits to change them, for 4 ms and more, how short the calls may
 * be: after some of them the others get their turn. Whoever lost the processor in such a call would
 * hold the lock until it gets it back, so it goes before others for each. */
struct hx_lock_use {
    uint64_t longest_ns; /* call */
    uint64_t turn_ns;    /* since the others had theirs */
    struct hx_urgent urgent;
};
uint64_t hx_lock_begin(struct hx_lock_use *use); /* such a call comes; CLOCK_MONOTONIC */
void hx_lock_used(struct hx_lock_use *use,
                  uint64_t since_ns); /* ... which began then; keeps errno */
/* process_vm_readv() as such a call; lock: NULL where nobody waits for it. */
ssize_t hx_lock_readv(struct hx_lock_use *lock, pid_t pid, const struct iovec *local,
                      size_t n_local, const struct iovec *remote, size_t n_remote);

/* Where the older entries of pages are read to, by so many threads: what the stop reads into is
 * touched before it. */
struct hx_page_room {
    uint64_t *entry;
    size_t n;
    unsigned readers;
};

/* Which pages: that are none, all, and one of these (0: no matter); and what is told of them. After
 * max_pages of them (0: never) the kernel looks no further. */
struct hx_page_scan {
    uint64_t flags, none, all, any, told, max_pages;
    struct hx_lock_use *lock;        /* NULL: nobody waits for the lock of the mappings */
    const struct hx_page_room *room; /* for entries; NULL: a few at a time */
};

/* Calls each(context, start, end, categories) for such pages in [start, end). 1: done, 0: `each`
 * had enough or the kernel stopped on the way, -1 with errno: it refuses. */
int hx_pagemap_each(int fd, uint64_t start, uint64_t end, const struct hx_page_scan *how,
                    bool (*each)(void *context, uint64_t start, uint64_t end, uint64_t categories),
                    void *context);

/* The same from the older 8 bytes a page, which know neither WRITTEN, ZERO nor HUGE. False: `each`
 * had enough, or the kernel does not answer. */
bool hx_pagemap_entries(int fd, uint64_t start, uint64_t end, const struct hx_page_scan *how,
                        bool (*each)(void *context, uint64_t start, uint64_t end,
                                     uint64_t categories),
                        void *context);

#endif
