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

static hx_error *give_states(struct hx_graph *graph, const struct hx_components *components)
{
    uint64_t *given = calloc((size_t)components->n / 64 + 1, sizeof *given);
    if (!given)
        return hx_error_nomem();
    for (hx_obj i = 0; i < graph->n; i++) {
        hx_obj component = components->number[i];
        if (component == HX_NO_OBJ)
            continue;
        bool first = !test_and_set(given, component); /* the lowest address comes first */
        graph->state[i] = first && !hx_components_is_led(components, component) ? HX_STATE_DEFINITE
                                                                                : HX_STATE_INDIRECT;
    }
    free(given);
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
