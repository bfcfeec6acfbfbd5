/* palette.c - how well a few letters fit the name of a command. */
#include "ui/command/palette.h"

#include <ctype.h>
#include <stdbool.h>
#include <string.h>

static bool same_letter(char a, char b)
{
    return tolower((unsigned char)a) == tolower((unsigned char)b);
}

static bool begins_nocase(const char *text, const char *word, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (!text[i] || !same_letter(text[i], word[i]))
            return false;
    return true;
}

/* Where the word stands in a text, best at the beginning of one of its words; -1: nowhere. */
static int match_place(const char *text, const char *word, size_t n, bool *ret_begins)
{
    int found = -1;
    *ret_begins = false;
    for (const char *s = text; *s; s++) {
        if (!begins_nocase(s, word, n))
            continue;
        if (s == text || !isalnum((unsigned char)s[-1])) {
            *ret_begins = true;
            return (int)(s - text);
        }
        found = found < 0 ? (int)(s - text) : found;
    }
    return found;
}

/* Letters that are left out between those of the word; -1: not all are there. */
static int gaps(const char *text, const char *word, size_t n)
{
    int left_out = 0;
    size_t i = 0;
    for (; *text && i < n; text++) {
        if (same_letter(*text, word[i]))
            i++;
        else
            left_out += i > 0;
    }
    return i == n ? left_out : -1;
}

static int match_quality(const char *word, size_t n, const char *name, const char *about)
{
    bool first;
    int at = match_place(name, word, n, &first);
    size_t length = strlen(name);
    if (at == 0)
        return length == n ? 1000 : 900 - (int)(length < 50 ? length : 50);
    if (at > 0)
        return (first ? 700 : 500) - (at < 50 ? at : 50);
    int left_out = gaps(name, word, n);
    if (n > 1 && left_out >= 0)
        return 400 - (left_out < 50 ? left_out : 50);
    at = match_place(about, word, n, &first);
    return at < 0 ? 0 : (first ? 200 : 100) - (at < 50 ? at : 50);
}

int hx_palette_score(const char *words, const char *name, const char *about)
{
    int sum = 1;
    while (*(words += strspn(words, " "))) {
        size_t n = strcspn(words, " ");
        int one = match_quality(words, n, name, about);
        if (!one)
            return 0;
        sum += one;
        words += n;
    }
    return sum;
}
