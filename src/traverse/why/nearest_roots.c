/* nearest_roots.c - from distances to the shortest chain of each root. */
#include "traverse/why/nearest_roots.h"

#include <stdlib.h>

/* --- who ----------------------------------------------------------------------- */

/* Is the chain that begins by edge x, at that distance, better than that of `near`? */
static bool is_better_chain(const struct hx_root_edge *edges, const struct hx_near_root *near,
                            uint32_t x, uint32_t distance)
{
    const struct hx_root_edge *now = &edges[near->edge], *other = &edges[x];
    if (distance != near->distance)
        return distance < near->distance;
    if (other->kind != now->kind)
        return other->kind < now->kind;
    return other->target < now->target;
}

static int nearest_first(const void *a, const void *b, void *context)
{
    const struct hx_root_edge *edges = context;
    const struct hx_near_root *x = a, *y = b;
    if (x->distance != y->distance)
        return x->distance < y->distance ? -1 : 1;
    bool p = edges[x->edge].kind == HX_EDGE_INTERIOR, q = edges[y->edge].kind == HX_EDGE_INTERIOR;
    if (p != q)
        return p ? 1 : -1;
    return x->root < y->root ? -1 : x->root > y->root;
}

hx_error *hx_nearest_roots_find(const struct hx_distance *distance, size_t limit,
                                hx_near_roots *ret)
{
    const struct hx_snapshot *snapshot = distance->snapshot;
    const struct hx_root_edge *edges = snapshot->root_edges.v;
    for (size_t i = 0; i < snapshot->root_edges.n && i < UINT32_MAX; i++) {
        struct hx_near_root *last = ret->n ? &ret->v[ret->n - 1] : NULL;
        uint32_t at = (uint32_t)i, far;
        if (!hx_distance_root_edge(distance, &edges[i]) ||
            !hx_distance_of(distance, edges[i].target, &far))
            continue;
        /* The edges of a root stand together. */
        if (!last || last->root != edges[i].root) {
            HX_NEED(hx_vec_push(ret, (struct hx_near_root){edges[i].root, at, far}));
        } else if (is_better_chain(edges, last, at, far)) {
            last->edge = at;
            last->distance = far;
        }
    }
    if (ret->n)
        qsort_r(ret->v, ret->n, sizeof *ret->v, nearest_first, (void *)edges);
    if (ret->n > limit)
        ret->n = limit;
    return NULL;
}

/* --- by which way -------------------------------------------------------------- */

hx_error *hx_walker_init(struct hx_walker *walker, const struct hx_distance *distance)
{
    *walker = (struct hx_walker){.distance = distance};
    size_t n = distance->snapshot->graph.n;
    HX_TRY(hx_big_reserve(&walker->next_mem, n * sizeof *walker->next_1));
    walker->next_1 = walker->next_mem.base;
    return NULL;
}

void hx_walker_deinit(struct hx_walker *walker)
{
    hx_big_free(&walker->next_mem);
    walker->next_1 = NULL;
}

/* The edge of an object, not the last one, to an object one step nearer. There is one. */
static hx_eidx next_edge(struct hx_walker *walker, hx_obj object, uint32_t distance)
{
    const struct hx_graph *graph = &walker->distance->snapshot->graph;
    unsigned strongest = UINT8_MAX;
    if (walker->next_1[object])
        return walker->next_1[object] - 1;
    for (hx_eidx e = graph->fwd[object]; e < graph->fwd[(size_t)object + 1] && strongest; e++) {
        unsigned kind = hx_edge_kind_of(graph->edge[e]);
        uint32_t then;
        if (kind < strongest && hx_distance_follows(walker->distance, kind) &&
            hx_distance_of(walker->distance, hx_edge_target(graph->edge[e]), &then) &&
            then + 1 == distance) {
            strongest = kind;
            walker->next_1[object] = e + 1;
        }
    }
    return walker->next_1[object] - 1;
}

struct hx_step hx_step_from_root(const struct hx_snapshot *snapshot, uint32_t number)
{
    const struct hx_root_edge *edge = &snapshot->root_edges.v[number];
    return (struct hx_step){.root = edge->root,
                            .source = HX_NO_OBJ,
                            .target = edge->target,
                            .offset = edge->address - snapshot->roots.v[edge->root].address,
                            .kind = edge->kind};
}

struct hx_step hx_step_from_object(const struct hx_graph *graph, hx_obj source, hx_eidx edge)
{
    return (struct hx_step){.root = UINT32_MAX,
                            .source = source,
                            .target = hx_edge_target(graph->edge[edge]),
                            .offset = hx_edge_offset(graph->edge[edge]),
                            .kind = (uint8_t)hx_edge_kind_of(graph->edge[edge])};
}

hx_error *hx_walk(struct hx_walker *walker, const struct hx_near_root *near, struct hx_chain *ret)
{
    const struct hx_snapshot *snapshot = walker->distance->snapshot;
    size_t n = (size_t)near->distance + 1;
    struct hx_step *step = calloc(n, sizeof *step);
    HX_NEED(step);
    step[0] = hx_step_from_root(snapshot, near->edge);
    for (size_t i = 1; i < n; i++) {
        hx_obj at = step[i - 1].target;
        step[i] =
            hx_step_from_object(&snapshot->graph, at, next_edge(walker, at, (uint32_t)(n - i)));
    }
    *ret = (struct hx_chain){.step = step, .n = n};
    return NULL;
}
