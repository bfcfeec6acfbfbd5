/* suppress.c - takes out of a snapshot what its entries of suppressions match.
 *
 * Lost objects of one kind, type and site look the same to an entry but for its chains, so
 * they are looked at together. Chains are followed by all objects at once: each has the set of
 * places in the pattern that some chain to it may have come to, one bit each, and is visited again
 * only when it gains one. */
#include "query/suppress_private.h"

#include "base/bits.h"
#include "base/cleanup.h"

#include <stdio.h>
#include <string.h>

#define LEAKED   (1u << HX_STATE_DEFINITE | 1u << HX_STATE_INDIRECT)
#define POSSIBLE (1u << HX_STATE_POSSIBLE)
#define REACHED  (1u << HX_STATE_REACHABLE | POSSIBLE)

/* An object that may be taken out. */
struct candidate {
    uint32_t type, site; /* the number of them all: unknown */
    uint8_t state;
    hx_obj object;
};

struct work {
    hx_suppressions *list;
    struct hx_snapshot *snapshot;
    const struct hx_graph *graph;
    const struct hx_progress *progress;
    struct hx_big candidates_mem, owner_mem, positions_mem, queue_mem, queued_mem;
    struct candidate *candidates; /* sorted */
    size_t n_candidates;
    uint32_t *owner;     /* for each object: the entry that takes it out, from 1; 0: none */
    uint64_t *positions; /* for each object: see above */
    hx_obj *queue;       /* a ring of graph->n + 1 */
    size_t head, tail;
    uint64_t *queued;    /* bit for each object */
    char *types, *sites; /* what an entry says of each: 0 not asked yet, 1 no, 2 yes */
};

static void deinit_suppressing(struct work *work)
{
    hx_big_free(&work->candidates_mem);
    hx_big_free(&work->owner_mem);
    hx_big_free(&work->positions_mem);
    hx_big_free(&work->queue_mem);
    hx_big_free(&work->queued_mem);
    free(work->types);
    free(work->sites);
}

static inline bool is_in_states(const struct work *work, hx_obj object, unsigned states)
{
    return states >> work->graph->state[object] & 1;
}

/* --- what there is to take out ----------------------------------------------------- */

static int compare_entries(const void *a, const void *b)
{
    const struct candidate *x = a, *y = b;
    if (x->type != y->type)
        return x->type < y->type ? -1 : 1;
    if (x->site != y->site)
        return x->site < y->site ? -1 : 1;
    if (x->state != y->state)
        return x->state < y->state ? -1 : 1;
    return (x->object > y->object) - (x->object < y->object);
}

static hx_error *find_leaked(struct work *work)
{
    const struct hx_graph *g = work->graph;
    uint32_t types = (uint32_t)work->snapshot->types.n, sites = (uint32_t)work->snapshot->sites.n;
    for (hx_obj i = 0; i < g->n; i++)
        work->n_candidates += is_in_states(work, i, LEAKED | POSSIBLE);
    HX_TRY(hx_big_array(work->candidates, work->n_candidates));
    size_t n = 0;
    for (hx_obj i = 0; i < g->n; i++)
        if (is_in_states(work, i, LEAKED | POSSIBLE))
            work->candidates[n++] = (struct candidate){
                .type = g->type && g->type[i] < types ? g->type[i] : types,
                .site = g->site && g->site[i] < sites ? g->site[i] : sites,
                .state = g->state[i],
                .object = i,
            };
    if (n)
        qsort(work->candidates, n, sizeof *work->candidates, compare_entries);
    return NULL;
}

static hx_error *reserve_suppressing(struct work *work)
{
    size_t n = work->graph->n;
    HX_TRY(hx_big_array(work->owner, n));
    HX_TRY(hx_big_array(work->positions, n));
    HX_TRY(hx_big_array(work->queue, n + 1));
    HX_TRY(hx_big_array(work->queued, n / 64 + 1));
    work->types = malloc(work->snapshot->types.n + 1);
    work->sites = malloc(work->snapshot->sites.n + 1);
    return work->types && work->sites ? NULL : hx_error_nomem();
}

static void push_object(struct work *work, hx_obj object)
{
    if (!hx_bit_add(work->queued, object))
        return;
    work->queue[work->tail] = object;
    work->tail = work->tail == work->graph->n ? 0 : work->tail + 1;
}

/* False when there is none. `again`: it may come back. */
static bool pop_object(struct work *work, bool again, hx_obj *ret)
{
    if (work->head == work->tail)
        return false;
    *ret = work->queue[work->head];
    work->head = work->head == work->graph->n ? 0 : work->head + 1;
    if (again)
        hx_bit_clear(work->queued, *ret);
    return true;
}

static void forget_queue(struct work *work)
{
    work->head = work->tail = 0;
    memset(work->queued, 0, (work->graph->n / 64 + 1) * sizeof *work->queued);
}

/* --- names ------------------------------------------------------------------------- */

static bool glob_matches(const hx_glob *glob, const char *name)
{
    return hx_glob_matches(glob, name, strlen(name));
}

static const char *suppressed_type_name(const struct work *work, uint32_t type)
{
    return type < work->snapshot->types.n ? work->snapshot->types.v[type].name : "(unknown)";
}

static bool is_of_type(const struct work *work, const struct hx_suppress_entry *entry,
                       uint32_t type)
{
    char *cached = &work->types[type];
    if (!entry->type)
        return true;
    if (!*cached)
        *cached = glob_matches(entry->type, suppressed_type_name(work, type)) ? 2 : 1;
    return *cached == 2;
}

static bool is_of_site(const struct work *work, const struct hx_suppress_entry *entry,
                       uint32_t site)
{
    char *cached = &work->sites[site];
    if (!entry->site)
        return true;
    if (!*cached)
        *cached = site < work->snapshot->sites.n &&
                          glob_matches(entry->site, work->snapshot->sites.v[site].label)
                      ? 2
                      : 1;
    return *cached == 2;
}

/* --- chains ------------------------------------------------------------------------ */

struct chain {
    const struct hx_suppress_entry *entry;
    uint64_t any;      /* the places of ... */
    uint64_t begin;    /* where a chain may stand before its first element */
    uint64_t *of_type; /* for each type: the places whose element it is */
};

/* A place before ... is one behind it, too. */
static uint64_t past_any(const struct chain *chain, uint64_t positions)
{
    return positions | (positions & chain->any) << 1;
}

/* From the places before an element to those behind it. */
static uint64_t step_chain(const struct chain *chain, uint64_t positions, uint64_t element)
{
    return past_any(chain, (positions & chain->any) | (positions & element) << 1);
}

static uint64_t positions_of(const struct hx_suppress_entry *entry, const char *name)
{
    uint64_t positions = 0;
    for (size_t i = 0; i < entry->n_chain; i++)
        if (entry->chain[i] && glob_matches(entry->chain[i], name))
            positions |= (uint64_t)1 << i;
    return positions;
}

static hx_error *init_chain(const struct work *work, const struct hx_suppress_entry *entry,
                            struct chain *ret)
{
    size_t types = work->snapshot->types.n;
    *ret = (struct chain){.entry = entry, .of_type = calloc(types + 1, sizeof *ret->of_type)};
    HX_NEED(ret->of_type);
    for (size_t i = 0; i < entry->n_chain; i++)
        if (!entry->chain[i])
            ret->any |= (uint64_t)1 << i;
    for (size_t i = 0; i <= types; i++)
        ret->of_type[i] = positions_of(entry, suppressed_type_name(work, (uint32_t)i));
    ret->begin = past_any(ret, 1);
    return NULL;
}

/* A chain that stands at these places comes to an object. */
static void arrive(struct work *work, const struct chain *chain, uint64_t positions, hx_obj object)
{
    size_t types = work->snapshot->types.n;
    const uint32_t *type = work->graph->type;
    size_t number = type && type[object] < types ? type[object] : types;
    uint64_t behind = step_chain(chain, positions, chain->of_type[number]);
    if (!(behind & ~work->positions[object]))
        return;
    work->positions[object] |= behind;
    push_object(work, object);
}

static void begin_at_roots(struct work *work, const struct chain *chain)
{
    const struct hx_snapshot *s = work->snapshot;
    uint64_t behind = 0;
    uint32_t root = UINT32_MAX;
    for (size_t i = 0; i < s->root_edges.n; i++) {
        const struct hx_root_edge *edge = &s->root_edges.v[i];
        const struct hx_root *referrer = &s->roots.v[edge->root];
        if (referrer->kind == HX_ROOT_NAMED || !is_in_states(work, edge->target, REACHED))
            continue;
        if (edge->root != root) {
            const char *names[] = {referrer->name, referrer->symbol};
            uint64_t element = 0;
            root = edge->root;
            for (size_t k = 0; k < 2 && names[k]; k++) {
                char whole[512];
                snprintf(whole, sizeof whole, "%s!%s", referrer->module ? referrer->module : "",
                         names[k]);
                element |= positions_of(chain->entry, names[k]) | positions_of(chain->entry, whole);
            }
            behind = step_chain(chain, chain->begin, element);
        }
        if (behind)
            arrive(work, chain, behind, edge->target);
    }
}

/* Which places chains come to, of all objects. */
static hx_error *match_chain(struct work *work, const struct chain *chain)
{
    const struct hx_graph *g = work->graph;
    hx_obj object;
    forget_queue(work);
    memset(work->positions, 0, (size_t)g->n * sizeof *work->positions);
    for (size_t i = 0; i < work->n_candidates; i++)
        if (work->candidates[i].state == HX_STATE_DEFINITE)
            arrive(work, chain, chain->begin, work->candidates[i].object);
    if (chain->entry->kinds & POSSIBLE)
        begin_at_roots(work, chain);
    for (uint64_t n = 0; pop_object(work, true, &object); n++) {
        if ((n & 0xffff) == 0 && hx_progress_cancelled(work->progress))
            return hx_error_cancelled("suppressions");
        unsigned to = is_in_states(work, object, LEAKED) ? LEAKED : REACHED;
        for (hx_eidx e = g->fwd[object]; e < g->fwd[object + 1]; e++)
            if (is_in_states(work, hx_edge_target(g->edge[e]), to))
                arrive(work, chain, work->positions[object], hx_edge_target(g->edge[e]));
    }
    return NULL;
}

static hx_error *follow_chain(struct work *work, const struct hx_suppress_entry *entry)
{
    struct chain chain;
    HX_TRY(init_chain(work, entry, &chain));
    hx_error *err = match_chain(work, &chain);
    free(chain.of_type);
    return err;
}

/* --- whose it is ------------------------------------------------------------------- */

/* The objects from `i` on that look the same. */
static size_t count_equal_objects(const struct work *work, size_t i)
{
    const struct candidate *first = &work->candidates[i];
    size_t end = i + 1;
    while (end < work->n_candidates && work->candidates[end].type == first->type &&
           work->candidates[end].site == first->site && work->candidates[end].state == first->state)
        end++;
    return end;
}

static hx_error *take_matches(struct work *work, uint32_t number)
{
    const struct hx_suppress_entry *entry = &work->list->entries.v[number];
    uint64_t accepted = (uint64_t)1 << entry->n_chain;
    bool followed = entry->n_chain == 0;
    memset(work->types, 0, work->snapshot->types.n + 1);
    memset(work->sites, 0, work->snapshot->sites.n + 1);
    for (size_t i = 0, end; i < work->n_candidates; i = end) {
        const struct candidate *candidate = &work->candidates[i];
        end = count_equal_objects(work, i);
        if (!(entry->kinds >> candidate->state & 1) || !is_of_type(work, entry, candidate->type) ||
            !is_of_site(work, entry, candidate->site))
            continue;
        if (!followed)
            HX_TRY(follow_chain(work, entry));
        followed = true;
        for (size_t k = i; k < end; k++) {
            hx_obj object = work->candidates[k].object;
            if (!work->owner[object] && (!entry->n_chain || work->positions[object] & accepted))
                work->owner[object] = number + 1;
        }
    }
    return NULL;
}

/* An object that stays leads to others that stay. Only what is possibly lost has to be begun
 * elsewhere: with what the others lead to. */
static void begin_kept(struct work *work)
{
    const struct hx_graph *g = work->graph;
    const struct hx_snapshot *s = work->snapshot;
    for (size_t i = 0; i < work->n_candidates; i++)
        if (work->candidates[i].state == HX_STATE_DEFINITE &&
            !work->owner[work->candidates[i].object])
            push_object(work, work->candidates[i].object);
    for (size_t i = 0; i < s->root_edges.n; i++) {
        hx_obj to = s->root_edges.v[i].target;
        if (is_in_states(work, to, POSSIBLE) && !work->owner[to] &&
            s->roots.v[s->root_edges.v[i].root].kind != HX_ROOT_NAMED)
            push_object(work, to);
    }
    for (hx_obj i = 0; i < g->n; i++)
        for (hx_eidx e = g->fwd[i];
             is_in_states(work, i, 1u << HX_STATE_REACHABLE) && e < g->fwd[i + 1]; e++) {
            hx_obj to = hx_edge_target(g->edge[e]);
            if (is_in_states(work, to, POSSIBLE) && !work->owner[to])
                push_object(work, to);
        }
}

/* What only hangs on something that is taken out goes with it. */
static hx_error *take_held(struct work *work)
{
    const struct hx_graph *g = work->graph;
    hx_obj object;
    forget_queue(work);
    begin_kept(work);
    for (int suppressed = 0; suppressed < 2; suppressed++) {
        for (size_t i = 0; suppressed && i < work->n_candidates; i++)
            if (work->owner[work->candidates[i].object])
                push_object(work, work->candidates[i].object);
        for (uint64_t n = 0; pop_object(work, false, &object); n++) {
            if ((n & 0xffff) == 0 && hx_progress_cancelled(work->progress))
                return hx_error_cancelled("suppressions");
            unsigned to = is_in_states(work, object, LEAKED) ? LEAKED : POSSIBLE;
            for (hx_eidx e = g->fwd[object]; e < g->fwd[object + 1]; e++) {
                hx_obj target = hx_edge_target(g->edge[e]);
                if (hx_bit(work->queued, target) || work->owner[target] ||
                    !is_in_states(work, target, to))
                    continue;
                work->owner[target] = suppressed ? work->owner[object] : 0;
                push_object(work, target);
            }
        }
    }
    return NULL;
}

/* --- all entries ------------------------------------------------------------------- */

static void count_suppressed(struct work *work)
{
    struct hx_suppress_entry *entries = work->list->entries.v;
    for (size_t i = 0; i < work->list->entries.n; i++)
        entries[i].bytes = entries[i].objects = 0;
    for (size_t i = 0; i < work->n_candidates; i++) {
        hx_obj object = work->candidates[i].object;
        if (!work->owner[object])
            continue;
        entries[work->owner[object] - 1].bytes += work->graph->size[object];
        entries[work->owner[object] - 1].objects++;
    }
}

/* Is one above its limit? It then takes out nothing, and others may take what it would have. */
static bool find_empty(struct work *work)
{
    bool any = false;
    for (size_t i = 0; i < work->list->entries.n; i++) {
        struct hx_suppress_entry *entry = &work->list->entries.v[i];
        if (entry->bytes <= entry->most_bytes && entry->objects <= entry->most_objects)
            continue;
        any = entry->empty = true;
        entry->suppression.over_bytes = entry->bytes;
        entry->suppression.over_objects = entry->objects;
    }
    return any;
}

/* Each round at least one entry becomes empty. */
static hx_error *find_owners(struct work *work)
{
    size_t n = work->list->entries.n;
    for (size_t i = 0; i < n; i++)
        work->list->entries.v[i].empty = false;
    do {
        memset(work->owner, 0, (size_t)work->graph->n * sizeof *work->owner);
        for (size_t i = 0; i < n; i++) {
            hx_progress_at(work->progress, "suppressions", i, n);
            if (!work->list->entries.v[i].empty)
                HX_TRY(take_matches(work, (uint32_t)i));
        }
        HX_TRY(take_held(work));
        count_suppressed(work);
    } while (find_empty(work));
    return NULL;
}

static void take_out_suppressed(struct work *work, uint64_t *ret_bytes, uint64_t *ret_objects)
{
    *ret_bytes = *ret_objects = 0;
    for (size_t i = 0; i < work->list->entries.n; i++) {
        struct hx_suppress_entry *entry = &work->list->entries.v[i];
        entry->suppression.bytes += entry->bytes;
        entry->suppression.objects += entry->objects;
    }
    for (size_t i = 0; i < work->n_candidates; i++) {
        hx_obj object = work->candidates[i].object;
        if (!work->owner[object])
            continue;
        if (is_in_states(work, object, LEAKED)) {
            *ret_bytes += work->graph->size[object];
            ++*ret_objects;
        }
        work->graph->state[object] = HX_STATE_NONE;
    }
}

hx_error *hx_suppress(hx_suppressions *list, struct hx_snapshot *snapshot,
                      const struct hx_progress *progress, uint64_t *ret_bytes,
                      uint64_t *ret_objects)
{
    HX_CLEANUP(deinit_suppressing)
    struct work work = {
        .list = list, .snapshot = snapshot, .graph = &snapshot->graph, .progress = progress};
    *ret_bytes = *ret_objects = 0;
    if (!work.graph->n || !work.graph->state || !work.graph->fwd)
        return NULL;
    HX_TRY(find_leaked(&work));
    if (!work.n_candidates)
        return NULL;
    HX_TRY(reserve_suppressing(&work));
    HX_TRY(find_owners(&work));
    take_out_suppressed(&work, ret_bytes, ret_objects);
    return NULL;
}
