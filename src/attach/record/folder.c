/* folder.c - the private folder in which a program and heapx find each other (ring.h). */
#include "attach/record/folder.h"

#include "base/cleanup.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <time.h>
#include <unistd.h>

#define TMPFS_MAGIC 0x01021994

#define PLENTY ((uint64_t)256 << 20) /* bytes: for the rings of many threads and many stacks */

#define PREFIX "heapx-"

/* A folder without a signature is being made, or was left in the middle of that. */
enum { UNSIGNED_SECONDS = 60, RANDOM = 6 };

static bool has_plenty(const struct statfs *fs)
{
    return fs->f_blocks == 0 || /* no limit */
           (uint64_t)fs->f_bavail >= PLENTY / (fs->f_bsize > 0 ? (uint64_t)fs->f_bsize : 1);
}

void hx_folder_empty(int folder_fd)
{
    int fd = dup(folder_fd);
    DIR *dir = fd >= 0 ? fdopendir(fd) : NULL;
    if (!dir) {
        if (fd >= 0)
            close(fd);
        return;
    }
    rewinddir(dir);
    for (struct dirent *entry; (entry = readdir(dir));)
        unlinkat(folder_fd, entry->d_name, 0); /* "." and ".." do not go */
    closedir(dir);
}

/* --- whose it is -------------------------------------------------------------------------- */

static bool our_namespace(uint64_t *ret_dev, uint64_t *ret_inode)
{
    struct stat ns;
    if (stat("/proc/self/ns/pid", &ns) != 0)
        return false;
    *ret_dev = ns.st_dev;
    *ret_inode = ns.st_ino;
    return true;
}

void hx_folder_sign(int folder_fd)
{
    char text[80];
    uint64_t dev, inode;
    if (!our_namespace(&dev, &inode))
        return;
    snprintf(text, sizeof text, "%" PRIx64 ":%" PRIx64 ":%x", dev, inode, (unsigned)getpid());
    if (symlinkat(text, folder_fd, "reader") != 0)
        return; /* it works without */
}

/* Was it made by a heapx that is no more? In doubt it was not. */
static bool is_stale(int folder_fd)
{
    struct stat st;
    char text[80];
    if (fstat(folder_fd, &st) != 0 || st.st_uid != geteuid() || (st.st_mode & 07777) != 0700)
        return false;
    ssize_t n = readlinkat(folder_fd, "reader", text, sizeof text - 1);
    if (n < 0)
        return errno == ENOENT && time(NULL) - st.st_ctim.tv_sec > UNSIGNED_SECONDS;
    text[n] = 0;
    uint64_t dev, inode, its_dev, its_inode;
    unsigned pid;
    return our_namespace(&dev, &inode) &&
           sscanf(text, "%" SCNx64 ":%" SCNx64 ":%x", &its_dev, &its_inode, &pid) == 3 &&
           its_dev == dev && its_inode == inode && pid > 0 && pid <= INT32_MAX &&
           kill((pid_t)pid, 0) != 0 && errno == ESRCH;
}

/* Removes what a heapx that was killed could not. */
static void sweep(const char *place)
{
    DIR *dir = opendir(place);
    if (!dir)
        return;
    for (struct dirent *entry; (entry = readdir(dir));) {
        const char *name = entry->d_name;
        if (strncmp(name, PREFIX, strlen(PREFIX)) != 0 || strlen(name) != strlen(PREFIX) + RANDOM)
            continue;
        HX_FD int fd = openat(dirfd(dir), name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (fd < 0 || !is_stale(fd))
            continue;
        hx_folder_empty(fd);
        unlinkat(dirfd(dir), name, AT_REMOVEDIR);
    }
    closedir(dir);
}

/* --- a new one ---------------------------------------------------------------------------- */

static hx_error *make_in(const char *place, char **ret, int *ret_fd)
{
    HX_FREE char *folder = NULL;
    if (asprintf(&folder, "%s/" PREFIX "XXXXXX", place) < 0) {
        folder = NULL;
        return hx_error_nomem();
    }
    if (!mkdtemp(folder))
        return hx_error_os(errno, "folder for the recording", "mkdtemp");
    int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) {
        hx_error *err = hx_error_os(errno, folder, "open");
        rmdir(folder);
        return err;
    }
    *ret = hx_steal(folder);
    *ret_fd = fd;
    return NULL;
}

hx_error *hx_folder_make(char **ret, int *ret_fd)
{
    const char *const places[] = {"/dev/shm", getenv("XDG_RUNTIME_DIR"), getenv("TMPDIR"), "/tmp"};
    hx_error *err = hx_error_os(ENOENT, "folder for the recording", "mkdtemp");
    /* memory first: a region in a real file system would be written to its disk. But that is better
     * than one in which there is no room (a container's /dev/shm). */
    for (int pass = 0; pass < 4; pass++)
        for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
            bool in_memory = pass % 2 == 0, plenty = pass < 2;
            struct statfs fs;
            if (!places[i] || statfs(places[i], &fs) != 0 ||
                (in_memory && fs.f_type != TMPFS_MAGIC) || (plenty && !has_plenty(&fs)))
                continue;
            sweep(places[i]);
            hx_error_free(err);
            err = make_in(places[i], ret, ret_fd);
            if (!err || err->kind != HX_E_OS)
                return err;
        }
    return err;
}
