/* best.h - the first rows of an order, of all that are offered: in room for twice as many. */
#ifndef HX_STORE_OBJECTS_BEST_H
#define HX_STORE_OBJECTS_BEST_H

#include "base/vec.h"

#include <stdbool.h>
#include <stdint.h>

/* The smaller key is first; of equal ones the smaller row. */
struct hx_candidate {
    uint64_t key, row;
};
typedef HX_VEC(struct hx_candidate) hx_candidates;

static inline bool hx_candidate_is_before(const struct hx_candidate *a,
                                          const struct hx_candidate *b)
{
    return a->key != b->key ? a->key < b->key : a->row < b->row;
}

void hx_candidates_sort(hx_candidates *candidates);

struct hx_best {
    hx_candidates taken;       /* the first ones, and some that came since; owned */
    uint64_t most;             /* rows to keep */
    bool full;                 /* so many are there: */
    struct hx_candidate worst; /* none behind it is among them */
};

/* False: there is no memory. */
bool hx_best_take(struct hx_best *best, struct hx_candidate candidate);
/* Leaves the first ones, in any order. */
void hx_best_end(struct hx_best *best);

#endif
