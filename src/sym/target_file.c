/* target_file.c - opening the files that a target has mapped, through the target's own eyes. */
#include "sym/module_private.h"

#include "base/cleanup.h"
#include "base/text.h"

#include <fcntl.h>
#include <inttypes.h>
#include <linux/magic.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/sysmacros.h>

/* Do its files only look like regular ones? Reading one can wait for ever, or do something. */
static bool is_of_kernel(int fd)
{
    static const uint32_t kinds[] = {
        PROC_SUPER_MAGIC, SYSFS_MAGIC,    DEBUGFS_MAGIC,      TRACEFS_MAGIC,
        SECURITYFS_MAGIC, SELINUX_MAGIC,  CGROUP_SUPER_MAGIC, CGROUP2_SUPER_MAGIC,
        BPF_FS_MAGIC,     EFIVARFS_MAGIC, PSTOREFS_MAGIC,     BINFMTFS_MAGIC,
    };
    struct statfs fs;
    if (fstatfs(fd, &fs) < 0)
        return true;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if ((uint32_t)fs.f_type == kinds[i])
            return true;
    return false;
}

/* Opens in two steps, so that nothing but a regular file is ever really opened: a FIFO
 * would block, a device could act. Nor does it wait for whoever has a lease on the file. */
int hx_module_open_regular(const char *path, struct stat *ret)
{
    HX_FD int handle = open(path, O_PATH | O_CLOEXEC);
    if (handle < 0 || fstat(handle, ret) < 0 || !S_ISREG(ret->st_mode) || is_of_kernel(handle))
        return -1;
    char again[64];
    snprintf(again, sizeof again, "/proc/self/fd/%d", handle);
    return open(again, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
}

/* /proc/PID/maps writes a newline as \012; everything else is plain. */
static void put_unescaped(struct hx_text *text, const char *path)
{
    for (; *path; path++) {
        if (strncmp(path, "\\012", 4) == 0) {
            hx_text_putc(text, '\n');
            path += 3;
        } else {
            hx_text_putc(text, *path);
        }
    }
}

/* Is the file with these numbers the one that maps named? Overlay and btrfs show another,
 * anonymous device in one of the two places; the inode has to agree all the same. */
static bool same_file(const struct stat *st, const struct hx_module_file *file)
{
    if (st->st_ino != file->inode)
        return false;
    return st->st_dev == file->dev || major(st->st_dev) == 0 || major(file->dev) == 0;
}

static bool has_memory(pid_t pid)
{
    char path[64], target[8];
    snprintf(path, sizeof path, "/proc/%d/exe", (int)pid);
    return readlink(path, target, sizeof target) > 0;
}

pid_t hx_module_process(pid_t pid)
{
    if (pid <= 0 || has_memory(pid))
        return pid;
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/task", (int)pid);
    HX_DIR DIR *dir = opendir(path);
    for (struct dirent *entry; dir && (entry = readdir(dir));) {
        pid_t tid = (pid_t)atoi(entry->d_name);
        if (tid > 0 && has_memory(tid))
            return tid;
    }
    return pid;
}

int hx_module_root(pid_t pid, struct stat *ret_mounts)
{
    char path[64];
    struct stat root, own, own_mounts;
    snprintf(path, sizeof path, "/proc/%d/ns/mnt", (int)pid);
    if (pid <= 0 || stat(path, ret_mounts) < 0 || stat("/proc/self/ns/mnt", &own_mounts) < 0)
        return -1;
    snprintf(path, sizeof path, "/proc/%d/root", (int)pid);
    HX_FD int fd = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &root) < 0 || stat("/", &own) < 0 ||
        (root.st_dev == own.st_dev && root.st_ino == own.st_ino &&
         ret_mounts->st_ino == own_mounts.st_ino))
        return -1;
    int kept = fd;
    fd = -1;
    return kept;
}

int hx_module_file_open(pid_t pid, const struct hx_module_file *file)
{
    struct stat st;
    if (file->local)
        return hx_module_open_regular(file->local, &st);
    if (pid <= 0)
        return hx_module_open_regular(file->path, &st);

    char map[96];
    snprintf(map, sizeof map, "/proc/%d/map_files/%" PRIx64 "-%" PRIx64, (int)pid, file->map_start,
             file->map_end);
    int fd = hx_module_open_regular(map, &st);
    if (fd >= 0 || file->deleted)
        return fd;

    struct hx_text path = {0};
    hx_text_putf(&path, "/proc/%d/root", (int)pid);
    put_unescaped(&path, file->path);
    if (!path.failed)
        fd = hx_module_open_regular(hx_text_str(&path), &st);
    hx_text_free(&path);
    if (fd >= 0 && !same_file(&st, file)) {
        close(fd);
        fd = -1;
    }
    return fd;
}
