/* take_back.c - types that were said by objects which have another type by now.
 *
 * Who speaks for an object is counted again only where that can have changed: where one that spoke
 * of it has another type, or where several said different things. Edges go one way; so those that
 * lead to such objects are looked for among all, on all processors, and counted then.
 */
#include "traverse/typing/spread.h"

#include "base/bits.h"
#include "base/cleanup.h"
#include "base/parallel.h"

#include <stdlib.h>
#include <string.h>

#define FEW_OBJECTS 65536 /* of these one thread is enough */
#define STEP        4096  /* objects between two tests for cancellation; a multiple of 64 */

hx_error *hx_typing_doubt(struct hx_spread *spread, hx_obj object)
{
    const struct hx_graph *graph = spread->graph;
    if (!spread->doubtful)
        HX_NEED(spread->doubtful = calloc(graph->n / 64 + 1, sizeof *spread->doubtful));
    for (hx_eidx e = graph->fwd[object]; e < graph->fwd[(size_t)object + 1]; e++)
        hx_bit_set(spread->doubtful, hx_edge_target(graph->edge[e]));
    return NULL;
}

/* --- who speaks of them -------------------------------------------------------- */

struct speakers {
    const struct hx_graph *graph;
    const struct hx_progress *progress;
    const uint64_t *of;
    uint64_t *bits; /* objects with an edge to one of these */
    unsigned threads;
};

static bool leads_to(const struct hx_graph *graph, hx_obj object, const uint64_t *of)
{
    for (hx_eidx e = graph->fwd[object]; e < graph->fwd[(size_t)object + 1]; e++)
        if (hx_bit(of, hx_edge_target(graph->edge[e])))
            return true;
    return false;
}

/* Objects of a range that begins at a word of bits. */
static void find_in_range(void *context, unsigned part)
{
    struct speakers *speakers = context;
    const struct hx_graph *graph = speakers->graph;
    const size_t words = (size_t)graph->n / 64 + 1, end = words * (part + 1) / speakers->threads;
    for (size_t w = words * part / speakers->threads; w < end; w++) {
        const size_t last = (w + 1) * 64 < graph->n ? (w + 1) * 64 : graph->n;
        uint64_t found = 0;
        for (size_t i = w * 64; i < last; i++)
            found |= (uint64_t)leads_to(graph, (hx_obj)i, speakers->of) << i % 64;
        speakers->bits[w] = found;
        if (w % (STEP / 64) == 0 && hx_progress_cancelled(speakers->progress))
            return;
    }
}

static hx_error *find_speakers(const struct hx_spread *spread, const uint64_t *of,
                               const struct hx_progress *progress, uint64_t *bits)
{
    uint64_t n = spread->graph->n;
    struct speakers speakers = {
        .graph = spread->graph,
        .progress = progress,
        .of = of,
        .bits = bits,
        .threads = n < FEW_OBJECTS ? 1 : hx_threads(spread->typing->source.threads)};
    hx_parallel(speakers.threads, find_in_range, &speakers);
    return hx_progress_cancelled(progress) ? hx_error_cancelled("types") : NULL;
}

/* --- support ------------------------------------------------------------------- */

/* A word that leads to an object speaks for its type. */
static void support_type(struct hx_spread *spread, enum hx_edge_kind kind, hx_obj target,
                         uint32_t word)
{
    if (HX_WORD_TARGET(word) && spread->known[target].typed &&
        hx_typing_speaks_for(spread, kind, word, spread->known[target].type))
        hx_typing_support(spread, target);
}

static hx_error *support_by_roots(struct hx_spread *spread, const uint64_t *of)
{
    const struct hx_snapshot *snapshot = spread->snapshot;
    for (size_t i = 0; i < snapshot->root_edges.n; i++) {
        const struct hx_root_edge *edge = &snapshot->root_edges.v[i];
        uint32_t type, word;
        bool is_typed;
        if (!hx_bit(of, edge->target) || snapshot->roots.v[edge->root].kind == HX_ROOT_NAMED)
            continue;
        HX_TRY(hx_typing_root_word(spread->typing, snapshot, edge, &is_typed, &type, &word));
        if (is_typed)
            support_type(spread, edge->kind, edge->target, word);
    }
    return NULL;
}

static hx_error *support_by_object(struct hx_spread *spread, hx_obj object, const uint64_t *of)
{
    const struct hx_graph *graph = spread->graph;
    const struct hx_known *known = &spread->known[object];
    const bool repeats = known->typed & HX_TYPED_REPEATS;
    const struct hx_word_map *map;
    if (!known->typed || known->type & HX_TYPE_BY_VTABLE)
        return NULL;
    HX_TRY(hx_word_map_of(&spread->typing->maps, known->type, &map));
    for (hx_eidx e = graph->fwd[object]; !map->scalars && e < graph->fwd[(size_t)object + 1]; e++) {
        const hx_edge edge = graph->edge[e];
        if (hx_bit(of, hx_edge_target(edge)) && !hx_typing_is_silent(graph, e))
            support_type(spread, hx_edge_kind_of(edge), hx_edge_target(edge),
                         hx_map_word(map, hx_edge_offset(edge), repeats));
    }
    return NULL;
}

/* Counts again who speaks for some objects. */
static hx_error *count_support(struct hx_spread *spread, const uint64_t *of,
                               const uint64_t *speakers)
{
    const size_t words = (size_t)spread->graph->n / 64 + 1;
    for (size_t w = 0; w < words; w++)
        for (uint64_t left = of[w]; left; left &= left - 1)
            spread->known[w * 64 + (unsigned)__builtin_ctzll(left)].votes = 0;
    HX_TRY(support_by_roots(spread, of));
    for (size_t w = 0; w < words; w++)
        for (uint64_t left = speakers[w]; left; left &= left - 1)
            HX_TRY(
                support_by_object(spread, (hx_obj)(w * 64 + (unsigned)__builtin_ctzll(left)), of));
    return NULL;
}

/* --- taken back ---------------------------------------------------------------- */

/* Takes the types away that nobody speaks for: those have a bit in `taken` then. */
static hx_error *take_unsupported(struct hx_spread *spread, const uint64_t *of, uint64_t *taken,
                                  uint64_t *ret)
{
    const struct hx_graph *graph = spread->graph;
    *ret = 0;
    for (size_t w = 0; w < (size_t)graph->n / 64 + 1; w++) {
        taken[w] = 0;
        for (uint64_t left = of[w]; left; left &= left - 1) {
            const hx_obj i = (hx_obj)(w * 64 + (unsigned)__builtin_ctzll(left));
            struct hx_known *known = &spread->known[i];
            if (HX_TYPED_SOURCE(known->typed) != HX_TYPED_POINTER || known->votes ||
                known->type & HX_TYPE_BY_VTABLE)
                continue;
            HX_TRY(hx_typing_doubt(spread, i));
            known->typed = 0;
            known->type = HX_NO_TYPE;
            hx_bit_set(taken, i);
            ++*ret;
        }
    }
    return NULL;
}

/* All speak once more of what has no type now. */
static hx_error *speak_again(struct hx_spread *spread, const uint64_t *taken,
                             const uint64_t *speakers, const struct hx_progress *progress)
{
    const struct hx_graph *graph = spread->graph;
    for (size_t w = 0; w < (size_t)graph->n / 64 + 1; w++)
        for (uint64_t left = speakers[w]; left; left &= left - 1) {
            const hx_obj i = (hx_obj)(w * 64 + (unsigned)__builtin_ctzll(left));
            if (spread->known[i].typed && leads_to(graph, i, taken))
                HX_TRY(hx_spread_object(spread, i));
            if (spread->n_stack >= HX_SPREAD_STACK / 2)
                HX_TRY(hx_spread_all(spread, progress));
        }
    return hx_spread_all(spread, progress);
}

/* What is counted again: what is in doubt, and what several said different things of. */
static void choose_doubtful(const struct hx_spread *spread, uint64_t *of)
{
    const struct hx_graph *graph = spread->graph;
    memcpy(of, spread->doubtful, ((size_t)graph->n / 64 + 1) * sizeof *of);
    for (hx_obj i = 0; i < graph->n; i++)
        if (spread->known[i].typed & HX_TYPED_CONFLICT)
            hx_bit_set(of, i);
}

hx_error *hx_typing_take_back(struct hx_spread *spread, const struct hx_progress *progress)
{
    const size_t words = (size_t)spread->graph->n / 64 + 1;
    HX_FREE uint64_t *bits = calloc(3 * words, sizeof *bits);
    HX_NEED(bits);
    uint64_t *of = bits, *speakers = bits + words, *taken = bits + 2 * words, n;
    for (unsigned round = 0; spread->doubtful && round < HX_SPREAD_CHANGES; round++) {
        choose_doubtful(spread, of);
        HX_TRY(find_speakers(spread, of, progress, speakers));
        HX_TRY(count_support(spread, of, speakers));
        HX_TRY(take_unsupported(spread, of, taken, &n));
        if (!n || round + 1 == HX_SPREAD_CHANGES)
            break;
        HX_TRY(speak_again(spread, taken, speakers, progress));
    }
    return NULL;
}
