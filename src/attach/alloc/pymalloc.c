/* pymalloc.c - CPython's allocator of small objects, 3.11 to 3.14, 64 bit.
 *
 *   arenas ---> [0] address, pools    1 MiB of memory each, cut into pools of 16 KiB, each with a
 *               [1] ...               header that says its size class and its arena's number
 *   arena_map_root ---> ... --->      radix tree by address: which 1 MiB have an arena, and where
 *                                     in them it begins
 *
 * None of the three variables has an exported name. They are found by shape in the interpreter's
 * data: a word that points to what can be the record of an arena, whose first pool names the number
 * of that record; then a tree that leads to this very arena. So each of the two proves the other.
 * The tree tells all arenas, and each has to agree with its record.
 */
#include "attach/alloc/slabs.h"
#include "attach/python/interpreter.h"
#include "base/cleanup.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ARENA_BITS      20
#define ARENA_BYTES     (UINT64_C(1) << ARENA_BITS)
#define POOL_BYTES      ((uint64_t)1 << 14)
#define POOLS           (ARENA_BYTES / POOL_BYTES)
#define ALIGNMENT       16
#define CLASSES         32
#define NODE_BITS       15 /* of the tree's root and of the level below it */
#define LEAF_BITS       14
#define RANGES          16
#define ARENAS_MAX      (UINT64_C(1) << 28) /* 256 TiB */
#define EMPTY_FIRST_MAX 256 /* records without an arena before the first that has one */
#define RECORDS_MAX     (UINT64_C(1) << 20)

/* struct arena_object */
struct record {
    uint64_t address, pool_address; /* address 0: it has no arena */
    uint32_t n_free_pools, n_pools;
    uint64_t free_pools, next, prev;
};

/* struct pool_header */
struct pool {
    uint32_t n_used, padding;
    uint64_t free_block, next, prev;
    uint32_t arena, class, next_offset, max_next_offset;
};

/* arena_coverage_t: where an arena begins in this 1 MiB (-1: at its start), and in the one before.
 */
struct coverage {
    int32_t high, low;
};

struct pymalloc {
    struct hx_python python;
    uint64_t data[RANGES][2];
    size_t n_data;
};

struct walk {
    const struct hx_image *image;
    const struct hx_snapshot *snapshot;
    struct hx_slabs slabs;
    uint64_t records; /* where `arenas` points to */
    uint64_t root;    /* arena_map_root */
    uint64_t n_arenas, n_pools;
    uint64_t unknown_bytes; /* of arenas and pools that make no sense */
    uint64_t unknown;
    uint64_t disagree; /* pools and arenas whose counts and lists do */
};

/* --- where it is --------------------------------------------------------------------- */

static uint64_t first_pool(uint64_t arena)
{
    return (arena + POOL_BYTES - 1) & ~(POOL_BYTES - 1);
}

static bool read_pool(const struct walk *walk, uint64_t addr, struct pool *ret)
{
    return hx_image_read(walk->image, addr, ret, sizeof *ret);
}

/* Can this be the record of an arena that has at least one pool? */
static bool can_be_record(const struct record *record)
{
    const uint64_t first = first_pool(record->address), all = record->address % POOL_BYTES != 0;
    return record->address && record->address < UINT64_C(1) << 47 &&
           record->n_pools == POOLS - all && record->n_free_pools <= record->n_pools &&
           record->pool_address % POOL_BYTES == 0 && record->pool_address > first &&
           (record->pool_address - first) / POOL_BYTES <= record->n_pools &&
           record->n_pools - (record->pool_address - first) / POOL_BYTES <= record->n_free_pools;
}

/* The record at addr, when it is one by what its arena's first pool says; else false. */
static bool read_record(const struct walk *walk, uint64_t addr, struct record *ret,
                        uint64_t *ret_records)
{
    struct pool pool;
    if (!hx_image_read(walk->image, addr, ret, sizeof *ret) || !can_be_record(ret) ||
        !read_pool(walk, first_pool(ret->address), &pool) ||
        addr / sizeof *ret < pool.arena) /* no such index */
        return false;
    *ret_records = addr - pool.arena * sizeof *ret;
    return true;
}

/* One of the first records at addr, where some may have no arena. */
static bool find_record(const struct walk *walk, uint64_t addr, unsigned n, struct record *ret,
                        uint64_t *ret_records)
{
    if (!addr || addr % 8)
        return false;
    for (unsigned i = 0; i < n; i++, addr += sizeof *ret)
        if (read_record(walk, addr, ret, ret_records))
            return true;
    return false;
}

static bool read_coverage(const struct walk *walk, uint64_t root, uint64_t addr,
                          struct coverage *ret, unsigned *ret_missing_bits)
{
    const uint64_t key = addr >> ARENA_BITS, mask = (1 << NODE_BITS) - 1;
    uint64_t middle, leaf;
    *ret_missing_bits = ARENA_BITS + LEAF_BITS + NODE_BITS;
    if (!hx_image_u64(walk->image, root + (key >> (LEAF_BITS + NODE_BITS) & mask) * 8, &middle) ||
        !middle)
        return false;
    *ret_missing_bits = ARENA_BITS + LEAF_BITS;
    if (!hx_image_u64(walk->image, middle + (key >> LEAF_BITS & mask) * 8, &leaf) || !leaf)
        return false;
    *ret_missing_bits = ARENA_BITS;
    return hx_image_read(walk->image, leaf + (key & ((1 << LEAF_BITS) - 1)) * sizeof *ret, ret,
                         sizeof *ret);
}

/* Does the tree say that an arena begins in this 1 MiB, and where? */
static bool begins_arena(const struct walk *walk, uint64_t root, uint64_t addr, uint64_t *ret,
                         unsigned *ret_missing_bits)
{
    struct coverage here, next;
    unsigned bits;
    const uint64_t start = addr & ~(ARENA_BYTES - 1);
    if (!read_coverage(walk, root, start, &here, ret_missing_bits) || !here.high || here.low < 0 ||
        here.low >= (int32_t)ARENA_BYTES)
        return false;
    *ret = start;
    if (here.high == -1)
        return true;
    *ret = start + (uint32_t)here.high;
    return here.high > 0 && here.high < (int32_t)ARENA_BYTES &&
           read_coverage(walk, root, start + ARENA_BYTES, &next, &bits) && next.low == here.high;
}

struct data {
    const uint64_t *words;
    uint64_t addr;
    size_t n;
};

/* The k-th stretch of the interpreter's data that the image has; false: there are not so many. */
static bool next_data(const struct walk *walk, const struct pymalloc *pymalloc, size_t *range,
                      size_t *span, struct data *ret)
{
    for (; *range < pymalloc->n_data; ++*range, *span = 0) {
        const uint64_t *bounds = pymalloc->data[*range];
        if (!*span)
            *span = hx_image_find(walk->image, bounds[0]) + 1;
        if (*span > walk->image->n || walk->image->span[*span - 1].start >= bounds[1])
            continue;
        const struct hx_span *piece = &walk->image->span[(*span)++ - 1];
        if (!piece->bytes)
            continue;
        uint64_t from = piece->start > bounds[0] ? piece->start : (bounds[0] + 7) & ~UINT64_C(7);
        uint64_t to = piece->end < bounds[1] ? piece->end : bounds[1];
        const void *bytes = piece->bytes + (from - piece->start);
        *ret = (struct data){bytes, from, from < to ? (to - from) / 8 : 0};
        return true;
    }
    return false;
}

/* Does the tree know the arenas of most records? One alone may be met by chance. */
static bool knows_records(const struct walk *walk, uint64_t root)
{
    struct record record;
    uint64_t records, arena, known = 0, unknown = 0;
    unsigned bits;
    for (uint64_t i = 0, others = 0; others < EMPTY_FIRST_MAX && i < RECORDS_MAX; i++) {
        if (!read_record(walk, walk->records + i * sizeof record, &record, &records) ||
            records != walk->records) {
            others++;
            continue;
        }
        others = 0;
        const bool found = begins_arena(walk, root, record.address, &arena, &bits);
        known += found && arena == record.address;
        unknown += !found || arena != record.address;
    }
    return known > unknown;
}

/* The tree that knows this arena, and the others. */
static bool find_root(struct walk *walk, const struct pymalloc *pymalloc, uint64_t arena)
{
    const uint64_t top = arena >> (ARENA_BITS + LEAF_BITS + NODE_BITS) & ((1 << NODE_BITS) - 1);
    size_t range = 0, span = 0;
    for (struct data data; next_data(walk, pymalloc, &range, &span, &data);)
        for (size_t i = 0; i < data.n; i++) {
            unsigned bits;
            uint64_t root = data.addr + i * 8 - top * 8, found;
            if (data.words[i] && data.words[i] % 8 == 0 &&
                begins_arena(walk, root, arena, &found, &bits) && found == arena &&
                knows_records(walk, root)) {
                walk->root = root;
                return true;
            }
        }
    return false;
}

static bool find_variables(struct walk *walk, const struct pymalloc *pymalloc, unsigned records)
{
    size_t range = 0, span = 0;
    struct record record;
    for (struct data data; next_data(walk, pymalloc, &range, &span, &data);)
        for (size_t i = 0; i < data.n; i++)
            if (find_record(walk, data.words[i], records, &record, &walk->records) &&
                find_root(walk, pymalloc, record.address))
                return true;
    return false;
}

/* Was never a block handed out? Then `usedpools`, pairs of links like those of a pool, one for each
 * class, is as the interpreter began with it: each pair points to where its pool would be. */
static bool is_unused(const struct walk *walk, const struct pymalloc *pymalloc)
{
    size_t range = 0, span = 0;
    for (struct data data; next_data(walk, pymalloc, &range, &span, &data);)
        for (size_t i = 0, run = 0; i + 1 < data.n; i++) {
            const uint64_t self = data.addr + i * 8 - offsetof(struct pool, next);
            if (data.words[i] != self || data.words[i + 1] != self) {
                run = 0;
                continue;
            }
            if (++run == CLASSES)
                return true;
            i++;
        }
    return false;
}

/* --- arenas -------------------------------------------------------------------------- */

static void lose_memory(struct walk *walk, uint64_t bytes)
{
    walk->unknown++;
    walk->unknown_bytes += bytes;
}

/* A pool that has blocks: its slab. */
static hx_error *add_pool(struct walk *walk, uint64_t addr, uint64_t number)
{
    struct pool pool;
    const uint64_t header = sizeof pool;
    if (!read_pool(walk, addr, &pool) || pool.class >= CLASSES) {
        lose_memory(walk, POOL_BYTES);
        return NULL;
    }
    const uint32_t bytes = (pool.class + 1) * ALIGNMENT;
    const uint32_t n = (uint32_t)((POOL_BYTES - header) / bytes);
    if (pool.arena != number || pool.max_next_offset != POOL_BYTES - bytes || pool.n_used > n ||
        pool.next_offset < header || (pool.next_offset - header) % bytes ||
        (pool.next_offset - header) / bytes > n) {
        lose_memory(walk, POOL_BYTES);
        return NULL;
    }
    walk->n_pools++;
    return hx_slabs_add(&walk->slabs, &(struct hx_slab){.start = addr,
                                                        .end = addr + POOL_BYTES,
                                                        .first = addr + header,
                                                        .stride = bytes,
                                                        .usable = bytes,
                                                        .n = n,
                                                        .rest = HX_BLOCK_OWN});
}

/* The arena's pools that have no blocks, a bit for each. */
static uint64_t free_pools(struct walk *walk, const struct record *record)
{
    const uint64_t first = first_pool(record->address);
    uint64_t found = 0, uncarved = record->n_pools - (record->pool_address - first) / POOL_BYTES;
    struct pool pool;
    for (uint64_t at = record->free_pools; at; at = pool.next) {
        uint64_t bit = UINT64_C(1) << ((at - first) / POOL_BYTES % POOLS);
        if (at < first || at >= record->pool_address || at % POOL_BYTES || found & bit ||
            !read_pool(walk, at, &pool)) {
            walk->disagree++;
            break;
        }
        found |= bit;
    }
    if ((uint64_t)__builtin_popcountll(found) + uncarved != record->n_free_pools)
        walk->disagree++;
    return found;
}

static hx_error *add_arena(struct walk *walk, const struct record *record, uint64_t number)
{
    const uint64_t first = first_pool(record->address), end = record->address + ARENA_BYTES;
    const uint64_t after = first + record->n_pools * POOL_BYTES;
    const uint64_t unused = free_pools(walk, record);
    if (record->address < first)
        HX_TRY(hx_slabs_add_memory(&walk->slabs, record->address, first, HX_BLOCK_OWN));
    for (uint64_t at = first; at < record->pool_address; at += POOL_BYTES)
        if (unused >> ((at - first) / POOL_BYTES) & 1)
            HX_TRY(hx_slabs_add_memory(&walk->slabs, at, at + POOL_BYTES, HX_BLOCK_FREE));
        else
            HX_TRY(add_pool(walk, at, number));
    if (record->pool_address < after)
        HX_TRY(hx_slabs_add_memory(&walk->slabs, record->pool_address, after, HX_BLOCK_FREE));
    if (after < end)
        HX_TRY(hx_slabs_add_memory(&walk->slabs, after, end, HX_BLOCK_OWN));
    return NULL;
}

/* The arena that the tree says begins at addr. */
static hx_error *add_arena_at(struct walk *walk, uint64_t addr)
{
    struct pool pool;
    struct record record;
    walk->n_arenas++;
    if (read_pool(walk, first_pool(addr), &pool) &&
        hx_image_read(walk->image, walk->records + pool.arena * sizeof record, &record,
                      sizeof record) &&
        can_be_record(&record) && record.address == addr)
        return add_arena(walk, &record, pool.arena);
    lose_memory(walk, ARENA_BYTES);
    return NULL;
}

/* All arenas in order of address. Where the tree has no branch the branch is passed over. */
static hx_error *add_arenas(struct walk *walk)
{
    uint64_t next = 0, steps = 0;
    for (size_t i = 0; i < walk->snapshot->n_mappings; i++) {
        const struct hx_mapping *mapping = &walk->snapshot->mapping[i];
        if (!(mapping->prot & HX_PROT_W))
            continue;
        uint64_t at = mapping->start & ~(ARENA_BYTES - 1);
        for (at = at > next ? at : next; at < mapping->end && steps < ARENAS_MAX; steps++) {
            unsigned missing;
            uint64_t arena;
            if (begins_arena(walk, walk->root, at, &arena, &missing))
                HX_TRY(add_arena_at(walk, arena));
            at = next = ((at >> missing) + 1) << missing;
        }
    }
    return NULL;
}

/* --- blocks -------------------------------------------------------------------------- */

/* Blocks that were never handed out, and those of the list, which ends at the first link that is
 * none. */
static hx_error *mark_pool(struct walk *walk, const struct hx_slab *slab)
{
    struct pool pool;
    if (!read_pool(walk, slab->start, &pool))
        return NULL;
    const uint64_t twice = walk->slabs.twice, stray = walk->slabs.stray;
    const uint32_t carved = (pool.next_offset - (uint32_t)sizeof pool) / (uint32_t)slab->stride;
    uint32_t used = carved;
    for (uint32_t i = carved; i < slab->n; i++)
        hx_slabs_mark(&walk->slabs, slab, i, HX_BLOCK_FREE);
    for (uint64_t at = pool.free_block, next; at; at = next, used--) {
        uint64_t i = hx_slab_block(slab, at);
        if (i >= carved) {
            walk->slabs.stray++;
            break;
        }
        if (!hx_slabs_mark(&walk->slabs, slab, i, HX_BLOCK_FREE))
            break;
        next = hx_slabs_link(walk->image, at);
    }
    if (used != pool.n_used && twice == walk->slabs.twice && stray == walk->slabs.stray)
        walk->disagree++;
    return NULL;
}

static hx_error *mark_blocks(struct walk *walk, const struct hx_progress *progress)
{
    HX_TRY(hx_slabs_sort(&walk->slabs));
    for (size_t i = 0; i < walk->slabs.slab.n; i++) {
        if (walk->slabs.slab.v[i].n)
            HX_TRY(mark_pool(walk, &walk->slabs.slab.v[i]));
        if (i % 4096 == 0 && hx_progress_cancelled(progress))
            return hx_error_cancelled("heap");
    }
    return NULL;
}

/* --- the whole ----------------------------------------------------------------------- */

static enum hx_walk_verdict tell(const struct walk *walk, struct hx_snapshot *snapshot)
{
    bool damaged = hx_slabs_tell(&walk->slabs, "pymalloc", snapshot);
    if (walk->unknown) {
        hx_snapshot_note(snapshot, true,
                         "%" PRIu64 " arenas or pools of pymalloc make no sense: %" PRIu64
                         " bytes are not explained",
                         walk->unknown, walk->unknown_bytes);
        hx_snapshot_lose(snapshot, "arenas or pools of pymalloc that make no sense", walk->unknown,
                         walk->unknown_bytes, 0);
    }
    if (walk->disagree) {
        hx_snapshot_note(snapshot, true,
                         "counts and lists of pymalloc disagree %" PRIu64 " times (damaged, or an "
                         "update was under way): a few blocks can be wrong",
                         walk->disagree);
        hx_snapshot_lose(snapshot, "counts of pymalloc that disagree with its lists",
                         walk->disagree, 0, 0);
    }
    if (walk->disagree + walk->unknown == 1 || (walk->disagree && !damaged && !walk->unknown))
        return HX_WALK_TORN;
    return damaged || walk->unknown ? HX_WALK_BAD : HX_WALK_OK;
}

static hx_error *set_evidence(struct hx_allocator_share *share, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static hx_error *set_evidence(struct hx_allocator_share *share, const char *format, ...)
{
    va_list values;
    va_start(values, format);
    free(share->evidence);
    if (vasprintf(&share->evidence, format, values) < 0)
        share->evidence = NULL;
    va_end(values);
    HX_NEED(share->evidence);
    return NULL;
}

static hx_error *do_walk(struct walk *walk, const struct pymalloc *pymalloc,
                         struct hx_snapshot *snapshot, struct hx_allocator_share *share,
                         const struct hx_progress *progress, enum hx_walk_verdict *ret)
{
    *ret = HX_WALK_OK;
    if (pymalloc->python.refusal)
        return set_evidence(share, "%s", pymalloc->python.refusal);
    share->cache_known = true;
    if (!find_variables(walk, pymalloc, 1) && !find_variables(walk, pymalloc, EMPTY_FIRST_MAX)) {
        share->proven = is_unused(walk, pymalloc);
        return set_evidence(share, "Py_Version, %s",
                            share->proven ? "all its lists of pools are as they were at the start"
                                          : "no arena that a tree of arenas leads to");
    }
    share->proven = true;
    HX_TRY(add_arenas(walk));
    HX_TRY(mark_blocks(walk, progress));
    HX_TRY(hx_slabs_put(&walk->slabs, NULL, snapshot, share, progress));
    share->claimed_bytes += walk->unknown_bytes;
    *ret = tell(walk, snapshot);
    return set_evidence(share,
                        "Py_Version, arenas by shape and by their tree, %" PRIu64
                        " arenas, %" PRIu64 " pools walked, counts and lists %s",
                        walk->n_arenas, walk->n_pools, walk->disagree ? "disagree" : "agree");
}

static hx_error *pymalloc_walk(void *state, struct hx_snapshot *snapshot,
                               struct hx_allocator_share *share, hx_ranges *excluded,
                               const struct hx_progress *progress, enum hx_walk_verdict *ret)
{
    struct walk walk = {.image = &snapshot->image, .snapshot = snapshot};
    (void)excluded;
    hx_slabs_init(&walk.slabs, snapshot);
    hx_error *err = do_walk(&walk, state, snapshot, share, progress, ret);
    hx_slabs_deinit(&walk.slabs);
    return err;
}

static hx_error *pymalloc_find(const struct hx_alloc_target *target,
                               struct hx_allocator_share *share, void **ret_state)
{
    struct hx_python python;
    *ret_state = NULL;
    if (!hx_python_find(target->modules, target->peek, &python))
        return NULL;
    struct pymalloc *pymalloc = calloc(1, sizeof *pymalloc);
    HX_NEED(pymalloc);
    *ret_state = pymalloc;
    pymalloc->python = python;
    pymalloc->n_data = hx_module_data(target->modules, python.module, pymalloc->data, RANGES);
    share->name = strdup("pymalloc");
    share->version = hx_python_version(&python);
    share->module = strdup(hx_module_name(target->modules, python.module));
    share->evidence = strdup("Py_Version");
    HX_NEED(share->name && share->module && share->evidence);
    return NULL;
}

/* Only who holds the interpreter's lock changes anything, and that has no word that a thread inside
 * would have set: counts that disagree with lists tell of an update under way. */
static hx_error *pymalloc_guard(void *state, const struct hx_alloc_target *target,
                                struct hx_guard *ret)
{
    (void)state, (void)target, (void)ret;
    return NULL;
}

static void pymalloc_end(void *state)
{
    free(state);
}

const struct hx_allocator hx_allocator_pymalloc = {.name = "pymalloc",
                                                   .linked = true,
                                                   .find = pymalloc_find,
                                                   .guard = pymalloc_guard,
                                                   .walk = pymalloc_walk,
                                                   .end = pymalloc_end};
