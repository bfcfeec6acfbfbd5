/* snapshot_series.c - one snapshot after the other of a process, into a store. */
#include "cli/take/snapshot_series.h"

#include "base/cleanup.h"
#include "cli/summary.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>

/* Another heapx, or strace, may trace the process for a moment. */
enum { TRACED_RETRIES = 2 };
static const uint64_t retry_ns = 50000000;

/* How often something beside the clock is looked at. */
static const uint64_t poll_ns = 2000000;

void hx_series_plan(const struct hx_args *args, bool ticks, struct hx_series *series)
{
    series->every_ns = args->every_ns;
    series->wanted = args->count;
    if (!args->every_ns && (args->count > 1 || (args->duration_ns && ticks)))
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

static hx_error *stored(struct hx_series *series, int64_t number)
{
    series->output->keeps = true;
    series->stored++;
    if (!series->lines)
        return NULL;
    HX_TRY(hx_summary_line(series->output->store, number, series->lines));
    if (fflush(series->lines) && !series->unprinted)
        series->unprinted = errno; /* told at the end: the snapshots matter more than their lines */
    return NULL;
}

hx_error *hx_series_take(struct hx_series *series)
{
    int64_t number;
    for (unsigned retry = 0;; retry++) {
        bool gone;
        hx_error *err = hx_take_into(series->session, series->output->store,
                                     &series->console->progress, series->console, &number);
        if (!is_traced(err) || retry == TRACED_RETRIES)
            HX_TRY(err);
        if (!err)
            break;
        hx_error_free(err);
        HX_TRY(hx_wait_until(hx_now_ns() + retry_ns, series->pidfd, &gone));
    }
    return stored(series, number);
}

/* Does the series go on without the snapshot that was not taken? Who begins with a process that is
 * traced by another learns it at once; a program that was started here is recorded all the same. */
static bool can_leave_out(struct hx_series *series, const hx_error *err)
{
    if (!series->every_ns)
        return false;
    if (err->kind == HX_E_CANCEL)
        return series->interrupt && series->interrupt(series);
    if (err->kind == HX_E_LIMIT) /* no room for it: who records goes on */
        return series->poll != NULL;
    return err->kind == HX_E_BUSY && (!is_traced(err) || series->stored || series->poll);
}

/* What one failure means for the rest of the series: NULL, go on. */
static hx_error *judge_series_failure(struct hx_series *series, hx_error *err)
{
    if (!err || !can_leave_out(series, err))
        return err;
    char line[512];
    hx_error_line(err, line, sizeof line);
    hx_error_free(err);
    hx_say(series->console, "snapshot left out", "%s", line);
    series->missed++;
    return NULL;
}

/* One that nobody has waited for yet is there still, and has exited. */
static bool has_exited(const struct hx_series *series)
{
    struct pollfd watch = {.fd = series->pidfd, .events = POLLIN};
    return series->pidfd < 0 || poll(&watch, 1, 0) > 0;
}

/* The target is gone. A count that was asked for is not reached; an open end just ends. */
static hx_error *series_target_gone(struct hx_series *series)
{
    char what[32];
    snprintf(what, sizeof what, "PID %d", series->session->pid);
    if (series->stored == 0)
        return hx_error_new(HX_E_GONE, what, NULL, "has exited before a snapshot could be taken");
    if (series->wanted > series->stored)
        return hx_error_new(HX_E_GONE, what, NULL,
                            "has exited after %llu of %llu snapshots, which are kept",
                            (unsigned long long)series->stored, (unsigned long long)series->wanted);
    if (series->lines)
        hx_say(series->console, what, "has %s after %llu snapshot%s, kept in %s",
               has_exited(series) ? "exited" : "become another program",
               (unsigned long long)series->stored, series->stored == 1 ? "" : "s",
               series->output->path);
    return NULL;
}

hx_error *hx_series_interrupted(const struct hx_series *series)
{
    char what[32], todo[512];
    snprintf(what, sizeof what, "PID %d", series->session->pid);
    if (series->stored == 0)
        return hx_error_new(HX_E_CANCEL, what, "start again",
                            "interrupted before a snapshot was complete");
    snprintf(todo, sizeof todo, "see: heapx open %s", series->output->path);
    return hx_error_new(HX_E_CANCEL, what, todo, "interrupted after %llu snapshot%s, kept in %s",
                        (unsigned long long)series->stored, series->stored == 1 ? "" : "s",
                        series->output->path);
}

hx_error *hx_series_take_late(struct hx_series *series)
{
    int64_t number;
    hx_error *err = hx_take_late(series->session, series->output->store, series->console, &number);
    if (err && err->kind == HX_E_ABSENT) { /* or nothing was */
        hx_error_free(err);
        return NULL;
    }
    HX_TRY(err);
    return stored(series, number);
}

/* Shows how far the recorder is. True: it has ended, and the series is about what it saw. */
static bool show_recorder_progress(struct hx_series *series)
{
    struct hx_recorder_status status;
    if (!series->session->recorder)
        return false;
    hx_recorder_status(series->session->recorder, &status);
    hx_progress_at(&series->console->progress, "recording", status.figures.events, 0);
    return status.ended && series->last && !series->poll;
}

/* Waits for the deadline, and looks meanwhile. *ret_done: the series is at its end. */
static hx_error *wait_until(struct hx_series *series, uint64_t deadline_ns, bool *ret_gone,
                            bool *ret_done)
{
    *ret_gone = *ret_done = false;
    bool idle = !series->poll && !series->session->recorder;
    uint64_t step = series->poll ? poll_ns : 50 * poll_ns;
    for (;;) {
        uint64_t now = hx_now_ns();
        uint64_t next = idle || deadline_ns < now + step ? deadline_ns : now + step;
        hx_error *err = hx_wait_until(next, series->pidfd, ret_gone);
        if (err && err->kind == HX_E_CANCEL && series->interrupt && series->interrupt(series)) {
            hx_error_free(err);
            continue;
        }
        HX_TRY(err);
        if (*ret_gone)
            return NULL;
        *ret_gone = show_recorder_progress(series);
        if (*ret_gone)
            return NULL;
        if (series->poll)
            HX_TRY(series->poll(series, ret_done));
        if (*ret_done || hx_now_ns() >= deadline_ns)
            return NULL;
    }
}

static hx_error *series_process_gone(struct hx_series *series)
{
    /* one that ended before the first tick was recorded all the same */
    if ((series->last || !series->stored) && series->session->recorder)
        HX_TRY(hx_series_take_late(series));
    hx_console_clear(series->console);
    return series_target_gone(series);
}

/* The snapshot at the end; of a process that has just ended there is what was recorded. */
static hx_error *take_end(struct hx_series *series)
{
    hx_error *err = judge_series_failure(series, hx_series_take(series));
    if (!err || err->kind != HX_E_GONE || !series->session->recorder)
        return err;
    hx_error_free(err);
    return series_process_gone(series);
}

/* The time is over. */
static hx_error *at_end(struct hx_series *series)
{
    if (series->last)
        return take_end(series);
    if (!series->when || series->stored)
        return NULL;
    char what[32];
    snprintf(what, sizeof what, "PID %d", series->session->pid);
    return hx_error_new(HX_E_ABSENT, what, "wait longer, or ask for less",
                        "the condition of --when did not hold in that time");
}

/* The snapshot of a tick, when one is wanted. */
static hx_error *take_tick(struct hx_series *series)
{
    bool due = true;
    if (series->when)
        HX_TRY(series->when(series, &due));
    return due ? judge_series_failure(series, hx_series_take(series)) : NULL;
}

static hx_error *take_ticks(struct hx_series *series)
{
    for (uint64_t tick = series->at_once ? 0 : 1;;) {
        bool is_gone = false, done = false;
        if (tick) {
            uint64_t next =
                series->every_ns ? series->start_ns + tick * series->every_ns : UINT64_MAX;
            /* a tick at the very end is the last one, which is taken anyway */
            bool end = series->end_ns && next >= series->end_ns + !series->last;
            HX_TRY(wait_until(series, end ? series->end_ns : next, &is_gone, &done));
            if (is_gone)
                return series_process_gone(series);
            if (done)
                return NULL;
            if (end)
                return at_end(series);
        }
        hx_error *err = take_tick(series);
        if (err && err->kind == HX_E_GONE) {
            hx_error_free(err);
            return series_process_gone(series);
        }
        HX_TRY(err);
        /* one that a condition asked for and that was left out is tried again */
        uint64_t over = series->stored + (series->when ? 0 : series->missed);
        if (series->wanted && over >= series->wanted)
            return NULL;
        tick = (hx_now_ns() - series->start_ns) / series->every_ns + 1;
    }
}

hx_error *hx_series_run(struct hx_series *series)
{
    hx_error *err = take_ticks(series);
    if (!err || err->kind != HX_E_CANCEL)
        return err;
    hx_error_free(err);
    if (series->interrupt) /* it came while a snapshot was taken: others wait for it, too */
        series->interrupt(series);
    if (series->last) { /* a second interrupt ends this one, too */
        bool sent;
        hx_interrupts_forget(&sent);
        err = take_end(series);
        if (err && err->kind != HX_E_CANCEL)
            return err;
        hx_error_free(err);
    }
    hx_console_clear(series->console);
    return hx_series_interrupted(series);
}
