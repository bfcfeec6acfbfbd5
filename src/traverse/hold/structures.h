/* structures.h - lists and trees: blocks of one kind that are linked to each other.
 *
 * Links that are answered join two blocks; of others one that is the only one into a block. What is
 * linked is one structure, however long: who comes to it first holds all of it (rounds.c), as a
 * word that points into the middle of a list is no claim to the half of it.
 */
#ifndef HX_TRAVERSE_HOLD_STRUCTURES_H
#define HX_TRAVERSE_HOLD_STRUCTURES_H

#include "base/progress.h"
#include "model/graph.h"

#include <stdbool.h>

/* Invariant: a number is that of some object of the structure. */
struct hx_structures {
    uint64_t *linked; /* bit for each object: it is part of a structure; NULL: there are none */
    hx_obj *of;       /* the number of its structure */
    uint64_t *tail;   /* bit for each object: another one leads to it one way, so that coming to it
                         is coming to the middle */
    struct hx_big linked_mem, of_mem, tail_mem;
};

/* By the rules `link` and `chain` in graph.evidence. */
hx_error *hx_structures_find(const struct hx_graph *graph, unsigned threads,
                             const struct hx_progress *progress, struct hx_structures *ret);
void hx_structures_deinit(struct hx_structures *structures);

#endif
