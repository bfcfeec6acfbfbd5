/* module_data.h - the variables of modules at once, for allocators that are known by the shape of
 * theirs, and what guards the code around them.
 */
#ifndef HX_ATTACH_ALLOC_MODULE_DATA_H
#define HX_ATTACH_ALLOC_MODULE_DATA_H

#include "attach/alloc/alloc.h"

#include <string.h>

/* A writable segment [start, start + len) of a module; what could not be read is zero. */
struct hx_module_data {
    const struct hx_alloc_target *target;
    size_t module;
    uint8_t *bytes;
    uint64_t start, len;
};

/* By offset; 0 where there is none. */
static inline uint64_t hx_data_u64(const struct hx_module_data *data, uint64_t offset)
{
    uint64_t word = 0;
    if (offset <= data->len && data->len - offset >= sizeof word)
        memcpy(&word, data->bytes + offset, sizeof word);
    return word;
}
static inline uint32_t hx_data_u32(const struct hx_module_data *data, uint64_t offset)
{
    uint32_t half = 0;
    if (offset <= data->len && data->len - offset >= sizeof half)
        memcpy(&half, data->bytes + offset, sizeof half);
    return half;
}

/* Reads each writable segment of at least so many bytes until examine() finds what it looks for
 * there. *ret: it did. Those of more than 16 MiB only of modules that have `function`. */
hx_error *hx_module_data_search(const struct hx_alloc_target *target, uint64_t min,
                                const char *function,
                                bool (*examine)(void *context, const struct hx_module_data *data),
                                void *context, bool *ret);

/* Adds the code of a module to a guard; of one whose name does not have the library's, where the
 * functions lie that are named: lists of up to 7, one for each place. */
hx_error *hx_guard_module(const struct hx_alloc_target *target, size_t module, const char *library,
                          const char *const (*functions)[8], size_t n, struct hx_guard *ret);

#endif
