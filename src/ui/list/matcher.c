/* matcher.c - regular expressions for searches. */
#include "ui/list/matcher.h"

#include <regex.h>
#include <stdlib.h>
#include <string.h>

struct hx_matcher {
    regex_t regex;
    char *literal; /* the pattern, when it has nothing but letters; else NULL */
    bool has_regex, any_case;
};

static bool in_any_case(const char *pattern)
{
    for (const char *s = pattern; *s; s++)
        if (*s >= 'A' && *s <= 'Z' && !(s > pattern && s[-1] == '\\'))
            return false;
    return true;
}

static hx_error *compile_matcher(struct hx_matcher *matcher, const char *pattern)
{
    matcher->any_case = in_any_case(pattern);
    int flags = REG_EXTENDED | REG_NOSUB | (matcher->any_case ? REG_ICASE : 0);
    int code = regcomp(&matcher->regex, pattern, flags);
    matcher->has_regex = !code;
    if (code) {
        char why[128];
        regerror(code, &matcher->regex, why, sizeof why);
        return hx_error_new(HX_E_USAGE, pattern, "write a POSIX extended regular expression", "%s",
                            why);
    }
    /* Most searches are for plain words, which need no expression. */
    bool plain = true;
    for (const char *s = pattern; *s; s++)
        plain &= (unsigned char)*s < 0x80 && !strchr(".[]{}()\\*+?|^$", *s);
    if (plain)
        HX_NEED(matcher->literal = strdup(pattern));
    return NULL;
}

hx_error *hx_matcher_create(const char *pattern, struct hx_matcher **ret)
{
    struct hx_matcher *matcher = calloc(1, sizeof *matcher);
    HX_NEED(matcher);
    hx_error *error = compile_matcher(matcher, pattern);
    if (error)
        hx_matcher_destroy(matcher);
    else
        *ret = matcher;
    return error;
}

bool hx_matcher_matches(const struct hx_matcher *matcher, const char *text)
{
    if (!matcher->literal)
        return regexec(&matcher->regex, text, 0, NULL, 0) == 0;
    return (matcher->any_case ? strcasestr(text, matcher->literal)
                              : strstr(text, matcher->literal)) != NULL;
}

void hx_matcher_destroy(struct hx_matcher *matcher)
{
    if (!matcher)
        return;
    if (matcher->has_regex)
        regfree(&matcher->regex);
    free(matcher->literal);
    free(matcher);
}
