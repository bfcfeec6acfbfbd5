/* pagemap.h - which pages of a mapping hold something. */
#ifndef HX_ATTACH_STOP_PAGEMAP_H
#define HX_ATTACH_STOP_PAGEMAP_H

#include "base/error.h"
#include "base/vec.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* Calls each(context, start, end, swapped) for the runs of pages in [start, end) that are resident
 * or swapped out, each run one of the two (with `own_only`: that are not pages of a file), by
 * growing address. Zero pages count as empty where the kernel tells them apart (PAGEMAP_SCAN,
 * Linux 6.7). `fd` is open on /proc/PID/pagemap; -1: every page counts. Stops when `each` returns
 * false. Returns false when it did, or when the kernel does not answer. */
bool hx_pagemap_runs(int fd, uint64_t start, uint64_t end, bool own_only,
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

#endif
