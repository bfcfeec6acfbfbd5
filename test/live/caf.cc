/* caf.cc - a program with code that runs once: static constructors, static variables of functions,
 * pthread_once() and its like, in itself, in a library and in a plugin. Sizes tell which is which.
 *
 *     caf PLUGIN
 *
 * Ends when its standard input does.
 */
#include <dlfcn.h>
#include <mutex>
#include <pthread.h>
#include <stdlib.h>
#include <threads.h>
#include <unistd.h>

extern "C" void *library_cache(int n);

void *volatile kept[32];

struct Table {
    void *p;
    Table(int slot, int size) : p(malloc((size_t)size))
    {
        kept[slot] = p;
    }
};
static Table table(0, 1001); /* ends in a jump: it has no destructor */

struct Named {
    void *p;
    Named(int slot, int size) : p(malloc((size_t)size))
    {
        kept[slot] = p;
    }
    ~Named()
    {
        kept[31] = NULL;
    }
};
static Named named(1, 1002);

__attribute__((constructor)) static void begin()
{
    kept[2] = malloc(1003);
}

__attribute__((noinline)) static void make_both(int slot, int size)
{
    kept[slot] = malloc((size_t)size);
    kept[slot + 1] = malloc((size_t)size + 1);
}

/* Whoever comes first, it is not the cost of its callers; what is around it is. */
static inline void *cache(int n)
{
    kept[3] = malloc(1101);
    static void *cache = malloc(1102);
    kept[4] = malloc(1103);
    return n ? cache : NULL;
}

__attribute__((noinline)) static void *first_caller()
{
    kept[5] = malloc(1104);
    return cache(1);
}

__attribute__((noinline)) static void *second_caller()
{
    kept[6] = malloc(1105);
    return cache(2);
}

/* Inlined into the only one that calls it, which costs what is around the initialisation. */
static void *alone(int n)
{
    static void *cache = malloc(1301);
    kept[18] = malloc(1302);
    return n ? cache : NULL;
}

__attribute__((noinline)) static void *third_caller(int n)
{
    kept[19] = malloc(1303);
    static void *own = alone(n);
    kept[20] = alone(n);
    return own;
}

static void fill()
{
    make_both(7, 1201);
}

static void fill_c()
{
    make_both(9, 1203);
}

static pthread_once_t once = PTHREAD_ONCE_INIT;
static once_flag once_c = ONCE_FLAG_INIT;
static std::once_flag once_cxx;

__attribute__((noinline)) static void run_once()
{
    pthread_once(&once, fill);
    pthread_once(&once, fill);
    call_once(&once_c, fill_c);
    std::call_once(once_cxx, [] { make_both(11, 1205); });
    make_both(13, 1207);
}

int main(int argc, char **argv)
{
    first_caller();
    second_caller();
    third_caller(argc);
    run_once();
    kept[15] = library_cache(2);
    kept[16] = library_cache(1);
    void *plugin = argc > 1 ? dlopen(argv[1], RTLD_NOW) : NULL;
    void *(*cached)(int) = plugin ? (void *(*)(int))dlsym(plugin, "plugin_cache") : NULL;
    if (!cached)
        return 1;
    kept[17] = cached(2);
    if (write(STDOUT_FILENO, "ready\n", 6) != 6)
        return 1;
    char c;
    while (read(STDIN_FILENO, &c, 1) > 0)
        ;
    return 0;
}
