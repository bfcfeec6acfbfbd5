/* unwind.c - taking a stack: frame by frame, or from memory when nothing that decides it changed.
 */
#include "record/preload/unwind_private.h"

#include <string.h>

#define PAGE         ((uint64_t)4096)
#define SIGNALS_MAX  16  /* signal frames on one stack */
#define PROBES_MAX   256 /* pages of a stack that is not the thread's own */
#define LEARN_MAX    1024
#define LEARN_RARELY 32
#define NODES_MAX    8 /* on the way to where a stack is remembered */

/* An unwinding at work. Words of the stack are read in [sp at its beginning, end) only. */
struct walk {
    struct hx_unwind *unwind;
    struct hx_unwind_thread *thread;
    struct hx_call_stack stack;
    uint64_t pc, sp, fp;
    uint64_t fp_at; /* rbp is the word there, not loaded yet; 0: it is in fp */
    bool fp_known, exact;
    bool fp_entry; /* rbp has the value that it had at the beginning */
    bool needs_fp; /* and that was used */
    bool lasting;  /* what was read so far decides alone */
    bool own;      /* end comes from thread->now; else the kernel is asked for more */
    uint32_t signals, probes;
    uint32_t epoch;
    uint64_t base, end;
    uint64_t entry_fp;
    struct hx_trace *trace; /* of this unwinding */
    struct hx_trace *last;  /* of the last one */
    uint32_t at;            /* index in last of a frame at or above sp */
};

size_t hx_unwind_thread_bytes(void)
{
    return sizeof(struct hx_unwind_thread);
}

/* A word of the stack. Not C's idea of an access: it may lie in a frame that a sanitizer guards. */
static inline uint64_t load_stack_word(uint64_t addr)
{
    uint64_t word;
    __asm__ volatile("movq %1, %0" : "=r"(word) : "m"(*(const volatile uint64_t *)(uintptr_t)addr));
    return word;
}

static inline uint64_t control_block(void)
{
    uint64_t self;
    __asm__("movq %%fs:0, %0" : "=r"(self));
    return self;
}

/* --- which memory may be read -------------------------------------------------------------------
 */

/* Begins to read the stack at sp. `pushed`: something was pushed below sp a moment ago, which
 * proves that page. */
static void begin_stack(struct walk *walk, uint64_t sp, bool pushed)
{
    struct hx_unwind_thread *thread = walk->thread;
    walk->base = sp;
    walk->own =
        (sp >= thread->now.start && sp < thread->now.end) || hx_find_own(walk->unwind, thread, sp);
    if (walk->own)
        walk->end = thread->now.end;
    else
        walk->end = pushed ? ((sp - 8) & ~(PAGE - 1)) + PAGE : sp & ~(PAGE - 1);
}

/* How much of the stack may be read from where its unwinding began. */
static inline uint64_t room_of(const struct walk *walk)
{
    return walk->end > walk->base ? walk->end - walk->base : 0;
}

/* Lets `end` grow over pages that can be read, up to `to`. */
static bool grow_readable_stack(struct walk *walk, uint64_t to)
{
    if (walk->own || to < walk->end || to - walk->end > PROBES_MAX * PAGE ||
        atomic_load_explicit(&walk->unwind->barred, memory_order_relaxed) != 0)
        return false;
    while (walk->end < to) {
        if (walk->probes++ >= PROBES_MAX || !hx_readable(walk->end))
            return false;
        walk->end += PAGE;
    }
    return true;
}

static inline bool may_read_word(struct walk *walk, uint64_t addr)
{
    if (HX_LIKELY(addr >= walk->base && addr < walk->end && walk->end - addr >= 8))
        return true;
    if (addr >= walk->base && addr < UINT64_MAX - PAGE && grow_readable_stack(walk, addr + 8))
        return true;
    walk->lasting = walk->lasting && walk->own;
    return false;
}

/* Reads a word, and notes that it decided. */
static inline bool read_noted_word(struct walk *walk, uint64_t addr, uint64_t *ret)
{
    if (!may_read_word(walk, addr))
        return false;
    struct hx_trace *trace = walk->trace;
    *ret = load_stack_word(addr);
    if (HX_UNLIKELY(trace->words_end >= 2 * HX_WORDS_MAX)) {
        walk->lasting = false;
        return true;
    }
    trace->word[trace->words_end].at = addr;
    trace->word[trace->words_end++].value = *ret;
    return true;
}

/* --- frame by frame -----------------------------------------------------------------------------
 */

static bool read_for_step(void *context, uint64_t addr, uint64_t *ret)
{
    return read_noted_word(context, addr, ret);
}

/* Brings rbp into walk->fp, because it is needed now. */
static bool need_fp(struct walk *walk)
{
    if (!walk->fp_known)
        return false;
    if (walk->fp_at != 0) {
        uint64_t at = walk->fp_at;
        walk->fp_at = 0;
        walk->fp_known = read_noted_word(walk, at, &walk->fp);
        return walk->fp_known;
    }
    walk->needs_fp |= walk->fp_entry;
    return true;
}

static inline enum hx_step step_small(struct walk *walk, uint32_t rule)
{
    uint64_t base = walk->sp;
    if (HX_UNLIKELY(HX_RULE_KIND(rule) == HX_RULE_FP)) {
        if (!need_fp(walk) || walk->fp < walk->sp)
            return HX_STEP_CUT;
        base = walk->fp;
    }
    uint64_t cfa = base + HX_RULE_CFA(rule);
    uint64_t pc;
    if (HX_UNLIKELY(cfa <= walk->sp || !read_noted_word(walk, cfa - 8, &pc)))
        return HX_STEP_CUT;
    uint64_t saved = HX_RULE_SAVED(rule);
    if (saved == HX_SAVED_LOST) {
        walk->fp_known = false;
    } else if (saved != 0) {
        walk->fp_at = cfa - saved;
        walk->fp_entry = false;
        walk->fp_known = true;
    }
    walk->pc = pc;
    walk->sp = cfa;
    walk->exact = false;
    return HX_STEP_OK;
}

/* A rule that is not one of the usual. */
static enum hx_step step_full(struct walk *walk, const struct hx_cfi_rule *rule)
{
    struct hx_cfi_frame frame = {.pc = walk->pc, .sp = walk->sp, .exact = walk->exact};
    bool uses = rule->cfa == HX_CFA_FP || rule->cfa == HX_CFA_AT_FP || rule->fp == HX_SAVE_AT_FP;
    bool same = rule->fp == HX_SAVE_SAME;
    frame.fp_known = uses ? need_fp(walk) : walk->fp_known;
    frame.fp = walk->fp; /* without `uses`, hx_cfi_step() hands it on at most */
    if (rule->signal) {
        /* from here on another stack may go on, whose bounds are not in any memory of this one */
        walk->lasting = false;
        if (++walk->signals > SIGNALS_MAX)
            return HX_STEP_CUT;
    }
    enum hx_step step = hx_cfi_step(rule, &frame, read_for_step, walk);
    if (step != HX_STEP_OK)
        return step;
    walk->pc = frame.pc;
    walk->sp = frame.sp;
    walk->exact = frame.exact;
    if (!same) {
        walk->fp = frame.fp;
        walk->fp_known = frame.fp_known;
        walk->fp_at = 0;
        walk->fp_entry = false;
    }
    if (rule->signal && (frame.sp < walk->base || frame.sp >= walk->end)) {
        if (walk->fp_at != 0)
            need_fp(walk);
        begin_stack(walk, frame.sp, false);
    }
    return HX_STEP_OK;
}

/* Code without a table: the chain of frame pointers, if rbp looks like one. */
static enum hx_step step_bare(struct walk *walk)
{
    uint64_t fp, pc;
    struct hx_cfi_rule unused;
    if (!need_fp(walk) || walk->fp < walk->sp || walk->fp % 8 != 0 ||
        !read_noted_word(walk, walk->fp, &fp) || !read_noted_word(walk, walk->fp + 8, &pc))
        return HX_STEP_CUT;
    uint32_t rule = hx_rule_cached(walk->unwind, pc - 1);
    if (rule == HX_RULE_NONE)
        rule = hx_rule_find(walk->unwind, pc - 1, walk->thread->buffer, sizeof walk->thread->buffer,
                            &unused);
    if (rule == HX_RULE_MAKE_OTHER(HX_OTHER_NO_CODE, 0))
        return HX_STEP_CUT;
    walk->sp = walk->fp + 16;
    walk->fp = fp;
    walk->fp_entry = false;
    walk->pc = pc;
    walk->exact = false;
    return HX_STEP_OK;
}

static enum hx_step step_other(struct walk *walk, uint32_t rule, const struct hx_cfi_rule *full)
{
    if (rule == HX_RULE_NONE)
        return step_full(walk, full);
    switch (HX_RULE_WHAT(rule)) {
    case HX_OTHER_BOOK:
        return step_full(walk, &walk->unwind->book[HX_RULE_INDEX(rule)]);
    case HX_OTHER_END:
        return HX_STEP_END;
    case HX_OTHER_BARE:
        return step_bare(walk);
    default:
        return HX_STEP_CUT;
    }
}

/* Where rbp is, for struct hx_trace. */
static inline uint64_t fp_place(const struct walk *walk)
{
    if (!walk->fp_known)
        return HX_FP_ELSEWHERE;
    return walk->fp_at != 0 ? walk->fp_at : walk->fp_entry ? HX_FP_ENTRY : HX_FP_ELSEWHERE;
}

/* Adds walk->pc to the frames. */
static inline void push_frame(struct walk *walk)
{
    struct hx_trace *trace = walk->trace;
    uint32_t i = trace->end++;
    trace->frame[i] = walk->pc;
    trace->mark[i].sp = walk->sp;
    trace->mark[i].fp = fp_place(walk);
    trace->mark[i].words = trace->words_end;
    if (HX_UNLIKELY(walk->exact) && i - trace->first < 64)
        walk->stack.exact |= (uint64_t)1 << (i - trace->first);
}

/* Takes frames as long as they are of the usual kind, as unwind_frame() would, with all state in
 * registers: what one step waits for is the word that the one before loaded. True when the last
 * stack had the same frame. */
static bool unwind_usual_frames(struct walk *walk)
{
    struct hx_unwind *unwind = walk->unwind;
    struct hx_trace *trace = walk->trace;
    const struct hx_trace *last = walk->last;
    uint64_t pc = walk->pc, sp = walk->sp, end = walk->end;
    uint64_t fp_at = fp_place(walk);
    uint32_t i = trace->end, word_i = trace->words_end, at = walk->at;
    bool met = false, saved_any = false;
    while (i < 2 * HX_EV_FRAMES_MAX && word_i < 2 * HX_WORDS_MAX) {
        while (last->mark[at].sp < sp)
            at++;
        if (HX_UNLIKELY(last->mark[at].sp == sp) && last->frame[at] == pc && i > trace->first) {
            met = true;
            break;
        }
        uint32_t rule = hx_rule_cached(unwind, pc - 1);
        uint64_t saved = HX_RULE_SAVED(rule), cfa = sp + HX_RULE_CFA(rule);
        if (HX_RULE_KIND(rule) != HX_RULE_SP || saved == HX_SAVED_LOST || cfa > end)
            break;
        uint64_t word = load_stack_word(cfa - 8);
        trace->frame[i] = pc;
        trace->mark[i].sp = sp;
        trace->mark[i].fp = fp_at;
        trace->mark[i++].words = word_i;
        trace->word[word_i].at = cfa - 8;
        trace->word[word_i++].value = word;
        fp_at = saved != 0 ? cfa - saved : fp_at;
        saved_any |= saved != 0;
        pc = word;
        sp = cfa;
    }
    walk->pc = pc;
    walk->sp = sp;
    if (saved_any) {
        walk->fp_at = fp_at;
        walk->fp_known = true;
        walk->fp_entry = false;
    }
    walk->at = at;
    trace->end = i;
    trace->words_end = word_i;
    return met;
}

static enum hx_step unwind_frame(struct walk *walk)
{
    struct hx_unwind_thread *thread = walk->thread;
    if (HX_UNLIKELY(walk->pc == 0)) /* nobody called */
        return HX_STEP_END;
    uint64_t at = walk->pc - !walk->exact;
    struct hx_cfi_rule full = {0};
    uint32_t rule = hx_rule_cached(walk->unwind, at);
    if (HX_UNLIKELY(rule == HX_RULE_NONE))
        rule = hx_rule_find(walk->unwind, at, thread->buffer, sizeof thread->buffer, &full);
    if (HX_UNLIKELY(rule == HX_RULE_MAKE_OTHER(HX_OTHER_NO_CODE, 0)) &&
        walk->trace->end > walk->trace->first)
        return HX_STEP_CUT; /* what was taken for a return address is none */
    if (HX_UNLIKELY(walk->trace->end == 2 * HX_EV_FRAMES_MAX))
        return HX_STEP_CUT;
    push_frame(walk);
    if (HX_LIKELY(HX_RULE_KIND(rule) == HX_RULE_SP || HX_RULE_KIND(rule) == HX_RULE_FP))
        return step_small(walk, rule);
    return step_other(walk, rule, &full);
}

/* Puts what was taken so far before frame walk->at of the last stack. */
static void join_last_stack(struct walk *walk)
{
    struct hx_trace *to = walk->last;
    const struct hx_trace *from = walk->trace;
    uint32_t n = from->end - from->first, n_words = from->words_end - from->first_word;
    uint32_t first = walk->at - n, first_word = to->mark[walk->at].words - n_words;
    memcpy(to->frame + first, from->frame + from->first, n * sizeof *to->frame);
    memcpy(to->mark + first, from->mark + from->first, n * sizeof *to->mark);
    for (uint32_t i = 0; i < n; i++)
        to->mark[first + i].words =
            from->mark[from->first + i].words - from->first_word + first_word;
    memcpy(to->word + first_word, from->word + from->first_word, n_words * sizeof *to->word);
    to->first = first;
    to->first_word = first_word;
    to->needs_fp = walk->needs_fp;
    to->entry_fp = walk->entry_fp;
    walk->trace = to;
}

/* At walk->pc and walk->sp the last stack had a frame, too. If its rbp was in the same place, and
 * no word that decided its way outwards has changed, then this way would be the same: see below. */
static bool goes_on_as_last(struct walk *walk)
{
    const struct hx_trace *last = walk->last, *trace = walk->trace;
    uint64_t place = fp_place(walk);
    uint32_t at = walk->at, words = last->mark[at].words;
    if (place == HX_FP_ELSEWHERE || place != last->mark[at].fp ||
        last->end - at + (trace->end - trace->first) > HX_EV_FRAMES_MAX ||
        last->words_end - words + (trace->words_end - trace->first_word) > HX_WORDS_MAX)
        return false;
    if (place == HX_FP_ENTRY && last->needs_fp && last->entry_fp != walk->entry_fp)
        return false;
    uint64_t differ = 0;
    for (uint32_t i = words; i < last->words_end; i++)
        differ |= load_stack_word(last->word[i].at) ^ last->word[i].value;
    if (differ != 0)
        return false;
    if (place == HX_FP_ENTRY)
        walk->needs_fp |= last->needs_fp;
    return true;
}

static void begin_trace(struct walk *walk)
{
    struct hx_unwind_thread *thread = walk->thread;
    struct hx_trace *trace = walk->trace = &thread->trace[!thread->last];
    struct hx_trace *last = walk->last = &thread->trace[thread->last];
    trace->first = trace->end = HX_EV_FRAMES_MAX;
    trace->first_word = trace->words_end = HX_WORDS_MAX;
    trace->epoch = 0;
    last->mark[last->end].sp = UINT64_MAX;
    bool usable = walk->own && last->epoch == walk->epoch && last->limit == walk->end;
    walk->at = usable ? last->first : last->end;
}

/* Takes the frames from walk->pc on, which is the first. */
static void take_frames(struct walk *walk)
{
    enum hx_step got = HX_STEP_OK;
    begin_trace(walk);
    while (got == HX_STEP_OK) {
        if (HX_LIKELY(!walk->exact && walk->pc != 0) && unwind_usual_frames(walk)) {
            if (walk->lasting && goes_on_as_last(walk)) {
                join_last_stack(walk);
                break;
            }
            walk->at = walk->last->end; /* it was another one: go on alone */
            continue;
        }
        got = unwind_frame(walk);
    }
    struct hx_trace *trace = walk->trace;
    walk->stack.cut = got == HX_STEP_CUT;
    walk->stack.frame = trace->frame + trace->first;
    walk->stack.n = trace->end - trace->first;
    if (trace != walk->last && walk->lasting && walk->own && !walk->stack.cut) {
        trace->epoch = walk->epoch;
        trace->needs_fp = walk->needs_fp;
        trace->entry_fp = walk->entry_fp;
        trace->limit = walk->end;
        walk->thread->last = !walk->thread->last;
    }
}

/* --- from memory --------------------------------------------------------------------------------
 *
 * Why a stack whose words are unchanged is the same stack, exactly: an unwinding is a function of
 * where it begins (pc, sp, and rbp where it was used), of the rules, and of the words it reads;
 * each address it reads follows from those before. If the words noted the first time have the same
 * values, then the second unwinding would read the same addresses in the same order and find the
 * same values, by induction, and so give the same frames. The rules are the same in the same epoch.
 * Bounds decide only where an unwinding is cut: on the thread's own stack they do not change above
 * sp; elsewhere a stack that met its bound is not kept. Words that were noted are read again only
 * inside of bounds, found anew on stacks that are not the thread's own. */

/* n is rounded up: keep_words() fills the rest. */
static inline bool unchanged(const struct hx_memo_words *words, uint32_t n, uint64_t sp)
{
    uint64_t differ = 0;
    for (uint32_t i = 0; i < n; i += HX_MEMO_STEP)
#pragma GCC unroll 4
        for (uint32_t j = i; j < i + HX_MEMO_STEP; j++)
            differ |= load_stack_word(sp + words->at[j]) ^ words->value[j];
    return differ == 0;
}

static __attribute__((noinline)) bool unchanged_more(const struct hx_unwind_thread *thread,
                                                     const struct hx_memo *memo)
{
    uint32_t at = memo->more;
    for (uint32_t left = memo->n - HX_MEMO_WORDS; left > 0;) {
        uint32_t n = left < HX_MEMO_WORDS ? left : HX_MEMO_WORDS;
        const struct hx_memo_more *more = &thread->more[at];
        if (more->stamp != memo->stamp || !unchanged(&more->words, n, memo->sp))
            return false;
        at = (at + 1) % HX_MEMO_MORE;
        left -= n;
    }
    return true;
}

/* --- where a stack is remembered
 *
 * Many stacks may begin alike: all callers of a function that allocates, all their callers. What
 * tells them apart are single words, which are learned: when a set is full of stacks that lead to
 * it alike, the offset of the first word by which two of them differ becomes part of the way. Words
 * at equal places in the order of unwinding lie at equal offsets up to the first that differs, so
 * an offset means something to every stack that is the same before; one that a stack does not read
 * would lead it astray, and is taken out when such a stack comes. */

/* A hash of how a stack begins that may be read from sp to sp + room: pc, sp, and the first return
 * address. */
static inline uint64_t root_hash(const struct hx_unwind_thread *thread, uint64_t pc, uint64_t sp,
                                 uint64_t room)
{
    const struct hx_memo_first *first = &thread->first[pc % HX_MEMO_FIRSTS];
    uint64_t mix = pc + sp, at = first->at;
    if (HX_LIKELY(at != 0 && first->tag == (uint16_t)(pc / HX_MEMO_FIRSTS) && at + 8 <= room))
        mix ^= load_stack_word(sp + at) << 7;
    return mix * 0x9e3779b97f4a7c15;
}

static inline uint32_t leaf_of(uint64_t hash)
{
    return ((uint32_t)(hash >> 16) & ~1U) | 2;
}

static inline struct hx_memo *memo_set(struct hx_unwind_thread *thread, uint64_t hash)
{
    return thread->memo[hash >> 55 & (HX_MEMO_SETS - 1)];
}

static inline struct hx_memo_node *find_node(struct hx_unwind_thread *thread, uint64_t hash)
{
    struct hx_memo_node *set = thread->node[hash >> 55 & (HX_MEMO_NODES - 1)];
    uint32_t tag = leaf_of(hash);
    for (int way = 0; way < HX_MEMO_WAYS; way++)
        if ((set[way].tag ^ tag) <= 1)
            return &set[way];
    return NULL;
}

static inline uint64_t node_reach(const struct hx_memo_node *node)
{
    return (uint64_t)node->at[0] * 8 + 8;
}

/* The words of a stack that its node tells, which may be read. */
static inline uint64_t hash_node_words(const struct hx_memo_node *node, uint64_t hash, uint64_t sp)
{
    static const uint64_t odd[HX_MEMO_DECISIVE] = {0xff51afd7ed558ccd, 0xc4ceb9fe1a85ec53,
                                                   0x9fb21c651e98df25, 0xd6e8feb86659fd93};
#pragma GCC unroll 4
    for (int i = 0; i < HX_MEMO_DECISIVE; i++)
        hash += load_stack_word(sp + (uint64_t)node->at[i] * 8) * odd[i];
    return hash;
}

/* From a hash to one that has no node. */
static inline uint64_t follow_memo_hash(struct hx_unwind_thread *thread, uint64_t hash, uint64_t sp,
                                        uint64_t room)
{
    for (int i = 0; i < NODES_MAX; i++) {
        const struct hx_memo_node *node = find_node(thread, hash);
        if (node == NULL || node_reach(node) > room)
            break;
        hash = hash_node_words(node, hash, sp);
    }
    return hash;
}

static inline bool memo_begins(const struct hx_memo *memo, uint64_t pc, uint64_t sp, uint64_t fp,
                               uint32_t epoch)
{
    return memo->pc == pc && memo->sp == sp && memo->epoch == epoch &&
           (!memo->needs_fp || memo->fp == fp);
}

/* The key of a stack in the set that may be read up to sp + room; else HX_EV_KEY_UNKNOWN. */
static inline __attribute__((always_inline)) uint64_t recall(const struct hx_unwind_thread *thread,
                                                             const struct hx_memo *set, uint64_t pc,
                                                             uint64_t sp, uint64_t fp,
                                                             uint32_t epoch, uint64_t room)
{
    for (int way = 0; way < HX_MEMO_WAYS; way++) {
        const struct hx_memo *memo = &set[way];
        if (!memo_begins(memo, pc, sp, fp, epoch) || memo->reach > room)
            continue;
        if (HX_LIKELY(memo->n <= HX_MEMO_WORDS)) {
            if (unchanged(&memo->words, memo->n, sp))
                return memo->key;
        } else if (unchanged(&memo->words, HX_MEMO_WORDS, sp) && unchanged_more(thread, memo)) {
            return memo->key;
        }
    }
    return HX_EV_KEY_UNKNOWN;
}

/* Gives the highest offset, which is out of bounds, too, when one is negative. */
static uint64_t keep_words(const struct hx_trace *trace, struct hx_memo_words *words, uint32_t from,
                           uint32_t n, uint64_t sp)
{
    uint64_t highest = 0;
    for (uint32_t i = 0; i < n; i++) {
        uint64_t at = trace->word[trace->first_word + from + i].at - sp;
        words->value[i] = trace->word[trace->first_word + from + i].value;
        words->at[i] = (uint32_t)at;
        highest = at > highest ? at : highest;
    }
    for (uint32_t i = n; i % HX_MEMO_STEP != 0; i++) { /* the last one again, or what is not read */
        words->value[i] = words->value[i - 1];
        words->at[i] = words->at[i - 1];
    }
    return highest;
}

/* What a thread learns is not worth its time if there are more stacks than it can tell apart. */
static bool may_learn(const struct hx_unwind_thread *thread)
{
    return thread->learned < LEARN_MAX || thread->turn % LEARN_RARELY == 0;
}

/* What of a node's offsets a stack did not read by its own order is taken out. False: none is left.
 */
static bool narrow_memo_node(struct hx_unwind_thread *thread, struct hx_memo_node *node,
                             const struct hx_trace *trace, uint64_t sp)
{
    uint32_t n = trace->words_end - trace->first_word, kept = 0;
    uint16_t at[HX_MEMO_DECISIVE];
    uint8_t order[HX_MEMO_DECISIVE];
    for (int i = 0; i < HX_MEMO_DECISIVE; i++)
        if (node->order[i] < n &&
            trace->word[trace->first_word + node->order[i]].at == sp + (uint64_t)node->at[i] * 8) {
            at[kept] = node->at[i];
            order[kept++] = node->order[i];
        }
    if (HX_LIKELY(kept == HX_MEMO_DECISIVE))
        return true;
    if (!may_learn(thread))
        return false;
    thread->learned++;
    node->tag = kept != 0 ? node->tag | 1 : 0;
    for (uint32_t i = 0, highest = 0; i < HX_MEMO_DECISIVE && kept != 0; i++) {
        for (uint32_t j = 1; j < kept; j++)
            highest = at[j] > at[highest] ? j : highest;
        uint32_t from = i < kept ? i : 0;
        node->at[i] = at[from];
        node->order[i] = order[from];
    }
    return kept != 0;
}

/* Room for another offset, which no other repeats; -1: there is none. */
static int free_offset(const struct hx_memo_node *node)
{
    for (int i = 1; i < HX_MEMO_DECISIVE; i++)
        if (node->at[i] == node->at[0])
            return i;
    return -1;
}

static void add_offset(struct hx_memo_node *node, int i, uint16_t at, uint8_t order)
{
    uint16_t highest = node->at[0];
    uint8_t its_order = node->order[0];
    if (at > highest) {
        for (int j = 0; j < HX_MEMO_DECISIVE; j++)
            if (node->at[j] == highest) {
                node->at[j] = at;
                node->order[j] = order;
            }
        at = highest;
        order = its_order;
    }
    node->at[i] = at;
    node->order[i] = order;
}

/* How many of the words of the trace, in their order, are the ones that were remembered. */
static uint32_t same_words(const struct hx_unwind_thread *thread, const struct hx_memo *memo,
                           const struct hx_trace *trace)
{
    uint32_t n = trace->words_end - trace->first_word, i = 0;
    const struct hx_memo_words *words = &memo->words;
    uint32_t part = memo->more;
    n = n < memo->n ? n : memo->n;
    while (i < n && trace->word[trace->first_word + i].value == words->value[i % HX_MEMO_WORDS])
        if (++i % HX_MEMO_WORDS == 0 && i < n) {
            if (thread->more[part].stamp != memo->stamp)
                return n;
            words = &thread->more[part].words;
            part = (part + 1) % HX_MEMO_MORE;
        }
    return i;
}

/* Where a stack has been put that is to be remembered. */
struct place {
    uint64_t hash;
    struct hx_memo_node *node; /* the last one on the way */
    struct hx_memo *set;
};

static struct place find_memo_slot(struct hx_unwind_thread *thread, const struct hx_trace *trace,
                                   const struct hx_memo *head, uint64_t room)
{
    struct place place = {.hash = root_hash(thread, head->pc, head->sp, room)};
    for (int i = 0; i < NODES_MAX; i++) {
        struct hx_memo_node *node = find_node(thread, place.hash);
        if (node == NULL || node_reach(node) > room)
            break;
        if (!narrow_memo_node(thread, node, trace, head->sp)) {
            if (node->tag != 0)
                return place; /* with no set: it would not be found there */
            break;
        }
        place.node = node;
        place.hash = hash_node_words(node, place.hash, head->sp);
    }
    place.set = memo_set(thread, place.hash);
    return place;
}

/* Learns by what the stack differs from those that were put where it would be. False: nothing. */
static bool learn_node(struct hx_unwind_thread *thread, const struct hx_trace *trace,
                       const struct place *place, const struct hx_memo *head)
{
    uint32_t n = trace->words_end - trace->first_word, first = n;
    for (int way = 0; way < HX_MEMO_WAYS; way++) {
        struct hx_memo *memo = &place->set[way];
        if (memo->leaf != leaf_of(place->hash) ||
            !memo_begins(memo, head->pc, head->sp, head->fp, head->epoch))
            continue;
        uint32_t same = same_words(thread, memo, trace);
        if (same < first && same < memo->n)
            first = same;
    }
    uint64_t at = first < n ? trace->word[trace->first_word + first].at - head->sp : 1;
    if (first > UINT8_MAX || at % 8 != 0 || at / 8 > UINT16_MAX)
        return false;
    int i = place->node && !(place->node->tag & 1) ? free_offset(place->node) : -1;
    if (i >= 0) {
        add_offset(place->node, i, (uint16_t)(at / 8), (uint8_t)first);
    } else {
        struct hx_memo_node *set = thread->node[place->hash >> 55 & (HX_MEMO_NODES - 1)];
        struct hx_memo_node *node = &set[set[0].tag == 0   ? 0
                                         : set[1].tag == 0 ? 1
                                                           : thread->turn % HX_MEMO_WAYS];
        node->tag = leaf_of(place->hash);
        for (int j = 0; j < HX_MEMO_DECISIVE; j++) {
            node->at[j] = (uint16_t)(at / 8);
            node->order[j] = (uint8_t)first;
        }
    }
    for (int way = 0; way < HX_MEMO_WAYS; way++) /* nothing leads to them any more */
        if (place->set[way].leaf == leaf_of(place->hash))
            place->set[way].epoch = 0;
    return true;
}

/* An entry for the stack, or NULL. */
static struct hx_memo *reserve_memo(const struct walk *walk, const struct hx_memo *head)
{
    struct hx_unwind_thread *thread = walk->thread;
    const struct hx_trace *trace = walk->trace;
    uint64_t room = room_of(walk), at = trace->word[trace->first_word].at - head->sp;
    struct hx_memo_first *first = &thread->first[head->pc % HX_MEMO_FIRSTS];
    uint16_t tag = (uint16_t)(head->pc / HX_MEMO_FIRSTS);
    thread->turn++;
    /* of two that want the place one has it for a while */
    if (at <= UINT16_MAX && (first->at == 0 || first->tag == tag || thread->turn % 16 == 0))
        *first = (struct hx_memo_first){(uint16_t)at, tag};
    struct place place = find_memo_slot(thread, trace, head, room);
    if (place.set == NULL)
        return NULL;
    for (int way = 0; way < HX_MEMO_WAYS; way++)
        if (place.set[way].epoch != head->epoch) {
            place.set[way].leaf = leaf_of(place.hash);
            return &place.set[way];
        }
    if (may_learn(thread) && learn_node(thread, trace, &place, head)) {
        thread->learned++;
        struct place better = find_memo_slot(thread, trace, head, room);
        if (better.set != NULL)
            place = better;
    }
    struct hx_memo *memo = &place.set[thread->turn % HX_MEMO_WAYS];
    memo->leaf = leaf_of(place.hash);
    return memo;
}

/* Remembers the stack whose words were noted. */
static void keep_memo(const struct walk *walk, const struct hx_memo *head)
{
    struct hx_unwind_thread *thread = walk->thread;
    const struct hx_trace *trace = walk->trace;
    uint32_t n = trace->words_end - trace->first_word;
    if (n == 0 || n > HX_MEMO_WORDS * (HX_MEMO_MORE / 8))
        return;
    struct hx_memo *memo = reserve_memo(walk, head);
    if (memo == NULL)
        return;
    memo->epoch = 0;
    memo->pc = head->pc;
    memo->sp = head->sp;
    memo->fp = head->fp;
    memo->needs_fp = head->needs_fp;
    memo->key = head->key;
    memo->n = (uint16_t)n;
    uint32_t first = n < HX_MEMO_WORDS ? n : HX_MEMO_WORDS;
    uint64_t highest = keep_words(trace, &memo->words, 0, first, head->sp);
    if (n > HX_MEMO_WORDS) {
        memo->more = thread->more_next;
        memo->stamp = ++thread->stamp;
        for (uint32_t from = first; from < n; from += HX_MEMO_WORDS) {
            uint32_t part = n - from < HX_MEMO_WORDS ? n - from : HX_MEMO_WORDS;
            struct hx_memo_more *more = &thread->more[thread->more_next];
            thread->more_next = (uint16_t)((thread->more_next + 1) % HX_MEMO_MORE);
            more->stamp = memo->stamp;
            uint64_t high = keep_words(trace, &more->words, from, part, head->sp);
            highest = high > highest ? high : highest;
        }
    }
    memo->reach = highest + 8;
    memo->epoch = highest <= UINT32_MAX ? head->epoch : 0;
}

/* --- all together -------------------------------------------------------------------------------
 */

/* Memory that another thread left: what it knew of its own stack is of no use. */
static void begin_thread(struct hx_unwind_thread *thread, uint64_t self)
{
    thread->self = self;
    thread->looked = false;
    thread->trace[0].epoch = thread->trace[1].epoch = 0;
    thread->now = thread->own[0] = thread->own[1] = (struct hx_span){0, 0};
    for (int set = 0; set < HX_MEMO_SETS; set++)
        for (int way = 0; way < HX_MEMO_WAYS; way++)
            if (thread->memo[set][way].epoch != 0)
                thread->memo[set][way].epoch = 0;
}

/* As hx_unwind_stack() does on the thread's own stack: elsewhere each word that is to be read is
 * asked for. */
static uint64_t recall_elsewhere(struct walk *walk)
{
    struct hx_unwind_thread *thread = walk->thread;
    uint64_t sp = walk->sp;
    uint64_t first = thread->first[walk->pc % HX_MEMO_FIRSTS].at;
    grow_readable_stack(walk, sp + first + 8);
    uint64_t hash = root_hash(thread, walk->pc, sp, room_of(walk));
    for (int i = 0; i < NODES_MAX; i++) {
        const struct hx_memo_node *node = find_node(thread, hash);
        if (node == NULL)
            break;
        grow_readable_stack(walk, sp + node_reach(node));
        if (node_reach(node) > room_of(walk))
            break;
        hash = hash_node_words(node, hash, sp);
    }
    const struct hx_memo *set = memo_set(thread, hash);
    for (int way = 0; way < HX_MEMO_WAYS; way++)
        if (memo_begins(&set[way], walk->pc, sp, walk->fp, walk->epoch) &&
            set[way].reach > room_of(walk))
            grow_readable_stack(walk, sp + set[way].reach);
    return recall(thread, set, walk->pc, sp, walk->fp, walk->epoch, room_of(walk));
}

static inline __attribute__((always_inline)) struct walk begin_walk(struct hx_unwind *unwind,
                                                                    struct hx_unwind_thread *thread,
                                                                    uint64_t pc, uint64_t sp,
                                                                    uint64_t fp, uint32_t epoch)
{
    uint64_t self = control_block();
    if (HX_UNLIKELY(thread->self != self))
        begin_thread(thread, self);
    struct walk walk = {.unwind = unwind, .thread = thread, .pc = pc, .sp = sp, .fp = fp};
    walk.fp_known = walk.fp_entry = walk.lasting = true;
    walk.epoch = epoch;
    walk.entry_fp = fp;
    begin_stack(&walk, sp, true);
    return walk;
}

/* A stack that is not remembered, or cannot be told to be without a closer look. */
static __attribute__((noinline)) uint64_t take(struct hx_unwind *unwind,
                                               struct hx_unwind_thread *thread, uint64_t pc,
                                               uint64_t sp, uint64_t fp, uint32_t epoch)
{
    struct walk walk = begin_walk(unwind, thread, pc, sp, fp, epoch);
    uint64_t key;
    if (!walk.own) {
        key = recall_elsewhere(&walk);
        if (key != HX_EV_KEY_UNKNOWN)
            return key;
    }

    take_frames(&walk);
    if (walk.stack.n == 0)
        return HX_EV_KEY_UNKNOWN;
    key = hx_intern(unwind, &walk.stack);
    if (walk.lasting && key >= HX_EV_KEY_FIRST) {
        struct hx_memo head = {.pc = pc, .sp = sp, .fp = fp, .key = key, .epoch = epoch};
        head.needs_fp = walk.needs_fp;
        keep_memo(&walk, &head);
    }
    return key;
}

void hx_unwind_walk(struct hx_unwind *unwind, struct hx_unwind_thread *thread, uint64_t pc,
                    uint64_t sp, uint64_t fp, struct hx_walked *ret)
{
    uint32_t epoch = atomic_load_explicit(&unwind->epoch, memory_order_acquire);
    struct walk walk = begin_walk(unwind, thread, pc, sp, fp, epoch);
    ret->own = walk.own ? thread->now : (struct hx_span){0, 0};
    take_frames(&walk);
    ret->stack = walk.stack;
    ret->mark = walk.trace->mark + walk.trace->first;
}

uint64_t hx_unwind_stack(struct hx_unwind *unwind, struct hx_unwind_thread *thread, uint64_t pc,
                         uint64_t sp, uint64_t fp)
{
    /* Before anything that depends on it is read: what is kept is never newer than its epoch. */
    uint32_t epoch = atomic_load_explicit(&unwind->epoch, memory_order_acquire);
    uint64_t end = thread->now.end;
    if (HX_LIKELY(sp >= thread->now.start && sp < end && thread->self == control_block())) {
        uint64_t room = end - sp;
        uint64_t hash = follow_memo_hash(thread, root_hash(thread, pc, sp, room), sp, room);
        uint64_t key = recall(thread, memo_set(thread, hash), pc, sp, fp, epoch, room);
        if (HX_LIKELY(key != HX_EV_KEY_UNKNOWN))
            return key;
    }
    return take(unwind, thread, pc, sp, fp, epoch);
}
