/* text.c - building, escaping and reading text. */
#include "base/text.h"

#include "base/vec.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void hx_text_putn(struct hx_text *text, const char *s, size_t n)
{
    if (text->failed || n >= SIZE_MAX - text->n ||
        !hx_vec_reserve_raw((void **)&text->s, &text->cap, text->n + n + 1, 1)) {
        text->failed = true;
        return;
    }
    if (n)
        memcpy(text->s + text->n, s, n);
    text->n += n;
    text->s[text->n] = 0;
}

void hx_text_puts(struct hx_text *text, const char *s)
{
    hx_text_putn(text, s, strlen(s));
}

void hx_text_putc(struct hx_text *text, char c)
{
    hx_text_putn(text, &c, 1);
}

void hx_text_vputf(struct hx_text *text, const char *format, va_list args)
{
    va_list again;
    va_copy(again, args);
    char small[256];
    int n = vsnprintf(small, sizeof small, format, args);
    if (n < 0) {
        text->failed = true;
    } else if ((size_t)n < sizeof small) {
        hx_text_putn(text, small, (size_t)n);
    } else {
        char *large = NULL;
        n = vasprintf(&large, format, again);
        if (n < 0)
            text->failed = true;
        else
            hx_text_putn(text, large, (size_t)n);
        if (n >= 0)
            free(large);
    }
    va_end(again);
}

void hx_text_putf(struct hx_text *text, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    hx_text_vputf(text, format, args);
    va_end(args);
}

const char *hx_text_str(const struct hx_text *text)
{
    return text->s ? text->s : "";
}

void hx_text_clear(struct hx_text *text)
{
    text->n = 0;
    text->failed = false;
    if (text->s)
        text->s[0] = 0;
}

void hx_text_free(struct hx_text *text)
{
    free(text->s);
    *text = (struct hx_text){0};
}

/* Decodes one character of strict UTF-8 (no surrogates, no overlong forms); returns its
 * length, 0 when the bytes are not one. */
static size_t utf8_decode(const char *s, size_t n, uint32_t *ret)
{
    const uint8_t *p = (const uint8_t *)s;
    size_t len = p[0] < 0x80 ? 1 : p[0] >= 0xf0 ? 4 : p[0] >= 0xe0 ? 3 : p[0] >= 0xc0 ? 2 : 0;
    if (len == 0 || len > n || p[0] > 0xf4)
        return 0;
    static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    uint32_t c = len == 1 ? p[0] : p[0] & (0x7fu >> len);
    for (size_t i = 1; i < len; i++) {
        if ((p[i] & 0xc0) != 0x80)
            return 0;
        c = c << 6 | (p[i] & 0x3f);
    }
    if (c < least[len] || c > 0x10ffff || (c >= 0xd800 && c <= 0xdfff))
        return 0;
    *ret = c;
    return len;
}

/* Characters that change how a terminal or an editor shows what stands beside them. */
static bool is_unsafe(uint32_t c)
{
    return c < 0x20 || (c >= 0x7f && c <= 0x9f) || c == 0xad || c == 0x61c || c == 0x180e ||
           (c >= 0x200b && c <= 0x200f) || (c >= 0x2028 && c <= 0x202e) ||
           (c >= 0x2060 && c <= 0x206f) || c == 0xfeff || (c >= 0xfff9 && c <= 0xfffb) ||
           (c >= 0xe0000 && c <= 0xe007f);
}

void hx_text_escape(struct hx_text *text, const char *bytes, size_t n, bool ascii)
{
    for (size_t i = 0; i < n;) {
        uint32_t c;
        size_t len = utf8_decode(bytes + i, n - i, &c);
        if (len == 0) {
            hx_text_putf(text, "\\x%02x", (uint8_t)bytes[i]);
            len = 1;
        } else if (c == '\\') {
            hx_text_puts(text, "\\\\");
        } else if (c < 0x80 && is_unsafe(c)) {
            hx_text_putf(text, "\\x%02x", c);
        } else if (is_unsafe(c) || (ascii && c > 0x7e)) {
            hx_text_putf(text, "\\u{%x}", c);
        } else {
            hx_text_putn(text, bytes + i, len);
        }
        i += len;
    }
}

void hx_text_json(struct hx_text *text, const char *s, size_t n)
{
    hx_text_putc(text, '"');
    for (size_t i = 0; i < n;) {
        uint32_t c;
        size_t len = utf8_decode(s + i, n - i, &c);
        if (len == 0) {
            hx_text_puts(text, "\xef\xbf\xbd");
            len = 1;
        } else if (c == '"' || c == '\\') {
            hx_text_putc(text, '\\');
            hx_text_putc(text, (char)c);
        } else if (c == '\n') {
            hx_text_puts(text, "\\n");
        } else if (c == '\t') {
            hx_text_puts(text, "\\t");
        } else if (is_unsafe(c) && c < 0x10000) {
            hx_text_putf(text, "\\u%04x", c);
        } else if (is_unsafe(c)) {
            hx_text_putf(text, "\\u%04x\\u%04x", 0xd800 + ((c - 0x10000) >> 10),
                         0xdc00 + ((c - 0x10000) & 0x3ff));
        } else {
            hx_text_putn(text, s + i, len);
        }
        i += len;
    }
    hx_text_putc(text, '"');
}

void hx_text_csv(struct hx_text *text, const char *s, size_t n)
{
    bool quote = n == 0; /* an empty string is not NULL */
    for (size_t i = 0; i < n && !quote; i++)
        quote = s[i] == '"' || s[i] == ',' || s[i] == '\n' || s[i] == '\r';
    if (!quote) {
        hx_text_putn(text, s, n);
        return;
    }
    hx_text_putc(text, '"');
    for (size_t i = 0; i < n; i++) {
        if (s[i] == '"')
            hx_text_putc(text, '"');
        hx_text_putc(text, s[i]);
    }
    hx_text_putc(text, '"');
}

static char *human(uint64_t value, unsigned base, char buf[HX_HUMAN])
{
    static const char units[] = "KMGTPE";
    if (value < base) {
        snprintf(buf, HX_HUMAN, "%u", (unsigned)value);
        return buf;
    }
    double scaled = (double)value;
    size_t unit = 0;
    for (scaled /= base; scaled >= base - 0.5 && unit + 1 < sizeof units - 1; unit++)
        scaled /= base;
    int digits = scaled < 9.995 ? 2 : scaled < 99.95 ? 1 : 0;
    snprintf(buf, HX_HUMAN, "%.*f%c", digits, scaled, units[unit]);
    return buf;
}

char *hx_human_bytes(uint64_t bytes, char buf[HX_HUMAN])
{
    return human(bytes, 1024, buf);
}

char *hx_human_count(uint64_t count, char buf[HX_HUMAN])
{
    return human(count, 1000, buf);
}

char *hx_human_ns(uint64_t ns, char buf[HX_HUMAN])
{
    if (ns < 1000)
        snprintf(buf, HX_HUMAN, "%uns", (unsigned)ns);
    else if (ns < 10000000)
        snprintf(buf, HX_HUMAN, ns < 1000000 ? "%.0fus" : "%.2fms",
                 ns < 1000000 ? (double)ns / 1e3 : (double)ns / 1e6);
    else if (ns < 1000000000)
        snprintf(buf, HX_HUMAN, "%.1fms", (double)ns / 1e6);
    else if (ns < 60000000000)
        snprintf(buf, HX_HUMAN, "%.2fs", (double)ns / 1e9);
    else if (ns < 3600000000000)
        snprintf(buf, HX_HUMAN, "%um%02us", (unsigned)(ns / 60000000000),
                 (unsigned)(ns / 1000000000 % 60));
    else
        snprintf(buf, HX_HUMAN, "%lluh%02um", (unsigned long long)(ns / 3600000000000),
                 (unsigned)(ns / 60000000000 % 60));
    return buf;
}

/* A number without sign, exponent or blanks; *end is what follows it. */
static bool parse_number(const char *s, double *ret, const char **end)
{
    if (!isdigit((unsigned char)*s))
        return false;
    double value = 0, place = 0.1;
    for (; isdigit((unsigned char)*s); s++)
        value = value * 10 + (*s - '0');
    if (*s == '.') {
        if (!isdigit((unsigned char)*++s))
            return false;
        for (; isdigit((unsigned char)*s); s++, place /= 10)
            value += place * (*s - '0');
    }
    *ret = value;
    *end = s;
    return true;
}

bool hx_parse_duration(const char *s, uint64_t *ret_ns)
{
    static const struct {
        const char *name;
        double ns;
    } units[] = {{"", 1e9},   {"s", 1e9},    {"ms", 1e6},   {"us", 1e3},   {"ns", 1e0},
                 {"m", 6e10}, {"min", 6e10}, {"h", 3.6e12}, {"d", 8.64e13}};
    double value;
    const char *end;
    if (!parse_number(s, &value, &end))
        return false;
    for (size_t i = 0; i < sizeof units / sizeof *units; i++) {
        if (strcmp(end, units[i].name) == 0) {
            if (value * units[i].ns >= 9.2e18)
                return false;
            *ret_ns = (uint64_t)(value * units[i].ns + 0.5);
            return true;
        }
    }
    return false;
}

bool hx_parse_bytes(const char *s, uint64_t *ret)
{
    double value;
    const char *end;
    if (!parse_number(s, &value, &end))
        return false;
    if (*end == 0 && !strchr(s, '.'))
        return hx_parse_u64(s, ret);
    const char *unit = *end ? strchr("KMGTPE", toupper((unsigned char)*end)) : NULL;
    if (unit) {
        for (const char *u = "KMGTPE";; u++) {
            value *= 1024;
            if (*u == *unit)
                break;
        }
        end++;
        if (*end == 'i')
            end++;
    }
    if (*end == 'B' || *end == 'b')
        end++;
    if (*end || value >= 1.8e19)
        return false;
    *ret = (uint64_t)value;
    return true;
}

bool hx_parse_u64(const char *s, uint64_t *ret)
{
    bool hex = s[0] == '0' && (s[1] == 'x' || s[1] == 'X');
    if (!isxdigit((unsigned char)s[hex ? 2 : 0]) || (!hex && !isdigit((unsigned char)s[0])))
        return false;
    char *end;
    errno = 0;
    unsigned long long value = strtoull(s, &end, hex ? 16 : 10);
    if (errno || *end)
        return false;
    *ret = value;
    return true;
}
