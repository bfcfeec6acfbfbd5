/* entries.c - edges from one set into another, by kinds of blocks. */
#include "traverse/retain/entries.h"

#include "base/cleanup.h"
#include "base/pairs.h"
#include "base/prefetch.h"

#include <stdlib.h>

#define CHECK_MASK 0xffff
#define NO_SLOT    UINT32_MAX

enum {
    AHEAD = 16,
    FEW = 8,
    SAMPLE = 4096,  /* of alike blocks so many are looked at, more or less */
    ARRAY = 1024,   /* a block of more bytes is taken for an array: all its words are one field */
    USUAL_PART = 4, /* a field is usual when a fourth of the blocks have a reference there */
};

/* Objects that bring the same members, and look alike. */
struct group {
    uint32_t from; /* a set, or behind all sets a retainer */
    bool leads;    /* to a chosen set */
    uint64_t objects, sampled;
};

/* A place in such objects by which some of them lead to a chosen set. */
struct field {
    uint32_t group;
    uint64_t having; /* of those sampled, with a reference there */
};

/* So many objects of a group lead to a chosen set. */
struct lead {
    uint32_t group, slot;
    uint64_t objects;
    bool usual; /* by a usual field */
};

/* One of its fields. */
struct mark {
    uint32_t field, lead;
};

struct work {
    const struct hx_snapshot *snapshot;
    const struct hx_retain_rule *rule;
    const hx_sets *sets;
    const hx_set *set; /* of each object */
    const struct hx_progress *progress;
    struct hx_entries *result;
    unsigned follows;
    uint32_t *slot; /* of each set: its number in result->of */
    struct hx_pairs groups, fields, leads, marks;
    uint64_t last_key; /* and the group of that: neighbours are often alike */
    uint32_t last_group;
    HX_VEC(struct group) group_list;
    HX_VEC(struct field) field_list;
    HX_VEC(struct lead) lead_list;
    HX_VEC(struct mark) mark_list;
    uint32_t *last; /* for each slot: 1 + the object that was counted last */
};

/* --- the sets that are asked for --------------------------------------------------- */

static hx_error *make_slots(struct work *work, const hx_set *chosen, size_t n)
{
    struct hx_entries *result = work->result;
    hx_set sets = hx_sets_count(work->sets);
    size_t members = 0;
    work->slot = malloc(((size_t)sets + 1) * sizeof *work->slot);
    work->last = calloc(n + 1, sizeof *work->last);
    result->of = calloc(n + 1, sizeof *result->of);
    HX_NEED(work->slot && work->last && result->of);
    for (hx_set set = 0; set < sets; set++)
        work->slot[set] = NO_SLOT;
    for (size_t i = 0; i < n; i++) {
        const hx_retainer *element;
        size_t count = hx_sets_elements(work->sets, chosen[i], &element);
        result->of[i] = (struct hx_set_entries){chosen[i], members, count};
        work->slot[chosen[i]] = (uint32_t)i;
        members += count;
    }
    result->n = n;
    result->n_entries = members;
    result->entry = calloc(members + 1, sizeof *result->entry);
    HX_NEED(result->entry);
    for (size_t i = 0; i < n; i++) {
        const hx_retainer *element;
        hx_sets_elements(work->sets, chosen[i], &element);
        for (size_t k = 0; k < result->of[i].n; k++)
            result->entry[result->of[i].first + k] =
                (struct hx_entry){.member = element[k], .doubt = true};
    }
    return NULL;
}

static void add(struct work *work, uint32_t slot, hx_retainer member, uint64_t entries,
                uint64_t alike, bool usual)
{
    const struct hx_set_entries *of = &work->result->of[slot];
    struct hx_entry *entry = work->result->entry + of->first;
    size_t low = 0, high = of->n;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (entry[middle].member < member)
            low = middle + 1;
        else
            high = middle;
    }
    if (low == of->n || entry[low].member != member)
        return;
    entry[low].entries += entries;
    entry[low].alike += alike;
    entry[low].doubt &= !usual;
}

/* --- what leads there -------------------------------------------------------------- */

/* Who an object brings: the members of its set, or itself. */
static uint32_t brings(const struct work *work, hx_obj object)
{
    hx_retainer own = work->rule->of_object ? work->rule->of_object[object] : HX_NO_RETAINER;
    return own == HX_NO_RETAINER ? work->set[object] : hx_sets_count(work->sets) + own;
}

/* What an object looks like: its shape, else its size. */
static uint32_t class_of(const struct hx_graph *graph, hx_obj object)
{
    enum { SIZES = 1 << 16, GRANULE = 16 };
    if (graph->shape && graph->shape[object] != HX_NO_SHAPE)
        return graph->shape[object];
    uint64_t size = graph->size[object] / GRANULE;
    return HX_NO_SHAPE + 1u + (uint32_t)(size < SIZES ? size : SIZES);
}

/* The number of its group, which is made on first sight. */
static hx_error *group_of(struct work *work, hx_obj object, uint32_t *ret)
{
    uint32_t from = brings(work, object);
    uint64_t key = hx_pair_key(from, class_of(&work->snapshot->graph, object));
    if (key != work->last_key || !work->group_list.n) {
        uint32_t *at;
        HX_TRY(hx_pairs_at(&work->groups, key, &at));
        if (*at == HX_NO_PAIR) {
            *at = (uint32_t)work->group_list.n;
            HX_NEED(hx_vec_push(&work->group_list, ((struct group){.from = from})));
        }
        work->last_key = key;
        work->last_group = *at;
    }
    *ret = work->last_group;
    return NULL;
}

static uint32_t field_key(const struct hx_graph *graph, hx_obj object, hx_edge edge)
{
    return graph->size[object] > ARRAY ? UINT32_MAX : (uint32_t)hx_edge_offset(edge);
}

static hx_error *number_of(struct hx_pairs *pairs, uint32_t a, uint32_t b, size_t next,
                           uint32_t *ret)
{
    uint32_t *at;
    HX_TRY(hx_pairs_at(pairs, hx_pair_key(a, b), &at));
    if (*at == HX_NO_PAIR)
        *at = (uint32_t)next;
    *ret = *at;
    return NULL;
}

static hx_error *add_lead(struct work *work, uint32_t group, uint32_t key, uint32_t slot,
                          bool again)
{
    uint32_t field, lead, mark;
    HX_TRY(number_of(&work->fields, group, key, work->field_list.n, &field));
    if (field == work->field_list.n)
        HX_NEED(hx_vec_push(&work->field_list, ((struct field){.group = group})));
    HX_TRY(number_of(&work->leads, group, slot, work->lead_list.n, &lead));
    if (lead == work->lead_list.n)
        HX_NEED(hx_vec_push(&work->lead_list, ((struct lead){.group = group, .slot = slot})));
    HX_TRY(number_of(&work->marks, field, lead, work->mark_list.n, &mark));
    if (mark == work->mark_list.n)
        HX_NEED(hx_vec_push(&work->mark_list, ((struct mark){field, lead})));
    work->group_list.v[group].leads = true;
    work->lead_list.v[lead].objects += !again;
    return NULL;
}

static inline bool leads(const struct work *work, hx_edge edge)
{
    return work->follows >> hx_edge_kind_of(edge) & 1;
}

static hx_error *count_leads_of(struct work *work, hx_obj object, uint32_t group)
{
    const struct hx_graph *graph = &work->snapshot->graph;
    uint32_t from = work->group_list.v[group].from;
    for (hx_eidx e = graph->fwd[object]; e < graph->fwd[(size_t)object + 1]; e++) {
        hx_set to = leads(work, graph->edge[e]) ? work->set[hx_edge_target(graph->edge[e])] : from;
        uint32_t slot = to == from ? NO_SLOT : work->slot[to];
        if (slot == NO_SLOT)
            continue;
        bool again = work->last[slot] == (uint32_t)object + 1;
        work->last[slot] = (uint32_t)object + 1;
        HX_TRY(add_lead(work, group, field_key(graph, object, graph->edge[e]), slot, again));
    }
    return NULL;
}

HX_PREFETCHES void prefetch(const struct work *work, hx_obj object)
{
    const struct hx_graph *graph = &work->snapshot->graph;
    hx_eidx e = graph->fwd[object], end = graph->fwd[(size_t)object + 1];
    for (end = end - e > FEW ? e + FEW : end; e < end; e++)
        __builtin_prefetch(&work->set[hx_edge_target(graph->edge[e])]);
}

/* All objects have a group: those that lead nowhere are alike, too. */
static hx_error *count_leads(struct work *work)
{
    const struct hx_graph *graph = &work->snapshot->graph;
    for (hx_obj i = 0; i < graph->n; i++) {
        uint32_t group = 0;
        if ((i & CHECK_MASK) == 0 && hx_progress_cancelled(work->progress))
            return hx_error_cancelled("entries");
        if (i + AHEAD < graph->n)
            prefetch(work, i + AHEAD);
        if (work->set[i] == HX_SET_NONE || work->set[i] == HX_SET_MANY)
            continue;
        HX_TRY(group_of(work, i, &group));
        work->group_list.v[group].objects++;
        HX_TRY(count_leads_of(work, i, group));
    }
    return NULL;
}

/* A part of a group that does not depend on where its objects lie. */
static bool is_sampled(hx_obj object, uint64_t objects)
{
    uint64_t part = objects / SAMPLE + 1;
    return ((uint64_t)object * 0x9e3779b97f4a7c15 >> 32) % part == 0;
}

static void look_at_fields_of(struct work *work, hx_obj object, uint32_t group)
{
    const struct hx_graph *graph = &work->snapshot->graph;
    bool array = graph->size[object] > ARRAY;
    work->group_list.v[group].sampled++;
    for (hx_eidx e = graph->fwd[object]; e < graph->fwd[(size_t)object + 1]; e++) {
        uint32_t key = field_key(graph, object, graph->edge[e]);
        uint32_t field = hx_pairs_find(&work->fields, hx_pair_key(group, key));
        if (field != HX_NO_PAIR)
            work->field_list.v[field].having++;
        if (array && field != HX_NO_PAIR)
            return;
    }
}

/* How many of those alike have a reference where some lead to a chosen set. */
static hx_error *look_at_fields(struct work *work)
{
    for (hx_obj i = 0; work->field_list.n && i < work->snapshot->graph.n; i++) {
        uint32_t group = 0;
        if ((i & CHECK_MASK) == 0 && hx_progress_cancelled(work->progress))
            return hx_error_cancelled("entries");
        if (work->set[i] == HX_SET_NONE || work->set[i] == HX_SET_MANY)
            continue;
        HX_TRY(group_of(work, i, &group));
        if (work->group_list.v[group].leads && is_sampled(i, work->group_list.v[group].objects))
            look_at_fields_of(work, i, group);
    }
    return NULL;
}

static void add_leads(struct work *work)
{
    hx_set sets = hx_sets_count(work->sets);
    for (size_t i = 0; i < work->mark_list.n; i++) {
        const struct field *field = &work->field_list.v[work->mark_list.v[i].field];
        if (field->having * USUAL_PART >= work->group_list.v[field->group].sampled)
            work->lead_list.v[work->mark_list.v[i].lead].usual = true;
    }
    for (size_t i = 0; i < work->lead_list.n; i++) {
        const struct lead *lead = &work->lead_list.v[i];
        const struct group *group = &work->group_list.v[lead->group];
        const hx_retainer *element;
        size_t n = group->from < sets ? hx_sets_elements(work->sets, group->from, &element) : 0;
        for (size_t k = 0; k < n; k++)
            add(work, lead->slot, element[k], lead->objects, group->objects, lead->usual);
        if (group->from >= sets)
            add(work, lead->slot, group->from - sets, lead->objects, group->objects, lead->usual);
    }
}

static void add_root_words(struct work *work)
{
    const struct hx_snapshot *snapshot = work->snapshot;
    for (size_t i = 0; work->rule->of_root && i < snapshot->root_edges.n; i++) {
        const struct hx_root_edge *edge = &snapshot->root_edges.v[i];
        hx_retainer member = work->rule->of_root[edge->root];
        uint32_t slot = work->slot[work->set[edge->target]];
        if (member != HX_NO_RETAINER && slot != NO_SLOT && work->follows >> edge->kind & 1)
            add(work, slot, member, 1, 1, true);
    }
}

/* --- doubt ------------------------------------------------------------------------- */

/* Where nobody comes in as usual nobody is in doubt. */
static void settle_doubt(struct hx_entries *result)
{
    for (size_t i = 0; i < result->n; i++) {
        struct hx_entry *entry = result->entry + result->of[i].first;
        bool sure = false;
        for (size_t k = 0; k < result->of[i].n; k++)
            sure |= !entry[k].doubt;
        for (size_t k = 0; k < result->of[i].n; k++)
            entry[k].doubt &= sure;
    }
}

static hx_error *find_entries(struct work *work, const hx_set *chosen, size_t n)
{
    HX_TRY(make_slots(work, chosen, n));
    HX_TRY(count_leads(work));
    HX_TRY(look_at_fields(work));
    add_leads(work);
    add_root_words(work);
    settle_doubt(work->result);
    return NULL;
}

hx_error *hx_entries_find(const struct hx_snapshot *snapshot, const struct hx_retain_rule *rule,
                          const hx_sets *sets, const struct hx_retention *retention,
                          const hx_set *chosen, size_t n, const struct hx_progress *progress,
                          struct hx_entries *ret)
{
    struct hx_entries result = {0};
    struct work work = {.snapshot = snapshot,
                        .rule = rule,
                        .sets = sets,
                        .set = retention->set,
                        .progress = progress,
                        .result = &result,
                        .follows =
                            1u << HX_EDGE_START | 1u << HX_EDGE_KNOWN |
                            (snapshot->interior == HX_INTERIOR_OFF ? 0 : 1u << HX_EDGE_INTERIOR)};
    hx_error *err = find_entries(&work, chosen, n);
    free(work.slot);
    free(work.last);
    hx_pairs_free(&work.groups);
    hx_pairs_free(&work.fields);
    hx_pairs_free(&work.leads);
    hx_pairs_free(&work.marks);
    hx_vec_free(&work.group_list);
    hx_vec_free(&work.field_list);
    hx_vec_free(&work.lead_list);
    hx_vec_free(&work.mark_list);
    if (err)
        hx_entries_deinit(&result);
    else
        *ret = result;
    return err;
}

void hx_entries_deinit(struct hx_entries *entries)
{
    free(entries->of);
    free(entries->entry);
    *entries = (struct hx_entries){0};
}
