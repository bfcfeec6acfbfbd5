/* term.c - curses, signals and the ways out. */
#define _XOPEN_SOURCE_EXTENDED 1
#include "ui/term.h"

#include "base/cleanup.h"

#include <curses.h>
#include <errno.h>
#include <fcntl.h>
#include <langinfo.h>
#include <limits.h>
#include <locale.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <term.h>
#include <termios.h>
#include <wchar.h>
#include <wctype.h>

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
};
#define N_HANDLED (sizeof handled / sizeof *handled)

/* What a signal handler needs. Handlers have no argument, so this is the one place of the
 * explorer with mutable state at file level; it is written before handlers are installed. */
static struct {
    volatile sig_atomic_t active;
    atomic_uint pending;
    int wake_fd;
    int tty_fd;
    struct termios cooked;
    char restore[256]; /* bytes that bring the normal screen back */
    size_t restore_n;
    bool installed;
    struct sigaction before[N_HANDLED];
} signals = {.wake_fd = -1};

static void on_signal(int number)
{
    int saved = errno;
    unsigned bit = 0;
    for (size_t i = 0; i < N_HANDLED; i++)
        if (handled[i].number == number)
            bit = handled[i].bit;
    atomic_fetch_or(&signals.pending, bit);
    uint64_t one = 1;
    ssize_t n = write(signals.wake_fd, &one, sizeof one);
    (void)n;
    errno = saved;
}

/* Async-signal-safe: write, tcsetattr, sigaction and raise only. Afterwards the signal does
 * what it would have done without the explorer: ends the process, or has a sanitizer report. */
static void on_crash(int number, siginfo_t *info, void *context)
{
    (void)context;
    if (signals.active) {
        signals.active = 0;
        ssize_t n = write(signals.tty_fd, signals.restore, signals.restore_n);
        (void)n;
        tcsetattr(signals.tty_fd, TCSANOW, &signals.cooked);
    }
    for (size_t i = 0; i < N_HANDLED; i++)
        if (handled[i].number == number)
            sigaction(number, &signals.before[i], NULL);
    if (info->si_code <= 0)
        raise(number); /* somebody sent it; a fault comes again by itself */
}

static void install_handlers(void)
{
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

static void remove_handlers(void)
{
    for (size_t i = 0; signals.installed && i < N_HANDLED; i++)
        sigaction(handled[i].number, &signals.before[i], NULL);
    signals.installed = false;
}

static void add_restore(const char *capability)
{
    const char *s = tigetstr(capability);
    if (!s || s == (const char *)-1)
        return;
    /* Padding marks ($<5>) are for tputs(); without them the bytes are as good. */
    for (; *s && signals.restore_n + 1 < sizeof signals.restore; s++) {
        if (s[0] == '$' && s[1] == '<') {
            const char *end = strchr(s, '>');
            if (end) {
                s = end;
                continue;
            }
        }
        signals.restore[signals.restore_n++] = *s;
    }
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

static hx_error *open_terminal(struct hx_term *term)
{
    const char *type = getenv("TERM");
    if (!isatty(STDIN_FILENO) || !isatty(STDOUT_FILENO))
        return hx_error_new(HX_E_FAIL, "explorer", "use `heapx report`, or `--script FILE`",
                            "needs a terminal for input and output");
    tcgetattr(STDIN_FILENO, &signals.cooked);
    signals.tty_fd = STDIN_FILENO;
    int ret = 0;
    bool known = type && setupterm(type, STDOUT_FILENO, &ret) == OK;
    bool able = known && tigetstr("cup") && tigetstr("cup") != (char *)-1;
    if (known)
        del_curterm(cur_term);
    if (!able)
        return hx_error_new(HX_E_FAIL, "explorer",
                            "set TERM (for example TERM=vt100), or use `heapx report`",
                            "the terminal type %s cannot move the cursor", type ? type : "(none)");
    install_handlers(); /* before curses, which then leaves them alone */
    term->screen = newterm(NULL, stdout, stdin);
    if (!term->screen)
        return hx_error_new(HX_E_FAIL, "explorer", "set TERM (for example TERM=vt100)",
                            "cannot use the terminal type %s", type);
    signals.restore_n = 0;
    add_restore("sgr0");
    add_restore("cnorm");
    add_restore("rmkx");
    add_restore("rmcup");
    signals.active = 1;
    return NULL;
}

static void start_colors(struct hx_term *term, int color)
{
    const char *type = getenv("TERM"), *no = getenv("NO_COLOR");
    bool wanted = color > 0 || (color < 0 && !(no && *no) && type && strcmp(type, "dumb") != 0);
    term->color = !term->script && wanted && has_colors() && start_color() == OK;
    if (!term->color)
        return;
    use_default_colors();
    init_pair(HX_STYLE_TITLE, COLOR_CYAN, -1);
    init_pair(HX_STYLE_DIM, COLOR_BLUE, -1);
    init_pair(HX_STYLE_BAR, COLOR_GREEN, -1);
    init_pair(HX_STYLE_BAD, COLOR_RED, -1);
    static const short band[HX_BANDS] = {COLOR_BLUE, COLOR_GREEN, COLOR_YELLOW, COLOR_MAGENTA,
                                         COLOR_CYAN, COLOR_RED,   COLOR_BLUE,   COLOR_GREEN};
    for (int i = 0; i < HX_BANDS; i++)
        init_pair((short)(HX_STYLE_BAND + i), band[i], -1);
}

hx_error *hx_term_start(struct hx_term *term, bool script, int color)
{
    /* Only characters: numbers stay as the contract writes them. */
    setlocale(LC_CTYPE, "");
    *term = (struct hx_term){.script = script};
    term->utf8 = strcmp(nl_langinfo(CODESET), "UTF-8") == 0;
    atomic_store(&signals.pending, 0);
    if (signals.wake_fd < 0)
        signals.wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (signals.wake_fd < 0)
        return hx_error_os(errno, "explorer", "eventfd");
    set_escdelay(25);
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
    keypad(stdscr, TRUE);
    nodelay(stdscr, TRUE);
    curs_set(0);
    hx_term_set_mouse(term, !script);
    return NULL;
}

void hx_term_end(struct hx_term *term)
{
    if (term->screen) {
        hx_term_set_mouse(term, false);
        endwin();
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

void hx_term_suspend(struct hx_term *term, bool alone)
{
    if (term->script)
        return;
    bool mouse = term->mouse;
    hx_term_set_mouse(term, false);
    def_prog_mode();
    endwin();
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
    signals.active = 1;
    reset_prog_mode();
    hx_term_set_mouse(term, mouse);
    hx_term_resize(term);
}

void hx_term_set_size(int height, int width)
{
    resizeterm(height, width);
}

void hx_term_resize(struct hx_term *term)
{
    struct winsize size;
    if (!term->script && ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_row && size.ws_col)
        resizeterm(size.ws_row, size.ws_col);
    hx_term_redraw();
}

void hx_term_set_mouse(struct hx_term *term, bool on)
{
    if (term->script)
        return;
    mmask_t wanted = BUTTON1_CLICKED | BUTTON1_DOUBLE_CLICKED | BUTTON1_PRESSED | BUTTON4_PRESSED |
                     BUTTON5_PRESSED;
    mousemask(on ? wanted : 0, NULL);
    mouseinterval(0); /* presses are told at once; double clicks are put together by the caller */
    term->mouse = on;
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

bool hx_term_key(int *ret)
{
    wint_t c;
    int kind;
    do /* curses tells of a new size that it was told */
        kind = get_wch(&c);
    while (kind == KEY_CODE_YES && c == KEY_RESIZE);
    if (kind == ERR)
        return false;
    *ret = kind == KEY_CODE_YES ? -(int)c : (int)c;
    return true;
}

enum hx_mouse hx_term_mouse(int *ret_row, int *ret_column)
{
    MEVENT event;
    if (getmouse(&event) != OK)
        return HX_MOUSE_NONE;
    *ret_row = event.y;
    *ret_column = event.x;
    if (event.bstate & BUTTON4_PRESSED)
        return HX_MOUSE_UP;
    if (event.bstate & BUTTON5_PRESSED)
        return HX_MOUSE_DOWN;
    if (event.bstate & BUTTON1_DOUBLE_CLICKED)
        return HX_MOUSE_DOUBLE;
    return event.bstate & (BUTTON1_CLICKED | BUTTON1_PRESSED) ? HX_MOUSE_CLICK : HX_MOUSE_NONE;
}

int hx_term_lines(void)
{
    return LINES;
}

int hx_term_columns(void)
{
    return COLS;
}

/* One character of s; unprintable ones become `?`. Combining characters have width 0. */
static size_t next_char(const char *s, mbstate_t *state, wchar_t *ret, int *ret_width)
{
    size_t n = mbrtowc(ret, s, MB_LEN_MAX, state);
    if (n == (size_t)-1 || n == (size_t)-2) {
        memset(state, 0, sizeof *state);
        *ret = L'?';
        *ret_width = 1;
        return 1;
    }
    *ret_width = wcwidth(*ret);
    if (*ret_width < 0 || !iswprint((wint_t)*ret)) {
        *ret = L'?';
        *ret_width = 1;
    }
    return n;
}

int hx_text_width(const char *s)
{
    mbstate_t state = {0};
    int width = 0, w;
    wchar_t c;
    while (*s) {
        s += next_char(s, &state, &c, &w);
        width += w;
    }
    return width;
}

void hx_text_middle(const struct hx_term *term, int width, struct hx_text *text)
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
        const char *next = at + next_char(at, &state, &c, &w);
        if (head + w > width / 2)
            break;
        head += w;
        at = next;
    }
    hx_text_putn(&cut, s, (size_t)(at - s));
    hx_text_puts(&cut, term->utf8 ? "\u2026" : "~");
    for (int left = whole - head; left > width - head - 1; left -= w)
        at += next_char(at, &state, &c, &w);
    hx_text_puts(&cut, at);
    hx_text_free(text);
    *text = cut;
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
    default:
        if (style >= HX_STYLE_BAND && style <= HX_STYLE_BAND_LAST && term->color)
            *pair = (short)style;
        return style > HX_STYLE_BAND + 5 ? A_BOLD : A_NORMAL; /* colours that come again */
    }
}

static void use_style(const struct hx_term *term, enum hx_style style)
{
    short pair;
    attr_t attributes = style_attributes(term, style, &pair);
    attr_set(attributes, pair, NULL);
}

void hx_put(const struct hx_term *term, int y, int x, int width, const char *s, bool right,
            enum hx_style style)
{
    if (width <= 0 || y < 0 || y >= LINES || x >= COLS)
        return;
    if (width > COLS - x)
        width = COLS - x;
    use_style(term, style);
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
        s += next_char(s, &state, c, &w);
        if (cut && used + w > width - 1)
            break;
        addwstr(c);
        used += w;
    }
    for (; cut && used < width - 1; used++)
        addch(' ');
    if (cut)
        addwstr(term->utf8 ? L"\u2026" : L"~");
    for (int i = 0; !right && i < pad; i++)
        addch(' ');
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
            c[0] = eighths[eighth];
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
