/* filter_lex.c - the words of the filter language. */
#include "query/filter_private.h"

#include "base/cleanup.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

hx_error *hx_lexer_error(const struct hx_lexer *lexer, size_t at, size_t n, const char *todo,
                         const char *why, ...)
{
    size_t column = 1;
    for (size_t i = 0; i < at; i++)
        column += ((unsigned char)lexer->text[i] & 0xc0) != 0x80;
    *lexer->place = (struct hx_filter_position){.offset = at, .length = n, .column = column};
    HX_FREE char *words = NULL;
    va_list args;
    va_start(args, why);
    int printed = vasprintf(&words, why, args);
    va_end(args);
    if (printed < 0) {
        words = NULL;
        return hx_error_nomem();
    }
    return hx_error_new(HX_E_USAGE, "filter", todo, "%s, at column %zu", words, column);
}

/* --- numbers ----------------------------------------------------------------------- */

/* The text is a number without sign and unit. */
static bool nearest_double(const char *text, size_t n, double *ret)
{
    HX_FREE char *copy = strndup(text, n);
    if (copy)
        *ret = strtod(copy, NULL);
    return copy;
}

/* The span of a number's parts, as offsets. */
struct spelling {
    bool negative, hex;
    bool whole; /* no exponent, and a fraction only of zeros */
    size_t digits, point, end;
    uint64_t unit;
};

static size_t skip_digits(const char *text, size_t n, size_t at, bool hex)
{
    while (at < n && (hex ? isxdigit((unsigned char)text[at]) : isdigit((unsigned char)text[at])))
        at++;
    return at;
}

/* Digits, a fraction, an exponent. */
static bool read_digits(const char *text, size_t n, struct spelling *s)
{
    size_t at = s->digits;
    if (at + 2 < n && text[at] == '0' && (text[at + 1] | 0x20) == 'x' &&
        isxdigit((unsigned char)text[at + 2])) {
        s->hex = s->whole = true;
        s->digits += 2;
        s->point = s->end = skip_digits(text, n, at + 2, true);
        return true;
    }
    s->point = at = skip_digits(text, n, at, false);
    s->whole = true;
    if (at + 1 < n && text[at] == '.' && isdigit((unsigned char)text[at + 1])) {
        at = skip_digits(text, n, at + 1, false);
        for (size_t i = s->point + 1; i < at; i++)
            s->whole &= text[i] == '0';
    }
    if (at == s->digits)
        return false;
    if (at + 1 < n && (text[at] | 0x20) == 'e') {
        size_t exponent = at + 1 + (text[at + 1] == '+' || text[at + 1] == '-');
        if (exponent < n && isdigit((unsigned char)text[exponent])) {
            at = skip_digits(text, n, exponent, false);
            s->whole = false;
        }
    }
    s->end = at;
    return true;
}

/* K, M, G or T, with i, B or iB, or B alone, up to the end: as in hx_parse_bytes(). */
static bool read_unit(const char *text, size_t n, struct spelling *s)
{
    static const char units[] = "kmgt";
    size_t at = s->end;
    s->unit = 1;
    const char *unit = at < n ? memchr(units, text[at] | 0x20, 4) : NULL;
    if (s->hex)
        return at == n;
    if (unit) {
        s->unit = UINT64_C(1024) << 10 * (unit - units);
        if (++at < n && (text[at] | 0x20) == 'i')
            at++;
    }
    if (at < n && (text[at] | 0x20) == 'b')
        at++;
    return at == n;
}

static bool is_exact_integer(const char *text, const struct spelling *s,
                             struct hx_filter_value *ret)
{
    uint64_t most = (uint64_t)INT64_MAX + s->negative, sum = 0;
    for (size_t i = s->digits; i < s->point; i++) {
        int c = tolower((unsigned char)text[i]);
        uint64_t digit = (uint64_t)(c >= 'a' ? c - 'a' + 10 : c - '0');
        if (__builtin_mul_overflow(sum, s->hex ? 16 : 10, &sum) ||
            __builtin_add_overflow(sum, digit, &sum))
            return false;
    }
    if (__builtin_mul_overflow(sum, s->unit, &sum) || sum > most)
        return false;
    int64_t i = sum > INT64_MAX ? INT64_MIN : s->negative ? -(int64_t)sum : (int64_t)sum;
    *ret = (struct hx_filter_value){.type = HX_FILTER_INT, .i = i};
    return true;
}

enum hx_number hx_filter_number(const char *text, size_t n, struct hx_filter_value *ret,
                                size_t *ret_bad)
{
    struct spelling s = {.negative = n && text[0] == '-'};
    s.digits = s.negative;
    *ret_bad = 0;
    if (!read_digits(text, n, &s))
        return HX_NUMBER_NONE;
    *ret_bad = s.end;
    if (!read_unit(text, n, &s))
        return HX_NUMBER_UNIT;
    if (s.whole && is_exact_integer(text, &s, ret))
        return HX_NUMBER_OK;
    double real;
    size_t from = s.hex ? s.digits - 2 : s.digits; /* strtod knows 0x */
    if (!nearest_double(text + from, s.end - from, &real))
        return HX_NUMBER_NOMEM;
    real *= (s.negative ? -1.0 : 1.0) * (double)s.unit;
    *ret_bad = 0;
    if (!isfinite(real))
        return HX_NUMBER_HUGE;
    *ret = (struct hx_filter_value){.type = HX_FILTER_REAL, .real = real};
    if (real >= -0x1p63 && real < 0x1p63 && real == trunc(real))
        *ret = (struct hx_filter_value){.type = HX_FILTER_INT, .i = (int64_t)real};
    return HX_NUMBER_OK;
}

/* --- words ------------------------------------------------------------------------- */

static bool begins_name(char c)
{
    return isalpha((unsigned char)c) || c == '_';
}

static bool in_name(char c)
{
    return isalnum((unsigned char)c) || c == '_';
}

static size_t name_end(const char *text, size_t at)
{
    while (in_name(text[at]))
        at++;
    return at;
}

static void lex_name(const char *text, struct hx_token *ret)
{
    static const struct {
        const char *word;
        enum hx_token_kind kind;
    } keywords[] = {
        {"and", HX_TOKEN_AND}, {"or", HX_TOKEN_OR},     {"not", HX_TOKEN_NOT},
        {"is", HX_TOKEN_IS},   {"null", HX_TOKEN_NULL},
    };
    size_t end = name_end(text, ret->at);
    ret->kind = HX_TOKEN_NAME;
    if (text[end] == '.' && begins_name(text[end + 1])) {
        end = name_end(text, end + 1);
    } else {
        for (size_t i = 0; i < sizeof keywords / sizeof *keywords; i++)
            if (strlen(keywords[i].word) == end - ret->at &&
                strncasecmp(keywords[i].word, text + ret->at, end - ret->at) == 0)
                ret->kind = keywords[i].kind;
    }
    ret->n = end - ret->at;
}

static bool begins_number(const char *s)
{
    s += *s == '-';
    s += *s == '.';
    return isdigit((unsigned char)*s);
}

static hx_error *lex_number(const struct hx_lexer *lexer, struct hx_token *ret)
{
    const char *text = lexer->text + ret->at;
    size_t n = text[0] == '-', bad;
    /* all that sticks together, so that an error is about all of it */
    while (in_name(text[n]) || text[n] == '.' ||
           ((text[n] == '+' || text[n] == '-') && n && (text[n - 1] | 0x20) == 'e' &&
            !memchr(text, 'x', n) && !memchr(text, 'X', n)))
        n++;
    ret->kind = HX_TOKEN_NUMBER;
    ret->n = n;
    switch (hx_filter_number(text, n, &ret->value, &bad)) {
    case HX_NUMBER_OK:
        return NULL;
    case HX_NUMBER_NOMEM:
        return hx_error_nomem();
    case HX_NUMBER_HUGE:
        return hx_lexer_error(lexer, ret->at, n, "write one below 1e308",
                              "the number is too large");
    default:
        return hx_lexer_error(lexer, ret->at + bad, n - bad,
                              "numbers are 12, 1.5, 0x7f, and 2K, 3M, 4G, 5T in powers of 1024",
                              "\"%.*s\" is not part of a number",
                              n - bad > 40 ? 40 : (int)(n - bad), text + bad);
    }
}

static hx_error *lex_string(const struct hx_lexer *lexer, struct hx_token *ret)
{
    const char *text = lexer->text + ret->at;
    size_t n = 1;
    for (; text[n] && (text[n] != *text || text[n + 1] == *text); n++)
        n += text[n] == *text;
    if (!text[n])
        return hx_lexer_error(lexer, ret->at, 1, "end it with the quote that began it",
                              "a text without an end");
    ret->kind = HX_TOKEN_TEXT;
    ret->n = n + 1;
    return NULL;
}

static hx_error *read_sign(const struct hx_lexer *lexer, struct hx_token *ret)
{
    static const struct {
        const char *sign;
        enum hx_token_kind kind;
        enum hx_filter_op op;
    } signs[] = {
        /* longer ones before their beginnings */
        {"==", HX_TOKEN_OP, HX_OP_EQ}, {"!=", HX_TOKEN_OP, HX_OP_NE},
        {"<>", HX_TOKEN_OP, HX_OP_NE}, {"<=", HX_TOKEN_OP, HX_OP_LE},
        {">=", HX_TOKEN_OP, HX_OP_GE}, {"!~", HX_TOKEN_OP, HX_OP_NO_MATCH},
        {"=", HX_TOKEN_OP, HX_OP_EQ},  {"<", HX_TOKEN_OP, HX_OP_LT},
        {">", HX_TOKEN_OP, HX_OP_GT},  {"~", HX_TOKEN_OP, HX_OP_MATCH},
        {"(", HX_TOKEN_OPEN, 0},       {")", HX_TOKEN_CLOSE, 0},
    };
    const char *text = lexer->text + ret->at;
    for (size_t i = 0; i < sizeof signs / sizeof *signs; i++) {
        ret->n = strlen(signs[i].sign);
        if (strncmp(text, signs[i].sign, ret->n) == 0) {
            ret->kind = signs[i].kind;
            ret->op = signs[i].op;
            return NULL;
        }
    }
    size_t n = 1; /* a whole character */
    while (((unsigned char)text[n] & 0xc0) == 0x80 && n < 4)
        n++;
    const char *todo = *text == '&'   ? "write: and"
                       : *text == '|' ? "write: or"
                       : *text == '!' ? "write: not"
                                      : "conditions are like: bytes > 1K and type ~ 'std::'";
    return hx_lexer_error(lexer, ret->at, n, todo, "\"%.*s\" is no word of a filter", (int)n, text);
}

hx_error *hx_lexer_next(struct hx_lexer *lexer, struct hx_token *ret)
{
    const char *text = lexer->text;
    while (text[lexer->at] && strchr(" \t\r\n\f\v", text[lexer->at]))
        lexer->at++;
    *ret = (struct hx_token){.kind = HX_TOKEN_END, .at = lexer->at};
    char c = text[lexer->at];
    hx_error *err = NULL;
    if (begins_name(c))
        lex_name(text, ret);
    else if (begins_number(text + lexer->at))
        err = lex_number(lexer, ret);
    else if (c == '\'' || c == '"')
        err = lex_string(lexer, ret);
    else if (c)
        err = read_sign(lexer, ret);
    lexer->at += ret->n;
    return err;
}
