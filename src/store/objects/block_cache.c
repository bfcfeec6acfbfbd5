/* block_cache.c - decoded columns of blocks, least recently used out first. */
#include "store/objects/blocks_private.h"

#include <stdlib.h>
#include <string.h>

/* Decoded columns to keep. The addresses and sizes of 10 million objects are 60 MB, where their
 * rows lie 20. */
enum { CACHE_BYTES = 68 << 20 };

/* Of these, sizes, and where rows lie, which is made of three columns: most others are made with
 * them, so up to that many bytes stay when others go. */
enum { STAYING_BYTES = 48 << 20 };

/* Of these, columns that nobody looks at. */
enum { ALOOF_BYTES = 8 << 20 };

static struct hx_entry **cache_slot(hx_blocks *blocks, int64_t id, unsigned what)
{
    uint64_t h = ((uint64_t)id * 64 + what) * 0x9e3779b97f4a7c15u;
    return &blocks->slot[h >> 52];
}

void hx_entry_unlink_use(hx_blocks *blocks, struct hx_entry *entry)
{
    *(entry->newer ? &entry->newer->older : &blocks->newest) = entry->older;
    *(entry->older ? &entry->older->newer : &blocks->oldest) = entry->newer;
}

void hx_entry_link_newest(hx_blocks *blocks, struct hx_entry *entry)
{
    entry->newer = NULL;
    entry->older = blocks->newest;
    *(blocks->newest ? &blocks->newest->newer : &blocks->oldest) = entry;
    blocks->newest = entry;
}

static bool is_staying(const struct hx_entry *entry)
{
    return entry->what >> 8 == HX_PLACE || entry->what == (HX_PLAIN << 8 | HX_COL_SIZE);
}

void hx_entry_unlink_from_slot(hx_blocks *blocks, struct hx_entry *entry)
{
    struct hx_entry **link = cache_slot(blocks, entry->id, entry->what);
    while (*link != entry)
        link = &(*link)->next;
    *link = entry->next;
    blocks->bytes -= entry->bytes;
    blocks->aloof_bytes -= entry->aloof ? entry->bytes : 0;
    blocks->staying_bytes -= is_staying(entry) ? entry->bytes : 0;
}

void hx_entry_drop(hx_blocks *blocks, struct hx_entry *entry)
{
    hx_entry_unlink_from_slot(blocks, entry);
    hx_entry_unlink_use(blocks, entry);
    entry->forgotten = true;
    if (!entry->users)
        free(entry);
}

void hx_blocks_evict(hx_blocks *blocks, size_t bytes)
{
    struct hx_entry *entry = blocks->oldest, *newer;
    for (; entry && blocks->aloof && blocks->aloof_bytes + bytes > ALOOF_BYTES; entry = newer) {
        newer = entry->newer;
        if (!entry->users && entry->aloof)
            hx_entry_drop(blocks, entry);
    }
    const struct hx_entry *last = blocks->newest;
    entry = blocks->oldest;
    for (bool more = entry; more && blocks->bytes + bytes > CACHE_BYTES; entry = newer) {
        newer = entry->newer;
        more = entry != last;
        if (is_staying(entry) && blocks->staying_bytes <= STAYING_BYTES) {
            hx_entry_unlink_use(blocks, entry); /* in nobody's way the next time */
            hx_entry_link_newest(blocks, entry);
        } else if (!entry->users) {
            hx_entry_drop(blocks, entry);
        }
    }
}

hx_error *hx_entry_make(hx_blocks *blocks, uint64_t base, unsigned shift, size_t n,
                        struct hx_entry **ret)
{
    size_t bytes = sizeof(struct hx_entry) + (n << shift);
    hx_blocks_evict(blocks, bytes);
    struct hx_entry *entry = malloc(bytes);
    HX_NEED(entry);
    *entry = (struct hx_entry){
        .decoded = {.base = base, .shift = shift, .n = (uint32_t)n, .v = entry + 1},
        .bytes = bytes};
    *ret = entry;
    return NULL;
}

unsigned hx_entry_shift(uint64_t range)
{
    return range <= UINT8_MAX ? 0 : range <= UINT16_MAX ? 1 : range <= UINT32_MAX ? 2 : 3;
}

/* Packs blocks->value into a new entry of the narrowest element. */
HX_HOT hx_error *hx_entry_pack(hx_blocks *blocks, size_t n, struct hx_entry **ret)
{
    const uint64_t *value = blocks->value;
    uint64_t low = 0, high = 0;
    for (size_t i = 0; i < n; i++)
        high |= value[i];
    if (high > UINT32_MAX) { /* comparing costs more */
        low = high = value[0];
        for (size_t i = 0; i < n; i++) {
            low = value[i] < low ? value[i] : low;
            high = value[i] > high ? value[i] : high;
        }
    }
    unsigned shift = hx_entry_shift(high - low);
    HX_TRY(hx_entry_make(blocks, low, shift, n, ret));
    void *v = *ret + 1;
    for (size_t i = 0; i < n && shift == 0; i++)
        ((uint8_t *)v)[i] = (uint8_t)(value[i] - low);
    for (size_t i = 0; i < n && shift == 1; i++)
        ((uint16_t *)v)[i] = (uint16_t)(value[i] - low);
    for (size_t i = 0; i < n && shift == 2; i++)
        ((uint32_t *)v)[i] = (uint32_t)(value[i] - low);
    for (size_t i = 0; i < n && shift == 3; i++)
        ((uint64_t *)v)[i] = value[i] - low;
    return NULL;
}

struct hx_entry *hx_entry_find(hx_blocks *blocks, int64_t id, unsigned what)
{
    struct hx_entry *entry = *cache_slot(blocks, id, what);
    while (entry && (entry->id != id || entry->what != what))
        entry = entry->next;
    return entry;
}

unsigned hx_entry_what(enum hx_derived derived, int column)
{
    return (unsigned)derived << 8 | (unsigned)column;
}

void hx_entry_put_in_slot(hx_blocks *blocks, struct hx_entry *entry)
{
    struct hx_entry **slot = cache_slot(blocks, entry->id, entry->what);
    entry->next = *slot;
    *slot = entry;
    blocks->bytes += entry->bytes;
    entry->aloof = blocks->aloof;
    blocks->aloof_bytes += entry->aloof ? entry->bytes : 0;
    blocks->staying_bytes += is_staying(entry) ? entry->bytes : 0;
}
