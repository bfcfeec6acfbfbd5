/* debug_file.h - the debug information that was split off from a file: see debug_file.c. */
#ifndef HX_SYM_DEBUG_FILE_H
#define HX_SYM_DEBUG_FILE_H

#include <stdbool.h>

struct hx_reading;

/* Room for a build-id in hexadecimal, of up to 64 bytes. */
#define HX_BUILD_ID (2 * 64 + 1)

/* The build-id of an ELF file; "" when it has none. False: no ELF file. */
bool hx_build_id(int fd, char ret[HX_BUILD_ID]);

/* Has an ELF file debug information of its own? */
bool hx_debug_is_inside(int fd);

struct hx_debug_search {
    int root;                    /* the root folder of the target, O_PATH; -1: it is our own */
    const char *path, *build_id; /* of the file; build_id "": it has none */
    struct hx_reading *reading;
};

/* Each gives a descriptor that the caller closes, or -1 when there is no such thing. `fd` is the
 * file itself; for what debug files share, the one that has the debug information. */
int hx_debug_open(const struct hx_debug_search *search, int fd);
int hx_debug_open_shared(const struct hx_debug_search *search, int fd);
int hx_debug_open_packed(const struct hx_debug_search *search,
                         int fd); /* .gnu_debugdata, unpacked */

/* The file here of a build-id which a program had at `path`, one with debug information before
 * others: below `dir` (NULL: none; a file: itself) by build-id, path and name, or whatever lies in
 * it; at `path`; below /usr/lib/debug. A path that the caller frees; NULL: none. *ret_other: where
 * it would be there is one of another build. */
char *hx_debug_find(const char *dir, const char *path, const char *build_id, bool *ret_other);

/* What the file at `path` has, or a debug file of its build-id that a debugger would find here. */
enum hx_debug_level {
    HX_DEBUG_NOTHING, /* the names that it exports at most */
    HX_DEBUG_NAMES,   /* symbols, and no types */
    HX_DEBUG_TYPES,   /* debug information */
};
enum hx_debug_level hx_debug_level(const char *path, const char *build_id);

#endif
