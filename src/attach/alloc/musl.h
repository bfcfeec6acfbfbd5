/* musl.h - what its two allocators share: where in a program musl's data is. */
#ifndef HX_ATTACH_ALLOC_MUSL_H
#define HX_ATTACH_ALLOC_MUSL_H

#include "attach/alloc/alloc.h"

/* Calls `try` for the writable data of each module in which musl's can be, at most 1 MiB of each,
 * until it returns true: then so does this, and *ret_module is where. In a program of glibc
 * nothing is tried. */
bool hx_musl_search(const struct hx_alloc_target *target,
                    bool (*try)(void *context, const struct hx_alloc_target *target, uint64_t start,
                                uint64_t end),
                    void *context, size_t *ret_module);

/* The code of its malloc, as far as exported names tell; else *ret is unchanged. */
void hx_musl_code(hx_modules *modules, size_t module, struct hx_range *ret);

/* Whether a module is musl alone, and not a program that it was linked into. */
bool hx_musl_is_library(hx_modules *modules, size_t module);

/* "1.2.3"; NULL: not known. The caller frees it. */
char *hx_musl_version(const struct hx_alloc_target *target, size_t module);

#endif
