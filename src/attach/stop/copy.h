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
};

struct hx_copy {
    pid_t pid;
    unsigned threads;
    int memory_fd;
    int pagemap;     /* open from hx_copy_scan() on; -1: not */
    uint8_t *memory; /* mapping of memory_fd */
    uint64_t room;   /* bytes of memory mapped */
    uint64_t used;   /* bytes the pieces take */
    HX_VEC(struct hx_piece) pieces;
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

/* While the target stands still: looks which pages there are. Needs no mappings, so that somebody
 * else can read them meanwhile. */
hx_error *hx_copy_scan(struct hx_copy *copy);

/* Then: which of them to copy, by the mappings as they are now. Corrects the figures of those whose
 * pages it has seen: in the end rss_bytes, anonymous_bytes and swap_bytes are of the stop, or of
 * before it where nobody scans (large files that nobody writes). */
hx_error *hx_copy_plan(struct hx_copy *copy, struct hx_mapping *mapping, size_t n,
                       const struct hx_mapping *before, size_t n_before);

/* While the target stands still: reads them. */
hx_error *hx_copy_read(struct hx_copy *copy, const struct hx_tracer *tracer);

void hx_copy_deinit(struct hx_copy *copy);

/* What a snapshot of these mappings (smaps) will take. */
struct hx_memory_need hx_copy_need(const struct hx_mapping *mapping, size_t n);

#endif
