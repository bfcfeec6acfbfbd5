/* lost.c - which lost objects are lost for themselves, and which with others. */
#include "traverse/lost.h"

#include "traverse/components.h"

#include <stdlib.h>

static inline bool test_and_set(uint64_t *bits, size_t i)
{
    uint64_t bit = (uint64_t)1 << (i & 63);
    bool was = bits[i >> 6] & bit;
    bits[i >> 6] |= bit;
    return was;
}

/* The components that an edge from another one leads to. */
static void find_led(const struct hx_graph *graph, const struct hx_components *components,
                     uint64_t *led)
{
    for (hx_obj i = 0; i < graph->n; i++) {
        hx_obj from = components->number[i];
        if (from == HX_NO_OBJ)
            continue;
        for (hx_eidx e = graph->fwd[i]; e < graph->fwd[i + 1]; e++) {
            hx_obj to = components->number[hx_edge_target(graph->edge[e])];
            if (to != HX_NO_OBJ && to != from)
                test_and_set(led, to);
        }
    }
}

/* A definite one is the lowest address of its component, which comes first. */
static hx_error *give_states(struct hx_graph *graph, const struct hx_components *components)
{
    uint64_t *done = calloc((size_t)components->n / 64 + 1, sizeof *done);
    if (!done)
        return hx_error_nomem();
    find_led(graph, components, done);
    for (hx_obj i = 0; i < graph->n; i++) {
        hx_obj component = components->number[i];
        if (component != HX_NO_OBJ)
            graph->state[i] = test_and_set(done, component) ? HX_STATE_INDIRECT : HX_STATE_DEFINITE;
    }
    free(done);
    return NULL;
}

hx_error *hx_lost_classify(struct hx_graph *graph, const struct hx_progress *progress)
{
    const struct hx_scope lost = {
        .states = 1u << HX_STATE_NONE,
        .follows = 1u << HX_EDGE_START | 1u << HX_EDGE_KNOWN | 1u << HX_EDGE_INTERIOR,
    };
    struct hx_components components;
    HX_TRY(hx_components_find(graph, &lost, progress, &components));
    hx_error *err = components.n ? give_states(graph, &components) : NULL;
    hx_components_deinit(&components);
    return err;
}
