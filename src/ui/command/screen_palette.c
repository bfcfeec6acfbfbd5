/* screen_palette.c - all commands and screens, found as one types. */
#include "ui/app.h"
#include "ui/command/complete.h"
#include "ui/command/palette.h"
#include "ui/command/prompt.h"
#include "ui/command/request.h"
#include "ui/command/requests.h"
#include "ui/list/pane.h"

#include <stdlib.h>
#include <string.h>

static const struct hx_column columns[] = {
    {"command", NULL, HX_AS_SAFE, -22, 0, NULL, NULL},
    {"keys", NULL, HX_AS_SAFE, 14, 1, NULL, NULL},
    {"help", "what it does", HX_AS_SAFE, -40, 2, NULL, NULL},
    {0},
};

/* What the palette can run. */
struct entry {
    int score;
    size_t number; /* in the order of the tables */
    const struct hx_request *request;
    const struct hx_screen *screen; /* instead of a command */
};

static void put_entry_name(const struct entry *entry, struct hx_text *ret)
{
    hx_text_puts(ret, entry->screen ? "screen " : entry->request->name);
    if (entry->screen)
        hx_text_puts(ret, entry->screen->name);
}

static int better_match_first(const void *a, const void *b)
{
    const struct entry *x = a, *y = b;
    if (x->score != y->score)
        return x->score > y->score ? -1 : 1;
    return (x->number > y->number) - (x->number < y->number);
}

/* Those that fit, the best first. */
static size_t find_entries(const char *words, struct entry *entries)
{
    size_t n = 0, number = 0;
    for (const struct hx_request *request = hx_requests; request->name; request++, number++) {
        int score = hx_palette_score(words, request->name, request->help);
        if (score)
            entries[n++] = (struct entry){score, number, request, NULL};
    }
    for (size_t i = 0; i < HX_SCREENS; i++, number++) {
        char name[80];
        const struct hx_screen *screen = hx_screens[i];
        snprintf(name, sizeof name, "screen %s", screen->name);
        int score = screen->by_argument ? 0 : hx_palette_score(words, name, screen->about);
        if (score)
            entries[n++] = (struct entry){score, number, NULL, screen};
    }
    qsort(entries, n, sizeof *entries, better_match_first);
    return n;
}

static hx_error *add_palette_row(struct hx_table *rows, const struct entry *entry)
{
    struct hx_cell *cell;
    struct hx_text name = {0}, shown = {0};
    char digit[16] = "";
    const struct hx_request *request = entry->request;
    if (entry->screen && entry->screen->digit >= 0)
        snprintf(digit, sizeof digit, "%d", entry->screen->digit);
    const char *keys = request ? request->keys : digit;
    const char *help = request ? request->help : entry->screen->about;
    put_entry_name(entry, &name);
    hx_text_putf(&shown, "%s%s%s", hx_text_str(&name), request && *request->args ? " " : "",
                 request ? request->args : "");
    hx_error *error = name.failed || shown.failed ? hx_error_nomem() : hx_table_add(rows, &cell);
    if (!error)
        error = hx_cell_set_text(&cell[0], hx_text_str(&shown), shown.n);
    if (!error)
        error = hx_cell_set_text(&cell[1], keys, strlen(keys));
    if (!error)
        error = hx_cell_set_text(&cell[2], help, strlen(help));
    if (!error)
        error = hx_cell_set_text(&cell[3], hx_text_str(&name), name.n);
    hx_text_free(&name);
    hx_text_free(&shown);
    return error;
}

static size_t entries_max(void)
{
    size_t n = HX_SCREENS;
    for (const struct hx_request *request = hx_requests; request->name; request++)
        n++;
    return n;
}

static hx_error *fill_palette(struct hx_ui *ui, struct hx_pane *pane)
{
    static const char *const names[] = {"command", "keys", "help", "line", NULL};
    HX_FREE struct entry *entries = calloc(entries_max(), sizeof *entries);
    struct hx_table rows;
    HX_NEED(entries);
    HX_TRY(hx_table_begin(&rows, names));
    size_t n = find_entries(ui->prompt->active ? hx_text_str(&ui->prompt->text) : "", entries);
    hx_error *error = NULL;
    for (size_t i = 0; i < n && !error; i++)
        error = add_palette_row(&rows, &entries[i]);
    if (error) {
        hx_table_deinit(&rows);
        return error;
    }
    hx_pane_set_rows(pane, &rows);
    return NULL;
}

static void palette_title(const struct hx_ui *ui, const struct hx_pane *pane, struct hx_text *ret)
{
    (void)ui;
    hx_text_puts(ret, "Commands: ");
    hx_text_count(ret, pane->total);
    hx_text_puts(ret, "; type a part of one, Enter runs it, Esc leaves");
}

static bool is_open(const struct hx_ui *ui)
{
    return ui->at && hx_ui_pane(ui)->screen == &hx_screen_palette;
}

static void leave_palette(struct hx_ui *ui)
{
    if (is_open(ui))
        ui->at--;
}

/* The chosen line belongs to what was shown before. `type`: asks for its argument in any case. */
static hx_error *run_palette_entry(struct hx_ui *ui, bool type)
{
    struct hx_pane *pane = hx_ui_pane(ui);
    size_t row;
    if (!hx_pane_row(pane, &row)) {
        leave_palette(ui);
        return NULL;
    }
    HX_FREE char *line = strdup(hx_table_text(&pane->rows, row, "line"));
    leave_palette(ui);
    return line ? hx_ui_begin_command(ui, line, type) : hx_error_nomem();
}

static hx_error *chosen(struct hx_ui *ui, const char *text)
{
    (void)text;
    return is_open(ui) ? run_palette_entry(ui, false) : NULL;
}

static void narrow_palette(struct hx_ui *ui)
{
    struct hx_pane *pane = hx_ui_pane(ui);
    if (!is_open(ui))
        return;
    pane->cursor = 0;
    hx_ui_complain(ui, fill_palette(ui, pane));
}

static bool key(struct hx_ui *ui, int code)
{
    static const struct {
        const char *key, *command;
    } moves[] = {{"Up", "up"},        {"Ctrl-P", "up"},      {"Down", "down"},  {"Ctrl-N", "down"},
                 {"PgUp", "page-up"}, {"PgDn", "page-down"}, {"Home", "first"}, {"End", "last"}};
    if (!is_open(ui))
        return false;
    for (size_t i = 0; i < sizeof moves / sizeof *moves; i++) {
        if (hx_key_parse(moves[i].key, strlen(moves[i].key)) == code) {
            hx_ui_complain(ui, hx_command_run(ui, moves[i].command));
            return true;
        }
    }
    if (code == '\t')
        hx_ui_complain(ui, run_palette_entry(ui, true));
    return code == '\t';
}

static hx_error *open_palette_row(struct hx_ui *ui, struct hx_pane *pane, size_t row)
{
    (void)pane;
    (void)row;
    return run_palette_entry(ui, false);
}

hx_error *hx_do_palette(struct hx_ui *ui, const char *arg)
{
    (void)arg;
    if (!is_open(ui))
        HX_TRY(hx_ui_open_text(ui, &hx_screen_palette, NULL, 0));
    hx_ui_prompt(ui, "> ", "", chosen);
    ui->prompt->key = key;
    ui->prompt->changed = narrow_palette;
    ui->prompt->left = leave_palette;
    narrow_palette(ui);
    return NULL;
}

const struct hx_screen hx_screen_palette = {
    .name = "palette",
    .about = "all commands, found as you type",
    .digit = -1,
    .by_argument = true,
    .pinned = true,
    .columns = columns,
    .fill = fill_palette,
    .head = palette_title,
    .empty = "No command is like that.",
    .open = open_palette_row,
};
