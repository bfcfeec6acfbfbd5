/* term.c - curses, signals and the ways out. */
#define _XOPEN_SOURCE_EXTENDED 1
#include "ui/term/term.h"

#include "base/cleanup.h"
#include "base/timing.h"

#include <curses.h>
#include <errno.h>
#include <fcntl.h>
#include <langinfo.h>
#include <limits.h>
#include <locale.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <term.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>
#include <wchar.h>
#include <wctype.h>

/* Larger terminals are used in part. */
#define SIZE_MAX_CELLS 1000
/* A signal that kills is obeyed at once when the one before it was not within that time. */
#define PATIENCE_NS 2000000000u

static const struct {
    int number;
    bool fatal;
    enum hx_term_signal bit;
} handled[] = {
    {SIGWINCH, false, HX_TERM_RESIZED},
    {SIGTERM, false, HX_TERM_KILLED},
    {SIGHUP, false, HX_TERM_KILLED},
    {SIGINT, false, HX_TERM_KILLED},
    {SIGTSTP, false, HX_TERM_STOP},
    {SIGCONT, false, HX_TERM_CONT},
    {SIGQUIT, true, 0},
    {SIGSEGV, true, 0},
    {SIGBUS, true, 0},
    {SIGFPE, true, 0},
    {SIGILL, true, 0},
    {SIGABRT, true, 0},
    {SIGTRAP, true, 0},
    {SIGSYS, true, 0},
    {SIGPIPE, true, 0},
    {SIGXCPU, true, 0},
    {SIGXFSZ, true, 0},
    {SIGALRM, true, 0},
    {SIGVTALRM, true, 0},
    {SIGPROF, true, 0},
    {SIGIO, true, 0},
    {SIGUSR1, true, 0},
    {SIGUSR2, true, 0},
};
#define N_HANDLED (sizeof handled / sizeof *handled)

/* What a signal handler needs. Handlers have no argument, so this is the one place of the
 * explorer with mutable state at file level; it is written before handlers are installed. */
static struct {
    volatile sig_atomic_t active;
    atomic_uint pending;
    _Atomic uint64_t killed_ns; /* when the first signal that kills came; 0: none */
    int wake_fd;
    int tty_fd;
    pid_t pid;
    struct termios cooked;
    char restore[512]; /* bytes that bring the normal screen back */
    size_t restore_n;
    bool installed;
    struct sigaction before[N_HANDLED];
    void *stack; /* for the handlers: that of the program may be used up */
} signals = {.wake_fd = -1};

static uint64_t now_in_handler(void)
{
    struct timespec now = {0};
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static size_t find_handled(int number)
{
    size_t i = 0;
    while (i + 1 < N_HANDLED && handled[i].number != number)
        i++;
    return i;
}

/* Only async-signal-safe calls. Not in a child, and never waiting for a terminal that is stopped:
 * its modes come back all the same. */
static void leave_terminal(void)
{
    if (!signals.active || getpid() != signals.pid)
        return;
    signals.active = 0;
    struct pollfd fd = {.fd = signals.tty_fd, .events = POLLOUT};
    if (poll(&fd, 1, 0) > 0 && fd.revents & POLLOUT) {
        ssize_t n = write(signals.tty_fd, signals.restore, signals.restore_n);
        (void)n;
    }
    tcsetattr(signals.tty_fd, TCSANOW, &signals.cooked);
}

static void on_signal(int number)
{
    int saved = errno;
    size_t i = find_handled(number);
    if (handled[i].bit == HX_TERM_KILLED) {
        uint64_t first = 0, now = now_in_handler();
        /* Nobody has looked at the first one since: the screen's thread hangs, perhaps in a write
         * to a terminal that takes no more. */
        if (!atomic_compare_exchange_strong(&signals.killed_ns, &first, now) &&
            now - first > PATIENCE_NS) {
            leave_terminal();
            signal(number, SIG_DFL);
            raise(number);
        }
    }
    atomic_fetch_or(&signals.pending, handled[i].bit);
    uint64_t one = 1;
    ssize_t n = write(signals.wake_fd, &one, sizeof one);
    (void)n;
    errno = saved;
}

/* A fault in memory that somebody guards (recorders share files with programs, which may cut them
 * short) is none: their handler mends it and stays installed, or gives up and is not. */
static bool somebody_mends(int number, siginfo_t *info, void *context)
{
    const struct sigaction *before = &signals.before[find_handled(number)];
    struct sigaction now;
    if (number != SIGBUS || info->si_code <= 0 || !(before->sa_flags & SA_SIGINFO) ||
        !before->sa_sigaction)
        return false;
    before->sa_sigaction(number, info, context);
    return sigaction(number, NULL, &now) == 0 && now.sa_handler != SIG_DFL;
}

/* Async-signal-safe. Afterwards the signal does what it would have done without the explorer: ends
 * the process, or has a sanitizer report. */
static void on_crash(int number, siginfo_t *info, void *context)
{
    if (somebody_mends(number, info, context))
        return;
    leave_terminal();
    sigaction(number, &signals.before[find_handled(number)], NULL);
    if (info->si_code <= 0)
        raise(number); /* somebody sent it; a fault comes again by itself */
}

/* A stack that was used up has no room for a handler. Sanitizers bring their own. */
static void make_stack(void)
{
    stack_t have, stack = {.ss_size = 65536};
    if (sigaltstack(NULL, &have) != 0 || !(have.ss_flags & SS_DISABLE))
        return;
    signals.stack = stack.ss_sp = malloc(stack.ss_size);
    if (stack.ss_sp)
        sigaltstack(&stack, NULL);
}

static void free_stack(void)
{
    stack_t none = {.ss_flags = SS_DISABLE};
    if (signals.stack)
        sigaltstack(&none, NULL);
    free(hx_steal(signals.stack));
}

static void install_handlers(void)
{
    make_stack();
    signals.pid = getpid();
    for (size_t i = 0; i < N_HANDLED; i++) {
        struct sigaction action = {.sa_flags = SA_RESTART};
        if (handled[i].fatal) {
            action.sa_sigaction = on_crash;
            action.sa_flags = SA_SIGINFO | SA_NODEFER | SA_ONSTACK;
        } else {
            action.sa_handler = on_signal;
        }
        sigemptyset(&action.sa_mask);
        sigaction(handled[i].number, NULL, &signals.before[i]);
        /* What is ignored stays so (nohup). */
        if (signals.before[i].sa_handler != SIG_IGN)
            sigaction(handled[i].number, &action, NULL);
    }
    signals.installed = true;
}

/* A handler that came to stand above ours stays. */
static void remove_handlers(void)
{
    struct sigaction now;
    for (size_t i = 0; signals.installed && i < N_HANDLED; i++)
        if (sigaction(handled[i].number, NULL, &now) == 0 &&
            (now.sa_sigaction == on_crash || now.sa_handler == on_signal))
            sigaction(handled[i].number, &signals.before[i], NULL);
    if (signals.installed)
        free_stack();
    signals.installed = false;
}

/* Mouse reports with places of any size, and pasted text in brackets. */
static const char mouse_on[] = "\033[?1000h\033[?1006h", mouse_off[] = "\033[?1006l\033[?1000l",
                  paste_on[] = "\033[?2004h", paste_off[] = "\033[?2004l";

static void add_bytes(const char *s, size_t n)
{
    for (size_t i = 0; i < n && signals.restore_n < sizeof signals.restore; i++)
        signals.restore[signals.restore_n++] = s[i];
}

static const char *capability(const char *name)
{
    const char *s = tigetstr(name);
    return s == (const char *)-1 ? NULL : s;
}

/* Padding marks ($<5>) are for tputs(); without them the bytes are as good. */
static void add_restore(const char *name)
{
    const char *s = capability(name), *pad;
    while (s && (pad = strstr(s, "$<")) && strchr(pad, '>')) {
        add_bytes(s, (size_t)(pad - s));
        s = strchr(pad, '>') + 1;
    }
    if (s)
        add_bytes(s, strlen(s));
}

/* Curses has written what it had before. */
static void send(const struct hx_term *term, const char *s)
{
    size_t n = strlen(s);
    if (term->script)
        return;
    while (n) {
        ssize_t done = write(STDOUT_FILENO, s, n);
        if (done < 0 && errno != EINTR)
            return; /* the terminal is gone, which reading will tell */
        s += done > 0 ? done : 0;
        n -= done > 0 ? (size_t)done : 0;
    }
}

static void send_modes(const struct hx_term *term, bool on)
{
    if (!term->has_mouse)
        return;
    send(term, on && term->mouse ? mouse_on : mouse_off);
    send(term, on ? paste_on : paste_off);
}

static int environment_size(const char *name, int least, int other)
{
    const char *s = getenv(name);
    uint64_t value;
    return s && hx_parse_u64(s, &value) && value >= (uint64_t)least && value <= 1000 ? (int)value
                                                                                     : other;
}

static hx_error *open_script(struct hx_term *term)
{
    static const char *const types[] = {"xterm-256color", "xterm", "vt100", "linux", "ansi"};
    term->in = fopen("/dev/null", "re");
    term->out = fopen("/dev/null", "we");
    if (!term->in || !term->out)
        return hx_error_os(errno, "/dev/null", "open");
    for (size_t i = 0; i < sizeof types / sizeof *types && !term->screen; i++)
        term->screen = newterm(types[i], term->out, term->in);
    if (!term->screen)
        return hx_error_new(HX_E_FAIL, "explorer", "install ncurses-base",
                            "no description of any terminal is installed");
    hx_term_set_size(environment_size("LINES", 1, 24), environment_size("COLUMNS", 1, 80));
    return NULL;
}

static hx_error *unusable(const char *type)
{
    int ret = 0;
    bool known = type && setupterm(type, STDOUT_FILENO, &ret) == OK;
    bool able = known && capability("cup");
    if (known)
        del_curterm(cur_term);
    if (able)
        return NULL;
    if (known)
        return hx_error_new(HX_E_FAIL, "explorer",
                            "set TERM (for example TERM=vt100), or use `heapx report`",
                            "the terminal type %s cannot move the cursor", type);
    return hx_error_new(
        HX_E_FAIL, "explorer",
        "set TERM to one that is (for example TERM=xterm or TERM=vt100), install ncurses-term, "
        "or use `heapx report`",
        "the terminal type %s is not known here", type && *type ? type : "(TERM is not set)");
}

/* Back to the normal screen. A terminal that has no other one would show what was drawn last,
 * with the shell's prompt in it. */
static void leave_screen(const struct hx_term *term)
{
    if (!term->script && !capability("rmcup")) {
        erase();
        refresh();
    }
    endwin();
}

static void learn_keys(struct hx_term *term)
{
    static const struct {
        const char *capability;
        int key;
    } keys[] = {
        {"kcuu1", -KEY_UP},   {"kcud1", -KEY_DOWN}, {"kcub1", -KEY_LEFT},    {"kcuf1", -KEY_RIGHT},
        {"khome", -KEY_HOME}, {"kend", -KEY_END},   {"kpp", -KEY_PPAGE},     {"knp", -KEY_NPAGE},
        {"kcbt", -KEY_BTAB},  {"kdch1", -KEY_DC},   {"kbs", -KEY_BACKSPACE}, {"kent", '\r'},
        {"kf1", -KEY_F(1)},   {"kf2", -KEY_F(2)},   {"kf3", -KEY_F(3)},      {"kf4", -KEY_F(4)},
        {"kf5", -KEY_F(5)},   {"kf6", -KEY_F(6)},   {"kf7", -KEY_F(7)},      {"kf8", -KEY_F(8)},
        {"kf9", -KEY_F(9)},   {"kf10", -KEY_F(10)}, {"kf11", -KEY_F(11)},    {"kf12", -KEY_F(12)},
    };
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        const char *bytes = capability(keys[i].capability);
        if (bytes)
            hx_input_add_key(&term->input, bytes, keys[i].key);
    }
}

static hx_error *open_terminal(struct hx_term *term)
{
    const char *type = getenv("TERM");
    if (!isatty(STDIN_FILENO) || !isatty(STDOUT_FILENO))
        return hx_error_new(HX_E_FAIL, "explorer", "use `heapx report`, or `--script FILE`",
                            "needs a terminal for input and output");
    HX_TRY(unusable(type));
    tcgetattr(STDIN_FILENO, &signals.cooked);
    signals.tty_fd = STDIN_FILENO;
    install_handlers(); /* before curses, which then leaves them alone */
    term->screen = newterm(NULL, stdout, stdin);
    if (!term->screen)
        return hx_error_new(HX_E_FAIL, "explorer", "set TERM (for example TERM=vt100)",
                            "cannot use the terminal type %s", type);
    term->has_mouse = capability("kmous") != NULL;
    term->fine = strncmp(type, "linux", 5) != 0;
    learn_keys(term);
    signals.restore_n = 0;
    if (term->has_mouse) {
        add_bytes(mouse_off, sizeof mouse_off - 1);
        add_bytes(paste_off, sizeof paste_off - 1);
    }
    add_restore("sgr0");
    add_restore("cnorm");
    add_restore("rmkx");
    if (capability("rmcup"))
        add_restore("rmcup");
    else
        add_bytes("\r\n", 2);
    signals.active = 1;
    return NULL;
}

static short blend_pair(int front, int back)
{
    return (short)(HX_STYLES + front * HX_BANDS + back);
}

static void start_colors(struct hx_term *term, int color)
{
    const char *type = getenv("TERM"), *no = getenv("NO_COLOR");
    bool wanted = color > 0 || (color < 0 && !(no && *no) && type && strcmp(type, "dumb") != 0);
    /* The background stays the terminal's own, light or dark. */
    term->color = !term->script && wanted && has_colors() && start_color() == OK &&
                  use_default_colors() == OK;
    if (!term->color)
        return;
    /* Tones between that can be read on both; of eight colours those that come close to it. */
    bool many = COLORS >= 256;
    init_pair(HX_STYLE_TITLE, many ? 31 : -1, -1);
    init_pair(HX_STYLE_BAR, many ? 34 : COLOR_GREEN, -1);
    init_pair(HX_STYLE_BAD, many ? 160 : COLOR_RED, -1);
    static const short tones[HX_BANDS] = {33, 34, 172, 133, 37, 167, 100, 245},
                       band[HX_BANDS] = {COLOR_CYAN, COLOR_GREEN, COLOR_MAGENTA, COLOR_YELLOW,
                                         COLOR_RED,  COLOR_BLUE,  COLOR_CYAN,    COLOR_GREEN};
    for (int i = 0; i < HX_BANDS; i++)
        init_pair((short)(HX_STYLE_BAND + i), many ? tones[i] : band[i], -1);
    /* Two areas in one cell; the last of them is text on an area. */
    term->blend = many && term->fine && COLOR_PAIRS >= blend_pair(HX_BANDS, HX_BANDS - 1) + 1;
    for (int i = 0; term->blend && i < (HX_BANDS + 1) * HX_BANDS; i++)
        init_pair(blend_pair(i / HX_BANDS, i % HX_BANDS),
                  i / HX_BANDS < HX_BANDS ? tones[i / HX_BANDS] : -1, tones[i % HX_BANDS]);
}

hx_error *hx_term_start(struct hx_term *term, bool script, int color)
{
    /* Only characters: numbers stay as the contract writes them. */
    setlocale(LC_CTYPE, "");
    *term = (struct hx_term){.script = script, .fine = true};
    hx_input_init(&term->input);
    term->utf8 = strcmp(nl_langinfo(CODESET), "UTF-8") == 0;
    term->fine &= term->utf8;
    atomic_store(&signals.pending, 0);
    atomic_store(&signals.killed_ns, 0);
    if (signals.wake_fd < 0)
        signals.wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (signals.wake_fd < 0)
        return hx_error_os(errno, "explorer", "eventfd");
    hx_error *error = script ? open_script(term) : open_terminal(term);
    if (error) {
        hx_term_end(term);
        return error;
    }
    start_colors(term, color);
    /* Not cbreak: Ctrl-C and Ctrl-Z are keys, so that no signal hits the processes beside us. */
    raw();
    noecho();
    nonl();
    keypad(stdscr, TRUE); /* the terminal sends what its description says */
    curs_set(0);
    if (!script)
        hx_term_resize(term); /* whatever LINES and COLUMNS of the environment say */
    term->mouse = term->has_mouse;
    send_modes(term, true);
    return NULL;
}

void hx_term_end(struct hx_term *term)
{
    if (term->screen) {
        send_modes(term, false);
        leave_screen(term);
        signals.active = 0;
        delscreen(term->screen);
        term->screen = NULL;
    }
    remove_handlers();
    if (term->in)
        fclose(term->in);
    if (term->out)
        fclose(term->out);
    term->in = term->out = NULL;
    if (signals.wake_fd >= 0)
        close(signals.wake_fd);
    signals.wake_fd = -1;
}

static void take_terminal(struct hx_term *term)
{
    signals.active = 1;
    reset_prog_mode();
    send_modes(term, true);
    hx_term_resize(term);
}

bool hx_term_suspend(struct hx_term *term, bool alone)
{
    /* Who ignores it was started where nothing is ever brought back. */
    if (term->script || signals.before[find_handled(SIGTSTP)].sa_handler == SIG_IGN)
        return false;
    send_modes(term, false);
    def_prog_mode();
    leave_screen(term);
    signals.active = 0;
    signal(SIGTSTP, SIG_DFL);
    /* A wrapper that waits for us has to stop too, or the shell would not come back. */
    if (alone)
        raise(SIGTSTP);
    else
        kill(0, SIGTSTP);
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
    sigemptyset(&action.sa_mask);
    sigaction(SIGTSTP, &action, NULL);
    take_terminal(term);
    return true;
}

void hx_term_resume(struct hx_term *term)
{
    if (!term->script)
        take_terminal(term);
}

void hx_term_set_size(int height, int width)
{
    resizeterm(height, width);
}

void hx_term_resize(struct hx_term *term)
{
    struct winsize size;
    if (!term->script && ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_row && size.ws_col)
        resizeterm(size.ws_row < SIZE_MAX_CELLS ? size.ws_row : SIZE_MAX_CELLS,
                   size.ws_col < SIZE_MAX_CELLS ? size.ws_col : SIZE_MAX_CELLS);
    hx_term_redraw();
}

void hx_term_set_mouse(struct hx_term *term, bool on)
{
    term->mouse = on && term->has_mouse;
    send_modes(term, true);
}

unsigned hx_term_signals(void)
{
    uint64_t count;
    ssize_t n = read(signals.wake_fd, &count, sizeof count);
    (void)n;
    return atomic_exchange(&signals.pending, 0);
}

int hx_term_signal_fd(void)
{
    return signals.wake_fd;
}

bool hx_term_read(struct hx_term *term)
{
    for (;;) {
        struct pollfd fd = {.fd = STDIN_FILENO, .events = POLLIN};
        size_t room;
        unsigned char *to = hx_input_room(&term->input, &room);
        if (!room || poll(&fd, 1, 0) <= 0)
            return true; /* the rest comes when these were decoded */
        ssize_t n = read(STDIN_FILENO, to, room);
        if (n < 0 && (errno == EINTR || errno == EAGAIN))
            return true;
        if (n <= 0)
            return false;
        hx_input_took(&term->input, (size_t)n, hx_now_ns());
    }
}

bool hx_term_key(struct hx_term *term, int *ret)
{
    return hx_input_next(&term->input, hx_now_ns(), ret);
}

enum hx_mouse hx_term_mouse(struct hx_term *term, int *ret_row, int *ret_column)
{
    *ret_row = term->input.mouse_row;
    *ret_column = term->input.mouse_column;
    enum hx_mouse mouse = term->input.mouse;
    term->input.mouse = HX_MOUSE_NONE;
    return mouse;
}

int hx_term_lines(void)
{
    return LINES;
}

int hx_term_columns(void)
{
    return COLS;
}

/* One character of s; what cannot be printed becomes `?`, as does a combining character with
 * nothing before it. Others of these have width 0. */
static size_t next_char(const char *s, bool first, mbstate_t *state, wchar_t *ret, int *ret_width)
{
    size_t n = mbrtowc(ret, s, MB_LEN_MAX, state);
    bool bad = n == (size_t)-1 || n == (size_t)-2;
    if (bad) {
        memset(state, 0, sizeof *state);
        n = 1;
    }
    *ret_width = bad ? -1 : wcwidth(*ret);
    if (*ret_width < (first ? 1 : 0) || !iswprint((wint_t)*ret) || hx_unsafe_char((uint32_t)*ret)) {
        *ret = L'?';
        *ret_width = 1;
    }
    return n;
}

/* What comes closest to a character that the Linux console's fonts lack: halves of blocks, larger
 * triangles and dots; of bars that rise only those of a half and more are more than a line. */
static wchar_t plain_char(wchar_t c)
{
    static const struct {
        wchar_t first, last, plain;
    } map[] = {
        {0x2581, 0x2583, '_'},    {0x2584, 0x2585, 0x2584}, {0x2586, 0x2588, 0x2588},
        {0x2589, 0x258a, 0x2588}, {0x258b, 0x258d, 0x258c}, {0x258e, 0x258f, 0x2502},
        {0x25b4, 0x25b4, 0x25b2}, {0x25be, 0x25be, 0x25bc}, {0x25cf, 0x25cf, 0x2022},
        {0x2800, 0x2800, ' '},    {0x2801, 0x28ff, 0x00b7},
    };
    for (size_t i = 0; i < sizeof map / sizeof *map; i++)
        if (c >= map[i].first && c <= map[i].last)
            return map[i].plain;
    return c;
}

int hx_text_width(const char *s)
{
    mbstate_t state = {0};
    int width = 0, w;
    wchar_t c;
    while (*s) {
        s += next_char(s, !width, &state, &c, &w);
        width += w;
    }
    return width;
}

void hx_text_cut(const struct hx_term *term, int width, int most, struct hx_text *text)
{
    mbstate_t state = {0};
    const char *s = hx_text_str(text);
    int whole = hx_text_width(s), head = 0, w;
    wchar_t c;
    if (whole <= width || width < 3)
        return;
    struct hx_text cut = {0};
    const char *at = s;
    for (;;) {
        const char *next = at + next_char(at, at == s, &state, &c, &w);
        if (head + w > most)
            break;
        head += w;
        at = next;
    }
    hx_text_putn(&cut, s, (size_t)(at - s));
    hx_text_puts(&cut, term->utf8 ? "\u2026" : "~");
    for (int left = whole - head; left > width - head - 1; left -= w)
        at += next_char(at, false, &state, &c, &w);
    hx_text_puts(&cut, at);
    hx_text_free(text);
    *text = cut;
}

void hx_text_middle(const struct hx_term *term, int width, struct hx_text *text)
{
    hx_text_cut(term, width, width / 2, text);
}

/* Behind the name that begins there, of those with ", " between. */
static const char *name_end(const char *s)
{
    for (int depth = 0; *s; s++) {
        depth += strchr("<([{", *s) ? 1 : strchr(">)]}", *s) ? -1 : 0;
        if (depth <= 0 && s[0] == ',' && s[1] == ' ')
            break;
    }
    return s;
}

/* What stands for names that are left out; a few letters where there is little room. */
static int others_text(int width, size_t n, char ret[48])
{
    if (!n)
        *ret = 0;
    else if (width < 40)
        snprintf(ret, 48, " +%zu", n);
    else if (n == 1)
        snprintf(ret, 48, " and another one");
    else
        snprintf(ret, 48, " and %zu others", n);
    return (int)strlen(ret);
}

/* Takes " and 23 others (#57)" off: so many are left out already. *ret: what follows, " (#57)". */
static size_t take_others(struct hx_text *text, char ret[32])
{
    static const char words[] = " others";
    char *tail = NULL, *end = NULL;
    *ret = 0;
    for (char *s = text->s; s && (s = strstr(s, " and ")); s += 5)
        tail = s;
    size_t n = tail ? strtoull(tail + 5, &end, 10) : 0;
    if (!n || strncmp(end, words, sizeof words - 1) != 0 || strlen(end) >= 32)
        return 0;
    strcpy(ret, end + sizeof words - 1);
    *tail = 0;
    text->n = (size_t)(tail - text->s);
    return n;
}

void hx_text_fewer(const struct hx_term *term, int width, struct hx_text *text)
{
    struct hx_text fewer = {0};
    char others[48], mark[32];
    size_t left = 0;
    if (hx_text_width(hx_text_str(text)) <= width)
        return;
    size_t before = take_others(text, mark);
    const char *s = hx_text_str(text), *end = name_end(s), *next;
    width -= (int)strlen(mark);
    for (next = end; *next; next = name_end(next + 2))
        left++;
    hx_text_putn(&fewer, s, (size_t)(end - s));
    for (; left > (before ? 0 : 1); left--, end = next) {
        size_t kept = fewer.n;
        next = name_end(end + 2);
        hx_text_putn(&fewer, end, (size_t)(next - end));
        if (hx_text_width(hx_text_str(&fewer)) + others_text(width, before + left - 1, others) <=
            width)
            continue;
        fewer.n = fewer.failed ? 0 : kept;
        break;
    }
    if (fewer.s)
        fewer.s[fewer.n] = 0;
    hx_text_middle(term, width - others_text(width, before + left, others), &fewer);
    hx_text_puts(&fewer, others);
    hx_text_puts(&fewer, mark);
    hx_text_free(text);
    *text = fewer;
}

static attr_t style_attributes(const struct hx_term *term, enum hx_style style, short *pair)
{
    *pair = 0;
    switch (style) {
    case HX_STYLE_HEAD:
    case HX_STYLE_CURSOR:
        return A_REVERSE;
    case HX_STYLE_COLUMN:
        return A_UNDERLINE | A_BOLD;
    case HX_STYLE_TITLE:
        *pair = term->color ? HX_STYLE_TITLE : 0;
        return A_BOLD;
    case HX_STYLE_DIM:
        return term->color ? A_DIM : A_NORMAL;
    case HX_STYLE_BAR:
        *pair = term->color ? HX_STYLE_BAR : 0;
        return A_NORMAL;
    case HX_STYLE_BAD:
        *pair = term->color ? HX_STYLE_BAD : 0;
        return A_BOLD;
    case HX_STYLE_MARK:
        return A_BOLD;
    case HX_STYLE_FILL_BAD:
        *pair = term->color ? HX_STYLE_BAD : 0;
        return term->color ? A_REVERSE : A_BOLD;
    default:
        if (style >= HX_STYLE_FILL && style <= HX_STYLE_FILL_LAST) {
            *pair = term->color ? (short)(style - HX_STYLE_FILL + HX_STYLE_BAND) : 0;
            return term->color ? A_REVERSE : style % 2 ? A_BOLD : A_NORMAL;
        }
        if (style >= HX_STYLE_BAND && style <= HX_STYLE_BAND_LAST && term->color)
            *pair = (short)style;
        /* Of eight colours blue is too dark for black, and two come again. */
        return style >= HX_STYLE_BAND + 5 && COLORS < 256 ? A_BOLD : A_NORMAL;
    }
}

static void use_style(const struct hx_term *term, enum hx_style style)
{
    short pair;
    attr_t attributes = style_attributes(term, style, &pair);
    attr_set(attributes, pair, NULL);
}

/* In the attributes that are set. */
static void put_clipped_text(const struct hx_term *term, int y, int x, int width, const char *s,
                             bool right)
{
    if (width <= 0 || y < 0 || y >= LINES || x >= COLS)
        return;
    if (width > COLS - x)
        width = COLS - x;
    int needed = hx_text_width(s);
    bool cut = needed > width;
    int pad = cut ? 0 : width - needed, used = 0;
    move(y, x);
    for (int i = 0; right && i < pad; i++)
        addch(' ');
    mbstate_t state = {0};
    while (*s) {
        wchar_t c[2] = {0};
        int w;
        s += next_char(s, !used, &state, c, &w);
        if (cut && used + w > width - 1)
            break;
        if (!term->fine)
            c[0] = plain_char(c[0]);
        addwstr(c);
        used += w;
    }
    for (; cut && used < width - 1; used++)
        addch(' ');
    if (cut)
        addwstr(term->utf8 ? L"\u2026" : L"~");
    for (int i = 0; !right && i < pad; i++)
        addch(' ');
}

void hx_put(const struct hx_term *term, int y, int x, int width, const char *s, bool right,
            enum hx_style style)
{
    use_style(term, style);
    put_clipped_text(term, y, x, width, s, right);
    attr_set(A_NORMAL, 0, NULL);
}

void hx_put_over(const struct hx_term *term, int y, int x, int width, const char *s,
                 enum hx_style style, enum hx_style over)
{
    bool front = style >= HX_STYLE_BAND && style <= HX_STYLE_BAND_LAST;
    if (term->blend && over >= HX_STYLE_BAND && over <= HX_STYLE_BAND_LAST)
        attr_set(front ? A_NORMAL : A_BOLD,
                 blend_pair(front ? (int)(style - HX_STYLE_BAND) : HX_BANDS,
                            (int)(over - HX_STYLE_BAND)),
                 NULL);
    else
        use_style(term, style);
    put_clipped_text(term, y, x, width, s, false);
    attr_set(A_NORMAL, 0, NULL);
}

void hx_put_bar(const struct hx_term *term, int y, int x, int width, double part, double marked,
                double whole, bool cursor)
{
    /* Eighths of a cell where the locale has the characters for it. */
    static const wchar_t eighths[] = L" \u258f\u258e\u258d\u258c\u258b\u258a\u2589\u2588";
    if (width <= 0 || y < 0 || y >= LINES || x + width > COLS)
        return;
    double scale = whole > 0 ? width / whole : 0;
    double full = part > 0 ? part * scale : 0, first = marked > 0 ? marked * scale : 0;
    if (full > width)
        full = width;
    if (part > 0 && full < 0.125)
        full = 0.125; /* something is never drawn as nothing */
    if (marked > 0 && first < 1 && full >= 1)
        first = 1;
    move(y, x);
    for (int i = 0; i < width; i++) {
        bool in_first = i + 0.5 < first;
        double rest = full - i;
        int eighth = rest >= 1 ? 8 : rest <= 0 ? 0 : (int)(rest * 8);
        use_style(term, cursor ? HX_STYLE_CURSOR : in_first ? HX_STYLE_BAD : HX_STYLE_BAR);
        wchar_t c[2] = {0};
        if (in_first)
            c[0] = term->utf8 ? L'\u2592' : L'x';
        else if (term->utf8)
            c[0] = term->fine ? eighths[eighth] : plain_char(eighths[eighth]);
        else
            c[0] = eighth >= 4 || (i == 0 && part > 0) ? L'#' : L' ';
        addwstr(c);
    }
    attr_set(A_NORMAL, 0, NULL);
}

void hx_term_clear(void)
{
    erase();
}

void hx_term_show(int cursor_y, int cursor_x)
{
    curs_set(cursor_y >= 0);
    if (cursor_y >= 0)
        move(cursor_y, cursor_x < COLS ? cursor_x : COLS - 1);
    refresh();
}

void hx_term_redraw(void)
{
    clearok(curscr, TRUE);
}

void hx_term_text(struct hx_text *ret)
{
    for (int y = 0; y < LINES; y++) {
        struct hx_text line = {0};
        size_t end = 0; /* after the last character that is no blank */
        for (int x = 0; x < COLS;) {
            cchar_t cell;
            wchar_t text[CCHARW_MAX + 1] = {0};
            attr_t attributes;
            short pair;
            mvin_wch(y, x, &cell);
            if (getcchar(&cell, text, &attributes, &pair, NULL) == ERR)
                text[0] = L' ';
            for (size_t i = 0; text[i]; i++) {
                char bytes[MB_LEN_MAX];
                int n = wctomb(bytes, text[i]);
                hx_text_putn(&line, bytes, n > 0 ? (size_t)n : 0);
            }
            if (text[0] != L' ')
                end = line.n;
            int width = wcwidth(text[0]);
            x += width > 1 ? width : 1;
        }
        hx_text_putn(ret, hx_text_str(&line), end);
        hx_text_putc(ret, '\n');
        hx_text_free(&line);
    }
}
