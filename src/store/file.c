/* file.c - the store as a file. */
#include "store/file.h"

#include "base/cleanup.h"
#include "store/schema.h"
#include "store/store.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

/* Offsets in the first page of an SQLite file. */
enum { DB_PAGE_SIZE = 16, DB_PAGES = 28, DB_VERSION = 60, DB_APPLICATION = 68, DB_HEADER = 100 };

static uint32_t big_endian32(const uint8_t *p)
{
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

bool hx_file_beside(const char *path, const char *suffix, off_t least)
{
    /* SQLite keeps it beside the file that a link leads to */
    HX_FREE char *real = realpath(path, NULL), *name = NULL;
    struct stat st;
    if (!real || asprintf(&name, "%s%s", real, suffix) < 0) {
        name = NULL;
        return false;
    }
    return stat(name, &st) == 0 && st.st_size >= least;
}

static hx_error *check_header(const char *path, const uint8_t *head, size_t n, uint64_t size)
{
    static const char magic[16] = "SQLite format 3";
    if (n < sizeof magic || memcmp(head, magic, sizeof magic) != 0)
        return hx_schema_foreign(path, n ? "not an SQLite file" : "the file is empty");
    if (n < DB_HEADER)
        return hx_error_new(HX_E_CORRUPT, path, "take it from a backup or make it again",
                            "the store is truncated (%llu bytes)", (unsigned long long)size);
    if (big_endian32(head + DB_APPLICATION) != HX_STORE_APPLICATION_ID)
        return hx_schema_foreign(path, "an SQLite file of another program");
    uint32_t version = big_endian32(head + DB_VERSION);
    if (version > HX_STORE_SCHEMA)
        return hx_schema_newer(path, (long)version);
    uint64_t page = (uint64_t)head[DB_PAGE_SIZE] << 8 | head[DB_PAGE_SIZE + 1];
    if (page == 1)
        page = 65536;
    uint64_t whole = page * big_endian32(head + DB_PAGES);
    /* with a log beside it the last pages may still be only there */
    if (size < whole && !hx_file_beside(path, "-wal", 1) && !hx_file_beside(path, "-journal", 1))
        return hx_error_new(HX_E_CORRUPT, path, "take it from a backup or make it again",
                            "the store is truncated (%llu of %llu bytes)", (unsigned long long)size,
                            (unsigned long long)whole);
    return NULL;
}

hx_error *hx_file_probe(const char *path, enum hx_file_is *ret)
{
    if (!*path)
        return hx_error_new(HX_E_USAGE, "FILE", "give the name of a file", "the name is empty");
    struct stat st;
    if (stat(path, &st)) {
        if (errno != ENOENT)
            return hx_error_os(errno, path, "cannot look at it");
        if (lstat(path, &st) == 0)
            return hx_error_new(HX_E_FAIL, path, "remove it, or use another name",
                                "a symbolic link to nothing");
        *ret = HX_FILE_ABSENT;
        return NULL;
    }
    if (S_ISDIR(st.st_mode))
        return hx_schema_foreign(path, "a directory");
    if (!S_ISREG(st.st_mode))
        return hx_schema_foreign(path, "not a regular file");
    HX_FD int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0)
        return errno == EACCES || errno == EPERM
                   ? hx_error_new(HX_E_PERM, path, "run as its owner, or as root",
                                  "no permission to read it")
                   : hx_error_os(errno, path, "open");
    uint8_t head[DB_HEADER];
    ssize_t n = pread(fd, head, sizeof head, 0);
    if (n < 0)
        return hx_error_os(errno, path, "read");
    HX_TRY(check_header(path, head, (size_t)n, (uint64_t)st.st_size));
    *ret = HX_FILE_STORE;
    return NULL;
}

static hx_error *write_all(int fd, const char *path, const uint8_t *data, size_t bytes)
{
    while (bytes) {
        ssize_t n = write(fd, data, bytes);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return hx_error_os(errno, path, "write");
        data += n;
        bytes -= (size_t)n;
    }
    return NULL;
}

/* The directory part of a path, with "." for none. */
static char *directory_of(const char *path)
{
    const char *slash = strrchr(path, '/');
    if (!slash)
        return strdup(".");
    return strndup(path, slash == path ? 1 : (size_t)(slash - path));
}

static hx_error *create_error(int os_errno, const char *path)
{
    if (os_errno == EACCES || os_errno == EPERM || os_errno == EROFS)
        return hx_error_new(HX_E_PERM, path, "choose a directory that you may write",
                            "cannot make the file: %s", strerror(os_errno));
    return hx_error_os(os_errno, path, "cannot make the file");
}

/* A file without a name until it is complete, so that a crash leaves nothing; with its name from
 * the beginning on file systems that know no such files. */
hx_error *hx_file_create_by(const char *path, hx_file_fill_fn *fill, void *context)
{
    HX_FREE char *directory = directory_of(path);
    if (!directory)
        return hx_error_nomem();
    HX_FD int fd = open(directory, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    if (fd >= 0) {
        char self[64];
        snprintf(self, sizeof self, "/proc/self/fd/%d", fd);
        if (fchmod(fd, 0600))
            return hx_error_os(errno, path, "chmod");
        HX_TRY(fill(context, fd));
        if (linkat(AT_FDCWD, self, AT_FDCWD, path, AT_SYMLINK_FOLLOW) == 0)
            return NULL;
        if (errno == EEXIST)
            return create_error(errno, path);
        close(fd);
    }
    fd = open(path, O_CREAT | O_EXCL | O_RDWR | O_CLOEXEC, 0600);
    if (fd < 0)
        return create_error(errno, path);
    hx_error *err = fill(context, fd);
    if (err)
        unlink(path);
    return err;
}

struct bytes {
    const char *path;
    const void *data;
    size_t n;
};

static hx_error *fill_with_bytes(void *context, int fd)
{
    const struct bytes *bytes = context;
    return write_all(fd, bytes->path, bytes->data, bytes->n);
}

hx_error *hx_file_create(const char *path, const void *data, size_t bytes)
{
    return hx_file_create_by(path, fill_with_bytes, &(struct bytes){path, data, bytes});
}

bool hx_file_writable(const char *path)
{
    HX_FREE char *real = realpath(path, NULL);
    HX_FREE char *directory = real ? directory_of(real) : NULL;
    return directory && access(real, R_OK | W_OK) == 0 && access(directory, W_OK | X_OK) == 0;
}

/* Makes a file DIRECTORY/heapx-XXXXXX, 0600, with these bytes. */
static hx_error *make_unique(const char *directory, const char *todo, const void *data,
                             size_t bytes, char **ret)
{
    HX_FREE char *path = NULL;
    if (asprintf(&path, "%s/heapx-XXXXXX", directory) < 0) {
        path = NULL;
        return hx_error_nomem();
    }
    HX_FD int fd = mkostemp(path, O_CLOEXEC); /* 0600 */
    if (fd < 0)
        return hx_error_new(HX_E_OS, directory, todo, "cannot make a file there: %s",
                            strerror(errno));
    hx_error *err = write_all(fd, path, data, bytes);
    if (err) {
        unlink(path);
        return err;
    }
    *ret = hx_steal(path);
    return NULL;
}

hx_error *hx_file_temporary(const void *data, size_t bytes, char **ret)
{
    const char *directory = getenv("TMPDIR");
    return make_unique(directory && *directory ? directory : "/tmp",
                       "set TMPDIR to a directory that you may write", data, bytes, ret);
}

static hx_error *copy_file(const char *from, const char *to, bool must)
{
    HX_FD int in = open(from, O_RDONLY | O_CLOEXEC);
    if (in < 0 && !must && errno == ENOENT) {
        unlink(to); /* of an attempt before */
        return NULL;
    }
    if (in < 0)
        return hx_error_os(errno, from, "open");
    HX_FD int out = open(to, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (out < 0)
        return hx_error_os(errno, to, "open");
    size_t size = 1 << 20;
    HX_FREE uint8_t *buf = malloc(size);
    if (!buf)
        return hx_error_nomem();
    for (;;) {
        ssize_t n = read(in, buf, size);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return hx_error_os(errno, from, "read");
        if (n == 0)
            return NULL;
        HX_TRY(write_all(out, to, buf, (size_t)n));
    }
}

static hx_error *copy_beside(const char *from, const char *to, const char *suffix)
{
    HX_FREE char *in = NULL, *out = NULL;
    if (asprintf(&in, "%s%s", from, suffix) < 0) {
        in = NULL;
        return hx_error_nomem();
    }
    if (asprintf(&out, "%s%s", to, suffix) < 0) {
        out = NULL;
        return hx_error_nomem();
    }
    return copy_file(in, out, false);
}

/* When a store and its log were last written, and their sizes. */
struct stamp {
    struct timespec file_time, log_time;
    off_t file_size, log_size;
};

static struct stamp stamp_of(const char *path)
{
    struct stamp stamp = {0}; /* compared as bytes */
    struct stat st;
    HX_FREE char *log = NULL;
    if (stat(path, &st) == 0) {
        stamp.file_time = st.st_mtim;
        stamp.file_size = st.st_size;
    }
    if (asprintf(&log, "%s-wal", path) < 0)
        log = NULL;
    if (log && stat(log, &st) == 0) {
        stamp.log_time = st.st_mtim;
        stamp.log_size = st.st_size;
    }
    return stamp;
}

static hx_error *copy_all(const char *from, const char *to)
{
    HX_TRY(copy_file(from, to, true));
    HX_TRY(copy_beside(from, to, "-wal"));
    return copy_beside(from, to, "-journal");
}

hx_error *hx_file_copy(const char *path, char **ret)
{
    /* SQLite looks for the log beside the file that a link leads to */
    HX_FREE char *real = realpath(path, NULL);
    if (!real)
        return hx_error_os(errno, path, "cannot follow the path");
    HX_FREE char *copy = NULL;
    HX_TRY(hx_file_temporary(NULL, 0, &copy));
    for (int attempt = 0;; attempt++) {
        struct stamp before = stamp_of(real);
        hx_error *err = copy_all(real, copy);
        struct stamp after = stamp_of(real);
        bool changed = memcmp(&before, &after, sizeof before) != 0;
        if (!err && !changed)
            break;
        if (!err && attempt < 8) /* somebody wrote meanwhile: the parts may not fit together */
            continue;
        hx_file_remove(copy);
        return err ? err
                   : hx_error_new(HX_E_BUSY, path, "wait for it to end",
                                  "another program is writing to the store");
    }
    *ret = hx_steal(copy);
    return NULL;
}

hx_error *hx_file_copy_beside(const char *path, char **ret, char **ret_real)
{
    HX_FREE char *real = realpath(path, NULL);
    if (!real)
        return hx_error_os(errno, path, "cannot follow the path");
    HX_FREE char *directory = directory_of(real), *copy = NULL;
    if (!directory)
        return hx_error_nomem();
    HX_TRY(make_unique(directory, "use a directory that you may write", NULL, 0, &copy));
    hx_error *err = copy_file(real, copy, true);
    if (err) {
        unlink(copy);
        return err;
    }
    *ret = hx_steal(copy);
    *ret_real = hx_steal(real);
    return NULL;
}

void hx_file_remove(const char *path)
{
    static const char *const suffixes[] = {"", "-wal", "-shm", "-journal"};
    for (size_t i = 0; i < sizeof suffixes / sizeof *suffixes; i++) {
        HX_FREE char *name = NULL;
        if (asprintf(&name, "%s%s", path, suffixes[i]) < 0)
            name = NULL;
        else
            unlink(name);
    }
}
