/* structures.c - union and find over links, by several threads (S. V. Jayanti, R. E. Tarjan, "A
 * Randomized Concurrent Algorithm for Disjoint Set Union", 2016; here the smaller number is the
 * root, so that the result does not depend on who comes first). */
#include "traverse/hold/structures.h"

#include "base/bits.h"
#include "base/parallel.h"
#include "traverse/hold/rules.h"

#include <stdatomic.h>

#define AHEAD 16    /* edges */
#define BLOCK 65536 /* objects that a worker looks through at once */
#define FEW   32768 /* below this a second thread costs more than it brings */

struct finder {
    const struct hx_graph *graph;
    const struct hx_progress *progress;
    struct hx_structures *structures;
    uint8_t *in; /* one-way links into an object: 0, 1, or several */
    struct hx_big in_mem;
    atomic_uint rules; /* bit for each that was met */
};

static hx_obj find_first(hx_obj *of, hx_obj object)
{
    hx_obj parent = __atomic_load_n(&of[object], __ATOMIC_RELAXED);
    while (parent != object) {
        hx_obj above = __atomic_load_n(&of[parent], __ATOMIC_RELAXED);
        if (above != parent) /* halve the path; it may be shorter by now */
            __atomic_compare_exchange_n(&of[object], &parent, above, true, __ATOMIC_RELAXED,
                                        __ATOMIC_RELAXED);
        object = above;
        parent = __atomic_load_n(&of[object], __ATOMIC_RELAXED);
    }
    return object;
}

static void join(hx_obj *of, hx_obj a, hx_obj b)
{
    for (;;) {
        a = find_first(of, a);
        b = find_first(of, b);
        if (a == b)
            return;
        hx_obj low = a < b ? a : b, high = a < b ? b : a, expected = high;
        if (__atomic_compare_exchange_n(&of[high], &expected, low, false, __ATOMIC_RELAXED,
                                        __ATOMIC_RELAXED))
            return;
    }
}

static bool is_link(unsigned rule)
{
    return rule == HX_RULE_link || rule == HX_RULE_ring || rule == HX_RULE_chain;
}

/* Each object by itself; is there a link at all? */
static void begin(void *context, unsigned worker, size_t from, size_t to)
{
    (void)worker;
    struct finder *finder = context;
    const struct hx_graph *graph = finder->graph;
    unsigned rules = 0;
    for (hx_eidx e = graph->fwd[from]; e < graph->fwd[to]; e++) {
        unsigned rule = HX_EVIDENCE_RULE(graph->evidence[e]);
        rules |= (unsigned)is_link(rule) << (rule & 31);
    }
    atomic_fetch_or(&finder->rules, rules);
    for (size_t i = from; i < to; i++)
        finder->structures->of[i] = (hx_obj)i;
}

static void join_links(void *context, unsigned worker, size_t from, size_t to)
{
    (void)worker;
    struct finder *finder = context;
    const struct hx_graph *graph = finder->graph;
    hx_obj *of = finder->structures->of;
    const hx_eidx end = graph->fwd[to];
    for (size_t i = from; i < to; i++)
        for (hx_eidx e = graph->fwd[i]; e < graph->fwd[i + 1]; e++) {
            unsigned rule = HX_EVIDENCE_RULE(graph->evidence[e]);
            hx_obj target = hx_edge_target(graph->edge[e]);
            if (e + AHEAD < end)
                __builtin_prefetch(&of[hx_edge_target(graph->edge[e + AHEAD])]);
            if (!is_link(rule) || target == i)
                continue;
            if (rule != HX_RULE_chain)
                join(of, (hx_obj)i, target);
            else if (__atomic_load_n(&finder->in[target], __ATOMIC_RELAXED) < 2)
                __atomic_fetch_add(&finder->in[target], 1, __ATOMIC_RELAXED);
        }
}

static void join_chains(void *context, unsigned worker, size_t from, size_t to)
{
    (void)worker;
    struct finder *finder = context;
    const struct hx_graph *graph = finder->graph;
    for (size_t i = from; i < to; i++)
        for (hx_eidx e = graph->fwd[i]; e < graph->fwd[i + 1]; e++) {
            hx_obj target = hx_edge_target(graph->edge[e]);
            if (HX_EVIDENCE_RULE(graph->evidence[e]) != HX_RULE_chain || target == i ||
                finder->in[target] != 1)
                continue;
            hx_bit_add_shared(finder->structures->tail, target);
            join(finder->structures->of, (hx_obj)i, target);
        }
}

static void settle(void *context, unsigned worker, size_t from, size_t to)
{
    (void)worker;
    struct finder *finder = context;
    struct hx_structures *structures = finder->structures;
    for (size_t i = from; i < to; i++) {
        hx_obj first = find_first(structures->of, (hx_obj)i);
        if (first == i)
            continue;
        __atomic_store_n(&structures->of[i], first, __ATOMIC_RELAXED);
        hx_bit_add_shared(structures->linked, (hx_obj)i);
        hx_bit_add_shared(structures->linked, first);
    }
}

static hx_error *each_block(struct finder *finder, unsigned threads, hx_block_work *look)
{
    const hx_obj n = finder->graph->n;
    hx_parallel_blocks(n < FEW ? 1 : hx_threads(threads), n, BLOCK, look, finder, finder->progress);
    return hx_progress_cancelled(finder->progress) ? hx_error_cancelled("holders") : NULL;
}

static hx_error *find_structures(struct finder *finder, unsigned threads)
{
    const hx_obj n = finder->graph->n;
    struct hx_structures *structures = finder->structures;
    HX_TRY(hx_big_array(structures->of, n));
    HX_TRY(each_block(finder, threads, begin));
    if (!finder->rules)
        return NULL;
    HX_TRY(hx_big_array(structures->linked, (size_t)n / 64 + 1));
    HX_TRY(hx_big_array(structures->tail, (size_t)n / 64 + 1));
    HX_TRY(hx_big_array(finder->in, n));
    HX_TRY(each_block(finder, threads, join_links));
    if (finder->rules >> HX_RULE_chain & 1)
        HX_TRY(each_block(finder, threads, join_chains));
    return each_block(finder, threads, settle);
}

hx_error *hx_structures_find(const struct hx_graph *graph, unsigned threads,
                             const struct hx_progress *progress, struct hx_structures *ret)
{
    struct hx_structures structures = {0};
    struct finder finder = {.graph = graph, .progress = progress, .structures = &structures};
    hx_error *err = find_structures(&finder, threads);
    hx_big_free(&finder.in_mem);
    if (err)
        hx_structures_deinit(&structures);
    else
        *ret = structures;
    return err;
}

void hx_structures_deinit(struct hx_structures *structures)
{
    hx_big_free(&structures->linked_mem);
    hx_big_free(&structures->of_mem);
    hx_big_free(&structures->tail_mem);
    *structures = (struct hx_structures){0};
}
