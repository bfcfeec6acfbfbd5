/* evidence.c - each word of an edge, judged by the rules. */
#include "traverse/hold/evidence.h"

#include "base/bytes.h"
#include "base/parallel.h"
#include "traverse/hold/block_groups.h"
#include "traverse/hold/shapes.h"

#include <stdlib.h>

#define BLOCK 16384               /* objects that a worker claims at once */
#define LOW   (UINT64_C(1) << 40) /* letters are no addresses of a heap that lies higher */

void hx_judge_words(const struct hx_judge *judge, hx_obj object, uint64_t from, uint64_t to,
                    enum hx_rule rule)
{
    const struct hx_graph *graph = judge->graph;
    const hx_eidx end = graph->fwd[(size_t)object + 1];
    for (hx_eidx e = hx_graph_edge_from(graph, object, from);
         e < end && hx_edge_offset(graph->edge[e]) < to; e++)
        hx_judge_edge(judge, e, rule);
}

static void find_modules(struct hx_judge *judge)
{
    const struct hx_snapshot *snapshot = judge->snapshot;
    for (size_t i = 0; i < snapshot->n_mappings; i++) {
        const struct hx_mapping *mapping = &snapshot->mapping[i];
        if (!hx_mapping_is_file(mapping))
            continue;
        if (!judge->module_high)
            judge->module_low = mapping->start;
        judge->module_high = mapping->end;
    }
}

const struct hx_mapping *hx_judge_module(const struct hx_judge *judge, uint64_t address)
{
    const struct hx_snapshot *snapshot = judge->snapshot;
    if (!hx_judge_is_by_modules(judge, address))
        return NULL;
    size_t i = hx_mapping_find(snapshot->mapping, snapshot->n_mappings, address);
    return i < snapshot->n_mappings && hx_mapping_is_file(&snapshot->mapping[i])
               ? &snapshot->mapping[i]
               : NULL;
}

static void report_judge(const struct hx_judge *judge, uint64_t done, uint64_t n)
{
    uint64_t begun = judge->begun * n, part = (judge->ends - judge->begun) * done;
    hx_progress_at(judge->progress, judge->stage, begun + part, 100 * n);
}

/* --- in parallel -------------------------------------------------------------------------- */

struct pass {
    const struct hx_judge *judge;
    hx_judge_block_fn *work;
    void *context;
};

static void judge_block(void *context, unsigned i, size_t from, size_t to)
{
    struct pass *pass = context;
    pass->work(pass->context, i, (hx_obj)from, (hx_obj)to);
    report_judge(pass->judge, from, pass->judge->graph->n);
}

hx_error *hx_judge_objects(const struct hx_judge *judge, hx_judge_block_fn *work, void *context)
{
    struct pass pass = {.judge = judge, .work = work, .context = context};
    const hx_obj n = judge->graph->n;
    hx_parallel_blocks(n < BLOCK ? 1 : judge->threads, n, BLOCK, judge_block, &pass,
                       judge->progress);
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

/* Text, in a heap so low that letters are addresses: few pointers lead into the middle of a word.
 */
static bool is_text(enum hx_edge_kind kind, uint64_t value)
{
    return kind == HX_EDGE_INTERIOR && value < LOW && value % HX_WORD && hx_bytes_are_text(value);
}

static void judge_letters(void *context, unsigned worker, hx_obj from, hx_obj to)
{
    (void)worker;
    const struct hx_judge *judge = context;
    const struct hx_graph *graph = judge->graph;
    HX_PEEKED window = {0};
    for (hx_obj i = from; i < to; i++)
        for (hx_eidx e = graph->fwd[i]; e < graph->fwd[(size_t)i + 1]; e++) {
            const hx_edge edge = graph->edge[e];
            if (hx_edge_kind_of(edge) != HX_EDGE_INTERIOR ||
                graph->addr[hx_edge_target(edge)] >= LOW)
                continue;
            const uint64_t *word =
                hx_judge_peek(judge, graph->addr[i] + hx_edge_offset(edge), 1, &window);
            if (word && is_text(HX_EDGE_INTERIOR, *word))
                hx_judge_edge(judge, e, HX_RULE_bytes);
        }
}

static void judge_letters_of_roots(const struct hx_judge *judge)
{
    const struct hx_snapshot *snapshot = judge->snapshot;
    HX_PEEKED window = {0};
    for (size_t i = 0; i < snapshot->root_edges.n; i++) {
        struct hx_root_edge *edge = &snapshot->root_edges.v[i];
        const uint64_t *word = hx_judge_root_word(judge, edge, &window);
        if (word && is_text(edge->kind, *word) && !HX_EVIDENCE_RULE(edge->evidence))
            edge->evidence = HX_EVIDENCE(HX_RULE_bytes, edge->kind);
    }
}

/* What comes now takes the stage from this percent to that one, as a rule. */
static void next_judge(struct hx_judge *judge, const char *stage, unsigned begun, unsigned ends)
{
    judge->stage = stage;
    judge->begun = begun;
    judge->ends = ends;
    report_judge(judge, 0, 1);
}

static hx_error *judge_all(struct hx_judge *judge)
{
    next_judge(judge, "words", 0, 1);
    HX_TRY(hx_judge_objects(judge, note_kinds, judge->graph));
    judge_letters_of_roots(judge);
    if (judge->graph->addr[0] < LOW)
        HX_TRY(hx_judge_objects(judge, judge_letters, judge));
    next_judge(judge, "words", 1, 9);
    HX_TRY(hx_block_groups_find(judge, judge->groups));
    next_judge(judge, "words", 9, 22);
    HX_TRY(hx_judge_known_shapes(judge));
    next_judge(judge, "words", 22, 35);
    HX_TRY(hx_judge_buffers(judge));
    next_judge(judge, "words", 35, 40);
    HX_TRY(hx_judge_counts(judge));
    next_judge(judge, "words", 40, 47);
    HX_TRY(hx_judge_records(judge));
    next_judge(judge, "words", 47, 50);
    HX_TRY(hx_judge_pieces(judge));
    next_judge(judge, "words", 50, 51);
    HX_TRY(hx_judge_unsplit(judge));
    next_judge(judge, "words", 51, 100);
    HX_TRY(hx_judge_fields(judge));
    next_judge(judge, "shapes", 0, 90);
    HX_TRY(hx_shapes_make(judge));
    next_judge(judge, "shapes", 90, 100);
    return hx_judge_texts(judge);
}

/* What a type says of a word; HX_RULE_COUNT: nothing. */
static enum hx_rule rule_of_word(const struct hx_type_words *words, uint64_t word)
{
    const uint64_t bit = word < 64 ? UINT64_C(1) << word : 0;
    if (words->weak & bit)
        return HX_RULE_weak;
    if (words->scalar & bit || (!bit && words->rest_scalar))
        return HX_RULE_scalar;
    return words->pointer & bit || (!bit && words->rest_pointer) ? HX_RULE_NONE : HX_RULE_COUNT;
}

/* What its type says of an object's words, no counts know better. */
static void judge_typed(const struct hx_judge *judge, hx_obj from, hx_obj to)
{
    const struct hx_snapshot *snapshot = judge->snapshot;
    struct hx_graph *graph = judge->graph;
    for (hx_obj i = from; i < to; i++) {
        if (graph->type[i] >= snapshot->types.n)
            continue;
        const struct hx_type_words *words = &snapshot->types.v[graph->type[i]].words;
        if (!(words->weak | words->scalar | words->pointer) && !words->rest_scalar &&
            !words->rest_pointer)
            continue;
        for (hx_eidx e = graph->fwd[i]; e < graph->fwd[(size_t)i + 1]; e++) {
            const enum hx_rule rule = rule_of_word(words, hx_edge_offset(graph->edge[e]) / HX_WORD);
            /* a type says what its words are, but not of what lies behind them */
            const bool behind =
                rule == HX_RULE_NONE && HX_EVIDENCE_RULE(graph->evidence[e]) == HX_RULE_requested;
            if (rule != HX_RULE_COUNT && !behind)
                graph->evidence[e] = HX_EVIDENCE(rule, HX_EVIDENCE_KIND(graph->evidence[e]));
        }
    }
}

/* Words of which somebody knows what they are. */
static void judge_known_roots(struct hx_snapshot *snapshot)
{
    for (size_t i = 0; i < snapshot->root_edges.n; i++) {
        struct hx_root_edge *edge = &snapshot->root_edges.v[i];
        const enum hx_root_words words = snapshot->roots.v[edge->root].words;
        if (words == HX_WORDS_WEAK)
            edge->evidence = HX_EVIDENCE(HX_RULE_weak, edge->kind);
        else if (words == HX_WORDS_IN_USE && edge->kind <= HX_EDGE_KNOWN)
            edge->evidence = HX_EVIDENCE(HX_RULE_pointer, edge->kind);
    }
}

hx_error *hx_evidence_find(struct hx_snapshot *snapshot, unsigned threads,
                           const struct hx_progress *progress)
{
    struct hx_graph *graph = &snapshot->graph;
    struct hx_block_groups groups = {0};
    struct hx_judge judge = {.snapshot = snapshot,
                             .graph = graph,
                             .image = &snapshot->image,
                             .groups = &groups,
                             .progress = progress,
                             .threads = hx_threads(threads)};
    HX_TRY(hx_big_array(graph->evidence, graph->n_edges + 1));
    if (!graph->n)
        return NULL;
    find_modules(&judge);
    hx_error *err = judge_all(&judge);
    if (!err && graph->type)
        judge_typed(&judge, 0, graph->n);
    judge_known_roots(snapshot);
    if (!err)
        err = hx_image_failed(judge.image);
    hx_block_groups_deinit(&groups);
    return err;
}
