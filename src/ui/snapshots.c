/* snapshots.c - which snapshots there are, which one is looked at, and taking another. */
#include "ui/analysis.h"
#include "ui/app.h"
#include "ui/job.h"
#include "ui/list/pane.h"
#include "ui/ui_options.h"

#include <string.h>

struct listing {
    struct hx_job job;
    struct hx_table rows;
};

static hx_error *listing_run(struct hx_job *job, hx_store *store,
                             const struct hx_progress *progress)
{
    struct listing *listing = (struct listing *)job;
    (void)progress;
    HX_ROWS hx_rows *rows = NULL;
    HX_TRY(hx_query_named(store, HX_QUERY_snapshots, HX_QUERY_ARGS(), &rows));
    return hx_table_read(&listing->rows, rows, -1);
}

/* Says what the snapshot that somebody asked for was like. */
static void announce(struct hx_ui *ui)
{
    char heap[HX_HUMAN], pause[HX_HUMAN];
    const struct hx_table *all = &ui->snapshots;
    for (size_t i = 0; ui->announce && i < all->n_rows; i++) {
        if (hx_table_int(all, i, "snapshot", 0) != ui->announce)
            continue;
        int64_t us = hx_table_int(all, i, "pause_us", 0);
        int64_t bytes = hx_table_int(all, i, "heap_bytes", -1);
        hx_ui_say(ui, "snapshot %lld taken: heap %s, pause %s", (long long)ui->announce,
                  bytes < 0 ? "-" : hx_human_bytes((uint64_t)bytes, heap),
                  hx_human_ns((uint64_t)us * 1000, pause));
    }
    ui->announce = 0;
}

/* What is not looked at can wait. */
static void another_row(struct hx_ui *ui, struct hx_pane *pane)
{
    if (pane == hx_ui_pane(ui))
        hx_pane_reload(ui, pane);
    else
        hx_pane_outdate(pane);
}

static void listing_done(struct hx_job *job, struct hx_ui *ui, hx_error *error)
{
    struct listing *listing = (struct listing *)job;
    ui->listing--;
    if (error) {
        hx_ui_complain(ui, error);
        return;
    }
    bool grown = listing->rows.n_rows > ui->snapshots.n_rows;
    hx_table_deinit(&ui->snapshots);
    ui->snapshots = listing->rows;
    listing->rows = (struct hx_table){0};
    if (grown && (ui->follow || !ui->snapshot))
        hx_ui_set_snapshot(ui,
                           hx_table_int(&ui->snapshots, ui->snapshots.n_rows - 1, "snapshot", 0));
    hx_ui_complain(ui, hx_ui_show_instead(ui));
    announce(ui);
    /* Lists over all snapshots have a row more. */
    for (size_t i = 0; i < HX_SCREENS; i++)
        if (ui->base[i] && ui->base[i]->screen->over_time && ui->base[i]->loaded)
            another_row(ui, ui->base[i]);
    for (size_t i = 1; i < ui->open.n; i++)
        if (ui->open.v[i]->screen->over_time && ui->open.v[i]->loaded)
            another_row(ui, ui->open.v[i]);
    if (!ui->snapshots.n_rows && ui->options->take && !ui->snapping)
        hx_ui_complain(ui, hx_ui_snap(ui, false));
}

static void listing_destroy(struct hx_job *job)
{
    struct listing *listing = (struct listing *)job;
    hx_table_deinit(&listing->rows);
    free(listing);
}

hx_error *hx_ui_load_snapshots(struct hx_ui *ui)
{
    struct listing *listing = calloc(1, sizeof *listing);
    HX_NEED(listing);
    listing->job = (struct hx_job){.what = "listing snapshots",
                                   .quiet = true,
                                   .lane = HX_LANE_READ,
                                   .run = listing_run,
                                   .done = listing_done,
                                   .destroy = listing_destroy};
    ui->listing++;
    hx_jobs_start(ui->jobs, &listing->job);
    return NULL;
}

size_t hx_ui_snapshot_row(const struct hx_ui *ui)
{
    size_t i = 0;
    while (i < ui->snapshots.n_rows &&
           hx_table_int(&ui->snapshots, i, "snapshot", 0) != ui->snapshot)
        i++;
    return i;
}

int64_t hx_ui_other(const struct hx_ui *ui)
{
    size_t row = hx_ui_snapshot_row(ui);
    if (ui->marked && ui->marked != ui->snapshot)
        return ui->marked;
    return row > 0 && row < ui->snapshots.n_rows
               ? hx_table_int(&ui->snapshots, row - 1, "snapshot", 0)
               : 0;
}

void hx_ui_set_snapshot(struct hx_ui *ui, int64_t snapshot)
{
    ui->snapshot = snapshot;
    ui->follow = hx_ui_snapshot_row(ui) + 1 == ui->snapshots.n_rows;
    hx_ui_complain(ui, hx_ui_show_instead(ui));
    hx_ui_revise(ui);
}

struct snapping {
    struct hx_job job;
    const struct hx_ui_options *options;
    struct hx_snapshot *taken;
    int64_t number;
    bool asked, unnamed;
    struct hx_choice choice; /* as it was when this began */
};

/* Lists go on meanwhile: only the writing needs the store. */
static hx_error *snapping_prepare(struct hx_job *job, const struct hx_progress *progress)
{
    struct snapping *snapping = (struct snapping *)job;
    HX_TRY(snapping->options->take(snapping->options->context, progress, &snapping->taken));
    size_t missing; /* the notes of the snapshot say which */
    return hx_choice_name(&snapping->choice, snapping->taken, &missing);
}

static hx_error *snapping_run(struct hx_job *job, hx_store *store,
                              const struct hx_progress *progress)
{
    struct snapping *snapping = (struct snapping *)job;
    struct hx_analysis analysis;
    snapping->unnamed = snapping->taken->unnamed;
    hx_choice_analysis(&snapping->choice, snapping->options->analysis, &analysis);
    if (!snapping->options->add)
        return hx_store_add(store, snapping->taken, &analysis, progress, &snapping->number);
    return snapping->options->add(snapping->options->context, store, snapping->taken, &analysis,
                                  progress, &snapping->number);
}

static void snapping_done(struct hx_job *job, struct hx_ui *ui, hx_error *error)
{
    const struct snapping *snapping = (const struct snapping *)job;
    bool failed_before = ui->snap_failed;
    ui->snapping = false;
    ui->snap_failed = error != NULL;
    if (error) {
        ui->gone |= error->kind == HX_E_GONE;
        if (error->kind == HX_E_GONE && ui->next_snap_ns)
            ui->next_snap_ns = 0; /* nobody is left to look at */
        hx_ui_complain(ui, error);
        return;
    }
    hx_ui_is_revised(ui, snapping->number, &snapping->choice);
    if (snapping->unnamed)
        hx_ui_is_unnamed(ui, snapping->number);
    if (snapping->asked || failed_before) /* so that no old error stays on the last line */
        ui->announce = snapping->number;
    hx_ui_complain(ui, hx_ui_load_snapshots(ui));
}

static void snapping_destroy(struct hx_job *job)
{
    struct snapping *snapping = (struct snapping *)job;
    if (snapping->taken && snapping->options->drop)
        snapping->options->drop(snapping->options->context);
    hx_snapshot_destroy(snapping->taken);
    hx_choice_deinit(&snapping->choice);
    free(snapping);
}

hx_error *hx_ui_snap(struct hx_ui *ui, bool asked)
{
    if (!ui->options->take)
        return hx_error_new(HX_E_FAIL, "snapshot", "`heapx attach PID` looks at a live one",
                            "there is no live process behind this store");
    if (ui->snapping)
        return hx_error_new(HX_E_BUSY, "snapshot", NULL, "one is under way already");
    struct snapping *snapping = calloc(1, sizeof *snapping);
    hx_error *error = snapping ? hx_choice_copy(ui->choice, &snapping->choice) : hx_error_nomem();
    if (error) {
        free(snapping);
        return error;
    }
    snapping->job = (struct hx_job){.what = "snapshot",
                                    .lane = HX_LANE_WORK,
                                    .prepare = snapping_prepare,
                                    .run = snapping_run,
                                    .done = snapping_done,
                                    .destroy = snapping_destroy};
    snapping->options = ui->options;
    snapping->asked = asked;
    ui->snapping = true;
    if (asked)
        hx_ui_put_off_names(ui);
    hx_jobs_start(ui->jobs, &snapping->job);
    return NULL;
}

void hx_ui_tick(struct hx_ui *ui)
{
    uint64_t now = hx_now_ns();
    if (!ui->next_snap_ns || now < ui->next_snap_ns)
        return;
    /* A beat that comes while one is under way is left out, not made up for. */
    while (ui->next_snap_ns <= now)
        ui->next_snap_ns += ui->options->every_ns;
    if (!ui->snapping)
        hx_ui_complain(ui, hx_ui_snap(ui, false));
}
