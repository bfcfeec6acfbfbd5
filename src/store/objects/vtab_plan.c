/* vtab_plan.c - which constraints of a query an object table takes on, what that will cost, and
 * whether rows then come in the order that is asked for. */
#include "store/objects/vtab_private.h"

#include <string.h>

/* What the constraints do, for the estimate. */
struct use {
    bool key, low, high, equal, range;
};

struct planner {
    const struct hx_table *table;
    sqlite3_index_info *info;
    unsigned plan;
    int argument[HX_PLAN_BITS]; /* the constraint of each bit */
    char text[2 * HX_TABLE_CONDITIONS + 1];
    int condition[HX_TABLE_CONDITIONS]; /* the constraint of each condition */
    int conditions;
    struct use use;
    bool all; /* nothing is left to SQLite */
};

static int compare_of(unsigned char op)
{
    switch (op) {
    case SQLITE_INDEX_CONSTRAINT_EQ:
        return HX_COMPARE_EQ;
    case SQLITE_INDEX_CONSTRAINT_IS:
    case SQLITE_INDEX_CONSTRAINT_ISNULL:
        return HX_COMPARE_IS;
    case SQLITE_INDEX_CONSTRAINT_ISNOTNULL:
        return HX_COMPARE_NOT_NULL;
    case SQLITE_INDEX_CONSTRAINT_LT:
        return HX_COMPARE_LT;
    case SQLITE_INDEX_CONSTRAINT_LE:
        return HX_COMPARE_LE;
    case SQLITE_INDEX_CONSTRAINT_GT:
        return HX_COMPARE_GT;
    case SQLITE_INDEX_CONSTRAINT_GE:
        return HX_COMPARE_GE;
    default:
        return 0;
    }
}

/* How a column can be compared with a value in one pass; 0: not so. */
static int condition_of(const struct planner *planner, int i)
{
    int column = planner->info->aConstraint[i].iColumn;
    int compare = compare_of(planner->info->aConstraint[i].op);
    enum hx_serve serve = planner->table->column[column].serve;
    bool equal = compare == HX_COMPARE_EQ || compare == HX_COMPARE_IS;
    if (column == planner->table->key)
        return compare == HX_COMPARE_IS || compare == HX_COMPARE_NOT_NULL ? 0 : compare;
    if (hx_serve_is_number(serve))
        return compare;
    if (serve == HX_SERVE_OBJECT || serve == HX_SERVE_OBJECT_UNPLUS)
        return equal || (compare == HX_COMPARE_NOT_NULL && hx_serve_has_null(serve)) ? compare : 0;
    if (hx_serve_is_text(serve) && (equal || compare == HX_COMPARE_NOT_NULL) &&
        strcmp(sqlite3_vtab_collation(planner->info, i), "BINARY") == 0)
        return compare;
    return 0;
}

static bool add_argument(struct planner *planner, int i, unsigned part)
{
    if (planner->plan & part)
        return false;
    planner->plan |= part;
    planner->argument[__builtin_ctz(part)] = i;
    return true;
}

static bool add_condition(struct planner *planner, int i)
{
    int column = planner->info->aConstraint[i].iColumn, compare = condition_of(planner, i);
    if (!compare || planner->conditions == HX_TABLE_CONDITIONS)
        return false;
    planner->text[2 * planner->conditions] = (char)('A' + column);
    planner->text[2 * planner->conditions + 1] = (char)compare;
    planner->condition[planner->conditions++] = i;
    bool equal = compare == HX_COMPARE_EQ || compare == HX_COMPARE_IS;
    if (column == planner->table->key) {
        planner->use.key |= equal;
        planner->use.low |= compare == HX_COMPARE_GT || compare == HX_COMPARE_GE;
        planner->use.high |= compare == HX_COMPARE_LT || compare == HX_COMPARE_LE;
    } else {
        planner->use.equal |= equal;
        planner->use.range |= !equal;
    }
    return true;
}

/* Takes on what it can of a constraint; false: nothing. */
static bool add_constraint(struct planner *planner, int i)
{
    int column = planner->info->aConstraint[i].iColumn;
    unsigned char op = planner->info->aConstraint[i].op;
    bool equal = op == SQLITE_INDEX_CONSTRAINT_EQ;
    if (!planner->info->aConstraint[i].usable)
        return false;
    if (op == SQLITE_INDEX_CONSTRAINT_LIMIT || op == SQLITE_INDEX_CONSTRAINT_OFFSET)
        return add_argument(planner, i,
                            op == SQLITE_INDEX_CONSTRAINT_LIMIT ? HX_PLAN_LIMIT : HX_PLAN_OFFSET);
    if (column < 0)
        return equal && add_argument(planner, i, HX_PLAN_ROWID);
    if (planner->table->column[column].serve == HX_SERVE_SNAPSHOT)
        return equal && add_argument(planner, i, HX_PLAN_SNAPSHOT);
    return add_condition(planner, i);
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

static void estimate_plan_cost(const struct planner *planner)
{
    /* scanning costs less than handing a row over, decoding a block more than either */
    const struct hx_table *table = planner->table;
    const struct use *use = &planner->use;
    sqlite3_index_info *info = planner->info;
    bool one = planner->plan & HX_PLAN_SNAPSHOT;
    double snapshots = one ? 1 : 8, rows = table->rows, cost = rows;
    if (planner->plan & HX_PLAN_ROWID) {
        snapshots = rows = cost = 1;
        info->idxFlags = SQLITE_INDEX_SCAN_UNIQUE;
    } else if (use->key) {
        rows = table->rows_of_key;
        cost = 8 + rows;
        if (one && table->rows_of_key <= 1)
            info->idxFlags = SQLITE_INDEX_SCAN_UNIQUE;
    } else {
        if (use->low)
            rows /= 8;
        if (use->high)
            rows /= 8;
        cost = 8 + rows;
    }
    if (use->equal) {
        cost = 8 + cost / 16;
        rows = rows <= 64 ? 1 : table->family == HX_FAMILY_OBJECT ? rows / 64 : 4;
    } else if (use->range && rows > 64) {
        cost = 8 + cost / 2;
        rows /= 2;
    }
    info->estimatedCost = cost * snapshots;
    info->estimatedRows = (sqlite3_int64)(rows * snapshots);
}

/* "The largest objects of a snapshot that ...": ORDER BY a column whose decoded values have the
 * order of what is served, NULL first, a LIMIT, and nothing that a pass cannot test. SQLite would
 * sort all of them; a pass finds those few. */
static bool plan_top(struct planner *planner)
{
    const struct hx_table *table = planner->table;
    sqlite3_index_info *info = planner->info;
    int first = info->nOrderBy ? info->aOrderBy[0].iColumn : -1;
    unsigned needs = HX_PLAN_SNAPSHOT | HX_PLAN_LIMIT;
    if (!planner->all || table->family != HX_FAMILY_OBJECT || first < 0 ||
        !(hx_serve_is_number(table->column[first].serve) ||
          hx_serve_is_text(table->column[first].serve)) ||
        (planner->plan & needs) != needs || planner->plan & HX_PLAN_ROWID)
        return false;
    for (int i = 1; i < info->nOrderBy; i++) /* ties come in the order of addresses */
        if (info->aOrderBy[i].desc ||
            (info->aOrderBy[i].iColumn != 0 && info->aOrderBy[i].iColumn != table->key))
            return false;
    planner->plan |= HX_PLAN_TOP | (unsigned)first << HX_PLAN_COLUMN_SHIFT |
                     (info->aOrderBy[0].desc ? HX_PLAN_LARGEST : 0);
    info->orderByConsumed = 1;
    info->estimatedCost = table->rows / 16;
    info->estimatedRows = 1000;
    return true;
}

/* Which arguments xFilter gets, and what SQLite need not do any more. */
static void pass_arguments(const struct planner *planner)
{
    sqlite3_index_info *info = planner->info;
    int n = 0;
    for (int bit = 0; bit < HX_PLAN_BITS; bit++)
        if (planner->plan & 1u << bit)
            info->aConstraintUsage[planner->argument[bit]].argvIndex = ++n;
    for (int c = 0; c < planner->conditions; c++) {
        int i = planner->condition[c], column = info->aConstraint[i].iColumn;
        info->aConstraintUsage[i].argvIndex = ++n;
        info->aConstraintUsage[i].omit = hx_serve_is_number(planner->table->column[column].serve);
    }
    if (planner->plan & HX_PLAN_OFFSET)
        info->aConstraintUsage[planner->argument[__builtin_ctz(HX_PLAN_OFFSET)]].omit = 1;
}

int hx_table_plan(const struct hx_table *table, sqlite3_index_info *info)
{
    struct planner planner = {.table = table, .info = info, .all = true};
    for (int i = 0; i < info->nConstraint; i++)
        planner.all &= add_constraint(&planner, i);
    if (!plan_top(&planner)) {
        planner.plan &= ~(unsigned)(HX_PLAN_LIMIT | HX_PLAN_OFFSET);
        info->orderByConsumed = info->nOrderBy && order_is_ours(table, info, planner.plan);
        estimate_plan_cost(&planner);
    }
    pass_arguments(&planner);
    info->idxNum = (int)planner.plan;
    if (planner.conditions) {
        info->idxStr = sqlite3_mprintf("%s", planner.text);
        info->needToFreeIdxStr = 1;
        if (!info->idxStr)
            return SQLITE_NOMEM;
    }
    return SQLITE_OK;
}
