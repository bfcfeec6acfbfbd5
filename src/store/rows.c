/* rows.c - rows, from a statement, made in memory, or made as they are read. */
#include "base/vec.h"
#include "store/db.h"
#include "store/query.h"
#include "store/store_private.h"

#include <stdlib.h>
#include <string.h>

struct hx_rows {
    /* from a statement */
    hx_store *store;
    sqlite3_stmt *statement; /* NULL: in memory */
    bool begun;              /* it stands on the row that comes next */
    bool ended;              /* a statement would begin again, a generator may not like it */
    bool *names;             /* of each column: it holds names of others, which are bounded */
    struct hx_text *bounded; /* of each column: such a name */

    /* in memory */
    size_t columns;
    char **name;
    HX_VEC(struct hx_value) values; /* row by row; texts are owned */
    size_t next;                    /* index in values of the row that comes next */

    /* made as they are read: `values` holds one row, not owned */
    hx_rows_next_fn *generate;
    void *context;
};

/* Columns of views, and of statements over them, with what a target or a file called something. */
static bool holds_names(const char *column)
{
    static const char *const names[] = {
        "type",   "name",      "label", "module", "site",  "key",    "comm",
        "exe",    "symbol",    "shape", "path",   "roots", "source", "stack",
        "holder", "allocator", "notes", "kind",   "what",  "types",
    };
    for (size_t i = 0; column && i < sizeof names / sizeof *names; i++)
        if (strcmp(column, names[i]) == 0)
            return true;
    return false;
}

static void bound(struct hx_text *text, struct hx_value *value)
{
    hx_text_clear(text);
    hx_text_names(text, value->text, value->text_bytes);
    value->text = text->failed ? "" : hx_text_str(text);
    value->text_bytes = text->failed ? 0 : text->n;
}

hx_error *hx_rows_over(hx_store *store, sqlite3_stmt *statement, hx_rows **ret)
{
    hx_rows *rows = calloc(1, sizeof *rows);
    if (!rows) {
        sqlite3_finalize(statement);
        return hx_error_nomem();
    }
    rows->store = store;
    rows->statement = statement;
    rows->begun = sqlite3_stmt_busy(statement);
    int n = sqlite3_column_count(statement);
    rows->names = calloc((size_t)n + 1, sizeof *rows->names);
    rows->bounded = calloc((size_t)n + 1, sizeof *rows->bounded);
    if (!rows->names || !rows->bounded) {
        hx_rows_end(rows);
        return hx_error_nomem();
    }
    for (int i = 0; i < n; i++)
        rows->names[i] = holds_names(sqlite3_column_name(statement, i));
    *ret = rows;
    return NULL;
}

hx_error *hx_rows_create(const char *const *names, size_t columns, hx_rows **ret)
{
    hx_rows *rows = calloc(1, sizeof *rows);
    HX_NEED(rows);
    rows->name = calloc(columns + 1, sizeof *rows->name);
    for (; rows->name && rows->columns < columns; rows->columns++) {
        rows->name[rows->columns] = strdup(names[rows->columns]);
        if (!rows->name[rows->columns])
            break;
    }
    if (!rows->name || rows->columns < columns) {
        hx_rows_end(rows);
        return hx_error_nomem();
    }
    *ret = rows;
    return NULL;
}

hx_error *hx_rows_generate(const char *const *names, size_t columns, hx_rows_next_fn *next,
                           void *context, hx_rows **ret)
{
    hx_rows *rows;
    HX_TRY(hx_rows_create(names, columns, &rows));
    if (!hx_vec_reserve(&rows->values, columns)) {
        hx_rows_end(rows);
        return hx_error_nomem();
    }
    rows->generate = next;
    rows->context = context;
    *ret = rows;
    return NULL;
}

hx_error *hx_rows_add(hx_rows *rows, const struct hx_value *values)
{
    HX_NEED(hx_vec_reserve(&rows->values, rows->values.n + rows->columns));
    size_t first = rows->values.n;
    for (size_t c = 0; c < rows->columns; c++) {
        struct hx_value value = values[c];
        if (value.type == HX_VALUE_TEXT) {
            char *copy = malloc(value.text_bytes + 1);
            if (!copy) {
                while (rows->values.n > first) {
                    struct hx_value *last = &rows->values.v[--rows->values.n];
                    if (last->type == HX_VALUE_TEXT)
                        free((char *)last->text);
                }
                return hx_error_nomem();
            }
            if (value.text_bytes)
                memcpy(copy, value.text, value.text_bytes);
            copy[value.text_bytes] = 0;
            value.text = copy;
        }
        rows->values.v[rows->values.n++] = value;
    }
    return NULL;
}

size_t hx_rows_columns(const hx_rows *rows)
{
    return rows->statement ? (size_t)sqlite3_column_count(rows->statement) : rows->columns;
}

const char *hx_rows_name(const hx_rows *rows, size_t column)
{
    if (!rows->statement)
        return rows->name[column];
    const char *name = sqlite3_column_name(rows->statement, (int)column);
    return name ? name : "";
}

static hx_error *generate(hx_rows *rows, bool *ret_more)
{
    *ret_more = false;
    if (!rows->ended) {
        HX_TRY(rows->generate(rows->context, rows->values.v, ret_more));
        rows->ended = !*ret_more;
    }
    rows->next = *ret_more ? rows->columns : 0;
    return NULL;
}

hx_error *hx_rows_next(hx_rows *rows, bool *ret_more)
{
    if (rows->generate)
        return generate(rows, ret_more);
    if (!rows->statement) {
        *ret_more = rows->next < rows->values.n;
        rows->next += *ret_more ? rows->columns : 0;
        return NULL;
    }
    if (rows->ended) {
        *ret_more = false;
        return NULL;
    }
    int code = rows->begun ? SQLITE_ROW : sqlite3_step(rows->statement);
    rows->begun = false;
    rows->ended = code != SQLITE_ROW;
    if (code != SQLITE_ROW && code != SQLITE_DONE)
        return hx_db_error(rows->store->db, code, rows->store->path);
    *ret_more = code == SQLITE_ROW;
    return NULL;
}

struct hx_value hx_rows_value(const hx_rows *rows, size_t column)
{
    struct hx_value value = {.type = HX_VALUE_NULL};
    int i = (int)column;
    if (!rows->statement)
        return rows->next < rows->columns || column >= rows->columns
                   ? value
                   : rows->values.v[rows->next - rows->columns + column];
    switch (sqlite3_column_type(rows->statement, i)) {
    case SQLITE_INTEGER:
        value.type = HX_VALUE_INT;
        value.i = sqlite3_column_int64(rows->statement, i);
        break;
    case SQLITE_FLOAT:
        value.type = HX_VALUE_REAL;
        value.real = sqlite3_column_double(rows->statement, i);
        break;
    case SQLITE_TEXT:
    case SQLITE_BLOB:
        value.type = HX_VALUE_TEXT;
        value.text = (const char *)sqlite3_column_text(rows->statement, i); /* ends with 0 */
        value.text_bytes = (size_t)sqlite3_column_bytes(rows->statement, i);
        if (!value.text)
            value = (struct hx_value){.type = HX_VALUE_TEXT, .text = ""};
        if (value.text_bytes > HX_TEXT_NAME && rows->names[i])
            bound(&rows->bounded[i], &value);
        break;
    default:
        break;
    }
    return value;
}

void hx_rows_turn_to(hx_rows *rows, int64_t snapshot)
{
    sqlite3_reset(rows->statement);
    sqlite3_bind_int64(rows->statement, 1, snapshot);
    rows->begun = rows->ended = false;
}

void hx_rows_end(hx_rows *rows)
{
    if (!rows)
        return;
    for (int i = 0; rows->bounded && i < sqlite3_column_count(rows->statement); i++)
        hx_text_free(&rows->bounded[i]);
    free(rows->bounded);
    free(rows->names);
    sqlite3_finalize(rows->statement);
    for (size_t i = 0; i < rows->values.n; i++)
        if (rows->values.v[i].type == HX_VALUE_TEXT)
            free((char *)rows->values.v[i].text);
    hx_vec_free(&rows->values);
    for (size_t c = 0; c < rows->columns; c++)
        free(rows->name[c]);
    free(rows->name);
    free(rows);
}
