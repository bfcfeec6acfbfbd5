/* tables.c - the views and the object tables as rows of text. */
#include "export/tables/tables.h"

#include "base/cleanup.h"
#include "store/schema/measured.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { FLUSH = 1 << 16, LOOK_AROUND = 1 << 14 };

/* --- rows --------------------------------------------------------------------------- */

/* Views with a row for each object or edge: they stream only in the order of their addresses. */
static bool is_large(const char *view)
{
    return strcmp(view, "objects") == 0 || strcmp(view, "edges") == 0 ||
           strcmp(view, "root_edges") == 0;
}

static bool of_snapshots(const struct hx_sheet *table)
{
    return strcmp(table->schema.columns[0].name, "snapshot") == 0;
}

/* The leaks, and one row for all that is neither lost nor perhaps lost. */
static hx_error *query_leaks(const struct hx_export *export, int64_t snapshot, hx_rows **ret)
{
    struct hx_text sql = {0};
    hx_text_putf(&sql,
                 "SELECT * FROM (SELECT * FROM leaks WHERE snapshot = %" PRId64
                 " UNION ALL SELECT snapshot, key, NULL, NULL, bytes, objects FROM (",
                 snapshot);
    hx_census_sql(hx_census_find("leak"), snapshot, &sql);
    hx_text_puts(&sql, ") WHERE key = 'reachable') ORDER BY bytes DESC, kind, type, site");
    hx_error *err =
        sql.failed ? hx_error_nomem() : hx_query_sql(export->store, hx_text_str(&sql), ret);
    hx_text_free(&sql);
    return err;
}

/* Sites with what their numbers stand for, which no column of the view tells. */
static const struct hx_filter_column named_sites[] = {
    {.name = "snapshot"}, {.name = "ccs_id"},  {.name = "label"},
    {.name = "bytes"},    {.name = "objects"}, {.name = "retained_bytes"},
};

static hx_error *query_sites(const struct hx_export *export, int64_t snapshot, hx_rows **ret)
{
    struct hx_text sql = {0};
    hx_text_puts(&sql, "SELECT snapshot, ccs_id, ");
    hx_census_label_sql(hx_census_find("ccs"), "sites.ccs_id", &sql);
    hx_text_puts(&sql, " AS label, bytes, objects, retained_bytes FROM sites");
    if (snapshot)
        hx_text_putf(&sql, " WHERE snapshot = %" PRId64, snapshot);
    hx_text_puts(&sql, " ORDER BY snapshot, bytes DESC, ccs_id");
    hx_error *err =
        sql.failed ? hx_error_nomem() : hx_query_sql(export->store, hx_text_str(&sql), ret);
    hx_text_free(&sql);
    return err;
}

/* A census that has more to tell than the view of its figures. */
enum more { NOTHING, REST_OF_LEAKS, NAMES_OF_SITES };

static hx_error *query_sheet(const struct hx_export *export, const struct hx_sheet *table,
                             enum more more, int64_t snapshot, hx_rows **ret)
{
    if (more == REST_OF_LEAKS)
        return query_leaks(export, snapshot, ret);
    if (more == NAMES_OF_SITES)
        return query_sites(export, snapshot, ret);
    bool objects = strcmp(table->view, "objects") == 0;
    return hx_query_view(export->store,
                         &(struct hx_query){.view = table->view,
                                            .snapshot = snapshot,
                                            .sort = objects ? "address" : NULL,
                                            .ascending = objects,
                                            .limit = -1},
                         ret);
}

/* --- writing ------------------------------------------------------------------------ */

static hx_error *flush_sheet(struct hx_sheet *table, struct hx_sink *sink)
{
    HX_NEED(!table->text.failed && !table->scratch.failed && !table->keys.failed);
    hx_sink_put(sink, hx_text_str(&table->text), table->text.n);
    hx_text_clear(&table->text);
    return NULL;
}

static hx_error *write_rows(const struct hx_export *export, struct hx_sheet *table, hx_rows *rows,
                            const struct hx_sheet_form *form, struct hx_sink *sink)
{
    for (bool more = true; !sink->failed;) {
        HX_TRY(hx_rows_next(rows, &more));
        if (!more)
            break;
        form->row(table, rows);
        table->rows++;
        if (table->text.n >= FLUSH)
            HX_TRY(flush_sheet(table, sink));
        if (table->rows % LOOK_AROUND == 0) {
            hx_progress_at(export->progress, table->view, table->rows, 0);
            if (hx_progress_cancelled(export->progress))
                return hx_error_cancelled(export->title);
        }
    }
    return flush_sheet(table, sink);
}

/* The rows of one snapshot; 0: of a view that is of none, of the whole store. A view is asked once:
 * *rows is its answer, or NULL at first. */
static hx_error *write_part(const struct hx_export *export, struct hx_sheet *table, enum more more,
                            int64_t snapshot, hx_rows **rows, const struct hx_sheet_form *form,
                            struct hx_sink *sink)
{
    if (hx_progress_cancelled(export->progress))
        return hx_error_cancelled(export->title);
    if (*rows && more == NOTHING) {
        hx_rows_turn_to(*rows, snapshot);
        return write_rows(export, table, *rows, form, sink);
    }
    hx_rows_end(*rows);
    *rows = NULL;
    HX_TRY(query_sheet(export, table, more, snapshot, rows));
    if (hx_rows_columns(*rows) != table->schema.n)
        return hx_error_new(HX_E_FAIL, table->view, NULL,
                            "the view has other columns than expected");
    return write_rows(export, table, *rows, form, sink);
}

static hx_error *find_snapshots(const struct hx_export *export, struct hx_sheet *table)
{
    int64_t snapshot = 0;
    HX_TRY(hx_store_next(export->store, 0, &snapshot));
    while (snapshot) {
        if (!hx_vec_push(&table->snapshots, snapshot))
            return hx_error_nomem();
        HX_TRY(hx_store_next(export->store, snapshot, &snapshot));
    }
    return NULL;
}

static hx_error *write_parts(const struct hx_export *export, struct hx_sheet *table, enum more more,
                             hx_rows **rows, const struct hx_sheet_form *form, struct hx_sink *sink)
{
    if (export->snapshot || !of_snapshots(table))
        return write_part(export, table, more, export->snapshot, rows, form, sink);
    if (!table->snapshots.n)
        HX_TRY(find_snapshots(export, table));
    for (size_t i = 0; i < table->snapshots.n && !sink->failed; i++)
        HX_TRY(write_part(export, table, more, table->snapshots.v[i], rows, form, sink));
    return NULL;
}

static hx_error *write_table(const struct hx_export *export, struct hx_sheet *table, enum more more,
                             const struct hx_sheet_form *form, struct hx_sink *sink)
{
    if (!hx_view_schema(table->view, &table->schema))
        return hx_error_new(HX_E_FAIL, table->view, NULL, "there is no such view");
    if (more == NAMES_OF_SITES) {
        table->schema.columns = named_sites;
        table->schema.n = sizeof named_sites / sizeof *named_sites;
    }
    table->rows = 0;
    hx_text_clear(&table->keys);
    table->key_end.n = 0;
    form->begin(table);
    hx_rows *rows = NULL;
    hx_error *err = write_parts(export, table, more, &rows, form, sink);
    hx_rows_end(rows);
    HX_TRY(err);
    form->end(table);
    table->index++;
    return flush_sheet(table, sink);
}

static void deinit_table(struct hx_sheet *table)
{
    hx_text_free(&table->text);
    hx_text_free(&table->scratch);
    hx_text_free(&table->keys);
    hx_vec_free(&table->key_end);
    hx_vec_free(&table->snapshots);
}

hx_error *hx_sheet_write(const struct hx_export *export, const char *by,
                         const struct hx_sheet_form *form, struct hx_sink *sink)
{
    const struct hx_stored_census *census = hx_census_find(by);
    bool has = true;
    if (census)
        HX_TRY(hx_export_has(export, census, &has));
    if (!has)
        return hx_export_absent(export, by);
    HX_CLEANUP(deinit_table) struct hx_sheet table = {.view = census ? census->view : by};
    struct hx_query all = {.view = table.view, .snapshot = export->snapshot};
    HX_TRY(hx_query_recorded(export->store, export->title, &all));
    HX_TRY(hx_query_measured(export->store, export->title, &all));
    enum more more = !census                   ? NOTHING
                     : strcmp(by, "leak") == 0 ? REST_OF_LEAKS
                     : strcmp(by, "ccs") == 0  ? NAMES_OF_SITES
                                               : NOTHING;
    return write_table(export, &table, more, form, sink);
}

hx_error *hx_sheet_write_all(const struct hx_export *export, const struct hx_sheet_form *form,
                             struct hx_sink *sink)
{
    HX_CLEANUP(deinit_table) struct hx_sheet table = {.among = true};
    for (const struct hx_view *view = hx_views; view->name; view++) {
        table.view = view->name;
        if (!is_large(view->name))
            HX_TRY(write_table(export, &table, NOTHING, form, sink));
    }
    return NULL;
}

/* --- cells -------------------------------------------------------------------------- */

void hx_sheet_int(struct hx_text *text, int64_t value)
{
    char digits[24];
    size_t at = sizeof digits;
    uint64_t rest = value < 0 ? -(uint64_t)value : (uint64_t)value;
    do
        digits[--at] = (char)('0' + rest % 10);
    while (rest /= 10);
    if (value < 0)
        digits[--at] = '-';
    hx_text_putn(text, digits + at, sizeof digits - at);
}

void hx_sheet_real(struct hx_text *text, double real)
{
    char buf[40];
    snprintf(buf, sizeof buf, "%.15g", real);
    if (strtod(buf, NULL) != real)
        snprintf(buf, sizeof buf, "%.17g", real);
    hx_text_puts(text, buf);
    if (!strpbrk(buf, ".e"))
        hx_text_puts(text, ".0");
}

/* Bytes at the beginning of s that stand in a JSON string as they are. */
static size_t plain_bytes(const char *s, size_t n)
{
    size_t i = 0;
    while (i < n && s[i] >= ' ' && s[i] < 0x7f && s[i] != '"' && s[i] != '\\')
        i++;
    return i;
}

static void put_quoted_string(struct hx_text *text, const char *s, size_t n)
{
    if (plain_bytes(s, n) < n) {
        hx_text_json(text, s, n);
        return;
    }
    hx_text_putc(text, '"');
    hx_text_putn(text, s, n);
    hx_text_putc(text, '"');
}

void hx_sheet_json(struct hx_text *text, struct hx_value value)
{
    switch (value.type) {
    case HX_VALUE_NULL:
        hx_text_putn(text, "null", 4);
        break;
    case HX_VALUE_INT:
        if (value.i >= -HX_SHEET_SAFE && value.i <= HX_SHEET_SAFE)
            hx_sheet_int(text, value.i);
        else
            hx_text_putf(text, "\"%" PRId64 "\"", value.i);
        break;
    case HX_VALUE_REAL:
        if (isfinite(value.real))
            hx_sheet_real(text, value.real);
        else
            hx_text_putn(text, "null", 4);
        break;
    case HX_VALUE_TEXT:
        put_quoted_string(text, value.text, value.text_bytes);
        break;
    }
}

void hx_sheet_json_keys(struct hx_sheet *table, const char *before)
{
    for (size_t c = 0; c < table->schema.n; c++) {
        const char *name = table->schema.columns[c].name;
        hx_text_puts(&table->keys, c ? "," : before);
        hx_text_json(&table->keys, name, strlen(name));
        hx_text_putc(&table->keys, ':');
        if (!hx_vec_push(&table->key_end, table->keys.n))
            table->keys.failed = true;
    }
}

void hx_sheet_json_row(struct hx_sheet *table, const hx_rows *rows)
{
    if (table->keys.failed)
        return;
    for (size_t c = 0, at = 0; c < table->schema.n; at = table->key_end.v[c++]) {
        hx_text_putn(&table->text, table->keys.s + at, table->key_end.v[c] - at);
        hx_sheet_json(&table->text, hx_rows_value(rows, c));
    }
    hx_text_putc(&table->text, '}');
}
