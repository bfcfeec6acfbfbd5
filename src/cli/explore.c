/* explore.c - the explorer, or the summary where there is no terminal. */
#include "config.h"

#include "cli/explore.h"

#include "attach/vitals.h"
#include "base/cleanup.h"
#include "cli/commands.h"
#include "cli/summary.h"
#include "cli/take/kept.h"
#include "ui/ui.h"

#include <string.h>

#ifdef HX_HAVE_UI
static hx_error *take_again(void *session, const struct hx_progress *progress,
                            struct hx_snapshot **ret)
{
    return hx_take(session, progress, ret);
}

static hx_error *add_to_store(void *session, hx_store *store, struct hx_snapshot *snapshot,
                              const struct hx_analysis *analysis,
                              const struct hx_progress *progress, int64_t *ret)
{
    return hx_take_add(session, store, snapshot, analysis, progress, ret);
}

static hx_error *name_stored(void *session, hx_store *store, int64_t number,
                             const struct hx_apart *apart, const struct hx_progress *progress)
{
    return hx_take_names(session, store, number, apart, progress);
}

static void drop_taken(void *session)
{
    hx_take_drop(session);
}

static hx_error *read_live(void *context, uint64_t address, size_t n, uint8_t *ret, size_t *ret_n)
{
    const struct hx_session *session = context;
    return hx_attach_peek(session->attach, address, n, ret, ret_n);
}

static void tell_recording(void *context, struct hx_ui_recording *ret)
{
    struct hx_session *session = context;
    struct hx_recorder_status status;
    hx_recorder_status(session->recorder, &status);
    *ret = (struct hx_ui_recording){
        .events = status.figures.events, .lost = status.figures.lost, .ended = status.ended};
}

enum { COMMAND_SHOWN = 400 }; /* bytes */

static void put_command(pid_t pid, struct hx_text *ret)
{
    char path[32], line[COMMAND_SHOWN];
    snprintf(path, sizeof path, "/proc/%d/cmdline", pid);
    HX_FILE FILE *file = fopen(path, "re");
    size_t n = file ? fread(line, 1, sizeof line, file) : 0;
    while (n && !line[n - 1])
        n--;
    for (size_t i = 0; i < n; i++)
        line[i] = line[i] ? line[i] : ' ';
    hx_text_puts(ret, "command\t");
    hx_text_escape(ret, line, n, false);
    hx_text_putc(ret, '\n');
}

static void tell_live(void *context, struct hx_text *ret)
{
    const struct hx_session *session = context;
    char rss[HX_HUMAN], anon[HX_HUMAN], size[HX_HUMAN], uptime[HX_HUMAN];
    struct hx_vitals vitals;
    put_command(session->pid, ret);
    const unsigned wanted = 1u << HX_VITAL_RSS | 1u << HX_VITAL_ANON | 1u << HX_VITAL_SIZE |
                            1u << HX_VITAL_THREADS | 1u << HX_VITAL_UPTIME;
    hx_error *error = hx_vitals_read(session->pid, wanted, &vitals);
    if (!error && vitals.has[HX_VITAL_THREADS] && vitals.has[HX_VITAL_UPTIME])
        hx_text_putf(ret, "running\t%s, %.0f thread%s\n",
                     hx_human_ns((uint64_t)(vitals.value[HX_VITAL_UPTIME] * 1e9), uptime),
                     vitals.value[HX_VITAL_THREADS],
                     vitals.value[HX_VITAL_THREADS] == 1 ? "" : "s");
    if (!error && vitals.has[HX_VITAL_RSS] && vitals.has[HX_VITAL_ANON] &&
        vitals.has[HX_VITAL_SIZE])
        hx_text_putf(ret, "memory\t%s resident, %s of it anonymous, %s mapped\n",
                     hx_human_bytes((uint64_t)vitals.value[HX_VITAL_RSS], rss),
                     hx_human_bytes((uint64_t)vitals.value[HX_VITAL_ANON], anon),
                     hx_human_bytes((uint64_t)vitals.value[HX_VITAL_SIZE], size));
    hx_error_free(error);
}

/* Where the terminal is gone nobody may read it: the next explorer says it again. */
static hx_error *keep_unsaved_snapshots(hx_store *store, pid_t pid, int64_t n, hx_error *error)
{
    HX_FREE char *path = NULL;
    hx_error *unkept = hx_kept_put(store, pid, &path);
    if (unkept) {
        char line[512];
        hx_error_line(unkept, line, sizeof line);
        hx_error_free(unkept);
        hx_say(NULL, "snapshots", "cannot be kept: %s", line);
    } else {
        hx_say(NULL, "snapshots", "%lld that no file held %s kept in %s; see: heapx open %s",
               (long long)n, n == 1 ? "is" : "are", path, path);
    }
    return error;
}

static hx_error *run_explorer(const struct hx_args *args, hx_store *store,
                              struct hx_session *session, const char *title, bool precious)
{
    HX_CLEANUP(hx_text_free) struct hx_text news = {0};
    const char *script = args->script ? args->script : getenv("HEAPX_SCRIPT");
    bool scripted = script && *script;
    int64_t left = 0;
    if (!scripted)
        hx_kept_list(args->n_words ? args->word[0] : NULL, &news);
    struct hx_ui_options options = {
        .store = store,
        .title = title,
        .script = args->script,
        .color = hx_color(args),
        .take = session ? take_again : NULL,
        .add = session ? add_to_store : NULL,
        .drop = session ? drop_taken : NULL,
        .name = session ? name_stored : NULL,
        .recording = session && session->recorder ? tell_recording : NULL,
        .read = session && session->attach ? read_live : NULL,
        .facts = session && session->pid ? tell_live : NULL,
        .context = session,
        .every_ns = args->every_ns,
        .precious = precious,
        .news = news.n ? hx_text_str(&news) : NULL,
        .analysis = session ? &session->analysis : &args->analysis,
        .shown_only = !session,
        .root = args->root,
        .n_roots = args->n_roots,
    };
    if (scripted)
        hx_interrupts_release();
    /* else the explorer stands above these handlers, and they come back at its end: a second SIGHUP
     * must not end what the first one made necessary */
    hx_error *error = hx_ui_run(&options, &left);
    return left ? keep_unsaved_snapshots(store, session->pid, left, error) : error;
}
#endif

static hx_error *print_newest(hx_store *store)
{
    int64_t newest;
    HX_TRY(hx_store_resolve(store, "last", &newest));
    return hx_summary_print(store, newest, stdout);
}

/* Is there an explorer, or only a summary? */
static bool has_explorer(const struct hx_args *args)
{
#ifdef HX_HAVE_UI
    return args->script || getenv("HEAPX_SCRIPT") || hx_has_terminal();
#else
    (void)args;
    return false;
#endif
}

static hx_error *explore(const struct hx_args *args, hx_store *store, struct hx_session *session,
                         const char *title, bool precious)
{
#ifdef HX_HAVE_UI
    if (has_explorer(args))
        return run_explorer(args, store, session, title, precious);
#else
    (void)session;
    (void)precious;
    if (args->script)
        return hx_error_new(HX_E_FAIL, "--script", "install libncurses-dev, configure and build",
                            "this build has no explorer");
    if (hx_has_terminal())
        hx_say(NULL, title, "this build has no explorer (ncurses was missing); the summary is:");
#endif
    return print_newest(store);
}

hx_error *hx_explore_store(const struct hx_args *args, hx_store *store, const char *title)
{
    return explore(args, store, NULL, title, false);
}

static hx_error *take_first(struct hx_session *session, hx_store *store)
{
    HX_CONSOLE struct hx_console console;
    hx_console_init(&console);
    int64_t number;
    return hx_take_into(session, store, &console.progress, &console, &number);
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

/* The explorer takes the first snapshot itself, while one looks, and works out the rest. A script
 * has it from the beginning. */
static hx_error *explore_into(const struct hx_args *args, struct hx_session *session,
                              hx_store *store, bool precious, bool *keeps)
{
    HX_FREE char *title = title_of(session->pid);
    HX_NEED(title);
    const bool explorer = has_explorer(args);
    if (explorer && !args->analysis.parts)
        session->analysis.parts = HX_ANALYSE_LATER;
    if (!explorer || args->script || getenv("HEAPX_SCRIPT"))
        HX_TRY(take_first(session, store));
    /* roots of the call may be told by frames and fields */
    session->hurries = explorer && session->analysis.parts == HX_ANALYSE_LATER && !args->n_roots;
    hx_error *err = explore(args, store, session, title, precious), *unread;
    int64_t first = 0;
    unread = hx_store_next(store, 0, &first);
    *keeps = unread || first;
    hx_error_free(unread);
    return err;
}

hx_error *hx_explore_process(const struct hx_args *args, struct hx_session *session, bool precious,
                             int *status)
{
    struct hx_output output = {0};
    if (args->out)
        HX_TRY(hx_output_open(args->out, &output));
    else
        HX_TRY(hx_store_temporary(&output.store));
    hx_store_cancelled_by(output.store, hx_interrupted());
    hx_error *err =
        explore_into(args, session, output.store, precious && !args->out, &output.keeps);
    hx_error *close_err = hx_output_close(&output);
    if (err)
        hx_error_free(close_err);
    else
        err = close_err;
    if (session->partial)
        *status = HX_EXIT_PARTIAL;
    return err;
}
