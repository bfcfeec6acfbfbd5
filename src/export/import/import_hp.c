/* import_hp.c - heap profiles as text, ".hp", as GHC's runtime and other programs write them.
 *
 * A file is a stream of words with any white space between them. A header item is a key and a
 * quoted string, and may stand anywhere; samples are BEGIN_SAMPLE and END_SAMPLE with a time
 * each, and names with numbers between them. What ends within a sample is still being written, or
 * was cut off: the whole samples before it are kept. */
#include "base/cleanup.h"
#include "export/import/profile.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define NAME_BYTES   4999 /* of a name, at most */
#define NUMBER_BYTES 32   /* digits of a number, at most */

enum key { KEY_JOB, KEY_DATE, KEY_SAMPLE_UNIT, KEY_VALUE_UNIT, KEY_BEGIN, KEY_END, KEY_MARK, KEYS };
#define HEADER_KEYS 4 /* the first of them */
static const char *const keys[KEYS] = {
    "JOB", "DATE", "SAMPLE_UNIT", "VALUE_UNIT", "BEGIN_SAMPLE", "END_SAMPLE", "MARK",
};

struct reader {
    struct hx_import *import;
    struct hx_profile *profile;
    size_t at;
    bool has[HEADER_KEYS];
    bool open;            /* within a sample */
    bool any;             /* there was one */
    uint64_t time_ns;     /* of the sample that began last */
    struct hx_text marks; /* since then: for the notes of the next one */
    bool cut;             /* the file ends where more should follow */
};

struct word {
    size_t at, n;
};

/* --- words ------------------------------------------------------------------------------ */

static bool is_white(uint8_t c)
{
    return c == ' ' || (c >= '\t' && c <= '\r');
}

static void skip_white(struct reader *r)
{
    while (r->at < r->import->n && is_white(r->import->bytes[r->at]))
        r->at++;
}

/* Up to the next white space; empty at the end of the file. */
static struct word next_word(struct reader *r)
{
    skip_white(r);
    struct word word = {.at = r->at};
    while (r->at < r->import->n && !is_white(r->import->bytes[r->at]))
        r->at++;
    word.n = r->at - word.at;
    return word;
}

static const char *chars(const struct reader *r, size_t at)
{
    return (const char *)r->import->bytes + at;
}

static bool find_key(const struct reader *r, struct word word, enum key *ret)
{
    for (int i = 0; i < KEYS; i++)
        if (word.n == strlen(keys[i]) && memcmp(chars(r, word.at), keys[i], word.n) == 0) {
            *ret = (enum key)i;
            return true;
        }
    return false;
}

/* A string in quotes; two of them within it are one. *ret_found false: the file ends in it. */
static hx_error *read_string(struct reader *r, struct hx_text *ret, bool *ret_found)
{
    const struct hx_import *import = r->import;
    *ret_found = false;
    skip_white(r);
    size_t at = r->at;
    if (at == import->n)
        return NULL;
    if (import->bytes[at] != '"')
        return hx_import_error(import, at, "a string in quotes is missing");
    for (at++; at < import->n; at++) {
        if (import->bytes[at] == '"' && (at + 1 == import->n || import->bytes[at + 1] != '"'))
            break;
        at += import->bytes[at] == '"';
        hx_text_putc(ret, (char)import->bytes[at]);
    }
    if (at >= import->n)
        return NULL;
    r->at = at + 1;
    *ret_found = true;
    return ret->failed ? hx_error_nomem() : NULL;
}

/* Seconds: digits with a point, and nothing else. */
static hx_error *read_time(const struct reader *r, struct word word, uint64_t *ret)
{
    const char *s = chars(r, word.at);
    uint64_t seconds = 0, rest = 0, unit = 1000000000;
    size_t point = word.n, digits = 0;
    for (size_t i = 0; i < word.n; i++) {
        if (s[i] == '.' && point == word.n) {
            point = i;
            continue;
        }
        if (!isdigit((unsigned char)s[i]))
            return hx_import_error(r->import, word.at, "a time has to be digits with a point");
        digits++;
        if (point < word.n) {
            unit /= 10;
            rest += unit * (uint64_t)(s[i] - '0');
        } else if (seconds > INT64_MAX / 1000000000 / 10 - 1) {
            return hx_import_error(r->import, word.at, "a time that is none");
        } else {
            seconds = 10 * seconds + (uint64_t)(s[i] - '0');
        }
    }
    if (point == word.n || !digits)
        return hx_import_error(r->import, word.at, "a time has to be digits with a point");
    *ret = seconds * 1000000000 + rest;
    return NULL;
}

static hx_error *read_bytes(const struct reader *r, struct word word, uint64_t *ret)
{
    const char *s = chars(r, word.at);
    uint64_t value = 0;
    for (size_t i = 0; i < word.n; i++)
        if (!isdigit((unsigned char)s[i]) || word.n > NUMBER_BYTES)
            return hx_import_error(r->import, word.at,
                                   "behind a name there has to be a number of 1 to 32 digits");
    for (size_t i = 0; i < word.n; i++) {
        uint64_t digit = (uint64_t)(s[i] - '0');
        if (value > (INT64_MAX - digit) / 10)
            return hx_import_error(r->import, word.at, "a number above 2^63");
        value = 10 * value + digit;
    }
    *ret = value;
    return NULL;
}

/* --- the header ---------------------------------------------------------------------------- */

/* The program, its arguments, and what was said to the runtime behind +RTS. */
static hx_error *on_job(struct reader *r, const struct hx_text *text)
{
    const char *s = hx_text_str(text);
    bool first = true, runtime = false;
    for (size_t n; *(s += strspn(s, " \t\n")); s += n, first = false) {
        n = strcspn(s, " \t\n");
        if (first)
            HX_TRY(hx_profile_program(r->profile, s, n));
        else if (n == 4 && strncmp(s, "+RTS", n) == 0)
            runtime = true;
        else if (n == 4 && strncmp(s, "-RTS", n) == 0)
            runtime = false;
        else if (runtime)
            hx_profile_option(r->profile, s, n);
    }
    return NULL;
}

/* "Sat Nov 21 06:25 2026", perhaps with seconds. */
static void on_date(struct reader *r, const struct hx_text *text)
{
    static const char months[] = "JanFebMarAprMayJunJulAugSepOctNovDec";
    char month[4] = "";
    struct tm tm = {0};
    int year = 0;
    const char *s = hx_text_str(text);
    if (sscanf(s, "%*3s %3s %2d %2d:%2d:%2d %4d", month, &tm.tm_mday, &tm.tm_hour, &tm.tm_min,
               &tm.tm_sec, &year) != 6) {
        tm = (struct tm){0};
        if (sscanf(s, "%*3s %3s %2d %2d:%2d %4d", month, &tm.tm_mday, &tm.tm_hour, &tm.tm_min,
                   &year) != 5)
            return;
    }
    const char *found = strlen(month) == 3 ? strstr(months, month) : NULL;
    if (!found || (found - months) % 3 || year < 1971 || year > 2200 || tm.tm_mday < 1)
        return;
    tm.tm_mon = (int)(found - months) / 3;
    tm.tm_year = year - 1900;
    r->profile->began_ns = (int64_t)timegm(&tm) * 1000000000;
    r->profile->has_clock = true;
}

/* Figures are stored as what they are mostly of. */
static void on_unit(struct reader *r, const struct hx_text *text, const char *what,
                    const char *usual)
{
    if (strcmp(hx_text_str(text), usual) != 0)
        hx_profile_note(&r->profile->notes, "%s are not said to be %s", what, usual);
}

static hx_error *on_header(struct reader *r, enum key key)
{
    HX_CLEANUP(hx_text_free) struct hx_text text = {0};
    bool found;
    HX_TRY(read_string(r, &text, &found));
    r->cut = !found;
    if (!found || r->has[key])
        return NULL;
    r->has[key] = true;
    switch (key) {
    case KEY_JOB:
        return on_job(r, &text);
    case KEY_DATE:
        on_date(r, &text);
        return NULL;
    case KEY_SAMPLE_UNIT:
        on_unit(r, &text, "times", "seconds");
        return NULL;
    default:
        on_unit(r, &text, "figures", "bytes");
        return NULL;
    }
}

/* --- samples -------------------------------------------------------------------------------- */

static hx_error *on_begin(struct reader *r, size_t at, uint64_t time_ns)
{
    struct hx_profile *profile = r->profile;
    if (r->open)
        return hx_import_error(r->import, at, "a sample begins within another one");
    if (r->any && time_ns < r->time_ns)
        return hx_import_error(r->import, at, "a sample is of an earlier time than the one before");
    /* rows that stand before it are its own */
    size_t first = 0;
    if (profile->samples.n) {
        const struct hx_profile_sample *last = &profile->samples.v[profile->samples.n - 1];
        first = last->first + last->n;
    }
    struct hx_profile_sample sample = {.time_ns = time_ns, .at = at, .first = first};
    HX_NEED(hx_vec_push(&profile->samples, sample));
    profile->samples.v[profile->samples.n - 1].notes = r->marks;
    r->marks = (struct hx_text){0};
    r->open = r->any = true;
    r->time_ns = time_ns;
    return NULL;
}

static hx_error *on_end(struct reader *r, size_t at)
{
    struct hx_profile *profile = r->profile;
    if (!r->open)
        return hx_import_error(r->import, at, "a sample ends that has not begun");
    struct hx_profile_sample *sample = &profile->samples.v[profile->samples.n - 1];
    sample->n = profile->rows.n - sample->first;
    r->open = false;
    return NULL;
}

static hx_error *on_mark(struct reader *r, size_t at, uint64_t time_ns)
{
    if (r->open)
        return hx_import_error(r->import, at, "a mark within a sample");
    hx_profile_note(&r->marks, "mark at %" PRIu64 ".%06" PRIu64 " s", time_ns / 1000000000,
                    time_ns / 1000 % 1000000);
    return NULL;
}

static hx_error *on_timed(struct reader *r, enum key key, size_t at)
{
    uint64_t time_ns = 0;
    struct word word = next_word(r);
    if (!word.n) {
        r->cut = true;
        return NULL;
    }
    HX_TRY(read_time(r, word, &time_ns));
    if (key == KEY_BEGIN)
        return on_begin(r, at, time_ns);
    return key == KEY_END ? on_end(r, at) : on_mark(r, at, time_ns);
}

static hx_error *on_row(struct reader *r, struct word name)
{
    struct hx_profile_row row = {.text = {name.at, name.n}};
    if (r->import->bytes[name.at] == '"')
        return hx_import_error(r->import, name.at, "a string where a name should be");
    if (name.n > NAME_BYTES)
        return hx_import_error(r->import, name.at, "a name of more than %d bytes", NAME_BYTES);
    struct word word = next_word(r);
    if (!word.n) {
        r->cut = true;
        return NULL;
    }
    HX_TRY(hx_profile_utf8(r->import, name.at, name.n));
    HX_TRY(read_bytes(r, word, &row.bytes));
    HX_TRY(hx_profile_kind(r->profile, 0, name.at, &row.profile));
    return hx_vec_push(&r->profile->rows, row) ? NULL : hx_error_nomem();
}

static hx_error *read_item(struct reader *r, bool *ret_more)
{
    struct word word = next_word(r);
    enum key key;
    *ret_more = word.n != 0;
    if (!word.n)
        return NULL;
    if (!find_key(r, word, &key))
        return on_row(r, word);
    return (int)key < HEADER_KEYS ? on_header(r, key) : on_timed(r, key, word.at);
}

/* --- the whole ------------------------------------------------------------------------------- */

/* What was cut off goes; a file of one cut sample has nothing. */
static hx_error *settle_samples(struct reader *r)
{
    struct hx_profile *profile = r->profile;
    size_t end = r->import->n, kept = 0;
    if (r->open) {
        hx_text_free(&profile->samples.v[--profile->samples.n].notes);
        profile->lost[HX_LOSS_UNFINISHED]++;
    }
    if (profile->samples.n) {
        const struct hx_profile_sample *last = &profile->samples.v[profile->samples.n - 1];
        kept = last->first + last->n;
    }
    if (!r->open)
        profile->lost[HX_LOSS_OUTSIDE] = profile->rows.n - kept;
    profile->rows.n = kept;
    profile->cut = r->open || r->cut;
    profile->cut_at = end;
    for (int i = 0; i < HEADER_KEYS; i++)
        if (!r->has[i])
            return hx_import_error(r->import, end, "the file ends without its %s", keys[i]);
    if (!profile->samples.n)
        return hx_import_error(r->import, end, "the file ends without a whole sample");
    if (r->marks.n)
        hx_profile_note(&profile->samples.v[profile->samples.n - 1].notes, "%s",
                        hx_text_str(&r->marks));
    return NULL;
}

#define CHECK_MASK 0xfff

static hx_error *read_hp_lines(struct reader *r)
{
    const struct hx_import *import = r->import;
    bool more = true;
    for (size_t i = 0; more && !r->cut; i++) {
        HX_TRY(read_item(r, &more));
        if (i & CHECK_MASK)
            continue;
        hx_progress_at(import->progress, "reading", r->at, import->n);
        if (hx_progress_cancelled(import->progress))
            return hx_error_cancelled(import->path);
    }
    HX_TRY(settle_samples(r));
    return hx_profile_store(r->profile);
}

static hx_error *read_hp(struct hx_import *import)
{
    HX_PROFILE struct hx_profile profile = {.import = import};
    struct reader r = {.import = import, .profile = &profile};
    hx_error *err = read_hp_lines(&r);
    hx_text_free(&r.marks);
    return err;
}

/* Its first word is a key. */
static bool is_hp(const uint8_t *head, size_t n, uint64_t size)
{
    struct hx_import import = {.bytes = head, .n = n};
    struct reader r = {.import = &import};
    enum key key;
    (void)size;
    return find_key(&r, next_word(&r), &key);
}

const struct hx_importer hx_import_hp = {
    .name = "hp",
    .about = "GHC heap profile (.hp)",
    .detect = is_hp,
    .read = read_hp,
};
