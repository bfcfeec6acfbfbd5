/* cxxname.c - names of C++ variables without what nobody writes. */
#include "sym/cxxname.h"

#include "sym/demangle.h"

#include <string.h>

static const char unnamed[] = "(anonymous namespace)";

static const char *skip_prefix(const char *at, const char *word)
{
    size_t n = strlen(word);
    return strncmp(at, word, n) == 0 ? at + n : NULL;
}

static bool is_cxx_name_char(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '$' || (c & 0x80);
}

/* The end of a list in parentheses, NULL when it has none. */
static const char *behind_list(const char *at)
{
    for (size_t depth = 0; *at; at++) {
        depth += *at == '(';
        if (*at == ')' && --depth == 0)
            return at + 1;
    }
    return NULL;
}

/* What stands behind the parameters of a member function. */
static const char *behind_qualifiers(const char *at)
{
    static const char *const words[] = {" const", " volatile", " &&", " &"};
    size_t n = sizeof words / sizeof *words, i = 0;
    while (i < n) {
        const char *end = skip_prefix(at, words[i++]);
        if (end && !is_cxx_name_char(*end)) {
            at = end;
            i = 0;
        }
    }
    return at;
}

/* The next piece that is left out, NULL when what is at `at` counts. */
static const char *behind_unwritten(const char *at, bool parameters, bool inner)
{
    const char *end = skip_prefix(at, unnamed);
    if (end)
        return inner ? end + (skip_prefix(end, "::") ? 2 : 0) : NULL;
    if (*at == '[')
        return hx_behind_tag(at);
    if (*at == '(' && !parameters && (end = behind_list(at)))
        return behind_qualifiers(end);
    return NULL;
}

static void put_plain(struct hx_text *text, const char *name, bool parameters, bool inner)
{
    const char *at = skip_prefix(name, "::") ? name + 2 : name;
    while (*at) {
        const char *end = behind_unwritten(at, parameters, inner);
        if (end) {
            at = end;
            continue;
        }
        if ((end = skip_prefix(at, unnamed))) {
            hx_text_puts(text, unnamed);
            at = end;
            continue;
        }
        bool separates = text->n && is_cxx_name_char(text->s[text->n - 1]) &&
                         is_cxx_name_char(at[strspn(at, " ")]);
        if (*at != ' ' || separates)
            hx_text_putc(text, *at);
        at = *at == ')' ? behind_qualifiers(at + 1) : at + 1;
    }
}

/* Are there parentheses that are no namespace's? */
static bool has_list(const char *name)
{
    while ((name = strchr(name, '('))) {
        const char *end = skip_prefix(name, unnamed);
        if (!end)
            return true;
        name = end;
    }
    return false;
}

hx_error *hx_cxx_name_init(const char *name, struct hx_cxx_name *ret)
{
    *ret = (struct hx_cxx_name){.has_parameters = has_list(name),
                                .has_unnamed = strstr(name, unnamed) != NULL};
    put_plain(&ret->plain, name, ret->has_parameters, false);
    if (!ret->plain.failed)
        return NULL;
    hx_cxx_name_deinit(ret);
    return hx_error_nomem();
}

void hx_cxx_name_deinit(struct hx_cxx_name *name)
{
    hx_text_free(&name->plain);
    hx_text_free(&name->name);
    hx_text_free(&name->other);
}

/* A variable's own name stands in its mangled one as it is: saves most of the work. */
static bool is_possible(const struct hx_text *plain, const char *symbol)
{
    size_t from = plain->n;
    while (from && is_cxx_name_char(plain->s[from - 1]))
        from--;
    return strstr(symbol, hx_text_str(plain) + from) != NULL;
}

bool hx_cxx_name_is(struct hx_cxx_name *name, const char *symbol, bool inner)
{
    if (!symbol || !skip_prefix(symbol, "_Z") || !name->plain.n ||
        !is_possible(&name->plain, symbol))
        return false;
    hx_text_clear(&name->name);
    hx_text_clear(&name->other);
    /* without what a compiler marks copies with (".lto_priv.0") */
    hx_demangle_names(&name->name, symbol, strcspn(symbol, "."));
    put_plain(&name->other, hx_text_str(&name->name), name->has_parameters,
              inner && !name->has_unnamed);
    return strcmp(hx_text_str(&name->other), name->plain.s) == 0;
}
