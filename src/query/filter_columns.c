/* filter_columns.c - which column does a name in a condition mean? */
#include "base/cleanup.h"
#include "base/nearest.h"
#include "query/filter_private.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

static bool same_name(const char *a, const char *b)
{
    return a == b || (a && b && strcasecmp(a, b) == 0);
}

/* Is it a column of this view? view NULL: of the row. */
static bool is_view_column(const struct hx_filter_schema *schema,
                           const struct hx_filter_column *column, const char *view)
{
    if (same_name(column->view, view))
        return true;
    return schema->row && ((!column->view && same_name(view, schema->row)) ||
                           (!view && same_name(column->view, schema->row)));
}

/* The names that can stand where an unknown one does, one after another. */
struct candidates {
    const struct hx_filter_schema *schema;
    const char *view; /* columns of this one; */
    bool views;       /* or the views */
    size_t next;
};

static bool is_first_of_view(const struct hx_filter_schema *schema, size_t at)
{
    for (size_t i = 0; i < at; i++)
        if (same_name(schema->columns[i].view, schema->columns[at].view))
            return false;
    return schema->columns[at].view != NULL;
}

static const char *next_candidate(void *context)
{
    struct candidates *candidates = context;
    const struct hx_filter_schema *schema = candidates->schema;
    while (candidates->next < schema->n) {
        size_t i = candidates->next++;
        if (candidates->views && is_first_of_view(schema, i))
            return schema->columns[i].view;
        if (!candidates->views && is_view_column(schema, &schema->columns[i], candidates->view))
            return schema->columns[i].name;
    }
    return NULL;
}

/* Says which names there are, and which one may be meant. */
static hx_error *unknown_name(const struct hx_resolver *resolver, const struct hx_token *token,
                              const char *name, const char *view, bool is_view)
{
    struct candidates all = {.schema = resolver->schema, .view = view, .views = is_view},
                      again = all;
    struct hx_text todo = {0}, of = {0};
    const char *near = hx_nearest(name, next_candidate, &all), *name_found;
    if (near)
        hx_text_putf(&todo, "did you mean %s? ", near);
    if (view && !is_view)
        hx_text_putf(&of, " of %.60s", view);
    hx_text_putf(&todo, "the %s%s are: ", is_view ? "views" : "columns", hx_text_str(&of));
    for (size_t i = 0; (name_found = next_candidate(&again)); i++)
        hx_text_putf(&todo, "%s%s", i ? ", " : "", name_found);
    if (resolver->right_side && !view)
        hx_text_puts(&todo, " (a text stands in quotes)");
    hx_error *err = hx_lexer_error(resolver->lexer, token->at, token->n, hx_text_str(&todo),
                                   "unknown %s \"%.60s\"%s", is_view ? "view" : "column", name,
                                   hx_text_str(&of));
    hx_text_free(&todo);
    hx_text_free(&of);
    return err;
}

static const struct hx_filter_column *find_filter_column(const struct hx_filter_schema *schema,
                                                         const char *view, const char *name)
{
    for (size_t i = 0; i < schema->n; i++)
        if (same_name(schema->columns[i].name, name) &&
            is_view_column(schema, &schema->columns[i], view))
            return &schema->columns[i];
    return NULL;
}

static bool schema_has_view(const struct hx_filter_schema *schema, const char *view)
{
    for (size_t i = 0; i < schema->n; i++)
        if (is_view_column(schema, &schema->columns[i], view))
            return true;
    return false;
}

/* The column's place among those that the condition reads; a new one is copied. */
static hx_error *use_column(hx_filter *filter, const struct hx_filter_column *column, uint32_t *ret)
{
    for (size_t i = 0; i < filter->columns.n; i++) {
        const struct hx_filter_column *name_found = &filter->columns.v[i];
        if (name_found->id == column->id && strcmp(name_found->name, column->name) == 0 &&
            same_name(name_found->view, column->view)) {
            *ret = (uint32_t)i;
            return NULL;
        }
    }
    struct hx_filter_column copy = *column;
    copy.name = strdup(column->name);
    copy.view = column->view ? strdup(column->view) : NULL;
    if (!copy.name || (column->view && !copy.view) || !hx_vec_push(&filter->columns, copy)) {
        free((char *)copy.name);
        free((char *)copy.view);
        return hx_error_nomem();
    }
    *ret = (uint32_t)filter->columns.n - 1;
    return NULL;
}

hx_error *hx_filter_resolve(const struct hx_resolver *resolver, const struct hx_token *token,
                            uint32_t *ret)
{
    HX_FREE char *copy = strndup(resolver->lexer->text + token->at, token->n);
    HX_NEED(copy);
    char *name = copy, *view = NULL, *dot = strchr(copy, '.');
    if (dot) {
        *dot = 0;
        view = copy;
        name = dot + 1;
        if (!schema_has_view(resolver->schema, view))
            return unknown_name(resolver, token, view, NULL, true);
    }
    const struct hx_filter_column *column = find_filter_column(resolver->schema, view, name);
    return column ? use_column(resolver->filter, column, ret)
                  : unknown_name(resolver, token, name, view, false);
}

hx_error *hx_filter_symbol(const struct hx_resolver *resolver, uint32_t column, uint32_t *ret)
{
    const struct hx_filter_column *symbol =
        find_filter_column(resolver->schema, resolver->filter->columns.v[column].view, "symbol");
    *ret = HX_NO_COLUMN;
    return symbol ? use_column(resolver->filter, symbol, ret) : NULL;
}

hx_error *hx_filter_rename(hx_filter *filter, const char *name, const char *sql)
{
    for (size_t i = 0; i < filter->columns.n; i++) {
        struct hx_filter_column *column = &filter->columns.v[i];
        if (strcmp(column->name, name) != 0)
            continue;
        char *copy = strdup(sql);
        HX_NEED(copy);
        free((char *)column->name);
        column->name = copy;
    }
    return NULL;
}
