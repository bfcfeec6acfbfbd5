/* jsonl.c - views as lines of JSON, one for each row; without --by those of all views, where each
 * line says first of which. */
#include "export/tables/tables.h"

#include <string.h>

static void begin_jsonl(struct hx_sheet *table)
{
    struct hx_text *before = &table->scratch;
    hx_text_clear(before);
    hx_text_putc(before, '{');
    if (table->among) {
        hx_text_puts(before, "\"view\":");
        hx_text_json(before, table->view, strlen(table->view));
        hx_text_putc(before, ',');
    }
    hx_sheet_json_keys(table, hx_text_str(before));
}

static void put_jsonl_row(struct hx_sheet *table, const hx_rows *rows)
{
    hx_sheet_json_row(table, rows);
    hx_text_putc(&table->text, '\n');
}

static void end_jsonl(struct hx_sheet *table)
{
    (void)table;
}

static hx_error *write_jsonl(const struct hx_export *export, struct hx_sink *sink)
{
    static const struct hx_sheet_form form = {begin_jsonl, put_jsonl_row, end_jsonl};
    return export->by ? hx_sheet_write(export, export->by, &form, sink)
                      : hx_sheet_write_all(export, &form, sink);
}

const struct hx_exporter hx_export_jsonl = {
    .name = "jsonl",
    .about = "the same, a line for each row",
    .by = HX_SHEET_WORDS,
    .span = HX_EXPORT_SERIES,
    .write = write_jsonl,
};
