/* row.c - rows of the private tables: their descriptions, and what binds and reads them. */
#include "store/schema/row.h"

#include "base/cleanup.h"
#include "base/text.h"
#include "store/db.h"

/* clang-format off */
#define TABLE(table, overlays) [HX_TABLE_##table] = { \
    .name = "hx_" #table, .overlaid = (overlays), .column = (const struct hx_column_info[]){
#define INTEGER(column, ...) {#column, HX_INTEGER, #__VA_ARGS__},
#define REAL(column, ...)    {#column, HX_REAL, #__VA_ARGS__},
#define TEXT(column, ...)    {#column, HX_TEXT, #__VA_ARGS__},
#define NAME(column, ...)    {#column, HX_NAME, #__VA_ARGS__},
#define BLOB(column, ...)    {#column, HX_BLOB, #__VA_ARGS__},
#define END(...) {0}}, __VA_ARGS__},
const struct hx_table_info hx_tables[HX_TABLES] = {
#include "store/schema/tables.h"
};
/* clang-format on */

/* The columns of a row lie in steps of this. */
enum { CELL = sizeof(struct hx_int) };
_Static_assert(sizeof(struct hx_real) == CELL && sizeof(struct hx_str) == CELL &&
                   sizeof(struct hx_blob) == CELL,
               "columns of a row");

void hx_bind_name(sqlite3_stmt *statement, int i, struct hx_str name)
{
    if (name.n <= HX_TEXT_NAME) {
        sqlite3_bind_text(statement, i, name.s, (int)name.n, SQLITE_STATIC);
        return;
    }
    HX_CLEANUP(hx_text_free) struct hx_text bounded = {0};
    hx_text_names(&bounded, name.s, name.n);
    sqlite3_bind_text(statement, i, hx_text_str(&bounded), (int)bounded.n, SQLITE_TRANSIENT);
}

static void bind_cell(sqlite3_stmt *st, int i, enum hx_column_type type, const void *cell)
{
    const struct hx_int *n = cell;
    const struct hx_real *real = cell;
    const struct hx_str *text = cell;
    const struct hx_blob *blob = cell;
    switch (type) {
    case HX_INTEGER:
        n->known ? sqlite3_bind_int64(st, i, n->value) : sqlite3_bind_null(st, i);
        break;
    case HX_REAL:
        real->known ? sqlite3_bind_double(st, i, real->value) : sqlite3_bind_null(st, i);
        break;
    case HX_TEXT:
        sqlite3_bind_text64(st, i, text->s, text->n, SQLITE_STATIC, SQLITE_UTF8);
        break;
    case HX_NAME:
        hx_bind_name(st, i, *text);
        break;
    case HX_BLOB:
        sqlite3_bind_blob64(st, i, blob->s, blob->n, SQLITE_STATIC);
        break;
    }
}

static hx_error *prepare_insert(struct hx_inserter *inserter, const struct hx_table_info *table,
                                sqlite3_stmt **ret)
{
    HX_CLEANUP(hx_text_free) struct hx_text sql = {0};
    hx_text_putf(&sql, "INSERT %s%s INTO %s VALUES(", table->conflict ? "OR " : "",
                 table->conflict ? table->conflict : "", table->name);
    for (size_t i = 0; table->column[i].name; i++)
        hx_text_puts(&sql, i ? ",?" : "?");
    hx_text_puts(&sql, ")");
    HX_NEED(!sql.failed);
    return hx_db_prepare(inserter->db, inserter->what, hx_text_str(&sql), ret);
}

hx_error *hx_insert_row(struct hx_inserter *inserter, enum hx_table_id id, const void *row)
{
    const struct hx_table_info *table = &hx_tables[id];
    sqlite3_stmt **st = &inserter->statement[id];
    if (!*st)
        HX_TRY(prepare_insert(inserter, table, st));
    for (int i = 0; table->column[i].name; i++)
        bind_cell(*st, i + 1, table->column[i].type, (const char *)row + (size_t)i * CELL);
    return hx_db_run(inserter->db, inserter->what, *st);
}

void hx_inserter_deinit(struct hx_inserter *inserter)
{
    for (size_t i = 0; i < HX_TABLES; i++) {
        sqlite3_finalize(inserter->statement[i]);
        inserter->statement[i] = NULL;
    }
}

void hx_read_row(sqlite3_stmt *st, enum hx_table_id table, void *ret)
{
    const struct hx_column_info *column = hx_tables[table].column;
    for (int i = 0; column[i].name; i++) {
        void *cell = (char *)ret + (size_t)i * CELL;
        if (column[i].type == HX_INTEGER) {
            int64_t n = sqlite3_column_int64(st, i); /* of most it is all that has to be asked */
            bool known = n || sqlite3_column_type(st, i) != SQLITE_NULL;
            *(struct hx_int *)cell = (struct hx_int){n, known};
        } else if (column[i].type == HX_REAL) {
            bool known = sqlite3_column_type(st, i) != SQLITE_NULL;
            *(struct hx_real *)cell = (struct hx_real){sqlite3_column_double(st, i), known};
        } else if (column[i].type == HX_BLOB) {
            const void *blob = sqlite3_column_blob(st, i);
            *(struct hx_blob *)cell = (struct hx_blob){blob, (size_t)sqlite3_column_bytes(st, i)};
        } else {
            const char *text = (const char *)sqlite3_column_text(st, i);
            size_t n = text ? (size_t)sqlite3_column_bytes(st, i) : 0;
            *(struct hx_str *)cell = (struct hx_str){text, n};
        }
    }
}
