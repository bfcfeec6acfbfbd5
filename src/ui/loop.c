/* loop.c - keys in, screens out, and what happens in between. */
#include "ui/app.h"
#include "ui/command/prompt.h"
#include "ui/command/request.h"
#include "ui/command/requests.h"
#include "ui/job.h"
#include "ui/list/pane.h"
#include "ui/ui_options.h"

#include <errno.h>
#include <poll.h>

/* How long a key waits for rows, so that small stores never show a half-filled screen. */
#define SETTLE_MS 40
/* Progress is drawn anew at least this often while something is under way. */
#define BUSY_MS 200
/* So are the figures of a recorder. */
#define RECORDING_MS 1000
/* So long nobody has pressed a key when rows of other snapshots are read ahead. */
#define IDLE_MS 100
/* Many keys at once (a key that is held down) are drawn at least this often. */
#define TOGETHER_MS 30

/* Pasted text is no command. */
static void ignore_paste(struct hx_ui *ui)
{
    hx_ui_say(ui, "pasted text is taken only where text is typed: / : ; and f");
}

void hx_ui_key(struct hx_ui *ui, int key)
{
    hx_text_clear(&ui->message);
    ui->message_bad = false;
    if (key == hx_key_parse("Mouse", 5)) {
        hx_ui_mouse(ui);
        return;
    }
    if (ui->prompt->active) {
        hx_prompt_key(ui, key, ui->term.input.pasted);
        return;
    }
    if (ui->term.input.pasted) {
        ignore_paste(ui);
        return;
    }
    if (key >= '0' && key <= '9') {
        hx_ui_complain(ui, hx_ui_show(ui, hx_screen_by_digit(key - '0')));
        return;
    }
    const struct hx_request *request = hx_request_of_key(key);
    if (request)
        hx_ui_complain(ui, request->run(ui, ""));
    else if (key > 32 && key < 127)
        hx_ui_say(ui, "%c does nothing here; ? shows what does", key);
    else
        hx_ui_say(ui, "this key does nothing here; ? shows what does");
}

/* An Esc may be the beginning of a key whose rest comes late: it is answered at once, and taken
 * back then. */
static void take_key(struct hx_ui *ui, int key)
{
    bool late = ui->term.input.late, known = key != HX_KEY_UNKNOWN;
    if (late && ui->escaped.valid && hx_ui_forget_escape(ui))
        ui->escaped.valid = false;
    if (late && ui->escaped.valid && ui->escaped.open == ui->open.n) {
        ui->at = ui->escaped.at;
        ui->prompt->active = ui->escaped.prompt;
    }
    ui->escaped.valid = key == 27;
    ui->escaped.at = ui->at;
    ui->escaped.open = ui->open.n;
    ui->escaped.prompt = ui->prompt->active;
    if (!late || known)
        hx_ui_take_key(ui, key);
}

static void take_ended(struct hx_ui *ui)
{
    for (struct hx_job *job; (job = hx_jobs_ended(ui->jobs));) {
        hx_error *error = hx_steal(job->error);
        if (job->told)
            ui->worked_ns = hx_now_ns();
        job->done(job, ui, error);
        job->destroy(job);
    }
}

void hx_ui_settle(struct hx_ui *ui, int ms)
{
    uint64_t end = hx_now_ns() + (uint64_t)(ms < 0 ? 0 : ms) * 1000000;
    for (;;) {
        take_ended(ui);
        hx_pane_update(ui, hx_ui_pane(ui));
        bool busy = hx_jobs_busy(ui->jobs, HX_LANE_READ) ||
                    (ms < 0 && hx_jobs_busy(ui->jobs, HX_LANE_WORK));
        uint64_t now = hx_now_ns();
        if (!busy || (ms >= 0 && now >= end))
            return;
        struct pollfd fd = {.fd = hx_jobs_fd(ui->jobs), .events = POLLIN};
        poll(&fd, 1, ms < 0 ? 100 : (int)((end - now) / 1000000) + 1);
    }
}

static int wait_ms(struct hx_ui *ui)
{
    bool busy = hx_jobs_busy(ui->jobs, HX_LANE_READ) || hx_jobs_busy(ui->jobs, HX_LANE_WORK);
    int ms = busy ? BUSY_MS : ui->options->recording ? RECORDING_MS : -1;
    if (hx_pane_wants_beside(ui, hx_ui_pane(ui)))
        ms = IDLE_MS;
    uint64_t now = hx_now_ns();
    int key = hx_input_wait_ms(&ui->term.input, now);
    if (key >= 0 && (ms < 0 || key < ms))
        ms = key;
    if (ui->next_snap_ns) {
        uint64_t left = ui->next_snap_ns > now ? (ui->next_snap_ns - now) / 1000000 + 1 : 0;
        if (ms < 0 || left < (uint64_t)ms)
            ms = left > 60000 ? 60000 : (int)left;
    }
    return ms;
}

static void signals(struct hx_ui *ui)
{
    unsigned which = hx_term_signals();
    if (which & HX_TERM_KILLED)
        ui->quit = ui->killed = true;
    else if (which & HX_TERM_STOP)
        hx_term_suspend(&ui->term, true);
    else if (which & HX_TERM_CONT)
        hx_term_resume(&ui->term);
    else if (which & HX_TERM_RESIZED)
        hx_term_resize(&ui->term);
}

/* Those whose row has come. */
static void take_waiting(struct hx_ui *ui)
{
    while (!ui->quit && hx_ui_take_waiting(ui))
        hx_ui_settle(ui, SETTLE_MS);
}

/* Keys that came together are answered together, unless that takes long. */
static void take_keys(struct hx_ui *ui)
{
    uint64_t drawn = hx_now_ns();
    for (int key; !ui->quit && hx_term_key(&ui->term, &key);) {
        take_key(ui, key);
        signals(ui);
        if (!ui->quit)
            hx_ui_settle(ui, SETTLE_MS);
        take_waiting(ui);
        if (!ui->quit && hx_now_ns() - drawn > TOGETHER_MS * 1000000) {
            hx_ui_draw(ui);
            drawn = hx_now_ns();
        }
    }
}

hx_error *hx_ui_loop(struct hx_ui *ui)
{
    hx_ui_settle(ui, SETTLE_MS);
    while (!ui->quit) {
        hx_ui_draw(ui);
        struct pollfd fds[] = {{.fd = STDIN_FILENO, .events = POLLIN},
                               {.fd = hx_term_signal_fd(), .events = POLLIN},
                               {.fd = hx_jobs_fd(ui->jobs), .events = POLLIN}};
        const uint64_t since = hx_now_ns();
        const int ready = poll(fds, 3, wait_ms(ui));
        if (ready < 0 && errno != EINTR)
            return hx_error_os(errno, "explorer", "poll");
        if (!ready && hx_now_ns() - since >= IDLE_MS * 1000000 &&
            hx_pane_wants_beside(ui, hx_ui_pane(ui)))
            hx_pane_look_beside(ui, hx_ui_pane(ui));
        signals(ui);
        if (!ui->quit && !hx_term_read(&ui->term))
            ui->quit = ui->killed = true; /* the terminal is gone */
        hx_ui_tick(ui);
        take_keys(ui);
        if (!ui->quit)
            hx_ui_settle(ui, 0);
        take_waiting(ui);
    }
    return NULL;
}
