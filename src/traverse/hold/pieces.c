/* pieces.c - pointers to pieces of blocks: of slabs, arenas, arrays of records.
 *
 * Where those from one field lead into blocks of one group at many places, those that lead to their
 * start are of the same kind: to the first piece, not to the block. Fields are counted in a sample
 * of their group; where a field has too few, as in a slab, all words of the group count together.
 * Roots have no fields: they point to a piece where hardly any of the blocks alike has an owner. So
 * do the few words of a block that is alone of its kind which lead to a start.
 */
#include "traverse/hold/word_table.h"

#include "base/bits.h"
#include "base/pairs.h"

#include <stdlib.h>

#define ALIKE  32   /* fewer say nothing */
#define WORDS  64   /* of a block that are fields of their own */
#define PLACES 4    /* in blocks, at least, that pointers lead to */
#define FEW    4    /* pointers to starts from what is alone: fewer may be those of an owner */
#define STRUCT 8192 /* bytes: what is larger is an array */

/* Percent, at most. */
enum {
    STARTS = 25, /* pointers of a field that lead to a start */
    OWNED = 25   /* blocks of a group of slabs to whose start anybody points */
};

/* Pointers from a field, or from all words of a group, to blocks of one group. */
struct into {
    uint32_t group, starts, interior;
    uint64_t places; /* a bit for each place in blocks that the interior ones lead to, or several */
};

/* Of one group that has them. */
struct pieces {
    struct hx_pairs by_key;
    HX_VEC(struct into) into;
    bool alone;                /* too few are of the group for fields of their own */
    HX_VEC(hx_eidx) undecided; /* then: to a start, which may be for the block or its first piece */
};

struct look {
    const struct hx_judge *judge;
    struct pieces **of; /* for each group; NULL: none */
    bool *slabs;        /* for each group: some pointers lead to pieces of its blocks */
    uint64_t *owned;    /* bit for each block that other pointers lead to the start of */
    struct hx_big of_mem, slabs_mem, owned_mem;
};

/* Of all words: `word` is WORDS. */
static uint64_t key_of(const struct look *look, hx_edge edge, size_t word)
{
    return hx_pair_key(look->judge->groups->of[hx_edge_target(edge)], (uint32_t)word);
}

static bool is_asked(const struct hx_judge *judge, hx_obj object, hx_eidx e)
{
    return !HX_EVIDENCE_RULE(judge->graph->evidence[e]) &&
           hx_edge_target(judge->graph->edge[e]) != object;
}

static bool is_piecewise(const struct into *into)
{
    return into->interior >= ALIKE && __builtin_popcountll(into->places) >= PLACES &&
           hx_part_below(into->starts, (uint64_t)into->starts + into->interior, STARTS);
}

static void count_pointer(struct into *into, hx_edge edge, uint64_t offset)
{
    bool interior = hx_edge_kind_of(edge) == HX_EDGE_INTERIOR;
    into->starts += !interior;
    into->interior += interior;
    if (interior)
        into->places |= UINT64_C(1) << offset / HX_WORD % 64;
}

static hx_error *add_pointer(struct pieces *pieces, uint64_t key, hx_edge edge, uint64_t offset)
{
    uint32_t *number;
    HX_TRY(hx_pairs_at(&pieces->by_key, key, &number));
    if (*number == HX_NO_PAIR) {
        *number = (uint32_t)pieces->into.n;
        HX_NEED(hx_vec_push(&pieces->into, ((struct into){.group = (uint32_t)(key >> 32)})));
    }
    count_pointer(&pieces->into.v[*number], edge, offset);
    return NULL;
}

static hx_error *count_object(const struct look *look, hx_obj object, struct pieces *pieces,
                              struct hx_peeked *window)
{
    const struct hx_graph *graph = look->judge->graph;
    const size_t n = graph->size[object] / HX_WORD;
    const uint64_t *word = hx_judge_peek(look->judge, graph->addr[object], n, window);
    for (hx_eidx e = graph->fwd[object]; word && e < graph->fwd[(size_t)object + 1]; e++) {
        const hx_edge edge = graph->edge[e];
        const size_t i = hx_edge_offset(edge) / HX_WORD;
        if (!is_asked(look->judge, object, e))
            continue;
        const uint64_t offset = word[i] - graph->addr[hx_edge_target(edge)];
        HX_TRY(add_pointer(pieces, key_of(look, edge, WORDS), edge, offset));
        if (i < WORDS)
            HX_TRY(add_pointer(pieces, key_of(look, edge, i), edge, offset));
    }
    return NULL;
}

/* Has the sample interior pointers at all? */
static bool have_interior(const struct look *look, const struct hx_block_group *group)
{
    const struct hx_graph *graph = look->judge->graph;
    const hx_obj *sample = look->judge->groups->sample + group->first;
    uint32_t n = 0;
    for (uint32_t i = 0; i < group->samples && n < ALIKE; i++)
        for (hx_eidx e = graph->fwd[sample[i]]; e < graph->fwd[(size_t)sample[i] + 1]; e++)
            n += hx_edge_kind_of(graph->edge[e]) == HX_EDGE_INTERIOR &&
                 is_asked(look->judge, sample[i], e);
    return n >= ALIKE;
}

static const struct into *find_into(const struct pieces *pieces, uint64_t key)
{
    uint32_t number = hx_pairs_find(&pieces->by_key, key);
    return number == HX_NO_PAIR ? NULL : &pieces->into.v[number];
}

/* What is known of the pointers that are as this one is; NULL: they lead to no pieces. */
static const struct into *piecewise_into(const struct look *look, const struct pieces *pieces,
                                         hx_edge edge)
{
    const size_t i = hx_edge_offset(edge) / HX_WORD;
    const struct into *into = i < WORDS ? find_into(pieces, key_of(look, edge, i)) : NULL;
    if (!into || into->starts + into->interior < ALIKE)
        into = find_into(pieces, key_of(look, edge, WORDS));
    return into && is_piecewise(into) ? into : NULL;
}

static bool is_undecided(const struct pieces *pieces, const struct into *into, hx_edge edge)
{
    return pieces->alone && hx_edge_kind_of(edge) == HX_EDGE_START && into->starts < FEW;
}

static hx_error *list_undecided(const struct look *look, hx_obj object, struct pieces *pieces)
{
    const struct hx_graph *graph = look->judge->graph;
    for (hx_eidx e = graph->fwd[object]; e < graph->fwd[(size_t)object + 1]; e++) {
        const struct into *into =
            is_asked(look->judge, object, e) ? piecewise_into(look, pieces, graph->edge[e]) : NULL;
        if (into && is_undecided(pieces, into, graph->edge[e]))
            HX_NEED(hx_vec_push(&pieces->undecided, e));
    }
    return NULL;
}

static hx_error *scan_group(void *context, uint32_t group, bool *ret_found)
{
    struct look *look = context;
    const struct hx_block_group *of = &look->judge->groups->group[group];
    const hx_obj *sample = look->judge->groups->sample + of->first;
    HX_PEEKED window = {0};
    *ret_found = false;
    if (!have_interior(look, of))
        return NULL;
    struct pieces *pieces = look->of[group] = calloc(1, sizeof *pieces);
    HX_NEED(pieces);
    pieces->alone = of->objects < ALIKE && of->size <= STRUCT;
    for (uint32_t i = 0; i < of->samples; i++)
        HX_TRY(count_object(look, sample[i], pieces, &window));
    for (size_t i = 0; i < pieces->into.n; i++) {
        const struct into *into = &pieces->into.v[i];
        if (!is_piecewise(into))
            continue;
        *ret_found = true;
        __atomic_store_n(&look->slabs[into->group], true, __ATOMIC_RELAXED);
    }
    for (uint32_t i = 0; pieces->alone && *ret_found && i < of->samples; i++)
        HX_TRY(list_undecided(look, sample[i], pieces));
    return NULL;
}

/* --- judging ------------------------------------------------------------------------------ */

static void judge_object(void *context, hx_obj object, struct hx_peeked *window)
{
    (void)window;
    const struct look *look = context;
    const struct hx_graph *graph = look->judge->graph;
    const struct pieces *pieces = look->of[look->judge->groups->of[object]];
    for (hx_eidx e = graph->fwd[object]; e < graph->fwd[(size_t)object + 1]; e++) {
        const struct into *into =
            is_asked(look->judge, object, e) ? piecewise_into(look, pieces, graph->edge[e]) : NULL;
        if (into && !is_undecided(pieces, into, graph->edge[e]))
            hx_judge_edge(look->judge, e, HX_RULE_piece);
    }
}

/* --- roots -------------------------------------------------------------------------------- */

static void find_owned(void *context, unsigned worker, hx_obj from, hx_obj to)
{
    (void)worker;
    const struct look *look = context;
    const struct hx_graph *graph = look->judge->graph;
    for (hx_eidx e = graph->fwd[from]; e < graph->fwd[to]; e++) {
        const hx_obj target = hx_edge_target(graph->edge[e]);
        if (graph->evidence[e] == HX_EVIDENCE(HX_RULE_NONE, HX_EDGE_START) &&
            look->slabs[look->judge->groups->of[target]])
            hx_bit_add_shared(look->owned, target);
    }
}

/* Are there many alike, hardly any of which has an owner? */
static bool are_slabs(const struct look *look, uint32_t group)
{
    const struct hx_block_group *of = &look->judge->groups->group[group];
    uint32_t owned = 0;
    for (uint32_t i = 0; i < of->samples; i++)
        owned += hx_bit(look->owned, look->judge->groups->sample[of->first + i]);
    return of->samples >= ALIKE && hx_part_below(owned, of->samples, OWNED);
}

/* Roots, and what is alone of its kind. */
static hx_error *judge_lone_words(struct look *look)
{
    struct hx_snapshot *snapshot = look->judge->snapshot;
    const uint32_t n = look->judge->groups->n;
    uint32_t slabs = 0;
    for (uint32_t i = 0; i < n; i++)
        slabs += look->slabs[i];
    if (!slabs)
        return NULL;
    HX_TRY(hx_big_array(look->owned, (size_t)look->judge->graph->n / 64 + 1));
    HX_TRY(hx_judge_objects(look->judge, find_owned, look));
    for (uint32_t i = 0; i < n; i++)
        look->slabs[i] = look->slabs[i] && are_slabs(look, i);
    for (size_t i = 0; i < snapshot->root_edges.n; i++) {
        struct hx_root_edge *edge = &snapshot->root_edges.v[i];
        if (edge->evidence == HX_EVIDENCE(HX_RULE_NONE, HX_EDGE_START) &&
            look->slabs[look->judge->groups->of[edge->target]])
            edge->evidence = HX_EVIDENCE(HX_RULE_piece, HX_EDGE_START);
    }
    for (uint32_t i = 0; i < n; i++)
        for (size_t k = 0; look->of[i] && k < look->of[i]->undecided.n; k++) {
            const hx_eidx e = look->of[i]->undecided.v[k];
            if (look->slabs[look->judge->groups->of[hx_edge_target(look->judge->graph->edge[e])]])
                hx_judge_edge(look->judge, e, HX_RULE_piece);
        }
    return NULL;
}

static hx_error *judge_pieces(struct look *look)
{
    const struct hx_group_judge how = {scan_group, judge_object, look};
    HX_TRY(hx_big_array(look->of, look->judge->groups->n));
    HX_TRY(hx_big_array(look->slabs, look->judge->groups->n));
    HX_TRY(hx_judge_by_group(look->judge, &how));
    return judge_lone_words(look);
}

hx_error *hx_judge_pieces(const struct hx_judge *judge)
{
    struct look look = {.judge = judge};
    hx_error *err = judge_pieces(&look);
    for (uint32_t i = 0; look.of && i < judge->groups->n; i++)
        if (look.of[i]) {
            hx_pairs_free(&look.of[i]->by_key);
            hx_vec_free(&look.of[i]->into);
            hx_vec_free(&look.of[i]->undecided);
            free(look.of[i]);
        }
    hx_big_free(&look.of_mem);
    hx_big_free(&look.slabs_mem);
    hx_big_free(&look.owned_mem);
    return err;
}
