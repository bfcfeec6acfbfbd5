/* prompt.c - editing a line at the bottom of the screen. */
#include "ui/command/prompt.h"

#include "ui/app.h"
#include "ui/command/request.h"

#include <limits.h>
#include <string.h>
#include <wchar.h>

#define TEXT_MAX    4096
#define HISTORY_MAX 100

void hx_ui_prompt(struct hx_ui *ui, const char *label, const char *text,
                  hx_error *(*done)(struct hx_ui *, const char *))
{
    struct hx_prompt *prompt = ui->prompt;
    prompt->active = true;
    prompt->label = label;
    prompt->done = done;
    prompt->complete = NULL;
    prompt->key = NULL;
    prompt->changed = prompt->left = NULL;
    prompt->back = 0;
    hx_text_clear(&prompt->hint);
    hx_text_clear(&prompt->text);
    hx_text_puts(&prompt->text, text);
    prompt->at = prompt->text.n;
}

void hx_prompt_deinit(struct hx_prompt *prompt)
{
    for (size_t i = 0; i < HX_HISTORIES; i++) {
        for (size_t k = 0; k < prompt->history[i].lines.n; k++)
            free(prompt->history[i].lines.v[k]);
        hx_vec_free(&prompt->history[i].lines);
    }
    hx_text_free(&prompt->text);
    hx_text_free(&prompt->draft);
    hx_text_free(&prompt->hint);
}

/* --- editing --- */

/* Bytes of the character that begins at s. */
static size_t character_bytes(const char *s, size_t n)
{
    mbstate_t state = {0};
    size_t used = n ? mbrlen(s, n, &state) : 0;
    return used == 0 ? (n ? 1 : 0) : used > n ? 1 : used;
}

/* Where the character before the cursor begins: only from the start on can that be told in every
 * locale. */
static size_t previous(const struct hx_prompt *prompt)
{
    const char *s = hx_text_str(&prompt->text);
    size_t at = 0, next = 0;
    while (next < prompt->at) {
        at = next;
        next += character_bytes(s + at, prompt->text.n - at);
    }
    return at;
}

static size_t next_char_end(const struct hx_prompt *prompt)
{
    return prompt->at +
           character_bytes(hx_text_str(&prompt->text) + prompt->at, prompt->text.n - prompt->at);
}

/* Takes out what is between two places; the cursor stands there then. */
static void erase_text(struct hx_prompt *prompt, size_t from, size_t to)
{
    struct hx_text *text = &prompt->text;
    prompt->at = from;
    if (from == to)
        return;
    memmove(text->s + from, text->s + to, text->n - to + 1);
    text->n -= to - from;
}

void hx_prompt_insert(struct hx_prompt *prompt, const char *bytes, size_t n)
{
    struct hx_text *text = &prompt->text;
    size_t behind = text->n - prompt->at;
    if (n > TEXT_MAX - (text->n < TEXT_MAX ? text->n : TEXT_MAX))
        return;
    hx_text_putn(text, bytes, n);
    if (text->failed) {
        hx_text_free(text);
        prompt->at = 0;
        return;
    }
    memmove(text->s + prompt->at + n, text->s + prompt->at, behind);
    memcpy(text->s + prompt->at, bytes, n);
    prompt->at += n;
}

static void go_left(struct hx_prompt *prompt)
{
    prompt->at = previous(prompt);
}

static void go_right(struct hx_prompt *prompt)
{
    prompt->at = next_char_end(prompt);
}

static void go_first(struct hx_prompt *prompt)
{
    prompt->at = 0;
}

static void go_last(struct hx_prompt *prompt)
{
    prompt->at = prompt->text.n;
}

static void erase_before(struct hx_prompt *prompt)
{
    if (!prompt->text.n)
        prompt->active = false;
    erase_text(prompt, previous(prompt), prompt->at);
}

static void erase_under(struct hx_prompt *prompt)
{
    erase_text(prompt, prompt->at, next_char_end(prompt));
}

static void erase_word(struct hx_prompt *prompt)
{
    const char *s = hx_text_str(&prompt->text);
    size_t from = prompt->at;
    while (from && s[from - 1] == ' ')
        from--;
    while (from && s[from - 1] != ' ')
        from--;
    erase_text(prompt, from, prompt->at);
}

static void erase_to_first(struct hx_prompt *prompt)
{
    erase_text(prompt, 0, prompt->at);
}

static void erase_to_last(struct hx_prompt *prompt)
{
    erase_text(prompt, prompt->at, prompt->text.n);
}

/* --- history --- */

/* Of a kind of prompts; NULL when there is none and no room for another one. */
static struct hx_history *history(struct hx_prompt *prompt, const char *label)
{
    for (size_t i = 0; i < HX_HISTORIES; i++) {
        struct hx_history *one = &prompt->history[i];
        if (!one->label)
            one->label = label;
        if (strcmp(one->label, label) == 0)
            return one;
    }
    return NULL;
}

void hx_prompt_remember(struct hx_prompt *prompt, const char *label, const char *text)
{
    struct hx_history *lines = history(prompt, label);
    size_t n = lines ? lines->lines.n : 0;
    if (!lines || !*text || (n && strcmp(lines->lines.v[n - 1], text) == 0))
        return;
    if (n == HISTORY_MAX) {
        free(lines->lines.v[0]);
        memmove(lines->lines.v, lines->lines.v + 1, (n - 1) * sizeof *lines->lines.v);
        lines->lines.n--;
    }
    char *copy = strdup(text);
    if (copy && !hx_vec_push(&lines->lines, copy))
        free(copy);
}

static void go_back(struct hx_prompt *prompt, size_t back)
{
    struct hx_history *lines = history(prompt, prompt->label);
    if (!lines || back > lines->lines.n)
        return;
    if (!prompt->back) {
        hx_text_clear(&prompt->draft);
        hx_text_puts(&prompt->draft, hx_text_str(&prompt->text));
    }
    const char *line = back ? lines->lines.v[lines->lines.n - back] : hx_text_str(&prompt->draft);
    hx_text_clear(&prompt->text);
    hx_text_puts(&prompt->text, line);
    prompt->at = prompt->text.n;
    prompt->back = back;
}

static void go_up(struct hx_prompt *prompt)
{
    go_back(prompt, prompt->back + 1);
}

static void next_history_line(struct hx_prompt *prompt)
{
    if (prompt->back)
        go_back(prompt, prompt->back - 1);
}

/* --- keys --- */

static const struct {
    const char *key;
    void (*edit)(struct hx_prompt *prompt);
} edits[] = {
    {"Left", go_left},         {"Ctrl-B", go_left},         {"Right", go_right},
    {"Ctrl-F", go_right},      {"Home", go_first},          {"Ctrl-A", go_first},
    {"End", go_last},          {"Ctrl-E", go_last},         {"Up", go_up},
    {"Ctrl-P", go_up},         {"Down", next_history_line}, {"Ctrl-N", next_history_line},
    {"Delete", erase_under},   {"Ctrl-D", erase_under},     {"Backspace", erase_before},
    {"Ctrl-H", erase_before},  {"Ctrl-W", erase_word},      {"Ctrl-U", erase_to_first},
    {"Ctrl-K", erase_to_last},
};

static bool edit(struct hx_prompt *prompt, int key)
{
    if (key == 127)
        key = 8;
    for (size_t i = 0; i < sizeof edits / sizeof *edits; i++) {
        if (hx_key_parse(edits[i].key, strlen(edits[i].key)) == key) {
            edits[i].edit(prompt);
            return true;
        }
    }
    return false;
}

static void enter_prompt(struct hx_ui *ui)
{
    struct hx_prompt *prompt = ui->prompt;
    struct hx_text text = prompt->text;
    hx_prompt_remember(prompt, prompt->label, hx_text_str(&text));
    prompt->text = (struct hx_text){0};
    prompt->at = 0;
    prompt->active = false;
    prompt->changed = prompt->left = NULL;
    hx_ui_complain(ui, prompt->done(ui, hx_text_str(&text)));
    hx_text_free(&text);
}

static void write_key(struct hx_prompt *prompt, int key)
{
    char bytes[MB_LEN_MAX];
    mbstate_t state = {0};
    size_t n = wcrtomb(bytes, (wchar_t)key, &state);
    if (n != (size_t)-1)
        hx_prompt_insert(prompt, bytes, n);
}

static void take_key(struct hx_ui *ui, int key, bool pasted)
{
    struct hx_prompt *prompt = ui->prompt;
    if (pasted) { /* nothing of it is a key */
        if (key == '\r' || key == '\n' || key == '\t')
            key = ' ';
        if (key >= ' ' && key != 127)
            write_key(prompt, key);
    } else if (key == '\r' || key == '\n') {
        enter_prompt(ui);
    } else if (key == 27 || key == 3) {
        prompt->active = false;
    } else if (key == '\t' && prompt->complete) {
        hx_ui_complain(ui, prompt->complete(ui, prompt));
    } else if (key == 12 || key == 26) { /* Ctrl-L, Ctrl-Z */
        hx_ui_complain(ui, hx_request_of_key(key)->run(ui, ""));
    } else if (!edit(prompt, key) && (key >= ' ' || key == '\t')) {
        write_key(prompt, key);
    }
}

void hx_prompt_key(struct hx_ui *ui, int key, bool pasted)
{
    struct hx_prompt *prompt = ui->prompt;
    hx_text_clear(&prompt->hint);
    if (!pasted && prompt->key && prompt->key(ui, key))
        return;
    take_key(ui, key, pasted);
    if (prompt->active && prompt->changed)
        prompt->changed(ui);
    if (!prompt->active && prompt->left)
        prompt->left(ui);
}

/* --- drawing --- */

/* As names are shown, but a backslash that was typed is one. */
static void put_typed(struct hx_text *ret, const char *s, size_t n, bool ascii)
{
    for (const char *end = s + n; s < end;) {
        const char *stop = memchr(s, '\\', (size_t)(end - s));
        hx_text_escape(ret, s, (size_t)((stop ? stop : end) - s), ascii);
        if (stop)
            hx_text_putc(ret, '\\');
        s = stop ? stop + 1 : end;
    }
}

int hx_prompt_draw(const struct hx_ui *ui, int y, int columns)
{
    const struct hx_prompt *prompt = ui->prompt;
    const char *typed = hx_text_str(&prompt->text);
    struct hx_text text = {0};
    hx_text_puts(&text, prompt->label);
    put_typed(&text, typed, prompt->at, !ui->term.utf8);
    /* A long line shows what is before the cursor. */
    size_t skip = 0;
    int x = hx_text_width(hx_text_str(&text));
    while (x >= columns && skip < text.n) {
        do
            skip++;
        while (((unsigned char)text.s[skip] & 0xc0) == 0x80);
        x = hx_text_width(text.s + skip);
    }
    put_typed(&text, typed + prompt->at, prompt->text.n - prompt->at, !ui->term.utf8);
    hx_put(&ui->term, y, 0, columns, hx_text_str(&text) + skip, false, HX_STYLE_NORMAL);
    int end = hx_text_width(hx_text_str(&text) + skip) + 2;
    if (prompt->hint.n && end + 4 < columns)
        hx_put(&ui->term, y, end, columns - end, prompt->hint.s, false, HX_STYLE_DIM);
    hx_text_free(&text);
    return x;
}
