/* components.c - strongly connected components, iteratively. */
#include "traverse/components.h"

#define CHECK_MASK 0x3fff /* every so many objects + 1 */
#define FEW_EDGES  16     /* of an object with so few all targets are prefetched */

/* An object on the path of the search. Out-degrees are at most HX_EDGE_OFFSET_MAX + 1,
 * as no two edges of an object share an offset. */
struct frame {
    hx_obj object;
    uint32_t next : 31; /* edge to look at, counted from fwd[object] */
    uint32_t root : 1;  /* no edge so far led below the object's own index */
};

/* Components are numbered downwards from the number of objects, so that every number of a
 * component is above every visit index, and one that was closed later, which is nearer to the
 * sources, has a lower number. */
struct search {
    const struct hx_graph *graph;
    const struct hx_scope *scope;
    const struct hx_progress *progress;
    uint64_t visited;
    hx_obj *number; /* for each object: 0 not seen, visit index, or component */
    hx_obj *order;  /* filled from its end */
    hx_obj n_order;
    struct frame *path;
    hx_obj *open; /* finished objects whose component is not */
    size_t n_path, n_open;
    hx_obj index, component; /* the next ones to give */
    uint64_t *led_to;        /* bit for each component, counted down from the first */
    struct hx_big path_mem, open_mem;
};

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
    if (hx_scope_cuts(search->scope, object))
        return;
    hx_eidx from = graph->fwd[object], to = graph->fwd[object + 1];
    for (hx_eidx e = from; e < to && e < from + FEW_EDGES; e++) {
        hx_obj target = hx_edge_target(graph->edge[e]);
        __builtin_prefetch(&graph->state[target]);
        __builtin_prefetch(&search->number[target]);
        __builtin_prefetch(&graph->fwd[target]);
    }
}

static void close_object(struct search *search, hx_obj object)
{
    search->number[object] = search->component;
    search->order[--search->n_order] = object;
}

/* The object's edges are done: closes its component or leaves it open. */
static void leave(struct search *search)
{
    struct frame frame = search->path[--search->n_path];
    hx_obj *number = search->number;
    if (frame.root) {
        search->index--;
        while (search->n_open && number[frame.object] <= number[search->open[search->n_open - 1]]) {
            close_object(search, search->open[--search->n_open]);
            search->index--;
        }
        close_object(search, frame.object);
        search->component--;
    } else {
        search->open[search->n_open++] = frame.object;
    }
    if (search->n_path) {
        struct frame *parent = &search->path[search->n_path - 1];
        if (frame.root) {
            test_and_set(search->led_to, component_of(search, frame.object));
        } else if (number[frame.object] < number[parent->object]) {
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
    if (hx_scope_cuts(search->scope, top->object))
        return false;
    while (from + top->next < to) {
        hx_edge edge = graph->edge[from + top->next++];
        hx_obj target = hx_edge_target(edge);
        if (!(search->scope->follows >> hx_edge_kind_of(edge) & 1) ||
            !hx_scope_has(search->scope, graph, target))
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

static hx_error *search_all(struct search *search)
{
    search->index = 1;
    search->component = search->graph->n;
    for (hx_obj start = 0; start < search->graph->n; start++) {
        if (search->number[start] || !hx_scope_has(search->scope, search->graph, start))
            continue;
        enter(search, start);
        while (search->n_path) {
            if (advance(search))
                continue;
            leave(search);
            if ((++search->visited & CHECK_MASK) == 0) {
                hx_progress_at(search->progress, "components", search->visited, search->graph->n);
                if (hx_progress_cancelled(search->progress))
                    return hx_error_cancelled("search for components");
            }
        }
    }
    return NULL;
}

/* From the numbers of the search to 0 .. n-1, sources first. */
static void renumber(const struct search *search, struct hx_components *components)
{
    components->n = search->graph->n - search->component;
    for (hx_obj i = 0; i < search->graph->n; i++)
        components->number[i] =
            components->number[i] ? components->number[i] - search->component - 1 : HX_NO_OBJ;
}

static hx_error *find(struct search *search, struct hx_components *components)
{
    const struct hx_graph *graph = search->graph;
    hx_obj n = 0;
    for (hx_obj i = 0; i < graph->n; i++)
        n += hx_scope_has(search->scope, graph, i);
    if (!n)
        return NULL;
    components->n_objects = n;
    HX_TRY(hx_big_reserve(&components->number_mem, (size_t)graph->n * sizeof(hx_obj)));
    HX_TRY(hx_big_reserve(&components->order_mem, (size_t)n * sizeof(hx_obj)));
    HX_TRY(hx_big_reserve(&components->led_mem, (size_t)n / 8 + 8));
    HX_TRY(hx_big_reserve(&search->path_mem, (size_t)n * sizeof(struct frame)));
    HX_TRY(hx_big_reserve(&search->open_mem, (size_t)n * sizeof(hx_obj)));
    search->number = components->number = components->number_mem.base;
    search->order = components->order = components->order_mem.base;
    search->led_to = components->led_to = components->led_mem.base;
    search->path = search->path_mem.base;
    search->open = search->open_mem.base;
    search->n_order = n;
    HX_TRY(search_all(search));
    renumber(search, components);
    return NULL;
}

hx_error *hx_components_find(const struct hx_graph *graph, const struct hx_scope *scope,
                             const struct hx_progress *progress, struct hx_components *ret)
{
    struct search search = {.graph = graph, .scope = scope, .progress = progress};
    *ret = (struct hx_components){0};
    hx_error *err = find(&search, ret);
    hx_big_free(&search.path_mem);
    hx_big_free(&search.open_mem);
    if (err)
        hx_components_deinit(ret);
    return err;
}

void hx_components_deinit(struct hx_components *components)
{
    hx_big_free(&components->number_mem);
    hx_big_free(&components->order_mem);
    hx_big_free(&components->led_mem);
    *components = (struct hx_components){0};
}
