// SPDX-License-Identifier: MIT OR GPL-2.0-only
/* probes.bpf.c - the programs that the kernel runs at the allocator's functions.
 *
 * A program may be preempted, and another one of the same kind may then run on the same processor,
 * so nothing belongs to a processor without a claim. The state of a call lies with its thread.
 *
 * A call is recorded once, the outermost one, by where its return address stands on the stack:
 * calls from within stand below it. What was left by longjmp() shows because its return address,
 * which the kernel has replaced, is not on the stack any more, or because a call stands above.
 */
#include <linux/types.h>

#include <linux/bpf.h>
#include <stdbool.h>
#include <stddef.h>

#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>

#include "record/bpf/probes.bpf.h"
#include "record/bpf/probes_kernel.bpf.h"

typedef __u64 u64;
typedef __u32 u32;
typedef __s64 s64;

char licence[] SEC("license") = "Dual MIT/GPL";

const volatile struct hx_probe_config config SEC(".rodata.config") = {0};
struct hx_probe_shared shared SEC(".bss.shared");

/* Is this the return of a function that an earlier call of the same program saw entered? */
extern bool bpf_session_is_return(void) __ksym __weak;

/* --- maps; sizes that are 1 are set before loading ------------------------------ */

struct call {
    u64 sp; /* of the outermost recorded call, at its first instruction; 0: there is none */
    u64 cookie, size, old, out;
    u32 wanted;    /* the block it gives is to be recorded */
    u32 announced; /* REALLOC_BEGIN was sent */
    s64 until;     /* bytes to the next sample */
    u32 sampling, unused;
};

struct {
    __uint(type, BPF_MAP_TYPE_TASK_STORAGE);
    __uint(map_flags, BPF_F_NO_PREALLOC);
    __type(key, int);
    __type(value, struct call);
} calls SEC(".maps");

struct {
    __uint(type, BPF_MAP_TYPE_RINGBUF);
    __uint(max_entries, 4096);
} ring SEC(".maps");

/* Sampled (or filtered) blocks that live: only their frees are sent. */
struct {
    __uint(type, BPF_MAP_TYPE_HASH);
    __uint(max_entries, 1);
    __type(key, u64);
    __type(value, u32);
} sampled SEC(".maps");

struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __uint(max_entries, 1);
    __type(key, u32);
    __type(value, struct hx_probe_scratch);
} scratches SEC(".maps");

struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __uint(map_flags, BPF_F_MMAPABLE);
    __uint(max_entries, 1);
    __type(key, u32);
    __type(value, struct hx_unwind_piece);
} pieces SEC(".maps");

struct rows {
    struct hx_unwind_row row[1 << HX_PROBE_ROWS_LOG2];
};
struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __uint(map_flags, BPF_F_MMAPABLE);
    __uint(max_entries, 1);
    __type(key, u32);
    __type(value, struct rows);
} rows SEC(".maps");

struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __uint(map_flags, BPF_F_MMAPABLE);
    __uint(max_entries, 1);
    __type(key, u32);
    __type(value, struct hx_unwind_rule);
} rules SEC(".maps");

/* --- the ring --------------------------------------------------------------------- */

static __always_inline u64 wakes(void)
{
    if (!shared.asleep || bpf_ringbuf_query(&ring, BPF_RB_AVAIL_DATA) < config.wake_bytes)
        return BPF_RB_NO_WAKEUP;
    shared.asleep = 0;
    return BPF_RB_FORCE_WAKEUP;
}

static __always_inline u64 event_head(u32 kind)
{
    return HX_EV_HEAD(kind, bpf_ktime_get_ns());
}

static __noinline int send_word(u32 kind, u64 word)
{
    struct hx_ev_word *e = bpf_ringbuf_reserve(&ring, sizeof *e, 0);
    if (!e)
        return 1;
    e->head = event_head(kind);
    e->word = word;
    bpf_ringbuf_submit(e, BPF_RB_FORCE_WAKEUP);
    return 0;
}

static __always_inline void send_free(u64 address)
{
    struct hx_ev_free *e = bpf_ringbuf_reserve(&ring, sizeof *e, 0);
    if (!e) {
        __sync_fetch_and_add(&shared.lost_frees, 1);
        return;
    }
    e->head = event_head(HX_EV_FREE);
    e->address = address;
    bpf_ringbuf_submit(e, wakes());
}

/* --- rules of unwinding ------------------------------------------------------------- */

struct search {
    u64 pc;
    u32 lo, hi, side;
};

static long search_part(u32 i, struct search *s)
{
    u32 mid = (s->lo + s->hi) / 2;
    if (s->lo >= s->hi)
        return 1;
    if (shared.part[s->side & 1][mid & (HX_PROBE_PARTS - 1)].start <= s->pc)
        s->lo = mid + 1;
    else
        s->hi = mid;
    return 0;
}

static __noinline u32 rule_in_piece(u32 first, u32 more, u32 rule, u32 at)
{
    u32 lo = 0, hi = more;
    for (int i = 0; i < HX_UNWIND_STEPS && lo < hi; i++) {
        u32 mid = (lo + hi) / 2, j = first + mid, key = j >> HX_PROBE_ROWS_LOG2;
        struct rows *r = bpf_map_lookup_elem(&rows, &key);
        if (!r)
            return HX_UNWIND_NONE;
        struct hx_unwind_row row = r->row[j & ((1 << HX_PROBE_ROWS_LOG2) - 1)];
        if (row.at <= at) {
            lo = mid + 1;
            rule = row.rule;
        } else {
            hi = mid;
        }
    }
    return rule;
}

/* The number of the rule at pc; by the mappings. */
static __noinline u32 look_up(u64 pc)
{
    struct search s = {.pc = pc, .side = shared.side & 1};
    s.hi = shared.n_parts[s.side];
    bpf_loop(HX_PROBE_PARTS_LOG2 + 1, search_part, &s, 0);
    if (!s.lo)
        return HX_PROBE_RULE_MISS;
    struct hx_probe_part *part = &shared.part[s.side & 1][(s.lo - 1) & (HX_PROBE_PARTS - 1)];
    if (pc < part->start || pc >= part->end)
        return HX_PROBE_RULE_MISS;
    u64 off = pc - part->base;
    if (off >= part->span)
        return HX_PROBE_RULE_FP;
    u32 key = part->pieces + off / HX_UNWIND_PIECE, first_rule = part->rules;
    struct hx_unwind_piece *piece = bpf_map_lookup_elem(&pieces, &key);
    if (!piece)
        return HX_PROBE_RULE_FP;
    u32 rule = piece->rule;
    if (piece->more)
        rule = rule_in_piece(part->rows + piece->first, piece->more, rule, off % HX_UNWIND_PIECE);
    return rule == HX_UNWIND_NONE ? HX_PROBE_RULE_FP : first_rule + rule;
}

#define CACHE_MASK ((1 << HX_PROBE_CACHE_LOG2) - 1)
#define RULE_MASK  ((1 << HX_PROBE_RULES_LOG2) - 1)

static __always_inline u32 rule_at(u64 pc, u64 generation)
{
    u64 high = pc >> HX_PROBE_CACHE_LOG2;
    u64 want = high << 31 | generation << HX_PROBE_RULES_LOG2;
    u64 slot = (pc ^ high ^ high >> HX_PROBE_CACHE_LOG2) & CACHE_MASK;
    u64 got = shared.cache[slot];
    if ((got & ~(u64)RULE_MASK) == want && got)
        return got & RULE_MASK;
    u32 rule = look_up(pc);
    if (rule != HX_PROBE_RULE_MISS && shared.generation == generation)
        shared.cache[slot] = want | rule;
    return rule;
}

/* --- the user's stack --------------------------------------------------------------- */

static __noinline int fill_stack_window(struct hx_probe_scratch *s, u64 at)
{
    if (!s)
        return 0;
    s->from = at;
    s->words = HX_PROBE_WINDOW;
    if (!bpf_probe_read_user(s->window, sizeof s->window, (void *)at))
        return 1;
    /* up to the end of the page */
    u32 bytes = (4096 - (at & 4095)) & (sizeof s->window - 1) & ~7u;
    s->words = bytes / 8;
    if (bytes && !bpf_probe_read_user(s->window, bytes, (void *)at))
        return 1;
    s->words = 0;
    return 0;
}

static __always_inline bool word_at(struct hx_probe_scratch *s, u64 at, u64 *ret)
{
    u64 i = (at - s->from) / 8;
    if (at & 7)
        return !bpf_probe_read_user(ret, 8, (void *)at);
    if (at < s->from || i >= s->words) {
        if (!fill_stack_window(s, at))
            return false;
        i = 0;
    }
    *ret = s->window[i & (HX_PROBE_WINDOW - 1)];
    return true;
}

/* --- return addresses that the kernel has replaced ------------------------------------- */

static __always_inline u64 replaced_by(void)
{
    struct task_struct *task = (struct task_struct *)bpf_get_current_task();
    struct xol_area *area = NULL;
    if (!bpf_core_field_exists(task->mm->uprobes_state.xol_area) ||
        !bpf_core_field_exists(area->vaddr))
        return 0;
    area = BPF_CORE_READ(task, mm, uprobes_state.xol_area);
    return area ? BPF_CORE_READ(area, vaddr) : 0;
}

struct instances {
    struct return_instance *instance;
    u64 slot, replaced, found;
};

static long search_instance(u32 i, struct instances *s)
{
    struct return_instance *instance = s->instance;
    if (!instance)
        return 1;
    u64 address = BPF_CORE_READ(instance, orig_ret_vaddr);
    if (BPF_CORE_READ(instance, stack) == s->slot && address != s->replaced) {
        s->found = address;
        return 1;
    }
    s->instance = BPF_CORE_READ(instance, next);
    return 0;
}

/* What stood in a slot of the stack before a return probe replaced it; 0: none did. */
static __noinline u64 original(u64 pc, u64 slot)
{
    struct task_struct *task = (struct task_struct *)bpf_get_current_task();
    struct return_instance *instance = NULL;
    struct instances s = {.slot = slot, .replaced = replaced_by()};
    if (!s.replaced || pc != s.replaced || !bpf_core_field_exists(task->utask->return_instances) ||
        !bpf_core_field_exists(instance->orig_ret_vaddr))
        return 0;
    s.instance = BPF_CORE_READ(task, utask, return_instances);
    bpf_loop(HX_EV_FRAMES_MAX, search_instance, &s, 0);
    return s.found;
}

/* --- walking ---------------------------------------------------------------------------- */

struct walk {
    struct hx_probe_scratch *s;
};

static __always_inline long is_outermost(struct hx_probe_scratch *s, bool cut)
{
    s->done = 1;
    s->cut = cut;
    return 1;
}

/* The canonical frame address; false: it cannot be found. */
static __always_inline bool canonical_address(struct hx_probe_scratch *s, struct hx_unwind_rule *r,
                                              u64 pc, u64 *ret)
{
    switch (r->cfa) {
    case HX_UW_CFA_SP:
        *ret = s->sp + r->cfa_off;
        return true;
    case HX_UW_CFA_FP:
        *ret = s->fp + r->cfa_off;
        return s->fp_known;
    case HX_UW_CFA_AT_SP:
        return word_at(s, s->sp + r->cfa_off, ret);
    case HX_UW_CFA_AT_FP:
        return s->fp_known && word_at(s, s->fp + r->cfa_off, ret);
    case HX_UW_CFA_PLT:
        *ret = s->sp + 8 + ((int)(pc & 15) >= r->cfa_off ? 8 : 0);
        return true;
    default:
        return false;
    }
}

/* The caller's rbp. */
static __always_inline void frame_pointer(struct hx_probe_scratch *s, struct hx_unwind_rule *r,
                                          u64 cfa)
{
    u64 at;
    switch (r->fp) {
    case HX_UW_SAVE_SAME:
        return;
    case HX_UW_SAVE_AT_CFA:
        at = cfa + r->fp_off;
        break;
    case HX_UW_SAVE_AT_SP:
        at = s->sp + r->fp_off;
        break;
    case HX_UW_SAVE_AT_FP:
        at = s->fp + r->fp_off;
        break;
    default:
        s->fp_known = 0;
        return;
    }
    u64 fp = 0;
    s->fp_known = word_at(s, at, &fp);
    s->fp = fp;
}

/* Bytes of a frame that is only guessed. */
#define FP_FRAME_MAX (1 << 20)

/* One frame: notes s->pc, then goes to the caller's. */
static __always_inline long step_from(struct hx_probe_scratch *s)
{
    u64 pc = s->pc, cfa = 0, ra = 0;
    u32 exact = s->exact_now & 1, n = s->n;

    u32 rule = rule_at(pc - 1 + exact, s->generation);
    if (rule < HX_PROBE_RULE_FIRST) {
        u64 was = original(pc, s->slot);
        if (was) {
            s->pc = pc = was;
            rule = rule_at(pc - 1, s->generation);
        }
        if (rule == HX_PROBE_RULE_MISS && s->unsure)
            return is_outermost(s, true);
    }
    if (n >= HX_EV_FRAMES_MAX)
        return is_outermost(s, true);
    s->record[8 + n] = pc;
    s->hash = (s->hash ^ pc) * 0x9e3779b97f4a7c15ULL;
    s->hash ^= s->hash >> 32;
    if (exact && n < 64)
        s->exact |= 1ULL << n;
    s->n = n + 1;
    if (rule == HX_PROBE_RULE_MISS) {
        s->missed = 1;
        return is_outermost(s, true);
    }

    struct hx_unwind_rule *r = bpf_map_lookup_elem(&rules, &rule);
    if (!r)
        return is_outermost(s, true);
    if (r->cfa == HX_UW_CFA_END)
        return is_outermost(s, false);
    if (!canonical_address(s, r, pc - 1 + exact, &cfa))
        return is_outermost(s, true);
    u64 slot = (r->ra == HX_UW_SAVE_AT_SP ? s->sp : cfa) + r->ra_off;
    if (cfa <= s->sp && !r->signal)
        return is_outermost(s, true);
    if (rule == HX_PROBE_RULE_FP) {
        /* or it would lead from a coroutine's stack to that which made it */
        if (s->fp < s->sp || s->fp - s->sp > FP_FRAME_MAX)
            return is_outermost(s, true);
        s->unsure = 1;
    }
    frame_pointer(s, r, cfa);
    if (!word_at(s, slot, &ra))
        return is_outermost(s, true);
    if (!ra)
        return is_outermost(s, false);
    s->slot = slot;
    s->pc = ra;
    s->sp = cfa;
    s->exact_now = r->signal;
    return 0;
}

/* Numbers that the compiler knows to be small, and keeps on the stack, old verifiers do not. */
static __always_inline u32 frame_index(u32 i)
{
    __asm__("" : "+r"(i));
    return i & (HX_EV_FRAMES_MAX - 1);
}

/* The same, with where the frame ends. */
static long step(u32 i, struct walk *w)
{
    struct hx_probe_scratch *s = w->s;
    u32 n = s->n;
    u64 sp = s->sp;
    long done = step_from(s);
    u64 signal = s->exact_now & 1, cfa = s->sp;
    if (n >= HX_EV_FRAMES_MAX || s->n == n)
        return done;
    /* the outermost frame ends nowhere; nothing is in it */
    s->cfa[frame_index(n)] = done ? sp : (cfa & ~1ULL) | signal;
    if (!done && signal && (cfa < sp || cfa - sp > 65536)) {
        s->turn = n;
        s->turn_low = sp;
        s->turn_high = cfa;
    }
    return done;
}

static __always_inline struct hx_probe_scratch *claim_scratch(void)
{
    u32 key = bpf_get_smp_processor_id() % config.cpus;
    for (int i = 0; i < 4; i++) {
        struct hx_probe_scratch *s = bpf_map_lookup_elem(&scratches, &key);
        if (s && !__sync_val_compare_and_swap(&s->claimed, 0, 1))
            return s;
        key += config.cpus;
    }
    return NULL;
}

static __always_inline void release(struct hx_probe_scratch *s)
{
    __sync_lock_test_and_set(&s->claimed, 0);
}

#include "record/bpf/probes_marks.bpf.h"

/* A stack that only heapx can finish: with it goes the memory from the frame on. */
static __noinline u64 send_raw(struct hx_probe_scratch *s)
{
    if (!s)
        return 0;
    u32 n = s->n, bytes = HX_PROBE_RAW_BYTES, page = (4096 - (s->sp & 4095)) & 0x1ff8;
    if (n > HX_EV_FRAMES_MAX)
        return 0;
    struct hx_ev_raw_stack *e = (void *)s->record;
    /* at its outer end, the stack's memory ends with a page */
    for (int i = HX_PROBE_RAW_BYTES / 4096 - 1;
         bytes && bpf_probe_read_user(&s->record[8 + n], bytes, (void *)s->sp); i--)
        bytes = i >= 0 ? page + 4096 * i : 0;
    e->key = HX_PROBE_KEY_RAW | __sync_fetch_and_add(&shared.raw_keys, 1);
    e->n = n;
    e->flags = HX_EV_STACK_CUT;
    e->exact = s->exact;
    e->pc = s->pc;
    e->sp = s->sp;
    e->fp = s->fp_known ? s->fp : 0;
    e->n_bytes = bytes;
    e->unused = 0;
    e->head = event_head(HX_EV_RAW_STACK);
    u64 len = sizeof *e + (u64)n * 8 + bytes;
    if (len > sizeof s->record || bpf_ringbuf_output(&ring, s->record, len, BPF_RB_FORCE_WAKEUP))
        return 0;
    __sync_fetch_and_add(&shared.raw_stacks, 1);
    return e->key;
}

static __noinline u64 send_stack(struct hx_probe_scratch *s)
{
    if (!s)
        return 0;
    u64 key = (s->hash & (HX_PROBE_KEY_STACK - 1)) | HX_PROBE_KEY_STACK;
    u64 slot = key & ((1 << HX_PROBE_RECENT_LOG2) - 1);
    if (shared.recent_keys[slot] == key || shared.recent_keys[slot ^ 1] == key)
        return key;
    struct hx_ev_stack *e = (void *)&s->record[4];
    u64 n = s->n;
    if (n > HX_EV_FRAMES_MAX)
        return 0;
    e->key = key;
    e->n = n;
    e->flags = s->cut ? HX_EV_STACK_CUT : 0;
    e->exact = s->exact;
    e->head = event_head(HX_EV_STACK);
    if (bpf_ringbuf_output(&ring, e, sizeof *e + n * 8, wakes()))
        return 0;
    if (shared.recent_keys[slot] && (!shared.recent_keys[slot ^ 1] || key >> 40 & 1))
        slot ^= 1;
    shared.recent_keys[slot] = key;
    return key;
}

/* The key of the stack from a frame on that has just called, and got control back. Not static: the
 * verifier looks at it once then, and not for each call. */
__noinline u64 take_from(struct start *from)
{
    struct walk w = {.s = claim_scratch()};
    struct hx_probe_scratch *s = w.s;
    u64 key = 0;
    if (!s || !from) {
        __sync_fetch_and_add(&shared.lost_stacks, 1);
        return HX_EV_KEY_UNKNOWN;
    }
    s->n = s->done = s->cut = s->missed = s->unsure = s->exact_now = 0;
    s->fp_known = 1;
    s->pc = from->pc;
    s->sp = from->sp;
    s->fp = from->fp;
    s->slot = from->sp - 8;
    s->exact = s->words = 0;
    s->hash = shared.seed;
    s->generation = shared.generation;
    s->turn = ~0ULL;
    bpf_loop(HX_EV_FRAMES_MAX, step, &w, 0);
    from->plain = s->hash;
    struct marks *m = from->marked ? marks_of(0) : NULL;
    if (m && m->n)
        merge_marks(s, m, from);
    if (!s->done)
        s->cut = 1;
    if (s->cut)
        s->hash = ~s->hash;
    if (s->missed && shared.raw_left > 0 && __sync_fetch_and_add(&shared.raw_left, -1) > 0)
        key = send_raw(s);
    if (!key)
        key = send_stack(s);
    if (!key)
        __sync_fetch_and_add(&shared.lost_stacks, 1);
    release(s);
    return key;
}

/* The key of the stack from the caller of the function that has just returned. */
static __always_inline u64 take_stack(struct pt_regs *regs)
{
    struct start from = {
        .pc = regs->ip, .sp = regs->sp, .fp = regs->bp, .marked = shared.marks_ns != 0};
    return take_from(&from);
}

/* --- samples ------------------------------------------------------------------------------ */

/* Bytes to the next sample: exponential, with the mean that was asked for. */
static __noinline s64 draw_sample(void)
{
    u32 r = bpf_get_prandom_u32() | 1, log = 31;
    for (int i = 16; i; i >>= 1)
        if (!(r >> (32 - i))) {
            r <<= i;
            log -= i;
        }
    u32 at = r >> 23 & 255, rest = r >> 7 & 0xffff;
    u32 low = config.log2[at], high = config.log2[at + 1];
    /* -ln(r / 2^32), in units of 2^-16 */
    u64 fraction = ((u64)log << 16) + low + ((u64)(high - low) * rest >> 16);
    u64 x = ((32ULL << 16) - fraction) * 45426 >> 16;
    return (x * (config.sample_bytes >> 8) >> 8) + (x * (config.sample_bytes & 255) >> 16) + 1;
}

static __always_inline bool wanted(struct call *c, u64 size)
{
    if (size < config.least_bytes || (config.most_bytes && size > config.most_bytes))
        return false;
    if (!config.sample_bytes)
        return true;
    if (!c->sampling) {
        c->sampling = 1;
        c->until = draw_sample();
    }
    if (size < (u64)c->until) {
        c->until -= size;
        return false;
    }
    c->until = draw_sample();
    return true;
}

static __always_inline bool tracks(void)
{
    return config.sample_bytes || config.least_bytes || config.most_bytes;
}

static __always_inline bool is_tracked(u64 address)
{
    return !tracks() || !bpf_map_delete_elem(&sampled, &address) || shared.over;
}

static __always_inline void track_sample(u64 address)
{
    u32 one = 1;
    if (tracks() && bpf_map_update_elem(&sampled, &address, &one, BPF_ANY))
        shared.over = 1;
}

/* --- calls ---------------------------------------------------------------------------------- */

/* Is the thread still in the call that it noted? Its return address was replaced. */
static __noinline int is_inside(u64 slot)
{
    u64 word = 0, replaced = replaced_by();
    if (!replaced)
        return 1;
    return !bpf_probe_read_user(&word, 8, (void *)slot) && word == replaced;
}

/* The size of an array; what does not fit saturates, as such a call fails. */
static __always_inline u64 product(u64 a, u64 b)
{
    u64 big = a > b ? a : b, small = a > b ? b : a;
    if (small >> 32 || (big >> 32) * small >> 32)
        return ~0ULL;
    return a * b;
}

static __always_inline int send_realloc_begin(u64 address)
{
    struct hx_ev_realloc_begin *e = bpf_ringbuf_reserve(&ring, sizeof *e, 0);
    if (!e) {
        __sync_fetch_and_add(&shared.lost_frees, 1);
        return 0;
    }
    e->head = event_head(HX_EV_REALLOC_BEGIN);
    e->address = address;
    e->tid = (u32)bpf_get_current_pid_tgid();
    e->unused = 0;
    bpf_ringbuf_submit(e, wakes());
    return 1;
}

static __always_inline struct hx_probe_hits *hits(void)
{
    return &shared.hits[bpf_get_smp_processor_id() & (HX_PROBE_HITS - 1)];
}

/* At the first instruction. Returns 1 when the return need not be seen. */
static __always_inline int enter_call(u64 cookie, u64 sp, u64 a, u64 b, u64 c)
{
    if (!shared.armed)
        return 1;
    hits()->allocs++;
    struct call *call =
        bpf_task_storage_get(&calls, bpf_get_current_task_btf(), 0, BPF_LOCAL_STORAGE_GET_F_CREATE);
    if (!call) {
        __sync_fetch_and_add(&shared.lost_allocs, 1);
        return 1;
    }
    if (call->sp && sp <= call->sp && is_inside(call->sp))
        return 1;
    u64 size = a, old = 0;
    switch (cookie & 255) {
    case HX_PROBE_CALLOC:
        size = product(a, b);
        break;
    case HX_PROBE_ALIGNED:
    case HX_PROBE_MMAP:
        size = b;
        break;
    case HX_PROBE_POSIX:
        size = c;
        call->out = a;
        break;
    case HX_PROBE_REALLOC:
        size = b;
        old = a;
        break;
    case HX_PROBE_REALLOCARRAY:
        size = product(b, c);
        old = a;
        break;
    case HX_PROBE_MREMAP:
        size = c;
        old = a;
        break;
    }
    /* It will fail, perhaps by an exception, whose way up a replaced return address would bar. */
    if (size >> 47) {
        call->sp = 0;
        return 1;
    }
    call->wanted = wanted(call, size);
    call->announced = 0;
    if (old && is_tracked(old))
        call->announced = send_realloc_begin(old);
    if (!call->wanted && !call->announced && cookie & HX_PROBE_LEAF) {
        call->sp = 0;
        return 1;
    }
    call->sp = sp;
    call->cookie = cookie;
    call->size = size;
    call->old = old;
    return 0;
}

static __noinline int send_alloc(struct pt_regs *regs, u64 address, u64 size)
{
    u64 key = take_stack(regs);
    track_sample(address);
    struct hx_ev_alloc *e = bpf_ringbuf_reserve(&ring, sizeof *e, 0);
    if (!e) {
        __sync_fetch_and_add(&shared.lost_allocs, 1);
        __sync_fetch_and_add(&shared.lost_bytes, size);
        return 0;
    }
    e->head = event_head(HX_EV_ALLOC);
    e->address = address;
    e->requested = size;
    e->usable = 0;
    e->stack = key;
    bpf_ringbuf_submit(e, wakes());
    return 0;
}

static __noinline int send_realloc_end(struct pt_regs *regs, u64 address, struct call *call)
{
    if (!call)
        return 0;
    /* a block that is not sampled any more is gone as far as heapx knows */
    u32 freed = address ? !call->wanted : !call->size;
    u64 key = HX_EV_KEY_UNKNOWN;
    if (!call->wanted)
        address = 0;
    if (address)
        key = take_stack(regs);
    if (address || !freed)
        track_sample(address ? address : call->old);
    struct hx_ev_realloc_end *e = bpf_ringbuf_reserve(&ring, sizeof *e, 0);
    if (!e) {
        __sync_fetch_and_add(&shared.lost_allocs, 1);
        __sync_fetch_and_add(&shared.lost_bytes, call->size);
        return 0;
    }
    e->head = event_head(HX_EV_REALLOC_END);
    e->old = call->old;
    e->address = address;
    e->requested = call->size;
    e->usable = 0;
    e->stack = key;
    e->tid = (u32)bpf_get_current_pid_tgid();
    e->freed = freed;
    bpf_ringbuf_submit(e, wakes());
    return 0;
}

/* At the return, before the caller goes on. */
static __always_inline int leave_call(struct pt_regs *regs, u64 cookie)
{
    struct call *call = bpf_task_storage_get(&calls, bpf_get_current_task_btf(), 0, 0);
    if (!call || call->sp + 8 != regs->sp || call->cookie != cookie)
        return 0;
    call->sp = 0;
    if (!shared.armed)
        return 0;
    u64 address = regs->ax;
    switch (cookie & 255) {
    case HX_PROBE_POSIX:
        if ((u32)address)
            return 0;
        if (bpf_probe_read_user(&address, 8, (void *)call->out))
            __sync_fetch_and_add(&shared.lost_allocs, 1);
        break;
    case HX_PROBE_MMAP:
    case HX_PROBE_MREMAP:
        if (address >= -4095ULL)
            address = 0;
        break;
    }
    if (call->announced)
        return send_realloc_end(regs, address, call);
    if (address && call->wanted)
        return send_alloc(regs, address, call->size);
    return 0;
}

/* --- programs -------------------------------------------------------------------------------- */

/* Entry and return in one, where the kernel has that. */
SEC("uprobe/session")
int on_session(struct pt_regs *regs)
{
    u64 sp = regs->sp, di = regs->di, si = regs->si, dx = regs->dx;
    u64 cookie = bpf_get_attach_cookie(regs);
    if (bpf_session_is_return())
        return leave_call(regs, cookie);
    return enter_call(cookie, sp, di, si, dx);
}

SEC("uprobe/entry")
int on_entry(struct pt_regs *regs)
{
    enter_call(bpf_get_attach_cookie(regs), regs->sp, regs->di, regs->si, regs->dx);
    return 0;
}

SEC("uretprobe/return")
int on_return(struct pt_regs *regs)
{
    return leave_call(regs, bpf_get_attach_cookie(regs));
}

SEC("uprobe/free")
int on_free(struct pt_regs *regs)
{
    u64 address = regs->di, sp = regs->sp;
    if (!address || !shared.armed)
        return 0;
    hits()->frees++;
    struct call *call = bpf_task_storage_get(&calls, bpf_get_current_task_btf(), 0, 0);
    if (call && call->sp && sp <= call->sp && is_inside(call->sp))
        return 0;
    if (is_tracked(address))
        send_free(address);
    return 0;
}

SEC("uprobe/maps")
int on_maps(struct pt_regs *regs)
{
    if (shared.armed)
        send_word(HX_EV_MAPS, 0);
    return 0;
}

#include "record/bpf/probes_ops.bpf.h"

SEC("raw_tracepoint/sched_process_exec")
int on_exec(void *ctx)
{
    struct bpf_pidns_info who = {0};
    if (bpf_get_ns_current_pid_tgid(config.pid_space_dev, config.pid_space_inode, &who,
                                    sizeof who) ||
        who.tgid != config.pid)
        return 0;
    shared.armed = 0;
    shared.ended = 1;
    send_word(HX_EV_EXEC, 0);
    return 0;
}
