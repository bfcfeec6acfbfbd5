/* run.c - `heapx run -- CMD`: start a program and record every allocation of it. */
#include "base/cleanup.h"
#include "cli/commands.h"
#include "cli/take/snapshot_series.h"
#include "record/launch.h"
#include "sym/code/code.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

/* Processes of --children that are recorded at a time. */
enum { PROCESSES = 64 };

/* How long a program may take until its library has reported: a slow disk, a large program. */
static const uint64_t report_ns = 10000000000;

/* How often is looked whether the program has ended, where the kernel has no pidfd. */
static const uint64_t reap_ns = 100000000;
static const uint64_t most_nap_ns = 20000000; /* between looks */
/* And when it is asked whether it was loaded at all. */
static const uint64_t load_ns = 2000000000;
/* How long a program may take to map the libraries that it is linked with. */
static const uint64_t mapped_ns = 2000000000;

struct process {
    struct hx_session session;
    struct hx_series series;
    void *rings; /* state of its source; NULL: probes */
    int pidfd;
    bool ended; /* its last snapshot was taken */
};

struct run {
    const struct hx_args *args;
    struct hx_console *console;
    struct hx_output output;
    struct hx_launched launched;
    hx_code *code;           /* the files of all of them */
    struct process *process; /* [0] is the program itself */
    size_t n;
    /* processes: by number, by themselves, by heapx; and those whose heap was not seen at the end
     */
    uint64_t too_many, unrecorded, refused, unseen;
    char why[160], why_refused[160], why_unseen[160]; /* of one of the latter three */
    char spent[160]; /* what recording cost the program; "": not measured */
    bool at_exit;
    bool went; /* the program was let go */
    bool reaped;
    int wait_status;
    int interrupted; /* the signal */
    int failed;      /* the status of an error that was told already; 0: none */
};

/* --- processes ---------------------------------------------------------------------------- */

static void process_end(struct process *process)
{
    hx_session_close(&process->session);
    if (process->pidfd >= 0)
        close(process->pidfd);
    process->pidfd = -1;
}

static hx_error *process_open(struct run *run, pid_t pid, struct process *ret)
{
    struct process process = {.pidfd = (int)syscall(SYS_pidfd_open, pid, 0)};
    hx_error *err = run->n
                        ? hx_session_open_sibling(&run->process[0].session, pid, &process.session)
                        : hx_session_open_pid(run->args, pid, &process.session);
    if (err) {
        process_end(&process);
        return err;
    }
    hx_attach_share_code(process.session.attach, run->code);
    *ret = process;
    return NULL;
}

/* The parts of a series that point into the process: after it has its place. */
static void plan_series(struct run *run, struct process *process)
{
    process->series = (struct hx_series){.session = &process->session,
                                         .output = &run->output,
                                         .console = run->console,
                                         .pidfd = process->pidfd,
                                         .last = run->at_exit,
                                         .lines = isatty(STDERR_FILENO) ? stderr : NULL,
                                         .context = run};
    hx_series_plan(run->args, false, &process->series);
}

static hx_error *record_rings(struct run *run, struct process *process)
{
    const struct hx_source *source;
    void *others[PROCESSES];
    for (size_t i = 0; i < run->n; i++)
        others[i] = run->process[i].rings;
    HX_TRY(hx_rings_open(run->launched.folder_fd, process->session.pid, run->code, others, run->n,
                         &source, &process->rings));
    hx_error *err = hx_session_record(&process->session, source, process->rings, NULL);
    if (err)
        process->rings = NULL;
    return err;
}

/* It has executed another program: from here on that one is recorded. */
static hx_error *record_anew(struct run *run, struct process *process)
{
    hx_error_free(hx_recorder_stop(process->session.recorder));
    process->session.recorder = NULL;
    process->rings = NULL;
    process->ended = false;
    hx_error *err = record_rings(run, process);
    if (err && err->kind == HX_E_ABSENT) {
        hx_error_free(err);
        return NULL;
    }
    return err;
}

static void refuse_program(struct run *run, const char *why)
{
    run->refused++;
    snprintf(run->why_refused, sizeof run->why_refused, "%s", why);
}

/* No process is worth the others, and none its own exit status: NULL, go on. What the call itself
 * asks for in vain is told of the program. */
static hx_error *spare(struct run *run, struct process *process, hx_error *err)
{
    bool own = process == run->process && err && err->kind == HX_E_ABSENT;
    if (!err || own || err->kind == HX_E_CANCEL || err->kind == HX_E_NOMEM ||
        process->session.store_failed)
        return err;
    if (err->kind != HX_E_GONE && !process->session.late_why)
        process->session.late_why = strdup(err->why);
    hx_error_free(err);
    return NULL;
}

/* A process has a new region: a child is recorded beside the others. */
static hx_error *add_process(struct run *run, pid_t pid)
{
    for (size_t i = 0; i < run->n; i++)
        if (run->process[i].session.pid == pid)
            return spare(run, &run->process[i], record_anew(run, &run->process[i]));
    if (run->n == PROCESSES) {
        run->too_many++;
        hx_launched_refuse(&run->launched, pid);
        return NULL;
    }
    enum hx_launched_owner whose = hx_launched_owner(&run->launched, pid);
    if (whose == HX_LAUNCHED_UNKNOWN)
        return NULL; /* it is looked for again */
    if (whose != HX_LAUNCHED_OWN) {
        if (whose == HX_LAUNCHED_FOREIGN)
            refuse_program(run, "another PID namespace has its number");
        hx_launched_refuse(&run->launched, pid);
        return NULL;
    }
    struct process *process = &run->process[run->n];
    hx_error *err = process_open(run, pid, process);
    if (!err) {
        run->n++;
        plan_series(run, process);
        err = record_rings(run, process);
    }
    if (!err || err->kind == HX_E_CANCEL || err->kind == HX_E_NOMEM)
        return err;
    /* One child is not worth the others. Not there yet: it is looked for again. */
    if (err->kind != HX_E_ABSENT || kill(pid, 0) != 0) {
        if (kill(pid, 0) == 0)
            refuse_program(run, err->why);
        hx_launched_refuse(&run->launched, pid);
    }
    hx_error_free(err);
    return NULL;
}

static bool is_gone(const struct process *process)
{
    struct hx_recorder_status status = {.ended = true};
    if (process->session.recorder)
        hx_recorder_status(process->session.recorder, &status);
    return status.ended;
}

/* The last snapshot of a process that is about to end; it goes on whatever comes of that. When it
 * cannot be had, there is what was recorded. */
static hx_error *take_last(struct run *run, struct process *process)
{
    int signal_number;
    if (process->ended || !process->rings || !hx_rings_wants_exit(process->rings, &signal_number))
        return NULL;
    hx_error *err = hx_series_take(&process->series);
    process->ended = !err;
    hx_rings_let_exit(process->rings);
    return spare(run, process, err);
}

/* What is known of one that has ended, when no last snapshot was taken. */
static void count_unseen(struct run *run, const struct process *process)
{
    if (!run->at_exit || !process->session.late)
        return;
    run->unseen++;
    snprintf(run->why_unseen, sizeof run->why_unseen, "%s",
             process->session.late_why ? process->session.late_why
             : process->rings          ? "killed, or left by a bare exit_group, as Go programs do"
                                       : "the library that would wait for it is not in it");
}

static hx_error *take_late(struct run *run, struct process *process)
{
    hx_error *err = process->ended ? NULL : hx_series_take_late(&process->series);
    count_unseen(run, process);
    return spare(run, process, err);
}

static hx_error *look_at_regions(struct run *run)
{
    pid_t pids[16];
    size_t n = hx_rings_list(run->launched.folder_fd, pids, 16);
    for (size_t i = 0; i < n; i++)
        HX_TRY(add_process(run, pids[i]));
    return NULL;
}

static hx_error *look_at_children(struct run *run)
{
    for (size_t i = 1; i < run->n; i++) {
        struct process *process = &run->process[i];
        if (run->at_exit)
            HX_TRY(take_last(run, process));
        if (!is_gone(process))
            continue;
        HX_TRY(take_late(run, process));
        process_end(process);
        /* the last one takes its place */
        run->n--;
        if (i < run->n) {
            *process = run->process[run->n];
            process->series.session = &process->session;
        }
        i--;
    }
    return NULL;
}

static hx_error *poll_program(struct hx_series *series, bool *ret_done)
{
    struct run *run = series->context;
    if (run->launched.preloaded)
        HX_TRY(look_at_regions(run));
    HX_TRY(look_at_children(run));
    if (run->at_exit)
        HX_TRY(take_last(run, &run->process[0]));
    *ret_done = run->process[0].ended;
    return NULL;
}

/* The program gets what a terminal does not give it by itself; when it ends, so does the series. */
static bool on_interrupt(struct hx_series *series)
{
    struct run *run = series->context;
    bool sent;
    int signal_number = hx_interrupts_forget(&sent);
    if (signal_number == SIGINT && !sent)
        return true; /* which the program got, too: what it makes of it is its own */
    run->interrupted = signal_number;
    if (!run->reaped)
        kill(run->launched.pid, signal_number);
    return true;
}

/* --- the program ---------------------------------------------------------------------------- */

static void reap(struct run *run)
{
    HX_FD int pidfd = run->reaped ? -1 : (int)syscall(SYS_pidfd_open, run->launched.pid, 0);
    struct hx_series series = {.context = run};
    while (!run->reaped) {
        bool gone;
        hx_error *err = hx_wait_until(hx_now_ns() + reap_ns, pidfd, &gone);
        if (err)
            on_interrupt(&series);
        hx_error_free(err);
        pid_t got = waitpid(run->launched.pid, &run->wait_status, WNOHANG);
        run->reaped = got == run->launched.pid || (got < 0 && errno != EINTR);
    }
}

/* Other libraries are there, and ours is not. */
static bool was_not_loaded(pid_t pid)
{
    char path[64], line[4096 + 128];
    bool ours = false, libc = false;
    snprintf(path, sizeof path, "/proc/%d/maps", (int)pid);
    HX_FILE FILE *maps = fopen(path, "re");
    while (maps && fgets(line, sizeof line, maps)) {
        ours |= strstr(line, "/" HX_RECORD_LIBRARY) != NULL;
        libc |= strstr(line, "/libc.so.") != NULL;
    }
    return libc && !ours;
}

static hx_error *unrecorded(const struct run *run, uint64_t waited_ns)
{
    const char *command = run->args->word[0];
    pid_t pid = run->launched.pid;
    char why[160];
    if (hx_launched_why(&run->launched, pid, why, sizeof why))
        return hx_error_new(HX_E_LIMIT, command, "try: heapx record PID", "%s", why);
    if (waited_ns > load_ns && was_not_loaded(pid))
        return hx_error_new(HX_E_LIMIT, command, "try: heapx record PID",
                            "its loader did not load the recording library");
    if (waited_ns > report_ns)
        return hx_error_new(HX_E_LIMIT, command, "try: heapx record PID",
                            "nothing was heard of the recording library in it");
    return NULL;
}

/* Its library reports when it is loaded, which is before the program's own code runs. */
static hx_error *await_rings(struct run *run, struct process *process)
{
    uint64_t begun = hx_now_ns();
    bool last = false;
    for (uint64_t nap = 200000;; nap += nap < most_nap_ns ? nap / 4 : 0) {
        hx_error *err = record_rings(run, process);
        if (!err || err->kind != HX_E_ABSENT)
            return err;
        hx_error_free(err);
        bool gone;
        err = hx_wait_until(hx_now_ns() + nap, process->pidfd, &gone);
        if (err && err->kind == HX_E_CANCEL) {
            hx_error_free(err);
            on_interrupt(&process->series);
            continue;
        }
        HX_TRY(err);
        if (gone && !last) { /* it may have reported since */
            last = true;
            continue;
        }
        if (gone) {
            HX_TRY(unrecorded(run, 0));
            return hx_error_new(HX_E_GONE, run->args->word[0], NULL,
                                "has ended before its first allocation was recorded");
        }
        HX_TRY(unrecorded(run, hx_now_ns() - begun));
    }
}

static hx_error *record_probes(struct run *run, struct process *process)
{
    const struct hx_source *source;
    void *state;
    char *notes = NULL;
    hx_error *err = hx_launched_held(&run->launched);
    if (err)
        return err;
    err = hx_probes_open(process->session.pid, &run->args->recorder, &source, &state, &notes);
    hx_launched_release(&run->launched);
    /* One that is linked dynamically brings its allocator only now. */
    uint64_t end = hx_now_ns() + mapped_ns;
    bool gone = false;
    for (uint64_t nap = 200000; err && err->kind == HX_E_ABSENT && !gone; nap += nap / 4) {
        if (hx_now_ns() > end)
            break;
        hx_error_free(err);
        err = hx_wait_until(hx_now_ns() + nap, process->pidfd, &gone);
        if (!err)
            err =
                hx_probes_open(process->session.pid, &run->args->recorder, &source, &state, &notes);
    }
    if (err && err->kind == HX_E_ABSENT && gone) {
        hx_error_free(err);
        return hx_error_new(HX_E_GONE, run->args->word[0], NULL,
                            "has ended before a probe could be set");
    }
    return err ? err : hx_session_record(&process->session, source, state, notes);
}

/* Before the start: what to expect. */
static void tell_estimate(const struct run *run)
{
    bool sampled = run->args->recorder.sample_bytes;
    if (run->launched.preloaded && isatty(STDERR_FILENO))
        hx_say(run->console, run->args->word[0],
               "recording costs about %d ns for an allocation and its free%s",
               sampled ? HX_LAUNCH_SAMPLED_NS : HX_LAUNCH_PAIR_NS,
               sampled ? "" : "; less with --sample");
}

static hx_error *start_program(struct run *run)
{
    const char *command = run->args->word[0];
    struct process *process = &run->process[0];
    HX_TRY(process_open(run, run->launched.pid, process));
    run->n = 1;
    plan_series(run, process);
    process->series.poll = poll_program;
    process->series.interrupt = on_interrupt;
    if (!run->launched.preloaded)
        HX_TRY(hx_launched_hold(&run->launched));
    tell_estimate(run);
    hx_error *err = hx_launched_go(&run->launched, command);
    if (err) {
        run->reaped = true;
        return err;
    }
    run->went = true;
    if (run->launched.preloaded && run->args->recorder.children)
        HX_TRY(hx_launched_announce(&run->launched));
    return run->launched.preloaded ? await_rings(run, process) : record_probes(run, process);
}

/* What cannot have the library gets probes, where this user may set them. */
static hx_error *choose_recorder(const char *command, bool *ret_preload)
{
    hx_error *unfit = hx_launch_possible(command);
    *ret_preload = !unfit;
    if (!unfit || unfit->kind != HX_E_LIMIT)
        return unfit;
    hx_error *refused = hx_probes_possible();
    if (refused) {
        hx_error_free(refused);
        return unfit;
    }
    hx_error_free(unfit);
    return NULL;
}

/* Of a program that ran nothing could be recorded: that is told, and its status is its own. */
static hx_error *tell_silence(struct run *run, hx_error *err)
{
    bool silent = err && (err->kind == HX_E_GONE || err->kind == HX_E_ABSENT);
    if (!silent || !run->went)
        return err;
    hx_say(run->console, run->args->word[0], "nothing was recorded: %s", err->why);
    hx_error_free(err);
    return NULL;
}

static hx_error *follow_program(struct run *run)
{
    struct process *process = &run->process[0];
    hx_error *err = hx_series_run(&process->series);
    if (!err && run->launched.preloaded && run->args->recorder.children) {
        err = look_at_regions(run); /* some may have ended just before */
        if (!err)
            err = look_at_children(run);
    }
    count_unseen(run, process);
    if (!err || err->kind != HX_E_GONE)
        return err;
    if (!process->series.stored && !run->interrupted)
        return tell_silence(run, err);
    hx_error_free(err); /* it has ended, as programs do */
    return NULL;
}

static hx_error *go(struct run *run)
{
    hx_error *err = start_program(run);
    err = err ? tell_silence(run, err) : follow_program(run);
    if (!run->n || !hx_session_overhead(&run->process[0].session, run->spent, sizeof run->spent))
        *run->spent = 0;
    for (size_t i = 0; i < run->n; i++)
        process_end(&run->process[i]); /* nobody waits for room in a ring now */
    run->unrecorded = hx_launched_unrecorded(&run->launched, run->why, sizeof run->why);
    hx_launched_deinit(&run->launched);
    if (err && !run->reaped) { /* the program may go on for long: what happened is said now */
        char line[512];
        hx_console_clear(run->console);
        hx_error_line(err, line, sizeof line);
        fprintf(stderr, "heapx: %s\n", line);
        run->failed = err->kind == HX_E_CANCEL ? HX_EXIT_INTERRUPTED : HX_EXIT_FAILED;
        hx_error_free(err);
        err = NULL;
    }
    reap(run);
    return err;
}

static char *default_out(const struct run *run)
{
    const char *slash = strrchr(run->args->word[0], '/');
    char *out = NULL;
    if (asprintf(&out, "heapx.%s.%d.db", slash ? slash + 1 : run->args->word[0],
                 run->launched.pid) < 0)
        return NULL;
    return out;
}

static void tell_unrecorded(const struct run *run, uint64_t n, const char *why)
{
    if (n)
        hx_say(run->console, run->args->word[0], "%llu process%s not recorded: %s",
               (unsigned long long)n, n == 1 ? " was" : "es were", why);
}

static void tell_end(const struct run *run)
{
    char most[64];
    size_t n = 0;
    for (size_t i = 0; i < run->n; i++)
        n += run->process[i].series.missed;
    if (n)
        hx_say(run->console, run->args->word[0], "%zu snapshot%s left out", n,
               n == 1 ? " was" : "s were");
    snprintf(most, sizeof most, "no more than %d can be at a time", PROCESSES);
    tell_unrecorded(run, run->too_many, most);
    tell_unrecorded(run, run->unrecorded, run->why);
    tell_unrecorded(run, run->refused, run->why_refused);
    if (run->unseen)
        hx_say(run->console, run->args->word[0],
               "the heap of %llu process%s was not seen at the end (%s): what was recorded is kept",
               (unsigned long long)run->unseen, run->unseen == 1 ? "" : "es", run->why_unseen);
    if (*run->spent && isatty(STDERR_FILENO))
        hx_say(run->console, run->args->word[0], "%s", run->spent);
    if (run->output.keeps && isatty(STDERR_FILENO))
        hx_say(run->console, run->args->word[0], "recorded; see: heapx open %s", run->output.path);
}

static int exit_status(const struct run *run)
{
    if (run->failed)
        return run->failed;
    if (run->interrupted)
        return HX_EXIT_INTERRUPTED;
    if (WIFSIGNALED(run->wait_status))
        return 128 + WTERMSIG(run->wait_status);
    int status = WIFEXITED(run->wait_status) ? WEXITSTATUS(run->wait_status) : HX_EXIT_FAILED;
    return status || !run->process[0].session.partial ? status : HX_EXIT_PARTIAL;
}

hx_error *hx_cmd_run(const struct hx_args *args, int *status)
{
    HX_CONSOLE struct hx_console console;
    hx_console_init(&console);
    HX_FREE struct process *process = calloc(PROCESSES, sizeof *process);
    HX_NEED(process);
    struct run run = {.args = args, .console = &console, .process = process};
    struct hx_args copy = *args; /* nothing would ever be stored */
    run.at_exit = copy.recorder.at_exit =
        args->recorder.at_exit || !(args->every_ns || args->count);
    copy.recorder.hurry = hx_interrupted_ever();
    run.args = &copy;
    bool preload;
    HX_TRY(choose_recorder(args->word[0], &preload));
    signal(SIGCHLD, SIG_DFL); /* else the program's status would be lost */
    HX_TRY(hx_launch(args->word, preload, &copy.recorder, &run.launched));
    HX_FREE char *made = args->out ? NULL : default_out(&run);
    hx_error *err = hx_output_open(args->out ? args->out : made, &run.output);
    if (!err)
        err = hx_code_create(&run.code);
    if (err) {
        hx_error_free(hx_output_close(&run.output));
        hx_launched_deinit(&run.launched); /* which ends the process that waits */
        reap(&run);
        return err;
    }
    err = go(&run);
    hx_code_destroy(run.code);
    hx_error *close_err = hx_output_close(&run.output);
    tell_end(&run);
    if (err)
        hx_error_free(close_err);
    else
        err = close_err;
    *status = exit_status(&run);
    return err;
}
