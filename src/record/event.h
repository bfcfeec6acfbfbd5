/* event.h - what a recorder writes and the reader takes: the one layout of events.
 *
 * Written by the probes in the kernel (probes.bpf.c) and by the library inside a program under
 * `heapx run` (preload/); taken by reader.c alone. Fixed-width little-endian words; records
 * lie one behind the other, each a multiple of 8 bytes, its length told by its kind.
 *
 * Order. An event that takes a block away (FREE, REALLOC_BEGIN) is published before the allocator
 * gets the block; one that brings a block (ALLOC, REALLOC_END) after the allocator gave it and
 * before the program has it. So whoever sees an event of a block also finds every earlier event
 * of it published, in whichever stream. Within a stream events stand in their order; `when` orders
 * those of several.
 */
#ifndef HX_RECORD_EVENT_H
#define HX_RECORD_EVENT_H

#ifndef __bpf__
#include <stdint.h>
#define HX_EV_U32 uint32_t
#define HX_EV_U64 uint64_t
#else
#define HX_EV_U32 __u32
#define HX_EV_U64 __u64
#endif

enum hx_event_kind {
    HX_EV_PAD = 0,           /* the rest of the stream's memory up to its end is unused */
    HX_EV_ALLOC = 1,         /* struct hx_ev_alloc */
    HX_EV_FREE = 2,          /* struct hx_ev_free */
    HX_EV_REALLOC_BEGIN = 3, /* struct hx_ev_realloc_begin: from now on the block may be gone */
    HX_EV_REALLOC_END = 4,   /* struct hx_ev_realloc_end */
    HX_EV_STACK = 5,         /* struct hx_ev_stack: before the first event that names its key */
    HX_EV_LOST = 6,          /* struct hx_ev_lost */
    HX_EV_MAPS = 7,          /* struct hx_ev_word: code was mapped or unmapped; word is 0 */
    HX_EV_FORK = 8,          /* struct hx_ev_word: word is the child's pid */
    HX_EV_EXEC = 9,          /* struct hx_ev_word: the program replaced itself */
    HX_EV_EXIT = 10,         /* struct hx_ev_word: the last thread is about to end */
    HX_EV_RAW_STACK = 11,    /* struct hx_ev_raw_stack: like STACK, to be unwound by the reader */
    HX_EV_CENTRE = 12,       /* struct hx_ev_centre: before the first stack that names its word */
    HX_EV_ENTRY = 13,        /* struct hx_ev_word: a region was pushed; word is the key of the stack
                                whose innermost frame it is */
    HX_EV_UNBALANCED = 14, /* struct hx_ev_word: so many pops since the last one found their region
                              not on top, or not at all */
    HX_EV_KINDS
};

/* The first word of each: kind in the low 8 bits, `when` in the high 56 (ticks of the stream's
 * clock: nanoseconds of CLOCK_MONOTONIC, or the processor's time-stamp counter). */
#define HX_EV_HEAD(kind, when) ((HX_EV_U64)(when) << 8 | (HX_EV_U64)(kind))
#define HX_EV_KIND(head)       ((HX_EV_U32)((head)&0xff))
#define HX_EV_WHEN(head)       ((head) >> 8)

/* Stack keys. Below HX_EV_KEY_FIRST they have a meaning of their own. */
#define HX_EV_KEY_UNKNOWN 0 /* no stack could be taken */
#define HX_EV_KEY_FULL    1 /* there was no room for one more stack */
#define HX_EV_KEY_FIRST   16

/* Frames of a stack are addresses of code, innermost first, and between them what the program said
 * by heapx/scc.h, told apart by the topmost four bits, which no address of code has:
 * a region that was pushed by the frame behind it, or a stack that was entered there (key; 0: it is
 * not known any more). Captured stacks have keys as all others, and are published before. */
#define HX_EV_REGION       ((HX_EV_U64)8 << 60)
#define HX_EV_DEFERRED     ((HX_EV_U64)9 << 60)
#define HX_EV_TAG(frame)   ((frame) & (HX_EV_U64)15 << 60)
#define HX_EV_VALUE(frame) ((frame) & ~((HX_EV_U64)15 << 60))

struct hx_ev_alloc {
    HX_EV_U64 head;
    HX_EV_U64 address;
    HX_EV_U64 requested;
    HX_EV_U64 usable; /* 0: not asked */
    HX_EV_U64 stack;  /* key */
};

struct hx_ev_free {
    HX_EV_U64 head;
    HX_EV_U64 address;
};

/* realloc of a block, by a thread; the two belong together by tid. Between them the block is
 * neither live nor free. */
struct hx_ev_realloc_begin {
    HX_EV_U64 head;
    HX_EV_U64 address;
    HX_EV_U32 tid, unused;
};
struct hx_ev_realloc_end {
    HX_EV_U64 head;
    HX_EV_U64 old;     /* as in REALLOC_BEGIN */
    HX_EV_U64 address; /* 0: it failed, and the old block lives on; or requested was 0, see freed */
    HX_EV_U64 requested;
    HX_EV_U64 usable;
    HX_EV_U64 stack;
    HX_EV_U32 tid;
    HX_EV_U32 freed; /* 1: address is 0 because the block was freed */
};

#define HX_EV_FRAMES_MAX 256
struct hx_ev_stack {
    HX_EV_U64 head;
    HX_EV_U64 key;
    HX_EV_U32 n;     /* frames, at most HX_EV_FRAMES_MAX */
    HX_EV_U32 flags; /* HX_EV_STACK_CUT */
    HX_EV_U64 exact; /* bit i: frame[i] is an instruction itself (interrupted by a signal), not a
                        return address; of the first 64 */
    HX_EV_U64 frame[];
};
#define HX_EV_STACK_CUT 1

/* A stack that could not be unwound to its end where it was taken: the frames so far, and the
 * memory from which the reader can go on. Length: the structure, n words, n_bytes rounded to 8. */
struct hx_ev_raw_stack {
    HX_EV_U64 head;
    HX_EV_U64 key;
    HX_EV_U32 n, flags;
    HX_EV_U64 exact;
    HX_EV_U64 pc, sp, fp; /* of the frame whose caller is not known; pc as frame[n - 1] */
    HX_EV_U32 n_bytes, unused;
    HX_EV_U64 frame[]; /* n, then the bytes from sp on */
};

/* Events that found no room since the last of these; kinds that are not known count as frees. */
struct hx_ev_lost {
    HX_EV_U64 head;
    HX_EV_U64 allocs, frees, alloc_bytes;
};

/* A region (struct heapx_centre): `word` stands for it in frames. */
#define HX_EV_CENTRE_TEXT 384
struct hx_ev_centre {
    HX_EV_U64 head;
    HX_EV_U64 word;    /* HX_EV_REGION | any number */
    HX_EV_U64 address; /* of the structure, in the process */
    HX_EV_U32 line;    /* 0: unknown */
    HX_EV_U32 n;       /* bytes of text, rounded up to 8 in the record; at most HX_EV_CENTRE_TEXT */
    char text[]; /* label, function, file of the source, each ended by a 0 byte; cut if long */
};

struct hx_ev_word {
    HX_EV_U64 head;
    HX_EV_U64 word;
};

#endif
