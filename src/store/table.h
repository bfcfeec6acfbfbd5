/* table.h - rows held in memory: a window of a list, or a list that is made here.
 *
 * A copy of what the store's cursor gave, so that drawing never waits for a query.
 * Text is as the target gave it: it is escaped when it is shown, not before. What people read
 * in place of the mangled names in it is made once, when the rows are loaded.
 */
#ifndef HX_STORE_TABLE_H
#define HX_STORE_TABLE_H

#include "base/cleanup.h"
#include "base/progress.h"
#include "query/filter.h"
#include "store/query.h"

/* Longest text that is kept of one value. */
#define HX_CELL_TEXT_MAX 65536

struct hx_cell {
    enum hx_value_type type;
    int64_t i;
    double real;
    char *text; /* owned, ends with 0 */
    size_t n;
};

/* Invariants: names has n_columns entries; cell has n_columns * n_rows. */
struct hx_table {
    size_t n_columns, n_rows, cap;
    char **names;
    struct hx_cell *cell;
};

/* Begins an empty table; names is a list that ends with NULL. */
hx_error *hx_table_begin(struct hx_table *table, const char *const *names);

/* Appends a row of NULLs and gives its cells. */
hx_error *hx_table_add(struct hx_table *table, struct hx_cell **ret);

void hx_cell_set_int(struct hx_cell *cell, int64_t value);
hx_error *hx_cell_set_text(struct hx_cell *cell, const char *text, size_t n);
hx_error *hx_cell_set_value(struct hx_cell *cell, const struct hx_value *value);

/* Takes up to limit rows (all that are left when limit < 0). */
hx_error *hx_table_read(struct hx_table *table, hx_rows *rows, int64_t limit);

/* Takes one row in place of the one before; only columns i with wanted[i]. A table that is
 * empty is begun first. *ret_more: there was one. */
hx_error *hx_table_next(struct hx_table *table, hx_rows *rows, const bool *wanted, bool *ret_more);

/* Row `row` of column `name`; a NULL cell when there is no such row or column. */
const struct hx_cell *hx_table_at(const struct hx_table *table, size_t row, const char *name);

/* The integer there, `other` when it is NULL or no number. */
int64_t hx_table_int(const struct hx_table *table, size_t row, const char *name, int64_t other);

/* The text of a cell, and the one there; "" when it is none. */
const char *hx_cell_text(const struct hx_cell *cell);
const char *hx_table_text(const struct hx_table *table, size_t row, const char *name);

/* Takes away the rows for which a filter does not hold; its ids are numbers of columns. */
void hx_table_filter(struct hx_table *table, const hx_filter *filter);

void hx_table_deinit(struct hx_table *table);

#endif
