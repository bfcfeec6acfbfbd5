/* pages.h - shared memory that is made usable piece by piece, each before it is touched first.
 *
 * A page of a full file system (a container's /dev/shm has 64 MB) is a SIGBUS when it is touched;
 * asked for by a system call it is an error. Until then a piece cannot be accessed at all, so that
 * what locks all memory of the program does not fill it either.
 */
#ifndef HX_RECORD_PRELOAD_PAGES_H
#define HX_RECORD_PRELOAD_PAGES_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define HX_PIECE_BITS 16
#define HX_PIECE      ((uint64_t)1 << HX_PIECE_BITS)
#define HX_PIECES_MAX 2048

struct hx_pages {
    uint8_t *at;
    _Atomic uint64_t bytes;
    _Atomic uint32_t refused; /* since the last success */
    _Atomic uint32_t filling; /* threads that are at it */
    _Atomic uint64_t ready[HX_PIECES_MAX / 64];
};

/* Makes them accessible and fills them. False: there is no room. */
bool hx_pages_fill(void *at, size_t bytes);

/* Is a range usable, or can it be made so? barred: no system calls. */
bool hx_pages_get(struct hx_pages *pages, uint64_t from, uint64_t bytes, bool barred);

/* Unmaps what is not used behind the first `keep` bytes. */
void hx_pages_shrink(struct hx_pages *pages, uint64_t keep);

/* The bytes up to the end of the last piece that is ready. */
uint64_t hx_pages_extent(const struct hx_pages *pages);

static inline bool hx_pages_ready(const struct hx_pages *pages, uint64_t piece)
{
    return atomic_load_explicit(&pages->ready[piece / 64], memory_order_acquire) >> piece % 64 & 1;
}

static inline bool hx_pages_use(struct hx_pages *pages, uint64_t from, uint64_t bytes, bool barred)
{
    uint64_t first = from >> HX_PIECE_BITS, last = (from + bytes - 1) >> HX_PIECE_BITS;
    if (__builtin_expect(first == last && last < HX_PIECES_MAX && hx_pages_ready(pages, first), 1))
        return true;
    return hx_pages_get(pages, from, bytes, barred);
}

/* Nobody asks in vain all the time: of so many refusals one leads to another try. */
#define HX_REFUSED_EACH 1024
static inline bool hx_try_again(_Atomic uint32_t *refused)
{
    uint32_t n = atomic_load_explicit(refused, memory_order_relaxed);
    return n == 0 ||
           atomic_fetch_add_explicit(refused, 1, memory_order_relaxed) % HX_REFUSED_EACH ==
               HX_REFUSED_EACH - 1;
}

#endif
