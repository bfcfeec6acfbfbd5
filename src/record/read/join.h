/* join.h - puts what was recorded beside what the heap walk found. */
#ifndef HX_RECORD_READ_JOIN_H
#define HX_RECORD_READ_JOIN_H

#include "model/snapshot.h"

/* Takes the recording over. Fills graph.site, graph.requested and sites of a snapshot whose
 * allocators were walked and whose roots were not made yet. Recorded blocks that lie in no segment
 * become objects, with segments of their own: no allocator table explains that memory. Where the
 * recorder saw everything, the rest of their mappings is free memory of the allocator; else nobody
 * knows what else lies there, and it stays what it is. */
hx_error *hx_join(struct hx_snapshot *snapshot, struct hx_recording *recording);

#endif
