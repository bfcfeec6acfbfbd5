/* request.c - what keys and commands do. */
#include "ui/command/request.h"

#include "ui/analysis.h"
#include "ui/app.h"
#include "ui/command/complete.h"
#include "ui/command/prompt.h"
#include "ui/command/requests.h"
#include "ui/data/difference.h"
#include "ui/job.h"
#include "ui/list/marked_rows.h"
#include "ui/list/pane.h"
#include "ui/list/tree.h"
#include "ui/ui_options.h"

#include <ctype.h>
#include <string.h>

const struct hx_request hx_requests[] = {
#define HX_UI_REQUEST_ENTRY(id, name, keys, args, group, help, waits)                              \
    {name, keys, args, group, help, hx_do_##id, HX_WAITS_##waits},
    HX_UI_REQUESTS(HX_UI_REQUEST_ENTRY)
#undef HX_UI_REQUEST_ENTRY
        {0},
};

const struct hx_request *hx_request_find(const char *name, size_t n)
{
    const struct hx_request *found = NULL;
    int count = 0;
    for (const struct hx_request *request = hx_requests; request->name; request++) {
        if (strncmp(request->name, name, n) != 0)
            continue;
        if (strlen(request->name) == n)
            return request;
        found = request;
        count++;
    }
    return count == 1 ? found : NULL;
}

/* Nothing, or several commands begin so. */
static hx_error *no_command(const char *name)
{
    struct hx_text several = {0};
    for (const struct hx_request *request = hx_requests; request->name; request++)
        if (strncmp(request->name, name, strlen(name)) == 0)
            hx_text_putf(&several, "%s%s", several.n ? ", " : "", request->name);
    hx_error *error = several.n
                          ? hx_error_new(HX_E_USAGE, name, NULL, "it could be %s", several.s)
                          : hx_error_new(HX_E_USAGE, name, "`:help` lists them", "no such command");
    hx_text_free(&several);
    return error;
}

const struct hx_request *hx_command_request(const char *line)
{
    while (isspace((unsigned char)*line))
        line++;
    size_t n = strcspn(line, " \t");
    return n ? hx_request_find(line, n) : NULL;
}

hx_error *hx_command_run(struct hx_ui *ui, const char *line)
{
    while (isspace((unsigned char)*line))
        line++;
    size_t n = strcspn(line, " \t");
    if (!n)
        return NULL;
    HX_FREE char *arg = strdup(line + n + strspn(line + n, " \t"));
    HX_FREE char *name = strndup(line, n);
    HX_NEED(arg && name);
    for (size_t end = strlen(arg); end && isspace((unsigned char)arg[end - 1]); end--)
        arg[end - 1] = 0;
    const struct hx_request *request = hx_request_find(name, n);
    if (!request)
        return no_command(name);
    if (*arg && !*request->args)
        return hx_error_new(HX_E_USAGE, name, NULL, "takes no argument");
    if (!*arg && *request->args && *request->args != '[')
        return hx_error_new(HX_E_USAGE, name, NULL, "needs an argument: %s", request->args);
    return request->run(ui, arg);
}

/* --- moving --- */

static hx_error *move_by(struct hx_ui *ui, int64_t rows)
{
    struct hx_pane *pane = hx_ui_pane(ui);
    hx_pane_go(pane, pane->cursor + rows);
    return NULL;
}

static int64_t page(const struct hx_ui *ui)
{
    int height = hx_ui_pane(ui)->height;
    return height > 1 ? height - 1 : 1;
}

hx_error *hx_do_up(struct hx_ui *ui, const char *arg)
{
    (void)arg;
    return move_by(ui, -1);
}

hx_error *hx_do_down(struct hx_ui *ui, const char *arg)
{
    (void)arg;
    return move_by(ui, 1);
}

hx_error *hx_do_page_up(struct hx_ui *ui, const char *arg)
{
    (void)arg;
    hx_ui_pane(ui)->top -= page(ui);
    return move_by(ui, -page(ui));
}

hx_error *hx_do_page_down(struct hx_ui *ui, const char *arg)
{
    (void)arg;
    hx_ui_pane(ui)->top += page(ui);
    return move_by(ui, page(ui));
}

hx_error *hx_do_half_up(struct hx_ui *ui, const char *arg)
{
    (void)arg;
    return move_by(ui, -(page(ui) + 1) / 2);
}

hx_error *hx_do_half_down(struct hx_ui *ui, const char *arg)
{
    (void)arg;
    return move_by(ui, (page(ui) + 1) / 2);
}

hx_error *hx_do_first(struct hx_ui *ui, const char *arg)
{
    (void)arg;
    hx_pane_go(hx_ui_pane(ui), 0);
    return NULL;
}

hx_error *hx_do_last(struct hx_ui *ui, const char *arg)
{
    (void)arg;
    hx_pane_go(hx_ui_pane(ui), INT64_MAX);
    return NULL;
}

/* --- looking --- */

static hx_error *no_row(const struct hx_pane *pane)
{
    if (pane->total)
        return hx_error_new(HX_E_BUSY, pane->screen->name, NULL, "this row is still being loaded");
    return hx_error_new(HX_E_ABSENT, pane->screen->name, NULL, "there is no row here");
}

static hx_error *no_object(void)
{
    return hx_error_new(HX_E_ABSENT, "this row", "look for one on screen 8",
                        "stands for no object");
}

hx_error *hx_do_open(struct hx_ui *ui, const char *arg)
{
    (void)arg;
    struct hx_pane *pane = hx_ui_pane(ui);
    size_t row;
    uint64_t address;
    if (!hx_pane_row(pane, &row))
        return no_row(pane);
    if (pane->screen->open)
        return pane->screen->open(ui, pane, row);
    HX_TRY(hx_difference_gone(pane, row));
    if (hx_pane_object(pane, row, &address))
        return hx_ui_open_object(ui, address);
    return hx_ui_open_text(ui, &hx_screen_details, NULL, 0);
}

hx_error *hx_do_back(struct hx_ui *ui, const char *arg)
{
    (void)arg;
    if (ui->at)
        ui->at--;
    else
        hx_ui_say(ui, "this is the top; q quits");
    return NULL;
}

hx_error *hx_do_escape(struct hx_ui *ui, const char *arg)
{
    return hx_do_back(ui, arg);
}

hx_error *hx_do_forward(struct hx_ui *ui, const char *arg)
{
    (void)arg;
    if (ui->at + 1 < ui->open.n)
        ui->at++;
    else
        hx_ui_say(ui, "nothing was left by going back");
    return NULL;
}

static hx_error *parse_address(const char *arg, uint64_t *ret)
{
    if (hx_parse_u64(arg, ret))
        return NULL;
    return hx_error_new(HX_E_USAGE, arg, "write it like 0x55d0c0de", "is no address");
}

/* Is the pane about one object, so that what a row says of none is about that? */
static bool is_about_object(const struct hx_pane *pane)
{
    return pane->screen == &hx_screen_object || pane->screen == &hx_screen_hex ||
           pane->screen == &hx_screen_why || (pane->screen == &hx_screen_stack && pane->address);
}

hx_error *hx_ui_for_object(struct hx_ui *ui, hx_error *(*open)(struct hx_ui *, uint64_t))
{
    struct hx_pane *pane = hx_ui_pane(ui);
    size_t row;
    uint64_t address;
    struct hx_of of;
    bool has_row = hx_pane_row(pane, &row);
    if (pane->screen == &hx_screen_object)
        return open(ui, pane->address);
    if (has_row) {
        HX_TRY(hx_difference_gone(pane, row));
        hx_ui_follow_row(ui, pane, row);
    }
    if (has_row && hx_pane_object(pane, row, &address))
        return open(ui, address);
    if (is_about_object(pane))
        return open(ui, pane->address);
    if (!has_row)
        return no_row(pane);
    if (pane->screen->of && pane->screen->of(pane, row, &of))
        return hx_ui_largest(ui, &of, pane->other, open);
    return no_object();
}

static hx_error *open_why(struct hx_ui *ui, uint64_t object)
{
    struct hx_pane *pane;
    HX_TRY(hx_pane_create(ui, &hx_screen_why, &pane));
    pane->address = object;
    return hx_ui_push(ui, pane);
}

hx_error *hx_do_why(struct hx_ui *ui, const char *arg)
{
    struct hx_pane *pane = hx_ui_pane(ui);
    uint64_t address;
    size_t row;
    if (*arg) {
        HX_TRY(parse_address(arg, &address));
        return hx_ui_resolve(ui, address, open_why);
    }
    if (pane->screen->why && hx_pane_row(pane, &row) && !hx_pane_object(pane, row, &address))
        return pane->screen->why(ui, pane, row);
    return hx_ui_for_object(ui, open_why);
}

hx_error *hx_do_objects(struct hx_ui *ui, const char *arg)
{
    (void)arg;
    struct hx_pane *pane = hx_ui_pane(ui);
    size_t row;
    if (!hx_pane_row(pane, &row))
        return no_row(pane);
    if (pane->screen->objects)
        return pane->screen->objects(ui, pane, row);
    return hx_ui_open_objects(ui, pane, row);
}

hx_error *hx_do_referrers(struct hx_ui *ui, const char *arg)
{
    (void)arg;
    return hx_ui_for_object(ui, hx_ui_open_object);
}

static hx_error *open_stack(struct hx_ui *ui, uint64_t object)
{
    struct hx_pane *pane;
    HX_TRY(hx_pane_create(ui, &hx_screen_stack, &pane));
    pane->address = object;
    return hx_ui_push(ui, pane);
}

/* Of a row's stack, else of the object that it stands for; of a cost centre all that there are. */
hx_error *hx_do_stack(struct hx_ui *ui, const char *arg)
{
    struct hx_pane *pane = hx_ui_pane(ui);
    uint64_t address;
    size_t row;
    if (*arg) {
        HX_TRY(parse_address(arg, &address));
        return hx_ui_resolve(ui, address, open_stack);
    }
    int64_t id = 0, ccs = 0;
    if (hx_pane_row(pane, &row)) {
        id = hx_table_int(&pane->rows, row, "stack_id", 0);
        ccs = hx_pane_object(pane, row, &address) ? 0 : hx_table_int(&pane->rows, row, "ccs_id", 0);
    }
    if (id)
        return hx_ui_open_text(ui, &hx_screen_stack, NULL, id);
    if (ccs)
        return hx_ui_open_of(
            ui, &hx_screen_sites,
            &(struct hx_of){HX_SUBSET_BELOW, hx_table_text(&pane->rows, row, "label"), NULL, ccs});
    if (pane->screen == &hx_screen_leaks)
        return hx_error_new(HX_E_ABSENT, "stack", "heapx run and heapx record do it",
                            "who allocated was not recorded");
    return hx_ui_for_object(ui, open_stack);
}

/* --- trees --- */

/* What a key does to the row of a tree. */
static hx_error *on_node(struct hx_ui *ui,
                         hx_error *(*what)(struct hx_ui *, struct hx_pane *, size_t), int levels)
{
    struct hx_pane *pane = hx_ui_pane(ui);
    size_t row;
    if (pane->screen == &hx_screen_tree)
        return hx_ui_tree_levels(ui, pane, levels);
    if (!pane->screen->tree)
        return hx_error_new(HX_E_ABSENT, pane->screen->name, "screen 4 and :tree are",
                            "is no tree");
    if (!hx_pane_row(pane, &row))
        return no_row(pane);
    return what(ui, pane, row);
}

hx_error *hx_do_unfold(struct hx_ui *ui, const char *arg)
{
    (void)arg;
    return on_node(ui, hx_tree_unfold, 1);
}

hx_error *hx_do_fold(struct hx_ui *ui, const char *arg)
{
    (void)arg;
    return on_node(ui, hx_tree_fold, -1);
}

hx_error *hx_do_unfold_all(struct hx_ui *ui, const char *arg)
{
    (void)arg;
    return on_node(ui, hx_tree_unfold_all, INT16_MAX);
}

hx_error *hx_do_goto(struct hx_ui *ui, const char *arg)
{
    uint64_t address;
    HX_TRY(parse_address(arg, &address));
    return hx_ui_resolve(ui, address, hx_ui_open_object);
}

hx_error *hx_do_details(struct hx_ui *ui, const char *arg)
{
    (void)arg;
    size_t row;
    if (!hx_pane_row(hx_ui_pane(ui), &row))
        return no_row(hx_ui_pane(ui));
    return hx_ui_open_text(ui, &hx_screen_details, NULL, 0);
}

/* --- screens and snapshots --- */

static hx_error *show_text(struct hx_ui *ui, const struct hx_screen *screen)
{
    if (hx_ui_pane(ui)->screen == screen)
        return NULL;
    return hx_ui_open_text(ui, screen, NULL, 0);
}

hx_error *hx_do_threads(struct hx_ui *ui, const char *arg)
{
    (void)arg;
    return show_text(ui, &hx_screen_threads);
}

static hx_error *step_screen(struct hx_ui *ui, int step)
{
    int at = 0;
    while (at < HX_SCREENS && hx_screens[at] != ui->open.v[0]->screen)
        at++;
    do
        at = (at + step + HX_SCREENS) % HX_SCREENS;
    while (hx_screens[at]->digit < 0 ||
           hx_ui_stands_for(ui, hx_screens[at]) == ui->open.v[0]->screen);
    return hx_ui_show(ui, hx_screens[at]);
}

hx_error *hx_do_next_screen(struct hx_ui *ui, const char *arg)
{
    (void)arg;
    return step_screen(ui, 1);
}

hx_error *hx_do_previous_screen(struct hx_ui *ui, const char *arg)
{
    (void)arg;
    return step_screen(ui, -1);
}

hx_error *hx_do_view(struct hx_ui *ui, const char *arg)
{
    (void)arg;
    const struct hx_screen *screen = hx_ui_pane(ui)->screen;
    if (screen->show_view)
        return screen->show_view(ui, hx_ui_pane(ui));
    if (!screen->view)
        return hx_error_new(HX_E_ABSENT, screen->name, "screens 1, 2, 4 and 7 have one",
                            "has no other view");
    if (hx_ui_stands_for(ui, screen->view) == screen)
        return hx_error_new(HX_E_ABSENT, screen->view->name, NULL, "this snapshot has none");
    return hx_ui_show(ui, screen->view);
}

hx_error *hx_do_screen(struct hx_ui *ui, const char *arg)
{
    const struct hx_screen *screen = hx_screen_find(arg);
    if (!screen || screen->by_argument)
        return hx_error_new(HX_E_USAGE, arg, "`:help` lists them", "no such screen");
    return hx_ui_show(ui, screen);
}

/* On the list of snapshots the cursor goes along. */
static void choose_snapshot(struct hx_ui *ui, size_t row)
{
    struct hx_pane *pane = hx_ui_pane(ui);
    hx_ui_set_snapshot(ui, hx_table_int(&ui->snapshots, row, "snapshot", 0));
    for (size_t i = 0; pane->screen->over_time && i < pane->rows.n_rows; i++)
        if (hx_table_int(&pane->rows, i, "snapshot", 0) == ui->snapshot)
            hx_pane_go(pane, pane->offset + (int64_t)i);
}

static hx_error *step_snapshot(struct hx_ui *ui, int step)
{
    size_t row = hx_ui_snapshot_row(ui);
    if (row >= ui->snapshots.n_rows)
        return hx_error_new(HX_E_ABSENT, "snapshots", NULL, "there is none yet");
    if ((step < 0 && row == 0) || (step > 0 && row + 1 == ui->snapshots.n_rows)) {
        hx_ui_say(ui, "this is the %s snapshot", step < 0 ? "first" : "last");
        return NULL;
    }
    row = step < 0 ? row - 1 : row + 1;
    choose_snapshot(ui, row);
    return NULL;
}

hx_error *hx_do_previous_snapshot(struct hx_ui *ui, const char *arg)
{
    (void)arg;
    return step_snapshot(ui, -1);
}

hx_error *hx_do_next_snapshot(struct hx_ui *ui, const char *arg)
{
    (void)arg;
    return step_snapshot(ui, 1);
}

/* The row of the snapshot with a number; n_rows when there is none. */
static size_t find_snapshot(const struct hx_ui *ui, const char *arg)
{
    uint64_t number = 0;
    size_t n = ui->snapshots.n_rows, row = n;
    if (strcmp(arg, "first") == 0)
        return 0;
    if (strcmp(arg, "last") == 0)
        return n ? n - 1 : 0;
    if (hx_parse_u64(arg, &number))
        for (row = 0; row < n; row++)
            if ((uint64_t)hx_table_int(&ui->snapshots, row, "snapshot", 0) == number)
                break;
    return row;
}

static hx_error *no_snapshot(const char *arg)
{
    return hx_error_new(HX_E_ABSENT, arg, "screen 1 shows them", "no such snapshot");
}

hx_error *hx_do_snapshot(struct hx_ui *ui, const char *arg)
{
    size_t row = find_snapshot(ui, arg);
    if (row >= ui->snapshots.n_rows)
        return no_snapshot(arg);
    choose_snapshot(ui, row);
    return NULL;
}

/* What panes show depends on it; hx_pane_update() sees to each when it is looked at. */
static hx_error *mark_snapshot(struct hx_ui *ui, const char *arg)
{
    const struct hx_pane *pane = hx_ui_pane(ui);
    size_t row = *arg ? find_snapshot(ui, arg) : hx_ui_snapshot_row(ui), listed;
    if (row >= ui->snapshots.n_rows)
        return no_snapshot(*arg ? arg : "snapshot");
    ui->marked = hx_table_int(&ui->snapshots, row, "snapshot", 0);
    if (!*arg && pane->screen == &hx_screen_snapshots && hx_pane_row(pane, &listed))
        ui->marked = hx_table_int(&pane->rows, listed, "snapshot", ui->marked);
    if (ui->differences && !ui->revising)
        hx_ui_revise(ui); /* what it is compared with has to be as chosen, too */
    hx_ui_say(ui, "snapshot %lld is marked: d shows differences to it", (long long)ui->marked);
    return NULL;
}

hx_error *hx_do_mark(struct hx_ui *ui, const char *arg)
{
    struct hx_pane *pane = hx_ui_pane(ui);
    bool snapshot = *arg || pane->screen->over_time;
    return snapshot ? mark_snapshot(ui, arg) : hx_marks_toggle(ui, pane);
}

hx_error *hx_do_unmark(struct hx_ui *ui, const char *arg)
{
    (void)arg;
    ui->marked = 0;
    hx_marks_clear(hx_ui_pane(ui));
    if (ui->differences && !ui->revising)
        hx_ui_revise(ui);
    hx_ui_say(ui, "nothing is marked");
    return NULL;
}

hx_error *hx_do_difference(struct hx_ui *ui, const char *arg)
{
    if (*arg)
        HX_TRY(mark_snapshot(ui, arg));
    bool on = *arg || !ui->differences;
    if (on && !hx_ui_other(ui))
        return hx_error_new(HX_E_ABSENT, "this snapshot",
                            ui->snapshots.n_rows > 1 ? "Space on screen 1 marks another one"
                            : ui->options->take      ? "a takes another one"
                                                     : "heapx snap PID -o FILE adds one",
                            "has none before it");
    ui->differences = on;
    if (!ui->revising)
        hx_ui_revise(ui);
    if (!hx_ui_pane(ui)->screen->differences)
        hx_ui_say(ui, on ? "differences are on: screens 0, 2 to 6, 8 and one holder show them"
                         : "differences are off");
    return NULL;
}

hx_error *hx_do_snap(struct hx_ui *ui, const char *arg)
{
    (void)arg;
    return hx_ui_snap(ui, true);
}

/* --- finding and ordering --- */

static hx_error *search_again(struct hx_ui *ui, bool backwards)
{
    if (!ui->pattern)
        return hx_error_new(HX_E_USAGE, "search", "/ asks for it", "nothing was searched yet");
    return hx_pane_search(ui, hx_ui_pane(ui), ui->pattern, backwards);
}

static hx_error *search_for(struct hx_ui *ui, const char *text)
{
    if (*text) {
        char *copy = strdup(text);
        HX_NEED(copy);
        free(ui->pattern);
        ui->pattern = copy;
    }
    return search_again(ui, false);
}

hx_error *hx_do_search(struct hx_ui *ui, const char *arg)
{
    if (*arg)
        return search_for(ui, arg);
    hx_ui_prompt(ui, "/", "", search_for);
    return NULL;
}

hx_error *hx_do_search_next(struct hx_ui *ui, const char *arg)
{
    (void)arg;
    return search_again(ui, false);
}

hx_error *hx_do_search_previous(struct hx_ui *ui, const char *arg)
{
    (void)arg;
    return search_again(ui, true);
}

static hx_error *unsortable(const struct hx_pane *pane)
{
    return hx_error_new(HX_E_FAIL, pane->screen->name, NULL, "this list has an order of its own");
}

/* Are its rows sorted where they are asked for? */
static bool is_sortable(const struct hx_pane *pane)
{
    return hx_screen_stored(pane->screen) && !(pane->other && pane->screen->fill_differences);
}

/* A value's bar and share have its order; a column without a heading has none. */
static bool sortable(const struct hx_column *column)
{
    return column->as != HX_AS_BAR && column->as != HX_AS_SHARE && column->as != HX_AS_OWN &&
           column->as != HX_AS_SPARK && !(column->title && !*column->title);
}

static void order_by(struct hx_ui *ui, struct hx_pane *pane, const struct hx_column *column)
{
    bool ascending = column->as == HX_AS_TEXT || column->as == HX_AS_TYPE ||
                     column->as == HX_AS_NAMES || column->as == HX_AS_TREE ||
                     column->as == HX_AS_HEX || column->as == HX_AS_OFFSET;
    hx_pane_order(ui, pane, column->name, ascending);
}

static hx_error *step_sort(struct hx_ui *ui, int step)
{
    struct hx_pane *pane = hx_ui_pane(ui);
    if (!is_sortable(pane))
        return unsortable(pane);
    const struct hx_column *columns = pane->columns;
    int n = 0, at = -1;
    for (; columns[n].name; n++)
        if (pane->sort && at < 0 && sortable(&columns[n]) &&
            strcmp(columns[n].name, pane->sort) == 0)
            at = n;
    if (at < 0)
        at = step > 0 ? -1 : n;
    for (int i = 0; i < n; i++) {
        at = (at + step + n) % n;
        if (sortable(&columns[at]))
            break;
    }
    order_by(ui, pane, &columns[at]);
    return NULL;
}

hx_error *hx_do_sort_left(struct hx_ui *ui, const char *arg)
{
    (void)arg;
    return step_sort(ui, -1);
}

hx_error *hx_do_sort_right(struct hx_ui *ui, const char *arg)
{
    (void)arg;
    return step_sort(ui, 1);
}

hx_error *hx_do_reverse(struct hx_ui *ui, const char *arg)
{
    (void)arg;
    struct hx_pane *pane = hx_ui_pane(ui);
    if (!is_sortable(pane))
        return unsortable(pane);
    if (!pane->sort)
        return hx_error_new(HX_E_USAGE, "order", "choose a column with < or >",
                            "the list is as it was stored");
    hx_pane_order(ui, pane, pane->sort, !pane->ascending);
    return NULL;
}

hx_error *hx_do_sort(struct hx_ui *ui, const char *arg)
{
    struct hx_pane *pane = hx_ui_pane(ui);
    if (!is_sortable(pane))
        return unsortable(pane);
    for (const struct hx_column *column = pane->columns; column->name; column++) {
        if (sortable(column) && (strcmp(column->name, arg) == 0 ||
                                 (column->title && strcmp(column->title, arg) == 0))) {
            order_by(ui, pane, column);
            return NULL;
        }
    }
    return hx_error_new(HX_E_USAGE, arg, "< and > step through them", "no such column here");
}

static hx_error *filter_by(struct hx_ui *ui, const char *text)
{
    struct hx_pane *pane = hx_ui_pane(ui);
    free(hx_steal(ui->draft));
    hx_error *error = hx_pane_filter(ui, pane, *text ? text : NULL);
    if (error && *text)
        ui->draft = strdup(text);
    ui->draft_of = pane->serial;
    return error;
}

hx_error *hx_do_filter(struct hx_ui *ui, const char *arg)
{
    struct hx_pane *pane = hx_ui_pane(ui);
    if (*arg)
        return filter_by(ui, arg);
    const char *text = pane->filter ? pane->filter : "";
    if (ui->draft && ui->draft_of == pane->serial)
        text = ui->draft;
    hx_ui_prompt(ui, "filter: ", text, filter_by);
    ui->prompt->complete = hx_complete_condition;
    return NULL;
}

hx_error *hx_do_no_filter(struct hx_ui *ui, const char *arg)
{
    (void)arg;
    free(hx_steal(ui->draft));
    if (hx_ui_pane(ui)->filter)
        return hx_pane_filter(ui, hx_ui_pane(ui), NULL);
    hx_ui_say(ui, "there is no filter here");
    return NULL;
}

/* --- analysis --- */

hx_error *hx_do_analyse(struct hx_ui *ui, const char *arg)
{
    return hx_ui_analyse(ui, arg);
}

hx_error *hx_do_scheme(struct hx_ui *ui, const char *arg)
{
    return hx_ui_choose_scheme(ui, arg);
}

hx_error *hx_do_retainer(struct hx_ui *ui, const char *arg)
{
    return hx_ui_choose_retainer(ui, arg);
}

hx_error *hx_do_max_set(struct hx_ui *ui, const char *arg)
{
    return hx_ui_choose_max_set(ui, arg);
}

hx_error *hx_do_threads_as(struct hx_ui *ui, const char *arg)
{
    return hx_ui_choose_threads_as(ui, arg);
}

hx_error *hx_do_holders(struct hx_ui *ui, const char *arg)
{
    return hx_ui_choose_holders(ui, arg);
}

hx_error *hx_do_rules(struct hx_ui *ui, const char *arg)
{
    return hx_ui_choose_rules(ui, arg);
}

hx_error *hx_do_root(struct hx_ui *ui, const char *arg)
{
    if (*arg)
        return hx_ui_choose_root(ui, arg);
    return hx_ui_pane(ui)->screen == &hx_screen_named
               ? NULL
               : hx_ui_open_text(ui, &hx_screen_named, NULL, 0);
}

hx_error *hx_do_unroot(struct hx_ui *ui, const char *arg)
{
    return hx_ui_choose_no_root(ui, arg);
}

/* --- files --- */

static hx_error *write_to(struct hx_ui *ui, const char *path)
{
    return *path ? hx_pane_write(ui, hx_ui_pane(ui), path, false) : NULL;
}

hx_error *hx_do_save(struct hx_ui *ui, const char *arg)
{
    return hx_ui_save(ui, arg, false);
}

hx_error *hx_do_write(struct hx_ui *ui, const char *arg)
{
    if (*arg)
        return write_to(ui, arg);
    hx_ui_prompt(ui, "write to (.json .csv .txt): ", "", write_to);
    ui->prompt->complete = hx_complete_file;
    return NULL;
}

hx_error *hx_do_overwrite(struct hx_ui *ui, const char *arg)
{
    return hx_pane_write(ui, hx_ui_pane(ui), arg, true);
}

hx_error *hx_do_save_display(struct hx_ui *ui, const char *arg)
{
    return hx_ui_save_display(ui, arg);
}

/* --- other --- */

hx_error *hx_do_command(struct hx_ui *ui, const char *arg)
{
    (void)arg;
    hx_ui_prompt(ui, ":", "", hx_command_run);
    ui->prompt->complete = hx_complete_command;
    return NULL;
}

hx_error *hx_do_help(struct hx_ui *ui, const char *arg)
{
    (void)arg;
    return show_text(ui, &hx_screen_help);
}

hx_error *hx_do_messages(struct hx_ui *ui, const char *arg)
{
    (void)arg;
    return show_text(ui, &hx_screen_messages);
}

hx_error *hx_do_set(struct hx_ui *ui, const char *arg)
{
    bool on = strcmp(arg, "mouse on") == 0;
    if (!on && strcmp(arg, "mouse off") != 0)
        return hx_error_new(HX_E_USAGE, arg, "`:set mouse on` or `:set mouse off`",
                            "no such setting");
    hx_term_set_mouse(&ui->term, on);
    if (on && !ui->term.mouse && !ui->term.script)
        return hx_error_new(HX_E_ABSENT, "mouse", NULL, "this terminal cannot tell of one");
    hx_ui_say(ui, "mouse %s", on ? "on" : "off");
    return NULL;
}

hx_error *hx_do_resize(struct hx_ui *ui, const char *arg)
{
    unsigned height, width;
    if (!ui->term.script)
        return hx_error_new(HX_E_USAGE, "resize", NULL, "a terminal has the size that it has");
    if (sscanf(arg, "%u %u", &height, &width) != 2 || !height || !width || height > 1000 ||
        width > 1000)
        return hx_error_new(HX_E_USAGE, arg, "for example `:resize 12 40`", "is no size");
    hx_term_set_size((int)height, (int)width);
    return NULL;
}

hx_error *hx_do_redraw(struct hx_ui *ui, const char *arg)
{
    (void)arg;
    hx_term_redraw();
    if (hx_ui_pane(ui)->problem) /* perhaps it works now */
        hx_pane_reload(ui, hx_ui_pane(ui));
    return NULL;
}

hx_error *hx_do_suspend(struct hx_ui *ui, const char *arg)
{
    (void)arg;
    if (!hx_term_suspend(&ui->term, ui->snapping))
        hx_ui_say(ui, ui->term.script ? "a script cannot stop" : "nobody here could bring it back");
    return NULL;
}

hx_error *hx_do_close(struct hx_ui *ui, const char *arg)
{
    return ui->at ? hx_do_back(ui, arg) : hx_ui_leave(ui);
}

hx_error *hx_do_quit(struct hx_ui *ui, const char *arg)
{
    (void)arg;
    return hx_ui_leave(ui);
}

/* Who wanted to cancel what has just come to its end by itself does not want to quit. */
#define TOO_LATE_NS 1000000000u

hx_error *hx_do_cancel(struct hx_ui *ui, const char *arg)
{
    (void)arg;
    if (hx_jobs_cancel(ui->jobs)) {
        hx_ui_say(ui, "cancelling");
        return NULL;
    }
    if (ui->worked_ns && hx_now_ns() - ui->worked_ns < TOO_LATE_NS) {
        hx_ui_say(ui, "it has come to its end already; q quits");
        return NULL;
    }
    return hx_ui_leave(ui);
}
