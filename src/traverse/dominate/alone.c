/* alone.c - a flood of names: what a second one comes to is everybody's. */
#include "traverse/dominate/alone.h"

#include "traverse/ahead.h"

#define CHECK_MASK 0xffff /* every so many objects + 1 */

struct flood {
    const struct hx_graph *graph;
    unsigned follows;
    uint32_t *of;
    hx_obj *level, *next; /* objects to look at now and then; `on`: it is among the next ones */
    uint8_t *on;
    size_t n_next;
    struct hx_big of_mem, level_mem, next_mem, on_mem;
};

/* An object changes twice at most. */
static inline void reach(struct flood *flood, hx_obj object, uint32_t who)
{
    uint32_t was = flood->of[object];
    if (was == who || was == HX_ALONE_SEVERAL)
        return;
    flood->of[object] = was == HX_ALONE_NONE ? who : HX_ALONE_SEVERAL;
    if (flood->on[object])
        return;
    flood->on[object] = 1;
    flood->next[flood->n_next++] = object;
}

static void turn_to_next(struct flood *flood)
{
    hx_obj *level = flood->level;
    flood->level = flood->next;
    flood->next = level;
    flood->n_next = 0;
}

static hx_error *spread(struct flood *flood, const struct hx_progress *progress)
{
    const struct hx_graph *graph = flood->graph;
    uint64_t reached = 0;
    for (size_t n; (n = flood->n_next); reached += n) {
        turn_to_next(flood);
        hx_progress_at(progress, "alone", reached, graph->n);
        for (size_t i = 0; i < n; i++) {
            hx_obj object = flood->level[i];
            hx_look_ahead(graph, flood->level, i, n, flood->of, sizeof *flood->of, NULL, 0);
            flood->on[object] = 0;
            for (hx_eidx e = graph->fwd[object]; e < graph->fwd[object + 1]; e++) {
                hx_obj target = hx_edge_target(graph->edge[e]);
                hx_look_at_once(graph, target, n);
                if (flood->follows >> hx_edge_kind_of(graph->edge[e]) & 1)
                    reach(flood, target, flood->of[object]);
            }
            if ((i & CHECK_MASK) == CHECK_MASK && hx_progress_cancelled(progress))
                return hx_error_cancelled("tree of objects");
        }
        if (hx_progress_cancelled(progress))
            return hx_error_cancelled("tree of objects");
    }
    return NULL;
}

static hx_error *find_alone(struct flood *flood, const struct hx_snapshot *snapshot,
                            const uint32_t *of_root, const struct hx_progress *progress)
{
    const hx_obj n = snapshot->graph.n;
    HX_TRY(hx_big_array(flood->of, n));
    HX_TRY(hx_big_array(flood->level, n));
    HX_TRY(hx_big_array(flood->next, n));
    HX_TRY(hx_big_array(flood->on, n));
    for (hx_obj i = 0; i < n; i++)
        flood->of[i] = HX_ALONE_NONE;
    for (size_t i = 0; i < snapshot->root_edges.n; i++) {
        const struct hx_root_edge *edge = &snapshot->root_edges.v[i];
        if (of_root[edge->root] != HX_ALONE_NONE && flood->follows >> edge->kind & 1)
            reach(flood, edge->target, of_root[edge->root]);
    }
    return spread(flood, progress);
}

hx_error *hx_alone_find(const struct hx_snapshot *snapshot, const uint32_t *of_root,
                        unsigned follows, const struct hx_progress *progress, struct hx_big *ret_of)
{
    struct flood flood = {.graph = &snapshot->graph, .follows = follows};
    hx_error *err = find_alone(&flood, snapshot, of_root, progress);
    hx_big_free(&flood.level_mem);
    hx_big_free(&flood.next_mem);
    hx_big_free(&flood.on_mem);
    if (err)
        hx_big_free(&flood.of_mem);
    else
        *ret_of = flood.of_mem;
    return err;
}
