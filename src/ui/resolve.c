/* resolve.c - from an address that somebody typed to the object that contains it. */
#include "ui/app.h"

#include <inttypes.h>

struct resolving {
    struct hx_job job;
    uint64_t address, object;
    int64_t snapshot;
    bool found;
    hx_error *(*open)(struct hx_ui *ui, uint64_t object);
};

static hx_error *resolving_run(struct hx_job *job, hx_store *store,
                               const struct hx_progress *progress)
{
    struct resolving *resolving = (struct resolving *)job;
    (void)progress;
    struct hx_text sql = {0};
    hx_text_putf(&sql,
                 "SELECT address, bytes FROM objects WHERE snapshot = %" PRId64
                 " AND address <= %" PRId64 " ORDER BY address DESC LIMIT 1",
                 resolving->snapshot, (int64_t)resolving->address);
    HX_ROWS hx_rows *rows = NULL;
    hx_error *error = sql.failed ? hx_error_nomem() : hx_query_sql(store, sql.s, &rows);
    hx_text_free(&sql);
    HX_TRY(error);
    bool more = false;
    HX_TRY(hx_rows_next(rows, &more));
    if (!more)
        return NULL;
    resolving->object = (uint64_t)hx_rows_value(rows, 0).i;
    uint64_t bytes = (uint64_t)hx_rows_value(rows, 1).i;
    /* An empty object still has its address. */
    resolving->found =
        resolving->address == resolving->object || resolving->address - resolving->object < bytes;
    return NULL;
}

static void resolving_done(struct hx_job *job, struct hx_ui *ui, hx_error *error)
{
    struct resolving *resolving = (struct resolving *)job;
    if (!error && !resolving->found) {
        char what[32];
        snprintf(what, sizeof what, "0x%" PRIx64, resolving->address);
        error = hx_error_new(HX_E_ABSENT, what, NULL, "lies in no object of snapshot %" PRId64,
                             resolving->snapshot);
    }
    if (!error)
        error = resolving->open(ui, resolving->object);
    hx_ui_complain(ui, error);
}

static void resolving_destroy(struct hx_job *job)
{
    free(job);
}

hx_error *hx_ui_resolve(struct hx_ui *ui, uint64_t address,
                        hx_error *(*open)(struct hx_ui *ui, uint64_t object))
{
    if (!ui->snapshot)
        return hx_error_new(HX_E_ABSENT, "snapshots", NULL, "there is none yet");
    struct resolving *resolving = calloc(1, sizeof *resolving);
    if (!resolving)
        return hx_error_nomem();
    resolving->job = (struct hx_job){.what = "looking for the object",
                                     .lane = HX_LANE_READ,
                                     .run = resolving_run,
                                     .done = resolving_done,
                                     .destroy = resolving_destroy};
    resolving->address = address;
    resolving->snapshot = ui->snapshot;
    resolving->open = open;
    hx_jobs_start(ui->jobs, &resolving->job);
    return NULL;
}
