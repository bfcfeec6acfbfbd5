/* import.c - the table of formats that are read, and how their files are opened. */
#include "export/import/import.h"

#include "base/cleanup.h"
#include "base/text.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define X(name) extern const struct hx_importer hx_import_##name;
HX_IMPORTS(X)
#undef X

const struct hx_importer *const hx_importers[] = {
#define X(name) &hx_import_##name,
    HX_IMPORTS(X)
#undef X
        NULL,
};

enum { HEAD = 4096 };

hx_error *hx_importer_detect(const char *path, const struct hx_importer **ret)
{
    uint8_t head[HEAD];
    struct stat st;
    HX_FD int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0 || fstat(fd, &st))
        return hx_error_os(errno, path, "open");
    *ret = NULL;
    if (!S_ISREG(st.st_mode))
        return NULL;
    ssize_t n = pread(fd, head, sizeof head, 0);
    if (n < 0)
        return hx_error_os(errno, path, "read");
    for (const struct hx_importer *const *importer = hx_importers; *importer && !*ret; importer++)
        if ((*importer)->detect(head, (size_t)n, (uint64_t)st.st_size))
            *ret = *importer;
    return NULL;
}

/* Read, not mapped: a file that is cut while it is looked at must not end us. */
static hx_error *read_profile_file(const char *path, uint8_t **ret, size_t *ret_n)
{
    struct stat st;
    HX_FD int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st))
        return hx_error_os(errno, path, "open");
    HX_FREE uint8_t *bytes = malloc((size_t)st.st_size + 1);
    HX_NEED(bytes);
    size_t n = 0;
    while (n < (size_t)st.st_size) {
        ssize_t got = read(fd, bytes + n, (size_t)st.st_size - n);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return hx_error_os(errno, path, "read");
        if (got == 0)
            break;
        n += (size_t)got;
    }
    bytes[n] = 0; /* so that texts in it may be given to what looks for an end */
    *ret = hx_steal(bytes);
    *ret_n = n;
    return NULL;
}

hx_error *hx_import_file(const struct hx_importer *importer, const char *path, hx_store *store,
                         const struct hx_progress *progress, bool *ret_partial)
{
    HX_FREE uint8_t *bytes = NULL;
    struct hx_import import = {.path = path, .progress = progress, .store = store};
    HX_TRY(read_profile_file(path, &bytes, &import.n));
    import.bytes = bytes;
    HX_TRY(importer->read(&import));
    *ret_partial = import.partial;
    return NULL;
}

hx_error *hx_import_error(const struct hx_import *import, uint64_t offset, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    hx_error *err =
        hx_error_at(import->path, "take the file again from its source", offset, format, args);
    va_end(args);
    return err;
}
