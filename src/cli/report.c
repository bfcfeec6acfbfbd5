/* report.c - `heapx report TARGET VIEW`. */
#include "base/cleanup.h"
#include "base/nearest.h"
#include "cli/commands.h"
#include "cli/take/take.h"
#include "cli/words/suppressions_option.h"
#include "cli/words/view.h"
#include "store/cost/mprof.h"
#include "store/print/print_centres.h"
#include "store/query/histogram.h"
#include "store/query/named.h"
#include "store/schema/measured.h"

#include <stdio.h>
#include <string.h>

/* The condition of --where in SQL; *sql is the caller's. */
static hx_error *parse_where(const char *view, const char *where, char **sql)
{
    struct hx_filter_schema schema = hx_histogram_schema;
    if (strcmp(view, "histogram") != 0 && !hx_view_schema(view, &schema))
        return hx_error_new(HX_E_USAGE, "--where", "leave it out", "%s has no columns to ask for",
                            view);
    HX_FILTER hx_filter *filter = NULL;
    HX_TRY(hx_where_word("--where", where, &schema, &filter));
    struct hx_text text = {0};
    hx_filter_sql(filter, &text);
    if (text.failed) {
        hx_text_free(&text);
        return hx_error_nomem();
    }
    *sql = text.s;
    return NULL;
}

/* mprof's tables have a form of their own for people. */
static hx_error *print_mprof(const struct hx_args *args, hx_store *store,
                             const struct hx_query *query)
{
    enum hx_mprof_level level = args->terse     ? HX_MPROF_TERSE
                                : args->verbose ? HX_MPROF_VERBOSE
                                                : HX_MPROF_NORMAL;
    hx_rows *rows = NULL;
    if (args->format == HX_FORMAT_TEXT)
        return hx_mprof_print(store, query, level, stdout);
    HX_TRY(hx_query_mprof(store, query, level, &rows));
    return hx_print_rows(store, rows, args->format);
}

/* Of what suppressions change, and of what can be written as some. */
static hx_error *check_view(const struct hx_args *args)
{
    const char *view = args->word[1];
    if (args->as_suppressions && strcmp(view, "leaks") != 0)
        return hx_error_new(HX_E_USAGE, view, "ask for: leaks", "only leaks can be suppressed");
    if (args->n_suppressions && strcmp(view, "leaks") != 0 && strcmp(view, "snapshots") != 0)
        return hx_error_new(HX_E_USAGE, "--suppressions", "ask for leaks or snapshots",
                            "nothing of them is taken out of %s", view);
    return NULL;
}

/* --of and --by choose a tree, and say what a histogram is of. */
static hx_error *check_of(const struct hx_args *args, const char **view)
{
    if (strcmp(*view, "histogram") == 0)
        return NULL;
    if (args->by)
        return hx_error_new(HX_E_USAGE, "--by", "leave it out", "it is for histogram");
    if (!args->of)
        return NULL;
    if (strcmp(*view, "tree") != 0)
        return hx_error_new(HX_E_USAGE, "--of", "leave it out", "it is for tree and histogram");
    if (strcmp(args->of, "holders") == 0)
        *view = "holder_tree";
    else if (strcmp(args->of, "dominators") != 0)
        return hx_error_new(HX_E_USAGE, "--of", "say holders or dominators", "'%s' is no tree",
                            args->of);
    return NULL;
}

/* --- histogram ----------------------------------------------------------------------- */

static const char *next_word(void *context)
{
    const char *const **cursor = context;
    return **cursor ? *(*cursor)++ : NULL;
}

static hx_error *check_by(const char *by)
{
    const char *const *word = hx_histogram_words;
    for (; *word; word++)
        if (strcmp(*word, by) == 0)
            return NULL;
    const char *const *cursor = hx_histogram_words;
    const char *near = hx_nearest(by, next_word, &cursor);
    char todo[64] = "one of type, shape, size, site, age, state";
    if (near)
        snprintf(todo, sizeof todo, "did you mean %s?", near);
    return hx_error_new(HX_E_USAGE, "--by", todo, "'%s' is none of a histogram", by);
}

static hx_error *refuse_condition(hx_error *err)
{
    if (!err || err->kind != HX_E_USAGE)
        return err;
    hx_error *told = hx_error_new(HX_E_USAGE, "--of", err->todo, "%s", err->why);
    hx_error_free(err);
    return told;
}

/* The filter language tells what is no column. */
static hx_error *check_sort(const char *column)
{
    const struct hx_filter_schema *schema = &hx_histogram_schema;
    for (size_t i = 0; i < schema->n; i++)
        if (!column || strcmp(schema->columns[i].name, column) == 0)
            return NULL;
    return hx_error_new(HX_E_USAGE, column, "the columns are: snapshot, key, bytes, objects",
                        "histogram has no such column");
}

static hx_error *print_histogram(const struct hx_args *args, hx_store *store,
                                 const struct hx_query *query)
{
    struct hx_histogram histogram = {.of = args->of, .by = args->by ? args->by : "type"};
    if (args->format == HX_FORMAT_TEXT && strcmp(histogram.by, "type") == 0)
        histogram.by = HX_HISTOGRAM_NAMES;
    hx_rows *rows = NULL;
    HX_TRY(refuse_condition(hx_query_histogram(store, &histogram, query, &rows)));
    return hx_print_rows(store, rows, args->format);
}

/* Who has the names that holders lack; people are told. */
static hx_error *tell_nameless(struct hx_console *console, hx_store *store, int64_t snapshot)
{
    HX_ROWS hx_rows *rows = NULL;
    bool more;
    HX_TRY(hx_query_named(store, HX_QUERY_nameless, HX_QUERY_ARGS(.snapshot = snapshot), &rows));
    for (;;) {
        HX_TRY(hx_rows_next(rows, &more));
        if (!more)
            return NULL;
        hx_say(console, hx_rows_value(rows, 0).text, "its variables have no names here: %s",
               hx_rows_value(rows, 1).text);
    }
}

/* --- all of it ----------------------------------------------------------------------- */

hx_error *hx_cmd_report(const struct hx_args *args, int *status)
{
    HX_FREE char *column = NULL, *where = NULL;
    struct hx_query query = {
        .view = args->word[1], .limit = -1, .brief = args->format == HX_FORMAT_TEXT};
    bool histogram = strcmp(query.view, "histogram") == 0;
    if (!histogram)
        HX_TRY(hx_view_word(query.view));
    else if (args->by)
        HX_TRY(check_by(args->by));
    HX_TRY(check_view(args));
    HX_TRY(check_of(args, &query.view));
    if (args->given & HX_OPTS_LEVELS && !hx_mprof_is_view(query.view))
        return hx_error_new(HX_E_USAGE, query.view, "leave it out",
                            "--terse, --normal and --verbose are for mprof's tables");
    if (hx_args_given(args, HX_OPT_VISITS) && strcmp(query.view, "censuses") != 0)
        return hx_error_new(HX_E_USAGE, query.view, "leave it out", "--visits is for censuses");
    if (args->sort) {
        HX_TRY(hx_sort_word(args->sort, &column, &query.ascending));
        query.sort = column;
        if (histogram)
            HX_TRY(check_sort(column));
    }
    if (args->where) {
        HX_TRY(parse_where(query.view, args->where, &where));
        query.where = where;
    }
    if (hx_args_given(args, HX_OPT_LIMIT))
        query.limit = (int64_t)args->limit;

    HX_SUPPRESSIONS hx_suppressions *known = NULL;
    HX_TRY(hx_suppress_read(args, &known));
    HX_CONSOLE struct hx_console console;
    hx_console_init(&console);
    HX_STORE hx_store *store = NULL;
    bool partial;
    unsigned parts = histogram ? HX_ANALYSE_ALL : hx_view_parts(query.view);
    parts |= hx_words_parts(args->sort) | hx_words_parts(args->where);
    HX_TRY(hx_target_open(args, &console, args->word[0], parts, &store, &partial));
    if (strcmp(args->snapshot, "all") != 0)
        HX_TRY(hx_store_resolve(store, args->snapshot, &query.snapshot));
    HX_TRY(hx_suppress_apply(&console, store, query.snapshot, known));
    hx_console_clear(&console);
    if (partial)
        *status = HX_EXIT_PARTIAL;
    if (histogram)
        return print_histogram(args, store, &query);
    HX_TRY(hx_query_recorded(store, args->word[0], &query));
    if (hx_mprof_is_view(query.view))
        return print_mprof(args, store, &query);
    HX_TRY(hx_query_measured(store, args->word[0], &query));
    if (args->format == HX_FORMAT_TEXT && hx_centres_is_view(query.view))
        return hx_centres_print(store, &query, stdout);
    hx_rows *rows = NULL;
    HX_TRY(hx_query_view(store, &query, &rows));
    HX_TRY(args->as_suppressions ? hx_suppress_print(rows)
                                 : hx_print_rows(store, rows, args->format));
    return args->format == HX_FORMAT_TEXT && strcmp(query.view, "holders") == 0
               ? tell_nameless(&console, store, query.snapshot)
               : NULL;
}
