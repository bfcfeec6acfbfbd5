/* alone.c - a flood of names: what a second one comes to is everybody's. */
#include "traverse/dominate/alone.h"

#define CHECK_MASK 0xffff /* every so many visits + 1 */

struct flood {
    const struct hx_graph *graph;
    unsigned follows;
    uint32_t *of;
    hx_obj *stack; /* an object is on it at most once: `on` */
    uint8_t *on;
    hx_obj n;
    struct hx_big of_mem, stack_mem, on_mem;
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
    flood->stack[flood->n++] = object;
}

static hx_error *spread(struct flood *flood, const struct hx_progress *progress)
{
    const struct hx_graph *graph = flood->graph;
    for (uint64_t visits = 0; flood->n; visits++) {
        hx_obj object = flood->stack[--flood->n];
        flood->on[object] = 0;
        for (hx_eidx e = graph->fwd[object]; e < graph->fwd[object + 1]; e++)
            if (flood->follows >> hx_edge_kind_of(graph->edge[e]) & 1)
                reach(flood, hx_edge_target(graph->edge[e]), flood->of[object]);
        if ((visits & CHECK_MASK) == CHECK_MASK && hx_progress_cancelled(progress))
            return hx_error_cancelled("tree of objects");
    }
    return NULL;
}

static hx_error *find_alone(struct flood *flood, const struct hx_snapshot *snapshot,
                            const uint32_t *of_root, const struct hx_progress *progress)
{
    const hx_obj n = snapshot->graph.n;
    HX_TRY(hx_big_array(flood->of, n));
    HX_TRY(hx_big_array(flood->stack, n));
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
    hx_big_free(&flood.stack_mem);
    hx_big_free(&flood.on_mem);
    if (err)
        hx_big_free(&flood.of_mem);
    else
        *ret_of = flood.of_mem;
    return err;
}
