/* scan.h - from words to edges.
 *
 * Conservative: every aligned word of an object and of a root region that points
 * into an object is an edge. Blocks are looked up in a bitmap of block starts with
 * rank (one bit for each 16 bytes, count of starts before each word of the map).
 * Known interior shapes are those of Valgrind's leak checker (memcheck,
 * mc_leakcheck.c): std::string body, length prefix, new[] cookie, base class
 * (vtable pointer inside a block that begins with one).
 */
#ifndef HX_TRAVERSE_SCAN_SCAN_H
#define HX_TRAVERSE_SCAN_SCAN_H

#include "base/progress.h"
#include "model/snapshot.h"

struct hx_scan_options {
    unsigned threads; /* 0: as many as the machine has, at most 16 */
    /* Is the word at `addr` the address of a C++ vtable? NULL: no base class is
     * known. Must be safe to call from any thread. */
    bool (*is_vtable)(void *context, uint64_t addr);
    void *context;
};

/* Fills graph.fwd, graph.edge, root_edges and roots[].direct_objects from the image.
 * Nameless (cluster) roots are split into one root for each group of edge words
 * with less than 128 bytes between them (256, 512, ... where that makes more than 65,536
 * groups of one root), each named module+0xOFFSET; afterwards
 * roots without edges, other than stacks, are dropped. options NULL: defaults. */
hx_error *hx_scan(struct hx_snapshot *snapshot, const struct hx_scan_options *options,
                  const struct hx_progress *progress);

#endif
