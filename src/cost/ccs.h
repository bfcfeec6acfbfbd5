/* ccs.h - cost-centre stacks: the machine that builds them, and stacks attributed to them.
 *
 * Source: the cost-centre stacks of lazy functional profilers (P. Sansom, S. Peyton Jones,
 * "Formally based profiling for higher-order functional languages", 1997; R. Morgan, S. Jarvis,
 * "Profiling large-scale lazy functional programs", 1998), with the back edges that GHC's runtime
 * has: pushing a cost centre that is on the stack already truncates it to that occurrence.
 *
 * All stacks are rows of one table, so a stack is one number, and the same stack always has the
 * same. Row 0 is MAIN. A stack stands behind its parent.
 */
#ifndef HX_COST_CCS_H
#define HX_COST_CCS_H

#include "base/error.h"
#include "base/progress.h"
#include "base/vec.h"

#include <stdbool.h>
#include <stdint.h>

typedef uint32_t hx_centre; /* number of a cost centre, which is an object: not its label */
#define HX_NO_CENTRE UINT32_MAX

typedef uint32_t hx_ccs_row;
#define HX_CCS_TOP    0 /* MAIN alone */
#define HX_NO_CCS_ROW UINT32_MAX

enum hx_recursion {
    HX_RECURSION_TRUNCATES, /* to the earlier occurrence, by a back edge */
    HX_RECURSION_WHOLE, /* every push is a new stack, but for the centre that is on top already */
};

/* --- the table ------------------------------------------------------------------- */

struct hx_ccs_entry {
    hx_ccs_row parent;      /* of row 0: itself */
    hx_ccs_row root;        /* itself or the row above that hx_ccs_root() made; else MAIN */
    uint32_t depth : 31;    /* 0: MAIN */
    uint32_t recursive : 1; /* its centre was pushed where it stood on the stack already: the push
                               was truncated to this row or, with HX_RECURSION_WHOLE, made it. On
                               top already counts when hx_ccs_mark_recursive() says so */
    hx_centre centre;
};

/* Invariants: parent < row but for row 0; depth is the parent's + 1; no two rows have the same
 * parent and centre; with HX_RECURSION_TRUNCATES no centre is twice on the way to MAIN. */
struct hx_ccs_table;
hx_error *hx_ccs_table_create(hx_centre main, enum hx_recursion recursion,
                              struct hx_ccs_table **ret);
void hx_ccs_table_destroy(struct hx_ccs_table *table); /* NULL is legal */
uint32_t hx_ccs_count(const struct hx_ccs_table *table);
const struct hx_ccs_entry *hx_ccs_rows(const struct hx_ccs_table *table); /* until the next push */
hx_error *hx_ccs_table_check(const struct hx_ccs_table *table);

/* A child of MAIN that is a root of its own: built-in centres, and CAFs (is_caf). The same row each
 * time. HX_E_CORRUPT: the centre is on MAIN already as one of another kind. */
hx_error *hx_ccs_root(struct hx_ccs_table *table, hx_centre centre, bool is_caf, hx_ccs_row *ret);

/* The stack with the centre pushed: the same when the centre is on top; what was remembered; the
 * earlier occurrence (MAIN's own centre, too); else a new child. Remembered for each stack and
 * centre, back edges included, so that the way up is walked once. *ret_back (may be NULL): it is a
 * back edge. Who counts entries counts them at *ret. HX_E_LIMIT: deeper than 65,536. */
hx_error *hx_ccs_push(struct hx_ccs_table *table, hx_ccs_row on, hx_centre centre, hx_ccs_row *ret,
                      bool *ret_back);

/* The centre on top called itself. */
void hx_ccs_mark_recursive(struct hx_ccs_table *table, hx_ccs_row row);

/* The call rule: a function whose own stack is `function` is called with the current stack
 * `current`. Of two stacks with the same root, what `function` has beyond their common beginning is
 * pushed one by one, so that recursion truncates here as well. Of different roots, all of it is
 * but MAIN and a CAF at its beginning. A CAF alone changes nothing. So inlining changes no stack.
 */
hx_error *hx_ccs_call(struct hx_ccs_table *table, hx_ccs_row current, hx_ccs_row function,
                      hx_ccs_row *ret);

/* --- the machine ------------------------------------------------------------------
 * A stack of current stacks; its top is the current one. It begins with MAIN. */
struct hx_ccs_machine {
    struct hx_ccs_table *table; /* the caller's */
    HX_VEC(hx_ccs_row) stack;   /* never empty */
    uint64_t unbalanced;        /* POP_STACKs that found nothing to discard */
};
hx_error *hx_ccs_machine_init(struct hx_ccs_machine *machine, struct hx_ccs_table *table);
void hx_ccs_machine_deinit(struct hx_ccs_machine *machine);
hx_ccs_row hx_ccs_current(const struct hx_ccs_machine *machine);

/* PUSH_CENTER: pushes a centre on the current stack, in place. */
hx_error *hx_ccs_push_center(struct hx_ccs_machine *machine, hx_centre centre);
/* DUP_STACK: what follows may change the current stack and can be undone by POP_STACK. */
hx_error *hx_ccs_dup_stack(struct hx_ccs_machine *machine);
/* PUSH_STACK: a captured stack becomes the current one. */
hx_error *hx_ccs_push_stack(struct hx_ccs_machine *machine, hx_ccs_row captured);
/* POP_STACK: back to what was current before. */
void hx_ccs_pop_stack(struct hx_ccs_machine *machine);

/* --- attribution -------------------------------------------------------------------
 * Recorded stacks are a tree of frames: frame 0 is MAIN, parent[i] < i. Another choice of cost
 * centres, or of recursion, attributes the same frames anew: linear in the frames, no event is
 * looked at again.
 *
 * The stack of a frame is made from that of its parent:
 *   BUILTIN    MAIN and the centre, whatever the parent is; frames below push on it, as on `<cut>`
 *   DEFERRED   that of `target` replaces it, with which every frame below goes on, another DEFERRED
 *              one included; not known: the parent's stays
 *   `caf`      MAIN and the CAF replace it first, inside of entered work as well
 *   `centre`   is pushed when it is selected */
enum hx_frame_kind {
    HX_FRAME_CODE,
    HX_FRAME_REGION,
    HX_FRAME_DEFERRED, /* `target` was entered: frames below belong to its stack */
    HX_FRAME_BUILTIN,  /* child of MAIN, a root of its own: `<before attach>`, ... */
};
struct hx_frame {
    uint32_t parent;
    uint32_t target;  /* HX_FRAME_DEFERRED: a frame with a lower number; UINT32_MAX: not known */
    hx_centre centre; /* HX_NO_CENTRE: none, as of HX_FRAME_DEFERRED */
    hx_centre caf;    /* the CAF of the module that is initialised from this frame on (itself
                         included); HX_NO_CENTRE: none */
    uint8_t kind;     /* enum hx_frame_kind */
};

/* *ret_row: for each frame the stack that what it allocates belongs to (malloc'ed).
 * selected[centre]: the centres that are pushed, NULL: all; CAFs, built-in ones and MAIN always
 * are. */
hx_error *hx_ccs_attribute(const struct hx_frame *frame, uint32_t n, const bool *selected,
                           struct hx_ccs_table *table, const struct hx_progress *progress,
                           hx_ccs_row **ret_row);

/* The tree that mprof's tables are made of: *ret_parent (malloc'ed) is for each frame the nearest
 * one above it that has a centre, by who asked: across a deferred frame its target (or that one's
 * own nearest), from an initialiser MAIN. 0 of frame 0. Always lower than the frame. */
hx_error *hx_frames_callers(const struct hx_frame *frame, uint32_t n, uint32_t **ret_parent);

#endif
