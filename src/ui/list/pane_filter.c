/* pane_filter.c - showing only the rows for which a condition holds. */
#include "ui/app.h"
#include "ui/list/tree.h"

#include "query/filter.h"
#include "ui/list/pane.h"

#include <string.h>

static enum hx_filter_class class_of_cells(enum hx_as as)
{
    switch (as) {
    case HX_AS_TEXT:
    case HX_AS_CALLS:
    case HX_AS_TYPE:
    case HX_AS_NAMES:
    case HX_AS_NAME:
    case HX_AS_TREE:
    case HX_AS_SOURCE:
    case HX_AS_SAFE:
    case HX_AS_TIME:
    case HX_AS_SPARK:
        return HX_FILTER_TEXT;
    case HX_AS_VALUE:
        return HX_FILTER_ANY;
    default:
        return HX_FILTER_NUMBER;
    }
}

/* As the view says that the statement is made of; else as the screen shows it. */
static enum hx_filter_class column_class(const struct hx_pane *pane,
                                         const struct hx_filter_schema *like, const char *name)
{
    for (size_t i = 0; i < like->n; i++)
        if (strcmp(like->columns[i].name, name) == 0)
            return like->columns[i].class;
    for (const struct hx_column *column = pane->columns; column->name; column++)
        if (strcmp(column->name, name) == 0)
            return class_of_cells(column->as);
    return HX_FILTER_ANY;
}

static size_t find_column(const struct hx_filter_column *columns, size_t n, const char *name)
{
    size_t i = 0;
    while (i < n && strcasecmp(columns[i].name, name) != 0)
        i++;
    return i;
}

/* The words above the columns are names of them, too, where no column has that name. */
static size_t add_titles(const struct hx_pane *pane, struct hx_filter_column *columns, size_t n)
{
    size_t all = n;
    for (const struct hx_column *column = pane->columns; column->name; column++) {
        const char *title = column->title;
        size_t of = find_column(columns, n, column->name);
        if (!title || of == n || find_column(columns, all, title) < all)
            continue;
        if (column->as == HX_AS_BAR || column->as == HX_AS_SHARE || column->as == HX_AS_SWING)
            continue; /* a part of what the column says */
        columns[all] = columns[of];
        columns[all++].name = title;
    }
    return all;
}

static hx_error *parse_pane_filter(const struct hx_pane *pane, const struct hx_source *source,
                                   const char *filter, hx_filter **ret)
{
    struct hx_filter_schema schema = {0};
    bool view = source->view && hx_view_schema(source->view, &schema);
    if (!view && source->like && !hx_view_schema(source->like, &schema))
        schema.n = 0;
    size_t n = view ? schema.n : pane->rows.n_columns, titles = 0;
    while (pane->columns[titles].name)
        titles++;
    HX_FREE struct hx_filter_column *columns = calloc(n + titles + 1, sizeof *columns);
    HX_NEED(columns);
    for (size_t i = 0; i < n && view; i++)
        columns[i] = schema.columns[i];
    for (size_t i = 0; i < n && !view; i++)
        columns[i] =
            (struct hx_filter_column){.name = pane->rows.names[i],
                                      .class = column_class(pane, &schema, pane->rows.names[i]),
                                      .id = i};
    size_t all = add_titles(pane, columns, n);
    struct hx_filter_schema own = {.columns = columns, .n = all, .row = view ? schema.row : NULL};
    HX_FILTER hx_filter *parsed = NULL;
    HX_TRY(hx_filter_parse(filter, &own, NULL, &parsed));
    for (size_t title = n; title < all; title++)
        for (size_t i = 0; i < n; i++)
            if (columns[i].id == columns[title].id)
                HX_TRY(hx_filter_rename(parsed, columns[title].name, columns[i].name));
    *ret = hx_steal(parsed);
    return NULL;
}

static hx_error *to_sql(const hx_filter *filter, char **ret)
{
    struct hx_text sql = {0};
    hx_filter_sql(filter, &sql);
    if (sql.failed) {
        hx_text_free(&sql);
        return hx_error_nomem();
    }
    *ret = sql.s;
    return NULL;
}

/* Parses a filter for the columns of the list. */
static hx_error *parse_for(const struct hx_pane *pane, const char *filter, hx_filter **ret)
{
    struct hx_source source = {0};
    if (!pane->rows.n_columns)
        return hx_error_new(HX_E_BUSY, pane->screen->name, NULL, "the list is not loaded yet");
    if (hx_pane_windowed(pane))
        hx_pane_source(pane, pane->snapshot, &source);
    hx_error *error = parse_pane_filter(pane, &source, filter, ret);
    hx_text_free(&source.where);
    hx_text_free(&source.sql);
    hx_text_free(&source.facts);
    hx_text_free(&source.written);
    return error;
}

/* Without a filter all three are NULL. */
static void set_filter(struct hx_pane *pane, char *text, char *condition, hx_filter *parsed)
{
    free(pane->filter);
    free(pane->condition);
    hx_filter_destroy(pane->parsed);
    pane->filter = text;
    pane->condition = condition;
    pane->parsed = parsed;
}

hx_error *hx_pane_filter(struct hx_ui *ui, struct hx_pane *pane, const char *filter)
{
    HX_FREE char *copy = NULL, *condition = NULL;
    HX_FILTER hx_filter *parsed = NULL;
    if (filter) {
        copy = strdup(filter);
        HX_NEED(copy);
        HX_TRY(parse_for(pane, filter, &parsed));
    }
    if (pane->other && pane->screen->fill_differences) {
        set_filter(pane, hx_steal(copy), NULL, NULL);
        return pane->screen->fill_differences(ui, pane);
    }
    if (!hx_screen_stored(pane->screen)) {
        set_filter(pane, hx_steal(copy), NULL, hx_steal(parsed));
        return pane->screen->fill(ui, pane);
    }
    if (filter)
        HX_TRY(to_sql(parsed, &condition));
    set_filter(pane, hx_steal(copy), hx_steal(condition), NULL);
    hx_tree_forget_filter(pane->tree);
    hx_pane_order(ui, pane, pane->sort, pane->ascending); /* the same one, of other rows */
    return NULL;
}
