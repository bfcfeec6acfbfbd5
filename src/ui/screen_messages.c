/* screen_messages.c - what was said on the last line. */
#include "ui/app.h"

#include <string.h>

static const struct hx_column columns[] = {
    {"message", NULL, HX_AS_SAFE, 0, 0, NULL, NULL},
    {0},
};

static hx_error *fill(struct hx_ui *ui, struct hx_pane *pane)
{
    static const char *const names[] = {"message", NULL};
    struct hx_table rows;
    HX_TRY(hx_table_begin(&rows, names));
    for (size_t i = 0; i < ui->log.n; i++) {
        struct hx_cell *cell;
        hx_error *error = hx_table_add(&rows, &cell);
        if (!error)
            error = hx_cell_set_text(cell, ui->log.v[i], strlen(ui->log.v[i]));
        if (error) {
            hx_table_deinit(&rows);
            return error;
        }
    }
    hx_pane_set_rows(pane, &rows);
    hx_pane_go(pane, pane->total - 1);
    return NULL;
}

static void head(const struct hx_ui *ui, const struct hx_pane *pane, struct hx_text *ret)
{
    (void)ui;
    (void)pane;
    hx_text_puts(ret, "Messages, newest last");
}

const struct hx_screen hx_screen_messages = {
    .name = "messages",
    .about = "what was said on the last line",
    .digit = -1,
    .columns = columns,
    .fill = fill,
    .head = head,
    .empty = "Nothing was said yet.",
};
