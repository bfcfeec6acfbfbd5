/* state.h - the interpreter's own record of its threads: where in it what stands.
 *
 * Up to 3.12 a table for each version, from 3.13 on what _PyRuntime says of itself. Each thread has
 * to name the interpreter that names it.
 */
#ifndef HX_ATTACH_PYTHON_STATE_H
#define HX_ATTACH_PYTHON_STATE_H

#include "attach/python/code.h"

#define HX_PY_THREADS_MAX      20000
#define HX_PY_INTERPRETERS_MAX 4096

/* Objects that were freed and wait to be used again: an array, of which the first ones are in use.
 * Those behind have been taken out and are somebody's by now. */
struct hx_py_free_list {
    uint32_t items, count; /* in an interpreter; count: 32 bits */
};
#define HX_PY_FREE_LISTS 5 /* of lists, dicts, their keys, and two of generators */
#define HX_PY_FREE_MAX   80

/* Offsets in structures. */
struct hx_py_state_layout {
    uint32_t interpreters;                                  /* in _PyRuntime */
    uint32_t next_interpreter, threads;                     /* in an interpreter */
    uint32_t gc, modules, sys, builtins, flags;             /* the same; flags 0: not known */
    struct hx_py_free_list free_list[HX_PY_FREE_LISTS];     /* the same; items 0: none */
    uint16_t next, interpreter, frame, id, tid, chunk, top; /* in a thread */
    uint16_t in_frame;                                      /* in what thread.frame leads to; or: */
    bool direct;                                            /* it leads to the frame itself */
    uint16_t code, previous, instruction, owner, locals;    /* in a frame */
    uint16_t values; /* in a frame: how many words behind `locals` are in use, 32 bits; negative
                        while it runs */
    uint16_t end;    /* or where they end, 64 bits; null while it runs; 0: it is `values` */
    uint16_t entry;  /* a byte: the interpreter's loop was entered for it; 0: such frames have a
                        frame of no function below them */
    uint64_t tags;   /* bits of a word that leads to code which are none of its address */
    struct hx_py_code_layout code_object;
};

/* A thread of the interpreter. */
struct hx_py_thread {
    uint64_t id;         /* as pthread_self() has it */
    pid_t tid;           /* as the thread's own namespace has it */
    uint64_t frame;      /* the innermost; 0: none */
    uint64_t depth;      /* where on the stack of C its loop is; 0: not known */
    uint64_t chunk, top; /* memory of frames: the newest piece, and how far it is in use */
};

struct hx_py_state {
    struct hx_py_state_layout layout;
    HX_VEC(struct hx_py_thread) threads;
    HX_VEC(uint64_t) interpreters;
    size_t own_heaps; /* of interpreters, that they do not share */
    size_t lost;      /* lists that end in what is none */
};

/* False: nothing is known of this version, or what it says of itself cannot be. */
bool hx_py_state_layout(const struct hx_python *python, const struct hx_peek *peek,
                        struct hx_py_state_layout *ret);

/* Finds the threads; ret->layout is filled in. */
hx_error *hx_py_state_read(const struct hx_python *python, const struct hx_image *image,
                           struct hx_py_state *ret);
void hx_py_state_deinit(struct hx_py_state *state);

#endif
