/* check.c - `heapx check TARGET 'EXPR'...`: does a condition hold? For scripts. */
#include "base/cleanup.h"
#include "base/vec.h"
#include "cli/commands.h"
#include "cli/take.h"
#include "cli/view.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { SHOWN = 160 }; /* bytes of a condition in a message */

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
    if (!views.name)
        return hx_error_nomem();
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

static hx_error *parse(const struct hx_args *args, struct checks *checks)
{
    struct hx_filter_schema schema;
    hx_view_schema(NULL, &schema);
    checks->filter = calloc(args->n_words, sizeof *checks->filter);
    if (!checks->filter)
        return hx_error_nomem();
    for (size_t i = 1; i < args->n_words; i++) {
        char what[32];
        struct views views;
        snprintf(what, sizeof what, "condition %zu", i);
        const char *text = args->word[i];
        HX_TRY(hx_where_word(strlen(text) <= SHOWN ? text : what, text, &schema,
                             &checks->filter[checks->n]));
        HX_TRY(views_of(checks->filter[checks->n++], &views));
        for (size_t j = 0; j < views.n; j++)
            checks->parts |= hx_view_parts(views.name[j]);
        free(views.name);
    }
    return NULL;
}

static bool has_snapshots(const char *view)
{
    struct hx_filter_schema schema;
    if (hx_view_schema(view, &schema))
        for (size_t i = 0; i < schema.n; i++)
            if (strcmp(schema.columns[i].name, "snapshot") == 0)
                return true;
    return false;
}

/* Any row of each view beside the one of the snapshot. An empty view counts as one row of NULLs,
 * so that what is said of others is still looked at. */
static void put_question(const hx_filter *filter, const struct views *views, int64_t snapshot,
                         struct hx_text *sql)
{
    hx_text_puts(sql, "SELECT EXISTS(SELECT 1 FROM snapshots");
    for (size_t i = 0; i < views->n; i++) {
        const char *name = views->name[i];
        hx_text_putf(sql, " LEFT JOIN \"%s\" ON \"%s\".", name, name);
        if (has_snapshots(name))
            hx_text_putf(sql, "snapshot = %" PRId64, snapshot);
        else /* members of sets that the snapshot has */
            hx_text_putf(
                sql, "set_id IN (SELECT r.set_id FROM retainers r WHERE r.snapshot = %" PRId64 ")",
                snapshot);
    }
    hx_text_putf(sql, " WHERE snapshots.snapshot = %" PRId64 " AND (", snapshot);
    hx_filter_sql(filter, sql);
    hx_text_puts(sql, "))");
}

/* The first value of the answer, which has one row. */
static hx_error *ask(hx_store *store, const char *sql, bool *ret)
{
    hx_rows *rows;
    bool more;
    HX_TRY(hx_query_sql(store, sql, &rows));
    hx_interrupts_end_queries(store);
    hx_error *err = hx_rows_next(rows, &more);
    hx_interrupts_end_queries(NULL);
    if (!err)
        *ret = more && hx_rows_value(rows, 0).i != 0;
    hx_rows_end(rows);
    return err;
}

static hx_error *evaluate(hx_store *store, int64_t snapshot, const hx_filter *filter, bool *ret)
{
    struct views views;
    struct hx_text sql = {0};
    HX_TRY(views_of(filter, &views));
    put_question(filter, &views, snapshot, &sql);
    hx_error *err = sql.failed ? hx_error_nomem() : ask(store, hx_text_str(&sql), ret);
    hx_text_free(&sql);
    free(views.name);
    return err;
}

static hx_error *add_answer(hx_rows *rows, const hx_filter *filter, bool holds)
{
    const char *source = hx_filter_source(filter);
    struct hx_value values[] = {
        {.type = HX_VALUE_TEXT, .text = source, .text_bytes = strlen(source)},
        {.type = HX_VALUE_INT, .i = holds},
    };
    return hx_rows_add(rows, values);
}

/* A snapshot that is not complete may not have what a condition asks for. */
static hx_error *is_partial(hx_store *store, int64_t snapshot, bool *ret)
{
    char sql[96];
    snprintf(sql, sizeof sql, "SELECT complete = 0 FROM snapshots WHERE snapshot = %" PRId64,
             snapshot);
    return ask(store, sql, ret);
}

static hx_error *answer(const struct hx_args *args, const struct checks *checks, hx_store *store,
                        int *status)
{
    static const char *const names[] = {"condition", "holds"};
    int64_t snapshot;
    bool any = false, partial;
    HX_TRY(hx_store_resolve(store, args->snapshot, &snapshot));
    HX_TRY(is_partial(store, snapshot, &partial));
    hx_rows *rows;
    HX_TRY(hx_rows_create(names, sizeof names / sizeof *names, &rows));
    hx_error *err = NULL;
    for (size_t i = 0; i < checks->n && !err; i++) {
        bool holds = false;
        err = evaluate(store, snapshot, checks->filter[i], &holds);
        if (!err)
            err = add_answer(rows, checks->filter[i], holds);
        any |= holds;
    }
    if (!err)
        err = hx_rows_print(rows, args->format, stdout);
    hx_rows_end(rows);
    *status = any ? HX_EXIT_HOLDS : partial ? HX_EXIT_PARTIAL : HX_EXIT_DONE;
    return err;
}

hx_error *hx_cmd_check(const struct hx_args *args, int *status)
{
    HX_CLEANUP(deinit_checks) struct checks checks = {0};
    if (strcmp(args->snapshot, "all") == 0)
        return hx_error_new(HX_E_USAGE, "--snapshot", "give a number, first or last",
                            "check looks at one snapshot");
    HX_TRY(parse(args, &checks));
    HX_CONSOLE struct hx_console console;
    hx_console_init(&console);
    HX_STORE hx_store *store = NULL;
    bool partial;
    HX_TRY(hx_target_open(args, &console, args->word[0], checks.parts, &store, &partial));
    hx_console_clear(&console);
    return answer(args, &checks, store, status);
}
