/* meeting_folder.c - where the private folder of a recording lies (ring.h). */
#include "record/meeting_folder.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/statfs.h>

#define TMPFS_MAGIC 0x01021994

#define PLENTY ((uint64_t)256 << 20) /* bytes: for the rings of many threads and many stacks */

static bool has_plenty(const struct statfs *fs)
{
    return fs->f_blocks == 0 || /* no limit */
           (uint64_t)fs->f_bavail >= PLENTY / (fs->f_bsize > 0 ? (uint64_t)fs->f_bsize : 1);
}

/* Makes the link that names the reader; the recording works without it. */
static void write_reader_link(int folder_fd)
{
    char text[80];
    struct stat ns;
    if (stat("/proc/self/ns/pid", &ns) != 0)
        return;
    snprintf(text, sizeof text, "%" PRIx64 ":%" PRIx64 ":%x", (uint64_t)ns.st_dev,
             (uint64_t)ns.st_ino, (unsigned)getpid());
    if (symlinkat(text, folder_fd, "reader") != 0)
        return;
}

hx_error *hx_record_folder_make(struct hx_folder *ret)
{
    const char *const parents[] = {"/dev/shm", getenv("XDG_RUNTIME_DIR"), getenv("TMPDIR"), "/tmp"};
    hx_error *err = hx_error_os(ENOENT, "folder for the recording", "mkdtemp");
    /* memory first: a region in a real file system would be written to its disk. But that is better
     * than one in which there is no room (a container's /dev/shm). */
    for (int pass = 0; pass < 4; pass++)
        for (size_t i = 0; i < sizeof parents / sizeof *parents; i++) {
            bool in_memory = pass % 2 == 0, plenty = pass < 2;
            struct statfs fs;
            if (!parents[i] || statfs(parents[i], &fs) != 0 ||
                (in_memory && fs.f_type != TMPFS_MAGIC) || (plenty && !has_plenty(&fs)))
                continue;
            hx_error_free(err);
            err = hx_folder_make(parents[i], ret);
            if (!err)
                write_reader_link(ret->fd);
            if (!err || err->kind == HX_E_NOMEM)
                return err;
        }
    return err;
}
