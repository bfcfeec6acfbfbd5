/* script.c - the explorer without a person.
 *
 * A script is a text file, read line by line:
 *
 *   # ...            a comment; empty lines are nothing
 *   :COMMAND [ARG]   runs a command of the key table (see `:help`), for example
 *                    `:screen leaks`, `:save-display FILE`, `:resize 12 40`
 *   KEY KEY ...      presses keys: `j`, `G`, `Enter`, `Esc`, `Tab`, `Shift-Tab`, `Ctrl-D`, `F1`,
 *                    `PgDn`, ...; a word in double quotes is typed letter by letter
 *
 * Before each key and command all background work has ended and the screen is drawn, so what
 * a script shows depends only on the store. Curses draws to /dev/null, with the size that
 * LINES and COLUMNS of the environment say (24 x 80). --every has no effect. The end of the
 * file quits. A command that fails, or a key that does not exist, ends the script with an
 * error that says the line; what fails after keys only shows on the screen.
 *
 * With HEAPX_TIMING=1 each line of keys and each command says how long it took until the display
 * was complete: `timing keys SECONDS LINE`.
 */
#include "ui/app.h"
#include "ui/command/request.h"

#include <errno.h>
#include <string.h>
#include <wchar.h>

static void ready(struct hx_ui *ui)
{
    hx_ui_settle(ui, -1);
    hx_ui_draw(ui); /* says how many rows fit */
    hx_ui_settle(ui, -1);
    hx_ui_draw(ui);
}

static void press(struct hx_ui *ui, int key)
{
    if (ui->quit)
        return;
    hx_ui_key(ui, key);
    if (!ui->quit)
        ready(ui);
}

static void type(struct hx_ui *ui, const char *s, size_t n)
{
    mbstate_t state = {0};
    for (size_t i = 0; i < n;) {
        wchar_t c;
        size_t len = mbrtowc(&c, s + i, n - i, &state);
        if (len == 0 || len == (size_t)-1 || len == (size_t)-2)
            return;
        press(ui, (int)c);
        i += len;
    }
}

static hx_error *bad_line(const char *path, size_t number, const char *why, const char *what)
{
    struct hx_text place = {0};
    hx_text_putf(&place, "%s:%zu", path, number);
    hx_error *error = hx_error_new(HX_E_USAGE, hx_text_str(&place), NULL, "%s%s", why, what);
    hx_text_free(&place);
    return error;
}

static hx_error *keys(struct hx_ui *ui, const char *path, size_t number, const char *line)
{
    for (const char *s = line; *s && !ui->quit;) {
        size_t n = strcspn(s, " \t");
        if (*s == '"') {
            const char *quote = strchr(s + 1, '"');
            if (!quote)
                return bad_line(path, number, "no second quote: ", s);
            type(ui, s + 1, (size_t)(quote - s - 1));
            n = (size_t)(quote - s) + 1;
        } else if (n) {
            int key = hx_key_parse(s, n);
            if (!key)
                return bad_line(path, number, "no such key: ", s);
            press(ui, key);
        }
        s += n;
        s += strspn(s, " \t");
    }
    return NULL;
}

static hx_error *run_line(struct hx_ui *ui, const char *path, size_t number, const char *line)
{
    if (*line != ':' || line[1] == 0 || line[1] == ' ')
        return keys(ui, path, number, line);
    if (strncmp(line, ":save-display ", 14) != 0) { /* shows what was said before it */
        hx_text_clear(&ui->message);
        ui->message_bad = false;
    }
    hx_error *error = hx_command_run(ui, line + 1);
    if (error) {
        char why[1024];
        hx_error_line(error, why, sizeof why);
        hx_error_free(error);
        return bad_line(path, number, "", why);
    }
    if (!ui->quit)
        ready(ui);
    return NULL;
}

hx_error *hx_ui_script(struct hx_ui *ui, const char *path)
{
    HX_FILE FILE *file = fopen(path, "re");
    if (!file)
        return hx_error_os(errno, path, "open");
    HX_FREE char *line = NULL;
    size_t cap = 0, number = 0;
    ready(ui);
    for (ssize_t n; !ui->quit && (n = getline(&line, &cap, file)) >= 0;) {
        number++;
        while (n && (line[n - 1] == '\n' || line[n - 1] == ' ' || line[n - 1] == '\t'))
            line[--n] = 0;
        const char *start = line + strspn(line, " \t");
        if (*start && *start != '#') {
            uint64_t begin = hx_timing_begin();
            HX_TRY(run_line(ui, path, number, start));
            hx_timing_end(begin, "keys", number);
        }
        if (hx_term_signals() & HX_TERM_KILLED)
            ui->quit = ui->killed = true;
    }
    return NULL;
}
