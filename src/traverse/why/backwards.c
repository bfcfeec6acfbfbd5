/* backwards.c - sources by target in packed arrays, and searches that mark what is reached. */
#include "traverse/why/backwards.h"

#include "base/bits.h"
#include "base/cleanup.h"
#include "base/lower_bound.h"

#include <stdlib.h>
#include <string.h>

enum { GROUP = 64, MANY = UINT8_MAX, LIST_MAX = 1 << 18, CHECK_MASK = 0xfff };

/* An object that more edges lead to than a byte can count. */
struct many {
    hx_obj object;
    uint64_t edges, filled;
};

struct hx_backwards {
    hx_obj n;
    uint64_t n_edges;
    unsigned width;  /* bytes of a source */
    uint8_t *count;  /* n: edges into it; MANY: see `many` */
    uint8_t *filled; /* n: of these, so many were added; NULL once all were */
    uint64_t *from;  /* for each GROUP objects, where their edges begin */
    uint8_t *source;
    uint64_t *weak; /* bit for each edge: a plain interior one */
    uint64_t added;
    HX_VEC(struct many) many; /* by growing object */
    struct hx_big count_mem, source_mem;
};

static hx_error *damaged_search(const char *how)
{
    return hx_error_new(HX_E_CORRUPT, "store", "take it from a backup or make it again",
                        "the store is damaged (%s)", how);
}

/* --- filling ------------------------------------------------------------------------ */

hx_error *hx_backwards_create(hx_obj n, uint64_t edges, hx_backwards **ret)
{
    hx_backwards *b = calloc(1, sizeof *b);
    HX_NEED(b);
    b->n = n;
    b->n_edges = edges;
    for (b->width = 1; b->width < 4 && (uint64_t)n > (uint64_t)1 << 8 * b->width; b->width++)
        ;
    /* a source is read as four bytes */
    hx_error *err = hx_big_array(b->source, edges * b->width + sizeof(uint32_t));
    if (!err)
        err = hx_big_array(b->count, (size_t)n + 1);
    b->filled = calloc((size_t)n + 1, 1);
    b->from = calloc((size_t)n / GROUP + 2, sizeof *b->from);
    b->weak = calloc(edges / 64 + 1, sizeof *b->weak);
    if (!err && (!b->filled || !b->from || !b->weak))
        err = hx_error_nomem();
    if (err) {
        hx_backwards_destroy(b);
        return err;
    }
    *ret = b;
    return NULL;
}

void hx_backwards_destroy(hx_backwards *b)
{
    if (!b)
        return;
    hx_big_free(&b->source_mem);
    hx_big_free(&b->count_mem);
    hx_vec_free(&b->many);
    free(b->filled);
    free(b->from);
    free(b->weak);
    free(b);
}

hx_error *hx_backwards_count(hx_backwards *b, hx_obj object, uint64_t edges_in)
{
    b->count[object] = edges_in < MANY ? (uint8_t)edges_in : MANY;
    if (edges_in >= MANY)
        HX_NEED(hx_vec_push(&b->many, ((struct many){object, edges_in, 0})));
    return NULL;
}

/* There is one whenever its count is MANY. */
static struct many *find_many(const hx_backwards *b, hx_obj object)
{
    return &b->many.v[HX_LOWER_BOUND(b->many.n, i, b->many.v[i].object < object)];
}

static uint64_t referrer_count(const hx_backwards *b, hx_obj object)
{
    return b->count[object] < MANY ? b->count[object] : find_many(b, object)->edges;
}

hx_error *hx_backwards_begin(hx_backwards *b)
{
    uint64_t at = 0;
    bool bad = false;
    for (hx_obj i = 0; i < b->n; i++) {
        if (i % GROUP == 0)
            b->from[i / GROUP] = at;
        bad |= __builtin_add_overflow(at, referrer_count(b, i), &at);
    }
    return bad || at != b->n_edges ? damaged_search("counts of edges") : NULL;
}

/* Where the edges into an object begin. */
static uint64_t begin_of(const hx_backwards *b, hx_obj object)
{
    uint64_t at = b->from[object / GROUP];
    for (hx_obj i = object / GROUP * GROUP; i < object; i++)
        at += referrer_count(b, i);
    return at;
}

hx_error *hx_backwards_add(hx_backwards *b, hx_obj source, hx_obj target, enum hx_edge_kind kind)
{
    if (source >= b->n || target >= b->n || !b->filled)
        return damaged_search("an edge to nowhere");
    struct many *many = b->count[target] == MANY ? find_many(b, target) : NULL;
    uint64_t filled = many ? many->filled++ : b->filled[target]++;
    if (filled >= referrer_count(b, target))
        return damaged_search("counts of edges");
    uint64_t edge = begin_of(b, target) + filled;
    for (unsigned i = 0; i < b->width; i++)
        b->source[edge * b->width + i] = (uint8_t)(source >> 8 * i);
    if (kind == HX_EDGE_INTERIOR)
        hx_bit_set(b->weak, edge);
    if (++b->added == b->n_edges)
        free(hx_steal(b->filled));
    return NULL;
}

static hx_obj source_of(const hx_backwards *b, uint64_t edge)
{
    const uint8_t *p = b->source + edge * b->width;
    uint32_t source = 0;
    for (unsigned i = 0; i < b->width; i++)
        source |= (uint32_t)p[i] << 8 * i;
    return (hx_obj)source;
}

/* --- searching ----------------------------------------------------------------------- */

/* The objects of one level: a list, and when that is full a bit for each. */
struct level {
    HX_VEC(hx_obj) list;
    uint64_t *more;
    bool has_more;
};

/* An object that a root points to. */
struct rooted {
    hx_obj object;
    uint32_t root;
};

struct search {
    const hx_backwards *b;
    const struct hx_snapshot *snapshot;
    const struct hx_progress *progress;
    bool strong; /* plain interior edges are not followed */
    size_t words;
    uint64_t *seen, *chosen;
    size_t n_seen, most;
    struct level level[2];
    /* for shortest chains; NULL when they are not asked for */
    uint32_t *next; /* for each object seen: the one to go on with */
    struct hx_big next_mem;
    HX_VEC(struct rooted) rooted; /* by object */
    uint32_t *reached_at;         /* for each root: level + 1 at which it was met; 0: not yet */
    HX_VEC(hx_obj) starts;        /* objects where a shortest chain begins */
};

static hx_error *reach_object(struct search *search, hx_obj object, hx_obj next,
                              struct level *level)
{
    hx_bit_set(search->seen, object);
    if (search->next)
        search->next[object] = next;
    if (search->n_seen++ < search->most)
        hx_bit_set(search->chosen, object);
    if (level->list.n < LIST_MAX)
        return hx_vec_push(&level->list, object) ? NULL : hx_error_nomem();
    hx_bit_set(level->more, object);
    level->has_more = true;
    return NULL;
}

static size_t first_rooted(const struct search *search, hx_obj object)
{
    return HX_LOWER_BOUND(search->rooted.n, i, search->rooted.v[i].object < object);
}

/* Remembers an object as the beginning of a chain when one of its roots has no shorter one. */
static hx_error *note_chain_start(struct search *search, hx_obj object, uint32_t level)
{
    bool begins = false;
    for (size_t i = first_rooted(search, object);
         i < search->rooted.n && search->rooted.v[i].object == object; i++) {
        uint32_t *reached_at = &search->reached_at[search->rooted.v[i].root];
        if (!*reached_at)
            *reached_at = level + 1;
        begins |= *reached_at == level + 1;
    }
    return begins && !hx_vec_push(&search->starts, object) ? hx_error_nomem() : NULL;
}

static hx_error *search_from_object(struct search *search, hx_obj object, uint32_t level,
                                    struct level *next)
{
    const hx_backwards *b = search->b;
    uint64_t begin = begin_of(b, object), end = begin + referrer_count(b, object);
    if (search->next)
        HX_TRY(note_chain_start(search, object, level));
    for (uint64_t e = begin; e < end; e++) {
        hx_obj source = source_of(b, e);
        if (!hx_bit(search->seen, source) && !(search->strong && hx_bit(b->weak, e)))
            HX_TRY(reach_object(search, source, object, next));
    }
    return NULL;
}

static hx_error *report_search_progress(const struct search *search, uint64_t done)
{
    if (done & CHECK_MASK)
        return NULL;
    hx_progress_at(search->progress, "why", search->n_seen, search->b->n);
    return hx_progress_cancelled(search->progress) ? hx_error_cancelled("chain search") : NULL;
}

static hx_error *search_level(struct search *search, struct level *now, uint32_t level,
                              struct level *next)
{
    uint64_t done = 0;
    for (size_t i = 0; i < now->list.n; i++) {
        HX_TRY(report_search_progress(search, done++));
        HX_TRY(search_from_object(search, now->list.v[i], level, next));
    }
    for (size_t w = 0; now->has_more && w < search->words; w++) {
        for (uint64_t bits = now->more[w]; bits; bits &= bits - 1) {
            HX_TRY(report_search_progress(search, done++));
            HX_TRY(search_from_object(search, (hx_obj)(w * 64 + (unsigned)__builtin_ctzll(bits)),
                                      level, next));
        }
        now->more[w] = 0;
    }
    now->list.n = 0;
    now->has_more = false;
    return NULL;
}

static hx_error *spread_backwards(struct search *search, hx_obj target)
{
    memset(search->seen, 0, search->words * sizeof *search->seen);
    search->n_seen = 0;
    HX_TRY(reach_object(search, target, target, &search->level[0]));
    for (uint32_t level = 0;; level++) {
        struct level *now = &search->level[level % 2], *next = &search->level[(level + 1) % 2];
        if (!now->list.n || level == UINT32_MAX - 1)
            return NULL;
        HX_TRY(search_level(search, now, level, next));
    }
}

/* --- shortest chains ------------------------------------------------------------------ */

static int compare_found_objects(const void *a, const void *b)
{
    const struct rooted *x = a, *y = b;
    return (x->object > y->object) - (x->object < y->object);
}

static hx_error *list_rooted_objects(struct search *search)
{
    const struct hx_snapshot *snapshot = search->snapshot;
    for (size_t i = 0; i < snapshot->root_edges.n; i++) {
        const struct hx_root_edge *edge = &snapshot->root_edges.v[i];
        if (edge->target < search->b->n && edge->root < snapshot->roots.n &&
            !(search->strong && edge->kind == HX_EDGE_INTERIOR) &&
            snapshot->roots.v[edge->root].kind != HX_ROOT_NAMED)
            HX_NEED(hx_vec_push(&search->rooted, ((struct rooted){edge->target, edge->root})));
    }
    if (search->rooted.n)
        qsort(search->rooted.v, search->rooted.n, sizeof *search->rooted.v, compare_found_objects);
    return NULL;
}

static hx_error *choose_chains(struct search *search, hx_obj target)
{
    search->rooted.n = search->starts.n = 0;
    free(search->reached_at);
    search->reached_at = calloc(search->snapshot->roots.n + 1, sizeof *search->reached_at);
    HX_NEED(search->reached_at);
    HX_TRY(list_rooted_objects(search));
    HX_TRY(spread_backwards(search, target));
    memset(search->seen, 0, search->words * sizeof *search->seen); /* now: on a chain */
    for (size_t i = 0; i < search->starts.n; i++) {
        for (hx_obj at = search->starts.v[i]; !hx_bit(search->seen, at); at = search->next[at]) {
            hx_bit_set(search->seen, at);
            hx_bit_set(search->chosen, at);
        }
    }
    return NULL;
}

static hx_error *choose_shortest_chains(struct search *search, hx_obj target)
{
    search->words = (size_t)search->b->n / 64 + 1;
    search->seen = calloc(search->words, sizeof *search->seen);
    search->chosen = calloc(search->words, sizeof *search->chosen);
    search->level[0].more = calloc(search->words, sizeof *search->level[0].more);
    search->level[1].more = calloc(search->words, sizeof *search->level[1].more);
    HX_NEED(search->seen && search->chosen && search->level[0].more && search->level[1].more);
    hx_bit_set(search->chosen, target);
    HX_TRY(spread_backwards(search, target));
    if (search->n_seen <= search->most)
        return NULL;
    search->most = 0; /* the nearest ones are chosen already */
    HX_TRY(hx_big_array(search->next, (size_t)search->b->n + 1));
    HX_TRY(choose_chains(search, target));
    search->strong = true;
    return choose_chains(search, target);
}

hx_error *hx_backwards_choose(const hx_backwards *b, const struct hx_snapshot *snapshot,
                              hx_obj target, size_t most, const struct hx_progress *progress,
                              uint64_t **ret)
{
    struct search search = {.b = b, .snapshot = snapshot, .progress = progress, .most = most};
    if (target >= b->n)
        return hx_error_new(HX_E_ABSENT, "object", NULL, "there is no object %u", target);
    hx_error *err = choose_shortest_chains(&search, target);
    for (int i = 0; i < 2; i++) {
        hx_vec_free(&search.level[i].list);
        free(search.level[i].more);
    }
    hx_big_free(&search.next_mem);
    hx_vec_free(&search.rooted);
    hx_vec_free(&search.starts);
    free(search.reached_at);
    free(search.seen);
    if (err)
        free(search.chosen);
    else
        *ret = search.chosen;
    return err;
}
