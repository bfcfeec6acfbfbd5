/* snap.c - `heapx snap PID -o FILE`: one snapshot, or a series of them. */
#include "base/cleanup.h"
#include "cli/commands.h"
#include "cli/summary.h"
#include "cli/take.h"

#include <errno.h>
#include <stdio.h>
#include <sys/syscall.h>

/* Times are CLOCK_MONOTONIC. Ticks lie at start + i * every, so a series does not drift; those
 * that pass while a snapshot is taken are left out. */
struct series {
    struct hx_taker *taker;
    struct hx_output *output;
    struct hx_console *console;
    uint64_t start_ns, every_ns, end_ns; /* end 0: none */
    uint64_t wanted;                     /* 0: no limit */
    uint64_t stored, missed;
    int unprinted; /* errno of the first line that could not be printed, 0: none */
    int pidfd;     /* -1: the kernel has none */
};

/* Another heapx, or strace, may trace the process for a moment. */
enum { TRACED_RETRIES = 2 };
static const uint64_t retry_ns = 50000000;

static void plan(const struct hx_args *args, struct series *series)
{
    series->every_ns = args->every_ns;
    series->wanted = args->count;
    if (!args->every_ns && (args->count > 1 || args->duration_ns))
        series->every_ns = 1000000000;
    if (!series->every_ns)
        series->wanted = 1;
    series->start_ns = hx_now_ns();
    if (args->duration_ns)
        series->end_ns = series->start_ns + args->duration_ns;
}

static bool is_traced(const hx_error *err)
{
    return err && err->kind == HX_E_BUSY && err->os_errno == EPERM;
}

static hx_error *take_one(struct series *series)
{
    int64_t number;
    for (unsigned retry = 0;; retry++) {
        bool gone;
        hx_error *err = hx_take_into(series->taker, series->output->store,
                                     &series->console->progress, series->console, &number);
        if (!is_traced(err) || retry == TRACED_RETRIES)
            HX_TRY(err);
        if (!err)
            break;
        hx_error_free(err);
        HX_TRY(hx_wait_until(hx_now_ns() + retry_ns, series->pidfd, &gone));
    }
    series->output->keeps = true;
    series->stored++;
    HX_TRY(hx_summary_line(series->output->store, number, stdout));
    if (fflush(stdout) && !series->unprinted)
        series->unprinted = errno; /* told at the end: the snapshots matter more than their lines */
    return NULL;
}

/* What one failure means for the rest of the series: NULL, go on. Who begins with a process that
 * is traced by another learns it at once. */
static hx_error *judge(struct series *series, hx_error *err)
{
    if (!err || err->kind != HX_E_BUSY || !series->every_ns || (is_traced(err) && !series->stored))
        return err;
    char line[512];
    hx_error_line(err, line, sizeof line);
    hx_error_free(err);
    hx_say(series->console, "snapshot left out", "%s", line);
    series->missed++;
    return NULL;
}

/* The target is gone. A count that was asked for is not reached; an open end just ends. */
static hx_error *ended(struct series *series)
{
    char what[32];
    snprintf(what, sizeof what, "PID %d", series->taker->pid);
    if (series->stored == 0)
        return hx_error_new(HX_E_GONE, what, NULL, "has exited before a snapshot could be taken");
    if (series->wanted)
        return hx_error_new(HX_E_GONE, what, NULL,
                            "has exited after %llu of %llu snapshots, which are kept",
                            (unsigned long long)series->stored, (unsigned long long)series->wanted);
    hx_say(series->console, what, "has exited after %llu snapshot%s, kept in %s",
           (unsigned long long)series->stored, series->stored == 1 ? "" : "s",
           series->output->path);
    return NULL;
}

/* The user ended it. */
static hx_error *interrupted(const struct series *series)
{
    char what[32], todo[512];
    snprintf(what, sizeof what, "PID %d", series->taker->pid);
    if (series->stored == 0)
        return hx_error_new(HX_E_CANCEL, what, "start again",
                            "interrupted before a snapshot was complete");
    snprintf(todo, sizeof todo, "see: heapx open %s", series->output->path);
    return hx_error_new(HX_E_CANCEL, what, todo, "interrupted after %llu snapshot%s, kept in %s",
                        (unsigned long long)series->stored, series->stored == 1 ? "" : "s",
                        series->output->path);
}

static hx_error *run(struct series *series)
{
    for (uint64_t tick = 0;;) {
        bool gone = false;
        hx_error *err = judge(series, take_one(series));
        if (err && err->kind == HX_E_GONE) {
            hx_error_free(err);
            return ended(series);
        }
        if (err)
            return err;
        if (series->wanted && series->stored + series->missed >= series->wanted)
            return NULL;
        uint64_t past = hx_now_ns() - series->start_ns;
        tick = past / series->every_ns + 1;
        uint64_t next = series->start_ns + tick * series->every_ns;
        bool last = series->end_ns && next > series->end_ns;
        HX_TRY(hx_wait_until(last ? series->end_ns : next, series->pidfd, &gone));
        if (gone)
            return ended(series);
        if (last)
            return NULL;
    }
}

hx_error *hx_cmd_snap(const struct hx_args *args, int *status)
{
    if (!args->out)
        return hx_error_new(HX_E_USAGE, "snap", "add: -o FILE",
                            "no store is named that the snapshots go to");
    HX_TAKER struct hx_taker taker = {0};
    HX_TRY(hx_taker_open(args, args->word[0], &taker));
    struct hx_output output = {0};
    HX_TRY(hx_output_open(args->out, &output));
    HX_CONSOLE struct hx_console console;
    hx_console_init(&console);

    HX_FD int pidfd = (int)syscall(SYS_pidfd_open, taker.pid, 0);
    struct series series = {
        .taker = &taker, .output = &output, .console = &console, .pidfd = pidfd};
    plan(args, &series);
    hx_error *err = run(&series);
    if (err && err->kind == HX_E_CANCEL) {
        hx_error_free(err);
        err = interrupted(&series);
    }
    hx_error *close_err = hx_output_close(&output);
    if (err)
        hx_error_free(close_err);
    else
        err = close_err;
    if (!err && series.unprinted)
        err = hx_error_os(series.unprinted, "standard output", "write");
    if (taker.partial || series.missed)
        *status = HX_EXIT_PARTIAL;
    return err;
}
