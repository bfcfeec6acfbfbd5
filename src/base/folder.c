/* folder.c - private folders, and what is left of them. */
#include "base/folder.h"

#include "base/pin.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/file.h>
#include <time.h>

#define PREFIX "heapx-"
#define MARK   ".heapx" /* a link in it that says that it is one: others may have such names */

/* A folder without a mark is being made, or was left in the middle of that. */
enum { UNMARKED_SECONDS = 60, RANDOM = 6 };

/* Removes the files in it. */
static void empty(int folder)
{
    int fd = openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = fd >= 0 ? fdopendir(fd) : NULL;
    if (!dir) {
        hx_cleanup_fd(&fd);
        return;
    }
    for (struct dirent *entry; (entry = readdir(dir));)
        if (strcmp(entry->d_name, MARK) != 0)   /* the last: killed here, it is known by it */
            unlinkat(folder, entry->d_name, 0); /* "." and ".." do not go */
    closedir(dir);
    unlinkat(folder, MARK, 0);
}

bool hx_folder_is_private(int folder, struct stat *ret)
{
    return fstat(folder, ret) == 0 && S_ISDIR(ret->st_mode) && ret->st_uid == geteuid() &&
           (ret->st_mode & 0777) == 0700;
}

/* Was it made by a heapx that is no more? Locked from then on. */
static bool is_left(int folder)
{
    struct stat st, mark;
    if (!hx_folder_is_private(folder, &st) || flock(folder, LOCK_EX | LOCK_NB) != 0)
        return false;
    if (fstatat(folder, MARK, &mark, AT_SYMLINK_NOFOLLOW) == 0)
        return S_ISLNK(mark.st_mode) && mark.st_uid == st.st_uid;
    return time(NULL) - st.st_ctim.tv_sec > UNMARKED_SECONDS;
}

static void sweep(int where)
{
    int fd = openat(where, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = fd >= 0 ? fdopendir(fd) : NULL;
    if (!dir) {
        hx_cleanup_fd(&fd);
        return;
    }
    for (struct dirent *entry; (entry = readdir(dir));) {
        const char *name = entry->d_name;
        if (strncmp(name, PREFIX, strlen(PREFIX)) != 0 || strlen(name) != strlen(PREFIX) + RANDOM)
            continue;
        HX_FD int left = openat(where, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        struct stat mark;
        if (left < 0 || !is_left(left))
            continue;
        if (fstatat(left, MARK, &mark, AT_SYMLINK_NOFOLLOW) == 0)
            empty(left);
        unlinkat(where, name, AT_REMOVEDIR); /* only when it is empty */
    }
    closedir(dir);
}

/* Makes a folder by the name that mkdtemp() chooses. False with errno. */
static bool make_temporary_folder(char *at, int *ret)
{
    if (!mkdtemp(at))
        return false;
    HX_FD int fd = open(at, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    struct stat st;
    if (fd < 0) {
        rmdir(at);
        return false;
    }
    if (!hx_folder_is_private(fd, &st)) { /* another one was put in its place */
        errno = EPERM;
        return false;
    }
    /* where there are no locks nobody removes what is left */
    while (flock(fd, LOCK_EX) != 0 && errno == EINTR)
        ;
    if (symlinkat("a private folder of heapx", fd, MARK) != 0)
        return false;
    *ret = fd;
    fd = -1;
    return true;
}

hx_error *hx_folder_make(const char *where, struct hx_folder *ret)
{
    HX_PIN struct hx_pin pin = HX_PIN_NONE;
    HX_TRY(hx_pin(where, &pin));
    if (strcmp(pin.name, ".") != 0)
        return hx_error_os(access(pin.at, F_OK) ? errno : ENOTDIR, where, "cannot make a folder");
    if (pin.doubt)
        return hx_pin_doubted(&pin, where);
    sweep(pin.folder);
    HX_FOLDER struct hx_folder folder = {.fd = -1, .where = pin.folder};
    pin.folder = -1;
    HX_FREE char *at = NULL;
    if (asprintf(&at, "/proc/self/fd/%d/" PREFIX "XXXXXX", folder.where) < 0) {
        at = NULL;
        return hx_error_nomem();
    }
    if (!make_temporary_folder(at, &folder.fd))
        return hx_error_os(errno, where, "cannot make a folder");
    if (asprintf(&folder.path, "%s%s", where, strrchr(at, '/')) < 0) {
        folder.path = NULL;
        unlinkat(folder.where, strrchr(at, '/') + 1, AT_REMOVEDIR);
        return hx_error_nomem();
    }
    *ret = folder;
    folder = HX_FOLDER_NONE;
    return NULL;
}

hx_error *hx_folder_make_temporary(struct hx_folder *ret)
{
    const char *where = getenv("TMPDIR");
    hx_error *err = hx_folder_make(where && *where ? where : "/tmp", ret);
    if (!err || err->kind == HX_E_NOMEM)
        return err;
    hx_error *told =
        hx_error_new(err->kind, err->what, "set TMPDIR to a folder of your own", "%s", err->why);
    if (told != hx_error_nomem())
        told->os_errno = err->os_errno;
    hx_error_free(err);
    return told;
}

bool hx_folder_clear(struct hx_folder *folder)
{
    empty(folder->fd);
    return unlinkat(folder->where, strrchr(folder->path, '/') + 1, AT_REMOVEDIR) == 0 ||
           (errno != ENOTEMPTY && errno != EEXIST);
}

void hx_folder_remove(struct hx_folder *folder)
{
    bool removed = folder->fd < 0 || folder->where < 0 || !folder->path;
    for (int i = 0; !removed && i < 100; i++) /* something may just be made in it */
        removed = hx_folder_clear(folder);
    hx_cleanup_fd(&folder->fd);
    hx_cleanup_fd(&folder->where);
    free(folder->path);
    *folder = HX_FOLDER_NONE;
}
