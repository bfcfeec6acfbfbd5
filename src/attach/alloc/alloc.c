/* alloc.c - the list of allocators. */
#include "attach/alloc/alloc.h"

const struct hx_allocator *const hx_allocators[] = {&hx_allocator_mallocng, &hx_allocator_glibc,
                                                    NULL};
