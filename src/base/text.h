/* text.h - building, escaping and reading text.
 *
 * struct hx_text is a growable string that remembers a failed allocation instead
 * of making every caller test for it: check `failed` once at the end.
 */
#ifndef HX_BASE_TEXT_H
#define HX_BASE_TEXT_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Invariant: s is NULL (and n 0) or s[n] == 0. Zero-initialise to begin. */
struct hx_text {
    char *s;
    size_t n, cap;
    bool failed;
};

void hx_text_puts(struct hx_text *text, const char *s);
void hx_text_putn(struct hx_text *text, const char *s, size_t n);
void hx_text_putc(struct hx_text *text, char c);
void hx_text_putf(struct hx_text *text, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
void hx_text_vputf(struct hx_text *text, const char *format, va_list args);
/* The string, "" when empty; owned by text. */
const char *hx_text_str(const struct hx_text *text);
void hx_text_clear(struct hx_text *text);
void hx_text_free(struct hx_text *text);

/* Appends bytes that came from a target so that a terminal can show them: C0 and
 * C1 controls, DEL, bidi marks, line and paragraph separators, characters without
 * a shape (joiners, fillers, selectors), and invalid UTF-8 become \xNN (bytes) or \u{N}
 * (characters); a backslash becomes two. With `ascii` everything above 0x7e is escaped too. */
void hx_text_escape(struct hx_text *text, const char *bytes, size_t n, bool ascii);

/* The character at s, of at most n bytes: how many bytes it takes, 0 when they are no valid UTF-8
 * (or n is 0). */
size_t hx_utf8_char(const char *s, size_t n, uint32_t *ret);

/* Is this one of those characters? */
bool hx_unsafe_char(uint32_t c);

/* Bytes of a name of somebody else's (a type, a symbol, a function, a thread), at most: wherever
 * one enters (symbols, importers, what is stored) and wherever a store is read. Of a longer one the
 * beginning stands for it, and what tells it from others with that beginning:
 * "...#0123456789abcdef", a hash of all of it. */
#define HX_TEXT_NAME 4096
void hx_text_name(struct hx_text *text, const char *s, size_t n);

/* The same of several in one text (" < ", ", "), each of them and, at HX_TEXT_NAMES, all. */
#define HX_TEXT_NAMES (256 * HX_TEXT_NAME)
void hx_text_names(struct hx_text *text, const char *s, size_t n);

/* Appends s as a JSON string with its quotes; invalid UTF-8 becomes U+FFFD and
 * control and bidi characters \uNNNN. */
void hx_text_json(struct hx_text *text, const char *s, size_t n);

/* Appends s as one RFC 4180 field of one line: escaped as for a terminal, quoted where needed, and
 * with a ' in front where a spreadsheet would take it for a formula: it begins with = + - @ or a
 * wide form of these, and is no number. A ' that is there gets one, too, so that taking the first
 * away always gives the text back. */
void hx_text_csv(struct hx_text *text, const char *s, size_t n);

void hx_text_count(struct hx_text *text, int64_t count); /* "1,234,567" */

/* Bytes for people: "0", "812", "1.50K", "23.0M", "1000K"; powers of 1024, three
 * digits, rounded; at most five characters. Returns buf. */
#define HX_HUMAN 16
char *hx_human_bytes(uint64_t bytes, char buf[HX_HUMAN]);
char *hx_human_count(uint64_t count, char buf[HX_HUMAN]); /* powers of 1000 */
char *hx_human_ns(uint64_t ns, char buf[HX_HUMAN]);       /* "812us", "9.70ms", "1.20s", "5m10s" */

/* "10", "10s", "250ms", "5m", "2h", "1d", "1.5s" to nanoseconds; a bare number is
 * seconds. False when it is no duration or more than INT64_MAX nanoseconds. */
bool hx_parse_duration(const char *s, uint64_t *ret_ns);

/* "512", "64K", "1.5G", optional B or iB; powers of 1024, rounded down. False, with
 * *ret as it was, when it is no size, a fraction without a unit, or does not fit. */
bool hx_parse_bytes(const char *s, uint64_t *ret);

/* A decimal or 0x number that uses the whole string and fits. */
bool hx_parse_u64(const char *s, uint64_t *ret);

#endif
