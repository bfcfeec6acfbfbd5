/* vec.c - growable arrays and large reservations. */
#include "base/vec.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

bool hx_vec_reserve_raw(void **v, size_t *cap, size_t need, size_t element)
{
    if (need <= *cap)
        return true;
    size_t grown = *cap < 8 ? 8 : *cap + *cap / 2;
    if (grown < need)
        grown = need;
    size_t bytes;
    if (__builtin_mul_overflow(grown, element, &bytes))
        return false;
    void *moved = realloc(*v, bytes);
    if (!moved)
        return false;
    *v = moved;
    *cap = grown;
    return true;
}

static size_t page_size(void)
{
    return (size_t)sysconf(_SC_PAGESIZE);
}

hx_error *hx_big_reserve(struct hx_big *big, size_t bytes)
{
    *big = (struct hx_big){0};
    if (!bytes)
        return NULL;
    void *base = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (base == MAP_FAILED)
        return errno == ENOMEM ? hx_error_nomem() : hx_error_os(errno, "memory", "mmap");
    madvise(base, bytes, MADV_HUGEPAGE); /* only a wish: first touch is slow without */
    *big = (struct hx_big){.base = base, .bytes = bytes};
    return NULL;
}

/* The bytes that the kernel mapped for a reservation. */
static size_t mapped(const struct hx_big *big)
{
    size_t page = page_size();
    return (big->bytes + page - 1) / page * page;
}

void hx_big_discard(struct hx_big *big, size_t from, size_t to)
{
    size_t page = page_size();
    if (to > mapped(big))
        to = mapped(big);
    if (!big->base || from >= to)
        return;
    from = (from + page - 1) / page * page;
    to = to / page * page;
    if (from < to)
        madvise((char *)big->base + from, to - from, MADV_DONTNEED);
}

void hx_big_trim(struct hx_big *big, size_t used)
{
    size_t page = page_size(), all = mapped(big);
    if (!big->base || used >= all)
        return;
    size_t keep = (used + page - 1) / page * page;
    if (keep == 0)
        keep = page; /* the base stays valid */
    if (keep >= all)
        return;
    munmap((char *)big->base + keep, all - keep);
    big->bytes = keep;
}

void hx_big_free(struct hx_big *big)
{
    if (big->base)
        munmap(big->base, big->bytes);
    *big = (struct hx_big){0};
}
