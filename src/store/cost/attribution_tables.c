/* attribution_tables.c - virtual tables over an attribution in memory. */
#include "store/cost/attribution_tables.h"

#include "base/cleanup.h"
#include "store/db.h"
#include "store/schema/schema.h"

#include <stdlib.h>
#include <string.h>

enum { KEPT = 4 }; /* snapshots whose costs are kept: two are compared, and so are theirs */

/* The costs of a snapshot, shared by cursors. */
struct kept {
    int64_t snapshot;
    unsigned users; /* cursors, and the list while it is in it */
    uint64_t asked; /* the last time */
    struct hx_ccs_costs costs;
};

struct hx_ccs_overlay {
    unsigned users; /* the store, the module, each table */
    sqlite3 *db;
    const char *what;
    struct hx_frames *frames;
    struct hx_attributing *pass;
    HX_VEC(int64_t) snapshots; /* ascending */
    struct kept *kept[KEPT];
    uint64_t asked;
    uint64_t *identity;     /* of each row; NULL: not asked for yet */
    uint32_t *child, *next; /* of each row; 0: none. The same */
};

/* --- what there is ------------------------------------------------------------------ */

static void release_kept(struct kept *kept)
{
    if (!kept || --kept->users)
        return;
    hx_ccs_costs_deinit(&kept->costs);
    free(kept);
}

static void forget_overlay(hx_ccs_overlay *overlay)
{
    for (size_t i = 0; i < KEPT; i++) {
        release_kept(overlay->kept[i]);
        overlay->kept[i] = NULL;
    }
    hx_vec_free(&overlay->snapshots);
    free(overlay->identity);
    free(overlay->child);
    free(overlay->next);
    overlay->identity = NULL;
    overlay->child = overlay->next = NULL;
    if (overlay->pass)
        hx_attributing_deinit(overlay->pass);
    if (overlay->frames)
        hx_frames_deinit(overlay->frames);
    free(overlay->pass);
    free(overlay->frames);
    overlay->pass = NULL;
    overlay->frames = NULL;
}

void hx_ccs_overlay_unref(hx_ccs_overlay *overlay)
{
    if (!overlay || --overlay->users)
        return;
    forget_overlay(overlay);
    free(overlay);
}

static hx_error *list_snapshots(hx_ccs_overlay *overlay, int64_t snapshot)
{
    HX_STATEMENT sqlite3_stmt *st = NULL;
    HX_TRY(hx_db_prepare(overlay->db, overlay->what,
                         "SELECT snapshot FROM hx_recording WHERE ?1 IN (0, snapshot)"
                         " ORDER BY snapshot",
                         &st));
    sqlite3_bind_int64(st, 1, snapshot);
    int code;
    while ((code = sqlite3_step(st)) == SQLITE_ROW)
        HX_NEED(hx_vec_push(&overlay->snapshots, sqlite3_column_int64(st, 0)));
    return code == SQLITE_DONE ? NULL : hx_db_error(overlay->db, code, overlay->what);
}

hx_error *hx_ccs_overlay_set(hx_ccs_overlay *overlay, struct hx_frames *frames,
                             struct hx_attributing *pass, int64_t snapshot)
{
    forget_overlay(overlay);
    overlay->frames = frames;
    overlay->pass = pass;
    if (!pass)
        return NULL;
    pass->progress = NULL; /* whoever asks later has not that one */
    return list_snapshots(overlay, snapshot);
}

static uint32_t overlay_rows(const hx_ccs_overlay *overlay)
{
    return overlay->pass ? hx_ccs_count(overlay->pass->table) : 0;
}

static hx_error *make_identities(hx_ccs_overlay *overlay)
{
    if (overlay->identity)
        return NULL;
    overlay->identity = malloc(((size_t)overlay_rows(overlay) + 1) * sizeof *overlay->identity);
    HX_NEED(overlay->identity);
    hx_attributing_identities(overlay->pass, overlay->identity);
    return NULL;
}

/* Lists of children, in order. Row 0 is nobody's. */
static hx_error *make_children(hx_ccs_overlay *overlay)
{
    const struct hx_ccs_entry *entry = hx_ccs_rows(overlay->pass->table);
    uint32_t n = overlay_rows(overlay);
    if (overlay->next)
        return NULL;
    HX_FREE uint32_t *child = calloc((size_t)n + 1, sizeof *child);
    HX_FREE uint32_t *next = calloc((size_t)n + 1, sizeof *next);
    HX_NEED(child && next);
    for (uint32_t row = n; row-- > 1;) {
        next[row] = child[entry[row].parent];
        child[entry[row].parent] = row;
    }
    overlay->child = hx_steal(child);
    overlay->next = hx_steal(next);
    return NULL;
}

static hx_error *make_costs(hx_ccs_overlay *overlay, int64_t snapshot, struct kept **ret)
{
    struct kept *kept = calloc(1, sizeof *kept);
    HX_NEED(kept);
    kept->snapshot = snapshot;
    kept->users = 1;
    hx_error *err = hx_ccs_costs_make(overlay->pass, snapshot, &kept->costs);
    if (err)
        release_kept(kept);
    else
        *ret = kept;
    return err;
}

/* The costs of a snapshot for a cursor, in place of those that were asked for longest ago. */
static hx_error *take_costs(hx_ccs_overlay *overlay, int64_t snapshot, struct kept **ret)
{
    struct kept **slot = &overlay->kept[0];
    for (size_t i = 0; i < KEPT; i++) {
        struct kept **at = &overlay->kept[i];
        if (*at && (*at)->snapshot == snapshot) {
            slot = at;
            break;
        }
        if (*slot && (!*at || (*at)->asked < (*slot)->asked))
            slot = at;
    }
    if (!*slot || (*slot)->snapshot != snapshot) {
        struct kept *fresh = NULL;
        HX_TRY(make_costs(overlay, snapshot, &fresh));
        release_kept(*slot);
        *slot = fresh;
    }
    (*slot)->asked = ++overlay->asked;
    (*slot)->users++;
    *ret = *slot;
    return NULL;
}

/* --- tables ------------------------------------------------------------------------- */

enum kind { CCS, COST, ESTIMATE };

/* Columns as the tables of schema.c have them. */
static const struct overlay_table {
    const char *name, *declaration;
    int id, parent; /* columns; parent -1: there is none */
} tables[] = {
    [CCS] = {"hx_ccs",
             "CREATE TABLE x(ccs_id INTEGER PRIMARY KEY, parent_id INTEGER, depth INTEGER,"
             " centre INTEGER, identity INTEGER, recursive INTEGER)",
             0, 1},
    [COST] = {"hx_cost",
              "CREATE TABLE x(snapshot INTEGER, ccs_id INTEGER, entries INTEGER,"
              " alloc_bytes INTEGER, alloc_objects INTEGER, freed_bytes INTEGER,"
              " freed_objects INTEGER, live_bytes INTEGER, live_objects INTEGER,"
              " inherited_alloc_bytes INTEGER, inherited_alloc_objects INTEGER,"
              " inherited_live_bytes INTEGER, inherited_live_objects INTEGER)",
              1, -1},
    [ESTIMATE] = {"hx_estimate",
                  "CREATE TABLE x(snapshot INTEGER, ccs_id INTEGER, alloc_error_bytes INTEGER,"
                  " live_error_bytes INTEGER)",
                  1, -1},
};

struct instance {
    sqlite3_vtab base;
    hx_ccs_overlay *overlay;
    enum kind kind;
};

struct cursor {
    sqlite3_vtab_cursor base;
    size_t at, end;         /* in the snapshots; of stacks there is one round */
    uint32_t low, high;     /* rows, high not included */
    uint32_t row;           /* the current one */
    bool children, is_over; /* only those of one row */
    struct kept *kept;      /* costs of the snapshot `at` */
};

static hx_ccs_overlay *overlay_of(const struct cursor *cursor)
{
    return ((struct instance *)cursor->base.pVtab)->overlay;
}

static enum kind cursor_table(const struct cursor *cursor)
{
    return ((struct instance *)cursor->base.pVtab)->kind;
}

/* The code of a method that may have failed. */
static int set_overlay_error(sqlite3_vtab *vtab, hx_error *err)
{
    return err ? hx_db_table_error(vtab, err, SQLITE_CORRUPT) : SQLITE_OK;
}

static int table_connect(sqlite3 *db, void *aux, int argc, const char *const *argv,
                         sqlite3_vtab **ret, char **error)
{
    hx_ccs_overlay *overlay = aux;
    size_t kind = 0, kinds = sizeof tables / sizeof *tables;
    while (argc > 3 && kind < kinds && strcmp(tables[kind].name, argv[3]) != 0)
        kind++;
    if (argc < 4 || kind == kinds) {
        *error = sqlite3_mprintf("no such table");
        return SQLITE_ERROR;
    }
    int code = sqlite3_declare_vtab(db, tables[kind].declaration);
    if (code != SQLITE_OK)
        return code;
    sqlite3_vtab_config(db, SQLITE_VTAB_INNOCUOUS);
    struct instance *instance = sqlite3_malloc64(sizeof *instance);
    if (!instance)
        return SQLITE_NOMEM;
    *instance = (struct instance){.overlay = overlay, .kind = (enum kind)kind};
    overlay->users++;
    *ret = &instance->base;
    return SQLITE_OK;
}

static int table_disconnect(sqlite3_vtab *base)
{
    hx_ccs_overlay_unref(((struct instance *)base)->overlay);
    sqlite3_free(base);
    return SQLITE_OK;
}

/* --- plans -------------------------------------------------------------------------- */

/* Which constraints xFilter gets, in this order. SQLite looks at them again. */
enum plan { BY_SNAPSHOT = 1, BY_ID = 2, BY_PARENT = 4, PARTS = 3 };

static unsigned constraint_part(enum kind kind, const struct sqlite3_index_constraint *constraint)
{
    const struct overlay_table *table = &tables[kind];
    if (!constraint->usable || constraint->op != SQLITE_INDEX_CONSTRAINT_EQ)
        return 0;
    if (kind != CCS && constraint->iColumn == 0)
        return BY_SNAPSHOT;
    if (table->parent >= 0 && constraint->iColumn == table->parent)
        return BY_PARENT;
    return constraint->iColumn == table->id || (kind == CCS && constraint->iColumn < 0) ? BY_ID : 0;
}

/* Do rows come in the order that is asked for? By snapshot, then by number. */
static bool is_ordered(enum kind kind, unsigned plan, const sqlite3_index_info *info)
{
    int term = 0, terms = info->nOrderBy;
    if (kind != CCS && terms && info->aOrderBy[0].iColumn == 0 && !info->aOrderBy[0].desc)
        term = 1;
    else if (kind != CCS && !(plan & BY_SNAPSHOT))
        return false;
    if (term < terms &&
        (info->aOrderBy[term].desc || (info->aOrderBy[term].iColumn != tables[kind].id &&
                                       !(kind == CCS && info->aOrderBy[term].iColumn < 0))))
        return false;
    return terms - term <= 1 && terms > 0;
}

static int table_best_index(sqlite3_vtab *base, sqlite3_index_info *info)
{
    const struct instance *instance = (const struct instance *)base;
    int chosen[PARTS], arguments = 0;
    unsigned plan = 0;
    for (int i = 0; i < info->nConstraint; i++) {
        unsigned part = constraint_part(instance->kind, &info->aConstraint[i]);
        if (!part || plan & part)
            continue;
        plan |= part;
        chosen[__builtin_ctz(part)] = i;
    }
    for (int bit = 0; bit < PARTS; bit++)
        if (plan & 1u << bit)
            info->aConstraintUsage[chosen[bit]].argvIndex = ++arguments;
    double rows = 1 + overlay_rows(instance->overlay);
    rows = plan & BY_ID ? 1 : plan & BY_PARENT ? 10 : rows;
    if (instance->kind != CCS && !(plan & BY_SNAPSHOT))
        rows *= 1 + (double)instance->overlay->snapshots.n;
    info->idxNum = (int)plan;
    info->estimatedRows = (sqlite3_int64)rows;
    info->estimatedCost = rows + 10;
    if (plan & BY_ID && (instance->kind == CCS || plan & BY_SNAPSHOT))
        info->idxFlags = SQLITE_INDEX_SCAN_UNIQUE;
    info->orderByConsumed = is_ordered(instance->kind, plan, info);
    return SQLITE_OK;
}

/* --- cursors ------------------------------------------------------------------------ */

static int cursor_open(sqlite3_vtab *base, sqlite3_vtab_cursor **ret)
{
    (void)base;
    struct cursor *cursor = sqlite3_malloc64(sizeof *cursor);
    if (!cursor)
        return SQLITE_NOMEM;
    *cursor = (struct cursor){.is_over = true};
    *ret = &cursor->base;
    return SQLITE_OK;
}

static int cursor_close(sqlite3_vtab_cursor *base)
{
    release_kept(((struct cursor *)base)->kept);
    sqlite3_free(base);
    return SQLITE_OK;
}

/* Is there something in this row for this table? */
static bool has_row(const struct cursor *cursor, uint32_t row)
{
    return !cursor->kept || hx_ccs_costs_there(&cursor->kept->costs, row);
}

/* To the first snapshot from `at` on that has a row. */
static hx_error *settle_overlay_cursor(struct cursor *cursor)
{
    hx_ccs_overlay *overlay = overlay_of(cursor);
    while (cursor->at < cursor->end) {
        if (!cursor->kept && cursor_table(cursor) != CCS) {
            HX_TRY(take_costs(overlay, overlay->snapshots.v[cursor->at], &cursor->kept));
            cursor->row = cursor->low;
            if (cursor_table(cursor) == ESTIMATE && !cursor->kept->costs.sampled)
                cursor->row = cursor->high;
        }
        while (cursor->row < cursor->high && !has_row(cursor, cursor->row))
            cursor->row++;
        if (cursor->row < cursor->high)
            return NULL;
        release_kept(cursor->kept);
        cursor->kept = NULL;
        cursor->at++;
    }
    cursor->is_over = true;
    return NULL;
}

/* The whole number that a column is compared with. False: leave that to SQLite. */
static bool bound_of(sqlite3_value *value, int64_t *ret)
{
    if (sqlite3_value_numeric_type(value) != SQLITE_INTEGER)
        return false;
    *ret = sqlite3_value_int64(value);
    return true;
}

static void limit_snapshots(struct cursor *cursor, int64_t snapshot)
{
    const hx_ccs_overlay *overlay = overlay_of(cursor);
    size_t at = cursor->at;
    while (at < cursor->end && overlay->snapshots.v[at] != snapshot)
        at++;
    cursor->at = at;
    cursor->end = at < cursor->end ? at + 1 : at;
}

static hx_error *limit(struct cursor *cursor, unsigned part, int64_t bound)
{
    uint32_t row = bound >= 1 && bound <= cursor->high ? (uint32_t)(bound - 1) : cursor->high;
    bool exists = row < cursor->high;
    if (part == BY_SNAPSHOT) {
        limit_snapshots(cursor, bound);
    } else if (part == BY_ID) { /* row r is number r + 1 */
        cursor->low = row;
        cursor->high = row + exists;
    } else {
        HX_TRY(make_children(overlay_of(cursor)));
        cursor->children = true;
        cursor->row = exists ? overlay_of(cursor)->child[row] : 0;
    }
    return NULL;
}

static hx_error *start_overlay_scan(struct cursor *cursor, unsigned plan, sqlite3_value **argv)
{
    hx_ccs_overlay *overlay = overlay_of(cursor);
    release_kept(cursor->kept);
    cursor->kept = NULL;
    cursor->children = false;
    cursor->is_over = !overlay->pass;
    cursor->low = cursor->at = 0;
    cursor->high = overlay_rows(overlay);
    cursor->end = cursor_table(cursor) == CCS ? overlay->pass != NULL : overlay->snapshots.n;
    for (unsigned part = 1; part < 1u << PARTS && !cursor->is_over; part <<= 1) {
        int64_t bound;
        if (!(plan & part))
            continue;
        sqlite3_value *value = *argv++;
        if (sqlite3_value_type(value) == SQLITE_NULL)
            cursor->is_over = true; /* a comparison with NULL is never true */
        else if (bound_of(value, &bound))
            HX_TRY(limit(cursor, part, bound));
    }
    if (cursor->is_over)
        return NULL;
    if (cursor->children) {
        cursor->is_over = !cursor->row;
        return NULL;
    }
    cursor->row = cursor->low;
    return settle_overlay_cursor(cursor);
}

static int cursor_filter(sqlite3_vtab_cursor *base, int plan, const char *text, int argc,
                         sqlite3_value **argv)
{
    (void)text, (void)argc;
    struct cursor *cursor = (struct cursor *)base;
    hx_error *err = start_overlay_scan(cursor, (unsigned)plan, argv);
    if (err)
        cursor->is_over = true;
    return set_overlay_error(base->pVtab, err);
}

static int cursor_next(sqlite3_vtab_cursor *base)
{
    struct cursor *cursor = (struct cursor *)base;
    if (cursor->children) {
        cursor->row = overlay_of(cursor)->next[cursor->row];
        cursor->is_over = !cursor->row;
        return SQLITE_OK;
    }
    cursor->row++;
    hx_error *err = settle_overlay_cursor(cursor);
    if (err)
        cursor->is_over = true;
    return set_overlay_error(base->pVtab, err);
}

static int cursor_eof(sqlite3_vtab_cursor *base)
{
    return ((const struct cursor *)base)->is_over;
}

static int64_t snapshot_of(const struct cursor *cursor)
{
    return overlay_of(cursor)->snapshots.v[cursor->at];
}

static int cursor_rowid(sqlite3_vtab_cursor *base, sqlite3_int64 *ret)
{
    const struct cursor *cursor = (const struct cursor *)base;
    *ret = hx_ccs_id_of(cursor->row);
    if (cursor_table(cursor) != CCS)
        *ret |= (int64_t)((uint64_t)cursor->at << 32);
    return SQLITE_OK;
}

static hx_error *serve_ccs(hx_ccs_overlay *overlay, sqlite3_context *context, uint32_t row,
                           int column)
{
    const struct hx_ccs_entry *entry = &hx_ccs_rows(overlay->pass->table)[row];
    int64_t value = hx_ccs_id_of(row);
    switch (column) {
    case 1:
        if (!row)
            return NULL; /* nobody's */
        value = hx_ccs_id_of(entry->parent);
        break;
    case 2:
        value = entry->depth;
        break;
    case 3:
        value = overlay->frames->centres.v[entry->centre].id;
        break;
    case 4:
        HX_TRY(make_identities(overlay));
        value = (int64_t)overlay->identity[row];
        break;
    case 5:
        value = entry->recursive;
        break;
    default:
        break;
    }
    sqlite3_result_int64(context, value);
    return NULL;
}

static void serve_cost(const struct cursor *cursor, sqlite3_context *context, int column)
{
    const struct hx_ccs_costs *costs = &cursor->kept->costs;
    int64_t value, live;
    if (column == 0)
        value = snapshot_of(cursor);
    else if (column == 1)
        value = hx_ccs_id_of(cursor->row);
    else if (cursor_table(cursor) == COST) {
        if (!hx_ccs_costs_value(costs, cursor->row, column - 2, &value))
            return;
    } else {
        hx_ccs_costs_error(costs, cursor->row, &value, &live);
        value = column == 2 ? value : live;
    }
    sqlite3_result_int64(context, value);
}

static int cursor_column(sqlite3_vtab_cursor *base, sqlite3_context *context, int column)
{
    struct cursor *cursor = (struct cursor *)base;
    if (cursor_table(cursor) != CCS) {
        serve_cost(cursor, context, column);
        return SQLITE_OK;
    }
    hx_error *err = serve_ccs(overlay_of(cursor), context, cursor->row, column);
    return set_overlay_error(base->pVtab, err);
}

/* --- the module --------------------------------------------------------------------- */

static const sqlite3_module methods = HX_DB_MODULE(table_connect);

static void free_module(void *aux)
{
    hx_ccs_overlay_unref(aux);
}

hx_error *hx_ccs_overlay_create(sqlite3 *db, const char *what, hx_ccs_overlay **ret)
{
    hx_ccs_overlay *overlay = calloc(1, sizeof *overlay);
    HX_NEED(overlay);
    *overlay = (hx_ccs_overlay){.users = 2, .db = db, .what = what};
    int code = sqlite3_create_module_v2(db, HX_CCS_OVERLAY_MODULE, &methods, overlay, free_module);
    if (code != SQLITE_OK) { /* the module was freed */
        hx_ccs_overlay_unref(overlay);
        return hx_db_error(db, code, what);
    }
    *ret = overlay;
    return NULL;
}
