/* key.c - names of keys. */
#include "ui/request.h"

#include <curses.h>
#include <string.h>

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

int hx_key_parse(const char *name, size_t n)
{
    if (n == 1)
        return (unsigned char)name[0];
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strlen(names[i].name) == n && strncmp(names[i].name, name, n) == 0)
            return names[i].code;
    if (n == 6 && strncmp(name, "Ctrl-", 5) == 0 && name[5] >= 'A' && name[5] <= 'Z')
        return name[5] - 'A' + 1;
    if ((n == 2 || n == 3) && name[0] == 'F' && name[1] >= '1' && name[1] <= '9') {
        int number = name[1] - '0';
        if (n == 3)
            number = number * 10 + (name[2] - '0');
        return number >= 1 && number <= 12 ? -KEY_F(number) : 0;
    }
    return 0;
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
