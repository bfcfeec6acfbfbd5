/* reader_private.h - what a reader is; shared by its files. */
#ifndef HX_RECORD_READ_READER_PRIVATE_H
#define HX_RECORD_READ_READER_PRIVATE_H

#include "record/read/address_race.h"
#include "record/read/interned.h"
#include "record/read/live_blocks.h"
#include "record/read/reader.h"

enum { HX_READER_ALLOC, HX_READER_FREE, HX_READER_WAYS };

/* A stack's costs, of what was recorded: those of its allocations, and of their frees. */
struct hx_reader_sums {
    uint64_t n, bytes[HX_SIZE_CLASSES];
};
struct hx_reader_cost {
    struct hx_reader_sums way[HX_READER_WAYS];
};

/* What is not among them yet, because all that an event touches of a stack has to fit into half a
 * line of memory. The number of those requests, less than 2^10, stands in the topmost bits of a
 * word, and below it the bytes of the classes but the last; so few of them have no more bytes than
 * there are bits. Before the number would overflow all is added to the costs. */
struct hx_reader_recent {
    struct hx_reader_few {
        uint64_t word, large; /* bytes of the last class */
    } way[HX_READER_WAYS];
};
#define HX_READER_FEW_BITS 10
#define HX_READER_FEW_ONE  (UINT64_C(1) << (64 - HX_READER_FEW_BITS))
/* Lowest bit of the bytes of a class: at most 32, 256 and 2048 of one request. */
#define HX_READER_FEW_AT(class)                                                                    \
    ((class) == 0   ? 0                                                                            \
     : (class) == 1 ? HX_READER_FEW_BITS + 5                                                       \
     : (class) == 2 ? 2 * HX_READER_FEW_BITS + 13                                                  \
                    : 64 - HX_READER_FEW_BITS)
_Static_assert(4 * HX_READER_FEW_BITS + 5 + 8 + 11 == 64, "a word has no room for that many");

/* The same as estimates of what a sample stands for, and the variance of alloc_bytes. */
struct hx_reader_estimate {
    double allocs, alloc_bytes[HX_SIZE_CLASSES], frees, freed_bytes, variance;
};

/* Requests by size: number i is size i up to HX_SIZE_EXACT. Larger sizes have the slots of a table
 * behind it, while it has room, and all others the last one, HX_READER_REST. Once there is no room
 * no size gets any: what is freed is counted where its allocation was.
 *
 * The table has groups of eight slots, and a word of tags for each: a byte for each slot, some bits
 * of the hash of its size, 0 when it is empty. A size that finds its group full is in the next one
 * that was not. */
#define HX_READER_GROUPS 256 /* a power of two; at most half of the slots are used */
#define HX_READER_SLOTS  (8 * HX_READER_GROUPS)
#define HX_READER_REST   (HX_SIZE_EXACT + 1 + HX_READER_SLOTS)
#define HX_READER_SIZES  (HX_READER_REST + 1)
struct hx_reader_sizes {
    uint32_t exact[HX_SIZE_EXACT + 1][HX_READER_WAYS]; /* counts, modulo 2^32 */
    uint8_t at_bit[HX_SIZE_EXACT + 1];                 /* HX_READER_FEW_AT() of its class */
    uint64_t tags[HX_READER_GROUPS];
    struct hx_reader_large {
        uint64_t size;
        uint32_t count[HX_READER_WAYS]; /* modulo 2^32 */
    } large[HX_READER_SLOTS + 1];
    uint8_t settled[HX_READER_GROUPS]; /* a size that has no tag here is among the rest */
    uint32_t n_large;                  /* at most HX_SIZES_LARGE */
    uint64_t rest_bytes[HX_READER_WAYS];
    uint32_t carry[HX_READER_SIZES][HX_READER_WAYS]; /* how often a count came to 2^32, by number */
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
    HX_VEC(struct hx_reader_recent) recent; /* of stack i at i + 1; at 0 those of no known stack */
    HX_VEC(struct hx_reader_cost) costs;    /* the same */
    HX_VEC(struct hx_reader_estimate) estimates; /* the same; only of a sampled stream */
    HX_VEC(uint64_t) entries;                    /* the same; as many as were needed so far */
    struct hx_reader_sizes *sizes;
    struct hx_races races;
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
    uint64_t source_entries;
    uint64_t no_stack, full_stacks, unmatched_frees, implied_frees, unbalanced;
};

/* --- reader_cost.c: sizes, and what a sample stands for --------------------------- */
hx_error *hx_reader_sizes_create(struct hx_reader_sizes **ret);
uint32_t hx_reader_size_number(hx_reader *reader, uint64_t size);
/* The size of a number, UINT64_MAX for the rest, and its counts; false: there is none. */
bool hx_reader_size_at(const struct hx_reader_sizes *sizes, uint32_t number, uint64_t *ret_size,
                       uint64_t ret_count[HX_READER_WAYS]);

/* All costs of stack at - 1, or of no known stack. */
struct hx_reader_cost hx_reader_cost(const hx_reader *reader, size_t at);
uint64_t hx_reader_bytes(const struct hx_reader_sums *sums); /* of all classes */

/* Count one of a size that has no exact number; and what overflows. */
void hx_reader_count_large(hx_reader *reader, size_t at, uint64_t size, unsigned way);
void hx_reader_carry_size(hx_reader *reader, uint32_t number, unsigned way);
void hx_reader_carry_sums(hx_reader *reader, size_t at, uint64_t size, unsigned way);

/* How many allocations one in a sample stands for: 1 / p. */
double hx_reader_weight(const struct hx_reader *reader, uint64_t requested);

void hx_reader_estimate_alloc(hx_reader *reader, uint32_t stack, uint64_t requested);
void hx_reader_estimate_free(hx_reader *reader, uint32_t stack, uint64_t requested);

/* Counts a request, or its end: costs of a stack and of a size. Stack HX_NO_STACK is legal. */
static inline void hx_reader_count(hx_reader *reader, uint32_t stack, uint64_t size, unsigned way)
{
    struct hx_reader_sizes *sizes = reader->sizes;
    size_t at = (uint32_t)(stack + 1);
    if (__builtin_expect(size > HX_SIZE_EXACT, 0)) {
        hx_reader_count_large(reader, at, size, way);
        return;
    }
    if (__builtin_expect(!++sizes->exact[size][way], 0))
        hx_reader_carry_size(reader, (uint32_t)size, way);
    struct hx_reader_few *few = &reader->recent.v[at].way[way];
    uint64_t word;
    if (__builtin_expect(__builtin_add_overflow(
                             few->word, HX_READER_FEW_ONE + (size << sizes->at_bit[size]), &word),
                         0))
        hx_reader_carry_sums(reader, at, size, way);
    else
        few->word = word;
}

static inline void hx_reader_book_alloc(hx_reader *reader, const struct hx_live_block *block)
{
    hx_reader_count(reader, block->stack, block->requested, HX_READER_ALLOC);
    if (__builtin_expect(reader->options.sample_bytes != 0, 0))
        hx_reader_estimate_alloc(reader, block->stack, block->requested);
}

static inline void hx_reader_book_free(hx_reader *reader, const struct hx_live_block *block)
{
    hx_reader_count(reader, block->stack, block->requested, HX_READER_FREE);
    if (__builtin_expect(reader->options.sample_bytes != 0, 0))
        hx_reader_estimate_free(reader, block->stack, block->requested);
}

static inline uint64_t hx_reader_moving_hash(const hx_reader *reader, uint64_t address)
{
    return hx_hash(reader->races.seed, address);
}

/* --- reader_move.c: realloc, and what is contested ------------------------------- */
hx_error *hx_reader_race_alloc(hx_reader *reader, const struct hx_live_block *block);
hx_error *hx_reader_race_free(hx_reader *reader, uint64_t address, uint64_t when);
hx_error *hx_reader_log_free(hx_reader *reader, uint64_t address, uint64_t when);
hx_error *hx_reader_begin_move(hx_reader *reader, const struct hx_ev_realloc_begin *event);
/* An address is handed out, or freed: whatever realloc had of it before was freed. */
hx_error *hx_reader_release_moved(hx_reader *reader, uint64_t address, uint64_t when);
hx_error *hx_reader_end_move(hx_reader *reader, const struct hx_ev_realloc_end *event);

/* --- reader.c -------------------------------------------------------------------- */
hx_error *hx_reader_alloc(hx_reader *reader, uint64_t when, uint64_t address, uint64_t requested,
                          uint64_t usable, uint64_t key);

#endif
