/* set_union.h - unions of sets, computed at once or when they are asked for.
 *
 * Small sets are united at once. Larger ones are kept in a list, and united when the result is
 * needed. So a component that a hundred thousand roots lead to makes one set, and not a hundred
 * thousand, each larger by one element. Used by retain.c only.
 */
#ifndef HX_TRAVERSE_RETAIN_SET_UNION_H
#define HX_TRAVERSE_RETAIN_SET_UNION_H

#include "base/vec.h"
#include "traverse/retain/retset.h"

/* A union is an hx_set that begins as HX_SET_NONE: a set or, when its highest bit is set, the
 * number of a list of operands. A list holds at most one number for each set that was added. */
typedef HX_VEC(hx_set) hx_operands;
#define HX_SET_UNION_DEFERRED ((hx_set)1 << 31)

struct hx_set_unions {
    hx_sets *sets;
    size_t small; /* sets whose elements together are at most so many are united at once */
    HX_VEC(hx_operands) lists;
    HX_VEC(uint32_t) unused; /* numbers of lists */
    bool failed;             /* out of memory: the results are too small */
};

/* Begins without a union. */
void hx_set_unions_init(struct hx_set_unions *unions, hx_sets *sets);

/* The slow paths of the next two. */
void hx_set_union_add_other(struct hx_set_unions *unions, hx_set *into, hx_set set);
hx_set hx_set_union_resolve(struct hx_set_unions *unions, hx_set *into);

static inline void hx_set_union_add(struct hx_set_unions *unions, hx_set *into, hx_set set)
{
    hx_set now = *into;
    if (now == HX_SET_NONE)
        *into = set;
    else if (now != set && now != HX_SET_MANY && set != HX_SET_NONE)
        hx_set_union_add_other(unions, into, set);
}

/* The union of all that was added; *into is that set from here on. */
static inline hx_set hx_set_union_result(struct hx_set_unions *unions, hx_set *into)
{
    return *into & HX_SET_UNION_DEFERRED ? hx_set_union_resolve(unions, into) : *into;
}

void hx_set_unions_deinit(struct hx_set_unions *unions);

#endif
