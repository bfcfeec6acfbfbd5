/* leaks.c - definite and indirect leaks. */
#include "traverse/leaks.h"

#include "base/bits.h"
#include "traverse/components.h"

#include <stdlib.h>

/* Marks the components that an edge from another one leads to. */
static void mark_referenced_components(const struct hx_graph *graph,
                                       const struct hx_components *components, uint64_t *targets)
{
    for (hx_obj i = 0; i < graph->n; i++) {
        hx_obj from = components->number[i];
        if (from == HX_NO_OBJ)
            continue;
        for (hx_eidx e = graph->fwd[i]; e < graph->fwd[i + 1]; e++) {
            hx_obj to = components->number[hx_edge_target(graph->edge[e])];
            if (to != HX_NO_OBJ && to != from)
                hx_bit_set(targets, to);
        }
    }
}

/* A definite one is the lowest address of its component, which comes first. */
static hx_error *assign_states(struct hx_graph *graph, const struct hx_components *components)
{
    uint64_t *done = calloc((size_t)components->n / 64 + 1, sizeof *done);
    HX_NEED(done);
    mark_referenced_components(graph, components, done);
    for (hx_obj i = 0; i < graph->n; i++) {
        hx_obj component = components->number[i];
        if (component != HX_NO_OBJ)
            graph->state[i] = hx_bit_add(done, component) ? HX_STATE_DEFINITE : HX_STATE_INDIRECT;
    }
    free(done);
    return NULL;
}

hx_error *hx_leaks_classify(struct hx_graph *graph, const struct hx_progress *progress)
{
    const struct hx_scope unreachable = {
        .states = 1u << HX_STATE_NONE,
        .follows = 1u << HX_EDGE_START | 1u << HX_EDGE_KNOWN | 1u << HX_EDGE_INTERIOR,
    };
    struct hx_components components;
    HX_TRY(hx_components_find(graph, &unreachable, progress, &components));
    hx_error *err = components.n ? assign_states(graph, &components) : NULL;
    hx_components_deinit(&components);
    return err;
}

/* --- the definite leak that holds an indirect one ---------------------------------- */

struct climb {
    const struct hx_graph *graph;
    uint64_t *seen; /* bit for each object */
    hx_obj *queue;  /* those seen, level by level */
    size_t n_queue;
    struct hx_big queue_mem;
};

static void enqueue_leaked(struct climb *climb, hx_obj object)
{
    uint8_t state = climb->graph->state[object];
    if ((state == HX_STATE_DEFINITE || state == HX_STATE_INDIRECT) &&
        hx_bit_add(climb->seen, object))
        climb->queue[climb->n_queue++] = object;
}

/* Climbs level by level to the first that has a definite one. */
static hx_error *find_definite(struct climb *climb, const struct hx_progress *progress, hx_obj *ret,
                               uint64_t *ret_steps)
{
    const struct hx_graph *graph = climb->graph;
    size_t from = 0;
    for (uint64_t level = 0; from < climb->n_queue; level++) {
        size_t to = climb->n_queue;
        for (size_t i = from; i < to; i++) {
            hx_obj object = climb->queue[i];
            if (graph->state[object] == HX_STATE_DEFINITE && object < *ret) {
                *ret = object;
                *ret_steps = level;
            }
        }
        if (*ret != HX_NO_OBJ)
            return NULL;
        for (size_t i = from; i < to; i++) {
            size_t object = climb->queue[i];
            if ((i & 0xfff) == 0 && hx_progress_cancelled(progress))
                return hx_error_cancelled("search for the leak");
            for (hx_eidx r = graph->rev[object]; r < graph->rev[object + 1]; r++)
                enqueue_leaked(climb, graph->rev_source[r]);
        }
        from = to;
    }
    return NULL;
}

hx_error *hx_leaks_holder(const struct hx_graph *graph, hx_obj object,
                          const struct hx_progress *progress, hx_obj *ret, uint64_t *ret_steps)
{
    hx_obj found = HX_NO_OBJ;
    uint64_t steps = 0;
    hx_error *err = NULL;
    if (object < graph->n && graph->state && graph->rev &&
        graph->state[object] == HX_STATE_INDIRECT) {
        struct climb climb = {.graph = graph};
        climb.seen = calloc((size_t)graph->n / 64 + 1, sizeof *climb.seen);
        err = climb.seen ? hx_big_array(climb.queue, graph->n) : hx_error_nomem();
        if (!err) {
            enqueue_leaked(&climb, object);
            err = find_definite(&climb, progress, &found, &steps);
        }
        free(climb.seen);
        hx_big_free(&climb.queue_mem);
    }
    if (err)
        return err;
    *ret = found;
    *ret_steps = steps;
    return NULL;
}
