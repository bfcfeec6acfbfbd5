/* pin.c - following a path once, and who can change what lies at its end. */
#include "base/pin.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/magic.h>
#include <pwd.h>
#include <string.h>
#include <sys/statfs.h>
#include <sys/xattr.h>

enum { MAX_LINKS = 40, NAMES = 16384 };

bool hx_trusted_user(uid_t user)
{
    return user == 0 || user == geteuid();
}

/* --- who may write a folder --------------------------------------------------------------- */

/* Is that name one of ours, root's, or the owner's of the folder? */
static bool is_known_owner(const char *name, uid_t owner)
{
    const uid_t users[] = {0, geteuid(), owner};
    HX_FREE char *buf = malloc(NAMES);
    bool known = false;
    for (size_t i = 0; buf && !known && i < sizeof users / sizeof *users; i++) {
        struct passwd user, *found = NULL;
        known = getpwuid_r(users[i], &user, buf, NAMES, &found) == 0 && found &&
                strcmp(found->pw_name, name) == 0;
    }
    return known;
}

/* A user's private group has his name (as adduser makes it), and nobody else is in it. */
static bool is_private_group(gid_t gid, uid_t owner)
{
    HX_FREE char *buf = malloc(NAMES);
    struct group group, *found = NULL;
    if (!buf || getgrgid_r(gid, &group, buf, NAMES, &found) != 0)
        return false; /* it has more members than fit */
    if (!found)
        return gid == 0 || gid == geteuid() || gid == owner;
    if (!is_known_owner(group.gr_name, owner))
        return false;
    for (char **member = group.gr_mem; *member; member++)
        if (!is_known_owner(*member, owner))
            return false;
    return true;
}

/* May somebody else remove or rename files of ours in the folder? */
static bool is_open_to_others(const char *at, const struct stat *st)
{
    if (st->st_mode & S_ISVTX)
        return false;
    if (st->st_mode & S_IWOTH)
        return true;
    if (!(st->st_mode & S_IWGRP))
        return false;
    /* with a list, the group's bits stand for all whom it names */
    return getxattr(at, "system.posix_acl_access", NULL, 0) > 0 ||
           !is_private_group(st->st_gid, st->st_uid);
}

/* --- the path ----------------------------------------------------------------------------- */

/* What is still to be followed, and from where. */
struct walk {
    int folder;
    char *rest;
    int links;
    bool last;      /* what is left comes from a link that the path ended in */
    bool foreign;   /* a link of another user was followed */
    uid_t stranger; /* whose */
    bool strangers; /* links of several others */
};

static void deinit_walk(struct walk *walk)
{
    hx_cleanup_fd(&walk->folder);
    free(walk->rest);
}

static int begin_walk(struct walk *walk, char *rest)
{
    if (*rest == '/' || walk->folder < 0) {
        hx_cleanup_fd(&walk->folder);
        walk->folder = open(*rest == '/' ? "/" : ".", O_PATH | O_DIRECTORY | O_CLOEXEC);
    }
    free(walk->rest);
    walk->rest = rest;
    return walk->folder < 0 ? errno : 0;
}

/* Links of /proc lead to what they mean, and not where their text says. */
static bool is_magic(int folder)
{
    struct statfs fs;
    return fstatfs(folder, &fs) == 0 && fs.f_type == PROC_SUPER_MAGIC;
}

/* Goes on at the end of a link; `after` is what follows it. */
static int follow_link(struct walk *walk, int link, const struct stat *st, const char *after)
{
    char text[4096];
    ssize_t n = readlinkat(link, "", text, sizeof text - 1);
    if (n < 0)
        return errno;
    if (n == 0 || ++walk->links > MAX_LINKS)
        return n == 0 ? ENOENT : ELOOP;
    text[n] = 0;
    walk->last = walk->last || !*after;
    if (!hx_trusted_user(st->st_uid)) {
        walk->strangers = walk->strangers || (walk->foreign && walk->stranger != st->st_uid);
        walk->foreign = true;
        walk->stranger = st->st_uid;
    }
    char *rest;
    if (asprintf(&rest, "%s%s%s", text, *after ? "/" : "", after) < 0)
        return ENOMEM;
    return begin_walk(walk, rest);
}

/* One name further. *ret_name, when the walk is at its end: the name in walk->folder, owned. */
static int walk_component(struct walk *walk, char **ret_name)
{
    char *name = walk->rest + strspn(walk->rest, "/");
    size_t n = strcspn(name, "/");
    const char *after = name + n + strspn(name + n, "/");
    bool slash = name[n] == '/';
    name[n] = 0;
    if (!*name) {
        *ret_name = strdup(".");
        return *ret_name ? 0 : ENOMEM;
    }
    HX_FD int object = openat(walk->folder, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
    struct stat st;
    if (object < 0 && (errno != ENOENT || slash || walk->last))
        return errno;
    if (object >= 0 && fstat(object, &st) != 0)
        return errno;
    if (object >= 0 && S_ISLNK(st.st_mode) && is_magic(walk->folder)) {
        HX_FD int meant = openat(walk->folder, name, O_PATH | O_CLOEXEC);
        if (meant < 0 || fstat(meant, &st) != 0)
            return errno;
        if (S_ISREG(st.st_mode)) { /* it lies somewhere, and what is beside it counts */
            if (fstat(object, &st) != 0)
                return errno;
            return follow_link(walk, object, &st, after);
        }
        close(object);
        object = meant;
        meant = -1;
    }
    if (object >= 0 && S_ISLNK(st.st_mode))
        return follow_link(walk, object, &st, after);
    if (object >= 0 && S_ISDIR(st.st_mode)) {
        close(walk->folder);
        walk->folder = object;
        object = -1;
        memmove(walk->rest, after, strlen(after) + 1);
        return 0;
    }
    if (slash)
        return ENOTDIR;
    *ret_name = strdup(name);
    return *ret_name ? 0 : ENOMEM;
}

static int follow_all(const char *path, struct walk *walk, char **ret_name)
{
    char *rest = strdup(path);
    int failed = rest ? begin_walk(walk, rest) : ENOMEM;
    while (!failed && !*ret_name)
        failed = walk_component(walk, ret_name);
    return failed;
}

static enum hx_pin_doubt doubt_of(const struct hx_pin *pin, const struct walk *walk)
{
    struct stat folder, file;
    char at[64];
    snprintf(at, sizeof at, "/proc/self/fd/%d", pin->folder);
    if (fstat(pin->folder, &folder) != 0)
        return HX_PIN_SHARED;
    /* whoever makes a link may choose among what is his, not among what is ours */
    bool his =
        !walk->strangers && (folder.st_uid == walk->stranger ||
                             (fstatat(pin->folder, pin->name, &file, AT_SYMLINK_NOFOLLOW) == 0 &&
                              file.st_uid == walk->stranger));
    if (walk->foreign && !his)
        return HX_PIN_LED;
    return is_open_to_others(at, &folder) ? HX_PIN_SHARED : HX_PIN_SURE;
}

static hx_error *complete(struct hx_pin *pin)
{
    if (asprintf(&pin->at, "/proc/self/fd/%d/%s", pin->folder, pin->name) < 0) {
        pin->at = NULL;
        return hx_error_nomem();
    }
    return NULL;
}

hx_error *hx_pin(const char *path, struct hx_pin *ret)
{
    HX_CLEANUP(deinit_walk) struct walk walk = {.folder = -1};
    HX_PIN struct hx_pin pin = HX_PIN_NONE;
    int failed = follow_all(path, &walk, &pin.name);
    if (failed == ENOENT && walk.last)
        return hx_error_new(HX_E_FAIL, path, "remove it, or use another name",
                            "a symbolic link to nothing");
    if (failed)
        return failed == ENOMEM ? hx_error_nomem()
                                : hx_error_os(failed, path, "cannot follow the path");
    pin.folder = walk.folder;
    walk.folder = -1;
    HX_TRY(complete(&pin));
    struct stat st;
    if (fstatat(AT_FDCWD, "/proc/self/fd", &st, 0) != 0)
        return hx_error_new(HX_E_FAIL, path, "mount /proc", "cannot hold its folder: no /proc");
    pin.doubt = doubt_of(&pin, &walk);
    *ret = pin;
    pin = HX_PIN_NONE;
    return NULL;
}

hx_error *hx_pin_in(int folder, const char *name, struct hx_pin *ret)
{
    HX_PIN struct hx_pin pin = {.folder = fcntl(folder, F_DUPFD_CLOEXEC, 0), .name = strdup(name)};
    if (pin.folder < 0)
        return hx_error_os(errno, name, "cannot hold its folder");
    HX_NEED(pin.name);
    HX_TRY(complete(&pin));
    *ret = pin;
    pin = HX_PIN_NONE;
    return NULL;
}

void hx_pin_deinit(struct hx_pin *pin)
{
    hx_cleanup_fd(&pin->folder);
    free(pin->name);
    free(pin->at);
    *pin = HX_PIN_NONE;
}

hx_error *hx_pin_doubted(const struct hx_pin *pin, const char *what)
{
    if (pin->doubt == HX_PIN_LED)
        return hx_error_new(HX_E_PERM, what, "name the file itself, or remove the link",
                            "a link of another user leads to what is not his");
    return hx_error_new(HX_E_PERM, what, "use a folder of your own, or chmod +t that one",
                        "other users may replace what lies in its folder");
}

bool hx_pin_named_by_others(int folder)
{
    struct stat st;
    return fstat(folder, &st) != 0 || st.st_mode & (S_IWGRP | S_IWOTH) ||
           !hx_trusted_user(st.st_uid);
}

hx_error *hx_pin_write(const char *path, int flags, int *ret)
{
    HX_PIN struct hx_pin pin = HX_PIN_NONE;
    struct stat st;
    HX_TRY(hx_pin(path, &pin));
    if (pin.doubt == HX_PIN_LED)
        return hx_pin_doubted(&pin, path);
    bool magic = lstat(pin.at, &st) == 0 && S_ISLNK(st.st_mode) && is_magic(pin.folder);
    int truncate = flags & O_TRUNC;
    HX_FD int fd =
        open(pin.at,
             (flags & ~O_TRUNC) | O_WRONLY | O_CLOEXEC | O_NOCTTY | (magic ? 0 : O_NOFOLLOW), 0666);
    if (fd < 0 || fstat(fd, &st) != 0)
        return hx_error_os(errno, path, "open");
    if (S_ISREG(st.st_mode) && st.st_nlink > 1 && hx_pin_named_by_others(pin.folder))
        return hx_error_new(HX_E_PERM, path, "remove it first",
                            "has another name, too (a hard link), and is not overwritten");
    if (truncate && S_ISREG(st.st_mode) && ftruncate(fd, 0) != 0)
        return hx_error_os(errno, path, "truncate");
    *ret = fd;
    fd = -1;
    return NULL;
}
