/* centres.c - cost centres chosen by patterns. */
#include "traverse/centres.h"

#include "base/cleanup.h"
#include "base/vec.h"
#include "traverse/pattern.h"

#include <stdlib.h>
#include <string.h>

enum kind { FUNCTION, MODULE, SOURCE, REGION, N_KINDS };
static const char *const prefix[N_KINDS] = {"function:", "module:", "file:", "region:"};

/* A pattern taken apart. */
struct wish {
    bool excludes;
    enum kind kind;
    const char *expression; /* in the pattern */
    hx_patterns *compiled;
    bool idle;
};

static hx_error *parse_centre_pattern(const char *pattern, struct wish *ret)
{
    *ret = (struct wish){.excludes = *pattern == '!', .kind = FUNCTION, .idle = true};
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
    struct wish wish;
    hx_error *err = parse_centre_pattern(pattern, &wish);
    hx_patterns_destroy(wish.compiled);
    return err;
}

struct wishes {
    struct wish *wish;
    size_t n;
    bool named[2]; /* something names functions; regions */
    char *source;  /* a centre's file without the line */
    size_t room;
};

static void wishes_deinit(struct wishes *wishes)
{
    for (size_t i = 0; wishes->wish && i < wishes->n; i++)
        hx_patterns_destroy(wishes->wish[i].compiled);
    free(wishes->wish);
    free(wishes->source);
}

static hx_error *wishes_init(struct wishes *wishes, const char *const *pattern, size_t n)
{
    wishes->wish = calloc(n + 1, sizeof *wishes->wish);
    HX_NEED(wishes->wish);
    for (; wishes->n < n; wishes->n++) {
        struct wish *wish = &wishes->wish[wishes->n];
        HX_TRY(parse_centre_pattern(pattern[wishes->n], wish));
        if (!wish->excludes)
            wishes->named[wish->kind == REGION] = true;
    }
    return NULL;
}

/* The file of "FILE:LINE"; a name without a line is one, too. */
static hx_error *cut_line(struct wishes *wishes, const char *source)
{
    size_t n = strlen(source);
    const char *colon = strrchr(source, ':');
    if (colon && colon[1] && colon[1 + strspn(colon + 1, "0123456789")] == '\0')
        n = (size_t)(colon - source);
    HX_NEED(hx_vec_reserve_raw((void **)&wishes->source, &wishes->room, n + 1, 1));
    memcpy(wishes->source, source, n);
    wishes->source[n] = '\0';
    return NULL;
}

/* Not known is NULL, and no pattern stands for it. */
static bool stands_for(const struct wishes *wishes, const struct wish *wish,
                       const struct hx_centre_name *centre)
{
    const char *const text[N_KINDS] = {
        [FUNCTION] = centre->label,
        [MODULE] = centre->module,
        [SOURCE] = centre->source ? wishes->source : NULL,
        [REGION] = centre->label,
    };
    return centre->region == (wish->kind == REGION) && text[wish->kind] &&
           hx_patterns_match(wish->compiled, text[wish->kind]);
}

static bool is_chosen(struct wishes *wishes, const struct hx_centre_name *centre)
{
    bool chosen = !wishes->named[centre->region], excluded = false;
    for (size_t i = 0; i < wishes->n; i++) {
        struct wish *wish = &wishes->wish[i];
        /* those that have stood for something need not be asked when it changes nothing */
        if (!wish->idle && (wish->excludes ? excluded : chosen))
            continue;
        if (!stands_for(wishes, wish, centre))
            continue;
        wish->idle = false;
        if (wish->excludes)
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
    HX_CLEANUP(wishes_deinit) struct wishes wishes = {0};
    HX_TRY(wishes_init(&wishes, pattern, n_patterns));
    for (size_t i = 0; i < n; i++) {
        if (centre[i].source)
            HX_TRY(cut_line(&wishes, centre[i].source));
        ret[i] = is_chosen(&wishes, &centre[i]);
    }
    if (ret_idle) {
        *ret_idle = NULL;
        for (size_t i = n_patterns; i-- > 0;)
            if (wishes.wish[i].idle)
                *ret_idle = pattern[i];
    }
    return NULL;
}
