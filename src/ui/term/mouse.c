/* mouse.c - the wheel moves, a click chooses, one more opens. */
#include "ui/app.h"
#include "ui/command/prompt.h"
#include "ui/command/requests.h"
#include "ui/list/pane.h"

#include <string.h>

/* Two clicks on one place of a picture within that time are a double click. */
#define DOUBLE_NS  400000000u
#define WHEEL_ROWS 3

static void click_list(struct hx_ui *ui, struct hx_pane *pane, int64_t row)
{
    bool again = ui->click_pane == pane->serial && ui->click_row == row && pane->cursor == row;
    hx_pane_go(pane, row);
    ui->click_pane = pane->serial;
    ui->click_row = again ? -1 : row;
    if (again)
        hx_ui_complain(ui, hx_do_open(ui, ""));
}

/* A heading sorts by its column; that of the order turns it around. */
static void click_heading(struct hx_ui *ui, const struct hx_pane *pane, int x)
{
    const struct hx_column *column = hx_pane_column_at(pane, x);
    if (!column)
        return;
    if (pane->sort && strcmp(pane->sort, column->name) == 0)
        hx_ui_complain(ui, hx_do_reverse(ui, ""));
    else
        hx_ui_complain(ui, hx_do_sort(ui, column->name));
}

static void click_row_at(struct hx_ui *ui, struct hx_pane *pane, int y, int x)
{
    const struct hx_picture *picture = pane->screen->picture;
    const struct hx_screen *screen = y == 1 ? hx_ui_screen_at(ui, x) : NULL;
    uint64_t now = hx_now_ns();
    bool again = ui->click_line == y && ui->click_column == x && now - ui->click_ns < DOUBLE_NS;
    ui->click_line = y;
    ui->click_column = x;
    ui->click_ns = again ? 0 : now;
    int64_t row = pane->top + y - pane->first_line;
    if (y >= pane->first_line && y < pane->first_line + pane->height && row < pane->total) {
        click_list(ui, pane, row);
        return;
    }
    ui->click_row = -1;
    if (screen)
        hx_ui_complain(ui, hx_ui_show(ui, screen));
    else if (picture && picture->click && y >= pane->picture_line &&
             y < pane->picture_line + pane->picture_height)
        hx_ui_complain(ui, picture->click(ui, pane, y - pane->picture_line, x, again));
    else if (y == pane->first_line - 1 && pane->height > 0)
        click_heading(ui, pane, x);
}

void hx_ui_mouse(struct hx_ui *ui)
{
    struct hx_pane *pane = hx_ui_pane(ui);
    int y = 0, x = 0;
    enum hx_mouse what = hx_term_mouse(&ui->term, &y, &x);
    if (what == HX_MOUSE_UP || what == HX_MOUSE_DOWN)
        hx_pane_go(pane, pane->cursor + (what == HX_MOUSE_UP ? -WHEEL_ROWS : WHEEL_ROWS));
    /* What is being typed is about the list that is shown. */
    if (what == HX_MOUSE_CLICK && !ui->prompt->active && y < hx_term_lines() - 1)
        click_row_at(ui, pane, y, x);
}
