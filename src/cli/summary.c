/* summary.c - the most telling views of a snapshot, for people. */
#include "cli/summary.h"

#include "base/cleanup.h"
#include "base/text.h"
#include "store/query/named.h"
#include "store/schema/measured.h"

#include <string.h>

enum { ROWS_SHOWN = 10 };

/* The one row of `snapshots`; stays valid as long as *ret. */
static hx_error *snapshot_row(hx_store *store, int64_t snapshot, hx_rows **ret)
{
    struct hx_query query = {.view = "snapshots", .snapshot = snapshot, .limit = 1};
    HX_ROWS hx_rows *rows = NULL;
    bool more;
    HX_TRY(hx_query_view(store, &query, &rows));
    HX_TRY(hx_rows_next(rows, &more));
    if (!more)
        return hx_error_new(HX_E_ABSENT, "snapshot", "see: heapx report FILE snapshots",
                            "there is no number %lld", (long long)snapshot);
    *ret = hx_steal(rows);
    return NULL;
}

static struct hx_value row_value(const hx_rows *rows, const char *column)
{
    for (size_t i = 0; i < hx_rows_columns(rows); i++)
        if (strcmp(hx_rows_name(rows, i), column) == 0)
            return hx_rows_value(rows, i);
    return (struct hx_value){.type = HX_VALUE_NULL};
}

static void put_text_column(struct hx_text *text, const hx_rows *rows, const char *column)
{
    struct hx_value value = row_value(rows, column);
    if (value.type == HX_VALUE_TEXT && value.text_bytes)
        hx_text_escape(text, value.text, value.text_bytes, false);
    else
        hx_text_putc(text, '-');
}

static void put_figure_column(struct hx_text *text, const hx_rows *rows, const char *column,
                              char *(*human)(uint64_t, char[HX_HUMAN]), uint64_t unit)
{
    struct hx_value value = row_value(rows, column);
    char buf[HX_HUMAN];
    hx_text_puts(text, value.type == HX_VALUE_INT ? human((uint64_t)value.i * unit, buf) : "-");
}

static void put_part(struct hx_text *text, const hx_rows *rows, const char *name, const char *bytes,
                     const char *objects)
{
    hx_text_putf(text, "%-10s ", name);
    put_figure_column(text, rows, bytes, hx_human_bytes, 1);
    if (objects) {
        struct hx_value value = row_value(rows, objects);
        if (value.type == HX_VALUE_INT)
            hx_text_putf(text, " in %lld objects", (long long)value.i);
    }
    hx_text_putc(text, '\n');
}

static hx_error *flush_summary(struct hx_text *text, FILE *file)
{
    bool failed = text->failed;
    if (!failed)
        fputs(hx_text_str(text), file);
    hx_text_free(text);
    return failed ? hx_error_nomem() : NULL;
}

static hx_error *print_head(hx_store *store, int64_t snapshot, FILE *file)
{
    HX_ROWS hx_rows *rows = NULL;
    HX_TRY(snapshot_row(store, snapshot, &rows));
    struct hx_text text = {0};
    struct hx_value pid = row_value(rows, "pid");
    hx_text_putf(&text, "%-10s ", "process");
    if (pid.type == HX_VALUE_INT)
        hx_text_putf(&text, "%lld ", (long long)pid.i);
    put_text_column(&text, rows, "comm");
    hx_text_puts(&text, "  ");
    put_text_column(&text, rows, "exe");
    hx_text_putf(&text, "\n%-10s %lld at ", "snapshot", (long long)snapshot);
    put_text_column(&text, rows, "taken_at");
    hx_text_puts(&text, ", stopped for ");
    put_figure_column(&text, rows, "pause_us", hx_human_ns, 1000);
    hx_text_puts(&text, " (");
    put_text_column(&text, rows, "method");
    hx_text_putf(&text, ")\n%-10s ", "allocator");
    put_text_column(&text, rows, "allocator");
    hx_text_putc(&text, '\n');
    put_part(&text, rows, "heap", "heap_bytes", "heap_objects");
    put_part(&text, rows, "reachable", "reachable_bytes", "reachable_objects");
    put_part(&text, rows, "leaked", "leaked_bytes", "leaked_objects");
    put_part(&text, rows, "free", "free_bytes", NULL);
    put_part(&text, rows, "resident", "rss_bytes", NULL);
    struct hx_value notes = row_value(rows, "notes");
    if (notes.type == HX_VALUE_TEXT && notes.text_bytes) {
        hx_text_putf(&text, "%-10s ", "notes");
        put_text_column(&text, rows, "notes");
        hx_text_putc(&text, '\n');
    }
    return flush_summary(&text, file);
}

/* Rows of a snapshot, without the columns that are the same in all of them. */
static hx_error *query_summary(hx_store *store, int64_t snapshot, const char *columns,
                               const char *view, const char *order, hx_rows **ret)
{
    struct hx_text sql = {0};
    const struct hx_selection selection = {.columns = columns, .sort = order, .limit = ROWS_SHOWN};
    const bool sets = strcmp(view, "retainers") == 0;
    hx_query_put(sets ? HX_QUERY_largest_sets : HX_QUERY_view,
                 HX_QUERY_ARGS(.view = view, .snapshot = snapshot), &sql);
    hx_error *err = sql.failed ? hx_error_nomem() : hx_query_select(store, sql.s, &selection, ret);
    hx_text_free(&sql);
    return err;
}

static hx_error *print_view(hx_store *store, int64_t snapshot, const char *columns,
                            const char *view, const char *order, const char *title, FILE *file)
{
    HX_ROWS hx_rows *probe = NULL, *rows = NULL;
    bool some;
    HX_TRY(query_summary(store, snapshot, columns, view, order, &probe));
    HX_TRY(hx_rows_next(probe, &some));
    if (!some) {
        struct hx_query asked = {.view = view, .snapshot = snapshot};
        hx_error *unknown = hx_query_measured(store, "", &asked);
        fprintf(file, "\n%s: %s\n", title, unknown ? "not known" : "nothing");
        hx_error_free(unknown);
        return NULL;
    }
    fprintf(file, "\n%s\n", title);
    HX_TRY(query_summary(store, snapshot, columns, view, order, &rows));
    return hx_rows_print(rows, HX_FORMAT_TEXT, file);
}

/* Modules whose variables hold much and have no names here. */
static hx_error *print_nameless(hx_store *store, int64_t snapshot, FILE *file)
{
    HX_ROWS hx_rows *rows = NULL;
    HX_CLEANUP(hx_text_free) struct hx_text text = {0};
    bool more = true;
    HX_TRY(hx_query_named(store, HX_QUERY_nameless, HX_QUERY_ARGS(.snapshot = snapshot), &rows));
    while (!text.failed) {
        HX_TRY(hx_rows_next(rows, &more));
        if (!more)
            break;
        put_text_column(&text, rows, "module");
        hx_text_puts(&text, ": its variables have no names here: ");
        put_text_column(&text, rows, "names_in");
        hx_text_putc(&text, '\n');
    }
    return flush_summary(&text, file);
}

hx_error *hx_summary_print(hx_store *store, int64_t snapshot, FILE *file)
{
    HX_TRY(print_head(store, snapshot, file));
    HX_TRY(print_view(store, snapshot, "part, bytes", "account", "bytes",
                      "Where the resident memory is", file));
    HX_TRY(print_view(store, snapshot, "kind, type, bytes, objects, site", "leaks", "bytes",
                      "What nothing, or perhaps nothing, holds", file));
    HX_TRY(print_view(store, snapshot,
                      "holder, kind, module, bytes, objects, alone_bytes, contested_bytes",
                      "holders", "bytes", "Who holds the memory", file));
    HX_TRY(print_nameless(store, snapshot, file));
    HX_TRY(print_view(store, snapshot, "label, bytes, objects", "retainers", "bytes",
                      "Who holds it together: sets of roots", file));
    HX_TRY(print_view(store, snapshot, "name, kind, module, retained_bytes, direct_objects",
                      "roots", "retained_bytes", "What each root holds alone", file));
    HX_TRY(print_view(store, snapshot, "address, type, bytes, retained_bytes, retained_objects",
                      "dominators", "retained_bytes", "Which objects hold the most alone", file));
    HX_TRY(print_view(store, snapshot, "type, bytes, objects, retained_bytes", "types", "bytes",
                      "What it is", file));
    return print_view(store, snapshot, "what, count, bytes, address", "losses", "count",
                      "What could not be seen", file);
}

hx_error *hx_summary_line(hx_store *store, int64_t snapshot, FILE *file)
{
    HX_ROWS hx_rows *rows = NULL;
    HX_TRY(snapshot_row(store, snapshot, &rows));
    struct hx_text text = {0};
    hx_text_putf(&text, "snapshot %lld: heap ", (long long)snapshot);
    put_figure_column(&text, rows, "heap_bytes", hx_human_bytes, 1);
    hx_text_puts(&text, " in ");
    put_figure_column(&text, rows, "heap_objects", hx_human_count, 1);
    hx_text_puts(&text, " objects, leaked ");
    put_figure_column(&text, rows, "leaked_bytes", hx_human_bytes, 1);
    hx_text_puts(&text, " in ");
    put_figure_column(&text, rows, "leaked_objects", hx_human_count, 1);
    hx_text_puts(&text, ", stopped for ");
    put_figure_column(&text, rows, "pause_us", hx_human_ns, 1000);
    struct hx_value complete = row_value(rows, "complete");
    if (complete.type == HX_VALUE_INT && !complete.i)
        hx_text_puts(&text, ", not complete");
    hx_text_putc(&text, '\n');
    return flush_summary(&text, file);
}
