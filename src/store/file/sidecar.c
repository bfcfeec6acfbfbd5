/* sidecar.c - which files beside a store are its own. */
#include "store/file/sidecar.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

const char *const hx_sidecar[HX_SIDECARS] = {"-journal", "-wal", "-shm"};

size_t hx_sidecar_of(const char *path)
{
    size_t n = strlen(path), i = 0;
    for (; i < HX_SIDECARS; i++) {
        size_t suffix = strlen(hx_sidecar[i]);
        if (n > suffix && strcmp(path + n - suffix, hx_sidecar[i]) == 0)
            break;
    }
    return i;
}

/* Why it is not taken; NULL: it is. store: its stat, NULL when there is no store. */
static const char *fault_of(const struct stat *st, const struct stat *store)
{
    if (S_ISLNK(st->st_mode))
        return "is a symbolic link";
    if (!S_ISREG(st->st_mode))
        return "is no plain file";
    if (st->st_nlink > 1)
        return "has another name, too (a hard link)";
    if (st->st_uid != geteuid() && !(store && st->st_uid == store->st_uid))
        return "belongs to another user";
    return NULL;
}

/* The stat of the store by the path of one; false: there is none. */
static bool stat_store(const char *at, struct stat *ret)
{
    size_t suffix = hx_sidecar_of(at);
    HX_FREE char *store =
        suffix == HX_SIDECARS ? NULL : strndup(at, strlen(at) - strlen(hx_sidecar[suffix]));
    return store && lstat(store, ret) == 0;
}

/* The same for one by its path. */
static const char *fault_at(const struct stat *st, const char *at)
{
    struct stat it;
    return fault_of(st, stat_store(at, &it) ? &it : NULL);
}

/* A new one of root's is for the owner of the store, who plays it back when root is killed. */
static void give_to_owner(int fd, const char *at)
{
    struct stat st;
    if (geteuid() == 0 && stat_store(at, &st) && S_ISREG(st.st_mode) &&
        fchown(fd, st.st_uid, st.st_gid) != 0)
        return; /* root can still play it back */
}

int hx_sidecar_open(const char *at, int flags, mode_t mode)
{
    int careful = (flags & ~O_CREAT) | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC;
    for (int attempt = 0; attempt < 8; attempt++) { /* it may come and go */
        int fd = open(at, careful & ~(O_TRUNC | O_EXCL));
        struct stat st;
        if (fd >= 0 && fstat(fd, &st) == 0 && !fault_at(&st, at))
            return fd;
        if (fd >= 0 || errno == ELOOP || errno == ENXIO || errno == EISDIR) {
            hx_cleanup_fd(&fd);
            break;
        }
        if (errno != ENOENT || !(flags & O_CREAT))
            return -1;
        fd = open(at, careful | O_CREAT | O_EXCL, mode);
        if (fd >= 0)
            give_to_owner(fd, at);
        if (fd >= 0 || errno != EEXIST)
            return fd;
    }
    errno = HX_SIDECAR_REFUSED;
    return -1;
}

int hx_sidecar_unlink(const char *at)
{
    struct stat st;
    if (lstat(at, &st) != 0)
        return -1;
    if (fault_at(&st, at)) {
        errno = HX_SIDECAR_REFUSED;
        return -1;
    }
    return unlink(at);
}

bool hx_sidecar_there(const struct hx_pin *store, const char *suffix, off_t least)
{
    HX_FREE char *name = NULL;
    struct stat st;
    if (asprintf(&name, "%s%s", store->name, suffix) < 0) {
        name = NULL;
        return false;
    }
    return fstatat(store->folder, name, &st, AT_SYMLINK_NOFOLLOW) == 0 && st.st_size >= least;
}

hx_error *hx_sidecar_check(const struct hx_pin *store, const char *what, bool made)
{
    struct stat st, it;
    bool there = fstatat(store->folder, store->name, &it, AT_SYMLINK_NOFOLLOW) == 0;
    for (size_t i = 0; i < HX_SIDECARS; i++) {
        HX_FREE char *name = NULL;
        if (asprintf(&name, "%s%s", store->name, hx_sidecar[i]) < 0) {
            name = NULL;
            return hx_error_nomem();
        }
        if (fstatat(store->folder, name, &st, AT_SYMLINK_NOFOLLOW) != 0)
            continue;
        if (made)
            return hx_error_new(HX_E_FAIL, what, "remove it, or use another name",
                                "%s lies there, of a store that is gone", name);
        const char *fault = fault_of(&st, there ? &it : NULL);
        if (fault)
            return hx_error_new(HX_E_PERM, what,
                                "remove that file, or copy the store alone to a folder of your own",
                                "%s beside it %s", name, fault);
    }
    return NULL;
}

hx_error *hx_sidecar_explain(const struct hx_pin *store, const char *what, hx_error *err)
{
    if (!err || err->os_errno != HX_SIDECAR_REFUSED)
        return err;
    hx_error *told = hx_sidecar_check(store, what, false);
    if (!told) /* and is gone again */
        told = hx_error_new(HX_E_PERM, what, "use a folder of your own",
                            "somebody exchanges files beside it");
    hx_error_free(err);
    return told;
}
