/* ui.c - the explorer from start to end: panes, messages, the run itself. */
#include "ui/ui.h"

#include "ui/analysis.h"
#include "ui/app.h"
#include "ui/command/prompt.h"
#include "ui/data/difference.h"
#include "ui/job.h"
#include "ui/list/pane.h"
#include "ui/list/sql_reply.h"
#include "ui/ui_options.h"

#include <errno.h>
#include <string.h>
#include <time.h>

#define LOG_MAX  200
#define OPEN_MAX 100

struct hx_pane *hx_ui_find_pane(struct hx_ui *ui, uint64_t serial)
{
    for (size_t i = 0; i < HX_SCREENS; i++)
        if (ui->base[i] && ui->base[i]->serial == serial)
            return ui->base[i];
    for (size_t i = 1; i < ui->open.n; i++)
        if (ui->open.v[i]->serial == serial)
            return ui->open.v[i];
    return NULL;
}

/* Forgets the panes from index `from` on. */
static void drop_panes_from(struct hx_ui *ui, size_t from)
{
    while (ui->open.n > from)
        hx_pane_destroy(ui->open.v[--ui->open.n]);
}

static hx_error *base_pane(struct hx_ui *ui, const struct hx_screen *screen, struct hx_pane **ret)
{
    size_t number = 0;
    while (number < HX_SCREENS && hx_screens[number] != screen)
        number++;
    if (!ui->base[number])
        HX_TRY(hx_pane_create(ui, screen, &ui->base[number]));
    *ret = ui->base[number];
    return NULL;
}

hx_error *hx_ui_show(struct hx_ui *ui, const struct hx_screen *screen)
{
    struct hx_pane *base;
    HX_TRY(base_pane(ui, hx_ui_stands_for(ui, screen), &base));
    HX_NEED(hx_vec_reserve(&ui->open, 1));
    drop_panes_from(ui, 1);
    ui->open.v[0] = base;
    ui->open.n = 1;
    ui->at = 0;
    ui->shown = screen;
    hx_timeline_leave(ui);
    return NULL;
}

hx_error *hx_ui_show_instead(struct hx_ui *ui)
{
    return ui->open.n ? base_pane(ui, hx_ui_stands_for(ui, ui->shown), &ui->open.v[0]) : NULL;
}

hx_error *hx_ui_push(struct hx_ui *ui, struct hx_pane *pane)
{
    drop_panes_from(ui, ui->at + 1);
    if (ui->open.n >= OPEN_MAX) { /* the way back loses its oldest steps */
        hx_pane_destroy(ui->open.v[1]);
        memmove(ui->open.v + 1, ui->open.v + 2, (ui->open.n - 2) * sizeof *ui->open.v);
        ui->open.n--;
    }
    if (!hx_vec_reserve(&ui->open, ui->open.n + 1)) {
        hx_pane_destroy(pane);
        return hx_error_nomem();
    }
    ui->open.v[ui->open.n++] = pane;
    ui->at = ui->open.n - 1;
    hx_timeline_leave(ui);
    return NULL;
}

void hx_ui_leave_roots(struct hx_ui *ui, int64_t snapshot)
{
    size_t i = 1;
    while (i < ui->open.n &&
           (ui->open.v[i]->screen != &hx_screen_root || ui->open.v[i]->from != snapshot))
        i++;
    drop_panes_from(ui, i);
    if (ui->at >= i)
        ui->at = i - 1;
}

hx_error *hx_ui_open_object(struct hx_ui *ui, uint64_t address)
{
    struct hx_pane *pane;
    HX_TRY(hx_pane_create(ui, &hx_screen_object, &pane));
    pane->address = address;
    return hx_ui_push(ui, pane);
}

hx_error *hx_ui_open_of(struct hx_ui *ui, const struct hx_screen *screen, const struct hx_of *of)
{
    struct hx_pane *pane;
    HX_TRY(hx_pane_create(ui, screen, &pane));
    pane->subset = of->subset;
    pane->id = of->id;
    hx_error *error = hx_pane_set_text(pane, of->text);
    if (!error && of->more && !(pane->more = strdup(of->more)))
        error = hx_error_nomem();
    if (error) {
        hx_pane_destroy(pane);
        return error;
    }
    return hx_ui_push(ui, pane);
}

hx_error *hx_ui_open_objects(struct hx_ui *ui, struct hx_pane *pane, size_t row)
{
    struct hx_of of;
    HX_TRY(hx_difference_gone(pane, row));
    if (!pane->screen->of || !pane->screen->of(pane, row, &of))
        return hx_error_new(HX_E_ABSENT, "this row", "Enter opens it", "stands for no objects");
    return hx_ui_open_of(ui, &hx_screen_objects, &of);
}

hx_error *hx_ui_open_text(struct hx_ui *ui, const struct hx_screen *screen, const char *text,
                          int64_t id)
{
    struct hx_pane *pane;
    HX_TRY(hx_pane_create(ui, screen, &pane));
    pane->id = id;
    hx_error *error = hx_pane_set_text(pane, text);
    if (error) {
        hx_pane_destroy(pane);
        return error;
    }
    return hx_ui_push(ui, pane);
}

/* Keeps the message; one that is said again and again is one line. */
static void keep_message(struct hx_ui *ui)
{
    const char *text = hx_text_str(&ui->message);
    int64_t now = ui->term.script ? 0 : (int64_t)time(NULL);
    struct hx_said *last = ui->log.n ? &ui->log.v[ui->log.n - 1] : NULL;
    if (last && strcmp(last->text, text) == 0) {
        last->repeats++;
        last->at = now;
        return;
    }
    if (ui->log.n == LOG_MAX) {
        free(ui->log.v[0].text);
        memmove(ui->log.v, ui->log.v + 1, (ui->log.n - 1) * sizeof *ui->log.v);
        ui->log.n--;
    }
    char *copy = strdup(text);
    if (copy && !hx_vec_push(&ui->log, (struct hx_said){copy, now, ui->message_bad, 0}))
        free(copy);
}

void hx_ui_say(struct hx_ui *ui, const char *format, ...)
{
    HX_FREE char *line = NULL;
    va_list args;
    va_start(args, format);
    int n = vasprintf(&line, format, args);
    va_end(args);
    hx_text_clear(&ui->message);
    if (n < 0)
        line = NULL;
    else
        hx_text_escape(&ui->message, line, (size_t)n, !ui->term.utf8);
    ui->message_bad = false;
    keep_message(ui);
}

void hx_ui_complain(struct hx_ui *ui, hx_error *error)
{
    if (!error)
        return;
    char line[1024];
    hx_error_line(error, line, sizeof line);
    hx_text_clear(&ui->message);
    hx_text_puts(&ui->message, line);
    ui->message_bad = error->kind != HX_E_CANCEL;
    keep_message(ui);
    hx_error_free(error);
}

static void end_ui(struct hx_ui *ui)
{
    hx_term_end(&ui->term); /* at once; what is under way may take a moment to end */
    hx_jobs_destroy(ui->jobs);
    hx_snapshot_destroy(ui->graph);
    hx_backwards_destroy(ui->backwards);
    hx_choice_deinit(ui->choice);
    hx_vec_free(&ui->revisions);
    drop_panes_from(ui, 1);
    free(ui->open.v);
    for (size_t i = 0; i < HX_SCREENS; i++)
        hx_pane_destroy(ui->base[i]);
    for (size_t i = 0; i < ui->log.n; i++)
        free(ui->log.v[i].text);
    free(ui->log.v);
    hx_table_deinit(&ui->snapshots);
    hx_text_free(&ui->message);
    hx_prompt_deinit(ui->prompt);
    for (size_t i = 0; i < ui->replies.n; i++)
        hx_reply_destroy(ui->replies.v[i]);
    hx_vec_free(&ui->replies);
    free(ui->statement);
    hx_vec_free(&ui->waiting);
    free(ui->pattern);
    free(ui->draft);
}

static hx_error *begin_ui(struct hx_ui *ui, const char *script)
{
    const struct hx_ui_options *options = ui->options;
    HX_TRY(hx_ui_begin_choice(ui));
    HX_TRY(hx_term_start(&ui->term, script != NULL, options->color));
    HX_TRY(hx_jobs_create(options->store, options->store, &ui->jobs));
    if (options->take && options->every_ns && !script)
        ui->next_snap_ns = hx_now_ns() + options->every_ns;
    HX_TRY(hx_ui_show(ui, &hx_screen_timeline));
    if (options->news)
        hx_ui_say(ui, "%s", options->news);
    return hx_ui_load_snapshots(ui);
}

hx_error *hx_ui_run(const struct hx_ui_options *options, int64_t *ret_left)
{
    const char *script = options->script ? options->script : getenv("HEAPX_SCRIPT");
    struct hx_prompt prompt = {0};
    struct hx_choice choice = {0};
    struct hx_ui ui = {.options = options, .prompt = &prompt, .choice = &choice, .follow = true};
    if (script && !*script)
        script = NULL;
    hx_error *error = begin_ui(&ui, script);
    if (!error && script)
        error = hx_ui_script(&ui, script);
    else if (!error)
        error = hx_ui_loop(&ui);
    *ret_left = ui.killed || (error && !script) ? hx_ui_unsaved(&ui) : 0;
    if (!error && ui.killed)
        error = hx_error_cancelled("explorer");
    end_ui(&ui);
    return error;
}
