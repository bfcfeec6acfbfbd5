/* call_label.c - stacks in one line. */
#include "ui/data/call_label.h"

#include "layout/type_name.h"
#include "model/function_name.h"

#include <ctype.h>
#include <string.h>

#define BETWEEN " < "

static bool is_library(const char *s)
{
    static const char *const spaces[] = {"std::", "__gnu_cxx::"};
    for (size_t i = 0; i < sizeof spaces / sizeof *spaces; i++)
        if (strncmp(s, spaces[i], strlen(spaces[i])) == 0)
            return true;
    return false;
}

/* What the C library does before main. */
static bool is_start(const char *s)
{
    return strncmp(s, "__libc_start", strlen("__libc_start")) == 0 || strncmp(s, "_start", 6) == 0;
}

const char *hx_source_file(const char *source)
{
    const char *slash = strrchr(source, '/');
    return slash && slash[1] ? slash + 1 : source;
}

bool hx_call_is_library(const char *function)
{
    struct hx_text call = {0};
    hx_function_name_bare(&call, function, strlen(function));
    bool library = is_library(hx_text_str(&call));
    hx_text_free(&call);
    return library;
}

/* The label while it is made. */
struct calls {
    struct hx_text *text;
    size_t begin, last; /* where it begins, and its last call */
    bool recursive;     /* that has called itself */
};

static void put_call(struct calls *calls, struct hx_text *call)
{
    struct hx_text *text = calls->text;
    const char *last = hx_text_str(text) + calls->last, *name = hx_text_str(call);
    if (text->n > calls->begin && strcmp(last, name) == 0 && strcmp(name, "...") != 0) {
        calls->recursive = true;
    } else {
        hx_text_puts(text, calls->recursive ? " (recursive)" : "");
        hx_text_puts(text, text->n > calls->begin ? BETWEEN : "");
        calls->last = text->n;
        calls->recursive = false;
        hx_text_puts(text, name);
    }
    hx_text_clear(call);
}

static void put_function(const char *s, size_t n, struct hx_text *ret)
{
    struct hx_text bare = {0};
    hx_function_name_bare(&bare, s, n);
    hx_text_named_scopes(ret, hx_text_str(&bare));
    ret->failed |= bare.failed;
    hx_text_free(&bare);
}

void hx_text_calls(struct hx_text *text, const char *label)
{
    struct hx_text call = {0}, library = {0}; /* the library's, until somebody else calls it */
    struct calls calls = {.text = text, .begin = text->n, .last = text->n};
    bool was_main = false;
    for (const char *s = label, *next; s; s = next) {
        const char *end = strstr(s, BETWEEN);
        next = end ? end + strlen(BETWEEN) : NULL;
        end = end ? end : s + strlen(s);
        if (was_main && is_start(s))
            break;
        put_function(s, (size_t)(end - s), &call);
        was_main = strcmp(hx_text_str(&call), "main") == 0;
        if (is_library(hx_text_str(&call))) {
            struct hx_text inner = library;
            library = call;
            call = inner;
            hx_text_clear(&call);
            continue;
        }
        if (library.n)
            put_call(&calls, &library);
        put_call(&calls, &call);
    }
    if (library.n)
        put_call(&calls, &library);
    hx_text_puts(text, calls.recursive ? " (recursive)" : "");
    text->failed |= call.failed || library.failed;
    hx_text_free(&call);
    hx_text_free(&library);
}
