/* screen_messages.c - what was said on the last line. */
#include "ui/app.h"
#include "ui/list/pane.h"

#include <string.h>
#include <time.h>

static const struct hx_column columns[] = {
    {"time", NULL, HX_AS_SAFE, 8, 2, NULL, NULL},
    {"kind", "", HX_AS_SAFE, 5, 1, NULL, NULL},
    {"message", NULL, HX_AS_SAFE, 0, 0, NULL, NULL},
    {0},
};

static hx_error *add_message_row(struct hx_table *rows, const struct hx_said *said)
{
    struct hx_cell *cell;
    struct hx_text text = {0};
    struct tm tm;
    char clock[16];
    time_t at = (time_t)said->at;
    HX_TRY(hx_table_add(rows, &cell));
    if (at && localtime_r(&at, &tm) && strftime(clock, sizeof clock, "%H:%M:%S", &tm))
        HX_TRY(hx_cell_set_text(&cell[0], clock, strlen(clock)));
    HX_TRY(hx_cell_set_text(&cell[1], said->bad ? "ERROR" : "", said->bad ? 5 : 0));
    hx_text_puts(&text, said->text);
    if (said->repeats)
        hx_text_putf(&text, " (%llu times)", (unsigned long long)said->repeats + 1);
    hx_error *error =
        text.failed ? hx_error_nomem() : hx_cell_set_text(&cell[2], hx_text_str(&text), text.n);
    hx_text_free(&text);
    return error;
}

static hx_error *fill_messages(struct hx_ui *ui, struct hx_pane *pane)
{
    static const char *const names[] = {"time", "kind", "message", NULL};
    struct hx_table rows;
    bool at_end = pane->cursor + 1 >= pane->total;
    HX_TRY(hx_table_begin(&rows, names));
    for (size_t i = 0; i < ui->log.n; i++) {
        hx_error *error = add_message_row(&rows, &ui->log.v[i]);
        if (error) {
            hx_table_deinit(&rows);
            return error;
        }
    }
    hx_pane_set_rows(pane, &rows);
    if (at_end)
        hx_pane_go(pane, pane->total - 1);
    return NULL;
}

static void messages_title(const struct hx_ui *ui, const struct hx_pane *pane, struct hx_text *ret)
{
    size_t bad = 0;
    (void)pane;
    for (size_t i = 0; i < ui->log.n; i++)
        bad += ui->log.v[i].bad;
    hx_text_puts(ret, "Messages, newest last");
    if (bad)
        hx_text_putf(ret, "; %zu error%s", bad, bad == 1 ? "" : "s");
    hx_text_puts(ret, " (Enter: a long one whole)");
}

const struct hx_screen hx_screen_messages = {
    .name = "messages",
    .about = "what was said on the last line",
    .digit = -1,
    .columns = columns,
    .fill = fill_messages,
    .head = messages_title,
    .empty = "Nothing was said yet.",
};
