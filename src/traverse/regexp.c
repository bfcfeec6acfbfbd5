/* regexp.c - POSIX extended regular expressions that may come from anybody. */
#include "traverse/regexp.h"

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

struct measure {
    const char *s;
    struct {
        size_t sum, last; /* elements so far; those of the last element */
    } group[HX_REGEXP_MAX_DEPTH + 1];
    size_t depth;
};

static size_t capped(size_t size)
{
    return size > HX_REGEXP_MAX_SIZE ? HX_REGEXP_MAX_SIZE + 1 : size;
}

static void add_element(struct measure *m, size_t size)
{
    m->group[m->depth].last = size;
    m->group[m->depth].sum = capped(m->group[m->depth].sum + size);
}

/* Both factors are capped, so the product fits. */
static void repeat(struct measure *m, size_t times)
{
    size_t last = m->group[m->depth].last;
    m->group[m->depth].sum -= last > m->group[m->depth].sum ? m->group[m->depth].sum : last;
    add_element(m, capped(capped(times) * last + 1));
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

/* {N}, {N,} or {N,M} behind a '{': how often that writes the element out; 0 when it is none. */
static size_t read_times(const char **s)
{
    size_t n[2] = {0, 0}, bounds = 0;
    const char *p = *s;
    for (; bounds < 2; bounds++) {
        for (; isdigit((unsigned char)*p); p++)
            n[bounds] = capped(n[bounds] * 10 + (size_t)(*p - '0'));
        if (*p != ',' || bounds)
            break;
        p++;
    }
    if (*p != '}')
        return 0;
    *s = p + 1;
    return (n[1] > n[0] ? n[1] : n[0]) + 1;
}

static hx_error *refuse(const char *pattern, const char *todo, const char *why)
{
    return hx_error_new(HX_E_USAGE, pattern, todo, "%s", why);
}

static hx_error *measure(const char *pattern)
{
    struct measure m = {.s = pattern};
    while (*m.s) {
        char c = *m.s++;
        size_t times;
        if (c == '\\') {
            if (*m.s >= '1' && *m.s <= '9')
                return refuse(pattern, "write out what it refers to",
                              "extended regular expressions have no back references");
            m.s += *m.s != 0;
            add_element(&m, 1);
        } else if (c == '[') {
            m.s = skip_bracket(m.s);
            add_element(&m, 1);
        } else if (c == '(') {
            if (m.depth == HX_REGEXP_MAX_DEPTH)
                return refuse(pattern, "write a flatter one", "too many groups in groups");
            m.depth++;
            m.group[m.depth].sum = m.group[m.depth].last = 0;
        } else if (c == ')' && m.depth) {
            m.depth--;
            add_element(&m, m.group[m.depth + 1].sum + 1);
        } else if (c == '+') {
            repeat(&m, 2);
        } else if (c == '{' && (times = read_times(&m.s))) {
            repeat(&m, times);
        } else {
            add_element(&m, 1);
        }
    }
    size_t sum = 0;
    for (size_t i = 0; i <= m.depth; i++)
        sum = capped(sum + m.group[i].sum);
    return sum > HX_REGEXP_MAX_SIZE
               ? refuse(pattern, "write a shorter one, with smaller counts in { }",
                        "the regular expression becomes too large")
               : NULL;
}

/* --- compiling and matching -------------------------------------------------------- */

hx_error *hx_regexp_create(const char *pattern, hx_regexp **ret)
{
    if (strnlen(pattern, HX_REGEXP_MAX_BYTES + 1) > HX_REGEXP_MAX_BYTES)
        return refuse("regular expression", "write a shorter one", "too long");
    HX_TRY(measure(pattern));
    hx_regexp *regexp = calloc(1, sizeof *regexp);
    if (!regexp)
        return hx_error_nomem();
    int code = regcomp(&regexp->compiled, pattern, REG_EXTENDED | REG_NOSUB);
    if (!code) {
        *ret = regexp;
        return NULL;
    }
    char why[160];
    regerror(code, &regexp->compiled, why, sizeof why);
    free(regexp);
    return code == REG_ESPACE ? hx_error_nomem()
                              : refuse(pattern, "write a POSIX extended regular expression", why);
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
