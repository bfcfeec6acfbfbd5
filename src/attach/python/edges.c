/* edges.c - which words lead to Python objects: those that have the address of one.
 *
 * An object begins behind what the garbage collector and others have before it. So a word that
 * leads to the start of its block is a link of theirs, and one that leads to the object is no
 * pointer into the middle of something.
 */
#include "attach/python/objects.h"

#include "base/parallel.h"

#define CHUNK ((uint64_t)1 << 12) /* objects */

/* The kind of a word of this value that leads to block i; `kind` where that is no matter of ours.
 */
static enum hx_edge_kind kind_of(const struct hx_py_objects *objects, hx_obj i, uint64_t value,
                                 enum hx_edge_kind kind)
{
    const uint32_t class = hx_py_class_of(objects, i), role = objects->role[i];
    if (role == HX_PY_ROLE(HX_PY_ROLE_PART, HX_PY_PART_VALUES) ||
        HX_PY_ROLE_IS(role) == HX_PY_ROLE_VALUES)
        return HX_EDGE_KNOWN;
    if (class == HX_PY_NO_CLASS)
        return kind;
    const uint64_t at = hx_py_object_at(objects, i, &objects->classes->class.v[class]);
    const uint64_t tags = objects->classes->layout->version >= HX_PYTHON(3, 14) ? 3 : 0;
    if ((value & ~tags) != at)
        return HX_EDGE_INTERIOR;
    return at == objects->snapshot->graph.addr[i] ? HX_EDGE_START : HX_EDGE_KNOWN;
}

static void judge_edges(const struct hx_py_objects *objects, hx_obj i, struct hx_peeked *window)
{
    const struct hx_image *image = &objects->snapshot->image;
    struct hx_graph *graph = &objects->snapshot->graph;
    for (hx_eidx e = graph->fwd[i]; e < graph->fwd[(size_t)i + 1]; e++) {
        const uint64_t offset = hx_edge_offset(graph->edge[e]), at = graph->addr[i] + offset;
        const hx_obj target = hx_edge_target(graph->edge[e]);
        const uint64_t *value = objects->role[target] ? hx_image_peek(image, at, 1, window) : NULL;
        if (!value)
            continue;
        graph->edge[e] = hx_edge_make(
            target, offset / 8, kind_of(objects, target, *value, hx_edge_kind_of(graph->edge[e])));
    }
}

static void judge_edges_of(void *context, unsigned worker, size_t from, size_t to)
{
    (void)worker;
    HX_PEEKED window = {0};
    for (size_t i = from; i < to; i++)
        judge_edges(context, (hx_obj)i, &window);
}

void hx_py_judge_edges(const struct hx_py_objects *objects, unsigned threads,
                       const struct hx_progress *progress)
{
    struct hx_snapshot *snapshot = objects->snapshot;
    if (!snapshot->graph.fwd)
        return;
    hx_parallel_blocks(threads, snapshot->graph.n, CHUNK, judge_edges_of, (void *)objects,
                       progress);
    for (size_t i = 0; i < snapshot->root_edges.n; i++) {
        struct hx_root_edge *edge = &snapshot->root_edges.v[i];
        uint64_t value = snapshot->roots.v[edge->root].value;
        if (!objects->role[edge->target] ||
            (edge->address && !hx_image_u64(&snapshot->image, edge->address, &value)))
            continue;
        edge->kind = (uint8_t)kind_of(objects, edge->target, value, (enum hx_edge_kind)edge->kind);
        edge->evidence = HX_EVIDENCE(HX_EVIDENCE_RULE(edge->evidence), edge->kind);
    }
}
