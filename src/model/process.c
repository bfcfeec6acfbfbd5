/* process.c - mappings and threads. */
#include "model/process.h"

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
    size_t low = 0, high = n;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (mapping[middle].end > addr)
            high = middle;
        else
            low = middle + 1;
    }
    return low < n && mapping[low].start <= addr ? low : n;
}
