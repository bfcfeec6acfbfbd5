/* attach.c - `heapx attach PID`. */
#include "cli/commands.h"
#include "cli/explore.h"

hx_error *hx_cmd_attach(const struct hx_args *args, int *status)
{
    HX_SESSION struct hx_session session = {0};
    HX_TRY(hx_session_open(args, args->word[0], &session));
    return hx_explore_process(args, &session, true, status);
}
