/* screen_views.c - what SQL can ask for: the views and their columns. */
#include "ui/app.h"
#include "ui/list/pane.h"

#include <string.h>

static const struct hx_column columns[] = {
    {"view", NULL, HX_AS_SAFE, 16, 0, NULL, NULL},
    {"about", "what it shows", HX_AS_SAFE, -34, 1, NULL, NULL},
    {"columns", NULL, HX_AS_SAFE, -24, 0, NULL, NULL},
    {0},
};

static hx_error *add_view_row(struct hx_table *rows, const struct hx_view *view)
{
    struct hx_cell *cell;
    struct hx_filter_schema schema = {0};
    struct hx_text names = {0};
    hx_view_schema(view->name, &schema);
    for (size_t i = 0; i < schema.n; i++)
        hx_text_putf(&names, "%s%s", i ? ", " : "", schema.columns[i].name);
    hx_error *error = names.failed ? hx_error_nomem() : hx_table_add(rows, &cell);
    if (!error)
        error = hx_cell_set_text(&cell[0], view->name, strlen(view->name));
    if (!error)
        error = hx_cell_set_text(&cell[1], view->about, strlen(view->about));
    if (!error)
        error = hx_cell_set_text(&cell[2], hx_text_str(&names), names.n);
    hx_text_free(&names);
    return error;
}

static hx_error *fill_views(struct hx_ui *ui, struct hx_pane *pane)
{
    static const char *const names[] = {"view", "about", "columns", NULL};
    struct hx_table rows;
    (void)ui;
    HX_TRY(hx_table_begin(&rows, names));
    hx_error *error = NULL;
    for (const struct hx_view *view = hx_views; view->name && !error; view++)
        error = add_view_row(&rows, view);
    if (error)
        hx_table_deinit(&rows);
    else
        hx_pane_set_rows(pane, &rows);
    return error;
}

static void views_title(const struct hx_ui *ui, const struct hx_pane *pane, struct hx_text *ret)
{
    (void)ui;
    (void)pane;
    hx_text_puts(ret, "What SQL can ask: ; types a statement, Enter asks for a view,"
                      " i shows its columns");
}

static bool has_column(const char *view, const char *name)
{
    struct hx_filter_schema schema = {0};
    hx_view_schema(view, &schema);
    for (size_t i = 0; i < schema.n; i++)
        if (strcmp(schema.columns[i].name, name) == 0)
            return true;
    return false;
}

static hx_error *open_view_row(struct hx_ui *ui, struct hx_pane *pane, size_t row)
{
    struct hx_text sql = {0};
    const char *view = hx_table_text(&pane->rows, row, "view");
    bool of_snapshot = has_column(view, "snapshot") && strcmp(view, "snapshots") != 0;
    hx_query_put(HX_QUERY_view,
                 HX_QUERY_ARGS(.view = view, .snapshot = of_snapshot ? ui->snapshot : 0), &sql);
    hx_error *error = sql.failed ? hx_error_nomem() : hx_ui_ask(ui, hx_text_str(&sql));
    hx_text_free(&sql);
    return error;
}

const struct hx_screen hx_screen_views = {
    .name = "views",
    .about = "what SQL can ask: views and their columns",
    .digit = -1,
    .columns = columns,
    .fill = fill_views,
    .head = views_title,
    .open = open_view_row,
};
