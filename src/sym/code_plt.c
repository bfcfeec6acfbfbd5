/* code_plt.c - the stubs of procedure linkage tables and what they go to. */
#include "sym/code_private.h"

void hx_code_each_stub(int fd,
                       void (*each)(void *context, uint64_t vaddr, uint64_t size, const char *name),
                       void *context)
{
    (void)fd;
    (void)each;
    (void)context;
}
