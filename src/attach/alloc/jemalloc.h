/* jemalloc.h - what the files of this allocator share.
 *
 * jemalloc's memory consists of extents, runs of pages, each with a record (`extent_t`, from 5.3 on
 * `edata_t`). A radix tree over addresses leads from a page to its record. An extent is a slab of
 * blocks of one size class, a block of its own, or free. Records, the tree's nodes and arenas lie
 * in base blocks, which are aligned to huge pages and say of themselves where they end.
 *
 * Nothing is taken from a symbol: the array of arenas is found by the pointer to an arena that lies
 * in a base block and leads back to it; the tree's root by a known record that it must lead to.
 */
#ifndef HX_ATTACH_ALLOC_JEMALLOC_H
#define HX_ATTACH_ALLOC_JEMALLOC_H

#include "attach/alloc/slabs.h"

enum {
    HX_JEMALLOC_HEAPS = 4,         /* one process may have several: linked in, and preloaded */
    HX_JEMALLOC_ARENAS_MAX = 4095, /* of each */
    HX_JEMALLOC_SIZES = 232,       /* size classes; this number: none */
    HX_JEMALLOC_BINS_MAX = 52,     /* of small classes: with pages of 64 KiB */
    HX_JEMALLOC_MUTEXES = 7,
};
#define HX_JEMALLOC_BLOCK (UINT64_C(2) << 20) /* base blocks are multiples of it */

/* Offsets in the structures of a range of versions, built with pages of one size. */
struct hx_jemalloc_layout {
    unsigned first, last; /* 50201 is 5.2.1 */
    unsigned lg_page;
    bool flat_bins; /* bins follow the arena; else it points to those of each class */
    bool stacks;    /* a cache has a pointer to the top of its stack; else a count */
    bool unrounded; /* large blocks have the pages that they need, not those of a size class */
    /* in an arena */
    uint32_t internal, caches, nactive, large, base, bins;
    uint32_t mutex[HX_JEMALLOC_MUTEXES]; /* 0: no more */
    /* in others */
    uint16_t bin_bytes, bin_regs, bin_slabs, bin_current, bin_full;
    uint16_t base_mutex, base_blocks;
    uint16_t lock;       /* in a mutex: the word of the system's */
    uint16_t cache_bins; /* of one thread, at most */
    uint16_t cache_self; /* from what arenas have in their ring to the pointer to the cache */
    uint8_t state_shift, state_bits, szind_shift;
};
extern const struct hx_jemalloc_layout hx_jemalloc_layouts[];
extern const size_t hx_jemalloc_n_layouts;

/* Small size classes. */
unsigned hx_jemalloc_bins(const struct hx_jemalloc_layout *layout);
/* Bytes of a size class below HX_JEMALLOC_SIZES. */
uint64_t hx_jemalloc_size(unsigned szind);

/* A jemalloc that was found. */
struct hx_jemalloc_heap {
    const struct hx_jemalloc_layout *layout; /* NULL: no layout fits */
    uint64_t arenas;                         /* the array */
    uint64_t data[2][2];                     /* writable segments of its module */
    size_t n_data;
    size_t module;
    char version[24]; /* "": it does not tell */
};

struct hx_jemalloc {
    struct hx_jemalloc_heap heap[HX_JEMALLOC_HEAPS];
    size_t n;
};

/* The record of an extent. */
struct hx_jemalloc_extent {
    uint64_t addr, size; /* of its pages: addr without the offset of a block */
    uint64_t block;
    const uint8_t *bitmap; /* of a slab; readable as far as its blocks need */
    unsigned arena, state, szind, nfree, shard;
    bool slab, committed;
    bool huge; /* its pages are those of the allocator of huge pages (5.3) */
};
enum { HX_JEMALLOC_ACTIVE, HX_JEMALLOC_DIRTY, HX_JEMALLOC_MUZZY, HX_JEMALLOC_RETAINED };

/* An arena as it is walked, and what its extents add up to. */
struct hx_jemalloc_arena {
    uint64_t addr, base;
    unsigned number;
    uint64_t pages; /* of active extents */
    struct {
        uint32_t slabs, regs;
    } bin[HX_JEMALLOC_BINS_MAX];
};

/* One jemalloc as it is walked. */
struct hx_jemalloc_walk {
    const struct hx_image *image;
    const struct hx_jemalloc_heap *heap;
    const struct hx_jemalloc_layout *layout;
    struct hx_slabs *slabs;                  /* of all */
    unsigned number;                         /* of this one */
    HX_VEC(struct hx_jemalloc_arena) arenas; /* by number */
    hx_ranges blocks;                        /* base blocks; sorted */
    unsigned shard_max[HX_JEMALLOC_BINS_MAX];
    uint64_t root, root_bytes;
    unsigned vaddr; /* bits of an address that the tree tells apart */
    uint64_t n_extents, n_slabs, n_caches, n_lost_caches, n_huge;
    uint64_t against_pad, against_none; /* large blocks that cannot have a page more than they
                                           need, and those that must */
    /* what cannot be */
    uint64_t bad_arenas, bad_nodes, bad_extents, bad_slabs, bad_caches;
    uint64_t in_work;           /* extents that are being changed */
    bool shards;                /* bins have several */
    bool counts;                /* it was built to count blocks, and to have rings of caches */
    uint64_t checked, disagree; /* counters */
    uint64_t active_bytes, lost_bytes;  /* that arenas count, and of those the ones not found */
    uint64_t own_bytes, internal_bytes; /* blocks that jemalloc has from itself: found, counted */
};

/* Is a base block at addr? Layouts agree on its head. */
bool hx_jemalloc_is_base(const struct hx_peek *peek, uint64_t addr, uint64_t *ret_size,
                         uint64_t *ret_next);

hx_error *hx_jemalloc_find(const struct hx_alloc_target *target, struct hx_allocator_share *share,
                           void **ret_state);
hx_error *hx_jemalloc_guard(void *state, const struct hx_alloc_target *target,
                            struct hx_guard *ret);

/* Reads a record; false: there is none. */
bool hx_jemalloc_extent(const struct hx_jemalloc_walk *walk, uint64_t record,
                        struct hx_jemalloc_extent *ret);

/* The bin of a size class; 0: it cannot be read. */
uint64_t hx_jemalloc_bin(const struct hx_jemalloc_walk *walk, uint64_t arena, unsigned i);

/* The radix tree: finds walk->root, which stays 0 where it is not to be found. Then adds all
 * extents to the slabs. */
void hx_jemalloc_find_root(struct hx_jemalloc_walk *walk);
hx_error *hx_jemalloc_extents(struct hx_jemalloc_walk *walk);

/* The tag of a slab: its record, size class and jemalloc. */
static inline uint64_t hx_jemalloc_tag(uint64_t record, unsigned szind, unsigned number)
{
    return record | (uint64_t)szind << 56 | number;
}
static inline unsigned hx_jemalloc_tag_size(uint64_t tag)
{
    return (unsigned)(tag >> 56);
}
static inline uint64_t hx_jemalloc_tag_record(uint64_t tag)
{
    return (tag << 8 >> 8) & ~UINT64_C(63);
}

/* Marks what the caches of threads hold, and the memory of their stacks; that of the caches, in
 * thread-local storage, is excluded. Slabs are sorted. */
hx_error *hx_jemalloc_caches(struct hx_jemalloc_walk *walk, hx_ranges *excluded);

/* The same of caches that no arena knows: a child has those of its parent's other threads, whose
 * blocks nobody can get at. Looks through the whole image. */
hx_error *hx_jemalloc_lost_caches(struct hx_jemalloc_walk *walk, hx_ranges *excluded);

#endif
