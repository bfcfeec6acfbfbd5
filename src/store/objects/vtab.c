/* vtab.c - the object tables.
 *
 * Each table is ordered by (snapshot, key): objects by address, edges by source and
 * offset, root edges by root. Constraints on the snapshot, the key and the rowid choose
 * an interval of rows; comparisons of other columns with a value become intervals of decoded
 * values, which are tested before SQLite sees a row. Those of numbers are exact, of names SQLite
 * tests them again. A column is decoded when a row's value is asked for, block by block.
 */
#include "store/objects/vtab.h"

#include "base/cleanup.h"
#include "base/vec.h"
#include "model/graph.h"
#include "store/db.h"
#include "store/objects/blocks.h"
#include "store/objects/column_scan.h"
#include "store/objects/ends.h"
#include "store/objects/top.h"
#include "store/objects/vtab_private.h"
#include "store/objects/window.h"
#include "traverse/hold/rules.h"

#include <stdlib.h>
#include <string.h>

/* --- the three tables -------------------------------------------------------------- */

static const struct hx_table objects_table = {
    .name = "objects",
    .declaration =
        "CREATE TABLE x(snapshot INTEGER, address INTEGER, bytes INTEGER, requested INTEGER,"
        " type TEXT, shape TEXT, round INTEGER, holder TEXT, state TEXT, set_id INTEGER, bin TEXT, "
        "ccs_id INTEGER, dominator INTEGER,"
        " retained_bytes INTEGER, retained_objects INTEGER, sure_retained_bytes INTEGER,"
        " sure_retained_objects INTEGER, edges_in INTEGER, edges_out INTEGER,"
        " confidence TEXT, source TEXT, stack_id INTEGER HIDDEN)",
    .family = HX_FAMILY_OBJECT,
    .key = 1,
    .rows = 1e7,
    .rows_of_key = 1,
    .column = {{HX_SERVE_SNAPSHOT, HX_PLAIN, 0},
               {HX_SERVE_INT, HX_ADDRESS, 0},
               {HX_SERVE_INT, HX_PLAIN, HX_COL_SIZE},
               {HX_SERVE_UNPLUS, HX_PLAIN, HX_COL_REQUESTED},
               {HX_SERVE_TYPE, HX_PLAIN, HX_COL_TYPE},
               {HX_SERVE_SHAPE, HX_PLAIN, HX_COL_SHAPE},
               {HX_SERVE_UNZERO, HX_PLAIN, HX_COL_ROUND},
               {HX_SERVE_HOLDER, HX_PLAIN, HX_COL_HOLDER},
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
               {HX_SERVE_CONFIDENCE, HX_PLAIN, HX_COL_TYPED},
               {HX_SERVE_SOURCE, HX_PLAIN, HX_COL_TYPED},
               {HX_SERVE_UNZERO, HX_PLAIN, HX_COL_STACK}},
};

static const struct hx_table edges_table = {
    .name = "edges",
    .declaration = "CREATE TABLE x(snapshot INTEGER, source INTEGER, target INTEGER,"
                   " offset INTEGER, kind TEXT, rank INTEGER, rule TEXT)",
    .family = HX_FAMILY_EDGE,
    .key = 1,
    .rows = 1.6e7,
    .rows_of_key = 4,
    .column = {{HX_SERVE_SNAPSHOT, HX_PLAIN, 0},
               {HX_SERVE_OBJECT, HX_SOURCE_OBJ, 0},
               {HX_SERVE_OBJECT, HX_TARGET_OBJ, 0},
               {HX_SERVE_WORDS, HX_PLAIN, HX_COL_OFFSET},
               {HX_SERVE_KIND, HX_PLAIN, HX_COL_KIND},
               {HX_SERVE_UNPLUS, HX_RANK, 0},
               {HX_SERVE_RULE, HX_PLAIN, HX_COL_EVIDENCE}},
};

static const struct hx_table root_edges_table = {
    .name = "root_edges",
    .declaration = "CREATE TABLE x(snapshot INTEGER, root_id INTEGER, address INTEGER,"
                   " target INTEGER, kind TEXT, rank INTEGER, rule TEXT)",
    .family = HX_FAMILY_ROOT_EDGE,
    .key = 1,
    .rows = 1e5,
    .rows_of_key = 100,
    .column = {{HX_SERVE_SNAPSHOT, HX_PLAIN, 0},
               {HX_SERVE_INT, HX_ROOT_NUMBER, 0},
               {HX_SERVE_UNZERO, HX_ROOT_WORD, 0},
               {HX_SERVE_OBJECT, HX_ROOT_TARGET_OBJ, 0},
               {HX_SERVE_KIND, HX_PLAIN, HX_COL_KIND},
               {HX_SERVE_UNPLUS, HX_RANK, 0},
               {HX_SERVE_RULE, HX_PLAIN, HX_COL_EVIDENCE}},
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

/* The code of a method that may have failed. */
static int set_vtab_error(sqlite3_vtab *vtab, hx_error *err)
{
    return err ? hx_db_table_error(vtab, err, SQLITE_ERROR) : SQLITE_OK;
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
    return hx_table_plan(((struct instance *)vtab)->table, info);
}

/* --- scanning ---------------------------------------------------------------------- */

/* A column and what its values are compared with. */
struct condition {
    int column;
    enum hx_compare compare;
    sqlite3_value *value; /* owned */
};

/* Rows of the top whose values are read together at most. */
enum { MAX_GATHERED = 300000 };

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
    struct condition condition[HX_TABLE_CONDITIONS];
    size_t conditions;

    uint64_t *top; /* HX_PLAN_TOP: the rows to give, in this order */
    size_t top_n, top_at;
    struct hx_top window;
    uint32_t *rank;                         /* of window; NULL: none */
    struct place *place;                    /* of these rows, by block; NULL: too many */
    uint64_t *top_values[HX_TABLE_COLUMNS]; /* of these rows, as decoded; NULL: not asked for yet */

    const struct hx_block_index *index, *objects;
    uint64_t row, end; /* rows of this snapshot yet to come */
    uint64_t left;     /* so many of them match; UINT64_MAX: nobody knows */
    struct hx_condition seeker[HX_TABLE_CONDITIONS]; /* the conditions in this snapshot */
    int seeker_column[HX_TABLE_CONDITIONS];
    size_t seekers;
    size_t looked, looked_at; /* blocks that were looked into, and the last of them */
    struct hx_found *found;   /* edges of seeker[0] that were found before; NULL: nothing is kept */
    unsigned found_begun;
    size_t found_at;
    size_t block;                                       /* whose columns are held */
    const struct hx_decoded *decoded[HX_TABLE_COLUMNS]; /* NULL: not asked for yet */
    bool single;                                        /* it was one row from the start: */
    uint64_t value[HX_TABLE_COLUMNS];                   /* as decoded, */
    uint32_t valued;                                    /* of the columns with a bit */
};

static struct instance *instance_of(const struct cursor *cursor)
{
    return (struct instance *)cursor->base.pVtab;
}

static void release_cursor(struct cursor *cursor)
{
    for (size_t i = 0; i < HX_TABLE_COLUMNS; i++) {
        hx_blocks_release(instance_of(cursor)->blocks, cursor->decoded[i]);
        cursor->decoded[i] = NULL;
    }
}

/* Gives back what belongs to a snapshot. */
static void leave_snapshot(struct cursor *cursor)
{
    hx_blocks_end_asides(instance_of(cursor)->blocks);
    release_cursor(cursor);
    hx_blocks_index_done(instance_of(cursor)->blocks, cursor->index);
    hx_blocks_index_done(instance_of(cursor)->blocks, cursor->objects);
    cursor->index = cursor->objects = NULL;
    cursor->single = false;
    cursor->valued = 0;
    cursor->found = NULL;
    cursor->looked = 0;
    cursor->looked_at = SIZE_MAX;
}

static void drop_conditions(struct cursor *cursor)
{
    while (cursor->conditions)
        sqlite3_value_free(cursor->condition[--cursor->conditions].value);
}

static void drop_top(struct cursor *cursor)
{
    for (size_t i = 0; i < HX_TABLE_COLUMNS; i++) {
        free(cursor->top_values[i]);
        cursor->top_values[i] = NULL;
    }
    free(cursor->place);
    free(cursor->top);
    free(cursor->rank);
    cursor->rank = NULL;
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
    drop_conditions(cursor);
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
        release_cursor(cursor);
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

/* Can a row of a block pass the conditions? */
static bool may_hold(const struct cursor *cursor, size_t block)
{
    bool may = true;
    for (size_t c = 0; c < cursor->seekers && may; c++)
        may = cursor->seeker[c].low != cursor->seeker[c].high ||
              hx_blocks_may_hold(cursor->index, block, cursor->seeker[c].derived,
                                 cursor->seeker[c].low);
    return may;
}

/* The next blocks that may have a row are decoded while this one is looked at. */
static void look_ahead(struct cursor *cursor)
{
    hx_blocks *blocks = instance_of(cursor)->blocks;
    struct hx_wanted wanted[HX_TABLE_CONDITIONS];
    size_t block = cursor->row / HX_BLOCK_ROWS + 1, asides = hx_blocks_asides();
    for (size_t c = 0; c < cursor->seekers; c++)
        wanted[c] = (struct hx_wanted){cursor->seeker[c].derived, cursor->seeker[c].column};
    for (; asides && block * (uint64_t)HX_BLOCK_ROWS < cursor->end; block++) {
        if (!may_hold(cursor, block))
            continue;
        hx_blocks_begin_aside(blocks, cursor->index, block, wanted, cursor->seekers);
        asides--;
    }
}

/* Moves on to the next row, at or after this one, that passes the conditions. */
static hx_error *seek_matching_row(struct cursor *cursor)
{
    while (cursor->row < cursor->end && cursor->seekers) {
        const struct hx_decoded *column[HX_TABLE_CONDITIONS];
        HX_TRY(hx_blocks_interrupted(instance_of(cursor)->blocks));
        if (!may_hold(cursor, cursor->row / HX_BLOCK_ROWS)) {
            cursor->row = (cursor->row / HX_BLOCK_ROWS + 1) * (uint64_t)HX_BLOCK_ROWS;
            continue;
        }
        if (cursor->looked_at != cursor->row / HX_BLOCK_ROWS) {
            cursor->looked_at = cursor->row / HX_BLOCK_ROWS;
            hx_blocks_end_asides(instance_of(cursor)->blocks);
            if (cursor->looked++ % (1 + hx_blocks_asides()) == 1)
                look_ahead(cursor);
        }
        for (size_t c = 0; c < cursor->seekers; c++)
            HX_TRY(decoded_column(cursor, cursor->seeker_column[c], &column[c]));
        uint64_t stop = (cursor->block + 1) * (uint64_t)HX_BLOCK_ROWS;
        stop = stop < cursor->end ? stop : cursor->end;
        uint64_t from = cursor->block * (uint64_t)HX_BLOCK_ROWS;
        for (; cursor->row < stop; cursor->row++) {
            size_t i = hx_scan_next(column[0], cursor->seeker[0].low, cursor->seeker[0].high,
                                    (size_t)(cursor->row - from), (size_t)(stop - from));
            size_t c = 1;
            cursor->row = from + i;
            if (cursor->row == stop)
                break;
            for (; c < cursor->seekers; c++) {
                uint64_t value = hx_decoded_at(column[c], i);
                if (value < cursor->seeker[c].low || value > cursor->seeker[c].high)
                    break;
            }
            if (c == cursor->seekers)
                return NULL;
        }
    }
    return NULL;
}

/* The same, of the edges to an object those first that were found before. */
static hx_error *seek_row(struct cursor *cursor)
{
    struct hx_found *found = cursor->found;
    cursor->valued = 0;
    if (!found || found->begun != cursor->found_begun)
        return seek_matching_row(cursor);
    if (cursor->row < cursor->end && cursor->found_at < found->row.n) {
        cursor->row = found->row.v[cursor->found_at++];
        return NULL;
    }
    cursor->row = cursor->row > found->end ? cursor->row : found->end;
    HX_TRY(seek_matching_row(cursor));
    if (found->begun != cursor->found_begun || found->row.n == HX_FOUND_MAX)
        return NULL;
    if (cursor->row < cursor->end) {
        HX_NEED(hx_vec_push(&found->row, cursor->row));
        cursor->found_at = found->row.n;
    }
    found->end = cursor->row + 1;
    return NULL;
}

/* The first row whose key is >= key, a key as users see it. */
static hx_error *lower_bound_row(struct cursor *cursor, uint64_t key, uint64_t *ret)
{
    hx_blocks *blocks = instance_of(cursor)->blocks;
    if (cursor->index->family == HX_FAMILY_EDGE) /* a source's address: find its index */
        HX_TRY(hx_blocks_lower_bound(blocks, cursor->objects, key, &key));
    return hx_blocks_lower_bound(blocks, cursor->index, key, ret);
}

/* --- conditions -------------------------------------------------------------------- */

static bool find_rule(const char *text, uint64_t *ret)
{
    for (int rule = HX_RULE_NONE + 1; rule < HX_RULE_COUNT; rule++) {
        if (strcmp(text, hx_rule_name((enum hx_rule)rule)) == 0) {
            *ret = (uint64_t)rule;
            return true;
        }
    }
    return false;
}

/* The list that names of a kind stand in, and what is added to a number there when it is stored. */
static enum hx_name_list list_of(enum hx_serve serve, unsigned *ret_plus)
{
    *ret_plus = serve == HX_SERVE_BIN || serve == HX_SERVE_HOLDER;
    switch (serve) {
    case HX_SERVE_BIN:
        return HX_NAMES_BIN;
    case HX_SERVE_SHAPE:
        return HX_NAMES_SHAPE;
    case HX_SERVE_HOLDER:
        return HX_NAMES_HOLDER;
    default:
        return HX_NAMES_TYPE;
    }
}

static bool find_state(const char *text, uint64_t *ret)
{
    for (int state = HX_STATE_NONE + 1; state < HX_STATES; state++) {
        if (strcmp(text, hx_state_name((enum hx_state)state)) == 0) {
            *ret = (uint64_t)state;
            return true;
        }
    }
    return false;
}

/* *ret_found: how many decoded values stand for the text, and the first of them. */
static hx_error *find_decoded_text(struct cursor *cursor, enum hx_serve serve, sqlite3_value *value,
                                   uint64_t *ret, size_t *ret_found)
{
    const char *text = (const char *)sqlite3_value_text(value);
    HX_NEED(text);
    if (!hx_serve_is_name(serve)) {
        *ret_found = serve == HX_SERVE_STATE ? find_state(text, ret) : find_rule(text, ret);
        return NULL;
    }
    const hx_names *names;
    unsigned plus;
    HX_TRY(hx_blocks_names(instance_of(cursor)->blocks, cursor->index->snapshot,
                           list_of(serve, &plus), &names));
    *ret_found = hx_names_find(names, text, (size_t)sqlite3_value_bytes(value), ret);
    *ret += plus;
    return NULL;
}

static hx_error *find_object(struct cursor *cursor, struct hx_interval interval, uint64_t *ret,
                             size_t *ret_found)
{
    hx_blocks *blocks = instance_of(cursor)->blocks;
    uint64_t found;
    if (interval.low > interval.high)
        return NULL;
    HX_TRY(hx_blocks_lower_bound(blocks, cursor->objects, interval.low, ret));
    if (*ret == cursor->objects->rows)
        return NULL;
    HX_TRY(hx_blocks_address(blocks, cursor->objects, *ret, &found));
    *ret_found = found == interval.low;
    return NULL;
}

/* What a condition is in the snapshot that was begun. *ret_unclear: SQLite has to tell. */
static hx_error *translate(struct cursor *cursor, const struct condition *condition,
                           struct hx_condition *ret, bool *ret_unclear)
{
    const struct hx_table_column *how = &instance_of(cursor)->table->column[condition->column];
    struct hx_interval interval = hx_interval_of(condition->compare, condition->value);
    bool null = sqlite3_value_type(condition->value) == SQLITE_NULL;
    uint64_t value = 0;
    size_t found = 0;
    *ret = (struct hx_condition){.derived = how->derived, .column = how->column};
    *ret_unclear = false;
    if (hx_serve_is_number(how->serve) || condition->compare == HX_COMPARE_NOT_NULL || null) {
        hx_interval_decode(how->serve, interval, &ret->low, &ret->high);
        return NULL;
    }
    if (hx_serve_is_text(how->serve)) {
        if (sqlite3_value_type(condition->value) != SQLITE_BLOB)
            HX_TRY(find_decoded_text(cursor, how->serve, condition->value, &value, &found));
    } else {
        HX_TRY(find_object(cursor, interval, &value, &found));
        value += how->serve == HX_SERVE_OBJECT_UNPLUS;
    }
    *ret_unclear = found > 1;
    ret->low = found ? value : 1;
    ret->high = found ? value : 0;
    return NULL;
}

/* Makes the conditions ready for the snapshot that was begun. */
static hx_error *begin_conditions(struct cursor *cursor, bool all)
{
    cursor->seekers = 0;
    for (size_t c = 0; c < cursor->conditions && cursor->row < cursor->end; c++) {
        struct hx_condition *seeker = &cursor->seeker[cursor->seekers];
        bool unclear;
        HX_TRY(translate(cursor, &cursor->condition[c], seeker, &unclear));
        if (unclear && all)
            return hx_error_new(HX_E_CORRUPT, "store", "take it from a backup or make it again",
                                "the store is damaged (two names are the same)");
        if (unclear)
            continue;
        if (seeker->low > seeker->high)
            cursor->end = cursor->row;
        cursor->seeker_column[cursor->seekers++] = cursor->condition[c].column;
    }
    return NULL;
}

/* The only edge to an object comes from its dominator, if it counts: then no other is looked at. */
static hx_error *look_at_dominator(struct cursor *cursor, uint64_t target)
{
    hx_blocks *blocks = instance_of(cursor)->blocks;
    const struct hx_block_index *edges = cursor->index;
    const uint16_t at = (uint16_t)(target % HX_BLOCK_ROWS);
    uint64_t dominator, first, end;
    HX_TRY(hx_blocks_pick(blocks, cursor->objects, target / HX_BLOCK_ROWS, HX_DOMINATOR, 0, &at, 1,
                          &dominator));
    if (!dominator--)
        return NULL;
    HX_TRY(hx_blocks_lower_bound(blocks, edges, dominator, &first));
    HX_TRY(hx_blocks_lower_bound(blocks, edges, dominator + 1, &end));
    for (uint64_t row = first, n; row < end; row += n) {
        const struct hx_decoded *column;
        size_t from = (size_t)(row % HX_BLOCK_ROWS);
        n = HX_BLOCK_ROWS - from < end - row ? HX_BLOCK_ROWS - from : end - row;
        HX_TRY(hx_blocks_column(blocks, edges, row / HX_BLOCK_ROWS, HX_TARGET_OBJ, 0, &column));
        size_t found = hx_scan_next(column, target, target, from, from + (size_t)n);
        hx_blocks_release(blocks, column);
        if (found < from + n) {
            cursor->row = row + (found - from);
            cursor->end = cursor->row + 1;
            return NULL;
        }
    }
    return NULL;
}

/* Of the edges to an object it is known how many there are: behind the last one nothing is looked
 * at. */
static hx_error *limit_to_target(struct cursor *cursor)
{
    const struct hx_condition *seeker = &cursor->seeker[0];
    const uint64_t target = seeker->low;
    const uint16_t at = (uint16_t)(target % HX_BLOCK_ROWS);
    if (cursor->index->family != HX_FAMILY_EDGE || cursor->seekers != 1 || cursor->row ||
        cursor->end != cursor->index->rows || seeker->derived != HX_TARGET_OBJ ||
        target != seeker->high || target >= cursor->objects->rows)
        return NULL;
    HX_TRY(hx_blocks_pick(instance_of(cursor)->blocks, cursor->objects, target / HX_BLOCK_ROWS,
                          HX_PLAIN, HX_COL_IN, &at, 1, &cursor->left));
    if (!cursor->left)
        cursor->row = cursor->end;
    if (cursor->left == 1)
        return look_at_dominator(cursor, target);
    cursor->found = hx_blocks_found(instance_of(cursor)->blocks);
    if (cursor->found->snapshot != cursor->index->snapshot || cursor->found->target != target)
        hx_found_begin(cursor->found, cursor->index->snapshot, target);
    cursor->found_begun = cursor->found->begun;
    cursor->found_at = 0;
    return NULL;
}

/* --- snapshots --------------------------------------------------------------------- */

/* Finds the interval of rows in the snapshot cursor->at; it may be empty. */
static hx_error *begin_snapshot(struct cursor *cursor, unsigned plan)
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
        HX_TRY(lower_bound_row(cursor, cursor->key_low, &cursor->row));
    if (cursor->key_high < UINT64_MAX)
        HX_TRY(lower_bound_row(cursor, cursor->key_high + 1, &cursor->end));
    if (cursor->row < cursor->row_low)
        cursor->row = cursor->row_low;
    if (cursor->row_high < cursor->end)
        cursor->end = cursor->row_high + 1;
    bool top = plan & HX_PLAN_TOP;
    HX_TRY(begin_conditions(cursor, top));
    cursor->left = UINT64_MAX;
    if (top)
        return NULL;
    cursor->single =
        !cursor->seekers && cursor->row < cursor->end && cursor->end - cursor->row == 1;
    HX_TRY(limit_to_target(cursor));
    return seek_row(cursor);
}

/* Goes on to the next snapshot with a row as long as there is none here. */
static hx_error *settle_vtab_cursor(struct cursor *cursor)
{
    while (cursor->row >= cursor->end && cursor->at + 1 < cursor->snapshots.n) {
        cursor->at++;
        HX_TRY(begin_snapshot(cursor, 0));
    }
    return NULL;
}

/* --- xFilter's arguments ----------------------------------------------------------- */

struct limits {
    uint64_t offset, limit; /* HX_PLAN_TOP */
    bool none;              /* no row can match */
    bool one_snapshot;
    int64_t snapshot;
};

static hx_error *read_argument(struct cursor *cursor, unsigned part, sqlite3_value *value,
                               struct limits *limits)
{
    int64_t bound;
    bool exact;
    if (sqlite3_value_type(value) == SQLITE_NULL) {
        limits->none = true; /* a comparison with NULL is never true */
    } else if (!hx_bound_of(value, &bound, &exact)) {
        return NULL;
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
    } else if (part == HX_PLAN_LIMIT) {
        limits->limit = bound < 0 ? UINT64_MAX : (uint64_t)bound; /* a negative limit is none */
    } else {
        limits->offset = bound < 0 ? 0 : (uint64_t)bound;
    }
    return NULL;
}

/* A comparison of the key limits the rows to look at, any other is tested. */
static hx_error *read_condition(struct cursor *cursor, const char *text, sqlite3_value *value,
                                struct limits *limits)
{
    struct condition *condition = &cursor->condition[cursor->conditions];
    int column = text[0] - 'A';
    enum hx_compare compare = (enum hx_compare)text[1];
    if (column == instance_of(cursor)->table->key) {
        struct hx_interval interval = hx_interval_of(compare, value);
        cursor->key_low = interval.low > cursor->key_low ? interval.low : cursor->key_low;
        cursor->key_high = interval.high < cursor->key_high ? interval.high : cursor->key_high;
        limits->none |= cursor->key_low > cursor->key_high;
        return NULL;
    }
    *condition = (struct condition){column, compare, sqlite3_value_dup(value)};
    HX_NEED(condition->value);
    cursor->conditions++;
    return NULL;
}

static hx_error *read_arguments(struct cursor *cursor, unsigned plan, const char *text,
                                sqlite3_value **argv, struct limits *limits)
{
    for (int bit = 0; bit < HX_PLAN_BITS; bit++)
        if (plan & 1u << bit)
            HX_TRY(read_argument(cursor, 1u << bit, *argv++, limits));
    for (; text && text[0] && text[1]; text += 2)
        HX_TRY(read_condition(cursor, text, *argv++, limits));
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
        HX_NEED(hx_vec_push(&cursor->snapshots, sqlite3_column_int64(st, 0)));
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
static hx_error *gather_top_column(struct cursor *cursor, int column)
{
    enum { SPARSE = 4096 }; /* rows of a block: where there are more, it is worth decoding it */
    const struct instance *instance = instance_of(cursor);
    const struct hx_table_column *how = &instance->table->column[column];
    HX_FREE uint64_t *values = malloc(cursor->top_n * sizeof *values);
    HX_FREE uint16_t *at = malloc(SPARSE * sizeof *at);
    HX_FREE uint64_t *picked = malloc(SPARSE * sizeof *picked);
    HX_NEED(values && at && picked);
    for (size_t i = 0, n; i < cursor->top_n; i += n) {
        uint64_t block = cursor->place[i].row / HX_BLOCK_ROWS;
        for (n = 0; i + n < cursor->top_n && n < SPARSE &&
                    cursor->place[i + n].row / HX_BLOCK_ROWS == block;
             n++)
            at[n] = (uint16_t)(cursor->place[i + n].row % HX_BLOCK_ROWS);
        HX_TRY(hx_blocks_interrupted(instance->blocks));
        HX_TRY(hx_blocks_pick(instance->blocks, cursor->index, block, how->derived, how->column, at,
                              n, picked));
        for (size_t k = 0; k < n; k++)
            values[cursor->place[i + k].at] = picked[k];
    }
    cursor->top_values[column] = hx_steal(values);
    return NULL;
}

static hx_error *rank_states(struct cursor *cursor)
{
    cursor->rank = calloc(HX_STATES, sizeof *cursor->rank);
    HX_NEED(cursor->rank);
    hx_rank_states(cursor->rank);
    cursor->window.ranks = HX_STATES;
    return NULL;
}

/* Numbers of names are ordered as the names are. */
static hx_error *rank_names(struct cursor *cursor, enum hx_serve serve)
{
    const hx_names *names;
    HX_FREE uint32_t *rank = NULL;
    size_t n;
    unsigned plus;
    HX_TRY(hx_blocks_names(instance_of(cursor)->blocks, cursor->index->snapshot,
                           list_of(serve, &plus), &names));
    HX_TRY(hx_names_ranks(names, &rank, &n));
    cursor->rank = calloc(n + 1, sizeof *rank);
    HX_NEED(cursor->rank);
    for (size_t i = 0; i < n; i++)
        cursor->rank[i + plus] = !plus && i == 0 ? 0 : rank[i];
    cursor->window.ranks = n + plus;
    return NULL;
}

/* What is asked of the window besides rows, in place of them. */
static hx_error *tell_window(struct cursor *cursor, struct hx_window *window)
{
    hx_blocks *blocks = instance_of(cursor)->blocks;
    struct hx_interval interval = {window->address, window->address, false};
    uint64_t row;
    size_t found = 0;
    cursor->end = cursor->row;
    if (window->about == HX_WINDOW_COUNT)
        return hx_top_count(blocks, cursor->index, &cursor->window, &window->number);
    if (window->about == HX_WINDOW_SUMS)
        return hx_sums_make(blocks, cursor->index, &cursor->window, window->sums);
    HX_TRY(find_object(cursor, interval, &row, &found));
    return found ? hx_top_place(blocks, cursor->index, &cursor->window, row, window->near,
                                &window->there, &window->number)
                 : NULL;
}

static hx_error *begin_top(struct cursor *cursor, unsigned plan, const struct limits *limits,
                           struct hx_window *window)
{
    const struct instance *instance = instance_of(cursor);
    const struct hx_table_column *by =
        &instance->table->column[plan >> HX_PLAN_COLUMN_SHIFT & HX_PLAN_COLUMN_MASK];
    cursor->window = (struct hx_top){
        .from = cursor->row,
        .end = cursor->end,
        .condition = cursor->seeker,
        .conditions = cursor->seekers,
        .derived = by->derived,
        .column = by->column,
        .largest = plan & HX_PLAN_LARGEST,
        .zero_last = window && window->nulls_last && hx_serve_has_null(by->serve),
        .offset = limits->offset,
        .limit = limits->limit,
    };
    if (hx_serve_is_text(by->serve))
        HX_TRY(by->serve == HX_SERVE_STATE ? rank_states(cursor) : rank_names(cursor, by->serve));
    cursor->window.rank = cursor->rank;
    if (window && window->about != HX_WINDOW_ROWS)
        return tell_window(cursor, window);
    HX_TRY(hx_top_rows(instance->blocks, cursor->index, &cursor->window, &cursor->top,
                       &cursor->top_n));
    go_top(cursor, 0);
    if (!cursor->top_n || cursor->top_n > MAX_GATHERED)
        return NULL;
    cursor->place = malloc(cursor->top_n * sizeof *cursor->place);
    HX_NEED(cursor->place);
    for (size_t i = 0; i < cursor->top_n; i++)
        cursor->place[i] = (struct place){cursor->top[i], i};
    qsort(cursor->place, cursor->top_n, sizeof *cursor->place, compare_places);
    return NULL;
}

/* Of one row of a block, or few, others need not be decoded; SQLite may ask for a value more than
 * once. */
static hx_error *pick_one(struct cursor *cursor, int column)
{
    const struct instance *instance = instance_of(cursor);
    const struct hx_table_column *how = &instance->table->column[column];
    const uint16_t at = (uint16_t)(cursor->row % HX_BLOCK_ROWS);
    if (cursor->valued >> column & 1)
        return NULL;
    HX_TRY(hx_blocks_pick(instance->blocks, cursor->index, cursor->row / HX_BLOCK_ROWS,
                          how->derived, how->column, &at, 1, &cursor->value[column]));
    cursor->valued |= UINT32_C(1) << column;
    return NULL;
}

/* The value of the current row, as decoded. */
static hx_error *current_value(struct cursor *cursor, int column, uint64_t *ret)
{
    if (cursor->place) {
        if (!cursor->top_values[column])
            HX_TRY(gather_top_column(cursor, column));
        *ret = cursor->top_values[column][cursor->top_at];
        return NULL;
    }
    if (cursor->single || cursor->found) {
        HX_TRY(pick_one(cursor, column));
        *ret = cursor->value[column];
        return NULL;
    }
    const struct hx_decoded *decoded;
    HX_TRY(decoded_column(cursor, column, &decoded));
    *ret = hx_decoded_at(decoded, cursor->row % HX_BLOCK_ROWS);
    return NULL;
}

static hx_error *start_vtab_scan(struct cursor *cursor, unsigned plan, const char *text,
                                 sqlite3_value **argv)
{
    leave_snapshot(cursor);
    drop_conditions(cursor);
    hx_blocks_go_on(instance_of(cursor)->blocks);
    hx_blocks_refresh(instance_of(cursor)->blocks);
    cursor->snapshots.n = cursor->at = 0;
    cursor->row = cursor->end = 0;
    drop_top(cursor);
    cursor->key_low = cursor->row_low = 0;
    cursor->key_high = cursor->row_high = UINT64_MAX;
    cursor->seekers = 0;
    struct limits limits = {.limit = UINT64_MAX};
    struct hx_window *window = *hx_blocks_window(instance_of(cursor)->blocks);
    if (window)
        window->found = plan & HX_PLAN_TOP;
    if (window && !window->found)
        return NULL;
    HX_TRY(read_arguments(cursor, plan, text, argv, &limits));
    if (limits.none)
        return NULL;
    HX_TRY(list_snapshots(cursor, &limits));
    if (!cursor->snapshots.n)
        return NULL;
    HX_TRY(begin_snapshot(cursor, plan));
    return plan & HX_PLAN_TOP ? begin_top(cursor, plan, &limits, window)
                              : settle_vtab_cursor(cursor);
}

int hx_window_step(hx_blocks *blocks, sqlite3_stmt *statement, struct hx_window *window)
{
    struct hx_window **slot = hx_blocks_window(blocks);
    *slot = window;
    int code = sqlite3_step(statement);
    *slot = NULL;
    return code;
}

static int cursor_filter(sqlite3_vtab_cursor *base, int plan, const char *text, int argc,
                         sqlite3_value **argv)
{
    (void)argc;
    hx_error *err = start_vtab_scan((struct cursor *)base, (unsigned)plan, text, argv);
    return set_vtab_error(base->pVtab, err);
}

/* --- rows -------------------------------------------------------------------------- */

static int cursor_next(sqlite3_vtab_cursor *base)
{
    struct cursor *cursor = (struct cursor *)base;
    if (cursor->top) {
        go_top(cursor, cursor->top_at + 1);
        return SQLITE_OK;
    }
    cursor->row = --cursor->left ? cursor->row + 1 : cursor->end;
    hx_error *err = cursor->seekers ? seek_row(cursor) : NULL;
    if (!err && cursor->row >= cursor->end)
        err = settle_vtab_cursor(cursor);
    return set_vtab_error(base->pVtab, err);
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

static hx_error *serve_name(struct cursor *cursor, sqlite3_context *context, enum hx_serve how,
                            uint64_t value)
{
    unsigned plus;
    enum hx_name_list list = list_of(how, &plus);
    const hx_names *names;
    const char *text;
    size_t bytes;
    HX_TRY(hx_blocks_names(instance_of(cursor)->blocks, cursor->index->snapshot, list, &names));
    HX_TRY(hx_names_of(names, value - plus, &text, &bytes));
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
    if (column == instance->table->key && cursor->key_low == cursor->key_high) {
        sqlite3_result_int64(context, (int64_t)cursor->key_low); /* all rows have it */
        return NULL;
    }
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
    case HX_SERVE_BIN:
    case HX_SERVE_SHAPE:
    case HX_SERVE_HOLDER:
        return value ? serve_name(cursor, context, how, value) : NULL;
    case HX_SERVE_RULE: {
        if (value >= HX_RULE_COUNT)
            return hx_error_new(HX_E_CORRUPT, "store", "take it from a backup or make it again",
                                "the store is damaged (a rule that is not there)");
        if (value != HX_RULE_NONE)
            sqlite3_result_text(context, hx_rule_name((enum hx_rule)value), -1, SQLITE_STATIC);
        return NULL;
    }
    case HX_SERVE_WORDS:
        value *= 8;
        break;
    case HX_SERVE_CONFIDENCE:
        if (value)
            sqlite3_result_text(context, hx_confidence_name(HX_TYPED_CONFIDENCE(value)), -1,
                                SQLITE_STATIC);
        return NULL;
    case HX_SERVE_SOURCE:
        if (value)
            sqlite3_result_text(context, hx_type_source_name(HX_TYPED_SOURCE(value)), -1,
                                SQLITE_STATIC);
        return NULL;
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
    return set_vtab_error(base->pVtab, err);
}

/* --- the modules ------------------------------------------------------------------- */

/* No xCreate: the tables exist, the schema holds none. */
static const sqlite3_module methods = HX_DB_MODULE(NULL);

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
