/* debug_types.h - the types and variables of a snapshot's program, from the debug information of
 * its files, brought together.
 *
 * Files that have none, and what could not be read in time, are left out.
 */
#ifndef HX_ATTACH_TYPES_DEBUG_TYPES_H
#define HX_ATTACH_TYPES_DEBUG_TYPES_H

#include "base/progress.h"
#include "model/snapshot.h"
#include "model/type_merge.h"

typedef struct hx_code hx_code; /* sym/code/code.h */

struct hx_debug_types {
    struct hx_merged_types types;
    HX_VEC(struct hx_typed_place) places; /* registers by root, then by address, apart */
    size_t late; /* files that were left out because they would have taken too long */
};

/* Of snapshot.loaded, what can be read until deadline_ns (CLOCK_MONOTONIC; UINT64_MAX: all). Roots
 * that are statics of functions are called by these, too: "f::map" for the symbol "map.0". */
hx_error *hx_debug_types_find(struct hx_snapshot *snapshot, hx_code *code, uint64_t deadline_ns,
                              const struct hx_progress *progress, struct hx_debug_types *ret);
void hx_debug_types_deinit(struct hx_debug_types *types);

#endif
