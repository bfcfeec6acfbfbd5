/* package.c - which package a file belongs to, by the lists that dpkg keeps of them. */
#include "sym/package.h"

#include "base/cleanup.h"
#include "sym/debug_file.h"
#include "sym/module.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define LISTS      "/var/lib/dpkg/info"
#define LISTS_MAX  20000             /* packages; a large desktop has 4,000 */
#define LIST_BYTES ((size_t)8 << 20) /* of one; the largest have some 2 MiB */

/* Has the list a line that is the path? */
static bool list_has(int folder, const char *name, const char *line, size_t n)
{
    struct stat st;
    HX_FD int fd = openat(folder, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || (size_t)st.st_size > LIST_BYTES)
        return false;
    HX_FREE char *text = malloc((size_t)st.st_size + 1);
    ssize_t got = text ? read(fd, text, (size_t)st.st_size) : -1;
    for (char *at = text, *end = text + got; got > 0 && at < end;) {
        char *stop = memchr(at, '\n', (size_t)(end - at));
        size_t length = (size_t)((stop ? stop : end) - at);
        if (length == n && memcmp(at, line, n) == 0)
            return true;
        at += length + 1;
    }
    return false;
}

/* Is the file of that path here the one with the build-id? */
static bool is_file(const char *path, const char *build_id)
{
    struct stat st;
    char own[HX_BUILD_ID];
    HX_FD int fd = hx_module_open_regular(path, &st);
    return fd >= 0 && hx_build_id(fd, own) && strcmp(own, build_id) == 0;
}

/* "libc6:amd64.list" */
static void put_package(const char *list, struct hx_text *ret)
{
    size_t n = strcspn(list, ":");
    n = list[n] ? n : strlen(list) - strlen(".list");
    hx_text_puts(ret, "package ");
    hx_text_putn(ret, list, n);
    hx_text_puts(ret, n == 5 && memcmp(list, "libc6", n) == 0 ? "-dbg" : "-dbgsym");
}

void hx_debug_package(const char *path, const char *build_id, struct hx_text *ret)
{
    static const char usr[] = "/usr/", end[] = ".list";
    const size_t skipped = sizeof usr - 2;
    /* where /lib leads to /usr/lib, lists may have either */
    const char *other = strncmp(path, usr, sizeof usr - 1) == 0 ? path + skipped : NULL;
    HX_DIR DIR *folder = path[0] == '/' ? opendir(LISTS) : NULL;
    size_t left = LISTS_MAX;
    for (struct dirent *entry; folder && left && (entry = readdir(folder));) {
        size_t n = strlen(entry->d_name);
        if (n < sizeof end || strcmp(entry->d_name + n - strlen(end), end) != 0)
            continue;
        left--;
        if (!list_has(dirfd(folder), entry->d_name, path, strlen(path)) &&
            !(other && list_has(dirfd(folder), entry->d_name, other, strlen(other))))
            continue;
        if (is_file(path, build_id))
            put_package(entry->d_name, ret);
        return;
    }
}
