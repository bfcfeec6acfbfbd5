/* screen_help.c - help, made from the tables of requests and screens: first what the screen that it
 * was called on is about and the keys that mean something there, then everything. */
#include "ui/app.h"
#include "ui/command/complete.h"
#include "ui/command/request.h"
#include "ui/command/requests.h"
#include "ui/list/pane.h"

#include <ctype.h>
#include <string.h>

static const struct hx_column columns[] = {
    {"keys", NULL, HX_AS_SAFE, 16, 0, NULL, NULL},
    {"help", "what it does", HX_AS_SAFE, 0, 0, NULL, NULL},
    {"command", NULL, HX_AS_SAFE, 19, 1, NULL, NULL},
    {0},
};

/* The first key and what it does. */
static const struct hx_column narrow[] = {
    {"key", NULL, HX_AS_SAFE, 9, 0, NULL, NULL},
    {"help", "what it does", HX_AS_SAFE, 0, 0, NULL, NULL},
    {0},
};
#define NARROW 60

static hx_error *add_help_row(struct hx_table *rows, const char *keys, const char *help,
                              const char *command, const char *line)
{
    struct hx_cell *cell;
    HX_TRY(hx_table_add(rows, &cell));
    HX_TRY(hx_cell_set_text(&cell[0], keys, strlen(keys)));
    HX_TRY(hx_cell_set_text(&cell[1], help, strlen(help)));
    HX_TRY(hx_cell_set_text(&cell[2], command, strlen(command)));
    HX_TRY(hx_cell_set_text(&cell[3], line, strlen(line)));
    return hx_cell_set_text(&cell[4], keys, strcspn(keys, " "));
}

/* A line in capitals, after an empty one. */
static hx_error *add_heading(struct hx_table *rows, const char *heading)
{
    char line[80];
    size_t n = 0;
    for (; heading[n] && n + 1 < sizeof line; n++)
        line[n] = (char)toupper((unsigned char)heading[n]);
    line[n] = 0;
    if (rows->n_rows)
        HX_TRY(add_help_row(rows, "", "", "", ""));
    return add_help_row(rows, "", line, "", "");
}

static hx_error *add_request(struct hx_table *rows, const struct hx_request *request)
{
    char command[128];
    snprintf(command, sizeof command, ":%s %s", request->name, request->args);
    return add_help_row(rows, request->keys, request->help, command, request->name);
}

static hx_error *add_screen(struct hx_table *rows, const struct hx_screen *screen)
{
    char digit[16] = "", command[80];
    if (screen->digit >= 0)
        snprintf(digit, sizeof digit, "%d", screen->digit);
    snprintf(command, sizeof command, ":screen %s", screen->name);
    return add_help_row(rows, digit, screen->about, command, command + 1);
}

static hx_error *add_screens(struct hx_table *rows)
{
    HX_TRY(add_heading(rows, "All screens"));
    for (size_t i = 0; i < HX_SCREENS; i++)
        if (!hx_screens[i]->by_argument)
            HX_TRY(add_screen(rows, hx_screens[i]));
    return NULL;
}

static hx_error *add_requests(struct hx_table *rows)
{
    const char *group = "";
    for (const struct hx_request *request = hx_requests; request->name; request++) {
        if (strcmp(group, request->group) != 0) {
            group = request->group;
            HX_TRY(add_heading(rows, group));
        }
        HX_TRY(add_request(rows, request));
    }
    return NULL;
}

/* --- the screen that it was called on --- */

static bool any(const struct hx_pane *pane)
{
    (void)pane;
    return true;
}

static bool has_object(const struct hx_pane *pane)
{
    return pane->object || pane->screen->of || pane->screen == &hx_screen_object;
}

static bool has_why(const struct hx_pane *pane)
{
    return has_object(pane) || pane->screen->why;
}

static bool has_objects(const struct hx_pane *pane)
{
    return pane->screen->objects || pane->screen->of;
}

static bool is_tree(const struct hx_pane *pane)
{
    return pane->screen->tree;
}

static bool has_view(const struct hx_pane *pane)
{
    return pane->screen->view != NULL;
}

static bool has_differences(const struct hx_pane *pane)
{
    return pane->screen->differences;
}

static bool is_stored(const struct hx_pane *pane)
{
    return hx_screen_stored(pane->screen);
}

/* The keys that not every screen has, or that mean something else on each. */
static const struct {
    const char *command;
    bool (*holds)(const struct hx_pane *pane);
} own[] = {
    {"open", any},
    {"why", has_why},
    {"objects", has_objects},
    {"referrers", has_object},
    {"hex", has_object},
    {"stack", has_object},
    {"unfold", is_tree},
    {"fold", is_tree},
    {"unfold-all", is_tree},
    {"view", has_view},
    {"difference", has_differences},
    {"sort-right", is_stored},
    {"filter", any},
    {"search", any},
    {"details", any},
};

static hx_error *add_screen_keys(struct hx_table *rows, const struct hx_pane *pane)
{
    char heading[80];
    snprintf(heading, sizeof heading, "This screen: %s", pane->screen->name);
    HX_TRY(add_heading(rows, heading));
    HX_TRY(add_help_row(rows, "", pane->screen->about, "", ""));
    for (size_t i = 0; i < sizeof own / sizeof *own; i++)
        if (own[i].holds(pane))
            HX_TRY(add_request(rows, hx_request_find(own[i].command, strlen(own[i].command))));
    return NULL;
}

/* --- the screen --- */

static hx_error *fill_help(struct hx_ui *ui, struct hx_pane *pane)
{
    static const char *const names[] = {"keys", "help", "command", "line", "key", NULL};
    struct hx_table rows;
    HX_TRY(hx_table_begin(&rows, names));
    hx_error *error = NULL;
    if (ui->at && pane == hx_ui_pane(ui))
        error = add_screen_keys(&rows, ui->open.v[ui->at - 1]);
    if (!error)
        error = add_requests(&rows);
    if (!error)
        error = add_screens(&rows);
    if (error)
        hx_table_deinit(&rows);
    else
        hx_pane_set_rows(pane, &rows);
    return error;
}

static void lay_out_help(const struct hx_ui *ui, struct hx_pane *pane, int width)
{
    (void)ui;
    pane->columns = width < NARROW ? narrow : columns;
}

static void help_title(const struct hx_ui *ui, const struct hx_pane *pane, struct hx_text *ret)
{
    (void)ui;
    (void)pane;
    hx_text_puts(ret, "Keys, commands: Enter runs, / finds, q leaves");
}

/* Enter does what the line is about, where help was called. */
static hx_error *open_help_row(struct hx_ui *ui, struct hx_pane *pane, size_t row)
{
    HX_FREE char *line = strdup(hx_table_text(&pane->rows, row, "line"));
    HX_NEED(line);
    if (!*line)
        return NULL;
    if (!ui->at) /* called on nothing: the person decides */
        return hx_ui_begin_command(ui, line, true);
    ui->at--;
    return hx_ui_begin_command(ui, line, false);
}

const struct hx_screen hx_screen_help = {
    .name = "help",
    .about = "this help",
    .digit = -1,
    .pinned = true,
    .columns = columns,
    .lay_out = lay_out_help,
    .fill = fill_help,
    .head = help_title,
    .open = open_help_row,
};
