/* code_dwarf.c - functions, inlined calls and lines by debug information. */
#include "sym/code_private.h"

struct hx_code_dwarf *hx_code_dwarf_create(int fd, int debug_fd, int alt_fd)
{
    (void)fd;
    (void)debug_fd;
    (void)alt_fd;
    return NULL;
}

void hx_code_dwarf_destroy(struct hx_code_dwarf *dwarf)
{
    (void)dwarf;
}

size_t hx_code_dwarf_scopes(struct hx_code_dwarf *dwarf, uint64_t vaddr,
                            struct hx_code_scope *scopes, size_t max, const char **ret_source,
                            uint32_t *ret_line)
{
    (void)dwarf;
    (void)vaddr;
    (void)scopes;
    (void)max;
    (void)ret_source;
    (void)ret_line;
    return 0;
}
