/* pages.c - making pages usable by system calls that tell whether there is room. */
#include "record/preload/pages.h"

#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#define PAGE 4096

/* For the unit tests, too, which have no part of the library but its unwinder. */
static long raw_syscall(long nr, uint64_t a, uint64_t b, uint64_t c, uint64_t d, uint64_t e,
                        uint64_t f)
{
    long ret;
    register uint64_t r10 __asm__("r10") = d;
    register uint64_t r8 __asm__("r8") = e;
    register uint64_t r9 __asm__("r9") = f;
    __asm__ volatile("syscall"
                     : "=a"(ret)
                     : "a"(nr), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
                     : "rcx", "r11", "memory");
    return ret;
}

/* An older kernel cannot be asked for pages. But where it changes a word for us it fails instead of
 * sending a signal; `or` with 0 changes nothing that another thread may have written meanwhile. */
static bool touch_pages(uint64_t at, uint64_t end)
{
    const uint64_t keep = (uint64_t)FUTEX_OP(FUTEX_OP_OR, 0, FUTEX_OP_CMP_EQ, 0);
    for (; at < end; at += PAGE)
        if (raw_syscall(SYS_futex, at, FUTEX_WAKE_OP | FUTEX_PRIVATE_FLAG, 1, 0, at, keep) < 0)
            return false;
    return true;
}

bool hx_pages_fill(void *p, size_t bytes)
{
    const long interrupted = -4, again = -11, invalid = -22;
    uint64_t at = (uint64_t)(uintptr_t)p, end = (at + bytes + PAGE - 1) & ~(uint64_t)(PAGE - 1);
    at &= ~(uint64_t)(PAGE - 1);
    if (raw_syscall(SYS_mprotect, at, end - at, PROT_READ | PROT_WRITE, 0, 0, 0) != 0)
        return false;
    long ret;
    do
        ret = raw_syscall(SYS_madvise, at, end - at, MADV_POPULATE_WRITE, 0, 0, 0);
    while (ret == interrupted || ret == again);
    return ret == invalid ? touch_pages(at, end) : ret == 0;
}

static bool fill_piece(struct hx_pages *pages, uint64_t piece)
{
    uint64_t from = piece << HX_PIECE_BITS, bytes = atomic_load(&pages->bytes);
    if (from >= bytes) /* not any more */
        return false;
    uint64_t left = bytes - from;
    if (!hx_pages_fill(pages->at + from, left < HX_PIECE ? left : HX_PIECE)) {
        atomic_fetch_add(&pages->refused, 1);
        return false;
    }
    atomic_store(&pages->refused, 0);
    atomic_fetch_or_explicit(&pages->ready[piece / 64], 1ULL << piece % 64, memory_order_release);
    return true;
}

static __attribute__((noinline, cold)) bool make_ready(struct hx_pages *pages, uint64_t piece,
                                                       bool barred)
{
    if (barred || !hx_try_again(&pages->refused))
        return false;
    atomic_fetch_add(&pages->filling, 1);
    bool ok = fill_piece(pages, piece);
    atomic_fetch_sub(&pages->filling, 1);
    return ok;
}

bool hx_pages_get(struct hx_pages *pages, uint64_t from, uint64_t bytes, bool barred)
{
    uint64_t all = atomic_load(&pages->bytes);
    if (bytes == 0 || from > all || bytes > all - from)
        return false;
    uint64_t last = (from + bytes - 1) >> HX_PIECE_BITS;
    if (last >= HX_PIECES_MAX)
        return false;
    for (uint64_t piece = from >> HX_PIECE_BITS; piece <= last; piece++)
        if (!hx_pages_ready(pages, piece) && !make_ready(pages, piece, barred))
            return false;
    return true;
}

uint64_t hx_pages_extent(const struct hx_pages *pages)
{
    uint64_t piece = HX_PIECES_MAX;
    while (piece > 0 && !hx_pages_ready(pages, piece - 1))
        piece--;
    uint64_t end = piece << HX_PIECE_BITS;
    return end < pages->bytes ? end : pages->bytes;
}

void hx_pages_shrink(struct hx_pages *pages, uint64_t keep)
{
    uint64_t had = atomic_load(&pages->bytes), extent = hx_pages_extent(pages);
    uint64_t mask = HX_PIECE - 1, to = ((keep > extent ? keep : extent) + mask) & ~mask;
    if (to >= had)
        return;
    atomic_store(&pages->bytes, to);
    /* who was at it when the end moved may have come behind it */
    for (int i = 0; atomic_load(&pages->filling) != 0; i++) {
        if (i == 1000)
            return; /* a thread that the fork left behind: it stays mapped, unused */
        raw_syscall(SYS_sched_yield, 0, 0, 0, 0, 0, 0);
    }
    for (uint64_t piece = to >> HX_PIECE_BITS; piece < had >> HX_PIECE_BITS; piece++)
        if (hx_pages_ready(pages, piece))
            to = (piece + 1) << HX_PIECE_BITS;
    if (to < had)
        raw_syscall(SYS_munmap, (uint64_t)(uintptr_t)pages->at + to, had - to, 0, 0, 0, 0);
    atomic_store(&pages->bytes, to < had ? to : had);
}
