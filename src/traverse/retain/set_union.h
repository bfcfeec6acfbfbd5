/* set_union.h - sets that flow together in many places at once.
 *
 * Where small sets meet they are united at once; what is larger waits in a pile, and is united
 * when the place is asked for. So a place where a hundred thousand roots meet makes one set and
 * not a hundred thousand, each larger by one element. Used by retain.c only.
 */
#ifndef HX_TRAVERSE_RETAIN_SET_UNION_H
#define HX_TRAVERSE_RETAIN_SET_UNION_H

#include "base/vec.h"
#include "traverse/retain/retset.h"

/* A place is an hx_set that begins as HX_SET_NONE: a set, or with its highest bit a pile. Piles
 * hold at most one number for each set that was given. */
typedef HX_VEC(hx_set) hx_pile;
#define HX_GATHER_PILE ((hx_set)1 << 31)

struct hx_gather {
    hx_sets *sets;
    size_t small; /* sets whose elements together are at most so many are united at once */
    HX_VEC(hx_pile) piles;
    HX_VEC(uint32_t) empty; /* piles that are not in use */
    bool failed;            /* out of memory: the results are too small */
};

/* Begins without a place. */
void hx_gather_init(struct hx_gather *gather, hx_sets *sets);

/* What the next two do where it is not simple. */
void hx_gather_meet(struct hx_gather *gather, hx_set *place, hx_set set);
hx_set hx_gather_unite(struct hx_gather *gather, hx_set *place);

/* A set comes to a place. */
static inline void hx_gather_give(struct hx_gather *gather, hx_set *place, hx_set set)
{
    hx_set now = *place;
    if (now == HX_SET_NONE)
        *place = set;
    else if (now != set && now != HX_SET_MANY && set != HX_SET_NONE)
        hx_gather_meet(gather, place, set);
}

/* All that came there; from here on the place is that set. */
static inline hx_set hx_gather_take(struct hx_gather *gather, hx_set *place)
{
    return *place & HX_GATHER_PILE ? hx_gather_unite(gather, place) : *place;
}

void hx_gather_deinit(struct hx_gather *gather);

/* Are both plain sets, and small enough to be united at once? */
bool hx_gather_are_small(const struct hx_gather *gather, hx_set a, hx_set b);

#endif
