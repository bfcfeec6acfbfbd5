/* take.c - taking snapshots for the commands that need one. */
#include "cli/take/take.h"
#include "cli/take/take_types.h"

#include "attach/core/core.h"
#include "attach/preflight.h"
#include "base/cleanup.h"
#include "base/parallel.h"
#include "base/timing.h"
#include "cli/commands.h"
#include "cli/words/input_file.h"
#include "cli/words/matched.h"
#include "record/own_mappings.h"
#include "store/stages.h"
#include "traverse/hold/evidence.h"
#include "traverse/reach.h"
#include "traverse/scan/scan.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define HURRY_NS UINT64_C(100000000) /* of an explorer for names of frames */

/* What is about to happen, and what it will cost. */
static void print_overhead(const struct hx_source *source, void *state, const char *notes)
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
static hx_error *record_with_probes(struct hx_session *session)
{
    const struct hx_source *source;
    void *state;
    char *notes = NULL;
    struct hx_record_options options = session->args->recorder;
    options.hurry = hx_interrupted_ever();
    HX_TRY(hx_probes_open(session->pid, &options, &source, &state, &notes));
    if (notes && session->args->command->run == hx_cmd_record && isatty(STDERR_FILENO))
        print_overhead(source, state, notes);
    return hx_session_record(session, source, state, notes);
}

static struct hx_session new_session(const struct hx_args *args)
{
    return (struct hx_session){.args = args, .analysis = args->analysis};
}

hx_error *hx_session_open_core(const struct hx_args *args, const char *path, struct hx_session *ret)
{
    struct hx_session session = new_session(args);
    HX_TRY(hx_attach_open_core(path, args->exe, args->sysroot, &session.attach));
    *ret = session;
    return NULL;
}

hx_error *hx_session_open_pid(const struct hx_args *args, pid_t pid, struct hx_session *ret)
{
    struct hx_session session = new_session(args);
    session.pid = pid;
    HX_TRY(hx_preflight_error(session.pid));
    HX_TRY(hx_attach_open(session.pid, &session.attach));
    *ret = session;
    return NULL;
}

hx_error *hx_session_open_sibling(const struct hx_session *first, pid_t pid, struct hx_session *ret)
{
    struct hx_session session = new_session(first->args);
    session.pid = pid;
    HX_TRY(hx_preflight_error(session.pid));
    HX_TRY(hx_attach_open_sibling(first->attach, session.pid, &session.attach));
    *ret = session;
    return NULL;
}

hx_error *hx_session_open(const struct hx_args *args, const char *word, struct hx_session *ret)
{
    pid_t pid;
    HX_TRY(hx_parse_pid(word, &pid));
    HX_TRY(hx_session_open_pid(args, pid, ret));
    return args->record || args->command->run == hx_cmd_record ? record_with_probes(ret) : NULL;
}

hx_error *hx_session_record(struct hx_session *session, const struct hx_source *source, void *state,
                            char *notes)
{
    session->recorder_notes = notes;
    return hx_recorder_start(source, state, hx_attach_stop_mark(session->attach),
                             &session->recorder);
}

void hx_session_close(struct hx_session *session)
{
    hx_error *err = hx_recorder_stop(session->recorder);
    if (err) { /* why it ended early */
        char line[512];
        hx_error_line(err, line, sizeof line);
        hx_say(NULL, "recorder", "%s", line);
        hx_error_free(err);
    }
    hx_attach_close(session->attach);
    free(session->recorder_notes);
    free(session->late_why);
    for (size_t i = 0; i < session->unnamed.n; i++)
        hx_snapshot_destroy(session->unnamed.v[i].stacks);
    hx_vec_free(&session->unnamed);
    session->recorder = NULL;
    session->attach = NULL;
    session->recorder_notes = session->late_why = NULL;
}

static hx_error *ask_recorder(void *context, uint64_t stop_ns, const struct hx_progress *progress,
                              struct hx_recording **ret)
{
    struct hx_session *session = context;
    HX_TRY(hx_recorder_recording(session->recorder, stop_ns, progress, ret));
    if (session->args->min_age_ns)
        hx_recording_drop_young(*ret, session->args->min_age_ns);
    return NULL;
}

bool hx_session_overhead(struct hx_session *session, char *ret, size_t size)
{
    struct hx_recorder_status status = {0};
    if (session->recorder)
        hx_recorder_status(session->recorder, &status);
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

/* Whatever stage was interrupted: of this process nothing was taken. */
static hx_error *or_interrupted(const struct hx_session *session, hx_error *err)
{
    if (!err || err->kind != HX_E_CANCEL)
        return err;
    hx_error_free(err);
    return hx_error_new(HX_E_CANCEL, hx_attach_name(session->attach), "start again",
                        "interrupted before the snapshot was complete");
}

/* Does the library of `heapx run` write down what this process allocates, for somebody else? */
static bool is_recorded(const struct hx_snapshot *snapshot)
{
    for (size_t i = 0; i < snapshot->n_mappings; i++)
        if (hx_is_recorder_region(&snapshot->mapping[i]))
            return true;
    return false;
}

static hx_error *take_live_snapshot(struct hx_session *session, const struct hx_progress *progress,
                                    struct hx_snapshot **ret)
{
    const struct hx_args *args = session->args;
    HX_SNAPSHOT struct hx_snapshot *snapshot = NULL;
    uint64_t begun = hx_timing_begin();
    struct hx_capture_options options = args->capture;
    options.recording = session->recorder ? ask_recorder : NULL;
    options.context = session;
    options.names_ns = session->hurries ? HURRY_NS : 0;
    const unsigned parts = hx_stages_of_new(&session->analysis);
    /* a busy target keeps its processor */
    const unsigned threads = args->threads || !session->pid ? args->threads : hx_threads_free();
    options.beside = session->analysis.threads = threads;
    hx_stages_begin(progress, parts, parts, threads);
    HX_TRY(hx_attach_capture(session->attach, &options, progress, &snapshot));
    hx_progress_at(progress, "objects", snapshot->graph.n, snapshot->graph.n);
    if (!snapshot->recording && is_recorded(snapshot))
        hx_snapshot_note(snapshot, false,
                         "another heapx records this process: who allocated and what was requested "
                         "is in its snapshots, not in this one");
    if (session->recorder_notes && snapshot->recording)
        hx_snapshot_note(snapshot, false, "%s", session->recorder_notes);
    char spent[160];
    if (snapshot->recording && hx_session_overhead(session, spent, sizeof spent))
        hx_snapshot_note(snapshot, false, "%s", spent);
    hx_timing_end(begun, "capture", snapshot->graph.n);
    if (args->pause && !snapshot->pause_unknown)
        hx_snapshot_note(snapshot, false, "pause method %s is not in this version: %s was used",
                         args->pause, snapshot->method ? snapshot->method : "copy");
    struct hx_scan_options scan = {
        .threads = threads, .is_vtable = hx_attach_is_vtable, .context = session->attach};
    begun = hx_timing_begin();
    HX_TRY(hx_scan(snapshot, &scan, progress));
    hx_progress_at(progress, "edges", snapshot->graph.n_edges, snapshot->graph.n_edges);
    hx_timing_end(begun, "scan", snapshot->graph.n);
    begun = hx_timing_begin();
    HX_TRY(hx_attach_names(session->attach, snapshot, progress));
    HX_TRY(hx_attach_types(session->attach, snapshot, threads, progress));
    hx_timing_end(begun, "types", snapshot->graph.n);
    begun = hx_timing_begin();
    HX_TRY(hx_evidence_find(snapshot, threads, progress));
    hx_timing_end(begun, "evidence", snapshot->graph.n_edges);
    hx_early_columns_begin(snapshot, threads, progress); /* types are spread by one thread */
    HX_TRY(hx_take_types(session, snapshot, progress));
    HX_TRY(hx_take_roots(session, snapshot, progress));
    hx_snapshot_drop_image(snapshot);
    begun = hx_timing_begin();
    HX_TRY(hx_reach(snapshot, args->interior, threads, progress));
    hx_early_columns_end(snapshot);
    hx_timing_end(begun, "mark", snapshot->graph.n);
    session->partial |= !snapshot->complete;
    *ret = hx_steal(snapshot);
    return NULL;
}

static const char killed_text[] =
    "has ended while its snapshot was made, and the kernel has killed processes for lack of memory";

static struct hx_progress watched(struct hx_session *session, const struct hx_progress *progress)
{
    struct hx_progress copy = progress ? *progress : (struct hx_progress){0};
    copy.exhausted = hx_attach_exhausted(session->attach);
    return copy;
}

/* Nothing more is done about the snapshot. One that was taken of a process which the kernel has
 * killed meanwhile is kept, and no success. */
static hx_error *settle_snapshot(struct hx_session *session, hx_error *err)
{
    bool killed;
    err = hx_attach_settle(session->attach, err, &killed);
    session->killed |= killed;
    session->partial |= killed;
    if (!err || !killed)
        return or_interrupted(session, err);
    hx_error_free(err);
    return hx_error_new(HX_E_LIMIT, hx_attach_name(session->attach), "see: dmesg", "%s",
                        killed_text);
}

hx_error *hx_take(struct hx_session *session, const struct hx_progress *progress,
                  struct hx_snapshot **ret)
{
    struct hx_progress with_memory = watched(session, progress);
    hx_error *err = take_live_snapshot(session, &with_memory, ret);
    return err ? settle_snapshot(session, err) : NULL;
}

hx_error *hx_take_add(struct hx_session *session, hx_store *store, struct hx_snapshot *snapshot,
                      const struct hx_analysis *analysis, const struct hx_progress *progress,
                      int64_t *ret)
{
    struct hx_progress with_memory = watched(session, progress);
    hx_error *err = hx_store_add(store, snapshot, analysis, &with_memory, ret);
    /* one that was given up is not in it, and the next one can be */
    session->store_failed |= err && err->kind != HX_E_CANCEL;
    if (!err && snapshot->unnamed)
        err = hx_keep_stacks(session, *ret, snapshot);
    return settle_snapshot(session, err);
}

void hx_take_drop(struct hx_session *session)
{
    bool unused;
    hx_error_free(hx_attach_settle(session->attach, NULL, &unused));
}

static void report_partial(struct hx_console *console, const struct hx_session *session,
                           const struct hx_snapshot *snapshot)
{
    hx_say(console, hx_attach_name(session->attach), "the snapshot is not complete: %s",
           hx_text_str(&snapshot->notes));
}

static void report_killed(struct hx_console *console, const struct hx_session *session)
{
    hx_say(console, hx_attach_name(session->attach), "%s", killed_text);
}

/* Told once, in a series the notes say it. */
static hx_error *report_matches(struct hx_console *console, struct hx_session *session,
                                const struct hx_snapshot *snapshot)
{
    if (session->matches_reported)
        return NULL;
    HX_CLEANUP(hx_matched_deinit) struct hx_matched matched = {0};
    HX_TRY(hx_matched_init(session->args, &matched));
    HX_TRY(hx_matched_look(&matched, snapshot));
    hx_matched_tell(&matched, console);
    session->matches_reported = true;
    return NULL;
}

hx_error *hx_take_into(struct hx_session *session, hx_store *store,
                       const struct hx_progress *progress, struct hx_console *console, int64_t *ret)
{
    HX_SNAPSHOT struct hx_snapshot *snapshot = NULL;
    HX_TRY(hx_take(session, progress, &snapshot));
    uint64_t begun = hx_timing_begin();
    HX_TRY(hx_take_add(session, store, snapshot, &session->analysis, progress, ret));
    hx_progress_end(progress);
    hx_timing_end(begun, "store", snapshot->graph.n);
    if (console)
        hx_console_clear(console);
    if (console && !snapshot->complete)
        report_partial(console, session, snapshot);
    if (console && session->killed)
        report_killed(console, session);
    return console ? report_matches(console, session, snapshot) : NULL;
}

hx_error *hx_take_late(struct hx_session *session, hx_store *store, struct hx_console *console,
                       int64_t *ret)
{
    HX_SNAPSHOT struct hx_snapshot *snapshot = NULL;
    struct timespec now;
    if (!session->recorder)
        return hx_error_new(HX_E_ABSENT, "the recorder", NULL, "it came too late");
    HX_TRY(hx_snapshot_create(&snapshot));
    HX_TRY(hx_recorder_now(session->recorder, &console->progress, &snapshot->recording));
    if (session->args->min_age_ns)
        hx_recording_drop_young(snapshot->recording, session->args->min_age_ns);
    clock_gettime(CLOCK_REALTIME, &now);
    snapshot->taken_at_ns = (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
    snapshot->pid = session->pid;
    snapshot->no_heap = true;
    hx_snapshot_note(snapshot, true,
                     "the process had ended: only what was recorded of it is known");
    if (session->late_why)
        hx_snapshot_note(snapshot, true, "no snapshot could be taken before: %s",
                         session->late_why);
    hx_snapshot_lose(snapshot, "heap of a process that has ended", 1, 0, 0);
    session->late = true;
    hx_error *err = hx_store_add(store, snapshot, &session->analysis, &console->progress, ret);
    session->store_failed |= err != NULL;
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
                                  const char *target, unsigned parts, hx_store **ret,
                                  bool *ret_partial)
{
    HX_SESSION struct hx_session session = {0};
    HX_TRY(hx_session_open(args, target, &session));
    parts |= args->analysis.parts & HX_ANALYSE_SURE;
    if (args->analysis.parts != HX_ANALYSE_LATER) /* only what is asked for */
        session.analysis.parts = parts ? parts : HX_ANALYSE_LATER;
    HX_STORE hx_store *store = NULL;
    HX_TRY(hx_store_temporary(&store));
    hx_store_cancelled_by(store, hx_interrupted());
    int64_t number;
    HX_TRY(hx_take_into(&session, store, &console->progress, console, &number));
    HX_TRY(hx_reattribute(args, console, store, "last"));
    *ret_partial = session.partial;
    *ret = hx_steal(store);
    return NULL;
}

hx_error *hx_target_open(const struct hx_args *args, struct hx_console *console, const char *target,
                         unsigned parts, hx_store **ret, bool *ret_partial)
{
    *ret_partial = false;
    if (hx_is_pid(target))
        return take_for_reading(args, console, target, parts, ret, ret_partial);
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
