/* interpreter.c - the CPython interpreter in a target, if there is one, and its version. */
#include "attach/python/interpreter.h"

#include <stdio.h>
#include <string.h>

#define DEBUG_OFFSETS_SINCE HX_PYTHON(3, 13)

/* What _Py_DebugOffsets begins with. */
struct debug_offsets {
    char cookie[8];
    uint64_t version, free_threaded;
};

static const char *refuse(const struct hx_python *python, const struct hx_peek *peek)
{
    struct debug_offsets offsets;
    if (!python->hex)
        return "it is older than 3.11, whose layout is not known";
    if (python->version < HX_PYTHON_FIRST || python->version > HX_PYTHON_LAST)
        return "the layout of this version is not known";
    if (python->version < DEBUG_OFFSETS_SINCE)
        return NULL;
    if (!hx_peek_read(peek, python->runtime, &offsets, sizeof offsets) ||
        memcmp(offsets.cookie, "xdebugpy", sizeof offsets.cookie) != 0 ||
        offsets.version != python->hex)
        return "its table of offsets for debuggers says otherwise than its version";
    if (offsets.free_threaded)
        return "it is a free-threaded build, whose heap is a mimalloc of its own";
    return NULL;
}

static bool find_in(hx_modules *modules, size_t module, const struct hx_peek *peek,
                    struct hx_python *ret)
{
    uint64_t version, word, size;
    if (!hx_module_symbol(modules, module, "_PyRuntime", &ret->runtime, &size) ||
        !hx_module_symbol(modules, module, "PyType_Type", &ret->type_type, &size))
        return false;
    ret->module = module;
    if (hx_module_symbol(modules, module, "Py_Version", &version, &size) &&
        hx_peek_u64(peek, version, &word) && word >> 32 == 0)
        ret->hex = (uint32_t)word;
    ret->version = ret->hex >> 16;
    ret->refusal = refuse(ret, peek);
    return true;
}

bool hx_python_find(hx_modules *modules, const struct hx_peek *peek, struct hx_python *ret)
{
    for (size_t i = 0; i < hx_modules_count(modules); i++) {
        *ret = (struct hx_python){0};
        if (strstr(hx_module_name(modules, i), "python") && find_in(modules, i, peek, ret))
            return true;
    }
    return false;
}

char *hx_python_version(const struct hx_python *python)
{
    char *text;
    int n = -1;
    if (python->hex)
        n = asprintf(&text, "%u.%u.%u", python->hex >> 24, python->hex >> 16 & 0xff,
                     python->hex >> 8 & 0xff);
    return n < 0 ? NULL : text;
}
