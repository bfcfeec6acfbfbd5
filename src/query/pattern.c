/* pattern.c - names picked by patterns. */
#include "query/pattern.h"

#include "query/regexp.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct pattern {
    char *text;
    hx_regexp *regexp; /* NULL: a name only */
};

struct hx_patterns {
    size_t n;
    struct pattern pattern[];
};

/* Are its brackets in pairs, as in every type's name? */
static bool could_be_name(const char *text)
{
    static const char open[] = "([{", close[] = ")]}";
    size_t depth[sizeof open - 1] = {0};
    for (; *text; text++) {
        const char *is_open = strchr(open, *text), *is_close = strchr(close, *text);
        if (is_open)
            depth[is_open - open]++;
        else if (is_close && depth[is_close - close]-- == 0)
            return false;
    }
    return !depth[0] && !depth[1] && !depth[2];
}

/* "Node[]" and "main::{lambda()#1}" are names, and no expressions. */
static hx_error *compile_pattern(const char *text, hx_regexp **ret)
{
    hx_error *err = hx_regexp_create(text, ret);
    if (!err || err->kind != HX_E_USAGE || !could_be_name(text))
        return err;
    hx_error_free(err);
    *ret = NULL;
    return NULL;
}

hx_error *hx_pattern_check(const char *pattern)
{
    hx_regexp *regexp;
    HX_TRY(compile_pattern(pattern, &regexp));
    hx_regexp_destroy(regexp);
    return NULL;
}

hx_error *hx_patterns_create(const char *const *pattern, size_t n, hx_patterns **ret)
{
    hx_patterns *patterns = calloc(1, sizeof *patterns + n * sizeof *patterns->pattern);
    HX_NEED(patterns);
    hx_error *err = NULL;
    for (; !err && patterns->n < n; patterns->n++) {
        struct pattern *fresh = &patterns->pattern[patterns->n];
        fresh->text = strdup(pattern[patterns->n]);
        err = fresh->text ? compile_pattern(fresh->text, &fresh->regexp) : hx_error_nomem();
    }
    if (err) {
        hx_patterns_destroy(patterns);
        return err;
    }
    *ret = patterns;
    return NULL;
}

void hx_patterns_destroy(hx_patterns *patterns)
{
    for (size_t i = 0; patterns && i < patterns->n; i++) {
        free(patterns->pattern[i].text);
        hx_regexp_destroy(patterns->pattern[i].regexp);
    }
    free(patterns);
}

/* Of "dict (48 bytes)", one of several types of that name, "dict"; else all of it. */
static size_t bare_length(const char *name)
{
    const size_t n = strlen(name);
    const char *size = strrchr(name, '(');
    unsigned long long bytes;
    int end = 0;
    return size && size > name + 1 && size[-1] == ' ' &&
                   sscanf(size, "(%llu bytes)%n", &bytes, &end) == 1 && end && !size[end]
               ? (size_t)(size - 1 - name)
               : n;
}

static bool matches(const struct pattern *pattern, const char *name, size_t n)
{
    const struct hx_filter_value value = {.type = HX_FILTER_STRING, .text = name, .n = n};
    return (strncmp(pattern->text, name, n) == 0 && !pattern->text[n]) ||
           (pattern->regexp && hx_regexp_matches(pattern->regexp, value));
}

bool hx_patterns_match(const hx_patterns *patterns, const char *name)
{
    const size_t n = strlen(name), bare = bare_length(name);
    for (size_t i = 0; i < patterns->n; i++)
        if (matches(&patterns->pattern[i], name, n) ||
            (bare < n && matches(&patterns->pattern[i], name, bare)))
            return true;
    return patterns->n == 0;
}
