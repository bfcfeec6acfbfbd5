/* preload_safe.c - an allocator that signal handlers may use: it takes from one range and never
 * gives back. For tests of what happens when a handler interrupts the library inside a program.
 */
#include <errno.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>

#define RANGE ((size_t)1 << 36)
static _Atomic(char *) range;
static _Atomic size_t used;

void *malloc(size_t bytes)
{
    if (!range) {
        char *none = NULL;
        char *p = mmap(NULL, RANGE, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        atomic_compare_exchange_strong(&range, &none, p);
    }
    size_t need = (bytes + 15) / 16 * 16 + 16;
    if (bytes > RANGE || used + need > RANGE) {
        errno = ENOMEM;
        return NULL;
    }
    char *p = range + atomic_fetch_add(&used, need) + 16;
    ((size_t *)p)[-1] = bytes;
    return p;
}

void free(void *p)
{
    (void)p;
}

void *calloc(size_t n, size_t size)
{
    return malloc(n * size);
}

size_t malloc_usable_size(void *p)
{
    return p ? ((size_t *)p)[-1] : 0;
}

void *realloc(void *p, size_t bytes)
{
    void *q = malloc(bytes);
    size_t old = malloc_usable_size(p);
    return q ? memcpy(q, p ? p : q, old < bytes ? old : bytes) : NULL;
}
