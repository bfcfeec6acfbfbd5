/* interned.h - the stacks and places of a reader: each is kept once, with a number that stays.
 *
 * Keys of events lead to stacks. Equal sequences of places are one stack, whatever their keys. A
 * stack is placed when it is first seen, because its code may be gone later. Stacks that it enters
 * come before it; where they enter each other, are not known, or follow each other too long, the
 * way ends. Of several that one stack enters the innermost known one counts, and only that is kept.
 */
#ifndef HX_RECORD_READ_INTERNED_H
#define HX_RECORD_READ_INTERNED_H

#include "base/index.h"
#include "record/read/reader.h"

#define HX_INTERNED_STACKS  ((size_t)1 << 22) /* at most; more find no room */
#define HX_INTERNED_FRAMES  ((size_t)1 << 28)
#define HX_INTERNED_CENTRES ((size_t)1 << 18)
#define HX_INTERNED_CHAIN   64 /* stacks of which each enters the next one */

struct hx_interned_key {
    uint64_t key;
    uint32_t stack;
};

/* A region, by the word that stands for it in frames. */
struct hx_interned_centre {
    uint64_t word;
    uint32_t place;
};

struct hx_interned {
    HX_VEC(struct hx_rec_place) places; /* lines are NULL but for regions */
    HX_VEC(uint32_t) stack_places;
    HX_VEC(struct hx_rec_stack) stacks;
    struct hx_index place_index, stack_index;
    HX_VEC(uint32_t) dense;              /* small keys: 1 + stack; 0: not known */
    HX_VEC(struct hx_interned_key) keys; /* large ones */
    struct hx_index key_index;
    HX_VEC(struct hx_interned_centre) centres;
    struct hx_index centre_index;
    HX_VEC(uint8_t) chain;  /* of each stack: how many it enters, one through the other */
    uint64_t text_bytes;    /* of regions */
    uint64_t lost_captures; /* frames that enter a stack which is not known */
    uint64_t lost_regions;  /* frames of regions that nobody knows */
    uint64_t seed;
};

void hx_interned_init(struct hx_interned *interned);
void hx_interned_deinit(struct hx_interned *interned);
uint64_t hx_interned_bytes(const struct hx_interned *interned);

/* The stack of a key that was seen before: the way of nearly every event. */
#define HX_INTERNED_DENSE ((uint64_t)1 << 21)
static inline uint32_t hx_interned_lookup(const struct hx_interned *interned, uint64_t key)
{
    return key < interned->dense.n && interned->dense.v[key] ? interned->dense.v[key] - 1
                                                             : HX_NO_STACK;
}

/* The stack of any key; asks the source. HX_NO_STACK: unknown, or there is no room. */
hx_error *hx_interned_find(struct hx_interned *interned, const struct hx_reader_source *source,
                           uint64_t key, uint32_t *ret);

/* A stack that came with its key. At most HX_EV_FRAMES_MAX frames. */
hx_error *hx_interned_add(struct hx_interned *interned, const struct hx_reader_source *source,
                          uint64_t key, const uint64_t *frame, size_t n, uint64_t exact, bool cut,
                          uint32_t *ret);

/* A region that came with its word. */
hx_error *hx_interned_centre(struct hx_interned *interned, const struct hx_reader_source *source,
                             const struct hx_ev_centre *event);

/* Copies the lines of a region's place; *to has none. */
hx_error *hx_interned_copy_lines(const struct hx_rec_place *from, struct hx_rec_place *to);

#endif
