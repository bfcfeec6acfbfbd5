/* live_blocks.c - the table of live blocks. */
#include "record/read/live_blocks.h"

#include <stdlib.h>
#include <string.h>

#define FIRST_GROUPS 4
#define BIG_BYTES    ((size_t)256 << 10) /* from here on a shard has pages of its own */
#define HUGE_BYTES   ((size_t)2 << 20)
#define SHRINK_FROM  4096 /* entries; smaller shards keep their size */

static hx_error *make_shard(uint64_t groups, struct hx_live_shard *ret)
{
    uint64_t entries = groups * HX_LIVE_ENTRIES;
    if (entries > UINT32_MAX)
        return hx_error_new(HX_E_LIMIT, "recorder", NULL, "too many live blocks");
    struct hx_live_shard made = {.groups = (uint32_t)groups};
    made.limit = (uint32_t)(entries * 5 / 8);
    made.least = entries >= SHRINK_FROM ? (uint32_t)(entries * 5 / 12) : 0;
    size_t bytes = groups * sizeof *made.group;
    if (bytes >= HUGE_BYTES) { /* exactly these pages, as huge ones where they are whole */
        HX_TRY(hx_big_reserve(&made.big, bytes + HUGE_BYTES));
        size_t skip = -(uintptr_t)made.big.base % HUGE_BYTES;
        made.group = (struct hx_live_group *)((char *)made.big.base + skip);
        hx_big_trim(&made.big, skip + bytes);
    } else if (bytes >= BIG_BYTES) {
        HX_TRY(hx_big_reserve(&made.big, bytes));
        made.group = made.big.base;
    } else {
        made.group = aligned_alloc(sizeof *made.group, bytes);
        if (made.group)
            memset(made.group, 0, bytes);
    }
    HX_NEED(made.group);
    *ret = made;
    return NULL;
}

static void free_shard(struct hx_live_shard *shard)
{
    if (shard->big.base)
        hx_big_free(&shard->big);
    else
        free(shard->group);
    *shard = (struct hx_live_shard){0};
}

void hx_live_init(struct hx_live *live)
{
    *live = (struct hx_live){.seed = hx_hash_seed()};
}

void hx_live_deinit(struct hx_live *live)
{
    for (size_t i = 0; i < HX_LIVE_SHARDS; i++)
        free_shard(&live->shard[i]);
    hx_vec_free(&live->wide);
    hx_index_free(&live->wide_index);
}

/* The next used entry from *at on; NULL: no more. */
static const struct hx_live_entry *next_entry(const struct hx_live_shard *shard, uint64_t *at)
{
    for (; *at / HX_LIVE_ENTRIES < shard->groups; ++*at) {
        const struct hx_live_group *group = &shard->group[*at / HX_LIVE_ENTRIES];
        if (!(group->tags & HX_LIVE_USED)) {
            *at += HX_LIVE_ENTRIES - 1 - *at % HX_LIVE_ENTRIES;
            continue;
        }
        if (group->tags >> *at % HX_LIVE_ENTRIES * 8 & 0x80)
            return &group->entry[(*at)++ % HX_LIVE_ENTRIES];
    }
    return NULL;
}

/* Both tables are in the order of their hashes, but for a few steps: this goes through memory
 * from the front to the back. */
static hx_error *resize(struct hx_live *live, struct hx_live_shard *shard, uint64_t groups)
{
    struct hx_live_shard made;
    const struct hx_live_entry *entry;
    HX_TRY(make_shard(groups, &made));
    for (uint64_t at = 0; (entry = next_entry(shard, &at));)
        *hx_live_insert(&made, hx_live_hash(live, entry->word >> 16)) = *entry;
    live->groups += made.groups;
    live->groups -= shard->groups;
    free_shard(shard);
    *shard = made;
    return NULL;
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
        HX_NEED(live->wide.n < UINT32_MAX - 1 &&
                hx_vec_push(&live->wide, (struct hx_live_block){0}));
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

static void take_wide(struct hx_live *live, uint64_t hash, uint32_t number)
{
    hx_index_remove(&live->wide_index, hash, number);
    live->wide.v[number] = (struct hx_live_block){.stack = live->wide_free};
    live->wide_free = number + 1;
    live->wide_n--;
    live->n--;
}

bool hx_live_has(const struct hx_live *live, uint64_t address)
{
    uint64_t hash = hx_live_hash(live, address);
    uint32_t number;
    return hx_live_find(&live->shard[hash >> 61], hash, address) ||
           (live->wide_n && find_wide(live, hash, address, &number));
}

hx_error *hx_live_add(struct hx_live *live, const struct hx_live_block *block, bool *ret_there)
{
    uint64_t hash = hx_live_hash(live, block->address);
    struct hx_live_shard *shard = hx_live_shard_of(live, hash);
    struct hx_live_entry entry;
    *ret_there = hx_live_has(live, block->address);
    if (*ret_there)
        return NULL;
    if (!hx_live_pack(block, &entry))
        return add_wide(live, block, hash);
    if (!hx_live_may_grow(shard)) {
        uint64_t groups = shard->groups;
        HX_TRY(resize(live, shard, groups ? groups + (groups + 2) / 3 : FIRST_GROUPS));
    }
    *hx_live_insert(shard, hash) = entry;
    live->n++;
    return NULL;
}

hx_error *hx_live_remove(struct hx_live *live, uint64_t address, uint64_t when,
                         struct hx_live_block *ret, enum hx_live_removal *ret_took)
{
    uint64_t hash = hx_live_hash(live, address);
    struct hx_live_shard *shard = hx_live_shard_of(live, hash);
    struct hx_live_entry *entry = hx_live_find(shard, hash, address);
    uint32_t number;
    *ret_took = HX_LIVE_ABSENT;
    if (entry) {
        *ret_took = entry->when > when ? HX_LIVE_YOUNGER : HX_LIVE_REMOVED;
        if (*ret_took == HX_LIVE_YOUNGER)
            return NULL;
        hx_live_unpack(entry, ret);
        hx_live_erase(shard, hash, entry);
        live->n--;
        shard->low += shard->n < shard->least;
        return shard->low > (uint64_t)shard->groups * HX_LIVE_ENTRIES
                   ? resize(live, shard, (uint64_t)shard->groups / 4 * 3)
                   : NULL;
    }
    if (live->wide_n && find_wide(live, hash, address, &number)) {
        *ret_took = live->wide.v[number].when > when ? HX_LIVE_YOUNGER : HX_LIVE_REMOVED;
        if (*ret_took == HX_LIVE_REMOVED) {
            *ret = live->wide.v[number];
            take_wide(live, hash, number);
        }
    }
    return NULL;
}

void hx_live_each(const struct hx_live *live, hx_live_fn *each, void *context)
{
    struct hx_live_block block;
    for (size_t i = 0; i < HX_LIVE_SHARDS; i++)
        for (uint32_t at = 0; at < live->shard[i].groups; at++) {
            const struct hx_live_group *group = &live->shard[i].group[at];
            for (uint64_t used = group->tags & HX_LIVE_USED; used; used &= used - 1) {
                hx_live_unpack(&group->entry[__builtin_ctzll(used) / 8], &block);
                each(context, &block);
            }
        }
    for (size_t i = 0; i < live->wide.n; i++)
        if (live->wide.v[i].address)
            each(context, &live->wide.v[i]);
}

uint64_t hx_live_bytes(const struct hx_live *live)
{
    return live->groups * sizeof(struct hx_live_group) + live->wide.cap * sizeof *live->wide.v +
           live->wide_index.cap * sizeof *live->wide_index.slot;
}

static hx_error *broken_live_blocks(const char *why)
{
    return hx_error_new(HX_E_CORRUPT, "live blocks", NULL, "%s", why);
}

static hx_error *check_shard(const struct hx_live *live, size_t number, uint64_t *ret_passed)
{
    const struct hx_live_shard *shard = &live->shard[number];
    const struct hx_live_entry *entry;
    uint32_t used = 0;
    *ret_passed = 0;
    for (uint64_t at = 0; (entry = next_entry(shard, &at)); used++) {
        uint64_t hash = hx_live_hash(live, entry->word >> 16);
        if (hash >> 61 != number)
            return broken_live_blocks("an entry is in a wrong shard");
        if (hx_live_find(shard, hash, entry->word >> 16) != entry)
            return broken_live_blocks("an entry cannot be found, or is there twice");
        uint64_t away = (at - 1) / HX_LIVE_ENTRIES + shard->groups - hx_live_home(shard, hash);
        *ret_passed += away % shard->groups;
    }
    if (used != shard->n || shard->n > shard->limit)
        return broken_live_blocks("a shard has another number of entries than it counts");
    return NULL;
}

hx_error *hx_live_check(const struct hx_live *live)
{
    uint64_t n = live->wide_n, groups = 0;
    for (size_t i = 0; i < HX_LIVE_SHARDS; i++) {
        const struct hx_live_shard *shard = &live->shard[i];
        uint64_t passed, counted = 0;
        bool many = false;
        HX_TRY(check_shard(live, i, &passed));
        for (uint32_t at = 0; at < shard->groups; at++) {
            many |= shard->group[at].tags >> 48 == HX_LIVE_MANY;
            counted += shard->group[at].tags >> 48;
        }
        if (counted != passed && !many)
            return broken_live_blocks("groups count others than passed them");
        n += shard->n;
        groups += shard->groups;
    }
    if (n != live->n || groups != live->groups || live->wide_n != live->wide_index.n)
        return broken_live_blocks("the figures do not add up");
    return NULL;
}
