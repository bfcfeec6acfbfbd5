/* alloc.c - the list of allocators. */
#include "attach/alloc/alloc.h"

#include <string.h>

const struct hx_allocator *const hx_allocators[] = {&hx_allocator_pymalloc, &hx_allocator_mallocng,
                                                    &hx_allocator_oldmalloc, &hx_allocator_glibc,
                                                    NULL};

void hx_peek_pages(const struct hx_peek *peek, uint64_t addr, uint8_t *dst, size_t len)
{
    enum { PAGE = 4096 };
    for (size_t done = 0; done < len;) {
        size_t part = PAGE - (addr + done) % PAGE;
        part = part < len - done ? part : len - done;
        if (!hx_peek_read(peek, addr + done, dst + done, part))
            memset(dst + done, 0, part);
        done += part;
    }
}
