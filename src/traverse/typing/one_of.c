/* one_of.c - what an object is that hints say is one of several types, or lies behind a header.
 *
 * Of what is pointed to the start of, the largest type counts that fits and has pointers where the
 * object has some, and none where it cannot; then what begins with a type; then a name, of which
 * nothing is known. An object without pointers is what only one of them can be.
 */
#include "traverse/typing/spread.h"

/* Can an object be a type, or what begins with it? */
static hx_error *hold_against(struct hx_spread *spread, hx_obj object, uint32_t word,
                              struct hx_vote *vote, struct hx_agreement *is)
{
    const struct hx_graph *graph = spread->graph;
    const struct hx_type_table *table = spread->table;
    const uint32_t type = HX_WORD_TYPE(word), head = hx_word_maps_head(&spread->typing->maps, type);
    const uint64_t requested = graph->requested ? graph->requested[object] : HX_NO_REQUEST;
    const struct hx_word_map *map;
    *vote = (struct hx_vote){type, HX_FIT_ONE, HX_CONFIDENCE_LIKELY};
    if (head) {
        const bool one = hx_typing_fit(table, head, graph->size[object], requested) == HX_FIT_ONE;
        vote->type = one ? head : type;
        vote->fit = table->type[head].size <= graph->size[object] ? HX_FIT_ONE : HX_FIT_NOT;
    } else if (word & HX_WORD_MANY) {
        vote->fit = hx_typing_fit_many(table, type, graph->size[object], requested);
    } else {
        const enum hx_fit fit = hx_typing_fit(table, type, graph->size[object], requested);
        vote->fit = fit == HX_FIT_ONE || fit == HX_FIT_FLEXIBLE ? fit : HX_FIT_NOT;
    }
    HX_TRY(hx_word_map_of(&spread->typing->maps, vote->type, &map));
    *is = hx_typing_agreement(graph, object, map, vote->fit);
    if (is->bad)
        vote->fit = HX_FIT_NOT;
    return NULL;
}

static bool is_name(const struct hx_spread *spread, uint32_t type)
{
    return type >= spread->table->n_types && !hx_word_maps_head(&spread->typing->maps, type);
}

static uint64_t size_of(const struct hx_spread *spread, uint32_t type)
{
    return type < spread->table->n_types ? spread->table->type[type].size : 0;
}

hx_error *hx_typing_choose(struct hx_spread *spread, enum hx_edge_kind kind, hx_obj object,
                           uint32_t word, struct hx_vote *ret)
{
    const struct hx_word_name *of = hx_word_maps_one_of(&spread->typing->maps, word);
    struct hx_vote best = {.fit = HX_FIT_NOT}, only = best, name = best;
    unsigned fitting = 0;
    for (size_t i = 0; kind == HX_EDGE_START && i < of->n; i++) {
        struct hx_vote vote;
        struct hx_agreement is;
        HX_TRY(hold_against(spread, object, of->types[i], &vote, &is));
        if (is_name(spread, vote.type)) {
            name = name.fit == HX_FIT_NOT ? vote : name;
        } else if (vote.fit != HX_FIT_NOT) {
            if (is.good &&
                (best.fit == HX_FIT_NOT || size_of(spread, vote.type) > size_of(spread, best.type)))
                best = vote;
            fitting += !fitting || vote.type != only.type;
            only = fitting == 1 ? vote : only;
        }
    }
    if (kind != HX_EDGE_START && of->inside) /* what it points to knows better */
        name = (struct hx_vote){of->inside, HX_FIT_ONE, HX_CONFIDENCE_GUESS};
    if (best.fit == HX_FIT_NOT)
        best = name.fit != HX_FIT_NOT ? name : fitting == 1 ? only : best;
    *ret = best;
    return NULL;
}

bool hx_typing_speaks_for(const struct hx_spread *spread, enum hx_edge_kind kind, uint32_t word,
                          uint32_t has)
{
    const struct hx_word_maps *maps = &spread->typing->maps;
    const struct hx_word_name *of = hx_word_maps_one_of(maps, word);
    const uint32_t n = spread->table->n_types;
    uint32_t type = HX_WORD_TYPE(word);
    if (of) {
        bool found = kind != HX_EDGE_START && of->inside == has;
        for (size_t i = 0; kind == HX_EDGE_START && i < of->n && !found; i++) {
            type = HX_WORD_TYPE(of->types[i]);
            found = has == type || has == hx_word_maps_head(maps, type);
        }
        return found;
    }
    type = type < n ? hx_typing_element(spread->table, type) : type;
    if (kind == HX_EDGE_KNOWN)
        return has >= n && !(has & HX_TYPE_BY_VTABLE) && maps->names.v[has - n].element == type;
    if (kind == HX_EDGE_INTERIOR)
        return has < n && type < n && hx_typing_contains(spread->table, has, type);
    return kind == HX_EDGE_START && hx_typing_is_a(spread, has, type);
}
