/* marks.h - what a thread has marked on its stack by heapx/scc.h, innermost last.
 *
 * A mark is at a place of the stack: where the stack pointer of the function that made it was. A
 * frame is inside of it when its caller's stack pointer was not above that. A function that ended
 * without taking its mark away (longjmp) is recognized by what its frame was: whoever has that
 * place now has another return address or begins elsewhere.
 *
 * One user, and signal handlers on top of it, which leave everything as they found it: a slot is
 * taken before it is filled, and counts from when its sp is set.
 */
#ifndef HX_RECORD_PRELOAD_MARKS_H
#define HX_RECORD_PRELOAD_MARKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define HX_MARKS_MAX    1024
#define HX_MARKS_INLINE 16

enum {
    HX_MARK_MAKING = 0, /* no mark yet, or not used */
    HX_MARK_GONE = 1,   /* taken away while others were on top */
};
struct hx_mark {
    uint64_t sp;     /* or one of the above */
    uint64_t word;   /* for frames: HX_EV_REGION or HX_EV_DEFERRED, and what */
    uint64_t object; /* what takes it away: a region's address, the id of a captured stack */
    uint64_t cfa;    /* stack pointer of the caller of who made it; 0: not known */
    uint64_t ret;    /* and where that goes on; 0: not known */
    uint64_t base;   /* which stack it is on: 0: the thread's own; 1: not known */
    uint64_t hash;   /* of it and all below */
};

/* Invariants: n <= hx_marks_room(); mark[i].sp == HX_MARK_MAKING for i >= n; mark[n - 1] is not
 * GONE. */
struct hx_marks {
    volatile uint32_t n;
    uint32_t over;         /* pushed beyond HX_MARKS_MAX, and not there */
    uint32_t unbalanced;   /* pops of what was not on top, and marks that were left; not yet told */
    struct hx_mark *large; /* NULL: `mark` */
    struct hx_mark mark[HX_MARKS_INLINE];
};

static inline struct hx_mark *hx_marks_at(struct hx_marks *marks)
{
    return marks->large ? marks->large : marks->mark;
}
static inline uint32_t hx_marks_room(const struct hx_marks *marks)
{
    return marks->large ? HX_MARKS_MAX : HX_MARKS_INLINE;
}
static inline bool hx_mark_is_there(const struct hx_mark *mark)
{
    return mark->sp > HX_MARK_GONE;
}

/* All that is there, as one number; 0: nothing. */
uint64_t hx_marks_hash(struct hx_marks *marks);

/* Puts a mark on top; its hash is set. False: there is no room, it is only counted. */
bool hx_marks_push(struct hx_marks *marks, const struct hx_mark *mark);

/* Takes away the topmost mark of that object and kind (tag of its word) that is on the stack of who
 * does it, at `sp` there, and what was on top of it on the same stack, which counts as unbalanced,
 * as does finding none. */
void hx_marks_pop(struct hx_marks *marks, const struct hx_mark *which);

/* Takes away one in the middle that was left behind. */
void hx_marks_drop(struct hx_marks *marks, uint32_t index);

/* All frames of the thread's own stack below sp are left by a jump. */
void hx_marks_leave_frames(struct hx_marks *marks, uint64_t sp);

/* Are two marks on one stack, as far as can be told? */
bool hx_marks_together(const struct hx_mark *a, const struct hx_mark *b);

/* Moves to memory for HX_MARKS_MAX. */
void hx_marks_grow(struct hx_marks *marks, struct hx_mark *memory);

#endif
