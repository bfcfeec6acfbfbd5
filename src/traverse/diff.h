/* diff.h - two snapshots object by object.
 *
 * Objects do not move, so one is the same in both when address, size and, where both know it,
 * type and site are; of what was there before a recorder came, it is known that this recorder did
 * not see it allocated. An address that was freed and handed out again with another size is a
 * new object.
 */
#ifndef HX_TRAVERSE_DIFF_H
#define HX_TRAVERSE_DIFF_H

#include "base/bits.h"
#include "base/progress.h"
#include "model/snapshot.h"

enum hx_diff { HX_DIFF_GONE, HX_DIFF_APPEARED, HX_DIFF_SAME };
const char *hx_diff_name(enum hx_diff diff); /* "gone", ... */

/* For each object of `now`: is it in `before`? One bit, set where it is. Linear merge by address.
 * *ret_bits has graph.n bits of `now`, in words of 64. */
hx_error *hx_diff_objects(const struct hx_snapshot *before, const struct hx_snapshot *now,
                          const struct hx_progress *progress, struct hx_big *ret_bits);

static inline bool hx_diff_has(const struct hx_big *bits, hx_obj object)
{
    return hx_bit(bits->base, object);
}

#endif
