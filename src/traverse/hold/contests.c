/* contests.c - edges that cross from what one holds to what another holds.
 *
 * A few of them say nothing: an iterator, a leftover. Where they lead to a good part of the blocks
 * of one shape that somebody holds, who they come from leads there, too, and to all that lies
 * behind. A block into which several holders point at different places is no one's: a slab, an
 * arena, a pool; one that nearly all pointers come to from what one holds is that one's, whoever is
 * nearest by another word.
 */
#include "traverse/hold/contests.h"

#include "base/bits.h"
#include "base/cleanup.h"
#include "base/index.h"
#include "base/pairs.h"
#include "base/parallel.h"
#include "base/vote.h"

#include <stdlib.h>

#define AHEAD      16 /* edges */
#define CHECK_MASK 0xffff
#define FEW        32768 /* objects: below this a second thread costs more than it brings */
#define FEW_PLACES 8     /* crossing edges into a shape: fewer are no contest */

/* Percent. */
enum {
    MANY_PLACES = 5, /* crossing edges, of the blocks of that shape that are held */
    ONE_SERVED = 80  /* pointers into a block from one holder: it serves nobody else */
};

#define FEW_POINTERS 4 /* into a block: fewer say nothing of whom it serves */
#define PASSES       8 /* from pools whose holder is sure to those that they lead to */

/* An edge from what `other` holds. */
struct crossing {
    uint32_t other;
    hx_obj to;
    uint32_t claim; /* its number in contests.claim */
};

/* Into a block that may serve several. */
struct pointer {
    hx_obj from, to;
};

/* What a worker finds in its part of the objects. */
struct part {
    HX_VEC(struct crossing) edges;   /* to what somebody else holds */
    HX_VEC(struct pointer) pointers; /* until pools are settled; stray ones say nothing */
    uint64_t *held;                  /* blocks by number in contests.held */
    bool failed;
};

struct into {
    uint32_t from; /* the holder that most interior pointers come from */
    uint32_t n;    /* how many come, of those that count */
    uint32_t all;
    int32_t votes; /* for that one */
};

/* What a holder leads to of another one's blocks of a shape. */
struct claim {
    uint32_t edges; /* UINT32_MAX: or more */
    uint32_t held;  /* number of those blocks, HX_NO_PAIR: too few edges */
};

struct contests {
    struct hx_contest_work *work;
    const struct hx_graph *graph;
    unsigned threads;
    struct part *part;      /* of each thread: their order is that of the objects */
    struct hx_pairs claims; /* number of a claim, by both holders and the shape */
    HX_VEC(struct claim) claim;
    struct hx_pairs held; /* number of a holder and a shape that many edges lead to, */
    uint32_t n_held;
    uint64_t *holders; /* and bit for each such holder */
    uint64_t *rooted;  /* bit for each object that a variable points to */
    uint64_t *sure;    /* for each whose holder is sure, */
    uint64_t *settled; /* for each block of which it is known whom it serves, */
    uint64_t *several; /* and for each of these that serves several */
    bool moved;        /* some have another holder than the nearest */
    struct into *into; /* for each object */
    uint32_t *tight;   /* edges by which the object is as near as it is; NULL: nobody has asked */
    hx_obj *queue, *contested;
    size_t n_contested;
    struct hx_big into_mem, tight_mem, queue_mem, contested_mem;
};

static uint32_t shape_of(const struct hx_graph *graph, hx_obj object)
{
    return graph->shape ? graph->shape[object] : HX_NO_SHAPE;
}

static uint64_t held_key(const struct contests *contests, hx_obj object)
{
    return hx_pair_key(contests->work->holders->of[object], shape_of(contests->graph, object));
}

static inline bool edge_is_chosen(const struct contests *contests, hx_obj from, hx_eidx e)
{
    return hx_edge_is_chosen(contests->graph, contests->work->rounds, from, e);
}

static inline bool edge_is_stray(const struct contests *contests, hx_eidx e)
{
    hx_evidence evidence = contests->graph->evidence[e];
    return contests->work->rounds->of[evidence] == HX_ROUNDS &&
           !contests->work->rounds->interior[evidence];
}

/* By the rules, whether they are on or not. */
static bool is_stray(hx_evidence evidence)
{
    return hx_rule_rank(HX_EVIDENCE_RULE(evidence)) == HX_RANK_STRAY;
}

/* The objects that a worker looks at. */
static void part_of(const struct contests *contests, unsigned i, hx_obj *from, hx_obj *to)
{
    *from = (hx_obj)((uint64_t)contests->graph->n * i / contests->threads);
    *to = (hx_obj)((uint64_t)contests->graph->n * (i + 1) / contests->threads);
}

static hx_error *each_part(struct contests *contests, void (*look)(void *context, unsigned i))
{
    hx_parallel(contests->threads, look, contests);
    for (unsigned i = 0; i < contests->threads; i++)
        HX_NEED(!contests->part[i].failed);
    return hx_progress_cancelled(contests->work->progress) ? hx_error_cancelled("holders") : NULL;
}

/* --- edges that cross ---------------------------------------------------------------------- */

static void find_crossings(void *context, unsigned i)
{
    struct contests *contests = context;
    const struct hx_graph *graph = contests->graph;
    const uint32_t *of = contests->work->holders->of;
    struct part *part = &contests->part[i];
    hx_obj from, to;
    part_of(contests, i, &from, &to);
    const hx_eidx end = graph->fwd[to];
    for (hx_obj k = from; k < to; k++) {
        if ((k & CHECK_MASK) == 0 && hx_progress_cancelled(contests->work->progress))
            return;
        for (hx_eidx e = graph->fwd[k]; e < graph->fwd[(size_t)k + 1]; e++) {
            struct crossing crossing = {of[k], hx_edge_target(graph->edge[e]), 0};
            if (e + AHEAD < end)
                __builtin_prefetch(&of[hx_edge_target(graph->edge[e + AHEAD])]);
            if (!of[k] || !of[crossing.to])
                continue;
            if (of[crossing.to] != of[k] && !edge_is_stray(contests, e) &&
                edge_is_chosen(contests, k, e))
                part->failed |= !hx_vec_push(&part->edges, crossing);
            if (!contests->settled && contests->work->rounds->interior[graph->evidence[e]] &&
                crossing.to != k && graph->round[crossing.to] == HX_ROUNDS &&
                !is_stray(graph->evidence[e]))
                part->failed |= !hx_vec_push(&part->pointers, ((struct pointer){k, crossing.to}));
        }
    }
}

static hx_error *count_crossing(struct contests *contests, struct crossing *crossing)
{
    uint64_t key = hx_mix(crossing->other, held_key(contests, crossing->to));
    uint32_t *number;
    HX_TRY(hx_pairs_at(&contests->claims, key, &number));
    if (*number == HX_NO_PAIR) {
        *number = (uint32_t)contests->claim.n;
        HX_NEED(hx_vec_push(&contests->claim, ((struct claim){0, HX_NO_PAIR})));
    }
    crossing->claim = *number;
    struct claim *claim = &contests->claim.v[*number];
    claim->edges += claim->edges < UINT32_MAX;
    if (claim->edges != FEW_PLACES)
        return NULL;
    HX_TRY(hx_pairs_at(&contests->held, held_key(contests, crossing->to), &number));
    if (*number == HX_NO_PAIR)
        *number = contests->n_held++;
    claim->held = *number;
    hx_bit_set(contests->holders, contests->work->holders->of[crossing->to]);
    return NULL;
}

static hx_error *count_crossings(struct contests *contests)
{
    contests->holders = calloc(contests->work->holders->n / 64 + 1, sizeof *contests->holders);
    HX_NEED(contests->holders);
    for (unsigned i = 0; i < contests->threads; i++)
        for (size_t k = 0; k < contests->part[i].edges.n; k++)
            HX_TRY(count_crossing(contests, &contests->part[i].edges.v[k]));
    return NULL;
}

static void count_held(void *context, unsigned i)
{
    struct contests *contests = context;
    const uint32_t *of = contests->work->holders->of;
    struct part *part = &contests->part[i];
    hx_obj from, to;
    part_of(contests, i, &from, &to);
    part->held = calloc(contests->n_held, sizeof *part->held);
    part->failed = !part->held;
    for (hx_obj k = from; k < to && part->held; k++) {
        uint32_t number = hx_bit(contests->holders, of[k])
                              ? hx_pairs_find(&contests->held, held_key(contests, k))
                              : HX_NO_PAIR;
        if (number != HX_NO_PAIR)
            part->held[number]++;
    }
}

static bool is_contest(const struct contests *contests, const struct crossing *crossing)
{
    const struct claim *claim = &contests->claim.v[crossing->claim];
    uint64_t held = 0;
    if (claim->held == HX_NO_PAIR)
        return false;
    for (unsigned i = 0; i < contests->threads; i++)
        held += contests->part[i].held[claim->held];
    return (uint64_t)claim->edges * 100 >= held * MANY_PLACES;
}

/* --- who else ----------------------------------------------------------------------------- */

/* What a second holder comes to, and all that this leads to within what the first one holds. */
static void spread_contests(struct contests *contests)
{
    const struct hx_graph *graph = contests->graph;
    struct hx_holders *holders = contests->work->holders;
    hx_obj *queue = contests->contested;
    size_t tail = 0;
    for (unsigned i = 0; i < contests->threads; i++)
        for (size_t k = 0; k < contests->part[i].edges.n; k++) {
            const struct crossing *crossing = &contests->part[i].edges.v[k];
            if (holders->contested[crossing->to] || !is_contest(contests, crossing))
                continue;
            holders->contested[crossing->to] = crossing->other;
            queue[tail++] = crossing->to;
        }
    for (size_t head = 0; head < tail; head++) {
        hx_obj i = queue[head];
        for (hx_eidx e = graph->fwd[i]; e < graph->fwd[(size_t)i + 1]; e++) {
            hx_obj to = hx_edge_target(graph->edge[e]);
            if (holders->contested[to] || holders->of[to] != holders->of[i] ||
                !edge_is_chosen(contests, i, e))
                continue;
            holders->contested[to] = holders->contested[i];
            queue[tail++] = to;
        }
    }
    contests->n_contested = tail;
}

static hx_error *find_contested(struct contests *contests)
{
    HX_TRY(count_crossings(contests));
    if (!contests->n_held)
        return NULL;
    HX_TRY(each_part(contests, count_held));
    spread_contests(contests);
    return NULL;
}

/* --- blocks that serve several ------------------------------------------------------------ */

/* Those into blocks of whom it is not known whom they serve; sure: only from what holders are sure
 * of. */
static void count_pointers(struct contests *contests, bool sure)
{
    const uint32_t *of = contests->work->holders->of;
    for (unsigned i = 0; i < contests->threads; i++)
        for (size_t k = 0; k < contests->part[i].pointers.n; k++)
            contests->into[contests->part[i].pointers.v[k].to] = (struct into){.all = 0};
    for (unsigned i = 0; i < contests->threads; i++)
        for (size_t k = 0; k < contests->part[i].pointers.n; k++) {
            const struct pointer *pointer = &contests->part[i].pointers.v[k];
            struct into *into = &contests->into[pointer->to];
            into->all++;
            if (hx_bit(contests->settled, pointer->to) ||
                (sure && !hx_bit(contests->sure, pointer->from)))
                continue;
            into->n++;
            HX_VOTE(into->from, into->votes, of[pointer->from]);
        }
}

static bool serves_several(const struct into *into)
{
    return (uint64_t)into->votes * 100 < (uint64_t)into->n * (2 * ONE_SERVED - 100);
}

/* What earlier rounds reach is sure, and what variables point to is their own, however many of
 * those that it holds point back. */
static hx_error *begin_pools(struct contests *contests)
{
    const struct hx_snapshot *snapshot = contests->work->snapshot;
    const size_t words = (size_t)contests->graph->n / 64 + 1;
    HX_NEED(contests->rooted = calloc(words, sizeof *contests->rooted));
    HX_NEED(contests->sure = calloc(words, sizeof *contests->sure));
    HX_NEED(contests->settled = calloc(words, sizeof *contests->settled));
    HX_NEED(contests->several = calloc(words, sizeof *contests->several));
    for (hx_obj i = 0; i < contests->graph->n; i++)
        if (contests->graph->round[i] && contests->graph->round[i] < HX_ROUNDS)
            hx_bit_set(contests->sure, i);
    for (size_t i = 0; i < snapshot->root_edges.n; i++) {
        const struct hx_root_edge *edge = &snapshot->root_edges.v[i];
        const struct hx_root *root = &snapshot->roots.v[edge->root];
        if (!hx_root_is_scratch(root) && root->kind != HX_ROOT_NAMED && !is_stray(edge->evidence))
            hx_bit_set(contests->rooted, edge->target);
    }
    return NULL;
}

/* Is the target as near as it is by this edge? */
static bool edge_is_tight(const struct contests *contests, hx_obj from, hx_eidx e)
{
    hx_obj to = hx_edge_target(contests->graph->edge[e]);
    const hx_nearness *near = contests->work->near;
    return near[to] != HX_UNREACHED &&
           near[to] == hx_nearness_next(near[from], hx_nearness_turn(near[to])) &&
           edge_is_chosen(contests, from, e);
}

/* Of all objects, by how many edges they are as near as they are. */
static hx_error *count_tight(struct contests *contests)
{
    const struct hx_graph *graph = contests->graph;
    HX_TRY(hx_big_array(contests->tight, graph->n));
    for (hx_obj i = 0; i < graph->n; i++)
        for (hx_eidx e = graph->fwd[i]; e < graph->fwd[(size_t)i + 1]; e++)
            if (edge_is_tight(contests, i, e))
                contests->tight[hx_edge_target(graph->edge[e])]++;
    return NULL;
}

static void give(struct contests *contests, hx_obj object, uint32_t holder)
{
    uint32_t *of = &contests->work->holders->of[object];
    contests->moved |= *of != holder;
    *of = holder;
    hx_bit_set(contests->sure, object);
}

/* From an object of the queue on, or back again: by so many edges fewer, or more, are those as near
 * as they are that it leads to. Forward: those that only objects of the queue lead to join it, but
 * for `fixed` ones. */
static size_t step_tight(struct contests *contests, const uint64_t *fixed, hx_obj from,
                         bool forward, size_t tail)
{
    const struct hx_graph *graph = contests->graph;
    const uint32_t *of = contests->work->holders->of;
    for (hx_eidx e = graph->fwd[from]; e < graph->fwd[(size_t)from + 1]; e++) {
        const hx_obj to = hx_edge_target(graph->edge[e]);
        if (hx_bit(fixed, to) || !edge_is_tight(contests, from, e))
            continue;
        contests->tight[to] += forward ? -1u : 1;
        if (!forward || contests->tight[to])
            continue;
        give(contests, to, of[from]);
        contests->queue[tail++] = to;
    }
    return tail;
}

/* What only blocks of the queue, which are `fixed`, lead to gets a holder as they have. */
static hx_error *spread_holder(struct contests *contests, const uint64_t *fixed, size_t tail)
{
    if (!contests->tight)
        HX_TRY(count_tight(contests));
    for (size_t head = 0; head < tail; head++)
        tail = step_tight(contests, fixed, contests->queue[head], true, tail);
    for (size_t head = 0; head < tail; head++)
        step_tight(contests, fixed, contests->queue[head], false, tail);
    return NULL;
}

/* Blocks that serve one holder go to that one. *ret: of some more it is known. */
static hx_error *settle_pools(struct contests *contests, bool sure, bool *ret)
{
    const uint32_t *of = contests->work->holders->of;
    size_t tail = 0;
    *ret = false;
    count_pointers(contests, sure);
    for (unsigned i = 0; i < contests->threads; i++)
        for (size_t k = 0; k < contests->part[i].pointers.n; k++) {
            const hx_obj to = contests->part[i].pointers.v[k].to;
            const struct into *into = &contests->into[to];
            if (into->n < FEW_POINTERS || into->n * (uint64_t)2 < into->all ||
                hx_bit(contests->settled, to))
                continue;
            *ret = true;
            hx_bit_set(contests->settled, to);
            if (serves_several(into)) {
                hx_bit_set(contests->several, to);
                continue;
            }
            give(contests, to, hx_bit(contests->rooted, to) ? of[to] : into->from);
            contests->queue[tail++] = to;
        }
    return tail ? spread_holder(contests, contests->settled, tail) : NULL;
}

/* What crosses, once pools have holders: first those that what is sure leads to, and so on. */
static hx_error *find_crossings_and_pools(struct contests *contests)
{
    bool more = false;
    HX_TRY(each_part(contests, find_crossings));
    for (unsigned i = 0; i < contests->threads; i++)
        more |= contests->part[i].pointers.n > 0;
    if (!more)
        return NULL;
    HX_TRY(begin_pools(contests));
    for (unsigned pass = 0; more && pass < PASSES; pass++)
        HX_TRY(settle_pools(contests, true, &more));
    HX_TRY(settle_pools(contests, false, &more));
    for (unsigned i = 0; contests->moved && i < contests->threads; i++)
        contests->part[i].edges.n = 0;
    return contests->moved ? each_part(contests, find_crossings) : NULL;
}

/* Blocks that serve several go to nobody, and what only these lead to. */
static hx_error *leave_to_nobody(struct contests *contests)
{
    size_t tail = 0;
    for (size_t w = 0; contests->several && w < (size_t)contests->graph->n / 64 + 1; w++)
        for (uint64_t left = contests->several[w]; left; left &= left - 1) {
            const hx_obj i = (hx_obj)(w * 64 + (unsigned)__builtin_ctzll(left));
            contests->work->holders->of[i] = HX_HOLDER_MIXED;
            contests->queue[tail++] = i;
        }
    return tail ? spread_holder(contests, contests->several, tail) : NULL;
}

static int compare_contests(const void *a, const void *b)
{
    const struct hx_contest *x = a, *y = b;
    if (x->bytes != y->bytes)
        return x->bytes > y->bytes ? -1 : 1;
    if (x->holder != y->holder)
        return x->holder < y->holder ? -1 : 1;
    return (x->other > y->other) - (x->other < y->other);
}

static hx_error *sum_contests(struct contests *contests)
{
    HX_CLEANUP(hx_pairs_free) struct hx_pairs rows = {0};
    const struct hx_graph *graph = contests->graph;
    struct hx_holders *holders = contests->work->holders;
    HX_VEC(struct hx_contest) list = {0};
    hx_error *err = NULL;
    for (size_t k = 0; k < contests->n_contested && !err; k++) {
        hx_obj i = contests->contested[k];
        uint32_t holder = holders->of[i], other = holders->contested[i], *row;
        if (holder <= HX_HOLDER_MIXED)
            continue;
        err = hx_pairs_at(&rows, hx_pair_key(holder, other), &row);
        if (!err && *row == HX_NO_PAIR) {
            *row = (uint32_t)list.n;
            if (!hx_vec_push(&list, ((struct hx_contest){.holder = holder, .other = other})))
                err = hx_error_nomem();
        }
        if (err)
            break;
        list.v[*row].bytes += graph->size[i];
        list.v[*row].objects++;
        holders->holder[holder].contested_bytes += graph->size[i];
    }
    if (list.n)
        qsort(list.v, list.n, sizeof *list.v, compare_contests);
    holders->contest = list.v;
    holders->n_contests = list.n;
    return err;
}

static hx_error *find_contests(struct contests *contests)
{
    const hx_obj n = contests->graph->n;
    HX_NEED(contests->part);
    HX_TRY(hx_big_array(contests->into, n));
    HX_TRY(hx_big_array(contests->queue, n));
    HX_TRY(hx_big_array(contests->contested, n));
    HX_TRY(hx_big_array(contests->work->holders->contested, n));
    HX_TRY(find_crossings_and_pools(contests));
    HX_TRY(find_contested(contests));
    HX_TRY(leave_to_nobody(contests));
    return sum_contests(contests);
}

hx_error *hx_contests_find(struct hx_contest_work *work)
{
    struct contests contests = {.work = work, .graph = &work->snapshot->graph};
    if (!contests.graph->n)
        return NULL;
    contests.threads = contests.graph->n < FEW ? 1 : hx_threads(work->threads);
    contests.part = calloc(contests.threads, sizeof *contests.part);
    hx_error *err = find_contests(&contests);
    for (unsigned i = 0; contests.part && i < contests.threads; i++) {
        hx_vec_free(&contests.part[i].edges);
        hx_vec_free(&contests.part[i].pointers);
        free(contests.part[i].held);
    }
    free(contests.part);
    free(contests.holders);
    free(contests.rooted);
    free(contests.sure);
    free(contests.settled);
    free(contests.several);
    hx_pairs_free(&contests.claims);
    hx_vec_free(&contests.claim);
    hx_pairs_free(&contests.held);
    hx_big_free(&contests.into_mem);
    hx_big_free(&contests.tight_mem);
    hx_big_free(&contests.queue_mem);
    hx_big_free(&contests.contested_mem);
    return err;
}
