/* vtab_private.h - how an object table is laid out, and the plan of a query over it. */
#ifndef HX_STORE_OBJECTS_VTAB_PRIVATE_H
#define HX_STORE_OBJECTS_VTAB_PRIVATE_H

#include "store/objects/blocks.h"
#include "store/sqlite.h"

enum { HX_TABLE_COLUMNS = 22, HX_TABLE_CONDITIONS = 16 };

/* How a column is served. */
enum hx_serve {
    HX_SERVE_SNAPSHOT,
    HX_SERVE_INT,    /* the decoded value */
    HX_SERVE_WORDS,  /* the decoded value times 8 */
    HX_SERVE_UNZERO, /* the decoded value, NULL for 0 */
    HX_SERVE_UNPLUS, /* the decoded value less 1, NULL for 0 */
    HX_SERVE_STATE,
    HX_SERVE_KIND,
    HX_SERVE_TYPE,          /* the name of that type, NULL for 0 */
    HX_SERVE_BIN,           /* the name of the bin of that number less 1, NULL for 0 */
    HX_SERVE_SHAPE,         /* the name of that shape, NULL for 0 */
    HX_SERVE_HOLDER,        /* the name of the holder of that number less 1, NULL for 0 */
    HX_SERVE_RULE,          /* the name of that rule, NULL for 0 */
    HX_SERVE_CONFIDENCE,    /* of a type (hx_typed), NULL for 0 */
    HX_SERVE_SOURCE,        /* what said so, NULL for 0 */
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
    int key; /* the column by which rows are ordered */
    double rows, rows_of_key;
    struct hx_table_column column[HX_TABLE_COLUMNS];
};

/* Which values xFilter gets, in this order of arguments: sqlite3_index_info.idxNum. Behind them
 * come those of the conditions that idxStr tells: a letter for the column, 'A' being the first, and
 * one for the comparison. */
enum hx_plan {
    HX_PLAN_SNAPSHOT = 1, /* = */
    HX_PLAN_ROWID = 2,    /* = */
    HX_PLAN_LIMIT = 4,
    HX_PLAN_OFFSET = 8,
    HX_PLAN_BITS = 4,
    HX_PLAN_TOP = 16, /* the first rows by the column that the plan names, see plan_top() */
    HX_PLAN_COLUMN_SHIFT = 8,
    HX_PLAN_COLUMN_MASK = 0xff,
    HX_PLAN_LARGEST = 1 << 16, /* descending */
};

enum hx_compare {
    HX_COMPARE_EQ = '=',
    HX_COMPARE_IS = 'i', /* = where NULL equals NULL, or IS NULL */
    HX_COMPARE_NOT_NULL = 'n',
    HX_COMPARE_LT = '<',
    HX_COMPARE_LE = 'l',
    HX_COMPARE_GT = '>',
    HX_COMPARE_GE = 'g',
};

/* Is it a name of a list (column_names.h)? */
static inline bool hx_serve_is_name(enum hx_serve serve)
{
    return serve == HX_SERVE_TYPE || serve == HX_SERVE_BIN || serve == HX_SERVE_SHAPE ||
           serve == HX_SERVE_HOLDER;
}
static inline bool hx_serve_is_text(enum hx_serve serve)
{
    return serve == HX_SERVE_STATE || serve == HX_SERVE_RULE || hx_serve_is_name(serve);
}
static inline bool hx_serve_is_number(enum hx_serve serve)
{
    return serve == HX_SERVE_INT || serve == HX_SERVE_UNZERO || serve == HX_SERVE_UNPLUS;
}
/* Is a decoded value of 0 served as NULL? */
static inline bool hx_serve_has_null(enum hx_serve serve)
{
    return serve != HX_SERVE_INT && serve != HX_SERVE_OBJECT && serve != HX_SERVE_WORDS &&
           serve != HX_SERVE_KIND;
}

/* Reads a bound. Integral numbers are exact, others give the integer below; false when the
 * value is no number: then SQLite's own test decides. */
bool hx_bound_of(sqlite3_value *value, int64_t *ret, bool *ret_exact);

/* Which values, as users see them, pass a comparison: those from low to high, and NULL. */
struct hx_interval {
    uint64_t low, high; /* low > high: none */
    bool nulls;
};
struct hx_interval hx_interval_of(enum hx_compare compare, sqlite3_value *value);
/* The same as decoded values. */
void hx_interval_decode(enum hx_serve serve, struct hx_interval interval, uint64_t *ret_low,
                        uint64_t *ret_high);

/* Chooses the plan; writes it into `info`. Returns an SQLite code. */
int hx_table_plan(const struct hx_table *table, sqlite3_index_info *info);

#endif
