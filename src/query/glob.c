/* glob.c - patterns over whole names. */
#include "query/glob.h"

#include "base/vec.h"
#include "query/regexp.h"

#include <string.h>

/* Each word is a byte, or one of these. */
enum { ANY_CHARACTER = 256, ANY_TEXT };

struct hx_glob {
    hx_regexp *regexp; /* NULL: the words */
    HX_VEC(uint16_t) words;
};

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

/* The word at *at, which goes on behind it; false: a backslash that nothing stands behind. */
static bool read_glob_word(const char *text, size_t n, size_t *at, uint16_t *ret)
{
    char c = text[(*at)++];
    if (c == '*' || c == '?') {
        *ret = c == '*' ? ANY_TEXT : ANY_CHARACTER;
        return true;
    }
    if (c == '\\') {
        if (*at == n)
            return false;
        c = text[(*at)++];
        if (c == 'x') {
            int high = *at < n ? hex_digit(text[*at]) : -1;
            int low = *at + 1 < n ? hex_digit(text[*at + 1]) : -1;
            if (high < 0 || low < 0)
                return false;
            c = (char)(high * 16 + low);
            *at += 2;
        }
    }
    *ret = (uint8_t)c;
    return true;
}

static hx_error *read_words(const char *text, size_t n, size_t *ret_at, hx_glob *glob)
{
    for (size_t at = 0; at < n;) {
        uint16_t word;
        size_t begin = at;
        if (!read_glob_word(text, n, &at, &word)) {
            *ret_at = begin;
            return hx_error_new(HX_E_USAGE, "pattern", "write \\\\ for a backslash",
                                "a backslash that stands for nothing");
        }
        bool again = word == ANY_TEXT && glob->words.n && glob->words.v[glob->words.n - 1] == word;
        if (!again)
            HX_NEED(hx_vec_push(&glob->words, word));
    }
    return NULL;
}

static hx_error *read_regexp(const char *text, size_t n, size_t *ret_at, hx_glob *glob)
{
    size_t from = 1;
    while (from < n && (text[from] == ' ' || text[from] == '\t'))
        from++;
    *ret_at = from;
    char *copy = strndup(text + from, n - from);
    HX_NEED(copy);
    hx_error *err = *copy ? hx_regexp_create(copy, &glob->regexp)
                          : hx_error_new(HX_E_USAGE, "pattern", "write the expression behind ~",
                                         "there is no expression");
    free(copy);
    return err;
}

hx_error *hx_glob_create(const char *text, size_t n, size_t *ret_at, hx_glob **ret)
{
    hx_glob *glob = calloc(1, sizeof *glob);
    HX_NEED(glob);
    *ret_at = 0;
    hx_error *err = n && text[0] == '~' ? read_regexp(text, n, ret_at, glob)
                                        : read_words(text, n, ret_at, glob);
    if (err) {
        hx_glob_destroy(glob);
        return err;
    }
    *ret = glob;
    return NULL;
}

void hx_glob_destroy(hx_glob *glob)
{
    if (!glob)
        return;
    hx_regexp_destroy(glob->regexp);
    hx_vec_free(&glob->words);
    free(glob);
}

/* How many bytes of the name the word takes; 0: it does not stand for them. */
static size_t match_set(uint16_t word, const char *name, size_t n)
{
    uint32_t c;
    if (!n)
        return 0;
    if (word != ANY_CHARACTER)
        return word == (uint8_t)*name;
    size_t bytes = hx_utf8_char(name, n, &c);
    return bytes ? bytes : 1;
}

bool hx_glob_matches(const hx_glob *glob, const char *name, size_t n)
{
    if (glob->regexp)
        return hx_regexp_matches(
            glob->regexp, (struct hx_filter_value){.type = HX_FILTER_STRING, .text = name, .n = n});
    /* the last * so far, and where its text ends: what follows is tried there, then further on */
    size_t at = 0, word = 0, star = SIZE_MAX, star_end = 0;
    const uint16_t *words = glob->words.v;
    while (at < n || word < glob->words.n) {
        size_t bytes = 0;
        if (word < glob->words.n && words[word] == ANY_TEXT) {
            star = word++;
            star_end = at;
            continue;
        }
        if (word < glob->words.n)
            bytes = match_set(words[word], name + at, n - at);
        if (bytes) {
            at += bytes;
            word++;
        } else if (star != SIZE_MAX && star_end < n) {
            size_t step = match_set(ANY_CHARACTER, name + star_end, n - star_end);
            star_end += step;
            at = star_end;
            word = star + 1;
        } else {
            return false;
        }
    }
    return true;
}

void hx_glob_quote(struct hx_text *text, const char *name, size_t n)
{
    for (size_t at = 0; at < n;) {
        uint32_t c;
        size_t bytes = hx_utf8_char(name + at, n - at, &c);
        bool end = at == 0 || at + bytes >= n;
        if (!bytes || hx_unsafe_char(c) || (c == ' ' && end)) { /* blanks around it are not of it */
            size_t all = bytes ? bytes : 1;
            for (size_t i = 0; i < all; i++)
                hx_text_putf(text, "\\x%02x", (unsigned char)name[at + i]);
            at += all;
            continue;
        }
        if (c == '*' || c == '?' || c == '\\' || (c == '~' && at == 0))
            hx_text_putc(text, '\\');
        hx_text_putn(text, name + at, bytes);
        at += bytes;
    }
}
