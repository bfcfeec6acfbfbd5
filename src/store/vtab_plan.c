/* vtab_plan.c - which constraints of a query an object table takes on, what that will cost, and
 * whether rows then come in the order that is asked for. */
#include "store/vtab_private.h"

#include <string.h>

/* The bit of a filter that serves the constraint: exact comparisons only. */
static unsigned plan_filter(const struct hx_table *table, sqlite3_index_info *info, int i)
{
    int column = info->aConstraint[i].iColumn;
    unsigned char op = info->aConstraint[i].op;
    bool nulls = op == SQLITE_INDEX_CONSTRAINT_IS || op == SQLITE_INDEX_CONSTRAINT_ISNULL;
    enum hx_serve serve = table->column[column].serve;
    if ((op != SQLITE_INDEX_CONSTRAINT_EQ && !nulls) || (nulls && serve == HX_SERVE_OBJECT))
        return 0;
    bool text = serve == HX_SERVE_STATE || serve == HX_SERVE_TYPE || serve == HX_SERVE_BIN;
    if (text && strcmp(sqlite3_vtab_collation(info, i), "BINARY") != 0)
        return 0;
    for (unsigned f = 0; f < HX_TABLE_FILTERS && table->filter[f]; f++)
        if (table->filter[f] == column)
            return HX_PLAN_FILTER << f | (nulls ? HX_PLAN_FILTER << f << HX_PLAN_NULL_SHIFT : 0);
    return 0;
}

static unsigned plan_of(const struct hx_table *table, sqlite3_index_info *info, int i)
{
    int column = info->aConstraint[i].iColumn;
    unsigned char op = info->aConstraint[i].op;
    if (op == SQLITE_INDEX_CONSTRAINT_LIMIT || op == SQLITE_INDEX_CONSTRAINT_OFFSET)
        return 0; /* those have no column */
    bool equal = op == SQLITE_INDEX_CONSTRAINT_EQ;
    if (column == 0)
        return equal ? HX_PLAN_SNAPSHOT : 0;
    if (column < 0)
        return equal ? HX_PLAN_ROWID : 0;
    unsigned filter = plan_filter(table, info, i);
    if (filter)
        return filter;
    if (column != table->key)
        return 0;
    switch (op) {
    case SQLITE_INDEX_CONSTRAINT_EQ:
        return HX_PLAN_KEY;
    case SQLITE_INDEX_CONSTRAINT_GT:
    case SQLITE_INDEX_CONSTRAINT_GE:
        return HX_PLAN_LOW;
    case SQLITE_INDEX_CONSTRAINT_LT:
    case SQLITE_INDEX_CONSTRAINT_LE:
        return HX_PLAN_HIGH;
    default:
        return 0;
    }
}

/* Rows come ordered by (snapshot, key); with one snapshot also by key alone. */
static bool order_is_ours(const struct hx_table *table, const sqlite3_index_info *info,
                          unsigned plan)
{
    const int ours[2] = {0, table->key};
    int at = 0;
    for (int i = 0; i < info->nOrderBy; i++) {
        int column = info->aOrderBy[i].iColumn;
        if (info->aOrderBy[i].desc)
            return false;
        if (plan & HX_PLAN_SNAPSHOT) { /* the same in all rows */
            at = at ? at : 1;
            if (column == 0)
                continue;
        }
        if (at == 2 && (column == table->key || table->rows_of_key <= 1))
            continue; /* said before, or only one row is left to order */
        if (at == 2 || column != ours[at])
            return false;
        at++;
    }
    return true;
}

static void estimate(const struct hx_table *table, unsigned plan, sqlite3_index_info *info)
{
    /* scanning costs less than handing a row over, decoding a block more than either */
    double snapshots = plan & HX_PLAN_SNAPSHOT ? 1 : 8, rows = table->rows, cost = rows;
    if (plan & HX_PLAN_ROWID) {
        snapshots = rows = cost = 1;
        info->idxFlags = SQLITE_INDEX_SCAN_UNIQUE;
    } else if (plan & HX_PLAN_KEY) {
        rows = table->rows_of_key;
        cost = 8 + rows;
        if (plan & HX_PLAN_SNAPSHOT && table->rows_of_key <= 1)
            info->idxFlags = SQLITE_INDEX_SCAN_UNIQUE;
    } else {
        if (plan & HX_PLAN_LOW)
            rows /= 8;
        if (plan & HX_PLAN_HIGH)
            rows /= 8;
        cost = 8 + rows;
    }
    if (plan & HX_PLAN_FILTERS) {
        cost = 8 + cost / 16;
        rows = rows <= 64 ? 1 : table->family == HX_FAMILY_OBJECT ? rows / 64 : 4;
    }
    info->estimatedCost = cost * snapshots;
    info->estimatedRows = (sqlite3_int64)(rows * snapshots);
}

/* Do decoded values have the order of what they are served as, NULL first? */
static bool keeps_order(const struct hx_table_column *column)
{
    return (column->serve == HX_SERVE_INT && column->derived != HX_ADDRESS) ||
           column->serve == HX_SERVE_UNZERO || column->serve == HX_SERVE_UNPLUS;
}

/* "The largest objects of a snapshot": ORDER BY such a column with a LIMIT and no other
 * constraint. SQLite would sort all objects; one pass finds those few. */
static bool plan_top(const struct hx_table *table, sqlite3_index_info *info)
{
    int first = info->nOrderBy ? info->aOrderBy[0].iColumn : -1;
    if (table->family != HX_FAMILY_OBJECT || first < 0 || !keeps_order(&table->column[first]))
        return false;
    for (int i = 1; i < info->nOrderBy; i++) /* ties come in the order of addresses */
        if (info->aOrderBy[i].desc ||
            (info->aOrderBy[i].iColumn != 0 && info->aOrderBy[i].iColumn != table->key))
            return false;
    int snapshot = -1, limit = -1, offset = -1;
    for (int i = 0; i < info->nConstraint; i++) {
        unsigned char op = info->aConstraint[i].op;
        int *which = op == SQLITE_INDEX_CONSTRAINT_LIMIT    ? &limit
                     : op == SQLITE_INDEX_CONSTRAINT_OFFSET ? &offset
                     : info->aConstraint[i].iColumn == 0 && op == SQLITE_INDEX_CONSTRAINT_EQ
                         ? &snapshot
                         : NULL;
        if (!which || *which >= 0 || !info->aConstraint[i].usable)
            return false;
        *which = i;
    }
    if (snapshot < 0 || limit < 0)
        return false;
    info->aConstraintUsage[snapshot].argvIndex = 1;
    info->aConstraintUsage[limit].argvIndex = 2;
    if (offset >= 0)
        info->aConstraintUsage[offset].argvIndex = 3;
    info->idxNum = HX_PLAN_SNAPSHOT | HX_PLAN_LIMIT | (offset >= 0 ? HX_PLAN_OFFSET : 0) |
                   first << HX_PLAN_COLUMN_SHIFT | (info->aOrderBy[0].desc ? HX_PLAN_LARGEST : 0);
    info->orderByConsumed = 1;
    info->estimatedCost = table->rows / 16;
    info->estimatedRows = 1000;
    return true;
}

void hx_table_plan(const struct hx_table *table, sqlite3_index_info *info)
{
    unsigned plan = 0;
    int chosen[HX_PLAN_BITS];
    if (plan_top(table, info))
        return;
    for (int i = 0; i < info->nConstraint; i++) {
        if (!info->aConstraint[i].usable)
            continue;
        unsigned part = plan_of(table, info, i), bit = part & ((1u << HX_PLAN_BITS) - 1);
        if (!part || plan & bit)
            continue;
        plan |= part;
        chosen[__builtin_ctz(bit)] = i;
    }
    int arguments = 0;
    for (int bit = 0; bit < HX_PLAN_BITS; bit++)
        if (plan & 1u << bit)
            info->aConstraintUsage[chosen[bit]].argvIndex = ++arguments;
    info->idxNum = (int)plan;
    info->orderByConsumed = info->nOrderBy && order_is_ours(table, info, plan);
    estimate(table, plan, info);
}
