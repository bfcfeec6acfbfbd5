/* lost.c - strongly connected components of the lost objects.
 *
 * D. J. Pearce's variant of Tarjan's algorithm ("A space-efficient algorithm for
 * finding strongly connected components", 2016), with explicit stacks: one number an
 * object serves as visit index while its component is open and as the component's
 * number afterwards. Components are numbered downwards from n, so that every number
 * of a component is above every visit index.
 */
#include "traverse/lost.h"

#include <stdlib.h>

#define CHECK_MASK 0xffff /* every so many objects + 1 */
#define FEW_EDGES  16     /* of an object with so few all targets are prefetched */

/* An object on the path of the search. Out-degrees are at most HX_EDGE_OFFSET_MAX + 1,
 * as no two edges of an object share an offset. */
struct frame {
    hx_obj object;
    uint32_t next : 31; /* edge to look at, counted from fwd[object] */
    uint32_t root : 1;  /* no edge so far led below the object's own index */
};

struct search {
    struct hx_graph *graph;
    const struct hx_progress *progress;
    uint64_t n_lost, visited;
    hx_obj *number; /* for each object: 0 not seen, visit index, or component */
    struct frame *path;
    hx_obj *open; /* finished objects whose component is not */
    size_t n_path, n_open;
    hx_obj index, component; /* the next ones to give */
    uint64_t *led_to;        /* bit for each component, counted from 0: another one points to it */
    struct hx_big number_mem, path_mem, open_mem;
};

static inline bool is_lost(const struct hx_graph *graph, hx_obj object)
{
    return graph->state[object] == HX_STATE_NONE;
}

static inline bool test_and_set(uint64_t *bits, size_t i)
{
    uint64_t bit = (uint64_t)1 << (i & 63);
    bool was = bits[i >> 6] & bit;
    bits[i >> 6] |= bit;
    return was;
}

/* The closed component of an object, counted from 0. */
static inline size_t component_of(const struct search *search, hx_obj object)
{
    return search->graph->n - search->number[object];
}

static void enter(struct search *search, hx_obj object)
{
    const struct hx_graph *graph = search->graph;
    search->number[object] = search->index++;
    search->path[search->n_path++] = (struct frame){.object = object, .root = 1};
    hx_eidx from = graph->fwd[object], to = graph->fwd[object + 1];
    for (hx_eidx e = from; e < to && e < from + FEW_EDGES; e++) {
        hx_obj target = hx_edge_target(graph->edge[e]);
        __builtin_prefetch(&graph->state[target]);
        __builtin_prefetch(&search->number[target]);
        __builtin_prefetch(&graph->fwd[target]);
    }
}

/* The object's edges are done: closes its component or leaves it open. */
static void leave(struct search *search)
{
    struct frame frame = search->path[--search->n_path];
    hx_obj *number = search->number;
    if (frame.root) {
        search->index--;
        while (search->n_open && number[frame.object] <= number[search->open[search->n_open - 1]]) {
            number[search->open[--search->n_open]] = search->component;
            search->index--;
        }
        number[frame.object] = search->component--;
    } else {
        search->open[search->n_open++] = frame.object;
    }
    if (search->n_path) {
        struct frame *parent = &search->path[search->n_path - 1];
        if (frame.root)
            test_and_set(search->led_to, component_of(search, frame.object));
        else if (number[frame.object] < number[parent->object]) {
            number[parent->object] = number[frame.object];
            parent->root = 0;
        }
    }
}

/* Follows the top object's edges to the next unseen one; false when there is none. */
static bool advance(struct search *search)
{
    struct frame *top = &search->path[search->n_path - 1];
    const struct hx_graph *graph = search->graph;
    hx_obj *number = search->number;
    hx_eidx from = graph->fwd[top->object], to = graph->fwd[top->object + 1];
    while (from + top->next < to) {
        hx_obj target = hx_edge_target(graph->edge[from + top->next++]);
        if (!is_lost(graph, target))
            continue;
        if (number[target] == 0) {
            enter(search, target);
            return true;
        }
        if (number[target] > search->component) {
            test_and_set(search->led_to, component_of(search, target));
        } else if (number[target] < number[top->object]) {
            number[top->object] = number[target];
            top->root = 0;
        }
    }
    return false;
}

static hx_error *find_components(struct search *search)
{
    search->index = 1;
    search->component = search->graph->n;
    for (hx_obj start = 0; start < search->graph->n; start++) {
        if (!is_lost(search->graph, start) || search->number[start])
            continue;
        enter(search, start);
        while (search->n_path) {
            if (advance(search))
                continue;
            leave(search);
            if ((++search->visited & CHECK_MASK) == 0) {
                hx_progress_at(search->progress, "leaks", search->visited, search->n_lost);
                if (hx_progress_cancelled(search->progress))
                    return hx_error_cancelled("leak search");
            }
        }
    }
    return NULL;
}

static hx_error *give_states(struct search *search)
{
    struct hx_graph *graph = search->graph;
    uint64_t *given = calloc((size_t)(graph->n - search->component) / 64 + 1, sizeof *given);
    if (!given)
        return hx_error_nomem();
    for (hx_obj i = 0; i < graph->n; i++) {
        if (!is_lost(graph, i))
            continue;
        size_t component = component_of(search, i);
        bool first = !test_and_set(given, component); /* the lowest address comes first */
        bool led = search->led_to[component >> 6] >> (component & 63) & 1;
        graph->state[i] = first && !led ? HX_STATE_DEFINITE : HX_STATE_INDIRECT;
    }
    free(given);
    return NULL;
}

static hx_error *classify(struct search *search)
{
    HX_TRY(hx_big_reserve(&search->number_mem, (size_t)search->graph->n * sizeof(hx_obj)));
    HX_TRY(hx_big_reserve(&search->path_mem, search->n_lost * sizeof(struct frame)));
    HX_TRY(hx_big_reserve(&search->open_mem, search->n_lost * sizeof(hx_obj)));
    search->led_to = calloc((size_t)search->n_lost / 64 + 1, sizeof *search->led_to);
    if (!search->led_to)
        return hx_error_nomem();
    search->number = search->number_mem.base;
    search->path = search->path_mem.base;
    search->open = search->open_mem.base;
    HX_TRY(find_components(search));
    hx_big_free(&search->path_mem);
    hx_big_free(&search->open_mem);
    return give_states(search);
}

hx_error *hx_lost_classify(struct hx_graph *graph, const struct hx_progress *progress)
{
    struct search search = {.graph = graph, .progress = progress};
    for (hx_obj i = 0; i < graph->n; i++)
        search.n_lost += is_lost(graph, i);
    if (!search.n_lost)
        return NULL;
    hx_error *err = classify(&search);
    free(search.led_to);
    hx_big_free(&search.number_mem);
    hx_big_free(&search.path_mem);
    hx_big_free(&search.open_mem);
    return err;
}
