/* open.c - `heapx open FILE`. */
#include "cli/commands.h"
#include "cli/explore.h"
#include "cli/take/take.h"
#include "cli/words/input_file.h"

hx_error *hx_cmd_open(const struct hx_args *args, int *status)
{
    HX_STORE hx_store *store = NULL;
    HX_CONSOLE struct hx_console console;
    hx_console_init(&console);
    bool partial;
    HX_TRY(hx_file_open(args, &console, args->word[0], &store, &partial));
    if (partial)
        *status = HX_EXIT_PARTIAL;
    HX_TRY(hx_reattribute(args, &console, store, "all"));
    hx_console_clear(&console);
    return hx_explore_store(args, store, args->word[0]);
}
