/* unwind_private.h - what the parts of the unwinder share: rules by address, words of stacks,
 * memory of stacks taken lately, whole stacks in the region.
 *
 * Everything in struct hx_unwind may be read and written by all threads and signal handlers at any
 * moment, and a fork may copy it at any moment: each word in it is valid by itself or not yet
 * reachable. struct hx_unwind_thread has one user at a time.
 */
#ifndef HX_RECORD_PRELOAD_UNWIND_PRIVATE_H
#define HX_RECORD_PRELOAD_UNWIND_PRIVATE_H

#include "record/preload/unwind.h"
#include "sym/cfi.h"

#define HX_LIKELY(x)   __builtin_expect(!!(x), 1)
#define HX_UNLIKELY(x) __builtin_expect(!!(x), 0)

/* --- rules by address (unwind_rules.c) ---------------------------------------------------------
 *
 * An entry is one word: the high half holds bits 15 to 46 of the address, the low half the rule;
 * the lower 15 bits of the address follow from the set that it stands in. So entries never mix up
 * two addresses, whatever is written when. 0: empty. */
#define HX_RULE_BITS 15
#define HX_RULE_SETS (1U << HX_RULE_BITS)
#define HX_RULE_BOOK 4096 /* rules that do not fit in half a word */
#define HX_RULE_BARE 8    /* ranges of code that no library holds */

/* Half a word of rule. SP and FP: CFA = that register + 8 * bits 2..19; bits 20..31 are 0 for a
 * caller's rbp that is unchanged, 4095 when it is lost, else it is the word at CFA - 8 * them; the
 * return address is the word at CFA - 8. OTHER: bits 2..3 say what. */
enum { HX_RULE_NONE = 0, HX_RULE_SP = 1, HX_RULE_FP = 2, HX_RULE_OTHER = 3 };
enum { HX_OTHER_BOOK = 0, HX_OTHER_END = 1, HX_OTHER_BARE = 2, HX_OTHER_NO_CODE = 3 };
#define HX_RULE_KIND(rule)  ((rule)&3)
#define HX_RULE_CFA(rule)   ((uint64_t)((rule) >> 2 & 0x3ffff) << 3)
#define HX_RULE_SAVED(rule) ((uint64_t)((rule) >> 20) << 3)
#define HX_SAVED_LOST       ((uint64_t)4095 << 3)
#define HX_RULE_MAKE_OTHER(what, index)                                                            \
    ((uint32_t)HX_RULE_OTHER | (uint32_t)(what) << 2 | (uint32_t)(index) << 4)
#define HX_RULE_WHAT(rule)  ((rule) >> 2 & 3)
#define HX_RULE_INDEX(rule) ((rule) >> 4)

struct hx_unwind {
    struct hx_tables *tables;
    _Atomic uint32_t epoch;  /* grows when what is cached must be forgotten */
    _Atomic uint32_t barred; /* no system calls */
    uint64_t vdso, vdso_end; /* 0: there is none */
    uint64_t on_stack;       /* something that the kernel put on the main thread's stack */
    _Atomic uint64_t bare[HX_RULE_BARE]; /* first page << 28 | pages */
    _Atomic uint32_t bare_next;
    _Atomic uint32_t book_used;
    _Atomic uint8_t book_ready[HX_RULE_BOOK];
    struct hx_cfi_rule book[HX_RULE_BOOK];
    _Alignas(64) _Atomic uint64_t rule[HX_RULE_SETS][2];
};

static inline uint32_t hx_rule_set(uint64_t pc)
{
    return (uint32_t)(pc ^ pc >> HX_RULE_BITS ^ pc >> 2 * HX_RULE_BITS) & (HX_RULE_SETS - 1);
}

/* The rule for code at pc if it is cached, else 0. */
static inline uint32_t hx_rule_cached(struct hx_unwind *unwind, uint64_t pc)
{
    _Atomic uint64_t *set = unwind->rule[hx_rule_set(pc)];
    uint64_t a = atomic_load_explicit(&set[0], memory_order_acquire);
    if (HX_LIKELY(a >> 32 == pc >> HX_RULE_BITS))
        return (uint32_t)a;
    uint64_t b = atomic_load_explicit(&set[1], memory_order_acquire);
    return b >> 32 == pc >> HX_RULE_BITS ? (uint32_t)b : 0;
}

/* Finds the rule for code at pc and caches it. A rule that finds no room in the book goes to
 * *ret_big, with the result HX_RULE_NONE. The buffer is for /proc/self/maps. */
uint32_t hx_rule_find(struct hx_unwind *unwind, uint64_t pc, char *buffer, size_t len,
                      struct hx_cfi_rule *ret_big);

/* vdso: the address of its ELF header, or 0. */
void hx_rules_init(struct hx_unwind *unwind, uint64_t vdso);
void hx_rules_forget(struct hx_unwind *unwind);

/* --- memory of the process (unwind_maps.c) ------------------------------------------------------
 */
struct hx_map {
    uint64_t start, end, offset, inode;
    uint64_t device; /* two numbers in one */
    bool read, exec;
    char name[8]; /* its beginning, padded with 0 */
};

/* Calls each() for the mappings by address until it returns false; lines are read into the buffer.
 * False: /proc could not be read to the end or to where each() was content. */
bool hx_maps_each(char *buffer, size_t len, bool (*each)(void *context, const struct hx_map *map),
                  void *context);

/* Whether the 8 bytes at addr can be read, asked from the kernel. */
bool hx_readable(uint64_t addr);

/* Whether all pages of [start, end) are mapped; the buffer has room for a byte a page, or is used
 * several times. */
bool hx_mapped(uint64_t start, uint64_t end, char *buffer, size_t len);

/* --- stacks in the region (unwind_intern.c) -----------------------------------------------------
 */
struct hx_call_stack {
    const uint64_t *frame;
    uint32_t n;
    bool cut;
    uint64_t exact;
};
static inline uint64_t hx_hash_mix(uint64_t hash, uint64_t word)
{
    hash = (hash ^ word) * 0xff51afd7ed558ccd;
    return hash ^ hash >> 32;
}
uint64_t hx_intern(struct hx_unwind *unwind, const struct hx_call_stack *stack);

/* One that was. False: there is none of that key, or nobody can tell any more. */
bool hx_interned(struct hx_unwind *unwind, uint64_t key, struct hx_call_stack *ret);

/* --- one thread --------------------------------------------------------------------------------
 */

/* Words that decided an unwinding, as offsets from its sp, and their values. */
#define HX_MEMO_WORDS 16
#define HX_MEMO_STEP  4 /* so many are compared at once; divides HX_MEMO_WORDS */
struct hx_memo_words {
    uint64_t value[HX_MEMO_WORDS];
    uint32_t at[HX_MEMO_WORDS];
};

#define HX_MEMO_SETS     512
#define HX_MEMO_WAYS     2
#define HX_MEMO_FIRSTS   1024
#define HX_MEMO_MORE     512 /* parts of stacks that are deeper than one entry holds */
#define HX_MEMO_NODES    512
#define HX_MEMO_DECISIVE 4

struct hx_memo {
    _Alignas(64) uint64_t pc, sp, fp;
    uint64_t key;
    uint64_t reach; /* end of the highest word, from sp */
    uint64_t stamp; /* of all its parts in more[]; 0 when it has none */
    uint32_t epoch; /* 0: empty */
    uint32_t leaf;  /* of the hash that it was put by */
    uint16_t n;     /* words */
    uint16_t more;  /* the first part; they follow each other, around the end */
    uint8_t needs_fp;
    struct hx_memo_words words;
};
struct hx_memo_more {
    _Alignas(64) uint64_t stamp;
    struct hx_memo_words words;
};

/* Where the first return address of stacks that begin at a pc is, from their sp. */
struct hx_memo_first {
    uint16_t at; /* 0: not known */
    uint16_t tag;
};

/* Where stacks were seen to differ that had been the same up to here, which a hash of all that
 * says. The nodes are a tree: of what a hash and the words at its node's offsets give, there may be
 * another node; if there is none, it says in which set the stack is. All of it is only a hint. */
struct hx_memo_node {
    uint32_t tag; /* of the hash; bit 0: no more offsets come to it; 0: empty */
    uint16_t
        at[HX_MEMO_DECISIVE]; /* words from sp: the highest first, which the unused ones repeat */
    uint8_t order[HX_MEMO_DECISIVE]; /* which of the words that decided it is */
};

/* Memory that stays mapped as long as the thread may look at it. */
struct hx_span {
    uint64_t start, end;
};

#define HX_WORDS_MAX 1024

struct hx_trace_mark {
    uint64_t sp;
    uint64_t fp;    /* where rbp is: its word's address, or below */
    uint64_t words; /* index of the first word that was read from this frame on */
};
struct hx_trace_word {
    uint64_t at, value;
};

/* Frames of an unwinding, inner ones first, and the words that decided it. It begins in the middle
 * of the arrays, so that other inner frames can be put before the outer ones. */
struct hx_trace {
    uint32_t first, end;            /* its frames */
    uint32_t first_word, words_end; /* its words */
    uint32_t epoch;                 /* 0: it may not be gone on with */
    bool needs_fp;                  /* what rbp was at its beginning has decided, too: */
    uint64_t entry_fp;
    uint64_t limit; /* the stack's bound then */
    uint64_t frame[2 * HX_EV_FRAMES_MAX];
    struct hx_trace_mark mark[2 * HX_EV_FRAMES_MAX + 1]; /* and one whose sp none reaches */
    struct hx_trace_word word[2 * HX_WORDS_MAX];
};
enum { HX_FP_ELSEWHERE = 0, HX_FP_ENTRY = 1 }; /* in no word; still as it was at the beginning */

/* Stacks with marks that were taken lately, by the stack without them, what is marked, and where.
 */
#define HX_MERGED 512
struct hx_merged {
    uint64_t base, marks, sp;
    uint64_t key; /* 0: empty */
};

struct hx_unwind_thread {
    uint64_t self;         /* address of the thread's control block: whose this is */
    struct hx_span now;    /* the one of `own` that sp was in lately */
    struct hx_span own[2]; /* the main thread's stack; what this thread's control block lies in */
    bool looked;           /* own[] is known, as far as it can be */
    uint32_t turn;         /* which way of a set is given up next */
    uint32_t learned;
    uint16_t more_next;
    uint64_t stamp;
    uint8_t last; /* which trace is the last stack's; the other one is to work with */
    struct hx_trace trace[2];
    char buffer[4096]; /* of /proc/self/maps */
    struct hx_memo_first first[HX_MEMO_FIRSTS];
    _Alignas(64) struct hx_memo_node node[HX_MEMO_NODES][HX_MEMO_WAYS];
    struct hx_memo memo[HX_MEMO_SETS][HX_MEMO_WAYS];
    struct hx_memo_more more[HX_MEMO_MORE];
    struct hx_merged merged[HX_MERGED];
    uint64_t marked[HX_EV_FRAMES_MAX]; /* a stack with marks that is being made */
};

/* A stack that was unwound without the memo: frame i is at mark[i].sp. Both lie in the
 * thread's memory until its next stack. */
struct hx_walked {
    struct hx_call_stack stack;
    const struct hx_trace_mark *mark;
    struct hx_span own; /* the stack where it begins, if that is the thread's own; else 0, 0 */
};
void hx_unwind_walk(struct hx_unwind *unwind, struct hx_unwind_thread *thread, uint64_t pc,
                    uint64_t sp, uint64_t fp, struct hx_walked *ret);

/* Makes thread->now the lasting memory that holds sp. The stack of the main thread is never
 * unmapped, nor is that of another thread while it lives; it holds the thread's control block at
 * its upper end. False: sp is on a stack of the program's own making, which may be unmapped, and
 * mapped anew with another size, at any time. */
bool hx_find_own(struct hx_unwind *unwind, struct hx_unwind_thread *thread, uint64_t sp);

#endif
