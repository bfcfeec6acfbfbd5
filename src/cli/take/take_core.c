/* take_core.c - taking a snapshot of a core, as one of a process is taken. */
#include "cli/take/take_core.h"

#include "cli/take/take.h"

hx_error *hx_core_store(const struct hx_args *args, struct hx_console *console, const char *path,
                        hx_store *store, bool *ret_partial)
{
    HX_SESSION struct hx_session session = {0};
    int64_t number;
    HX_TRY(hx_session_open_core(args, path, &session));
    HX_TRY(hx_take_into(&session, store, &console->progress, console, &number));
    *ret_partial = session.partial;
    return NULL;
}
