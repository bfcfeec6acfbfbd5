/* attribute.c - recorded stacks to cost centres: cost-centre stacks, what they cost with what they
 * inherit, the errors of estimates, and sites. */
#include "store/attribute.h"

#include "base/cleanup.h"
#include "base/timing.h"
#include "store/db.h"
#include "traverse/centres.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define CHECK_MASK 0x3fff

static hx_error *damaged(const struct hx_attributing *a)
{
    return hx_error_new(HX_E_CORRUPT, a->what, "take it from a backup or make it again",
                        "the store is damaged (cost-centre stacks)");
}

/* --- the pass ---------------------------------------------------------------------- */

static hx_error *choose(struct hx_attributing *a)
{
    const struct hx_frames *frames = a->frames;
    if (!a->how.n_patterns)
        return NULL;
    HX_FREE struct hx_centre_name *name = calloc(frames->centres.n + 1, sizeof *name);
    a->selected = calloc(frames->centres.n + 1, sizeof *a->selected);
    if (!name || !a->selected)
        return hx_error_nomem();
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

/* The built-in ones first, whether they have frames or not: their numbers are known. */
static hx_error *make_table(struct hx_attributing *a)
{
    HX_TRY(hx_ccs_table_create(HX_CCS_MAIN - 1, a->how.recursion, &a->table));
    for (hx_centre i = 1; i < HX_BUILTINS; i++) {
        hx_ccs_row row;
        HX_TRY(hx_ccs_root(a->table, i, false, &row));
    }
    return hx_ccs_attribute(a->frame, (uint32_t)a->frames->node.n, a->selected, a->table,
                            a->progress, &a->row);
}

hx_error *hx_attributing_init(sqlite3 *db, const char *what, struct hx_frames *frames,
                              const struct hx_attribution *how, const struct hx_progress *progress,
                              struct hx_attributing *ret)
{
    *ret = (struct hx_attributing){
        .db = db, .what = what, .progress = progress, .how = *how, .frames = frames};
    uint64_t begun = hx_timing_begin();
    HX_TRY(hx_frames_make(frames, &ret->frame));
    HX_TRY(choose(ret));
    HX_TRY(make_table(ret));
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

/* What is there is the beginning of what was made: frames only come behind others. */
static hx_error *check_stored(const struct hx_attributing *a, uint32_t *ret)
{
    HX_STATEMENT sqlite3_stmt *st = NULL;
    HX_TRY(hx_db_prepare(a->db, a->what,
                         "SELECT ccs_id, parent_id, centre FROM hx_ccs ORDER BY ccs_id", &st));
    uint32_t n = hx_ccs_count(a->table), row = 0;
    int code;
    while ((code = sqlite3_step(st)) == SQLITE_ROW) {
        if (row == n || sqlite3_column_int64(st, 0) != hx_ccs_id_of(row) ||
            (row &&
             sqlite3_column_int64(st, 1) != hx_ccs_id_of(hx_ccs_rows(a->table)[row].parent)) ||
            sqlite3_column_int64(st, 2) != centre_id(a, row))
            return damaged(a);
        row++;
    }
    *ret = row;
    return code == SQLITE_DONE ? NULL : hx_db_error(a->db, code, a->what);
}

static hx_error *write_stacks(const struct hx_attributing *a)
{
    const struct hx_ccs_entry *entry = hx_ccs_rows(a->table);
    uint32_t n = hx_ccs_count(a->table), from = 0;
    HX_TRY(check_stored(a, &from));
    HX_FREE uint64_t *identity = malloc(n * sizeof *identity);
    HX_STATEMENT sqlite3_stmt *st = NULL;
    if (!identity)
        return hx_error_nomem();
    HX_TRY(hx_db_prepare(a->db, a->what, "INSERT INTO hx_ccs VALUES(?,?,?,?,?)", &st));
    for (hx_ccs_row row = 0; row < n; row++) {
        uint64_t above = row ? identity[entry[row].parent] : 0;
        uint64_t own = a->frames->centres.v[entry[row].centre].identity;
        identity[row] = hx_frames_mix(above, own);
        if (row < from)
            continue;
        sqlite3_bind_int64(st, 1, hx_ccs_id_of(row));
        if (row)
            sqlite3_bind_int64(st, 2, hx_ccs_id_of(entry[row].parent));
        sqlite3_bind_int64(st, 3, entry[row].depth);
        sqlite3_bind_int64(st, 4, centre_id(a, row));
        sqlite3_bind_int64(st, 5, (int64_t)identity[row]);
        HX_TRY(hx_db_run(a->db, a->what, st));
        if ((row & CHECK_MASK) == CHECK_MASK && hx_progress_cancelled(a->progress))
            return hx_error_cancelled(a->what);
    }
    return NULL;
}

/* The row of a stack; damage when there is no such frame. */
static hx_error *row_of(const struct hx_attributing *a, int64_t stack_id, hx_ccs_row *ret)
{
    size_t node = hx_frames_index(a->frames, stack_id);
    if (node == SIZE_MAX)
        return damaged(a);
    *ret = a->row[node];
    return NULL;
}

typedef HX_VEC(int64_t) numbers;

static hx_error *new_stacks(const struct hx_attributing *a, numbers *ret)
{
    HX_STATEMENT sqlite3_stmt *st = NULL;
    HX_TRY(hx_db_prepare(a->db, a->what,
                         "SELECT stack_id FROM hx_stack AS s WHERE NOT EXISTS"
                         " (SELECT 1 FROM hx_attributed AS x WHERE x.stack_id = s.stack_id)",
                         &st));
    int code;
    while ((code = sqlite3_step(st)) == SQLITE_ROW)
        if (!hx_vec_push(ret, sqlite3_column_int64(st, 0)))
            return hx_error_nomem();
    return code == SQLITE_DONE ? NULL : hx_db_error(a->db, code, a->what);
}

static hx_error *write_attributed(const struct hx_attributing *a, const numbers *stacks)
{
    HX_STATEMENT sqlite3_stmt *st = NULL;
    HX_TRY(hx_db_prepare(a->db, a->what, "INSERT INTO hx_attributed VALUES(?,?)", &st));
    for (size_t i = 0; i < stacks->n; i++) {
        hx_ccs_row row = HX_CCS_TOP;
        HX_TRY(row_of(a, stacks->v[i], &row));
        sqlite3_bind_int64(st, 1, stacks->v[i]);
        sqlite3_bind_int64(st, 2, hx_ccs_id_of(row));
        HX_TRY(hx_db_run(a->db, a->what, st));
    }
    return NULL;
}

hx_error *hx_attribute_stacks(const struct hx_attributing *a)
{
    numbers stacks = {0};
    uint64_t begun = hx_timing_begin();
    hx_error *err = write_stacks(a);
    if (!err)
        err = new_stacks(a, &stacks);
    if (!err)
        err = write_attributed(a, &stacks);
    hx_timing_end(begun, "centre-stacks", hx_ccs_count(a->table));
    hx_vec_free(&stacks);
    return err;
}

/* --- costs ------------------------------------------------------------------------- */

enum { ALLOC_BYTES, ALLOCS, FREED_BYTES, FREES, LIVE_BYTES, LIVE, OWN };
enum { INHERITED_ALLOC_BYTES, INHERITED_ALLOCS, INHERITED_LIVE_BYTES, INHERITED_LIVE, INHERITED };

/* Figures of one stack. */
struct row_costs {
    bool there;      /* it, or one below it, has figures */
    bool uncosted;   /* its allocations were not seen: only what is live is known */
    bool bytes_lack; /* not even all of their requested bytes */
    bool entered;    /* its entries were counted */
    uint64_t entries, own[OWN], inherited[INHERITED];
    double alloc_variance, live_variance;
};

/* Counts come from a recorder that may be lied to, and from a file: they stop at the top. */
static void add(uint64_t *sum, uint64_t n)
{
    if (__builtin_add_overflow(*sum, n, sum))
        *sum = UINT64_MAX;
}

static uint64_t count_of(sqlite3_stmt *st, int column)
{
    int64_t n = sqlite3_column_int64(st, column);
    return n > 0 ? (uint64_t)n : 0;
}

static void bind_count(sqlite3_stmt *st, int i, uint64_t n)
{
    sqlite3_bind_int64(st, i, n > INT64_MAX ? INT64_MAX : (int64_t)n);
}

/* Entries of a region that was not selected are nobody's. */
static void add_entries(const struct hx_attributing *a, size_t node, uint64_t entries,
                        struct row_costs *to)
{
    const struct hx_frame *frame = &a->frame[node];
    if (frame->kind != HX_FRAME_REGION ||
        hx_ccs_rows(a->table)[a->row[node]].centre != frame->centre)
        return;
    to->entered = true;
    add(&to->entries, entries);
}

static hx_error *add_stack(const struct hx_attributing *a, sqlite3_stmt *st,
                           struct row_costs *costs)
{
    size_t node = hx_frames_index(a->frames, sqlite3_column_int64(st, 0));
    if (node == SIZE_MAX)
        return damaged(a);
    struct row_costs *to = &costs[a->row[node]];
    to->there = true;
    if (sqlite3_column_type(st, 1) != SQLITE_NULL)
        add_entries(a, node, count_of(st, 1), to);
    to->uncosted |= sqlite3_column_type(st, 2 + ALLOC_BYTES) == SQLITE_NULL;
    to->bytes_lack |= sqlite3_column_type(st, 2 + LIVE_BYTES) == SQLITE_NULL;
    for (int k = 0; k < OWN; k++)
        add(&to->own[k], count_of(st, 2 + k));
    to->alloc_variance += sqlite3_column_double(st, 2 + OWN);
    to->live_variance += sqlite3_column_double(st, 3 + OWN);
    return NULL;
}

static hx_error *add_stacks(const struct hx_attributing *a, int64_t snapshot,
                            struct row_costs *costs)
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
        HX_TRY(add_stack(a, st, costs));
    return code == SQLITE_DONE ? NULL : hx_db_error(a->db, code, a->what);
}

/* Children stand behind their parents. */
static void inherit(const struct hx_attributing *a, struct row_costs *costs)
{
    const struct hx_ccs_entry *entry = hx_ccs_rows(a->table);
    for (hx_ccs_row row = hx_ccs_count(a->table); row-- > 0;) {
        struct row_costs *at = &costs[row], *parent = &costs[entry[row].parent];
        if (!at->there)
            continue;
        add(&at->inherited[INHERITED_ALLOC_BYTES], at->own[ALLOC_BYTES]);
        add(&at->inherited[INHERITED_ALLOCS], at->own[ALLOCS]);
        if (!at->bytes_lack)
            add(&at->inherited[INHERITED_LIVE_BYTES], at->own[LIVE_BYTES]);
        add(&at->inherited[INHERITED_LIVE], at->own[LIVE]);
        if (!row)
            break;
        parent->there = true;
        for (int k = 0; k < INHERITED; k++)
            add(&parent->inherited[k], at->inherited[k]);
    }
}

static hx_error *write_row(const struct hx_attributing *a, sqlite3_stmt *st, int64_t snapshot,
                           hx_ccs_row row, const struct row_costs *costs)
{
    sqlite3_clear_bindings(st);
    sqlite3_bind_int64(st, 1, snapshot);
    sqlite3_bind_int64(st, 2, hx_ccs_id_of(row));
    if (costs->entered)
        bind_count(st, 3, costs->entries);
    for (int k = 0; k < OWN; k++)
        if (k == LIVE || !(costs->uncosted && (k != LIVE_BYTES || costs->bytes_lack)))
            bind_count(st, 4 + k, costs->own[k]);
    for (int k = 0; k < INHERITED; k++)
        if (k == INHERITED_LIVE ||
            !(costs->uncosted && (k != INHERITED_LIVE_BYTES || costs->bytes_lack)))
            bind_count(st, 4 + OWN + k, costs->inherited[k]);
    return hx_db_run(a->db, a->what, st);
}

static hx_error *write_costs(const struct hx_attributing *a, int64_t snapshot,
                             const struct row_costs *costs)
{
    HX_STATEMENT sqlite3_stmt *st = NULL;
    HX_TRY(hx_db_prepare(a->db, a->what, "INSERT INTO hx_cost VALUES(?,?,?,?,?,?,?,?,?,?,?,?,?)",
                         &st));
    for (hx_ccs_row row = 0; row < hx_ccs_count(a->table); row++) {
        if ((row & CHECK_MASK) == CHECK_MASK && hx_progress_cancelled(a->progress))
            return hx_error_cancelled(a->what);
        if (costs[row].there)
            HX_TRY(write_row(a, st, snapshot, row, &costs[row]));
    }
    return NULL;
}

/* One standard error, in whole bytes. */
static uint64_t error_of(double variance)
{
    double error = (variance > 0 ? sqrt(variance) : 0) + 0.5; /* 0 also of what is no number */
    return error < 9e18 ? (uint64_t)error : INT64_MAX;
}

static hx_error *write_estimates(const struct hx_attributing *a, int64_t snapshot,
                                 const struct row_costs *costs)
{
    HX_STATEMENT sqlite3_stmt *st = NULL;
    HX_TRY(hx_db_prepare(a->db, a->what, "INSERT INTO hx_estimate VALUES(?,?,?,?)", &st));
    for (hx_ccs_row row = 0; row < hx_ccs_count(a->table); row++) {
        if (!costs[row].there)
            continue;
        sqlite3_bind_int64(st, 1, snapshot);
        sqlite3_bind_int64(st, 2, hx_ccs_id_of(row));
        bind_count(st, 3, error_of(costs[row].alloc_variance));
        bind_count(st, 4, error_of(costs[row].live_variance));
        HX_TRY(hx_db_run(a->db, a->what, st));
    }
    return NULL;
}

/* Was something recorded, and every allocation of it? */
static hx_error *ask_recording(const struct hx_attributing *a, int64_t snapshot, bool *ret_there,
                               bool *ret_sampled)
{
    HX_STATEMENT sqlite3_stmt *st = NULL;
    HX_TRY(hx_db_prepare(a->db, a->what, "SELECT sample_bytes FROM hx_recording WHERE snapshot = ?",
                         &st));
    sqlite3_bind_int64(st, 1, snapshot);
    int code = sqlite3_step(st);
    *ret_there = code == SQLITE_ROW;
    *ret_sampled = *ret_there && sqlite3_column_int64(st, 0) != 0;
    return code == SQLITE_ROW || code == SQLITE_DONE ? NULL : hx_db_error(a->db, code, a->what);
}

/* --- sites ------------------------------------------------------------------------- */

struct row_site {
    uint64_t bytes, objects;
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
        HX_TRY(row_of(a, sqlite3_column_int64(st, 0), &row));
        add(&sites[row].bytes, count_of(st, 1));
        add(&sites[row].objects, count_of(st, 2));
    }
    return code == SQLITE_DONE ? NULL : hx_db_error(a->db, code, a->what);
}

static hx_error *write_sites(const struct hx_attributing *a, int64_t snapshot,
                             const struct row_site *sites)
{
    HX_STATEMENT sqlite3_stmt *st = NULL;
    HX_TRY(hx_db_prepare(a->db, a->what, "INSERT INTO hx_site VALUES(?,?,?,?,NULL,NULL)", &st));
    for (hx_ccs_row row = 0; row < hx_ccs_count(a->table); row++) {
        if (!sites[row].objects)
            continue;
        sqlite3_bind_int64(st, 1, snapshot);
        sqlite3_bind_int64(st, 2, hx_ccs_id_of(row));
        bind_count(st, 3, sites[row].bytes);
        bind_count(st, 4, sites[row].objects);
        HX_TRY(hx_db_run(a->db, a->what, st));
    }
    return NULL;
}

hx_error *hx_attribute_snapshot(const struct hx_attributing *a, int64_t snapshot)
{
    size_t n = hx_ccs_count(a->table);
    HX_FREE struct row_costs *costs = calloc(n, sizeof *costs);
    HX_FREE struct row_site *sites = calloc(n, sizeof *sites);
    bool there, sampled;
    if (!costs || !sites)
        return hx_error_nomem();
    HX_TRY(ask_recording(a, snapshot, &there, &sampled));
    if (!there)
        return NULL;
    HX_TRY(add_stacks(a, snapshot, costs));
    costs[HX_CCS_TOP].there = true; /* that nothing was allocated is a figure, too */
    inherit(a, costs);
    HX_TRY(write_costs(a, snapshot, costs));
    if (sampled)
        HX_TRY(write_estimates(a, snapshot, costs));
    HX_TRY(add_sites(a, snapshot, sites));
    return write_sites(a, snapshot, sites);
}
