/* live.c - the table of live blocks. */
#include "attach/record/live.h"

#include <stdlib.h>
#include <string.h>

#define FIRST_CAP   16
#define BIG_BYTES   ((size_t)256 << 10) /* from here on a shard has pages of its own */
#define ROOMY_TO    1024                /* smaller shards are at most half full: few steps */
#define SHRINK_FROM 4096                /* smaller shards keep their size */

void hx_live_init(struct hx_live *live)
{
    *live = (struct hx_live){.seed = hx_hash_seed()};
}

static void free_shard(struct hx_live_shard *shard)
{
    if (shard->big.base)
        hx_big_free(&shard->big);
    else
        free(shard->slot);
    *shard = (struct hx_live_shard){0};
}

void hx_live_deinit(struct hx_live *live)
{
    for (size_t i = 0; i < HX_LIVE_SHARDS; i++)
        free_shard(&live->shard[i]);
    hx_vec_free(&live->wide);
    hx_index_free(&live->wide_index);
}

static hx_error *make_shard(uint64_t cap, struct hx_live_shard *ret)
{
    if (cap > UINT32_MAX)
        return hx_error_new(HX_E_LIMIT, "recorder", NULL, "too many live blocks");
    struct hx_live_shard made = {.cap = (uint32_t)cap};
    made.limit = (uint32_t)(cap < ROOMY_TO ? cap / 2 : cap / 4 * 3);
    made.least = cap >= SHRINK_FROM ? (uint32_t)(cap / 5 * 2) : 0;
    size_t bytes = cap * sizeof *made.slot;
    if (bytes >= BIG_BYTES) {
        HX_TRY(hx_big_reserve(&made.big, bytes));
        made.slot = made.big.base;
    } else {
        made.slot = calloc(cap, sizeof *made.slot);
    }
    if (!made.slot)
        return hx_error_nomem();
    *ret = made;
    return NULL;
}

static uint64_t hash_of(const struct hx_live *live, const struct hx_live_entry *entry)
{
    return hx_hash(live->seed, entry->word >> 16);
}

static inline uint32_t after(const struct hx_live_shard *shard, uint32_t at)
{
    return at + 1 == shard->cap ? 0 : at + 1;
}

/* Both tables are in the order of their hashes, but for a few steps: this goes through memory
 * from the front to the back. */
static hx_error *resize(struct hx_live *live, struct hx_live_shard *shard, uint64_t cap)
{
    struct hx_live_shard made;
    HX_TRY(make_shard(cap, &made));
    for (uint32_t i = 0; i < shard->cap; i++) {
        if (!shard->slot[i].word)
            continue;
        uint32_t at = hx_live_home(&made, hash_of(live, &shard->slot[i]));
        while (made.slot[at].word)
            at = after(&made, at);
        made.slot[at] = shard->slot[i];
    }
    made.n = shard->n;
    live->slots += made.cap;
    live->slots -= shard->cap;
    free_shard(shard);
    *shard = made;
    return NULL;
}

static bool pack(const struct hx_live_block *block, struct hx_live_entry *ret)
{
    uint64_t slack = HX_LIVE_NO_USABLE;
    if (block->usable) {
        slack = block->usable - block->requested;
        if (slack >= HX_LIVE_NO_USABLE)
            return false;
    }
    if (block->address >> 48 || block->requested > UINT32_MAX)
        return false;
    *ret = (struct hx_live_entry){.word = block->address << 16 | slack,
                                  .when = block->when,
                                  .requested = (uint32_t)block->requested,
                                  .stack = block->stack};
    return true;
}

static bool find_wide(const struct hx_live *live, uint64_t hash, uint64_t address, uint32_t *ret)
{
    for (uint32_t at = 0; hx_index_next(&live->wide_index, hash, &at, ret);)
        if (live->wide.v[*ret].address == address)
            return true;
    return false;
}

static hx_error *add_wide(struct hx_live *live, const struct hx_live_block *block, uint64_t hash)
{
    if (!live->wide_free) {
        if (live->wide.n >= UINT32_MAX - 1 || !hx_vec_push(&live->wide, (struct hx_live_block){0}))
            return hx_error_nomem();
        live->wide_free = (uint32_t)live->wide.n;
    }
    uint32_t number = live->wide_free - 1;
    HX_TRY(hx_index_add(&live->wide_index, hash, number));
    live->wide_free = live->wide.v[number].stack;
    live->wide.v[number] = *block;
    live->wide_n++;
    live->n++;
    return NULL;
}

hx_error *hx_live_add(struct hx_live *live, const struct hx_live_block *block, bool *ret_there)
{
    uint64_t hash = hx_hash(live->seed, block->address), key = block->address;
    struct hx_live_shard *shard = &live->shard[hash >> 58];
    struct hx_live_entry entry;
    uint32_t number;
    *ret_there = live->wide_n && find_wide(live, hash, block->address, &number);
    if (*ret_there)
        return NULL;
    bool packed = pack(block, &entry);
    if (packed && shard->n >= shard->limit)
        HX_TRY(resize(live, shard, shard->cap ? shard->cap + (uint64_t)shard->cap / 2 : FIRST_CAP));
    if (shard->cap) {
        uint32_t at = hx_live_home(shard, hash);
        for (; shard->slot[at].word; at = after(shard, at))
            if (shard->slot[at].word >> 16 == key) {
                *ret_there = true;
                return NULL;
            }
        if (packed) {
            shard->slot[at] = entry;
            shard->n++;
            live->n++;
            return NULL;
        }
    }
    return add_wide(live, block, hash);
}

/* Moves entries behind a gap into it, where a search would else end too early. */
static void close_gap(struct hx_live *live, struct hx_live_shard *shard, uint32_t gap)
{
    uint32_t cap = shard->cap;
    for (uint32_t at = after(shard, gap); shard->slot[at].word; at = after(shard, at)) {
        uint32_t home = hx_live_home(shard, hash_of(live, &shard->slot[at]));
        uint32_t from_home = at >= home ? at - home : at + cap - home;
        uint32_t from_gap = at >= gap ? at - gap : at + cap - gap;
        if (from_home >= from_gap) {
            shard->slot[gap] = shard->slot[at];
            gap = at;
        }
    }
    shard->slot[gap].word = 0;
}

static void take_wide(struct hx_live *live, uint64_t hash, uint32_t number)
{
    hx_index_remove(&live->wide_index, hash, number);
    live->wide.v[number] = (struct hx_live_block){.stack = live->wide_free};
    live->wide_free = number + 1;
    live->wide_n--;
    live->n--;
}

hx_error *hx_live_take(struct hx_live *live, uint64_t address, uint64_t when,
                       struct hx_live_block *ret, enum hx_live_took *ret_took)
{
    uint64_t hash = hx_hash(live->seed, address);
    struct hx_live_shard *shard = &live->shard[hash >> 58];
    *ret_took = HX_LIVE_ABSENT;
    if (shard->cap) {
        uint32_t at = hx_live_home(shard, hash);
        while (shard->slot[at].word && shard->slot[at].word >> 16 != address)
            at = after(shard, at);
        struct hx_live_entry *entry = &shard->slot[at];
        if (entry->word) {
            *ret_took = entry->when > when ? HX_LIVE_YOUNGER : HX_LIVE_TAKEN;
            if (entry->when > when)
                return NULL;
            hx_live_unpack(entry, ret);
            close_gap(live, shard, at);
            live->n--;
            if (--shard->n < shard->least)
                return resize(live, shard, (uint64_t)shard->cap / 3 * 2);
            return NULL;
        }
    }
    uint32_t number;
    if (live->wide_n && find_wide(live, hash, address, &number)) {
        *ret_took = live->wide.v[number].when > when ? HX_LIVE_YOUNGER : HX_LIVE_TAKEN;
        if (*ret_took == HX_LIVE_TAKEN) {
            *ret = live->wide.v[number];
            take_wide(live, hash, number);
        }
    }
    return NULL;
}

void hx_live_each(const struct hx_live *live, hx_live_fn *each, void *context)
{
    struct hx_live_block block;
    for (size_t i = 0; i < HX_LIVE_SHARDS; i++) {
        const struct hx_live_shard *shard = &live->shard[i];
        for (uint32_t at = 0; at < shard->cap; at++)
            if (shard->slot[at].word) {
                hx_live_unpack(&shard->slot[at], &block);
                each(context, &block);
            }
    }
    for (size_t i = 0; i < live->wide.n; i++)
        if (live->wide.v[i].address)
            each(context, &live->wide.v[i]);
}

uint64_t hx_live_bytes(const struct hx_live *live)
{
    return live->slots * sizeof(struct hx_live_entry) + live->wide.cap * sizeof *live->wide.v +
           live->wide_index.cap * sizeof *live->wide_index.slot;
}

hx_error *hx_live_copy(const struct hx_live *live, struct hx_live *ret)
{
    *ret = (struct hx_live){
        .seed = live->seed, .n = live->n, .wide_n = live->wide_n, .wide_free = live->wide_free};
    for (size_t i = 0; i < HX_LIVE_SHARDS; i++) {
        const struct hx_live_shard *shard = &live->shard[i];
        if (!shard->cap)
            continue;
        HX_TRY(make_shard(shard->cap, &ret->shard[i]));
        memcpy(ret->shard[i].slot, shard->slot, shard->cap * sizeof *shard->slot);
        ret->shard[i].n = shard->n;
        ret->slots += shard->cap;
    }
    if (!hx_vec_reserve(&ret->wide, live->wide.n))
        return hx_error_nomem();
    if (live->wide.n)
        memcpy(ret->wide.v, live->wide.v, live->wide.n * sizeof *live->wide.v);
    ret->wide.n = live->wide.n;
    return hx_index_copy(&live->wide_index, &ret->wide_index);
}

static hx_error *broken(const char *why)
{
    return hx_error_new(HX_E_CORRUPT, "live blocks", NULL, "%s", why);
}

hx_error *hx_live_check(const struct hx_live *live)
{
    uint64_t n = live->wide_n, slots = 0;
    for (size_t i = 0; i < HX_LIVE_SHARDS; i++) {
        const struct hx_live_shard *shard = &live->shard[i];
        uint32_t used = 0;
        for (uint32_t at = 0; at < shard->cap; at++) {
            if (!shard->slot[at].word)
                continue;
            used++;
            uint64_t hash = hash_of(live, &shard->slot[at]);
            if (hash >> 58 != i)
                return broken("an entry is in a wrong shard");
            for (uint32_t from = hx_live_home(shard, hash); from != at; from = after(shard, from))
                if (!shard->slot[from].word ||
                    shard->slot[from].word >> 16 == shard->slot[at].word >> 16)
                    return broken("an entry cannot be found, or is there twice");
        }
        if (used != shard->n || shard->n > shard->limit)
            return broken("a shard has another number of entries than it counts");
        n += shard->n;
        slots += shard->cap;
    }
    if (n != live->n || slots != live->slots || live->wide_n != live->wide_index.n)
        return broken("the figures do not add up");
    return NULL;
}
