/* text.c - building, escaping and reading text. */
#include "base/text.h"

#include "base/vec.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
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
size_t hx_utf8_char(const char *s, size_t n, uint32_t *ret)
{
    const uint8_t *p = (const uint8_t *)s;
    if (n == 0)
        return 0;
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

/* Characters that change how a terminal or an editor shows what stands beside them, or that
 * are there without being seen: controls and Unicode's default ignorables. Ranges inclusive,
 * ascending. */
bool hx_unsafe_char(uint32_t c)
{
    static const struct {
        uint32_t first, last;
    } ranges[] = {
        {0x0000, 0x001f}, {0x007f, 0x009f},   {0x00ad, 0x00ad},   {0x034f, 0x034f},
        {0x061c, 0x061c}, {0x115f, 0x1160},   {0x17b4, 0x17b5},   {0x180b, 0x180f},
        {0x200b, 0x200f}, {0x2028, 0x202e},   {0x2060, 0x206f},   {0x3164, 0x3164},
        {0xfdd0, 0xfdef}, {0xfe00, 0xfe0f},   {0xfeff, 0xfeff},   {0xffa0, 0xffa0},
        {0xfff0, 0xfffb}, {0x1bca0, 0x1bca3}, {0x1d173, 0x1d17a}, {0xe0000, 0xe0fff},
    };
    if (c >= 0x20 && c <= 0x7e)
        return false;
    for (size_t i = 0; i < sizeof ranges / sizeof *ranges && ranges[i].first <= c; i++)
        if (c <= ranges[i].last)
            return true;
    return (c & 0xfffe) == 0xfffe; /* the last two of each plane are no characters */
}

void hx_text_escape(struct hx_text *text, const char *bytes, size_t n, bool ascii)
{
    for (size_t i = 0; i < n;) {
        uint32_t c;
        size_t len = hx_utf8_char(bytes + i, n - i, &c);
        if (len == 0) {
            hx_text_putf(text, "\\x%02x", (uint8_t)bytes[i]);
            len = 1;
        } else if (c == '\\') {
            hx_text_puts(text, "\\\\");
        } else if (c < 0x80 && hx_unsafe_char(c)) {
            hx_text_putf(text, "\\x%02x", c);
        } else if (hx_unsafe_char(c) || (ascii && c > 0x7e)) {
            hx_text_putf(text, "\\u{%x}", c);
        } else {
            hx_text_putn(text, bytes + i, len);
        }
        i += len;
    }
}

static void put_bounded(struct hx_text *text, const char *s, size_t n, size_t most)
{
    static const size_t mark = sizeof "...#0123456789abcdef" - 1;
    if (n <= most) {
        hx_text_putn(text, s, n);
        return;
    }
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    for (size_t i = 0; i < n; i++)
        hash = (hash ^ (uint8_t)s[i]) * UINT64_C(0x100000001b3);
    size_t cut = most - mark;
    for (int back = 0; back < 3 && ((uint8_t)s[cut] & 0xc0) == 0x80; back++)
        cut--; /* no character is cut in two */
    hx_text_putn(text, s, cut);
    hx_text_putf(text, "...#%016llx", (unsigned long long)hash);
}

void hx_text_name(struct hx_text *text, const char *s, size_t n)
{
    put_bounded(text, s, n, HX_TEXT_NAME);
}

/* Bytes before the next separator, or all. */
static size_t name_bytes(const char *s, size_t n)
{
    size_t i = 0;
    while (i < n && !(s[i] == ' ' && i && (s[i - 1] == ',' || s[i - 1] == '<')))
        i++;
    return i < n ? i + 1 : n;
}

void hx_text_names(struct hx_text *text, const char *s, size_t n)
{
    if (n <= HX_TEXT_NAME) {
        hx_text_putn(text, s, n);
        return;
    }
    struct hx_text all = {0};
    for (size_t part; n; s += part, n -= part) {
        part = name_bytes(s, n);
        hx_text_name(&all, s, part);
    }
    put_bounded(text, hx_text_str(&all), all.n, HX_TEXT_NAMES);
    text->failed |= all.failed;
    hx_text_free(&all);
}

void hx_text_json(struct hx_text *text, const char *s, size_t n)
{
    hx_text_putc(text, '"');
    for (size_t i = 0; i < n;) {
        uint32_t c;
        size_t len = hx_utf8_char(s + i, n - i, &c);
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
        } else if (hx_unsafe_char(c) && c < 0x10000) {
            hx_text_putf(text, "\\u%04x", c);
        } else if (hx_unsafe_char(c)) {
            hx_text_putf(text, "\\u%04x\\u%04x", 0xd800 + ((c - 0x10000) >> 10),
                         0xdc00 + ((c - 0x10000) & 0x3ff));
        } else {
            hx_text_putn(text, s + i, len);
        }
        i += len;
    }
    hx_text_putc(text, '"');
}

/* -5, +1.5e3 */
static bool is_number(const char *s, size_t n)
{
    size_t i = s[0] == '-' || s[0] == '+', digits = 0;
    for (; i < n && ((s[i] >= '0' && s[i] <= '9') || s[i] == '.'); i++)
        digits += s[i] != '.';
    if (!digits || i == n)
        return digits && memchr(s, '.', n) == memrchr(s, '.', n);
    if (s[i] != 'e' && s[i] != 'E')
        return false;
    i += i + 1 < n && (s[i + 1] == '-' || s[i + 1] == '+') ? 2 : 1;
    for (digits = 0; i < n && s[i] >= '0' && s[i] <= '9'; i++)
        digits++;
    return digits && i == n;
}

/* Would a spreadsheet take the text for more than a text? Some do so with the wide forms of the
 * signs, too. A number is one either way, and a lone - (a bin, what is not known) is none. */
static bool is_formula(const char *s, size_t n)
{
    static const char *const wide[] = {"\xef\xbc\x9d", "\xef\xbc\x8b", "\xef\xbc\x8d",
                                       "\xef\xbc\xa0"}; /* U+FF1D, FF0B, FF0D, FF20 */
    if (!n || (n == 1 && *s == '-'))
        return false;
    if (strchr("=+-@'", s[0])) /* the last, so that the mark can be told from what was there */
        return !is_number(s, n);
    for (size_t i = 0; n >= 3 && i < sizeof wide / sizeof *wide; i++)
        if (memcmp(s, wide[i], 3) == 0)
            return true;
    return false;
}

/* What is put as it is, but for the mark of a formula. */
static bool is_plain(const char *s, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (s[i] < ' ' || s[i] >= 0x7f || s[i] == '"' || s[i] == ',' || s[i] == '\\')
            return false;
    return n > 0; /* an empty string is not NULL */
}

void hx_text_csv(struct hx_text *text, const char *s, size_t n)
{
    if (is_plain(s, n)) {
        hx_text_puts(text, is_formula(s, n) ? "'" : "");
        hx_text_putn(text, s, n);
        return;
    }
    struct hx_text shown = {0};
    hx_text_escape(&shown, s, n, false);
    const char *at = hx_text_str(&shown);
    bool quote = !shown.n || strpbrk(at, "\",");
    hx_text_puts(text, quote ? "\"" : "");
    hx_text_puts(text, is_formula(at, shown.n) ? "'" : "");
    for (; *at; at++) {
        hx_text_puts(text, *at == '"' ? "\"" : "");
        hx_text_putc(text, *at);
    }
    hx_text_puts(text, quote ? "\"" : "");
    text->failed |= shown.failed;
    hx_text_free(&shown);
}

void hx_text_count(struct hx_text *text, int64_t count)
{
    char digits[32];
    int n = snprintf(digits, sizeof digits, "%" PRId64, count);
    for (int i = 0; i < n; i++) {
        if (i > (digits[0] == '-') && (n - i) % 3 == 0)
            hx_text_putc(text, ',');
        hx_text_putc(text, digits[i]);
    }
}

/* Three digits of a scaled value, at least 1 and below 1024: "1.50", "23.0", "812". */
static void three_digits(double scaled, const char *unit, char buf[HX_HUMAN])
{
    int digits = scaled < 9.995 ? 2 : scaled < 99.95 ? 1 : 0;
    snprintf(buf, HX_HUMAN, "%.*f%s", digits, scaled, unit);
}

/* A value that would be rounded up to a whole next unit is shown in that one. */
static char *human(uint64_t value, unsigned base, char buf[HX_HUMAN])
{
    static const char *const units[] = {"K", "M", "G", "T", "P", "E"};
    if (value < base) {
        snprintf(buf, HX_HUMAN, "%u", (unsigned)value);
        return buf;
    }
    double scaled = (double)value;
    size_t unit = 0;
    for (scaled /= base; scaled >= base - 0.5 && unit + 1 < sizeof units / sizeof *units; unit++)
        scaled /= base;
    three_digits(scaled, units[unit], buf);
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
    uint64_t seconds = ns / 1000000000;
    if (ns < 1000)
        snprintf(buf, HX_HUMAN, "%uns", (unsigned)ns);
    else if (ns < 999500)
        three_digits((double)ns / 1e3, "us", buf);
    else if (ns < 999500000)
        three_digits((double)ns / 1e6, "ms", buf);
    else if (ns < 59950000000)
        three_digits((double)ns / 1e9, "s", buf);
    else if (seconds < 60)
        snprintf(buf, HX_HUMAN, "1m00s");
    else if (seconds < 3600)
        snprintf(buf, HX_HUMAN, "%um%02us", (unsigned)(seconds / 60), (unsigned)(seconds % 60));
    else
        snprintf(buf, HX_HUMAN, "%lluh%02um", (unsigned long long)(seconds / 3600),
                 (unsigned)(seconds / 60 % 60));
    return buf;
}

/* A decimal number as it was written: whole + part / scale, part < scale. Kept as whole
 * numbers because a double holds only 53 bits of an address-sized figure. */
struct decimal {
    uint64_t whole, part, scale; /* scale is a power of ten; 1: no fraction was written */
};

/* Reads digits with an optional fraction, without sign, exponent or blanks; *end is what
 * follows. What a fraction has beyond 15 digits is cut off. */
static bool parse_decimal(const char *s, struct decimal *ret, const char **end)
{
    struct decimal number = {.scale = 1};
    if (!isdigit((unsigned char)*s))
        return false;
    for (; isdigit((unsigned char)*s); s++)
        if (__builtin_mul_overflow(number.whole, 10, &number.whole) ||
            __builtin_add_overflow(number.whole, (uint64_t)(*s - '0'), &number.whole))
            return false;
    if (*s == '.') {
        if (!isdigit((unsigned char)*++s))
            return false;
        for (; isdigit((unsigned char)*s); s++) {
            if (number.scale < UINT64_C(1000000000000000)) {
                number.part = number.part * 10 + (uint64_t)(*s - '0');
                number.scale *= 10;
            }
        }
    }
    *ret = number;
    *end = s;
    return true;
}

/* number * unit, rounded down; false when that is above most. */
static bool decimal_times(struct decimal number, uint64_t unit, uint64_t most, uint64_t *ret)
{
    __extension__ typedef unsigned __int128 wide;
    wide value = (wide)number.whole * unit + (wide)number.part * unit / number.scale;
    if (value > most)
        return false;
    *ret = (uint64_t)value;
    return true;
}

bool hx_parse_duration(const char *s, uint64_t *ret_ns)
{
    static const struct {
        const char *name;
        uint64_t ns;
    } units[] = {
        {"", 1000000000},
        {"s", 1000000000},
        {"ms", 1000000},
        {"us", 1000},
        {"ns", 1},
        {"m", 60000000000},
        {"min", 60000000000},
        {"h", 3600000000000},
        {"d", 86400000000000},
    };
    struct decimal number;
    const char *end;
    if (!parse_decimal(s, &number, &end))
        return false;
    for (size_t i = 0; i < sizeof units / sizeof *units; i++)
        if (strcmp(end, units[i].name) == 0)
            return decimal_times(number, units[i].ns, INT64_MAX, ret_ns);
    return false;
}

bool hx_parse_bytes(const char *s, uint64_t *ret)
{
    static const char prefixes[] = "KMGTPE";
    struct decimal number;
    const char *end;
    if (!parse_decimal(s, &number, &end))
        return false;
    const char *prefix = *end ? strchr(prefixes, toupper((unsigned char)*end)) : NULL;
    if (!prefix && number.scale != 1)
        return false; /* there is no part of a byte */
    uint64_t unit = prefix ? UINT64_C(1024) << 10 * (prefix - prefixes) : 1;
    if (prefix) {
        end++;
        if (*end == 'i')
            end++;
    }
    if (*end == 'B' || *end == 'b')
        end++;
    return !*end && decimal_times(number, unit, UINT64_MAX, ret);
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
