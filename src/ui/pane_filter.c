/* pane_filter.c - showing only the rows for which a condition holds. */
#include "ui/app.h"

#include "traverse/filter.h"

#include <string.h>

static enum hx_filter_class class_of_cells(enum hx_as as)
{
    switch (as) {
    case HX_AS_TEXT:
    case HX_AS_SAFE:
    case HX_AS_TIME:
        return HX_FILTER_TEXT;
    default:
        return HX_FILTER_NUMBER;
    }
}

/* As the view says that the statement is made of; else as the screen shows it. */
static enum hx_filter_class class_of(const struct hx_pane *pane,
                                     const struct hx_filter_schema *like, const char *name)
{
    for (size_t i = 0; i < like->n; i++)
        if (strcmp(like->columns[i].name, name) == 0)
            return like->columns[i].class;
    for (const struct hx_column *column = pane->screen->columns; column->name; column++)
        if (strcmp(column->name, name) == 0)
            return class_of_cells(column->as);
    return HX_FILTER_ANY;
}

static hx_error *parse(const struct hx_pane *pane, const struct hx_source *source,
                       const char *filter, hx_filter **ret)
{
    struct hx_filter_schema schema = {0};
    if (source->view && hx_view_schema(source->view, &schema))
        return hx_filter_parse(filter, &schema, NULL, ret);
    if (source->like && !hx_view_schema(source->like, &schema))
        schema.n = 0;
    size_t n = pane->rows.n_columns;
    HX_FREE struct hx_filter_column *columns = calloc(n + 1, sizeof *columns);
    if (!columns)
        return hx_error_nomem();
    for (size_t i = 0; i < n; i++)
        columns[i] =
            (struct hx_filter_column){.name = pane->rows.names[i],
                                      .class = class_of(pane, &schema, pane->rows.names[i]),
                                      .id = i};
    struct hx_filter_schema own = {.columns = columns, .n = n};
    return hx_filter_parse(filter, &own, NULL, ret);
}

static hx_error *to_sql(const struct hx_pane *pane, const char *filter, char **ret)
{
    struct hx_load load = {0};
    HX_FILTER hx_filter *parsed = NULL;
    pane->screen->source(pane, pane->snapshot, &load.source);
    hx_error *error = parse(pane, &load.source, filter, &parsed);
    hx_load_end(&load);
    HX_TRY(error);
    struct hx_text sql = {0};
    hx_filter_sql(parsed, &sql);
    if (sql.failed) {
        hx_text_free(&sql);
        return hx_error_nomem();
    }
    *ret = sql.s;
    return NULL;
}

hx_error *hx_pane_filter(struct hx_ui *ui, struct hx_pane *pane, const char *filter)
{
    HX_FREE char *copy = NULL, *condition = NULL;
    if (!pane->screen->source)
        return hx_error_new(HX_E_FAIL, pane->screen->name, "/ searches it",
                            "this list cannot be filtered");
    if (filter && !pane->rows.n_columns)
        return hx_error_new(HX_E_BUSY, pane->screen->name, NULL, "the list is not loaded yet");
    if (filter) {
        copy = strdup(filter);
        if (!copy)
            return hx_error_nomem();
        HX_TRY(to_sql(pane, filter, &condition));
    }
    free(pane->filter);
    free(pane->condition);
    pane->filter = hx_steal(copy);
    pane->condition = hx_steal(condition);
    hx_pane_order(ui, pane, pane->sort, pane->ascending); /* the same one, of other rows */
    return NULL;
}
