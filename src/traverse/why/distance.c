/* distance.c - breadth-first search against the edges. */
#include "traverse/why/distance.h"

#include <stdlib.h>

#define REFUSED    (UINT32_C(1) << 31)
#define MAX_LEVEL  (REFUSED - 2)
#define CHECK_MASK 0xfff
#define ALL_KINDS  7u

struct search {
    struct hx_distance *distance;
    const struct hx_graph *graph;
    uint64_t *rooted; /* bit for each object: a root points to it */
    uint32_t *first;  /* for each such object: one of its root edges, + 1 */
    uint32_t *other;  /* for each root edge: another one to the same object, + 1; 0: no more */
    uint64_t *root_reached; /* bit for each root: it points to an object that was visited */
    uint64_t n_roots_reached, n_roots, rooted_objects;
    hx_obj *queue; /* visited objects, level by level */
    size_t n_queue;
    struct hx_big queue_mem, first_mem;
};

/* Does the source have a followed edge to the level whose distances + 1 are `level`? A
 * reverse edge does not tell its kind, so the source's edges have to be read. */
static bool leads_to_level(const struct search *search, hx_obj source, uint32_t level)
{
    const struct hx_graph *graph = search->graph;
    for (hx_eidx e = graph->fwd[source]; e < graph->fwd[source + 1]; e++)
        if (hx_distance_follows(search->distance, hx_edge_kind_of(graph->edge[e])) &&
            search->distance->plus_1[hx_edge_target(graph->edge[e])] == level)
            return true;
    return false;
}

/* Visits the sources of one object of the level. */
static void visit_sources(struct search *search, hx_obj object, uint32_t level)
{
    const struct hx_graph *graph = search->graph;
    uint32_t *plus_1 = search->distance->plus_1;
    bool all = search->distance->follows == ALL_KINDS && !graph->evidence; /* none is aside */
    for (hx_eidx r = graph->rev[object]; r < graph->rev[object + 1]; r++) {
        hx_obj source = graph->rev_source[r];
        uint32_t mark = plus_1[source];
        if (mark == 0 || mark >> 31) {
            /* A source is read once for each level at most, however many edges it has. */
            if (!all && mark == (level | REFUSED))
                continue;
            if (all || leads_to_level(search, source, level)) {
                plus_1[source] = level + 1;
                search->queue[search->n_queue++] = source;
            } else {
                plus_1[source] = level | REFUSED;
            }
        }
    }
}

/* Counts an object that roots point to, and those of them that are new. */
static void note_rooted_object(struct search *search, hx_obj object)
{
    const struct hx_root_edge *edges = search->distance->snapshot->root_edges.v;
    search->rooted_objects++;
    for (uint32_t e = search->first[object]; e; e = search->other[e - 1]) {
        search->n_roots_reached += hx_bit_add(search->root_reached, edges[e - 1].root);
    }
}

static hx_error *spread_distances(struct search *search, hx_obj target, size_t enough)
{
    const struct hx_distance *distance = search->distance;
    distance->plus_1[target] = 1;
    search->queue[search->n_queue++] = target;
    size_t from = 0;
    for (uint32_t level = 1; from < search->n_queue && level < MAX_LEVEL; level++) {
        size_t to = search->n_queue;
        for (size_t i = from; i < to; i++)
            if (hx_bit(search->rooted, search->queue[i]))
                note_rooted_object(search, search->queue[i]);
        if (search->n_roots_reached >= enough ||
            (search->n_roots_reached == search->n_roots && search->rooted_objects >= enough))
            return NULL;
        for (size_t i = from; i < to; i++) {
            if (i + 8 < to)
                __builtin_prefetch(&search->graph->rev[search->queue[i + 8]]);
            visit_sources(search, search->queue[i], level);
            if ((i & CHECK_MASK) == 0) {
                hx_progress_at(distance->progress, "why", search->n_queue, search->graph->n);
                if (hx_progress_cancelled(distance->progress))
                    return hx_error_cancelled("chain search");
            }
        }
        from = to;
    }
    return NULL;
}

/* Which roots point to an object, by lists through the root edges. */
static void link_root_edges(struct search *search)
{
    const struct hx_distance *distance = search->distance;
    const struct hx_snapshot *snapshot = distance->snapshot;
    uint32_t last = UINT32_MAX;
    for (size_t i = 0; i < snapshot->root_edges.n && i < UINT32_MAX; i++) {
        const struct hx_root_edge *edge = &snapshot->root_edges.v[i];
        if (!hx_distance_root_edge(distance, edge))
            continue;
        search->n_roots += edge->root != last;
        last = edge->root;
        hx_bit_set(search->rooted, edge->target);
        search->other[i] = search->first[edge->target];
        search->first[edge->target] = (uint32_t)i + 1;
    }
}

static hx_error *prepare_distances(struct search *search)
{
    struct hx_distance *distance = search->distance;
    const struct hx_snapshot *snapshot = distance->snapshot;
    search->rooted = calloc((size_t)search->graph->n / 64 + 1, sizeof *search->rooted);
    search->other = calloc(snapshot->root_edges.n + 1, sizeof *search->other);
    search->root_reached = calloc(snapshot->roots.n / 64 + 1, sizeof *search->root_reached);
    HX_NEED(search->rooted && search->other && search->root_reached);
    HX_TRY(hx_big_array(distance->plus_1, search->graph->n));
    HX_TRY(hx_big_array(search->queue, search->graph->n));
    HX_TRY(hx_big_array(search->first, search->graph->n));
    link_root_edges(search);
    return NULL;
}

hx_error *hx_distance_init(struct hx_distance *distance, const struct hx_snapshot *snapshot,
                           unsigned follows, const uint64_t *roots, hx_obj target, size_t enough,
                           const struct hx_progress *progress)
{
    *distance = (struct hx_distance){
        .snapshot = snapshot, .progress = progress, .follows = follows, .roots = roots};
    struct search search = {.distance = distance, .graph = &snapshot->graph};
    hx_error *err = prepare_distances(&search);
    if (!err)
        err = spread_distances(&search, target, enough);
    free(search.rooted);
    free(search.other);
    free(search.root_reached);
    hx_big_free(&search.queue_mem);
    hx_big_free(&search.first_mem);
    if (err)
        hx_distance_deinit(distance);
    return err;
}

void hx_distance_deinit(struct hx_distance *distance)
{
    hx_big_array_free(distance->plus_1);
}
