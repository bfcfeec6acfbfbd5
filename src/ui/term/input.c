/* input.c - decodes keys, mouse reports and pasted text. */
#define _XOPEN_SOURCE_EXTENDED 1
#include "ui/term/input.h"

#include <curses.h>
#include <string.h>
#include <wchar.h>
#include <wctype.h>

/* How long a beginning waits for its rest. An Esc alone is mostly the key of that name; with a
 * bracket behind it mostly not, and anything longer never. */
#define ESC_NS     25000000u
#define BRACKET_NS 100000000u
#define REST_NS    1000000000u
/* What looks like the rest of a key so soon after an Esc is one. */
#define LATE_NS 1000000000u
/* A longer sequence is none. */
#define SEQUENCE_MAX 4000

/* What the bytes from `at` on are. */
enum found {
    FOUND_KEY,
    FOUND_NOTHING, /* a sequence without a meaning here */
    FOUND_PART,    /* the beginning of one */
    FOUND_TEXT,    /* no sequence at all */
};

struct decoded {
    int key;
    size_t used;
};

void hx_input_init(struct hx_input *input)
{
    *input = (struct hx_input){.at = 1, .n = 1};
}

void hx_input_add_key(struct hx_input *input, const char *bytes, int key)
{
    struct hx_input_key *entry = &input->keys[input->n_keys];
    size_t n = strlen(bytes);
    /* One control character is a key of its own (Ctrl-H). */
    if (n < 2 || n > sizeof entry->bytes || bytes[0] != 27 ||
        input->n_keys == sizeof input->keys / sizeof *input->keys)
        return;
    memcpy(entry->bytes, bytes, n);
    entry->n = (unsigned char)n;
    entry->key = key;
    input->n_keys++;
}

unsigned char *hx_input_room(struct hx_input *input, size_t *ret_n)
{
    size_t left = input->n - input->at;
    if (input->at > 1) {
        memmove(input->bytes + 1, input->bytes + input->at, left);
        input->at = 1;
        input->n = left + 1;
    }
    *ret_n = sizeof input->bytes - input->n;
    return input->bytes + input->n;
}

void hx_input_took(struct hx_input *input, size_t n, uint64_t now_ns)
{
    input->n += n;
    input->last_ns = now_ns;
}

/* --- sequences --- */

static enum found terminal_key(const struct hx_input *input, const unsigned char *s, size_t n,
                               struct decoded *ret)
{
    bool part = false;
    ret->used = 0;
    for (size_t i = 0; i < input->n_keys; i++) {
        const struct hx_input_key *entry = &input->keys[i];
        if (memcmp(s, entry->bytes, n < entry->n ? n : entry->n) != 0)
            continue;
        if (n < entry->n)
            part = true;
        else if (entry->n > ret->used)
            *ret = (struct decoded){entry->key, entry->n};
    }
    return ret->used ? FOUND_KEY : part ? FOUND_PART : FOUND_TEXT;
}

/* Button codes are the same in both forms of report. */
static enum found mouse(struct hx_input *input, unsigned button, bool pressed, unsigned column,
                        unsigned row, struct decoded *ret)
{
    if (!pressed || button & 32 || !row || !column || row > 10000 || column > 10000)
        return FOUND_NOTHING;                 /* let go, or moved */
    unsigned which = button & (64 | 128 | 3); /* without Shift, Alt and Ctrl */
    if (which == 64)
        input->mouse = HX_MOUSE_UP;
    else if (which == 65)
        input->mouse = HX_MOUSE_DOWN;
    else if (which == 0)
        input->mouse = HX_MOUSE_CLICK;
    else
        return FOUND_NOTHING;
    input->mouse_row = (int)row - 1;
    input->mouse_column = (int)column - 1;
    ret->key = -KEY_MOUSE;
    return FOUND_KEY;
}

/* Esc [ M and three bytes */
static enum found old_mouse(struct hx_input *input, const unsigned char *s, size_t n,
                            struct decoded *ret)
{
    if (n < 6)
        return FOUND_PART;
    ret->used = 6;
    if (s[3] < 32 || s[4] < 33 || s[5] < 33)
        return FOUND_NOTHING;
    unsigned button = s[3] - 32u;
    return mouse(input, button, (button & 3) != 3 || button & 64, s[4] - 32u, s[5] - 32u, ret);
}

/* The numbers of a sequence, those that it lacks 0. */
static int numbers(const unsigned char *s, size_t n, unsigned ret[4])
{
    int count = 0;
    memset(ret, 0, 4 * sizeof *ret);
    for (size_t i = 0; i < n; i++) {
        if (s[i] == ';')
            count++;
        else if (s[i] >= '0' && s[i] <= '9' && count < 4 && ret[count] < 100000)
            ret[count] = ret[count] * 10 + s[i] - '0';
    }
    return count + 1;
}

static int letter_key(unsigned char c)
{
    switch (c) {
    case 'A':
        return -KEY_UP;
    case 'B':
        return -KEY_DOWN;
    case 'C':
        return -KEY_RIGHT;
    case 'D':
        return -KEY_LEFT;
    case 'F':
        return -KEY_END;
    case 'H':
        return -KEY_HOME;
    case 'P':
    case 'Q':
    case 'R':
    case 'S':
        return -KEY_F(1 + c - 'P');
    case 'Z':
        return -KEY_BTAB;
    default:
        return HX_KEY_UNKNOWN;
    }
}

static int tilde_key(unsigned number)
{
    static const int keys[] = {
        [1] = -KEY_HOME,  [3] = -KEY_DC,     [4] = -KEY_END,    [5] = -KEY_PPAGE,  [6] = -KEY_NPAGE,
        [7] = -KEY_HOME,  [8] = -KEY_END,    [11] = -KEY_F(1),  [12] = -KEY_F(2),  [13] = -KEY_F(3),
        [14] = -KEY_F(4), [15] = -KEY_F(5),  [17] = -KEY_F(6),  [18] = -KEY_F(7),  [19] = -KEY_F(8),
        [20] = -KEY_F(9), [21] = -KEY_F(10), [23] = -KEY_F(11), [24] = -KEY_F(12),
    };
    return number < sizeof keys / sizeof *keys && keys[number] ? keys[number] : HX_KEY_UNKNOWN;
}

/* Esc [ ... letter */
static enum found control_sequence(struct hx_input *input, const unsigned char *s, size_t n,
                                   struct decoded *ret)
{
    size_t at = 2;
    if (n > 2 && s[2] == 'M')
        return old_mouse(input, s, n, ret);
    if (n > 2 && s[2] == '[') { /* the Linux console's F1 to F5 */
        ret->used = 4;
        ret->key = n > 3 && s[3] >= 'A' && s[3] <= 'E' ? -KEY_F(1 + s[3] - 'A') : HX_KEY_UNKNOWN;
        return n < 4 ? FOUND_PART : FOUND_KEY;
    }
    while (at < n && at < SEQUENCE_MAX && s[at] >= 0x20 && s[at] <= 0x3f)
        at++;
    if (at == n)
        return FOUND_PART;
    ret->used = s[at] >= 0x40 && s[at] <= 0x7e ? at + 1 : at;
    ret->key = HX_KEY_UNKNOWN;
    unsigned number[4];
    int count = numbers(s + 2, at - 2, number);
    bool private = at > 2 && s[2] >= '<';
    if (s[2] == '<' && (s[at] == 'M' || s[at] == 'm') && count == 3)
        return mouse(input, number[0], s[at] == 'M', number[1], number[2], ret);
    if (private || (at == 2 && (s[at] == 'I' || s[at] == 'O')))
        return FOUND_NOTHING; /* an answer that nobody asked for, or the focus */
    if (s[at] == '~' && number[0] == 200)
        input->pasting = true;
    if (s[at] == '~' && number[0] >= 200)
        return FOUND_NOTHING;
    if (count > 1 && number[1] > 1)
        return FOUND_KEY; /* with Shift, Ctrl or Alt they are other keys */
    ret->key = s[at] == '~' ? tilde_key(number[0]) : letter_key(s[at]);
    return FOUND_KEY;
}

/* Esc O letter; also what a keypad sends for digits and signs */
static enum found shifted(const unsigned char *s, size_t n, struct decoded *ret)
{
    static const char keypad[] = "*+,-./0123456789"; /* j to y */
    if (n < 3)
        return FOUND_PART;
    ret->used = 3;
    if (s[2] == 'M')
        ret->key = '\r';
    else if (s[2] >= 'j' && s[2] <= 'y')
        ret->key = keypad[s[2] - 'j'];
    else
        ret->key = letter_key(s[2]);
    return ret->key == HX_KEY_UNKNOWN ? FOUND_TEXT : FOUND_KEY;
}

/* An answer of the terminal to a question of another program: up to its end. */
static enum found decode_answer(const unsigned char *s, size_t n, struct decoded *ret)
{
    for (size_t i = 2; i < n && i < SEQUENCE_MAX; i++) {
        ret->used = i + 1;
        if (s[i] == 7 || (s[i] == '\\' && s[i - 1] == 27))
            return FOUND_NOTHING;
    }
    return n < SEQUENCE_MAX ? FOUND_PART : FOUND_NOTHING;
}

/* s[0] is an Esc. */
static enum found sequence(struct hx_input *input, const unsigned char *s, size_t n,
                           struct decoded *ret)
{
    if (n == 1)
        return FOUND_PART;
    enum found found = terminal_key(input, s, n, ret);
    if (found == FOUND_KEY)
        return found;
    if (s[1] == '[')
        return control_sequence(input, s, n, ret);
    if (s[1] == 'O')
        return shifted(s, n, ret);
    if (n > 2 && ((s[1] == ']' && s[2] >= '0' && s[2] <= '9') ||
                  (s[1] == 'P' && strchr("0123456789$+>!|", s[2]))))
        return decode_answer(s, n, ret);
    return found;
}

static uint64_t escape_timeout(const struct hx_input *input)
{
    size_t n = input->n - input->at;
    if (input->pasting || input->bytes[input->at] != 27)
        return REST_NS; /* a character of several bytes */
    return n == 1 ? ESC_NS : n == 2 ? BRACKET_NS : REST_NS;
}

/* --- text --- */

static enum found decode_character(const unsigned char *s, size_t n, struct decoded *ret)
{
    mbstate_t state = {0};
    wchar_t c;
    size_t used = mbrtowc(&c, (const char *)s, n, &state);
    if (used == (size_t)-2)
        return FOUND_PART;
    *ret = (struct decoded){HX_KEY_UNKNOWN, 1};
    if (used == (size_t)-1 || used == 0)
        return FOUND_KEY;
    ret->used = used;
    if (c < 0x80 || (iswprint((wint_t)c) && wcwidth(c) >= 0))
        ret->key = (int)c;
    return FOUND_KEY;
}

/* Everything is text there but its end; should that get lost, Ctrl-C ends it too. */
static enum found pasted(struct hx_input *input, const unsigned char *s, size_t n,
                         struct decoded *ret)
{
    static const char end[] = "\033[201~";
    if (s[0] == 3) {
        input->pasting = false;
        ret->used = 1;
        return FOUND_NOTHING;
    }
    if (memcmp(s, end, n < 6 ? n : 6) != 0)
        return decode_character(s, n, ret);
    if (n < 6)
        return FOUND_PART;
    input->pasting = false;
    ret->used = 6;
    return FOUND_NOTHING;
}

/* --- the next key --- */

/* The rest of a key whose Esc came earlier. */
static bool is_rest(const struct hx_input *input, uint64_t now_ns)
{
    unsigned char c = input->bytes[input->at];
    return input->escaped_ns && now_ns - input->escaped_ns < LATE_NS && (c == '[' || c == 'O');
}

static enum found decode_key(struct hx_input *input, uint64_t now_ns, struct decoded *ret)
{
    const unsigned char *s = input->bytes + input->at;
    size_t n = input->n - input->at;
    bool waited = now_ns - input->last_ns >= escape_timeout(input);
    enum found found;
    if (input->pasting)
        found = pasted(input, s, n, ret);
    else if (s[0] == 27)
        found = sequence(input, s, n, ret);
    else
        found = decode_character(s, n, ret);
    if (found == FOUND_PART && !waited && n < SEQUENCE_MAX)
        return FOUND_PART;
    if (found == FOUND_PART && s[0] == 27 && n > 2) { /* it was cut off */
        *ret = (struct decoded){HX_KEY_UNKNOWN, n};
        return FOUND_NOTHING;
    }
    if (found == FOUND_TEXT || found == FOUND_PART) {
        *ret = (struct decoded){s[0] == 27 ? 27 : HX_KEY_UNKNOWN, 1};
        found = FOUND_TEXT;
    }
    return found;
}

/* Puts the Esc back before what may be its rest. False: more is needed to know. */
static bool take_rest(struct hx_input *input, uint64_t now_ns, enum found *found,
                      struct decoded *decoded)
{
    uint64_t last = input->last_ns;
    bool alone = input->n - input->at == 1;
    input->bytes[--input->at] = 27;
    *found = decode_key(input, now_ns, decoded);
    /* A bracket alone is one that was typed, when nothing follows it at once. */
    if (*found == FOUND_PART && (!alone || now_ns - last < ESC_NS)) {
        input->at++;
        return false;
    }
    input->late = *found == FOUND_KEY || (*found == FOUND_NOTHING && decoded->used > 1);
    if (!input->late) {
        input->at++;
        input->escaped_ns = 0;
        *found = decode_key(input, now_ns, decoded);
    }
    return true;
}

bool hx_input_next(struct hx_input *input, uint64_t now_ns, int *ret)
{
    while (input->at < input->n) {
        struct decoded decoded = {0};
        enum found found;
        bool pasting = input->pasting;
        input->late = false;
        if (!pasting && is_rest(input, now_ns)) {
            if (!take_rest(input, now_ns, &found, &decoded))
                return false;
        } else {
            found = decode_key(input, now_ns, &decoded);
        }
        if (found == FOUND_PART)
            return false;
        input->at += decoded.used;
        input->pasted = pasting;
        bool alone = decoded.key == 27 && input->at == input->n && !pasting;
        input->escaped_ns = found != FOUND_NOTHING && alone ? now_ns : 0;
        if (found == FOUND_NOTHING && !input->late)
            continue;
        *ret = found == FOUND_NOTHING ? HX_KEY_UNKNOWN : decoded.key;
        return true;
    }
    return false;
}

int hx_input_wait_ms(const struct hx_input *input, uint64_t now_ns)
{
    size_t n = input->n - input->at;
    if (!n)
        return -1;
    bool rest = !input->pasting && is_rest(input, now_ns);
    uint64_t wait = rest && n == 1 ? ESC_NS : rest ? REST_NS : escape_timeout(input);
    uint64_t over = now_ns - input->last_ns;
    return over >= wait ? 0 : (int)((wait - over) / 1000000) + 1;
}
