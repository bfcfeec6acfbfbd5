/* evidence.c - each word of an edge, judged by the rules. */
#include "traverse/hold/evidence.h"

#include "base/lower_bound.h"
#include "base/parallel.h"
#include "traverse/hold/judge.h"

#include <stdatomic.h>
#include <stdlib.h>

#define BLOCK 16384 /* objects that a worker claims at once */

void hx_judge_words(const struct hx_judge *judge, hx_obj object, uint64_t from, uint64_t to,
                    enum hx_rule rule)
{
    const struct hx_graph *graph = judge->graph;
    hx_eidx first = graph->fwd[object], n = graph->fwd[object + 1] - first;
    hx_eidx e = first + HX_LOWER_BOUND(n, i, hx_edge_offset(graph->edge[first + i]) < from);
    for (; e < first + n && hx_edge_offset(graph->edge[e]) < to; e++)
        hx_judge_edge(judge, e, rule);
}

const uint64_t *hx_judge_peek(const struct hx_judge *judge, uint64_t addr, size_t n, size_t *span)
{
    const struct hx_image *image = judge->image;
    if (*span >= image->n || addr < image->span[*span].start || addr >= image->span[*span].end)
        *span = hx_image_find(image, addr);
    if (*span >= image->n || addr % HX_WORD)
        return NULL;
    const struct hx_span *at = &image->span[*span];
    if (addr < at->start || addr >= at->end || (at->end - addr) / HX_WORD < n)
        return NULL;
    return (const uint64_t *)(const void *)(at->bytes + (addr - at->start));
}

/* --- in parallel -------------------------------------------------------------------------- */

struct pass {
    const struct hx_judge *judge;
    hx_judge_block_fn *work;
    void *context;
    atomic_size_t next;
};

static void judge_worker(void *context, unsigned i)
{
    struct pass *pass = context;
    const hx_obj n = pass->judge->graph->n;
    size_t from;
    while ((from = atomic_fetch_add(&pass->next, BLOCK)) < n &&
           !hx_progress_cancelled(pass->judge->progress))
        pass->work(pass->context, i, (hx_obj)from, n - from < BLOCK ? n : (hx_obj)(from + BLOCK));
}

hx_error *hx_judge_objects(const struct hx_judge *judge, hx_judge_block_fn *work, void *context)
{
    struct pass pass = {.judge = judge, .work = work, .context = context};
    hx_parallel(judge->graph->n < BLOCK ? 1 : judge->threads, judge_worker, &pass);
    return hx_progress_cancelled(judge->progress) ? hx_error_cancelled("words") : NULL;
}

/* --- all rules ---------------------------------------------------------------------------- */

static void note_kinds(void *context, unsigned worker, hx_obj from, hx_obj to)
{
    (void)worker;
    struct hx_graph *graph = context;
    for (hx_eidx e = graph->fwd[from]; e < graph->fwd[to]; e++)
        graph->evidence[e] = HX_EVIDENCE(HX_RULE_NONE, hx_edge_kind_of(graph->edge[e]));
}

hx_error *hx_evidence_find(struct hx_snapshot *snapshot, const struct hx_evidence_options *options,
                           const struct hx_progress *progress)
{
    struct hx_graph *graph = &snapshot->graph;
    struct hx_judge judge = {.snapshot = snapshot,
                             .graph = graph,
                             .image = &snapshot->image,
                             .progress = progress,
                             .threads = hx_threads(options->threads)};
    HX_TRY(hx_big_array(graph->evidence, graph->n_edges + 1));
    if (!graph->n)
        return NULL;
    HX_TRY(hx_judge_objects(&judge, note_kinds, graph));
    HX_TRY(hx_judge_known_shapes(&judge));
    HX_TRY(hx_judge_buffers(&judge));
    HX_TRY(hx_judge_fields(&judge));
    return hx_judge_texts(&judge);
}
