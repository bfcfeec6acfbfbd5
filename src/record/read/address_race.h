/* address_race.h - addresses whose events came out of order in this round.
 *
 * Streams are fed one after the other, so what happened to an address is seen in another order
 * than it happened. Why that does not matter:
 *
 * 1. A round holds, for each address, the beginning of what is still to come: every event that
 *    came before one of the round is in the round too (event.h). So at its end an address is alive
 *    if its latest block by time is younger than its latest free. All other blocks of the address
 *    are freed. Which free ended which of them makes no difference to the figures of any stack.
 *    A realloc that has ended is a free when it began; one that failed is nothing; of one
 *    that has not ended, the block is the one that was alive then.
 * 2. So what is seen can be booked at once as long as it looks possible: a block comes at an
 *    address that is not live (it is put in the table), or a block goes that is live and is not
 *    younger than the event. Else the address is contested: from then on only its latest block,
 *    its latest free and the number of each are kept, in O(1) for an event; the end of the round
 *    decides by rule 1.
 * 3. Before it was contested, the address may have lost blocks in the ordinary way. They do not
 *    matter: such a block was followed by a free that is not older, so it is not alive at
 *    the end. But that free may be the latest one; hence the log of the frees of a round, which is
 *    looked through only when an address is contested.
 * 4. An address that was never contested is right. Its block, if one is in the table at the end, is
 *    not followed by a free that was already seen: with the free of each earlier block
 *    seen as well, there would be more frees than blocks, and one of them would have met nothing.
 *    And a block that is alive at the end was not taken from the table, since all frees
 *    are older.
 *
 * What remains is counted: a free too many has met a block that was never seen, a block too many
 * was freed without a word.
 */
#ifndef HX_RECORD_READ_ADDRESS_RACE_H
#define HX_RECORD_READ_ADDRESS_RACE_H

#include "record/read/live_blocks.h"

struct hx_race {
    struct hx_live_block latest; /* address is always set; see has_latest */
    uint64_t freed;              /* when it was freed last; 0: not in this round */
    uint64_t allocs, frees;
    bool has_latest;
    bool reallocating; /* a realloc that has not ended has the latest block */
};

struct hx_race_free {
    uint64_t address, when;
};

struct hx_races {
    HX_VEC(struct hx_race) v;
    struct hx_index index;
    HX_VEC(struct hx_race_free) log; /* the frees of this round that looked possible */
    uint64_t seed;
};

/* NULL: it is not contested. */
static inline struct hx_race *hx_race_find(const struct hx_races *races, uint64_t address)
{
    uint32_t number;
    uint64_t hash = hx_hash(races->seed, address);
    for (uint32_t at = 0; hx_index_next(&races->index, hash, &at, &number);)
        if (races->v.v[number].latest.address == address)
            return &races->v.v[number];
    return NULL;
}

/* Makes an address contested; block: what was live there, or NULL. */
hx_error *hx_race_begin(struct hx_races *races, uint64_t address, const struct hx_live_block *block,
                        struct hx_race **ret);

/* Books a block; *ret_gone is what it, or an earlier one, turns out to be: freed. */
bool hx_race_alloc(struct hx_race *race, const struct hx_live_block *block,
                   struct hx_live_block *ret_gone);
void hx_race_free_at(struct hx_race *race, uint64_t when);

/* Is its latest block alive at the end of the round? */
static inline bool hx_race_alive(const struct hx_race *race)
{
    return race->has_latest && !race->reallocating && race->latest.when > race->freed;
}

/* Takes the log of frees into account. */
void hx_races_resolve(struct hx_races *races);
void hx_races_clear(struct hx_races *races);
void hx_races_deinit(struct hx_races *races);

#endif
