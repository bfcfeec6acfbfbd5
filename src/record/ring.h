/* ring.h - the memory that a program under `heapx run` shares with heapx: one region a process.
 *
 * The library inside the program makes the region: a file in a folder that heapx made (0700) and
 * named in the environment; heapx finds it there, maps it, and removes its name. It is called PID.N
 * (decimal): N is the lowest number that was free, so a process that executes another program
 * before heapx looked has several; the higher is the later one. A process that cannot make one says
 * why in the target of a symbolic link PID.why. Another one, `reader`, says who reads: the pid of
 * heapx, and of its namespace of pids the device and inode, as D:I:PID in hexadecimal; a process of
 * another namespace cannot tell whether heapx lives but by what it does. Everything in the region
 * but the marked words is written by the program, which may be broken or hostile: the reader
 * bounds every offset and count, copies before it looks, and at worst reports nonsense.
 *
 * The program never waits for heapx, but for a bounded time when a ring is full and the reader is
 * making progress; see HX_RING_TIMEOUT_NS.
 */
#ifndef HX_RECORD_RING_H
#define HX_RECORD_RING_H

#include "record/event.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

#define HX_REGION_MAGIC   0x314e4749474552ULL
#define HX_REGION_VERSION 4

#define HX_RING_BYTES ((uint64_t)256 << 10) /* a power of two; of events */
#define HX_RINGS      4096                  /* address space only, until a thread takes one */

/* How long a thread waits at most for room, and for how long after the reader's last sign of life;
 * then events are lost and counted, without waiting, until there is room again. */
#define HX_RING_TIMEOUT_NS 1000000000ULL

/* One writer (a thread, or a signal handler that interrupted one while it was writing), one
 * reader. head and tail count bytes and only grow; byte i lies at i % HX_RING_BYTES. A record
 * never wraps: HX_EV_PAD fills up to the end. Invariant: tail <= head <= tail + HX_RING_BYTES. */
struct hx_ring {
    _Atomic uint32_t state; /* enum hx_ring_state */
    _Atomic uint32_t tid;   /* of the writer */
    _Alignas(64) _Atomic uint64_t head;
    _Atomic uint64_t lost_allocs, lost_frees, lost_bytes, lost_entries; /* only grow */
    _Alignas(64) _Atomic uint64_t tail;                                 /* by the reader */
    _Alignas(4096) uint8_t bytes[HX_RING_BYTES];
};
enum hx_ring_state {
    HX_RING_FREE = 0, /* by the reader, or never used: a writer may claim it (compare and swap) */
    HX_RING_USED,     /* by the writer */
    HX_RING_LEFT,     /* by the writer, which writes no more: the reader drains it, then frees it
                         (compare and swap: the next writer may take it as it is, and go on behind
                         what is not yet drained). Also by the reader, for a writer whose thread is
                         gone (compare and swap); of tid 0 nothing is known */
};

/* Whole stacks stand one behind the other, as do their frames, so that few of them take few pages.
 * An entry is complete, and its `n` set (release), before an event names it; entries never change
 * afterwards. A key in an event is HX_EV_KEY_FIRST + index of the entry. The program finds them by
 * its own index, a word for each; heapx does not look at that. */
#define HX_REGION_STACKS ((uint64_t)1 << 20) /* entries */
#define HX_REGION_FRAMES ((uint64_t)1 << 24) /* words of frames */
#define HX_REGION_INDEX  (((uint64_t)1 << 12) + (1 << 15) + (1 << 18) + (1 << 20)) /* words */
struct hx_region_stack {
    uint64_t first;      /* index in frame[] */
    uint64_t exact;      /* as in struct hx_ev_stack */
    _Atomic uint32_t n;  /* frames; 0: not published */
    uint16_t flags;      /* HX_EV_STACK_CUT */
    uint16_t generation; /* of the mappings of code: see hx_region.generation */
};

/* Regions that the program marked (heapx/scc.h), each when it is pushed first. The word of one in
 * frames is HX_EV_REGION | 1 + index of the entry; HX_EV_REGION alone is one that found no room.
 * Entries are complete, and `n` set (release), before an event names them, and never change. The
 * index is the program's own, as that of stacks. */
#define HX_REGION_CENTRES ((uint64_t)1 << 15)
struct hx_region_centre {
    uint64_t address; /* of the structure, in the program */
    uint32_t line;
    _Atomic uint32_t n; /* bytes of text, as in struct hx_ev_centre; 0: not published */
    char text[HX_EV_CENTRE_TEXT];
};
struct hx_region_centres {
    _Atomic uint64_t index[2 * HX_REGION_CENTRES];
    struct hx_region_centre centre[HX_REGION_CENTRES];
};

/* What heapx asks for; by whoever makes the folder, in the environment. */
#define HX_RUN_ENV "HEAPX_RUN" /* FOLDER:FLAGS:SAMPLE:LEAST:MOST, numbers in hexadecimal */
enum hx_run_flag {
    HX_RUN_CHILDREN = 1, /* children are recorded too: keep the environment for what is executed */
    HX_RUN_AT_EXIT = 2,  /* wait for a last snapshot before the program ends */
    HX_RUN_MAPPINGS = 4, /* record the program's own mmap and munmap */
};

/* In fork_when: a fork is about to begin, its time follows at once. Whoever took the time before
 * this was there took one before the fork's. */
#define HX_FORK_COMING 1

/* Words for futexes count up; both sides bound how long they wait. */
struct hx_region {
    uint64_t magic; /* written last (release), when all else below is set */
    uint32_t version, flags;
    uint64_t bytes; /* of the whole region */
    int32_t pid;    /* as the program sees it */
    int32_t parent; /* of a fork: the pid whose region this one goes on from; else 0 */
    uint64_t sample_bytes;
    uint32_t clock;   /* 0: time-stamp counter, 1: nanoseconds of CLOCK_MONOTONIC */
    uint32_t execed;  /* 1: this process was recorded before it executed this program */
    uint64_t began;   /* when, by that clock */
    uint32_t foreign; /* 1: the program is in another PID namespace than the reader */
    uint32_t unused;

    /* What recording costs, in ticks of that clock: of some events how long they took (without the
     * allocator's own work, and without waiting), and of all waits for room in a ring. Only grow.
     */
    _Atomic uint64_t timed_allocs, timed_alloc_ticks, timed_frees, timed_free_ticks;
    _Atomic uint64_t waits, wait_ticks;

    _Alignas(64) _Atomic uint64_t reader_ns;  /* by the reader: CLOCK_MONOTONIC of its last round */
    _Atomic uint32_t reader_gone;             /* by the reader: it will not come back */
    _Atomic uint32_t asleep;                  /* by the reader: it sleeps on `wake`; 0
                                                 also by the program, when it wakes it */
    _Atomic uint32_t busy;                    /* by the reader: 1 while it works on what was
                                                 written here, which may take it long */
    _Atomic uint32_t wake;                    /* futex; the program adds 1 and wakes when a ring is
                                                 half full, or a request is made */
    _Alignas(64) _Atomic uint32_t rings_used; /* 1 + the highest index that was ever claimed */
    _Atomic uint32_t generation;  /* of the mappings of code; grows before code is unmapped */
    _Atomic uint64_t frames_used; /* words of frame[] that are given out */
    _Atomic uint64_t stacks_used, stacks_full;      /* entries; stacks that found no room */
    _Atomic uint64_t no_ring_allocs, no_ring_frees; /* events of threads that found no ring */
    _Atomic uint64_t centres_used, centres_full;    /* entries; regions that found no room */

    /* requests of the program, which heapx answers */
    _Alignas(64) _Atomic uint32_t
        maps_requested;         /* all stacks so far have to be placed: code goes */
    _Atomic uint32_t maps_done; /* futex, by the reader: up to that request */
    _Atomic uint64_t fork_when; /* with HX_RUN_CHILDREN: when a fork begins; the child's `began` */
    _Atomic uint32_t exit_requested; /* 1: about to end; exit_tid does it */
    _Atomic uint32_t exit_done;      /* futex, by the reader: go on */
    int32_t exit_tid;
    int32_t exit_signal; /* that ends it; 0: it exits */

    /* The five parts behind it are as large as the file; the program may have mapped only their
     * beginnings, and has filled only the pages that it uses. */
    _Alignas(4096) _Atomic uint64_t index[HX_REGION_INDEX];
    _Alignas(4096) struct hx_region_stack stack[HX_REGION_STACKS];
    _Alignas(4096) uint64_t frame[HX_REGION_FRAMES];
    _Alignas(4096) struct hx_region_centres centres;
    struct hx_ring ring[HX_RINGS];
};

#endif
