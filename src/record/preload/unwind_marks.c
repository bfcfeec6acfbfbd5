/* unwind_marks.c - stacks with what the program marked on them (heapx/scc.h): marks merged among
 * frames, and stacks that are captured for later.
 *
 * A stack with marks is remembered by the stack without them, a number for all marks, and where it
 * began: what a mark is around follows from these, as it was made by a frame of just that stack.
 */
#include "record/preload/unwind_private.h"

#define BEYOND    4096 /* of a frame whose end is not known: how large it may be */
#define CHAIN_MAX 64   /* captured stacks behind a captured stack */

/* --- placing a mark ----------------------------------------------------------------------------
 */

/* Stack pointer of the caller's caller; 0: that takes more than a look. */
static uint64_t frame_end(struct hx_unwind *unwind, struct hx_unwind_thread *thread, uint64_t pc,
                          uint64_t sp, uint64_t fp)
{
    struct hx_cfi_rule unused;
    uint32_t rule = hx_rule_cached(unwind, pc - 1);
    if (rule == HX_RULE_NONE)
        rule = hx_rule_find(unwind, pc - 1, thread->buffer, sizeof thread->buffer, &unused);
    uint64_t cfa = HX_RULE_KIND(rule) == HX_RULE_SP   ? sp + HX_RULE_CFA(rule)
                   : HX_RULE_KIND(rule) == HX_RULE_FP ? fp + HX_RULE_CFA(rule)
                                                      : 0;
    return cfa > sp ? cfa : 0;
}

bool hx_unwind_on_own(const struct hx_unwind_thread *thread, uint64_t a, uint64_t b)
{
    const struct hx_span *now = &thread->now;
    uint64_t self;
    __asm__("movq %%fs:0, %0" : "=r"(self));
    return thread->self == self && a >= now->start && a < now->end && b >= now->start &&
           b < now->end;
}

static uint64_t base_of(const struct hx_walked *walked)
{
    uint32_t n = walked->stack.n;
    if (walked->own.end != 0)
        return 0;
    return n > 0 && !walked->stack.cut ? walked->mark[n - 1].sp : 1;
}

uint64_t hx_unwind_base(struct hx_unwind *unwind, struct hx_unwind_thread *thread, uint64_t pc,
                        uint64_t sp, uint64_t fp)
{
    struct hx_walked walked;
    if (hx_unwind_on_own(thread, sp, sp))
        return 0;
    hx_unwind_walk(unwind, thread, pc, sp, fp, &walked);
    return base_of(&walked);
}

void hx_unwind_complete_mark(struct hx_unwind *unwind, struct hx_unwind_thread *thread, uint64_t pc,
                             uint64_t sp, uint64_t fp, struct hx_mark *mark)
{
    mark->cfa = frame_end(unwind, thread, pc, sp, fp);
    mark->ret = 0;
    mark->base = 0;
    if (hx_unwind_on_own(thread, sp, sp)) {
        if (mark->cfa > sp && mark->cfa <= thread->now.end)
            mark->ret = *(const volatile uint64_t *)(uintptr_t)(mark->cfa - 8);
        return;
    }
    struct hx_walked walked;
    hx_unwind_walk(unwind, thread, pc, sp, fp, &walked);
    if (walked.stack.n > 1)
        mark->ret = walked.stack.frame[1];
    mark->base = base_of(&walked);
}

/* --- merging -------------------------------------------------------------------------------------
 */

/* Frames that lie on one stack: [first, end), from lo to hi. */
struct part {
    uint32_t first, end;
    uint64_t lo, hi;
};

/* The part that begins with frame `first`: to where a signal arrived. */
static struct part find_part(const struct hx_unwind_thread *thread, const struct hx_walked *walked,
                             uint32_t first)
{
    const struct hx_call_stack *stack = &walked->stack;
    uint32_t end = first + 1;
    while (end < stack->n && !(end < 64 && stack->exact >> end & 1) &&
           walked->mark[end].sp >= walked->mark[end - 1].sp)
        end++;
    struct part part = {first, end, walked->mark[first].sp, walked->mark[end - 1].sp};
    if (end < stack->n)
        return part; /* the last one is the kernel's, and marks nothing */
    uint64_t last = part.hi;
    part.hi += BEYOND;
    for (int i = 0; i < 2; i++)
        if (last >= thread->own[i].start && last < thread->own[i].end)
            part.hi = thread->own[i].end;
    return part;
}

/* What is being made. */
struct merge {
    uint64_t *frame;
    uint32_t n;
    uint64_t exact;
    bool cut;
};

static void merge_frame(struct merge *merge, uint64_t word, bool exact)
{
    if (merge->n == HX_EV_FRAMES_MAX) {
        merge->cut = true;
        return;
    }
    if (exact && merge->n < 64)
        merge->exact |= (uint64_t)1 << merge->n;
    merge->frame[merge->n++] = word;
}

/* Is frame i, which ends at cfa, the one that made the mark? */
static bool made_mark(const struct hx_mark *mark, const struct hx_walked *walked,
                      const struct part *part, uint32_t i, uint64_t cfa)
{
    if (mark->cfa != 0 && i + 1 < part->end && cfa != mark->cfa)
        return false;
    return mark->ret == 0 || i + 1 >= walked->stack.n || walked->stack.frame[i + 1] == mark->ret;
}

static void merge_part(struct hx_marks *marks, const struct hx_walked *walked,
                       const struct part *part, struct merge *merge)
{
    const struct hx_mark *mark = hx_marks_at(marks);
    uint64_t before = part->lo;
    uint32_t k = marks->n;
    for (uint32_t i = part->first; i < part->end; i++) {
        uint64_t cfa = i + 1 < part->end ? walked->mark[i + 1].sp : part->hi;
        for (; k > 0; k--) {
            const struct hx_mark *m = &mark[k - 1];
            if (!hx_mark_is_there(m) || m->sp < part->lo || m->sp >= part->hi)
                continue; /* not on this part */
            if (m->sp >= cfa)
                break;
            if (m->sp < before || !made_mark(m, walked, part, i, cfa))
                hx_marks_drop(marks, k - 1);
            else
                merge_frame(merge, m->word, false);
        }
        merge_frame(merge, walked->stack.frame[i], i < 64 && walked->stack.exact >> i & 1);
        before = cfa;
    }
}

/* Marks further inside of where the stack now begins were left. */
static void drop_left(struct hx_marks *marks, const struct hx_walked *walked, uint64_t sp,
                      const struct part *first)
{
    bool own = walked->own.end != 0;
    bool whole = first->end < walked->stack.n || !walked->stack.cut;
    uint64_t base = walked->mark[first->end - 1].sp;
    for (uint32_t i = marks->n; i-- > 0;) {
        const struct hx_mark *mark = &hx_marks_at(marks)[i];
        if (i >= marks->n || !hx_mark_is_there(mark) || mark->sp >= sp)
            continue;
        if (own ? mark->sp >= walked->own.start && mark->base == 0 : whole && mark->base == base)
            hx_marks_drop(marks, i);
    }
}

static uint64_t merge_anew(struct hx_unwind *unwind, struct hx_unwind_thread *thread, uint64_t pc,
                           uint64_t sp, uint64_t fp, struct hx_marks *marks)
{
    struct hx_walked walked;
    hx_unwind_walk(unwind, thread, pc, sp, fp, &walked);
    if (walked.stack.n == 0)
        return HX_EV_KEY_UNKNOWN;
    struct merge merge = {.frame = thread->marked, .cut = walked.stack.cut};
    struct part part = find_part(thread, &walked, 0);
    drop_left(marks, &walked, sp, &part);
    for (;;) {
        merge_part(marks, &walked, &part, &merge);
        if (part.end == walked.stack.n)
            break;
        part = find_part(thread, &walked, part.end);
    }
    struct hx_call_stack stack = {merge.frame, merge.n, merge.cut, merge.exact};
    return hx_intern(unwind, &stack);
}

uint64_t hx_unwind_marked(struct hx_unwind *unwind, struct hx_unwind_thread *thread, uint64_t pc,
                          uint64_t sp, uint64_t fp, struct hx_marks *marks)
{
    uint64_t base = hx_unwind_stack(unwind, thread, pc, sp, fp), hash = hx_marks_hash(marks);
    if (hash == 0 || base < HX_EV_KEY_FIRST)
        return base;
    uint64_t mixed = hx_hash_mix(hx_hash_mix(hash, base), sp);
    struct hx_merged *merged = &thread->merged[mixed % HX_MERGED];
    if (merged->base == base && merged->marks == hash && merged->sp == sp && merged->key != 0)
        return merged->key;
    uint64_t key = merge_anew(unwind, thread, pc, sp, fp, marks);
    if (key >= HX_EV_KEY_FIRST && hx_marks_hash(marks) == hash)
        *merged = (struct hx_merged){base, hash, sp, key};
    return key;
}

/* --- capturing -----------------------------------------------------------------------------------
 */

static bool is_deferred(uint64_t word)
{
    return HX_EV_TAG(word) == HX_EV_DEFERRED;
}

/* Index of the innermost captured stack in a stack; n: there is none. */
static uint32_t find_deferred(const struct hx_call_stack *stack)
{
    uint32_t i = 0;
    while (i < stack->n && !is_deferred(stack->frame[i]))
        i++;
    return i;
}

/* The same but for which stacks were entered. */
static bool same_work(const struct hx_call_stack *a, const struct hx_call_stack *b)
{
    if (a->n != b->n || a->exact != b->exact || a->cut != b->cut)
        return false;
    for (uint32_t i = 0; i < a->n; i++)
        if (a->frame[i] != b->frame[i] && !(is_deferred(a->frame[i]) && is_deferred(b->frame[i])))
            return false;
    return true;
}

/* Without what its own captured stack was. */
static uint64_t cut_chain(struct hx_unwind *unwind, struct hx_unwind_thread *thread,
                          const struct hx_call_stack *stack)
{
    struct hx_call_stack made = *stack;
    uint32_t at = find_deferred(stack);
    for (uint32_t i = 0; i < stack->n && i < HX_EV_FRAMES_MAX; i++)
        thread->marked[i] = i == at ? HX_EV_DEFERRED : stack->frame[i];
    made.frame = thread->marked;
    return hx_intern(unwind, &made);
}

uint64_t hx_unwind_capture(struct hx_unwind *unwind, struct hx_unwind_thread *thread, uint64_t key)
{
    struct hx_call_stack current, on;
    if (!hx_interned(unwind, key, &current))
        return key;
    on = current;
    for (int length = 0;; length++) {
        uint32_t at = find_deferred(&on);
        uint64_t next = at < on.n ? HX_EV_VALUE(on.frame[at]) : 0;
        if (next == 0 || !hx_interned(unwind, next, &on))
            return key;
        if (same_work(&current, &on))
            return next;
        if (length == CHAIN_MAX)
            return cut_chain(unwind, thread, &current);
    }
}
