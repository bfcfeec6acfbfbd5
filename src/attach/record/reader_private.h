/* reader_private.h - what a reader is; shared by its files. */
#ifndef HX_ATTACH_RECORD_READER_PRIVATE_H
#define HX_ATTACH_RECORD_READER_PRIVATE_H

#include "attach/record/contest.h"
#include "attach/record/interned.h"
#include "attach/record/live.h"
#include "attach/record/reader.h"

/* A stack's costs, of what was recorded. Everything of one size stands together, so that an event
 * touches one line of memory. */
struct hx_reader_cost {
    struct hx_reader_sums {
        uint64_t allocs, alloc_bytes, frees, freed_bytes;
    } of[HX_SIZE_CLASSES];
};

/* The same as estimates of what a sample stands for, and the variance of alloc_bytes. */
struct hx_reader_estimate {
    double allocs, alloc_bytes[HX_SIZE_CLASSES], frees, freed_bytes, variance;
};

/* Requests by size: number i is size i up to HX_SIZE_EXACT. Larger sizes have the slots of a table
 * behind it, while it has room, and all others HX_READER_REST. Once there is no room no size gets
 * any: what is freed is counted where its allocation was. */
#define HX_READER_SLOTS (4 * HX_SIZES_LARGE) /* a power of two */
#define HX_READER_REST  (HX_SIZE_EXACT + 1 + HX_READER_SLOTS)
#define HX_READER_SIZES (HX_READER_REST + 1)
struct hx_reader_sizes {
    struct hx_reader_size {
        uint64_t allocs, frees;
    } exact[HX_SIZE_EXACT + 1];
    uint8_t class_of[HX_SIZE_EXACT + 1];
    struct hx_reader_large {
        uint64_t size; /* 0: empty */
        struct hx_reader_size counts;
    } large[HX_READER_SLOTS]; /* open addressing */
    uint32_t n_large;         /* at most HX_SIZES_LARGE */
    struct hx_reader_size rest;
    uint64_t rest_allocated, rest_freed; /* bytes */
    /* of a sampled stream: what they stand for, by number */
    double weight[HX_READER_SIZES], rest_weight; /* allocations; bytes */
};

/* A realloc that has begun and not ended. */
struct hx_reader_moving {
    struct hx_live_block block; /* address: what is reallocated; 0: not in use */
    uint64_t when;              /* it began */
    uint32_t tid;
    uint32_t next_free; /* 1 + number */
    bool has_block;     /* else the round's end will tell which block it was */
    bool released;      /* or it is booked as freed already */
};

struct hx_reader {
    struct hx_reader_source source;
    struct hx_reader_options options;
    struct hx_interned interned;
    struct hx_live live;
    HX_VEC(struct hx_reader_cost) costs; /* of stack i at i + 1; at 0 those of no known stack */
    HX_VEC(struct hx_reader_estimate) estimates; /* the same; only of a sampled stream */
    HX_VEC(uint64_t) entries;                    /* the same; as many as were needed so far */
    struct hx_reader_sizes *sizes;
    struct hx_contests contests;
    HX_VEC(struct hx_reader_moving) moving;
    struct hx_index moving_index;
    uint32_t moving_free, n_moving;
    HX_VEC(uint32_t) begun; /* numbers of those that began in this round, and may have ended */
    struct {
        uint64_t *v; /* words, for a record that does not lie on a multiple of 8 */
        size_t cap;
    } bounce;
    bool one_stream; /* the round has no other: nothing can be out of order, no free is logged */
    uint64_t began_ns, events;
    uint64_t lost_allocs, lost_frees;     /* by events */
    uint64_t source_allocs, source_frees; /* counted by the source */
    uint64_t no_stack, full_stacks, unmatched_frees, implied_frees, unbalanced;
};

/* --- reader_cost.c: sizes, and what a sample stands for --------------------------- */
hx_error *hx_reader_sizes_create(struct hx_reader_sizes **ret);
uint32_t hx_reader_size_number(hx_reader *reader, uint64_t size);
/* The size and counts of a number; false: there is none. UINT64_MAX: the rest. */
bool hx_reader_size_at(const struct hx_reader_sizes *sizes, uint32_t number, uint64_t *ret_size,
                       const struct hx_reader_size **ret);
/* Counts a request, or its end, and tells the class of its size. */
unsigned hx_reader_count_large(hx_reader *reader, uint64_t size, bool freed);

/* How many allocations one in a sample stands for: 1 / p. */
double hx_reader_weight(const struct hx_reader *reader, uint64_t requested);

void hx_reader_estimate_alloc(hx_reader *reader, uint32_t stack, uint64_t requested);
void hx_reader_estimate_free(hx_reader *reader, uint32_t stack, uint64_t requested);

/* Costs of a stack and of a size; stack HX_NO_STACK is legal. */
static inline void hx_reader_count_alloc(hx_reader *reader, uint32_t stack, uint64_t requested)
{
    struct hx_reader_sizes *sizes = reader->sizes;
    unsigned class;
    if (__builtin_expect(requested <= HX_SIZE_EXACT, 1)) {
        class = sizes->class_of[requested];
        sizes->exact[requested].allocs++;
    } else {
        class = hx_reader_count_large(reader, requested, false);
    }
    struct hx_reader_sums *sums = &reader->costs.v[(uint32_t)(stack + 1)].of[class];
    sums->allocs++;
    sums->alloc_bytes += requested;
}

static inline void hx_reader_count_free(hx_reader *reader, uint32_t stack, uint64_t requested)
{
    struct hx_reader_sizes *sizes = reader->sizes;
    unsigned class;
    if (__builtin_expect(requested <= HX_SIZE_EXACT, 1)) {
        class = sizes->class_of[requested];
        sizes->exact[requested].frees++;
    } else {
        class = hx_reader_count_large(reader, requested, true);
    }
    struct hx_reader_sums *sums = &reader->costs.v[(uint32_t)(stack + 1)].of[class];
    sums->frees++;
    sums->freed_bytes += requested;
}

/* All classes of a stack together. */
static inline struct hx_reader_sums hx_reader_total(const struct hx_reader_cost *cost)
{
    struct hx_reader_sums sums = {0};
    for (unsigned i = 0; i < HX_SIZE_CLASSES; i++) {
        sums.allocs += cost->of[i].allocs;
        sums.alloc_bytes += cost->of[i].alloc_bytes;
        sums.frees += cost->of[i].frees;
        sums.freed_bytes += cost->of[i].freed_bytes;
    }
    return sums;
}

static inline void hx_reader_book_alloc(hx_reader *reader, const struct hx_live_block *block)
{
    hx_reader_count_alloc(reader, block->stack, block->requested);
    if (__builtin_expect(reader->options.sample_bytes != 0, 0))
        hx_reader_estimate_alloc(reader, block->stack, block->requested);
}

static inline void hx_reader_book_free(hx_reader *reader, const struct hx_live_block *block)
{
    hx_reader_count_free(reader, block->stack, block->requested);
    if (__builtin_expect(reader->options.sample_bytes != 0, 0))
        hx_reader_estimate_free(reader, block->stack, block->requested);
}

static inline uint64_t hx_reader_moving_hash(const hx_reader *reader, uint64_t address)
{
    return hx_hash(reader->contests.seed, address);
}

/* --- reader_move.c: realloc, and what is contested ------------------------------- */
hx_error *hx_reader_contested_alloc(hx_reader *reader, const struct hx_live_block *block);
hx_error *hx_reader_contested_free(hx_reader *reader, uint64_t address, uint64_t when);
hx_error *hx_reader_log_free(hx_reader *reader, uint64_t address, uint64_t when);
hx_error *hx_reader_begin_move(hx_reader *reader, const struct hx_ev_realloc_begin *event);
/* An address is handed out, or freed: whatever realloc had of it before was freed. */
hx_error *hx_reader_release_moved(hx_reader *reader, uint64_t address, uint64_t when);
hx_error *hx_reader_end_move(hx_reader *reader, const struct hx_ev_realloc_end *event);

/* --- reader.c -------------------------------------------------------------------- */
hx_error *hx_reader_alloc(hx_reader *reader, uint64_t when, uint64_t address, uint64_t requested,
                          uint64_t usable, uint64_t key);

#endif
