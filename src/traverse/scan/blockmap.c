/* blockmap.c - building the bitmap of block starts. */
#include "traverse/scan/blockmap.h"

#include <inttypes.h>
#include <stdio.h>

#define TOP_ENTRIES ((size_t)1 << HX_BLOCK_TOP_BITS)
#define MID_ENTRIES ((size_t)1 << HX_BLOCK_MID_BITS)
#define AREA_BYTES  ((uint64_t)1 << HX_BLOCK_AREA_BITS)
#define NOTHING     ((uint64_t)1) /* entry: no object reaches here */

/* What has to be reserved. */
struct plan {
    unsigned shift;
    size_t mids, areas;
};

static hx_error *misplaced(uint64_t addr, const char *why)
{
    char what[40];
    snprintf(what, sizeof what, "object at 0x%" PRIx64, addr);
    return hx_error_new(HX_E_CORRUPT, what, NULL, "%s", why);
}

/* Tests the objects and counts the areas in which one starts. */
static hx_error *survey(const struct hx_graph *graph, struct plan *ret)
{
    struct plan plan = {.shift = 4};
    uint64_t end = 0, area = UINT64_MAX, range = UINT64_MAX, bits = 0, previous = 0;
    for (hx_obj i = 0; i < graph->n; i++) {
        uint64_t addr = graph->addr[i], size = graph->size[i];
        if (addr >> HX_BLOCK_ADDRESS_BITS || size > ((uint64_t)1 << HX_BLOCK_ADDRESS_BITS) - addr)
            return misplaced(addr, "it ends beyond the address space");
        if (addr < end || (i && addr <= previous))
            return misplaced(addr, "it overlaps the object before");
        bits |= addr;
        previous = addr;
        end = addr + size;
        if (addr >> HX_BLOCK_AREA_BITS != area) {
            area = addr >> HX_BLOCK_AREA_BITS;
            plan.areas++;
            if (area >> HX_BLOCK_MID_BITS != range) {
                range = area >> HX_BLOCK_MID_BITS;
                plan.mids++;
            }
        }
    }
    if (bits & 7)
        return misplaced(graph->addr[0], "not all objects are aligned to 8 bytes");
    if (bits & 8)
        plan.shift = 3;
    *ret = plan;
    return NULL;
}

/* Where the filling stands: `done` objects are in; every directory entry below
 * `area` and every unit of the current area below `unit` is final. */
struct cursor {
    struct hx_blockmap *map;
    const struct hx_graph *graph;
    uint64_t area;
    uint64_t *mid;               /* entries of the current range, NULL before its first start */
    struct hx_block_unit *units; /* of the current area, NULL before its first start */
    size_t unit, per_area;
    uint64_t *next_mid;
    struct hx_block_unit *next_units;
};

/* The entry of an area (or range) that begins at addr and in which nothing starts. */
static uint64_t gap_entry(const struct hx_graph *graph, hx_obj done, uint64_t addr)
{
    if (done == 0 || graph->addr[done - 1] + graph->size[done - 1] <= addr)
        return NOTHING;
    return (uint64_t)done << 1 | 1;
}

static void finish_area(struct cursor *at, hx_obj done)
{
    if (!at->units)
        return;
    while (at->unit < at->per_area)
        at->units[at->unit++].before = done;
    at->units = NULL;
    at->area++;
}

/* Gives every directory entry from the cursor's area up to `area` its value. */
static void fill_gap(struct cursor *at, hx_obj done, uint64_t area)
{
    finish_area(at, done);
    while (at->area < area) {
        size_t slot = at->area & (MID_ENTRIES - 1);
        uint64_t addr = at->area << HX_BLOCK_AREA_BITS;
        if (slot == 0) {
            at->mid = NULL;
            if ((at->area ^ area) >> HX_BLOCK_MID_BITS) { /* nothing starts in this range */
                at->map->top[at->area >> HX_BLOCK_MID_BITS] = gap_entry(at->graph, done, addr);
                at->area += MID_ENTRIES;
                continue;
            }
        }
        if (!at->mid) {
            at->mid = at->next_mid;
            at->next_mid += MID_ENTRIES;
            at->map->top[at->area >> HX_BLOCK_MID_BITS] = (uintptr_t)at->mid;
        }
        at->mid[slot] = gap_entry(at->graph, done, addr);
        at->area++;
    }
}

static void open_area(struct cursor *at)
{
    size_t slot = at->area & (MID_ENTRIES - 1);
    if (slot == 0 || !at->mid) {
        at->mid = at->next_mid;
        at->next_mid += MID_ENTRIES;
        at->map->top[at->area >> HX_BLOCK_MID_BITS] = (uintptr_t)at->mid;
    }
    at->units = at->next_units;
    at->next_units += at->per_area;
    at->mid[slot] = (uintptr_t)at->units;
    at->unit = 0;
}

static void fill_blockmap(struct hx_blockmap *map, const struct hx_graph *graph)
{
    struct cursor at = {.map = map,
                        .graph = graph,
                        .per_area = AREA_BYTES >> (map->shift + 6),
                        .next_mid = map->mid_mem.base,
                        .next_units = map->unit_mem.base};
    const unsigned unit_shift = map->shift + 6;
    for (hx_obj i = 0; i < graph->n; i++) {
        uint64_t addr = graph->addr[i];
        if (!at.units || addr >> HX_BLOCK_AREA_BITS != at.area) {
            fill_gap(&at, i, addr >> HX_BLOCK_AREA_BITS);
            open_area(&at);
        }
        size_t unit = (addr & (AREA_BYTES - 1)) >> unit_shift;
        while (at.unit <= unit)
            at.units[at.unit++].before = i;
        at.units[unit].starts |= (uint64_t)1 << (addr >> map->shift & 63);
    }
    fill_gap(&at, graph->n, (uint64_t)TOP_ENTRIES << HX_BLOCK_MID_BITS);
}

hx_error *hx_blockmap_init(struct hx_blockmap *map, const struct hx_graph *graph)
{
    struct plan plan = {0};
    *map = (struct hx_blockmap){0};
    HX_TRY(survey(graph, &plan));
    map->shift = plan.shift;
    hx_error *err = hx_big_array(map->top, TOP_ENTRIES);
    if (!err)
        err = hx_big_reserve(&map->mid_mem, plan.mids * MID_ENTRIES * sizeof(uint64_t));
    if (!err)
        err = hx_big_reserve(&map->unit_mem, plan.areas * (AREA_BYTES >> (plan.shift + 6)) *
                                                 sizeof(struct hx_block_unit));
    if (err) {
        hx_blockmap_deinit(map);
        return err;
    }
    if (graph->n) {
        map->low = graph->addr[0];
        map->len = graph->addr[graph->n - 1] + graph->size[graph->n - 1] - map->low;
        /* An object without bytes still has its first address. */
        map->len += graph->size[graph->n - 1] == 0;
        fill_blockmap(map, graph);
    }
    return NULL;
}

void hx_blockmap_deinit(struct hx_blockmap *map)
{
    hx_big_free(&map->top_mem);
    hx_big_free(&map->mid_mem);
    hx_big_free(&map->unit_mem);
    *map = (struct hx_blockmap){0};
}

hx_obj hx_blockmap_find(const struct hx_blockmap *map, const struct hx_graph *graph, uint64_t addr)
{
    if (addr - map->low >= map->len)
        return HX_NO_OBJ;
    uint64_t entry = hx_blockmap_entry(map, addr);
    uint64_t rank;
    if (entry & 1) {
        rank = entry >> 1;
    } else {
        const struct hx_block_unit *unit = hx_blockmap_unit(map, entry, addr);
        rank = hx_blockmap_rank(map, unit, addr);
        if (hx_blockmap_starts(map, unit, addr))
            return (hx_obj)(rank - 1);
    }
    if (rank == 0 || addr - graph->addr[rank - 1] >= graph->size[rank - 1])
        return HX_NO_OBJ;
    return (hx_obj)(rank - 1);
}
