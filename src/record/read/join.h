/* join.h - puts what was recorded beside what the heap walk found. */
#ifndef HX_RECORD_READ_JOIN_H
#define HX_RECORD_READ_JOIN_H

#include "model/snapshot.h"

/* Takes the recording over. Fills graph.site, graph.requested and sites of a snapshot after its
 * allocators were walked and before its roots are made. Recorded blocks outside all segments become
 * objects with segments of their own. When the recorder saw every allocation, the rest of their
 * mappings is free memory of the allocator; otherwise it is left as it is. */
hx_error *hx_join(struct hx_snapshot *snapshot, struct hx_recording *recording);

#endif
