/* demangle.c - demangling with bounds, by libiberty. */
#include "sym/demangle.h"

#include "config.h"

#include <setjmp.h>
#include <string.h>

/* Appends n bytes; more than HX_DEMANGLED_MAX are cut between two UTF-8 characters. */
static void put_cut(struct hx_text *text, const char *s, size_t n)
{
    if (n <= HX_DEMANGLED_MAX) {
        hx_text_putn(text, s, n);
        return;
    }
    n = HX_DEMANGLED_MAX;
    for (int back = 0; back < 3 && ((unsigned char)s[n] & 0xc0) == 0x80; back++)
        n--;
    hx_text_putn(text, s, n);
    hx_text_puts(text, "...");
}

/* What names of symbols are made of, with the suffixes of a compiler's copies ("f.cold"). */
static bool is_symbol_char(unsigned char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '$' || c == '.' || c >= 0x80;
}

#ifdef HX_HAVE_DEMANGLER

#include <libiberty/demangle.h>

/* More is refused by the demangler itself, which needs stack in proportion. */
enum { MANGLED_MAX = 1024 };

/* References in a name that also holds what makes work without text, see is_silent_work(). */
enum { REFERENCES_MAX = 20, CONVERSIONS_MAX = 8 };

struct output {
    char text[HX_DEMANGLED_MAX + 1]; /* one more, to see that there is more */
    size_t n;
    jmp_buf full;
};

/* The demangler of the callback keeps everything on its stack, so it can be left from here. */
static void collect_demangled(const char *part, size_t len, void *context)
{
    struct output *output = context;
    size_t room = sizeof output->text - output->n;
    size_t take = len < room ? len : room;
    if (take) /* part may be NULL */
        memcpy(output->text + output->n, part, take);
    output->n += take;
    if (output->n == sizeof output->text)
        longjmp(output->full, 1);
}

static size_t count_occurrences(const char *name, const char *what)
{
    size_t n = 0;
    for (; (name = strstr(name, what)); name += strlen(what))
        n++;
    return n;
}

/* Nearly all work of a demangler is writing, and ends with the bound of the text. Two kinds
 * are not: the search for a parameter pack walks a whole type, which references (S_, S0_, ...)
 * can make exponential in the length of the name; and a conversion operator is read twice,
 * so that nested ones double. Few names of real programs come near these counts. */
static bool is_silent_work(const char *name)
{
    static const char *const packs[] = {"Dp", "sp", "sZ", "sP", "fl", "fr", "fL", "fR"};
    if (count_occurrences(name, "cv") > CONVERSIONS_MAX)
        return true;
    size_t references = 0;
    for (const char *at = name; *at; at++)
        if (*at == 'S' &&
            (at[1] == '_' || (at[1] >= '0' && at[1] <= '9') || (at[1] >= 'A' && at[1] <= 'Z')))
            references++;
    if (references <= REFERENCES_MAX)
        return false;
    if (strstr(name, packs[0]))
        return true;
    /* The others are operators of expressions, and those begin in few ways. */
    static const char *const expressions[] = {"X", "DT", "Dt", "DO"};
    bool has_expression = false;
    for (size_t i = 0; i < sizeof expressions / sizeof *expressions; i++)
        has_expression |= strstr(name, expressions[i]) != NULL;
    for (const char *at = name; !has_expression && (at = strchr(at, 'A')); at++)
        has_expression = at[1] && !(at[1] >= '0' && at[1] <= '9'); /* T[expression] */
    for (size_t i = 1; has_expression && i < sizeof packs / sizeof *packs; i++)
        if (strstr(name, packs[i]))
            return true;
    return false;
}

/* Appends what a name stands for; false, with nothing appended, when it is left alone. */
static bool demangle(struct hx_text *text, const char *name, int options)
{
    struct output output;
    output.n = 0;
    if (strlen(name) > MANGLED_MAX || is_silent_work(name))
        return false;
    if (setjmp(output.full) == 0 &&
        !cplus_demangle_v3_callback(name, DMGL_PARAMS | DMGL_ANSI | options, collect_demangled,
                                    &output))
        return false;
    /* What came by the jump is cut, but good. */
    if (output.n)
        put_cut(text, output.text, output.n);
    return output.n > 0;
}

void hx_demangle_type(struct hx_text *text, const char *name)
{
    if (!demangle(text, name, DMGL_TYPES))
        put_cut(text, name, strlen(name));
}

/* A binder may claim any number of lifetimes, which are counted out one by one even where nothing
 * is written. */
static bool has_long_binder(const char *name)
{
    for (const char *at = name; (at = strchr(at, 'G')); at++) {
        size_t digits = 0;
        for (const char *p = at + 1;
             (*p >= '0' && *p <= '9') || (*p >= 'a' && *p <= 'z') || (*p >= 'A' && *p <= 'Z'); p++)
            digits++;
        if (at > name && (at[-1] == 'F' || at[-1] == 'D') && digits > 3)
            return true;
    }
    return false;
}

/* Rust's names come in two manglings, of which the older one looks like C++ with a hash at its
 * end. */
static bool demangle_rust(struct hx_text *text, const char *name)
{
    struct output output;
    output.n = 0;
    size_t n = strlen(name);
    if (n > MANGLED_MAX || has_long_binder(name) ||
        (strncmp(name, "_R", 2) != 0 && !(n > 20 && strstr(name, "17h"))))
        return false;
    if (setjmp(output.full) == 0 && !rust_demangle_callback(name, 0, collect_demangled, &output))
        return false;
    if (output.n)
        put_cut(text, output.text, output.n);
    return output.n > 0;
}

static void put_symbol(struct hx_text *text, const char *name)
{
    if (name[0] != '_' ||
        (!demangle_rust(text, name) && (name[1] != 'Z' || !demangle(text, name, 0))))
        put_cut(text, name, strlen(name));
}

void hx_demangle_symbol(struct hx_text *text, const char *name)
{
    size_t n = strcspn(name, "@"), begun = text->n;
    char bare[MANGLED_MAX + 1];
    if (!name[n] || n > MANGLED_MAX) {
        put_symbol(text, name);
        return;
    }
    memcpy(bare, name, n);
    bare[n] = 0;
    put_symbol(text, bare);
    if (text->n - begun < HX_DEMANGLED_MAX)
        put_cut(text, name + n, strlen(name + n));
}

static bool put_demangled_name(struct hx_text *text, const char *s, size_t n)
{
    char name[MANGLED_MAX + 1];
    if (n > MANGLED_MAX)
        return false;
    memcpy(name, s, n);
    name[n] = 0;
    return demangle_rust(text, name) || (name[1] == 'Z' && demangle(text, name, 0));
}

void hx_demangle_names(struct hx_text *text, const char *s, size_t n)
{
    const char *end = s + n;
    for (int names = 0; s < end && names < HX_DEMANGLED_NAMES;) {
        const char *at = s;
        while (at < end && !is_symbol_char((unsigned char)*at))
            at++;
        hx_text_putn(text, s, (size_t)(at - s));
        s = at;
        while (at < end && is_symbol_char((unsigned char)*at))
            at++;
        size_t word = (size_t)(at - s);
        bool mangled = word > 2 && s[0] == '_' && (s[1] == 'Z' || s[1] == 'R');
        names += mangled;
        if (!mangled || !put_demangled_name(text, s, word))
            hx_text_putn(text, s, word);
        s = at;
    }
    hx_text_putn(text, s, (size_t)(end - s));
}

#else

void hx_demangle_type(struct hx_text *text, const char *name)
{
    put_cut(text, name, strlen(name));
}

void hx_demangle_symbol(struct hx_text *text, const char *name)
{
    put_cut(text, name, strlen(name));
}

void hx_demangle_names(struct hx_text *text, const char *s, size_t n)
{
    hx_text_putn(text, s, n);
}

#endif

bool hx_is_mangled(const char *name)
{
    return strncmp(name, "_Z", 2) == 0 || strncmp(name, "_R", 2) == 0;
}

/* --- ABI tags ---------------------------------------------------------------------- */

static const char tag[] = "[abi:";

const char *hx_behind_tag(const char *at)
{
    if (strncmp(at, tag, sizeof tag - 1) != 0)
        return NULL;
    at += sizeof tag - 1;
    while (is_symbol_char((unsigned char)*at))
        at++;
    return *at == ']' ? at + 1 : NULL;
}

bool hx_has_tag(const char *name)
{
    return strstr(name, tag) != NULL;
}

void hx_put_untagged(struct hx_text *text, const char *name)
{
    while (*name) {
        const char *next = strstr(name, tag), *end = next ? hx_behind_tag(next) : NULL;
        if (!next)
            next = name + strlen(name);
        else if (!end)
            end = next += sizeof tag - 1;
        hx_text_putn(text, name, (size_t)(next - name));
        name = end ? end : next;
    }
}

size_t hx_untagged_bytes(const char *symbol)
{
    const char *at = symbol;
    while ((at = strchr(at, 'B')) && !(at[1] >= '0' && at[1] <= '9'))
        at++;
    return at ? (size_t)(at - symbol) : strlen(symbol);
}

bool hx_is_namesake(const char *symbol, const char *untagged, const char *other)
{
    struct hx_text name = {0}, plain = {0};
    if (strncmp(symbol, other, hx_untagged_bytes(symbol)) != 0 || strcmp(symbol, other) == 0)
        return false;
    hx_demangle_symbol(&name, other);
    hx_put_untagged(&plain, hx_text_str(&name));
    bool same = !name.failed && !plain.failed && strcmp(hx_text_str(&plain), untagged) == 0;
    hx_text_free(&name);
    hx_text_free(&plain);
    return same;
}

char *hx_written_name(const char *name)
{
    struct hx_text full = {0}, plain = {0};
    if (!hx_is_mangled(name))
        return strdup(name);
    hx_demangle_symbol(&full, name);
    hx_put_untagged(&plain, hx_text_str(&full));
    plain.failed |= full.failed;
    hx_text_free(&full);
    if (plain.failed)
        hx_text_free(&plain);
    return plain.s;
}
