/* function_name_bare.c - of a demangled name of C++ the scopes and the name alone. */
#include "model/function_name.h"

#include <ctype.h>
#include <string.h>

static bool is_bare_name_char(char c)
{
    return isalnum((unsigned char)c) || c == '_' || c == '$';
}

static bool name_begins(const char *s, const char *end, const char *with)
{
    size_t n = strlen(with);
    return (size_t)(end - s) >= n && memcmp(s, with, n) == 0;
}

/* Behind the bracket that belongs to the one at s; the end where there is none. */
static const char *skip_brackets(const char *s, const char *end, char open, char close)
{
    int depth = 0;
    for (; s < end; s++) {
        if (*s == open)
            depth++;
        else if (*s == close && s[-1] != '-' && --depth == 0) /* no arrow */
            return s + 1;
    }
    return end;
}

/* Behind "operator" and what it names: its signs or the type that it makes. */
static const char *behind_operator(const char *s, const char *end)
{
    static const char *const signs[] = {
        "()", "[]", "<=>", "<<=", ">>=", "->*", "<<", ">>", "<=", ">=", "->", "++",   "--", "&&",
        "||", "==", "!=",  "+=",  "-=",  "*=",  "/=", "%=", "&=", "|=", "^=", "\"\"", "<",  ">",
        "+",  "-",  "*",   "/",   "%",   "&",   "|",  "^",  "~",  "!",  "=",  ","};
    s += strlen("operator");
    for (size_t i = 0; i < sizeof signs / sizeof *signs; i++)
        if (name_begins(s, end, signs[i]))
            return s + strlen(signs[i]);
    while (s < end && *s != '(' && *s != '<') /* new, delete, a type */
        s++;
    return s;
}

/* Only demangled C++ functions have parameters, and all of them have. */
void hx_function_name_bare(struct hx_text *text, const char *s, size_t n)
{
    static const char nameless[] = "(anonymous namespace)";
    const char *whole = s, *end = s + n;
    size_t begin = text->n;
    bool parameters = false;
    if (!memchr(s, '(', (size_t)(end - s)) || *s == '(') {
        if (!name_begins(s, end, nameless)) {
            hx_text_putn(text, s, (size_t)(end - s));
            return;
        }
    }
    while (s < end) {
        if (name_begins(s, end, nameless)) {
            hx_text_puts(text, nameless);
            s += strlen(nameless);
        } else if (name_begins(s, end, "operator") && (s == whole || !is_bare_name_char(s[-1])) &&
                   !(s + 8 < end && is_bare_name_char(s[8]))) {
            const char *next = behind_operator(s, end);
            hx_text_putn(text, s, (size_t)(next - s));
            s = next + name_begins(next, end, " <");
        } else if (name_begins(s, end, "__cxx11::")) {
            s += strlen("__cxx11::");
        } else if (*s == '<') {
            s = skip_brackets(s, end, '<', '>');
        } else if (*s == '(') {
            s = skip_brackets(s, end, '(', ')');
            parameters = text->n - begin != strlen("decltype") ||
                         memcmp(text->s + begin, "decltype", text->n - begin) != 0;
        } else if (*s == ' ' && parameters) {
            const char *scope = memmem(s, (size_t)(end - s), "::", 2);
            if (!scope) /* const, a clone */
                break;
            s = scope; /* something inside this function */
            parameters = false;
        } else if (*s == ' ') { /* that was the result */
            if (!text->failed)
                text->n = begin;
            s++;
        } else {
            if (!name_begins(s, end, "{lambda"))
                parameters &= *s != ':';
            hx_text_putc(text, *s++);
        }
    }
    if (!text->failed && text->n == begin)
        hx_text_putn(text, whole, (size_t)(end - whole));
    else if (!text->failed && text->s)
        text->s[text->n] = 0;
}
