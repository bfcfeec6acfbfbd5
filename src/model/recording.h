/* recording.h - what a recorder knows at the stop of a snapshot: who allocated.
 *
 * Costs are requested bytes and cumulate since the recorder came. Stacks, places and files are
 * numbered once in a recording and keep their numbers in all its snapshots. Beside places in code a
 * stack may hold regions that the program marks (heapx/scc.h), and what it entered: the stack that
 * it captured when a piece of work was created, to which all frames further inside belong.
 *
 * Without costs and blocks the same structure holds the stacks of the threads of a stopped process.
 */
#ifndef HX_MODEL_RECORDING_H
#define HX_MODEL_RECORDING_H

#include "base/error.h"
#include "base/text.h"
#include "base/vec.h"

#include <stdbool.h>
#include <stdint.h>

#define HX_NO_STACK UINT32_MAX /* its stack is not known */

/* Beside the stacks: where an object comes from that the recorder did not see allocated. */
#define HX_SITE_BEFORE  (UINT32_MAX - 1) /* before the recorder came: "<before attach>" */
#define HX_SITE_UNKNOWN (UINT32_MAX - 2) /* while it was there: "<unknown>" */

/* A file that code ran from. */
struct hx_rec_file {
    char *path, *name, *build_id; /* owned; build_id "" when it has none */
};

/* A function at a place; several where some were inlined. */
struct hx_rec_line {
    char *function; /* NULL: no symbol; owned. Of a region: its label */
    char *symbol;   /* the function's, as the linker knows it; NULL: none; owned */
    char *source;   /* NULL: unknown; owned */
    uint32_t line;  /* 0: unknown */
    /* Of the function itself: the code object that a cost centre is. */
    char *declared;         /* file in which it is declared; NULL: unknown; owned. Of a region: the
                               name, without its types, of the function that it is written in */
    uint32_t declared_line; /* 0: unknown */
    char *brief;    /* the function as labels have it (function_name.h); NULL: not made; owned */
    bool internal;  /* hx_function_name_internal() of it, where `brief` was made */
    uint64_t entry; /* p_vaddr of its first instruction; of an inlined one, and unknown: 0 */
    bool entered;   /* a callable of heapx/scc.h, which entered a stack, is right around it */
};

enum hx_rec_place_kind {
    HX_REC_CODE,     /* a call, that is a return address less one; or an instruction itself */
    HX_REC_REGION,   /* what the program pushed; vaddr is that of its struct heapx_centre */
    HX_REC_DEFERRED, /* the program entered `stack`; what is further inside belongs to that */
};

/* Code that runs once for a whole module, whoever comes first (a CAF of functional languages). */
enum hx_rec_initialiser {
    HX_REC_NOT_INITIALISER,
    HX_REC_INITIALISES,       /* this frame: a static constructor, or a function at the place where
                                 it initialises a static variable of its own */
    HX_REC_CALLS_INITIALISER, /* the next frame further inside: pthread_once and its like */
};

struct hx_rec_place {
    uint32_t file;        /* index in files; UINT32_MAX: none, vaddr is an address of the process */
    bool allocator;       /* inside the allocator or the C++ library's operator new */
    uint8_t kind;         /* enum hx_rec_place_kind */
    uint8_t initialiser;  /* enum hx_rec_initialiser; by hx_recording_name() */
    bool recorder;        /* in the recorder's own library */
    const char *language; /* whose interpreter runs it ("Python"): a literal, stands for a file;
                             NULL: it is code of the processor */
    uint32_t initialiser_callers; /* HX_REC_INITIALISES: so many of the outermost lines are of
                                     functions that the initialiser was inlined into */
    uint32_t stack; /* HX_REC_DEFERRED: an index in stacks, below that of each stack that it is
                       in; HX_NO_STACK: it is not known any more */
    uint64_t vaddr;
    struct hx_rec_line *lines; /* innermost first; NULL before hx_recording_name() */
    size_t n_lines;
};

/* Frames, innermost first: place[first .. first + n) of stack_places. */
struct hx_rec_stack {
    uint64_t first;
    uint32_t n;
    bool cut; /* the outermost frames are missing */
};

/* Requests by size, as mprof's tables have them: the upper bounds belong to them. */
#define HX_SIZE_CLASSES 4 /* up to 32 bytes, 256, 2048, and above */
static inline unsigned hx_size_class(uint64_t bytes)
{
    return (unsigned)(bytes > 32) + (bytes > 256) + (bytes > 2048);
}

/* In a sampled recording these are unbiased estimates, and the variances those of alloc_bytes and
 * live_bytes; else they are exact, and 0. */
struct hx_rec_costs {
    uint64_t allocs, alloc_bytes;
    uint64_t frees, freed_bytes; /* of blocks allocated here, wherever they were freed */
    uint64_t live, live_bytes;   /* == allocs - frees, but for what was lost */
    double alloc_variance, live_variance;
    uint64_t alloc_class[HX_SIZE_CLASSES]; /* sums to alloc_bytes */
    uint64_t freed_class[HX_SIZE_CLASSES]; /* sums to freed_bytes */
    uint64_t entries; /* of stacks whose innermost place is a region: how often it was pushed */
};

/* All requests of one size. Up to HX_SIZE_EXACT each size that occurred has one; of larger ones
 * those that found room, and one of size UINT64_MAX for the rest. */
#define HX_SIZE_EXACT  1024
#define HX_SIZES_LARGE 1024 /* at most so many of them */
struct hx_rec_size {
    uint64_t size, allocs, alloc_bytes, frees, freed_bytes;
};

/* A type of the program whose size is one of the requests'. */
struct hx_rec_sized_type {
    uint64_t bytes;
    char *name; /* owned */
};

/* A block that is handed out. */
struct hx_rec_block {
    uint64_t address;
    uint64_t requested;
    uint64_t usable;  /* as malloc_usable_size() said; 0: not asked */
    uint64_t born_ns; /* CLOCK_MONOTONIC */
    uint32_t stack;
};

/* Invariants: blocks are sorted by address (but see hx_recording_sort()), no two have the same;
 * costs.n == stacks.n; stacks.v[i].first + n <= stack_places.n. */
struct hx_recording {
    const char *method;           /* "run", "probes": a literal */
    bool from_start;              /* the recorder saw the program's first allocation */
    bool upper_bounds;            /* frees were lost: live blocks may be gone */
    uint64_t sample_bytes;        /* mean bytes between samples; 0: every allocation was recorded */
    uint64_t began_ns, frozen_ns; /* CLOCK_MONOTONIC */
    uint64_t events;
    HX_VEC(struct hx_rec_file) files;
    HX_VEC(struct hx_rec_place) places;
    HX_VEC(uint32_t) stack_places;
    HX_VEC(struct hx_rec_stack) stacks;
    HX_VEC(struct hx_rec_costs) costs;
    HX_VEC(struct hx_rec_size) sizes;             /* by size */
    HX_VEC(struct hx_rec_sized_type) sized_types; /* by size, then name; by hx_recording_name() */
    struct hx_rec_block *block;                   /* n_blocks */
    uint64_t n_blocks;
    struct hx_big block_mem; /* what holds them */

    /* what was lost since the recorder came */
    uint64_t lost_allocs, lost_frees; /* events that found no room; of unknown kind: lost_frees */
    uint64_t cut_stacks;              /* allocations whose stack is cut */
    uint64_t full_stacks;             /* allocations whose stack found no room: HX_NO_STACK */
    uint64_t unmatched_frees;         /* of blocks that the recorder never saw allocated */
    uint64_t unbalanced_pops;         /* of regions that were not on top, or on the stack at all */
    uint64_t lost_captures;           /* entered stacks that were not known any more */
    uint64_t lost_regions;            /* regions in stacks whose names found no room */
    uint64_t lost_entries;            /* of regions: events that found no room */
    uint64_t unread;                  /* parts of files with names that were not read */
    struct hx_text unread_notes;      /* which ones; by hx_recording_name() */
    uint64_t implied_frees;           /* an address was handed out again, its free not seen */
};

hx_error *hx_recording_create(struct hx_recording **ret);
void hx_recording_destroy(struct hx_recording *recording); /* NULL is legal */
void hx_rec_place_free_lines(struct hx_rec_place *place);

/* The block that begins at address; NULL: none. Binary search. */
const struct hx_rec_block *hx_recording_block(const struct hx_recording *recording,
                                              uint64_t address);

/* Appends a stack as one line, innermost call first, without the allocator's own frames and what
 * containers of the language's library call to get there, long names in short:
 * "make_widget < make_red_widget < main". At most `frames` functions, then "...", as it is when the
 * stack is cut. Without names "module+0xoffset". Not escaped. HX_SITE_BEFORE and the
 * others are legal stacks here. */
void hx_recording_label(const struct hx_recording *recording, uint32_t stack, size_t frames,
                        struct hx_text *text);

/* Counts as live only blocks that were at least so old at frozen_ns. Blocks stay what they are. */
void hx_recording_drop_young(struct hx_recording *recording, uint64_t age_ns);

/* Puts the blocks in order, in place: a recording that was just frozen has them in none. */
void hx_recording_sort(struct hx_recording *recording);

/* Tests the invariants; NULL when they hold. */
hx_error *hx_recording_check(const struct hx_recording *recording);

static inline void hx_cleanup_recording(struct hx_recording **recording)
{
    hx_recording_destroy(*recording);
}
#define HX_RECORDING __attribute__((cleanup(hx_cleanup_recording)))

#endif
