/* type_source.c - see type_source.h. */
#include "sym/types/type_source.h"

#include "base/timing.h"
#include "sym/code/code_private.h"

#include <elfutils/libdwfl.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/xattr.h>

#define CHUNK   ((size_t)1 << 20)
#define SECOND  UINT64_C(1000000000)
#define SETTLED (60 * SECOND) /* since the last change of a file whose hash is kept */
#define TICK    (SECOND / 20) /* within which two changes may have the same time */
#define NOBODY  65534         /* also: all users whom this namespace does not know */

static uint64_t in_ns(struct timespec time)
{
    return (uint64_t)time.tv_sec * SECOND + (uint64_t)time.tv_nsec;
}

bool hx_file_stamp(int fd, struct hx_file_stamp *ret)
{
    struct stat st;
    struct statvfs fs;
    *ret = (struct hx_file_stamp){0};
    if (fd < 0)
        return true;
    if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode) || st.st_uid == NOBODY ||
        st.st_mode & S_IWOTH || fstatvfs(fd, &fs) != 0)
        return false;
    const bool group = st.st_mode & S_IWGRP;
    if (group && fgetxattr(fd, "system.posix_acl_access", NULL, 0) > 0)
        return false; /* the group's bits stand for all whom the list names */
    *ret = (struct hx_file_stamp){.device = st.st_dev,
                                  .inode = st.st_ino,
                                  .bytes = (uint64_t)st.st_size,
                                  .written_ns = in_ns(st.st_mtim),
                                  .changed_ns = in_ns(st.st_ctim),
                                  .user = st.st_uid,
                                  .group = group ? st.st_gid : UINT64_MAX,
                                  .mount = fs.f_flag & ST_NOSUID ? st.st_dev : UINT64_MAX};
    return true;
}

/* Was the file not changed for so long? */
static bool is_settled(const struct hx_file_stamp *stamp, uint64_t ns)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return in_ns(now) > ns && stamp->changed_ns < in_ns(now) - ns;
}

/* --- one file -------------------------------------------------------------------- */

struct sections {
    struct hx_siphash hash;
    int fd;
    const struct hx_reading *reading;
    uint64_t deadline_ns, bytes;
    size_t n;
    uint8_t *chunk;
    bool failed;
};

static bool add_bytes(struct sections *sections, uint64_t offset, uint64_t n)
{
    for (uint64_t at = 0; at < n;) {
        size_t step = n - at < CHUNK ? n - at : CHUNK;
        if (offset > INT64_MAX - n || hx_reading_ended(sections->reading) ||
            hx_now_ns() >= sections->deadline_ns ||
            pread(sections->fd, sections->chunk, step, (off_t)(offset + at)) != (ssize_t)step)
            return false;
        hx_siphash_add(&sections->hash, sections->chunk, step);
        at += step;
    }
    return true;
}

static bool add_section(void *context, const struct hx_elf_section *section)
{
    struct sections *sections = context;
    if (!hx_code_is_table(section))
        return true;
    sections->bytes += section->size > HX_READ_DEBUG ? HX_READ_DEBUG + 1 : section->size;
    sections->failed =
        ++sections->n > HX_CODE_TABLES_MAX || sections->bytes > HX_READ_DEBUG; /* nor is it read */
    if (sections->failed)
        return false;
    hx_siphash_add(&sections->hash, section->name, strlen(section->name) + 1);
    hx_siphash_number(&sections->hash, section->flags & SHF_COMPRESSED);
    hx_siphash_number(&sections->hash, section->size);
    sections->failed = !add_bytes(sections, section->offset, section->size);
    return !sections->failed;
}

static bool hash_sections(const struct hx_type_cache *cache, struct sections *sections,
                          struct hx_hash128 *ret)
{
    HX_FREE uint8_t *chunk = malloc(CHUNK);
    sections->chunk = chunk;
    hx_type_cache_hash(cache, HX_CACHED_SECTIONS, &sections->hash);
    hx_error *err = chunk ? hx_elf_each_section(sections->fd, add_section, sections) : NULL;
    const bool failed = !chunk || err || sections->failed;
    hx_error_free(err);
    *ret = hx_siphash_end(&sections->hash);
    return !failed;
}

static bool hash_file(struct hx_type_cache *cache, const struct hx_file_stamp *stamp,
                      struct sections *sections, struct hx_hash128 *ret)
{
    struct hx_siphash hash;
    struct hx_file_stamp after;
    *ret = (struct hx_hash128){0};
    if (sections->fd < 0)
        return true;
    hx_type_cache_hash(cache, HX_CACHED_HASH, &hash);
    hx_siphash_add(&hash, stamp, sizeof *stamp);
    const struct hx_hash128 name = hx_siphash_end(&hash);
    const bool settled = is_settled(stamp, SETTLED);
    if (settled && hx_type_cache_get_hash(cache, name, ret))
        return true;
    const uint64_t begun = hx_timing_begin();
    if (!hash_sections(cache, sections, ret) || !hx_file_stamp(sections->fd, &after) ||
        memcmp(&after, stamp, sizeof after) != 0)
        return false;
    hx_timing_end(begun, "hash of debug information", sections->bytes);
    if (settled)
        hx_type_cache_put_hash(cache, name, *ret);
    return true;
}

/* --- all of them ----------------------------------------------------------------- */

bool hx_type_source(struct hx_type_cache *cache, const int fd[HX_TYPE_FILES],
                    const struct hx_reading *reading, uint64_t deadline_ns,
                    struct hx_type_source *ret)
{
    struct hx_siphash hash;
    struct hx_type_source made = {0};
    const char *version = dwfl_version(NULL); /* what it can read becomes more */
    hx_type_cache_hash(cache, HX_CACHED_TABLE, &hash);
    hx_siphash_number(&hash, HX_TYPE_TABLE_MAGIC);
    hx_siphash_add(&hash, version, strlen(version) + 1);
    for (size_t i = 0; i < HX_TYPE_FILES; i++) {
        struct sections sections = {.fd = fd[i], .reading = reading, .deadline_ns = deadline_ns};
        struct hx_file_stamp *stamp = &made.stamp[i];
        struct hx_hash128 content;
        if (!hx_file_stamp(fd[i], stamp) || !is_settled(stamp, TICK) ||
            !hash_file(cache, stamp, &sections, &content))
            return false;
        hx_siphash_number(&hash, stamp->user);
        hx_siphash_number(&hash, stamp->group);
        hx_siphash_number(&hash, stamp->mount);
        hx_siphash_add(&hash, &content, sizeof content);
    }
    made.hash = hx_siphash_end(&hash);
    *ret = made;
    return true;
}
