/* live.h - the table of live blocks: 24 bytes an entry, never more than 64 for a block.
 *
 * An open-addressed table in shards, each of which grows (and shrinks) by itself, so that old and
 * new memory are never held for more than a small part at the same time. Load is kept between 2/5
 * and 3/4 in all but small shards, which are at most half full. A block that does not fit into an entry (4 GiB and more, a
 * slack of 64 KiB, an address above 2^48) stands in a table of its own.
 */
#ifndef HX_ATTACH_RECORD_LIVE_H
#define HX_ATTACH_RECORD_LIVE_H

#include "attach/record/index.h"
#include "base/vec.h"

/* A block. `when`: ticks of its birth; stack: a number, or HX_NO_STACK. */
struct hx_live_block {
    uint64_t address, when, requested, usable;
    uint32_t stack;
};

struct hx_live_entry {
    uint64_t word; /* address << 16 | slack; 0: empty. Slack HX_LIVE_NO_USABLE: not asked */
    uint64_t when;
    uint32_t requested, stack;
};
#define HX_LIVE_NO_USABLE 0xffff
#define HX_LIVE_SHARDS    64

/* Invariant: n <= limit <= 3/4 of cap; no empty slot lies between an entry's home and its place. */
struct hx_live_shard {
    struct hx_live_entry *slot;
    uint32_t cap, n, limit, least; /* shrinks below `least` */
    struct hx_big big;             /* the memory of slot when it is large */
};

struct hx_live {
    struct hx_live_shard shard[HX_LIVE_SHARDS];
    uint64_t seed;
    uint64_t n, slots;
    HX_VEC(struct hx_live_block) wide; /* address 0: free, `stack` is 1 + the next free one */
    struct hx_index wide_index;
    uint32_t wide_n, wide_free;
};

void hx_live_init(struct hx_live *live);
void hx_live_deinit(struct hx_live *live);
hx_error *hx_live_copy(const struct hx_live *live, struct hx_live *ret);
uint64_t hx_live_bytes(const struct hx_live *live); /* memory that it holds */
hx_error *hx_live_check(const struct hx_live *live);

/* Adds a block, unless its address is live: then *ret_there and nothing else. */
hx_error *hx_live_add(struct hx_live *live, const struct hx_live_block *block, bool *ret_there);

enum hx_live_took {
    HX_LIVE_TAKEN,
    HX_LIVE_ABSENT,
    HX_LIVE_YOUNGER, /* it was born after that moment: left where it is */
};
/* Removes the block that was live at `when`. */
hx_error *hx_live_take(struct hx_live *live, uint64_t address, uint64_t when,
                       struct hx_live_block *ret, enum hx_live_took *ret_took);

static inline void hx_live_unpack(const struct hx_live_entry *entry, struct hx_live_block *ret)
{
    uint64_t slack = entry->word & HX_LIVE_NO_USABLE;
    *ret = (struct hx_live_block){
        .address = entry->word >> 16,
        .when = entry->when,
        .requested = entry->requested,
        .usable = slack == HX_LIVE_NO_USABLE ? 0 : entry->requested + slack,
        .stack = entry->stack,
    };
}

/* Calls each() for every block, in no order. */
typedef void hx_live_fn(void *context, const struct hx_live_block *block);
void hx_live_each(const struct hx_live *live, hx_live_fn *each, void *context);

static inline uint32_t hx_live_home(const struct hx_live_shard *shard, uint64_t hash)
{
    return (uint32_t)((hash & UINT32_MAX) * shard->cap >> 32);
}

/* Is the table so large that its lines have to be fetched ahead? */
static inline bool hx_live_is_large(const struct hx_live *live)
{
    return live->slots > 16384;
}

static inline void hx_live_prefetch(const struct hx_live *live, uint64_t address)
{
    uint64_t hash = hx_hash(live->seed, address);
    const struct hx_live_shard *shard = &live->shard[hash >> 58];
    if (shard->cap)
        __builtin_prefetch(&shard->slot[hx_live_home(shard, hash)], 1);
}

#endif
