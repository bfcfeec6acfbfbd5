/* print.c - rows as a text table, as JSON, as CSV.
 *
 * The text table is laid out by its first rows and then streamed, so that any number of
 * rows needs the same memory; later rows that are wider push their line, nothing is lost.
 * On a terminal it fits the width: text is cut in the middle, numbers never, and what
 * still does not fit is printed one value a line. */
#include "store/query.h"

#include "base/cleanup.h"
#include "base/text.h"
#include "base/vec.h"
#include "model/function_name.h"
#include "store/print/print.h"
#include "store/print/row_writer.h"

#include <errno.h>
#include <langinfo.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/ioctl.h>
#include <unistd.h>
#include <wchar.h>

bool hx_format_parse(const char *s, enum hx_format *ret)
{
    static const char *const names[] = {"text", "json", "csv"};
    for (int i = 0; i < 3; i++) {
        if (strcmp(s, names[i]) == 0) {
            *ret = (enum hx_format)i;
            return true;
        }
    }
    return false;
}

static hx_error *write_error(int os_errno, FILE *file)
{
    return hx_error_os(os_errno, file == stdout ? "standard output" : "output", "write");
}

hx_error *hx_print_flush(struct hx_text *text, void *file)
{
    HX_NEED(!text->failed);
    errno = 0;
    if (text->n && fwrite(text->s, 1, text->n, file) != text->n)
        return write_error(errno ? errno : EIO, file);
    hx_text_clear(text);
    return NULL;
}

hx_error *hx_print_end(void *file)
{
    return fflush(file) ? write_error(errno, file) : NULL;
}

/* --- values ------------------------------------------------------------------------ */

static hx_error *print_values(hx_rows *rows, enum hx_format format, FILE *file)
{
    HX_CLEANUP(hx_row_writer_deinit) struct hx_row_writer writer = {.format = format};
    hx_row_writer_begin(&writer, NULL);
    for (size_t c = 0; c < hx_rows_columns(rows); c++)
        hx_row_writer_column(&writer, hx_rows_name(rows, c));
    for (;;) {
        bool more;
        HX_TRY(hx_rows_next(rows, &more));
        if (!more)
            break;
        hx_row_writer_row(&writer, rows);
        if (writer.text.n > 1 << 16)
            HX_TRY(hx_print_flush(&writer.text, file));
    }
    hx_row_writer_end(&writer);
    return hx_print_flush(&writer.text, file);
}

/* --- text -------------------------------------------------------------------------- */

enum { LAYOUT_ROWS = 1000, TEXT_LEAST = 8, GAP = 2, PLAIN_WIDTH = 100, LEAST_WIDTH = 60 };

struct cell {
    size_t at, bytes, width; /* in table.text */
    bool text;               /* may be cut, stands to the left */
};

enum { INDENT_MOST = 100 }; /* levels: a store may lie about depths */

struct table {
    hx_rows *rows;
    size_t columns;
    size_t screen; /* columns of the terminal, 0: none */
    bool ascii;
    bool units;          /* bytes have short ones */
    size_t shown;        /* a column of such texts as are to be shown, where there are units */
    int64_t depth;       /* of nodes: of the row in hand; labels are indented. -1: there are none */
    struct hx_text text; /* the cells' bytes */
    HX_VEC(struct cell) cells;
    size_t *width; /* of each column */
    bool *cut;     /* the column holds text */
};

/* Columns of the terminal that a character takes. */
static size_t char_width(uint32_t c)
{
    int width = wcwidth((wchar_t)c);
    return width < 0 ? 1 : (size_t)width;
}

/* One character of UTF-8 that is known to be valid. */
static uint32_t next_char(const char **s)
{
    const uint8_t *p = (const uint8_t *)*s;
    size_t len = *p < 0x80 ? 1 : *p < 0xe0 ? 2 : *p < 0xf0 ? 3 : 4;
    uint32_t c = len == 1 ? *p : *p & (0x7fu >> len);
    for (size_t i = 1; i < len; i++)
        c = c << 6 | (p[i] & 0x3f);
    *s += len;
    return c;
}

size_t hx_print_width(const char *s, size_t bytes)
{
    size_t width = 0;
    for (const char *end = s + bytes; s < end;)
        width += char_width(next_char(&s));
    return width;
}

static bool ends_with(const char *s, const char *end)
{
    size_t n = strlen(s), m = strlen(end);
    return n >= m && strcmp(s + n - m, end) == 0;
}

static bool is_address(const struct table *table, const char *name)
{
    static const char *const names[] = {"address", "source", "target", "dominator", "parent"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(name, names[i]) == 0)
            return table->depth < 0 || strcmp(name, "parent") != 0;
    return false;
}

/* A quantity, where groups of three digits help; not an identity. */
static bool is_quantity(const char *name)
{
    return ends_with(name, "bytes") || ends_with(name, "objects") || strcmp(name, "count") == 0 ||
           strcmp(name, "size") == 0 || ends_with(name, "_pages");
}

/* Bytes that are told in short units where the table is made to fit. */
static bool is_bytes(const char *name)
{
    return ends_with(name, "bytes") || ends_with(name, "alloc") || ends_with(name, "live");
}

static void put_text_cell(struct table *table, size_t column, struct hx_value value)
{
    if (table->units && column == table->shown && table->cells.n >= table->columns)
        hx_text_putn(&table->text, value.text, value.text_bytes);
    else
        hx_text_escape(&table->text, value.text, value.text_bytes, table->ascii);
}

static void put_cell(struct table *table, size_t column, struct hx_value value, struct cell *cell)
{
    const char *name = hx_rows_name(table->rows, column);
    struct hx_text *text = &table->text;
    *cell = (struct cell){.at = text->n, .text = value.type == HX_VALUE_TEXT};
    switch (value.type) {
    case HX_VALUE_NULL:
        hx_text_putc(text, '-');
        break;
    case HX_VALUE_INT:
        if (table->depth >= 0 && strcmp(name, "depth") == 0)
            table->depth = value.i < 0 ? 0 : value.i < INDENT_MOST ? value.i : INDENT_MOST;
        if (is_address(table, name))
            hx_text_putf(text, "0x%llx", (unsigned long long)value.i);
        else if (table->units && value.i >= 0 && is_bytes(name))
            hx_text_puts(text, hx_human_bytes((uint64_t)value.i, (char[HX_HUMAN]){0}));
        else if (table->screen && is_quantity(name))
            hx_text_count(text, value.i);
        else
            hx_text_putf(text, "%lld", (long long)value.i);
        break;
    case HX_VALUE_REAL:
        hx_put_shortest_real(text, value.real);
        break;
    case HX_VALUE_TEXT:
        for (int64_t i = strcmp(name, "label") == 0 ? table->depth : 0; i > 0; i--)
            hx_text_puts(text, "  ");
        put_text_cell(table, column, value);
        break;
    }
    cell->bytes = text->n - cell->at;
    cell->width = text->failed ? 0 : hx_print_width(text->s + cell->at, cell->bytes);
}

static void put_spaces(struct hx_text *out, size_t n)
{
    while (n--)
        hx_text_putc(out, ' ');
}

/* Bytes of the longest beginning of s that is at most `width` wide. */
static size_t head_bytes(const char *s, size_t bytes, size_t width)
{
    const char *at = s, *end = s + bytes;
    while (at < end) {
        const char *after = at;
        size_t wide = char_width(next_char(&after));
        if (wide > width)
            break;
        width -= wide;
        at = after;
    }
    return (size_t)(at - s);
}

size_t hx_print_cut(struct hx_text *out, const char *s, size_t bytes, size_t width, bool ascii)
{
    size_t wide = hx_print_width(s, bytes);
    if (wide <= width) {
        hx_text_putn(out, s, bytes);
        return wide;
    }
    size_t head = head_bytes(s, bytes, width / 2);
    size_t used = hx_print_width(s, head) + 1;
    hx_text_putn(out, s, head);
    hx_text_puts(out, ascii ? "~" : "…");
    const char *tail = s + head, *end = s + bytes;
    size_t left = hx_print_width(tail, bytes - head);
    while (left > width - used) {
        left -= char_width(next_char(&tail));
    }
    hx_text_putn(out, tail, (size_t)(end - tail));
    return used + left;
}

/* Where the parameters begin with which a name ends, or the end. */
static size_t parameters_at(const char *s, size_t n)
{
    static const char constant[] = " const";
    size_t end = n, depth = 0;
    if (n > sizeof constant && ends_with(s, constant))
        end -= sizeof constant - 1;
    if (!end || s[end - 1] != ')')
        return n;
    for (size_t at = end; at--;) {
        depth += s[at] == ')';
        if (s[at] == '(' && --depth == 0)
            return at && !(at >= 8 && strncmp(s + at - 8, "operator", 8) == 0) ? at : n;
    }
    return n;
}

size_t hx_print_cut_function(struct hx_text *out, const struct hx_text *name, size_t width,
                             bool ascii)
{
    if (hx_print_width(hx_text_str(name), name->n) <= width)
        return hx_print_cut(out, hx_text_str(name), name->n, width, ascii);
    HX_CLEANUP(hx_text_free) struct hx_text brief = {0};
    HX_CLEANUP(hx_text_free) struct hx_text bare = {0};
    hx_function_name_short(&brief, hx_text_str(name));
    hx_function_name_bare(&bare, hx_text_str(&brief), brief.n);
    size_t at = parameters_at(hx_text_str(&brief), brief.n);
    if (hx_print_width(hx_text_str(&brief), brief.n) > width && at + 3 < brief.n) {
        brief.s[brief.n = at] = 0;
        hx_text_puts(&brief, ascii ? "(~)" : "(…)");
    }
    out->failed |= brief.failed || bare.failed;
    const struct hx_text *put =
        hx_print_width(hx_text_str(&brief), brief.n) > width ? &bare : &brief;
    return hx_print_cut(out, hx_text_str(put), put->n, width, ascii);
}

static void put_table_line(struct table *table, struct hx_text *out, const struct cell *row)
{
    for (size_t c = 0; c < table->columns; c++) {
        const struct cell *cell = &row[c];
        size_t column = table->width[c], width = cell->width;
        const char *s = hx_text_str(&table->text) + cell->at;
        bool left = table->cut[c];
        if (!left && width < column)
            put_spaces(out, column - width);
        if (cell->text && table->screen && width > column)
            width = hx_print_cut(out, s, cell->bytes, column, table->ascii);
        else
            hx_text_putn(out, s, cell->bytes);
        if (c + 1 == table->columns)
            break;
        if (left && width < column)
            put_spaces(out, column - width);
        put_spaces(out, GAP);
    }
    hx_text_putc(out, '\n');
}

/* One value a line, for rows that do not fit. */
static void put_record(struct table *table, struct hx_text *out, const struct cell *header,
                       const struct cell *row)
{
    size_t name_width = 0;
    for (size_t c = 0; c < table->columns; c++)
        name_width = header[c].width > name_width ? header[c].width : name_width;
    for (size_t c = 0; c < table->columns; c++) {
        const char *s = hx_text_str(&table->text);
        hx_text_putn(out, s + header[c].at, header[c].bytes);
        put_spaces(out, name_width - header[c].width + GAP);
        hx_text_putn(out, s + row[c].at, row[c].bytes);
        hx_text_putc(out, '\n');
    }
}

/* Adds a row of cells; false when out of memory. */
static bool take_table_row(struct table *table)
{
    size_t first = table->cells.n;
    if (!hx_vec_reserve(&table->cells, first + table->columns))
        return false;
    for (size_t c = 0; c < table->columns; c++)
        put_cell(table, c, hx_rows_value(table->rows, c), &table->cells.v[first + c]);
    table->cells.n += table->columns;
    return !table->text.failed;
}

static bool take_header(struct table *table)
{
    if (!hx_vec_reserve(&table->cells, table->columns))
        return false;
    for (size_t c = 0; c < table->columns; c++) {
        const char *name = hx_rows_name(table->rows, c);
        struct hx_value value = {.type = HX_VALUE_TEXT, .text = name, .text_bytes = strlen(name)};
        put_cell(table, c, value, &table->cells.v[c]);
    }
    table->cells.n = table->columns;
    return !table->text.failed;
}

/* Chooses widths by the rows taken; false when they do not fit the screen. */
static bool lay_out_table(struct table *table)
{
    for (size_t i = 0; i < table->cells.n; i++) {
        const struct cell *cell = &table->cells.v[i];
        size_t c = i % table->columns;
        if (cell->width > table->width[c])
            table->width[c] = cell->width;
        if (i >= table->columns && cell->text)
            table->cut[c] = true;
    }
    size_t total = table->columns ? (table->columns - 1) * GAP : 0;
    for (size_t c = 0; c < table->columns; c++)
        total += table->width[c];
    while (table->screen && total > table->screen) {
        size_t widest = table->columns, least = 0;
        for (size_t c = 0; c < table->columns; c++) {
            size_t name = table->cells.v[c].width;
            size_t floor = name > TEXT_LEAST ? name : TEXT_LEAST;
            if (table->cut[c] && table->width[c] > floor &&
                (widest == table->columns || table->width[c] > table->width[widest])) {
                widest = c;
                least = floor;
            }
        }
        if (widest == table->columns)
            return false;
        size_t over = total - table->screen, room = table->width[widest] - least;
        size_t step = (over + 3) / 4 < room ? (over + 3) / 4 : room; /* share the loss */
        table->width[widest] -= step;
        total -= step;
    }
    return true;
}

static hx_error *print_table(struct table *table, FILE *file, struct hx_text *out)
{
    table->width = calloc(table->columns + 1, sizeof *table->width);
    table->cut = calloc(table->columns + 1, sizeof *table->cut);
    HX_NEED(table->width && table->cut && take_header(table));
    bool more = true;
    for (size_t n = 0; n < LAYOUT_ROWS; n++) {
        HX_TRY(hx_rows_next(table->rows, &more));
        if (!more)
            break;
        HX_NEED(take_table_row(table));
    }
    bool fits = lay_out_table(table);
    const size_t columns = table->columns,
                 header_bytes = table->columns ? table->cells.v[columns - 1].at +
                                                     table->cells.v[columns - 1].bytes
                                               : 0;
    if (fits)
        put_table_line(table, out, table->cells.v);
    for (bool first = true;;) {
        for (size_t i = columns; i < table->cells.n; i += columns) {
            if (fits) {
                put_table_line(table, out, &table->cells.v[i]);
            } else {
                if (!first)
                    hx_text_putc(out, '\n');
                put_record(table, out, table->cells.v, &table->cells.v[i]);
            }
            first = false;
            if (out->n > 1 << 16)
                HX_TRY(hx_print_flush(out, file));
        }
        if (!more)
            return hx_print_flush(out, file);
        table->cells.n = columns;
        table->text.n = header_bytes;
        HX_TRY(hx_rows_next(table->rows, &more));
        if (more && !take_table_row(table))
            return hx_error_nomem();
    }
}

size_t hx_print_screen(void *file, bool *ret_ascii)
{
    struct winsize size;
    int fd = fileno(file);
    *ret_ascii = false;
    if (fd < 0 || !isatty(fd))
        return 0;
    *ret_ascii = strcasecmp(nl_langinfo(CODESET), "UTF-8") != 0;
    return ioctl(fd, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

size_t hx_print_columns(void *file, bool *ret_ascii)
{
    uint64_t columns;
    const char *given = getenv("COLUMNS");
    size_t screen = hx_print_screen(file, ret_ascii);
    if (given && hx_parse_u64(given, &columns) && columns > 0 && columns < 10000)
        screen = (size_t)columns;
    else if (!screen)
        screen = PLAIN_WIDTH;
    return screen > LEAST_WIDTH ? screen : LEAST_WIDTH;
}

static hx_error *print_text(struct table *table, FILE *file, struct hx_text *out)
{
    table->columns = hx_rows_columns(table->rows);
    table->depth = -1;
    for (size_t c = 0; c < table->columns; c++)
        if (strcmp(hx_rows_name(table->rows, c), "node") == 0)
            table->depth = 0;
    hx_error *err = print_table(table, file, out);
    hx_text_free(&table->text);
    hx_vec_free(&table->cells);
    free(table->width);
    free(table->cut);
    return err;
}

hx_error *hx_print_fitted(hx_rows *rows, size_t screen, bool ascii, size_t shown, void *file)
{
    HX_CLEANUP(hx_text_free) struct hx_text text = {0};
    struct table table = {
        .rows = rows, .screen = screen, .ascii = ascii, .units = true, .shown = shown};
    HX_TRY(print_text(&table, file, &text));
    return hx_print_end(file);
}

hx_error *hx_rows_print(hx_rows *rows, enum hx_format format, void *file)
{
    struct hx_text text = {0};
    struct table table = {.rows = rows};
    table.screen = hx_print_screen(file, &table.ascii);
    hx_error *err = format == HX_FORMAT_TEXT ? print_text(&table, file, &text)
                                             : print_values(rows, format, file);
    hx_text_free(&text);
    return err ? err : hx_print_end(file);
}
