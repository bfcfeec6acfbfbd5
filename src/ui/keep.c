/* keep.c - snapshots that only a private temporary store holds: into a file, and the question
 * before they are thrown away. */
#include "ui/app.h"
#include "ui/command/complete.h"
#include "ui/command/prompt.h"
#include "ui/job.h"
#include "ui/ui_options.h"

#include <errno.h>
#include <string.h>
#include <time.h>

int64_t hx_ui_unsaved(const struct hx_ui *ui)
{
    bool unlisted = ui->listing && !ui->snapshots.n_rows; /* the first one, which is there */
    int64_t n = ui->options->precious && unlisted;
    for (size_t i = 0; ui->options->precious && i < ui->snapshots.n_rows; i++)
        n += hx_table_int(&ui->snapshots, i, "snapshot", 0) > ui->saved;
    return n;
}

struct saving {
    struct hx_job job;
    char *path;
    int64_t last; /* the last snapshot that went over */
    bool leave;
};

static hx_error *saving_run(struct hx_job *job, hx_store *store, const struct hx_progress *progress)
{
    struct saving *saving = (struct saving *)job;
    HX_TRY(hx_store_resolve(store, "last", &saving->last));
    return hx_store_save(store, saving->path, progress);
}

static void saving_done(struct hx_job *job, struct hx_ui *ui, hx_error *error)
{
    struct saving *saving = (struct saving *)job;
    if (error) {
        hx_ui_complain(ui, error);
        return;
    }
    ui->saved = saving->last;
    ui->quit |= saving->leave;
    hx_ui_say(ui, "the snapshots up to %lld are kept in %s", (long long)saving->last, saving->path);
}

static void saving_destroy(struct hx_job *job)
{
    struct saving *saving = (struct saving *)job;
    free(saving->path);
    free(saving);
}

hx_error *hx_ui_save(struct hx_ui *ui, const char *path, bool leave)
{
    if (!hx_store_is_temporary(ui->options->store))
        return hx_error_new(HX_E_FAIL, "save", "copy that file", "the snapshots are in %s already",
                            ui->options->title);
    struct saving *saving = calloc(1, sizeof *saving);
    if (!saving || !(saving->path = strdup(path))) {
        free(saving);
        return hx_error_nomem();
    }
    saving->job = (struct hx_job){.what = "saving",
                                  .lane = HX_LANE_WORK,
                                  .run = saving_run,
                                  .done = saving_done,
                                  .destroy = saving_destroy};
    saving->leave = leave;
    hx_jobs_start(ui->jobs, &saving->job);
    return NULL;
}

/* --- before they are thrown away --- */

static hx_error *save_and_leave(struct hx_ui *ui, const char *path)
{
    return *path ? hx_ui_save(ui, path, true) : NULL;
}

static void ask_where(struct hx_ui *ui)
{
    char name[64];
    time_t now = time(NULL);
    struct tm tm;
    localtime_r(&now, &tm);
    strftime(name, sizeof name, "heapx-%Y%m%d-%H%M%S.db", &tm);
    hx_ui_prompt(ui, "save to: ", name, save_and_leave);
    ui->prompt->complete = hx_complete_file;
}

/* Only these keys, and those that leave the question. */
static bool answer_keep(struct hx_ui *ui, int key)
{
    if (key == 's')
        ask_where(ui);
    else if (key == 'd')
        ui->quit = true;
    return key != 27 && key != 3 && key != 12 && key != 26;
}

static hx_error *nothing(struct hx_ui *ui, const char *text)
{
    (void)ui;
    (void)text;
    return NULL;
}

hx_error *hx_ui_leave(struct hx_ui *ui)
{
    long long n = hx_ui_unsaved(ui);
    if (!n) {
        ui->quit = true;
        return NULL;
    }
    if (hx_term_columns() >= 76)
        snprintf(ui->question, sizeof ui->question,
                 "%lld snapshot%s in no file: s saves, d throws away, Esc goes on ", n,
                 n == 1 ? " is" : "s are");
    else
        snprintf(ui->question, sizeof ui->question, "%lld unsaved: s save, d discard, Esc ", n);
    hx_ui_prompt(ui, ui->question, "", nothing);
    ui->prompt->key = answer_keep;
    return NULL;
}
