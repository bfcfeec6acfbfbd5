/* caf_library.cc - what is initialised once in a library, and in a plugin (-DPLUGIN): by its static
 * constructors when it is loaded, and by a static variable of a function when that is called. */
#include <stdlib.h>

#ifdef PLUGIN
#define SIZE(n)    (5000 + (n))
#define OPEN(name) plugin_##name
#else
#define SIZE(n)    (3000 + (n))
#define OPEN(name) library_##name
#endif

void *volatile library_kept[4];

struct Table {
    void *p;
    Table(int slot, int size) : p(malloc((size_t)size))
    {
        library_kept[slot] = p;
    }
};
static Table table(0, SIZE(1));

__attribute__((constructor)) static void OPEN(begin)()
{
    library_kept[1] = malloc(SIZE(2));
}

extern "C" __attribute__((noinline)) void *OPEN(cache)(int n)
{
    static void *cache = malloc(SIZE(3));
    library_kept[2] = n > 1 ? malloc(SIZE(4)) : NULL; /* at each call: no initialisation */
    return cache;
}
