/* attach.c - `heapx attach PID`. */
#include "cli/commands.h"
#include "cli/explore.h"

hx_error *hx_cmd_attach(const struct hx_args *args, int *status)
{
    HX_TAKER struct hx_taker taker = {0};
    HX_TRY(hx_taker_open(args, args->word[0], &taker));
    return hx_explore_process(args, &taker, true, status);
}
