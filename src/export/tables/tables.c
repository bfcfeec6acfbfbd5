/* tables.c - views, objects and edges as CSV, as JSON and as lines of JSON.
 *
 * Rows are streamed: ten million of them take no more memory than ten. They come snapshot by
 * snapshot, within one the largest first as in a report, objects and edges by address. Without
 * --by CSV is the census that the store has, the others are all views: JSON as one object with an
 * array for each, lines of JSON with the view in each. */
#include "export/export.h"
#include "store/query/named.h"

#include "base/cleanup.h"
#include "store/print/row_writer.h"
#include "store/schema/measured.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { FLUSH = 1 << 16, LOOK_AROUND = 1 << 14 };

/* --by: the censuses, then the views (two of which are called like one). */
#define WORD(name, sort, about) " " #name
#define WORDS                   "*" HX_VIEWS(WORD)

/* The table that is being written. */
struct sheet {
    const char *view;
    struct hx_filter_schema schema; /* its columns; only their names are meant */
    struct hx_row_writer writer;
    HX_VEC(int64_t) snapshots; /* of the store, once they were asked for */
};

/* --- rows --------------------------------------------------------------------------- */

/* Views with a row for each object or edge: they stream only in the order of their addresses. */
static bool is_large(const char *view)
{
    return strcmp(view, "objects") == 0 || strcmp(view, "edges") == 0 ||
           strcmp(view, "root_edges") == 0;
}

static bool of_snapshots(const struct sheet *table)
{
    return strcmp(table->schema.columns[0].name, "snapshot") == 0;
}

/* The leaks, and one row for all that is neither lost nor perhaps lost. */
static hx_error *query_leaks(const struct hx_export *export, int64_t snapshot, hx_rows **ret)
{
    return hx_query_named(export->store, HX_QUERY_leaks_and_rest,
                          HX_QUERY_ARGS(.census = hx_census_find("leak"), .snapshot = snapshot),
                          ret);
}

/* Sites with what their numbers stand for, which no column of the view tells. */
static const struct hx_filter_column named_sites[] = {
    {.name = "snapshot"}, {.name = "ccs_id"},  {.name = "label"},
    {.name = "bytes"},    {.name = "objects"}, {.name = "retained_bytes"},
};

static hx_error *query_sites(const struct hx_export *export, int64_t snapshot, hx_rows **ret)
{
    return hx_query_named(export->store, HX_QUERY_labelled_sites,
                          HX_QUERY_ARGS(.census = hx_census_find("ccs"), .snapshot = snapshot),
                          ret);
}

/* A census that has more to tell than the view of its figures. */
enum more { NOTHING, REST_OF_LEAKS, NAMES_OF_SITES };

static hx_error *query_sheet(const struct hx_export *export, const struct sheet *table,
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

static hx_error *flush_sheet(struct sheet *table, struct hx_sink *sink)
{
    struct hx_text *text = &table->writer.text;
    HX_NEED(!text->failed);
    hx_sink_put(sink, hx_text_str(text), text->n);
    hx_text_clear(text);
    return NULL;
}

static hx_error *write_rows(const struct hx_export *export, struct sheet *table, hx_rows *rows,
                            struct hx_sink *sink)
{
    struct hx_row_writer *writer = &table->writer;
    for (bool more = true; !sink->failed;) {
        HX_TRY(hx_rows_next(rows, &more));
        if (!more)
            break;
        hx_row_writer_row(writer, rows);
        if (writer->text.n >= FLUSH)
            HX_TRY(flush_sheet(table, sink));
        if (writer->rows % LOOK_AROUND == 0) {
            hx_progress_at(export->progress, table->view, writer->rows, 0);
            if (hx_progress_cancelled(export->progress))
                return hx_error_cancelled(export->title);
        }
    }
    return flush_sheet(table, sink);
}

/* The rows of one snapshot; 0: of a view that is of none, of the whole store. A view is asked once:
 * *rows is its answer, or NULL at first. */
static hx_error *write_part(const struct hx_export *export, struct sheet *table, enum more more,
                            int64_t snapshot, hx_rows **rows, struct hx_sink *sink)
{
    if (hx_progress_cancelled(export->progress))
        return hx_error_cancelled(export->title);
    if (*rows && more == NOTHING) {
        hx_rows_turn_to(*rows, snapshot);
        return write_rows(export, table, *rows, sink);
    }
    hx_rows_end(*rows);
    *rows = NULL;
    HX_TRY(query_sheet(export, table, more, snapshot, rows));
    if (hx_rows_columns(*rows) != table->schema.n)
        return hx_error_new(HX_E_FAIL, table->view, NULL,
                            "the view has other columns than expected");
    return write_rows(export, table, *rows, sink);
}

static hx_error *find_snapshots(const struct hx_export *export, struct sheet *table)
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

static hx_error *write_parts(const struct hx_export *export, struct sheet *table, enum more more,
                             hx_rows **rows, struct hx_sink *sink)
{
    if (export->snapshot || !of_snapshots(table))
        return write_part(export, table, more, export->snapshot, rows, sink);
    if (!table->snapshots.n)
        HX_TRY(find_snapshots(export, table));
    for (size_t i = 0; i < table->snapshots.n && !sink->failed; i++)
        HX_TRY(write_part(export, table, more, table->snapshots.v[i], rows, sink));
    return NULL;
}

static hx_error *write_table(const struct hx_export *export, struct sheet *table, enum more more,
                             bool among, struct hx_sink *sink)
{
    if (!hx_view_schema(table->view, &table->schema))
        return hx_error_new(HX_E_FAIL, table->view, NULL, "there is no such view");
    if (more == NAMES_OF_SITES) {
        table->schema.columns = named_sites;
        table->schema.n = sizeof named_sites / sizeof *named_sites;
    }
    hx_row_writer_begin(&table->writer, among ? table->view : NULL);
    for (size_t c = 0; c < table->schema.n; c++)
        hx_row_writer_column(&table->writer, table->schema.columns[c].name);
    hx_rows *rows = NULL;
    hx_error *err = write_parts(export, table, more, &rows, sink);
    hx_rows_end(rows);
    HX_TRY(err);
    hx_row_writer_end(&table->writer);
    return flush_sheet(table, sink);
}

static void deinit_sheet(struct sheet *table)
{
    hx_row_writer_deinit(&table->writer);
    hx_vec_free(&table->snapshots);
}

static hx_error *write_sheet(const struct hx_export *export, const char *by, enum hx_format format,
                             struct hx_sink *sink)
{
    const struct hx_stored_census *census = hx_census_find(by);
    bool has = true;
    if (census)
        HX_TRY(hx_export_has(export, census, &has));
    if (!has)
        return hx_export_absent(export, by);
    HX_CLEANUP(deinit_sheet)
    struct sheet table = {.view = census ? census->view : by,
                          .writer = {.format = format, .safe = true}};
    struct hx_query all = {.view = table.view, .snapshot = export->snapshot};
    HX_TRY(hx_query_recorded(export->store, export->title, &all));
    HX_TRY(hx_query_measured(export->store, export->title, &all));
    enum more more = !census                   ? NOTHING
                     : strcmp(by, "leak") == 0 ? REST_OF_LEAKS
                     : strcmp(by, "ccs") == 0  ? NAMES_OF_SITES
                                               : NOTHING;
    return write_table(export, &table, more, false, sink);
}

/* All views, one after the other, but those with a row for each object or edge. */
static hx_error *write_views(const struct hx_export *export, enum hx_format format,
                             struct hx_sink *sink)
{
    HX_CLEANUP(deinit_sheet) struct sheet table = {.writer = {.format = format, .safe = true}};
    for (const struct hx_view *view = hx_views; view->name; view++) {
        table.view = view->name;
        if (!is_large(view->name))
            HX_TRY(write_table(export, &table, NOTHING, true, sink));
    }
    return NULL;
}

/* --- the formats -------------------------------------------------------------------- */

static hx_error *write_csv(const struct hx_export *export, struct hx_sink *sink)
{
    const struct hx_stored_census *census = NULL;
    if (!export->by)
        HX_TRY(hx_export_choose(export, &census));
    return write_sheet(export, census ? census->name : export->by, HX_FORMAT_CSV, sink);
}

static hx_error *write_json(const struct hx_export *export, struct hx_sink *sink)
{
    if (export->by)
        return write_sheet(export, export->by, HX_FORMAT_JSON, sink);
    HX_TRY(write_views(export, HX_FORMAT_JSON, sink));
    hx_sink_puts(sink, "\n}\n");
    return NULL;
}

static hx_error *write_jsonl(const struct hx_export *export, struct hx_sink *sink)
{
    return export->by ? write_sheet(export, export->by, HX_FORMAT_JSONL, sink)
                      : write_views(export, HX_FORMAT_JSONL, sink);
}

const struct hx_exporter hx_export_csv = {
    .name = "csv",
    .about = "a view, objects or edges for spreadsheets",
    .by = WORDS,
    .censuses = HX_CENSUS_SHEET,
    .span = HX_EXPORT_SERIES,
    .write = write_csv,
};

const struct hx_exporter hx_export_json = {
    .name = "json",
    .about = "views, objects and edges as JSON",
    .by = WORDS,
    .censuses = HX_CENSUS_SHEET,
    .span = HX_EXPORT_SERIES,
    .write = write_json,
};

const struct hx_exporter hx_export_jsonl = {
    .name = "jsonl",
    .about = "the same, a line for each row",
    .by = WORDS,
    .censuses = HX_CENSUS_SHEET,
    .span = HX_EXPORT_SERIES,
    .write = write_jsonl,
};
