/* blockmap.h - from an address to the object that may contain it.
 *
 * A bit for each granule (8 or 16 bytes) of the heap says whether an object starts
 * there; beside each 64 bits stands how many objects start before them. So the last
 * object that starts at or before an address comes from one load and one population
 * count, without a search. The units of 4 MiB areas hang in a two-level directory over
 * the 48-bit address space; an area without a start has no units.
 */
#ifndef HX_TRAVERSE_SCAN_BLOCKMAP_H
#define HX_TRAVERSE_SCAN_BLOCKMAP_H

#include "model/graph.h"

#define HX_BLOCK_ADDRESS_BITS 48
#define HX_BLOCK_AREA_BITS    22
#define HX_BLOCK_MID_BITS     13
#define HX_BLOCK_TOP_BITS     (HX_BLOCK_ADDRESS_BITS - HX_BLOCK_MID_BITS - HX_BLOCK_AREA_BITS)

/* 64 granules: which of them begin an object, and how many objects begin before. */
struct hx_block_unit {
    uint64_t starts;
    uint64_t before;
};

/* A directory entry is odd where no object starts: 2 * before + 1 when the last object
 * before reaches into the area (or, in top, into the range), else 1. An even entry is
 * the address of the units (in top: of the 8192 entries) below it. */
struct hx_blockmap {
    unsigned shift;    /* log2 of the granule */
    uint64_t low, len; /* every byte of an object lies in [low, low + len) */
    uint64_t *top;     /* 1 << HX_BLOCK_TOP_BITS */
    struct hx_big top_mem, mid_mem, unit_mem;
};

/* Objects must be 8-aligned, below 2^48, sorted, and must not overlap: else
 * HX_E_CORRUPT. Two passes over the graph's addr and size. */
hx_error *hx_blockmap_init(struct hx_blockmap *map, const struct hx_graph *graph);
void hx_blockmap_deinit(struct hx_blockmap *map);

/* The directory entry for addr, which must lie in [low, low + len). */
static inline uint64_t hx_blockmap_entry(const struct hx_blockmap *map, uint64_t addr)
{
    uint64_t entry = map->top[addr >> (HX_BLOCK_AREA_BITS + HX_BLOCK_MID_BITS)];
    if (entry & 1)
        return entry;
    const uint64_t *mid = (const uint64_t *)(uintptr_t)entry;
    return mid[addr >> HX_BLOCK_AREA_BITS & ((1u << HX_BLOCK_MID_BITS) - 1)];
}

/* The unit of addr under an even entry. */
static inline const struct hx_block_unit *hx_blockmap_unit(const struct hx_blockmap *map,
                                                           uint64_t entry, uint64_t addr)
{
    const struct hx_block_unit *unit = (const struct hx_block_unit *)(uintptr_t)entry;
    return unit + ((addr & ((1u << HX_BLOCK_AREA_BITS) - 1)) >> (map->shift + 6));
}

/* How many objects start at or before addr. */
static inline uint64_t hx_blockmap_rank(const struct hx_blockmap *map,
                                        const struct hx_block_unit *unit, uint64_t addr)
{
    uint64_t upto = (uint64_t)-1 >> (63 - (addr >> map->shift & 63));
    return unit->before + (uint64_t)__builtin_popcountll(unit->starts & upto);
}

/* Does an object start exactly at addr? */
static inline bool hx_blockmap_starts(const struct hx_blockmap *map,
                                      const struct hx_block_unit *unit, uint64_t addr)
{
    return (unit->starts >> (addr >> map->shift & 63) & 1) &&
           (addr & (((uint64_t)1 << map->shift) - 1)) == 0;
}

/* The object that contains addr or, if it has no bytes, starts there; HX_NO_OBJ when
 * none does. For single questions. */
hx_obj hx_blockmap_find(const struct hx_blockmap *map, const struct hx_graph *graph, uint64_t addr);

#endif
