/* python_plugin.c - what tells an interpreter of Python: the symbols that heapx finds one by. */
#include <stdint.h>

struct {
    char cookie[8];
    uint64_t version, free_threaded, more[64];
} _PyRuntime = {"xdebugpy", 0x030d00f0, 0, {0}};
char PyType_Type[512];
uint64_t Py_Version = 0x030d00f0;
