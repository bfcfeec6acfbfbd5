/* attribute.c - recorded stacks to cost centres: cost-centre stacks, what they cost with what they
 * inherit, the errors of estimates, and sites. */
#include "store/cost/attribute.h"

#include "base/cleanup.h"
#include "base/timing.h"
#include "cost/centres.h"
#include "store/db.h"
#include "store/schema/row.h"
#include "store/schema/schema.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define CHECK_MASK  0x3fff
#define MANY_STACKS 50000u

static hx_error *damaged_attribution(const struct hx_attributing *a)
{
    return hx_error_new(HX_E_CORRUPT, a->what, "take it from a backup or make it again",
                        "the store is damaged (cost-centre stacks)");
}

/* --- the pass ---------------------------------------------------------------------- */

static hx_error *choose_attribution(struct hx_attributing *a)
{
    const struct hx_frames *frames = a->frames;
    if (!a->how.n_patterns)
        return NULL;
    HX_FREE struct hx_centre_name *name = calloc(frames->centres.n + 1, sizeof *name);
    a->selected = calloc(frames->centres.n + 1, sizeof *a->selected);
    HX_NEED(name && a->selected);
    for (hx_centre i = 0; i < frames->centres.n; i++)
        name[i] = (struct hx_centre_name){
            .label = hx_frames_label(frames, i),
            .module = hx_frames_module(frames, i),
            .source = hx_frames_source(frames, i),
            .region = frames->centres.v[i].kind == HX_CENTRE_REGION,
        };
    return hx_centres_choose(name, frames->centres.n, a->how.pattern, a->how.n_patterns,
                             a->selected, &a->idle);
}

#define CLONES 4 /* of one function that call each other */

/* Is the frame a call of the function that made the current stack's top? A clone of it, or a part
 * that the compiler has split off, is no call of itself. */
static bool calls_itself(const struct hx_attributing *a, uint32_t node)
{
    const struct hx_frame *frame = a->frame;
    uint32_t above = frame[node].parent;
    hx_centre centre = frame[node].centre;
    if (!node || frame[node].kind != HX_FRAME_CODE || a->row[node] != a->row[above] ||
        hx_ccs_rows(a->table)[a->row[node]].centre != centre)
        return false;
    if (frame[above].centre != centre)
        return true; /* by way of one that is no cost centre */
    for (int i = 0; i < CLONES && frame[above].centre == centre; i++, above = frame[above].parent)
        if (hx_frames_same_code(a->frames, node, above))
            return true;
    return false;
}

/* The built-in ones first, whether they have frames or not: their numbers are known. */
static hx_error *make_centre_table(struct hx_attributing *a)
{
    HX_TRY(hx_ccs_table_create(HX_CCS_MAIN - 1, a->how.recursion, &a->table));
    for (hx_centre i = 1; i < HX_BUILTINS; i++) {
        hx_ccs_row row;
        HX_TRY(hx_ccs_root(a->table, i, false, &row));
    }
    HX_TRY(hx_ccs_attribute(a->frame, (uint32_t)a->frames->node.n, a->selected, a->table,
                            a->progress, &a->row));
    for (uint32_t node = 0; node < a->frames->node.n; node++)
        if (calls_itself(a, node))
            hx_ccs_mark_recursive(a->table, a->row[node]);
    return NULL;
}

hx_error *hx_attributing_init(sqlite3 *db, const char *what, struct hx_frames *frames,
                              const struct hx_attribution *how, const struct hx_progress *progress,
                              struct hx_attributing *ret)
{
    *ret = (struct hx_attributing){
        .db = db, .what = what, .progress = progress, .how = *how, .frames = frames};
    uint64_t begun = hx_timing_begin();
    HX_TRY(hx_frames_make(frames, &ret->frame));
    HX_TRY(choose_attribution(ret));
    HX_TRY(make_centre_table(ret));
    hx_timing_end(begun, "attribution", frames->node.n);
    return NULL;
}

void hx_attributing_deinit(struct hx_attributing *a)
{
    free(a->frame);
    free(a->selected);
    free(a->row);
    hx_ccs_table_destroy(a->table);
    *a = (struct hx_attributing){0};
}

/* --- stacks ------------------------------------------------------------------------ */

static int64_t centre_id(const struct hx_attributing *a, hx_ccs_row row)
{
    return a->frames->centres.v[hx_ccs_rows(a->table)[row].centre].id;
}

typedef HX_VEC(int64_t) numbers;

/* Is what a row has as `recursive` something else than now? NULL: it was not known. */
static bool is_outdated(sqlite3_stmt *st, int column, const struct hx_ccs_entry *entry)
{
    return sqlite3_column_type(st, column) != SQLITE_INTEGER ||
           sqlite3_column_int64(st, column) != entry->recursive;
}

/* What is there is the beginning of what was made: frames only come behind others. A stack may have
 * been found to be recursive since; these rows go to `outdated`. */
static hx_error *check_stored(const struct hx_attributing *a, uint32_t *ret, numbers *outdated)
{
    HX_STATEMENT sqlite3_stmt *st = NULL;
    HX_TRY(hx_db_prepare(a->db, a->what,
                         "SELECT ccs_id, parent_id, centre, recursive FROM hx_ccs ORDER BY ccs_id",
                         &st));
    uint32_t n = hx_ccs_count(a->table), row = 0;
    int code;
    while ((code = sqlite3_step(st)) == SQLITE_ROW) {
        if (row == n || sqlite3_column_int64(st, 0) != hx_ccs_id_of(row) ||
            (row &&
             sqlite3_column_int64(st, 1) != hx_ccs_id_of(hx_ccs_rows(a->table)[row].parent)) ||
            sqlite3_column_int64(st, 2) != centre_id(a, row))
            return damaged_attribution(a);
        if (is_outdated(st, 3, &hx_ccs_rows(a->table)[row]))
            HX_NEED(hx_vec_push(outdated, row));
        row++;
    }
    *ret = row;
    return code == SQLITE_DONE ? NULL : hx_db_error(a->db, code, a->what);
}

void hx_attributing_identities(const struct hx_attributing *a, uint64_t *ret)
{
    const struct hx_ccs_entry *entry = hx_ccs_rows(a->table);
    for (hx_ccs_row row = 0; row < hx_ccs_count(a->table); row++) {
        uint64_t above = row ? ret[entry[row].parent] : 0;
        ret[row] = hx_frames_mix(above, a->frames->centres.v[entry[row].centre].identity);
    }
}

/* An index that most rows are new in is made behind them: one by one they would go anywhere in it.
 */
static bool is_mostly_new(uint32_t from, uint32_t n)
{
    return n - from > MANY_STACKS && from < n / 2;
}

static hx_error *insert_stacks(const struct hx_attributing *a, uint32_t from)
{
    const struct hx_ccs_entry *entry = hx_ccs_rows(a->table);
    uint32_t n = hx_ccs_count(a->table);
    HX_FREE uint64_t *identity = malloc(n * sizeof *identity);
    HX_CLEANUP(hx_inserter_deinit)
    struct hx_inserter insert = {.db = a->db, .what = a->what};
    HX_NEED(identity);
    hx_attributing_identities(a, identity);
    for (hx_ccs_row row = from; row < n; row++) {
        HX_TRY(hx_insert(&insert, ccs, .ccs_id = hx_int(hx_ccs_id_of(row)),
                         .parent_id = hx_int_if(row, hx_ccs_id_of(entry[row].parent)),
                         .depth = hx_int(entry[row].depth), .centre = hx_int(centre_id(a, row)),
                         .identity = hx_int(identity[row]),
                         .recursive = hx_int(entry[row].recursive)));
        if ((row & CHECK_MASK) == CHECK_MASK && hx_progress_cancelled(a->progress))
            return hx_error_cancelled(a->what);
    }
    return NULL;
}

static hx_error *update_recursive(const struct hx_attributing *a, const numbers *outdated)
{
    HX_STATEMENT sqlite3_stmt *st = NULL;
    HX_TRY(hx_db_prepare(a->db, a->what, "UPDATE hx_ccs SET recursive = ? WHERE ccs_id = ?", &st));
    for (size_t i = 0; i < outdated->n; i++) {
        hx_ccs_row row = (hx_ccs_row)outdated->v[i];
        sqlite3_bind_int64(st, 1, hx_ccs_rows(a->table)[row].recursive);
        sqlite3_bind_int64(st, 2, hx_ccs_id_of(row));
        HX_TRY(hx_db_run(a->db, a->what, st));
    }
    return NULL;
}

static hx_error *look_at_stored(const struct hx_attributing *a, uint32_t *ret)
{
    numbers outdated = {0};
    hx_error *err = check_stored(a, ret, &outdated);
    if (!err && outdated.n)
        err = update_recursive(a, &outdated);
    hx_vec_free(&outdated);
    return err;
}

static hx_error *write_attributed_stacks(const struct hx_attributing *a)
{
    uint32_t from = 0;
    HX_TRY(look_at_stored(a, &from));
    if (!is_mostly_new(from, hx_ccs_count(a->table)))
        return insert_stacks(a, from);
    HX_TRY(hx_schema_drop_index(a->db, a->what, "hx_ccs"));
    HX_TRY(insert_stacks(a, from));
    return hx_schema_make_index(a->db, a->what, "hx_ccs");
}

/* The row of a stack; damage when there is no such frame. */
static hx_error *stack_ccs_row(const struct hx_attributing *a, int64_t stack_id, hx_ccs_row *ret)
{
    size_t node = hx_frames_index(a->frames, stack_id);
    if (node == SIZE_MAX)
        return damaged_attribution(a);
    *ret = a->row[node];
    return NULL;
}

static hx_error *new_stacks(const struct hx_attributing *a, numbers *ret)
{
    HX_STATEMENT sqlite3_stmt *st = NULL;
    HX_TRY(hx_db_prepare(a->db, a->what,
                         "SELECT stack_id FROM hx_stack AS s WHERE NOT EXISTS"
                         " (SELECT 1 FROM hx_attributed AS x WHERE x.stack_id = s.stack_id)",
                         &st));
    int code;
    while ((code = sqlite3_step(st)) == SQLITE_ROW)
        HX_NEED(hx_vec_push(ret, sqlite3_column_int64(st, 0)));
    return code == SQLITE_DONE ? NULL : hx_db_error(a->db, code, a->what);
}

static hx_error *write_attributed(const struct hx_attributing *a, const numbers *stacks)
{
    HX_CLEANUP(hx_inserter_deinit)
    struct hx_inserter insert = {.db = a->db, .what = a->what};
    for (size_t i = 0; i < stacks->n; i++) {
        hx_ccs_row row = HX_CCS_TOP;
        HX_TRY(stack_ccs_row(a, stacks->v[i], &row));
        HX_TRY(hx_insert(&insert, attributed, .stack_id = hx_int(stacks->v[i]),
                         .ccs_id = hx_int(hx_ccs_id_of(row))));
    }
    return NULL;
}

hx_error *hx_attribute_numbers(const struct hx_attributing *a)
{
    numbers stacks = {0};
    hx_error *err = new_stacks(a, &stacks);
    if (!err)
        err = write_attributed(a, &stacks);
    hx_vec_free(&stacks);
    return err;
}

hx_error *hx_attribute_stacks(const struct hx_attributing *a)
{
    uint64_t begun = hx_timing_begin();
    HX_TRY(write_attributed_stacks(a));
    HX_TRY(hx_attribute_numbers(a));
    hx_timing_end(begun, "centre-stacks", hx_ccs_count(a->table));
    return NULL;
}

/* --- costs ------------------------------------------------------------------------- */

/* Counts come from a recorder that may be lied to, and from a file: they stop at the top. */
static void add_capped(uint64_t *sum, uint64_t n)
{
    if (__builtin_add_overflow(*sum, n, sum))
        *sum = UINT64_MAX;
}

static uint64_t column_count(sqlite3_stmt *st, int column)
{
    int64_t n = sqlite3_column_int64(st, column);
    return n > 0 ? (uint64_t)n : 0;
}

static int64_t capped_int64(uint64_t n)
{
    return n > INT64_MAX ? INT64_MAX : (int64_t)n;
}

/* Entries of a region that was not selected are nobody's. */
static void add_entries(const struct hx_attributing *a, size_t node, uint64_t entries,
                        struct hx_own_costs *to)
{
    const struct hx_frame *frame = &a->frame[node];
    if (frame->kind != HX_FRAME_REGION ||
        hx_ccs_rows(a->table)[a->row[node]].centre != frame->centre)
        return;
    to->entered = true;
    add_capped(&to->entries, entries);
}

static hx_error *own_of(struct hx_ccs_costs *costs, hx_ccs_row row, struct hx_own_costs **ret)
{
    uint32_t *own = &costs->row[row].own;
    if (*own == HX_NO_COSTS || *own == HX_NONE_OWN) {
        HX_NEED(hx_vec_push(&costs->own, (struct hx_own_costs){0}));
        *own = (uint32_t)costs->own.n - 1;
    }
    *ret = &costs->own.v[*own];
    return NULL;
}

static hx_error *add_stack_costs(const struct hx_attributing *a, sqlite3_stmt *st,
                                 struct hx_ccs_costs *costs)
{
    size_t node = hx_frames_index(a->frames, sqlite3_column_int64(st, 0));
    struct hx_own_costs *to = NULL;
    if (node == SIZE_MAX)
        return damaged_attribution(a);
    HX_TRY(own_of(costs, a->row[node], &to));
    if (sqlite3_column_type(st, 1) != SQLITE_NULL)
        add_entries(a, node, column_count(st, 1), to);
    to->uncosted |= sqlite3_column_type(st, 2 + HX_ALLOC_BYTES) == SQLITE_NULL;
    to->bytes_lack |= sqlite3_column_type(st, 2 + HX_LIVE_BYTES) == SQLITE_NULL;
    for (int k = 0; k < HX_OWN_COSTS; k++)
        add_capped(&to->figure[k], column_count(st, 2 + k));
    to->alloc_variance += sqlite3_column_double(st, 2 + HX_OWN_COSTS);
    to->live_variance += sqlite3_column_double(st, 3 + HX_OWN_COSTS);
    return NULL;
}

static hx_error *add_stacks(const struct hx_attributing *a, int64_t snapshot,
                            struct hx_ccs_costs *costs)
{
    HX_STATEMENT sqlite3_stmt *st = NULL;
    HX_TRY(hx_db_prepare(a->db, a->what,
                         "SELECT stack_id, entries, alloc_bytes, alloc_objects, freed_bytes,"
                         " freed_objects, live_bytes, live_objects, alloc_variance, live_variance"
                         " FROM hx_stack_cost WHERE snapshot = ?",
                         &st));
    sqlite3_bind_int64(st, 1, snapshot);
    int code;
    while ((code = sqlite3_step(st)) == SQLITE_ROW)
        HX_TRY(add_stack_costs(a, st, costs));
    return code == SQLITE_DONE ? NULL : hx_db_error(a->db, code, a->what);
}

/* Children stand behind their parents. */
static void inherit_ccs_costs(const struct hx_attributing *a, struct hx_ccs_costs *costs)
{
    const struct hx_ccs_entry *entry = hx_ccs_rows(a->table);
    for (hx_ccs_row row = costs->n; row-- > 0;) {
        struct hx_row_costs *at = &costs->row[row], *parent = &costs->row[entry[row].parent];
        if (at->own == HX_NO_COSTS)
            continue;
        const struct hx_own_costs *own = &costs->own.v[at->own];
        add_capped(&at->inherited[HX_INHERITED_ALLOC_BYTES], own->figure[HX_ALLOC_BYTES]);
        add_capped(&at->inherited[HX_INHERITED_ALLOCS], own->figure[HX_ALLOCS]);
        if (!own->bytes_lack)
            add_capped(&at->inherited[HX_INHERITED_LIVE_BYTES], own->figure[HX_LIVE_BYTES]);
        add_capped(&at->inherited[HX_INHERITED_LIVE], own->figure[HX_LIVE]);
        if (!row)
            break;
        if (parent->own == HX_NO_COSTS)
            parent->own = HX_NONE_OWN;
        for (int k = 0; k < HX_INHERITED_COSTS; k++)
            add_capped(&parent->inherited[k], at->inherited[k]);
    }
}

/* One standard error, in whole bytes. */
static int64_t error_of(double variance)
{
    double error = (variance > 0 ? sqrt(variance) : 0) + 0.5; /* 0 also of what is no number */
    return error < 9e18 ? (int64_t)error : INT64_MAX;
}

/* Was something recorded, every allocation of it, and by whom? */
static hx_error *ask_recording(const struct hx_attributing *a, int64_t snapshot,
                               struct hx_ccs_costs *ret)
{
    HX_STATEMENT sqlite3_stmt *st = NULL;
    HX_TRY(hx_db_prepare(a->db, a->what,
                         "SELECT sample_bytes, method IS '" HX_RECORDING_IMPORT
                         "' FROM hx_recording WHERE snapshot = ?",
                         &st));
    sqlite3_bind_int64(st, 1, snapshot);
    int code = sqlite3_step(st);
    ret->recorded = code == SQLITE_ROW;
    ret->sampled = ret->recorded && sqlite3_column_int64(st, 0) != 0;
    ret->imported = ret->recorded && sqlite3_column_int(st, 1) != 0;
    return code == SQLITE_ROW || code == SQLITE_DONE ? NULL : hx_db_error(a->db, code, a->what);
}

hx_error *hx_ccs_costs_make(const struct hx_attributing *a, int64_t snapshot,
                            struct hx_ccs_costs *ret)
{
    uint32_t n = hx_ccs_count(a->table);
    HX_TRY(ask_recording(a, snapshot, ret));
    if (!ret->recorded)
        return NULL;
    ret->row = calloc(n, sizeof *ret->row);
    HX_NEED(ret->row && hx_vec_push(&ret->own, (struct hx_own_costs){0}));
    ret->n = n;
    for (hx_ccs_row row = 0; row < n; row++)
        ret->row[row].own = HX_NO_COSTS;
    ret->row[HX_CCS_TOP].own = HX_NONE_OWN; /* that nothing was allocated is a figure, too */
    HX_TRY(add_stacks(a, snapshot, ret));
    inherit_ccs_costs(a, ret);
    return NULL;
}

void hx_ccs_costs_deinit(struct hx_ccs_costs *costs)
{
    free(costs->row);
    hx_vec_free(&costs->own);
    *costs = (struct hx_ccs_costs){0};
}

bool hx_ccs_costs_value(const struct hx_ccs_costs *costs, hx_ccs_row row, int column, int64_t *ret)
{
    const struct hx_row_costs *at = &costs->row[row];
    const struct hx_own_costs *own = &costs->own.v[at->own];
    if (column == 0) {
        *ret = capped_int64(own->entries);
        return own->entered;
    }
    bool inherited = column > HX_OWN_COSTS;
    int k = column - 1 - (inherited ? HX_OWN_COSTS : 0);
    *ret = capped_int64(inherited ? at->inherited[k] : own->figure[k]);
    if (costs->imported)
        return k == (inherited ? (int)HX_INHERITED_LIVE_BYTES : (int)HX_LIVE_BYTES);
    if (k == (inherited ? (int)HX_INHERITED_LIVE : (int)HX_LIVE) || !own->uncosted)
        return true;
    return k == (inherited ? (int)HX_INHERITED_LIVE_BYTES : (int)HX_LIVE_BYTES) && !own->bytes_lack;
}

void hx_ccs_costs_error(const struct hx_ccs_costs *costs, hx_ccs_row row, int64_t *ret_alloc,
                        int64_t *ret_live)
{
    const struct hx_own_costs *own = &costs->own.v[costs->row[row].own];
    *ret_alloc = error_of(own->alloc_variance);
    *ret_live = error_of(own->live_variance);
}

static hx_error *write_costs(const struct hx_attributing *a, int64_t snapshot,
                             const struct hx_ccs_costs *costs)
{
    HX_STATEMENT sqlite3_stmt *st = NULL;
    HX_TRY(hx_db_prepare(a->db, a->what, "INSERT INTO hx_cost VALUES(?,?,?,?,?,?,?,?,?,?,?,?,?)",
                         &st));
    sqlite3_bind_int64(st, 1, snapshot);
    uint32_t bound = HX_NO_COSTS; /* what is a row's own is mostly nothing, as in the one before */
    for (hx_ccs_row row = 0; row < costs->n; row++) {
        if ((row & CHECK_MASK) == CHECK_MASK && hx_progress_cancelled(a->progress))
            return hx_error_cancelled(a->what);
        if (!hx_ccs_costs_there(costs, row))
            continue;
        sqlite3_bind_int64(st, 2, hx_ccs_id_of(row));
        bool same = costs->row[row].own == bound;
        bound = costs->row[row].own;
        for (int k = same ? HX_COST_COLUMNS - HX_INHERITED_COSTS : 0; k < HX_COST_COLUMNS; k++) {
            int64_t value = 0;
            if (hx_ccs_costs_value(costs, row, k, &value))
                sqlite3_bind_int64(st, 3 + k, value);
            else
                sqlite3_bind_null(st, 3 + k);
        }
        HX_TRY(hx_db_run(a->db, a->what, st));
    }
    return NULL;
}

static hx_error *write_estimates(const struct hx_attributing *a, int64_t snapshot,
                                 const struct hx_ccs_costs *costs)
{
    HX_CLEANUP(hx_inserter_deinit)
    struct hx_inserter insert = {.db = a->db, .what = a->what};
    for (hx_ccs_row row = 0; row < costs->n; row++) {
        int64_t alloc, live;
        if (!hx_ccs_costs_there(costs, row))
            continue;
        hx_ccs_costs_error(costs, row, &alloc, &live);
        HX_TRY(hx_insert(&insert, estimate, .snapshot = hx_int(snapshot),
                         .ccs_id = hx_int(hx_ccs_id_of(row)), .alloc_error_bytes = hx_int(alloc),
                         .live_error_bytes = hx_int(live)));
    }
    return NULL;
}

static hx_error *write_all_costs(const struct hx_attributing *a, int64_t snapshot,
                                 const struct hx_ccs_costs *costs)
{
    if (!costs->recorded)
        return NULL;
    HX_TRY(write_costs(a, snapshot, costs));
    return costs->sampled ? write_estimates(a, snapshot, costs) : NULL;
}

hx_error *hx_attribute_costs(const struct hx_attributing *a, int64_t snapshot)
{
    struct hx_ccs_costs costs = {0};
    hx_error *err = hx_ccs_costs_make(a, snapshot, &costs);
    if (!err)
        err = write_all_costs(a, snapshot, &costs);
    hx_ccs_costs_deinit(&costs);
    return err;
}

/* --- sites ------------------------------------------------------------------------- */

struct row_site {
    uint64_t bytes, objects;
    bool uncounted; /* how many objects it has is not known */
};

static hx_error *add_sites(const struct hx_attributing *a, int64_t snapshot, struct row_site *sites)
{
    HX_STATEMENT sqlite3_stmt *st = NULL;
    HX_TRY(hx_db_prepare(a->db, a->what,
                         "SELECT stack_id, bytes, objects FROM hx_stack_site WHERE snapshot = ?",
                         &st));
    sqlite3_bind_int64(st, 1, snapshot);
    int code;
    while ((code = sqlite3_step(st)) == SQLITE_ROW) {
        hx_ccs_row row = HX_CCS_TOP;
        HX_TRY(stack_ccs_row(a, sqlite3_column_int64(st, 0), &row));
        add_capped(&sites[row].bytes, column_count(st, 1));
        add_capped(&sites[row].objects, column_count(st, 2));
        sites[row].uncounted |= sqlite3_column_type(st, 2) == SQLITE_NULL;
    }
    return code == SQLITE_DONE ? NULL : hx_db_error(a->db, code, a->what);
}

static hx_error *write_sites(const struct hx_attributing *a, int64_t snapshot,
                             const struct row_site *sites)
{
    HX_CLEANUP(hx_inserter_deinit)
    struct hx_inserter insert = {.db = a->db, .what = a->what};
    for (hx_ccs_row row = 0; row < hx_ccs_count(a->table); row++) {
        if (!sites[row].objects && !sites[row].uncounted)
            continue;
        HX_TRY(hx_insert(&insert, site, .snapshot = hx_int(snapshot),
                         .ccs_id = hx_int(hx_ccs_id_of(row)), .bytes = hx_count(sites[row].bytes),
                         .objects = sites[row].uncounted ? HX_NULL : hx_count(sites[row].objects)));
    }
    return NULL;
}

hx_error *hx_attribute_sites(const struct hx_attributing *a, int64_t snapshot)
{
    HX_FREE struct row_site *sites = calloc(hx_ccs_count(a->table), sizeof *sites);
    HX_NEED(sites);
    HX_TRY(add_sites(a, snapshot, sites));
    return write_sites(a, snapshot, sites);
}
