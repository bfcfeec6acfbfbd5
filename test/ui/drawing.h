/* drawing.h - a synthetic heap for tests of the explorer.
 *
 * A list that hangs on a global and grows with each snapshot, a table with buffers, objects
 * that only interior pointers reach, lost ones of all kinds, a lost ring, and roots with names
 * that try to harm a terminal. Times and sizes are fixed.
 */
#ifndef HX_TEST_UI_DRAWING_H
#define HX_TEST_UI_DRAWING_H

#include "../tools/must.h"
#include "model/snapshot.h"

/* Snapshot `number` (from 1) of a heap of about 2 n objects. */
struct hx_snapshot *draw_snapshot(unsigned number, unsigned n);

/* The same with many more globals, each with a size of its own that changes with the number, and
 * times at uneven distances. */
struct hx_snapshot *draw_crowd(unsigned number, unsigned n);

/* The same as draw_snapshot() with words that were judged, and an index into the list. */
struct hx_snapshot *draw_held(unsigned number, unsigned n);

/* Gives it who allocated: sites of all kinds, and names that try to harm a terminal. */
void draw_recording(struct hx_snapshot *snapshot, unsigned number);

#endif
