/* snap.c - `heapx snap PID -o FILE`: one snapshot, or a series of them; `heapx record`: the same
 * with the recorder, and the last one when it ends. */
#include "base/cleanup.h"
#include "cli/commands.h"
#include "cli/take/snapshot_series.h"
#include "cli/take/watch.h"

#include <stdio.h>
#include <sys/syscall.h>

/* Nothing was seen: perhaps it is another process that was meant. */
static void tell_silence(const struct hx_session *session, struct hx_console *console)
{
    struct hx_recorder_status status;
    char what[32];
    hx_recorder_status(session->recorder, &status);
    snprintf(what, sizeof what, "PID %d", session->pid);
    if (!status.figures.events)
        hx_say(console, what, "neither allocated nor freed anything while it was recorded");
}

static hx_error *take_series(const struct hx_args *args, bool record, int *status)
{
    if (!args->out)
        return hx_error_new(HX_E_USAGE, args->command->name, "add: -o FILE",
                            "no store is named that the snapshots go to");
    HX_CLEANUP(hx_watch_deinit) struct hx_watch watch = {0};
    if (args->when)
        HX_TRY(hx_watch_init(args->when, &watch));
    HX_SESSION struct hx_session session = {0};
    HX_TRY(hx_session_open(args, args->word[0], &session));
    struct hx_output output = {0};
    HX_TRY(hx_output_open(args->out, &output));
    HX_CONSOLE struct hx_console console;
    hx_console_init(&console);

    HX_FD int pidfd = (int)syscall(SYS_pidfd_open, session.pid, 0);
    struct hx_series series = {.session = &session,
                               .output = &output,
                               .console = &console,
                               .pidfd = pidfd,
                               .at_once = !record,
                               .last = record,
                               .lines = stdout};
    hx_series_plan(args, !record, &series);
    hx_watch_plan(&watch, args, &series);
    hx_error *err = hx_series_run(&series);
    hx_error *close_err = hx_output_close(&output);
    if (err)
        hx_error_free(close_err);
    else
        err = close_err;
    if (record)
        tell_silence(&session, &console);
    if (!err && series.unprinted)
        err = hx_error_os(series.unprinted, "standard output", "write");
    hx_session_close(&session); /* which may take a while: whoever does not wait for it is obeyed */
    if (!err && atomic_load(hx_interrupted()))
        err = hx_series_interrupted(&series);
    if (session.partial || session.late || (series.missed && !args->when))
        *status = HX_EXIT_PARTIAL;
    return err;
}

hx_error *hx_cmd_snap(const struct hx_args *args, int *status)
{
    return take_series(args, false, status);
}

hx_error *hx_cmd_record(const struct hx_args *args, int *status)
{
    return take_series(args, true, status);
}
