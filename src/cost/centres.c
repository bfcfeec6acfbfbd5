/* centres.c - cost centres chosen by patterns. */
#include "cost/centres.h"

#include "base/cleanup.h"
#include "base/vec.h"
#include "query/pattern.h"

#include <stdlib.h>
#include <string.h>

enum kind { FUNCTION, MODULE, SOURCE, REGION, N_KINDS };
static const char *const prefix[N_KINDS] = {"function:", "module:", "file:", "region:"};

/* A pattern taken apart. */
struct selector {
    bool excludes;
    enum kind kind;
    const char *expression; /* in the pattern */
    hx_patterns *compiled;
    bool idle;
};

static hx_error *parse_centre_pattern(const char *pattern, struct selector *ret)
{
    *ret = (struct selector){.excludes = *pattern == '!', .kind = FUNCTION, .idle = true};
    const char *at = pattern + ret->excludes;
    for (size_t k = 0; k < N_KINDS; k++) {
        if (strncmp(at, prefix[k], strlen(prefix[k])) == 0) {
            ret->kind = (enum kind)k;
            at += strlen(prefix[k]);
            break;
        }
    }
    if (!*at)
        return hx_error_new(HX_E_USAGE, pattern, "write a name or an expression behind it",
                            "no cost centre has an empty name");
    ret->expression = at;
    return hx_patterns_create(&ret->expression, 1, &ret->compiled);
}

hx_error *hx_centre_pattern_test(const char *pattern)
{
    struct selector selector;
    hx_error *err = parse_centre_pattern(pattern, &selector);
    hx_patterns_destroy(selector.compiled);
    return err;
}

struct selectors {
    struct selector *selector;
    size_t n;
    bool named[2]; /* something names functions; regions */
    char *source;  /* a centre's file without the line */
    size_t room;
};

static void selectors_deinit(struct selectors *selectors)
{
    for (size_t i = 0; selectors->selector && i < selectors->n; i++)
        hx_patterns_destroy(selectors->selector[i].compiled);
    free(selectors->selector);
    free(selectors->source);
}

static hx_error *selectors_init(struct selectors *selectors, const char *const *pattern, size_t n)
{
    selectors->selector = calloc(n + 1, sizeof *selectors->selector);
    HX_NEED(selectors->selector);
    for (; selectors->n < n; selectors->n++) {
        struct selector *selector = &selectors->selector[selectors->n];
        HX_TRY(parse_centre_pattern(pattern[selectors->n], selector));
        if (!selector->excludes)
            selectors->named[selector->kind == REGION] = true;
    }
    return NULL;
}

/* The file of "FILE:LINE"; a name without a line is one, too. */
static hx_error *cut_line(struct selectors *selectors, const char *source)
{
    size_t n = strlen(source);
    const char *colon = strrchr(source, ':');
    if (colon && colon[1] && colon[1 + strspn(colon + 1, "0123456789")] == '\0')
        n = (size_t)(colon - source);
    HX_NEED(hx_vec_reserve_raw((void **)&selectors->source, &selectors->room, n + 1, 1));
    memcpy(selectors->source, source, n);
    selectors->source[n] = '\0';
    return NULL;
}

/* Not known is NULL, and no pattern stands for it. */
static bool stands_for(const struct selectors *selectors, const struct selector *selector,
                       const struct hx_centre_name *centre)
{
    const char *const text[N_KINDS] = {
        [FUNCTION] = centre->label,
        [MODULE] = centre->module,
        [SOURCE] = centre->source ? selectors->source : NULL,
        [REGION] = centre->label,
    };
    return centre->region == (selector->kind == REGION) && text[selector->kind] &&
           hx_patterns_match(selector->compiled, text[selector->kind]);
}

static bool selects_centre(struct selectors *selectors, const struct hx_centre_name *centre)
{
    bool chosen = !selectors->named[centre->region], excluded = false;
    for (size_t i = 0; i < selectors->n; i++) {
        struct selector *selector = &selectors->selector[i];
        /* those that have stood for something need not be asked when it changes nothing */
        if (!selector->idle && (selector->excludes ? excluded : chosen))
            continue;
        if (!stands_for(selectors, selector, centre))
            continue;
        selector->idle = false;
        if (selector->excludes)
            excluded = true;
        else
            chosen = true;
    }
    return chosen && !excluded;
}

hx_error *hx_centres_choose(const struct hx_centre_name *centre, size_t n,
                            const char *const *pattern, size_t n_patterns, bool *ret,
                            const char **ret_idle)
{
    HX_CLEANUP(selectors_deinit) struct selectors selectors = {0};
    HX_TRY(selectors_init(&selectors, pattern, n_patterns));
    for (size_t i = 0; i < n; i++) {
        if (centre[i].source)
            HX_TRY(cut_line(&selectors, centre[i].source));
        ret[i] = selects_centre(&selectors, &centre[i]);
    }
    if (ret_idle) {
        *ret_idle = NULL;
        for (size_t i = n_patterns; i-- > 0;)
            if (selectors.selector[i].idle)
                *ret_idle = pattern[i];
    }
    return NULL;
}
