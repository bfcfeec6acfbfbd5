/* real.c - the allocator behind this library: finding it, and living until it is found.
 *
 * The first calls come from the loader, or from the very search for the functions. They are served
 * from a small arena that is never given back; its blocks are recognized by their address.
 */
#include "record/preload/preload.h"

#include <dlfcn.h>
#include <elf.h>
#include <errno.h>
#include <link.h>
#include <string.h>
#include <sys/mman.h>

_Alignas(64) uint8_t hx_arena[HX_ARENA_BYTES];
static _Atomic size_t arena_used;

/* Each block stands behind a word with its size. */
static void *arena_take(size_t align, size_t bytes)
{
    if (align < 16)
        align = 16;
    if (bytes > HX_ARENA_BYTES || align > HX_ARENA_BYTES)
        return NULL;
    size_t need = ((bytes + 15) & ~(size_t)15) + align + 16;
    size_t at = atomic_fetch_add(&arena_used, need);
    if (at > HX_ARENA_BYTES || need > HX_ARENA_BYTES - at)
        return NULL;
    uint64_t p = ((uint64_t)hx_arena + at + 16 + align - 1) & ~(uint64_t)(align - 1);
    ((uint64_t *)p)[-1] = bytes;
    return (void *)p;
}

size_t hx_arena_usable(const void *p)
{
    return p ? (size_t)((const uint64_t *)p)[-1] : 0;
}

/* --- until they are found ------------------------------------------------------------------- */

static void *boot_memalign(size_t align, size_t bytes);

static void *boot_malloc(size_t bytes)
{
    hx_start();
    if (hx_real.malloc != boot_malloc)
        return hx_real.malloc(bytes);
    void *p = arena_take(16, bytes);
    if (!p)
        errno = ENOMEM;
    return p;
}

static void *boot_calloc(size_t n, size_t size)
{
    size_t bytes;
    hx_start();
    if (hx_real.calloc != boot_calloc)
        return hx_real.calloc(n, size);
    if (__builtin_mul_overflow(n, size, &bytes)) {
        errno = ENOMEM;
        return NULL;
    }
    return boot_malloc(bytes); /* the arena is zero, and nothing in it is used twice */
}

static void *boot_realloc(void *p, size_t bytes)
{
    hx_start();
    if (hx_real.realloc != boot_realloc && !hx_in_arena(p))
        return hx_real.realloc(p, bytes);
    void *q = boot_malloc(bytes);
    if (q && p) {
        size_t old = hx_arena_usable(p);
        memcpy(q, p, old < bytes ? old : bytes);
    }
    return q;
}

static void boot_free(void *p)
{
    hx_start();
    if (hx_real.free != boot_free)
        hx_real.free(p);
}

static void *boot_memalign(size_t align, size_t bytes)
{
    hx_start();
    if (hx_real.memalign != boot_memalign)
        return hx_real.memalign(align, bytes);
    void *p = align & (align - 1) ? NULL : arena_take(align, bytes);
    if (!p)
        errno = ENOMEM;
    return p;
}

static void *boot_aligned_alloc(size_t align, size_t bytes)
{
    hx_start();
    return hx_real.aligned_alloc != boot_aligned_alloc ? hx_real.aligned_alloc(align, bytes)
                                                       : boot_memalign(align, bytes);
}

static int boot_posix_memalign(void **ret, size_t align, size_t bytes)
{
    hx_start();
    if (hx_real.posix_memalign != boot_posix_memalign)
        return hx_real.posix_memalign(ret, align, bytes);
    if (align % sizeof(void *) || align & (align - 1) || !align)
        return EINVAL;
    void *p = arena_take(align, bytes);
    if (!p)
        return ENOMEM;
    *ret = p;
    return 0;
}

static void *boot_valloc(size_t bytes)
{
    hx_start();
    return hx_real.valloc != boot_valloc ? hx_real.valloc(bytes) : boot_memalign(4096, bytes);
}

static void *boot_pvalloc(size_t bytes)
{
    hx_start();
    return hx_real.pvalloc != boot_pvalloc ? hx_real.pvalloc(bytes)
                                           : boot_memalign(4096, (bytes + 4095) & ~(size_t)4095);
}

static void *boot_reallocarray(void *p, size_t n, size_t size)
{
    size_t bytes;
    hx_start();
    if (hx_real.reallocarray != boot_reallocarray)
        return hx_real.reallocarray(p, n, size);
    if (__builtin_mul_overflow(n, size, &bytes)) {
        errno = ENOMEM;
        return NULL;
    }
    return hx_real.realloc(p, bytes);
}

static void boot_free_sized(void *p, size_t bytes)
{
    (void)bytes;
    hx_start();
    hx_real.free(p);
}

static void boot_free_aligned_sized(void *p, size_t align, size_t bytes)
{
    (void)align;
    (void)bytes;
    hx_start();
    hx_real.free(p);
}

static void boot_cfree(void *p)
{
    hx_start();
    hx_real.free(p);
}

static size_t boot_usable(void *p)
{
    hx_start();
    return hx_real.malloc_usable_size != boot_usable ? hx_real.malloc_usable_size(p) : 0;
}

struct hx_real hx_real = {
    .malloc = boot_malloc,
    .calloc = boot_calloc,
    .realloc = boot_realloc,
    .free = boot_free,
    .aligned_alloc = boot_aligned_alloc,
    .memalign = boot_memalign,
    .posix_memalign = boot_posix_memalign,
    .valloc = boot_valloc,
    .pvalloc = boot_pvalloc,
    .reallocarray = boot_reallocarray,
    .free_sized = boot_free_sized,
    .free_aligned_sized = boot_free_aligned_sized,
    .cfree = boot_cfree,
    .malloc_usable_size = boot_usable,
};

/* --- finding -------------------------------------------------------------------------------- */

void *hx_real_next(const char *name)
{
    return dlsym(RTLD_NEXT, name);
}

/* Where the allocator's object lies, from its program headers. */
static int note_object(struct dl_phdr_info *info, size_t size, void *context)
{
    struct hx_real *real = context;
    uint64_t start = UINT64_MAX, end = 0, at = (uint64_t)real->malloc;
    (void)size;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *phdr = &info->dlpi_phdr[i];
        if (phdr->p_type != PT_LOAD)
            continue;
        uint64_t from = info->dlpi_addr + phdr->p_vaddr;
        start = from < start ? from : start;
        end = from + phdr->p_memsz > end ? from + phdr->p_memsz : end;
    }
    if (at >= start && at < end) {
        real->start = start;
        real->end = end;
    }
    if (start == _r_debug.r_ldbase) {
        real->loader = start;
        real->loader_bytes = end - start;
    }
    return 0;
}

#define FIND(real, name)                                                                           \
    do {                                                                                           \
        void *found_ = hx_real_next(#name);                                                        \
        if (found_)                                                                                \
            memcpy(&(real)->name, &found_, sizeof found_);                                         \
    } while (0)

void hx_real_find(void)
{
    struct hx_real real = hx_real;
    FIND(&real, malloc);
    FIND(&real, calloc);
    FIND(&real, realloc);
    FIND(&real, free);
    FIND(&real, aligned_alloc);
    FIND(&real, memalign);
    FIND(&real, posix_memalign);
    FIND(&real, valloc);
    FIND(&real, pvalloc);
    FIND(&real, reallocarray);
    FIND(&real, free_sized);
    FIND(&real, free_aligned_sized);
    FIND(&real, cfree);
    FIND(&real, malloc_usable_size);
    dl_iterate_phdr(note_object, &real);
    uint64_t in_libc = (uint64_t)hx_real_next("gnu_get_libc_version");
    real.libc = in_libc >= real.start && in_libc < real.end;
    hx_real = real;
}

/* --- hiding --------------------------------------------------------------------------------- */

/* The dynamic symbols of this library: their number is told by the hash table alone. */
static size_t count_symbols(const uint32_t *hash)
{
    uint32_t n_buckets = hash[0], first = hash[1], bloom = hash[2], last = 0;
    const uint32_t *bucket = hash + 4 + (size_t)bloom * 2;
    const uint32_t *chain = bucket + n_buckets;
    for (uint32_t i = 0; i < n_buckets; i++)
        last = bucket[i] > last ? bucket[i] : last;
    if (last < first)
        return 0;
    while (!(chain[last - first] & 1))
        last++;
    return last + 1;
}

void hx_real_hide(bool (*wanted)(const char *name))
{
    Dl_info info;
    struct link_map *map;
    ElfW(Sym) *symbol = NULL;
    const char *strings = NULL;
    const uint32_t *hash = NULL;
    if (!dladdr1(hx_arena, &info, (void **)&map, RTLD_DL_LINKMAP))
        return;
    for (const ElfW(Dyn) *dyn = map->l_ld; dyn->d_tag != DT_NULL; dyn++) {
        if (dyn->d_tag == DT_SYMTAB)
            memcpy(&symbol, &dyn->d_un.d_ptr, sizeof symbol);
        else if (dyn->d_tag == DT_STRTAB)
            memcpy(&strings, &dyn->d_un.d_ptr, sizeof strings);
        else if (dyn->d_tag == DT_GNU_HASH)
            memcpy(&hash, &dyn->d_un.d_ptr, sizeof hash);
    }
    if (!symbol || !strings || !hash)
        return;
    size_t n = count_symbols(hash);
    uint64_t from = (uint64_t)symbol & ~4095ULL, to = ((uint64_t)(symbol + n) + 4095) & ~4095ULL;
    if (HX_SYS(SYS_mprotect, from, to - from, PROT_READ | PROT_WRITE, 0) != 0)
        return;
    for (size_t i = 0; i < n; i++)
        if (symbol[i].st_shndx != SHN_UNDEF && !wanted(strings + symbol[i].st_name)) {
            symbol[i].st_value = 0;
            symbol[i].st_shndx = SHN_UNDEF;
        }
    HX_SYS(SYS_mprotect, from, to - from, PROT_READ, 0);
}
