/* axis.h - steps of axes, and what stands at their ticks. Cells and drawings have steps of their
 * own: in cells there is room for few ticks and for few digits.
 */
#ifndef HX_LAYOUT_AXIS_H
#define HX_LAYOUT_AXIS_H

#include "base/text.h"

/* In cells: the smallest step with at most `most` steps in `range`. Bytes: 1, 2, 5, 10, ... 500 of
 * B, K, M, ..., a fourth and half of these; time in seconds. */
double hx_nice_bytes(double range, int most);
double hx_nice_seconds(double range, int most);
/* "0", "500K", "10M": of a multiple of a nice step; "+90s", "+2h", "+1d6h". */
void hx_put_nice_bytes(double bytes, char ret[HX_HUMAN]);
void hx_put_nice_seconds(double seconds, char ret[32]);

/* In drawings: the smallest power of two that divides `range` into `most` steps or less, and a
 * multiple of it: "0", "768M", "1.25G". */
uint64_t hx_step_bytes(uint64_t range, unsigned most);
void hx_put_step_bytes(struct hx_text *text, uint64_t bytes);
/* The same of nanoseconds, by steps that clocks have: "1m30s", "250ms". */
uint64_t hx_step_ns(uint64_t range, unsigned most);
void hx_put_step_ns(struct hx_text *text, uint64_t ns);

#endif
