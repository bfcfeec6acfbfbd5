/* hot.h - memory that is written faster than it pays to copy it beside the running target.
 *
 * A page that is not written while it is copied saves the stop its copy. One that is costs the
 * target a page fault, and is copied in the stop all the same.
 */
#ifndef HX_ATTACH_TRACK_HOT_H
#define HX_ATTACH_TRACK_HOT_H

#include "attach/ranges.h"

/* While the target runs, which nothing is done to: reads some pages of each range, those that are
 * there, for up to 50 ms; of the ranges those where too many of them change are added to `hot`, in
 * order. pagemap: of the target. */
hx_error *hx_hot_ranges(pid_t pid, int pagemap, const hx_ranges *ranges, hx_ranges *hot);

#endif
