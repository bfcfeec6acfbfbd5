/* pagemap.h - which pages of a mapping hold something. */
#ifndef HX_ATTACH_STOP_PAGEMAP_H
#define HX_ATTACH_STOP_PAGEMAP_H

#include "base/error.h"

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

#endif
