/* key.c - names of keys. */
#include "ui/command/request.h"

#include "base/cleanup.h"
#include "base/text.h"

#include <ctype.h>
#include <curses.h>
#include <string.h>
#include <strings.h>

static const struct {
    const char *name;
    int code; /* as hx_term_key() gives it: curses' own are negative */
} names[] = {
    {"Up", -KEY_UP},       {"Down", -KEY_DOWN},  {"Left", -KEY_LEFT},
    {"Right", -KEY_RIGHT}, {"PgUp", -KEY_PPAGE}, {"PgDn", -KEY_NPAGE},
    {"Home", -KEY_HOME},   {"End", -KEY_END},    {"Enter", '\r'},
    {"Esc", 27},           {"Tab", '\t'},        {"Shift-Tab", -KEY_BTAB},
    {"Space", ' '},        {"Delete", -KEY_DC},  {"Backspace", -KEY_BACKSPACE},
    {"Mouse", -KEY_MOUSE},
};

/* Several codes mean the same key. */
static int canonical(int key)
{
    switch (key) {
    case '\n':
    case -KEY_ENTER:
        return '\r';
    case 8:
    case 127:
        return -KEY_BACKSPACE;
    default:
        return key;
    }
}

/* Names that other programs use for the same keys. */
static const struct {
    const char *other, *name;
} aliases[] = {
    {"Return", "Enter"},  {"CR", "Enter"},    {"Escape", "Esc"},      {"PageUp", "PgUp"},
    {"PageDown", "PgDn"}, {"PgDown", "PgDn"}, {"S-Tab", "Shift-Tab"}, {"BTab", "Shift-Tab"},
    {"BS", "Backspace"},  {"Del", "Delete"},
};

static bool same_nocase(const char *a, const char *b, size_t n)
{
    return strlen(a) == n && strncasecmp(a, b, n) == 0;
}

/* "Ctrl-D", "C-d", "^D" */
static int control_key(const char *name, size_t n)
{
    static const char *const prefixes[] = {"Ctrl-", "C-", "^"};
    for (size_t i = 0; i < sizeof prefixes / sizeof *prefixes; i++) {
        size_t len = strlen(prefixes[i]);
        if (n == len + 1 && strncasecmp(prefixes[i], name, len) == 0 &&
            isalpha((unsigned char)name[len]))
            return toupper((unsigned char)name[len]) - 'A' + 1;
    }
    return 0;
}

int hx_key_parse(const char *name, size_t n)
{
    if (n == 1)
        return (unsigned char)name[0];
    if (n > 2 && name[0] == '<' && name[n - 1] == '>')
        return hx_key_parse(name + 1, n - 2);
    for (size_t i = 0; i < sizeof aliases / sizeof *aliases; i++) {
        if (same_nocase(aliases[i].other, name, n)) {
            name = aliases[i].name;
            n = strlen(name);
        }
    }
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (same_nocase(names[i].name, name, n))
            return names[i].code;
    if ((n == 2 || n == 3) && toupper((unsigned char)name[0]) == 'F') {
        HX_FREE char *digits = strndup(name + 1, n - 1);
        uint64_t number;
        if (digits && hx_parse_u64(digits, &number) && number >= 1 && number <= 12)
            return -KEY_F((int)number);
    }
    return control_key(name, n);
}

const struct hx_request *hx_request_of_key(int key)
{
    key = canonical(key);
    for (const struct hx_request *request = hx_requests; request->name; request++) {
        for (const char *s = request->keys; *s;) {
            size_t n = strcspn(s, " ");
            if (hx_key_parse(s, n) == key)
                return request;
            s += n + (s[n] == ' ');
        }
    }
    return NULL;
}
