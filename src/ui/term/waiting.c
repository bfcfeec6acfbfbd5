/* waiting.c - keys that are typed ahead.
 *
 * A key that is about a row, while the row is still on its way, is kept, and with it all that come
 * behind it: they act in their order once the row is there. What ends or draws is not kept. Ctrl-C
 * throws away what waits; so does an Esc of somebody who has seen that it takes long. */
#include "ui/app.h"
#include "ui/command/prompt.h"
#include "ui/command/request.h"
#include "ui/command/requests.h"
#include "ui/job.h"
#include "ui/list/pane.h"

#include <string.h>

#define KEYS_MAX 256
/* An Esc that comes later than that was no longer typed ahead. */
#define AHEAD_NS 1000000000u

enum { CTRL_C = 3, ESC = 27 };

static bool is_command_key(int key, const char *command)
{
    const struct hx_request *request = hx_request_of_key(key);
    return request && strcmp(request->name, command) == 0;
}

/* These act on nothing that could be missing. */
static bool is_urgent(int key)
{
    return key == CTRL_C || key == hx_key_parse("Mouse", 5) || is_command_key(key, "redraw") ||
           is_command_key(key, "suspend") || is_command_key(key, "quit");
}

/* Enter in a line does what the line says. */
static enum hx_waits waits_of_line(const struct hx_ui *ui)
{
    const struct hx_request *request = NULL;
    if (ui->prompt->done != hx_command_run)
        return HX_WAITS_LIST;
    request = hx_command_request(hx_text_str(&ui->prompt->text));
    return request ? request->waits : HX_WAITS_NOW;
}

static enum hx_waits waits_of(const struct hx_ui *ui, const struct hx_waiting_key *key)
{
    if (ui->prompt->active)
        return !key->pasted && (key->key == '\r' || key->key == '\n') ? waits_of_line(ui)
                                                                      : HX_WAITS_NOW;
    const struct hx_request *request = key->pasted ? NULL : hx_request_of_key(key->key);
    return request ? request->waits : HX_WAITS_NOW;
}

static bool has_to_wait(struct hx_ui *ui, const struct hx_waiting_key *key)
{
    enum hx_waits waits = waits_of(ui, key);
    const struct hx_pane *pane = hx_ui_pane(ui);
    size_t row;
    if (waits >= HX_WAITS_SNAPSHOTS && !ui->snapshot && ui->listing)
        return true;
    if (waits >= HX_WAITS_LIST && pane->loading && (!pane->loaded || pane->stale))
        return true;
    if (waits >= HX_WAITS_ROW && pane->loading && !hx_pane_row(pane, &row))
        return true;
    return hx_jobs_leading(ui->jobs, waits);
}

static void act(struct hx_ui *ui, const struct hx_waiting_key *key)
{
    ui->term.input.pasted = key->pasted;
    hx_ui_key(ui, key->key);
}

void hx_ui_take_key(struct hx_ui *ui, int number)
{
    struct hx_waiting_key key = {number, ui->term.input.pasted};
    bool tired = number == ESC && ui->waiting.n && hx_now_ns() - ui->waiting_ns >= AHEAD_NS;
    if (!key.pasted && (number == CTRL_C || tired))
        ui->waiting.n = 0;
    else if (!(is_urgent(number) && !key.pasted && !ui->prompt->active) &&
             (ui->waiting.n || has_to_wait(ui, &key))) {
        if (!ui->waiting.n)
            ui->waiting_ns = hx_now_ns();
        if (ui->waiting.n == KEYS_MAX || !hx_vec_push(&ui->waiting, key))
            hx_ui_say(ui, "too many keys wait; Ctrl-C forgets them");
        return;
    }
    act(ui, &key);
}

bool hx_ui_take_waiting(struct hx_ui *ui)
{
    if (!ui->waiting.n || has_to_wait(ui, &ui->waiting.v[0]))
        return false;
    struct hx_waiting_key key = ui->waiting.v[0];
    ui->waiting.n--;
    memmove(ui->waiting.v, ui->waiting.v + 1, ui->waiting.n * sizeof *ui->waiting.v);
    act(ui, &key);
    return true;
}

bool hx_ui_forget_escape(struct hx_ui *ui)
{
    if (!ui->waiting.n || ui->waiting.v[ui->waiting.n - 1].key != ESC)
        return false;
    ui->waiting.n--;
    return true;
}
