/* dot_chains.c - why an object is alive: its shortest chains from roots, as one graph. */
#include "export/graph/dot.h"

#include "base/cleanup.h"
#include "base/lower_bound.h"
#include "traverse/reach.h"
#include "traverse/hold/rounds.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { CHAINS = 12 };

/* A step once: several chains may share it. */
typedef HX_VEC(struct hx_step) hx_dot_steps;

static int by_source(const void *a, const void *b)
{
    const struct hx_step *x = a, *y = b;
    uint64_t keys[][2] = {{x->source, y->source}, /* those from roots have the largest */
                          {x->root, y->root},
                          {x->target, y->target},
                          {x->offset, y->offset}};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        if (keys[i][0] != keys[i][1])
            return keys[i][0] < keys[i][1] ? -1 : 1;
    return 0;
}

static hx_error *gather_chain_steps(const struct hx_chains *chains, hx_dot_steps *steps)
{
    for (size_t i = 0; i < chains->n; i++)
        for (size_t j = 0; j < chains->chain[i].n; j++)
            HX_NEED(hx_vec_push(steps, chains->chain[i].step[j]));
    if (!steps->n)
        return NULL;
    qsort(steps->v, steps->n, sizeof *steps->v, by_source);
    size_t n = 0;
    for (size_t i = 0; i < steps->n; i++)
        if (n == 0 || by_source(&steps->v[n - 1], &steps->v[i]) != 0)
            steps->v[n++] = steps->v[i];
    steps->n = n;
    return NULL;
}

static void put_id(const struct hx_snapshot *snapshot, const struct hx_step *step, char id[32])
{
    if (step->source == HX_NO_OBJ)
        snprintf(id, 32, "root %" PRIu32, step->root);
    else
        snprintf(id, 32, "0x%" PRIx64, snapshot->graph.addr[step->source]);
}

static void draw_root(struct hx_sink *sink, const struct hx_snapshot *snapshot, uint32_t number)
{
    const struct hx_root *root = &snapshot->roots.v[number];
    HX_CLEANUP(hx_text_free) struct hx_text label = {0}, place = {0};
    char id[32];
    snprintf(id, sizeof id, "root %" PRIu32, number);
    hx_dot_line(&label, root->name);
    hx_text_putf(&place, "%s%s%s", hx_root_kind_name(root->kind), root->module[0] ? " of " : "",
                 root->module);
    hx_dot_line(&label, hx_text_str(&place));
    hx_dot_node(sink, id, &label, HX_DOT_ROOT, root->name);
}

static void draw_object(struct hx_sink *sink, const struct hx_snapshot *snapshot, hx_obj object,
                        bool main)
{
    const struct hx_graph *graph = &snapshot->graph;
    const char *name = hx_snapshot_name_of(snapshot, object);
    HX_CLEANUP(hx_text_free) struct hx_text label = {0}, maker = {0};
    char id[32], human[HX_HUMAN];
    snprintf(id, sizeof id, "0x%" PRIx64, graph->addr[object]);
    hx_snapshot_put_maker(snapshot, object, &maker);
    if (name)
        hx_dot_line(&label, name);
    if (maker.n)
        hx_dot_line(&label, maker.s + 1);
    hx_dot_linef(&label, "%s", id);
    hx_dot_linef(&label, "%s", hx_human_bytes(graph->size[object], human));
    if (main)
        hx_dot_linef(&label, "%s", hx_state_name((enum hx_state)graph->state[object]));
    hx_dot_node(sink, id, &label, main ? HX_DOT_MAIN : "", name);
}

static int compare_step_objects(const void *a, const void *b)
{
    hx_obj x = *(const hx_obj *)a, y = *(const hx_obj *)b;
    return x < y ? -1 : x > y;
}

static hx_error *draw_nodes(struct hx_sink *sink, const struct hx_snapshot *snapshot,
                            const hx_dot_steps *steps, hx_obj main)
{
    HX_FREE hx_obj *objects = malloc((steps->n + 1) * sizeof *objects);
    HX_NEED(objects);
    uint32_t root = UINT32_MAX; /* the one before; they are sorted */
    for (size_t i = 0; i < steps->n; i++) {
        const struct hx_step *step = &steps->v[i];
        if (step->source == HX_NO_OBJ && step->root != root)
            draw_root(sink, snapshot, root = step->root);
        objects[i] = step->target; /* each object of a chain is one */
    }
    objects[steps->n] = main;
    qsort(objects, steps->n + 1, sizeof *objects, compare_step_objects);
    for (size_t i = 0; i <= steps->n; i++)
        if (i == 0 || objects[i] != objects[i - 1])
            draw_object(sink, snapshot, objects[i], objects[i] == main);
    return NULL;
}

static void draw_steps(struct hx_sink *sink, const struct hx_snapshot *snapshot,
                       const hx_dot_steps *steps)
{
    for (size_t i = 0; i < steps->n; i++) {
        const struct hx_step *step = &steps->v[i];
        bool plain = step->kind == HX_EDGE_INTERIOR;
        HX_CLEANUP(hx_text_free) struct hx_text label = {0}, field = {0};
        char id[32];
        put_id(snapshot, step, id);
        hx_dot_linef(&label, "+%" PRIu64, step->offset);
        if (hx_step_put_field(snapshot, step, &field))
            hx_dot_line(&label, hx_text_str(&field));
        hx_sink_putf(sink, "  \"%s\" -> \"0x%" PRIx64 "\" [label=\"%s\"%s];\n", id,
                     snapshot->graph.addr[step->target], hx_text_str(&label),
                     plain ? ",style=dashed" : "");
        if ((label.failed || field.failed) && !sink->failed)
            sink->failed = ENOMEM;
    }
}

static hx_error *draw_chains(const struct hx_export *export, const struct hx_snapshot *snapshot,
                             hx_obj object, const struct hx_chains *chains, struct hx_sink *sink)
{
    HX_CLEANUP(hx_text_free) struct hx_text title = {0};
    hx_dot_steps steps = {0};
    hx_error *err = gather_chain_steps(chains, &steps);
    if (!err) {
        hx_text_putf(&title, "what keeps 0x%" PRIx64 " alive, in snapshot %" PRId64 " of %s",
                     snapshot->graph.addr[object], export->snapshot, export->title);
        hx_dot_begin(sink, "TB", hx_text_str(&title));
        err = draw_nodes(sink, snapshot, &steps, object);
        draw_steps(sink, snapshot, &steps);
        hx_dot_end(sink);
    }
    hx_vec_free(&steps);
    return err;
}

/* The object that begins there: also one without a byte, which contains no address. */
static hx_obj object_at(const struct hx_graph *graph, uint64_t address)
{
    size_t low = HX_LOWER_BOUND(graph->n, i, graph->addr[i] < address);
    return low < graph->n && graph->addr[low] == address ? (hx_obj)low : HX_NO_OBJ;
}

hx_error *hx_dot_chains(const struct hx_export *export, struct hx_sink *sink)
{
    uint64_t address;
    HX_SNAPSHOT struct hx_snapshot *snapshot = NULL;
    HX_CLEANUP(hx_chains_deinit) struct hx_chains chains = {0};
    HX_TRY(hx_dot_object(export, &address));
    HX_TRY(hx_store_load(export->store, export->snapshot, export->progress, &snapshot));
    hx_obj object = object_at(&snapshot->graph, address);
    if (object == HX_NO_OBJ)
        return hx_error_new(HX_E_CORRUPT, export->title, NULL,
                            "an object of snapshot %" PRId64 " is not where it should be",
                            export->snapshot);
    struct hx_hold_options hold;
    HX_TRY(hx_store_hold(export->store, export->snapshot, &hold));
    HX_TRY(hx_choose(snapshot, &hold, 0, export->progress));
    HX_TRY(hx_graph_reverse(&snapshot->graph, export->analysis ? export->analysis->threads : 0,
                            export->progress));
    HX_TRY(hx_why(snapshot, object, &(struct hx_why_options){.limit = CHAINS}, export->progress,
                  &chains));
    if (!chains.n)
        hx_text_puts(export->notes, "nothing keeps the object alive: it is lost\n");
    return draw_chains(export, snapshot, object, &chains, sink);
}
