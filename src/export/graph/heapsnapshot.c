/* heapsnapshot.c - one snapshot as the .heapsnapshot that Chrome's DevTools and memlab read.
 *
 * A graph of nodes and edges in arrays of numbers, laid out as V8 does, because readers find by
 * that layout what the program holds: the root has (GC roots), which has the categories, and has
 * each category once more by itself; a category (one for each kind of root) has its roots, a root
 * its objects. Lost objects stand in the file with their edges, and nothing leads to them; readers
 * leave edges from them to others out of account. So the retained size that a reader works out of a
 * reachable object is retained_bytes, because the same edges are followed.
 *
 * Readers keep every number in 32 bits: a node's id is a small odd one, its address is in its name,
 * and an object of 4 GiB or more is written in pieces that hang on it.
 */
#include "export/export.h"

#include "export/graph/heapsnapshot_out.h"
#include "export/graph/heapsnapshot_traces.h"

#include "base/cleanup.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

/* Indexes in the lists of the file's head. */
enum { NODE_NATIVE = 8, NODE_SYNTHETIC = 9 };
enum { EDGE_ELEMENT = 1, EDGE_PROPERTY = 2, EDGE_INTERNAL = 3, EDGE_SHORTCUT = 5 };

/* The first nodes; behind them the categories, the roots, the objects, the pieces of objects. */
enum { ROOT_NODE, GC_ROOTS_NODE, FIRST_CATEGORY };

/* The first strings; behind them two for each root, then those of objects, pieces, functions. */
enum { STRING_DUMMY, STRING_EMPTY, STRING_GC_ROOTS, FIRST_CATEGORY_STRING };

#define KINDS ((size_t)HX_ROOT_NAMED) /* named roots hold nothing */
static const char *const categories[] = {
    [HX_ROOT_GLOBAL] = "(global variables)",  [HX_ROOT_STACK] = "(stacks)",
    [HX_ROOT_FRAME] = "(stack frames)",       [HX_ROOT_REGISTER] = "(registers)",
    [HX_ROOT_TLS] = "(thread-local storage)", [HX_ROOT_MAPPING] = "(other mappings)",
};

#define SIZE_MOST  ((uint64_t)UINT32_MAX)
#define PIECES_MAX ((uint64_t)1 << 16) /* enough for a whole address space of 47 bits */

/* A root that holds something. */
struct shown_root {
    uint32_t root;
    size_t first, n; /* its root edges, followed or not */
    uint64_t edges;  /* those followed */
};

struct large {
    hx_obj object;
    uint32_t pieces; /* beside the object's own node */
};

struct writer {
    const struct hx_export *export;
    struct hx_hs_out *out;
    const struct hx_snapshot *snapshot;
    char **name; /* of objects, the last one unknown: escaped, without quotes */
    struct hx_hs_traces traces;
    HX_VEC(struct shown_root) roots;
    HX_VEC(struct large) larges;
    uint64_t roots_of[KINDS];
    uint64_t category_node[KINDS];
    uint64_t n_categories, first_root, first_object, first_piece, n_nodes, n_edges;
    uint64_t root_string, object_string, piece_string, trace_string;
    uint64_t cut_objects, far_edges;
};

static void deinit_writer(struct writer *w)
{
    for (size_t i = 0; w->name && i <= hx_snapshot_names(w->snapshot); i++)
        free(w->name[i]);
    free(w->name);
    hx_vec_free(&w->roots);
    hx_vec_free(&w->larges);
    hx_hs_traces_deinit(&w->traces);
}

/* --- what there is ------------------------------------------------------------------ */

static bool is_exported_edge(const struct writer *w, enum hx_edge_kind kind)
{
    return kind != HX_EDGE_INTERIOR || w->snapshot->interior != HX_INTERIOR_OFF;
}

static uint64_t edges_of(const struct writer *w, hx_obj i)
{
    const struct hx_graph *g = &w->snapshot->graph;
    uint64_t n = g->fwd[i + 1] - g->fwd[i];
    if (w->snapshot->interior != HX_INTERIOR_OFF)
        return n;
    n = 0;
    for (hx_eidx e = g->fwd[i]; e < g->fwd[i + 1]; e++)
        n += is_exported_edge(w, hx_edge_kind_of(g->edge[e]));
    return n;
}

static hx_error *find_roots(struct writer *w)
{
    const struct hx_snapshot *s = w->snapshot;
    for (size_t i = 0; i < s->root_edges.n;) {
        struct shown_root shown = {.root = s->root_edges.v[i].root, .first = i};
        for (; i < s->root_edges.n && s->root_edges.v[i].root == shown.root; i++)
            shown.edges += is_exported_edge(w, s->root_edges.v[i].kind);
        shown.n = i - shown.first;
        enum hx_root_kind kind = s->roots.v[shown.root].kind;
        if (!shown.edges || kind >= KINDS)
            continue;
        HX_NEED(hx_vec_push(&w->roots, shown));
        w->roots_of[kind]++;
        w->n_edges += 1 + shown.edges;
    }
    return NULL;
}

static hx_error *find_objects(struct writer *w)
{
    const struct hx_graph *g = &w->snapshot->graph;
    uint64_t pieces = 0;
    for (hx_obj i = 0; i < g->n; i++) {
        w->n_edges += edges_of(w, i);
        if (g->size[i] <= SIZE_MOST)
            continue;
        uint64_t more = (g->size[i] - 1) / SIZE_MOST;
        if (more > PIECES_MAX - pieces) {
            w->cut_objects++;
            more = PIECES_MAX - pieces;
        }
        pieces += more;
        w->n_edges += more;
        if (more)
            HX_NEED(hx_vec_push(&w->larges, (struct large){i, (uint32_t)more}));
    }
    w->n_nodes = pieces;
    return NULL;
}

static unsigned node_fields(const struct writer *w)
{
    return w->snapshot->graph.site ? 6 : 5;
}

static hx_error *too_large(const struct writer *w)
{
    return hx_error_new(HX_E_LIMIT, w->export->title,
                        "export it as csv or jsonl, or ask: heapx sql",
                        "has more objects or references than this format can number");
}

/* Numbers all nodes and strings. */
static hx_error *number_nodes(struct writer *w)
{
    const struct hx_graph *g = &w->snapshot->graph;
    HX_TRY(find_roots(w));
    HX_TRY(find_objects(w));
    uint64_t pieces = w->n_nodes;
    for (size_t kind = 0; kind < KINDS; kind++)
        if (w->roots_of[kind])
            w->category_node[kind] = FIRST_CATEGORY + w->n_categories++;
    w->n_edges += 1 + 2 * w->n_categories;
    w->first_root = FIRST_CATEGORY + w->n_categories;
    w->first_object = w->first_root + w->roots.n;
    w->first_piece = w->first_object + g->n;
    w->n_nodes = w->first_piece + pieces;
    w->root_string = FIRST_CATEGORY_STRING + KINDS;
    w->object_string = w->root_string + 2 * w->roots.n;
    w->piece_string = w->object_string + g->n;
    w->trace_string = w->piece_string + w->larges.n;
    uint64_t strings = w->trace_string + 1 + 2 * w->traces.stacks.centres.n;
    if (w->n_nodes > UINT32_MAX / node_fields(w) || w->n_edges > UINT32_MAX / 3 ||
        strings > UINT32_MAX)
        return too_large(w);
    return NULL;
}

/* A name as a JSON string. Readers take "<WORD 0xADDRESS>" for one of many <WORD>: a blank inside
 * the word would end it. */
static void put_word(struct hx_text *quoted, const char *name)
{
    HX_CLEANUP(hx_text_free) struct hx_text word = {0};
    for (const char *at = name; *at; at++)
        if (*at == ' ')
            hx_text_puts(&word, "\xc2\xa0");
        else
            hx_text_putc(&word, *at);
    hx_text_json(quoted, hx_text_str(&word), word.n);
    quoted->failed |= word.failed;
}

/* Names of types and shapes, without the quotes. */
static hx_error *name_objects(struct writer *w)
{
    const size_t n = hx_snapshot_names(w->snapshot);
    w->name = calloc(n + 1, sizeof *w->name);
    HX_NEED(w->name);
    for (size_t i = 0; i <= n; i++) {
        HX_CLEANUP(hx_text_free) struct hx_text quoted = {0};
        put_word(&quoted, i < n ? hx_snapshot_name(w->snapshot, i) : "(unknown)");
        HX_NEED(!quoted.failed && (w->name[i] = strndup(quoted.s + 1, quoted.n - 2)));
    }
    return NULL;
}

/* --- the head -------------------------------------------------------------------------- */

static void put_snapshot_meta(struct writer *w)
{
    bool traced = w->snapshot->graph.site != NULL;
    hx_hs_puts(w->out, "{\"snapshot\":{\"meta\":{\n"
                       "\"node_fields\":[\"type\",\"name\",\"id\",\"self_size\",\"edge_count\"");
    hx_hs_puts(w->out, traced ? ",\"trace_node_id\"],\n" : "],\n");
    hx_hs_puts(w->out,
               "\"node_types\":[[\"hidden\",\"array\",\"string\",\"object\",\"code\",\"closure\","
               "\"regexp\",\"number\",\"native\",\"synthetic\",\"concatenated string\","
               "\"sliced string\",\"symbol\",\"bigint\",\"object shape\"],"
               "\"string\",\"number\",\"number\",\"number\"");
    hx_hs_puts(w->out, traced ? ",\"number\"],\n" : "],\n");
    hx_hs_puts(w->out,
               "\"edge_fields\":[\"type\",\"name_or_index\",\"to_node\"],\n"
               "\"edge_types\":[[\"context\",\"element\",\"property\",\"internal\",\"hidden\","
               "\"shortcut\",\"weak\"],\"string_or_number\",\"node\"],\n"
               "\"trace_function_info_fields\":[\"function_id\",\"name\",\"script_name\","
               "\"script_id\",\"line\",\"column\"],\n"
               "\"trace_node_fields\":[\"id\",\"function_info_index\",\"count\",\"size\","
               "\"children\"],\n"
               "\"sample_fields\":[\"timestamp_us\",\"last_assigned_id\"],\n"
               "\"location_fields\":[\"object_index\",\"script_id\",\"line\",\"column\"]},\n");
    w->out->comma = false;
    hx_hs_puts(w->out, "\"node_count\":");
    hx_hs_number(w->out, w->n_nodes);
    w->out->comma = false;
    hx_hs_puts(w->out, ",\"edge_count\":");
    hx_hs_number(w->out, w->n_edges);
    w->out->comma = false;
    hx_hs_puts(w->out, ",\"trace_function_count\":");
    hx_hs_number(w->out, traced ? w->traces.stacks.centres.n + 1 : 0);
    hx_hs_puts(w->out, "}");
}

/* Every so many objects; false when the work was cancelled. */
static bool report_writing(const struct writer *w, unsigned part, hx_obj i)
{
    if (i & 0xffff)
        return true;
    uint64_t n = w->snapshot->graph.n;
    hx_progress_at(w->export->progress, "writing", part * n + i, 3 * n);
    return !hx_progress_cancelled(w->export->progress);
}

/* --- nodes -------------------------------------------------------------------------------- */

static void put_node(struct writer *w, unsigned type, uint64_t string, uint64_t index,
                     uint64_t size, uint64_t edges, uint32_t trace)
{
    hx_hs_row(w->out);
    hx_hs_number(w->out, type);
    hx_hs_number(w->out, string);
    hx_hs_number(w->out, 2 * index + 1);
    hx_hs_number(w->out, size);
    hx_hs_number(w->out, edges);
    if (w->snapshot->graph.site)
        hx_hs_number(w->out, trace);
}

static bool put_object_nodes(struct writer *w, const uint32_t *trace_of)
{
    const struct hx_graph *g = &w->snapshot->graph;
    const struct large *large = w->larges.v, *end = large + w->larges.n;
    for (hx_obj i = 0; i < g->n; i++) {
        if (!report_writing(w, 0, i))
            return false;
        uint64_t pieces = large < end && large->object == i ? (large++)->pieces : 0;
        uint32_t trace = g->site && g->site[i] != HX_NO_SITE ? trace_of[g->site[i]] : 0;
        put_node(w, NODE_NATIVE, w->object_string + i, w->first_object + i,
                 g->size[i] < SIZE_MOST ? g->size[i] : SIZE_MOST, edges_of(w, i) + pieces, trace);
    }
    return true;
}

static void put_pieces(struct writer *w)
{
    uint64_t index = w->first_piece;
    for (size_t i = 0; i < w->larges.n; i++) {
        uint64_t left = w->snapshot->graph.size[w->larges.v[i].object] - SIZE_MOST;
        for (uint32_t k = 0; k < w->larges.v[i].pieces; k++) {
            uint64_t bytes = left < SIZE_MOST ? left : SIZE_MOST;
            put_node(w, NODE_NATIVE, w->piece_string + i, index++, bytes, 0, 0);
            left -= bytes;
        }
    }
}

static hx_error *put_nodes(struct writer *w)
{
    /* Of each site its node in the tree, looked up once. */
    size_t sites = w->snapshot->sites.n;
    HX_FREE uint32_t *trace_of = calloc(sites + 1, sizeof *trace_of);
    HX_NEED(trace_of);
    for (size_t i = 0; i < sites; i++)
        trace_of[i] = hx_hs_trace_node(&w->traces, w->snapshot->sites.v[i].ccs_id);
    hx_hs_array(w->out, "nodes");
    put_node(w, NODE_SYNTHETIC, STRING_EMPTY, ROOT_NODE, 0, 1 + w->n_categories, 0);
    put_node(w, NODE_SYNTHETIC, STRING_GC_ROOTS, GC_ROOTS_NODE, 0, w->n_categories, 0);
    for (size_t kind = 0; kind < KINDS; kind++)
        if (w->roots_of[kind])
            put_node(w, NODE_NATIVE, FIRST_CATEGORY_STRING + kind, w->category_node[kind], 0,
                     w->roots_of[kind], 0);
    for (size_t i = 0; i < w->roots.n; i++)
        put_node(w, NODE_NATIVE, w->root_string + 2 * i + 1, w->first_root + i, 0,
                 w->roots.v[i].edges, 0);
    if (!put_object_nodes(w, trace_of))
        return hx_error_cancelled(w->export->title);
    put_pieces(w);
    hx_hs_puts(w->out, "]");
    return NULL;
}

/* --- edges ----------------------------------------------------------------------------------- */

static void put_edge(struct writer *w, unsigned type, uint64_t name, uint64_t to)
{
    hx_hs_row(w->out);
    hx_hs_number(w->out, type);
    hx_hs_number(w->out, name);
    hx_hs_number(w->out, to * node_fields(w));
}

/* An edge is called by where it is: bytes from the beginning. */
static void put_offset_edge(struct writer *w, uint64_t offset, hx_obj target)
{
    w->far_edges += offset > UINT32_MAX;
    put_edge(w, EDGE_ELEMENT, offset > UINT32_MAX ? UINT32_MAX : offset, w->first_object + target);
}

static void put_category_edges(struct writer *w)
{
    put_edge(w, EDGE_ELEMENT, 1, GC_ROOTS_NODE);
    for (int from = ROOT_NODE; from <= GC_ROOTS_NODE; from++)
        for (size_t kind = 0; kind < KINDS; kind++)
            if (w->roots_of[kind])
                put_edge(w, from == ROOT_NODE ? EDGE_SHORTCUT : EDGE_INTERNAL,
                         FIRST_CATEGORY_STRING + kind, w->category_node[kind]);
    for (size_t kind = 0; kind < KINDS; kind++)
        for (size_t i = 0; i < w->roots.n; i++)
            if (w->snapshot->roots.v[w->roots.v[i].root].kind == (enum hx_root_kind)kind)
                put_edge(w, EDGE_PROPERTY, w->root_string + 2 * i, w->first_root + i);
}

static void put_root_edges(struct writer *w)
{
    const struct hx_snapshot *s = w->snapshot;
    for (size_t i = 0; i < w->roots.n; i++) {
        const struct shown_root *shown = &w->roots.v[i];
        const struct hx_root *root = &s->roots.v[shown->root];
        for (size_t k = shown->first; k < shown->first + shown->n; k++) {
            const struct hx_root_edge *edge = &s->root_edges.v[k];
            uint64_t offset = edge->address > root->address ? edge->address - root->address : 0;
            if (is_exported_edge(w, edge->kind))
                put_offset_edge(w, hx_root_has_place(root) ? offset : 0, edge->target);
        }
    }
}

static hx_error *put_edges(struct writer *w)
{
    const struct hx_graph *g = &w->snapshot->graph;
    const struct large *large = w->larges.v, *end = large + w->larges.n;
    uint64_t piece = w->first_piece;
    hx_hs_array(w->out, "edges");
    put_category_edges(w);
    put_root_edges(w);
    for (hx_obj i = 0; i < g->n; i++) {
        if (!report_writing(w, 1, i))
            return hx_error_cancelled(w->export->title);
        for (hx_eidx e = g->fwd[i]; e < g->fwd[i + 1]; e++)
            if (is_exported_edge(w, hx_edge_kind_of(g->edge[e])))
                put_offset_edge(w, hx_edge_offset(g->edge[e]), hx_edge_target(g->edge[e]));
        if (large == end || large->object != i)
            continue;
        for (uint32_t k = 0; k < large->pieces; k++)
            put_edge(w, EDGE_INTERNAL, w->piece_string + (uint64_t)(large - w->larges.v), piece++);
        large++;
    }
    hx_hs_puts(w->out, "]");
    return NULL;
}

/* --- strings ---------------------------------------------------------------------------------- */

void hx_hs_string(struct hx_hs_out *out, const char *a, const char *b, const char *c)
{
    struct hx_text whole = {0}, quoted = {0};
    const char *const parts[] = {a, b, c};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        if (parts[i])
            hx_text_puts(&whole, parts[i]);
    hx_text_json(&quoted, hx_text_str(&whole), whole.n);
    if ((whole.failed || quoted.failed) && !out->sink->failed)
        out->sink->failed = ENOMEM;
    hx_hs_puts(out, out->comma ? ",\n" : "\n");
    out->comma = true;
    hx_hs_put(out, hx_text_str(&quoted), quoted.n);
    hx_text_free(&whole);
    hx_text_free(&quoted);
}

static void put_root_strings(struct writer *w)
{
    for (size_t i = 0; i < w->roots.n; i++) {
        const struct hx_root *root = &w->snapshot->roots.v[w->roots.v[i].root];
        hx_hs_string(w->out, root->name, NULL, NULL);
        bool module = *root->module && !hx_root_is_nameless(root);
        hx_hs_string(w->out, module ? root->module : NULL, module ? "!" : NULL, root->name);
    }
}

static bool is_unreachable(const struct hx_graph *g, hx_obj i)
{
    return g->state[i] == HX_STATE_DEFINITE || g->state[i] == HX_STATE_INDIRECT;
}

static void put_maker(struct writer *w, hx_obj i)
{
    HX_CLEANUP(hx_text_free) struct hx_text maker = {0}, quoted = {0};
    hx_snapshot_put_maker(w->snapshot, i, &maker);
    if (!maker.n)
        return;
    put_word(&quoted, maker.s);
    if (!quoted.failed)
        hx_hs_put(w->out, quoted.s + 1, quoted.n - 2);
}

static void put_object_string(struct writer *w, hx_obj i)
{
    const struct hx_graph *g = &w->snapshot->graph;
    char address[32];
    int n = snprintf(address, sizeof address, " 0x%" PRIx64 ">\"", g->addr[i]);
    hx_hs_puts(w->out, w->out->comma ? ",\n\"" : "\n\"");
    w->out->comma = true;
    hx_hs_puts(w->out, "<");
    if (is_unreachable(g, i))
        hx_hs_puts(w->out, "(unreachable)\xc2\xa0");
    hx_hs_puts(w->out, w->name[hx_snapshot_number_of(w->snapshot, i)]);
    put_maker(w, i);
    hx_hs_put(w->out, address, (size_t)n);
}

static hx_error *put_strings(struct writer *w)
{
    const struct hx_graph *g = &w->snapshot->graph;
    hx_hs_array(w->out, "strings");
    hx_hs_string(w->out, "<dummy>", NULL, NULL);
    hx_hs_string(w->out, "", NULL, NULL);
    hx_hs_string(w->out, "(GC roots)", NULL, NULL);
    for (size_t kind = 0; kind < KINDS; kind++)
        hx_hs_string(w->out, categories[kind], NULL, NULL);
    put_root_strings(w);
    for (hx_obj i = 0; i < g->n; i++) {
        if (!report_writing(w, 2, i))
            return hx_error_cancelled(w->export->title);
        put_object_string(w, i);
    }
    for (size_t i = 0; i < w->larges.n; i++) {
        char name[48];
        snprintf(name, sizeof name, "more of 0x%" PRIx64, g->addr[w->larges.v[i].object]);
        hx_hs_string(w->out, name, NULL, NULL);
    }
    hx_hs_traces_put_strings(&w->traces, w->out);
    hx_hs_puts(w->out, "]}\n");
    return NULL;
}

/* --- the whole ----------------------------------------------------------------------------------
 */

static void tell_heapsnapshot_notes(const struct writer *w)
{
    struct hx_text *notes = w->export->notes;
    if (w->larges.n)
        hx_text_putf(notes,
                     "%zu objects of 4 GiB or more are written in pieces, called 'more of'\n",
                     w->larges.n);
    if (w->cut_objects)
        hx_text_putf(notes, "%" PRIu64 " objects are larger than the format can say\n",
                     w->cut_objects);
    if (w->far_edges)
        hx_text_putf(notes,
                     "%" PRIu64 " references lie beyond 4 GiB, and are shown at 4294967295\n",
                     w->far_edges);
    if (w->traces.cut)
        hx_text_putf(notes, "%" PRIu64 " stacks are cut, they are too deep for the readers\n",
                     w->traces.cut);
}

static hx_error *write_graph_and_traces(struct writer *w)
{
    HX_TRY(number_nodes(w));
    HX_TRY(name_objects(w));
    put_snapshot_meta(w);
    HX_TRY(put_nodes(w));
    HX_TRY(put_edges(w));
    if (w->snapshot->graph.site) {
        hx_hs_traces_put(&w->traces, w->trace_string, w->out);
    } else {
        hx_hs_array(w->out, "trace_function_infos");
        hx_hs_puts(w->out, "]");
        hx_hs_array(w->out, "trace_tree");
        hx_hs_puts(w->out, "]");
    }
    hx_hs_array(w->out, "samples");
    hx_hs_puts(w->out, "]");
    hx_hs_array(w->out, "locations");
    hx_hs_puts(w->out, "]");
    HX_TRY(put_strings(w));
    hx_hs_flush(w->out);
    tell_heapsnapshot_notes(w);
    return NULL;
}

static hx_error *write_heapsnapshot(const struct hx_export *export, struct hx_sink *sink)
{
    HX_SNAPSHOT struct hx_snapshot *snapshot = NULL;
    HX_TRY(hx_store_load(export->store, export->snapshot, export->progress, &snapshot));
    if (!snapshot->graph.n)
        return hx_error_new(HX_E_ABSENT, export->title, "see: heapx report FILE snapshots",
                            "has no objects in snapshot %" PRId64, export->snapshot);
    HX_FREE struct hx_hs_out *out = malloc(sizeof *out);
    HX_NEED(out);
    out->sink = sink;
    out->comma = false;
    out->n = 0;
    HX_CLEANUP(deinit_writer)
    struct writer w = {.export = export, .out = out, .snapshot = snapshot};
    if (snapshot->graph.site)
        HX_TRY(hx_hs_traces_load(export->store, export->snapshot, &w.traces));
    return write_graph_and_traces(&w);
}

const struct hx_exporter hx_export_heapsnapshot = {
    .name = "heapsnapshot",
    .about = "objects and references, for Chrome's DevTools and memlab",
    .by = "type",
    .span = HX_EXPORT_ONE,
    .write = write_heapsnapshot,
};
