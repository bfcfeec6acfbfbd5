/* evidence.h - what the words of a heap tell about whether they are references, and which blocks
 * look alike.
 *
 * A program leaves pointers behind in memory that it does not use any more. Each rule (rules.h)
 * recognises such words: by the bytes that were requested, by known shapes (strings, vectors,
 * deques, FILE), and by what fields of blocks that look alike usually hold. Classes of blocks are
 * found by size, type and the kinds of their words, as in A. Cozzie et al., "Digging for Data
 * Structures" (OSDI 2008), but counted instead of learned.
 */
#ifndef HX_TRAVERSE_HOLD_EVIDENCE_H
#define HX_TRAVERSE_HOLD_EVIDENCE_H

#include "base/progress.h"
#include "model/snapshot.h"

/* Fills graph.evidence, graph.shape, snapshot.shapes and the evidence of root edges. Needs the
 * edges and the image; types and requested bytes where they are known. No result depends on the
 * number of threads, which are as in struct hx_scan_options. */
hx_error *hx_evidence_find(struct hx_snapshot *snapshot, unsigned threads,
                           const struct hx_progress *progress);

#endif
