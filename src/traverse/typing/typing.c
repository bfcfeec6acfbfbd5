/* typing.c - types go along pointers, depth first, each object through a stack once it has a type.
 *
 * What pointers say of an object is counted as in R. S. Boyer and J S. Moore, "MJRTY - A Fast
 * Majority Vote Algorithm": the type that is held against all others wins, and an object whose type
 * changes says so to those behind it. How often one may change has a bound.
 */
#include "traverse/typing/spread.h"

#include "base/bits.h"
#include "base/cleanup.h"
#include "base/lower_bound.h"
#include "base/pairs.h"
#include "base/prefetch.h"
#include "base/timing.h"

#include <stdlib.h>
#include <string.h>

#define AHEAD      8
#define EDGES      64 /* of an object that are held against a type */
#define CHECK      0xffff
#define SITE_LEAST 8 /* typed objects of a site */

/* A bit of what is known of an object: */
#define PENDING 128 /* on the stack, or one that found no room there */

/* --- does it fit? ---------------------------------------------------------------- */

struct hx_agreement hx_typing_agreement(const struct hx_graph *graph, hx_obj object,
                                        const struct hx_word_map *map, enum hx_fit fit)
{
    hx_eidx from = graph->fwd[object], to = graph->fwd[(size_t)object + 1];
    struct hx_agreement is = {0};
    to = to - from > EDGES ? from + EDGES : to;
    for (hx_eidx e = from; e < to; e++) {
        uint32_t word = hx_map_word(map, hx_edge_offset(graph->edge[e]), fit == HX_FIT_SEVERAL);
        if (word == HX_WORD_OPEN || hx_typing_is_silent(graph, e))
            continue;
        if (word == HX_WORD_SCALAR || word == HX_WORD_VTABLE)
            is.bad++;
        else
            is.good++;
    }
    return is;
}

/* Do its edges lie where the type can have pointers? */
static bool edges_agree(const struct hx_spread *spread, hx_obj object,
                        const struct hx_word_map *map, enum hx_fit fit)
{
    if (hx_typing_lacks_vtable(spread->graph, object, map))
        return false;
    const struct hx_agreement is = hx_typing_agreement(spread->graph, object, map, fit);
    return fit == HX_FIT_SEVERAL ? is.bad * 8 <= is.good : is.bad <= is.good;
}

/* --- votes ----------------------------------------------------------------------- */

static void push_object(struct hx_spread *spread, hx_obj object)
{
    if (spread->known[object].typed & PENDING)
        return;
    spread->known[object].typed |= PENDING;
    if (spread->n_stack < HX_SPREAD_STACK)
        spread->stack[spread->n_stack++] = object;
    else
        spread->overflow = true;
}

static hx_error *give_type(struct hx_spread *spread, hx_obj object, const struct hx_vote *vote,
                           const struct hx_word_map *map)
{
    struct hx_known *known = &spread->known[object];
    if (HX_TYPED_SOURCE(known->typed) != HX_TYPED_NOT)
        HX_TRY(hx_typing_doubt(spread, object));
    known->type = vote->type;
    known->typed = (hx_typed)(HX_TYPED(vote->confidence, HX_TYPED_POINTER) |
                              (vote->fit == HX_FIT_SEVERAL ? HX_TYPED_REPEATS : 0) |
                              (known->typed & (HX_TYPED_CONFLICT | PENDING)));
    if (!map->scalars && (map->n || map->tail))
        push_object(spread, object);
    return NULL;
}

/* Pointers of an object that are in fields of pointers. */
static unsigned count_pointers(const struct hx_graph *graph, hx_obj object,
                               const struct hx_word_map *map, bool repeats)
{
    hx_eidx from = graph->fwd[object], to = graph->fwd[(size_t)object + 1];
    unsigned n = 0;
    to = to - from > EDGES ? from + EDGES : to;
    for (hx_eidx e = from; e < to; e++) {
        const uint32_t word = hx_map_word(map, hx_edge_offset(graph->edge[e]), repeats);
        n += word != HX_WORD_SCALAR && word != HX_WORD_OPEN;
    }
    return n;
}

/* Does a type explain as much of an object as the one that it has? */
static hx_error *explains_as_much(struct hx_spread *spread, hx_obj object,
                                  const struct hx_vote *vote, bool *ret)
{
    const struct hx_graph *graph = spread->graph;
    const struct hx_known *known = &spread->known[object];
    const struct hx_word_map *map;
    if (known->type & HX_TYPE_BY_VTABLE)
        return *ret = true, NULL;
    HX_TRY(hx_word_map_of(&spread->typing->maps, known->type, &map));
    const unsigned before = count_pointers(graph, object, map, known->typed & HX_TYPED_REPEATS);
    HX_TRY(hx_word_map_of(&spread->typing->maps, vote->type, &map));
    *ret = count_pointers(graph, object, map, vote->fit == HX_FIT_SEVERAL) >= before;
    return NULL;
}

/* Something else was said of an object that has a type. */
static hx_error *weigh_vote(struct hx_spread *spread, hx_obj object, const struct hx_vote *vote,
                            const struct hx_word_map *map)
{
    struct hx_known *known = &spread->known[object];
    const uint32_t has = known->type;
    const enum hx_confidence confidence = HX_TYPED_CONFIDENCE(known->typed);
    /* `likely`: somewhere in the block is an object of that class; what is around it may be known.
     */
    const bool by_vtable = confidence == HX_CONFIDENCE_CERTAIN;
    if (!by_vtable &&
        (confidence > vote->confidence || hx_typing_begins_with(spread->table, vote->type, has))) {
        HX_TRY(give_type(spread, object, vote, map));
    } else if (confidence >= vote->confidence) {
        known->typed |= HX_TYPED_CONFLICT;
        bool better = false;
        if (known->votes & 15)
            known->votes--;
        else if (!by_vtable && known->votes >> 4 < HX_SPREAD_CHANGES)
            HX_TRY(explains_as_much(spread, object, vote, &better));
        if (better) {
            known->votes = (uint8_t)(known->votes + 16);
            HX_TRY(hx_word_map_of(&spread->typing->maps, vote->type, &map));
            HX_TRY(give_type(spread, object, vote, map));
        }
    }
    return NULL;
}

/* Does a type say anything of what is of it? */
static bool is_telling(const struct hx_type_table *table, uint32_t type)
{
    return type >= table->n_types || table->type[type].kind == HX_TYPE_POINTER ||
           hx_type_is_record(&table->type[type]) || table->type[type].flags & HX_TYPE_DECLARED;
}

static bool has_edges_behind(const struct hx_graph *graph, hx_obj object, uint64_t offset)
{
    const hx_eidx end = graph->fwd[(size_t)object + 1];
    return graph->fwd[object] < end && hx_edge_offset(graph->edge[end - 1]) >= offset;
}

/* Is there something behind what a type tells? Anything fits into the smallest block. */
static bool may_be_more(const struct hx_graph *graph, hx_obj object, uint64_t size, uint64_t bytes,
                        enum hx_fit fit)
{
    if (fit == HX_FIT_ONE)
        return size == HX_LEAST_BLOCK && has_edges_behind(graph, object, (bytes + 7) / 8 * 8);
    return fit != HX_FIT_FLEXIBLE;
}

/* A block that is larger than a type may be several of them, one that malloc did not split, or of
 * what begins with it, when there is only one such type. */
static hx_error *widen_vote(struct hx_spread *spread, hx_obj object, uint32_t from, bool self,
                            struct hx_vote *vote)
{
    const struct hx_graph *graph = spread->graph;
    const uint64_t size = hx_known_size(spread, object),
                   requested = graph->requested ? graph->requested[object] : HX_NO_REQUEST;
    const struct hx_word_map *map;
    const bool array = vote->fit == HX_FIT_SEVERAL && !self;
    uint32_t outer;
    bool several;
    HX_TRY(hx_outer_type(&spread->typing->outer, spread->table, vote->type, size, requested, array,
                         &outer, &several));
    if (outer) {
        HX_TRY(hx_word_map_of(&spread->typing->maps, outer, &map));
        if (edges_agree(spread, object, map, HX_FIT_ONE)) {
            *vote = (struct hx_vote){outer, HX_FIT_ONE, HX_CONFIDENCE_GUESS};
            return NULL;
        }
    }
    if (several) {
        vote->confidence = HX_CONFIDENCE_GUESS;
        HX_TRY(hx_word_map_of(&spread->typing->maps, vote->type, &map));
        if (vote->fit == HX_FIT_NOT || vote->fit == HX_FIT_ONE ||
            (vote->fit == HX_FIT_SEVERAL &&
             (self || !edges_agree(spread, object, map, vote->fit)))) {
            vote->fit = HX_FIT_ONE;
            return hx_word_maps_headed(&spread->typing->maps, vote->type, &vote->type);
        }
    }
    if (vote->fit == HX_FIT_SEVERAL && self) {
        if (hx_typing_is_loose(spread->table, vote->type, size, requested))
            vote->fit = HX_FIT_ONE;
        else if (hx_typing_begins_with(
                     spread->table, from,
                     vote->type)) /* nodes lie in no arrays that a node of theirs points to */
            vote->fit = HX_FIT_NOT;
    }
    return NULL;
}

/* How a block can be what a word says; *map is that of the type. */
static hx_error *judge_vote(struct hx_spread *spread, hx_obj object, uint32_t word, uint32_t from,
                            struct hx_vote *vote, const struct hx_word_map **map)
{
    const struct hx_graph *graph = spread->graph;
    const struct hx_type_table *table = spread->table;
    const uint64_t size = hx_known_size(spread, object),
                   requested = graph->requested ? graph->requested[object] : HX_NO_REQUEST;
    const bool many = word & HX_WORD_MANY;
    vote->confidence = HX_CONFIDENCE_LIKELY;
    vote->fit = (many ? hx_typing_fit_many : hx_typing_fit)(table, vote->type, size, requested);
    HX_TRY(hx_word_map_of(&spread->typing->maps, vote->type, map));
    if (vote->type >= table->n_types)
        return NULL;
    const struct hx_type_entry *type = &table->type[vote->type];
    if (type->flags & HX_TYPE_DECLARED)
        vote->confidence = HX_CONFIDENCE_GUESS;
    else if (vote->fit == HX_FIT_ONE && type->kind == HX_TYPE_POINTER &&
             has_edges_behind(graph, object, type->size))
        vote->fit = HX_FIT_SEVERAL; /* the smallest block has room for three */
    else if (!many && hx_type_is_record(type) && type->size && type->size < size &&
             may_be_more(graph, object, size, type->size, vote->fit)) {
        HX_TRY(widen_vote(spread, object, from, (*map)->self, vote));
        HX_TRY(hx_word_map_of(&spread->typing->maps, vote->type, map));
    }
    return NULL;
}

/* A claim that an object can be what it says. */
static hx_error *take_vote(struct hx_spread *spread, hx_obj object, const struct hx_vote *vote,
                           const struct hx_word_map *map)
{
    const struct hx_known *known = &spread->known[object];
    if (HX_TYPED_SOURCE(known->typed) == HX_TYPED_NOT)
        return give_type(spread, object, vote, map);
    if (known->type != vote->type)
        return weigh_vote(spread, object, vote, map);
    if (vote->confidence < HX_TYPED_CONFIDENCE(known->typed)) /* it was a guess */
        return give_type(spread, object, vote, map);
    return NULL;
}

/* A word of a `from`, or of a root, says something of what it points to. */
static hx_error *vote_for(struct hx_spread *spread, hx_obj object, uint32_t word, uint32_t from)
{
    const struct hx_known *known = &spread->known[object];
    const struct hx_word_map *map;
    struct hx_vote vote = {.type = HX_WORD_TYPE(word)};
    if (vote.type < spread->table->n_types)
        vote.type = hx_typing_element(spread->table, vote.type);
    if (HX_TYPED_SOURCE(known->typed) != HX_TYPED_NOT &&
        hx_typing_is_a(spread, known->type, vote.type)) {
        hx_typing_support(spread, object);
        if (known->type != vote.type || HX_TYPED_CONFIDENCE(known->typed) != HX_CONFIDENCE_GUESS)
            return NULL;
    }
    if (!is_telling(spread->table, vote.type))
        return NULL;
    HX_TRY(judge_vote(spread, object, word, from, &vote, &map));
    if (vote.fit == HX_FIT_NOT || !edges_agree(spread, object, map, vote.fit))
        return NULL;
    return take_vote(spread, object, &vote, map);
}

/* A hint names several types, of which an object is one, or what a word points into. */
static hx_error *vote_for_one_of(struct hx_spread *spread, enum hx_edge_kind kind, hx_obj object,
                                 uint32_t word)
{
    const struct hx_known *known = &spread->known[object];
    const struct hx_word_map *map;
    struct hx_vote vote;
    if (HX_TYPED_SOURCE(known->typed) != HX_TYPED_NOT &&
        hx_typing_speaks_for(spread, kind, word, known->type)) {
        hx_typing_support(spread, object);
        return NULL;
    }
    HX_TRY(hx_typing_choose(spread, kind, object, word, &vote));
    if (vote.fit == HX_FIT_NOT)
        return NULL;
    HX_TRY(hx_word_map_of(&spread->typing->maps, vote.type, &map));
    return take_vote(spread, object, &vote, map);
}

/* A word points behind the number with which new[] begins what it makes of elements that have to be
 * destroyed. */
static hx_error *vote_for_counted(struct hx_spread *spread, hx_obj object, uint32_t word)
{
    const struct hx_graph *graph = spread->graph;
    const uint64_t size = hx_known_size(spread, object),
                   requested = graph->requested ? graph->requested[object] : HX_NO_REQUEST;
    struct hx_vote vote = {.fit = HX_FIT_ONE, .confidence = HX_CONFIDENCE_LIKELY};
    const struct hx_word_map *map;
    const uint32_t type = HX_WORD_TYPE(word);
    if (HX_TYPED_SOURCE(spread->known[object].typed) != HX_TYPED_NOT ||
        type >= spread->table->n_types || spread->table->type[type].kind != HX_TYPE_RECORD ||
        size < 16)
        return NULL;
    const enum hx_fit fit = hx_typing_fit_many(
        spread->table, type, size - 8, requested == HX_NO_REQUEST ? requested : requested - 8);
    if ((fit != HX_FIT_ONE && fit != HX_FIT_SEVERAL) || !spread->table->type[type].size)
        return NULL;
    HX_TRY(hx_word_maps_counted(&spread->typing->maps, type, &vote.type));
    HX_TRY(hx_word_map_of(&spread->typing->maps, vote.type, &map));
    if (edges_agree(spread, object, map, vote.fit))
        HX_TRY(give_type(spread, object, &vote, map));
    return NULL;
}

/* A word points to a part within: a link of a list, say. Which record has such parts there is told
 * by the block's size alone, so that it is a guess. */
static hx_error *vote_for_container(struct hx_spread *spread, hx_obj object, uint32_t word)
{
    const struct hx_graph *graph = spread->graph;
    const struct hx_type_table *table = spread->table;
    struct hx_vote vote = {.fit = HX_FIT_ONE, .confidence = HX_CONFIDENCE_GUESS};
    const struct hx_word_map *map;
    const uint32_t part = HX_WORD_TYPE(word);
    if (HX_TYPED_SOURCE(spread->known[object].typed) != HX_TYPED_NOT || part >= table->n_types ||
        !hx_type_is_record(&table->type[part]))
        return NULL;
    HX_TRY(
        hx_container_type(&spread->typing->containers, table, part, hx_known_size(spread, object),
                          graph->requested ? graph->requested[object] : HX_NO_REQUEST, &vote.type));
    if (!vote.type)
        return NULL;
    HX_TRY(hx_word_map_of(&spread->typing->maps, vote.type, &map));
    const struct hx_agreement is = hx_typing_agreement(graph, object, map, vote.fit);
    return is.good && !is.bad && !hx_typing_lacks_vtable(graph, object, map)
               ? give_type(spread, object, &vote, map)
               : NULL;
}

/* What an edge says through a word. */
static hx_error *vote_by_edge(struct hx_spread *spread, enum hx_edge_kind kind, hx_obj object,
                              uint32_t word, uint32_t from)
{
    if (!HX_WORD_TARGET(word))
        return NULL;
    if (hx_word_maps_one_of(&spread->typing->maps, word))
        return vote_for_one_of(spread, kind, object, word);
    if (kind == HX_EDGE_START)
        return vote_for(spread, object, word, from);
    return kind == HX_EDGE_KNOWN      ? vote_for_counted(spread, object, word)
           : kind == HX_EDGE_INTERIOR ? vote_for_container(spread, object, word)
                                      : NULL;
}

/* --- along the edges ------------------------------------------------------------- */

static hx_error *weigh_first_saying(struct hx_spread *spread)
{
    const struct hx_saying said = spread->saying[spread->first_saying++ % HX_SPREAD_SAYINGS];
    return vote_by_edge(spread, said.kind, said.object, said.word, said.from);
}

/* Does a word say once more what is known? Then nothing else is looked at. */
static bool is_settled(const struct hx_known *known, uint32_t word)
{
    return HX_TYPED_SOURCE(known->typed) != HX_TYPED_NOT && known->type == HX_WORD_TYPE(word) &&
           HX_TYPED_CONFIDENCE(known->typed) != HX_CONFIDENCE_GUESS;
}

/* What it is held against lies anywhere in memory; that is read ahead in two steps. */
static hx_error *add_saying(struct hx_spread *spread, enum hx_edge_kind kind, hx_obj object,
                            uint32_t word, uint32_t from)
{
    const struct hx_graph *graph = spread->graph;
    if (!HX_WORD_TARGET(word))
        return NULL;
    __builtin_prefetch(&spread->known[object]);
    __builtin_prefetch(&graph->fwd[object]);
    spread->saying[spread->end_saying++ % HX_SPREAD_SAYINGS] =
        (struct hx_saying){object, word, from, kind};
    if (spread->end_saying - spread->first_saying >= HX_SPREAD_SAYINGS / 2) {
        const struct hx_saying *middle =
            &spread->saying[(spread->end_saying - HX_SPREAD_SAYINGS / 2) % HX_SPREAD_SAYINGS];
        if (!is_settled(&spread->known[middle->object], middle->word)) {
            __builtin_prefetch(&graph->edge[graph->fwd[middle->object]]);
            if (graph->evidence)
                __builtin_prefetch(&graph->evidence[graph->fwd[middle->object]]);
        }
    }
    return spread->end_saying - spread->first_saying == HX_SPREAD_SAYINGS
               ? weigh_first_saying(spread)
               : NULL;
}

/* A part of the stack that is far from its end is not read ahead: it is about to be buried. */
HX_PREFETCHES void look_ahead(const struct hx_spread *spread)
{
    if (spread->n_stack > AHEAD) {
        const hx_obj later = spread->stack[spread->n_stack - AHEAD];
        __builtin_prefetch(&spread->graph->fwd[later]);
        __builtin_prefetch(&spread->known[later]);
    }
}

hx_error *hx_spread_object(struct hx_spread *spread, hx_obj object)
{
    const struct hx_graph *graph = spread->graph;
    const hx_typed typed = spread->known[object].typed;
    const uint32_t type = spread->known[object].type;
    const hx_eidx end = graph->fwd[(size_t)object + 1];
    const struct hx_word_map *map;
    if (type & HX_TYPE_BY_VTABLE)
        return NULL;
    HX_TRY(hx_word_map_of(&spread->typing->maps, type, &map));
    if (map->scalars)
        return NULL;
    const struct hx_word_map words = *map; /* maps can move */
    for (hx_eidx e = graph->fwd[object]; e < end; e++) {
        const hx_edge edge = graph->edge[e];
        if (hx_typing_is_silent(graph, e))
            continue;
        const uint32_t word = hx_map_word(&words, hx_edge_offset(edge), typed & HX_TYPED_REPEATS);
        HX_TRY(add_saying(spread, hx_edge_kind_of(edge), hx_edge_target(edge), word, type));
    }
    return NULL;
}

hx_error *hx_spread_all(struct hx_spread *spread, const struct hx_progress *progress)
{
    for (;; spread->done++) {
        while (!spread->n_stack && spread->first_saying < spread->end_saying)
            HX_TRY(weigh_first_saying(spread));
        if (!spread->n_stack && spread->overflow) {
            spread->overflow = false;
            for (hx_obj i = 0; i < spread->graph->n; i++)
                if (spread->known[i].typed & PENDING) {
                    spread->known[i].typed &= (hx_typed)~PENDING;
                    push_object(spread, i);
                }
        }
        if (!spread->n_stack)
            return NULL;
        look_ahead(spread);
        const hx_obj object = spread->stack[--spread->n_stack];
        spread->known[object].typed &= (hx_typed)~PENDING;
        HX_TRY(hx_spread_object(spread, object));
        if ((spread->done & CHECK) != CHECK)
            continue;
        hx_progress_at(progress, "typing", spread->done, 2 * (uint64_t)spread->graph->n);
        if (hx_progress_cancelled(progress))
            return hx_error_cancelled("types");
    }
}

/* --- where it begins --------------------------------------------------------------- */

const struct hx_typed_place *hx_typing_place(const struct hx_typing_source *source,
                                             const struct hx_snapshot *snapshot,
                                             const struct hx_root_edge *edge)
{
    const bool in_register = snapshot->roots.v[edge->root].kind == HX_ROOT_REGISTER;
    size_t low = 0, high = source->n_places;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        const struct hx_typed_place *place = &source->place[middle];
        bool before = in_register ? !place->address && place->root < edge->root
                                  : place->address + place->size <= edge->address;
        if (before)
            low = middle + 1;
        else
            high = middle;
    }
    if (low == source->n_places)
        return NULL;
    const struct hx_typed_place *place = &source->place[low];
    if (in_register)
        return !place->address && place->root == edge->root ? place : NULL;
    return place->address && place->address <= edge->address ? place : NULL;
}

hx_error *hx_typing_root_word(hx_typing *typing, const struct hx_snapshot *snapshot,
                              const struct hx_root_edge *edge, bool *ret_is_typed,
                              uint32_t *ret_type, uint32_t *ret_word)
{
    const struct hx_typed_place *place = hx_typing_place(&typing->source, snapshot, edge);
    const struct hx_word_map *map;
    *ret_is_typed = place != NULL;
    if (!place)
        return NULL;
    *ret_type = hx_typing_element(typing->source.table, place->type);
    HX_TRY(hx_word_map_of(&typing->maps, *ret_type, &map));
    *ret_word = hx_map_word(map, edge->address - place->address, *ret_type != place->type);
    return NULL;
}

/* `scratch`: those of variables on stacks and in registers. They may hold what was there before
 * they were set, so they speak only of objects that nobody else speaks of. What the others say goes
 * on from many places at once: along a single list each node waits for the one before. */
static hx_error *spread_roots(struct hx_spread *spread, bool scratch,
                              const struct hx_progress *progress)
{
    const struct hx_snapshot *snapshot = spread->snapshot;
    for (size_t i = 0; i < snapshot->root_edges.n; i++) {
        const struct hx_root_edge *edge = &snapshot->root_edges.v[i];
        const struct hx_root *root = &snapshot->roots.v[edge->root];
        uint32_t type, word;
        bool is_typed;
        if (edge->kind > HX_EDGE_INTERIOR || root->kind == HX_ROOT_NAMED ||
            hx_root_is_scratch(root) != scratch || (scratch && spread->known[edge->target].typed))
            continue;
        HX_TRY(hx_typing_root_word(spread->typing, snapshot, edge, &is_typed, &type, &word));
        if (!is_typed)
            continue;
        HX_TRY(add_saying(spread, edge->kind, edge->target, word, type));
        if (scratch || spread->n_stack >= HX_SPREAD_STACK / 2)
            HX_TRY(hx_spread_all(spread, progress));
    }
    return hx_spread_all(spread, progress);
}

/* The type of a name that a vtable told; "T[]": an array behind its number. */
static hx_error *number_of_class(struct hx_word_maps *maps, const char *name, uint32_t *ret)
{
    HX_CLEANUP(hx_text_free) struct hx_text element = {0};
    const size_t n = strlen(name);
    const bool array = n > 2 && strcmp(name + n - 2, "[]") == 0;
    hx_text_putn(&element, name, array ? n - 2 : n);
    HX_NEED(!element.failed);
    HX_TRY(hx_word_maps_find(maps, hx_text_str(&element), ret));
    if (*ret >= maps->table->n_types || maps->table->type[*ret].flags & HX_TYPE_DECLARED)
        *ret = 0;
    return array && *ret ? hx_word_maps_counted(maps, *ret, ret) : NULL;
}

/* Does the table have what a type that was found before is made of: "Node" of "Node *[]"? */
static hx_error *is_known_again(struct hx_typing *typing, const char *name, bool *ret)
{
    HX_CLEANUP(hx_text_free) struct hx_text base = {0};
    uint32_t number;
    size_t n = hx_typing_unsized_length(name);
    while (n > 2 && (strncmp(name + n - 2, "[]", 2) == 0 || strncmp(name + n - 2, " *", 2) == 0 ||
                     strncmp(name + n - 2, "**", 2) == 0))
        n -= name[n - 1] == '*' && name[n - 2] == '*' ? 1 : 2;
    hx_text_putn(&base, name, n);
    HX_NEED(!base.failed);
    HX_TRY(hx_word_maps_find(&typing->maps, hx_text_str(&base), &number));
    *ret = number != 0;
    return NULL;
}

/* Objects that have a type: with a vtable it is the table's where it has one that fits. What
 * pointers said, in a snapshot that was stored, they say again where the table knows the type. */
static hx_error *spread_known(struct hx_spread *spread)
{
    struct hx_snapshot *snapshot = spread->snapshot;
    struct hx_graph *graph = spread->graph;
    struct hx_typing *typing = spread->typing;
    HX_FREE bool *again = calloc(snapshot->types.n + 1, sizeof *again);
    HX_NEED(again && hx_vec_reserve(&typing->number, snapshot->types.n + 1));
    typing->number.n = snapshot->types.n;
    for (size_t i = 0; i < snapshot->types.n; i++) {
        uint32_t *class, *number = &typing->number.v[i];
        HX_TRY(number_of_class(&typing->maps, snapshot->types.v[i].name, number));
        HX_TRY(is_known_again(typing, snapshot->types.v[i].name, &again[i]));
        if (!*number) {
            *number = HX_TYPE_BY_VTABLE | (uint32_t)i;
            continue;
        }
        HX_TRY(hx_pairs_at(&typing->classes, *number, &class));
        *class = (uint32_t)i;
    }
    for (hx_obj i = 0; i < graph->n; i++) {
        struct hx_known *known = &spread->known[i];
        if (known->type >= snapshot->types.n)
            continue;
        const uint32_t type = known->type, number = typing->number.v[type];
        const enum hx_type_source source = HX_TYPED_SOURCE(known->typed);
        if (source == HX_TYPED_PYTHON) {
            known->type = HX_TYPE_BY_VTABLE | type;
            continue;
        }
        if (source != HX_TYPED_NOT && source != HX_TYPED_VTABLE) {
            known->type = again[type] ? HX_NO_TYPE : HX_TYPE_BY_VTABLE | type;
            known->typed = again[type] ? 0 : known->typed;
            continue;
        }
        /* `likely` is an object within the block, or at its start: only then it is as large. */
        const bool whole =
            !(number & HX_TYPE_BY_VTABLE) && hx_typing_is_whole(typing, graph, i, number);
        known->type = whole ? number : HX_TYPE_BY_VTABLE | type;
        if (source == HX_TYPED_NOT)
            known->typed = HX_TYPED(snapshot->types.v[type].confidence, HX_TYPED_VTABLE);
        if (whole) {
            known->votes = HX_SUPPORT_MAX;
            push_object(spread, i);
        }
    }
    return NULL;
}

/* --- by site ----------------------------------------------------------------------- */

struct site_vote {
    uint32_t type, left;
    bool repeats;
    uint64_t typed, of_type;
};

static hx_error *type_by_site(struct hx_spread *spread)
{
    const struct hx_graph *graph = spread->graph;
    const size_t n = spread->snapshot->sites.n;
    if (!graph->site || !n)
        return NULL;
    HX_FREE struct site_vote *votes = calloc(n, sizeof *votes);
    HX_NEED(votes);
    for (unsigned pass = 0; pass < 3; pass++)
        for (hx_obj i = 0; i < graph->n; i++) {
            if (graph->site[i] >= n)
                continue;
            struct hx_known *known = &spread->known[i];
            struct site_vote *vote = &votes[graph->site[i]];
            const bool typed = known->typed != 0, repeats = known->typed & HX_TYPED_REPEATS;
            const bool same = known->type == vote->type && repeats == vote->repeats;
            if (pass == 0 && typed) {
                if (!vote->left) {
                    vote->type = known->type;
                    vote->repeats = repeats;
                }
                vote->left += same || !vote->left ? 1 : -1u;
            } else if (pass == 1 && typed) {
                vote->typed++;
                vote->of_type += same;
            } else if (pass == 2 && !typed && vote->typed >= SITE_LEAST &&
                       vote->of_type * 100 >= vote->typed * 95 &&
                       !(vote->type & HX_TYPE_BY_VTABLE)) {
                const struct hx_word_map *map;
                enum hx_fit fit =
                    hx_typing_fit(spread->table, vote->type, graph->size[i],
                                  graph->requested ? graph->requested[i] : HX_NO_REQUEST);
                HX_TRY(hx_word_map_of(&spread->typing->maps, vote->type, &map));
                if (fit == HX_FIT_NOT || (fit == HX_FIT_SEVERAL) != vote->repeats ||
                    !edges_agree(spread, i, map, fit))
                    continue;
                known->type = vote->type;
                known->typed = (hx_typed)(HX_TYPED(HX_CONFIDENCE_GUESS, HX_TYPED_SITE) |
                                          (vote->repeats ? HX_TYPED_REPEATS : 0));
            }
        }
    return NULL;
}

/* --- the whole ----------------------------------------------------------------------- */

/* Where pointers disagreed, what they say is a guess. */
static void settle_confidence(struct hx_spread *spread)
{
    for (hx_obj i = 0; i < spread->graph->n; i++) {
        struct hx_known *known = &spread->known[i];
        if (known->typed & HX_TYPED_CONFLICT && HX_TYPED_SOURCE(known->typed) == HX_TYPED_POINTER &&
            (known->votes & 15) < 2)
            known->typed = (hx_typed)((known->typed & ~HX_TYPED(3, 7)) |
                                      HX_TYPED(HX_CONFIDENCE_GUESS, HX_TYPED_POINTER));
    }
}

static hx_error *type_objects(struct hx_spread *spread, const struct hx_progress *progress)
{
    HX_NEED(spread->stack = malloc(HX_SPREAD_STACK * sizeof *spread->stack));
    HX_TRY(spread_known(spread));
    HX_TRY(hx_spread_all(spread, progress));
    HX_TRY(spread_roots(spread, false, progress));
    HX_TRY(spread_roots(spread, true, progress));
    HX_TRY(hx_typing_take_back(spread, progress));
    settle_confidence(spread);
    return type_by_site(spread);
}

/* From the graph, which is without types meanwhile. */
static hx_error *take_known(struct hx_spread *spread)
{
    struct hx_graph *graph = spread->graph;
    HX_TRY(hx_big_array(spread->known, graph->n));
    for (hx_obj i = 0; i < graph->n; i++)
        spread->known[i] = (struct hx_known){
            .type = graph->type ? graph->type[i] : HX_NO_TYPE,
            .typed = graph->typed ? graph->typed[i] : 0,
            .size = (uint16_t)(graph->size[i] < UINT16_MAX ? graph->size[i] : UINT16_MAX)};
    hx_big_array_free(graph->type);
    hx_big_array_free(graph->typed);
    return NULL;
}

static hx_error *give_known(struct hx_spread *spread)
{
    struct hx_graph *graph = spread->graph;
    HX_TRY(hx_big_array(graph->type, graph->n));
    HX_TRY(hx_big_array(graph->typed, graph->n));
    for (hx_obj i = 0; i < graph->n; i++) {
        graph->type[i] = spread->known[i].type;
        graph->typed[i] = spread->known[i].typed;
    }
    return NULL;
}

hx_error *hx_typing_find(struct hx_snapshot *snapshot, const struct hx_typing_source *source,
                         const struct hx_progress *progress, hx_typing **ret)
{
    HX_TYPING hx_typing *typing = calloc(1, sizeof *typing);
    HX_NEED(typing);
    typing->source = *source;
    hx_word_maps_init(&typing->maps, source->table, source->hints);
    struct hx_spread spread = {
        .typing = typing, .snapshot = snapshot, .graph = &snapshot->graph, .table = source->table};
    uint64_t begun = hx_timing_begin();
    if (snapshot->graph.n) {
        hx_error *err = take_known(&spread);
        if (!err)
            err = type_objects(&spread, progress);
        if (!err)
            err = give_known(&spread);
        free(spread.stack);
        free(spread.doubtful);
        hx_big_array_free(spread.known);
        HX_TRY(err);
        HX_TRY(hx_typing_name_types(typing, snapshot));
    }
    hx_progress_at(progress, "typing", snapshot->graph.n, snapshot->graph.n);
    hx_timing_end(begun, "typing", snapshot->graph.n);
    *ret = hx_steal(typing);
    return NULL;
}

void hx_typing_destroy(hx_typing *typing)
{
    if (!typing)
        return;
    hx_word_maps_deinit(&typing->maps);
    hx_outer_types_deinit(&typing->outer);
    hx_container_types_deinit(&typing->containers);
    hx_pairs_free(&typing->classes);
    hx_vec_free(&typing->number);
    free(typing);
}
