/* expression.c - the words of --root. */
#include "traverse/expression.h"

#include "base/cleanup.h"
#include "query/pattern.h"
#include "sym/demangle.h"
#include "traverse/named.h"

#include <stdlib.h>
#include <string.h>

/* The rest of `text` behind a word; NULL when it does not begin with it. */
static const char *skip_word(const char *text, const char *word)
{
    size_t n = strlen(word);
    return strncmp(text, word, n) == 0 ? text + n : NULL;
}

static hx_error *expression_error(const char *expr, const char *todo, const char *why)
{
    return hx_error_new(HX_E_USAGE, expr, todo, "%s", why);
}

static hx_error *parse_number(const char *expr, const char *digits, const char *why, uint64_t *ret)
{
    static const char todo[] = "write thread:TID, 0xADDRESS or *0xADDRESS";
    return hx_parse_u64(digits, ret) ? NULL : expression_error(expr, todo, why);
}

hx_error *hx_expression_parse(const char *expr, struct hx_expression *ret)
{
    const char *rest;
    *ret = (struct hx_expression){.form = HX_FORM_SYMBOL, .text = expr};
    if ((rest = skip_word(expr, "thread:"))) {
        ret->form = HX_FORM_THREAD;
        return parse_number(expr, rest, "no thread's number behind \"thread:\"", &ret->number);
    }
    if ((rest = skip_word(expr, "module:"))) {
        ret->form = HX_FORM_MODULE;
        ret->text = rest;
        return *rest ? NULL
                     : expression_error(expr, "write module:NAME",
                                        "no module's file name behind \"module:\"");
    }
    if ((rest = skip_word(expr, "type:"))) {
        ret->form = HX_FORM_TYPE;
        ret->text = rest;
        return *rest ? hx_pattern_check(rest)
                     : expression_error(expr, "write type:PATTERN", "no type behind \"type:\"");
    }
    if ((rest = skip_word(expr, "frame:"))) {
        ret->form = HX_FORM_FRAME;
        ret->text = rest;
        return *rest ? NULL
                     : expression_error(expr, "write frame:FUNCTION",
                                        "no function behind \"frame:\"");
    }
    if (*expr == '*') {
        ret->form = HX_FORM_POINTER;
        return parse_number(expr, expr + 1, "no address behind \"*\"", &ret->number);
    }
    if (skip_word(expr, "0x") || skip_word(expr, "0X") ||
        (*expr && !expr[strspn(expr, "0123456789")])) {
        ret->form = HX_FORM_OBJECT;
        return parse_number(expr, expr, "this is no address", &ret->number);
    }
    return *expr ? NULL : expression_error("--root", "write NAME=EXPR", "the expression is empty");
}

hx_error *hx_naming_parse(const char *arg, char **ret_name, const char **ret_expr)
{
    const char *sign = strchr(arg, '=');
    if (!sign)
        return hx_error_new(HX_E_USAGE, *arg ? arg : "--root", "write NAME=EXPR",
                            "no '=' between a root's name and what it stands for");
    size_t n = (size_t)(sign - arg);
    if (!n)
        return hx_error_new(HX_E_USAGE, arg, "write NAME=EXPR", "the name is empty");
    if (n > HX_NAME_MAX)
        return hx_error_new(HX_E_USAGE, "--root", "take a shorter one",
                            "a name has at most %d bytes", HX_NAME_MAX);
    HX_FREE char *name = strndup(arg, n);
    HX_NEED(name);
    if (strchr(name, '+') || !strcmp(name, "-") || !strcmp(name, "(unreachable)"))
        return hx_error_new(HX_E_USAGE, arg, "choose another name",
                            "'+' joins the names of a bin, \"-\" and \"(unreachable)\" are bins");
    struct hx_expression expression;
    HX_TRY(hx_expression_parse(sign + 1, &expression));
    char *written = hx_written_name(name);
    HX_NEED(written);
    bool joins = strchr(written, '+'); /* "operator+": it stays as it is */
    *ret_name = joins ? hx_steal(name) : written;
    if (joins)
        free(written);
    *ret_expr = sign + 1;
    return NULL;
}

hx_error *hx_naming_symbol(const char *expr, bool *ret_is, char **ret_module,
                           const char **ret_symbol)
{
    struct hx_expression expression;
    HX_TRY(hx_expression_parse(expr, &expression));
    *ret_is = expression.form == HX_FORM_SYMBOL;
    *ret_module = NULL;
    *ret_symbol = expr;
    const char *mark = strchr(expr, '!');
    if (!*ret_is || !mark)
        return NULL;
    *ret_module = strndup(expr, (size_t)(mark - expr));
    *ret_symbol = mark + 1;
    return *ret_module ? NULL : hx_error_nomem();
}

bool hx_expression_has_part(const char *text)
{
    const char *mark = strchr(text, '!');
    text = mark ? mark + 1 : text;
    if (strstr(text, "->"))
        return true;
    for (const char *at = text; (at = strpbrk(at, "[.")); at++)
        if (*at == '[' ? !skip_word(at, "[abi:") : at > text && (at[1] < '0' || at[1] > '9'))
            return true; /* "counter.0" is one the compiler has numbered */
    return false;
}

hx_error *hx_expression_needs_debug(const char *text)
{
    return expression_error(text,
                            "name the whole variable, or an address that it holds: *0xADDRESS",
                            "no reference is known in such a field: the program has no debug "
                            "information, or no such variable or field, or it is null");
}
