/* sql.c - `heapx sql FILE 'SELECT ...'`. */
#include "cli/commands.h"
#include "cli/take/take.h"
#include "cli/words/input_file.h"
#include "cli/words/view.h"

hx_error *hx_cmd_sql(const struct hx_args *args, int *status)
{
    HX_STORE hx_store *store = NULL;
    HX_CONSOLE struct hx_console console;
    hx_console_init(&console);
    bool partial;
    HX_TRY(hx_file_open(args, &console, args->word[0], &store, &partial));
    int64_t first;
    HX_TRY(hx_store_next(store, 0, &first));
    if (first)
        HX_TRY(hx_revise(args, &console, store, "all", hx_statement_parts(args->word[1])));
    hx_console_clear(&console);
    if (partial)
        *status = HX_EXIT_PARTIAL;
    hx_rows *rows = NULL;
    HX_TRY(hx_query_sql(store, args->word[1], &rows));
    return hx_print_rows(store, rows, args->format);
}
