/* pairs.c - a hash table with open addressing. */
#include "base/pairs.h"

#include <stdlib.h>
#include <string.h>

/* Keys are chosen by the target, but only through numbers that were given out one after the other
 * or through hashes: a finalizer is enough to spread them. */
static size_t home(uint64_t key)
{
    key ^= key >> 33;
    key *= UINT64_C(0xff51afd7ed558ccd);
    key ^= key >> 33;
    key *= UINT64_C(0xc4ceb9fe1a85ec53);
    return (size_t)(key ^ key >> 33);
}

static struct hx_pair *find_pair(const struct hx_pairs *pairs, uint64_t key)
{
    size_t at = home(key) & pairs->mask;
    while (pairs->slot[at].value != HX_NO_PAIR && pairs->slot[at].key != key)
        at = (at + 1) & pairs->mask;
    return &pairs->slot[at];
}

static hx_error *grow_pairs(struct hx_pairs *pairs)
{
    size_t slots = pairs->slot ? 2 * (pairs->mask + 1) : 1024;
    struct hx_pair *slot = malloc(slots * sizeof *slot);
    HX_NEED(slot);
    memset(slot, 0xff, slots * sizeof *slot);
    struct hx_pairs larger = {.slot = slot, .mask = slots - 1, .n = pairs->n};
    for (size_t i = 0; pairs->slot && i <= pairs->mask; i++)
        if (pairs->slot[i].value != HX_NO_PAIR)
            *find_pair(&larger, pairs->slot[i].key) = pairs->slot[i];
    free(pairs->slot);
    *pairs = larger;
    return NULL;
}

hx_error *hx_pairs_at(struct hx_pairs *pairs, uint64_t key, uint32_t **ret)
{
    if (!pairs->slot || 2 * (pairs->n + 1) > pairs->mask + 1)
        HX_TRY(grow_pairs(pairs));
    struct hx_pair *slot = find_pair(pairs, key);
    if (slot->value == HX_NO_PAIR) {
        slot->key = key;
        pairs->n++;
    }
    *ret = &slot->value;
    return NULL;
}

uint32_t hx_pairs_find(const struct hx_pairs *pairs, uint64_t key)
{
    return pairs->slot ? find_pair(pairs, key)->value : HX_NO_PAIR;
}

void hx_pairs_free(struct hx_pairs *pairs)
{
    free(pairs->slot);
    *pairs = (struct hx_pairs){0};
}
