/* write_suppressed.c - leaks that are known, taken out of what a store shows.
 *
 * It lies in temporary tables over the file's own, which end with the connection. */
#include "base/cleanup.h"
#include "store/db.h"
#include "store/store_private.h"
#include "store/write/analyse.h"

#include <stdlib.h>
#include <string.h>

/* Patterns of sites see what the view shows: whole stacks, whatever the cost centres are. */
static hx_error *name_sites(hx_store *store, struct hx_snapshot *snapshot)
{
    HX_STATEMENT sqlite3_stmt *st = NULL;
    HX_TRY(hx_db_prepare(store->db, store->path, "SELECT label FROM hx_stack WHERE stack_id = ?",
                         &st));
    for (size_t i = 0; i < snapshot->sites.n; i++) {
        struct hx_site *site = &snapshot->sites.v[i];
        sqlite3_bind_int64(st, 1, site->stack_id);
        int code = sqlite3_step(st);
        if (code != SQLITE_ROW && code != SQLITE_DONE)
            return hx_db_error(store->db, code, store->path);
        const char *label = code == SQLITE_ROW ? (const char *)sqlite3_column_text(st, 0) : NULL;
        char *copy = label ? strdup(label) : NULL;
        if (label && !copy)
            return hx_error_nomem();
        if (copy) {
            free(site->label);
            site->label = copy;
        }
        sqlite3_reset(st);
    }
    return NULL;
}

/* Without figures before there are none afterwards. */
static hx_error *revise_row(struct hx_writer *w, uint64_t bytes, uint64_t objects)
{
    HX_STATEMENT sqlite3_stmt *st = NULL;
    struct hx_text note = {0};
    char human[HX_HUMAN];
    hx_text_putf(&note, "suppressions took %s in %llu objects out of what is lost",
                 hx_human_bytes(bytes, human), (unsigned long long)objects);
    hx_error *err =
        note.failed
            ? hx_error_nomem()
            : hx_db_prepare(w->db, w->what,
                            "UPDATE temp.hx_snapshot SET leaked_bytes = leaked_bytes - ?1,"
                            " leaked_objects = leaked_objects - ?2,"
                            " notes = coalesce(notes || '; ', '') || ?3 WHERE snapshot = ?4",
                            &st);
    if (!err) {
        sqlite3_bind_int64(st, 1, (int64_t)bytes);
        sqlite3_bind_int64(st, 2, (int64_t)objects);
        sqlite3_bind_text(st, 3, hx_text_str(&note), -1, SQLITE_TRANSIENT);
        sqlite3_bind_int64(st, 4, w->id);
        err = hx_db_run(w->db, w->what, st);
    }
    hx_text_free(&note);
    return err;
}

static hx_error *replace_suppressed_sums(struct hx_writer *w, uint64_t bytes, uint64_t objects)
{
    HX_TRY(hx_analyse_forget(w, "DELETE FROM temp.hx_leak WHERE snapshot = ?"));
    HX_TRY(hx_writer_leaks(w));
    return revise_row(w, bytes, objects);
}

hx_error *hx_store_suppress(hx_store *store, int64_t number, hx_suppressions *list,
                            const struct hx_progress *progress)
{
    HX_SNAPSHOT struct hx_snapshot *snapshot = NULL;
    uint64_t bytes, objects, before = 0, after = 0;
    HX_TRY(hx_store_load(store, number, progress, &snapshot));
    HX_TRY(name_sites(store, snapshot));
    for (size_t i = 0; i < hx_suppressions_count(list); i++)
        before += hx_suppressions_at(list, i)->objects;
    HX_TRY(hx_suppress(list, snapshot, progress, &bytes, &objects));
    for (size_t i = 0; i < hx_suppressions_count(list); i++)
        after += hx_suppressions_at(list, i)->objects;
    if (before == after)
        return NULL;
    HX_TRY(hx_schema_overlay(store->db, store->path, HX_SUPPRESSED));
    struct hx_writer w = {
        .db = store->db,
        .what = store->path,
        .snapshot = snapshot,
        .graph = &snapshot->graph,
        .progress = progress,
        .id = number,
        .insert = {.db = store->db, .what = store->path},
    };
    HX_TRY(hx_db_exec(store->db, store->path, "BEGIN"));
    hx_error *err = replace_suppressed_sums(&w, bytes, objects);
    hx_writer_deinit(&w);
    return hx_store_end(store, err);
}
