/* contests.c - edges that cross from what one holds to what another holds.
 *
 * A few of them say nothing: an iterator, a leftover. Where they lead to a good part of the blocks
 * of one shape that somebody holds, who they come from leads there, too, and to all that lies
 * behind. A block into which several holders point at different places is no one's: a slab, an
 * arena, a pool.
 */
#include "traverse/hold/contests.h"

#include "base/cleanup.h"
#include "base/index.h"
#include "base/pairs.h"

#include <stdlib.h>

#define FEW_PLACES 8 /* crossing edges into a shape: fewer are no contest */

/* Percent. */
enum {
    MANY_PLACES = 5, /* crossing edges, of the blocks of that shape that are held */
    ONE_SERVED = 80  /* pointers into a block from one holder: it serves nobody else */
};

#define FEW_POINTERS 4 /* into a block: fewer say nothing of whom it serves */

struct contests {
    struct hx_contest_work *work;
    const struct hx_graph *graph;
    struct hx_pairs held, crossing; /* how many blocks of a holder and a shape; how many edges from
                                       another one into these */
    uint32_t *into_from; /* for each object: the holder that most interior pointers come from, */
    uint32_t *into;      /* how many come, */
    int32_t *into_votes; /* and the votes for that one (Boyer and Moore) */
    uint32_t *tight;     /* edges by which the object is as near as it is */
    hx_obj *queue;
    struct hx_big into_from_mem, into_mem, into_votes_mem, tight_mem, queue_mem;
};

static uint32_t shape_of(const struct hx_graph *graph, hx_obj object)
{
    return graph->shape ? graph->shape[object] : HX_NO_SHAPE;
}

static uint64_t held_key(const struct contests *contests, hx_obj object)
{
    return hx_pair_key(contests->work->holders->of[object], shape_of(contests->graph, object));
}

static uint64_t crossing_key(const struct contests *contests, uint32_t other, hx_obj object)
{
    return hx_mix(other, held_key(contests, object));
}

static hx_error *add_one(struct hx_pairs *counts, uint64_t key)
{
    uint32_t *count;
    HX_TRY(hx_pairs_at(counts, key, &count));
    if (*count == HX_NO_PAIR)
        *count = 1;
    else if (*count < HX_NO_PAIR - 1)
        ++*count;
    return NULL;
}

static inline bool edge_is_chosen(const struct contests *contests, hx_obj from, hx_eidx e)
{
    return hx_edge_is_chosen(contests->graph, contests->work->rounds, from, e);
}

/* Does it lead from what one holds to what another holds, and not by a stray word? */
static inline bool edge_crosses(const struct contests *contests, hx_obj from, hx_eidx e)
{
    const uint32_t *of = contests->work->holders->of;
    hx_evidence evidence = contests->graph->evidence[e];
    hx_obj to = hx_edge_target(contests->graph->edge[e]);
    bool stray = contests->work->rounds->of[evidence] == HX_ROUNDS &&
                 HX_EVIDENCE_KIND(evidence) != HX_EDGE_INTERIOR;
    return of[from] && of[to] && of[to] != of[from] && !stray && edge_is_chosen(contests, from, e);
}

/* --- counting ----------------------------------------------------------------------------- */

static hx_error *count_crossings(struct contests *contests, bool *ret_any)
{
    const struct hx_graph *graph = contests->graph;
    const uint32_t *of = contests->work->holders->of;
    for (hx_obj i = 0; i < graph->n; i++) {
        if ((i & 0xffff) == 0 && hx_progress_cancelled(contests->work->progress))
            return hx_error_cancelled("holders");
        for (hx_eidx e = graph->fwd[i]; e < graph->fwd[i + 1]; e++) {
            hx_obj to = hx_edge_target(graph->edge[e]);
            if (edge_crosses(contests, i, e)) {
                *ret_any = true;
                HX_TRY(add_one(&contests->crossing, crossing_key(contests, of[i], to)));
            }
            if (HX_EVIDENCE_KIND(graph->evidence[e]) == HX_EDGE_INTERIOR && to != i && of[i]) {
                int32_t *votes = &contests->into_votes[to];
                contests->into[to]++;
                if (*votes == 0)
                    contests->into_from[to] = of[i];
                *votes += contests->into_from[to] == of[i] ? 1 : -1;
            }
        }
    }
    for (hx_obj i = 0; *ret_any && i < graph->n; i++)
        HX_TRY(add_one(&contests->held, held_key(contests, i)));
    return NULL;
}

static bool is_contest(const struct contests *contests, uint32_t other, hx_obj object)
{
    uint32_t edges = hx_pairs_find(&contests->crossing, crossing_key(contests, other, object));
    uint32_t held = hx_pairs_find(&contests->held, held_key(contests, object));
    return edges != HX_NO_PAIR && held != HX_NO_PAIR && edges >= FEW_PLACES &&
           (uint64_t)edges * 100 >= (uint64_t)held * MANY_PLACES;
}

/* --- who else ----------------------------------------------------------------------------- */

/* What a second holder comes to, and all that this leads to within what the first one holds. */
static void spread_contest(struct contests *contests)
{
    const struct hx_graph *graph = contests->graph;
    struct hx_holders *holders = contests->work->holders;
    size_t head = 0, tail = 0;
    for (hx_obj i = 0; i < graph->n; i++)
        for (hx_eidx e = graph->fwd[i]; e < graph->fwd[i + 1]; e++) {
            hx_obj to = hx_edge_target(graph->edge[e]);
            if (holders->contested[to] || !edge_crosses(contests, i, e) ||
                !is_contest(contests, holders->of[i], to))
                continue;
            holders->contested[to] = holders->of[i];
            contests->queue[tail++] = to;
        }
    while (head < tail) {
        hx_obj i = contests->queue[head++];
        for (hx_eidx e = graph->fwd[i]; e < graph->fwd[i + 1]; e++) {
            hx_obj to = hx_edge_target(graph->edge[e]);
            if (holders->contested[to] || holders->of[to] != holders->of[i] ||
                !edge_is_chosen(contests, i, e))
                continue;
            holders->contested[to] = holders->contested[i];
            contests->queue[tail++] = to;
        }
    }
}

/* --- blocks that serve several ------------------------------------------------------------ */

static bool serves_several(const struct contests *contests, hx_obj object)
{
    return contests->into[object] >= FEW_POINTERS &&
           (contests->into_votes[object] <= 0 ||
            (uint64_t)contests->into_votes[object] * 100 <
                (uint64_t)contests->into[object] * (2 * ONE_SERVED - 100));
}

/* Is the target as near as it is by this edge? */
static bool edge_is_tight(const struct contests *contests, hx_obj from, hx_eidx e)
{
    hx_obj to = hx_edge_target(contests->graph->edge[e]);
    const hx_nearness *near = contests->work->near;
    return near[to] == near[from] + (UINT64_C(1) << 32) && edge_is_chosen(contests, from, e);
}

/* What only mixed blocks lead to is mixed. */
static void spread_mixed(struct contests *contests, size_t tail)
{
    const struct hx_graph *graph = contests->graph;
    struct hx_holders *holders = contests->work->holders;
    for (hx_obj i = 0; i < graph->n; i++)
        for (hx_eidx e = graph->fwd[i]; e < graph->fwd[i + 1]; e++)
            if (edge_is_tight(contests, i, e))
                contests->tight[hx_edge_target(graph->edge[e])]++;
    for (size_t head = 0; head < tail; head++) {
        hx_obj i = contests->queue[head];
        for (hx_eidx e = graph->fwd[i]; e < graph->fwd[i + 1]; e++) {
            hx_obj to = hx_edge_target(graph->edge[e]);
            if (holders->of[to] == HX_HOLDER_MIXED || !edge_is_tight(contests, i, e) ||
                --contests->tight[to])
                continue;
            holders->of[to] = HX_HOLDER_MIXED;
            contests->queue[tail++] = to;
        }
    }
}

static void find_mixed(struct contests *contests)
{
    const struct hx_graph *graph = contests->graph;
    struct hx_holders *holders = contests->work->holders;
    size_t tail = 0;
    for (hx_obj i = 0; i < graph->n; i++)
        if (graph->round[i] == HX_ROUNDS && serves_several(contests, i)) {
            holders->of[i] = HX_HOLDER_MIXED;
            contests->queue[tail++] = i;
        }
    if (tail)
        spread_mixed(contests, tail);
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
    for (hx_obj i = 0; i < graph->n && !err; i++) {
        uint32_t holder = holders->of[i], other = holders->contested[i], *row;
        if (!other || holder <= HX_HOLDER_MIXED)
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
    bool any = false;
    HX_TRY(hx_big_array(contests->into, n));
    HX_TRY(hx_big_array(contests->into_from, n));
    HX_TRY(hx_big_array(contests->into_votes, n));
    HX_TRY(hx_big_array(contests->queue, n));
    HX_TRY(hx_big_array(contests->tight, n));
    HX_TRY(hx_big_array(contests->work->holders->contested, n));
    HX_TRY(count_crossings(contests, &any));
    if (any)
        spread_contest(contests);
    find_mixed(contests);
    return sum_contests(contests);
}

hx_error *hx_contests_find(struct hx_contest_work *work)
{
    struct contests contests = {.work = work, .graph = &work->snapshot->graph};
    hx_error *err = find_contests(&contests);
    struct hx_big *const mem[] = {&contests.into_mem, &contests.into_from_mem,
                                  &contests.into_votes_mem, &contests.queue_mem,
                                  &contests.tight_mem};
    for (size_t i = 0; i < sizeof mem / sizeof *mem; i++)
        hx_big_free(mem[i]);
    hx_pairs_free(&contests.held);
    hx_pairs_free(&contests.crossing);
    return err;
}
