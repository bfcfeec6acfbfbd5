/* row.h - rows of the private tables, written and read by the names of their columns.
 *
 * struct hx_row_root is a row of hx_root, and so on for each table of tables.h. What is not set of
 * it is NULL.
 *
 *     HX_TRY(hx_insert(&inserter, named, .snapshot = hx_int(id), .name = hx_str(name)));
 *
 *     while ((code = sqlite3_step(st)) == SQLITE_ROW) { // of SELECT * FROM hx_named
 *         struct hx_row_named row = hx_row(st, named);
 */
#ifndef HX_STORE_SCHEMA_ROW_H
#define HX_STORE_SCHEMA_ROW_H

#include "base/error.h"
#include "store/sqlite.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* --- what a column holds: all zero is NULL ------------------------------------------- */

struct hx_int {
    int64_t value;
    bool known;
};
struct hx_real {
    double value;
    bool known;
};
struct hx_str { /* s NULL: NULL; read: valid until the next row */
    const char *s;
    size_t n;
};
struct hx_blob {
    const void *s;
    size_t n;
};

#define HX_NULL                 ((struct hx_int){0})
#define hx_int(n)               ((struct hx_int){(int64_t)(n), true})
#define hx_int_if(condition, n) ((condition) ? hx_int(n) : HX_NULL)
#define hx_real(n)              ((struct hx_real){(n), true})

/* A count that may be lied about stops at the top. */
static inline struct hx_int hx_count(uint64_t n)
{
    return hx_int(n < INT64_MAX ? n : INT64_MAX);
}

static inline struct hx_str hx_str(const char *s)
{
    return (struct hx_str){s, s ? strlen(s) : 0};
}

/* --- tables ---------------------------------------------------------------------------- */

#define TABLE(table, overlaid) HX_TABLE_##table,
#define INTEGER(column, ...)
#define REAL(column, ...)
#define TEXT(column, ...)
#define NAME(column, ...)
#define BLOB(column, ...)
#define END(...)
enum hx_table_id {
#include "store/schema/tables.h"
    HX_TABLES
};

#define TABLE(table, overlaid) struct hx_row_##table {
#define INTEGER(column, ...)   struct hx_int column;
#define REAL(column, ...)      struct hx_real column;
#define TEXT(column, ...)      struct hx_str column;
#define NAME(column, ...)      struct hx_str column;
#define BLOB(column, ...)      struct hx_blob column;
#define END(...)                                                                                   \
    }                                                                                              \
    ;
#include "store/schema/tables.h"

/* What lies over a table of the file (schema.h). */
enum hx_overlaid {
    HX_OVERLAID = 1,   /* by answers of an analysis */
    HX_SUPPRESSED = 2, /* by leaks and snapshots without what is known */
    HX_ATTRIBUTED = 4, /* by what follows from a choice of cost centres: empty at first */
    HX_PAGES = 8,      /* the same: but for the census of sites */
    HX_JOINED = 16,    /* with HX_OVERLAID: empty at first, and what the file has is joined */
    HX_IN_MEMORY = 32, /* with HX_ATTRIBUTED: attribution_tables.h */
};

enum hx_column_type { HX_INTEGER, HX_REAL, HX_TEXT, HX_NAME, HX_BLOB };

struct hx_table_info {
    const char *name;
    unsigned overlaid;
    const struct hx_column_info {
        const char *name; /* NULL: the end */
        enum hx_column_type type;
        const char *constraint; /* in SQL, or "" */
    } * column;
    const char *primary_key, *unique; /* columns; NULL: none */
    const char *index;                /* "NAME ON TABLE(...)"; NULL: none */
    bool index_is_unique;
    bool quoted;          /* in the text of its statement, as ALTER leaves it */
    const char *conflict; /* what is done when there is such a row: IGNORE, REPLACE; NULL: fail */
};
extern const struct hx_table_info hx_tables[HX_TABLES];

/* --- rows ------------------------------------------------------------------------------ */

/* Statements of one connection, each made when its table gets the first row. */
struct hx_inserter {
    sqlite3 *db;
    const char *what;
    sqlite3_stmt *statement[HX_TABLES];
};
void hx_inserter_deinit(struct hx_inserter *inserter);

hx_error *hx_insert_row(struct hx_inserter *inserter, enum hx_table_id table, const void *row);
#define hx_insert(inserter, table, ...)                                                            \
    hx_insert_row((inserter), HX_TABLE_##table, &(struct hx_row_##table){__VA_ARGS__})

/* The row that a SELECT of all columns is at. */
void hx_read_row(sqlite3_stmt *statement, enum hx_table_id table, void *ret);
#define hx_row(statement, table)                                                                   \
    ({                                                                                             \
        struct hx_row_##table hx_row_;                                                             \
        hx_read_row((statement), HX_TABLE_##table, &hx_row_);                                      \
        hx_row_;                                                                                   \
    })

/* Binds a name, or several: as long as one may be (base/text.h). NULL binds NULL. */
void hx_bind_name(sqlite3_stmt *statement, int i, struct hx_str name);

#endif
