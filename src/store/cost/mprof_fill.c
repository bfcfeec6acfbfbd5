/* mprof_fill.c - a snapshot's figures of functions and of the calls between them, and of chains. */
#include "store/cost/mprof_fill.h"

#include "base/cleanup.h"
#include "cost/callgraph.h"
#include "store/db.h"
#include "store/schema/row.h"

#include <stdlib.h>
#include <string.h>

/* Requested bytes of one function, of a chain, or of all. */
struct figures {
    bool there;
    uint64_t allocs, bytes, frees, freed_bytes, kept_bytes;
    uint64_t alloc_class[HX_SIZE_CLASSES], kept_class[HX_SIZE_CLASSES];
};

struct filling {
    const struct hx_attributing *a;
    int64_t snapshot;
    struct hx_mprof_tree tree;
    struct hx_call_costs *own;    /* of each frame */
    struct figures *function;     /* by centre; the last one: without a centre */
    HX_VEC(struct figures) chain; /* by number */
    struct figures total, chains;
    bool any, classes; /* stacks have costs; and all of them classes */
    struct hx_inserter insert;
};

/* --- what was recorded -------------------------------------------------------------- */

/* Figures of a file may be any: they stop at the top. */
static void add_capped(uint64_t *sum, uint64_t n)
{
    if (__builtin_add_overflow(*sum, n, sum))
        *sum = UINT64_MAX;
}

static void add_figures(struct figures *to, const struct figures *from)
{
    to->there = true;
    add_capped(&to->allocs, from->allocs);
    add_capped(&to->bytes, from->bytes);
    add_capped(&to->frees, from->frees);
    add_capped(&to->freed_bytes, from->freed_bytes);
    add_capped(&to->kept_bytes, from->kept_bytes);
    for (int k = 0; k < HX_SIZE_CLASSES; k++) {
        add_capped(&to->alloc_class[k], from->alloc_class[k]);
        add_capped(&to->kept_class[k], from->kept_class[k]);
    }
}

static uint64_t column(sqlite3_stmt *st, int i)
{
    int64_t value = sqlite3_column_int64(st, i);
    return value > 0 ? (uint64_t)value : 0;
}

/* More may be freed than was allocated where a block is older than the recording of its process. */
static uint64_t kept(uint64_t alloc, uint64_t freed)
{
    return alloc > freed ? alloc - freed : 0;
}

enum { STACK, ORIGIN, CHAIN, ALLOCS, ALLOC_BYTES, FREES, FREED_BYTES, ALLOC_CLASS };
enum { FREED_CLASS = ALLOC_CLASS + HX_SIZE_CLASSES };

static void read_costs(sqlite3_stmt *st, struct figures *ret, bool *ret_classes)
{
    *ret = (struct figures){
        .allocs = column(st, ALLOCS),
        .bytes = column(st, ALLOC_BYTES),
        .frees = column(st, FREES),
        .freed_bytes = column(st, FREED_BYTES),
    };
    ret->kept_bytes = kept(ret->bytes, ret->freed_bytes);
    for (int k = 0; k < HX_SIZE_CLASSES; k++) {
        ret->alloc_class[k] = column(st, ALLOC_CLASS + k);
        ret->kept_class[k] = kept(ret->alloc_class[k], column(st, FREED_CLASS + k));
        *ret_classes &= sqlite3_column_type(st, ALLOC_CLASS + k) != SQLITE_NULL;
    }
}

static hx_error *add_to_chain(struct filling *f, int64_t chain, const struct figures *costs)
{
    if (chain < 1)
        return NULL; /* a stack without one: it is of another choice of cost centres */
    if ((uint64_t)chain > f->a->frames->node.n) /* each stack has one, and ends in another frame */
        return hx_error_new(HX_E_CORRUPT, f->a->what, "take it from a backup or make it again",
                            "the store is damaged (call chains)");
    size_t had = f->chain.n;
    if ((size_t)chain >= had) {
        HX_NEED(hx_vec_reserve(&f->chain, (size_t)chain + 1));
        f->chain.n = (size_t)chain + 1;
        memset(f->chain.v + had, 0, (f->chain.n - had) * sizeof *f->chain.v);
    }
    add_figures(&f->chain.v[chain], costs);
    return NULL;
}

static hx_error *add_mprof_stack(struct filling *f, sqlite3_stmt *st)
{
    struct figures costs;
    uint32_t frame;
    read_costs(st, &costs, &f->classes);
    HX_TRY(hx_mprof_origin(f->a, &f->tree, sqlite3_column_int64(st, ORIGIN),
                           sqlite3_column_int64(st, STACK), &frame));
    f->any = true;
    hx_centre centre = f->a->frame[frame].centre;
    size_t centres = f->a->frames->centres.n;
    add_figures(&f->function[centre < centres ? centre : centres], &costs);
    add_figures(&f->total, &costs);
    struct hx_call_costs *own = &f->own[frame];
    add_capped(&own->calls, costs.allocs);
    for (int k = 0; k < HX_SIZE_CLASSES; k++)
        add_capped(&own->bytes[k], costs.alloc_class[k]);
    return add_to_chain(f, sqlite3_column_int64(st, CHAIN), &costs);
}

static hx_error *load_mprof_stacks(struct filling *f)
{
    HX_STATEMENT sqlite3_stmt *st = NULL;
    HX_TRY(hx_db_prepare(f->a->db, f->a->what,
                         "SELECT k.stack_id, t.origin, c.chain, k.alloc_objects, k.alloc_bytes,"
                         " k.freed_objects, k.freed_bytes, k.alloc_s, k.alloc_m, k.alloc_l,"
                         " k.alloc_x, k.freed_s, k.freed_m, k.freed_l, k.freed_x"
                         " FROM hx_stack_cost AS k"
                         " LEFT JOIN hx_stack AS t ON t.stack_id = k.stack_id"
                         " LEFT JOIN hx_stack_chain AS c ON c.stack_id = k.stack_id"
                         " WHERE k.snapshot = ? AND k.alloc_bytes IS NOT NULL",
                         &st));
    sqlite3_bind_int64(st, 1, f->snapshot);
    int code;
    while ((code = sqlite3_step(st)) == SQLITE_ROW)
        HX_TRY(add_mprof_stack(f, st));
    return code == SQLITE_DONE ? NULL : hx_db_error(f->a->db, code, f->a->what);
}

/* --- rows --------------------------------------------------------------------------- */

/* Nothing where classes are not known. */
static struct hx_int class_bytes(const struct filling *f, const uint64_t *class, int k)
{
    return f->classes ? hx_count(class[k]) : HX_NULL;
}
#define CLASSES(f, class)                                                                          \
    .s = class_bytes(f, class, 0), .m = class_bytes(f, class, 1), .l = class_bytes(f, class, 2),   \
    .x = class_bytes(f, class, 3)
#define KEPT_CLASSES(f, class)                                                                     \
    .ks = class_bytes(f, class, 0), .km = class_bytes(f, class, 1),                                \
    .kl = class_bytes(f, class, 2), .kx = class_bytes(f, class, 3)

static hx_error *forget_mprof(const struct filling *f)
{
    static const char *const statements[] = {
        "DELETE FROM hx_mprof WHERE snapshot = ?", "DELETE FROM hx_chain_cost WHERE snapshot = ?",
        "DELETE FROM hx_function WHERE snapshot = ?", "DELETE FROM hx_call WHERE snapshot = ?",
        "DELETE FROM hx_cycle WHERE snapshot = ?"};
    for (size_t i = 0; i < sizeof statements / sizeof *statements; i++) {
        HX_STATEMENT sqlite3_stmt *st = NULL;
        HX_TRY(hx_db_prepare(f->a->db, f->a->what, statements[i], &st));
        sqlite3_bind_int64(st, 1, f->snapshot);
        HX_TRY(hx_db_run(f->a->db, f->a->what, st));
    }
    return NULL;
}

/* Those where not everything was freed. */
static hx_error *write_chains(struct filling *f)
{
    for (size_t i = 0; i < f->chain.n; i++) {
        const struct figures *chain = &f->chain.v[i];
        if (chain->allocs == chain->frees && chain->bytes == chain->freed_bytes)
            continue;
        add_figures(&f->chains, chain);
        HX_TRY(hx_insert(&f->insert, chain_cost, .snapshot = hx_int(f->snapshot),
                         .chain = hx_int(i), .allocs = hx_count(chain->allocs),
                         .bytes = hx_count(chain->bytes), .frees = hx_count(chain->frees),
                         .freed_bytes = hx_count(chain->freed_bytes),
                         .kept_bytes = hx_count(chain->kept_bytes)));
    }
    return NULL;
}

static hx_error *write_totals(struct filling *f)
{
    const struct figures *total = &f->total;
    return hx_insert(&f->insert, mprof, .snapshot = hx_int(f->snapshot),
                     .allocs = hx_count(total->allocs), .bytes = hx_count(total->bytes),
                     CLASSES(f, total->alloc_class), .frees = hx_count(total->frees),
                     .freed_bytes = hx_count(total->freed_bytes),
                     .kept_bytes = hx_count(total->kept_bytes), KEPT_CLASSES(f, total->kept_class),
                     .chain_bytes = hx_count(f->chains.bytes),
                     .chain_freed_bytes = hx_count(f->chains.freed_bytes));
}

/* --- the call graph ----------------------------------------------------------------- */

/* What the lines of an entry are shares of. */
struct around {
    uint64_t made;     /* calls to others */
    uint64_t up, down; /* bytes of all ancestors and all descendants */
};

struct surroundings {
    struct around *function, *cycle; /* of each; of members the calls inside count for made only */
};

static uint64_t call_bytes(const struct hx_call_costs *costs)
{
    uint64_t sum = 0;
    for (int k = 0; k < HX_SIZE_CLASSES; k++)
        add_capped(&sum, costs->bytes[k]);
    return sum;
}

static void sum_callers_and_callees(const struct hx_callgraph *graph, struct surroundings *s)
{
    for (size_t i = 0; i < graph->calls.n; i++) {
        const struct hx_call *call = &graph->calls.v[i];
        uint32_t from = graph->functions.v[call->caller].cycle;
        uint32_t to = graph->functions.v[call->callee].cycle;
        uint64_t bytes = call_bytes(&call->costs);
        add_capped(&s->function[call->caller].made, call->costs.calls);
        if (from != HX_NO_CYCLE && from == to)
            continue;
        add_capped(&s->function[call->caller].down, bytes);
        add_capped(&s->function[call->callee].up, bytes);
        if (from != HX_NO_CYCLE)
            add_capped(&s->cycle[from].down, bytes);
        if (to != HX_NO_CYCLE)
            add_capped(&s->cycle[to].up, bytes);
    }
}

static int64_t centre_id(const struct filling *f, hx_centre centre)
{
    return f->a->frames->centres.v[centre].id;
}

static hx_error *write_calls(struct filling *f, const struct hx_callgraph *graph)
{
    for (size_t i = 0; i < graph->calls.n; i++) {
        const struct hx_call *call = &graph->calls.v[i];
        HX_TRY(hx_insert(&f->insert, call, .snapshot = hx_int(f->snapshot),
                         .caller = hx_int(centre_id(f, graph->functions.v[call->caller].centre)),
                         .callee = hx_int(centre_id(f, graph->functions.v[call->callee].centre)),
                         .calls = hx_count(call->costs.calls), CLASSES(f, call->costs.bytes)));
    }
    return NULL;
}

/* Cycles have numbers from 1 in the order of their entries. */
static int64_t cycle_number(const struct hx_callgraph *graph, uint32_t cycle)
{
    int64_t number = 1;
    for (size_t i = 0; i < graph->cycles.n; i++)
        number += graph->cycles.v[i].entry < graph->cycles.v[cycle].entry;
    return number;
}

static hx_error *write_cycles(struct filling *f, const struct hx_callgraph *graph,
                              const struct around *around, const int64_t *number)
{
    for (size_t i = 0; i < graph->cycles.n; i++) {
        const struct hx_call_cycle *cycle = &graph->cycles.v[i];
        HX_TRY(hx_insert(
            &f->insert, cycle, .snapshot = hx_int(f->snapshot), .cycle = hx_int(number[i]),
            .entry = hx_count(cycle->entry), .bytes = hx_count(call_bytes(&cycle->direct)),
            CLASSES(f, cycle->direct.bytes), .total_bytes = hx_count(cycle->total_bytes),
            .calls = hx_count(cycle->calls), .internal = hx_count(cycle->internal_calls),
            .up_bytes = hx_count(around[i].up), .down_bytes = hx_count(around[i].down)));
    }
    return NULL;
}

/* --- functions ---------------------------------------------------------------------- */

/* A function is in the graph, or asks for memory itself, or both; without a graph only the latter.
 */
static hx_error *write_functions(struct filling *f, const struct hx_callgraph *graph,
                                 const struct around *around, const int64_t *number)
{
    size_t next = 0; /* in the graph, which has them by centre */
    for (hx_centre centre = 0; centre < f->a->frames->centres.n; centre++) {
        bool in_graph = next < graph->functions.n && graph->functions.v[next].centre == centre;
        if (!in_graph && !f->function[centre].there)
            continue;
        const struct figures *own = &f->function[centre];
        struct hx_row_function row = {.snapshot = hx_int(f->snapshot),
                                      .centre = hx_int(centre_id(f, centre)),
                                      .allocs = hx_count(own->allocs),
                                      .bytes = hx_count(own->bytes),
                                      CLASSES(f, own->alloc_class),
                                      .kept_bytes = hx_count(own->kept_bytes),
                                      KEPT_CLASSES(f, own->kept_class)};
        if (in_graph) {
            const struct hx_call_function *function = &graph->functions.v[next];
            row.entry = hx_count(function->entry);
            row.cycle = hx_int_if(function->cycle != HX_NO_CYCLE, number[function->cycle]);
            row.total_bytes = hx_count(function->total_bytes);
            row.calls = hx_count(function->calls);
            row.recursive = hx_count(function->recursive);
            row.made = hx_count(around[next].made);
            row.up_bytes = hx_count(around[next].up);
            row.down_bytes = hx_count(around[next].down);
            next++;
        }
        HX_TRY(hx_insert_row(&f->insert, HX_TABLE_function, &row));
    }
    return NULL;
}

static hx_error *write_graph(struct filling *f, const struct hx_callgraph *graph)
{
    HX_FREE struct around *function = calloc(graph->functions.n + 1, sizeof *function);
    HX_FREE struct around *cycle = calloc(graph->cycles.n + 1, sizeof *cycle);
    HX_FREE int64_t *number = calloc(graph->cycles.n + 1, sizeof *number);
    HX_NEED(function && cycle && number);
    sum_callers_and_callees(graph, &(struct surroundings){function, cycle});
    for (uint32_t i = 0; i < graph->cycles.n; i++)
        number[i] = cycle_number(graph, i);
    HX_TRY(write_calls(f, graph));
    HX_TRY(write_cycles(f, graph, cycle, number));
    return write_functions(f, graph, function, number);
}

/* That nothing was allocated is a figure, too. */
static hx_error *is_recorded(const struct filling *f, bool *ret)
{
    HX_STATEMENT sqlite3_stmt *st = NULL;
    HX_TRY(
        hx_db_prepare(f->a->db, f->a->what, "SELECT 1 FROM hx_recording WHERE snapshot = ?", &st));
    sqlite3_bind_int64(st, 1, f->snapshot);
    int code = sqlite3_step(st);
    *ret = f->any || code == SQLITE_ROW;
    return code == SQLITE_ROW || code == SQLITE_DONE ? NULL
                                                     : hx_db_error(f->a->db, code, f->a->what);
}

static hx_error *fill_mprof(struct filling *f)
{
    HX_CLEANUP(hx_callgraph_deinit) struct hx_callgraph graph = {0};
    bool recorded;
    HX_TRY(load_mprof_stacks(f));
    HX_TRY(forget_mprof(f));
    HX_TRY(is_recorded(f, &recorded));
    if (!recorded)
        return NULL;
    if (f->classes)
        HX_TRY(hx_callgraph_make(f->a->frame, f->tree.caller, f->tree.n, f->own, f->a->progress,
                                 &graph));
    HX_TRY(write_chains(f));
    HX_TRY(write_totals(f));
    return write_graph(f, &graph);
}

hx_error *hx_mprof_snapshot(const struct hx_attributing *a, int64_t snapshot)
{
    struct filling f = {
        .a = a, .snapshot = snapshot, .classes = true, .insert = {.db = a->db, .what = a->what}};
    HX_TRY(hx_mprof_tree_make(a, &f.tree));
    f.own = calloc((size_t)f.tree.n + 1, sizeof *f.own);
    f.function = calloc(a->frames->centres.n + 1, sizeof *f.function);
    hx_error *err = f.own && f.function ? fill_mprof(&f) : hx_error_nomem();
    hx_inserter_deinit(&f.insert);
    free(f.own);
    free(f.function);
    hx_vec_free(&f.chain);
    hx_mprof_tree_deinit(&f.tree);
    return err;
}
