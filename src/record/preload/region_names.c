/* region_names.c - numbers for the regions that a program marked: each is interned once in the
 * shared memory.
 *
 * Lock-free, as the stacks are (unwind_intern.c): an entry is complete before the index refers to
 * it, and the loser of a race leaves an entry that is never found.
 */
#include "record/preload/preload.h"

#include <errno.h>
#include <string.h>
#include <sys/uio.h>

/* A word of the index: bits 3 to 46 of the address, what was unmapped since by 4 bits, 1 + entry.
 */
#define INDEX_WORDS  (2 * HX_REGION_CENTRES)
#define ENTRY_BITS   16
#define ENTRY_MASK   (((uint64_t)1 << ENTRY_BITS) - 1)
#define ADDRESS_BITS 44
#define TRIES        64

/* Bytes of the texts with their ends, as where the kernel reads them (probes_ops.bpf.h). */
#define LABEL_MAX    128
#define FUNCTION_MAX 96
#define FILE_MAX     160

_Static_assert(HX_REGION_CENTRES < 1 << ENTRY_BITS, "the index has no room for so many");
_Static_assert(LABEL_MAX + FUNCTION_MAX + FILE_MAX <= HX_EV_CENTRE_TEXT, "texts have no room");

static bool use_entries(uint64_t from, uint64_t bytes)
{
    return hx_pages_use(&hx_process.centres, from, bytes,
                        atomic_load_explicit(&hx_process.barred, memory_order_relaxed));
}

/* Bytes of the program's own memory, which need not be there: regions made at run time may point
 * anywhere. */
static uint64_t read_own(void *to, const void *from, uint64_t bytes)
{
    const struct iovec here = {to, bytes}, there = {(void *)(uintptr_t)from, bytes};
    bool barred = atomic_load_explicit(&hx_process.barred, memory_order_relaxed);
    long n = -ENOSYS;
    if (!barred)
        n = hx_sys6(SYS_process_vm_readv, HX_SYS(SYS_getpid, 0, 0, 0, 0), (long)&here, 1,
                    (long)&there, 1, 0);
    if (n >= 0 || n == -EFAULT)
        return n > 0 ? (uint64_t)n : 0;
    memcpy(to, from, bytes); /* it cannot be asked, and was always true so far */
    return bytes;
}

/* The same of a text, up to its end. */
static uint64_t copy_region_text(char *to, const char *from, uint64_t max)
{
    uint64_t n = 0;
    for (bool more = true; more && n < max;) { /* not over the end of a page that is the last */
        uint64_t page = 4096 - ((uint64_t)(from + n) & 4095),
                 want = max - n < page ? max - n : page;
        uint64_t got = read_own(to + n, from + n, want), len = strnlen(to + n, got);
        more = got == want && len == got;
        n += len;
    }
    return n;
}

/* As much of a text as there is room for, and its end; behind it zeros. */
static uint32_t add_text(char *to, uint32_t at, uint32_t max, const char *text)
{
    uint64_t n = text ? copy_region_text(to + at, text, max - 1) : 0;
    memset(to + at + n, 0, max - n);
    return at + (uint32_t)n + 1;
}

/* The number of its entry; HX_REGION_CENTRES: there is no room. */
static uint64_t store_region(const struct heapx_centre *centre)
{
    struct hx_region *region = hx_process.region;
    const uint64_t size = sizeof(struct hx_region_centre);
    uint64_t i = atomic_load(&region->centres_used);
    uint64_t from = offsetof(struct hx_region_centres, centre);
    do {
        if (i >= HX_REGION_CENTRES || !use_entries(from + i * size, size))
            return HX_REGION_CENTRES;
    } while (!atomic_compare_exchange_weak(&region->centres_used, &i, i + 1));
    struct hx_region_centre *entry = (void *)(hx_process.centres.at + from + i * size);
    struct heapx_centre said;
    if (read_own(&said, centre, sizeof said) != sizeof said)
        said = (struct heapx_centre){0};
    uint32_t n = add_text(entry->text, 0, LABEL_MAX, said.label);
    n = add_text(entry->text, n, FUNCTION_MAX, said.function);
    n = add_text(entry->text, n, FILE_MAX, said.file);
    entry->address = (uint64_t)centre;
    entry->line = said.line;
    atomic_store_explicit(&entry->n, n, memory_order_release);
    return i;
}

static uint64_t no_room(void)
{
    atomic_fetch_add(&hx_process.region->centres_full, 1);
    return HX_EV_REGION;
}

uint64_t hx_centre_word(const struct heapx_centre *centre)
{
    uint64_t generation = atomic_load(&hx_process.region->generation) & 15;
    uint64_t address = (uint64_t)centre >> 3 & (((uint64_t)1 << ADDRESS_BITS) - 1);
    uint64_t own = address << 20 | generation << ENTRY_BITS, entry = HX_REGION_CENTRES;
    uint64_t at = (address ^ generation << 32) * 0x9e3779b97f4a7c15ULL >> 40;
    for (uint64_t i = 0; i < TRIES; i++) {
        uint64_t word = (at + i) % INDEX_WORDS;
        if (!use_entries(word * 8, 8))
            return no_room();
        _Atomic uint64_t *slot = (_Atomic uint64_t *)(void *)hx_process.centres.at + word;
        uint64_t held = atomic_load_explicit(slot, memory_order_acquire);
        if (held == 0) {
            if (entry == HX_REGION_CENTRES)
                entry = store_region(centre);
            if (entry == HX_REGION_CENTRES)
                return no_room();
            if (atomic_compare_exchange_strong(slot, &held, own | (entry + 1)))
                return HX_EV_REGION | (entry + 1);
        }
        if ((held & ~ENTRY_MASK) == own)
            return HX_EV_REGION | (held & ENTRY_MASK);
    }
    return no_room();
}
