/* tcmalloc.h - gperftools' allocator: what was found of it, and where its parts lie.
 *
 * 2.7 to 2.18 have the same structures, which differ in the size of a page and in how many size
 * classes there is room for; both are read off the structures themselves.
 */
#ifndef HX_ATTACH_ALLOC_TCMALLOC_H
#define HX_ATTACH_ALLOC_TCMALLOC_H

#include "attach/alloc/alloc.h"

enum {
    HX_TC_CLASSES_MAX = 128,
    HX_TC_ADDRESS_BITS = 48,
    /* struct Span: a run of pages, or the head of a list of them */
    HX_TC_SPAN = 48,
    /* CentralFreeList */
    HX_TC_CENTRAL_CLASS = 8,
    HX_TC_CENTRAL_EMPTY = 16, /* then nonempty_ */
    HX_TC_CENTRAL_SPANS = 112,
    HX_TC_CENTRAL_FREE = 120,
    HX_TC_CENTRAL_SLOTS = 128, /* 16 bytes each: first and last block of a chain */
    HX_TC_SLOTS_MAX = 64,
    HX_TC_CENTRAL_USED = HX_TC_CENTRAL_SLOTS + HX_TC_SLOTS_MAX * 16,
    HX_TC_CENTRAL_STRIDE = 1216,
    /* ThreadCache: a list for each class, then what differs */
    HX_TC_LIST = 32,
    HX_TC_LIST_LENGTH = 8,
    HX_TC_LIST_SIZE = 24,
    HX_TC_CACHE_TAIL = 128, /* where the links to others are, at most */
    HX_TC_LISTS_MAX = HX_TC_CLASSES_MAX * HX_TC_LIST,
    /* candidates for ThreadCache::thread_heaps_ */
    HX_TC_HEADS_MAX = 16,
};

/* Where it is, and what never changes once it runs. */
struct hx_tcmalloc {
    size_t module;              /* in the set that it was found with */
    uint64_t data, data_end;    /* the writable segment that all of it lies in */
    uint64_t heap, heap_end;    /* PageHeap from pagemap_cache_ to stats_ */
    uint64_t root, stats, lock; /* lock 0: not known */
    unsigned shift;             /* of a page */
    unsigned leaf_bits;         /* pages that a leaf tells of */
    uint64_t n_root;            /* leaves that there can be */
    uint64_t central;           /* of class 0 */
    unsigned n_classes, room;   /* classes in use, and for how many there is room */
    uint32_t size[HX_TC_CLASSES_MAX];
    uint32_t batch[HX_TC_CLASSES_MAX]; /* blocks in a chain of the transfer cache */
    uint64_t pages[HX_TC_CLASSES_MAX];
    uint64_t count;                  /* ThreadCache::thread_heap_count_; 0: not known */
    uint64_t heads[HX_TC_HEADS_MAX]; /* thread caches that words of its data lead to */
    size_t n_heads;
    char version[16]; /* "2.10"; "": not known */
};

hx_error *hx_tc_find(const struct hx_alloc_target *target, struct hx_allocator_share *share,
                     void **ret_state);
hx_error *hx_tc_guard(void *state, const struct hx_alloc_target *target, struct hx_guard *ret);

/* Is that the memory of a thread cache? `bytes` has n_classes * HX_TC_LIST of it. */
bool hx_tc_is_cache(const struct hx_tcmalloc *tc, const uint8_t *bytes);

/* The class of blocks of so many bytes; 0: none. */
unsigned hx_tc_class_of(const struct hx_tcmalloc *tc, uint64_t bytes);

#endif
