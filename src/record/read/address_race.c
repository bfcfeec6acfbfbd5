/* address_race.c - addresses whose events came out of order; address_race.h says why this is right.
 */
#include "record/read/address_race.h"

#include <stdlib.h>

hx_error *hx_race_begin(struct hx_races *races, uint64_t address, const struct hx_live_block *block,
                        struct hx_race **ret)
{
    struct hx_race race = {.latest.address = address};
    if (block)
        race = (struct hx_race){.latest = *block, .allocs = 1, .has_latest = true};
    HX_NEED(races->v.n < UINT32_MAX - 1 && hx_vec_push(&races->v, race));
    *ret = &races->v.v[races->v.n - 1];
    return hx_index_add(&races->index, hx_hash(races->seed, address), (uint32_t)races->v.n - 1);
}

bool hx_race_alloc(struct hx_race *race, const struct hx_live_block *block,
                   struct hx_live_block *ret_gone)
{
    bool had = race->has_latest;
    race->allocs++;
    if (had && block->when < race->latest.when) {
        *ret_gone = *block;
        return true;
    }
    *ret_gone = race->latest;
    race->latest = *block;
    race->has_latest = true;
    return had;
}

static void freed_at(struct hx_race *race, uint64_t when)
{
    if (race->freed < when)
        race->freed = when;
}

void hx_race_free_at(struct hx_race *race, uint64_t when)
{
    race->frees++;
    freed_at(race, when);
}

void hx_races_resolve(struct hx_races *races)
{
    for (size_t i = 0; races->v.n && i < races->log.n; i++) {
        struct hx_race *race = hx_race_find(races, races->log.v[i].address);
        if (race)
            freed_at(race, races->log.v[i].when);
    }
}

void hx_races_clear(struct hx_races *races)
{
    races->log.n = 0;
    if (!races->v.n)
        return;
    if (races->v.cap > 65536)
        hx_vec_free(&races->v);
    races->v.n = 0;
    hx_index_clear(&races->index);
}

void hx_races_deinit(struct hx_races *races)
{
    hx_vec_free(&races->v);
    hx_vec_free(&races->log);
    hx_index_free(&races->index);
}
