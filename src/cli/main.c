/* main.c - the table of subcommands, and how a call ends. */
#include "config.h"

#include "attach/memwatch.h"
#include "base/nearest.h"
#include "base/stack.h"
#include "cli/commands.h"
#include "cli/console.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <locale.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

const struct hx_command hx_commands[] = {
#define X(name, positional, least, most, options, about)                                           \
    {#name, positional, least, most, options, about, hx_cmd_##name},
    HX_COMMANDS(X)
#undef X
        {NULL, NULL, 0, 0, 0, NULL, NULL},
};

const struct hx_command *hx_command_find(const char *name)
{
    for (const struct hx_command *command = hx_commands; command->name; command++)
        if (strcmp(command->name, name) == 0)
            return command;
    return NULL;
}

static const char *next_command(void *context)
{
    const struct hx_command **cursor = context;
    return (*cursor)->name ? (*cursor)++->name : NULL;
}

hx_error *hx_command_unknown(const char *name)
{
    const struct hx_command *cursor = hx_commands;
    const char *near = hx_nearest(name, next_command, &cursor);
    char todo[64] = "see: heapx help";
    if (near)
        snprintf(todo, sizeof todo, "did you mean %s?", near);
    else if (hx_is_pid(name))
        snprintf(todo, sizeof todo, "did you mean attach %.30s?", name);
    return hx_error_new(HX_E_USAGE, name[0] ? name : "''", todo, "unknown command");
}

static hx_error *run_command(const struct hx_command *command, int argc, char **argv, int *status)
{
    HX_ARGS struct hx_args args = {0};
    HX_TRY(hx_args_parse(command, argc, argv, &args));
    if (hx_args_given(&args, HX_OPT_VERSION)) {
        puts("heapx " VERSION);
        return NULL;
    }
    if (hx_args_given(&args, HX_OPT_HELP)) {
        char *word = (char *)command->name;
        struct hx_args help = {.command = command, .word = &word, .n_words = 1};
        return hx_cmd_help(&help, status);
    }
    /* Those start a program, which shall not: it is there before heapx attaches, and volunteers. */
    if (command->run != hx_cmd_run && command->run != hx_cmd_demo)
        hx_oom_volunteer();
    /* A reader that goes away, or a file that may not grow, is an error like others: private
     * files are removed then, too. */
    signal(SIGPIPE, SIG_IGN);
    signal(SIGXFSZ, SIG_IGN);
    if (atomic_load(hx_interrupted()))
        return hx_error_cancelled(command->name);
    return command->run(&args, status);
}

/* Options before the command are those that stand for a whole call. */
static hx_error *dispatch(int argc, char **argv, int *status)
{
    if (argc < 2)
        return hx_error_new(HX_E_USAGE, "command", "see: heapx help", "none was given");
    const char *name = argv[1];
    if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0)
        name = "help";
    if (strcmp(name, "--version") == 0 || strcmp(name, "-V") == 0) {
        puts("heapx " VERSION);
        return NULL;
    }
    const struct hx_command *command = hx_command_find(name);
    if (!command && name[0] == '-')
        return hx_error_new(HX_E_USAGE, name, "the command comes first; see: heapx help",
                            "unknown option");
    if (!command)
        return hx_command_unknown(name);
    return run_command(command, argc - 1, argv + 1, status);
}

static int error_exit_status(enum hx_error_kind kind)
{
    return kind == HX_E_USAGE    ? HX_EXIT_USAGE
           : kind == HX_E_CANCEL ? HX_EXIT_INTERRUPTED
                                 : HX_EXIT_FAILED;
}

/* A result that did not reach its reader is a failure. */
static hx_error *flush_results(void)
{
    errno = 0;
    if (fflush(stdout) == 0 && !ferror(stdout))
        return NULL;
    return hx_error_os(errno ? errno : EIO, "standard output", "write");
}

/* A signal that came while a reader of the results was waited for. */
static hx_error *settle_signal(hx_error *err)
{
    if (!err || err->kind != HX_E_OS || err->os_errno != EINTR || !atomic_load(hx_interrupted()))
        return err;
    hx_error *cancelled = hx_error_cancelled(err->what);
    hx_error_free(err);
    return cancelled;
}

/* Who is started by the kernel (core_pattern) has no standard output: what is opened first must not
 * take its place. That nothing can be written there is still an error for who writes. */
static void fill_descriptors(void)
{
    for (int fd = 0; fd <= STDERR_FILENO; fd++)
        if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", O_RDONLY) != fd)
            _exit(HX_EXIT_FAILED);
}

static int begin_process(int argc, char **argv)
{
    fill_descriptors();
    setlocale(LC_ALL, "");
    setlocale(LC_NUMERIC, "C"); /* numbers are read and printed alike everywhere */
    int status = HX_EXIT_DONE;
    hx_error *err = dispatch(argc, argv, &status);
    hx_error *unwritten = flush_results();
    if (err)
        hx_error_free(unwritten);
    else
        err = unwritten;
    err = settle_signal(err);
    if (!err)
        return status;
    if (err->kind == HX_E_OS && err->os_errno == EPIPE) {
        /* End as everybody expects of the left side of a pipe: silently. */
        hx_error_free(err);
        signal(SIGPIPE, SIG_DFL);
        raise(SIGPIPE);
    }
    char line[1024];
    hx_error_line(err, line, sizeof line);
    fprintf(stderr, "heapx: %s\n", line);
    status = error_exit_status(err->kind);
    hx_error_free(err);
    return status;
}

int main(int argc, char **argv)
{
    hx_interrupts_catch(); /* before all else: who is told to end says so */
    return hx_stack_run(begin_process, argc, argv);
}
