/* code_find.c - the debug information that was split off from a file. */
#include "sym/code_private.h"

void hx_code_find_debug(hx_code *code, struct hx_code_file *file, int fd)
{
    (void)code;
    (void)file;
    (void)fd;
}
