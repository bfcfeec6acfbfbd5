/* core.c - taking a snapshot of a core, as one of a process is taken. */
#include "cli/core.h"

#include "cli/take.h"

hx_error *hx_core_store(const struct hx_args *args, struct hx_console *console, const char *path,
                        hx_store *store, bool *ret_partial)
{
    HX_TAKER struct hx_taker taker = {0};
    int64_t number;
    HX_TRY(hx_taker_open_core(args, path, &taker));
    HX_TRY(hx_take_into(&taker, store, &console->progress, console, &number));
    *ret_partial = taker.partial;
    return NULL;
}
