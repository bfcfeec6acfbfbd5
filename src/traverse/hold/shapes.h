/* shapes.h - which blocks look alike, and what is said of them. */
#ifndef HX_TRAVERSE_HOLD_SHAPES_H
#define HX_TRAVERSE_HOLD_SHAPES_H

#include "traverse/hold/judge.h"

/* Fills graph.shape and snapshot.shapes. A label is the same in each snapshot of a program: it has
 * no address and no count in it. Each object gets a shape. Needs the edges, their evidence and the
 * image. */
hx_error *hx_shapes_make(const struct hx_judge *judge);

#endif
