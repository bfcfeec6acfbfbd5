/* heapsnapshot_traces.c - cost centres and their stacks as functions and a tree of calls. */
#include "export/graph/heapsnapshot_traces.h"

#include "base/preorder.h"

#include <stdlib.h>

/* Readers descend the tree by recursion. */
#define DEPTH_MAX 1000

/* --- from the store -------------------------------------------------------------- */

static void set_weight(hx_rows *rows, size_t column, uint64_t *ret)
{
    struct hx_value value = hx_rows_value(rows, column);
    if (value.type == HX_VALUE_INT)
        *ret = value.i > 0 ? (uint64_t)value.i : 0;
}

static hx_error *add_weight(void *context, hx_rows *rows)
{
    struct hx_hs_traces *traces = context;
    uint32_t at = hx_stacktree_find(&traces->stacks, hx_rows_value(rows, HX_WEIGHT_ID).i);
    if (at == HX_NO_STACK)
        return NULL;
    set_weight(rows, HX_WEIGHT_OBJECTS, &traces->trace[at].objects);
    set_weight(rows, HX_WEIGHT_BYTES, &traces->trace[at].bytes);
    return NULL;
}

/* What is too deep belongs to the last one that is shown. */
static void cut_deep(struct hx_hs_traces *traces)
{
    struct hx_hs_trace *v = traces->trace;
    for (size_t i = 0; i < traces->stacks.rows.n; i++) {
        uint32_t parent = traces->stacks.rows.v[i].parent;
        v[i].depth = parent == HX_NO_STACK ? 1 : v[parent].depth + 1;
        v[i].kept = v[i].depth <= DEPTH_MAX ? (uint32_t)i : v[parent].kept;
        if (v[i].kept == i)
            continue;
        v[v[i].kept].objects += v[i].objects;
        v[v[i].kept].bytes += v[i].bytes;
        traces->cut++;
    }
}

/* What came before the recorder has no costs, but objects. */
hx_error *hx_hs_traces_load(hx_store *store, int64_t snapshot, struct hx_hs_traces *ret)
{
    HX_HS_TRACES struct hx_hs_traces traces = {0};
    HX_TRY(hx_stacktree_load(store, HX_TREE_CCS, &traces.stacks));
    traces.trace = calloc(traces.stacks.rows.n + 1, sizeof *traces.trace);
    HX_NEED(traces.trace);
    for (int which = HX_WEIGHTS_LIVE; which <= HX_WEIGHTS_ALLOCATED; which++)
        HX_TRY(hx_query_each(store, hx_stack_weights(HX_TREE_CCS, (enum hx_stack_weights)which),
                             HX_QUERY_ARGS(.snapshot = snapshot), add_weight, &traces));
    cut_deep(&traces);
    HX_TRY(hx_preorder(HX_PARENTS(traces.stacks.rows.v, parent, traces.stacks.rows.n), NULL, NULL,
                       &traces.order));
    *ret = traces;
    traces = (struct hx_hs_traces){0};
    return NULL;
}

void hx_hs_traces_deinit(struct hx_hs_traces *traces)
{
    hx_stacktree_deinit(&traces->stacks);
    free(traces->trace);
    free(traces->order);
}

/* --- into the file ------------------------------------------------------------------ */

/* Nodes of the tree are numbered from 1, which is the root. */
static uint32_t trace_node(uint32_t trace)
{
    return trace + 2;
}

uint32_t hx_hs_trace_node(const struct hx_hs_traces *traces, int64_t ccs_id)
{
    uint32_t at = hx_stacktree_find(&traces->stacks, ccs_id);
    return at == HX_NO_STACK ? 0 : trace_node(traces->trace[at].kept);
}

/* "FILE:LINE", or a file alone: how long the file's name is, and the line; 0: unknown. */
static size_t split_source(const char *source, uint64_t *ret_line)
{
    const char *colon = strrchr(source, ':');
    if (colon && colon[1] >= '0' && colon[1] <= '9' && hx_parse_u64(colon + 1, ret_line) &&
        *ret_line <= UINT32_MAX)
        return (size_t)(colon - source);
    *ret_line = 0;
    return strlen(source);
}

static void put_functions(const struct hx_hs_traces *traces, uint64_t first_string,
                          struct hx_hs_out *out)
{
    const struct hx_stacktree *stacks = &traces->stacks;
    hx_hs_array(out, "trace_function_infos");
    for (size_t i = 0; i <= stacks->centres.n; i++) { /* the first one is the root's */
        uint64_t line = 0;
        if (i)
            split_source(hx_stacktree_text(stacks, stacks->centres.v[i - 1].source), &line);
        hx_hs_row(out);
        hx_hs_number(out, i);
        hx_hs_number(out, i ? first_string + 2 * i - 1 : first_string);
        hx_hs_number(out, i ? first_string + 2 * i : 1);
        hx_hs_number(out, 0);
        hx_hs_number(out, line);
        hx_hs_number(out, 0);
    }
    hx_hs_puts(out, "]");
}

/* A node up to the list of its children, which is left open. */
static void open_node(const struct hx_hs_traces *traces, uint32_t i, struct hx_hs_out *out)
{
    const struct hx_hs_trace *trace = &traces->trace[i];
    out->comma = false;
    hx_hs_number(out, trace_node(i));
    uint32_t centre = traces->stacks.rows.v[i].centre;
    hx_hs_number(out, centre == HX_NO_STACK ? 0 : (uint64_t)centre + 1);
    hx_hs_number(out, trace->objects);
    hx_hs_number(out, trace->bytes);
    hx_hs_puts(out, ",[");
}

/* Ends so many lists of children. */
static void close_nodes(struct hx_hs_out *out, uint32_t n)
{
    while (n-- > 0)
        hx_hs_puts(out, "]");
}

void hx_hs_traces_put(const struct hx_hs_traces *traces, uint64_t first_string,
                      struct hx_hs_out *out)
{
    uint32_t open = 0; /* nodes below the root whose children may follow */
    put_functions(traces, first_string, out);
    hx_hs_array(out, "trace_tree");
    hx_hs_puts(out, "1,0,0,0,[");
    for (size_t i = 0; i < traces->stacks.rows.n; i++) {
        uint32_t at = traces->order[i], depth = traces->trace[at].depth;
        if (traces->trace[at].kept != at)
            continue;
        if (depth <= open) {
            close_nodes(out, open - depth + 1);
            hx_hs_puts(out, ",\n");
        }
        open_node(traces, at, out);
        open = depth;
    }
    close_nodes(out, open + 2); /* with the root, and the array */
}

void hx_hs_traces_put_strings(const struct hx_hs_traces *traces, struct hx_hs_out *out)
{
    const struct hx_stacktree *stacks = &traces->stacks;
    struct hx_text file = {0};
    hx_hs_string(out, "(root)", NULL, NULL);
    for (size_t i = 0; i < stacks->centres.n; i++) {
        const struct hx_stack_centre *centre = &stacks->centres.v[i];
        const char *source = hx_stacktree_text(stacks, centre->source);
        uint64_t line;
        hx_text_clear(&file);
        hx_text_putn(&file, source, split_source(source, &line));
        hx_hs_string(out, hx_stacktree_text(stacks, centre->label), NULL, NULL);
        hx_hs_string(out, *source ? hx_text_str(&file) : hx_stacktree_text(stacks, centre->module),
                     NULL, NULL);
    }
    hx_text_free(&file);
}
