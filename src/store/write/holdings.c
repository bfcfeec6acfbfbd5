/* holdings.c - the holders of a snapshot into the store. */
#include "store/write/holdings.h"

#include "base/cleanup.h"
#include "base/timing.h"
#include "store/db.h"
#include "store/write/sets.h"
#include "traverse/hold/holders.h"

#include <stdlib.h>

enum { FIRST_HOLDER = HX_HOLDER_MIXED + 1 };

struct holdings {
    struct hx_writer *w;
    struct hx_holders holders;
    int64_t *number;   /* in the store, by holder; -1: it has no row */
    int64_t *retainer; /* in the store, by identity; 0: not needed */
};

bool hx_holdings_wanted(const struct hx_writer *w, const struct hx_analysis *analysis)
{
    return analysis->hold.holders && w->graph->evidence;
}

/* --- columns ----------------------------------------------------------------------- */

static void gather_round(const void *context, uint64_t from, uint64_t to, uint64_t *value)
{
    const struct hx_graph *graph = context;
    for (uint64_t i = from; i < to; i++)
        *value++ = graph->round[i];
}

static void gather_holder(const void *context, uint64_t from, uint64_t to, uint64_t *value)
{
    const struct holdings *h = context;
    for (uint64_t i = from; i < to; i++)
        *value++ = (uint64_t)h->number[h->holders.of[i]] + 1;
}

static void gather_nothing(const void *context, uint64_t from, uint64_t to, uint64_t *value)
{
    (void)context;
    memset(value, 0, (to - from) * sizeof *value);
}

/* --- rows -------------------------------------------------------------------------- */

/* Numbers have no gaps. The first two holders always have a row, others where they hold something
 * or contest it. */
static hx_error *number_holders(struct holdings *h)
{
    const struct hx_holders *holders = &h->holders;
    h->number = malloc(holders->n * sizeof *h->number);
    h->retainer = calloc(h->w->roots.n_identities + 1, sizeof *h->retainer);
    HX_NEED(h->number && h->retainer);
    for (size_t i = 0; i < holders->n; i++)
        h->number[i] = i < FIRST_HOLDER || holders->holder[i].objects ? 0 : -1;
    for (size_t i = 0; i < holders->n_contests; i++)
        h->number[holders->contest[i].other] = 0;
    int64_t next = 0;
    for (size_t i = 0; i < holders->n; i++) {
        if (h->number[i] < 0)
            continue;
        h->number[i] = next++;
        if (i >= FIRST_HOLDER)
            h->retainer[holders->holder[i].identity] = 1;
    }
    return hx_retainers_store(h->w, &h->w->roots, h->retainer);
}

static hx_error *write_holding(const struct holdings *h, size_t i)
{
    static const char *const names[FIRST_HOLDER] = {"(unreachable)", "(mixed)"};
    const struct hx_holder *holder = &h->holders.holder[i];
    const struct hx_identity *who =
        i < FIRST_HOLDER ? NULL : &h->w->roots.identity[holder->identity];
    return hx_write(
        h->w, holding, .holder = hx_int(h->number[i]), .name = hx_str(who ? who->label : names[i]),
        .kind = hx_str(who ? who->kind : NULL), .module = hx_str(who ? who->module : NULL),
        .symbol = hx_str(who ? who->symbol : NULL), .bytes = hx_int(holder->bytes),
        .objects = hx_int(holder->objects),
        .contested_bytes = hx_int_if(who, holder->contested_bytes),
        .entries = hx_int_if(who, holder->entries),
        .retainer = hx_int_if(who, who ? h->retainer[holder->identity] : 0));
}

static hx_error *write_holdings(const struct holdings *h)
{
    const struct hx_holders *holders = &h->holders;
    for (size_t i = 0; i < holders->n; i++)
        if (h->number[i] >= 0)
            HX_TRY(write_holding(h, i));
    for (size_t i = 0; i < holders->n_contests; i++) {
        const struct hx_contest *contest = &holders->contest[i];
        HX_TRY(hx_write(h->w, contest, .holder = hx_int(h->number[contest->holder]),
                        .other = hx_int(h->number[contest->other]), .bytes = hx_int(contest->bytes),
                        .objects = hx_int(contest->objects)));
    }
    return NULL;
}

static hx_error *forget_rows(struct hx_writer *w)
{
    HX_TRY(hx_analyse_forget(w, "DELETE FROM hx_holding WHERE snapshot = ?"));
    return hx_analyse_forget(w, "DELETE FROM hx_contest WHERE snapshot = ?");
}

static hx_error *holdings_add_up(const struct holdings *h)
{
    uint64_t bytes = 0, objects = 0;
    for (size_t i = 0; i < h->holders.n; i++) {
        bytes += h->holders.holder[i].bytes;
        objects += h->holders.holder[i].objects;
    }
    return hx_analyse_is_heap(h->w, bytes, objects, "holders");
}

/* --- all of it --------------------------------------------------------------------- */

static hx_error *find_holdings(struct holdings *h, const struct hx_analysis *analysis)
{
    struct hx_writer *w = h->w;
    HX_TRY(hx_analyse_roots(w, analysis));
    uint64_t begun = hx_timing_begin();
    HX_TRY(hx_writer_leave(w));
    HX_TRY(hx_writer_enter(w, hx_holders_find(w->snapshot, &w->roots, &analysis->hold,
                                              analysis->threads, w->progress, &h->holders)));
    hx_timing_end(begun, "holders", w->graph->n);
    HX_TRY(holdings_add_up(h));
    HX_TRY(forget_rows(w));
    HX_TRY(number_holders(h));
    HX_TRY(write_holdings(h));
    HX_TRY(hx_analyse_column(w, HX_COL_ROUND, gather_round, w->graph));
    return hx_analyse_column(w, HX_COL_HOLDER, gather_holder, h);
}

/* By identity, which is what sets speak of. */
static hx_error *keep_numbers(const struct holdings *h)
{
    struct hx_writer *w = h->w;
    w->n_holding = w->roots.n_identities;
    w->holding = calloc(w->n_holding + 1, sizeof *w->holding);
    HX_NEED(w->holding);
    for (size_t i = FIRST_HOLDER; i < h->holders.n; i++)
        w->holding[h->holders.holder[i].identity] = h->number[i];
    return NULL;
}

hx_error *hx_analyse_holdings(struct hx_writer *w, const struct hx_analysis *analysis)
{
    struct holdings h = {.w = w};
    hx_error *err = find_holdings(&h, analysis);
    if (!err)
        err = keep_numbers(&h);
    free(h.number);
    free(h.retainer);
    hx_holders_deinit(&h.holders);
    return err;
}

hx_error *hx_holdings_forget(struct hx_writer *w)
{
    if (w->adding)
        return NULL;
    HX_TRY(forget_rows(w));
    if (!w->graph->evidence)
        return NULL;
    HX_TRY(hx_analyse_column(w, HX_COL_ROUND, gather_nothing, NULL));
    return hx_analyse_column(w, HX_COL_HOLDER, gather_nothing, NULL);
}

/* --- what is held alone ------------------------------------------------------------ */

/* For each set the row of the holder that is its only member; -1: none. */
static hx_error *find_lone_holders(const struct hx_writer *w, const hx_sets *sets, int64_t **ret)
{
    hx_set n = hx_sets_count(sets);
    int64_t *lone = malloc(((size_t)n + 1) * sizeof *lone);
    HX_NEED(lone);
    for (hx_set set = 0; set < n; set++) {
        const hx_retainer *element;
        bool one = hx_sets_elements(sets, set, &element) == 1 && *element < w->n_holding;
        lone[set] = one ? w->holding[*element] : -1;
    }
    *ret = lone;
    return NULL;
}

static hx_error *sum_alone(struct hx_writer *w, const int64_t *lone, const hx_set *set,
                           uint64_t *bytes)
{
    for (size_t b = 0; b < w->objects.n; b++) {
        const struct hx_object_block *block = &w->objects.v[b];
        HX_TRY(hx_analyse_read_back(w, block, HX_COL_HOLDER));
        for (uint64_t i = block->from; i < block->to; i++) {
            int64_t row = lone[set[i]];
            if (row >= 0 && (uint64_t)row + 1 == w->value[i - block->from])
                bytes[row] += w->graph->size[i];
        }
        if (hx_progress_cancelled(w->progress))
            return hx_error_cancelled(w->what);
    }
    return NULL;
}

hx_error *hx_holdings_alone(struct hx_writer *w, const hx_sets *sets,
                            const struct hx_retention *retention)
{
    HX_FREE int64_t *lone = NULL;
    HX_FREE uint64_t *bytes = calloc(w->n_holding + FIRST_HOLDER, sizeof *bytes);
    HX_STATEMENT sqlite3_stmt *st = NULL;
    HX_NEED(bytes);
    HX_TRY(find_lone_holders(w, sets, &lone));
    HX_TRY(sum_alone(w, lone, retention->set, bytes));
    HX_TRY(hx_db_prepare(w->db, w->what,
                         "UPDATE hx_holding SET alone_bytes = ?1 WHERE snapshot = ?2"
                         " AND holder = ?3",
                         &st));
    for (size_t i = 0; i < w->n_holding; i++) {
        if (w->holding[i] < FIRST_HOLDER)
            continue;
        sqlite3_bind_int64(st, 1, (int64_t)bytes[w->holding[i]]);
        sqlite3_bind_int64(st, 2, w->id);
        sqlite3_bind_int64(st, 3, w->holding[i]);
        HX_TRY(hx_db_run(w->db, w->what, st));
    }
    return NULL;
}

hx_error *hx_holdings_alone_apart(struct hx_writer *w, const struct hx_analysis *analysis)
{
    struct hx_retention retention = {0};
    hx_sets *sets = NULL;
    HX_TRY(hx_analyse_roots(w, analysis));
    HX_TRY(hx_writer_leave(w));
    hx_error *err = hx_sets_create(1, &sets);
    if (!err)
        err = hx_retain(w->snapshot, &w->roots.rule, sets, w->progress, &retention);
    err = hx_writer_enter(w, err);
    if (!err)
        err = hx_holdings_alone(w, sets, &retention);
    hx_retention_deinit(&retention);
    hx_sets_destroy(sets);
    return err;
}
