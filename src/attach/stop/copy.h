/* copy.h - method `copy`: the target's memory into memory that was touched before the stop.
 *
 * Runs in the capture worker. Only resident and swapped pages of mappings that can hold
 * heap, roots or stacks are read; never device memory.
 */
#ifndef HX_ATTACH_STOP_COPY_H
#define HX_ATTACH_STOP_COPY_H

#include "attach/memory_limits.h"
#include "attach/stop/agent.h"
#include "attach/stop/pagemap.h"
#include "attach/stop/tracer.h"

/* A long range to scan in the stop, of many mappings. */
struct hx_copy_scan {
    uint64_t start, end;
    bool ask_file; /* private mappings of files are in it: which pages are theirs? */
    bool tracked;  /* struct hx_copied tells, instead of a scan */
};

/* What was copied before the stop, and who knows what of it was written since (attach/precopy.h).
 */
struct hx_copied {
    hx_pieces known;   /* sorted */
    hx_ranges tracked; /* in order: `known` lies in them, and no mapping of a file */
    hx_ranges changed; /* what is to be read again; in order behind hx_copy_scan() */

    /* In the stop, for a part of a tracked range: adds what is there to `runs`, and to `changed`
     * what may have been written; returns as hx_pagemap_scan() does. */
    uint64_t (*look)(struct hx_copied *copied, int pagemap, uint64_t start, uint64_t end,
                     hx_page_runs *runs, bool *ret_failed);
};

struct hx_copy {
    pid_t pid;
    unsigned threads;
    int memory_fd;
    int pagemap;     /* open from hx_copy_scan() on; -1: not */
    uint8_t *memory; /* mapping of memory_fd */
    uint64_t room;   /* bytes of memory mapped */
    uint64_t used;   /* bytes the pieces take */
    hx_pieces pieces;
    struct hx_copied *copied; /* NULL: nothing was */
    hx_pieces unread;         /* of the pieces, where something was */
    hx_ranges lost;
    hx_ranges swapped;                 /* pages of the pieces that were swapped out; sorted */
    bool pages_known;                  /* the kernel has told which pages there are */
    HX_VEC(struct hx_copy_scan) scans; /* sorted; what lies between them is not scanned */
    hx_page_runs runs;                 /* what they have found */
    _Atomic uint64_t *progress;        /* bytes read so far, shared with the supervisor */
};

/* Before the stop: estimates from `mapping` (smaps) how much there is, makes or takes over
 * memory_fd and touches it, and chooses what is to be scanned. HX_E_LIMIT when it does not fit. */
hx_error *hx_copy_prepare(struct hx_copy *copy, const struct hx_mapping *mapping, size_t n,
                          const struct hx_tracer *tracer);

/* Then, when something was copied beside the running target: chooses anew. */
hx_error *hx_copy_use(struct hx_copy *copy, struct hx_copied *copied,
                      const struct hx_mapping *mapping, size_t n);

/* Room for `used` bytes. */
hx_error *hx_copy_make_room(struct hx_copy *copy);

/* Where [start, end) goes, or the first part of it, whose end is returned: to the copy that is
 * there
 * (*ret_known), or behind all. */
uint64_t hx_copy_place(struct hx_copy *copy, const struct hx_copied *copied, uint64_t start,
                       uint64_t end, uint64_t *ret_offset, bool *ret_known);

/* While the target stands still: looks which pages there are. Needs no mappings, so that somebody
 * else can read them meanwhile. */
hx_error *hx_copy_scan(struct hx_copy *copy);

/* Then: which of them to copy, by the mappings as they are now. Corrects the figures of those whose
 * pages it has seen: in the end rss_bytes, anonymous_bytes and swap_bytes are of the stop, or of
 * before it where nobody scans (large files that nobody writes). */
hx_error *hx_copy_plan(struct hx_copy *copy, struct hx_mapping *mapping, size_t n,
                       const struct hx_mapping *before, size_t n_before);

/* Reads pieces, sorted or not, at their places in the copy. While the target runs (`beside`) in
 * calls of a MiB, each before others, because the kernel holds the lock of its mappings in it. */
hx_error *hx_copy_read(struct hx_copy *copy, const struct hx_piece *piece, size_t n, bool beside,
                       const struct hx_tracer *tracer);

/* The same of all that the plan leaves to read. */
hx_error *hx_copy_read_rest(struct hx_copy *copy, const struct hx_tracer *tracer);

void hx_copy_deinit(struct hx_copy *copy);

/* Is the mapping (smaps) copied? *ret_own_only: only what the process wrote itself. */
bool hx_copy_takes(const struct hx_mapping *mapping, bool *ret_own_only);

/* How much of these mappings (smaps) is copied, about. */
uint64_t hx_copy_bytes(const struct hx_mapping *mapping, size_t n);

/* What a snapshot of them will take. */
struct hx_memory_need hx_copy_need(const struct hx_mapping *mapping, size_t n);

#endif
