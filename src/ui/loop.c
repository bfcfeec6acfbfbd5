/* loop.c - keys in, screens out, and what happens in between. */
#include "ui/app.h"
#include "ui/request.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <string.h>
#include <wchar.h>

/* How long a key waits for rows, so that small stores never show a half-filled screen. */
#define SETTLE_MS 40
/* Progress is drawn anew at least this often while something is under way. */
#define BUSY_MS 200
/* So are the figures of a recorder. */
#define RECORDING_MS 1000

void hx_ui_prompt(struct hx_ui *ui, const char *label, const char *text,
                  hx_error *(*done)(struct hx_ui *, const char *))
{
    ui->prompt.active = true;
    ui->prompt.label = label;
    ui->prompt.done = done;
    hx_text_clear(&ui->prompt.text);
    hx_text_puts(&ui->prompt.text, text);
}

static void prompt_delete(struct hx_text *text)
{
    if (!text->n)
        return;
    do /* a whole character, if it has several bytes */
        text->n--;
    while (text->n && ((unsigned char)text->s[text->n] & 0xc0) == 0x80);
    text->s[text->n] = 0;
}

/* Every key is text here, but those that end or edit. */
static void prompt_key(struct hx_ui *ui, int key)
{
    struct hx_prompt *prompt = &ui->prompt;
    if (key == '\r' || key == '\n') {
        struct hx_text text = prompt->text;
        prompt->text = (struct hx_text){0};
        prompt->active = false;
        hx_ui_complain(ui, prompt->done(ui, hx_text_str(&text)));
        hx_text_free(&text);
    } else if (key == 27 || key == 3) {
        prompt->active = false;
    } else if (key == 8 || key == 127 || key == hx_key_parse("Backspace", 9)) {
        if (!prompt->text.n)
            prompt->active = false;
        prompt_delete(&prompt->text);
    } else if (key == 21) { /* Ctrl-U */
        hx_text_clear(&prompt->text);
    } else if (key == 23) { /* Ctrl-W */
        while (prompt->text.n && prompt->text.s[prompt->text.n - 1] == ' ')
            prompt_delete(&prompt->text);
        while (prompt->text.n && prompt->text.s[prompt->text.n - 1] != ' ')
            prompt_delete(&prompt->text);
    } else if (key >= 32 && prompt->text.n < 4096) {
        char bytes[MB_LEN_MAX];
        mbstate_t state = {0};
        size_t n = wcrtomb(bytes, (wchar_t)key, &state);
        if (n != (size_t)-1)
            hx_text_putn(&prompt->text, bytes, n);
    }
}

static void mouse(struct hx_ui *ui)
{
    int row = 0, column = 0;
    struct hx_pane *pane = hx_ui_pane(ui);
    enum hx_mouse what = hx_term_mouse(&row, &column);
    if (what == HX_MOUSE_UP || what == HX_MOUSE_DOWN)
        hx_pane_go(pane, pane->cursor + (what == HX_MOUSE_UP ? -3 : 3));
    uint64_t now = hx_now_ns();
    bool again = what == HX_MOUSE_DOUBLE ||
                 (ui->last_click_row == row && now - ui->last_click_ns < 400000000);
    const struct hx_picture *picture = pane->screen->picture;
    if ((what == HX_MOUSE_CLICK || what == HX_MOUSE_DOUBLE) && picture && picture->click &&
        row >= pane->picture_line && row < pane->picture_line + pane->picture_height) {
        ui->last_click_row = row;
        ui->last_click_ns = now;
        hx_ui_complain(ui, picture->click(ui, pane, row - pane->picture_line, column, again));
        return;
    }
    int64_t target = pane->top + row - pane->first_line;
    if ((what != HX_MOUSE_CLICK && what != HX_MOUSE_DOUBLE) || row < pane->first_line ||
        row >= pane->first_line + pane->height || target >= pane->total)
        return;
    hx_pane_go(pane, target);
    if (again)
        hx_ui_complain(ui, hx_command_run(ui, "open"));
    ui->last_click_row = row;
    ui->last_click_ns = now;
}

void hx_ui_key(struct hx_ui *ui, int key)
{
    hx_text_clear(&ui->message);
    ui->message_bad = false;
    if (key == hx_key_parse("Mouse", 5)) {
        mouse(ui);
        return;
    }
    if (ui->prompt.active) {
        prompt_key(ui, key);
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
    else if (key > 0)
        hx_ui_say(ui, "this key does nothing here; ? shows what does");
}

static void take_ended(struct hx_ui *ui)
{
    for (struct hx_job *job; (job = hx_jobs_ended(ui->jobs));) {
        hx_error *error = hx_steal(job->error);
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
    if (ui->next_snap_ns) {
        uint64_t now = hx_now_ns();
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
    else if (which & (HX_TERM_RESIZED | HX_TERM_CONT))
        hx_term_resize(&ui->term);
}

hx_error *hx_ui_loop(struct hx_ui *ui)
{
    hx_ui_settle(ui, SETTLE_MS);
    while (!ui->quit) {
        hx_ui_draw(ui);
        struct pollfd fds[] = {{.fd = STDIN_FILENO, .events = POLLIN},
                               {.fd = hx_term_signal_fd(), .events = POLLIN},
                               {.fd = hx_jobs_fd(ui->jobs), .events = POLLIN}};
        if (poll(fds, 3, wait_ms(ui)) < 0 && errno != EINTR)
            return hx_error_os(errno, "explorer", "poll");
        signals(ui);
        hx_ui_tick(ui);
        bool any = false;
        for (int key; !ui->quit && hx_term_key(&key); any = true) {
            hx_ui_key(ui, key);
            if (!ui->quit)
                hx_ui_settle(ui, SETTLE_MS);
        }
        if (!any && fds[0].revents & (POLLHUP | POLLERR | POLLNVAL))
            ui->quit = ui->killed = true; /* the terminal is gone */
        if (!ui->quit)
            hx_ui_settle(ui, 0);
    }
    return NULL;
}
