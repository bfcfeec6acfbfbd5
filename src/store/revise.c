/* revise.c - parts of the analysis of a stored snapshot, computed anew.
 *
 * In a store that is open for appending they replace the old ones. Else they go into temporary
 * tables over the file's own (hx_schema_overlay()), which end with the connection. */
#include "store/write/analyse.h"

#include "base/cleanup.h"
#include "store/db.h"
#include "store/store_private.h"
#include "store/write/write_recording.h"
#include "traverse/hold/rounds.h"
#include "traverse/retain/visits.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* --- root edges -------------------------------------------------------------------- */

typedef HX_VEC(int64_t) numbers;

static hx_error *find_root_edges(struct hx_writer *w, numbers *ret)
{
    HX_STATEMENT sqlite3_stmt *st = NULL;
    HX_TRY(hx_db_prepare(w->db, w->what,
                         "SELECT id FROM hx_block WHERE snapshot = ? AND family = ?", &st));
    sqlite3_bind_int64(st, 1, w->id);
    sqlite3_bind_int(st, 2, HX_FAMILY_ROOT_EDGE);
    int code;
    while ((code = sqlite3_step(st)) == SQLITE_ROW) {
        int64_t id = sqlite3_column_int64(st, 0);
        if (hx_block_id_is_sane(id))
            HX_NEED(hx_vec_push(ret, id));
    }
    return code == SQLITE_DONE ? NULL : hx_db_error(w->db, code, w->what);
}

/* Of the tables that are written to: what lies below an overlay stays. */
static hx_error *forget_blocks(struct hx_writer *w, const numbers *blocks)
{
    HX_STATEMENT sqlite3_stmt *columns = NULL, *block = NULL;
    HX_TRY(
        hx_db_prepare(w->db, w->what, "DELETE FROM hx_column WHERE id BETWEEN ? AND ?", &columns));
    HX_TRY(hx_db_prepare(w->db, w->what, "DELETE FROM hx_block WHERE id = ?", &block));
    for (size_t i = 0; i < blocks->n; i++) {
        sqlite3_bind_int64(columns, 1, blocks->v[i] * HX_COLUMN_SLOTS);
        sqlite3_bind_int64(columns, 2, blocks->v[i] * HX_COLUMN_SLOTS + HX_COLUMN_SLOTS - 1);
        HX_TRY(hx_db_run(w->db, w->what, columns));
        sqlite3_bind_int64(block, 1, blocks->v[i]);
        HX_TRY(hx_db_run(w->db, w->what, block));
    }
    return NULL;
}

static hx_error *replace_root_edges(struct hx_writer *w)
{
    numbers blocks = {0};
    hx_error *err = find_root_edges(w, &blocks);
    if (!err)
        err = forget_blocks(w, &blocks);
    hx_vec_free(&blocks);
    HX_TRY(err);
    HX_TRY(hx_writer_root_edges(w));
    return w->overlay && !w->snapshot->root_edges.n ? hx_writer_no_root_edges(w) : NULL;
}

/* --- named roots ------------------------------------------------------------------- */

/* The other roots are those that were stored: the named ones behind them are all that changes. */
static hx_error *check_roots(struct hx_writer *w)
{
    HX_STATEMENT sqlite3_stmt *st = NULL;
    HX_TRY(hx_db_prepare(w->db, w->what,
                         "SELECT count(*), coalesce(max(root_id), -1) FROM hx_root"
                         " WHERE snapshot = ? AND kind <> ?",
                         &st));
    sqlite3_bind_int64(st, 1, w->id);
    sqlite3_bind_int(st, 2, HX_ROOT_NAMED);
    int code = sqlite3_step(st);
    if (code != SQLITE_ROW)
        return hx_db_error(w->db, code, w->what);
    int64_t stored = sqlite3_column_int64(st, 0), last = sqlite3_column_int64(st, 1), roots = 0;
    for (size_t i = 0; i < w->snapshot->roots.n; i++)
        roots += w->snapshot->roots.v[i].kind != HX_ROOT_NAMED;
    if (stored == roots && last == roots - 1)
        return NULL;
    return hx_error_new(HX_E_FAIL, w->what, NULL, "snapshot %lld has other roots than those given",
                        (long long)w->id);
}

static hx_error *replace_named(struct hx_writer *w)
{
    HX_TRY(check_roots(w));
    HX_TRY(hx_analyse_forget(w, "DELETE FROM hx_named WHERE snapshot = ?"));
    HX_TRY(hx_analyse_forget(w, "DELETE FROM hx_root WHERE snapshot = ? AND kind_name = 'named'"));
    HX_TRY(hx_writer_roots(w, true));
    HX_TRY(hx_writer_named(w));
    return replace_root_edges(w);
}

/* --- the transaction --------------------------------------------------------------- */

/* What an earlier analysis noted of other parts stays. */
static hx_error *revise_row(struct hx_writer *w)
{
    HX_STATEMENT sqlite3_stmt *st = NULL, *old = NULL;
    HX_CLEANUP(hx_text_free) struct hx_text notes = {0};
    HX_TRY(hx_db_prepare(w->db, w->what, "SELECT notes FROM hx_snapshot WHERE snapshot = ?", &old));
    sqlite3_bind_int64(old, 1, w->id);
    int code = sqlite3_step(old);
    if (code != SQLITE_ROW)
        return hx_db_error(w->db, code, w->what);
    HX_TRY(hx_db_prepare(w->db, w->what,
                         "UPDATE hx_snapshot SET scheme = coalesce(?1, scheme),"
                         " parts = parts | ?2, notes = ?3, stray_edges = coalesce(?5, stray_edges),"
                         " doubt_bytes = iif(?7, ?6, doubt_bytes) WHERE snapshot = ?4",
                         &st));
    hx_bind_name(st, 1, hx_str(w->scheme));
    sqlite3_bind_int64(st, 2, w->parts);
    HX_TRY(hx_writer_notes(w, (const char *)sqlite3_column_text(old, 0), &notes));
    if (notes.n)
        sqlite3_bind_text(st, 3, notes.s, (int)notes.n, SQLITE_STATIC);
    sqlite3_reset(old);
    sqlite3_bind_int64(st, 4, w->id);
    if (w->stray_edges.known)
        sqlite3_bind_int64(st, 5, w->stray_edges.value);
    if (w->doubt_bytes.known)
        sqlite3_bind_int64(st, 6, w->doubt_bytes.value);
    sqlite3_bind_int(st, 7, (w->parts & HX_ANALYSE_RETAINERS) != 0);
    return hx_db_run(w->db, w->what, st);
}

/* What an attribution has laid over a store that is revised in place is no place for the pages of
 * other censuses. */
static hx_error *keep_pages(struct hx_writer *w)
{
    HX_TRY(hx_analyse_forget(w, "DELETE FROM main.hx_page WHERE snapshot = ?"
                                " AND census <> 'site'"));
    return hx_analyse_forget(w, "INSERT INTO main.hx_page SELECT * FROM temp.hx_page"
                                " WHERE snapshot = ? AND census <> 'site'");
}

static hx_error *revise_all(struct hx_writer *w, const struct hx_analysis *analysis, unsigned parts,
                            bool attributed)
{
    for (hx_obj i = 0; i < w->graph->n; i++)
        w->heap_bytes += w->graph->size[i];
    HX_TRY(hx_writer_prepare(w));
    if (parts & HX_ANALYSE_BINS)
        HX_TRY(replace_named(w));
    HX_TRY(hx_analyse(w, analysis, parts));
    if (!w->overlay && attributed)
        HX_TRY(keep_pages(w));
    return revise_row(w);
}

hx_error *hx_store_revise(hx_store *store, int64_t number, struct hx_snapshot *snapshot,
                          const struct hx_analysis *analysis, unsigned parts,
                          const struct hx_progress *progress)
{
    unsigned before;
    HX_TRY(hx_store_parts(store, number, &before)); /* is there such a snapshot? */
    if (parts & HX_ANALYSE_RETAINED) /* what is read off the dominators has to agree with them */
        parts |= before & (HX_ANALYSE_SURE | HX_ANALYSE_TYPES);
    if (snapshot->no_heap)
        return NULL;
    if (!hx_can_analyse(snapshot))
        return hx_error_new(HX_E_ABSENT, store->path, "take a new one",
                            "snapshot %lld has no states to analyse", (long long)number);
    bool overlay = !store->writer || store->overlaid || analysis->shown_only;
    if (overlay)
        HX_TRY(hx_schema_overlay(store->db, store->path, HX_OVERLAID));
    store->overlaid |= overlay;
    struct hx_writer w = {
        .db = store->db,
        .what = store->path,
        .snapshot = snapshot,
        .graph = &snapshot->graph,
        .progress = progress,
        .threads = analysis->threads,
        .id = number,
        .rows_total = snapshot->root_edges.n,
        .apart = parts & before ? NULL : analysis->apart,
        .overlay = overlay,
    };
    HX_TRY(hx_db_exec(store->db, store->path, overlay ? "BEGIN" : "BEGIN IMMEDIATE"));
    hx_error *err = revise_all(&w, analysis, parts, store->attributed);
    hx_writer_deinit(&w);
    err = hx_store_end(store, err);
    hx_blocks_forget(store->blocks, number);
    return err;
}

/* --- names and types that came later --------------------------------------------- */

static void gather_types(const void *context, uint64_t from, uint64_t to, uint64_t *value)
{
    for (uint64_t i = from; i < to; i++)
        *value++ = hx_writer_type(context, i);
}

static void gather_sources(const void *context, uint64_t from, uint64_t to, uint64_t *value)
{
    const struct hx_writer *w = context;
    for (uint64_t i = from; i < to; i++)
        *value++ = w->graph->typed[i];
}

static hx_error *replace_types(struct hx_writer *w)
{
    HX_TRY(hx_analyse_forget(w, "DELETE FROM hx_layout WHERE snapshot = ?"));
    HX_TRY(hx_analyse_forget(w, "DELETE FROM hx_field WHERE snapshot = ?"));
    HX_TRY(hx_writer_layouts(w));
    if (!w->graph->type || !w->graph->typed)
        return NULL;
    HX_TRY(hx_analyse_types(w));
    HX_TRY(hx_analyse_column(w, HX_COL_TYPE, gather_types, w));
    return hx_analyse_column(w, HX_COL_TYPED, gather_sources, w);
}

/* Edges stay as they are, but for what is thought of them. */
static hx_error *replace_evidence(struct hx_writer *w)
{
    HX_STATEMENT sqlite3_stmt *st = NULL;
    if (!w->graph->evidence)
        return NULL;
    HX_TRY(hx_db_prepare(w->db, w->what,
                         "SELECT id, first_row, n FROM hx_block WHERE snapshot = ? AND family = ?"
                         " ORDER BY first_row",
                         &st));
    sqlite3_bind_int64(st, 1, w->id);
    sqlite3_bind_int(st, 2, HX_FAMILY_EDGE);
    int code;
    while ((code = sqlite3_step(st)) == SQLITE_ROW) {
        const int64_t id = sqlite3_column_int64(st, 0);
        const uint64_t from = (uint64_t)sqlite3_column_int64(st, 1),
                       n = (uint64_t)sqlite3_column_int64(st, 2);
        if (!hx_block_id_is_sane(id) || n > HX_BLOCK_ROWS || from > w->graph->n_edges ||
            n > w->graph->n_edges - from)
            return hx_error_new(HX_E_CORRUPT, w->what, "take it from a backup or make it again",
                                "the store is damaged (blocks of references)");
        for (uint64_t i = 0; i < n; i++)
            w->value[i] = HX_EVIDENCE_RULE(w->graph->evidence[from + i]);
        HX_TRY(hx_writer_put(w, id, HX_COL_EVIDENCE, n));
    }
    return code == SQLITE_DONE ? NULL : hx_db_error(w->db, code, w->what);
}

/* What was lost on the way to the names; a loaded snapshot has no losses of before. */
static hx_error *replace_losses(struct hx_writer *w)
{
    HX_STATEMENT sqlite3_stmt *st = NULL;
    HX_TRY(
        hx_db_prepare(w->db, w->what, "DELETE FROM hx_loss WHERE snapshot = ? AND what = ?", &st));
    for (size_t i = 0; i < w->snapshot->losses.n; i++) {
        sqlite3_bind_int64(st, 1, w->id);
        sqlite3_bind_text(st, 2, w->snapshot->losses.v[i].what, -1, SQLITE_STATIC);
        HX_TRY(hx_db_run(w->db, w->what, st));
    }
    return hx_writer_losses(w);
}

/* The stacks of threads with more names are others in the tree. */
static hx_error *replace_stacks(struct hx_writer *w)
{
    struct hx_snapshot *snapshot = w->snapshot;
    if (!snapshot->backtraces)
        return NULL;
    HX_TRY(hx_analyse_forget(w, "DELETE FROM hx_thread WHERE snapshot = ?"));
    hx_error *err = hx_writer_recorded(w);
    w->snapshot = snapshot; /* its sites are stored already */
    w->graph = &snapshot->graph;
    return err;
}

static hx_error *rename_all(struct hx_writer *w)
{
    static const char *const old[] = {
        "DELETE FROM hx_root WHERE snapshot = ?", "DELETE FROM hx_named WHERE snapshot = ?",
        "DELETE FROM hx_bare WHERE snapshot = ?", "DELETE FROM hx_leak WHERE snapshot = ?"};
    HX_STATEMENT sqlite3_stmt *st = NULL;
    HX_CLEANUP(hx_text_free) struct hx_text notes = {0};
    for (hx_obj i = 0; i < w->graph->n; i++)
        w->heap_bytes += w->graph->size[i];
    HX_TRY(hx_writer_prepare(w));
    HX_TRY(hx_analyse_prepare(w));
    for (size_t i = 0; i < sizeof old / sizeof *old; i++)
        HX_TRY(hx_analyse_forget(w, old[i]));
    HX_TRY(hx_writer_roots(w, false));
    HX_TRY(hx_writer_named(w));
    HX_TRY(hx_writer_bare(w));
    HX_TRY(replace_root_edges(w));
    HX_TRY(replace_types(w));
    HX_TRY(replace_evidence(w));
    HX_TRY(hx_writer_leaks(w));
    HX_TRY(replace_losses(w));
    HX_TRY(replace_stacks(w));
    HX_TRY(hx_writer_notes(w, NULL, &notes));
    HX_TRY(hx_db_prepare(w->db, w->what,
                         "UPDATE hx_snapshot SET parts = 0, typed_bytes = ?2, notes = ?3"
                         " WHERE snapshot = ?1",
                         &st));
    const struct hx_int typed = hx_writer_typed_bytes(w);
    sqlite3_bind_int64(st, 1, w->id);
    if (typed.known)
        sqlite3_bind_int64(st, 2, typed.value);
    if (notes.n)
        sqlite3_bind_text(st, 3, notes.s, (int)notes.n, SQLITE_STATIC);
    return hx_db_run(w->db, w->what, st);
}

hx_error *hx_store_rename(hx_store *store, int64_t number, struct hx_snapshot *snapshot,
                          const struct hx_progress *progress)
{
    struct hx_writer w = {
        .db = store->db,
        .what = store->path,
        .snapshot = snapshot,
        .graph = &snapshot->graph,
        .progress = progress,
        .id = number,
        .rows_total = snapshot->root_edges.n,
    };
    HX_TRY(hx_db_exec(store->db, store->path, "BEGIN IMMEDIATE"));
    hx_error *err = rename_all(&w);
    hx_writer_deinit(&w);
    err = hx_store_end(store, err);
    hx_blocks_forget(store->blocks, number);
    return err;
}

static hx_error *count_visits(hx_store *store, int64_t number, const struct hx_snapshot *snapshot,
                              const struct hx_scheme_rule *rule, hx_sets *sets,
                              const struct hx_progress *progress)
{
    struct hx_visits visits;
    HX_TRY(hx_visits(snapshot, &rule->rule, sets, progress, &visits));
    HX_STATEMENT sqlite3_stmt *st = NULL;
    hx_error *err =
        hx_db_prepare(store->db, store->path,
                      "UPDATE hx_census SET visits_per_object = ?1 WHERE snapshot = ?2", &st);
    if (!err && visits.objects)
        sqlite3_bind_double(st, 1, (double)visits.visits / (double)visits.objects);
    hx_visits_deinit(&visits);
    HX_TRY(err);
    sqlite3_bind_int64(st, 2, number);
    return hx_db_run(store->db, store->path, st);
}

hx_error *hx_store_count_visits(hx_store *store, int64_t number, struct hx_snapshot *snapshot,
                                const struct hx_analysis *analysis,
                                const struct hx_progress *progress)
{
    struct hx_scheme_rule rule;
    hx_sets *sets = NULL;
    int64_t max_set;
    char sql[128];
    HX_TRY(hx_schema_overlay(store->db, store->path, HX_OVERLAID));
    snprintf(sql, sizeof sql, "SELECT coalesce(max_set, 0) FROM hx_census WHERE snapshot = %lld",
             (long long)number);
    HX_TRY(hx_db_int(store->db, store->path, sql, &max_set));
    if (max_set < 0 || max_set > UINT32_MAX)
        return hx_error_new(HX_E_CORRUPT, store->path, "take it from a backup or make it again",
                            "the store is damaged (limit of sets)");
    struct hx_analysis its = *analysis;
    HX_TRY(hx_analysed_threads(store->db, store->path, number, &its.options.threads_as));
    HX_TRY(hx_analysed_hold(store->db, store->path, number, &its.hold));
    HX_TRY(hx_scheme_apply(its.scheme, snapshot, &its.options, &rule));
    hx_error *err = hx_sets_create((unsigned)max_set, &sets);
    if (!err)
        err = hx_choose(snapshot, &its.hold, its.threads, progress);
    if (!err)
        err = count_visits(store, number, snapshot, &rule, sets, progress);
    hx_edges_restore(snapshot, its.threads);
    hx_sets_destroy(sets);
    hx_scheme_rule_deinit(&rule);
    return err;
}

hx_error *hx_store_parts(hx_store *store, int64_t number, unsigned *ret)
{
    HX_STATEMENT sqlite3_stmt *st = NULL;
    HX_TRY(hx_db_prepare(store->db, store->path, "SELECT parts FROM hx_snapshot WHERE snapshot = ?",
                         &st));
    sqlite3_bind_int64(st, 1, number);
    int code = sqlite3_step(st);
    if (code == SQLITE_DONE)
        return hx_error_new(HX_E_ABSENT, store->path,
                            "heapx report FILE snapshots --snapshot all lists them",
                            "no snapshot %lld in it", (long long)number);
    if (code != SQLITE_ROW)
        return hx_db_error(store->db, code, store->path);
    *ret = (unsigned)sqlite3_column_int64(st, 0) & HX_ANALYSE_EVER;
    return NULL;
}

hx_error *hx_store_is_unfinished(hx_store *store, bool *ret)
{
    int64_t n = 0;
    HX_TRY(hx_db_int(store->db, store->path,
                     "SELECT count(*) FROM hx_snapshot JOIN hx_census USING(snapshot)"
                     " WHERE parts & 36 <> 36",
                     &n));
    *ret = n > 0;
    return NULL;
}

hx_error *hx_store_hold(hx_store *store, int64_t number, struct hx_hold_options *ret)
{
    return hx_analysed_hold(store->db, store->path, number, ret);
}

hx_error *hx_store_scheme(hx_store *store, int64_t number, const struct hx_scheme **ret,
                          char **ret_patterns)
{
    HX_STATEMENT sqlite3_stmt *st = NULL;
    HX_TRY(hx_db_prepare(store->db, store->path,
                         "SELECT scheme, substr(patterns, 1, 65536) FROM hx_census"
                         " WHERE snapshot = ?",
                         &st));
    sqlite3_bind_int64(st, 1, number);
    *ret = NULL;
    *ret_patterns = NULL;
    int code = sqlite3_step(st);
    if (code == SQLITE_DONE)
        return NULL;
    if (code != SQLITE_ROW)
        return hx_db_error(store->db, code, store->path);
    const char *scheme = (const char *)sqlite3_column_text(st, 0);
    const char *patterns = (const char *)sqlite3_column_text(st, 1);
    *ret = scheme ? hx_scheme_find(scheme) : NULL;
    if (patterns)
        HX_NEED(*ret_patterns = strdup(patterns));
    return NULL;
}
