/* list_column.c - how values are shown. */
#include "ui/list/list_column.h"

#include "ui/data/call_label.h"
#include "layout/type_name.h"

#include "base/vec.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

void hx_text_change(struct hx_text *text, int64_t bytes)
{
    char size[HX_HUMAN];
    uint64_t n = bytes < 0 ? 0 - (uint64_t)bytes : (uint64_t)bytes;
    hx_text_putf(text, "%s%s", bytes < 0 ? "-" : bytes > 0 ? "+" : "", hx_human_bytes(n, size));
}

static double column_cell_number(const struct hx_cell *cell)
{
    return cell->type == HX_VALUE_INT ? (double)cell->i : cell->real;
}

static void put_time(const struct hx_cell *cell, bool ascii, struct hx_text *ret)
{
    /* 2026-11-21T09:31:12.5Z: the year says little on a timeline. */
    if (cell->n >= 19 && cell->text[10] == 'T') {
        hx_text_escape(ret, cell->text + 5, 5, ascii);
        hx_text_putc(ret, ' ');
        hx_text_escape(ret, cell->text + 11, 8, ascii);
    } else {
        hx_text_escape(ret, cell->text, cell->n, ascii);
    }
}

/* Averages of bytes are bytes, too. */
static void put_real_cell(const struct hx_column *column, double real, struct hx_text *ret)
{
    char buf[HX_HUMAN];
    if (column->as == HX_AS_BYTES && real > -9e18 && real < 9e18)
        hx_text_putf(ret, "%s%s", real <= -0.5 ? "-" : "",
                     hx_human_bytes((uint64_t)((real < 0 ? -real : real) + 0.5), buf));
    else
        hx_text_putf(ret, "%g", real);
}

static void put_number(const struct hx_column *column, const struct hx_cell *cell,
                       const struct hx_table *facts, struct hx_text *ret)
{
    char buf[HX_HUMAN];
    uint64_t positive = cell->i > 0 ? (uint64_t)cell->i : 0;
    double whole;
    if (cell->type == HX_VALUE_REAL && column->as != HX_AS_SHARE) {
        put_real_cell(column, cell->real, ret);
        return;
    }
    switch (column->as) {
    case HX_AS_BYTES:
        hx_text_puts(ret, cell->i < 0 ? "-" : "");
        hx_text_puts(ret, hx_human_bytes(cell->i < 0 ? 0 - (uint64_t)cell->i : positive, buf));
        break;
    case HX_AS_CHANGE:
        hx_text_change(ret, cell->i);
        break;
    case HX_AS_COUNT_CHANGE:
        hx_text_puts(ret, cell->i > 0 ? "+" : "");
        hx_text_count(ret, cell->i);
        break;
    case HX_AS_HEX:
        hx_text_putf(ret, "0x%" PRIx64, (uint64_t)cell->i);
        break;
    case HX_AS_OFFSET:
        hx_text_putf(ret, "+%" PRId64, cell->i);
        break;
    case HX_AS_US:
        hx_text_puts(ret, hx_human_ns(positive * 1000, buf));
        break;
    case HX_AS_SHARE:
        whole = column_cell_number(hx_table_at(facts, 0, column->whole));
        if (whole > 0)
            hx_text_putf(ret, "%.1f%%", 100 * column_cell_number(cell) / whole);
        else
            hx_text_putc(ret, '-');
        break;
    case HX_AS_NUMBER:
    case HX_AS_VALUE:
        hx_text_putf(ret, "%" PRId64, cell->i);
        break;
    default:
        hx_text_count(ret, cell->i);
    }
}

static void put_calls(const struct hx_cell *cell, bool ascii, struct hx_text *ret)
{
    struct hx_text calls = {0};
    hx_text_calls(&calls, hx_cell_text(cell));
    hx_text_escape(ret, hx_text_str(&calls), calls.n, ascii);
    ret->failed |= calls.failed;
    hx_text_free(&calls);
}

/* Calls have something between them, types have not. */
static void put_name_cell(const struct hx_column *column, const struct hx_cell *cell, bool ascii,
                          struct hx_text *ret)
{
    const char *name = hx_cell_text(cell);
    if (column->as == HX_AS_NAME && strstr(name, " < "))
        put_calls(cell, ascii, ret);
    else
        hx_text_type_shown(ret, name, ascii);
}

/* A CAF is all that the initialisers of a module do. A node is marked where a function that is on
 * the stack already was called again: that is no node below it. */
void hx_node_name(const struct hx_table *rows, size_t row, bool ascii, struct hx_text *ret)
{
    const char *kind = hx_table_text(rows, row, "kind");
    if (strcmp(kind, "caf") == 0) {
        const char *module = hx_table_text(rows, row, "module");
        hx_text_escape(ret, module, strlen(module), ascii);
        hx_text_puts(ret, " (CAF)");
    } else {
        put_calls(hx_table_at(rows, row, "label"), ascii, ret);
    }
    if (strcmp(kind, "region") == 0)
        hx_text_puts(ret, " (region)");
    if (hx_table_int(rows, row, "recursive", 0))
        hx_text_puts(ret, ascii ? " (rec)" : " \u21ba");
}

/* "  + main": a cell for each level, whether there is more below, and its name. */
static void put_node(const struct hx_table *rows, size_t row, bool ascii, struct hx_text *ret)
{
    const char *below = hx_table_text(rows, row, "below");
    int64_t depth = hx_table_int(rows, row, "depth", 0);
    for (int64_t i = 0; i < depth && i < HX_INDENT_MAX; i++)
        hx_text_putc(ret, ' ');
    hx_text_puts(ret, strcmp(below, "folded") == 0     ? "+ "
                      : strcmp(below, "unfolded") == 0 ? "- "
                      : strcmp(below, "more") == 0     ? "... "
                                                       : "  ");
    hx_node_name(rows, row, ascii, ret);
}

static void put_source(const struct hx_cell *cell, bool ascii, struct hx_text *ret)
{
    const char *file = hx_source_file(hx_cell_text(cell));
    hx_text_escape(ret, file, strlen(file), ascii);
}

/* A bar from the middle of a cell's width, in half cells; something is never drawn as nothing. */
static void put_swing(const struct hx_column *column, const struct hx_cell *cell,
                      const struct hx_table *facts, bool ascii, struct hx_text *ret)
{
    double whole = column_cell_number(hx_table_at(facts, 0, column->whole)),
           value = column_cell_number(cell);
    int side = (column->width - 1) / 2, half = 0;
    if (cell->type == HX_VALUE_NULL)
        value = 0;
    double part = whole > 0 ? (value < 0 ? -value : value) / whole : 0;
    half = (int)((part < 1 ? part : 1) * 2 * side + 0.5);
    half = value != 0 && half < 1 ? 1 : half > 2 * side ? 2 * side : half;
    for (int i = -side; i <= side; i++) {
        bool here = value < 0 ? i < 0 : i > 0;
        int left = half - 2 * (i < 0 ? -i - 1 : i - 1);
        if (!i)
            hx_text_puts(ret, ascii ? "|" : "\u2502");
        else if (!here || left <= 0)
            hx_text_putc(ret, ' ');
        else if (ascii)
            hx_text_putc(ret, value < 0 ? '-' : '+');
        else
            hx_text_puts(ret, left >= 2 ? "\u2588" : value < 0 ? "\u2590" : "\u258c");
    }
}

void hx_text_spark(struct hx_text *text, const int64_t *value, size_t n, int cells, bool ascii)
{
    static const char *const blocks[] = {"\u2581", "\u2582", "\u2583", "\u2584",
                                         "\u2585", "\u2586", "\u2587", "\u2588"};
    static const char heights[] = " .:-=+*#";
    int64_t most = 0;
    size_t width = cells > 0 ? (size_t)cells : 0;
    width = width > n ? n : width;
    for (size_t i = 0; i < n; i++)
        most = value[i] > most ? value[i] : most;
    for (size_t i = 0; i < width; i++) {
        int64_t peak = -1;
        for (size_t k = i * n / width; k < (i + 1) * n / width; k++)
            peak = value[k] > peak ? value[k] : peak;
        int height = most > 0 && peak > 0 ? (int)((double)peak / (double)most * 7 + 0.5) : 0;
        if (peak < 0)
            hx_text_putc(text, ' ');
        else if (ascii)
            hx_text_putc(text, heights[peak > 0 && !height ? 1 : height]);
        else
            hx_text_puts(text, blocks[height]);
    }
}

/* Longer lines lose their end: nobody looks at so many. */
#define SPARK_MAX 4096

void hx_text_spark_of(struct hx_text *text, const char *numbers, int cells, bool ascii)
{
    HX_VEC(int64_t) value = {0};
    numbers += strspn(numbers, " ");
    while (*numbers && value.n < SPARK_MAX) {
        char *end;
        long long number = strtoll(numbers, &end, 10);
        int64_t known = end == numbers || number < 0 ? -1 : (int64_t)number;
        if (!hx_vec_push(&value, known)) {
            text->failed = true;
            break;
        }
        numbers += strcspn(numbers, " ");
        numbers += strspn(numbers, " ");
    }
    hx_text_spark(text, value.v, value.n, cells, ascii);
    hx_vec_free(&value);
}

/* Of an object without a type; the size has a column of its own. */
static void put_shape(const char *label, bool ascii, struct hx_text *ret)
{
    const char *words = strstr(label, ": ");
    const char *shown = words ? words + 2 : *label ? label : "-";
    hx_text_escape(ret, shown, strlen(shown), ascii);
}

void hx_column_text(const struct hx_column *column, const struct hx_table *rows, size_t row,
                    const struct hx_table *facts, bool ascii, struct hx_text *ret)
{
    const struct hx_cell *cell = hx_table_at(rows, row, column->name);
    if (column->as == HX_AS_BAR)
        return;
    if (column->marked)
        cell = hx_table_at(rows, row, column->marked);
    if (column->as == HX_AS_TYPE && cell->type == HX_VALUE_NULL) {
        put_shape(hx_table_text(rows, row, "shape"), ascii, ret);
        return;
    }
    if (column->as == HX_AS_SWING)
        put_swing(column, cell, facts, ascii, ret);
    else if (cell->type == HX_VALUE_NULL)
        hx_text_putc(ret, '-');
    else if (cell->type == HX_VALUE_TEXT && column->as == HX_AS_TIME)
        put_time(cell, ascii, ret);
    else if (cell->type == HX_VALUE_TEXT && column->as == HX_AS_SAFE)
        hx_text_putn(ret, cell->text, cell->n);
    else if (cell->type == HX_VALUE_TEXT && column->as == HX_AS_CALLS)
        put_calls(cell, ascii, ret);
    else if (cell->type == HX_VALUE_TEXT &&
             (column->as == HX_AS_TYPE || column->as == HX_AS_NAMES || column->as == HX_AS_NAME))
        put_name_cell(column, cell, ascii, ret);
    else if (cell->type == HX_VALUE_TEXT && column->as == HX_AS_TREE)
        put_node(rows, row, ascii, ret);
    else if (cell->type == HX_VALUE_TEXT && column->as == HX_AS_SOURCE)
        put_source(cell, ascii, ret);
    else if (cell->type == HX_VALUE_TEXT && column->as == HX_AS_SPARK)
        hx_text_spark_of(ret, cell->text, column->width, ascii);
    else if (cell->type == HX_VALUE_TEXT)
        hx_text_escape(ret, hx_cell_text(cell), strlen(hx_cell_text(cell)), ascii);
    else
        put_number(column, cell, facts, ret);
}

void hx_column_row(const struct hx_column *columns, const struct hx_table *rows, size_t row,
                   const struct hx_table *facts, bool ascii, struct hx_text *ret)
{
    for (const struct hx_column *column = columns; column->name; column++) {
        if (column->as == HX_AS_BAR || column->as == HX_AS_SWING || column->as == HX_AS_SPARK ||
            column->as == HX_AS_OWN || column->as == HX_AS_BAND)
            continue;
        if (ret->n)
            hx_text_putc(ret, ' ');
        struct hx_column whole = *column;
        whole.marked = NULL;
        hx_column_text(&whole, rows, row, facts, ascii, ret);
    }
}

bool hx_column_right(const struct hx_column *column)
{
    switch (column->as) {
    case HX_AS_TEXT:
    case HX_AS_VALUE:
    case HX_AS_CALLS:
    case HX_AS_TYPE:
    case HX_AS_NAMES:
    case HX_AS_NAME:
    case HX_AS_TREE:
    case HX_AS_SOURCE:
    case HX_AS_SAFE:
    case HX_AS_TIME:
    case HX_AS_BAR:
    case HX_AS_SWING:
    case HX_AS_SPARK:
    case HX_AS_OWN:
    case HX_AS_BAND:
        return false;
    default:
        return true;
    }
}

/* A column that takes the rest should have at least this much of it. */
#define REST_MIN 12

static int least(const struct hx_column *column)
{
    return column->width > 0 ? column->width : column->width < 0 ? -column->width : REST_MIN;
}

static int least_width(const struct hx_column *columns, const int *shown)
{
    int sum = 0;
    for (int i = 0; i < HX_COLUMNS_MAX && columns[i].name; i++)
        if (shown[i])
            sum += least(&columns[i]) + 1;
    return sum - 1;
}

/* Leaves out columns, the least important first, until the others fit. */
static void choose_columns(const struct hx_column *columns, int n, int width, int *shown)
{
    while (least_width(columns, shown) > width) {
        int worst = -1;
        for (int i = 0; i < n; i++)
            if (shown[i] && columns[i].drop && (worst < 0 || columns[i].drop > columns[worst].drop))
                worst = i;
        if (worst < 0)
            return;
        shown[worst] = 0;
    }
}

/* What the columns of a fixed width leave: each of the others has at least what it asks for, and
 * the same of what is left then; where even that is too much, all have the same. */
void hx_column_layout(const struct hx_column *columns, int width, int ret[HX_COLUMNS_MAX])
{
    int n = 0, rest = 0, left = width + 1, extra;
    for (; n < HX_COLUMNS_MAX && columns[n].name; n++)
        ret[n] = 1;
    for (int i = n; i < HX_COLUMNS_MAX; i++)
        ret[i] = 0;
    choose_columns(columns, n, width, ret);
    extra = width - least_width(columns, ret);
    for (int i = 0; i < n; i++) {
        if (!ret[i])
            continue;
        rest += columns[i].width <= 0;
        left -= columns[i].width > 0 ? columns[i].width + 1 : 1;
    }
    for (int i = 0; i < n; i++) {
        if (!ret[i])
            continue;
        if (columns[i].width > 0) {
            ret[i] = columns[i].width;
            continue;
        }
        int share = extra >= 0 ? extra / rest : left / rest;
        ret[i] = extra >= 0 ? least(&columns[i]) + share : share > 0 ? share : 1;
        extra -= extra >= 0 ? share : 0;
        left -= ret[i];
        rest--;
    }
}
