/* heapsnapshot_traces.c - cost centres and their stacks as functions and a tree of calls. */
#include "export/graph/heapsnapshot_traces.h"

#include "base/cleanup.h"
#include "store/query/named.h"

#include <stdlib.h>

#define NONE UINT32_MAX

/* Readers descend the tree by recursion. */
#define DEPTH_MAX 1000

/* --- from the store -------------------------------------------------------------- */

/* "FILE:LINE", or a file alone. */
static hx_error *set_function_place(struct hx_hs_function *function, struct hx_value source,
                                    struct hx_value module)
{
    bool known = source.type == HX_VALUE_TEXT && source.text_bytes;
    function->script = strdup(known                          ? source.text
                              : module.type == HX_VALUE_TEXT ? module.text
                                                             : "");
    HX_NEED(function->script);
    char *colon = known ? strrchr(function->script, ':') : NULL;
    uint64_t line;
    if (colon && colon[1] >= '0' && colon[1] <= '9' && hx_parse_u64(colon + 1, &line) &&
        line <= UINT32_MAX) {
        function->line = line;
        *colon = 0;
    }
    return NULL;
}

static hx_error *add_function(void *context, hx_rows *rows)
{
    struct hx_hs_traces *traces = context;
    struct hx_hs_function function = {.centre = hx_rows_value(rows, 0).i};
    struct hx_value label = hx_rows_value(rows, 1);
    function.name = strdup(label.type == HX_VALUE_TEXT ? label.text : "");
    HX_NEED(function.name);
    hx_error *err = set_function_place(&function, hx_rows_value(rows, 2), hx_rows_value(rows, 3));
    if (!err && hx_vec_push(&traces->functions, function))
        return NULL;
    free(function.name);
    free(function.script);
    return err ? err : hx_error_nomem();
}

static int compare_function_centres(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = ((const struct hx_hs_function *)b)->centre;
    return (x > y) - (x < y);
}

static int by_ccs(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = ((const struct hx_hs_trace *)b)->ccs_id;
    return (x > y) - (x < y);
}

static uint32_t find_trace(const struct hx_hs_traces *traces, int64_t ccs_id)
{
    const struct hx_hs_trace *found =
        traces->traces.n
            ? bsearch(&ccs_id, traces->traces.v, traces->traces.n, sizeof *found, by_ccs)
            : NULL;
    return found ? (uint32_t)(found - traces->traces.v) : NONE;
}

static uint64_t value_count(struct hx_value value)
{
    return value.type == HX_VALUE_INT && value.i > 0 ? (uint64_t)value.i : 0;
}

static hx_error *add_trace(void *context, hx_rows *rows)
{
    struct hx_hs_traces *traces = context;
    int64_t centre = hx_rows_value(rows, 2).i;
    const struct hx_hs_function *function =
        traces->functions.n ? bsearch(&centre, traces->functions.v, traces->functions.n,
                                      sizeof *function, compare_function_centres)
                            : NULL;
    uint32_t i = (uint32_t)traces->traces.n;
    if (!function || i >= NONE / 2)
        return NULL; /* of a damaged store: its objects have none */
    struct hx_value parent = hx_rows_value(rows, 1);
    struct hx_hs_trace trace = {
        .ccs_id = hx_rows_value(rows, 0).i,
        .function = (uint32_t)(function - traces->functions.v),
        .parent = parent.type == HX_VALUE_INT ? find_trace(traces, parent.i) : NONE,
        .first_child = NONE,
        .next = NONE,
        .depth = 1,
        .kept = i,
        .objects = value_count(hx_rows_value(rows, 3)),
        .bytes = value_count(hx_rows_value(rows, 4)),
    };
    if (trace.parent != NONE)
        trace.depth = traces->traces.v[trace.parent].depth + 1;
    return hx_vec_push(&traces->traces, trace) ? NULL : hx_error_nomem();
}

/* What is too deep belongs to the last one that is shown. Children come in order. */
static void link_up(struct hx_hs_traces *traces)
{
    struct hx_hs_trace *v = traces->traces.v;
    traces->first = NONE;
    for (size_t i = 0; i < traces->traces.n; i++) {
        if (v[i].depth <= DEPTH_MAX)
            continue;
        struct hx_hs_trace *above = &v[v[v[i].parent].kept];
        v[i].kept = v[v[i].parent].kept;
        above->objects += v[i].objects;
        above->bytes += v[i].bytes;
        traces->cut++;
    }
    for (size_t i = traces->traces.n; i-- > 0;) {
        if (v[i].kept != i)
            continue;
        uint32_t *first = v[i].parent == NONE ? &traces->first : &v[v[i].parent].first_child;
        v[i].next = *first;
        *first = (uint32_t)i;
    }
}

hx_error *hx_hs_traces_load(hx_store *store, int64_t snapshot, struct hx_hs_traces *ret)
{
    HX_HS_TRACES struct hx_hs_traces traces = {.first = NONE};
    HX_TRY(hx_query_each(store, HX_QUERY_centres, HX_QUERY_ARGS(), add_function, &traces));
    HX_TRY(hx_query_each(store, HX_QUERY_ccs_allocations, HX_QUERY_ARGS(.snapshot = snapshot),
                         add_trace, &traces));
    link_up(&traces);
    *ret = traces;
    traces = (struct hx_hs_traces){.first = NONE};
    return NULL;
}

void hx_hs_traces_deinit(struct hx_hs_traces *traces)
{
    for (size_t i = 0; i < traces->functions.n; i++) {
        free(traces->functions.v[i].name);
        free(traces->functions.v[i].script);
    }
    hx_vec_free(&traces->functions);
    hx_vec_free(&traces->traces);
}

/* --- into the file ------------------------------------------------------------------ */

/* Nodes of the tree are numbered from 1, which is the root. */
static uint32_t trace_node(uint32_t trace)
{
    return trace + 2;
}

uint32_t hx_hs_trace_node(const struct hx_hs_traces *traces, int64_t ccs_id)
{
    uint32_t trace = find_trace(traces, ccs_id);
    return trace == NONE ? 0 : trace_node(traces->traces.v[trace].kept);
}

static void put_functions(const struct hx_hs_traces *traces, uint64_t first_string,
                          struct hx_hs_out *out)
{
    hx_hs_array(out, "trace_function_infos");
    for (size_t i = 0; i <= traces->functions.n; i++) { /* the first one is the root's */
        hx_hs_row(out);
        hx_hs_number(out, i);
        hx_hs_number(out, i ? first_string + 2 * i - 1 : first_string);
        hx_hs_number(out, i ? first_string + 2 * i : 1);
        hx_hs_number(out, 0);
        hx_hs_number(out, i ? traces->functions.v[i - 1].line : 0);
        hx_hs_number(out, 0);
    }
    hx_hs_puts(out, "]");
}

/* A node up to the list of its children, which is left open. */
static void open_node(const struct hx_hs_traces *traces, uint32_t i, struct hx_hs_out *out)
{
    const struct hx_hs_trace *trace = &traces->traces.v[i];
    out->comma = false;
    hx_hs_number(out, trace_node(i));
    hx_hs_number(out, (uint64_t)trace->function + 1);
    hx_hs_number(out, trace->objects);
    hx_hs_number(out, trace->bytes);
    hx_hs_puts(out, ",[");
}

void hx_hs_traces_put(const struct hx_hs_traces *traces, uint64_t first_string,
                      struct hx_hs_out *out)
{
    put_functions(traces, first_string, out);
    hx_hs_array(out, "trace_tree");
    hx_hs_puts(out, "1,0,0,0,[");
    for (uint32_t i = traces->first; i != NONE;) {
        const struct hx_hs_trace *trace = &traces->traces.v[i];
        open_node(traces, i, out);
        if (trace->first_child != NONE) {
            i = trace->first_child;
            continue;
        }
        hx_hs_puts(out, "]");
        while (i != NONE && traces->traces.v[i].next == NONE) {
            i = traces->traces.v[i].parent;
            hx_hs_puts(out, "]"); /* the parent's, at last the root's */
        }
        if (i == NONE)
            hx_hs_puts(out, "]");
        else
            hx_hs_puts(out, ",\n"), i = traces->traces.v[i].next;
    }
    if (traces->first == NONE)
        hx_hs_puts(out, "]]");
}

void hx_hs_traces_put_strings(const struct hx_hs_traces *traces, struct hx_hs_out *out)
{
    hx_hs_string(out, "(root)", NULL, NULL);
    for (size_t i = 0; i < traces->functions.n; i++) {
        hx_hs_string(out, traces->functions.v[i].name, NULL, NULL);
        hx_hs_string(out, traces->functions.v[i].script, NULL, NULL);
    }
}
