/* vtable.c - is an address that of a C++ vtable? */
#include "attach/types/vtable.h"

#define WORDS_MAX     20
#define FUNCTIONS_MIN 2

bool hx_is_vtable(const struct hx_image *image, hx_modules *modules, uint64_t addr)
{
    size_t module = addr % 8 ? SIZE_MAX : hx_modules_find(modules, addr);
    if (module == SIZE_MAX)
        return false;
    size_t functions = 0;
    for (size_t i = 0; i <= WORDS_MAX; i++) {
        uint64_t word, at = addr + i * 8;
        /* What was relocated was written and is in the image; the rest is as in the file. */
        if (!hx_image_u64(image, at, &word) && !hx_module_read(modules, at, &word, sizeof word))
            return false;
        if (!word)
            continue;
        if (!hx_modules_is_code(modules, word))
            return false;
        if (++functions == FUNCTIONS_MIN)
            return true;
    }
    return false;
}
