/* evidence.c - each word of an edge, judged by the rules. */
#include "traverse/hold/evidence.h"

#include "base/parallel.h"
#include "traverse/hold/rules.h"

hx_error *hx_evidence_find(struct hx_snapshot *snapshot, const struct hx_evidence_options *options,
                           const struct hx_progress *progress)
{
    (void)options, (void)progress;
    struct hx_graph *graph = &snapshot->graph;
    HX_TRY(hx_big_array(graph->evidence, graph->n_edges));
    for (hx_eidx e = 0; e < graph->n_edges; e++)
        graph->evidence[e] = HX_EVIDENCE(HX_RULE_NONE, hx_edge_kind_of(graph->edge[e]));
    return NULL;
}
