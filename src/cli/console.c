/* console.c - progress on stderr, and interrupts. */
#include "cli/console.h"

#include "base/text.h"

#include <errno.h>
#include <langinfo.h>
#include <locale.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>

enum {
    DRAW_EVERY_MS = 100,
    DRAW_AFTER_MS = 300, /* work that is over sooner shows nothing */
    BAR_CELLS = 20,
    SHORT_S = 1,         /* time left that is not worth a word */
    FINAL_INTERRUPT = 3, /* interrupts until one is final */
};

/* A signal handler can reach nothing but file-level state; this is all of it. */
static atomic_bool interrupted, ever;
static atomic_int interrupts, latest; /* latest: a signal, and whether a process sent it */

enum { SENT = 0x100 };
static _Atomic(hx_store *) queried;

static const int caught[] = {SIGINT, SIGTERM, SIGHUP};

static void on_interrupt(int signal_number, siginfo_t *info, void *unused)
{
    (void)unused;
    atomic_store(&latest, signal_number | (info->si_code <= 0 ? SENT : 0));
    atomic_store(&interrupted, true);
    atomic_store(&ever, true);
    hx_store *store = atomic_load(&queried);
    if (store)
        hx_store_interrupt(store);
    if (atomic_fetch_add(&interrupts, 1) + 1 >= FINAL_INTERRUPT) {
        signal(signal_number, SIG_DFL);
        raise(signal_number);
    }
}

static void set_handlers(const struct sigaction *action)
{
    struct sigaction old;
    for (size_t i = 0; i < sizeof caught / sizeof *caught; i++) {
        /* nohup and shells in the background ignore some: so do we then */
        if (sigaction(caught[i], NULL, &old) == 0 && old.sa_handler != SIG_IGN)
            sigaction(caught[i], action, NULL);
    }
}

void hx_interrupts_catch(void)
{
    set_handlers(&(struct sigaction){.sa_sigaction = on_interrupt, .sa_flags = SA_SIGINFO});
}

void hx_interrupts_end_queries(hx_store *store)
{
    atomic_store(&queried, store);
}

void hx_interrupts_release(void)
{
    set_handlers(&(struct sigaction){.sa_handler = SIG_DFL});
}

int hx_interrupts_forget(bool *ret_sent)
{
    atomic_store(&interrupted, false);
    atomic_store(&interrupts, 0); /* what is obeyed is no sign of impatience */
    int was = atomic_exchange(&latest, 0);
    *ret_sent = was & SENT;
    return was & ~SENT;
}

const atomic_bool *hx_interrupted(void)
{
    return &interrupted;
}

const atomic_bool *hx_interrupted_ever(void)
{
    return &ever;
}

hx_error *hx_wait_until(uint64_t deadline_ns, int pidfd, bool *ret_gone)
{
    sigset_t block, before;
    sigemptyset(&block);
    for (size_t i = 0; i < sizeof caught / sizeof *caught; i++)
        sigaddset(&block, caught[i]);
    /* Blocked but inside ppoll(), so that none falls between the test and the wait. */
    pthread_sigmask(SIG_BLOCK, &block, &before);
    int ready = 0;
    while (!atomic_load(&interrupted) && ready <= 0) {
        uint64_t now = hx_now_ns(), left = deadline_ns > now ? deadline_ns - now : 0;
        struct pollfd watch = {.fd = pidfd, .events = POLLIN};
        struct timespec timeout = {(time_t)(left / 1000000000), (long)(left % 1000000000)};
        ready = ppoll(&watch, 1, &timeout, &before);
        if (ready == 0 && left == 0)
            break;
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    *ret_gone = ready > 0;
    return atomic_load(&interrupted) ? hx_error_cancelled("waiting") : NULL;
}

/* --- Progress ----------------------------------------------------------------- */

static void put_progress_bar(const struct hx_console *console, struct hx_text *text, double part)
{
    int full = (int)(part * BAR_CELLS + 0.5);
    hx_text_putc(text, '[');
    for (int i = 0; i < BAR_CELLS; i++)
        hx_text_puts(text, i >= full       ? (console->utf8 ? "\u2591" : ".")
                           : console->utf8 ? "\u2588"
                                           : "#");
    hx_text_putc(text, ']');
}

/* A line that wraps could not be taken back. */
static bool is_wide_enough(void)
{
    struct winsize size = {0};
    return ioctl(STDERR_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0 ||
           size.ws_col > BAR_CELLS + 44;
}

/* Whole seconds, rounded up: finer ones would only flicker. */
static void put_left(struct hx_text *text, double seconds)
{
    char number[HX_HUMAN];
    if (seconds > 360000)
        return; /* a guess at most */
    uint64_t whole = (uint64_t)seconds + 1;
    if (whole < 60)
        hx_text_putf(text, "  %us left", (unsigned)whole);
    else
        hx_text_putf(text, "  %s left", hx_human_ns(whole * 1000000000, number));
}

/* One bar for the whole. */
static void draw_course(struct hx_console *console, const struct hx_course_look *look)
{
    struct hx_text text = {0};
    hx_text_putf(&text, "\r%-14s ", look->stage);
    if (is_wide_enough())
        put_progress_bar(console, &text, look->share);
    hx_text_putf(&text, " %3d%%", (int)(look->share * 100));
    if (look->left_s >= SHORT_S)
        put_left(&text, look->left_s);
    hx_text_puts(&text, "\033[K");
    if (!text.failed)
        fputs(hx_text_str(&text), stderr);
    hx_text_free(&text);
}

static void draw_progress(struct hx_console *console, uint64_t now, uint64_t done, uint64_t total)
{
    struct hx_text text = {0};
    char number[HX_HUMAN];
    double seconds = (double)(now - console->stage_started_ns) / 1e9;
    double rate = seconds > 0 ? (double)done / seconds : 0;
    hx_text_putf(&text, "\r%-10s ", console->stage);
    if (total) {
        double part = done < total ? (double)done / (double)total : 1;
        if (is_wide_enough())
            put_progress_bar(console, &text, part);
        hx_text_putf(&text, " %3d%%", (int)(part * 100));
    } else {
        hx_text_puts(&text, hx_human_count(done, number));
    }
    if (rate >= 1)
        hx_text_putf(&text, "  %s/s", hx_human_count((uint64_t)rate, number));
    if (total > done && rate >= 1)
        put_left(&text, (double)(total - done) / rate);
    hx_text_puts(&text, "\033[K");
    if (!text.failed)
        fputs(hx_text_str(&text), stderr);
    hx_text_free(&text);
}

static void on_progress(void *context, const char *stage, uint64_t done, uint64_t total)
{
    struct hx_console *console = context;
    if (pthread_mutex_trylock(&console->lock) != 0)
        return; /* another thread is just drawing */
    uint64_t now = hx_now_ns();
    struct hx_course_look look;
    bool whole = hx_course_look(&console->course, now, &look);
    if (whole != console->whole ||
        (!whole && strncmp(stage, console->stage, sizeof console->stage - 1) != 0)) {
        snprintf(console->stage, sizeof console->stage, "%s", stage);
        console->stage_started_ns = now;
        console->whole = whole;
    }
    if (now - console->stage_started_ns >= DRAW_AFTER_MS * (uint64_t)1000000 &&
        now - console->drawn_ns >= DRAW_EVERY_MS * (uint64_t)1000000) {
        if (whole)
            draw_course(console, &look);
        else
            draw_progress(console, now, done, total);
        console->drawn_ns = now;
        console->shown = true;
    }
    pthread_mutex_unlock(&console->lock);
}

static bool dumb_terminal(void)
{
    const char *term = getenv("TERM");
    return !term || !term[0] || strcmp(term, "dumb") == 0;
}

void hx_console_init(struct hx_console *console)
{
    *console = (struct hx_console){.lock = PTHREAD_MUTEX_INITIALIZER};
    hx_course_init(&console->course);
    console->progress.course = &console->course;
    console->bar = isatty(STDERR_FILENO) && !dumb_terminal();
    console->utf8 = strcmp(nl_langinfo(CODESET), "UTF-8") == 0;
    console->progress.report = console->bar ? on_progress : NULL;
    console->progress.context = console;
    console->progress.cancel = hx_interrupted();
}

void hx_console_clear(struct hx_console *console)
{
    pthread_mutex_lock(&console->lock);
    if (console->shown)
        fputs("\r\033[K", stderr);
    console->shown = false;
    console->stage[0] = 0;
    pthread_mutex_unlock(&console->lock);
}

void hx_say(struct hx_console *console, const char *what, const char *format, ...)
{
    char *said = NULL;
    va_list args;
    va_start(args, format);
    int n = vasprintf(&said, format, args);
    va_end(args);
    if (n < 0)
        return;
    struct hx_text line = {0};
    hx_text_escape(&line, what, strlen(what), false);
    hx_text_puts(&line, ": ");
    hx_text_escape(&line, said, (size_t)n, false);
    free(said);
    if (console)
        hx_console_clear(console);
    fprintf(stderr, "heapx: %s\n", hx_text_str(&line));
    hx_text_free(&line);
}

int hx_color(const struct hx_args *args)
{
    const char *no_color = getenv("NO_COLOR");
    if (args->color >= 0)
        return args->color;
    return (no_color && no_color[0]) || dumb_terminal() ? 0 : -1;
}

bool hx_has_terminal(void)
{
    return isatty(STDIN_FILENO) && isatty(STDOUT_FILENO) && !dumb_terminal();
}
