/* probes.bpf.h - what the probes in the kernel and the part of heapx that loads them share.
 *
 * Everything here lies in maps that heapx has mapped into its memory, too. Fields are written by
 * one side only, which is named.
 */
#ifndef HX_RECORD_BPF_PROBES_BPF_H
#define HX_RECORD_BPF_PROBES_BPF_H

#include "record/bpf/unwind_rows.h"
#include "record/event.h"

/* A probe's cookie: what the function does with its arguments, and a number that tells functions
 * apart. */
enum hx_probe_kind {
    HX_PROBE_MALLOC = 1,   /* (size, ...) */
    HX_PROBE_CALLOC,       /* (count, size) */
    HX_PROBE_ALIGNED,      /* (alignment, size) */
    HX_PROBE_POSIX,        /* (where the pointer goes, alignment, size) */
    HX_PROBE_REALLOC,      /* (block, size) */
    HX_PROBE_REALLOCARRAY, /* (block, count, size) */
    HX_PROBE_MMAP,         /* (address, length, ...) */
    HX_PROBE_MREMAP,       /* (address, old length, length, ...) */
    HX_PROBE_FREE,         /* (block, ...) */
    HX_PROBE_MAPS,    /* the dynamic linker is about to change, or has changed, what is mapped */
    HX_PROBE_PUSH,    /* (region) */
    HX_PROBE_POP,     /* (region) */
    HX_PROBE_CAPTURE, /* (id) */
    HX_PROBE_ENTER,   /* (id) */
    HX_PROBE_LEAVE,   /* (id) */
    HX_PROBE_KINDS
};
#define HX_PROBE_LEAF             256 /* calls no other function that has a probe */
#define HX_PROBE_COOKIE(kind, id) ((HX_EV_U64)(id) << 16 | (HX_EV_U64)(kind))

/* Set before the programs are loaded, and constant for them. */
struct hx_probe_config {
    HX_EV_U64 sample_bytes;            /* 0: every allocation */
    HX_EV_U64 least_bytes, most_bytes; /* requests of this size; most 0: no limit */
    HX_EV_U64 wake_bytes; /* wake a reader that sleeps when so much stands in the ring */
    HX_EV_U64 pid_space_dev, pid_space_inode; /* the PID namespace in which it is `pid` */
    HX_EV_U32 pid;
    HX_EV_U32 scratches, cpus; /* elements of the map; of them, cpus are one a processor */
    HX_EV_U32 rules;           /* elements of the map of rules */
    HX_EV_U32 log2[257];       /* [i] = log2(1 + i/256) * 2^16 */
};

/* An executable mapping, and where the table of its file lies. Sorted by start. */
struct hx_probe_part {
    HX_EV_U64 start, end;
    HX_EV_U64 base; /* bias + struct hx_unwind_file.start */
    HX_EV_U32 span; /* 0: no table */
    HX_EV_U32 pieces, rows, rules;
};
#define HX_PROBE_PARTS      4096
#define HX_PROBE_PARTS_LOG2 12

/* Numbers of rules. A file's rule 0, "none", is HX_PROBE_RULE_FP. */
#define HX_PROBE_RULE_FP    0 /* no table: frames linked by rbp, if that makes sense */
#define HX_PROBE_RULE_MISS  1 /* the address is in no mapping that is known */
#define HX_PROBE_RULE_FIRST 2
#define HX_PROBE_RULES_LOG2 20

#define HX_PROBE_ROWS_LOG2 10 /* rows in one element of their map */

/* An address whose rule is known, in one word: address / 2^14 (33 bits), generation (11 bits),
 * rule (20 bits). Its index in the array gives the rest of the address. */
#define HX_PROBE_CACHE_LOG2  14
#define HX_PROBE_GENERATIONS 2048

#define HX_PROBE_RECENT_LOG2 17 /* keys of stacks that were sent */

/* How often the probes ran, by processor; two may count on one, so a few get lost. */
#define HX_PROBE_HITS 64
struct hx_probe_hits {
    HX_EV_U64 allocs, frees;
    HX_EV_U64 pushes, pops; /* what takes a stack of a program's marks, and what does not */
    HX_EV_U64 unused[4];
};

struct hx_probe_shared {
    /* by heapx */
    HX_EV_U32 armed;      /* 0: the probes do nothing */
    HX_EV_U32 asleep;     /* 1: heapx sleeps; set to 0 by the probe that wakes it */
    HX_EV_U32 generation; /* of the mappings; < HX_PROBE_GENERATIONS */
    HX_EV_U32 side;       /* which of part[] is valid */
    HX_EV_U32 n_parts[2];
    HX_EV_U64 seed;     /* of keys; changes when code was unmapped */
    HX_EV_U64 marks_ns; /* the last probe of a mark was set; 0: there is none */
    HX_EV_U64 epoch;    /* of the words for regions; changes when code was unmapped */
    long long raw_left; /* raw stacks that may be sent still; also by the probes */

    /* by the probes */
    _Alignas(64) HX_EV_U64 lost_allocs, lost_frees, lost_bytes, lost_entries;
    HX_EV_U64 lost_stacks; /* allocations without a stack: no scratch, or no room in the ring */
    HX_EV_U64 raw_stacks, raw_keys;
    HX_EV_U64 cut_stacks;
    HX_EV_U32 over; /* 1: the map of sampled blocks is full, so all frees are sent */
    HX_EV_U32 ended;
    struct hx_probe_hits hits[HX_PROBE_HITS];

    struct hx_probe_part part[2][HX_PROBE_PARTS];
    HX_EV_U64 cache[1 << HX_PROBE_CACHE_LOG2];
    HX_EV_U64 recent_keys[1 << HX_PROBE_RECENT_LOG2];
};

/* Keys of stacks fit into a frame's word behind its tag. */
#define HX_PROBE_KEY_RAW   ((HX_EV_U64)1 << 58)
#define HX_PROBE_KEY_STACK ((HX_EV_U64)1 << 59)

/* The word of a region: its address (48 bits), mixed with the epoch. */
#define HX_PROBE_REGION(address, epoch)                                                            \
    (HX_EV_REGION | HX_EV_VALUE((address) ^ (HX_EV_U64)(epoch) << 48))
#define HX_PROBE_REGION_ADDRESS(word) ((word) & (((HX_EV_U64)1 << 48) - 1))

#define HX_PROBE_RAW_BYTES 16384
#define HX_PROBE_WINDOW    128 /* words of the stack that are read at once */

/* One walk up a stack. */
struct hx_probe_scratch {
    HX_EV_U32 claimed;
    HX_EV_U32 n, done, cut, missed, unsure, fp_known, exact_now;
    HX_EV_U64 pc, sp, fp, slot, hash, exact, generation;
    HX_EV_U64 from, words; /* the window: where, and how many words of it are valid */
    HX_EV_U64 window[HX_PROBE_WINDOW];
    /* With marks: of each frame the stack pointer that its caller has, and bit 0 when a signal
     * interrupted that; then the frames with the marks among them. */
    HX_EV_U64 cfa[HX_EV_FRAMES_MAX], merged[HX_EV_FRAMES_MAX];
    /* a signal handler on a stack of its own: the frame before, where it ends, how that went on */
    HX_EV_U64 turn, turn_low, turn_high;
    struct hx_probe_merge {
        HX_EV_U64 low, end, hash, plain, exact;
        HX_EV_U32 at, left, n, turned;
    } merge;
    /* struct hx_ev_raw_stack, or from record[4] on struct hx_ev_stack; then the frames */
    HX_EV_U64 record[8 + HX_EV_FRAMES_MAX + HX_PROBE_RAW_BYTES / 8];
};

#endif
