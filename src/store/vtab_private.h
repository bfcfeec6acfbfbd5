/* vtab_private.h - how an object table is laid out, and the plan of a query over it. */
#ifndef HX_STORE_VTAB_PRIVATE_H
#define HX_STORE_VTAB_PRIVATE_H

#include "store/blocks.h"
#include "store/sqlite.h"

enum { HX_TABLE_COLUMNS = 17, HX_TABLE_FILTERS = 6 };

/* How a column is served. */
enum hx_serve {
    HX_SERVE_SNAPSHOT,
    HX_SERVE_NULL,
    HX_SERVE_INT,    /* the decoded value */
    HX_SERVE_WORDS,  /* the decoded value times 8 */
    HX_SERVE_UNZERO, /* the decoded value, NULL for 0 */
    HX_SERVE_UNPLUS, /* the decoded value less 1, NULL for 0 */
    HX_SERVE_STATE,
    HX_SERVE_KIND,
    HX_SERVE_TYPE,          /* the name of that type, NULL for 0 */
    HX_SERVE_BIN,           /* the name of the bin of that number less 1, NULL for 0 */
    HX_SERVE_OBJECT,        /* the address of the object of that index */
    HX_SERVE_OBJECT_UNPLUS, /* the same of that number less 1, NULL for 0 */
};

struct hx_table_column {
    enum hx_serve serve;
    enum hx_derived derived;
    int column;
};

struct hx_table {
    const char *name, *declaration;
    enum hx_family family;
    int key;                      /* the column by which rows are ordered */
    int filter[HX_TABLE_FILTERS]; /* columns that a scan can filter by; 0: no more */
    double rows, rows_of_key;
    struct hx_table_column column[HX_TABLE_COLUMNS];
};

/* Which constraints xFilter gets, in this order of arguments: sqlite3_index_info.idxNum. */
enum hx_plan {
    HX_PLAN_SNAPSHOT = 1, /* = */
    HX_PLAN_ROWID = 2,    /* = */
    HX_PLAN_KEY = 4,      /* = */
    HX_PLAN_LOW = 8,      /* key > or >= */
    HX_PLAN_HIGH = 16,    /* key < or <= */
    HX_PLAN_FILTER = 32,  /* = or IS or IS NULL on table.filter[0]; the next bits: on the others */
    HX_PLAN_FILTERS = HX_PLAN_FILTER * ((1 << HX_TABLE_FILTERS) - 1),
    HX_PLAN_LIMIT = 2048, /* the first rows by the column that the plan names, see plan_top() */
    HX_PLAN_OFFSET = 4096,
    HX_PLAN_BITS = 13,
    HX_PLAN_NULL_SHIFT = HX_PLAN_BITS - 5, /* a filter's bit so much higher: NULL equals NULL */
    HX_PLAN_COLUMN_SHIFT = 19,             /* HX_PLAN_LIMIT: the column to order by */
    HX_PLAN_COLUMN_MASK = 0xff,
    HX_PLAN_LARGEST = 1 << 27, /* HX_PLAN_LIMIT: descending */
};

/* Chooses the plan; writes it into `info`. */
void hx_table_plan(const struct hx_table *table, sqlite3_index_info *info);

#endif
