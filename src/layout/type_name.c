/* type_name.c - shortens names of C++ types and variables.
 *
 * One pass with a stack of open brackets: what stands in a bracket has been shortened when it is
 * closed, so that a template is rewritten from the texts of its arguments.
 */
#include "layout/type_name.h"

#include <ctype.h>
#include <string.h>

#define NAME_MAX_LENGTH 8192 /* longer ones stay as they are */
#define DEPTH_MAX       64   /* brackets in brackets; the same */
#define ARGS_MAX        64   /* arguments that are looked at; those behind them stay */

struct argument {
    size_t begin, end; /* in the text */
};

struct bracket {
    char close;
    size_t name;          /* where the template's name begins */
    size_t n_args;        /* with the open one */
    struct argument *arg; /* of the parser's, from here on */
};

struct parser {
    struct hx_text out;
    struct bracket open[DEPTH_MAX];
    size_t depth;
    struct argument arg[DEPTH_MAX + ARGS_MAX];
    size_t n_args;
};

/* A piece of the text so far. */
struct piece {
    const char *s;
    size_t n;
};

static struct piece piece(const struct parser *p, size_t begin, size_t end)
{
    return (struct piece){hx_text_str(&p->out) + begin, end - begin};
}

static bool piece_is(struct piece a, const char *word)
{
    return a.n == strlen(word) && memcmp(a.s, word, a.n) == 0;
}

static bool piece_begins(struct piece a, const char *word)
{
    return a.n >= strlen(word) && memcmp(a.s, word, strlen(word)) == 0;
}

/* Is it `template<of>`? */
static bool is_template_of(struct piece a, const char *template, struct piece of)
{
    size_t n = strlen(template);
    return piece_begins(a, template) && a.n == n + of.n + 2 && a.s[n] == '<' &&
           a.s[a.n - 1] == '>' && memcmp(a.s + n + 1, of.s, of.n) == 0;
}

/* Would the argument be that one, had it been left out? */
static bool is_default(struct piece name, struct piece first, struct piece a)
{
    static const char *const helpers[] = {"std::char_traits", "std::less", "std::equal_to",
                                          "std::hash", "std::default_delete"};
    if (piece_begins(a, "std::allocator<") || piece_begins(a, "(__gnu_cxx::_Lock_policy)"))
        return true;
    for (size_t i = 0; i < sizeof helpers / sizeof *helpers; i++)
        if (is_template_of(a, helpers[i], first))
            return true;
    if (piece_is(name, "std::priority_queue"))
        return is_template_of(a, "std::vector", first);
    return (piece_is(name, "std::stack") || piece_is(name, "std::queue")) &&
           is_template_of(a, "std::deque", first);
}

static void replace_piece(struct parser *p, size_t at, const struct hx_text *with)
{
    p->out.n = at;
    hx_text_puts(&p->out, hx_text_str(with));
    p->out.failed |= with->failed;
}

/* std::basic_string<char> is std::string to everybody. */
static bool put_basic(struct piece name, struct piece first, struct hx_text *ret)
{
    static const char basic[] = "std::basic_";
    static const struct {
        const char *type, *prefix;
    } of[] = {{"char", ""},
              {"wchar_t", "w"},
              {"char8_t", "u8"},
              {"char16_t", "u16"},
              {"char32_t", "u32"}};
    if (!piece_begins(name, basic))
        return false;
    for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
        if (!piece_is(first, of[i].type))
            continue;
        hx_text_putf(ret, "std::%s", of[i].prefix);
        hx_text_putn(ret, name.s + strlen(basic), name.n - strlen(basic));
        return true;
    }
    return false;
}

/* Blocks of the library that exist for something else's sake: that is said first. */
static bool put_library_block(struct piece name, struct piece first, struct hx_text *ret)
{
    static const struct {
        const char *name, *what;
    } wraps[] = {
        {"std::_Sp_counted_ptr_inplace", " (make_shared)"},
        {"std::__shared_ptr_emplace", " (make_shared)"},
        {"std::_Sp_counted_ptr", " (shared_ptr count)"},
        {"std::_Sp_counted_deleter", " (shared_ptr count)"},
        {"std::__shared_ptr_pointer", " (shared_ptr count)"},
        {"boost::detail::sp_counted_impl_p", " (shared_ptr count)"},
        {"boost::detail::sp_counted_impl_pd", " (shared_ptr count)"},
        {"std::thread::_State_impl", " (std::thread)"},
        {"std::thread::_Invoker", ""},
        {"std::__future_base::_Task_state", " (std::packaged_task)"},
        {"std::__future_base::_Async_state_impl", " (std::async)"},
        {"std::__future_base::_Deferred_state", " (std::async, deferred)"},
        {"std::__future_base::_Result", " (result of a future)"},
    };
    for (size_t i = 0; i < sizeof wraps / sizeof *wraps; i++) {
        if (!piece_is(name, wraps[i].name))
            continue;
        if (strncmp(wraps[i].what, " (shared_ptr c", 14) == 0 && first.n &&
            first.s[first.n - 1] == '*')
            first.n--;
        if (piece_is(name, "std::thread::_Invoker") && piece_begins(first, "std::tuple<") &&
            first.s[first.n - 1] == '>') {
            first.s += strlen("std::tuple<");
            first.n -= strlen("std::tuple<>");
        }
        hx_text_putn(ret, first.s, first.n);
        hx_text_puts(ret, wraps[i].what);
        return true;
    }
    return false;
}

/* The text ends with a template's arguments, without the bracket that closes them. */
static void close_template(struct parser *p, const struct bracket *bracket)
{
    const struct argument *arg = bracket->arg;
    struct piece name = piece(p, bracket->name, arg[0].begin - 1);
    struct piece first = piece(p, arg[0].begin, arg[0].end);
    struct hx_text text = {0};
    size_t n = bracket->n_args;
    if (piece_begins(name, "std::"))
        while (n > 1 && is_default(name, first, piece(p, arg[n - 1].begin, arg[n - 1].end)))
            n--;
    p->out.n = arg[n - 1].end;
    if (first.n &&
        (put_library_block(name, first, &text) || (n == 1 && put_basic(name, first, &text))))
        replace_piece(p, bracket->name, &text);
    else
        hx_text_putc(&p->out, '>');
    hx_text_free(&text);
}

static bool is_name(char c)
{
    return isalnum((unsigned char)c) || c == '_' || c == ':' || c == '$';
}

static bool open_bracket(struct parser *p, char c)
{
    size_t name = p->out.n;
    if (p->depth == DEPTH_MAX || p->n_args >= DEPTH_MAX + ARGS_MAX)
        return false;
    while (name && is_name(p->out.s[name - 1]))
        name--;
    hx_text_putc(&p->out, c);
    struct argument *arg = &p->arg[p->n_args++];
    arg->begin = arg->end = p->out.n;
    p->open[p->depth++] = (struct bracket){c == '<'   ? '>'
                                           : c == '(' ? ')'
                                           : c == '[' ? ']'
                                                      : '}',
                                           name, 1, arg};
    return true;
}

/* Without blanks at its end. */
static void end_argument(struct parser *p, struct bracket *bracket)
{
    struct argument *arg = &bracket->arg[bracket->n_args - 1];
    arg->end = p->out.n;
    while (arg->end > arg->begin && p->out.s[arg->end - 1] == ' ')
        arg->end--;
}

static bool close_bracket(struct parser *p, char c)
{
    struct bracket *bracket = p->depth ? &p->open[p->depth - 1] : NULL;
    if (!bracket || bracket->close != c)
        return false;
    end_argument(p, bracket);
    p->depth--;
    p->n_args = (size_t)(bracket->arg - p->arg);
    if (c == '>')
        close_template(p, bracket);
    else
        hx_text_putc(&p->out, c);
    return true;
}

/* Behind a comma of a template's arguments another one begins, behind one blank. */
static bool next_argument(struct parser *p)
{
    struct bracket *bracket = p->depth ? &p->open[p->depth - 1] : NULL;
    if (bracket && bracket->close == '>') {
        if (p->n_args >= DEPTH_MAX + ARGS_MAX)
            return false;
        end_argument(p, bracket);
        hx_text_puts(&p->out, ", ");
        bracket->n_args++;
        p->arg[p->n_args++] = (struct argument){p->out.n, p->out.n};
    } else {
        hx_text_puts(&p->out, ", ");
    }
    return true;
}

/* How long a scope is that tells versions of the library apart ("std::__cxx11::"); 0: none is. */
static size_t version_length(const struct parser *p, const char *s)
{
    static const char *const versions[] = {"__cxx11::", "__1::", "_V2::"};
    if (p->out.n < 5 || memcmp(p->out.s + p->out.n - 5, "std::", 5) != 0)
        return 0;
    for (size_t i = 0; i < sizeof versions / sizeof *versions; i++)
        if (strncmp(s, versions[i], strlen(versions[i])) == 0)
            return strlen(versions[i]);
    return 0;
}

/* False: its brackets do not match, or there is too much of it. */
static bool parse_type_name(struct parser *p, const char *s)
{
    for (; *s && !p->out.failed; s++) {
        size_t skip = *s == '_' ? version_length(p, s) : 0;
        bool good = true;
        if (skip)
            s += skip - 1;
        else if (*s == '-' && s[1] == '>')
            hx_text_putn(&p->out, s++, 2);
        else if (*s && strchr("<([{", *s))
            good = open_bracket(p, *s);
        else if (strchr(">)]}", *s))
            good = close_bracket(p, *s);
        else if (*s == ',') {
            good = next_argument(p);
            s += strspn(s + 1, " ");
        } else
            hx_text_putc(&p->out, *s);
        if (!good)
            return false;
    }
    return !p->depth;
}

void hx_text_named_scopes(struct hx_text *ret, const char *name)
{
    static const char none[] = "(anonymous namespace)::";
    for (const char *at; (at = strstr(name, none)); name = at + strlen(none))
        hx_text_putn(ret, name, (size_t)(at - name));
    hx_text_puts(ret, name);
}

void hx_text_type(struct hx_text *text, const char *name)
{
    struct parser p = {.depth = 0};
    struct hx_text named = {0};
    hx_text_named_scopes(&named, name);
    name = hx_text_str(&named);
    /* In the name of an operator brackets are none. */
    bool plain = !strchr(name, '<') || strstr(name, "operator") || strlen(name) > NAME_MAX_LENGTH;
    bool good = !plain && parse_type_name(&p, name) && p.out.n;
    hx_text_puts(text, good ? hx_text_str(&p.out) : name);
    text->failed |= p.out.failed || named.failed;
    hx_text_free(&p.out);
    hx_text_free(&named);
}

void hx_text_type_shown(struct hx_text *text, const char *name, bool ascii)
{
    struct hx_text type = {0};
    hx_text_type(&type, name);
    hx_text_escape(text, hx_text_str(&type), type.n, ascii);
    text->failed |= type.failed;
    hx_text_free(&type);
}
