/* store_file.c - the store as a file. */
#include "store/file/store_file.h"

#include "base/cleanup.h"
#include "store/file/sidecar.h"
#include "store/schema/schema.h"
#include "store/store.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

/* Offsets in the first page of an SQLite file. */
enum {
    DB_PAGE_SIZE = 16,
    DB_WRITES = 18,
    DB_PAGES = 28,
    DB_VERSION = 60,
    DB_APPLICATION = 68,
    DB_HEADER = 100
};

static uint32_t big_endian32(const uint8_t *p)
{
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

static hx_error *check_header(const char *path, const struct hx_pin *file, const uint8_t *head,
                              size_t n, uint64_t size)
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
    if (size < whole && !hx_sidecar_there(file, "-wal", 1) &&
        !hx_sidecar_there(file, "-journal", 1))
        return hx_error_new(HX_E_CORRUPT, path, "take it from a backup or make it again",
                            "the store is truncated (%llu of %llu bytes)", (unsigned long long)size,
                            (unsigned long long)whole);
    return NULL;
}

/* Opens the file itself, and not what somebody puts in its place. */
static hx_error *open_pinned_file(const struct hx_pin *file, const char *path, int *ret)
{
    int fd = open(file->at, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY);
    if (fd < 0)
        return errno == EACCES || errno == EPERM
                   ? hx_error_new(HX_E_PERM, path, "run as its owner, or as root",
                                  "no permission to read it")
                   : hx_error_os(errno, path, "open");
    *ret = fd;
    return NULL;
}

static hx_error *identify_store_file(const struct hx_pin *file, const char *path,
                                     enum hx_file_kind *ret)
{
    struct stat st;
    if (lstat(file->at, &st)) {
        if (errno != ENOENT)
            return hx_error_os(errno, path, "cannot look at it");
        *ret = HX_FILE_ABSENT;
        return NULL;
    }
    if (S_ISDIR(st.st_mode))
        return hx_schema_foreign(path, "a directory");
    if (!S_ISREG(st.st_mode))
        return hx_schema_foreign(path, "not a regular file");
    HX_FD int fd = -1;
    HX_TRY(open_pinned_file(file, path, &fd));
    uint8_t head[DB_HEADER];
    ssize_t n = pread(fd, head, sizeof head, 0);
    if (n < 0)
        return hx_error_os(errno, path, "read");
    HX_TRY(check_header(path, file, head, (size_t)n, (uint64_t)st.st_size));
    *ret = HX_FILE_STORE;
    return NULL;
}

hx_error *hx_file_probe(const char *path, struct hx_pin *ret, enum hx_file_kind *ret_kind)
{
    if (!*path)
        return hx_error_new(HX_E_USAGE, "FILE", "give the name of a file", "the name is empty");
    hx_pin_deinit(ret);
    HX_TRY(hx_pin(path, ret));
    return identify_store_file(ret, path, ret_kind);
}

hx_error *hx_file_write(int fd, const char *what, const void *bytes, size_t n)
{
    for (const uint8_t *at = bytes; n;) {
        ssize_t done = write(fd, at, n);
        if (done < 0 && errno == EINTR)
            continue;
        if (done < 0)
            return hx_error_os(errno, what, "write");
        at += done;
        n -= (size_t)done;
    }
    return NULL;
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
hx_error *hx_file_create_by(const struct hx_pin *file, const char *what, hx_file_fill_fn *fill,
                            void *context)
{
    char self[64];
    snprintf(self, sizeof self, "/proc/self/fd/%d", file->folder);
    HX_FD int fd = open(self, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    if (fd >= 0) {
        snprintf(self, sizeof self, "/proc/self/fd/%d", fd);
        if (fchmod(fd, 0600))
            return hx_error_os(errno, what, "chmod");
        HX_TRY(fill(context, fd));
        if (linkat(AT_FDCWD, self, file->folder, file->name, AT_SYMLINK_FOLLOW) == 0)
            return NULL;
        if (errno == EEXIST)
            return create_error(errno, what);
        close(fd);
    }
    fd = open(file->at, O_CREAT | O_EXCL | O_RDWR | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0)
        return create_error(errno, what);
    hx_error *err = fill(context, fd);
    if (err)
        unlinkat(file->folder, file->name, 0);
    return err;
}

struct bytes {
    const char *what;
    const void *data;
    size_t n;
};

static hx_error *fill_with_bytes(void *context, int fd)
{
    const struct bytes *bytes = context;
    return hx_file_write(fd, bytes->what, bytes->data, bytes->n);
}

hx_error *hx_file_create(const struct hx_pin *file, const char *what, const void *data,
                         size_t bytes)
{
    return hx_file_create_by(file, what, fill_with_bytes, &(struct bytes){what, data, bytes});
}

bool hx_file_writable(const struct hx_pin *file)
{
    char folder[64];
    snprintf(folder, sizeof folder, "/proc/self/fd/%d", file->folder);
    return access(file->at, R_OK | W_OK) == 0 && access(folder, W_OK | X_OK) == 0;
}

bool hx_file_foreign(const struct hx_pin *file)
{
    struct stat st;
    return lstat(file->at, &st) != 0 || !hx_trusted_user(st.st_uid);
}

bool hx_file_logged(const struct hx_pin *file)
{
    uint8_t head[DB_HEADER];
    HX_FD int fd = open(file->at, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY);
    return hx_sidecar_there(file, "-wal", 1) || hx_sidecar_there(file, "-journal", 1) ||
           (fd >= 0 && pread(fd, head, sizeof head, 0) == sizeof head && head[DB_WRITES] > 1);
}

static hx_error *copy_bytes(int in, const char *what, int out, const char *to)
{
    size_t size = 1 << 20;
    HX_FREE uint8_t *buf = malloc(size);
    HX_NEED(buf);
    for (;;) {
        ssize_t n = read(in, buf, size);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return hx_error_os(errno, what, "read");
        if (n == 0)
            return NULL;
        HX_TRY(hx_file_write(out, to, buf, (size_t)n));
    }
}

/* `in` is closed. */
static hx_error *copy_to(int in, const char *what, const char *to)
{
    HX_FD int from = in;
    HX_FD int out = open(to, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (out < 0)
        return hx_error_os(errno, what, "cannot make a copy");
    return copy_bytes(from, what, out, what);
}

hx_error *hx_file_copy_plain(const struct hx_pin *file, const char *what, const struct hx_pin *to,
                             struct stat *ret)
{
    int in = -1;
    HX_TRY(open_pinned_file(file, what, &in));
    if (fstat(in, ret) != 0) {
        hx_error *err = hx_error_os(errno, what, "cannot look at it");
        close(in);
        return err;
    }
    return copy_to(in, what, to->at);
}

static hx_error *copy_sidecar(const struct hx_pin *file, const char *what, const struct hx_pin *to,
                              const char *suffix)
{
    HX_FREE char *in = NULL, *out = NULL;
    if (asprintf(&in, "%s%s", file->at, suffix) < 0) {
        in = NULL;
        return hx_error_nomem();
    }
    if (asprintf(&out, "%s%s", to->at, suffix) < 0) {
        out = NULL;
        return hx_error_nomem();
    }
    int fd = hx_sidecar_open(in, O_RDONLY, 0);
    if (fd >= 0)
        return copy_to(fd, what, out);
    if (errno != ENOENT)
        return hx_sidecar_explain(file, what,
                                  hx_error_os(errno, what, "cannot read what lies beside it"));
    unlink(out); /* of an attempt before */
    return NULL;
}

/* When a store and its log were last written, and their sizes. */
struct stamp {
    struct timespec file_time, log_time;
    off_t file_size, log_size;
};

static struct stamp stamp_of(const struct hx_pin *file)
{
    struct stamp stamp = {0}; /* compared as bytes */
    struct stat st;
    HX_FREE char *log = NULL;
    if (lstat(file->at, &st) == 0) {
        stamp.file_time = st.st_mtim;
        stamp.file_size = st.st_size;
    }
    if (asprintf(&log, "%s-wal", file->at) < 0)
        log = NULL;
    if (log && lstat(log, &st) == 0) {
        stamp.log_time = st.st_mtim;
        stamp.log_size = st.st_size;
    }
    return stamp;
}

static hx_error *copy_all(const struct hx_pin *file, const char *what, const struct hx_pin *to)
{
    struct stat st;
    HX_TRY(hx_file_copy_plain(file, what, to, &st));
    HX_TRY(copy_sidecar(file, what, to, "-wal"));
    return copy_sidecar(file, what, to, "-journal");
}

hx_error *hx_file_copy(const struct hx_pin *file, const char *what, const struct hx_pin *to)
{
    for (int attempt = 0;; attempt++) {
        struct stamp before = stamp_of(file);
        HX_TRY(copy_all(file, what, to));
        struct stamp after = stamp_of(file);
        if (memcmp(&before, &after, sizeof before) == 0)
            return NULL;
        if (attempt == 8) /* somebody wrote meanwhile: the parts may not fit together */
            return hx_error_new(HX_E_BUSY, what, "wait for it to end",
                                "another program is writing to the store");
    }
}

hx_error *hx_file_replace(const struct hx_pin *file, const char *what, const struct hx_pin *by,
                          const struct stat *old)
{
    HX_FD int fd = open(by->at, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0)
        return hx_error_os(errno, what, "cannot replace it");
    /* whose it was, as far as we may give it away; else those of its group have it still */
    if ((fchown(fd, old->st_uid, old->st_gid) != 0 && fchown(fd, (uid_t)-1, old->st_gid) != 0) ||
        fchmod(fd, old->st_mode & 0777) != 0)
        return hx_error_os(errno, what, "cannot give it the rights of the old one");
    if (renameat(by->folder, by->name, file->folder, file->name))
        return hx_error_os(errno, what, "cannot replace it");
    return NULL;
}

void hx_file_remove(const struct hx_pin *file)
{
    for (size_t i = 0; i < HX_SIDECARS; i++) {
        HX_FREE char *at = NULL;
        if (asprintf(&at, "%s%s", file->at, hx_sidecar[i]) < 0)
            at = NULL;
        else
            hx_sidecar_unlink(at);
    }
    unlinkat(file->folder, file->name, 0);
}
