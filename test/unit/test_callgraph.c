/* test_callgraph.c - the call graph of allocations: mprof's own examples, cycles, and random trees
 * against a reckoner that follows each chain for itself. */
#include "cost/callgraph.h"

#include "base/timing.h"
#include "unit.h"

static struct hx_frame frame(uint32_t parent, hx_centre centre)
{
    return (struct hx_frame){
        .parent = parent, .target = UINT32_MAX, .centre = centre, .caf = HX_NO_CENTRE};
}

/* `calls` requests of `size` bytes each. */
static struct hx_call_costs costs(uint64_t calls, uint64_t size)
{
    struct hx_call_costs made = {.calls = calls};
    made.bytes[hx_size_class(size)] = calls * size;
    return made;
}

static uint64_t bytes(const struct hx_call_costs *costs)
{
    return costs->bytes[0] + costs->bytes[1] + costs->bytes[2] + costs->bytes[3];
}

static void make(const struct hx_frame *frames, uint32_t n, const struct hx_call_costs *own,
                 struct hx_callgraph *ret)
{
    uint32_t *caller;
    assert_null(hx_frames_callers(frames, n, &caller));
    assert_null(hx_callgraph_make(frames, caller, n, own, NULL, ret));
    assert_null(hx_callgraph_check(ret));
    free(caller);
}

static const struct hx_call_function *function(const struct hx_callgraph *graph, hx_centre centre)
{
    for (size_t i = 0; i < graph->functions.n; i++)
        if (graph->functions.v[i].centre == centre)
            return &graph->functions.v[i];
    return NULL;
}

static const struct hx_call *call(const struct hx_callgraph *graph, hx_centre from, hx_centre to)
{
    for (size_t i = 0; i < graph->calls.n; i++)
        if (graph->functions.v[graph->calls.v[i].caller].centre == from &&
            graph->functions.v[graph->calls.v[i].callee].centre == to)
            return &graph->calls.v[i];
    return NULL;
}

/* 10,000 widgets of 204 bytes, red ones and blue ones. */
static void test_widgets(void **state)
{
    (void)state;
    enum { MAIN, MAKE_WIDGET, RED, BLUE, MAIN_FUNCTION };
    const struct hx_frame frames[] = {frame(0, MAIN),        frame(0, MAIN_FUNCTION),
                                      frame(1, RED),         frame(1, BLUE),
                                      frame(2, MAKE_WIDGET), frame(3, MAKE_WIDGET)};
    const struct hx_call_costs own[6] = {[4] = costs(5019, 204), [5] = costs(4981, 204)};
    struct hx_callgraph graph;
    make(frames, 6, own, &graph);
    assert_int_equal(graph.functions.n, 4);
    assert_int_equal(graph.cycles.n, 0);
    assert_int_equal(graph.calls.n, 4);
    assert_null(function(&graph, MAIN));
    const struct hx_call *red = call(&graph, RED, MAKE_WIDGET);
    assert_int_equal(red->costs.bytes[1], 1023876);
    assert_int_equal(bytes(&red->costs), 1023876);
    assert_int_equal(red->costs.calls, 5019);
    assert_int_equal(call(&graph, MAIN_FUNCTION, BLUE)->costs.calls, 4981);
    const struct hx_call_function *widget = function(&graph, MAKE_WIDGET);
    assert_int_equal(bytes(&widget->direct), 2040000);
    assert_int_equal(widget->calls, 10000);
    const struct hx_call_function *whole = function(&graph, MAIN_FUNCTION);
    assert_int_equal(whole->total_bytes, 2040000);
    assert_int_equal(whole->calls, 0);
    assert_int_equal(bytes(&whole->direct), 0);
    /* equal totals by centre; red before blue */
    assert_int_equal(widget->entry, 0);
    assert_int_equal(whole->entry, 1);
    assert_int_equal(function(&graph, RED)->entry, 2);
    assert_int_equal(function(&graph, BLUE)->entry, 3);
    hx_callgraph_deinit(&graph);
}

/* main calls F, F calls G, G calls F, F calls G, which asks for 10 bytes. */
static void test_cycle(void **state)
{
    (void)state;
    enum { MAIN, M, F, G, H };
    const struct hx_frame frames[] = {frame(0, MAIN), frame(0, M), frame(1, F), frame(2, G),
                                      frame(3, F),    frame(4, G), frame(5, H)};
    const struct hx_call_costs own[7] = {[5] = costs(1, 10), [6] = costs(2, 300)};
    struct hx_callgraph graph;
    make(frames, 6, own, &graph);
    assert_int_equal(bytes(&call(&graph, F, G)->costs), 20); /* once for each time round */
    assert_int_equal(call(&graph, F, G)->costs.calls, 2);
    assert_int_equal(bytes(&call(&graph, G, F)->costs), 10);
    assert_int_equal(graph.cycles.n, 1);
    const struct hx_call_cycle *cycle = &graph.cycles.v[0];
    assert_int_equal(cycle->n, 2);
    assert_int_equal(cycle->total_bytes, 10);
    assert_int_equal(bytes(&cycle->direct), 10);
    assert_int_equal(cycle->calls, 1);
    assert_int_equal(cycle->internal_calls, 3);
    assert_int_equal(function(&graph, F)->cycle, 0);
    assert_int_equal(function(&graph, F)->total_bytes, 10);
    assert_int_equal(function(&graph, F)->calls, 2);
    assert_int_equal(function(&graph, M)->total_bytes, 10);
    assert_int_equal(function(&graph, M)->cycle, HX_NO_CYCLE);
    /* the cycle before all functions of its total, members too */
    assert_int_equal(cycle->entry, 0);
    hx_callgraph_deinit(&graph);

    make(frames, 7, own, &graph);
    assert_int_equal(graph.cycles.v[0].total_bytes, 610);
    assert_int_equal(bytes(&graph.cycles.v[0].direct), 10);
    assert_int_equal(bytes(&call(&graph, G, H)->costs), 600);
    hx_callgraph_deinit(&graph);
}

static void test_recursion(void **state)
{
    (void)state;
    const struct hx_frame frames[] = {frame(0, 9), frame(0, 1), frame(1, 2),
                                      frame(2, 2), frame(3, 2), frame(4, 3)};
    const struct hx_call_costs own[6] = {
        [3] = costs(1, 5), [4] = costs(1, 50), [5] = costs(2, 500)};
    struct hx_callgraph graph;
    make(frames, 6, own, &graph);
    const struct hx_call_function *self = function(&graph, 2);
    assert_int_equal(self->cycle, HX_NO_CYCLE);
    assert_int_equal(self->calls, 4);
    assert_int_equal(self->recursive, 4 + 3);
    assert_int_equal(self->total_bytes, 1055);
    assert_null(call(&graph, 2, 2));
    hx_callgraph_deinit(&graph);
}

/* What nobody allocated under is not in it; what is charged to MAIN is. */
static void test_left_out(void **state)
{
    (void)state;
    struct hx_frame frames[] = {frame(0, 0), frame(0, 1), frame(1, 2),
                                frame(1, 3), frame(0, 4), frame(1, HX_NO_CENTRE)};
    struct hx_call_costs own[6] = {[2] = costs(1, 8)};
    struct hx_callgraph graph;
    make(frames, 5, own, &graph);
    assert_int_equal(graph.functions.n, 2);
    assert_int_equal(graph.calls.n, 1);
    hx_callgraph_deinit(&graph);

    own[0] = costs(3, 9);
    own[5] = costs(1, 7); /* of one without a centre: its caller asked */
    make(frames, 6, own, &graph);
    assert_int_equal(graph.functions.n, 3);
    assert_int_equal(function(&graph, 0)->total_bytes, 27);
    assert_int_equal(bytes(&function(&graph, 1)->direct), 7);
    assert_int_equal(function(&graph, 1)->total_bytes, 15);
    hx_callgraph_deinit(&graph);

    make(frames, 0, own, &graph);
    assert_int_equal(graph.functions.n, 0);
    hx_callgraph_deinit(&graph);
    const uint32_t caller[] = {0, 1};
    hx_error *err = hx_callgraph_make(frames, caller, 2, own, NULL, &graph);
    assert_non_null(err);
    assert_int_equal(err->kind, HX_E_CORRUPT);
    hx_error_free(err);
}

/* --- against chains ---------------------------------------------------------------- */

enum { N_CENTRES = 10, N_FRAMES = 120 };

struct reckoned {
    uint64_t pair_bytes[N_CENTRES][N_CENTRES], pair_calls[N_CENTRES][N_CENTRES];
    uint64_t direct[N_CENTRES];
    bool reaches[N_CENTRES][N_CENTRES];
    bool present[N_CENTRES];
};

/* Follows the chain of each frame that allocated. Centre 0 is MAIN. */
static void reckon(const struct hx_frame *frames, uint32_t n, const struct hx_call_costs *own,
                   struct reckoned *ret)
{
    memset(ret, 0, sizeof *ret);
    for (uint32_t i = 1; i < n; i++) {
        if (!own[i].calls)
            continue;
        ret->direct[frames[i].centre] += bytes(&own[i]);
        for (uint32_t at = i; at; at = frames[at].parent) {
            hx_centre to = frames[at].centre, from = frames[frames[at].parent].centre;
            ret->present[to] = true;
            if (!frames[at].parent)
                continue;
            ret->pair_bytes[from][to] += bytes(&own[i]);
            ret->pair_calls[from][to] += own[i].calls;
            ret->reaches[from][to] = true;
        }
    }
    for (int k = 0; k < N_CENTRES; k++)
        for (int a = 0; a < N_CENTRES; a++)
            for (int b = 0; b < N_CENTRES; b++)
                ret->reaches[a][b] |= ret->reaches[a][k] && ret->reaches[k][b];
}

static bool together(const struct reckoned *reckoned, hx_centre a, hx_centre b)
{
    return a == b || (reckoned->reaches[a][b] && reckoned->reaches[b][a]);
}

/* Bytes whose chain has a member of the centre's component, each once. */
static uint64_t once(const struct reckoned *reckoned, const struct hx_frame *frames, uint32_t n,
                     const struct hx_call_costs *own, hx_centre centre)
{
    uint64_t sum = 0;
    for (uint32_t i = 1; i < n; i++) {
        bool on = false;
        for (uint32_t at = i; at; at = frames[at].parent)
            on |= together(reckoned, frames[at].centre, centre);
        sum += on ? bytes(&own[i]) : 0;
    }
    return sum;
}

static void compare_calls(const struct hx_callgraph *graph, const struct reckoned *reckoned)
{
    for (hx_centre a = 1; a < N_CENTRES; a++) {
        uint64_t in = 0;
        for (hx_centre b = 1; b < N_CENTRES; b++) {
            if (a == b)
                continue;
            in += reckoned->pair_calls[b][a];
            const struct hx_call *made = call(graph, a, b);
            assert_int_equal(made != NULL, reckoned->pair_calls[a][b] != 0);
            if (!made)
                continue;
            assert_int_equal(made->costs.calls, reckoned->pair_calls[a][b]);
            assert_int_equal(bytes(&made->costs), reckoned->pair_bytes[a][b]);
        }
        const struct hx_call_function *f = function(graph, a);
        assert_int_equal(f != NULL, reckoned->present[a]);
        if (!f)
            continue;
        assert_int_equal(f->calls, in);
        assert_int_equal(f->recursive, reckoned->pair_calls[a][a]);
        assert_int_equal(bytes(&f->direct), reckoned->direct[a]);
    }
}

static void compare_cycles(const struct hx_callgraph *graph, const struct reckoned *reckoned)
{
    for (size_t f = 0; f < graph->functions.n; f++) {
        const struct hx_call_function *a = &graph->functions.v[f];
        bool alone = true;
        for (size_t g = 0; g < graph->functions.n; g++) {
            const struct hx_call_function *b = &graph->functions.v[g];
            bool same = f != g && together(reckoned, a->centre, b->centre);
            alone &= !same;
            assert_int_equal(same, f != g && a->cycle != HX_NO_CYCLE && a->cycle == b->cycle);
        }
        assert_int_equal(alone, a->cycle == HX_NO_CYCLE);
    }
    for (size_t c = 0; c < graph->cycles.n; c++) {
        const struct hx_call_cycle *cycle = &graph->cycles.v[c];
        hx_centre any = graph->functions.v[graph->members.v[cycle->first]].centre;
        uint64_t outside = 0, inside = 0;
        for (hx_centre a = 1; a < N_CENTRES; a++)
            for (hx_centre b = 1; b < N_CENTRES; b++)
                if (a != b && together(reckoned, b, any))
                    *(together(reckoned, a, any) ? &inside : &outside) +=
                        reckoned->pair_calls[a][b];
        assert_int_equal(cycle->calls, outside);
        assert_int_equal(cycle->internal_calls, inside);
    }
}

static void test_random(void **state)
{
    (void)state;
    struct unit_random random = unit_random_begin("call graphs");
    for (size_t round = unit_rounds(400); round--;) {
        struct hx_frame frames[N_FRAMES];
        struct hx_call_costs own[N_FRAMES] = {{{0}, 0}};
        uint32_t n = 1 + (uint32_t)unit_below(&random, N_FRAMES);
        /* few ways up make few cycles, more make one large */
        hx_centre up = (hx_centre)unit_below(&random, 4);
        frames[0] = frame(0, 0);
        for (uint32_t i = 1; i < n; i++) {
            uint32_t parent = (uint32_t)unit_below(&random, i < 12 ? i : 12);
            parent = unit_below(&random, 3) ? i - 1 - parent : parent;
            hx_centre above = frames[parent].centre, least = above > up ? above - up : 1;
            least = least ? least : 1;
            frames[i] = frame(parent, least + (hx_centre)unit_below(&random, N_CENTRES - least));
            if (unit_below(&random, 3) == 0)
                own[i] = costs(1 + unit_below(&random, 9), 1 + unit_below(&random, 4000));
        }
        struct hx_callgraph graph;
        struct reckoned reckoned;
        make(frames, n, own, &graph);
        reckon(frames, n, own, &reckoned);
        compare_calls(&graph, &reckoned);
        compare_cycles(&graph, &reckoned);
        for (size_t f = 0; f < graph.functions.n; f++)
            assert_int_equal(graph.functions.v[f].total_bytes,
                             once(&reckoned, frames, n, own, graph.functions.v[f].centre));
        hx_callgraph_deinit(&graph);
    }
}

/* One chain of very many functions, and the same as one cycle: no recursion of ours. */
static void test_long(void **state)
{
    (void)state;
    uint32_t n = (uint32_t)unit_rounds(300000);
    struct hx_frame *frames = malloc((n + 1) * sizeof *frames);
    struct hx_call_costs *own = calloc(n + 1, sizeof *own);
    assert_non_null(frames);
    assert_non_null(own);
    for (uint32_t i = 0; i < n; i++)
        frames[i] = frame(i ? i - 1 : 0, n - i);
    frames[n] = frame(n - 1, n - 1); /* back to the outermost one */
    own[n - 1] = costs(1, 64);
    struct hx_callgraph graph;
    uint64_t begun = hx_now_ns();
    make(frames, n, own, &graph);
    print_message("%u functions: %.3f s\n", n, (double)(hx_now_ns() - begun) / 1e9);
    assert_int_equal(graph.cycles.n, 0);
    assert_int_equal(graph.calls.n, n - 2);
    hx_callgraph_deinit(&graph);
    own[n] = costs(1, 64);
    make(frames, n + 1, own, &graph);
    assert_int_equal(graph.cycles.n, 1);
    assert_int_equal(graph.cycles.v[0].n, n - 1);
    assert_int_equal(graph.cycles.v[0].total_bytes, 128);
    hx_callgraph_deinit(&graph);
    free(frames);
    free(own);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_widgets),   cmocka_unit_test(test_cycle),
        cmocka_unit_test(test_recursion), cmocka_unit_test(test_left_out),
        cmocka_unit_test(test_random),    cmocka_unit_test(test_long),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
