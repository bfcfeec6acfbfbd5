/* holders.c - the nearest root of each object, and where a second one comes in. */
#include "traverse/hold/holders.h"

#include "base/cleanup.h"
#include "base/parallel.h"
#include "traverse/hold/contests.h"
#include "traverse/hold/rounds.h"

#include <stdlib.h>
#include <string.h>

#define BLOCK 65536 /* objects that a worker looks through at once */
#define FEW   32768 /* below this a second thread costs more than it brings */

/* --- who comes first ------------------------------------------------------------------------ */

static int root_class(const struct hx_root *root)
{
    static const int classes[] = {
        [HX_ROOT_GLOBAL] = 0, [HX_ROOT_TLS] = 1,      [HX_ROOT_MAPPING] = 2, [HX_ROOT_STACK] = 3,
        [HX_ROOT_FRAME] = 3,  [HX_ROOT_REGISTER] = 3, [HX_ROOT_NAMED] = 4,
    };
    return classes[root->kind];
}

static int compare_texts(const char *a, const char *b)
{
    return strcmp(a ? a : "", b ? b : "");
}

static int compare_roots(const void *a, const void *b)
{
    const struct hx_root *x = *(const struct hx_root *const *)a,
                         *y = *(const struct hx_root *const *)b;
    int order = root_class(x) - root_class(y);
    order = order ? order : compare_texts(x->module, y->module);
    order = order ? order : compare_texts(x->name, y->name);
    if (order)
        return order;
    return x->address != y->address ? (x->address < y->address ? -1 : 1) : (x > y) - (x < y);
}

struct work {
    struct hx_snapshot *snapshot;
    const struct hx_scheme_rule *roots;
    const struct hx_progress *progress;
    unsigned threads;
    const struct hx_root **sorted; /* by order */
    uint32_t *order;               /* of each root */
    uint32_t *holder_of_root;      /* index in holders->holder; 0: none */
    struct hx_edge_rounds rounds;
    struct hx_structures structures;
    struct hx_big near_mem;
    struct hx_holders *holders;
};

static hx_error *order_roots(struct work *work)
{
    const struct hx_snapshot *snapshot = work->snapshot;
    size_t n = snapshot->roots.n;
    HX_NEED(n >> HX_ORDER_BITS == 0);
    work->sorted = malloc((n + 1) * sizeof *work->sorted);
    work->order = malloc((n + 1) * sizeof *work->order);
    HX_NEED(work->sorted && work->order);
    for (size_t i = 0; i < n; i++)
        work->sorted[i] = &snapshot->roots.v[i];
    if (n)
        qsort(work->sorted, n, sizeof *work->sorted, compare_roots);
    for (size_t i = 0; i < n; i++)
        work->order[work->sorted[i] - snapshot->roots.v] = (uint32_t)i;
    return NULL;
}

/* A holder for each identity that a root has, in the order of the identities. */
static hx_error *make_holders(struct work *work)
{
    const struct hx_retain_rule *rule = &work->roots->rule;
    struct hx_holders *holders = work->holders;
    size_t n = work->roots->n_identities;
    holders->holder = calloc(n + 2, sizeof *holders->holder);
    work->holder_of_root = calloc(work->snapshot->roots.n + 1, sizeof *work->holder_of_root);
    HX_NEED(holders->holder && work->holder_of_root);
    holders->n = n + 2;
    holders->holder[HX_HOLDER_LOST].identity = holders->holder[HX_HOLDER_MIXED].identity =
        HX_NO_RETAINER;
    for (size_t i = 0; i < n; i++)
        holders->holder[i + 2].identity = (hx_retainer)i;
    for (size_t i = 0; rule->of_root && i < work->snapshot->roots.n; i++)
        if (rule->of_root[i] != HX_NO_RETAINER)
            work->holder_of_root[i] = rule->of_root[i] + 2;
    return NULL;
}

/* --- sums ----------------------------------------------------------------------------------- */

static void sum_holders(struct work *work)
{
    const struct hx_graph *graph = &work->snapshot->graph;
    struct hx_holders *holders = work->holders;
    for (hx_obj i = 0; i < graph->n; i++) {
        struct hx_holder *holder = &holders->holder[holders->of[i]];
        holder->bytes += graph->size[i];
        holder->objects++;
    }
    for (size_t i = 0; i < work->snapshot->root_edges.n; i++) {
        const struct hx_root_edge *edge = &work->snapshot->root_edges.v[i];
        uint32_t holder = work->holder_of_root[edge->root];
        if (holder && holders->of[edge->target] == holder)
            holders->holder[holder].entries++;
    }
}

static void name_holders(void *context, unsigned worker, size_t from, size_t to)
{
    (void)worker;
    struct work *work = context;
    const hx_nearness *near = work->near_mem.base;
    for (size_t k = from; k < to; k++) {
        const struct hx_root *root =
            near[k] == HX_UNREACHED ? NULL : work->sorted[hx_nearness_order(near[k])];
        work->holders->of[k] =
            root ? work->holder_of_root[root - work->snapshot->roots.v] : HX_HOLDER_LOST;
    }
}

static hx_error *find_holders(struct work *work, const struct hx_hold_options *options)
{
    struct hx_snapshot *snapshot = work->snapshot;
    struct hx_holders *holders = work->holders;
    const hx_obj n = snapshot->graph.n;
    HX_TRY(order_roots(work));
    HX_TRY(make_holders(work));
    HX_TRY(hx_structures_find(&snapshot->graph, work->threads, work->progress, &work->structures));
    HX_TRY(hx_rounds_nearest(snapshot, options, work->order, &work->structures, false,
                             work->threads, work->progress, &work->near_mem));
    const hx_nearness *near = work->near_mem.base;
    HX_TRY(hx_big_array(holders->of, n));
    hx_parallel_blocks(n < FEW ? 1 : hx_threads(work->threads), n, BLOCK, name_holders, work, NULL);
    struct hx_contest_work contests = {.snapshot = snapshot,
                                       .rounds = &work->rounds,
                                       .near = near,
                                       .threads = work->threads,
                                       .progress = work->progress,
                                       .holders = holders};
    HX_TRY(hx_contests_find(&contests));
    sum_holders(work);
    return NULL;
}

hx_error *hx_holders_find(struct hx_snapshot *snapshot, const struct hx_scheme_rule *roots,
                          const struct hx_hold_options *options, unsigned threads,
                          const struct hx_progress *progress, struct hx_holders *ret)
{
    struct hx_holders holders = {0};
    struct work work = {.snapshot = snapshot,
                        .roots = roots,
                        .progress = progress,
                        .threads = threads,
                        .holders = &holders};
    hx_edge_rounds_init(options, snapshot->interior, &work.rounds);
    hx_error *err = find_holders(&work, options);
    free(work.sorted);
    free(work.order);
    free(work.holder_of_root);
    hx_big_free(&work.near_mem);
    hx_structures_deinit(&work.structures);
    if (err)
        hx_holders_deinit(&holders);
    else
        *ret = holders;
    return err;
}

void hx_holders_deinit(struct hx_holders *holders)
{
    hx_big_free(&holders->of_mem);
    hx_big_free(&holders->contested_mem);
    free(holders->holder);
    free(holders->contest);
    *holders = (struct hx_holders){0};
}
