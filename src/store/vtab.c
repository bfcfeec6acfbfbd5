/* vtab.c - the object tables.
 *
 * Each table is ordered by (snapshot, key): objects by address, edges by source and
 * offset, root edges by root. Constraints on the snapshot, the key and the rowid choose
 * an interval of rows; equality of some columns (a target, a state, a type, a set, a bin, a
 * site) is tested on the decoded column before SQLite sees a row. SQLite tests every constraint
 * again, so an interval may be too wide but never too narrow. A column is decoded when a row's
 * value is asked for, block by block.
 */
#include "store/vtab.h"

#include "base/vec.h"
#include "model/graph.h"
#include "store/blocks.h"
#include "store/db.h"
#include "store/top.h"
#include "store/vtab_private.h"

#include <stdlib.h>
#include <string.h>

/* --- the three tables -------------------------------------------------------------- */

static const struct hx_table objects_table = {
    .name = "objects",
    .declaration =
        "CREATE TABLE x(snapshot INTEGER, address INTEGER, bytes INTEGER, requested INTEGER,"
        " type TEXT, state TEXT, set_id INTEGER, bin TEXT, ccs_id INTEGER, dominator INTEGER,"
        " retained_bytes INTEGER, retained_objects INTEGER, sure_retained_bytes INTEGER,"
        " sure_retained_objects INTEGER, edges_in INTEGER, edges_out INTEGER,"
        " stack_id INTEGER HIDDEN)",
    .family = HX_FAMILY_OBJECT,
    .key = 1,
    .filter = {5, 4, 6, 7, 8, 16},
    .rows = 1e7,
    .rows_of_key = 1,
    .column = {{HX_SERVE_SNAPSHOT, HX_PLAIN, 0},
               {HX_SERVE_INT, HX_ADDRESS, 0},
               {HX_SERVE_INT, HX_PLAIN, HX_COL_SIZE},
               {HX_SERVE_UNPLUS, HX_PLAIN, HX_COL_REQUESTED},
               {HX_SERVE_TYPE, HX_PLAIN, HX_COL_TYPE},
               {HX_SERVE_STATE, HX_PLAIN, HX_COL_STATE},
               {HX_SERVE_UNPLUS, HX_PLUS_ONE, HX_COL_SET},
               {HX_SERVE_BIN, HX_PLUS_ONE, HX_COL_BIN},
               {HX_SERVE_UNZERO, HX_CCS, 0},
               {HX_SERVE_OBJECT_UNPLUS, HX_DOMINATOR, 0},
               {HX_SERVE_UNPLUS, HX_RETAINED, 0},
               {HX_SERVE_UNZERO, HX_PLAIN, HX_COL_RETAINED_OBJECTS},
               {HX_SERVE_UNPLUS, HX_SURE, 0},
               {HX_SERVE_UNPLUS, HX_SURE_OBJECTS, 0},
               {HX_SERVE_INT, HX_PLAIN, HX_COL_IN},
               {HX_SERVE_INT, HX_PLAIN, HX_COL_OUT},
               {HX_SERVE_UNZERO, HX_PLAIN, HX_COL_STACK}},
};

static const struct hx_table edges_table = {
    .name = "edges",
    .declaration = "CREATE TABLE x(snapshot INTEGER, source INTEGER, target INTEGER,"
                   " offset INTEGER, kind TEXT)",
    .family = HX_FAMILY_EDGE,
    .key = 1,
    .filter = {2},
    .rows = 1.6e7,
    .rows_of_key = 4,
    .column = {{HX_SERVE_SNAPSHOT, HX_PLAIN, 0},
               {HX_SERVE_OBJECT, HX_SOURCE_OBJ, 0},
               {HX_SERVE_OBJECT, HX_TARGET_OBJ, 0},
               {HX_SERVE_WORDS, HX_PLAIN, HX_COL_OFFSET},
               {HX_SERVE_KIND, HX_PLAIN, HX_COL_KIND}},
};

static const struct hx_table root_edges_table = {
    .name = "root_edges",
    .declaration = "CREATE TABLE x(snapshot INTEGER, root_id INTEGER, address INTEGER,"
                   " target INTEGER, kind TEXT)",
    .family = HX_FAMILY_ROOT_EDGE,
    .key = 1,
    .filter = {3},
    .rows = 1e5,
    .rows_of_key = 100,
    .column = {{HX_SERVE_SNAPSHOT, HX_PLAIN, 0},
               {HX_SERVE_INT, HX_ROOT_NUMBER, 0},
               {HX_SERVE_UNZERO, HX_ROOT_WORD, 0},
               {HX_SERVE_OBJECT, HX_ROOT_TARGET_OBJ, 0},
               {HX_SERVE_KIND, HX_PLAIN, HX_COL_KIND}},
};

/* --- connecting -------------------------------------------------------------------- */

/* What the module was made with, and one connection's instance. */
struct module {
    hx_blocks *blocks;
    const struct hx_table *table;
};
struct instance {
    sqlite3_vtab base;
    sqlite3 *db;
    hx_blocks *blocks;
    const struct hx_table *table;
};

static int set_error(sqlite3_vtab *vtab, hx_error *err)
{
    char line[512];
    int code = err->kind == HX_E_NOMEM    ? SQLITE_NOMEM
               : err->kind == HX_E_CANCEL ? SQLITE_INTERRUPT
               : err->kind == HX_E_BUSY   ? SQLITE_BUSY
                                          : SQLITE_ERROR;
    hx_error_line(err, line, sizeof line);
    sqlite3_free(vtab->zErrMsg);
    vtab->zErrMsg = sqlite3_mprintf("%s", line);
    hx_error_free(err);
    return code;
}

static int table_connect(sqlite3 *db, void *aux, int argc, const char *const *argv,
                         sqlite3_vtab **ret, char **error)
{
    (void)argc, (void)argv, (void)error;
    const struct module *module = aux;
    int code = sqlite3_declare_vtab(db, module->table->declaration);
    if (code != SQLITE_OK)
        return code;
    sqlite3_vtab_config(db, SQLITE_VTAB_INNOCUOUS);
    struct instance *instance = calloc(1, sizeof *instance);
    if (!instance)
        return SQLITE_NOMEM;
    instance->db = db;
    instance->blocks = module->blocks;
    instance->table = module->table;
    hx_blocks_ref(instance->blocks);
    *ret = &instance->base;
    return SQLITE_OK;
}

static int table_disconnect(sqlite3_vtab *vtab)
{
    struct instance *instance = (struct instance *)vtab;
    hx_blocks_rest(instance->blocks); /* an open statement would keep the connection open */
    hx_blocks_unref(instance->blocks);
    free(instance);
    return SQLITE_OK;
}

static int table_best_index(sqlite3_vtab *vtab, sqlite3_index_info *info)
{
    hx_table_plan(((struct instance *)vtab)->table, info);
    return SQLITE_OK;
}

/* --- scanning ---------------------------------------------------------------------- */

/* A column and the one value that rows have to have in it. */
struct filter {
    int column;
    bool nulls;           /* NULL equals NULL */
    sqlite3_value *value; /* owned */
};

/* The same in one snapshot: the value as it is decoded. */
struct seeker {
    int column;
    uint64_t wanted;
};

/* Rows of the top whose values are read together at most. */
enum { MAX_GATHERED = 100000 };

/* A row of the top and where it stands there. */
struct place {
    uint64_t row;
    size_t at;
};

struct cursor {
    sqlite3_vtab_cursor base;
    HX_VEC(int64_t) snapshots; /* to visit, ascending */
    size_t at;                 /* the one that rows come from now */

    /* what xFilter was given, the same for every snapshot */
    uint64_t key_low, key_high; /* inclusive */
    uint64_t row_low, row_high; /* inclusive, from a rowid */
    struct filter filter[HX_TABLE_FILTERS];
    size_t filters;

    uint64_t *top; /* HX_PLAN_LIMIT: the rows to give, in this order */
    size_t top_n, top_at;
    struct place *place;                    /* of these rows, by block; NULL: too many */
    uint64_t *top_values[HX_TABLE_COLUMNS]; /* of these rows, as decoded; NULL: not asked for yet */

    const struct hx_block_index *index, *objects;
    uint64_t row, end; /* rows of this snapshot yet to come */
    struct seeker seeker[HX_TABLE_FILTERS];
    size_t seekers;
    size_t block;                                       /* whose columns are held */
    const struct hx_decoded *decoded[HX_TABLE_COLUMNS]; /* NULL: not asked for yet */
};

static struct instance *instance_of(const struct cursor *cursor)
{
    return (struct instance *)cursor->base.pVtab;
}

static void release(struct cursor *cursor)
{
    for (size_t i = 0; i < HX_TABLE_COLUMNS; i++) {
        hx_blocks_release(instance_of(cursor)->blocks, cursor->decoded[i]);
        cursor->decoded[i] = NULL;
    }
}

/* Gives back what belongs to a snapshot. */
static void leave_snapshot(struct cursor *cursor)
{
    release(cursor);
    hx_blocks_index_done(instance_of(cursor)->blocks, cursor->index);
    hx_blocks_index_done(instance_of(cursor)->blocks, cursor->objects);
    cursor->index = cursor->objects = NULL;
}

static void drop_filters(struct cursor *cursor)
{
    while (cursor->filters)
        sqlite3_value_free(cursor->filter[--cursor->filters].value);
}

static void drop_top(struct cursor *cursor)
{
    for (size_t i = 0; i < HX_TABLE_COLUMNS; i++) {
        free(cursor->top_values[i]);
        cursor->top_values[i] = NULL;
    }
    free(cursor->place);
    free(cursor->top);
    cursor->place = NULL;
    cursor->top = NULL;
}

static int cursor_open(sqlite3_vtab *vtab, sqlite3_vtab_cursor **ret)
{
    (void)vtab;
    struct cursor *cursor = calloc(1, sizeof *cursor);
    if (!cursor)
        return SQLITE_NOMEM;
    *ret = &cursor->base;
    return SQLITE_OK;
}

static int cursor_close(sqlite3_vtab_cursor *base)
{
    struct cursor *cursor = (struct cursor *)base;
    leave_snapshot(cursor);
    drop_filters(cursor);
    hx_vec_free(&cursor->snapshots);
    drop_top(cursor);
    free(cursor);
    return SQLITE_OK;
}

/* The decoded column of the current row's block. */
static hx_error *decoded_column(struct cursor *cursor, int column, const struct hx_decoded **ret)
{
    size_t block = cursor->row / HX_BLOCK_ROWS;
    if (block != cursor->block) {
        release(cursor);
        cursor->block = block;
    }
    if (!cursor->decoded[column]) {
        const struct instance *instance = instance_of(cursor);
        const struct hx_table_column *how = &instance->table->column[column];
        HX_TRY(hx_blocks_column(instance->blocks, cursor->index, block, how->derived, how->column,
                                &cursor->decoded[column]));
    }
    *ret = cursor->decoded[column];
    return NULL;
}

/* Moves on to the next row, at or after this one, that passes the filters. */
static hx_error *seek(struct cursor *cursor)
{
    while (cursor->row < cursor->end && cursor->seekers) {
        const struct hx_decoded *column[HX_TABLE_FILTERS];
        for (size_t f = 0; f < cursor->seekers; f++)
            HX_TRY(decoded_column(cursor, cursor->seeker[f].column, &column[f]));
        uint64_t stop = (cursor->block + 1) * (uint64_t)HX_BLOCK_ROWS;
        stop = stop < cursor->end ? stop : cursor->end;
        for (; cursor->row < stop; cursor->row++) {
            size_t i = cursor->row % HX_BLOCK_ROWS, f = 0;
            while (f < cursor->seekers && hx_decoded_at(column[f], i) == cursor->seeker[f].wanted)
                f++;
            if (f == cursor->seekers)
                return NULL;
        }
    }
    return NULL;
}

/* The first row whose key is >= key, a key as users see it. */
static hx_error *lower_bound(struct cursor *cursor, uint64_t key, uint64_t *ret)
{
    hx_blocks *blocks = instance_of(cursor)->blocks;
    if (cursor->index->family == HX_FAMILY_EDGE) /* a source's address: find its index */
        HX_TRY(hx_blocks_lower_bound(blocks, cursor->objects, key, &key));
    return hx_blocks_lower_bound(blocks, cursor->index, key, ret);
}

/* Reads a bound. Integral numbers are exact, others give the integer below; false when the
 * value is no number: then SQLite's own test decides. */
static bool bound_of(sqlite3_value *value, int64_t *ret, bool *ret_exact)
{
    int type = sqlite3_value_numeric_type(value);
    *ret_exact = true;
    if (type == SQLITE_INTEGER) {
        *ret = sqlite3_value_int64(value);
        return true;
    }
    if (type != SQLITE_FLOAT)
        return false;
    double real = sqlite3_value_double(value);
    if (!(real > -9.2e18 && real < 9.2e18))
        return false;
    *ret = (int64_t)real;
    *ret_exact = (double)*ret == real;
    if ((double)*ret > real)
        --*ret;
    return true;
}

/* --- filters ----------------------------------------------------------------------- */

/* What came out of translating a filter's value to what the column holds in one snapshot. */
enum wanted {
    WANTED_FOUND,   /* that number */
    WANTED_NOTHING, /* no row has that value */
    WANTED_UNCLEAR, /* SQLite's own test decides */
};

static enum wanted wanted_state(const char *text, uint64_t *ret)
{
    for (int state = HX_STATE_NONE + 1; state < HX_STATES; state++) {
        if (strcmp(text, hx_state_name((enum hx_state)state)) == 0) {
            *ret = (uint64_t)state;
            return WANTED_FOUND;
        }
    }
    return WANTED_NOTHING;
}

static hx_error *wanted_text(struct cursor *cursor, enum hx_serve serve, sqlite3_value *value,
                             uint64_t *ret, enum wanted *ret_wanted)
{
    const char *text = (const char *)sqlite3_value_text(value);
    if (!text)
        return hx_error_nomem();
    if (serve == HX_SERVE_STATE) {
        *ret_wanted = wanted_state(text, ret);
        return NULL;
    }
    const hx_names *names;
    HX_TRY(hx_blocks_names(instance_of(cursor)->blocks, cursor->index->snapshot,
                           serve == HX_SERVE_TYPE ? HX_NAMES_TYPE : HX_NAMES_BIN, &names));
    size_t found = hx_names_find(names, text, (size_t)sqlite3_value_bytes(value), ret);
    *ret_wanted = found > 1 ? WANTED_UNCLEAR : found ? WANTED_FOUND : WANTED_NOTHING;
    *ret += serve == HX_SERVE_BIN;
    return NULL;
}

static hx_error *wanted_object(struct cursor *cursor, uint64_t address, uint64_t *ret,
                               enum wanted *ret_wanted)
{
    hx_blocks *blocks = instance_of(cursor)->blocks;
    uint64_t found;
    HX_TRY(hx_blocks_lower_bound(blocks, cursor->objects, address, ret));
    *ret_wanted = WANTED_NOTHING;
    if (*ret == cursor->objects->rows)
        return NULL;
    HX_TRY(hx_blocks_address(blocks, cursor->objects, *ret, &found));
    if (found == address)
        *ret_wanted = WANTED_FOUND;
    return NULL;
}

static hx_error *translate(struct cursor *cursor, const struct filter *filter, uint64_t *ret,
                           enum wanted *ret_wanted)
{
    enum hx_serve serve = instance_of(cursor)->table->column[filter->column].serve;
    bool text = serve == HX_SERVE_STATE || serve == HX_SERVE_TYPE || serve == HX_SERVE_BIN, exact;
    int64_t bound;
    *ret = 0;
    if (sqlite3_value_type(filter->value) == SQLITE_NULL) {
        *ret_wanted = filter->nulls ? WANTED_FOUND : WANTED_NOTHING; /* 0 is served as NULL */
    } else if (text) {
        *ret_wanted = WANTED_UNCLEAR;
        if (sqlite3_value_type(filter->value) == SQLITE_TEXT)
            return wanted_text(cursor, serve, filter->value, ret, ret_wanted);
    } else if (!bound_of(filter->value, &bound, &exact)) {
        *ret_wanted = WANTED_UNCLEAR;
    } else if (!exact || bound < 0) {
        *ret_wanted = WANTED_NOTHING;
    } else if (serve == HX_SERVE_OBJECT) {
        return wanted_object(cursor, (uint64_t)bound, ret, ret_wanted);
    } else if (serve == HX_SERVE_UNZERO) {
        *ret = (uint64_t)bound;
        *ret_wanted = bound ? WANTED_FOUND : WANTED_NOTHING;
    } else {
        *ret = (uint64_t)bound + 1; /* HX_SERVE_UNPLUS */
        *ret_wanted = WANTED_FOUND;
    }
    return NULL;
}

/* Makes the filters' values ready for the snapshot that was begun. */
static hx_error *begin_filters(struct cursor *cursor)
{
    cursor->seekers = 0;
    for (size_t f = 0; f < cursor->filters && cursor->row < cursor->end; f++) {
        enum wanted wanted = WANTED_UNCLEAR;
        uint64_t value = 0;
        HX_TRY(translate(cursor, &cursor->filter[f], &value, &wanted));
        if (wanted == WANTED_NOTHING)
            cursor->end = cursor->row;
        else if (wanted == WANTED_FOUND)
            cursor->seeker[cursor->seekers++] = (struct seeker){cursor->filter[f].column, value};
    }
    return NULL;
}

/* --- snapshots --------------------------------------------------------------------- */

/* Finds the interval of rows in the snapshot cursor->at; it may be empty. */
static hx_error *begin_snapshot(struct cursor *cursor)
{
    const struct instance *instance = instance_of(cursor);
    int64_t snapshot = cursor->snapshots.v[cursor->at];
    leave_snapshot(cursor);
    HX_TRY(hx_blocks_index(instance->blocks, snapshot, instance->table->family, &cursor->index));
    HX_TRY(hx_blocks_index(instance->blocks, snapshot, HX_FAMILY_OBJECT, &cursor->objects));
    cursor->row = 0;
    cursor->end = cursor->index->rows;
    cursor->block = 0;
    if (cursor->key_low > 0)
        HX_TRY(lower_bound(cursor, cursor->key_low, &cursor->row));
    if (cursor->key_high < UINT64_MAX)
        HX_TRY(lower_bound(cursor, cursor->key_high + 1, &cursor->end));
    if (cursor->row < cursor->row_low)
        cursor->row = cursor->row_low;
    if (cursor->row_high < cursor->end)
        cursor->end = cursor->row_high + 1;
    HX_TRY(begin_filters(cursor));
    return seek(cursor);
}

/* Goes on to the next snapshot with a row as long as there is none here. */
static hx_error *settle(struct cursor *cursor)
{
    while (cursor->row >= cursor->end && cursor->at + 1 < cursor->snapshots.n) {
        cursor->at++;
        HX_TRY(begin_snapshot(cursor));
    }
    return NULL;
}

/* --- xFilter's arguments ----------------------------------------------------------- */

struct limits {
    uint64_t rows; /* HX_PLAN_LIMIT: so many are asked for, with those to be left out */
    bool none;     /* no row can match */
    bool one_snapshot;
    int64_t snapshot;
};

static void limit_key(struct cursor *cursor, struct limits *limits, unsigned part, int64_t bound,
                      bool exact)
{
    /* > and >= (and < and <=) share a bit: SQLite drops the row that is one too many */
    uint64_t key = bound < 0 ? 0 : (uint64_t)bound;
    if (part != HX_PLAN_LOW) {
        limits->none |= bound < 0 || (part == HX_PLAN_KEY && !exact);
        cursor->key_high = key < cursor->key_high ? key : cursor->key_high;
    }
    if (part != HX_PLAN_HIGH)
        cursor->key_low = key > cursor->key_low ? key : cursor->key_low;
}

/* Keeps what a column is to be equal to. */
static hx_error *add_filter(struct cursor *cursor, unsigned plan, unsigned part,
                            sqlite3_value *value)
{
    struct filter *filter = &cursor->filter[cursor->filters];
    filter->column = instance_of(cursor)->table->filter[__builtin_ctz(part / HX_PLAN_FILTER)];
    filter->nulls = plan & part << HX_PLAN_NULL_SHIFT;
    filter->value = sqlite3_value_dup(value);
    if (!filter->value)
        return hx_error_nomem();
    cursor->filters++;
    return NULL;
}

static hx_error *read_arguments(struct cursor *cursor, unsigned plan, sqlite3_value **argv,
                                struct limits *limits)
{
    for (int bit = 0; bit < HX_PLAN_BITS; bit++) {
        unsigned part = plan & 1u << bit;
        if (!part)
            continue;
        sqlite3_value *value = *argv++;
        int64_t bound;
        bool exact;
        if (part & HX_PLAN_FILTERS) {
            HX_TRY(add_filter(cursor, plan, part, value));
        } else if (sqlite3_value_type(value) == SQLITE_NULL) {
            limits->none = true; /* a comparison with NULL is never true */
        } else if (!bound_of(value, &bound, &exact)) {
            continue;
        } else if (part == HX_PLAN_SNAPSHOT) {
            limits->none |= !exact;
            limits->one_snapshot = true;
            limits->snapshot = bound;
        } else if (part == HX_PLAN_ROWID) {
            limits->none |= !exact || bound < 0 ||
                            (limits->one_snapshot && limits->snapshot != bound >> HX_ROW_BITS);
            limits->one_snapshot = true;
            limits->snapshot = bound >> HX_ROW_BITS;
            cursor->row_low = cursor->row_high = (uint64_t)bound & (HX_ROWS_MAX - 1);
        } else if (part == HX_PLAN_LIMIT || part == HX_PLAN_OFFSET) {
            /* a negative limit is none */
            uint64_t rows = bound >= 0 ? (uint64_t)bound : part == HX_PLAN_LIMIT ? UINT64_MAX : 0;
            if (__builtin_add_overflow(limits->rows, rows, &limits->rows))
                limits->rows = UINT64_MAX;
        } else {
            limit_key(cursor, limits, part, bound, exact);
        }
    }
    return NULL;
}

/* Lists the finished snapshots, or the one asked for when it is there. */
static hx_error *list_snapshots(struct cursor *cursor, const struct limits *limits)
{
    const struct instance *instance = instance_of(cursor);
    if (limits->one_snapshot && hx_blocks_knows(instance->blocks, limits->snapshot))
        return hx_vec_push(&cursor->snapshots, limits->snapshot) ? NULL : hx_error_nomem();
    HX_STATEMENT sqlite3_stmt *st = NULL;
    HX_TRY(hx_db_prepare(instance->db, "store",
                         limits->one_snapshot
                             ? "SELECT snapshot FROM hx_snapshot WHERE snapshot = ?"
                             : "SELECT snapshot FROM hx_snapshot ORDER BY snapshot",
                         &st));
    if (limits->one_snapshot)
        sqlite3_bind_int64(st, 1, limits->snapshot);
    int code;
    while ((code = sqlite3_step(st)) == SQLITE_ROW)
        if (!hx_vec_push(&cursor->snapshots, sqlite3_column_int64(st, 0)))
            return hx_error_nomem();
    return code == SQLITE_DONE ? NULL : hx_db_error(instance->db, code, "store");
}

/* Goes to a row of the top; behind the last one to the end. */
static void go_top(struct cursor *cursor, size_t at)
{
    cursor->top_at = at;
    cursor->row = at < cursor->top_n ? cursor->top[at] : cursor->end;
}

static int compare_places(const void *a, const void *b)
{
    const struct place *p = a, *q = b;
    return p->row < q->row ? -1 : p->row > q->row;
}

/* The rows of the top lie anywhere: taken one by one, each would decode its block again. So a
 * column is read for all of them at once, in the order of blocks. */
static hx_error *gather(struct cursor *cursor, int column)
{
    const struct instance *instance = instance_of(cursor);
    const struct hx_table_column *how = &instance->table->column[column];
    const struct hx_decoded *decoded = NULL;
    uint64_t *values = malloc(cursor->top_n * sizeof *values);
    size_t block = 0;
    hx_error *err = values ? NULL : hx_error_nomem();
    for (size_t i = 0; i < cursor->top_n && !err; i++) {
        const struct place *place = &cursor->place[i];
        if (!decoded || place->row / HX_BLOCK_ROWS != block) {
            hx_blocks_release(instance->blocks, decoded);
            decoded = NULL;
            block = place->row / HX_BLOCK_ROWS;
            err = hx_blocks_column(instance->blocks, cursor->index, block, how->derived,
                                   how->column, &decoded);
        }
        if (!err)
            values[place->at] = hx_decoded_at(decoded, place->row % HX_BLOCK_ROWS);
    }
    hx_blocks_release(instance->blocks, decoded);
    if (err) {
        free(values);
        return err;
    }
    cursor->top_values[column] = values;
    return NULL;
}

static hx_error *begin_top(struct cursor *cursor, unsigned plan, uint64_t rows)
{
    const struct instance *instance = instance_of(cursor);
    const struct hx_table_column *by =
        &instance->table->column[plan >> HX_PLAN_COLUMN_SHIFT & HX_PLAN_COLUMN_MASK];
    HX_TRY(hx_top_rows(instance->blocks, cursor->index, by->derived, by->column,
                       plan & HX_PLAN_LARGEST, rows, &cursor->top, &cursor->top_n));
    go_top(cursor, 0);
    if (!cursor->top_n || cursor->top_n > MAX_GATHERED)
        return NULL;
    cursor->place = malloc(cursor->top_n * sizeof *cursor->place);
    if (!cursor->place)
        return hx_error_nomem();
    for (size_t i = 0; i < cursor->top_n; i++)
        cursor->place[i] = (struct place){cursor->top[i], i};
    qsort(cursor->place, cursor->top_n, sizeof *cursor->place, compare_places);
    return NULL;
}

/* The value of the current row, as decoded. */
static hx_error *current_value(struct cursor *cursor, int column, uint64_t *ret)
{
    if (cursor->place) {
        if (!cursor->top_values[column])
            HX_TRY(gather(cursor, column));
        *ret = cursor->top_values[column][cursor->top_at];
        return NULL;
    }
    const struct hx_decoded *decoded;
    HX_TRY(decoded_column(cursor, column, &decoded));
    *ret = hx_decoded_at(decoded, cursor->row % HX_BLOCK_ROWS);
    return NULL;
}

static hx_error *start(struct cursor *cursor, unsigned plan, sqlite3_value **argv)
{
    leave_snapshot(cursor);
    drop_filters(cursor);
    hx_blocks_refresh(instance_of(cursor)->blocks);
    cursor->snapshots.n = cursor->at = 0;
    cursor->row = cursor->end = 0;
    drop_top(cursor);
    cursor->key_low = cursor->row_low = 0;
    cursor->key_high = cursor->row_high = UINT64_MAX;
    cursor->seekers = 0;
    struct limits limits = {0};
    HX_TRY(read_arguments(cursor, plan, argv, &limits));
    if (limits.none)
        return NULL;
    HX_TRY(list_snapshots(cursor, &limits));
    if (!cursor->snapshots.n)
        return NULL;
    HX_TRY(begin_snapshot(cursor));
    return plan & HX_PLAN_LIMIT ? begin_top(cursor, plan, limits.rows) : settle(cursor);
}

static int cursor_filter(sqlite3_vtab_cursor *base, int plan, const char *text, int argc,
                         sqlite3_value **argv)
{
    (void)text, (void)argc;
    hx_error *err = start((struct cursor *)base, (unsigned)plan, argv);
    return err ? set_error(base->pVtab, err) : SQLITE_OK;
}

/* --- rows -------------------------------------------------------------------------- */

static int cursor_next(sqlite3_vtab_cursor *base)
{
    struct cursor *cursor = (struct cursor *)base;
    if (cursor->top) {
        go_top(cursor, cursor->top_at + 1);
        return SQLITE_OK;
    }
    cursor->row++;
    hx_error *err = cursor->seekers ? seek(cursor) : NULL;
    if (!err && cursor->row >= cursor->end)
        err = settle(cursor);
    return err ? set_error(base->pVtab, err) : SQLITE_OK;
}

static int cursor_eof(sqlite3_vtab_cursor *base)
{
    const struct cursor *cursor = (const struct cursor *)base;
    return cursor->row >= cursor->end;
}

static int cursor_rowid(sqlite3_vtab_cursor *base, sqlite3_int64 *ret)
{
    const struct cursor *cursor = (const struct cursor *)base;
    /* unsigned: a store that lies has numbers of any size */
    *ret = (int64_t)((uint64_t)cursor->snapshots.v[cursor->at] << HX_ROW_BITS | cursor->row);
    return SQLITE_OK;
}

static hx_error *serve_name(struct cursor *cursor, sqlite3_context *context, enum hx_name_list list,
                            uint64_t number)
{
    const hx_names *names;
    const char *text;
    size_t bytes;
    HX_TRY(hx_blocks_names(instance_of(cursor)->blocks, cursor->index->snapshot, list, &names));
    HX_TRY(hx_names_of(names, number, &text, &bytes));
    if (text) /* a copy: names may go while SQLite still sorts */
        sqlite3_result_text64(context, text, bytes, SQLITE_TRANSIENT, SQLITE_UTF8);
    return NULL;
}

static hx_error *serve(struct cursor *cursor, sqlite3_context *context, int column)
{
    const struct instance *instance = instance_of(cursor);
    enum hx_serve how = instance->table->column[column].serve;
    if (how == HX_SERVE_SNAPSHOT) {
        sqlite3_result_int64(context, cursor->snapshots.v[cursor->at]);
        return NULL;
    }
    if (how == HX_SERVE_NULL)
        return NULL;
    uint64_t value;
    HX_TRY(current_value(cursor, column, &value));
    switch (how) {
    case HX_SERVE_UNZERO:
        if (!value)
            return NULL;
        break;
    case HX_SERVE_UNPLUS:
        if (!value--)
            return NULL;
        break;
    case HX_SERVE_TYPE:
        return value ? serve_name(cursor, context, HX_NAMES_TYPE, value) : NULL;
    case HX_SERVE_BIN:
        return value ? serve_name(cursor, context, HX_NAMES_BIN, value - 1) : NULL;
    case HX_SERVE_WORDS:
        value *= 8;
        break;
    case HX_SERVE_STATE:
        if (value == HX_STATE_NONE)
            return NULL;
        sqlite3_result_text(context, hx_state_name((enum hx_state)value), -1, SQLITE_STATIC);
        return NULL;
    case HX_SERVE_KIND:
        sqlite3_result_text(context, hx_edge_kind_name((enum hx_edge_kind)value), -1,
                            SQLITE_STATIC);
        return NULL;
    case HX_SERVE_OBJECT_UNPLUS:
        if (!value--)
            return NULL;
        /* fall through */
    case HX_SERVE_OBJECT:
        HX_TRY(hx_blocks_address(instance->blocks, cursor->objects, value, &value));
        break;
    default:
        break;
    }
    sqlite3_result_int64(context, (int64_t)value);
    return NULL;
}

static int cursor_column(sqlite3_vtab_cursor *base, sqlite3_context *context, int column)
{
    if (column < 0 || column >= HX_TABLE_COLUMNS)
        return SQLITE_OK;
    hx_error *err = serve((struct cursor *)base, context, column);
    return err ? set_error(base->pVtab, err) : SQLITE_OK;
}

/* --- the modules ------------------------------------------------------------------- */

static const sqlite3_module methods = {
    .iVersion = 0,
    .xConnect = table_connect, /* no xCreate: the tables exist, the schema holds none */
    .xBestIndex = table_best_index,
    .xDisconnect = table_disconnect,
    .xDestroy = table_disconnect,
    .xOpen = cursor_open,
    .xClose = cursor_close,
    .xFilter = cursor_filter,
    .xNext = cursor_next,
    .xEof = cursor_eof,
    .xColumn = cursor_column,
    .xRowid = cursor_rowid,
};

static void free_module(void *aux)
{
    struct module *module = aux;
    hx_blocks_unref(module->blocks);
    free(module);
}

hx_error *hx_object_tables(sqlite3 *db, hx_blocks **ret)
{
    static const struct hx_table *const tables[] = {&objects_table, &edges_table,
                                                    &root_edges_table};
    hx_blocks *blocks;
    HX_TRY(hx_blocks_create(db, &blocks));
    hx_error *err = NULL;
    for (size_t i = 0; i < sizeof tables / sizeof *tables && !err; i++) {
        struct module *module = malloc(sizeof *module);
        if (!module) {
            err = hx_error_nomem();
            break;
        }
        *module = (struct module){.blocks = blocks, .table = tables[i]};
        hx_blocks_ref(blocks);
        int code = sqlite3_create_module_v2(db, tables[i]->name, &methods, module, free_module);
        if (code != SQLITE_OK) /* the module was freed */
            err = hx_db_error(db, code, tables[i]->name);
    }
    if (err || !ret)
        hx_blocks_unref(blocks);
    else
        *ret = blocks;
    return err;
}
