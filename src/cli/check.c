/* check.c - `heapx check TARGET 'EXPR'...`: does a condition hold? For scripts. */
#include "base/cleanup.h"
#include "base/vec.h"
#include "cli/commands.h"
#include "cli/take/take.h"
#include "cli/words/suppressions_option.h"
#include "cli/words/view.h"
#include "store/query/condition.h"
#include "store/query/named.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum {
    SHOWN = 160, /* bytes of a condition in a message */
    ROWS = 5,    /* that make a condition hold */
    COUNTED = 9999,
};

struct checks {
    hx_filter **filter;
    size_t n;
    unsigned parts; /* what has to be worked out for the views that they name */
};

static void deinit_checks(struct checks *checks)
{
    for (size_t i = 0; i < checks->n; i++)
        hx_filter_destroy(checks->filter[i]);
    free(checks->filter);
}

/* The views that a condition reads, each once; the row of `snapshots` is always there. */
struct views {
    const char **name;
    size_t n;
};

static hx_error *views_of(const hx_filter *filter, struct views *ret)
{
    const struct hx_filter_column *column;
    size_t columns = hx_filter_columns(filter, &column);
    struct views views = {.name = calloc(columns + 1, sizeof *views.name)};
    HX_NEED(views.name);
    for (size_t i = 0; i < columns; i++) {
        bool known = strcmp(column[i].view, "snapshots") == 0;
        for (size_t j = 0; j < views.n && !known; j++)
            known = strcmp(views.name[j], column[i].view) == 0;
        if (!known)
            views.name[views.n++] = column[i].view;
    }
    *ret = views;
    return NULL;
}

static hx_error *parse_checks(const struct hx_args *args, struct checks *checks)
{
    struct hx_filter_schema schema;
    hx_view_schema(NULL, &schema);
    checks->filter = calloc(args->n_words, sizeof *checks->filter);
    HX_NEED(checks->filter);
    for (size_t i = 1; i < args->n_words; i++) {
        char what[32];
        struct views views;
        snprintf(what, sizeof what, "condition %zu", i);
        const char *text = args->word[i];
        HX_TRY(hx_where_word(strlen(text) <= SHOWN ? text : what, text, &schema,
                             &checks->filter[checks->n]));
        HX_TRY(views_of(checks->filter[checks->n++], &views));
        for (size_t j = 0; j < views.n; j++)
            checks->parts |= hx_view_parts(views.name[j]) | hx_words_parts(text);
        free(views.name);
    }
    return NULL;
}

/* --- a condition over several views ------------------------------------------------- */

/* Two large views have far too many pairs of rows. But a comparison that reads one view only is
 * true or false by that view's row alone, so that of each view nothing matters but which of
 * its comparisons hold together: a few combinations, found in one pass. */
enum { COMBINATIONS = 1 << 16, PRODUCTS = 1 << 24 };

struct view_truth {
    const char *view;    /* NULL: the snapshot's row */
    HX_VEC(size_t) part; /* the comparisons */
    HX_VEC(bool) holds;  /* part.n for each combination */
    size_t n, at;        /* combinations; the one that is looked at */
    bool too_many;
};

struct truths {
    struct view_truth *v;
    size_t n;
};

static void deinit_truths(struct truths *truths)
{
    for (size_t i = 0; truths->v && i < truths->n; i++) {
        hx_vec_free(&truths->v[i].part);
        hx_vec_free(&truths->v[i].holds);
    }
    free(truths->v);
}

/* Gives each comparison to its view; *ret_apart false: one compares two views. */
static hx_error *part_by_view(const hx_filter *filter, const struct views *views,
                              struct truths *truths, bool *ret_apart)
{
    truths->n = views->n + 1;
    truths->v = calloc(truths->n, sizeof *truths->v);
    HX_NEED(truths->v);
    for (size_t i = 0; i < views->n; i++)
        truths->v[i + 1].view = views->name[i];
    *ret_apart = true;
    for (size_t i = 0; i < hx_filter_parts(filter); i++) {
        struct hx_filter_part part = hx_filter_part(filter, i);
        size_t to = 0;
        for (size_t j = 1; part.view && j < truths->n; j++)
            if (strcmp(truths->v[j].view, part.view) == 0)
                to = j;
        *ret_apart &= !part.two_views;
        if (part.is_test)
            HX_NEED(hx_vec_push(&truths->v[to].part, i));
    }
    return NULL;
}

static hx_error *take_combinations(hx_rows *rows, struct view_truth *truth)
{
    bool more = true;
    while (!truth->too_many) {
        HX_TRY(hx_rows_next(rows, &more));
        if (!more)
            break;
        for (size_t i = 0; i < truth->part.n; i++)
            HX_NEED(hx_vec_push(&truth->holds, hx_rows_value(rows, i).i != 0));
        truth->too_many = ++truth->n > COMBINATIONS;
    }
    return NULL;
}

static hx_error *find_combinations(hx_store *store, int64_t snapshot, const hx_filter *filter,
                                   struct view_truth *truth)
{
    if (!truth->part.n) {
        truth->n = 1;
        return NULL;
    }
    hx_rows *rows = NULL;
    HX_TRY(hx_condition_combinations(store, &(struct hx_condition){filter, snapshot}, truth->view,
                                     truth->part.v, truth->part.n, &rows));
    hx_interrupts_end_queries(store);
    hx_error *err = take_combinations(rows, truth);
    hx_interrupts_end_queries(NULL);
    hx_rows_end(rows);
    return err;
}

/* The next choice of one combination of each view; false after the last. */
static bool next_choice(struct truths *truths)
{
    for (size_t i = 0; i < truths->n; i++) {
        if (++truths->v[i].at < truths->v[i].n)
            return true;
        truths->v[i].at = 0;
    }
    return false;
}

static hx_error *try_choices(const hx_filter *filter, struct truths *truths, bool *ret)
{
    HX_FREE bool *holds = calloc(hx_filter_parts(filter), sizeof *holds);
    HX_NEED(holds);
    *ret = false;
    do {
        for (size_t i = 0; i < truths->n; i++) {
            const struct view_truth *truth = &truths->v[i];
            for (size_t j = 0; j < truth->part.n; j++)
                holds[truth->part.v[j]] = truth->holds.v[truth->at * truth->part.n + j];
        }
        *ret = hx_filter_holds_by(filter, holds);
    } while (!*ret && next_choice(truths));
    return NULL;
}

/* *ret_done false: it has to be asked as one question. */
static hx_error *evaluate_apart(hx_store *store, int64_t snapshot, const hx_filter *filter,
                                const struct views *views, bool *ret, bool *ret_done)
{
    HX_CLEANUP(deinit_truths) struct truths truths = {0};
    *ret_done = false;
    bool apart = true;
    HX_TRY(part_by_view(filter, views, &truths, &apart));
    size_t products = 1;
    for (size_t i = 0; i < truths.n && apart; i++) {
        HX_TRY(find_combinations(store, snapshot, filter, &truths.v[i]));
        products *= truths.v[i].n; /* at most 2^24 times 2^16 */
        apart = !truths.v[i].too_many && products <= PRODUCTS;
    }
    if (!apart || !products)
        return NULL;
    *ret_done = true;
    return try_choices(filter, &truths, ret);
}

/* --- the answers --------------------------------------------------------------------- */

/* The first number of the answer, which has one row; ends it. */
static hx_error *read_answer(hx_store *store, hx_rows *rows, int64_t *ret)
{
    bool more = false;
    hx_interrupts_end_queries(store);
    hx_error *err = hx_rows_next(rows, &more);
    hx_interrupts_end_queries(NULL);
    *ret = !err && more ? hx_rows_value(rows, 0).i : 0;
    hx_rows_end(rows);
    return err;
}

static hx_error *evaluate_views(hx_store *store, int64_t snapshot, const hx_filter *filter,
                                const struct views *views, bool *ret)
{
    bool done = false;
    if (views->n > 1)
        HX_TRY(evaluate_apart(store, snapshot, filter, views, ret, &done));
    if (done)
        return NULL;
    hx_rows *rows;
    int64_t holds;
    HX_TRY(hx_condition_ask(store, &(struct hx_condition){filter, snapshot}, views->name, views->n,
                            &rows));
    HX_TRY(read_answer(store, rows, &holds));
    *ret = holds;
    return NULL;
}

static hx_error *evaluate_condition(hx_store *store, int64_t snapshot, const hx_filter *filter,
                                    bool *ret)
{
    struct views views;
    HX_TRY(views_of(filter, &views));
    hx_error *err = evaluate_views(store, snapshot, filter, &views, ret);
    free(views.name);
    return err;
}

static hx_error *add_answer(hx_rows *rows, const char *source, bool holds)
{
    struct hx_value values[] = {
        {.type = HX_VALUE_TEXT, .text = source, .text_bytes = strlen(source)},
        {.type = HX_VALUE_INT, .i = holds},
    };
    return hx_rows_add(rows, values);
}

/* --- why it holds ------------------------------------------------------------------- */

static bool speaks_of_leaks(const hx_filter *filter)
{
    const struct hx_filter_column *column;
    size_t n = hx_filter_columns(filter, &column);
    for (size_t i = 0; i < n; i++)
        if (strcmp(column[i].name, "leaked_bytes") == 0 ||
            strcmp(column[i].name, "leaked_objects") == 0)
            return true;
    return false;
}

/* The view whose rows make it hold, when it speaks of one, or of what is lost; NULL: none. */
static hx_error *find_why(const hx_filter *filter, const char **ret, bool *ret_leaks)
{
    struct views views;
    HX_TRY(views_of(filter, &views));
    *ret_leaks = views.n == 0 && speaks_of_leaks(filter);
    *ret = views.n == 1 ? views.name[0] : *ret_leaks ? "leaks" : NULL;
    free(views.name);
    return NULL;
}

static hx_error *print_why(hx_store *store, const struct hx_condition *condition, const char *view,
                           const char *source)
{
    hx_rows *rows = NULL;
    int64_t n;
    HX_TRY(hx_condition_rows(store, condition, view, ROWS, &rows));
    struct hx_text shown = {0};
    hx_text_escape(&shown, source, strlen(source), false);
    printf("\n%s holds by these %s:\n", hx_text_str(&shown), view);
    hx_text_free(&shown);
    HX_TRY(hx_print_rows(store, rows, HX_FORMAT_TEXT));
    HX_TRY(hx_condition_count(store, condition, view, COUNTED + 1, &rows));
    HX_TRY(read_answer(store, rows, &n));
    if (n > COUNTED)
        printf("(the first %d of more than %d)\n", ROWS, COUNTED);
    else if (n > ROWS)
        printf("(the first %d of %" PRId64 ")\n", ROWS, n);
    return NULL;
}

/* For people: what made conditions hold, the largest rows of each. */
static hx_error *tell_why(hx_store *store, int64_t snapshot, const hx_filter *filter)
{
    const char *view;
    bool leaks;
    HX_TRY(find_why(filter, &view, &leaks));
    const struct hx_condition condition = {leaks ? NULL : filter, snapshot};
    return view ? print_why(store, &condition, view, hx_filter_source(filter)) : NULL;
}

/* --- all of them -------------------------------------------------------------------- */

/* A snapshot that is not complete may not have what a condition asks for. */
static hx_error *is_partial(hx_store *store, int64_t snapshot, bool *ret)
{
    int64_t complete = 1;
    HX_TRY(hx_query_number(store, HX_QUERY_snapshot_value,
                           HX_QUERY_ARGS(.snapshot = snapshot, .column = "complete"), &complete));
    *ret = !complete;
    return NULL;
}

/* An entry that is not needed any more, or is not enough, holds like a condition. */
static hx_error *add_unused(hx_rows *rows, const hx_suppressions *known, bool *any)
{
    for (size_t i = 0; i < hx_suppressions_count(known); i++) {
        const struct hx_suppression *entry = hx_suppressions_at(known, i);
        if (entry->objects && !entry->over_objects)
            continue;
        struct hx_text text = {0};
        hx_text_putf(&text, "suppression %s %s", entry->name,
                     entry->over_objects ? "is above its limit" : "matches nothing");
        hx_error *err = text.failed ? hx_error_nomem() : add_answer(rows, hx_text_str(&text), true);
        hx_text_free(&text);
        HX_TRY(err);
        *any = true;
    }
    return NULL;
}

/* *ret_holds: of each condition. */
static hx_error *evaluate_all(hx_store *store, int64_t snapshot, const struct checks *checks,
                              hx_rows *rows, bool *ret_holds)
{
    for (size_t i = 0; i < checks->n; i++) {
        HX_TRY(evaluate_condition(store, snapshot, checks->filter[i], &ret_holds[i]));
        HX_TRY(add_answer(rows, hx_filter_source(checks->filter[i]), ret_holds[i]));
    }
    return NULL;
}

static hx_error *is_null(void *context, hx_rows *row)
{
    *(bool *)context = hx_rows_value(row, 0).type == HX_VALUE_NULL;
    return NULL;
}

/* A comparison with what was not measured is false, which must not be taken for good news. */
static hx_error *tell_unknown(hx_store *store, int64_t snapshot, const hx_filter *filter)
{
    const struct hx_filter_column *column;
    size_t n = hx_filter_columns(filter, &column);
    for (size_t i = 0; i < n; i++) {
        bool unknown = false;
        if (strcmp(column[i].view, "snapshots") != 0 || strcmp(column[i].name, "notes") == 0)
            continue;
        HX_TRY(hx_query_each(store, HX_QUERY_snapshot_value,
                             HX_QUERY_ARGS(.snapshot = snapshot, .column = column[i].name), is_null,
                             &unknown));
        if (unknown)
            hx_say(NULL, hx_filter_source(filter), "%s is not known in snapshot %" PRId64,
                   column[i].name, snapshot);
    }
    return NULL;
}

static hx_error *run_checks(const struct hx_args *args, const struct checks *checks,
                            hx_store *store, int64_t snapshot, const hx_suppressions *known,
                            int *status)
{
    static const char *const names[] = {"condition", "holds"};
    bool any = false, partial;
    HX_FREE bool *holds = calloc(checks->n + 1, sizeof *holds);
    HX_NEED(holds);
    HX_TRY(is_partial(store, snapshot, &partial));
    hx_rows *rows;
    HX_TRY(hx_rows_create(names, sizeof names / sizeof *names, &rows));
    hx_error *err = evaluate_all(store, snapshot, checks, rows, holds);
    if (!err && args->strict)
        err = add_unused(rows, known, &any);
    if (!err)
        err = hx_rows_print(rows, args->format, stdout);
    hx_rows_end(rows);
    for (size_t i = 0; i < checks->n && !err; i++) {
        any |= holds[i];
        if (!holds[i])
            err = tell_unknown(store, snapshot, checks->filter[i]);
        else if (args->format == HX_FORMAT_TEXT)
            err = tell_why(store, snapshot, checks->filter[i]);
    }
    *status = any ? HX_EXIT_HOLDS : partial ? HX_EXIT_PARTIAL : HX_EXIT_DONE;
    return err;
}

hx_error *hx_cmd_check(const struct hx_args *args, int *status)
{
    HX_CLEANUP(deinit_checks) struct checks checks = {0};
    HX_SUPPRESSIONS hx_suppressions *known = NULL;
    int64_t snapshot;
    if (strcmp(args->snapshot, "all") == 0)
        return hx_error_new(HX_E_USAGE, "--snapshot", "give a number, first or last",
                            "check looks at one snapshot");
    HX_TRY(parse_checks(args, &checks));
    HX_TRY(hx_suppress_read(args, &known));
    HX_CONSOLE struct hx_console console;
    hx_console_init(&console);
    HX_STORE hx_store *store = NULL;
    bool partial;
    HX_TRY(hx_target_open(args, &console, args->word[0], checks.parts, &store, &partial));
    HX_TRY(hx_store_resolve(store, args->snapshot, &snapshot));
    HX_TRY(hx_suppress_apply(&console, store, snapshot, known));
    hx_console_clear(&console);
    return run_checks(args, &checks, store, snapshot, known, status);
}
