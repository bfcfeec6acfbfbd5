/* frames.h - which functions of Python threads are in, and what these hold.
 *
 * Frames lie in pieces of memory that each thread has of its own, from mappings:
 *
 *   the piece before | its size | how far it is in use, once another follows | frames
 *   frame:  what the interpreter has of it | local variables | values that are worked with
 *
 * Those of generators lie in these, and are no roots.
 */
#ifndef HX_ATTACH_PYTHON_FRAMES_H
#define HX_ATTACH_PYTHON_FRAMES_H

#include "attach/python/state.h"
#include "attach/roots/rootmap.h"

#define HX_PY_FRAMES_MAX     4096 /* of a thread */
#define HX_PY_ALL_FRAMES_MAX ((size_t)1 << 18)

/* Puts functions into snapshot->backtraces, inside the interpreter's loop that runs them; adds
 * roots for what lies in their frames, and to `excluded` what of that memory is not in use. */
hx_error *hx_py_frames_find(struct hx_snapshot *snapshot, struct hx_py_classes *classes,
                            const struct hx_py_state *state, hx_root_list *roots,
                            hx_ranges *excluded);

#endif
