/* reader_private.h - what a reader is; shared by its files. */
#ifndef HX_ATTACH_RECORD_READER_PRIVATE_H
#define HX_ATTACH_RECORD_READER_PRIVATE_H

#include "attach/record/contest.h"
#include "attach/record/interned.h"
#include "attach/record/live.h"
#include "attach/record/reader.h"

/* A stack's costs, of what was recorded. */
struct hx_reader_cost {
    uint64_t allocs, alloc_bytes, frees, freed_bytes;
};

/* The same as estimates of what a sample stands for, and the variance of alloc_bytes. */
struct hx_reader_estimate {
    double allocs, alloc_bytes, frees, freed_bytes, variance;
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
    uint64_t no_stack, full_stacks, unmatched_frees, implied_frees;
};

/* How many allocations one in a sample stands for: 1 / p. */
double hx_reader_weight(const struct hx_reader *reader, uint64_t requested);

void hx_reader_estimate_alloc(hx_reader *reader, uint32_t stack, uint64_t requested);
void hx_reader_estimate_free(hx_reader *reader, uint32_t stack, uint64_t requested);

static inline void hx_reader_book_alloc(hx_reader *reader, const struct hx_live_block *block)
{
    struct hx_reader_cost *cost = &reader->costs.v[(uint32_t)(block->stack + 1)];
    cost->allocs++;
    cost->alloc_bytes += block->requested;
    if (__builtin_expect(reader->options.sample_bytes != 0, 0))
        hx_reader_estimate_alloc(reader, block->stack, block->requested);
}

static inline void hx_reader_book_free(hx_reader *reader, const struct hx_live_block *block)
{
    struct hx_reader_cost *cost = &reader->costs.v[(uint32_t)(block->stack + 1)];
    cost->frees++;
    cost->freed_bytes += block->requested;
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
