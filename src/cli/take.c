/* take.c - taking snapshots for the commands that need one. */
#include "cli/take.h"

#include "attach/core.h"
#include "attach/preflight.h"
#include "base/cleanup.h"
#include "base/timing.h"
#include "cli/asked.h"
#include "cli/commands.h"
#include "cli/file.h"
#include "traverse/reach.h"
#include "traverse/scan.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* What is about to happen, and what it will cost. */
static void tell_start(const struct hx_source *source, void *state, const char *notes)
{
    struct hx_record_overhead overhead = {0};
    source->overhead(state, &overhead);
    fprintf(stderr, "heapx: %s", notes);
    if (overhead.pair_ns > 0)
        fprintf(stderr, "; an allocation and its free take about %.1f us longer now",
                overhead.pair_ns / 1000);
    fputc('\n', stderr);
}

/* Before its thread starts, the agent is there. */
static hx_error *record_with_probes(struct hx_taker *taker)
{
    const struct hx_source *source;
    void *state;
    char *notes = NULL;
    struct hx_record_options options = taker->args->recorder;
    options.hurry = hx_interrupted_ever();
    HX_TRY(hx_probes_open(taker->pid, &options, &source, &state, &notes));
    if (notes && taker->args->command->run == hx_cmd_record && isatty(STDERR_FILENO))
        tell_start(source, state, notes);
    return hx_taker_record(taker, source, state, notes);
}

char *hx_taker_name(const struct hx_taker *taker, char *buf, size_t size)
{
    if (taker->core)
        snprintf(buf, size, "%s", taker->core);
    else
        snprintf(buf, size, "PID %d", taker->pid);
    return buf;
}

static struct hx_taker new_taker(const struct hx_args *args)
{
    struct hx_taker taker = {.args = args, .analysis = args->analysis};
    if (!taker.analysis.scheme)
        taker.analysis.scheme = hx_schemes[0];
    return taker;
}

hx_error *hx_taker_open_core(const struct hx_args *args, const char *path, struct hx_taker *ret)
{
    struct hx_taker taker = new_taker(args);
    taker.core = path;
    HX_TRY(hx_attach_open_core(path, args->exe, args->sysroot, &taker.attach));
    *ret = taker;
    return NULL;
}

hx_error *hx_taker_open_pid(const struct hx_args *args, pid_t pid, struct hx_taker *ret)
{
    struct hx_taker taker = new_taker(args);
    taker.pid = pid;
    HX_TRY(hx_preflight_error(taker.pid));
    HX_TRY(hx_attach_open(taker.pid, &taker.attach));
    *ret = taker;
    return NULL;
}

hx_error *hx_taker_open_beside(const struct hx_taker *first, pid_t pid, struct hx_taker *ret)
{
    struct hx_taker taker = new_taker(first->args);
    taker.pid = pid;
    HX_TRY(hx_preflight_error(taker.pid));
    HX_TRY(hx_attach_open_beside(first->attach, taker.pid, &taker.attach));
    *ret = taker;
    return NULL;
}

hx_error *hx_taker_open(const struct hx_args *args, const char *word, struct hx_taker *ret)
{
    pid_t pid;
    HX_TRY(hx_parse_pid(word, &pid));
    HX_TRY(hx_taker_open_pid(args, pid, ret));
    return args->record || args->command->run == hx_cmd_record ? record_with_probes(ret) : NULL;
}

hx_error *hx_taker_record(struct hx_taker *taker, const struct hx_source *source, void *state,
                          char *notes)
{
    taker->recorder_notes = notes;
    return hx_recorder_start(source, state, hx_attach_stop_mark(taker->attach), &taker->recorder);
}

void hx_taker_close(struct hx_taker *taker)
{
    hx_error *err = hx_recorder_stop(taker->recorder);
    if (err) { /* why it ended early */
        char line[512];
        hx_error_line(err, line, sizeof line);
        hx_say(NULL, "recorder", "%s", line);
        hx_error_free(err);
    }
    hx_attach_close(taker->attach);
    free(taker->recorder_notes);
    free(taker->late_why);
    taker->recorder = NULL;
    taker->attach = NULL;
    taker->recorder_notes = taker->late_why = NULL;
}

static hx_error *ask_recorder(void *context, uint64_t stop_ns, const struct hx_progress *progress,
                              struct hx_recording **ret)
{
    struct hx_taker *taker = context;
    HX_TRY(hx_recorder_recording(taker->recorder, stop_ns, progress, ret));
    if (taker->args->min_age_ns)
        hx_recording_drop_young(*ret, taker->args->min_age_ns);
    return NULL;
}

bool hx_taker_overhead(struct hx_taker *taker, char *ret, size_t size)
{
    struct hx_recorder_status status = {0};
    if (taker->recorder)
        hx_recorder_status(taker->recorder, &status);
    const struct hx_record_overhead *spent = &status.overhead;
    char share[96] = "";
    if (spent->program_ns >= 100000000 && spent->spent_ns <= spent->program_ns)
        snprintf(share, sizeof share,
                 "%.1f %% of the program's processor time, and heapx beside it %.1f %%",
                 100.0 * (double)spent->spent_ns / (double)spent->program_ns,
                 100.0 * (double)status.pump_ns / (double)spent->program_ns);
    if (spent->pair_ns > 0)
        snprintf(ret, size, "recording took about %.0f ns for an allocation and its free%s%s",
                 spent->pair_ns, *share ? ": " : "", share);
    else
        snprintf(ret, size, "recording took about %s", share);
    return spent->pair_ns > 0 || (*share && spent->spent_ns > 0);
}

/* Whatever failed while the process went away failed because of that. */
static hx_error *gone_or(pid_t pid, hx_error *err)
{
    char what[32];
    hx_error *refusal = err->kind == HX_E_CANCEL ? NULL : hx_preflight_error(pid);
    bool gone = refusal && (refusal->kind == HX_E_GONE || refusal->kind == HX_E_ABSENT);
    hx_error_free(refusal);
    if (!gone)
        return err;
    hx_error_free(err);
    snprintf(what, sizeof what, "PID %d", pid);
    return hx_error_new(HX_E_GONE, what, NULL, "has exited before a snapshot could be taken");
}

/* Whatever stage it was: what counts is that of this process nothing was taken. */
static hx_error *or_interrupted(const struct hx_taker *taker, hx_error *err)
{
    char what[PATH_MAX];
    if (!err || err->kind != HX_E_CANCEL)
        return err;
    hx_error_free(err);
    return hx_error_new(HX_E_CANCEL, hx_taker_name(taker, what, sizeof what), "start again",
                        "interrupted before the snapshot was complete");
}

static hx_error *take_live_snapshot(struct hx_taker *taker, const struct hx_progress *progress,
                                    struct hx_snapshot **ret)
{
    const struct hx_args *args = taker->args;
    HX_SNAPSHOT struct hx_snapshot *snapshot = NULL;
    uint64_t begun = hx_timing_begin();
    struct hx_capture_options options = args->capture;
    options.recording = taker->recorder ? ask_recorder : NULL;
    options.context = taker;
    hx_error *err = hx_attach_capture(taker->attach, &options, progress, &snapshot);
    if (err)
        return taker->core ? err : gone_or(taker->pid, err);
    if (taker->recorder_notes && snapshot->recording)
        hx_snapshot_note(snapshot, false, "%s", taker->recorder_notes);
    char spent[160];
    if (snapshot->recording && hx_taker_overhead(taker, spent, sizeof spent))
        hx_snapshot_note(snapshot, false, "%s", spent);
    hx_timing_end(begun, "capture", snapshot->graph.n);
    if (args->pause && !taker->core)
        hx_snapshot_note(snapshot, false, "pause method %s is not in this version: %s was used",
                         args->pause, snapshot->method ? snapshot->method : "copy");
    struct hx_scan_options scan = {
        .threads = args->threads, .is_vtable = hx_attach_is_vtable, .context = taker->attach};
    begun = hx_timing_begin();
    HX_TRY(hx_scan(snapshot, &scan, progress));
    hx_timing_end(begun, "scan", snapshot->graph.n);
    begun = hx_timing_begin();
    HX_TRY(hx_attach_names(taker->attach, snapshot, progress));
    HX_TRY(hx_attach_types(taker->attach, snapshot, args->threads, progress));
    hx_timing_end(begun, "types", snapshot->graph.n);
    HX_TRY(hx_take_roots(taker, snapshot, progress));
    hx_snapshot_drop_image(snapshot);
    begun = hx_timing_begin();
    HX_TRY(hx_reach(snapshot, args->interior, args->threads, progress));
    hx_timing_end(begun, "mark", snapshot->graph.n);
    taker->partial |= !snapshot->complete;
    *ret = hx_steal(snapshot);
    return NULL;
}

static const char killed_text[] =
    "has ended while its snapshot was made, and the kernel has killed processes for lack of memory";

static struct hx_progress watched(struct hx_taker *taker, const struct hx_progress *progress)
{
    struct hx_progress copy = progress ? *progress : (struct hx_progress){0};
    copy.exhausted = hx_attach_exhausted(taker->attach);
    return copy;
}

/* Nothing more is done about the snapshot. One that was taken of a process which the kernel has
 * killed meanwhile is kept, and no success. */
static hx_error *settle_snapshot(struct hx_taker *taker, hx_error *err)
{
    char what[PATH_MAX];
    bool killed;
    err = hx_attach_settle(taker->attach, err, &killed);
    taker->killed |= killed;
    taker->partial |= killed;
    if (!err || !killed)
        return or_interrupted(taker, err);
    hx_error_free(err);
    return hx_error_new(HX_E_LIMIT, hx_taker_name(taker, what, sizeof what), "see: dmesg", "%s",
                        killed_text);
}

hx_error *hx_take(struct hx_taker *taker, const struct hx_progress *progress,
                  struct hx_snapshot **ret)
{
    struct hx_progress with_memory = watched(taker, progress);
    hx_error *err = take_live_snapshot(taker, &with_memory, ret);
    return err ? settle_snapshot(taker, err) : NULL;
}

hx_error *hx_take_add(struct hx_taker *taker, hx_store *store, const struct hx_snapshot *snapshot,
                      const struct hx_analysis *analysis, const struct hx_progress *progress,
                      int64_t *ret)
{
    struct hx_progress with_memory = watched(taker, progress);
    hx_error *err = hx_store_add(store, snapshot, analysis, &with_memory, ret);
    /* one that was given up is not in it, and the next one can be */
    taker->store_failed |= err && err->kind != HX_E_CANCEL;
    return settle_snapshot(taker, err);
}

void hx_take_drop(struct hx_taker *taker)
{
    bool unused;
    hx_error_free(hx_attach_settle(taker->attach, NULL, &unused));
}

static void tell_partial(struct hx_console *console, const struct hx_taker *taker,
                         const struct hx_snapshot *snapshot)
{
    char what[PATH_MAX];
    hx_say(console, hx_taker_name(taker, what, sizeof what), "the snapshot is not complete: %s",
           hx_text_str(&snapshot->notes));
}

static void tell_killed(struct hx_console *console, const struct hx_taker *taker)
{
    char what[PATH_MAX];
    hx_say(console, hx_taker_name(taker, what, sizeof what), "%s", killed_text);
}

/* Told once, in a series the notes say it. */
static hx_error *tell_asked(struct hx_console *console, struct hx_taker *taker,
                            const struct hx_snapshot *snapshot)
{
    if (taker->asked_told)
        return NULL;
    HX_CLEANUP(hx_asked_deinit) struct hx_asked asked = {0};
    HX_TRY(hx_asked_init(taker->args, &asked));
    HX_TRY(hx_asked_look(&asked, snapshot));
    hx_asked_tell(&asked, console);
    taker->asked_told = true;
    return NULL;
}

hx_error *hx_take_into(struct hx_taker *taker, hx_store *store, const struct hx_progress *progress,
                       struct hx_console *console, int64_t *ret)
{
    HX_SNAPSHOT struct hx_snapshot *snapshot = NULL;
    HX_TRY(hx_take(taker, progress, &snapshot));
    uint64_t begun = hx_timing_begin();
    HX_TRY(hx_take_add(taker, store, snapshot, &taker->analysis, progress, ret));
    hx_timing_end(begun, "store", snapshot->graph.n);
    if (console)
        hx_console_clear(console);
    if (console && !snapshot->complete)
        tell_partial(console, taker, snapshot);
    if (console && taker->killed)
        tell_killed(console, taker);
    return console ? tell_asked(console, taker, snapshot) : NULL;
}

hx_error *hx_take_late(struct hx_taker *taker, hx_store *store, struct hx_console *console,
                       int64_t *ret)
{
    HX_SNAPSHOT struct hx_snapshot *snapshot = NULL;
    struct timespec now;
    if (!taker->recorder)
        return hx_error_new(HX_E_ABSENT, "the recorder", NULL, "it came too late");
    HX_TRY(hx_snapshot_create(&snapshot));
    HX_TRY(hx_recorder_now(taker->recorder, &console->progress, &snapshot->recording));
    if (taker->args->min_age_ns)
        hx_recording_drop_young(snapshot->recording, taker->args->min_age_ns);
    clock_gettime(CLOCK_REALTIME, &now);
    snapshot->taken_at_ns = (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
    snapshot->pid = taker->pid;
    snapshot->no_heap = true;
    hx_snapshot_note(snapshot, true,
                     "the process had ended: only what was recorded of it is known");
    if (taker->late_why)
        hx_snapshot_note(snapshot, true, "no snapshot could be taken before: %s", taker->late_why);
    hx_snapshot_lose(snapshot, "heap of a process that has ended", 1, 0, 0);
    taker->late = true;
    hx_error *err = hx_store_add(store, snapshot, &taker->analysis, &console->progress, ret);
    taker->store_failed |= err != NULL;
    return err;
}

/* --- Stores ------------------------------------------------------------------- */

hx_error *hx_output_open(const char *path, struct hx_output *ret)
{
    struct stat before;
    struct hx_output output = {.path = path, .made = lstat(path, &before) != 0 && errno == ENOENT};
    HX_TRY(hx_store_append_until(path, hx_interrupted(), &output.store));
    *ret = output;
    return NULL;
}

hx_error *hx_output_close(struct hx_output *output)
{
    if (!output->store)
        return NULL;
    hx_error *err = hx_store_close(output->store);
    output->store = NULL;
    if (output->made && !output->keeps)
        unlink(output->path); /* nothing half-written stays behind */
    return err;
}

static hx_error *take_for_reading(const struct hx_args *args, struct hx_console *console,
                                  const char *target, hx_store **ret, bool *ret_partial)
{
    HX_TAKER struct hx_taker taker = {0};
    HX_TRY(hx_taker_open(args, target, &taker));
    HX_STORE hx_store *store = NULL;
    HX_TRY(hx_store_temporary(&store));
    hx_store_cancelled_by(store, hx_interrupted());
    int64_t number;
    HX_TRY(hx_take_into(&taker, store, &console->progress, console, &number));
    HX_TRY(hx_reattribute(args, console, store, "last"));
    *ret_partial = taker.partial;
    *ret = hx_steal(store);
    return NULL;
}

hx_error *hx_target_open(const struct hx_args *args, struct hx_console *console, const char *target,
                         unsigned parts, hx_store **ret, bool *ret_partial)
{
    *ret_partial = false;
    if (hx_is_pid(target))
        return take_for_reading(args, console, target, ret, ret_partial);
    HX_SPOOL struct hx_spool spool;
    HX_TRY(hx_spool_open(target, &console->progress, &spool));
    bool is_core = hx_core_detect(spool.path);
    if (args->given & (is_core ? HX_OPTS_OF_PROCESS & ~HX_BIT(INTERIOR) : HX_OPTS_OF_PROCESS))
        return hx_error_new(HX_E_USAGE, target, "leave out what only a snapshot can obey",
                            "is a file: --interior, --record and what belongs to it say how a "
                            "process is taken");
    HX_STORE hx_store *store = NULL;
    HX_TRY(hx_file_open_spooled(args, console, &spool, &store, ret_partial));
    HX_TRY(hx_reattribute(args, console, store, args->snapshot));
    if (!is_core) /* of a core it was done on the way */
        HX_TRY(hx_revise(args, console, store, args->snapshot, parts));
    *ret = hx_steal(store);
    return NULL;
}

hx_error *hx_print_rows(hx_store *store, hx_rows *rows, enum hx_format format)
{
    hx_interrupts_end_queries(store);
    hx_error *err = hx_rows_print(rows, format, stdout);
    hx_interrupts_end_queries(NULL);
    hx_rows_end(rows);
    return err;
}
