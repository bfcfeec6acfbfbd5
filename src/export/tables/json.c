/* json.c - views as JSON: an array of objects, or without --by one object with an array for each
 * view. */
#include "export/tables/tables.h"

#include <string.h>

static void begin_json(struct hx_sheet *table)
{
    if (table->among) {
        hx_text_puts(&table->text, table->index ? ",\n" : "{\n");
        hx_text_json(&table->text, table->view, strlen(table->view));
        hx_text_putc(&table->text, ':');
    }
    hx_text_putc(&table->text, '[');
    hx_sheet_json_keys(table, "{");
}

static void put_json_row(struct hx_sheet *table, const hx_rows *rows)
{
    hx_text_puts(&table->text, table->rows ? ",\n" : "\n");
    hx_sheet_json_row(table, rows);
}

static void end_json(struct hx_sheet *table)
{
    hx_text_puts(&table->text, table->rows ? "\n]" : "]");
    if (!table->among)
        hx_text_putc(&table->text, '\n');
}

static hx_error *write_json(const struct hx_export *export, struct hx_sink *sink)
{
    static const struct hx_sheet_form form = {begin_json, put_json_row, end_json};
    if (export->by)
        return hx_sheet_write(export, export->by, &form, sink);
    HX_TRY(hx_sheet_write_all(export, &form, sink));
    hx_sink_puts(sink, "\n}\n");
    return NULL;
}

const struct hx_exporter hx_export_json = {
    .name = "json",
    .about = "views, objects and edges as JSON",
    .by = HX_SHEET_WORDS,
    .span = HX_EXPORT_SERIES,
    .write = write_json,
};
