/* marks.c - the marks of one thread: putting them on, taking them off, noticing what was left. */
#include "record/event.h"
#include "record/preload/marks.h"

#include <stdatomic.h>
#include <string.h>

static uint64_t mix_mark(uint64_t hash, uint64_t word)
{
    hash = (hash ^ word) * 0xff51afd7ed558ccd;
    return hash ^ hash >> 32;
}

/* Nothing here is moved across by the compiler: a signal handler sees the order of the stores. */
static void compiler_barrier(void)
{
    atomic_signal_fence(memory_order_seq_cst);
}

static uint64_t hash_below(struct hx_marks *marks, uint32_t n)
{
    const struct hx_mark *mark = hx_marks_at(marks);
    while (n > 0 && !hx_mark_is_there(&mark[n - 1]))
        n--;
    return n > 0 ? mark[n - 1].hash : 0;
}

uint64_t hx_marks_hash(struct hx_marks *marks)
{
    return hash_below(marks, marks->n);
}

bool hx_marks_push(struct hx_marks *marks, const struct hx_mark *mark)
{
    uint32_t i = marks->n;
    if (i >= hx_marks_room(marks)) {
        marks->over++;
        return false;
    }
    struct hx_mark *slot = &hx_marks_at(marks)[i];
    marks->n = i + 1;
    compiler_barrier();
    uint64_t hash = mix_mark(hash_below(marks, i) + i, mark->word);
    hash = mix_mark(mix_mark(hash, mark->sp), mark->cfa ^ mark->ret << 1);
    slot->word = mark->word;
    slot->object = mark->object;
    slot->cfa = mark->cfa;
    slot->ret = mark->ret;
    slot->base = mark->base;
    slot->hash = hash ? hash : 1;
    compiler_barrier();
    slot->sp = mark->sp;
    return true;
}

bool hx_marks_together(const struct hx_mark *a, const struct hx_mark *b)
{
    return a->base == b->base || a->base == 1 || b->base == 1;
}

/* What is gone at the top is given back. */
static void lower_marks(struct hx_marks *marks)
{
    struct hx_mark *mark = hx_marks_at(marks);
    for (uint32_t n; (n = marks->n) > 0 && mark[n - 1].sp == HX_MARK_GONE;) {
        mark[n - 1].sp = HX_MARK_MAKING;
        compiler_barrier();
        marks->n = n - 1;
        compiler_barrier();
    }
}

/* Those above have another hash then than with it. */
static void take_away(struct hx_marks *marks, uint32_t index)
{
    struct hx_mark *mark = hx_marks_at(marks);
    uint64_t hash = mark[index].hash;
    mark[index].sp = HX_MARK_GONE;
    compiler_barrier();
    for (uint32_t i = index + 1; i < marks->n; i++)
        mark[i].hash = mix_mark(mark[i].hash, hash) | 1;
}

void hx_marks_drop(struct hx_marks *marks, uint32_t index)
{
    take_away(marks, index);
    marks->unbalanced++;
    marks->over = 0; /* they were further inside */
    lower_marks(marks);
}

void hx_marks_leave_frames(struct hx_marks *marks, uint64_t sp)
{
    for (uint32_t i = marks->n; i-- > 0;) {
        const struct hx_mark *mark = &hx_marks_at(marks)[i];
        if (i < marks->n && hx_mark_is_there(mark) && mark->base == 0 && mark->sp < sp)
            hx_marks_drop(marks, i);
    }
}

/* The slot of a push that never came back, because a handler of a signal in its middle left by
 * longjmp(), is given back with the mark below it. */
static void give_back_marks(struct hx_marks *marks, uint32_t above)
{
    struct hx_mark *mark = hx_marks_at(marks);
    for (uint32_t i = above; i < marks->n; i++)
        if (mark[i].sp == HX_MARK_MAKING)
            mark[i].sp = HX_MARK_GONE;
}

/* Is it one of those that found no room? They are further inside than all that did. */
static bool is_overflowed(struct hx_marks *marks, uint64_t sp)
{
    uint32_t n = marks->n;
    if (marks->over == 0)
        return false;
    bool inside = n > 0 && sp <= hx_marks_at(marks)[n - 1].sp;
    marks->over = inside ? marks->over - 1 : 0;
    return inside;
}

void hx_marks_pop(struct hx_marks *marks, const struct hx_mark *which)
{
    const struct hx_mark *mark = hx_marks_at(marks);
    uint32_t found = marks->n;
    if (is_overflowed(marks, which->sp))
        return;
    while (found > 0 &&
           !(hx_mark_is_there(&mark[found - 1]) && mark[found - 1].object == which->object &&
             HX_EV_TAG(mark[found - 1].word) == HX_EV_TAG(which->word) &&
             hx_marks_together(&mark[found - 1], which)))
        found--;
    if (found == 0) {
        marks->unbalanced++;
        return;
    }
    uint32_t index = found - 1;
    for (uint32_t i = marks->n; i-- > found;)
        if (hx_mark_is_there(&mark[i]) && hx_marks_together(&mark[i], &mark[index])) {
            take_away(marks, i);
            marks->unbalanced++;
        }
    give_back_marks(marks, found);
    take_away(marks, index);
    lower_marks(marks);
}

void hx_marks_grow(struct hx_marks *marks, struct hx_mark *memory)
{
    memcpy(memory, marks->mark, sizeof marks->mark);
    compiler_barrier();
    marks->large = memory;
}
