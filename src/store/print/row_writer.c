/* row_writer.c - rows as CSV (RFC 4180, lines end in LF), as JSON and as lines of JSON. */
#include "store/print/row_writer.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Integers beyond it are not safe in readers that have doubles only. */
#define SAFE_MOST INT64_C(9007199254740991) /* 2^53 - 1 */

/* --- values ------------------------------------------------------------------------ */

void hx_put_shortest_real(struct hx_text *text, double real)
{
    char buf[40];
    snprintf(buf, sizeof buf, "%.15g", real);
    if (strtod(buf, NULL) != real)
        snprintf(buf, sizeof buf, "%.17g", real);
    hx_text_puts(text, buf);
    if (!strpbrk(buf, ".en"))
        hx_text_puts(text, ".0");
}

/* Ten million rows have many of them: faster than printf(). */
static void put_digits(struct hx_text *text, int64_t value)
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

/* Bytes at the beginning of s that stand in a JSON string as they are. */
static size_t plain_bytes(const char *s, size_t n)
{
    size_t i = 0;
    while (i < n && s[i] >= ' ' && s[i] < 0x7f && s[i] != '"' && s[i] != '\\')
        i++;
    return i;
}

static void put_json_string(struct hx_text *text, const char *s, size_t n)
{
    if (plain_bytes(s, n) < n) {
        hx_text_json(text, s, n);
        return;
    }
    hx_text_putc(text, '"');
    hx_text_putn(text, s, n);
    hx_text_putc(text, '"');
}

static void put_json(struct hx_row_writer *writer, struct hx_value value)
{
    struct hx_text *text = &writer->text;
    if (value.type == HX_VALUE_TEXT)
        put_json_string(text, value.text, value.text_bytes);
    else if (value.type == HX_VALUE_REAL && isfinite(value.real))
        hx_put_shortest_real(text, value.real);
    else if (value.type != HX_VALUE_INT)
        hx_text_putn(text, "null", 4);
    else if (writer->safe && (value.i < -SAFE_MOST || value.i > SAFE_MOST))
        hx_text_putf(text, "\"%" PRId64 "\"", value.i);
    else
        put_digits(text, value.i);
}

static void put_csv(struct hx_text *text, struct hx_value value)
{
    if (value.type == HX_VALUE_TEXT)
        hx_text_csv(text, value.text, value.text_bytes);
    else if (value.type == HX_VALUE_REAL)
        hx_put_shortest_real(text, value.real);
    else if (value.type == HX_VALUE_INT)
        put_digits(text, value.i);
}

/* --- tables ------------------------------------------------------------------------ */

void hx_row_writer_begin(struct hx_row_writer *writer, const char *view)
{
    writer->view = view;
    writer->column = 0;
    writer->rows = 0;
    hx_text_clear(&writer->keys);
    writer->key_end.n = 0;
    if (writer->format == HX_FORMAT_JSON) {
        if (view) {
            hx_text_puts(&writer->text, writer->tables ? ",\n" : "{\n");
            hx_text_json(&writer->text, view, strlen(view));
            hx_text_putc(&writer->text, ':');
        }
        hx_text_putc(&writer->text, '[');
    }
    writer->tables++;
}

void hx_row_writer_column(struct hx_row_writer *writer, const char *name)
{
    struct hx_text *keys = &writer->keys;
    bool first = !writer->key_end.n;
    if (writer->format == HX_FORMAT_CSV) {
        hx_text_puts(&writer->text, first ? "" : ",");
        hx_text_csv(&writer->text, name, strlen(name));
    } else {
        hx_text_putc(keys, first ? '{' : ',');
        if (first && writer->view && writer->format == HX_FORMAT_JSONL) {
            hx_text_puts(keys, "\"view\":");
            hx_text_json(keys, writer->view, strlen(writer->view));
            hx_text_putc(keys, ',');
        }
        hx_text_json(keys, name, strlen(name));
        hx_text_putc(keys, ':');
    }
    if (keys->failed || !hx_vec_push(&writer->key_end, keys->n))
        writer->text.failed = true;
}

static void begin_row(struct hx_row_writer *writer)
{
    bool json = writer->format == HX_FORMAT_JSON;
    if (json && writer->rows)
        hx_text_putc(&writer->text, ',');
    if (json || writer->rows || writer->format == HX_FORMAT_CSV)
        hx_text_putc(&writer->text, '\n');
}

void hx_row_writer_value(struct hx_row_writer *writer, struct hx_value value)
{
    struct hx_text *text = &writer->text;
    size_t from = 0;
    if (text->failed)
        return;
    if (writer->column)
        from = writer->key_end.v[writer->column - 1];
    else
        begin_row(writer);
    if (writer->format == HX_FORMAT_CSV) {
        if (writer->column)
            hx_text_putc(text, ',');
        put_csv(text, value);
    } else {
        hx_text_putn(text, writer->keys.s + from, writer->key_end.v[writer->column] - from);
        put_json(writer, value);
    }
    if (++writer->column < writer->key_end.n)
        return;
    if (writer->format != HX_FORMAT_CSV)
        hx_text_putc(text, '}');
    writer->column = 0;
    writer->rows++;
}

void hx_row_writer_row(struct hx_row_writer *writer, const hx_rows *rows)
{
    for (size_t c = 0, n = writer->key_end.n; c < n; c++)
        hx_row_writer_value(writer, hx_rows_value(rows, c));
}

void hx_row_writer_end(struct hx_row_writer *writer)
{
    bool json = writer->format == HX_FORMAT_JSON;
    if (writer->format == HX_FORMAT_CSV || writer->rows)
        hx_text_putc(&writer->text, '\n');
    if (json)
        hx_text_puts(&writer->text, writer->view ? "]" : "]\n");
}

void hx_row_writer_deinit(struct hx_row_writer *writer)
{
    hx_text_free(&writer->text);
    hx_text_free(&writer->keys);
    hx_vec_free(&writer->key_end);
}
