/* probes_find.c - which functions of a file are an allocator's.
 *
 * By their names, in every file that the target has mapped: libc, an allocator library under its
 * own or under the usual names, one that is part of the program, several at once. Which of them
 * serve the program is not asked: one that is never called costs nothing.
 */
#include "record/bpf/probes_find.h"

#include "base/cleanup.h"
#include "record/bpf/probes.bpf.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct name {
    const char *name;
    uint32_t kind;
};

/* Each with each prefix. */
static const char *const prefixes[] = {"", "__libc_", "je_", "tc_", "mi_", "rp"};
static const struct name allocator[] = {
    {"malloc", HX_PROBE_MALLOC},
    {"free", HX_PROBE_FREE},
    {"calloc", HX_PROBE_CALLOC},
    {"realloc", HX_PROBE_REALLOC},
    {"memalign", HX_PROBE_ALIGNED},
    {"aligned_alloc", HX_PROBE_ALIGNED},
    {"posix_memalign", HX_PROBE_POSIX},
    {"valloc", HX_PROBE_MALLOC},
    {"pvalloc", HX_PROBE_MALLOC},
    {"reallocarray", HX_PROBE_REALLOCARRAY},
    {"cfree", HX_PROBE_FREE},
    {"free_sized", HX_PROBE_FREE},
    {"free_aligned_sized", HX_PROBE_FREE},
    /* jemalloc's own interface */
    {"mallocx", HX_PROBE_MALLOC},
    {"rallocx", HX_PROBE_REALLOC},
    {"dallocx", HX_PROBE_FREE},
    {"sdallocx", HX_PROBE_FREE},
    /* mimalloc's */
    {"zalloc", HX_PROBE_MALLOC},
    {"malloc_small", HX_PROBE_MALLOC},
    {"zalloc_small", HX_PROBE_MALLOC},
    {"mallocn", HX_PROBE_CALLOC},
    {"malloc_aligned", HX_PROBE_MALLOC},
    {"free_size", HX_PROBE_FREE},
    {"free_size_aligned", HX_PROBE_FREE},
    {"free_aligned", HX_PROBE_FREE},
    {"realloc_aligned", HX_PROBE_REALLOC},
    /* both, and tcmalloc's */
    {"new", HX_PROBE_MALLOC},
    {"new_nothrow", HX_PROBE_MALLOC},
    {"newarray", HX_PROBE_MALLOC},
    {"newarray_nothrow", HX_PROBE_MALLOC},
    {"delete", HX_PROBE_FREE},
    {"delete_nothrow", HX_PROBE_FREE},
    {"delete_sized", HX_PROBE_FREE},
    {"deletearray", HX_PROBE_FREE},
    {"deletearray_nothrow", HX_PROBE_FREE},
    {"deletearray_sized", HX_PROBE_FREE},
};
enum { n_standard = 17 }; /* those that have a meaning without a prefix; see the table */

static const struct name operators[] = {
    {"_Znwm", HX_PROBE_MALLOC},
    {"_Znam", HX_PROBE_MALLOC},
    {"_ZnwmRKSt9nothrow_t", HX_PROBE_MALLOC},
    {"_ZnamRKSt9nothrow_t", HX_PROBE_MALLOC},
    {"_ZnwmSt11align_val_t", HX_PROBE_MALLOC},
    {"_ZnamSt11align_val_t", HX_PROBE_MALLOC},
    {"_ZnwmSt11align_val_tRKSt9nothrow_t", HX_PROBE_MALLOC},
    {"_ZnamSt11align_val_tRKSt9nothrow_t", HX_PROBE_MALLOC},
    {"_ZdlPv", HX_PROBE_FREE},
    {"_ZdaPv", HX_PROBE_FREE},
    {"_ZdlPvm", HX_PROBE_FREE},
    {"_ZdaPvm", HX_PROBE_FREE},
    {"_ZdlPvRKSt9nothrow_t", HX_PROBE_FREE},
    {"_ZdaPvRKSt9nothrow_t", HX_PROBE_FREE},
    {"_ZdlPvSt11align_val_t", HX_PROBE_FREE},
    {"_ZdaPvSt11align_val_t", HX_PROBE_FREE},
    {"_ZdlPvmSt11align_val_t", HX_PROBE_FREE},
    {"_ZdaPvmSt11align_val_t", HX_PROBE_FREE},
    {"_ZdlPvSt11align_val_tRKSt9nothrow_t", HX_PROBE_FREE},
    {"_ZdaPvSt11align_val_tRKSt9nothrow_t", HX_PROBE_FREE},
};

static const struct name maps[] = {
    {"mmap", HX_PROBE_MMAP},
    {"mmap64", HX_PROBE_MMAP},
    {"munmap", HX_PROBE_FREE},
    {"mremap", HX_PROBE_MREMAP},
};

#define COUNT(array) (sizeof(array) / sizeof *(array))

/* Bytes of a function that are looked at. */
enum { most_code = 64 << 10, unknown_size = 4096 };

struct finder {
    hx_code *code;
    uint32_t file;
    int fd;
    size_t first; /* functions of this file begin here */
    struct hx_probe_functions *functions;
};

/* The bytes of a function, as far as they are needed. */
static size_t read_code(const struct finder *f, uint64_t vaddr, uint64_t size, uint8_t *buf,
                        size_t max)
{
    uint64_t offset;
    if (size && size < max)
        max = size;
    if (!hx_code_file_offset(f->code, f->file, vaddr, &offset))
        return 0;
    ssize_t n = pread(f->fd, buf, max, (off_t)offset);
    return n > 0 ? (size_t)n : 0;
}

/* The registers of a function's arguments, and sp. */
static uint32_t arguments(uint32_t kind)
{
    switch (kind) {
    case HX_PROBE_MALLOC:
    case HX_PROBE_FREE:
        return 1u << 7 | 1u << 4;
    case HX_PROBE_CALLOC:
    case HX_PROBE_ALIGNED:
    case HX_PROBE_REALLOC:
    case HX_PROBE_MMAP:
        return 1u << 7 | 1u << 6 | 1u << 4;
    default:
        return HX_PROBE_KEEP_ARGS;
    }
}

/* Where the call or jump at a byte of a function leads. */
static uint64_t leads_to(const uint8_t *bytes, uint64_t vaddr, size_t i)
{
    int32_t rel;
    memcpy(&rel, bytes + i + 1, 4);
    return vaddr + i + 5 + (uint64_t)(int64_t)rel;
}

/* Is it the entry of a function of that name, or what the linker goes there by? */
static bool is_entry_of(struct finder *f, uint64_t to, const char *name)
{
    uint64_t vaddr, size, offset;
    char stub[80];
    if (hx_code_function(f->code, f->file, name, &vaddr, &size) && vaddr == to)
        return true;
    snprintf(stub, sizeof stub, "%s@plt", name);
    const char *symbol = hx_code_symbol(f->code, f->file, to, &offset);
    return symbol && offset == 0 && !strcmp(symbol, stub);
}

/* Does a function call, or jump to, that one? */
static bool calls_function(struct finder *f, const char *function, const char *name)
{
    uint8_t bytes[512];
    uint64_t vaddr, size;
    if (!hx_code_function(f->code, f->file, function, &vaddr, &size))
        return false;
    size_t n = read_code(f, vaddr, size, bytes, sizeof bytes);
    for (size_t i = 0; i + 5 <= n; i++)
        if ((bytes[i] == 0xe8 || bytes[i] == 0xe9) &&
            is_entry_of(f, leads_to(bytes, vaddr, i), name))
            return true;
    return false;
}

/* Is it nothing but a jump to a function that has a probe? Then that one sees it. */
static bool is_alias(struct finder *f, const uint8_t *bytes, size_t n, uint64_t vaddr)
{
    static const uint8_t endbr64[] = {0xf3, 0x0f, 0x1e, 0xfa};
    size_t at = n >= sizeof endbr64 && !memcmp(bytes, endbr64, sizeof endbr64) ? 4 : 0;
    if (n < at + 5 || bytes[at] != 0xe9)
        return false;
    uint64_t to = leads_to(bytes, vaddr, at);
    for (size_t i = f->first; i < f->functions->n; i++)
        if (f->functions->v[i].vaddr == to)
            return true;
    return is_entry_of(f, to, "malloc") || is_entry_of(f, to, "free");
}

static hx_error *add_probed_function(struct finder *f, const char *name, uint32_t kind, bool leaf)
{
    uint64_t vaddr, size, offset;
    if (!hx_code_function(f->code, f->file, name, &vaddr, &size) ||
        !hx_code_file_offset(f->code, f->file, vaddr, &offset))
        return NULL;
    for (size_t i = f->first; i < f->functions->n; i++)
        if (f->functions->v[i].vaddr == vaddr)
            return NULL;
    struct hx_probe_function function = {
        .file = f->file, .name = name, .kind = kind, .vaddr = vaddr, .leaf = leaf};
    /* whole, as far as that is known: any of it may jump back to its begin */
    HX_FREE uint8_t *bytes = malloc(most_code);
    HX_NEED(bytes);
    size_t n = read_code(f, vaddr, size ? size : unknown_size, bytes, most_code);
    if (!n || is_alias(f, bytes, n, vaddr))
        return NULL;
    if (kind == HX_PROBE_REALLOCARRAY && calls_function(f, name, "realloc"))
        return NULL;
    size_t site = hx_probe_site(bytes, n, arguments(kind), &function.stepped);
    if (site && size > n) { /* who knows what jumps from there */
        site = 0;
        function.stepped = true;
    }
    function.offset = offset + site;
    return hx_vec_push(f->functions, function) ? NULL : hx_error_nomem();
}

static bool defines(struct finder *f, const char *prefix, const char *name, uint64_t *ret_vaddr)
{
    char full[64];
    uint64_t size;
    snprintf(full, sizeof full, "%s%s", prefix, name);
    return hx_code_function(f->code, f->file, full, ret_vaddr, &size);
}

/* The functions with one prefix, if they are a whole allocator. */
static hx_error *add_set(struct finder *f, const char *prefix, unsigned *allocators)
{
    uint64_t malloc_vaddr, free_vaddr;
    if (!defines(f, prefix, "malloc", &malloc_vaddr) || !defines(f, prefix, "free", &free_vaddr))
        return NULL;
    size_t n = f->functions->n;
    for (size_t i = 0; i < (*prefix ? COUNT(allocator) : n_standard); i++) {
        char full[64];
        snprintf(full, sizeof full, "%s%s", prefix, allocator[i].name);
        HX_TRY(add_probed_function(f, full, allocator[i].kind, i == 0));
        /* the text is gone then: without its prefix it is a literal */
        if (f->functions->n && f->functions->v[f->functions->n - 1].name == full)
            f->functions->v[f->functions->n - 1].name = allocator[i].name;
    }
    *allocators += f->functions->n > n;
    if (!*prefix && !calls_function(f, "_Znwm", "malloc"))
        for (size_t i = 0; i < COUNT(operators); i++)
            HX_TRY(add_probed_function(f, operators[i].name, operators[i].kind, false));
    return NULL;
}

/* What the dynamic linker calls before and after it changes what is mapped, for debuggers. */
static hx_error *add_linker(struct finder *f)
{
    return add_probed_function(f, "_dl_debug_state", HX_PROBE_MAPS, false);
}

hx_error *hx_probe_find(hx_code *code, uint32_t file, bool mappings, struct hx_probe_functions *ret,
                        unsigned *ret_allocators)
{
    const char *path = hx_code_open_path(code, file);
    HX_FD int fd = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    struct finder f = {.code = code, .file = file, .fd = fd, .first = ret->n, .functions = ret};
    if (fd < 0)
        return NULL;
    for (size_t i = 0; i < COUNT(prefixes); i++)
        HX_TRY(add_set(&f, prefixes[i], ret_allocators));
    uint64_t vaddr;
    if (mappings && defines(&f, "", "mmap", &vaddr) && defines(&f, "", "munmap", &vaddr))
        for (size_t i = 0; i < COUNT(maps); i++)
            HX_TRY(add_probed_function(&f, maps[i].name, maps[i].kind, false));
    return add_linker(&f);
}
