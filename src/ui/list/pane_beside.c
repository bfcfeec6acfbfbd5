/* pane_beside.c - read ahead while nobody presses a key: what the list shows in the snapshots
 * beside the one that is looked at, of which `[` and `]` ask next.
 *
 * Of filtered objects only: to find those of another snapshot takes a pass over all its rows. What
 * is found stays in what the store keeps of conditions and orders (store/objects/passed.h, top.h),
 * within their bounds; the rows themselves are thrown away. */
#include "ui/app.h"
#include "ui/job.h"
#include "ui/list/pane.h"

#include <stdlib.h>
#include <string.h>

struct beside {
    struct hx_job job;
    struct hx_load load;
    uint64_t pane;
};

static hx_error *find_beside(const struct beside *beside, hx_store *store,
                             const struct hx_progress *progress)
{
    int64_t count;
    HX_ROWS hx_rows *rows = NULL;
    HX_CLEANUP(hx_table_deinit) struct hx_table table = {0};
    HX_TRY(hx_load_open(&beside->load, store, 0, 1, &rows)); /* many of the order are kept */
    HX_TRY(hx_table_read(&table, rows, 1));
    return hx_progress_cancelled(progress) ? hx_error_cancelled("read ahead")
                                           : hx_load_count(&beside->load, store, &count);
}

static hx_error *beside_run(struct hx_job *job, hx_store *store, const struct hx_progress *progress)
{
    hx_store_aloof(store, true);
    hx_error *error = find_beside((struct beside *)job, store, progress);
    hx_store_aloof(store, false);
    return error;
}

/* Nobody waits for it: what went wrong the list says when it is asked for. */
static void beside_done(struct hx_job *job, struct hx_ui *ui, hx_error *error)
{
    const struct beside *beside = (struct beside *)job;
    struct hx_pane *pane = hx_ui_find_pane(ui, beside->pane);
    if (pane)
        pane->looks_beside = false;
    if (pane && pane->beside && error && error->kind == HX_E_CANCEL)
        pane->beside--; /* a key came: again, when there is time */
    hx_error_free(error);
}

static void beside_destroy(struct hx_job *job)
{
    struct beside *beside = (struct beside *)job;
    hx_load_end(&beside->load);
    free(beside);
}

/* The snapshot before the one that is shown, then the one after it; 0: there is none. */
static int64_t snapshot_beside(const struct hx_ui *ui, int which)
{
    const size_t row = hx_ui_snapshot_row(ui), n = ui->snapshots.n_rows;
    const bool there = which == 0 ? row > 0 && row < n : row + 1 < n;
    return there ? hx_table_int(&ui->snapshots, which == 0 ? row - 1 : row + 1, "snapshot", 0) : 0;
}

bool hx_pane_wants_beside(const struct hx_ui *ui, const struct hx_pane *pane)
{
    return pane->condition && hx_pane_windowed(pane) && !pane->other && pane->loaded &&
           !pane->loading && !pane->ahead && !pane->stale && !pane->problem && pane->beside < 2 &&
           !pane->looks_beside && !hx_jobs_busy(ui->jobs, HX_LANE_READ) &&
           !hx_jobs_busy(ui->jobs, HX_LANE_WORK);
}

void hx_pane_look_beside(struct hx_ui *ui, struct hx_pane *pane)
{
    const int64_t snapshot = snapshot_beside(ui, pane->beside++);
    struct beside *beside = snapshot ? calloc(1, sizeof *beside) : NULL;
    if (!beside)
        return;
    beside->job = (struct hx_job){.what = "read ahead",
                                  .quiet = true,
                                  .unasked = true,
                                  .ahead = true,
                                  .lane = HX_LANE_READ,
                                  .run = beside_run,
                                  .done = beside_done,
                                  .destroy = beside_destroy};
    beside->pane = pane->serial;
    hx_load_begin(pane, snapshot, &beside->load);
    pane->looks_beside =
        beside->load.source.view && strcmp(beside->load.source.view, "objects") == 0;
    if (pane->looks_beside)
        hx_jobs_start(ui->jobs, &beside->job);
    else
        beside_destroy(&beside->job);
}
