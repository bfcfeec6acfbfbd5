/* open.c - `heapx open FILE`. */
#include "cli/commands.h"
#include "cli/explore.h"
#include "cli/take/take.h"
#include "cli/words/input_file.h"

#include <sys/stat.h>
#include <unistd.h>

/* What was left to later is stored when it is worked out, in a file that is ours and that nobody
 * asks another question of. Where it cannot be written to, it is only shown. */
static hx_error *open_to_finish(const struct hx_args *args, hx_store **store)
{
    bool unfinished;
    struct stat file;
    hx_store *writer;
    HX_TRY(hx_store_is_unfinished(*store, &unfinished));
    if (!unfinished || args->given & (HX_OPTS_ANALYSIS | HX_OPTS_ATTRIBUTION) ||
        hx_store_is_temporary(*store) || stat(args->word[0], &file) != 0 ||
        file.st_uid != geteuid())
        return NULL;
    hx_error *err = hx_store_append_until(args->word[0], hx_interrupted(), &writer);
    if (err) {
        hx_error_free(err);
        return NULL;
    }
    hx_error_free(hx_store_close(*store));
    *store = writer;
    return NULL;
}

hx_error *hx_cmd_open(const struct hx_args *args, int *status)
{
    HX_STORE hx_store *store = NULL;
    HX_CONSOLE struct hx_console console;
    hx_console_init(&console);
    bool partial;
    HX_TRY(hx_file_open(args, &console, args->word[0], &store, &partial));
    if (partial)
        *status = HX_EXIT_PARTIAL;
    HX_TRY(open_to_finish(args, &store));
    HX_TRY(hx_reattribute(args, &console, store, "all"));
    hx_console_clear(&console);
    return hx_explore_store(args, store, args->word[0]);
}
