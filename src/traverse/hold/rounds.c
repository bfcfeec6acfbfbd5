/* rounds.c - breadth first, round by round.
 *
 * Distances of a level are all the same, so that the smallest order of a root wins by an atomic
 * minimum, whatever the order in which workers come to an object. A structure (structures.h) is
 * given at the first level at which somebody comes to any of its objects, to whom it points back
 * to, as a list does to its head, else to whoever comes to most objects; from then on others are
 * turned away, unless nothing else leads there. Within a round the search begins at the words that
 * are new in it: those of roots, and those of objects that earlier rounds reached, each at the
 * level of its object.
 */
#include "traverse/hold/rounds.h"

#include "base/bits.h"
#include "base/cleanup.h"
#include "base/parallel.h"
#include "traverse/ahead.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#define SEVERAL     UINT32_MAX
#define CHUNK       2048  /* objects of a level that a worker claims at once, */
#define CHUNK_LEAST 64    /* and in a level of few */
#define BROAD       256   /* a level of so many objects is worth several workers */
#define HEAD_EDGES  64    /* a block of more is no head of a list */
#define LOOK        16384 /* objects of narrow levels between two looks whether to stop */
#define BLOCK       65536 /* objects that a worker looks through at once */
#define FEW         32768 /* below this a second thread costs more than it brings */

/* A link of an intrusive list is as good as one to the start, and so is a variable's pointer to
 * what lies in a pool; one to the first piece of a block is no better than those to others. */
static bool is_interior(hx_evidence evidence, const struct hx_hold_options *options)
{
    enum hx_rule rule = HX_EVIDENCE_RULE(evidence);
    if (hx_rule_is_on(options, rule) &&
        (rule == HX_RULE_intrusive || rule == HX_RULE_ring || rule == HX_RULE_inside))
        return false;
    if (hx_rule_is_on(options, rule) && rule == HX_RULE_piece && options->holders)
        return true;
    return HX_EVIDENCE_KIND(evidence) == HX_EDGE_INTERIOR;
}

void hx_edge_rounds_init(const struct hx_hold_options *options, enum hx_interior interior,
                         struct hx_edge_rounds *ret)
{
    static const uint8_t of_rank[] = {1, 3, 4};
    *ret = (struct hx_edge_rounds){.named = NULL};
    for (unsigned i = 0; i < 256; i++) {
        hx_evidence evidence = (hx_evidence)i;
        enum hx_edge_kind kind = HX_EVIDENCE_KIND(evidence);
        uint8_t round = options->holders ? of_rank[hx_word_rank(evidence, options)] : 1;
        ret->interior[i] = is_interior(evidence, options);
        if (kind == HX_EDGE_INTERIOR && interior == HX_INTERIOR_OFF)
            round = 0;
        else if (ret->interior[i] && interior == HX_INTERIOR_KNOWN)
            round = HX_ROUNDS;
        ret->of[i] = round;
        const enum hx_rule rule = HX_EVIDENCE_RULE(evidence);
        const bool pointer = rule == HX_RULE_pointer && hx_rule_is_on(options, rule);
        ret->scratch[i] = round == 1 && !pointer ? 2 : round;
    }
}

unsigned hx_root_edge_round(const struct hx_snapshot *snapshot, const struct hx_root_edge *edge,
                            const struct hx_edge_rounds *rounds)
{
    const struct hx_root *root = &snapshot->roots.v[edge->root];
    unsigned round = rounds->of[edge->evidence];
    if (root->kind == HX_ROOT_NAMED || (rounds->named && hx_bit(rounds->named, edge->root)))
        return round ? 1 : 0;
    return hx_root_is_scratch(root) ? rounds->scratch[edge->evidence] : round;
}

static hx_error *mark_named(const struct hx_snapshot *snapshot, uint64_t **ret)
{
    *ret = calloc(snapshot->roots.n / 64 + 1, sizeof **ret);
    HX_NEED(*ret);
    for (size_t i = 0; i < snapshot->named.n; i++)
        hx_bit_set(*ret, snapshot->named.v[i].root);
    return NULL;
}

/* An object where a round begins, once its level has come. */
struct start {
    hx_nearness near;
    hx_obj object;
};

/* Somebody who comes to a structure that nobody has. */
struct coming {
    hx_obj structure, object;
    uint32_t order;
    bool answered; /* the object points back to where it is come from: a head, or a parent */
};

/* What a worker found: objects of the next level, or starts. */
struct found {
    HX_VEC(hx_obj) next;
    HX_VEC(hx_obj) entered; /* of these, those of structures that may not be theirs who come */
    HX_VEC(struct start) starts;
    HX_VEC(struct start) away; /* turned away from a structure */
    unsigned later;            /* bit for each later stage that a word was left to */
    bool failed;
};

struct spread {
    struct hx_snapshot *snapshot;
    struct hx_graph *graph;
    const struct hx_progress *progress;
    struct hx_edge_rounds rounds;
    uint8_t stage_of[256]; /* of a word, by hx_evidence; 0: it is not followed */
    const uint32_t *order;
    bool named;
    unsigned threads, stage;
    hx_nearness *near;
    const struct hx_structures *structures; /* NULL: none */
    uint32_t *holder_1; /* by number of a structure: order of the root that it is given to, + 1 */
    HX_VEC(struct coming) coming;
    bool open;            /* all structures are, for those that were turned away */
    hx_obj *level_object; /* of the level in hand */
    size_t n_level;
    uint64_t level;
    uint64_t *waits; /* bit for each object with words that were left to a later stage */
    struct hx_big near_mem, level_object_mem, holder_1_mem, waits_mem;
    uint64_t reached;
    unsigned later;
    struct hx_team *team; /* for levels */
    struct found found[HX_THREADS_MAX];
    atomic_size_t claimed;
};

static inline unsigned turn_of(const struct spread *spread)
{
    return 2 * spread->stage + spread->open;
}

/* True for whoever reaches it first. What an earlier turn has reached stays as it is. */
static inline bool come_nearer(struct spread *spread, hx_obj object, hx_nearness near)
{
    hx_nearness now = __atomic_load_n(&spread->near[object], __ATOMIC_RELAXED);
    while (near < now)
        if (__atomic_compare_exchange_n(&spread->near[object], &now, near, true, __ATOMIC_RELAXED,
                                        __ATOMIC_RELAXED))
            return now == HX_UNREACHED;
    return false;
}

static inline bool is_linked(const struct spread *spread, hx_obj object)
{
    return spread->structures && !spread->open && hx_bit(spread->structures->linked, object);
}

/* Is the object, which is linked, part of a structure that another root has? */
static inline bool is_anothers(const struct spread *spread, hx_obj object, hx_nearness near)
{
    uint32_t holder_1 = spread->holder_1[spread->structures->of[object]];
    return holder_1 && holder_1 != hx_nearness_order(near) + 1;
}

static inline void reach(const struct spread *spread, struct found *found, hx_obj object)
{
    found->failed |= !hx_vec_push(&found->next, object);
    if (is_linked(spread, object) && !spread->holder_1[spread->structures->of[object]])
        found->failed |= !hx_vec_push(&found->entered, object);
}

/* --- a level ------------------------------------------------------------------------------ */

static inline void step_to(struct spread *spread, struct found *found, hx_obj object,
                           hx_nearness near)
{
    hx_look_at_once(spread->graph, object, spread->n_level);
    if (near >= __atomic_load_n(&spread->near[object], __ATOMIC_RELAXED))
        return;
    if (is_linked(spread, object) && is_anothers(spread, object, near))
        found->failed |= !hx_vec_push(&found->away, ((struct start){near, object}));
    else if (come_nearer(spread, object, near))
        reach(spread, found, object);
}

HX_PREFETCHES void look_ahead(const struct spread *spread, size_t i, size_t end)
{
    const struct hx_graph *graph = spread->graph;
    const hx_obj *object = spread->level_object;
    const hx_obj *of = spread->structures ? spread->structures->of : NULL;
    hx_look_ahead(graph, object, i, end, spread->near, sizeof *spread->near, of, sizeof *of);
    if (i + HX_AHEAD_EDGES >= end)
        return;
    __builtin_prefetch(&graph->evidence[graph->fwd[object[i + HX_AHEAD_EDGES]]]);
    __builtin_prefetch(&spread->near[object[i + HX_AHEAD_EDGES]]);
}

static void spread_objects(struct spread *spread, struct found *found, size_t from, size_t to)
{
    const struct hx_graph *graph = spread->graph;
    for (size_t i = from; i < to; i++) {
        hx_obj object = spread->level_object[i];
        look_ahead(spread, i, spread->n_level);
        hx_nearness near = __atomic_load_n(&spread->near[object], __ATOMIC_RELAXED);
        if (hx_nearness_distance(near) != spread->level) /* it was turned away */
            continue;
        near = hx_nearness_next(near, turn_of(spread));
        for (hx_eidx e = graph->fwd[object]; e < graph->fwd[(size_t)object + 1]; e++) {
            const unsigned stage = spread->stage_of[graph->evidence[e]];
            if (stage > spread->stage) {
                found->later |= 1u << stage;
                hx_bit_add_shared(spread->waits, object);
            } else if (stage) {
                step_to(spread, found, hx_edge_target(graph->edge[e]), near);
            }
        }
    }
}

static size_t chunk_of(const struct spread *spread)
{
    size_t chunk = spread->n_level / (spread->threads * 4);
    return chunk < CHUNK_LEAST ? CHUNK_LEAST : chunk > CHUNK ? CHUNK : chunk;
}

static void spread_worker(void *context, unsigned i)
{
    struct spread *spread = context;
    const size_t chunk = chunk_of(spread);
    size_t from;
    while ((from = atomic_fetch_add(&spread->claimed, chunk)) < spread->n_level &&
           !hx_progress_cancelled(spread->progress)) {
        size_t left = spread->n_level - from;
        spread_objects(spread, &spread->found[i], from, from + (left < chunk ? left : chunk));
    }
}

static int compare_coming(const void *a, const void *b)
{
    const struct coming *x = a, *y = b;
    if (x->structure != y->structure)
        return x->structure < y->structure ? -1 : 1;
    return x->order < y->order ? -1 : x->order > y->order;
}

/* Those comings remain that are to a structure to which several come. */
static void give_to_only(struct spread *spread)
{
    struct coming *all = spread->coming.v;
    const size_t n = spread->coming.n;
    size_t kept = 0;
    for (size_t i = 0; i < n; i++) {
        uint32_t *holder_1 = &spread->holder_1[all[i].structure], now = all[i].order + 1;
        *holder_1 = !*holder_1 || *holder_1 == now ? now : SEVERAL;
    }
    for (size_t i = 0; i < n; i++)
        if (spread->holder_1[all[i].structure] == SEVERAL)
            all[kept++] = all[i];
    for (size_t i = 0; i < kept; i++)
        spread->holder_1[all[i].structure] = 0;
    spread->coming.n = kept;
}

/* Who is answered may not have been the first of those who come to the object. */
static void take_answered(struct spread *spread)
{
    for (size_t i = 0; i < spread->coming.n; i++) {
        const struct coming *coming = &spread->coming.v[i];
        if (coming->answered && spread->holder_1[coming->structure] == coming->order + 1)
            spread->near[coming->object] =
                hx_nearness_make(turn_of(spread), spread->level, coming->order);
    }
}

/* Gives structures to those who are answered, of these to those who come to most objects, or, of
 * two equal ones, to the first. */
static void give_structures(struct spread *spread)
{
    give_to_only(spread);
    const struct coming *all = spread->coming.v;
    const size_t n = spread->coming.n;
    size_t most = 0, end;
    bool sure = false;
    if (n)
        qsort(spread->coming.v, n, sizeof *all, compare_coming);
    for (size_t i = 0; i < n; i = end) {
        bool answered = all[i].answered;
        for (end = i + 1; end < n && compare_coming(&all[i], &all[end]) == 0; end++)
            answered |= all[end].answered;
        uint32_t *holder_1 = &spread->holder_1[all[i].structure];
        if (!*holder_1 || (answered == sure ? end - i > most : answered)) {
            sure = answered;
            most = end - i;
            *holder_1 = all[i].order + 1;
        }
    }
    take_answered(spread);
    spread->coming.n = 0;
}

static bool leads_to(const struct spread *spread, hx_obj from, hx_obj object)
{
    const struct hx_graph *graph = spread->graph;
    hx_eidx end = graph->fwd[(size_t)from + 1];
    for (hx_eidx e = graph->fwd[from]; e < end && e < graph->fwd[from] + HEAD_EDGES; e++) {
        unsigned stage = spread->stage_of[graph->evidence[e]];
        if (hx_edge_target(graph->edge[e]) == object && stage && stage <= spread->stage)
            return true;
    }
    return false;
}

/* Those who come to an object of a structure that nobody has. */
static hx_error *add_comings(struct spread *spread, hx_obj object)
{
    const struct hx_graph *graph = spread->graph;
    struct coming coming = {.structure = spread->structures->of[object],
                            .object = object,
                            .order = hx_nearness_order(spread->near[object])};
    HX_NEED(hx_vec_push(&spread->coming, coming));
    coming.answered = true;
    for (hx_eidx e = graph->fwd[object]; e < graph->fwd[(size_t)object + 1]; e++) {
        hx_obj from = hx_edge_target(graph->edge[e]);
        hx_nearness near = spread->near[from];
        coming.order = hx_nearness_order(near);
        if (near != HX_UNREACHED && hx_nearness_distance(near) + 1 == spread->level &&
            leads_to(spread, from, object))
            HX_NEED(hx_vec_push(&spread->coming, coming));
    }
    return NULL;
}

/* Before the steps of a level: who comes to a structure that nobody has gets all of it. */
static hx_error *enter_structures(struct spread *spread)
{
    struct found *found = &spread->found[0];
    for (size_t i = 0; i < found->entered.n; i++) {
        hx_obj object = found->entered.v[i];
        if (!spread->holder_1[spread->structures->of[object]] &&
            !hx_bit(spread->structures->tail, object))
            HX_TRY(add_comings(spread, object));
    }
    give_structures(spread);
    for (size_t i = 0; i < found->entered.n; i++) {
        struct start start = {spread->near[found->entered.v[i]], found->entered.v[i]};
        if (!is_anothers(spread, start.object, start.near))
            continue;
        spread->near[start.object] = HX_UNREACHED;
        HX_NEED(hx_vec_push(&found->away, start));
    }
    found->entered.n = 0;
    return NULL;
}

/* From the level in hand to the next one. */
static hx_error *spread_level(struct spread *spread)
{
    HX_TRY(enter_structures(spread));
    unsigned workers = spread->n_level < BROAD ? 1 : spread->threads;
    uint64_t before = spread->reached / LOOK;
    atomic_store(&spread->claimed, 0);
    if (workers > 1)
        hx_team_run(spread->team, spread_worker, spread);
    else
        spread_objects(spread, &spread->found[0], 0, spread->n_level);
    spread->reached += spread->n_level;
    spread->n_level = 0;
    for (unsigned i = 0; i < workers; i++) {
        struct found *found = &spread->found[i];
        HX_NEED(!found->failed);
        if (found->next.n)
            memcpy(spread->level_object + spread->n_level, found->next.v,
                   found->next.n * sizeof *found->next.v);
        spread->n_level += found->next.n;
        found->next.n = 0;
        for (size_t k = 0; i && k < found->entered.n; k++)
            HX_NEED(hx_vec_push(&spread->found[0].entered, found->entered.v[k]));
        found->entered.n = i ? 0 : found->entered.n;
    }
    if (spread->reached / LOOK == before)
        return NULL;
    hx_progress_at(spread->progress, "holders", spread->reached, spread->graph->n);
    return hx_progress_cancelled(spread->progress) ? hx_error_cancelled("holders") : NULL;
}

static hx_error *each_block(struct spread *spread, hx_block_work *work)
{
    const hx_obj n = spread->graph->n;
    hx_parallel_blocks(n < FEW ? 1 : spread->threads, n, BLOCK, work, spread, spread->progress);
    return hx_progress_cancelled(spread->progress) ? hx_error_cancelled("holders") : NULL;
}

/* --- a round ------------------------------------------------------------------------------ */

static void start_at(const struct spread *spread, struct found *found, hx_obj object,
                     hx_nearness near)
{
    if (spread->near[object] == HX_UNREACHED)
        found->failed |= !hx_vec_push(&found->starts, ((struct start){near, object}));
}

static void start_from_roots(struct spread *spread)
{
    const struct hx_snapshot *snapshot = spread->snapshot;
    for (size_t i = 0; i < snapshot->root_edges.n; i++) {
        const struct hx_root_edge *edge = &snapshot->root_edges.v[i];
        unsigned stage = hx_root_edge_round(snapshot, edge, &spread->rounds);
        if (snapshot->roots.v[edge->root].kind == HX_ROOT_NAMED && !spread->named)
            continue;
        const uint32_t order = spread->order ? spread->order[edge->root] : 0;
        if (stage == HX_ROUNDS)
            stage = spread->stage_of[edge->evidence];
        if (stage == spread->stage)
            start_at(spread, &spread->found[0], edge->target,
                     hx_nearness_make(turn_of(spread), 1, order));
    }
}

/* What an object of an earlier stage leads to by words that are new in this one. */
static void start_from_object(const struct spread *spread, struct found *found, size_t object)
{
    const struct hx_graph *graph = spread->graph;
    hx_nearness near = hx_nearness_next(spread->near[object], turn_of(spread));
    for (hx_eidx e = graph->fwd[object]; e < graph->fwd[object + 1]; e++)
        if (spread->stage_of[graph->evidence[e]] == spread->stage)
            start_at(spread, found, hx_edge_target(graph->edge[e]), near);
}

static void start_from_objects(void *context, unsigned i, size_t from, size_t to)
{
    struct spread *spread = context;
    for (size_t word = from / 64; word * 64 < to; word++)
        for (uint64_t bits = spread->waits[word]; bits; bits &= bits - 1)
            start_from_object(spread, &spread->found[i], word * 64 + (size_t)__builtin_ctzll(bits));
}

static int compare_starts(const void *a, const void *b)
{
    const struct start *x = a, *y = b;
    if (x->near != y->near)
        return x->near < y->near ? -1 : 1;
    return x->object < y->object ? -1 : x->object > y->object;
}

/* All starts in one list, the nearest first. */
static hx_error *gather_starts(struct spread *spread)
{
    struct found *all = &spread->found[0];
    for (unsigned i = 0; i < spread->threads; i++) {
        struct found *found = &spread->found[i];
        HX_NEED(!found->failed);
        for (size_t k = 0; i && k < found->starts.n; k++)
            HX_NEED(hx_vec_push(&all->starts, found->starts.v[k]));
        found->starts.n = i ? 0 : found->starts.n;
    }
    if (all->starts.n)
        qsort(all->starts.v, all->starts.n, sizeof *all->starts.v, compare_starts);
    return NULL;
}

static hx_error *spread_starts(struct spread *spread)
{
    const struct start *start = spread->found[0].starts.v, *end = start + spread->found[0].starts.n;
    spread->n_level = 0;
    while (start < end || spread->n_level) {
        spread->level = spread->n_level ? spread->level + 1 : hx_nearness_distance(start->near);
        for (; start < end && hx_nearness_distance(start->near) <= spread->level; start++) {
            if (!come_nearer(spread, start->object, start->near))
                continue;
            spread->level_object[spread->n_level++] = start->object;
            if (is_linked(spread, start->object))
                HX_NEED(hx_vec_push(&spread->found[0].entered, start->object));
        }
        HX_TRY(spread_level(spread));
    }
    spread->found[0].starts.n = 0;
    return NULL;
}

/* What was turned away and is not reached otherwise. */
static hx_error *spread_away(struct spread *spread)
{
    struct found *all = &spread->found[0];
    spread->open = true;
    for (unsigned i = 0; i < spread->threads; i++) {
        struct found *found = &spread->found[i];
        for (size_t k = 0; k < found->away.n; k++) {
            struct start start = found->away.v[k];
            start.near |= hx_nearness_make(1, 0, 0);
            if (spread->near[start.object] == HX_UNREACHED)
                HX_NEED(hx_vec_push(&all->starts, start));
        }
        found->away.n = 0;
    }
    HX_TRY(gather_starts(spread));
    HX_TRY(spread_starts(spread));
    spread->open = false;
    return NULL;
}

static hx_error *spread_stage(struct spread *spread)
{
    start_from_roots(spread);
    for (unsigned i = 0; i < spread->threads; i++)
        spread->later |= spread->found[i].later;
    if (spread->later >> spread->stage & 1)
        HX_TRY(each_block(spread, start_from_objects));
    HX_TRY(gather_starts(spread));
    HX_TRY(spread_starts(spread));
    return spread_away(spread);
}

static void begin_block(void *context, unsigned worker, size_t from, size_t to)
{
    (void)worker;
    struct spread *spread = context;
    memset(spread->near + from, 0xff, (to - from) * sizeof *spread->near);
}

static void end_block(void *context, unsigned worker, size_t from, size_t to)
{
    (void)worker;
    struct spread *spread = context;
    for (size_t k = from; k < to; k++) {
        const unsigned stage =
            spread->near[k] == HX_UNREACHED ? 0 : hx_nearness_turn(spread->near[k]) / 2;
        spread->graph->round[k] = (uint8_t)(stage < HX_ROUNDS ? stage : HX_ROUNDS);
    }
}

static hx_error *spread_all(struct spread *spread)
{
    const hx_obj n = spread->graph->n;
    if (!n)
        return NULL;
    if (!spread->graph->round)
        HX_TRY(hx_big_array(spread->graph->round, n));
    HX_TRY(hx_big_array(spread->near, n));
    HX_TRY(hx_big_array(spread->level_object, (size_t)n + 1));
    HX_TRY(hx_big_array(spread->waits, (size_t)n / 64 + 1));
    if (spread->structures)
        HX_TRY(hx_big_array(spread->holder_1, n));
    HX_TRY(hx_team_create(n < FEW ? 1 : spread->threads, &spread->team));
    HX_TRY(each_block(spread, begin_block));
    for (spread->stage = 1; spread->stage <= HX_STAGES; spread->stage++)
        HX_TRY(spread_stage(spread));
    return each_block(spread, end_block);
}

static void init_stages(const struct hx_hold_options *options, struct spread *spread)
{
    for (unsigned i = 0; i < 256; i++)
        spread->stage_of[i] = spread->rounds.of[i] == HX_ROUNDS &&
                                      hx_word_rank((hx_evidence)i, options) == HX_RANK_STRAY
                                  ? HX_STAGE_STRAY
                                  : spread->rounds.of[i];
}

hx_error *hx_rounds_nearest(struct hx_snapshot *snapshot, const struct hx_hold_options *options,
                            const uint32_t *order, const struct hx_structures *structures,
                            bool named, unsigned threads, const struct hx_progress *progress,
                            struct hx_big *ret_nearness)
{
    HX_FREE struct spread *spread = calloc(1, sizeof *spread);
    HX_FREE uint64_t *named_roots = NULL;
    HX_NEED(spread);
    if (named)
        HX_TRY(mark_named(snapshot, &named_roots));
    spread->snapshot = snapshot;
    spread->graph = &snapshot->graph;
    spread->progress = progress;
    spread->order = order;
    spread->structures = structures && structures->linked ? structures : NULL;
    spread->named = named;
    spread->threads = hx_threads(threads);
    hx_edge_rounds_init(options, snapshot->interior, &spread->rounds);
    spread->rounds.named = named_roots;
    init_stages(options, spread);
    hx_error *err = spread_all(spread);
    hx_team_destroy(spread->team);
    for (unsigned i = 0; i < spread->threads; i++) {
        hx_vec_free(&spread->found[i].next);
        hx_vec_free(&spread->found[i].entered);
        hx_vec_free(&spread->found[i].away);
        hx_vec_free(&spread->found[i].starts);
    }
    hx_vec_free(&spread->coming);
    hx_big_free(&spread->holder_1_mem);
    hx_big_free(&spread->waits_mem);
    hx_big_free(&spread->level_object_mem);
    if (err || !ret_nearness)
        hx_big_free(&spread->near_mem);
    else
        *ret_nearness = spread->near_mem;
    return err;
}

hx_error *hx_rounds_find(struct hx_snapshot *snapshot, const struct hx_hold_options *options,
                         bool named, unsigned threads, const struct hx_progress *progress)
{
    return hx_rounds_nearest(snapshot, options, NULL, NULL, named, threads, progress, NULL);
}

/* --- which edges remain ------------------------------------------------------------------- */

struct choice {
    struct hx_snapshot *snapshot;
    struct hx_edge_rounds rounds;
    bool restore;
};

static inline hx_edge with_kind(hx_edge edge, enum hx_edge_kind kind)
{
    return (edge & ~(hx_edge)3) | (hx_edge)kind;
}

static void choose_edges_of(void *context, unsigned worker, size_t from, size_t to)
{
    (void)worker;
    struct choice *choice = context;
    struct hx_graph *graph = &choice->snapshot->graph;
    for (size_t k = from; k < to; k++)
        for (hx_eidx e = graph->fwd[k]; e < graph->fwd[k + 1]; e++) {
            enum hx_edge_kind kind = HX_EVIDENCE_KIND(graph->evidence[e]);
            if (!choice->restore && !hx_edge_is_chosen(graph, &choice->rounds, (hx_obj)k, e))
                kind = HX_EDGE_ASIDE;
            if (kind != hx_edge_kind_of(graph->edge[e]))
                graph->edge[e] = with_kind(graph->edge[e], kind);
        }
}

static void choose_edges(struct choice *choice, unsigned threads)
{
    struct hx_snapshot *snapshot = choice->snapshot;
    if (!snapshot->graph.evidence)
        return;
    hx_parallel_blocks(snapshot->graph.n < FEW ? 1 : hx_threads(threads), snapshot->graph.n, BLOCK,
                       choose_edges_of, choice, NULL);
    for (size_t i = 0; i < snapshot->root_edges.n; i++) {
        struct hx_root_edge *edge = &snapshot->root_edges.v[i];
        bool is_named = choice->rounds.named && hx_bit(choice->rounds.named, edge->root);
        bool chosen = choice->restore || is_named ||
                      snapshot->roots.v[edge->root].kind == HX_ROOT_NAMED ||
                      hx_root_edge_round(snapshot, edge, &choice->rounds) ==
                          snapshot->graph.round[edge->target];
        edge->kind = chosen ? HX_EVIDENCE_KIND(edge->evidence) : HX_EDGE_ASIDE;
    }
}

void hx_edges_choose(struct hx_snapshot *snapshot, const struct hx_hold_options *options,
                     unsigned threads)
{
    struct choice choice = {.snapshot = snapshot};
    hx_edge_rounds_init(options, snapshot->interior, &choice.rounds);
    choose_edges(&choice, threads);
}

hx_error *hx_edges_choose_named(struct hx_snapshot *snapshot, const struct hx_hold_options *options,
                                unsigned threads)
{
    struct choice choice = {.snapshot = snapshot};
    HX_FREE uint64_t *named = NULL;
    HX_TRY(mark_named(snapshot, &named));
    hx_edge_rounds_init(options, snapshot->interior, &choice.rounds);
    choice.rounds.named = named;
    choose_edges(&choice, threads);
    return NULL;
}

hx_error *hx_choose(struct hx_snapshot *snapshot, const struct hx_hold_options *options,
                    unsigned threads, const struct hx_progress *progress)
{
    if (!options->holders || !snapshot->graph.evidence)
        return NULL;
    HX_TRY(hx_rounds_find(snapshot, options, false, threads, progress));
    hx_edges_choose(snapshot, options, threads);
    return NULL;
}

void hx_edges_restore(struct hx_snapshot *snapshot, unsigned threads)
{
    struct choice choice = {.snapshot = snapshot, .restore = true};
    choose_edges(&choice, threads);
}
