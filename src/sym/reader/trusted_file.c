/* trusted_file.c - opens files at paths that another file names. */
#include "sym/reader/trusted_file.h"

#include "sym/module.h"

#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static bool is_trusted_owner(const struct stat *st)
{
    return st->st_uid == 0 || st->st_uid == geteuid();
}

/* May somebody else put another file at a path that lies in this folder? */
static bool is_safe_folder(const struct stat *st)
{
    bool others = st->st_mode & S_IWOTH || (st->st_mode & S_IWGRP && st->st_gid != getegid());
    return is_trusted_owner(st) && (!others || st->st_mode & S_ISVTX);
}

int hx_trusted_file_open(const char *named)
{
    char path[PATH_MAX];
    struct stat st;
    if (named[0] != '/' || strlen(named) >= sizeof path)
        return -1;
    memcpy(path, named, strlen(named) + 1);
    for (char *at = path; at; at = strchr(at + 1, '/')) {
        char kept = at[1];
        at[1] = 0; /* with the slash at its end: what a link leads to */
        bool safe = stat(path, &st) == 0 && S_ISDIR(st.st_mode) && is_safe_folder(&st);
        at[1] = kept;
        if (!safe)
            return -1;
        char *slash = strchr(at + 1, '/');
        if (slash)
            *slash = 0;
        safe = lstat(path, &st) == 0 && is_trusted_owner(&st);
        if (slash)
            *slash = '/';
        if (!safe)
            return -1;
    }
    if (stat(path, &st) != 0 || !S_ISREG(st.st_mode) || !is_trusted_owner(&st))
        return -1;
    return hx_module_open_regular(path, &st);
}
