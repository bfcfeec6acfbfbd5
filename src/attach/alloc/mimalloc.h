/* mimalloc.h - mimalloc, 64 bit: what the files of its walk share.
 *
 * All its versions cut memory into pages, runs of blocks of one size, and keep for each page what
 * is free in three lists. Where pages are found is another matter: version 2 has segments with a
 * table of pages each (mimalloc_segment.c), version 3 a map of all pages
 * (mimalloc_map.c).
 */
#ifndef HX_ATTACH_ALLOC_MIMALLOC_H
#define HX_ATTACH_ALLOC_MIMALLOC_H

#include "attach/alloc/slabs.h"

/* What a page says of itself. */
struct hx_mi_page {
    uint64_t addr;       /* of its structure, which the links of its lists are encoded with */
    uint64_t start, end; /* the memory that it has */
    uint64_t first, block_size;
    uint64_t list[3]; /* free, local_free, xthread_free: first blocks */
    uint64_t keys[2];
    uint64_t heap;       /* 0: abandoned */
    uint64_t whole_heap; /* of all threads, from version 3.2 on */
    uint64_t near[2];    /* structures of the pages beside it in a queue; 0: there is none */
    uint64_t slab;       /* number of its slab when they are sorted; UINT64_MAX: it has none */
    uint32_t used, capacity;
};

/* Of one version, with or without encoded links. All offsets are in bytes. */
struct hx_mi_layout {
    uint16_t first, last; /* versions, as mi_version() has them */
    uint8_t shift;        /* of the size of a segment */
    uint16_t slices_max;
    uint16_t segment_slices, info_slices, kind, slice_entries, used_pages, cookie, slices;
    uint16_t slice_bytes;
    uint16_t used, used_bytes, block_size, block_size_bytes;
    uint16_t page_start;  /* 0: the block size tells it, by `start_rule` */
    uint16_t page_offset; /* of version 3: in words from the page's structure on */
    uint8_t start_rule;   /* enum hx_mi_start */
    uint16_t local_free, xthread_free, xheap;
    uint16_t whole_heap;
    uint16_t near;                /* its neighbours: two words */
    uint16_t keys;                /* 0: links are plain */
    uint16_t heap_delayed;        /* in a heap: its list of blocks that other threads freed */
    uint16_t heap_keys[2];        /* where its keys can be */
    bool heap_padded;             /* the three lie so much farther as a block's padding is long */
    uint16_t memid, arena_slices; /* of version 3: in a page where its memory is from, in an arena
                                     how many slices it has */
};

/* Where the first block of a page is. */
enum hx_mi_start { HX_MI_START_0, HX_MI_START_128, HX_MI_START_384, HX_MI_START_BLOCKS };

enum {
    HX_MI_SLICE_SHIFT = 16,
    HX_MI_PADDING = 8,        /* bytes behind each block of a padded build */
    HX_MI_THREAD_DATA = 8192, /* what a thread's heap has of mappings at least */
    HX_MI_HEAP = 2840,        /* what a heap has at least */
    HX_MI_WHOLE_HEAP = 6400,  /* the same of one of all threads */
    HX_MI_HEADER_BYTES = 512, /* enough to see whether there is a segment */
    HX_MI_SEGMENT_HEAD = 1 << 17,
};

/* A segment of which no block is in use, or that was given back and lies still there. */
struct hx_mi_segment {
    uint64_t start, end;
    bool used;
};

typedef HX_VEC(uint64_t) hx_mi_addresses;

struct hx_mi_walk {
    struct hx_snapshot *snapshot;
    uint64_t map; /* of version 3; 0: it is version 2 */
    struct hx_slabs slabs;
    const struct hx_mi_layout *layout; /* NULL: none was proven yet */
    HX_VEC(struct hx_mi_segment) segments;
    HX_VEC(struct hx_mi_page) pages;
    hx_mi_addresses heaps;       /* each once, sorted */
    hx_mi_addresses whole_heaps; /* the same of those of all threads */
    uint64_t padding;            /* bytes */
    uint64_t n_likely;           /* segments by their first words */
    /* for the self-check */
    uint64_t n_torn;    /* pages and segments whose counts disagree */
    uint64_t n_damaged; /* segments that make no sense */
    uint64_t n_missing; /* pages that others name, and that were not found */
    uint64_t n_overrun; /* blocks in use without their canary */
};

/* As struct hx_allocator's `walk`; share->version: as mi_version() tells it, NULL: not known. */
hx_error *hx_mi_walk_heap(struct hx_mi_walk *walk, struct hx_allocator_share *share,
                          hx_ranges *excluded, const struct hx_progress *progress,
                          enum hx_walk_verdict *ret);

/* Says that nothing of it is proven, and why. */
hx_error *hx_mi_refuse(const struct hx_mi_walk *walk, struct hx_allocator_share *share);

void hx_mi_walk_deinit(struct hx_mi_walk *walk);

/* 209, 3010 and 30403 are 2.0.9, 3.0.10 and 3.4.3. */
int hx_mi_name_version(char *buf, size_t len, int version);

/* Does a segment of that layout begin at addr, as far as its first HX_MI_HEADER_BYTES bytes tell?
 */
bool hx_mi_is_likely(const struct hx_mi_layout *layout, uint64_t addr, const uint8_t *bytes);
extern const struct hx_mi_layout hx_mi_layouts[];
extern const size_t hx_mi_n_layouts;

/* Finds segments and pages, and adds what is no block to the slabs. */
hx_error *hx_mi_segments(struct hx_mi_walk *walk);

/* Where the map of mimalloc 3 is; 0: there is none. */
uint64_t hx_mi_find_map(const struct hx_alloc_target *target);

/* As hx_mi_segments(), of mimalloc 3, and finds the heaps. */
hx_error *hx_mi_map_pages(struct hx_mi_walk *walk);

/* Leaves each once, in order. */
void hx_mi_sort_addresses(hx_mi_addresses *addresses);

/* Finds the heaps that pages are of. */
hx_error *hx_mi_find_heaps(struct hx_mi_walk *walk);

/* Adds those parts of [start, end) that are mapped writable. */
hx_error *hx_mi_add_memory(struct hx_mi_walk *walk, uint64_t start, uint64_t end,
                           enum hx_block_use use);

/* Copies len bytes; what is not in the image was never written, and reads as zeros. */
void hx_mi_read(const struct hx_mi_walk *walk, uint64_t addr, uint8_t *dst, size_t len);

#endif
