/* own_mappings.h - which of a target's mappings are the recorder's own.
 *
 * Rings and tables hold addresses of blocks: were they looked at, every block that a recorder has
 * seen would be held by a root, and nothing lost.
 */
#ifndef HX_RECORD_OWN_MAPPINGS_H
#define HX_RECORD_OWN_MAPPINGS_H

#include "model/process.h"
#include "record/launch.h"

#include <stdbool.h>
#include <string.h>

/* The region that `heapx run` shares with a program: FOLDER/heapx-XXXXXX/PID.NUMBER. */
static inline bool hx_is_recorder_region(const struct hx_mapping *mapping)
{
    static const char folder[] = "/heapx-", digits[] = "0123456789";
    const char *path = mapping->path ? mapping->path : "", *name = strrchr(path, '/');
    if (!name)
        return false;
    const size_t random = 6;
    if ((size_t)(name - path) < sizeof folder - 1 + random ||
        strncmp(name - random - (sizeof folder - 1), folder, sizeof folder - 1) != 0)
        return false;
    size_t pid = strspn(name + 1, digits);
    size_t number = name[1 + pid] == '.' ? strspn(name + 2 + pid, digits) : 0;
    const char *rest = name + 2 + pid + number;
    return pid && number && (!*rest || strcmp(rest, " (deleted)") == 0);
}

/* What is the library's in the program: the region, its private memory, which ends where the region
 * begins, and what is mapped of its file. next: the mapping behind it, or NULL. */
static inline bool hx_is_recorders(const struct hx_mapping *mapping, const struct hx_mapping *next)
{
    const char *name = mapping->path ? strrchr(mapping->path, '/') : NULL;
    if (hx_is_recorder_region(mapping) || (name && strcmp(name + 1, HX_RECORD_LIBRARY) == 0))
        return true;
    return !mapping->inode && next && mapping->end == next->start && hx_is_recorder_region(next);
}

#endif
