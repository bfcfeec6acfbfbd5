/* csv.c - a view as CSV (RFC 4180, lines end in LF), of the same fields as everywhere. */
#include "export/tables/tables.h"

#include "store/print/print.h"

static void begin_csv(struct hx_sheet *table)
{
    for (size_t c = 0; c < table->schema.n; c++) {
        if (c)
            hx_text_putc(&table->text, ',');
        hx_text_puts(&table->text, table->schema.columns[c].name);
    }
    hx_text_putc(&table->text, '\n');
}

static void put_csv_row(struct hx_sheet *table, const hx_rows *rows)
{
    for (size_t c = 0; c < table->schema.n; c++) {
        if (c)
            hx_text_putc(&table->text, ',');
        hx_print_csv(&table->text, hx_rows_value(rows, c));
    }
    hx_text_putc(&table->text, '\n');
}

static void end_csv(struct hx_sheet *table)
{
    (void)table;
}

static hx_error *write_csv(const struct hx_export *export, struct hx_sink *sink)
{
    static const struct hx_sheet_form form = {begin_csv, put_csv_row, end_csv};
    const struct hx_stored_census *census = NULL;
    if (!export->by)
        HX_TRY(hx_export_choose(export, HX_SHEET_WORDS, &census));
    return hx_sheet_write(export, census ? census->name : export->by, &form, sink);
}

const struct hx_exporter hx_export_csv = {
    .name = "csv",
    .about = "a view, objects or edges for spreadsheets",
    .by = HX_SHEET_WORDS,
    .span = HX_EXPORT_SERIES,
    .write = write_csv,
};
