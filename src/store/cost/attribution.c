/* attribution.c - attributions of whole stores: of a snapshot that was just added, of one that is
 * looked at by other cost centres, and of a file that came from an older schema. */
#include "store/cost/attribute.h"

#include "base/cleanup.h"
#include "base/timing.h"
#include "store/cost/attribution_tables.h"
#include "store/cost/mprof_fill.h"
#include "store/db.h"
#include "store/store_private.h"
#include "store/write/writer.h"

#include <stdlib.h>

static hx_error *is_imported(const struct hx_attributing *a, int64_t snapshot, bool *ret)
{
    HX_STATEMENT sqlite3_stmt *st = NULL;
    HX_TRY(hx_db_prepare(a->db, a->what,
                         "SELECT 1 FROM hx_recording WHERE snapshot = ? AND method IS"
                         " '" HX_RECORDING_IMPORT "'",
                         &st));
    sqlite3_bind_int64(st, 1, snapshot);
    int code = sqlite3_step(st);
    *ret = code == SQLITE_ROW;
    return code == SQLITE_ROW || code == SQLITE_DONE ? NULL : hx_db_error(a->db, code, a->what);
}

/* What follows from chains, and sites; the costs of stacks apart. Of what was allocated and freed
 * profiles of other programs say nothing. */
static hx_error *attribute_rest(const struct hx_attributing *a, int64_t snapshot)
{
    bool imported;
    HX_TRY(is_imported(a, snapshot, &imported));
    if (imported)
        return hx_attribute_sites(a, snapshot);
    uint64_t begun = hx_timing_begin();
    HX_TRY(hx_mprof_chains(a));
    hx_timing_end(begun, "chains", a->frames->node.n);
    HX_TRY(hx_attribute_sites(a, snapshot));
    begun = hx_timing_begin();
    HX_TRY(hx_mprof_snapshot(a, snapshot));
    hx_timing_end(begun, "mprof", a->frames->node.n);
    return NULL;
}

hx_error *hx_attribute_new(const struct hx_attributing *a, int64_t snapshot)
{
    uint64_t begun = hx_timing_begin();
    HX_TRY(hx_attribute_costs(a, snapshot));
    hx_timing_end(begun, "costs", a->frames->node.n);
    return attribute_rest(a, snapshot);
}

/* --- all of it --------------------------------------------------------------------- */

typedef HX_VEC(int64_t) numbers;

static void free_numbers(numbers *list)
{
    hx_vec_free(list);
}

static hx_error *list_recorded(const struct hx_attributing *a, numbers *ret)
{
    HX_STATEMENT sqlite3_stmt *st = NULL;
    HX_TRY(
        hx_db_prepare(a->db, a->what, "SELECT snapshot FROM hx_recording ORDER BY snapshot", &st));
    int code;
    while ((code = sqlite3_step(st)) == SQLITE_ROW)
        HX_NEED(hx_vec_push(ret, sqlite3_column_int64(st, 0)));
    return code == SQLITE_DONE ? NULL : hx_db_error(a->db, code, a->what);
}

typedef hx_error *attribute_fn(const struct hx_attributing *a, int64_t snapshot);

/* Snapshot 0: all. */
static hx_error *each_recorded(const struct hx_attributing *a, int64_t snapshot,
                               attribute_fn *attribute)
{
    HX_CLEANUP(free_numbers) numbers snapshots = {0};
    HX_TRY(list_recorded(a, &snapshots));
    for (size_t i = 0; i < snapshots.n; i++)
        if (!snapshot || snapshot == snapshots.v[i])
            HX_TRY(attribute(a, snapshots.v[i]));
    return NULL;
}

/* --- by other cost centres --------------------------------------------------------- */

static hx_error *no_attribution(const hx_store *store, int64_t snapshot)
{
    const char *todo = "use heapx run or heapx record";
    if (!snapshot)
        return hx_error_new(HX_E_ABSENT, store->path, todo, "nothing was recorded");
    return hx_error_new(HX_E_ABSENT, store->path, todo, "nothing was recorded of snapshot %lld",
                        (long long)snapshot);
}

/* Does the snapshot have stacks? */
static hx_error *check_recorded(hx_store *store, int64_t snapshot)
{
    unsigned parts; /* is there such a snapshot? */
    if (!snapshot)
        return NULL;
    HX_TRY(hx_store_parts(store, snapshot, &parts));
    HX_STATEMENT sqlite3_stmt *st = NULL;
    HX_TRY(hx_db_prepare(store->db, store->path,
                         "SELECT 1 FROM hx_recording WHERE snapshot = ?1"
                         " UNION ALL SELECT 1 FROM hx_thread WHERE snapshot = ?1",
                         &st));
    sqlite3_bind_int64(st, 1, snapshot);
    int code = sqlite3_step(st);
    if (code == SQLITE_DONE)
        return no_attribution(store, snapshot);
    return code == SQLITE_ROW ? NULL : hx_db_error(store->db, code, store->path);
}

/* Into tables that are empty; what is not written there is served from the pass. */
static hx_error *fill_attribution(const struct hx_attributing *a, int64_t snapshot)
{
    HX_TRY(hx_attribute_numbers(a));
    return each_recorded(a, snapshot, attribute_rest);
}

static hx_error *lay_over(hx_store *store, const struct hx_attributing *a, int64_t snapshot)
{
    HX_TRY(hx_schema_overlay_attribution(store->db, store->path));
    store->attributed = true;
    hx_blocks_forget_all(store->blocks);
    HX_TRY(hx_ccs_overlay_set(store->overlay, NULL, NULL, 0));
    HX_TRY(hx_db_exec(store->db, store->path, "BEGIN"));
    hx_error *err = fill_attribution(a, snapshot);
    if (!err)
        err = hx_schema_index_attribution(store->db, store->path);
    return hx_db_end(store->db, store->path, err);
}

static void free_pass(struct hx_attributing *pass)
{
    if (pass)
        hx_attributing_deinit(pass);
    free(pass);
}

static void free_frames(struct hx_frames *frames)
{
    hx_frames_deinit(frames);
    free(frames);
}

/* With frames that are the store's. */
static hx_error *attribute(hx_store *store, int64_t snapshot, const struct hx_attribution *how,
                           const struct hx_progress *progress, struct hx_frames *frames,
                           struct hx_attributing **ret)
{
    if (!frames->node.n)
        return no_attribution(store, 0);
    struct hx_attributing *pass = *ret = calloc(1, sizeof *pass);
    HX_NEED(pass);
    HX_TRY(hx_attributing_init(store->db, store->path, frames, how, progress, pass));
    return lay_over(store, pass, snapshot);
}

hx_error *hx_store_attribute(hx_store *store, int64_t snapshot, const struct hx_attribution *how,
                             const struct hx_progress *progress, const char **ret_idle)
{
    HX_TRY(check_recorded(store, snapshot));
    struct hx_frames *frames = calloc(1, sizeof *frames);
    struct hx_attributing *pass = NULL;
    uint64_t begun = hx_timing_begin();
    hx_error *err =
        frames ? hx_frames_load(store->db, store->path, false, frames) : hx_error_nomem();
    if (err) {
        free(frames);
        return err;
    }
    hx_timing_end(begun, "frames", frames->node.n);
    err = attribute(store, snapshot, how, progress, frames, &pass);
    if (err) {
        free_pass(pass);
        free_frames(frames);
        return err;
    }
    if (ret_idle)
        *ret_idle = pass->idle;
    return hx_ccs_overlay_set(store->overlay, frames, pass, snapshot);
}

hx_error *hx_store_attributed_end(hx_store *store)
{
    if (!store->attributed)
        return NULL;
    HX_TRY(hx_schema_drop_attribution(store->db, store->path));
    store->attributed = false;
    hx_blocks_forget_all(store->blocks);
    return hx_ccs_overlay_set(store->overlay, NULL, NULL, 0);
}

/* --- of an older schema ------------------------------------------------------------- */

/* Sites were whole stacks: their retained figures and pages stay where a cost-centre stack has but
 * one of them. */
static hx_error *merge_sites(sqlite3 *db, const char *what)
{
    return hx_db_exec(
        db, what,
        "CREATE TEMP TABLE hx_old_site AS SELECT s.snapshot AS snapshot, a.ccs_id AS ccs_id,"
        " CASE count(*) WHEN 1 THEN max(s.retained_bytes) END AS retained_bytes,"
        " CASE count(*) WHEN 1 THEN max(s.retained_objects) END AS retained_objects,"
        " CASE count(*) WHEN 1 THEN max(p.only_pages) END AS only_pages,"
        " CASE count(*) WHEN 1 THEN max(p.shared_pages) END AS shared_pages"
        " FROM hx_site AS s JOIN hx_attributed AS a ON a.stack_id = s.ccs_id"
        " LEFT JOIN hx_page AS p ON p.snapshot = s.snapshot AND p.census = 'site'"
        " AND p.key = s.ccs_id GROUP BY 1, 2;"
        "DELETE FROM hx_site; DELETE FROM hx_page WHERE census = 'site'");
}

static hx_error *keep_sites(sqlite3 *db, const char *what)
{
    return hx_db_exec(
        db, what,
        "UPDATE hx_site SET (retained_bytes, retained_objects) ="
        " (SELECT o.retained_bytes, o.retained_objects FROM temp.hx_old_site AS o"
        " WHERE o.snapshot = hx_site.snapshot AND o.ccs_id = hx_site.ccs_id);"
        "INSERT INTO hx_page SELECT snapshot, 'site', ccs_id, only_pages, shared_pages"
        " FROM temp.hx_old_site WHERE only_pages IS NOT NULL;"
        "DROP TABLE temp.hx_old_site");
}

static hx_error *attribute_all(const struct hx_attributing *a)
{
    HX_TRY(hx_frames_store(a->frames));
    HX_TRY(hx_attribute_stacks(a));
    HX_TRY(merge_sites(a->db, a->what));
    HX_TRY(each_recorded(a, 0, hx_attribute_new));
    return keep_sites(a->db, a->what);
}

hx_error *hx_attribute_migrated(sqlite3 *db, const char *what, const struct hx_progress *progress)
{
    const struct hx_attribution how = HX_ATTRIBUTION_DEFAULT;
    struct hx_frames frames;
    int64_t any;
    HX_TRY(hx_db_int(db, what, "SELECT count(*) FROM (SELECT 1 FROM hx_frame LIMIT 1)", &any));
    if (!any)
        return NULL;
    HX_TRY(hx_frames_adopt(db, what, &frames));
    struct hx_attributing a = {0};
    hx_error *err = hx_attributing_init(db, what, &frames, &how, progress, &a);
    if (!err)
        err = attribute_all(&a);
    hx_attributing_deinit(&a);
    hx_frames_deinit(&frames);
    return err;
}

hx_error *hx_attribute_recursion(sqlite3 *db, const char *what, const struct hx_progress *progress)
{
    const struct hx_attribution how = HX_ATTRIBUTION_DEFAULT;
    struct hx_attributing a = {0};
    struct hx_frames frames;
    int64_t any;
    HX_TRY(hx_db_int(db, what, "SELECT count(*) FROM (SELECT 1 FROM hx_ccs LIMIT 1)", &any));
    if (!any)
        return NULL;
    hx_error *err = hx_frames_load(db, what, false, &frames);
    if (!err) {
        err = hx_attributing_init(db, what, &frames, &how, progress, &a);
        if (!err)
            err = hx_attribute_stacks(&a);
        hx_attributing_deinit(&a);
        hx_frames_deinit(&frames);
    }
    if (err && err->kind == HX_E_CORRUPT)
        hx_error_free(hx_steal(err));
    return err;
}
