/* suppressions.c - reads files of suppressions, and writes their entries. */
#include "query/suppress_private.h"

#include "base/cleanup.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

hx_error *hx_suppressions_create(hx_suppressions **ret)
{
    *ret = calloc(1, sizeof **ret);
    return *ret ? NULL : hx_error_nomem();
}

void hx_suppressions_destroy(hx_suppressions *list)
{
    if (!list)
        return;
    for (size_t i = 0; i < list->entries.n; i++) {
        struct hx_suppress_entry *entry = &list->entries.v[i];
        hx_glob_destroy(entry->type);
        hx_glob_destroy(entry->site);
        for (size_t k = 0; k < entry->n_chain; k++)
            hx_glob_destroy(entry->chain[k]);
        free(entry->chain);
    }
    for (size_t i = 0; i < list->texts.n; i++)
        free(list->texts.v[i]);
    hx_vec_free(&list->entries);
    hx_vec_free(&list->texts);
    free(list);
}

size_t hx_suppressions_count(const hx_suppressions *list)
{
    return list->entries.n;
}

const struct hx_suppression *hx_suppressions_at(const hx_suppressions *list, size_t i)
{
    return &list->entries.v[i].suppression;
}

/* --- lines ------------------------------------------------------------------------- */

struct reader {
    hx_suppressions *list;
    const char *file, *text;
    size_t n, next;   /* the line after this one */
    const char *line; /* without blanks around it */
    size_t line_n, begin;
    unsigned number;
    unsigned seen;                   /* bit for each key of the entry */
    struct hx_suppress_entry *entry; /* that is open; NULL: none */
};

static bool is_blank_char(char c)
{
    return c == ' ' || c == '\t' || c == '\r';
}

/* An error at a place in the text. */
static hx_error *suppression_error(const struct reader *r, const char *at, const char *todo,
                                   const char *why, ...) __attribute__((format(printf, 4, 5)));

static hx_error *suppression_error(const struct reader *r, const char *at, const char *todo,
                                   const char *why, ...)
{
    char text[512], place[40];
    va_list args;
    va_start(args, why);
    vsnprintf(text, sizeof text, why, args);
    va_end(args);
    size_t column = 1;
    for (const char *s = r->text + r->begin; s < at; s++)
        column += ((unsigned char)*s & 0xc0) != 0x80; /* characters */
    snprintf(place, sizeof place, ":%u:%zu", r->number, column);
    struct hx_text what = {0};
    hx_text_puts(&what, r->file);
    hx_text_puts(&what, place);
    hx_error *err = what.failed ? hx_error_nomem()
                                : hx_error_new(HX_E_USAGE, hx_text_str(&what), todo, "%s", text);
    hx_text_free(&what);
    return err;
}

static void trim_line(const char **s, size_t *n)
{
    while (*n && is_blank_char(**s))
        ++*s, --*n;
    while (*n && is_blank_char((*s)[*n - 1]))
        --*n;
}

/* False at the end. */
static hx_error *next_line(struct reader *r, bool *ret_more)
{
    *ret_more = r->next < r->n;
    if (!*ret_more)
        return NULL;
    r->begin = r->next;
    r->number++;
    r->line = r->text + r->begin;
    const char *end = memchr(r->line, '\n', r->n - r->begin);
    r->line_n = end ? (size_t)(end - r->line) : r->n - r->begin;
    r->next = r->begin + r->line_n + 1;
    if (r->line_n > HX_SUPPRESSIONS_MAX_LINE)
        return suppression_error(r, r->line, NULL, "the line is longer than %d bytes",
                                 HX_SUPPRESSIONS_MAX_LINE);
    const char *zero = memchr(r->line, 0, r->line_n);
    if (zero)
        return suppression_error(r, zero, "is it a file of suppressions?", "a byte of 0");
    trim_line(&r->line, &r->line_n);
    return NULL;
}

/* --- values ------------------------------------------------------------------------ */

static hx_error *copy_pattern_text(struct reader *r, const char *s, size_t n, const char **ret)
{
    char *copy = strndup(s, n);
    if (!copy || !hx_vec_push(&r->list->texts, copy)) {
        free(copy);
        return hx_error_nomem();
    }
    *ret = copy;
    return NULL;
}

static hx_error *read_pattern(const struct reader *r, const char *s, size_t n, hx_glob **ret)
{
    size_t at;
    hx_error *err = hx_glob_create(s, n, &at, ret);
    if (!err || err->kind != HX_E_USAGE)
        return err;
    hx_error *placed = suppression_error(r, s + at, err->todo, "%s", err->why);
    hx_error_free(err);
    return placed;
}

static hx_error *read_type(struct reader *r, const char *s, size_t n)
{
    return read_pattern(r, s, n, &r->entry->type);
}

static hx_error *read_site(struct reader *r, const char *s, size_t n)
{
    return read_pattern(r, s, n, &r->entry->site);
}

/* The next part of a list, without blanks; false at its end. */
static bool next_part(const char **s, size_t *n, const char *between, const char **part,
                      size_t *part_n)
{
    if (!*s)
        return false;
    const char *end = memmem(*s, *n, between, strlen(between));
    *part = *s;
    *part_n = end ? (size_t)(end - *s) : *n;
    *n = end ? *n - *part_n - strlen(between) : 0;
    *s = end ? end + strlen(between) : NULL;
    trim_line(part, part_n);
    return true;
}

static hx_error *read_kinds(struct reader *r, const char *s, size_t n)
{
    static const enum hx_state kinds[] = {HX_STATE_DEFINITE, HX_STATE_INDIRECT, HX_STATE_POSSIBLE};
    const char *part;
    size_t part_n;
    r->entry->kinds = 0;
    while (next_part(&s, &n, ",", &part, &part_n)) {
        unsigned bit = 0;
        for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
            const char *name = hx_state_name(kinds[i]);
            if (strlen(name) == part_n && memcmp(name, part, part_n) == 0)
                bit = 1u << kinds[i];
        }
        if (!bit)
            return suppression_error(r, part, "kinds are: definite, indirect, possible",
                                     "no kind of a leak");
        r->entry->kinds |= bit;
    }
    return NULL;
}

static hx_error *read_suppression_element(struct reader *r, const char *s, size_t n)
{
    struct hx_suppress_entry *entry = r->entry;
    if (!n)
        return suppression_error(r, s, "write the name of a type, or ...",
                                 "an element of the chain is empty");
    bool any = n == 3 && memcmp(s, "...", 3) == 0;
    if (any && entry->n_chain && !entry->chain[entry->n_chain - 1])
        return NULL;
    if (entry->n_chain == HX_SUPPRESSIONS_MAX_CHAIN)
        return suppression_error(r, s, NULL, "the chain has more than %d elements",
                                 HX_SUPPRESSIONS_MAX_CHAIN);
    hx_glob *glob = NULL;
    if (!any)
        HX_TRY(read_pattern(r, s, n, &glob));
    entry->chain[entry->n_chain++] = glob;
    return NULL;
}

static hx_error *read_chain(struct reader *r, const char *s, size_t n)
{
    const char *part;
    size_t part_n;
    r->entry->chain = calloc(HX_SUPPRESSIONS_MAX_CHAIN, sizeof *r->entry->chain);
    HX_NEED(r->entry->chain);
    while (next_part(&s, &n, " -> ", &part, &part_n))
        HX_TRY(read_suppression_element(r, part, part_n));
    return NULL;
}

/* "10M" or "200 objects". */
static hx_error *read_limit(struct reader *r, const char *s, size_t n)
{
    char word[40] = "";
    static const char objects[] = "objects";
    size_t digits = n, unit = sizeof objects - 1;
    bool counts =
        n > unit && memcmp(s + n - unit, objects, unit) == 0 && is_blank_char(s[n - unit - 1]);
    if (counts) {
        const char *at = s;
        digits = n - unit;
        trim_line(&at, &digits);
    }
    if (digits < sizeof word)
        memcpy(word, s, digits);
    uint64_t *to = counts ? &r->entry->most_objects : &r->entry->most_bytes;
    bool read = counts ? word[0] && word[strspn(word, "0123456789")] == 0 && hx_parse_u64(word, to)
                       : hx_parse_bytes(word, to);
    return read ? NULL : suppression_error(r, s, "such as: at most: 10M, 200 objects", "no limit");
}

static hx_error *read_limits(struct reader *r, const char *s, size_t n)
{
    const char *part;
    size_t part_n;
    while (next_part(&s, &n, ",", &part, &part_n))
        HX_TRY(read_limit(r, part, part_n));
    return NULL;
}

/* --- entries ----------------------------------------------------------------------- */

static const struct key {
    const char *name;
    bool limits; /* it says how much, and not what */
    hx_error *(*read)(struct reader *r, const char *s, size_t n);
} keys[] = {
    {"kind", false, read_kinds},  {"type", false, read_type},     {"site", false, read_site},
    {"chain", false, read_chain}, {"at most", true, read_limits},
};

static hx_error *open_entry(struct reader *r)
{
    const char *name = r->line;
    size_t n = r->line_n - 1;
    trim_line(&name, &n);
    if (!n)
        return suppression_error(r, r->line, "begin it with: NAME {", "the entry has no name");
    if (r->list->entries.n == HX_SUPPRESSIONS_MAX_ENTRIES)
        return suppression_error(r, r->line, NULL, "there are more than %d entries",
                                 HX_SUPPRESSIONS_MAX_ENTRIES);
    struct hx_suppress_entry entry = {
        .kinds = 1u << HX_STATE_DEFINITE | 1u << HX_STATE_INDIRECT | 1u << HX_STATE_POSSIBLE,
        .most_bytes = UINT64_MAX,
        .most_objects = UINT64_MAX,
        .suppression = {.file = r->file, .line = r->number},
    };
    HX_TRY(copy_pattern_text(r, name, n, &entry.suppression.name));
    HX_NEED(hx_vec_push(&r->list->entries, entry));
    r->entry = &r->list->entries.v[r->list->entries.n - 1];
    r->seen = 0;
    return NULL;
}

static hx_error *close_entry(struct reader *r)
{
    if (!r->entry->said)
        return suppression_error(r, r->line, "say a kind, a type, a site or a chain",
                                 "the entry would take out everything");
    r->entry = NULL;
    return NULL;
}

static hx_error *read_field(struct reader *r)
{
    const char *colon = memchr(r->line, ':', r->line_n), *name = r->line;
    size_t name_n = colon ? (size_t)(colon - r->line) : 0, i = 0;
    if (!colon)
        return suppression_error(r, r->line, "write KEY: VALUE, or } at the end of the entry",
                                 "this is no line of an entry");
    trim_line(&name, &name_n);
    while (i < sizeof keys / sizeof *keys &&
           (strlen(keys[i].name) != name_n || memcmp(keys[i].name, name, name_n) != 0))
        i++;
    if (i == sizeof keys / sizeof *keys)
        return suppression_error(r, r->line, "keys are: kind, type, site, chain, at most",
                                 "'%.*s' is no key of an entry", (int)(name_n < 40 ? name_n : 40),
                                 name);
    const char *value = colon + 1;
    size_t n = r->line_n - (size_t)(value - r->line);
    trim_line(&value, &n);
    if (r->seen >> i & 1)
        return suppression_error(r, r->line, "make two entries", "the entry says its %s twice",
                                 keys[i].name);
    if (!n)
        return suppression_error(r, colon, NULL, "nothing stands behind '%s:'", keys[i].name);
    r->seen |= 1u << i;
    r->entry->said |= !keys[i].limits;
    return keys[i].read(r, value, n);
}

static hx_error *read_line(struct reader *r)
{
    if (!r->line_n || r->line[0] == '#')
        return NULL;
    if (r->entry)
        return r->line_n == 1 && r->line[0] == '}' ? close_entry(r) : read_field(r);
    if (r->line[r->line_n - 1] == '{')
        return open_entry(r);
    return suppression_error(r, r->line, "begin an entry with: NAME {", "this stands in no entry");
}

hx_error *hx_suppressions_parse(hx_suppressions *list, const char *file, const char *text, size_t n)
{
    struct reader r = {.list = list, .text = text, .n = n};
    bool more;
    if (n > HX_SUPPRESSIONS_MAX_BYTES)
        return hx_error_new(HX_E_LIMIT, file, "is it a file of suppressions?",
                            "is larger than %zu bytes", HX_SUPPRESSIONS_MAX_BYTES);
    HX_TRY(copy_pattern_text(&r, file, strlen(file), &r.file));
    for (;;) {
        HX_TRY(next_line(&r, &more));
        if (!more)
            break;
        HX_TRY(read_line(&r));
    }
    if (r.entry)
        return suppression_error(&r, r.text + r.begin, "end it with }",
                                 "the entry '%.100s' has no end", r.entry->suppression.name);
    return NULL;
}

/* --- writing ----------------------------------------------------------------------- */

static void put_pattern(struct hx_text *text, const char *key, const char *name)
{
    hx_text_putf(text, "    %s: ", key);
    hx_glob_quote(text, name, strlen(name));
    hx_text_putc(text, '\n');
}

void hx_suppression_put(struct hx_text *text, const char *name, const char *kind, const char *type,
                        const char *site, uint64_t objects)
{
    hx_text_putf(text, "%s {\n    kind: %s\n", name, kind);
    put_pattern(text, "type", type ? type : "(unknown)");
    if (site)
        put_pattern(text, "site", site);
    else /* what allocated it is not known: it must not stand for all that is to come */
        hx_text_putf(text, "    at most: %" PRIu64 " objects\n", objects);
    hx_text_puts(text, "}\n");
}
