/* alloc.h - what an allocator looks like from outside.
 *
 * An allocator is a const table of functions in one file. It reads nothing but a
 * snapshot's image, mappings and threads (and symbols of files through sym/module.h), so it
 * works on live captures, cores and synthetic images alike.
 *
 * To add one: write NAME.c with a `const struct hx_allocator hx_allocator_NAME`, add
 * it to the list below and to Makefile.am, a test in test/unit or test/live and
 * a paragraph to heapx(1). Where its heap consists of runs of equal blocks, slabs.h does the rest.
 */
#ifndef HX_ATTACH_ALLOC_ALLOC_H
#define HX_ATTACH_ALLOC_ALLOC_H

#include "base/progress.h"
#include "model/snapshot.h"
#include "sym/module.h"

/* Words of the target that tell whether the allocator is in the middle of an update
 * (arena locks). Found before the stop, read again at once after it. */
struct hx_lock_word {
    uint64_t addr;
    uint32_t mask; /* locked when (the 32-bit word & mask) != 0 */
};

/* What guards an allocator's updates, and the code that makes them, out of which threads are led:
 * while a lock is held, and where an allocator also makes updates without one (lockless), always.
 */
struct hx_guard {
    HX_VEC(struct hx_lock_word) locks;
    hx_ranges code;
    bool lockless;
};
void hx_guard_deinit(struct hx_guard *guard);

/* Adds code that makes updates without locks. */
hx_error *hx_guard_lockless(struct hx_guard *guard, struct hx_range code);

/* Reads the live target or an image; false when a byte cannot be read. */
struct hx_peek {
    bool (*read)(void *context, uint64_t addr, void *dst, size_t len);
    void *context;
};
static inline bool hx_peek_read(const struct hx_peek *peek, uint64_t addr, void *dst, size_t len)
{
    return peek->read(peek->context, addr, dst, len);
}
/* Bytes of pages that cannot be read are zeros, as those that nobody has touched are. */
void hx_peek_pages(const struct hx_peek *peek, uint64_t addr, uint8_t *dst, size_t len);
static inline bool hx_peek_u64(const struct hx_peek *peek, uint64_t addr, uint64_t *ret)
{
    return peek->read(peek->context, addr, ret, sizeof *ret);
}
static inline bool hx_peek_u32(const struct hx_peek *peek, uint64_t addr, uint32_t *ret)
{
    return peek->read(peek->context, addr, ret, sizeof *ret);
}

/* Little-endian numbers in bytes of structures that were read. */
static inline uint64_t hx_load_u64(const uint8_t *at)
{
    uint64_t word;
    __builtin_memcpy(&word, at, sizeof word);
    return word;
}
static inline uint32_t hx_load_u32(const uint8_t *at)
{
    uint32_t half;
    __builtin_memcpy(&half, at, sizeof half);
    return half;
}

/* Where allocators are looked for: a live target, or its image. */
struct hx_alloc_target {
    const struct hx_mapping *mapping;
    size_t n_mappings;
    pid_t pid; /* 0: there is no process */
    const struct hx_peek *peek;
    hx_modules *modules;
};

enum hx_walk_verdict {
    HX_WALK_OK,   /* the self-check holds */
    HX_WALK_TORN, /* an update was under way: stop again; what was found is filled in all the same
                   */
    HX_WALK_BAD,  /* blocks are damaged: counted in losses */
};

/* `find` fills share->name, module, and as far as they are known by then version and evidence.
 *
 * `walk` is given a snapshot without a heap; it writes into it segments, graph.addr/size/n,
 * free_ranges, heap_bytes, free_bytes, overhead_bytes, notes, losses; into `share` version,
 * evidence, proven, claimed_bytes, walked_bytes, cached_bytes; and into `excluded` the ranges
 * outside the segments that are the allocator's own (glibc: main_arena, mp_) and so no roots.
 * Where the proof fails (share->proven stays false) it leaves no heap, and `evidence` says why;
 * where what looked like it turns out to be something else it makes share->name NULL, too.
 *
 * Objects are in order of address, payload without header, in columns by hx_big_array() of at most
 * HX_OBJECTS_MAX; free ranges with their headers; overhead_bytes = segments - heap_bytes -
 * free_bytes; for HX_WALK_BAD `walk` itself adds the note and the loss. No function is NULL. */
struct hx_allocator {
    const char *name;
    bool linked; /* its walk follows links from block to block: it reads a plain image faster than a
                    packed one */
    /* Is it there? *ret_state is the allocator's own, freed by `end`; NULL when it is not. */
    hx_error *(*find)(const struct hx_alloc_target *target, struct hx_allocator_share *share,
                      void **ret_state);
    /* What guards it as of now (arenas can have been added); appends. */
    hx_error *(*guard)(void *state, const struct hx_alloc_target *target, struct hx_guard *ret);
    hx_error *(*walk)(void *state, struct hx_snapshot *snapshot, struct hx_allocator_share *share,
                      hx_ranges *excluded, const struct hx_progress *progress,
                      enum hx_walk_verdict *ret);
    void (*end)(void *state);
};

/* All of them, in the order in which they are asked. */
#define HX_ALLOCATORS(X)                                                                           \
    X(pymalloc)                                                                                    \
    X(jemalloc)                                                                                    \
    X(mimalloc)                                                                                    \
    X(tcmalloc)                                                                                    \
    X(tbbmalloc)                                                                                   \
    X(mallocng)                                                                                    \
    X(oldmalloc)                                                                                   \
    X(glibc)
#define HX_ALLOCATOR_DECLARE(name) extern const struct hx_allocator hx_allocator_##name;
HX_ALLOCATORS(HX_ALLOCATOR_DECLARE)

/* For an image that lacks memory, in which no allocator was found: glibc's heap, proven by its
 * structure alone. As `walk`; what cannot be known without the missing memory is in the notes.
 * *ret_found false: there is none, and the snapshot is unchanged. */
hx_error *hx_glibc_walk_cut(struct hx_snapshot *snapshot, struct hx_allocator_share *share,
                            hx_ranges *excluded, const struct hx_progress *progress,
                            enum hx_walk_verdict *ret_verdict, bool *ret_found);

/* All allocators, NULL-terminated. All are asked; where two claim the same memory, the first whose
 * self-check holds has it. */
extern const struct hx_allocator *const hx_allocators[];

struct hx_heaps_options {
    const struct hx_allocator *const *allocators; /* as hx_allocators */
    bool cut;                                     /* the image lacks memory */
    unsigned threads;                             /* as in struct hx_scan_options */
};

/* What those allocators have that are there (heaps.c): what `walk` writes, in one heap, their
 * shares into snapshot->allocators, their names into snapshot->allocator. A heap whose segments lie
 * in a block of another one's takes the place of that block. The image is packed (hx_image_pack())
 * as soon as it may be. The verdict is the worst one. *ret_found: one was walked. */
hx_error *hx_heaps_walk(const struct hx_heaps_options *options,
                        const struct hx_alloc_target *target, struct hx_snapshot *snapshot,
                        hx_ranges *excluded, const struct hx_progress *progress,
                        enum hx_walk_verdict *ret, bool *ret_found);

#endif
