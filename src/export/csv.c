/* csv.c - a view as CSV (RFC 4180, lines end in LF) that a spreadsheet does not take for
 * formulas. */
#include "export/tables.h"

#include <math.h>
#include <string.h>

static void begin(struct hx_sheet *table)
{
    for (size_t c = 0; c < table->schema.n; c++) {
        if (c)
            hx_text_putc(&table->text, ',');
        hx_text_puts(&table->text, table->schema.columns[c].name);
    }
    hx_text_putc(&table->text, '\n');
}

/* Would a spreadsheet that opens the file take the text for more than a text? Some do so also with
 * the wide forms of the signs. */
static bool is_formula(const char *s, size_t n)
{
    static const char *const wide[] = {"\xef\xbc\x9d", "\xef\xbc\x8b", "\xef\xbc\x8d",
                                       "\xef\xbc\xa0"}; /* U+FF1D, FF0B, FF0D, FF20 */
    if (!n || (n == 1 && *s == '-'))                    /* the bin that no named root reaches */
        return false;
    if (memchr("=+-@\t\r\n", s[0], 7))
        return true;
    for (size_t i = 0; n >= 3 && i < sizeof wide / sizeof *wide; i++)
        if (memcmp(s, wide[i], 3) == 0)
            return true;
    return false;
}

static bool is_plain(const char *s, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (s[i] < ' ' || s[i] >= 0x7f || s[i] == '"' || s[i] == ',' || s[i] == '\\')
            return false;
    return n > 0;
}

/* Escaped as in reports: a field is one line, and shows what it holds. */
static void put_text(struct hx_sheet *table, const char *s, size_t n)
{
    bool formula = is_formula(s, n);
    if (is_plain(s, n) && !formula) {
        hx_text_putn(&table->text, s, n);
        return;
    }
    hx_text_clear(&table->scratch);
    if (formula)
        hx_text_putc(&table->scratch, '\'');
    hx_text_escape(&table->scratch, s, n, false);
    hx_text_csv(&table->text, hx_text_str(&table->scratch), table->scratch.n);
}

static void row(struct hx_sheet *table, const hx_rows *rows)
{
    for (size_t c = 0; c < table->schema.n; c++) {
        struct hx_value value = hx_rows_value(rows, c);
        if (c)
            hx_text_putc(&table->text, ',');
        if (value.type == HX_VALUE_TEXT)
            put_text(table, value.text, value.text_bytes);
        else if (value.type == HX_VALUE_INT)
            hx_sheet_int(&table->text, value.i);
        else if (value.type == HX_VALUE_REAL && isfinite(value.real))
            hx_sheet_real(&table->text, value.real);
    }
    hx_text_putc(&table->text, '\n');
}

static void end(struct hx_sheet *table)
{
    (void)table;
}

static hx_error *write_out(const struct hx_export *export, struct hx_sink *sink)
{
    static const struct hx_sheet_form form = {begin, row, end};
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
    .write = write_out,
};
