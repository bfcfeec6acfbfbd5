/* rootscan.h - the words of the roots, and which roots remain. Used by scan.c only. */
#ifndef HX_TRAVERSE_SCAN_ROOTSCAN_H
#define HX_TRAVERSE_SCAN_ROOTSCAN_H

#include "model/snapshot.h"
#include "traverse/scan/lookup.h"

/* Edges from the roots' words in one interval of addresses, by address. */
struct hx_root_scan {
    HX_VEC(struct hx_root_edge) edges;
};

/* Puts the roots in order; before any other function here. */
hx_error *hx_root_scan_prepare(struct hx_snapshot *snapshot);

/* Scans the words of roots in [start, stop). False: out of memory. Any thread. */
bool hx_root_scan(const struct hx_snapshot *snapshot, struct hx_lookup *lookup, uint64_t start,
                  uint64_t stop, struct hx_root_scan *ret);

/* Registers; appends to snapshot.root_edges, before everything else. */
bool hx_root_scan_registers(struct hx_snapshot *snapshot, struct hx_lookup *lookup);

/* Appends to snapshot.root_edges, by growing interval, and empties `part`. */
bool hx_root_scan_append(struct hx_snapshot *snapshot, struct hx_root_scan *part);

/* Splits clusters, drops roots without edges, counts direct_objects. */
hx_error *hx_root_scan_finish(struct hx_snapshot *snapshot);

#endif
