/* structures.c - union and find over links, by several threads (S. V. Jayanti, R. E. Tarjan, "A
 * Randomized Concurrent Algorithm for Disjoint Set Union", 2016; here the smaller number is the
 * root, so that the result does not depend on who comes first). */
#include "traverse/hold/structures.h"

#include "base/bits.h"
#include "base/parallel.h"
#include "traverse/hold/rules.h"

#include <stdatomic.h>
#include <string.h>

#define BLOCK 65536 /* objects that a worker looks through at once */
#define FEW   32768 /* below this a second thread costs more than it brings */

struct finder {
    const struct hx_graph *graph;
    const struct hx_progress *progress;
    struct hx_structures *structures;
    uint8_t *in; /* one-way links into an object: 0, 1, or several */
    struct hx_big in_mem;
    void (*look)(struct finder *finder, hx_obj source, hx_obj target, enum hx_rule rule);
    atomic_size_t claimed;
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

static void count_link(struct finder *finder, hx_obj source, hx_obj target, enum hx_rule rule)
{
    if (rule == HX_RULE_link)
        join(finder->structures->of, source, target);
    else if (__atomic_load_n(&finder->in[target], __ATOMIC_RELAXED) < 2)
        __atomic_fetch_add(&finder->in[target], 1, __ATOMIC_RELAXED);
}

static void join_chain(struct finder *finder, hx_obj source, hx_obj target, enum hx_rule rule)
{
    if (rule != HX_RULE_chain || finder->in[target] != 1)
        return;
    __atomic_fetch_or(&finder->structures->tail[target / 64], UINT64_C(1) << target % 64,
                      __ATOMIC_RELAXED);
    join(finder->structures->of, source, target);
}

static void look_at_links(void *context, unsigned i)
{
    (void)i;
    struct finder *finder = context;
    const struct hx_graph *graph = finder->graph;
    size_t from;
    while ((from = atomic_fetch_add(&finder->claimed, BLOCK)) < graph->n &&
           !hx_progress_cancelled(finder->progress)) {
        size_t to = graph->n - from < BLOCK ? graph->n : from + BLOCK;
        for (size_t k = from; k < to; k++)
            for (hx_eidx e = graph->fwd[k]; e < graph->fwd[k + 1]; e++) {
                enum hx_rule rule = HX_EVIDENCE_RULE(graph->evidence[e]);
                if ((rule == HX_RULE_link || rule == HX_RULE_chain) &&
                    hx_edge_target(graph->edge[e]) != k)
                    finder->look(finder, (hx_obj)k, hx_edge_target(graph->edge[e]), rule);
            }
    }
}

static hx_error *each_link(struct finder *finder, unsigned threads,
                           void (*look)(struct finder *, hx_obj, hx_obj, enum hx_rule))
{
    finder->look = look;
    atomic_store(&finder->claimed, 0);
    hx_parallel(finder->graph->n < FEW ? 1 : hx_threads(threads), look_at_links, finder);
    return hx_progress_cancelled(finder->progress) ? hx_error_cancelled("holders") : NULL;
}

static hx_error *find_structures(struct finder *finder, unsigned threads)
{
    const hx_obj n = finder->graph->n;
    struct hx_structures *structures = finder->structures;
    HX_TRY(hx_big_array(structures->of, n));
    HX_TRY(hx_big_array(structures->tail, (size_t)n / 64 + 1));
    HX_TRY(hx_big_array(finder->in, n));
    for (hx_obj i = 0; i < n; i++)
        structures->of[i] = i;
    HX_TRY(each_link(finder, threads, count_link));
    HX_TRY(each_link(finder, threads, join_chain));
    for (hx_obj i = 0; i < n; i++)
        structures->of[i] = find_first(structures->of, i);
    return NULL;
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
    hx_big_free(&structures->of_mem);
    hx_big_free(&structures->tail_mem);
    *structures = (struct hx_structures){0};
}
