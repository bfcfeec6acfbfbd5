/* heapsnapshot_traces.h - who allocated, as a heap snapshot says it: functions, and the tree of
 * their calls, in whose nodes objects were made. */
#ifndef HX_EXPORT_GRAPH_HEAPSNAPSHOT_TRACES_H
#define HX_EXPORT_GRAPH_HEAPSNAPSHOT_TRACES_H

#include "export/export.h"
#include "export/graph/heapsnapshot_out.h"

/* What a node of the tree of calls has beside its stack. */
struct hx_hs_trace {
    uint32_t depth; /* below the root: 1 */
    uint32_t kept;  /* itself, or the nearest one above that the file shows */
    uint64_t objects, bytes;
};

/* A cost centre of `stacks` is a function, a stack of it a trace of the same index. */
struct hx_hs_traces {
    struct hx_stacktree stacks;
    struct hx_hs_trace *trace;
    uint32_t *order; /* of traces in the tree */
    uint64_t cut;    /* traces too deep to be shown */
};

hx_error *hx_hs_traces_load(hx_store *store, int64_t snapshot, struct hx_hs_traces *ret);
void hx_hs_traces_deinit(struct hx_hs_traces *traces);
#define HX_HS_TRACES __attribute__((cleanup(hx_hs_traces_deinit)))

/* The node in which objects of a cost-centre stack were made; 0: none. */
uint32_t hx_hs_trace_node(const struct hx_hs_traces *traces, int64_t ccs_id);

/* The two members of the file. Their strings are in the table from `first_string` on, and there are
 * 1 + 2 for each function of them. */
void hx_hs_traces_put(const struct hx_hs_traces *traces, uint64_t first_string,
                      struct hx_hs_out *out);
void hx_hs_traces_put_strings(const struct hx_hs_traces *traces, struct hx_hs_out *out);

#endif
