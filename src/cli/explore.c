/* explore.c - the explorer, or the summary where there is no terminal. */
#include "config.h"

#include "cli/explore.h"

#include "base/cleanup.h"
#include "cli/commands.h"
#include "cli/summary.h"
#include "ui/ui.h"

#include <string.h>

#ifdef HX_HAVE_UI
static hx_error *take_again(void *taker, const struct hx_progress *progress,
                            struct hx_snapshot **ret)
{
    return hx_take(taker, progress, ret);
}

static hx_error *read_live(void *context, uint64_t address, size_t n, uint8_t *ret, size_t *ret_n)
{
    const struct hx_taker *taker = context;
    return hx_attach_peek(taker->attach, address, n, ret, ret_n);
}

static void tell_recording(void *context, struct hx_ui_recording *ret)
{
    struct hx_taker *taker = context;
    struct hx_recorder_status status;
    hx_recorder_status(taker->recorder, &status);
    *ret = (struct hx_ui_recording){
        .events = status.figures.events, .lost = status.figures.lost, .ended = status.ended};
}

static hx_error *run_explorer(const struct hx_args *args, hx_store *store, struct hx_taker *taker,
                              const char *title)
{
    struct hx_ui_options options = {
        .store = store,
        .title = title,
        .script = args->script,
        .color = hx_color(args),
        .take = taker ? take_again : NULL,
        .recording = taker && taker->recorder ? tell_recording : NULL,
        .read = taker && taker->attach ? read_live : NULL,
        .context = taker,
        .every_ns = args->every_ns,
        .analysis = taker ? &taker->analysis : &args->analysis,
        .root = args->root,
        .n_roots = args->n_roots,
    };
    hx_interrupts_release(); /* the explorer has keys for that */
    return hx_ui_run(&options);
}
#endif

static hx_error *print_newest(hx_store *store)
{
    int64_t newest;
    HX_TRY(hx_store_resolve(store, "last", &newest));
    return hx_summary_print(store, newest, stdout);
}

hx_error *hx_explore_store(const struct hx_args *args, hx_store *store, struct hx_taker *taker,
                           const char *title)
{
#ifdef HX_HAVE_UI
    if (args->script || getenv("HEAPX_SCRIPT") || hx_has_terminal())
        return run_explorer(args, store, taker, title);
#else
    (void)taker;
    if (args->script)
        return hx_error_new(HX_E_FAIL, "--script", "install libncurses-dev, configure and build",
                            "this build has no explorer");
    if (hx_has_terminal())
        hx_say(NULL, title, "this build has no explorer (ncurses was missing); the summary is:");
#endif
    return print_newest(store);
}

static hx_error *take_first(struct hx_taker *taker, hx_store *store)
{
    HX_CONSOLE struct hx_console console;
    hx_console_init(&console);
    int64_t number;
    return hx_take_into(taker, store, &console.progress, &console, &number);
}

static char *title_of(pid_t pid)
{
    char path[32], comm[32] = "", *title = NULL;
    snprintf(path, sizeof path, "/proc/%d/comm", pid);
    HX_FILE FILE *file = fopen(path, "re");
    size_t n = file ? fread(comm, 1, sizeof comm - 1, file) : 0;
    comm[n && comm[n - 1] == '\n' ? n - 1 : n] = 0; /* names may hold other line ends */
    if (asprintf(&title, "PID %d (%s)", pid, comm) < 0)
        return NULL;
    return title;
}

static hx_error *explore_into(const struct hx_args *args, struct hx_taker *taker, hx_store *store,
                              bool *keeps)
{
    HX_FREE char *title = title_of(taker->pid);
    if (!title)
        return hx_error_nomem();
    HX_TRY(take_first(taker, store));
    *keeps = true;
    return hx_explore_store(args, store, taker, title);
}

hx_error *hx_explore_process(const struct hx_args *args, struct hx_taker *taker, int *status)
{
    struct hx_output output = {0};
    if (args->out)
        HX_TRY(hx_output_open(args->out, &output));
    else
        HX_TRY(hx_store_temporary(&output.store));
    hx_error *err = explore_into(args, taker, output.store, &output.keeps);
    hx_error *close_err = hx_output_close(&output);
    if (err)
        hx_error_free(close_err);
    else
        err = close_err;
    if (taker->partial)
        *status = HX_EXIT_PARTIAL;
    return err;
}
