/* open.c - `heapx open FILE`. */
#include "cli/commands.h"
#include "cli/explore.h"

hx_error *hx_cmd_open(const struct hx_args *args, int *status)
{
    (void)status;
    HX_STORE hx_store *store = NULL;
    HX_TRY(hx_store_open(args->word[0], &store));
    return hx_explore_store(args, store, NULL, args->word[0]);
}
