/* type_source.h - what the table of a file is made from, as a hash: a build-id is only a claim.
 *
 * The hash is of all tables of debug information in the file, in its debug file, and in what that
 * shares with others, as they are stored. Whoever may write these files could exchange what is in
 * them between hashing and reading; so their owner is part of it, too, and he can deceive about
 * files of his own alone. Files that everybody may write have no hash.
 *
 * To hash a gigabyte takes a second. So the hash of a file is kept by what the kernel says of the
 * file: device, inode, size, owner, and when it was last written and changed. This trusts that no
 * content changes without the time of change, which nobody can set: not so for a minute after a
 * change, as writes through a mapping show when the page goes to the disk; for tmpfs, as long as
 * somebody keeps it mapped; and for who writes to the disk below. And it trusts the file system: on
 * one that others may have mounted (nosuid) the device is a part of the owner's name.
 */
#ifndef HX_SYM_TYPES_TYPE_SOURCE_H
#define HX_SYM_TYPES_TYPE_SOURCE_H

#include "sym/types/type_cache.h"

struct hx_reading;

/* The same file with the same content, as far as the kernel tells. */
struct hx_file_stamp {
    uint64_t device, inode, bytes, written_ns, changed_ns;
    uint64_t user, group; /* who may write it; group: -1, none */
    uint64_t mount;       /* of a file system that others may have made, its device, else -1 */
};

/* False: everybody may write it, or it is no file. All 0 for none (-1). */
bool hx_file_stamp(int fd, struct hx_file_stamp *ret);

#define HX_TYPE_FILES 3
struct hx_type_source {
    struct hx_file_stamp stamp[HX_TYPE_FILES];
    struct hx_hash128 hash;
};

/* Of the file, its debug file and what that shares, -1 where there is none. False: it has no hash,
 * or not by deadline_ns. */
bool hx_type_source(struct hx_type_cache *cache, const int fd[HX_TYPE_FILES],
                    const struct hx_reading *reading, uint64_t deadline_ns,
                    struct hx_type_source *ret);

#endif
