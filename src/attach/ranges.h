/* ranges.h - sets of address ranges: union and difference by merging.
 *
 * A set is "in order" when its ranges are sorted and neither overlap nor touch.
 */
#ifndef HX_ATTACH_RANGES_H
#define HX_ATTACH_RANGES_H

#include "model/snapshot.h"

/* Adds [start, end) unless it is empty; false when out of memory. */
bool hx_ranges_add(hx_ranges *ranges, uint64_t start, uint64_t end);

/* Brings a set in order: sorts, and joins what overlaps or touches. */
void hx_ranges_join(hx_ranges *ranges);

/* The first part of [*at, end) outside the set, from *at on: false when there is none, else
 * *ret is the part and *at its end. `cursor` is the place in the set, kept between calls
 * with growing addresses (0 to begin). */
bool hx_ranges_outside(const hx_ranges *ranges, size_t *cursor, uint64_t *at, uint64_t end,
                       struct hx_range *ret);

#endif
