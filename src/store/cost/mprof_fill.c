/* mprof_fill.c - a snapshot's figures of functions and of the calls between them, and of chains. */
#include "store/cost/mprof_fill.h"

#include "base/cleanup.h"
#include "store/db.h"
#include "cost/callgraph.h"

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

static void bind(sqlite3_stmt *st, int i, uint64_t n)
{
    sqlite3_bind_int64(st, i, n > INT64_MAX ? INT64_MAX : (int64_t)n);
}

/* s, m, l, x; nothing where classes are not known. Returns the number behind them. */
static int bind_classes(const struct filling *f, sqlite3_stmt *st, int i, const uint64_t *class)
{
    for (int k = 0; k < HX_SIZE_CLASSES; k++)
        if (f->classes)
            bind(st, i + k, class[k]);
    return i + HX_SIZE_CLASSES;
}

static hx_error *prepare_fill(const struct filling *f, const char *sql, sqlite3_stmt **ret)
{
    return hx_db_prepare(f->a->db, f->a->what, sql, ret);
}

/* Of the columns of a row, the first of which is the snapshot. */
static hx_error *end_row(const struct filling *f, sqlite3_stmt *st)
{
    sqlite3_bind_int64(st, 1, f->snapshot);
    hx_error *err = hx_db_run(f->a->db, f->a->what, st);
    sqlite3_clear_bindings(st);
    return err;
}

static hx_error *forget_mprof(const struct filling *f)
{
    static const char *const statements[] = {
        "DELETE FROM hx_mprof WHERE snapshot = ?", "DELETE FROM hx_chain_cost WHERE snapshot = ?",
        "DELETE FROM hx_function WHERE snapshot = ?", "DELETE FROM hx_call WHERE snapshot = ?",
        "DELETE FROM hx_cycle WHERE snapshot = ?"};
    for (size_t i = 0; i < sizeof statements / sizeof *statements; i++) {
        HX_STATEMENT sqlite3_stmt *st = NULL;
        HX_TRY(prepare_fill(f, statements[i], &st));
        HX_TRY(end_row(f, st));
    }
    return NULL;
}

/* Those where not everything was freed. */
static hx_error *write_chains(struct filling *f)
{
    HX_STATEMENT sqlite3_stmt *st = NULL;
    HX_TRY(prepare_fill(f, "INSERT INTO hx_chain_cost VALUES(?,?,?,?,?,?,?)", &st));
    for (size_t i = 0; i < f->chain.n; i++) {
        const struct figures *chain = &f->chain.v[i];
        if (chain->allocs == chain->frees && chain->bytes == chain->freed_bytes)
            continue;
        add_figures(&f->chains, chain);
        sqlite3_bind_int64(st, 2, (int64_t)i);
        bind(st, 3, chain->allocs);
        bind(st, 4, chain->bytes);
        bind(st, 5, chain->frees);
        bind(st, 6, chain->freed_bytes);
        bind(st, 7, chain->kept_bytes);
        HX_TRY(end_row(f, st));
    }
    return NULL;
}

static hx_error *write_totals(const struct filling *f)
{
    HX_STATEMENT sqlite3_stmt *st = NULL;
    HX_TRY(prepare_fill(f, "INSERT INTO hx_mprof VALUES(?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)", &st));
    bind(st, 2, f->total.allocs);
    bind(st, 3, f->total.bytes);
    int i = bind_classes(f, st, 4, f->total.alloc_class);
    bind(st, i++, f->total.frees);
    bind(st, i++, f->total.freed_bytes);
    bind(st, i++, f->total.kept_bytes);
    i = bind_classes(f, st, i, f->total.kept_class);
    bind(st, i++, f->chains.bytes);
    bind(st, i, f->chains.freed_bytes);
    return end_row(f, st);
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

static hx_error *write_calls(const struct filling *f, const struct hx_callgraph *graph)
{
    HX_STATEMENT sqlite3_stmt *st = NULL;
    HX_TRY(prepare_fill(f, "INSERT INTO hx_call VALUES(?,?,?,?,?,?,?,?)", &st));
    for (size_t i = 0; i < graph->calls.n; i++) {
        const struct hx_call *call = &graph->calls.v[i];
        sqlite3_bind_int64(st, 2, centre_id(f, graph->functions.v[call->caller].centre));
        sqlite3_bind_int64(st, 3, centre_id(f, graph->functions.v[call->callee].centre));
        bind(st, 4, call->costs.calls);
        bind_classes(f, st, 5, call->costs.bytes);
        HX_TRY(end_row(f, st));
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

static hx_error *write_cycles(const struct filling *f, const struct hx_callgraph *graph,
                              const struct around *around, const int64_t *number)
{
    HX_STATEMENT sqlite3_stmt *st = NULL;
    HX_TRY(prepare_fill(f, "INSERT INTO hx_cycle VALUES(?,?,?,?,?,?,?,?,?,?,?,?,?)", &st));
    for (size_t i = 0; i < graph->cycles.n; i++) {
        const struct hx_call_cycle *cycle = &graph->cycles.v[i];
        sqlite3_bind_int64(st, 2, number[i]);
        bind(st, 3, cycle->entry);
        bind(st, 4, call_bytes(&cycle->direct));
        bind_classes(f, st, 5, cycle->direct.bytes);
        bind(st, 9, cycle->total_bytes);
        bind(st, 10, cycle->calls);
        bind(st, 11, cycle->internal_calls);
        bind(st, 12, around[i].up);
        bind(st, 13, around[i].down);
        HX_TRY(end_row(f, st));
    }
    return NULL;
}

/* --- functions ---------------------------------------------------------------------- */

static void bind_function(const struct filling *f, sqlite3_stmt *st, const struct figures *figures)
{
    bind(st, 5, figures->allocs);
    bind(st, 6, figures->bytes);
    int i = bind_classes(f, st, 7, figures->alloc_class);
    bind(st, i++, figures->kept_bytes);
    bind_classes(f, st, i, figures->kept_class);
}

/* A function is in the graph, or asks for memory itself, or both; without a graph only the latter.
 */
static hx_error *write_functions(const struct filling *f, const struct hx_callgraph *graph,
                                 const struct around *around, const int64_t *number)
{
    HX_STATEMENT sqlite3_stmt *st = NULL;
    HX_TRY(prepare_fill(
        f, "INSERT INTO hx_function VALUES(?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)", &st));
    size_t next = 0; /* in the graph, which has them by centre */
    for (hx_centre centre = 0; centre < f->a->frames->centres.n; centre++) {
        bool in_graph = next < graph->functions.n && graph->functions.v[next].centre == centre;
        if (!in_graph && !f->function[centre].there)
            continue;
        sqlite3_bind_int64(st, 2, centre_id(f, centre));
        bind_function(f, st, &f->function[centre]);
        if (in_graph) {
            const struct hx_call_function *function = &graph->functions.v[next];
            bind(st, 3, function->entry);
            if (function->cycle != HX_NO_CYCLE)
                sqlite3_bind_int64(st, 4, number[function->cycle]);
            bind(st, 16, function->total_bytes);
            bind(st, 17, function->calls);
            bind(st, 18, function->recursive);
            bind(st, 19, around[next].made);
            bind(st, 20, around[next].up);
            bind(st, 21, around[next].down);
            next++;
        }
        HX_TRY(end_row(f, st));
    }
    return NULL;
}

static hx_error *write_graph(const struct filling *f, const struct hx_callgraph *graph)
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
    HX_TRY(prepare_fill(f, "SELECT 1 FROM hx_recording WHERE snapshot = ?", &st));
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
    struct filling f = {.a = a, .snapshot = snapshot, .classes = true};
    HX_TRY(hx_mprof_tree_make(a, &f.tree));
    f.own = calloc((size_t)f.tree.n + 1, sizeof *f.own);
    f.function = calloc(a->frames->centres.n + 1, sizeof *f.function);
    hx_error *err = f.own && f.function ? fill_mprof(&f) : hx_error_nomem();
    free(f.own);
    free(f.function);
    hx_vec_free(&f.chain);
    hx_mprof_tree_deinit(&f.tree);
    return err;
}
