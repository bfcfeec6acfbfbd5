/* bins.h - the exact set of named roots that reach each object.
 *
 * The same propagation as retainer sets (retain.h), over all objects: one pass for all roots
 * over the condensed graph, sets interned, so that any number of roots costs what their distinct
 * combinations cost. The bins are those of D. Groeber's root profiler for GHC, without its limit.
 */
#ifndef HX_TRAVERSE_RETAIN_BINS_H
#define HX_TRAVERSE_RETAIN_BINS_H

#include "base/progress.h"
#include "base/text.h"
#include "model/snapshot.h"

/* The first two bins are always there, maybe empty. */
#define HX_BIN_NONE 0 /* `-`: some root reaches it, no named one does */
#define HX_BIN_LOST 1 /* `(unreachable)`: lost, and no named root reaches it */

struct hx_bins {
    uint32_t n;
    uint32_t *bin; /* for each object, < n */
    struct hx_big bin_mem;
    uint32_t *first, *member; /* bin b: member[first[b] .. first[b + 1]), indexes in */
    size_t n_members;         /* snapshot.named, rising */
};

/* Needs states; follows what snapshot->interior says. HX_E_LIMIT when the bins have many millions
 * of members. Without named roots all objects are in the first two bins. */
hx_error *hx_bins_find(const struct hx_snapshot *snapshot, const struct hx_progress *progress,
                       struct hx_bins *ret);
void hx_bins_deinit(struct hx_bins *bins);

/* Appends "a+b", "-", "(unreachable)". */
void hx_bin_label(const struct hx_snapshot *snapshot, const struct hx_bins *bins, uint32_t bin,
                  struct hx_text *text);

#endif
