/* callgraph.c - the call graph of allocations out of a tree of callers.
 *
 * What was allocated below each frame is summed up towards MAIN in one pass; each frame then adds
 * its sum to the pair of its caller's function and its own. Totals need no look at chains: the
 * occurrences of a function that is in no cycle, and of all members of one, stand side by side on
 * any chain, so each allocation below leaves them by one pair, or is their own. */
#include "cost/callgraph.h"

#include "base/cleanup.h"
#include "base/pairs.h"

#include <stdlib.h>
#include <string.h>

/* --- functions and pairs ----------------------------------------------------------- */

struct making {
    const struct hx_frame *frame;
    const uint32_t *caller;
    uint32_t n;
    const struct hx_call_costs *own;
    struct hx_call_costs *sum; /* of each frame with all below */
    bool *passed;              /* something was allocated there or below */
    struct hx_pairs functions; /* by centre */
    struct hx_pairs pairs;     /* by indexes of functions: caller, callee */
    struct hx_callgraph *graph;
};

static void making_deinit(struct making *making)
{
    free(making->sum);
    free(making->passed);
    hx_pairs_free(&making->functions);
    hx_pairs_free(&making->pairs);
}

static void add_call_costs(struct hx_call_costs *to, const struct hx_call_costs *more)
{
    for (unsigned s = 0; s < HX_SIZE_CLASSES; s++)
        to->bytes[s] += more->bytes[s];
    to->calls += more->calls;
}

static uint64_t call_cost_bytes(const struct hx_call_costs *costs)
{
    uint64_t bytes = 0;
    for (unsigned s = 0; s < HX_SIZE_CLASSES; s++)
        bytes += costs->bytes[s];
    return bytes;
}

static bool is_something(const struct hx_call_costs *costs)
{
    return costs->bytes[0] || costs->bytes[1] || costs->bytes[2] || costs->bytes[3] || costs->calls;
}

static bool frame_has_centre(const struct making *making, uint32_t frame)
{
    return !frame || (making->frame[frame].kind != HX_FRAME_DEFERRED &&
                      making->frame[frame].centre != HX_NO_CENTRE);
}

static hx_error *sum_call_costs(struct making *making)
{
    size_t n = making->n;
    making->sum = malloc((n + !n) * sizeof *making->sum);
    making->passed = calloc(n + 1, sizeof *making->passed);
    HX_NEED(making->sum && making->passed);
    if (n)
        memcpy(making->sum, making->own, n * sizeof *making->sum);
    for (uint32_t i = making->n; i-- > 1;) {
        uint32_t caller = making->caller[i];
        if (caller >= i || !frame_has_centre(making, caller))
            return hx_error_new(HX_E_CORRUPT, "recorded stacks", NULL,
                                "frame %u: its caller makes no sense", i);
        making->passed[i] |= is_something(&making->own[i]);
        if (!making->passed[i])
            continue;
        add_call_costs(&making->sum[caller], &making->sum[i]);
        /* what is charged to MAIN itself alone makes it a function */
        making->passed[caller] |= caller || !frame_has_centre(making, i);
    }
    if (n)
        making->passed[0] |= is_something(&making->own[0]);
    return NULL;
}

static int compare_call_centres(const void *a, const void *b)
{
    hx_centre x = ((const struct hx_call_function *)a)->centre;
    hx_centre y = ((const struct hx_call_function *)b)->centre;
    return (x > y) - (x < y);
}

/* Functions by centre, and their numbers in the map. */
static hx_error *find_functions(struct making *making)
{
    struct hx_callgraph *graph = making->graph;
    for (uint32_t i = 0; i < making->n; i++) {
        uint32_t *number;
        if (!making->passed[i] || !frame_has_centre(making, i))
            continue;
        HX_TRY(hx_pairs_at(&making->functions, making->frame[i].centre, &number));
        struct hx_call_function fresh = {.centre = making->frame[i].centre, .cycle = HX_NO_CYCLE};
        if (*number == HX_NO_PAIR)
            HX_NEED(hx_vec_push(&graph->functions, fresh));
        *number = 0; /* until all are sorted */
    }
    if (graph->functions.n)
        qsort(graph->functions.v, graph->functions.n, sizeof *graph->functions.v,
              compare_call_centres);
    for (uint32_t i = 0, *number; i < graph->functions.n; i++) {
        HX_TRY(hx_pairs_at(&making->functions, graph->functions.v[i].centre, &number));
        *number = i;
    }
    return NULL;
}

/* Of a frame that passed. */
static uint32_t function_of(const struct making *making, uint32_t frame)
{
    return hx_pairs_find(&making->functions, making->frame[frame].centre);
}

static hx_error *add_call(struct making *making, uint32_t caller, uint32_t callee,
                          const struct hx_call_costs *costs)
{
    struct hx_callgraph *graph = making->graph;
    if (caller == callee) {
        graph->functions.v[caller].recursive += costs->calls;
        return NULL;
    }
    uint32_t *number;
    HX_TRY(hx_pairs_at(&making->pairs, hx_pair_key(caller, callee), &number));
    if (*number == HX_NO_PAIR) {
        HX_NEED(hx_vec_push(&graph->calls, (struct hx_call){.caller = caller, .callee = callee}));
        *number = (uint32_t)graph->calls.n - 1;
    }
    add_call_costs(&graph->calls.v[*number].costs, costs);
    graph->functions.v[callee].calls += costs->calls;
    return NULL;
}

static int by_caller(const void *a, const void *b)
{
    const struct hx_call *x = a, *y = b;
    int order = (x->caller > y->caller) - (x->caller < y->caller);
    return order ? order : (x->callee > y->callee) - (x->callee < y->callee);
}

static hx_error *find_calls(struct making *making)
{
    struct hx_callgraph *graph = making->graph;
    for (uint32_t i = 0; i < making->n; i++) {
        if (!making->passed[i])
            continue;
        uint32_t caller = making->caller[i];
        uint32_t charged = frame_has_centre(making, i) ? i : caller;
        if (is_something(&making->own[i]))
            add_call_costs(&graph->functions.v[function_of(making, charged)].direct,
                           &making->own[i]);
        if (charged == i && i && caller)
            HX_TRY(add_call(making, function_of(making, caller), function_of(making, i),
                            &making->sum[i]));
    }
    if (graph->calls.n)
        qsort(graph->calls.v, graph->calls.n, sizeof *graph->calls.v, by_caller);
    return NULL;
}

/* --- cycles ------------------------------------------------------------------------ */

/* Strongly connected components by R. Tarjan, "Depth-first search and linear graph algorithms",
 * 1972, with a stack of its own in place of recursion. */
struct walk {
    uint32_t order; /* in which it was met, from 1 on; 0: not yet */
    uint32_t low;   /* the earliest on the stack that it reaches */
    uint32_t next;  /* call to follow */
    uint32_t back;  /* who was walked from */
    bool open;      /* on the stack of components */
};

static hx_error *add_cycle(struct hx_callgraph *graph, const uint32_t *member, uint32_t n)
{
    struct hx_call_cycle cycle = {.first = (uint32_t)graph->members.n, .n = n};
    for (uint32_t i = 0; i < n; i++) {
        HX_NEED(hx_vec_push(&graph->members, member[i]));
        graph->functions.v[member[i]].cycle = (uint32_t)graph->cycles.n;
    }
    return hx_vec_push(&graph->cycles, cycle) ? NULL : hx_error_nomem();
}

/* Everything above `at` on the stack is its component. */
static hx_error *close_component(struct hx_callgraph *graph, struct walk *walk, uint32_t *stack,
                                 uint32_t *n_stack, uint32_t at)
{
    uint32_t end = *n_stack, first = end;
    do
        walk[stack[--first]].open = false;
    while (stack[first] != at);
    *n_stack = first;
    return end - first > 1 ? add_cycle(graph, &stack[first], end - first) : NULL;
}

static hx_error *search_component(struct hx_callgraph *graph, const uint32_t *first_call,
                                  struct walk *walk, uint32_t *stack, uint32_t root,
                                  uint32_t *order)
{
    uint32_t n_stack = 0, at = root;
    walk[root].back = root;
    for (;;) {
        struct walk *w = &walk[at];
        if (!w->order) {
            w->order = w->low = ++*order;
            w->next = first_call[at];
            w->open = true;
            stack[n_stack++] = at;
        }
        if (w->next < first_call[at + 1]) {
            uint32_t to = graph->calls.v[w->next++].callee;
            if (!walk[to].order) {
                walk[to].back = at;
                at = to;
            } else if (walk[to].open && walk[to].order < w->low) {
                w->low = walk[to].order;
            }
            continue;
        }
        if (w->low == w->order)
            HX_TRY(close_component(graph, walk, stack, &n_stack, at));
        if (at == root)
            return NULL;
        at = w->back;
        if (w->low < walk[at].low)
            walk[at].low = w->low;
    }
}

static hx_error *find_cycles(struct hx_callgraph *graph)
{
    size_t n = graph->functions.n;
    HX_FREE uint32_t *first_call = calloc(n + 1, sizeof *first_call);
    HX_FREE uint32_t *stack = calloc(n + 1, sizeof *stack);
    HX_FREE struct walk *walk = calloc(n + 1, sizeof *walk);
    HX_NEED(first_call && stack && walk);
    uint32_t call = 0, order = 0;
    for (uint32_t f = 0; f <= n; f++) {
        while (call < graph->calls.n && graph->calls.v[call].caller < f)
            call++;
        first_call[f] = call;
    }
    for (uint32_t f = 0; f < n; f++)
        if (!walk[f].order)
            HX_TRY(search_component(graph, first_call, walk, stack, f, &order));
    return NULL;
}

/* --- sums and the order of the table ----------------------------------------------- */

/* Totals of functions in no cycle, and of cycles; members get theirs last. */
static void total_costs(struct hx_callgraph *graph)
{
    struct hx_call_function *function = graph->functions.v;
    struct hx_call_cycle *cycle = graph->cycles.v;
    for (size_t f = 0; f < graph->functions.n; f++) {
        function[f].total_bytes = call_cost_bytes(&function[f].direct);
        if (function[f].cycle != HX_NO_CYCLE)
            add_call_costs(&cycle[function[f].cycle].direct, &function[f].direct);
    }
    for (size_t c = 0; c < graph->cycles.n; c++)
        cycle[c].total_bytes = call_cost_bytes(&cycle[c].direct);
    for (size_t i = 0; i < graph->calls.n; i++) {
        const struct hx_call *call = &graph->calls.v[i];
        uint32_t from = function[call->caller].cycle, to = function[call->callee].cycle;
        if (from == to && from != HX_NO_CYCLE) {
            cycle[from].internal_calls += call->costs.calls;
            continue;
        }
        uint64_t *total =
            from == HX_NO_CYCLE ? &function[call->caller].total_bytes : &cycle[from].total_bytes;
        *total += call_cost_bytes(&call->costs);
        if (to != HX_NO_CYCLE)
            cycle[to].calls += call->costs.calls;
    }
    for (size_t f = 0; f < graph->functions.n; f++)
        if (function[f].cycle != HX_NO_CYCLE)
            function[f].total_bytes = cycle[function[f].cycle].total_bytes;
}

struct entry {
    uint64_t total;
    uint32_t kind, tie; /* 0 and the lowest member, or 1 and the function */
    uint32_t index;
};

static int by_total(const void *a, const void *b)
{
    const struct entry *x = a, *y = b;
    if (x->total != y->total)
        return x->total < y->total ? 1 : -1;
    if (x->kind != y->kind)
        return x->kind < y->kind ? -1 : 1;
    return (x->tie > y->tie) - (x->tie < y->tie);
}

static int compare_call_numbers(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

static int compare_function_entries(const void *a, const void *b)
{
    const struct hx_call_cycle *x = a, *y = b;
    return (x->entry > y->entry) - (x->entry < y->entry);
}

/* Cycles stand in the order of their entries. */
static void number_cycles(struct hx_callgraph *graph)
{
    if (graph->cycles.n)
        qsort(graph->cycles.v, graph->cycles.n, sizeof *graph->cycles.v, compare_function_entries);
    for (uint32_t c = 0; c < graph->cycles.n; c++) {
        const struct hx_call_cycle *cycle = &graph->cycles.v[c];
        for (uint32_t m = 0; m < cycle->n; m++)
            graph->functions.v[graph->members.v[cycle->first + m]].cycle = c;
    }
}

static hx_error *order_entries(struct hx_callgraph *graph)
{
    size_t n_functions = graph->functions.n, n = n_functions + graph->cycles.n;
    HX_FREE struct entry *entry = calloc(n + 1, sizeof *entry);
    HX_NEED(entry);
    for (uint32_t f = 0; f < n_functions; f++)
        entry[f] = (struct entry){graph->functions.v[f].total_bytes, 1, f, f};
    for (uint32_t c = 0; c < graph->cycles.n; c++) {
        const struct hx_call_cycle *cycle = &graph->cycles.v[c];
        uint32_t *member = &graph->members.v[cycle->first];
        qsort(member, cycle->n, sizeof *member, compare_call_numbers);
        entry[n_functions + c] = (struct entry){cycle->total_bytes, 0, member[0], c};
    }
    qsort(entry, n, sizeof *entry, by_total);
    for (uint32_t e = 0; e < n; e++) {
        if (entry[e].kind)
            graph->functions.v[entry[e].index].entry = e;
        else
            graph->cycles.v[entry[e].index].entry = e;
    }
    number_cycles(graph);
    return NULL;
}

/* --- the graph --------------------------------------------------------------------- */

static hx_error *costs_at(const struct hx_progress *progress, uint64_t done)
{
    if (hx_progress_cancelled(progress))
        return hx_error_cancelled("the call graph");
    hx_progress_at(progress, "call graph", done, 4);
    return NULL;
}

static hx_error *make_callgraph(struct making *making, const struct hx_progress *progress)
{
    HX_TRY(costs_at(progress, 0));
    HX_TRY(sum_call_costs(making));
    HX_TRY(costs_at(progress, 1));
    HX_TRY(find_functions(making));
    HX_TRY(costs_at(progress, 2));
    HX_TRY(find_calls(making));
    HX_TRY(costs_at(progress, 3));
    HX_TRY(find_cycles(making->graph));
    total_costs(making->graph);
    return order_entries(making->graph);
}

hx_error *hx_callgraph_make(const struct hx_frame *frame, const uint32_t *caller, uint32_t n,
                            const struct hx_call_costs *own, const struct hx_progress *progress,
                            struct hx_callgraph *ret)
{
    struct hx_callgraph graph = {0};
    HX_CLEANUP(making_deinit)
    struct making making = {.frame = frame, .caller = caller, .n = n, .own = own, .graph = &graph};
    hx_error *err = make_callgraph(&making, progress);
    if (err)
        hx_callgraph_deinit(&graph);
    else
        *ret = graph;
    return err;
}

void hx_callgraph_deinit(struct hx_callgraph *graph)
{
    hx_vec_free(&graph->functions);
    hx_vec_free(&graph->calls);
    hx_vec_free(&graph->cycles);
    hx_vec_free(&graph->members);
}

static const char *wrong_order(const struct hx_callgraph *graph)
{
    for (size_t f = 1; f < graph->functions.n; f++)
        if (graph->functions.v[f - 1].centre >= graph->functions.v[f].centre)
            return "functions are not in order";
    for (size_t i = 0; i < graph->calls.n; i++) {
        const struct hx_call *call = &graph->calls.v[i];
        if (call->caller >= graph->functions.n || call->callee >= graph->functions.n ||
            call->caller == call->callee)
            return "a call is between no two functions";
        if (i && by_caller(call - 1, call) >= 0)
            return "calls are not in order";
    }
    size_t members = 0;
    for (size_t c = 0; c < graph->cycles.n; c++) {
        const struct hx_call_cycle *cycle = &graph->cycles.v[c];
        if (cycle->n < 2 || cycle->first + (uint64_t)cycle->n > graph->members.n)
            return "a cycle has no members";
        if (c && cycle[-1].entry >= cycle->entry)
            return "cycles are not in order";
        for (uint32_t m = cycle->first; m < cycle->first + cycle->n; m++)
            if (graph->members.v[m] >= graph->functions.n ||
                graph->functions.v[graph->members.v[m]].cycle != c)
                return "a cycle has a member that is not in it";
        members += cycle->n;
    }
    for (size_t f = 0; f < graph->functions.n; f++)
        members -= graph->functions.v[f].cycle != HX_NO_CYCLE;
    return members ? "a function is in a cycle that does not have it" : NULL;
}

/* Indexes are sound. `leaves` is the sum of the direct bytes of a node and of its calls out. */
static const char *wrong_sums(const struct hx_callgraph *graph, uint64_t *leaves, uint64_t *by)
{
    size_t n = graph->functions.n;
    for (size_t f = 0; f < n; f++) {
        const struct hx_call_function *function = &graph->functions.v[f];
        size_t node = function->cycle == HX_NO_CYCLE ? f : n + function->cycle;
        leaves[node] += call_cost_bytes(&function->direct);
    }
    for (size_t i = 0; i < graph->calls.n; i++) {
        const struct hx_call *call = &graph->calls.v[i];
        uint32_t from = graph->functions.v[call->caller].cycle;
        if (from == HX_NO_CYCLE || from != graph->functions.v[call->callee].cycle)
            leaves[from == HX_NO_CYCLE ? call->caller : n + from] += call_cost_bytes(&call->costs);
    }
    for (size_t i = 0; i < n + graph->cycles.n; i++) {
        uint32_t cycle = i < n ? graph->functions.v[i].cycle : (uint32_t)(i - n);
        uint64_t total =
            i < n ? graph->functions.v[i].total_bytes : graph->cycles.v[cycle].total_bytes;
        uint32_t entry = i < n ? graph->functions.v[i].entry : graph->cycles.v[cycle].entry;
        if (total != leaves[cycle == HX_NO_CYCLE ? i : n + cycle])
            return "a total is not what was asked for directly and what was called for";
        if (entry >= n + graph->cycles.n || by[entry])
            return "two have one entry";
        by[entry] = i + 1;
    }
    for (size_t e = 1; e < n + graph->cycles.n; e++) {
        size_t a = by[e - 1] - 1, b = by[e] - 1;
        uint64_t before =
            a < n ? graph->functions.v[a].total_bytes : graph->cycles.v[a - n].total_bytes;
        uint64_t after =
            b < n ? graph->functions.v[b].total_bytes : graph->cycles.v[b - n].total_bytes;
        if (before < after)
            return "entries are not in order";
    }
    return NULL;
}

hx_error *hx_callgraph_check(const struct hx_callgraph *graph)
{
    const char *wrong = wrong_order(graph);
    size_t n = graph->functions.n + graph->cycles.n;
    HX_FREE uint64_t *leaves = calloc(n + 1, sizeof *leaves);
    HX_FREE uint64_t *by = calloc(n + 1, sizeof *by);
    HX_NEED(leaves && by);
    if (!wrong)
        wrong = wrong_sums(graph, leaves, by);
    return wrong ? hx_error_new(HX_E_FAIL, "the call graph", NULL, "%s", wrong) : NULL;
}
