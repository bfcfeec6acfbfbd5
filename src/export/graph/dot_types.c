/* dot_types.c - which types refer to which: the largest types, or shapes of what has none, and the
 * references between them, counted. The whole graph is in memory, as for chains: looking for the
 * targets of edges one by one would take several times as long. */
#include "export/graph/dot.h"

#include "base/cleanup.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    TYPES = 40,         /* with a node of their own, the largest */
    UNKNOWN = TYPES,    /* objects of which neither type nor shape is known */
    OTHERS = TYPES + 1, /* of all other types */
    NODES = TYPES + 2,
    EDGES = 160,
    LOOK_AROUND = 1 << 16,
};

struct sum {
    uint64_t bytes, objects;
    uint32_t type; /* number of its name */
};

struct types {
    const struct hx_export *export;
    struct hx_snapshot *snapshot;
    struct sum node[NODES];
    uint64_t other_types;
    uint16_t *node_of; /* of each type */
    uint64_t count[NODES][NODES];
};

static void deinit_types(struct types **slot)
{
    struct types *types = *slot;
    if (types) {
        hx_snapshot_destroy(types->snapshot);
        free(types->node_of);
        free(types);
    }
}

/* --- figures ------------------------------------------------------------------------------ */

static int compare_type_bytes(const void *a, const void *b)
{
    const struct sum *x = a, *y = b;
    if (x->bytes != y->bytes)
        return x->bytes > y->bytes ? -1 : 1;
    return x->type < y->type ? -1 : x->type > y->type;
}

static void add_sum(struct sum *sum, const struct sum *more)
{
    sum->bytes += more->bytes;
    sum->objects += more->objects;
}

/* Chooses the types that have a node. */
static hx_error *choose_types(struct types *types)
{
    const struct hx_snapshot *snapshot = types->snapshot;
    const struct hx_graph *graph = &snapshot->graph;
    const size_t n = hx_snapshot_names(snapshot);
    HX_FREE struct sum *sums = calloc(n + 1, sizeof *sums);
    types->node_of = calloc(n + 1, sizeof *types->node_of);
    HX_NEED(sums && types->node_of);
    for (size_t i = 0; i < n; i++)
        sums[i].type = (uint32_t)i;
    for (hx_obj i = 0; i < graph->n; i++) {
        struct sum one = {.bytes = graph->size[i], .objects = 1};
        const size_t type = hx_snapshot_number_of(snapshot, i);
        add_sum(type < n ? &sums[type] : &types->node[UNKNOWN], &one);
    }
    qsort(sums, n, sizeof *sums, compare_type_bytes);
    for (size_t i = 0; i < n; i++) {
        size_t node = i < TYPES ? i : OTHERS;
        types->node_of[sums[i].type] = (uint16_t)node;
        add_sum(&types->node[node], &sums[i]);
        types->node[node].type = sums[i].type;
        types->other_types += node == OTHERS && sums[i].objects > 0;
    }
    return NULL;
}

static size_t type_node(const struct types *types, hx_obj object)
{
    const size_t name = hx_snapshot_number_of(types->snapshot, object);
    return name < hx_snapshot_names(types->snapshot) ? types->node_of[name] : UNKNOWN;
}

static hx_error *count_edges(struct types *types)
{
    const struct hx_graph *graph = &types->snapshot->graph;
    const struct hx_progress *progress = types->export->progress;
    for (hx_obj source = 0; source < graph->n; source++) {
        uint64_t *count = types->count[type_node(types, source)];
        for (hx_eidx i = graph->fwd[source]; i < graph->fwd[source + 1]; i++)
            count[type_node(types, hx_edge_target(graph->edge[i]))]++;
        if (source % LOOK_AROUND)
            continue;
        hx_progress_at(progress, "references", source, graph->n);
        if (hx_progress_cancelled(progress))
            return hx_error_cancelled(types->export->title);
    }
    return NULL;
}

/* --- drawing -------------------------------------------------------------------------------- */

static void draw_node(struct hx_sink *sink, const struct types *types, size_t i)
{
    const struct sum *sum = &types->node[i];
    char id[32], human[HX_HUMAN], count[HX_HUMAN];
    HX_CLEANUP(hx_text_free) struct hx_text label = {0};
    const char *name = i < TYPES ? hx_snapshot_name(types->snapshot, sum->type) : NULL;
    snprintf(id, sizeof id, "type %zu", i);
    if (i == OTHERS)
        hx_dot_linef(&label, "%" PRIu64 " other types", types->other_types);
    else
        hx_dot_line(&label, name ? name : "(unknown)");
    hx_dot_linef(&label, "%s in %s", hx_human_bytes(sum->bytes, human),
                 hx_human_count(sum->objects, count));
    hx_dot_node(sink, id, &label, i < TYPES ? "" : HX_DOT_OTHER, name);
}

struct link {
    uint64_t count;
    size_t from, to;
};

static int by_count(const void *a, const void *b)
{
    const struct link *x = a, *y = b;
    if (x->count != y->count)
        return x->count > y->count ? -1 : 1;
    if (x->from != y->from)
        return x->from < y->from ? -1 : 1;
    return x->to < y->to ? -1 : x->to > y->to;
}

static hx_error *draw_edges(struct hx_sink *sink, const struct types *types)
{
    HX_FREE struct link *links = malloc(sizeof *links * NODES * NODES);
    size_t n = 0;
    uint64_t left_out = 0;
    HX_NEED(links);
    for (size_t i = 0; i < NODES; i++)
        for (size_t j = 0; j < NODES; j++)
            if (types->count[i][j])
                links[n++] = (struct link){types->count[i][j], i, j};
    qsort(links, n, sizeof *links, by_count);
    for (size_t i = 0; i < n && i < EDGES; i++) {
        char count[HX_HUMAN];
        double part = log2((double)links[i].count + 1) / log2((double)links[0].count + 1);
        hx_sink_putf(sink,
                     "  \"type %zu\" -> \"type %zu\" [label=\"%s\",penwidth=%.1f,"
                     "tooltip=\"%" PRIu64 "\"];\n",
                     links[i].from, links[i].to, hx_human_count(links[i].count, count),
                     0.4 + 2.6 * part, links[i].count);
    }
    for (size_t i = EDGES; i < n; i++)
        left_out += links[i].count;
    if (left_out)
        hx_text_putf(types->export->notes,
                     "%" PRIu64 " references of %zu rarer kinds are not"
                     " drawn\n",
                     left_out, n - EDGES);
    return NULL;
}

hx_error *hx_dot_types(const struct hx_export *export, struct hx_sink *sink)
{
    HX_CLEANUP(deinit_types) struct types *types = calloc(1, sizeof *types);
    HX_CLEANUP(hx_text_free) struct hx_text title = {0};
    HX_NEED(types);
    types->export = export;
    HX_TRY(hx_store_load(export->store, export->snapshot, export->progress, &types->snapshot));
    if (!types->snapshot->graph.n || !(types->snapshot->graph.type || types->snapshot->graph.shape))
        return hx_export_absent(export, "type");
    HX_TRY(choose_types(types));
    HX_TRY(count_edges(types));
    hx_text_putf(&title, "types and the references between them, in snapshot %" PRId64 " of %s",
                 export->snapshot, export->title);
    hx_dot_begin(sink, "LR", hx_text_str(&title));
    for (size_t i = 0; i < NODES; i++)
        if (types->node[i].objects)
            draw_node(sink, types, i);
    HX_TRY(draw_edges(sink, types));
    hx_dot_end(sink);
    return NULL;
}
