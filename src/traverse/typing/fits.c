/* fits.c - can a block be of a type by its size, and what larger types begin with that one, or have
 * it within. */
#include "traverse/typing/typing_private.h"

#include <stdlib.h>

#define SLACK   16    /* what malloc rounds up, at most */
#define UNSPLIT 32    /* with what it leaves where the rest would be too small for a block */
#define ALIGNED 48    /* the same of memory that was asked for with an alignment above 16 */
#define MAPPED  65536 /* bytes of one that can be a mapping of its own, */
#define PAGE    4096  /* in pages, as it is then */
#define OUTER   4096  /* types looked at that begin with one */
#define SEVERAL (UINT32_MAX - 1)

uint32_t hx_typing_element(const struct hx_type_table *table, uint32_t type)
{
    for (unsigned i = 0; i < HX_TYPE_DEPTH && type < table->n_types; i++) {
        if (table->type[type].kind != HX_TYPE_ARRAY)
            return type;
        type = table->type[type].target;
    }
    return 0;
}

static bool is_flexible(const struct hx_type_table *table, uint32_t number)
{
    uint64_t offset;
    return hx_flexible_array(table, number, &offset);
}

/* The fewest bytes that may have been asked for. */
static uint64_t least_bytes(uint64_t size, uint64_t requested)
{
    if (requested != HX_NO_REQUEST)
        return requested;
    if (size >= MAPPED && (size + SLACK) % PAGE == 0)
        return size - PAGE + 1;
    return size <= HX_LEAST_BLOCK ? 1 : size - SLACK + 1;
}

/* Can a block be one of a type that malloc did not split? */
static bool is_unsplit(const struct hx_type_entry *type, uint64_t size)
{
    return size - type->size < (type->size % 32 ? UNSPLIT : ALIGNED) ||
           size <= HX_LEAST_BLOCK + SLACK;
}

enum hx_fit hx_typing_fit(const struct hx_type_table *table, uint32_t number, uint64_t size,
                          uint64_t requested)
{
    if (number >= table->n_types)
        return HX_FIT_ONE; /* a name, of which nothing is known */
    const struct hx_type_entry *type = &table->type[number];
    const uint64_t least = least_bytes(size, requested);
    const uint64_t most = requested != HX_NO_REQUEST ? requested : size;
    if (type->flags & HX_TYPE_DECLARED)
        return HX_FIT_ONE;
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
    return requested == HX_NO_REQUEST && is_unsplit(type, most) ? HX_FIT_LOOSE : HX_FIT_NOT;
}

enum hx_fit hx_typing_fit_many(const struct hx_type_table *table, uint32_t number, uint64_t size,
                               uint64_t requested)
{
    const enum hx_fit fit = hx_typing_fit(table, number, size, requested);
    if (number >= table->n_types || fit == HX_FIT_FLEXIBLE || !table->type[number].size)
        return fit;
    const uint64_t most = requested != HX_NO_REQUEST ? requested : size,
                   one = table->type[number].size, n = most / one;
    const bool rest = requested == HX_NO_REQUEST ? most - n * one < UNSPLIT : most == n * one;
    return n > 1 && size > HX_LEAST_BLOCK && rest ? HX_FIT_SEVERAL : fit;
}

bool hx_typing_is_whole(const hx_typing *typing, const struct hx_graph *graph, hx_obj object,
                        uint32_t type)
{
    const enum hx_fit fit =
        hx_typing_fit(typing->source.table, type, graph->size[object],
                      graph->requested ? graph->requested[object] : HX_NO_REQUEST);
    return fit == HX_FIT_ONE || fit == HX_FIT_LOOSE;
}

bool hx_typing_is_loose(const struct hx_type_table *table, uint32_t type, uint64_t size,
                        uint64_t requested)
{
    return requested == HX_NO_REQUEST && type < table->n_types &&
           is_unsplit(&table->type[type], size);
}

/* --- what begins with a type ------------------------------------------------------- */

/* The first base or member of a record, NULL: it lies elsewhere, or there is none. */
static const struct hx_type_field *first_field(const struct hx_type_table *table, uint32_t number)
{
    const struct hx_type_entry *type = &table->type[number];
    const struct hx_type_field *first = &table->field[type->first];
    return type->kind == HX_TYPE_RECORD && type->n && !first->offset &&
                   !(first->flags & (HX_FIELD_VIRTUAL | HX_FIELD_BITS))
               ? first
               : NULL;
}

bool hx_typing_begins_with(const struct hx_type_table *table, uint32_t outer, uint32_t inner)
{
    for (unsigned depth = 0; depth < HX_TYPE_DEPTH && outer < table->n_types; depth++) {
        if (outer == inner)
            return true;
        const struct hx_type_field *first = first_field(table, outer);
        if (table->type[outer].kind == HX_TYPE_ARRAY)
            outer = table->type[outer].target;
        else if (first)
            outer = first->type;
        else
            return false;
    }
    return false;
}

/* For each type the records that have it at their start, as lists. */
static hx_error *list_outer(struct hx_outer_types *outer, const struct hx_type_table *table)
{
    outer->first = calloc(table->n_types, sizeof *outer->first);
    outer->next = calloc(table->n_types, sizeof *outer->next);
    HX_NEED(outer->first && outer->next);
    for (uint32_t i = 1; i < table->n_types; i++) {
        const struct hx_type_field *first = first_field(table, i);
        if (!first || !hx_type_is_record(&table->type[first->type]))
            continue;
        outer->next[i] = outer->first[first->type];
        outer->first[first->type] = i;
    }
    return NULL;
}

/* What is larger has larger numbers, so nothing is met twice. */
static uint32_t find_outer(const struct hx_outer_types *outer, const struct hx_type_table *table,
                           uint32_t type, uint64_t least, uint64_t most, bool bases)
{
    uint32_t way[HX_TYPE_DEPTH], found = 0;
    unsigned depth = 0;
    way[0] = outer->first[type];
    for (unsigned left = OUTER;;) {
        const uint32_t at = way[depth];
        if (!at) {
            if (!depth--)
                return found;
            way[depth] = outer->next[way[depth]];
            continue;
        }
        if (!left--)
            return SEVERAL;
        const struct hx_type_entry *entry = &table->type[at];
        const bool fits = entry->size >= least && entry->size <= most &&
                          entry->size > table->type[type].size,
                   wanted = !bases || first_field(table, at)->flags & HX_FIELD_BASE;
        if (wanted && fits && *hx_type_table_name(table, at)) {
            if (found)
                return SEVERAL;
            found = at;
        }
        if (wanted && entry->size <= most && depth + 1 < HX_TYPE_DEPTH)
            way[++depth] = outer->first[at];
        else
            way[depth] = outer->next[at];
    }
}

hx_error *hx_outer_type(struct hx_outer_types *outer, const struct hx_type_table *table,
                        uint32_t type, uint64_t size, uint64_t requested, bool bases, uint32_t *ret,
                        bool *ret_several)
{
    const bool asked = requested != HX_NO_REQUEST;
    const uint64_t bytes = asked ? requested : size;
    uint32_t *known;
    *ret = 0;
    *ret_several = false;
    if (!outer->first)
        HX_TRY(list_outer(outer, table));
    if (!outer->first[type] || bytes > UINT32_MAX / 4)
        return NULL;
    HX_TRY(hx_pairs_at(&outer->known, hx_pair_key(type, (uint32_t)bytes * 4 + 2u * asked + bases),
                       &known));
    if (*known == HX_NO_PAIR)
        *known = find_outer(outer, table, type, least_bytes(size, requested), bytes, bases);
    if (!*known && !asked && size > UNSPLIT)
        *known = find_outer(outer, table, type, size - UNSPLIT + 1, size, bases);
    *ret_several = *known == SEVERAL;
    *ret = *ret_several ? 0 : *known;
    return NULL;
}

void hx_outer_types_deinit(struct hx_outer_types *outer)
{
    free(outer->first);
    free(outer->next);
    hx_pairs_free(&outer->known);
}

/* --- what has a type within ------------------------------------------------------- */

static bool is_within(const struct hx_type_field *field)
{
    return field->offset && !(field->flags & (HX_FIELD_VIRTUAL | HX_FIELD_BITS));
}

/* For each type the fields that are one, as lists. */
static hx_error *list_fields(struct hx_container_types *containers,
                             const struct hx_type_table *table)
{
    containers->field_1 = calloc(table->n_types, sizeof *containers->field_1);
    containers->next_1 = calloc((size_t)table->n_fields + 1, sizeof *containers->next_1);
    containers->owner = calloc((size_t)table->n_fields + 1, sizeof *containers->owner);
    HX_NEED(containers->field_1 && containers->next_1 && containers->owner);
    for (uint32_t i = 1; i < table->n_types; i++)
        for (uint32_t k = 0; table->type[i].kind == HX_TYPE_RECORD && k < table->type[i].n; k++) {
            const uint32_t number = table->type[i].first + k;
            const struct hx_type_field *field = &table->field[number];
            if (!is_within(field) || !hx_type_is_record(&table->type[field->type]))
                continue;
            containers->owner[number] = i;
            containers->next_1[number] = containers->field_1[field->type];
            containers->field_1[field->type] = number + 1;
        }
    return NULL;
}

static uint32_t find_container(const struct hx_container_types *containers,
                               const struct hx_type_table *table, uint32_t part, uint64_t size,
                               uint64_t requested)
{
    uint32_t found = 0, left = OUTER;
    for (uint32_t at = containers->field_1[part]; at; at = containers->next_1[at - 1]) {
        const uint32_t owner = containers->owner[at - 1];
        if (!left--)
            return 0;
        if (owner == found || !*hx_type_table_name(table, owner) ||
            hx_typing_fit(table, owner, size, requested) != HX_FIT_ONE)
            continue;
        if (found)
            return 0;
        found = owner;
    }
    return found;
}

hx_error *hx_container_type(struct hx_container_types *containers,
                            const struct hx_type_table *table, uint32_t part, uint64_t size,
                            uint64_t requested, uint32_t *ret)
{
    const bool asked = requested != HX_NO_REQUEST;
    const uint64_t bytes = asked ? requested : size;
    uint32_t *known;
    *ret = 0;
    if (!containers->field_1)
        HX_TRY(list_fields(containers, table));
    if (!containers->field_1[part] || bytes > UINT32_MAX / 2)
        return NULL;
    HX_TRY(hx_pairs_at(&containers->known, hx_pair_key(part, (uint32_t)bytes * 2 + asked), &known));
    if (*known == HX_NO_PAIR)
        *known = find_container(containers, table, part, size, requested);
    *ret = *known;
    return NULL;
}

void hx_container_types_deinit(struct hx_container_types *containers)
{
    free(containers->field_1);
    free(containers->next_1);
    free(containers->owner);
    hx_pairs_free(&containers->known);
}

bool hx_typing_contains(const struct hx_type_table *table, uint32_t record, uint32_t part)
{
    const struct hx_type_entry *type = &table->type[record];
    bool found = false;
    for (uint32_t i = 0; type->kind == HX_TYPE_RECORD && i < type->n && !found; i++) {
        const struct hx_type_field *field = &table->field[type->first + i];
        found = is_within(field) && field->type == part;
    }
    return found;
}
