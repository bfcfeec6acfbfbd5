/* kept.c - where snapshots of an explorer that was cut off go, and how they are found again. */
#include "cli/take/kept.h"

#include "base/cleanup.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* Is it a directory of ours, in which nobody else can do anything? */
static bool is_private_folder(const char *path)
{
    struct stat st;
    HX_FD int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    return fd >= 0 && fstat(fd, &st) == 0 && st.st_uid == geteuid() && !(st.st_mode & 022);
}

/* The base directory has to be ours, too: sudo may leave another user's HOME. With `make` what is
 * missing below is made. */
static bool find_state_folder(bool make, char path[static PATH_MAX])
{
    static const char *const below[] = {"/.local", "/state"};
    const char *state = getenv("XDG_STATE_HOME"), *home = getenv("HOME");
    bool given = state && *state == '/';
    const char *base = given ? state : home;
    if (!base || *base != '/' || strlen(base) + 64 > PATH_MAX || !is_private_folder(base))
        return false;
    size_t n = (size_t)snprintf(path, PATH_MAX, "%s", base);
    for (size_t i = 0; i < sizeof below / sizeof *below && !given; i++) {
        n += (size_t)snprintf(path + n, PATH_MAX - n, "%s", below[i]);
        if (make)
            mkdir(path, 0700);
    }
    snprintf(path + n, PATH_MAX - n, "/heapx");
    if (make)
        mkdir(path, 0700);
    return is_private_folder(path);
}

/* A name that is not taken yet. */
static hx_error *put_into(hx_store *store, const char *folder, pid_t pid, char **ret)
{
    char stamp[32];
    time_t now = time(NULL);
    struct tm tm;
    localtime_r(&now, &tm);
    strftime(stamp, sizeof stamp, "%Y%m%d-%H%M%S", &tm);
    for (int try = 1;; try++) {
        HX_FREE char *path = NULL;
        char more[16] = "";
        struct stat st;
        if (try > 1)
            snprintf(more, sizeof more, "-%d", try);
        if (asprintf(&path, "%s/heapx-%d-%s%s.db", folder, pid, stamp, more) < 0) {
            path = NULL;
            return hx_error_nomem();
        }
        hx_error *error = hx_store_save(store, path, NULL);
        if (!error) {
            *ret = hx_steal(path);
            return NULL;
        }
        if (try == 100 || lstat(path, &st) != 0)
            return error;
        hx_error_free(error); /* something is there */
    }
}

hx_error *hx_kept_put(hx_store *store, pid_t pid, char **ret)
{
    char state[PATH_MAX], here[PATH_MAX];
    const char *temporary = getenv("TMPDIR");
    const char *folders[] = {find_state_folder(true, state) ? state : NULL,
                             getcwd(here, sizeof here) ? here : NULL,
                             temporary && *temporary ? temporary : "/tmp"};
    hx_error *first = NULL;
    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++) {
        if (!folders[i])
            continue;
        hx_error *error = put_into(store, folders[i], pid, ret);
        if (!error) {
            hx_error_free(first);
            return NULL;
        }
        if (first)
            hx_error_free(error);
        else
            first = error;
    }
    return first;
}

static bool is_kept_name(const char *name)
{
    size_t n = strlen(name);
    return strncmp(name, "heapx-", 6) == 0 && n > 9 && strcmp(name + n - 3, ".db") == 0;
}

void hx_kept_list(const char *shown, struct hx_text *ret)
{
    char state[PATH_MAX], newest[NAME_MAX + 1] = "";
    struct stat st, except = {0};
    struct timespec when = {0};
    unsigned n = 0;
    if (!find_state_folder(false, state))
        return;
    bool has_except = shown && stat(shown, &except) == 0;
    DIR *folder = opendir(state);
    for (struct dirent *entry; folder && (entry = readdir(folder));) {
        if (!is_kept_name(entry->d_name) ||
            fstatat(dirfd(folder), entry->d_name, &st, AT_SYMLINK_NOFOLLOW) != 0 ||
            !S_ISREG(st.st_mode) ||
            (has_except && st.st_ino == except.st_ino && st.st_dev == except.st_dev))
            continue;
        if (!n++ || st.st_mtim.tv_sec > when.tv_sec ||
            (st.st_mtim.tv_sec == when.tv_sec && st.st_mtim.tv_nsec > when.tv_nsec)) {
            when = st.st_mtim;
            snprintf(newest, sizeof newest, "%s", entry->d_name);
        }
    }
    if (folder)
        closedir(folder);
    if (n == 1)
        hx_text_putf(ret, "snapshots of a session that was cut off: %s/%s", state, newest);
    else if (n)
        hx_text_putf(ret, "snapshots of %u sessions that were cut off: in %s", n, state);
}
