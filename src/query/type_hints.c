/* type_hints.c - lines about fields whose types do not say what they lead to. */
#include "query/type_hints.h"

#include "base/cleanup.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

/* --- names --------------------------------------------------------------------- */

static bool is_name_char(char c)
{
    return isalnum((unsigned char)c) || c == '_';
}

/* Words that make up an integer type are put into one order: "long unsigned int" is what others
 * call "unsigned long". */
struct integer {
    unsigned words, longs;
    bool is_unsigned, is_signed, is_short, is_char;
};

static bool take_integer_word(struct integer *integer, const char *word, size_t n)
{
    static const char *const words[] = {"unsigned", "signed", "short", "char", "long", "int"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        if (strlen(words[i]) != n || memcmp(words[i], word, n) != 0)
            continue;
        integer->is_unsigned |= i == 0;
        integer->is_signed |= i == 1;
        integer->is_short |= i == 2;
        integer->is_char |= i == 3;
        integer->longs += i == 4;
        integer->words++;
        return true;
    }
    return false;
}

static void put_word(struct hx_text *text, const char *word, size_t n)
{
    if (text->n && is_name_char(text->s[text->n - 1]))
        hx_text_putc(text, ' ');
    hx_text_putn(text, word, n);
}

static void put_integer(struct hx_text *text, struct integer *integer)
{
    if (integer->is_unsigned)
        put_word(text, "unsigned", 8);
    if (integer->is_signed && integer->is_char)
        put_word(text, "signed", 6);
    for (unsigned i = 0; i < integer->longs && i < 2; i++)
        put_word(text, "long", 4);
    if (integer->is_short)
        put_word(text, "short", 5);
    else if (integer->is_char)
        put_word(text, "char", 4);
    else if (integer->words && !integer->longs)
        put_word(text, "int", 3);
    *integer = (struct integer){0};
}

/* "5ul" is "5", and so is "(ns::Kind)5": where it ends, 0: none stands here. */
static size_t skip_cast(const char *name, size_t n, const struct hx_text *text)
{
    const char last = text->n ? text->s[text->n - 1] : 0;
    if (*name != '(' || (last != '<' && last != ','))
        return 0;
    const char *end = memchr(name, ')', n);
    const size_t at = end ? (size_t)(end - name) + 1 : n;
    return at < n && (isdigit((unsigned char)name[at]) || name[at] == '-') ? at : 0;
}

/* One compiler has the name of this enumerator in names of types, others its value. */
static bool put_policy(struct hx_text *text, const char *word, size_t n)
{
    static const char policy[] = "_S_atomic", before[] = "__gnu_cxx::";
    const size_t len = sizeof before - 1;
    if (n != sizeof policy - 1 || memcmp(word, policy, n) != 0 || text->n < len ||
        memcmp(text->s + text->n - len, before, len) != 0)
        return false;
    text->n -= len;
    hx_text_putc(text, '2');
    return true;
}

void hx_type_hint_plain(struct hx_text *text, const char *name, size_t n)
{
    struct integer integer = {0};
    for (size_t i = 0, end; i < n; i = end) {
        end = i + 1;
        if (name[i] == ' ' || name[i] == '\t' || (end = i + skip_cast(name + i, n - i, text)) > i)
            continue;
        for (end = i; end < n && is_name_char(name[end]);)
            end++;
        size_t length = end - i;
        if (length && take_integer_word(&integer, name + i, length))
            continue;
        if ((length == 5 && memcmp(name + i, "const", 5) == 0) ||
            (length == 8 && memcmp(name + i, "volatile", 8) == 0))
            continue;
        put_integer(text, &integer);
        while (length > 1 && isdigit((unsigned char)name[i]) &&
               strchr("uUlL", name[i + length - 1]))
            length--;
        if (!length)
            hx_text_putc(text, name[end++]);
        else if (!put_policy(text, name + i, length))
            put_word(text, name + i, length);
    }
    put_integer(text, &integer);
}

/* Skips to the end of a template argument. */
static const char *argument_end(const char *at)
{
    for (unsigned depth = 0; *at; at++) {
        if (*at == '<' || *at == '(' || *at == '[')
            depth++;
        else if (depth && (*at == '>' || *at == ')' || *at == ']'))
            depth--;
        else if (!depth && (*at == ',' || *at == '>'))
            break;
    }
    return at;
}

const char *hx_type_argument(const char *name, unsigned n, size_t *ret_n)
{
    const char *at = strchr(name, '<');
    while (at && *at && n--) {
        const char *begin = at + 1;
        at = argument_end(begin);
        if (!n) {
            *ret_n = (size_t)(at - begin);
            return *at ? begin : NULL;
        }
        if (*at != ',')
            break;
    }
    return NULL;
}

bool hx_type_hint_target(const struct hx_type_hint *hint, const char *plain, struct hx_text *text)
{
    for (const char *at = hint->target; *at; at++) {
        size_t n;
        if (*at != '$') {
            hx_text_putc(text, *at);
            continue;
        }
        const char *argument = hx_type_argument(plain, (unsigned)(*++at - '0'), &n);
        if (!argument)
            return false;
        hx_text_putn(text, argument, n);
    }
    return !text->failed;
}

/* --- lines --------------------------------------------------------------------- */

/* A line that is being read. */
struct hint_line {
    const char *what, *begin, *end;
    unsigned number;
    bool within;
};

static hx_error *bad_hint(const struct hint_line *line, const char *at, const char *why)
{
    return hx_error_new(HX_E_USAGE, line->what, "[PROGRAM:] TYPE.FIELD[, FIELD...] -> TARGET",
                        "line %u, column %zu: %s", line->number, (size_t)(at - line->begin) + 1,
                        why);
}

static void trim(const char **begin, const char **end)
{
    while (*begin < *end && isspace((unsigned char)**begin))
        ++*begin;
    while (*begin < *end && isspace((unsigned char)(*end)[-1]))
        --*end;
}

static bool is_path(const char *at, const char *end)
{
    bool name = false;
    for (; at < end; at++) {
        if (!is_name_char(*at) && (*at != '.' || !name))
            return false;
        name = *at != '.';
    }
    return name;
}

static hx_error *add_hint(const struct hint_line *line, const char *program, const char *type,
                          const char *type_end, const char *field, const char *field_end,
                          const char *target, hx_type_hints *hints)
{
    struct hx_type_hint hint = {.within = line->within};
    HX_CLEANUP(hx_text_free) struct hx_text plain = {0};
    HX_NEED(hx_vec_reserve(hints, hints->n + 1));
    trim(&field, &field_end);
    if (!is_path(field, field_end))
        return bad_hint(line, field, "a field is a name, or several with dots between them");
    hx_type_hint_plain(&plain, type, (size_t)(type_end - type));
    HX_NEED(!plain.failed);
    size_t at;
    hx_error *err = hx_glob_create(hx_text_str(&plain), plain.n, &at, &hint.type);
    if (err)
        return hx_error_free(err), bad_hint(line, type + at, "this is no pattern of a type");
    hx_text_clear(&plain);
    hx_type_hint_plain(&plain, target, (size_t)(line->end - target));
    hint.program = program ? strdup(program) : NULL;
    hint.field = strndup(field, (size_t)(field_end - field));
    hint.target = strdup(hx_text_str(&plain));
    hints->v[hints->n++] = hint;
    HX_NEED(hint.field && hint.target && !plain.failed && (hint.program || !program));
    return NULL;
}

/* The dot behind the name of a type: not within <> or (), and not of "::". */
static const char *find_dot(const char *at, const char *end)
{
    int depth = 0;
    for (; at < end; at++) {
        depth += (*at == '<' || *at == '(') - (*at == '>' || *at == ')');
        if (!depth && *at == '.')
            return at;
    }
    return NULL;
}

/* One of the types that a target names. */
static hx_error *check_name(const struct hint_line *line, const char *at, const char *end,
                            unsigned *inside)
{
    const char *begin = at;
    trim(&at, &end);
    const bool within = at < end && *at == '+';
    if (within && line->within)
        return bad_hint(line, at, "+ is for what a field points into, and = for what lies in it");
    if (within && ++*inside > 1)
        return bad_hint(line, at, "one type can stand behind +");
    at += within;
    if (at == end)
        return bad_hint(line, within ? at : begin, "a type is missing");
    for (; at < end; at++) {
        if (*at == '$' && (at + 1 == end || at[1] < '1' || at[1] > '9'))
            return bad_hint(line, at, "behind $ stands the number of a template argument, 1 to 9");
        if (*at == '+')
            return bad_hint(line, at, "+ stands in front of a type");
        if (end - at > 3 && memcmp(at, "...", 3) == 0)
            return bad_hint(line, at, "... stands at the end of a type");
    }
    return NULL;
}

static hx_error *check_target(const struct hint_line *line, const char *target)
{
    unsigned inside = 0;
    if (target == line->end)
        return bad_hint(line, target, "a type is missing at the end");
    for (const char *at = target, *bar;; at = bar + 1) {
        bar = memchr(at, '|', (size_t)(line->end - at));
        HX_TRY(check_name(line, at, bar ? bar : line->end, &inside));
        if (!bar)
            return NULL;
        if (line->within)
            return bad_hint(line, bar, "one type lies in a field: no | behind =");
    }
}

static hx_error *parse_line(struct hint_line *line, hx_type_hints *hints)
{
    const char *type = line->begin, *arrow = NULL;
    HX_FREE char *program = NULL;
    const char *comment = memchr(type, '#', (size_t)(line->end - type));
    line->end = comment ? comment : line->end;
    trim(&type, &line->end);
    if (type == line->end)
        return NULL;
    for (const char *at = type; at + 1 < line->end && !arrow; at++)
        arrow = at[0] == '-' && at[1] == '>' ? at : NULL;
    line->within = !arrow;
    if (!arrow)
        arrow = memchr(type, '=', (size_t)(line->end - type));
    if (!arrow)
        return bad_hint(line, type, "-> or = is missing behind TYPE.FIELD");
    const char *colon = memchr(type, ':', (size_t)(arrow - type));
    if (colon && colon[1] != ':') {
        HX_NEED(program = strndup(type, (size_t)(colon - type)));
        type = colon + 1;
    }
    const char *target = arrow + (line->within ? 1 : 2), *end = arrow, *dot = find_dot(type, arrow),
               *none = line->end;
    trim(&target, &none);
    HX_TRY(check_target(line, target));
    trim(&type, &end);
    if (!dot || dot == type)
        return bad_hint(line, type, "a type and one of its fields belong here: TYPE.FIELD");
    for (const char *field = dot + 1, *next; field <= end; field = next + 1) {
        next = memchr(field, ',', (size_t)(end - field));
        next = next ? next : end;
        HX_TRY(add_hint(line, program, type, dot, field, next, target, hints));
    }
    return NULL;
}

hx_error *hx_type_hints_parse(const char *what, const char *text, size_t n, hx_type_hints *hints)
{
    struct hint_line line = {.what = what};
    for (size_t at = 0; at < n;) {
        const char *newline = memchr(text + at, '\n', n - at);
        line.begin = text + at;
        line.end = newline ? newline : text + n;
        line.number++;
        at = (size_t)(line.end - text) + 1;
        HX_TRY(parse_line(&line, hints));
    }
    return NULL;
}

static const char builtin[] =
#include "query/builtin_types.inc"
    ;

hx_error *hx_type_hints_builtin(hx_type_hints *hints)
{
    return hx_type_hints_parse("types.d", builtin, sizeof builtin - 1, hints);
}

void hx_type_hint_deinit(struct hx_type_hint *hint)
{
    free(hint->program);
    free(hint->field);
    free(hint->target);
    hx_glob_destroy(hint->type);
}

void hx_type_hints_free(hx_type_hints *hints)
{
    for (size_t i = 0; i < hints->n; i++)
        hx_type_hint_deinit(&hints->v[i]);
    hx_vec_free(hints);
}
