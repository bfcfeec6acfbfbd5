/* live_blocks.h - the table of live blocks: never more than 64 bytes for a block.
 *
 * Open addressing in groups of five entries of 24 bytes; a word in front of them has a tag for each
 * entry (some bits of its hash), so that a search looks at one or two lines of memory, mostly
 * without a branch that goes wrong. An entry that finds its group full goes to the next one that is
 * not, and each group passed counts it; entries never move but when their shard is resized. Each
 * of the shards grows and shrinks by itself, so that old and new memory are never held for more
 * than a small part at the same time. A block that does not fit into an entry (4 GiB and more, a
 * slack of 64 KiB, an address above 2^48) stands in a table of its own.
 */
#ifndef HX_RECORD_READ_LIVE_BLOCKS_H
#define HX_RECORD_READ_LIVE_BLOCKS_H

#include "base/index.h"
#include "base/prefetch.h"
#include "base/vec.h"

#include <stddef.h>

/* A block. `when`: ticks of its birth; stack: a number, or HX_NO_STACK. */
struct hx_live_block {
    uint64_t address, when, requested, usable;
    uint32_t stack;
};

struct hx_live_entry {
    uint64_t word; /* address << 16 | slack. Slack HX_LIVE_NO_USABLE: not asked */
    uint64_t when;
    uint32_t requested, stack;
};
#define HX_LIVE_NO_USABLE 0xffff
#define HX_LIVE_ENTRIES   5
#define HX_LIVE_SHARDS    8

/* Two lines. Byte i of `tags` is that of entry i, 0: empty; the topmost 16 bits count the entries
 * that passed here, HX_LIVE_MANY: nobody knows how many. */
struct hx_live_group {
    _Alignas(128) uint64_t tags;
    struct hx_live_entry entry[HX_LIVE_ENTRIES];
};
#define HX_LIVE_TAGS   UINT64_C(0x0101010101) /* the lowest bit of each tag */
#define HX_LIVE_USED   UINT64_C(0x8080808080) /* the highest: set in all but empty ones */
#define HX_LIVE_PASSED UINT64_C(0x0001000000000000)
#define HX_LIVE_MANY   0xffff

/* Invariants: n <= limit, which is less than there are entries; every group between the one where
 * an entry belongs and the one where it stands counts it. */
struct hx_live_shard {
    struct hx_live_group *group;
    uint32_t groups, n, limit, least;
    uint64_t low; /* removals that left less than `least`: once there were as many as entries, it
                     shrinks; a program that fills and empties its heap again and again keeps it */
    struct hx_big big; /* the memory of the groups when it is large */
};

struct hx_live {
    struct hx_live_shard shard[HX_LIVE_SHARDS];
    uint64_t seed;
    uint64_t n, groups;
    HX_VEC(struct hx_live_block) wide; /* address 0: free, `stack` is 1 + the next free one */
    struct hx_index wide_index;
    uint32_t wide_n, wide_free;
};

void hx_live_init(struct hx_live *live);
void hx_live_deinit(struct hx_live *live);
uint64_t hx_live_bytes(const struct hx_live *live); /* memory that it holds */
hx_error *hx_live_check(const struct hx_live *live);

/* Adds a block, unless its address is live: then *ret_there and nothing else. */
hx_error *hx_live_add(struct hx_live *live, const struct hx_live_block *block, bool *ret_there);

enum hx_live_removal {
    HX_LIVE_REMOVED,
    HX_LIVE_ABSENT,
    HX_LIVE_YOUNGER, /* it was born after that moment: left where it is */
};
/* Removes the block that was live at `when`. */
hx_error *hx_live_remove(struct hx_live *live, uint64_t address, uint64_t when,
                         struct hx_live_block *ret, enum hx_live_removal *ret_took);

/* Is a block live at that address? */
bool hx_live_has(const struct hx_live *live, uint64_t address);

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

/* --- the short way --------------------------------------------------------------
 * For nearly all blocks, in line. Whoever goes it knows that no block is wide. */

static inline uint64_t hx_live_hash(const struct hx_live *live, uint64_t address)
{
    return hx_hash(live->seed, address);
}

static inline struct hx_live_shard *hx_live_shard_of(struct hx_live *live, uint64_t hash)
{
    return &live->shard[hash >> 61];
}

static inline uint32_t hx_live_home(const struct hx_live_shard *shard, uint64_t hash)
{
    return (uint32_t)((hash & UINT32_MAX) * shard->groups >> 32);
}

static inline uint64_t hx_live_tag(uint64_t hash)
{
    return 0x80 | (hash >> 32 & 0x7f);
}

HX_PREFETCHES void hx_live_prefetch(const struct hx_live *live, uint64_t hash)
{
    const struct hx_live_shard *shard = &live->shard[hash >> 61];
    uintptr_t group = (uintptr_t)shard->group + hx_live_home(shard, hash) * sizeof *shard->group;
    __builtin_prefetch((const void *)group, 1);
    __builtin_prefetch((const void *)(group + 64), 1);
}

/* Which entries of the group may be the one; the highest bit of a byte for each. */
static inline uint64_t hx_live_matches(uint64_t tags, uint64_t hash)
{
    uint64_t differ = (tags & (HX_LIVE_TAGS * 0xff)) ^ (HX_LIVE_TAGS * hx_live_tag(hash));
    return (differ - HX_LIVE_TAGS) & ~differ & HX_LIVE_USED;
}

/* The entry of an address, or NULL. */
static inline struct hx_live_entry *hx_live_find(const struct hx_live_shard *shard, uint64_t hash,
                                                 uint64_t address)
{
    for (uint32_t at = hx_live_home(shard, hash), left = shard->groups; left; left--) {
        struct hx_live_group *group = &shard->group[at];
        uint64_t tags = group->tags;
        for (uint64_t m = hx_live_matches(tags, hash); m; m &= m - 1) {
            struct hx_live_entry *entry = &group->entry[__builtin_ctzll(m) / 8];
            if (entry->word >> 16 == address)
                return entry;
        }
        if (__builtin_expect(tags < HX_LIVE_PASSED, 1))
            return NULL;
        at = at + 1 == shard->groups ? 0 : at + 1;
    }
    return NULL;
}

/* An empty entry for a new block of that hash. The shard has room. */
static inline struct hx_live_entry *hx_live_insert(struct hx_live_shard *shard, uint64_t hash)
{
    for (uint32_t at = hx_live_home(shard, hash);;) {
        struct hx_live_group *group = &shard->group[at];
        uint64_t empty = ~group->tags & HX_LIVE_USED;
        if (__builtin_expect(empty != 0, 1)) {
            unsigned bit = (unsigned)__builtin_ctzll(empty) - 7;
            group->tags |= hx_live_tag(hash) << bit;
            shard->n++;
            return &group->entry[bit / 8];
        }
        if (group->tags >> 48 != HX_LIVE_MANY)
            group->tags += HX_LIVE_PASSED;
        at = at + 1 == shard->groups ? 0 : at + 1;
    }
}

/* Empties an entry. */
static inline void hx_live_erase(struct hx_live_shard *shard, uint64_t hash,
                                 struct hx_live_entry *entry)
{
    uint32_t home = hx_live_home(shard, hash);
    size_t offset = (size_t)((char *)entry - (char *)shard->group);
    uint32_t at = (uint32_t)(offset / sizeof *shard->group);
    unsigned i = (unsigned)(entry - shard->group[at].entry);
    shard->group[at].tags &= ~((uint64_t)0xff << i * 8);
    shard->n--;
    while (__builtin_expect(home != at, 0)) {
        if (shard->group[home].tags >> 48 != HX_LIVE_MANY)
            shard->group[home].tags -= HX_LIVE_PASSED;
        home = home + 1 == shard->groups ? 0 : home + 1;
    }
}

/* Is there room for one more, and is none too many? Else hx_live_add() and hx_live_remove() resize.
 */
static inline bool hx_live_may_grow(const struct hx_live_shard *shard)
{
    return shard->n < shard->limit;
}
static inline bool hx_live_may_shrink(const struct hx_live_shard *shard)
{
    return shard->n > shard->least;
}

/* False: it does not fit. */
static inline bool hx_live_pack(const struct hx_live_block *block, struct hx_live_entry *ret)
{
    uint64_t slack = block->usable ? block->usable - block->requested : HX_LIVE_NO_USABLE;
    if ((block->usable && slack >= HX_LIVE_NO_USABLE) ||
        (block->address >> 48 | block->requested >> 32))
        return false;
    *ret = (struct hx_live_entry){.word = block->address << 16 | slack,
                                  .when = block->when,
                                  .requested = (uint32_t)block->requested,
                                  .stack = block->stack};
    return true;
}

#endif
