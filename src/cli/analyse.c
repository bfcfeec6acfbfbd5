/* analyse.c - `heapx analyse FILE`: works out what snapshots of a store lack, and stores it. */
#include "base/cleanup.h"
#include "cli/commands.h"
#include "cli/take/take.h"

#include <errno.h>
#include <unistd.h>

static hx_error *analyse_store(const struct hx_args *args, struct hx_output *output)
{
    HX_CONSOLE struct hx_console console;
    hx_console_init(&console);
    hx_store_cancelled_by(output->store, hx_interrupted());
    hx_error *err =
        hx_revise(args, &console, output->store,
                  hx_args_given(args, HX_OPT_SNAPSHOT) ? args->snapshot : "all", HX_ANALYSE_ALL);
    hx_console_clear(&console);
    return err;
}

hx_error *hx_cmd_analyse(const struct hx_args *args, int *status)
{
    (void)status;
    struct hx_output output = {0};
    if (access(args->word[0], F_OK) != 0)
        return hx_error_os(errno, args->word[0], "open");
    HX_TRY(hx_output_open(args->word[0], &output));
    hx_error *err = analyse_store(args, &output);
    hx_error *close_err = hx_output_close(&output);
    if (!err)
        return close_err;
    hx_error_free(close_err);
    return err;
}
