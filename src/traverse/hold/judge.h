/* judge.h - what the parts of evidence.c share. */
#ifndef HX_TRAVERSE_HOLD_JUDGE_H
#define HX_TRAVERSE_HOLD_JUDGE_H

#include "base/prefetch.h"
#include "base/progress.h"
#include "model/packed.h"
#include "model/snapshot.h"
#include "traverse/hold/rules.h"

#include <string.h>

#define HX_WORD 8

struct hx_block_groups;

/* The edges of a snapshot before the judges. The judgement of a word with the smallest number of a
 * rule remains, whoever comes first; but what a tag says, no counts know better, and what is lent
 * is no link. */
struct hx_judge {
    struct hx_snapshot *snapshot;
    struct hx_graph *graph;
    const struct hx_image *image;
    struct hx_block_groups *groups; /* block_groups.h */
    const struct hx_progress *progress;
    unsigned threads;
    uint64_t module_low, module_high; /* no file is mapped elsewhere */
    const char *stage;                /* for progress */
    unsigned begun, ends;             /* percent of the stage */
};

static inline bool hx_part_below(uint64_t part, uint64_t whole, unsigned percent)
{
    return part * 100 < whole * percent;
}

/* May a block of so many bytes have been given out for a request? Small ones have up to 32 bytes
 * more where they were not split, large ones pages of their own. */
static inline bool hx_block_fits(uint64_t size, uint64_t request)
{
    return request <= size && size - request <= (size < ((uint64_t)64 << 10) ? 32 : 32 + 4096);
}

/* Does what was said of a word remain when a rule is found to hold for it? */
static inline bool hx_judge_remains(enum hx_rule old, enum hx_rule rule)
{
    return old != HX_RULE_NONE &&
           (old <= rule || old == HX_RULE_tag || (old == HX_RULE_lent && rule > HX_RULE_few));
}

static inline void hx_judge_edge(const struct hx_judge *judge, hx_eidx e, enum hx_rule rule)
{
    hx_evidence *evidence = &judge->graph->evidence[e];
    hx_evidence now = __atomic_load_n(evidence, __ATOMIC_RELAXED);
    for (;;) {
        if (hx_judge_remains((enum hx_rule)HX_EVIDENCE_RULE(now), rule))
            return;
        hx_evidence wanted = HX_EVIDENCE(rule, HX_EVIDENCE_KIND(now));
        if (__atomic_compare_exchange_n(evidence, &now, wanted, true, __ATOMIC_RELAXED,
                                        __ATOMIC_RELAXED))
            return;
    }
}

/* The edges of an object whose words begin in [from, to). */
void hx_judge_words(const struct hx_judge *judge, hx_obj object, uint64_t from, uint64_t to,
                    enum hx_rule rule);

/* As hx_image_peek(). */
static inline const uint64_t *hx_judge_peek(const struct hx_judge *judge, uint64_t addr, size_t n,
                                            struct hx_peeked *window)
{
    return hx_image_peek(judge->image, addr, n, window);
}

/* The word of an edge of a root; NULL: the image lacks it. */
static inline const uint64_t *hx_judge_root_word(const struct hx_judge *judge,
                                                 const struct hx_root_edge *edge,
                                                 struct hx_peeked *window)
{
    const struct hx_root *root = &judge->snapshot->roots.v[edge->root];
    return root->kind == HX_ROOT_REGISTER ? &root->value
                                          : hx_judge_peek(judge, edge->address, 1, window);
}

enum { HX_AHEAD_RANGE = 32, HX_AHEAD_PAGES = 24, HX_AHEAD_EDGES = 16 }; /* objects */

/* Reads ahead an object's first word, where it is in the span of the window. What is packed is read
 * ahead by the processor where one object is looked at after the other. */
HX_PREFETCHES void hx_judge_prefetch(const struct hx_judge *judge, hx_obj object,
                                     const struct hx_peeked *window)
{
    if (window->span >= judge->image->n)
        return;
    const struct hx_span *at = &judge->image->span[window->span];
    const uint64_t offset = judge->graph->addr[object] - at->start;
    if (offset < at->end - at->start && at->bytes)
        __builtin_prefetch(at->bytes + offset);
}

/* The page of an object in a packed span; NULL: it is in none. */
static inline const uint8_t *hx_judge_page(const struct hx_judge *judge, hx_obj object,
                                           const struct hx_peeked *window)
{
    if (!window || window->span >= judge->image->n)
        return NULL;
    const struct hx_span *at = &judge->image->span[window->span];
    const uint64_t offset = judge->graph->addr[object] - at->start;
    if (at->bytes || offset >= at->end - at->start)
        return NULL;
    return judge->image->packed
        ->page[judge->image->packed->first[window->span] + offset / (HX_PAGE_WORDS * HX_WORD)];
}

/* The same of object[i + HX_AHEAD_EDGES * step] of n, and its edges; where these and the words are,
 * of one that comes later. Window NULL: the edges alone. */
HX_PREFETCHES void hx_judge_look_ahead(const struct hx_judge *judge, const hx_obj *object, size_t i,
                                       size_t n, size_t step, const struct hx_peeked *window)
{
    const struct hx_graph *graph = judge->graph;
    if (n - i > HX_AHEAD_RANGE * step) {
        const hx_obj later = object[i + HX_AHEAD_RANGE * step];
        __builtin_prefetch(&graph->fwd[later]);
        __builtin_prefetch(&graph->addr[later]);
    }
    if (n - i > HX_AHEAD_PAGES * step) {
        const uint8_t *page = hx_judge_page(judge, object[i + HX_AHEAD_PAGES * step], window);
        if (page)
            __builtin_prefetch(page);
    }
    if (n - i > HX_AHEAD_EDGES * step) {
        const hx_obj next = object[i + HX_AHEAD_EDGES * step];
        const hx_eidx e = graph->fwd[next];
        __builtin_prefetch(&graph->edge[e]);
        __builtin_prefetch(&graph->evidence[e]);
        const uint8_t *page = hx_judge_page(judge, next, window);
        if (page)
            __builtin_prefetch(
                hx_page_unit(page, graph->addr[next] / (HX_UNIT_WORDS * HX_WORD) % HX_PAGE_UNITS));
        else if (window)
            hx_judge_prefetch(judge, next, window);
    }
}

/* Could a file be mapped there? */
static inline bool hx_judge_is_by_modules(const struct hx_judge *judge, uint64_t address)
{
    return address - judge->module_low < judge->module_high - judge->module_low;
}

/* The mapping of a file at an address, NULL: there is none. */
const struct hx_mapping *hx_judge_module(const struct hx_judge *judge, uint64_t address);

/* Calls work(context, worker, from, to) for all objects in blocks, from several threads. */
typedef void hx_judge_block_fn(void *context, unsigned worker, hx_obj from, hx_obj to);
hx_error *hx_judge_objects(const struct hx_judge *judge, hx_judge_block_fn *work, void *context);

/* known_shapes.c: strings, vectors, deques, FILE, what was not requested. */
hx_error *hx_judge_known_shapes(const struct hx_judge *judge);

/* buffers.c: what lies behind text in large blocks, and behind the end of arrays in C. */
hx_error *hx_judge_buffers(const struct hx_judge *judge);

/* known_shapes.c, at the end: what the rules for fields say of strings' pointers to their text is
 * taken back. */
hx_error *hx_judge_texts(const struct hx_judge *judge);

/* counts.c: slots behind a count in the same block. */
hx_error *hx_judge_counts(const struct hx_judge *judge);

/* records.c: what a tag says of the words beside it. */
hx_error *hx_judge_records(const struct hx_judge *judge);

/* pieces.c: pointers to pieces of blocks. */
hx_error *hx_judge_pieces(const struct hx_judge *judge);

/* unsplit.c: what lies behind the request in blocks that were not split. */
hx_error *hx_judge_unsplit(const struct hx_judge *judge);

/* fields.c: what fields of alike blocks hold. */
hx_error *hx_judge_fields(const struct hx_judge *judge);

#endif
