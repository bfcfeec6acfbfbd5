/* table.c - rows held in memory. */
#include "store/table.h"

#include "base/vec.h"

#include <string.h>

static const struct hx_cell no_cell;

hx_error *hx_table_begin(struct hx_table *table, const char *const *names)
{
    *table = (struct hx_table){0};
    size_t n = 0;
    while (names[n])
        n++;
    table->names = calloc(n + 1, sizeof *table->names);
    HX_NEED(table->names);
    for (; table->n_columns < n; table->n_columns++) {
        table->names[table->n_columns] = strdup(names[table->n_columns]);
        if (!table->names[table->n_columns]) {
            hx_table_deinit(table);
            return hx_error_nomem();
        }
    }
    return NULL;
}

hx_error *hx_table_add(struct hx_table *table, struct hx_cell **ret)
{
    size_t width = table->n_columns ? table->n_columns : 1;
    HX_NEED(hx_vec_reserve_raw((void **)&table->cell, &table->cap, (table->n_rows + 1) * width,
                               sizeof *table->cell));
    *ret = table->cell + table->n_rows * table->n_columns;
    memset(*ret, 0, table->n_columns * sizeof **ret);
    table->n_rows++;
    return NULL;
}

void hx_cell_set_int(struct hx_cell *cell, int64_t value)
{
    cell->type = HX_VALUE_INT;
    cell->i = value;
}

hx_error *hx_cell_set_text(struct hx_cell *cell, const char *text, size_t n)
{
    if (n > HX_CELL_TEXT_MAX)
        n = HX_CELL_TEXT_MAX;
    char *copy = malloc(n + 1);
    HX_NEED(copy);
    memcpy(copy, text, n);
    copy[n] = 0;
    free(cell->text);
    cell->type = HX_VALUE_TEXT;
    cell->text = copy;
    cell->n = n;
    return NULL;
}

hx_error *hx_cell_set_value(struct hx_cell *cell, const struct hx_value *value)
{
    if (value->type == HX_VALUE_TEXT)
        return hx_cell_set_text(cell, value->text, value->text_bytes);
    cell->type = value->type;
    cell->i = value->i;
    cell->real = value->real;
    return NULL;
}

static hx_error *begin_for(struct hx_table *table, const hx_rows *rows)
{
    size_t n = hx_rows_columns(rows);
    HX_FREE const char **names = calloc(n + 1, sizeof *names);
    HX_NEED(names);
    for (size_t i = 0; i < n; i++)
        names[i] = hx_rows_name(rows, i);
    return hx_table_begin(table, names);
}

hx_error *hx_table_read(struct hx_table *table, hx_rows *rows, int64_t limit)
{
    *table = (struct hx_table){0};
    HX_TRY(begin_for(table, rows));
    hx_error *error = NULL;
    while (!error && (limit < 0 || (int64_t)table->n_rows < limit)) {
        bool more = false;
        struct hx_cell *cell;
        error = hx_rows_next(rows, &more);
        if (error || !more)
            break;
        error = hx_table_add(table, &cell);
        for (size_t i = 0; i < table->n_columns && !error; i++) {
            struct hx_value value = hx_rows_value(rows, i);
            error = hx_cell_set_value(cell + i, &value);
        }
    }
    if (error)
        hx_table_deinit(table);
    return error;
}

hx_error *hx_table_next(struct hx_table *table, hx_rows *rows, const bool *wanted, bool *ret_more)
{
    struct hx_cell *cell = table->cell;
    HX_TRY(hx_rows_next(rows, ret_more));
    if (!*ret_more)
        return NULL;
    if (!table->n_rows) {
        HX_TRY(begin_for(table, rows));
        HX_TRY(hx_table_add(table, &cell));
    }
    for (size_t i = 0; i < table->n_columns; i++) {
        if (!wanted[i])
            continue;
        struct hx_value value = hx_rows_value(rows, i);
        HX_TRY(hx_cell_set_value(cell + i, &value));
    }
    return NULL;
}

const struct hx_cell *hx_table_at(const struct hx_table *table, size_t row, const char *name)
{
    if (row >= table->n_rows)
        return &no_cell;
    for (size_t i = 0; i < table->n_columns; i++)
        if (strcmp(table->names[i], name) == 0)
            return table->cell + row * table->n_columns + i;
    return &no_cell;
}

int64_t hx_table_int(const struct hx_table *table, size_t row, const char *name, int64_t other)
{
    const struct hx_cell *cell = hx_table_at(table, row, name);
    return cell->type == HX_VALUE_INT ? cell->i : other;
}

const char *hx_cell_text(const struct hx_cell *cell)
{
    return cell->type == HX_VALUE_TEXT ? cell->text : "";
}

const char *hx_table_text(const struct hx_table *table, size_t row, const char *name)
{
    return hx_cell_text(hx_table_at(table, row, name));
}

static struct hx_filter_value filter_value(void *context, size_t column)
{
    const struct hx_cell *cell = (const struct hx_cell *)context + column;
    struct hx_filter_value value = {
        .i = cell->i, .real = cell->real, .text = cell->text, .n = cell->n};
    value.type = cell->type == HX_VALUE_INT    ? HX_FILTER_INT
                 : cell->type == HX_VALUE_REAL ? HX_FILTER_REAL
                 : cell->type == HX_VALUE_TEXT ? HX_FILTER_STRING
                                               : HX_FILTER_NULL;
    return value;
}

void hx_table_filter(struct hx_table *table, const hx_filter *filter)
{
    size_t n = table->n_columns, kept = 0;
    for (size_t row = 0; row < table->n_rows; row++) {
        struct hx_cell *cells = table->cell + row * n;
        if (!hx_filter_holds(filter, filter_value, cells)) {
            for (size_t i = 0; i < n; i++)
                free(cells[i].text);
            continue;
        }
        memmove(table->cell + kept++ * n, cells, n * sizeof *cells);
    }
    table->n_rows = kept;
}

void hx_table_deinit(struct hx_table *table)
{
    for (size_t i = 0; i < table->n_rows * table->n_columns; i++)
        free(table->cell[i].text);
    for (size_t i = 0; i < table->n_columns; i++)
        free(table->names[i]);
    free(table->cell);
    free(table->names);
    *table = (struct hx_table){0};
}
