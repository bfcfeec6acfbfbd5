/* why_roots.c - chains in the order of what their roots say: named ones first.
 *
 * A register that happens to hold a pointer says little, a variable much, and what the user has
 * named is what they look for. So hx_why() is asked once for each sort of roots.
 */
#include "traverse/reach.h"

#include "base/bits.h"
#include "base/cleanup.h"

#include <stdlib.h>
#include <string.h>

/* Sorts of roots, the most telling first. */
enum sort { NAMED, VARIABLE, STACK, REGISTER, OTHER, SORTS };

static enum sort sort_of(const struct hx_root *root)
{
    switch (root->kind) {
    case HX_ROOT_GLOBAL:
    case HX_ROOT_TLS:
        return VARIABLE;
    case HX_ROOT_STACK:
    case HX_ROOT_FRAME:
        return STACK;
    case HX_ROOT_REGISTER:
        return REGISTER;
    default:
        return OTHER;
    }
}

/* --- who has a name -------------------------------------------------------------- */

/* A word and what it points to: named roots of their own have the edges of others once more. */
struct word {
    uint64_t address;
    hx_obj target;
};
typedef HX_VEC(struct word) words;

static int compare_words(const void *a, const void *b)
{
    const struct word *x = a, *y = b;
    if (x->address != y->address)
        return x->address < y->address ? -1 : 1;
    return x->target < y->target ? -1 : x->target > y->target;
}

static hx_error *named_words(const struct hx_snapshot *snapshot, words *ret)
{
    for (size_t i = 0; i < snapshot->root_edges.n; i++) {
        const struct hx_root_edge *edge = &snapshot->root_edges.v[i];
        if (snapshot->roots.v[edge->root].kind == HX_ROOT_NAMED)
            HX_NEED(hx_vec_push(ret, (struct word){edge->address, edge->target}));
    }
    if (ret->n)
        qsort(ret->v, ret->n, sizeof *ret->v, compare_words);
    return NULL;
}

/* A bit for each root that has a name, or of which a part has one. */
static hx_error *find_named(const struct hx_snapshot *snapshot, uint64_t *bits)
{
    words named = {0};
    for (size_t i = 0; i < snapshot->named.n; i++)
        if (snapshot->named.v[i].root < snapshot->roots.n)
            hx_bit_set(bits, snapshot->named.v[i].root);
    hx_error *error = named_words(snapshot, &named);
    for (size_t i = 0; i < snapshot->root_edges.n && named.n && !error; i++) {
        const struct hx_root_edge *edge = &snapshot->root_edges.v[i];
        struct word word = {edge->address, edge->target};
        if (!hx_bit(bits, edge->root) &&
            bsearch(&word, named.v, named.n, sizeof *named.v, compare_words))
            hx_bit_set(bits, edge->root);
    }
    hx_vec_free(&named);
    return error;
}

/* Has the named root an edge from that word to that object? */
static bool holds_root(const struct hx_snapshot *snapshot, const struct hx_named *named,
                       uint64_t address, hx_obj target)
{
    const struct hx_root_edge *edges = snapshot->root_edges.v;
    for (size_t i = hx_snapshot_root_edges(snapshot, named->root);
         i < snapshot->root_edges.n && edges[i].root == named->root; i++)
        if (edges[i].address == address && edges[i].target == target)
            return true;
    return false;
}

const struct hx_named *hx_chain_named(const struct hx_snapshot *snapshot,
                                      const struct hx_chain *chain)
{
    const struct hx_step *first = &chain->step[0];
    const struct hx_root *root = &snapshot->roots.v[first->root];
    uint64_t address = root->kind == HX_ROOT_REGISTER ? 0 : root->address + first->offset;
    for (size_t i = 0; i < snapshot->named.n; i++) {
        const struct hx_named *named = &snapshot->named.v[i];
        if (named->root == first->root)
            return named;
        if (named->root < snapshot->roots.n &&
            snapshot->roots.v[named->root].kind == HX_ROOT_NAMED &&
            holds_root(snapshot, named, address, first->target))
            return named;
    }
    return NULL;
}

/* --- the answer ------------------------------------------------------------------ */

struct ranked {
    struct hx_chain chain;
    enum sort sort;
    bool further; /* its root has another one, which is shorter */
    size_t found;
};
typedef HX_VEC(struct ranked) rankings;

/* Which to keep: those that are the first of their root. */
static int compare_worth(const void *a, const void *b)
{
    const struct ranked *x = a, *y = b;
    if (x->further != y->further)
        return x->further ? 1 : -1;
    if (x->sort != y->sort)
        return x->sort < y->sort ? -1 : 1;
    return x->found < y->found ? -1 : 1;
}

/* In which order: each sort by itself, as hx_why() gave it. */
static int compare_order(const void *a, const void *b)
{
    const struct ranked *x = a, *y = b;
    if (x->sort != y->sort)
        return x->sort < y->sort ? -1 : 1;
    return x->found < y->found ? -1 : 1;
}

/* Takes the chains over. */
static hx_error *add_chains(const struct hx_snapshot *snapshot, struct hx_chains *chains,
                            uint64_t *seen, rankings *ret)
{
    HX_NEED(hx_vec_reserve(ret, ret->n + chains->n));
    for (size_t i = 0; i < chains->n; i++) {
        struct hx_chain *chain = &chains->chain[i];
        uint32_t root = chain->step[0].root;
        ret->v[ret->n] = (struct ranked){
            .chain = *chain,
            .sort = hx_chain_named(snapshot, chain) ? NAMED : sort_of(&snapshot->roots.v[root]),
            .further = hx_bit(seen, root),
            .found = ret->n};
        ret->n++;
        hx_bit_set(seen, root);
        *chain = (struct hx_chain){0};
    }
    return NULL;
}

/* The roots of one sort; those that have a name are the first one. */
static bool choose_roots_of_sort(const struct hx_snapshot *snapshot, const uint64_t *named,
                                 enum sort sort, uint64_t *ret)
{
    bool any = false;
    memset(ret, 0, (snapshot->roots.n / 64 + 1) * sizeof *ret);
    for (uint32_t i = 0; i < snapshot->roots.n; i++) {
        if (snapshot->roots.v[i].kind == HX_ROOT_NAMED ||
            (hx_bit(named, i) ? NAMED : sort_of(&snapshot->roots.v[i])) != sort)
            continue;
        hx_bit_set(ret, i);
        any = true;
    }
    return any;
}

static hx_error *search_all_roots(const struct hx_snapshot *snapshot, hx_obj object, size_t limit,
                                  const struct hx_progress *progress, rankings *ret,
                                  size_t *left_out)
{
    size_t n = snapshot->roots.n / 64 + 1;
    HX_FREE uint64_t *named = calloc(n, sizeof *named), *some = calloc(n, sizeof *some),
                     *seen = calloc(n, sizeof *seen);
    HX_NEED(named && some && seen);
    HX_TRY(find_named(snapshot, named));
    for (enum sort sort = NAMED; sort < SORTS; sort++) {
        HX_CLEANUP(hx_chains_deinit) struct hx_chains chains = {0};
        const struct hx_why_options options = {.limit = limit, .roots = some};
        if (!choose_roots_of_sort(snapshot, named, sort, some))
            continue;
        HX_TRY(hx_why(snapshot, object, &options, progress, &chains));
        HX_TRY(add_chains(snapshot, &chains, seen, ret));
        *left_out += chains.left_out;
    }
    return NULL;
}

hx_error *hx_why_named_first(const struct hx_snapshot *snapshot, hx_obj object, size_t limit,
                             const struct hx_progress *progress, struct hx_chains *ret)
{
    rankings ranking = {0};
    struct hx_chains chains = {0};
    hx_error *error =
        search_all_roots(snapshot, object, limit, progress, &ranking, &chains.left_out);
    size_t n = ranking.n < limit ? ranking.n : limit;
    if (!error && n && !(chains.chain = calloc(n, sizeof *chains.chain)))
        error = hx_error_nomem();
    if (!error && n) {
        qsort(ranking.v, ranking.n, sizeof *ranking.v, compare_worth);
        qsort(ranking.v, n, sizeof *ranking.v, compare_order);
        for (; chains.n < n; chains.n++) {
            chains.chain[chains.n] = ranking.v[chains.n].chain;
            ranking.v[chains.n].chain = (struct hx_chain){0};
        }
    }
    for (size_t i = 0; i < ranking.n; i++)
        free(ranking.v[i].chain.step);
    hx_vec_free(&ranking);
    if (error)
        hx_chains_deinit(&chains);
    else
        *ret = chains;
    return error;
}
