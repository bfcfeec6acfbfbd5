/* screen_help.c - help, made from the tables of requests and screens. */
#include "ui/app.h"
#include "ui/request.h"

#include <string.h>

static const struct hx_column columns[] = {
    {"keys", NULL, HX_AS_SAFE, 17, 0, NULL, NULL},
    {"help", "what it does", HX_AS_SAFE, 0, 0, NULL, NULL},
    {"command", NULL, HX_AS_SAFE, 22, 1, NULL, NULL},
    {0},
};

static hx_error *add(struct hx_table *rows, const char *keys, const char *help, const char *command)
{
    struct hx_cell *cell;
    HX_TRY(hx_table_add(rows, &cell));
    HX_TRY(hx_cell_set_text(&cell[0], keys, strlen(keys)));
    HX_TRY(hx_cell_set_text(&cell[1], help, strlen(help)));
    return hx_cell_set_text(&cell[2], command, strlen(command));
}

static hx_error *add_screens(struct hx_table *rows)
{
    HX_TRY(add(rows, "", "", ""));
    HX_TRY(add(rows, "-- All screens --", "", ""));
    for (size_t i = 0; i < HX_SCREENS; i++) {
        char digit[16] = "", command[64];
        if (hx_screens[i]->by_argument)
            continue;
        if (hx_screens[i]->digit >= 0)
            snprintf(digit, sizeof digit, "%d", hx_screens[i]->digit);
        snprintf(command, sizeof command, ":screen %s", hx_screens[i]->name);
        HX_TRY(add(rows, digit, hx_screens[i]->about, command));
    }
    return NULL;
}

static hx_error *add_requests(struct hx_table *rows)
{
    const char *group = "";
    for (const struct hx_request *request = hx_requests; request->name; request++) {
        char line[128];
        if (strcmp(group, request->group) != 0) {
            if (*group)
                HX_TRY(add(rows, "", "", ""));
            group = request->group;
            snprintf(line, sizeof line, "-- %s --", group);
            HX_TRY(add(rows, line, "", ""));
        }
        snprintf(line, sizeof line, ":%s %s", request->name, request->args);
        HX_TRY(add(rows, request->keys, request->help, line));
    }
    return NULL;
}

static hx_error *fill(struct hx_ui *ui, struct hx_pane *pane)
{
    static const char *const names[] = {"keys", "help", "command", NULL};
    struct hx_table rows;
    (void)ui;
    HX_TRY(hx_table_begin(&rows, names));
    hx_error *error = add_requests(&rows);
    if (!error)
        error = add_screens(&rows);
    if (error)
        hx_table_deinit(&rows);
    else
        hx_pane_set_rows(pane, &rows);
    return error;
}

static void head(const struct hx_ui *ui, const struct hx_pane *pane, struct hx_text *ret)
{
    (void)ui;
    (void)pane;
    hx_text_puts(ret, "Keys and commands (q goes back, / searches)");
}

/* Enter does what the line is about. */
static hx_error *open_row(struct hx_ui *ui, struct hx_pane *pane, size_t row)
{
    const char *command = hx_table_text(&pane->rows, row, "command");
    if (command[0] != ':')
        return NULL;
    hx_ui_prompt(ui, ":", command + 1, hx_command_run);
    return NULL;
}

const struct hx_screen hx_screen_help = {
    .name = "help",
    .about = "this help",
    .digit = -1,
    .columns = columns,
    .fill = fill,
    .head = head,
    .open = open_row,
};
