/* rounds.h - in which round an object is reached, and the edges that remain: the graph of holders.
 *
 * Round 1: by firm words from globals, thread-local storage and mappings that are no stack, and by
 * those of frames that are known to be in use; 2: from stacks and registers as well; 3: through
 * sparse words as well; 4: through stray ones and, where snapshot.interior is HX_INTERIOR_KNOWN,
 * plain interior edges and those to pieces of blocks (under _ON they are firm, under _OFF there are
 * no interior ones). An edge's round is the largest of its own and its source's; it is in the graph
 * of holders when its round is that of its target.
 */
#ifndef HX_TRAVERSE_HOLD_ROUNDS_H
#define HX_TRAVERSE_HOLD_ROUNDS_H

#include "base/progress.h"
#include "traverse/hold/rules.h"
#include "traverse/hold/structures.h"

enum { HX_ROUNDS = 4 };

/* The round of an edge by itself, by its evidence (which tells its kind): 1, 3 or 4; 0: it is not
 * followed. */
struct hx_edge_rounds {
    uint8_t of[256];      /* by hx_evidence */
    uint8_t scratch[256]; /* the same of a word of a stack or a register: 2 to 4 but for pointers */
    bool interior[256];   /* the same: does it lead into its target? */
    const uint64_t *named; /* bit for each root whose edges are of round 1 anyway; NULL: none */
};
void hx_edge_rounds_init(const struct hx_hold_options *options, enum hx_interior interior,
                         struct hx_edge_rounds *ret);
/* The same of a root edge, with what its root is: 1 to 4. */
unsigned hx_root_edge_round(const struct hx_snapshot *snapshot, const struct hx_root_edge *edge,
                            const struct hx_edge_rounds *rounds);

/* How far away an object is, and whose it is: from the highest bit on the turn, the distance and
 * the order of the root; HX_UNREACHED: not reached. The smallest wins. A stage has two turns, 2 *
 * stage and one more: in the second those objects are reached that are turned away from structures
 * in the first. Stages are the rounds, but for the last one, which has two: plain interior words
 * and those to pieces of blocks, then stray ones. */
typedef uint64_t hx_nearness;
#define HX_UNREACHED UINT64_MAX
enum { HX_ORDER_BITS = 28, HX_DISTANCE_BITS = 32 };

static inline hx_nearness hx_nearness_make(uint64_t turn, uint64_t distance, uint64_t order)
{
    return (turn << HX_DISTANCE_BITS | distance) << HX_ORDER_BITS | order;
}

/* One step on, in this turn. */
static inline hx_nearness hx_nearness_next(hx_nearness from, uint64_t turn)
{
    const hx_nearness step = UINT64_C(1) << HX_ORDER_BITS, turns = hx_nearness_make(1, 0, 0);
    return (from + step) % turns + turn * turns;
}

static inline uint64_t hx_nearness_distance(hx_nearness near)
{
    return near >> HX_ORDER_BITS & UINT32_MAX;
}

static inline uint32_t hx_nearness_order(hx_nearness near)
{
    return near & ((UINT32_C(1) << HX_ORDER_BITS) - 1);
}

static inline unsigned hx_nearness_turn(hx_nearness near)
{
    return (unsigned)(near >> (HX_ORDER_BITS + HX_DISTANCE_BITS));
}

enum { HX_STAGE_STRAY = HX_ROUNDS + 1, HX_STAGES = HX_STAGE_STRAY };

/* Fills graph.round and, for each object, *ret_nearness (n of them): `order` tells the order of
 * each root, below 2^HX_ORDER_BITS. Needs edges and their evidence.
 * `named`: edges of named roots count, in round 1 (for bins); else those count that were there
 * anyway. */
hx_error *hx_rounds_nearest(struct hx_snapshot *snapshot, const struct hx_hold_options *options,
                            const uint32_t *order, const struct hx_structures *structures,
                            bool named, unsigned threads, const struct hx_progress *progress,
                            struct hx_big *ret_nearness);
/* graph.round alone. */
hx_error *hx_rounds_find(struct hx_snapshot *snapshot, const struct hx_hold_options *options,
                         bool named, unsigned threads, const struct hx_progress *progress);

/* Is an edge in the graph of holders? All are of what is not reached. */
static inline bool hx_edge_is_chosen(const struct hx_graph *graph,
                                     const struct hx_edge_rounds *rounds, hx_obj from, hx_eidx e)
{
    unsigned source = graph->round[from], round = rounds->of[graph->evidence[e]];
    return !source || (round && round < source ? source : round) ==
                          graph->round[hx_edge_target(graph->edge[e])];
}

/* Sets those edges aside that are not in the graph of holders, by graph.round: their kind becomes
 * HX_EDGE_ASIDE, so that nobody follows them. Edges of named roots stay. */
void hx_edges_choose(struct hx_snapshot *snapshot, const struct hx_hold_options *options,
                     unsigned threads);
/* Finds rounds and then chooses, where there are holders and words were judged; else all edges
 * stay. */
hx_error *hx_choose(struct hx_snapshot *snapshot, const struct hx_hold_options *options,
                    unsigned threads, const struct hx_progress *progress);
/* Chooses where rounds were found with `named`. */
hx_error *hx_edges_choose_named(struct hx_snapshot *snapshot, const struct hx_hold_options *options,
                                unsigned threads);
/* All edges are as they were. */
void hx_edges_restore(struct hx_snapshot *snapshot, unsigned threads);

#endif
