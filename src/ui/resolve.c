/* resolve.c - from an address that somebody typed to the object that contains it, from a set of
 * objects to its largest. */
#include "ui/app.h"

#include <inttypes.h>

/* What is looked for: an address, or the largest of a set. */
struct resolving {
    struct hx_job job;
    uint64_t address, object;
    int64_t snapshot;
    struct hx_text where; /* the set; empty: the address */
    int64_t other;
    bool found;
    hx_error *(*open)(struct hx_ui *ui, uint64_t object);
};

static hx_error *first_address(hx_store *store, struct resolving *resolving, bool fresh)
{
    struct hx_text sql = {0};
    hx_text_putf(&sql, "SELECT o.address FROM objects o WHERE o.snapshot = %" PRId64 " AND (%s)",
                 resolving->snapshot, resolving->where.s);
    if (fresh)
        hx_text_putf(&sql,
                     " AND NOT EXISTS (SELECT 1 FROM objects p WHERE p.snapshot = %" PRId64
                     " AND p.address = o.address)",
                     resolving->other);
    hx_text_puts(&sql, " ORDER BY o.bytes DESC LIMIT 1");
    HX_ROWS hx_rows *rows = NULL;
    hx_error *error = sql.failed ? hx_error_nomem() : hx_query_sql(store, sql.s, &rows);
    hx_text_free(&sql);
    HX_TRY(error);
    HX_TRY(hx_rows_next(rows, &resolving->found));
    if (resolving->found)
        resolving->object = (uint64_t)hx_rows_value(rows, 0).i;
    return NULL;
}

static hx_error *largest_run(struct hx_job *job, hx_store *store,
                             const struct hx_progress *progress)
{
    struct resolving *resolving = (struct resolving *)job;
    (void)progress;
    if (resolving->other)
        HX_TRY(first_address(store, resolving, true));
    return resolving->found ? NULL : first_address(store, resolving, false);
}

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
    if (!error && !resolving->found && resolving->where.n)
        error = hx_error_new(HX_E_ABSENT, "this row", NULL,
                             "stands for no object of snapshot %" PRId64, resolving->snapshot);
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
    struct resolving *resolving = (struct resolving *)job;
    hx_text_free(&resolving->where);
    free(resolving);
}

static hx_error *start(struct hx_ui *ui, struct resolving *resolving)
{
    resolving->snapshot = ui->snapshot;
    resolving->job.what = "looking for the object";
    resolving->job.lane = HX_LANE_READ;
    resolving->job.done = resolving_done;
    resolving->job.destroy = resolving_destroy;
    if (resolving->where.failed) {
        resolving_destroy(&resolving->job);
        return hx_error_nomem();
    }
    hx_jobs_start(ui->jobs, &resolving->job);
    return NULL;
}

hx_error *hx_ui_resolve(struct hx_ui *ui, uint64_t address,
                        hx_error *(*open)(struct hx_ui *ui, uint64_t object))
{
    if (!ui->snapshot)
        return hx_error_new(HX_E_ABSENT, "snapshots", NULL, "there is none yet");
    struct resolving *resolving = calloc(1, sizeof *resolving);
    if (!resolving)
        return hx_error_nomem();
    resolving->job.run = resolving_run;
    resolving->address = address;
    resolving->open = open;
    return start(ui, resolving);
}

hx_error *hx_ui_largest(struct hx_ui *ui, const struct hx_of *of, int64_t other,
                        hx_error *(*open)(struct hx_ui *ui, uint64_t object))
{
    struct resolving *resolving = calloc(1, sizeof *resolving);
    if (!resolving)
        return hx_error_nomem();
    hx_of_where(of, &resolving->where);
    if (!resolving->where.n)
        hx_text_putc(&resolving->where, '1');
    resolving->job.run = largest_run;
    resolving->other = other;
    resolving->open = open;
    return start(ui, resolving);
}
