/* musl.c - what its two allocators share: where in a program musl's data is. */
#include "attach/alloc/musl.h"

#include <stdio.h>
#include <string.h>

enum { SEARCH_MAX = 1 << 20, STEP = 4096 };

/* A program of glibc has nothing that need be searched. */
static bool has_glibc(const struct hx_alloc_target *target)
{
    uint64_t addr, size;
    for (size_t i = 0; i < hx_modules_count(target->modules); i++)
        if (strcmp(hx_module_name(target->modules, i), "libc.so.6") == 0 ||
            hx_module_symbol(target->modules, i, "gnu_get_libc_version", &addr, &size))
            return true;
    return false;
}

/* The code between its functions, as far as names tell. */
void hx_musl_code(hx_modules *modules, size_t module, struct hx_range *ret)
{
    static const char *const names[] = {"malloc",  "free",          "calloc",
                                        "realloc", "aligned_alloc", "malloc_usable_size"};
    uint64_t addr, size, low = UINT64_MAX, high = 0;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (!hx_module_symbol(modules, module, names[i], &addr, &size))
            continue;
        low = addr < low ? addr : low;
        high = addr + size > high ? addr + size : high;
    }
    if (low < high && high - low < 1 << 20)
        *ret = (struct hx_range){low, high};
}

bool hx_musl_is_library(hx_modules *modules, size_t module)
{
    const char *name = hx_module_name(modules, module);
    return strncmp(name, "ld-musl-", 8) == 0 || strncmp(name, "libc.", 5) == 0;
}

/* "1.2.3", alone between two zeros; only in the library itself: programs have such strings of
 * others. */
char *hx_musl_version(const struct hx_alloc_target *target, size_t module)
{
    char bytes[STEP + 16];
    const char *path = hx_module_path(target->modules, module);
    if (!hx_musl_is_library(target->modules, module))
        return NULL;
    for (size_t i = 0; i < target->n_mappings; i++) {
        const struct hx_mapping *mapping = &target->mapping[i];
        if (mapping->prot != HX_PROT_R || strcmp(mapping->path, path) != 0)
            continue;
        uint64_t end =
            mapping->end - mapping->start > SEARCH_MAX ? mapping->start + SEARCH_MAX : mapping->end;
        for (uint64_t at = mapping->start; at < end; at += STEP) {
            size_t n = end - at < sizeof bytes ? end - at : sizeof bytes;
            if (!hx_peek_read(target->peek, at, bytes, n))
                continue;
            for (size_t k = 0; k + 8 < n; k++) {
                unsigned minor, patch;
                int length = 0;
                if (bytes[k] == 0 && bytes[k + 1] == '1' && bytes[k + 2] == '.' &&
                    memchr(bytes + k + 1, 0, n - k - 1 < 12 ? n - k - 1 : 12) &&
                    sscanf(bytes + k + 1, "1.%2u.%2u%n", &minor, &patch, &length) == 2 && length &&
                    bytes[k + 1 + (size_t)length] == 0)
                    return strdup(bytes + k + 1);
            }
        }
    }
    return NULL;
}

bool hx_musl_search(const struct hx_alloc_target *target,
                    bool (*try)(void *context, const struct hx_alloc_target *target, uint64_t start,
                                uint64_t end),
                    void *context, size_t *ret_module)
{
    enum { RANGES = 16 };
    uint64_t ranges[RANGES][2];
    if (has_glibc(target))
        return false;
    for (size_t i = 0; i < hx_modules_count(target->modules); i++) {
        size_t n = hx_module_data(target->modules, i, ranges, RANGES);
        for (size_t k = 0; k < n; k++) {
            uint64_t start = ranges[k][0], end = ranges[k][1];
            *ret_module = i;
            if (try(context, target, start, end - start > SEARCH_MAX ? start + SEARCH_MAX : end))
                return true;
        }
    }
    return false;
}
