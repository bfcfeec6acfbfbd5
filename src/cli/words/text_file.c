/* text_file.c - reading a file that the user wrote. */
#include "cli/words/text_file.h"

#include "base/cleanup.h"

#include <errno.h>
#include <stdio.h>
#include <sys/stat.h>

hx_error *hx_text_file_read(const char *path, size_t max, char **ret, size_t *ret_n)
{
    size_t n = 0, room = 65536;
    struct stat info;
    HX_FILE FILE *file = fopen(path, "re");
    if (!file)
        return hx_error_os(errno, path, "open");
    if (fstat(fileno(file), &info) == 0 && S_ISDIR(info.st_mode))
        return hx_error_os(EISDIR, path, "open");
    HX_FREE char *text = NULL;
    do {
        room *= 2;
        char *more = realloc(text, room);
        HX_NEED(more);
        text = more;
        n += fread(text + n, 1, room - n, file);
        if (ferror(file))
            return hx_error_os(errno, path, "read");
    } while (n == room && n <= max);
    *ret = hx_steal(text);
    *ret_n = n;
    return NULL;
}
