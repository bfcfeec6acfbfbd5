/* regexp.c - POSIX extended regular expressions that may come from anybody. */
#include "query/regexp.h"

#include "base/cleanup.h"

#include <ctype.h>
#include <inttypes.h>
#include <math.h>
#include <regex.h>
#include <stdio.h>
#include <string.h>

struct hx_regexp {
    regex_t compiled;
};

/* --- how large it would become ----------------------------------------------------- */

/* The library follows empty ways through an expression one by one, and round a loop over
 * something empty it forgets where it has been. A fork is where such ways part and meet again:
 * (|), (a*)*, (^|b?). Each one doubles the work. */
struct element {
    size_t size, forks;
    bool empty; /* may match nothing */
};

struct measure {
    const char *s;
    struct group {
        size_t size, forks;    /* of all elements but the last one */
        size_t empty_branches; /* ended ones that may match nothing */
        bool empty;            /* so far this branch may match nothing, but for the last one */
        struct element last;
    } group[HX_REGEXP_MAX_DEPTH + 1];
    size_t depth;
};

static size_t cap_size(size_t size)
{
    return size > HX_REGEXP_MAX_SIZE ? HX_REGEXP_MAX_SIZE + 1 : size;
}

static struct group *top_group(struct measure *m)
{
    return &m->group[m->depth];
}

static void begin_group(struct group *group)
{
    *group = (struct group){.empty = true, .last = {.empty = true}};
}

static void add_element(struct group *group, struct element element)
{
    group->size = cap_size(group->size + group->last.size);
    group->forks = cap_size(group->forks + group->last.forks);
    group->empty &= group->last.empty;
    group->last = element;
}

/* At | and at the end of a group. */
static void end_branch(struct group *group)
{
    add_element(group, (struct element){.size = 1, .empty = true});
    group->empty_branches += group->empty;
    group->empty = true;
}

static struct element end_group(struct group *group)
{
    end_branch(group);
    size_t parted = group->empty_branches ? group->empty_branches - 1 : 0;
    return (struct element){.size = cap_size(group->size + group->last.size),
                            .forks = cap_size(group->forks + parted),
                            .empty = group->empty_branches > 0};
}

/* The last element is written out so often, the last time perhaps as a choice or a loop. Both
 * factors are capped, so the products fit. */
static void repeat(struct group *group, size_t times, bool none, bool choice)
{
    struct element *last = &group->last;
    last->size = cap_size(cap_size(times) * last->size + 1);
    last->forks = cap_size(cap_size(times) * last->forks + (choice && last->empty));
    last->empty |= none;
}

/* Skips a bracket expression; s stands behind the '['. */
static const char *skip_bracket(const char *s)
{
    s += *s == '^';
    s += *s == ']';
    while (*s && *s != ']') {
        if (*s == '[' && (s[1] == ':' || s[1] == '.' || s[1] == '=')) {
            char kind = s[1];
            for (s += 2; *s && !(*s == kind && s[1] == ']'); s++)
                ;
            s += *s ? 2 : 0;
        } else {
            s++;
        }
    }
    return *s ? s + 1 : s;
}

/* {N}, {N,} or {N,M} behind a '{'; false when it is none. */
static bool read_times(struct measure *m)
{
    size_t n[2] = {0, 0}, bounds = 0;
    const char *p = m->s;
    for (; bounds < 2; bounds++) {
        for (; isdigit((unsigned char)*p); p++)
            n[bounds] = cap_size(n[bounds] * 10 + (size_t)(*p - '0'));
        if (*p != ',' || bounds)
            break;
        p++;
    }
    if (*p != '}')
        return false;
    m->s = p + 1;
    size_t times = (n[1] > n[0] ? n[1] : n[0]) + 1;
    repeat(top_group(m), times, n[0] == 0, false);
    if (bounds) /* each of the optional ones, or the loop at the end, is a choice */
        top_group(m)->last.forks =
            cap_size(top_group(m)->last.forks + (top_group(m)->last.empty ? times : 0));
    return true;
}

static hx_error *refuse_pattern(const char *pattern, const char *todo, const char *why)
{
    return hx_error_new(HX_E_USAGE, pattern, todo, "%s", why);
}

/* Reads one escape, bracket expression, character or anchor behind its first byte c. */
static void measure_element(struct measure *m, char c)
{
    struct element element = {.size = 1, .empty = c == '^' || c == '$'};
    if (c == '[') {
        m->s = skip_bracket(m->s);
    } else if (c == '\\' && *m->s) {
        element.empty = strchr("bB<>`'", *m->s) != NULL;
        m->s++;
    }
    add_element(top_group(m), element);
}

static void read_next(struct measure *m)
{
    char c = *m->s++;
    if (c == '(') {
        begin_group(&m->group[++m->depth]);
    } else if (c == ')' && m->depth) {
        m->depth--;
        add_element(top_group(m), end_group(&m->group[m->depth + 1]));
    } else if (c == '|') {
        end_branch(top_group(m));
    } else if (c == '*' || c == '?') {
        repeat(top_group(m), 1, true, true);
    } else if (c == '+') {
        repeat(top_group(m), 2, false, true);
    } else if (c != '{' || !read_times(m)) {
        measure_element(m, c);
    }
}

static hx_error *measure_pattern(const char *pattern)
{
    struct measure m = {.s = pattern};
    begin_group(&m.group[0]);
    while (*m.s) {
        if (*m.s == '(' && m.depth == HX_REGEXP_MAX_DEPTH)
            return refuse_pattern(pattern, "write a flatter one", "too many groups in groups");
        if (*m.s == '\\' && m.s[1] >= '1' && m.s[1] <= '9')
            return refuse_pattern(pattern, "write out what it refers to",
                                  "extended regular expressions have no back references");
        read_next(&m);
    }
    while (m.depth) { /* the library will refuse an open group by itself */
        m.depth--;
        add_element(top_group(&m), end_group(&m.group[m.depth + 1]));
    }
    struct element all = end_group(&m.group[0]);
    if (all.size > HX_REGEXP_MAX_SIZE)
        return refuse_pattern(pattern, "write a shorter one, with smaller counts in { }",
                              "the regular expression becomes too large");
    if (all.forks > HX_REGEXP_MAX_FORKS || all.size << all.forks > HX_REGEXP_MAX_WORK)
        return refuse_pattern(pattern, "write it without repeating what may be empty",
                              "the regular expression has too many ways to match nothing");
    return NULL;
}

/* --- compiling and matching -------------------------------------------------------- */

hx_error *hx_regexp_create(const char *pattern, hx_regexp **ret)
{
    if (strnlen(pattern, HX_REGEXP_MAX_BYTES + 1) > HX_REGEXP_MAX_BYTES)
        return refuse_pattern("regular expression", "write a shorter one", "too long");
    HX_TRY(measure_pattern(pattern));
    hx_regexp *regexp = calloc(1, sizeof *regexp);
    HX_NEED(regexp);
    int code = regcomp(&regexp->compiled, pattern, REG_EXTENDED | REG_NOSUB);
    if (!code) {
        *ret = regexp;
        return NULL;
    }
    char why[160];
    regerror(code, &regexp->compiled, why, sizeof why);
    free(regexp);
    return code == REG_ESPACE
               ? hx_error_nomem()
               : refuse_pattern(pattern, "write a POSIX extended regular expression", why);
}

void hx_regexp_destroy(hx_regexp *regexp)
{
    if (!regexp)
        return;
    regfree(&regexp->compiled);
    free(regexp);
}

/* As the printers of rows do. */
static size_t print_real(double real, char *buf, size_t size)
{
    snprintf(buf, size, "%.15g", real);
    if (strtod(buf, NULL) != real)
        snprintf(buf, size, "%.17g", real);
    if (!strpbrk(buf, ".en")) /* neither 1e+20 nor inf */
        strcat(buf, ".0");
    return strlen(buf);
}

bool hx_regexp_matches(const hx_regexp *regexp, struct hx_filter_value value)
{
    char buf[64];
    switch (value.type) {
    case HX_FILTER_STRING:
        break;
    case HX_FILTER_INT:
        value.n = (size_t)snprintf(buf, sizeof buf, "%" PRId64, value.i);
        value.text = buf;
        break;
    case HX_FILTER_REAL:
        if (isnan(value.real))
            return false;
        value.n = print_real(value.real, buf, sizeof buf);
        value.text = buf;
        break;
    default:
        return false;
    }
    if (value.n > INT32_MAX) /* what regoff_t holds */
        value.n = INT32_MAX;
    regmatch_t span = {.rm_so = 0, .rm_eo = (regoff_t)value.n};
    return regexec(&regexp->compiled, value.text ? value.text : "", 1, &span, REG_STARTEND) == 0;
}
