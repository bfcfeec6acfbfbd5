/* tbbmalloc.h - oneTBB's scalable allocator: where its parts lie.
 *
 * 2021.8; what others share with it is proven on them as well.
 */
#ifndef HX_ATTACH_ALLOC_TBBMALLOC_H
#define HX_ATTACH_ALLOC_TBBMALLOC_H

#include "attach/alloc/alloc.h"

enum {
    /* MemoryPool: two links, then ExtMemoryPool, which begins with Backend */
    HX_TBB_POOL_BACKEND = 16,
    /* Backend; it and parts of it lead to its beginning */
    HX_TBB_REGION_LOCK = 8,
    HX_TBB_REGIONS = 16,
    HX_TBB_QUEUE_SYNC = 32,
    HX_TBB_SYNC = 48,
    HX_TBB_SYNC_BACKEND = 64,
    HX_TBB_TOTAL = 80,
    HX_TBB_BACKEND_MAX = 1 << 20, /* bytes until all of the pool has passed */
    /* MemRegion */
    HX_TBB_REGION_BYTES = 16,
    HX_TBB_REGION_BLOCK = 24,
    HX_TBB_REGION_TYPE = 32, /* 0: of slabs */
    HX_TBB_REGION = 40,
    /* FreeBlock: how long it is, or that it waits to be joined with its neighbours */
    HX_TBB_WAITS = 1,
    HX_TBB_WAITING_BYTES = 40,
    /* BackRefMain: a table of leaves */
    HX_TBB_MAIN_LAST = 32,
    HX_TBB_MAIN_LEAVES = 48,
    HX_TBB_MAIN = 256 << 10,
    HX_TBB_LEAVES_MAX = (HX_TBB_MAIN - HX_TBB_MAIN_LEAVES) / 8,
    /* BackRefBlock: a leaf */
    HX_TBB_LEAF_COUNT = 48,
    HX_TBB_LEAF_NUMBER = 52,
    HX_TBB_LEAF = 64,
    HX_TBB_SLAB = 16 << 10, /* bytes of a leaf and of a slab */
    HX_TBB_ENTRIES = (HX_TBB_SLAB - HX_TBB_LEAF) / 8,
    /* Block: a slab */
    HX_TBB_PUBLIC = 16,
    HX_TBB_NEXT = 64,
    HX_TBB_BUMP = 80,
    HX_TBB_FREE = 88,
    HX_TBB_OWNER = 96,
    HX_TBB_INDEX = 112,
    HX_TBB_COUNT = 120,
    HX_TBB_SIZE = 122,
    HX_TBB_HEADER = 128,
    HX_TBB_SIZE_MAX = 8128,
    HX_TBB_STARTUP = 0xffff, /* as a size: blocks of all sizes, made before all else was */
    /* LargeMemoryBlock, and the header before a block of that kind */
    HX_TBB_LARGE_POOL = 16,
    HX_TBB_LARGE_ASKED = 64,
    HX_TBB_LARGE_BYTES = 72,
    HX_TBB_LARGE_INDEX = 80,
    HX_TBB_LARGE = 88,
    HX_TBB_LARGE_HEADER = 16,
    /* TLSData: what a thread has */
    HX_TBB_TLS_POOL = 16,
    HX_TBB_TLS_SLABS = 768,
    HX_TBB_TLS_BACKEND = 784,
    HX_TBB_TLS = 840,
};

struct hx_tbbmalloc {
    size_t module;
    uint64_t data;
    uint64_t backend;      /* of the pool that scalable_malloc() uses */
    uint64_t main;         /* BackRefMain */
    uint64_t threads;      /* where the list of TLSData begins; 0: not known, or there is none */
    uint64_t first_thread; /* the first of them */
    char version[16];      /* "2021.8"; "": not known */
};

hx_error *hx_tbb_find(const struct hx_alloc_target *target, struct hx_allocator_share *share,
                      void **ret_state);
hx_error *hx_tbb_guard(void *state, const struct hx_alloc_target *target, struct hx_guard *ret);

#endif
