/* stacks_plugin.cc - a library that stacks.cc loads: lazily bound calls, a resolver that
 * allocates, large thread-local storage, exceptions that cross a library's border. */
#include "stacks.h"

/* Interposable, so that calls inside the library go through its linkage table too. */
extern "C" __attribute__((visibility("default"))) NOINLINE void plugin_exported(int n)
{
    stacks_keep(malloc(MARK(n)));
    NO_TAILCALL;
}

extern "C" void plugin_lazy(int n)
{
    plugin_exported(n);
    NO_TAILCALL;
}

static void resolved()
{
    NO_TAILCALL;
}

static void (*choose())()
{
    /* What a resolver may call this early depends on the linker; this symbol is bound already. */
    stacks_keep(malloc(MARK(40)));
    return resolved;
}

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wattributes"
extern "C" void plugin_chosen() __attribute__((ifunc("_ZL6choosev")));
#pragma GCC diagnostic pop

extern "C" void plugin_resolve(void)
{
    plugin_chosen();
    NO_TAILCALL;
}

extern "C" void plugin_callback(void (*call)(int), int n)
{
    char room[64];
    __asm__ volatile("" : : "r"(room) : "memory");
    call(n);
    NO_TAILCALL;
}

static thread_local char large[MARK(41)];

extern "C" void *plugin_tls(void)
{
    large[1] = 1;
    NO_TAILCALL;
    return large;
}

/* With the 128 bytes that the C++ library puts before it. */
template <int N> struct Thrown {
    char bytes[MARK(N) - 128];
};

extern "C" void plugin_throw(int n)
{
    if (n == 42)
        throw Thrown<42>();
    throw Thrown<43>();
}
