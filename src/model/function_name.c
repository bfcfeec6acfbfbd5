/* function_name.c - reads demangled names of C++ and Rust: brackets, operators, scopes.
 *
 * Brackets of all kinds are counted together; a name where they do not match is left alone.
 */
#include "model/function_name.h"

#include "base/cleanup.h"

#include <string.h>

#define NAME_LONG   ((size_t)64) /* up to here a name stays whole */
#define ARGS_LONG   ((size_t)24) /* the same of template arguments, without the brackets */
#define FIRST_LONG  ((size_t)32) /* and of the first of them */
#define PARAMS_LONG ((size_t)48) /* and of parameters, when they have been shortened */
#define NO_END      SIZE_MAX

static bool is_function_name_char(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '$' || (unsigned char)c >= 0x80;
}

static bool name_is(const char *s, size_t n, const char *word)
{
    return n == strlen(word) && memcmp(s, word, n) == 0;
}

static bool ends_in(const char *s, size_t n, const char *word)
{
    size_t len = strlen(word);
    return n >= len && memcmp(s + n - len, word, len) == 0;
}

/* How long the name of an operator is that begins at `at`; 0: none does. */
static size_t operator_length(const char *s, size_t at)
{
    static const char word[] = "operator";
    static const char *const bracketed[] = {"()", "[]", "<=>", "<<=", ">>=", "->*", "<<",
                                            ">>", "<=", ">=",  "->",  "<",   ">"};
    size_t n = sizeof word - 1;
    if (strncmp(s + at, word, n) != 0 || (at && is_function_name_char(s[at - 1])))
        return 0;
    for (size_t i = 0; i < sizeof bracketed / sizeof *bracketed; i++)
        if (strncmp(s + at + n, bracketed[i], strlen(bracketed[i])) == 0)
            return n + strlen(bracketed[i]);
    size_t symbols = strspn(s + at + n, "+-*/%^&|~!=,");
    return symbols ? n + symbols : 0;
}

/* What is one thing for who looks for brackets: an operator's name, "->", or one character. */
static size_t token(const char *s, size_t at)
{
    size_t n = s[at] == 'o' ? operator_length(s, at) : 0;
    return n ? n : s[at] == '-' && s[at + 1] == '>' ? 2 : 1;
}

static int template_depth(const char *s, size_t at, size_t n)
{
    return n > 1 || !s[at] ? 0 : memchr("<({[", s[at], 4) ? 1 : memchr(">)}]", s[at], 4) ? -1 : 0;
}

/* Behind the bracket that closes the one at `at`. */
static size_t group_end(const char *s, size_t at)
{
    size_t depth = 0;
    while (s[at]) {
        size_t n = token(s, at);
        int change = template_depth(s, at, n);
        depth += (size_t)change;
        at += n;
        if (change < 0 && depth == 0)
            return at;
    }
    return NO_END;
}

/* Where the first of several template arguments ends; `end` when it is the only one. */
static size_t first_end(const char *s, size_t at, size_t end)
{
    size_t depth = 0;
    for (size_t n; at < end; at += n) {
        n = token(s, at);
        if (s[at] == ',' && depth == 0)
            return at;
        depth += (size_t)template_depth(s, at, n);
    }
    return end;
}

/* Template arguments from the bracket at `at` to `end`. */
static void put_arguments(struct hx_text *text, const char *s, size_t at, size_t end)
{
    static const char others[] = ", ...";
    size_t all = end - at - 2, first = first_end(s, at + 1, end - 1) - (at + 1);
    if (first > FIRST_LONG || first == all)
        first = 0;
    if (all <= ARGS_LONG || first + sizeof others - 1 >= all) {
        hx_text_putn(text, s + at, end - at);
        return;
    }
    hx_text_putn(text, s + at, 1 + first);
    hx_text_puts(text, first ? others : others + 2);
    hx_text_putc(text, '>');
}

/* Is the bracket at `at` that of template arguments? In Rust a name can begin with one. */
static bool has_arguments(const char *s, size_t at)
{
    if (s[at] != '<' || !at)
        return false;
    bool apart = s[at - 1] == ' ' && at > 1 && strchr("<>=", s[at - 2]); /* operator<< <T> */
    return is_function_name_char(s[at - 1]) || strchr(":+-*/%^&|~!=,)]", s[at - 1]) || apart;
}

static void take_back(struct hx_text *text, size_t n)
{
    if (text->failed || text->n <= n)
        return;
    text->n = n;
    text->s[n] = 0;
}

/* Does the space at `at` stand between what a function returns and its name? */
static bool ends_result(const char *s, size_t at)
{
    bool conversion = at >= 8 && strncmp(s + at - 8, "operator", 8) == 0;
    return s[at] == ' ' && s[0] != '<' && s[at + 1] != '<' && s[at + 1] != '[' && !conversion;
}

struct shortening {
    size_t before;    /* what the text had */
    size_t depth;     /* of parentheses and braces */
    size_t params;    /* where the outermost ones began in the text */
    bool named, lost; /* behind the name, or in one that has spaces; brackets do not match */
};

static void put_token(struct hx_text *text, struct shortening *at, const char *s, size_t n)
{
    bool opens = n == 1 && (*s == '(' || *s == '{'), closes = n == 1 && (*s == ')' || *s == '}');
    if (opens && at->depth++ == 0)
        at->params = text->n;
    at->named |= n >= 8 || (opens && *s == '(' && strncmp(s, "(anonymous", 10) != 0);
    hx_text_putn(text, s, n);
    at->lost |= closes && at->depth == 0;
    if (closes && !at->lost && --at->depth == 0 && *s == ')' &&
        text->n - at->params > PARAMS_LONG) {
        take_back(text, at->params);
        hx_text_puts(text, "(...)");
    }
}

static bool shorten(struct hx_text *text, const char *name)
{
    struct shortening state = {.before = text->n};
    bool cut = ends_in(name, strlen(name), "..."); /* then brackets may stay open */
    for (size_t at = 0, step; name[at] && !state.lost; at += step) {
        step = token(name, at);
        if (has_arguments(name, at)) {
            size_t end = group_end(name, at);
            if (end == NO_END && state.depth)
                break;
            if (end == NO_END) {
                hx_text_puts(text, "<...>");
                return cut;
            }
            put_arguments(text, name, at, end);
            step = end - at;
        } else if (name[at] == ' ' && state.depth == 0 && !state.named && ends_result(name, at)) {
            take_back(text, state.before);
        } else {
            state.named |= name[at] == ' ' && state.depth == 0;
            put_token(text, &state, name + at, step);
        }
    }
    if (cut && state.depth) {
        take_back(text, state.params);
        hx_text_puts(text, "(...)");
    }
    return !state.lost && (cut || state.depth == 0);
}

/* What everybody calls by another name than the library does. */
static void put_common(struct hx_text *text, const char *name)
{
    static const char *const strings[] = {
        "std::__cxx11::basic_string<char, std::char_traits<char>, std::allocator<char> >",
        "std::basic_string<char, std::char_traits<char>, std::allocator<char> >",
        "std::__1::basic_string<char, std::__1::char_traits<char>, std::__1::allocator<char> >",
    };
    for (const char *from = name;; name++) {
        size_t i = 0, n_strings = sizeof strings / sizeof *strings;
        while (*name == 's' && i < n_strings && strncmp(name, strings[i], strlen(strings[i])) != 0)
            i++;
        bool found = *name == 's' && i < n_strings;
        if (*name && !found)
            continue;
        hx_text_putn(text, from, (size_t)(name - from));
        if (!*name)
            return;
        hx_text_puts(text, "std::string");
        from = name + strlen(strings[i]);
        from += *from == ' ' && from[1] == '>';
        name = from - 1;
    }
}

void hx_function_name_short(struct hx_text *text, const char *name)
{
    size_t before = text->n;
    HX_CLEANUP(hx_text_free) struct hx_text common = {0};
    if (strlen(name) > NAME_LONG)
        put_common(&common, name);
    else
        hx_text_puts(&common, name);
    text->failed |= common.failed;
    if (common.n > NAME_LONG && shorten(text, hx_text_str(&common)))
        return;
    take_back(text, before);
    hx_text_puts(text, hx_text_str(&common));
}

/* --- what is the library's own ------------------------------------------------ */

/* A scope of a function, or its own name: no program may use names that begin so. */
static bool is_internal_scope(const char *s, size_t n, size_t number, bool more)
{
    size_t base = 0;
    while (base < n && s[base] != '<')
        base++;
    if (n && *s == '~') {
        s++;
        base--;
    }
    bool reserved = base > 1 && s[0] == '_' && (s[1] == '_' || (s[1] >= 'A' && s[1] <= 'Z'));
    bool space = number == 1 && more && base == n && reserved && s[1] == '_'; /* std::__cxx11:: */
    return (reserved && !space) || ends_in(s, base, "allocator") ||
           name_is(s, base, "allocator_traits");
}

static bool is_rust_internal(const char *name)
{
    static const char *const begin[] = {"alloc::alloc::",
                                        "alloc::raw_vec::",
                                        "<alloc::alloc::",
                                        "<alloc::raw_vec::",
                                        "__rust_",
                                        "__rdl_",
                                        "__rg_"};
    for (size_t i = 0; i < sizeof begin / sizeof *begin; i++)
        if (strncmp(name, begin[i], strlen(begin[i])) == 0)
            return true;
    return false;
}

bool hx_function_name_internal(const char *name)
{
    size_t depth = 0, scope = 0, number = 0;
    bool library = false, internal = false;
    if (is_rust_internal(name))
        return true;
    for (size_t at = 0, step;; at += step) {
        bool end = !name[at] ||
                   (name[at] == '(' && depth == 0 && strncmp(name + at, "(anonymous", 10) != 0);
        bool next = !end && depth == 0 && strncmp(name + at, "::", 2) == 0;
        step = end ? 0 : next ? 2 : token(name, at);
        if (end || next) {
            const char *s = name + scope;
            size_t n = at - scope;
            if (number == 0)
                library = name_is(s, n, "std") || name_is(s, n, "__gnu_cxx");
            else
                internal |= is_internal_scope(s, n, number, next);
            if (end)
                return library && internal;
            scope = at + step;
            number++;
        } else if (name[at] == ' ' && depth == 0) { /* what it returns stands before */
            scope = at + 1;
            number = 0;
            internal = false;
        } else {
            depth += (size_t)template_depth(name, at, step);
        }
    }
}

bool hx_is_runtime_module(const char *name)
{
    static const char *const begin[] = {"libc.so",   "libc-2.",      "libc.musl", "libpthread",
                                        "libm.so",   "libm-2.",      "libgcc_s",  "libstdc++.so",
                                        "libc++.so", "libc++abi.so", "ld-linux",  "ld-musl"};
    for (size_t i = 0; i < sizeof begin / sizeof *begin; i++)
        if (strncmp(name, begin[i], strlen(begin[i])) == 0)
            return true;
    return false;
}

/* --- stacks ---------------------------------------------------------------------- */

/* Bytes of a function without its parameters. */
static size_t function_bytes(const char *label, size_t n)
{
    static const char anonymous[] = "(anonymous namespace)", call[] = "operator()";
    size_t depth = 0;
    for (size_t i = 0; i < n; i++) {
        if (strncmp(label + i, anonymous, sizeof anonymous - 1) == 0)
            i += sizeof anonymous - 2;
        else if (strncmp(label + i, call, sizeof call - 1) == 0)
            i += sizeof call - 2;
        else if (label[i] == '<')
            depth++;
        else if (label[i] == '>' && depth)
            depth--;
        else if (label[i] == '(' && i && !depth)
            return i;
    }
    return n;
}

void hx_function_name_maker(struct hx_text *text, const char *label)
{
    if (label[0] == '#') /* the number of its cost-centre stack */
        label += strspn(label + 1, "0123456789") + 1;
    label += *label == ' ';
    struct hx_text name = {0};
    for (const char *at = label; at && strcmp(at, "...") != 0;) {
        const char *end = strstr(at, " < ");
        size_t n = end ? (size_t)(end - at) : strlen(at);
        hx_text_clear(&name);
        hx_text_putn(&name, at, n);
        if (!hx_function_name_internal(hx_text_str(&name))) {
            hx_text_puts(text, " from ");
            hx_text_putn(text, at, function_bytes(at, n));
            break;
        }
        at = end ? end + strlen(" < ") : NULL;
    }
    text->failed |= name.failed;
    hx_text_free(&name);
}
