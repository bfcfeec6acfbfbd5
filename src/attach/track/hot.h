/* hot.h - memory that is written faster than it pays to copy it beside the running target.
 *
 * A page that is not written while it is copied saves the stop its copy. One that is costs the
 * target a page fault, and is copied in the stop all the same.
 */
#ifndef HX_ATTACH_TRACK_HOT_H
#define HX_ATTACH_TRACK_HOT_H

#include "attach/track/track.h"

/* While the target runs, for a tracker that has leave(): protects some pages of each large range,
 * and leaves the ranges where too many of these are written within 50 ms. *ret_all: none is left.
 */
hx_error *hx_track_leave_hot(const struct hx_tracker *tracker, struct hx_track *track,
                             uint64_t *ret_bytes);

#endif
