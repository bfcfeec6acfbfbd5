/* slabs.h - heaps that consist of runs of equal blocks, as those of most allocators do.
 *
 * Who reads the structures of such an allocator adds each run of memory that it finds: a slab of
 * one size class, a block with memory of its own (a slab of one block), free memory, what the
 * allocator keeps for itself. Then they are sorted; then blocks that are not the program's are
 * marked, by slab and number or by address; then all is put into a snapshot.
 *
 * What the target says is believed as far as it can be: a slab lies in memory that is mapped
 * writable, overlaps no other one, and no block is marked twice; all else is counted here, for the
 * self-check.
 */
#ifndef HX_ATTACH_ALLOC_SLABS_H
#define HX_ATTACH_ALLOC_SLABS_H

#include "attach/alloc/alloc.h"

enum hx_block_use {
    HX_BLOCK_LIVE,
    HX_BLOCK_FREE,
    HX_BLOCK_CACHED, /* free, in a cache of a thread or a processor */
    HX_BLOCK_OWN,    /* the allocator's */
};

/* [start, end) with n blocks at first, first + stride, ...; blocks lie between start and end.
 * usable <= stride, but where there is one block. */
struct hx_slab {
    uint64_t start, end, first;
    uint64_t stride;
    uint64_t usable; /* bytes of a block that the program may use */
    uint32_t n;
    enum hx_block_use rest; /* HX_BLOCK_FREE or HX_BLOCK_OWN: what is in no block; between blocks it
                               is always the allocator's */
    bool wide;              /* a block may reach over others that are marked as the allocator's */
    uint64_t tag;           /* for who added it */
    uint64_t first_use;     /* of its blocks in `use`; set by hx_slabs_sort() */
};

struct hx_slabs {
    const struct hx_mapping *mapping;
    size_t n_mappings;
    HX_VEC(struct hx_slab) slab;
    uint8_t *use; /* enum hx_block_use of each block; NULL before hx_slabs_sort() */
    struct hx_big use_mem;
    uint64_t n_blocks;
    /* for the self-check */
    uint64_t outside, outside_bytes;   /* slabs that were refused: not in writable memory, or no
                                          such slab can be */
    uint64_t overlaps, overlaps_bytes; /* slabs dropped, as they overlap others */
    uint64_t twice;                    /* blocks that were marked when they were already */
    uint64_t stray;                    /* addresses that are no block of a slab */
};

/* Mappings are borrowed. */
void hx_slabs_init(struct hx_slabs *slabs, const struct hx_snapshot *snapshot);
void hx_slabs_deinit(struct hx_slabs *slabs);

/* Adds one, unless it cannot be. */
hx_error *hx_slabs_add(struct hx_slabs *slabs, const struct hx_slab *slab);

/* Adds memory without blocks: free, or the allocator's own. */
hx_error *hx_slabs_add_memory(struct hx_slabs *slabs, uint64_t start, uint64_t end,
                              enum hx_block_use use);

/* Sorts by address, drops what overlaps, and makes all blocks live. Once, after all were added. */
hx_error *hx_slabs_sort(struct hx_slabs *slabs);

/* The slab that addr lies in; NULL: none. Sorted slabs only. */
struct hx_slab *hx_slabs_find(const struct hx_slabs *slabs, uint64_t addr);

/* The number of the block that begins at addr; UINT64_MAX: none does. */
uint64_t hx_slab_block(const struct hx_slab *slab, uint64_t addr);

static inline enum hx_block_use hx_slabs_use(const struct hx_slabs *slabs,
                                             const struct hx_slab *slab, uint64_t i)
{
    return (enum hx_block_use)slabs->use[slab->first_use + i];
}

/* Marks block i < n of a slab. False: it was marked before (and counts as `twice`). */
static inline bool hx_slabs_mark(struct hx_slabs *slabs, const struct hx_slab *slab, uint64_t i,
                                 enum hx_block_use use)
{
    uint8_t *at = &slabs->use[slab->first_use + i];
    if (*at != HX_BLOCK_LIVE) {
        slabs->twice++;
        return false;
    }
    *at = (uint8_t)use;
    return true;
}

/* Where the free block at addr leads, whose first word is the link. A page that is not there reads
 * as zeros: all that the program wrote may have been the end of a list. */
uint64_t hx_slabs_link(const struct hx_image *image, uint64_t addr);

/* Marks the block that begins at addr. False: there is none (`stray`), or it was marked before. */
bool hx_slabs_mark_at(struct hx_slabs *slabs, uint64_t addr, enum hx_block_use use);

/* Where in block i of a slab the program's part lies, where those of one slab differ: *addr and
 * *bytes are the whole block's before the call. What does not lie in the block is cut. False: the
 * block is the allocator's own. */
struct hx_slabs_place {
    bool (*find)(void *context, const struct hx_slab *slab, uint32_t i, uint64_t *addr,
                 uint64_t *bytes);
    void *context;
};

/* Writes what struct hx_allocator says `walk` does: segments, objects, free ranges, figures of the
 * snapshot; of the share walked_bytes, claimed_bytes and cached_bytes. place: NULL: slab->usable
 * bytes from the beginning of a block. */
hx_error *hx_slabs_put(const struct hx_slabs *slabs, const struct hx_slabs_place *place,
                       struct hx_snapshot *snapshot, struct hx_allocator_share *share,
                       const struct hx_progress *progress);

/* Notes and counts what was refused, dropped, marked twice or stray, in words that name the
 * allocator; false: there was nothing. */
bool hx_slabs_tell(const struct hx_slabs *slabs, const char *allocator,
                   struct hx_snapshot *snapshot);

#endif
