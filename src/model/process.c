/* process.c - mappings and threads. */
#include "model/process.h"

#include "base/lower_bound.h"

#include <string.h>

bool hx_mapping_is_memory(const struct hx_mapping *mapping)
{
    const char *path = mapping->path ? mapping->path : "";
    return mapping->inode && mapping->deleted &&
           (!strcmp(path, "/dev/zero") || !strncmp(path, "/memfd:", 7) ||
            !strncmp(path, "/SYSV", 5));
}

size_t hx_mapping_find(const struct hx_mapping *mapping, size_t n, uint64_t addr)
{
    size_t low = HX_LOWER_BOUND(n, i, mapping[i].end <= addr);
    return low < n && mapping[low].start <= addr ? low : n;
}
