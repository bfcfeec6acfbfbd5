/* inlined_marks.h - where functions were inlined, which of them is a region in?
 *
 * A mark stands between two frames, and the outer one may be several functions: the one that made
 * the mark, those that it was inlined into, and others that were inlined into it, which are inside
 * the mark. Each push was recorded with the place it came from, and that tells its function.
 */
#ifndef HX_STORE_COST_INLINED_MARKS_H
#define HX_STORE_COST_INLINED_MARKS_H

#include "model/recording.h"

/* A region was pushed at a place in code. */
struct hx_pushed {
    uint32_t region, place;
};

struct hx_marks {
    HX_VEC(struct hx_pushed) pushed; /* by region, then place; no two are the same */
};

hx_error *hx_marks_init(struct hx_marks *marks, const struct hx_recording *recording);
void hx_marks_deinit(struct hx_marks *marks);

/* How many functions of place `frame`, counted from the outermost, have the mark `mark` inside
 * them; 0: it cannot be told. `above` is the answer for the same region, pushed earlier in this
 * frame, or 0: then it was pushed by one further inside, if there is one that pushes it. */
size_t hx_marks_depth(const struct hx_marks *marks, const struct hx_recording *recording,
                      uint32_t frame, uint32_t mark, size_t above);

#endif
