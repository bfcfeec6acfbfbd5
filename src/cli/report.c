/* report.c - `heapx report TARGET VIEW`. */
#include "base/cleanup.h"
#include "base/nearest.h"
#include "cli/commands.h"
#include "cli/take.h"

#include <stdio.h>
#include <string.h>

/* Views of later versions. */
static const char *const later[] = {"sites",      "modules",      "ccs",
                                    "costs",      "biography",    "mprof_leaks",
                                    "mprof_bins", "mprof_direct", "mprof_graph"};

/* Columns that are read upwards; all others are figures, of which the large ones matter. */
static const char *const upwards[] = {
    "snapshot",  "taken_at", "pid",     "comm",   "exe",      "method", "allocator",
    "notes",     "part",     "root_id", "kind",   "name",     "module", "address",
    "type",      "site",     "what",    "state",  "source",   "target", "offset",
    "dominator", "scheme",   "bin",     "ccs_id", "requested"};

static bool is_in(const char *word, const char *const *words, size_t n)
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

static hx_error *check_view(const char *name)
{
    if (hx_view_find(name))
        return NULL;
    if (is_in(name, later, sizeof later / sizeof *later))
        return hx_error_new(HX_E_USAGE, name, "see: heapx help report",
                            "this view is not in this version");
    const struct hx_view *cursor = hx_views;
    const char *near = hx_nearest(name, next_view, &cursor);
    char todo[64] = "see: heapx help report";
    if (near)
        snprintf(todo, sizeof todo, "did you mean %s?", near);
    return hx_error_new(HX_E_USAGE, name, todo, "unknown view");
}

/* What has to be worked out for a view. */
static unsigned parts_of(const char *view)
{
    static const struct {
        const char *view;
        unsigned parts;
    } table[] = {
        {"censuses", HX_ANALYSE_RETAINERS},
        {"retainers", HX_ANALYSE_RETAINERS},
        {"retainer_members", HX_ANALYSE_RETAINERS},
        {"bins", HX_ANALYSE_BINS},
        {"dominators", HX_ANALYSE_RETAINED},
        {"roots", HX_ANALYSE_RETAINED},
        {"types", HX_ANALYSE_RETAINED},
        {"objects", HX_ANALYSE_ALL},
        {"pages", HX_ANALYSE_ALL},
    };
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        if (strcmp(table[i].view, view) == 0)
            return table[i].parts;
    return 0;
}

/* COL, COL:asc or COL:desc; *column is the caller's. */
static hx_error *parse_sort(const char *sort, char **column, bool *ascending)
{
    size_t len = strcspn(sort, ":");
    const char *order = sort[len] ? sort + len + 1 : NULL;
    if (len == 0 || (order && strcmp(order, "asc") != 0 && strcmp(order, "desc") != 0))
        return hx_error_new(HX_E_USAGE, "--sort", NULL, "'%s' is not COL, COL:asc or COL:desc",
                            sort);
    *column = strndup(sort, len);
    if (!*column)
        return hx_error_nomem();
    *ascending = order ? strcmp(order, "asc") == 0
                       : is_in(*column, upwards, sizeof upwards / sizeof *upwards);
    return NULL;
}

hx_error *hx_cmd_report(const struct hx_args *args, int *status)
{
    HX_FREE char *column = NULL;
    struct hx_query query = {.view = args->word[1], .limit = -1};
    HX_TRY(check_view(query.view));
    if (args->sort) {
        HX_TRY(parse_sort(args->sort, &column, &query.ascending));
        query.sort = column;
    }
    if (hx_args_given(args, HX_OPT_LIMIT))
        query.limit = (int64_t)args->limit;

    HX_CONSOLE struct hx_console console;
    hx_console_init(&console);
    HX_STORE hx_store *store = NULL;
    bool partial;
    HX_TRY(hx_target_open(args, &console, args->word[0], parts_of(query.view), &store, &partial));
    if (strcmp(args->snapshot, "all") != 0)
        HX_TRY(hx_store_resolve(store, args->snapshot, &query.snapshot));
    hx_console_clear(&console);
    if (partial)
        *status = HX_EXIT_PARTIAL;
    hx_rows *rows = NULL;
    HX_TRY(hx_query_view(store, &query, &rows));
    return hx_print_rows(store, rows, args->format);
}
