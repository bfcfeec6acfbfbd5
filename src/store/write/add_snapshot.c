/* add_snapshot.c - one snapshot into the store, in one transaction.
 *
 * The large tables come first (families.c). What an analysis finds follows, part by part
 * (analyse.c); the row that makes the snapshot visible comes last. */
#include "store/write/writer.h"

#include "base/cleanup.h"
#include "store/db.h"
#include "store/store_private.h"
#include "store/write/analyse.h"
#include "store/write/families.h"
#include "store/write/write_recording.h"

#include <stdlib.h>

/* --- the transaction --------------------------------------------------------------- */

static hx_error *find_next_block(struct hx_writer *w)
{
    return hx_db_int(w->db, w->what,
                     w->overlay ? "SELECT max(coalesce((SELECT max(id) FROM main.hx_block), 0),"
                                  " coalesce((SELECT max(id) FROM temp.hx_block), 0)) + 1"
                                : "SELECT coalesce(max(id), 0) + 1 FROM hx_block",
                     &w->next_block);
}

hx_error *hx_writer_prepare(struct hx_writer *w)
{
    HX_TRY(find_next_block(w));
    w->insert = (struct hx_inserter){.db = w->db, .what = w->what};
    HX_TRY(hx_codec_create(&w->codec));
    w->value = malloc(HX_BLOCK_ROWS * sizeof *w->value);
    w->blob = malloc(hx_column_bound(HX_BLOCK_ROWS));
    HX_NEED(w->value && w->blob);
    return hx_encoder_create(w->threads, &w->encoder);
}

hx_error *hx_writer_leave(struct hx_writer *w)
{
    if (!w->apart)
        return NULL;
    HX_TRY(hx_db_exec(w->db, w->what, "COMMIT"));
    if (w->apart->leave)
        w->apart->leave(w->apart->context);
    return NULL;
}

hx_error *hx_writer_enter(struct hx_writer *w, hx_error *err)
{
    if (!w->apart)
        return err;
    if (w->apart->enter)
        w->apart->enter(w->apart->context);
    HX_TRY(err);
    HX_TRY(hx_db_exec(w->db, w->what, w->overlay ? "BEGIN" : "BEGIN IMMEDIATE"));
    return find_next_block(w); /* others may have written */
}

static hx_error *write_snapshot(struct hx_writer *w, const struct hx_analysis *analysis)
{
    HX_TRY(hx_db_int(w->db, w->what, "SELECT coalesce(max(snapshot), 0) + 1 FROM hx_snapshot",
                     &w->id));
    HX_TRY(hx_writer_prepare(w));
    HX_TRY(hx_writer_recorded(w));
    HX_TRY(hx_writer_families(w));
    HX_TRY(hx_writer_records(w));
    HX_TRY(hx_writer_recording(w));
    if (analysis && hx_can_analyse(w->snapshot))
        HX_TRY(hx_analyse(w, analysis, analysis->parts ? analysis->parts : HX_ANALYSE_ALL));
    return hx_writer_summary(w); /* last: with it the snapshot exists */
}

void hx_writer_deinit(struct hx_writer *w)
{
    hx_inserter_deinit(&w->insert);
    sqlite3_finalize(w->same);
    sqlite3_finalize(w->packed);
    hx_codec_destroy(w->codec);
    hx_encoder_destroy(w->encoder);
    free(w->value);
    free(w->blob);
    hx_early_columns_destroy(w->early);
    hx_big_free(&w->in_mem);
    hx_big_free(&w->class_mem);
    hx_vec_free(&w->objects);
    free(w->holding);
    hx_scheme_rule_deinit(&w->roots);
    hx_text_free(&w->notes);
    hx_recorded_destroy(w->recorded);
}

/* Moves the log into the file and gives its room back, unless a reader needs it now. Done
 * after each snapshot, a failed one included: on a full disk the log of the failed one must
 * not take the room that the finished ones need. */
static void empty_log(hx_store *store)
{
    sqlite3_busy_timeout(store->db, 0);
    sqlite3_wal_checkpoint_v2(store->db, NULL, SQLITE_CHECKPOINT_TRUNCATE, NULL, NULL);
    sqlite3_busy_timeout(store->db, HX_STORE_BUSY_MS);
}

hx_error *hx_store_end(hx_store *store, hx_error *err)
{
    err = hx_db_end(store->db, store->path, err);
    if (store->writer)
        empty_log(store);
    return err;
}

hx_error *hx_store_add(hx_store *store, struct hx_snapshot *snapshot,
                       const struct hx_analysis *analysis, const struct hx_progress *progress,
                       int64_t *ret)
{
    if (!store->writer)
        return hx_error_new(HX_E_FAIL, store->path, NULL, "the store is open for reading only");
    HX_TRY(hx_store_attributed_end(store));
    hx_early_columns_end(snapshot);
    struct hx_writer w = {
        .db = store->db,
        .what = store->path,
        .snapshot = snapshot,
        .graph = &snapshot->graph,
        .early = hx_steal(snapshot->early),
        .adding = true,
        .progress = progress,
        .threads = analysis ? analysis->threads : 0,
        .rows_total = snapshot->graph.n + snapshot->graph.n_edges + snapshot->root_edges.n,
    };
    hx_error *err = hx_db_exec(store->db, store->path, "BEGIN IMMEDIATE");
    if (err) {
        hx_writer_deinit(&w);
        return err;
    }
    err = write_snapshot(&w, analysis);
    hx_writer_deinit(&w);
    err = hx_store_end(store, err);
    if (err)
        return err;
    store->added = true;
    *ret = w.id;
    return NULL;
}
