/* claims.c - what a pointer claims of an object, held against the object's size and edges. */
#include "traverse/typing/typing_private.h"

#include "base/lower_bound.h"

#include <stdlib.h>

#define SLACK        16 /* what malloc rounds up, at most */
#define UNSPLIT      32 /* what it leaves where the rest would be too small for a block */
#define LEAST        24 /* the smallest block */
#define MAPPED_LEAST ((uint64_t)1 << 16)
#define MAPPED_WORDS 16
#define PAGE         4096
#define EDGES        64 /* of an object that are held against a type */

uint32_t hx_typing_element(const struct hx_type_table *table, uint32_t type)
{
    for (unsigned i = 0; i < HX_TYPE_DEPTH && type < table->n_types; i++) {
        if (table->type[type].kind != HX_TYPE_ARRAY)
            return type;
        type = table->type[type].target;
    }
    return 0;
}

/* --- does it fit? ---------------------------------------------------------------- */

static bool is_record(const struct hx_type_entry *type)
{
    return type->kind == HX_TYPE_RECORD || type->kind == HX_TYPE_UNION;
}

static bool is_flexible(const struct hx_type_table *table, uint32_t number)
{
    uint64_t offset;
    return hx_flexible_array(table, number, &offset);
}

/* What malloc may have added. Of large blocks glibc makes whole pages, its own words among them. */
static uint64_t slack_of(uint64_t size)
{
    return size >= MAPPED_LEAST && (size + MAPPED_WORDS) % PAGE == 0 ? PAGE : SLACK;
}

/* May a block of `size` bytes, of which `requested` were asked for, be one or several of a type? */
enum hx_fit hx_typing_fit(const struct hx_type_table *table, uint32_t number, uint64_t size,
                          uint64_t requested)
{
    if (number >= table->n_types)
        return HX_FIT_ONE; /* a name, of which nothing is known */
    const struct hx_type_entry *type = &table->type[number];
    const uint64_t least = requested != HX_NO_REQUEST ? requested
                           : size <= LEAST            ? 1
                                                      : size - slack_of(size) + 1;
    const uint64_t most = requested != HX_NO_REQUEST ? requested : size;
    if (!type->size)
        return is_flexible(table, number) ? HX_FIT_FLEXIBLE : HX_FIT_NOT;
    if (type->size > most)
        return HX_FIT_NOT;
    if (type->size >= least)
        return HX_FIT_ONE;
    if (is_flexible(table, number))
        return HX_FIT_FLEXIBLE;
    if (most / type->size * type->size >= least)
        return HX_FIT_SEVERAL;
    /* A block that malloc did not split has up to 32 bytes more. */
    return requested == HX_NO_REQUEST && most - type->size < UNSPLIT ? HX_FIT_ONE : HX_FIT_NOT;
}

/* --- do its edges lie where the type can have pointers? ----------------------------- */

struct agreement {
    unsigned good, bad;
};

static struct agreement hold_edges(const struct hx_graph *graph, hx_obj object,
                                   const struct hx_word_map *map, enum hx_fit fit)
{
    hx_eidx from = graph->fwd[object], to = graph->fwd[(size_t)object + 1];
    struct agreement is = {0};
    to = to - from > EDGES ? from + EDGES : to;
    for (hx_eidx e = from; e < to; e++) {
        uint32_t word = hx_map_word(map, hx_edge_offset(graph->edge[e]), fit == HX_FIT_SEVERAL);
        is.bad += word == HX_WORD_SCALAR;
        is.good += word != HX_WORD_SCALAR && word != HX_WORD_OPEN;
    }
    return is;
}

static bool agrees(struct agreement is, enum hx_fit fit)
{
    return fit == HX_FIT_SEVERAL ? is.bad * 8 <= is.good : is.bad <= is.good;
}

bool hx_typing_edges_agree(const struct hx_graph *graph, hx_obj object,
                           const struct hx_word_map *map, enum hx_fit fit)
{
    return agrees(hold_edges(graph, object, map, fit), fit);
}

bool hx_typing_begins_with(const struct hx_type_table *table, uint32_t outer, uint32_t inner)
{
    for (unsigned depth = 0; depth < HX_TYPE_DEPTH && outer < table->n_types; depth++) {
        const struct hx_type_entry *type = &table->type[outer];
        if (outer == inner)
            return true;
        if (type->kind == HX_TYPE_ARRAY)
            outer = type->target;
        else if (type->kind == HX_TYPE_RECORD && type->n && !table->field[type->first].offset &&
                 !(table->field[type->first].flags & (HX_FIELD_VIRTUAL | HX_FIELD_BITS)))
            outer = table->field[type->first].type;
        else
            return false;
    }
    return false;
}

/* --- what begins with a type --------------------------------------------------------- */

static int compare_derived(const void *a, const void *b)
{
    const struct hx_derived_type *x = a, *y = b;
    return x->base != y->base ? (x->base < y->base ? -1 : 1)
                              : (x->type > y->type) - (x->type < y->type);
}

/* Each record, and what it begins with: the first member or base, that of this one, ... */
static hx_error *find_derived(hx_typing *typing)
{
    const struct hx_type_table *table = typing->source.table;
    for (uint32_t i = 0; i < table->n_types; i++) {
        uint32_t base = i;
        for (unsigned depth = 0; depth < HX_TYPE_DEPTH; depth++) {
            const struct hx_type_entry *type = &table->type[base];
            if (type->kind != HX_TYPE_RECORD || !type->n || table->field[type->first].offset ||
                table->field[type->first].flags & (HX_FIELD_VIRTUAL | HX_FIELD_BITS))
                break;
            base = table->field[type->first].type;
            if (table->type[base].kind == HX_TYPE_RECORD)
                HX_NEED(hx_vec_push(&typing->derived, (struct hx_derived_type){base, i}));
        }
    }
    if (typing->derived.n)
        qsort(typing->derived.v, typing->derived.n, sizeof *typing->derived.v, compare_derived);
    typing->derived_found = true;
    return NULL;
}

/* Is there something that begins with a `base`, and of which an object can be one? */
static hx_error *has_derived(hx_typing *typing, const struct hx_graph *graph, hx_obj object,
                             uint32_t base, bool *ret)
{
    const uint64_t requested = graph->requested ? graph->requested[object] : HX_NO_REQUEST;
    *ret = false;
    if (!typing->derived_found)
        HX_TRY(find_derived(typing));
    const struct hx_derived_type *derived = typing->derived.v;
    for (size_t i = HX_LOWER_BOUND(typing->derived.n, k, derived[k].base < base);
         !*ret && i < typing->derived.n && derived[i].base == base; i++)
        *ret = hx_typing_fit(typing->source.table, derived[i].type, graph->size[object],
                             requested) == HX_FIT_ONE;
    return NULL;
}

/* --- claims -------------------------------------------------------------------------- */

/* May an object be of a type of the table? Then claim->type and claim->fit say so. `sure`: only
 * where it has a pointer that the type has. */
static hx_error *claim_type(hx_typing *typing, const struct hx_graph *graph, hx_obj object,
                            uint32_t type, bool sure, struct hx_claim *claim)
{
    const struct hx_type_table *table = typing->source.table;
    const struct hx_type_entry *entry = &table->type[type];
    const uint64_t size = graph->size[object];
    const uint64_t requested = graph->requested ? graph->requested[object] : HX_NO_REQUEST;
    const struct hx_word_map *map;
    if (entry->kind != HX_TYPE_POINTER && (!is_record(entry) || !*hx_type_table_name(table, type)))
        return NULL;
    enum hx_fit fit = hx_typing_fit(table, type, size, requested);
    claim->larger |= fit != HX_FIT_ONE && is_record(entry) && entry->size && size > entry->size;
    if (fit == HX_FIT_NOT || (sure && fit == HX_FIT_SEVERAL))
        return NULL;
    HX_TRY(hx_word_map_of(&typing->maps, type, &map));
    if (fit == HX_FIT_SEVERAL && map->self && requested == HX_NO_REQUEST &&
        size - entry->size < UNSPLIT)
        fit = HX_FIT_ONE;
    const struct agreement is = hold_edges(graph, object, map, fit);
    bool other = false;
    if (fit == HX_FIT_SEVERAL)
        HX_TRY(has_derived(typing, graph, object, type, &other));
    /* Nodes lie in no arrays that a node of theirs points to. */
    if ((fit == HX_FIT_SEVERAL && map->self && claim->from == type) || other || !agrees(is, fit) ||
        (sure && (is.bad || !is.good)))
        return NULL;
    claim->type = type;
    claim->fit = fit;
    return NULL;
}

/* "T...": as large as T at least; where it is as large, a T. `sure`: as for claim_type(), where it
 * is larger. */
static hx_error *claim_more(hx_typing *typing, const struct hx_graph *graph, hx_obj object,
                            uint32_t more, bool sure, struct hx_claim *claim)
{
    const struct hx_type_table *table = typing->source.table;
    const uint32_t base = hx_word_maps_base(&typing->maps, more);
    const uint64_t requested = graph->requested ? graph->requested[object] : HX_NO_REQUEST;
    const struct hx_word_map *map;
    HX_TRY(hx_word_map_of(&typing->maps, base, &map));
    const struct agreement is = hold_edges(graph, object, map, HX_FIT_ONE);
    const bool one = hx_typing_fit(table, base, graph->size[object], requested) == HX_FIT_ONE;
    if (graph->size[object] < table->type[base].size || !agrees(is, HX_FIT_ONE) ||
        (sure && !one && (is.bad || !is.good)))
        return NULL;
    claim->type = one ? base : more;
    claim->fit = HX_FIT_ONE;
    return NULL;
}

/* "T | U": the largest one that fits and has pointers where the object has some; else a name: the
 * first one, or the last one where the pointer leads into the object. */
static hx_error *claim_one_of(hx_typing *typing, const struct hx_graph *graph, hx_obj object,
                              const uint32_t *type, size_t n, struct hx_claim *claim)
{
    const struct hx_type_table *table = typing->source.table;
    uint32_t name = 0, more = 0;
    for (size_t i = 0; i < n; i++) {
        struct hx_claim next = {.from = claim->from};
        if (type[i] >= table->n_types && hx_word_maps_base(&typing->maps, type[i]) != type[i])
            more = more ? more : type[i];
        else if (type[i] >= table->n_types)
            name = claim->inside || !name ? type[i] : name;
        else if (!claim->inside)
            HX_TRY(claim_type(typing, graph, object, type[i], true, &next));
        if (next.type &&
            (!claim->type || table->type[next.type].size > table->type[claim->type].size)) {
            claim->type = next.type;
            claim->fit = next.fit;
        }
    }
    if (!claim->type && more && !claim->inside)
        HX_TRY(claim_more(typing, graph, object, more, true, claim));
    if (!claim->type && name) {
        claim->type = name;
        claim->fit = HX_FIT_ONE;
    }
    return NULL;
}

hx_error *hx_typing_claim(hx_typing *typing, const struct hx_graph *graph, hx_obj object,
                          uint32_t word, struct hx_claim *claim)
{
    const struct hx_brought_type *brought = hx_word_maps_brought(&typing->maps, word);
    if (brought && brought->base)
        return claim->inside ? NULL : claim_more(typing, graph, object, word, false, claim);
    if (brought)
        return claim_one_of(typing, graph, object, brought->n ? brought->alternative : &word,
                            brought->n ? brought->n : 1, claim);
    if (word >= typing->source.table->n_types)
        return NULL;
    HX_TRY(claim_type(typing, graph, object, word, false, claim));
    if (claim->fit != HX_FIT_NOT || !claim->loose || !claim->larger)
        return NULL;
    claim->vague = true;
    HX_TRY(hx_word_maps_more(&typing->maps, word, &word));
    return claim_more(typing, graph, object, word, false, claim);
}
