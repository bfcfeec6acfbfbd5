/* frames_private.h - what frames.c and frame_roots.c share: nobody else includes this. */
#ifndef HX_ATTACH_PYTHON_FRAMES_PRIVATE_H
#define HX_ATTACH_PYTHON_FRAMES_PRIVATE_H

#include "attach/python/frames.h"

struct hx_py_frame {
    uint64_t addr, instruction;
    uint32_t code;
    bool entered; /* a loop was begun for it: a frame of C is around it */
    bool owned;   /* it lies in the thread's memory of frames */
};

/* Memory of frames: [start, live) is in use. */
struct hx_py_piece {
    uint64_t start, live, end;
};

/* A thread of an interpreter. One of the process can be in several interpreters, in one from
 * another one. */
struct hx_py_turn {
    uint32_t thread, number; /* of the process (HX_NO_PAIR: of none); in the interpreters' lists */
    uint64_t depth;          /* the innermost first */
};

struct hx_py_tracing {
    struct hx_snapshot *snapshot;
    const struct hx_image *image;
    const struct hx_py_state *state;
    struct hx_py_codes codes;
    struct hx_pairs places;        /* of a code object and an offset in it */
    struct hx_pairs by_id, by_tid; /* threads of the process */
    HX_VEC(struct hx_py_turn) turns;
    HX_VEC(struct hx_py_frame) frames; /* of one thread, innermost first */
    HX_VEC(struct hx_py_piece) pieces; /* the same */
    bool cut;                          /* outer frames of the thread are missing */
    size_t n_frames, n_pieces;         /* of all */
    size_t cut_threads, strange;       /* threads; threads that are none of the process */
    size_t n_locals;                   /* that were looked at */
    bool full;                         /* there were more */
    size_t n_searches;                 /* for threads by their stacks */
    hx_root_list *roots;
    hx_ranges *excluded;
};

/* Adds roots for what lies in the memory of frames of a thread, and in tracing->frames from number
 * `from` on, which are its frames. (frame_roots.c) */
hx_error *hx_py_frame_roots(struct hx_py_tracing *tracing, const struct hx_py_thread *thread,
                            size_t from, pid_t tid);

#endif
