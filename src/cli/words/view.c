/* view.c - reads the names of views, columns to sort by, and conditions. */
#include "cli/words/view.h"

#include "base/nearest.h"
#include "store/census.h"
#include "store/query.h"

#include <stdio.h>
#include <ctype.h>
#include <string.h>

/* Columns that are read upwards; all others are figures, of which the large ones matter. */
static const char *const upwards[] = {
    "snapshot", "taken_at", "pid",       "comm",   "exe",      "method",     "allocator",  "notes",
    "part",     "root_id",  "kind",      "name",   "module",   "address",    "type",       "site",
    "what",     "state",    "source",    "target", "offset",   "dominator",  "scheme",     "bin",
    "ccs_id",   "set_id",   "position",  "label",  "roots",    "confidence", "census",     "key",
    "parent",   "status",   "parent_id", "depth",  "stack_id", "frame_id",   "tid",        "stack",
    "path",     "cut",      "holder",    "size",   "entry",    "line",       "name_entry", "cycle",
    "types",    "phase"};

static bool is_in_words(const char *word, const char *const *words, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (strcmp(word, words[i]) == 0)
            return true;
    return false;
}

static const char *next_view(void *context)
{
    const struct hx_view **cursor = context;
    return (*cursor)->name ? (*cursor)++->name : NULL;
}

hx_error *hx_view_word(const char *name)
{
    if (hx_view_find(name))
        return NULL;
    const struct hx_view *cursor = hx_views;
    const char *near = hx_nearest(name, next_view, &cursor);
    char todo[64] = "see: heapx help report";
    if (near)
        snprintf(todo, sizeof todo, "did you mean %s?", near);
    return hx_error_new(HX_E_USAGE, name, todo, "unknown view");
}

unsigned hx_view_parts(const char *view)
{
    static const struct {
        const char *view;
        unsigned parts;
    } table[] = {
        {"censuses", HX_ANALYSE_RETAINERS},
        {"retainer_members", HX_ANALYSE_RETAINERS},
        {"mprof_held", HX_ANALYSE_RETAINERS},
        {"tree", HX_ANALYSE_RETAINED},
        {"holder_tree", HX_ANALYSE_HOLDERS},
        {"objects", HX_ANALYSE_ALL & ~HX_ANALYSE_TYPES},
        {"pages", HX_ANALYSE_ALL & ~HX_ANALYSE_RETAINED},
    };
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        if (strcmp(table[i].view, view) == 0)
            return table[i].parts;
    const struct hx_stored_census *census = hx_census_compared(view);
    return census ? census->needs : 0;
}

unsigned hx_words_parts(const char *words)
{
    return words && strstr(words, "sure_retained") ? HX_ANALYSE_SURE : 0;
}

static bool is_of_name(char c)
{
    return isalnum((unsigned char)c) || c == '_';
}

static bool names_view(const char *sql, const char *name)
{
    const size_t n = strlen(name);
    for (const char *at = sql; (at = strcasestr(at, name)); at += n)
        if ((at == sql || !is_of_name(at[-1])) && !is_of_name(at[n]))
            return true;
    return false;
}

unsigned hx_statement_parts(const char *sql)
{
    unsigned parts = hx_words_parts(sql);
    for (const struct hx_view *view = hx_views; view->name; view++)
        if (names_view(sql, view->name))
            parts |= hx_view_parts(view->name);
    return parts;
}

hx_error *hx_sort_word(const char *sort, char **column, bool *ascending)
{
    size_t len = strcspn(sort, ":");
    const char *order = sort[len] ? sort + len + 1 : NULL;
    if (len == 0 || (order && strcmp(order, "asc") != 0 && strcmp(order, "desc") != 0))
        return hx_error_new(HX_E_USAGE, "--sort", NULL, "'%s' is not COL, COL:asc or COL:desc",
                            sort);
    *column = strndup(sort, len);
    HX_NEED(*column);
    *ascending = order ? strcmp(order, "asc") == 0
                       : is_in_words(*column, upwards, sizeof upwards / sizeof *upwards);
    return NULL;
}

hx_error *hx_where_word(const char *what, const char *text, const struct hx_filter_schema *schema,
                        hx_filter **ret)
{
    hx_error *err = hx_filter_parse(text, schema, NULL, ret);
    if (!err || err->kind != HX_E_USAGE)
        return err;
    hx_error *told = hx_error_new(HX_E_USAGE, what, err->todo, "%s", err->why);
    hx_error_free(err);
    return told;
}
