/* spool.c - from a pipe into a file without a name. */
#include "cli/take/spool.h"

#include "cli/console.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

enum { CHUNK = 1 << 18, PAGE = 4096, LOOK_EVERY = 1 << 24 };
/* What stays free where it is written: the larger of these. */
#define FREE_BYTES (UINT64_C(64) << 20)
#define FREE_PART  20 /* 1 / 20 of the file system */

#define WRITER_NS UINT64_C(1000000000)
#define MOMENT_NS UINT64_C(10000000)

static const char *folder(void)
{
    const char *temporary = getenv("TMPDIR");
    return temporary && *temporary ? temporary : "/tmp";
}

static hx_error *make_spool_file(int *ret)
{
    const char *where = folder();
    int fd = open(where, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    if (fd < 0) {
        HX_FREE char *path = NULL;
        if (asprintf(&path, "%s/heapx-XXXXXX", where) < 0) {
            path = NULL;
            return hx_error_nomem();
        }
        fd = mkostemp(path, O_CLOEXEC);
        if (fd < 0)
            return hx_error_new(HX_E_OS, where, "set TMPDIR to a directory that you may write",
                                "cannot make a file there: %s", strerror(errno));
        unlink(path);
    }
    *ret = fd;
    return NULL;
}

static hx_error *no_spool_room(const struct hx_spool *spool, uint64_t bytes)
{
    char size[HX_HUMAN];
    return hx_error_new(HX_E_LIMIT, spool->name,
                        "set TMPDIR to a directory with more room, or write it to a file and give "
                        "that",
                        "no room in %s for more than %s of it", folder(),
                        hx_human_bytes(bytes, size));
}

/* Others need room there, too; on a tmpfs it is the machine's memory. */
static hx_error *check_free_space(const struct hx_spool *spool, uint64_t bytes)
{
    struct statvfs fs;
    if (fstatvfs(spool->fd, &fs) != 0 || !fs.f_blocks)
        return NULL;
    uint64_t block = fs.f_frsize, part = fs.f_blocks / FREE_PART * block;
    uint64_t least = part > FREE_BYTES ? part : FREE_BYTES;
    if (least > fs.f_blocks / 2 * block)
        least = fs.f_blocks / 2 * block;
    return fs.f_bavail * block < least ? no_spool_room(spool, bytes) : NULL;
}

static bool is_zero_block(const char *bytes, size_t n)
{
    return !*bytes && memcmp(bytes, bytes + 1, n - 1) == 0;
}

/* So many of the n bytes at a place lie in its page. */
static size_t page_end(uint64_t at, size_t n)
{
    size_t left = PAGE - at % PAGE;
    return left < n ? left : n;
}

/* Pages of zeros are left out: the file is made as long as it has to be at the end. */
static hx_error *put_spool_bytes(const struct hx_spool *spool, const char *bytes, size_t n,
                                 uint64_t at)
{
    while (n) {
        size_t part = page_end(at, n);
        if (!is_zero_block(bytes, part)) {
            while (part < n && !is_zero_block(bytes + part, page_end(at + part, n - part)))
                part += page_end(at + part, n - part);
            ssize_t done = pwrite(spool->fd, bytes, part, (off_t)at);
            if (done < 0 && errno == EINTR)
                continue;
            if (done < 0)
                return errno == ENOSPC || errno == EDQUOT || errno == EFBIG
                           ? no_spool_room(spool, at)
                           : hx_error_os(errno, folder(), "write");
            part = (size_t)done;
        }
        bytes += part;
        n -= part;
        at += part;
    }
    return NULL;
}

/* Something to read, the end, or an interrupt; -1: a moment, or an interrupt. */
static hx_error *await_spool_input(const struct hx_spool *spool, int from)
{
    hx_error *error = NULL;
    for (bool ready = false; !ready && !error; ready = ready || from < 0)
        error = hx_wait_until(hx_now_ns() + (from < 0 ? MOMENT_NS : 1000000000), from, &ready);
    if (!error || error->kind != HX_E_CANCEL)
        return error;
    hx_error_free(error);
    return hx_error_cancelled(spool->name);
}

/* named: who writes may come a moment later, and until then each look at the pipe is its end. */
static hx_error *copy_pipe(const struct hx_spool *spool, int from, bool named,
                           const struct hx_progress *progress)
{
    uint64_t at = 0, looked = 0, deadline = hx_now_ns() + (named ? WRITER_NS : 0);
    HX_FREE char *chunk = malloc(CHUNK);
    HX_NEED(chunk);
    HX_TRY(check_free_space(spool, 0));
    for (;;) {
        bool first = named && at == 0;
        HX_TRY(first ? NULL : await_spool_input(spool, from));
        ssize_t n = read(from, chunk, CHUNK);
        if (n < 0 && errno != EINTR && errno != EAGAIN)
            return hx_error_os(errno, spool->name, "read");
        if (n == 0 && !first)
            break;
        if (n == 0 && hx_now_ns() >= deadline)
            return hx_error_new(HX_E_ABSENT, spool->name, "start what writes into it first",
                                "a pipe into which nobody writes");
        if (n <= 0) {
            HX_TRY(first ? await_spool_input(spool, n ? from : -1) : NULL);
            continue;
        }
        HX_TRY(put_spool_bytes(spool, chunk, (size_t)n, at));
        at += (uint64_t)n;
        hx_progress_at(progress, "reading", at, 0);
        if (at - looked >= LOOK_EVERY) {
            looked = at;
            HX_TRY(check_free_space(spool, at));
        }
    }
    if (ftruncate(spool->fd, (off_t)at))
        return hx_error_os(errno, folder(), "ftruncate");
    return NULL;
}

/* Where there is something to be read to its end: a descriptor; -1: at no such place. */
static int open_pipe(const char *path)
{
    struct stat st;
    if (stat(path, &st) != 0 || !(S_ISFIFO(st.st_mode) || S_ISSOCK(st.st_mode)))
        return -1;
    return open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC); /* who writes may come later */
}

hx_error *hx_spool_open(const char *path, const struct hx_progress *progress, struct hx_spool *ret)
{
    struct stat st;
    bool input = strcmp(path, "-") == 0;
    HX_FD int opened = -1;
    *ret = (struct hx_spool){.name = input ? "standard input" : path, .path = path, .fd = -1};
    if (input && fstat(STDIN_FILENO, &st) == 0 && S_ISREG(st.st_mode)) {
        ret->path = "/dev/stdin";
        return NULL;
    }
    if (input && isatty(STDIN_FILENO))
        return hx_error_new(HX_E_USAGE, ret->name, "for example: coredumpctl dump | heapx import -",
                            "is a terminal");
    int from = input ? STDIN_FILENO : (opened = open_pipe(path));
    if (from < 0)
        return NULL;
    HX_TRY(make_spool_file(&ret->fd));
    hx_error *error = copy_pipe(ret, from, !input, progress);
    if (error) {
        hx_spool_close(ret);
        return error;
    }
    snprintf(ret->own, sizeof ret->own, "/proc/self/fd/%d", ret->fd);
    ret->path = ret->own;
    return NULL;
}

void hx_spool_close(struct hx_spool *spool)
{
    if (spool->fd >= 0)
        close(spool->fd);
    spool->fd = -1;
}

hx_error *hx_spool_error(const struct hx_spool *spool, hx_error *error)
{
    if (!error || !error->what || strcmp(error->what, spool->path) != 0 ||
        spool->path == spool->name)
        return error;
    hx_error *named_error = hx_error_new(error->kind, spool->name, error->todo, "%s", error->why);
    if (named_error != hx_error_nomem())
        named_error->os_errno = error->os_errno;
    hx_error_free(error);
    return named_error;
}
