/* error.c - the error object and its one line. */
#include "base/error.h"

#include "base/progress.h"
#include "base/text.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static hx_error out_of_memory = {
    .kind = HX_E_NOMEM,
    .what = (char *)"memory",
    .why = (char *)"not enough of it",
    .todo = (char *)"free some, or raise the limit (ulimit -v, cgroup)",
};

hx_error *hx_error_nomem(void)
{
    return &out_of_memory;
}

hx_error *hx_error_new(enum hx_error_kind kind, const char *what, const char *todo, const char *why,
                       ...)
{
    hx_error *err = calloc(1, sizeof *err);
    if (!err)
        return &out_of_memory;
    va_list args;
    va_start(args, why);
    int printed = vasprintf(&err->why, why, args);
    va_end(args);
    if (printed < 0)
        err->why = NULL;
    err->kind = kind;
    err->what = strdup(what ? what : "");
    err->todo = todo ? strdup(todo) : NULL;
    if (!err->why || !err->what || (todo && !err->todo)) {
        hx_error_free(err);
        return &out_of_memory;
    }
    return err;
}

hx_error *hx_error_at(const char *what, const char *todo, uint64_t offset, const char *why,
                      va_list args)
{
    struct hx_text text = {0};
    hx_text_vputf(&text, why, args);
    hx_error *err =
        hx_error_new(HX_E_CORRUPT, what, todo, "at byte %" PRIu64 " (0x%" PRIx64 "): %s", offset,
                     offset, hx_text_str(&text));
    hx_text_free(&text);
    return err;
}

const char *hx_error_os_todo(int os_errno)
{
    switch (os_errno) {
    case EMFILE:
        return "raise ulimit -n";
    case ENFILE:
        return "raise fs.file-max, or end programs that hold many files open";
    case ENOSPC:
    case EDQUOT:
        return "free space there, or store elsewhere";
    case EFBIG:
        return "raise ulimit -f, or store on a file system that takes larger files";
    case ENOMEM:
        return out_of_memory.todo;
    case EROFS:
        return "choose a directory that you may write";
    default:
        return NULL;
    }
}

hx_error *hx_error_os(int os_errno, const char *what, const char *call)
{
    char buf[128];
    hx_error *err = hx_error_new(HX_E_OS, what, hx_error_os_todo(os_errno), "%s: %s", call,
                                 strerror_r(os_errno, buf, sizeof buf));
    if (err != &out_of_memory)
        err->os_errno = os_errno;
    return err;
}

hx_error *hx_error_copy(const hx_error *err)
{
    if (!err || err == &out_of_memory)
        return (hx_error *)err;
    hx_error *copy = hx_error_new(err->kind, err->what, err->todo, "%s", err->why);
    if (copy != &out_of_memory)
        copy->os_errno = err->os_errno;
    return copy;
}

/* Copies what fits, without cutting a character in two. */
static void copy_line(const char *line, size_t n, char *buf, size_t size)
{
    if (size == 0)
        return;
    if (n >= size) {
        n = size - 1;
        while (n && ((uint8_t)line[n] & 0xc0) == 0x80)
            n--;
    }
    memcpy(buf, line, n);
    buf[n] = 0;
}

void hx_error_line(const hx_error *err, char *buf, size_t size)
{
    struct hx_text text = {0};
    hx_text_escape(&text, err->what, strlen(err->what), false);
    if (text.n)
        hx_text_puts(&text, ": ");
    hx_text_escape(&text, err->why, strlen(err->why), false);
    if (err->todo) {
        hx_text_puts(&text, "; ");
        hx_text_escape(&text, err->todo, strlen(err->todo), false);
    }
    if (text.failed) /* no memory for this one: say at least that */
        copy_line(out_of_memory.why, strlen(out_of_memory.why), buf, size);
    else
        copy_line(hx_text_str(&text), text.n, buf, size);
    hx_text_free(&text);
}

void hx_error_free(hx_error *err)
{
    if (!err || err == &out_of_memory)
        return;
    free(err->what);
    free(err->why);
    free(err->todo);
    free(err);
}

hx_error *hx_error_cancelled(const char *what)
{
    return hx_error_new(HX_E_CANCEL, what, NULL, "interrupted");
}
