/* pattern.c - names picked by patterns. */
#include "traverse/pattern.h"

#include "traverse/regexp.h"

#include <stdlib.h>
#include <string.h>

struct pattern {
    char *text;
    hx_regexp *regexp;
};

struct hx_patterns {
    size_t n;
    struct pattern pattern[];
};

hx_error *hx_patterns_create(const char *const *pattern, size_t n, hx_patterns **ret)
{
    hx_patterns *patterns = calloc(1, sizeof *patterns + n * sizeof *patterns->pattern);
    if (!patterns)
        return hx_error_nomem();
    hx_error *err = NULL;
    for (; !err && patterns->n < n; patterns->n++) {
        struct pattern *fresh = &patterns->pattern[patterns->n];
        fresh->text = strdup(pattern[patterns->n]);
        err = fresh->text ? hx_regexp_create(fresh->text, &fresh->regexp) : hx_error_nomem();
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

bool hx_patterns_match(const hx_patterns *patterns, const char *name)
{
    const struct hx_filter_value value = {
        .type = HX_FILTER_STRING, .text = name, .n = strlen(name)};
    for (size_t i = 0; i < patterns->n; i++)
        if (strcmp(patterns->pattern[i].text, name) == 0 ||
            hx_regexp_matches(patterns->pattern[i].regexp, value))
            return true;
    return patterns->n == 0;
}
