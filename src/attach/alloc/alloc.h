/* alloc.h - what an allocator looks like from outside.
 *
 * An allocator is a const table of functions in one file. It reads nothing but a
 * snapshot's image, mappings and threads (and symbols of files through sym/module.h), so it
 * works on live captures, cores and synthetic images alike.
 *
 * To add one: write NAME.c with a `const struct hx_allocator hx_allocator_NAME`, add
 * it to the list in alloc.c and to Makefile.am, a test in test/unit or test/live and
 * a paragraph to heapx(1).
 */
#ifndef HX_ATTACH_ALLOC_ALLOC_H
#define HX_ATTACH_ALLOC_ALLOC_H

#include "base/progress.h"
#include "model/snapshot.h"

/* Words of the target that tell whether the allocator is in the middle of an update
 * (arena locks). Found before the stop, read again at once after it. */
struct hx_lock_word {
    uint64_t addr;
    uint32_t mask; /* locked when (the 32-bit word & mask) != 0 */
};
typedef HX_VEC(struct hx_lock_word) hx_lock_words;

/* Reads the live target or an image; false when a byte cannot be read. */
struct hx_peek {
    bool (*read)(void *context, uint64_t addr, void *dst, size_t len);
    void *context;
};

enum hx_walk_verdict {
    HX_WALK_OK,   /* the self-check holds */
    HX_WALK_TORN, /* an update was under way: stop again; what was found is filled in all the same
                   */
    HX_WALK_BAD,  /* blocks are damaged: counted in losses */
};

/* Writes into snapshot: segments, graph.addr/size/n, free_ranges, heap_bytes, free_bytes,
 * overhead_bytes, allocator, notes, losses; and into `excluded` the ranges outside the
 * segments that are the allocator's own (glibc: main_arena, mp_) and so no roots.
 *
 * Objects are in order of address, payload without header, in columns by hx_big_array() of at most
 * HX_OBJECTS_MAX; free ranges with their headers; overhead_bytes = segments - heap_bytes -
 * free_bytes; `allocator` is freed and set anew; for HX_WALK_BAD `walk` itself adds the note and
 * the loss. No function is NULL. Only the first allocator that is found is walked. */
struct hx_allocator {
    const char *name;
    /* Is it there? *ret_state is the allocator's own, freed by `end`; NULL when it is not. */
    hx_error *(*find)(const struct hx_mapping *mapping, size_t n_mappings, pid_t pid,
                      const struct hx_peek *peek, void **ret_state);
    /* The lock words as of now (arenas can have been added); appends. */
    hx_error *(*locks)(void *state, const struct hx_peek *peek, hx_lock_words *ret);
    hx_error *(*walk)(void *state, struct hx_snapshot *snapshot, hx_ranges *excluded,
                      const struct hx_progress *progress, enum hx_walk_verdict *ret);
    void (*end)(void *state);
};

extern const struct hx_allocator hx_allocator_glibc;

/* For an image that lacks memory, in which no allocator was found: glibc's heap, proven by its
 * structure alone. As `walk`; what cannot be known without the missing memory is in the notes.
 * *ret_found false: there is none, and the snapshot is unchanged. */
hx_error *hx_glibc_walk_cut(struct hx_snapshot *snapshot, hx_ranges *excluded,
                            const struct hx_progress *progress, enum hx_walk_verdict *ret_verdict,
                            bool *ret_found);

/* All allocators, NULL-terminated, in the order in which they are tried. */
extern const struct hx_allocator *const hx_allocators[];

#endif
