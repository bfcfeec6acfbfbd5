/* import.c - `heapx import IN -o FILE`. */
#include "base/cleanup.h"
#include "cli/commands.h"
#include "cli/take/take.h"
#include "cli/words/input_file.h"

static hx_error *import_into(const struct hx_args *args, struct hx_output *output, int *status)
{
    bool partial = false;
    HX_CONSOLE struct hx_console console;
    hx_console_init(&console);
    HX_TRY(hx_file_import(args, &console, args->word[0], output->store, &partial));
    output->keeps = true;
    if (partial)
        *status = HX_EXIT_PARTIAL;
    return NULL;
}

hx_error *hx_cmd_import(const struct hx_args *args, int *status)
{
    if (!args->out)
        return hx_error_new(HX_E_USAGE, "-o", "usage: heapx import IN -o FILE",
                            "the store to write is missing");
    struct hx_output output = {0};
    HX_TRY(hx_output_open(args->out, &output));
    hx_error *err = import_into(args, &output, status);
    hx_error *close_err = hx_output_close(&output);
    if (!err)
        return close_err;
    hx_error_free(close_err);
    return err;
}
